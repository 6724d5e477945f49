"""The logs of `__consumer_offsets` on the disks: which copies are read, and the state of the groups that they give."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.pool import run_all
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.format.names import LOG_KINDS
from kafkalog_core.kafka.sim.cluster import partition_count, read_cluster
from kafkalog_core.kafka.sim.copies import best_of
from kafkalog_core.kafka.sim.group_states import group_history, joined, parts_of, read_part, replayed
from kafkalog_core.kafka.sim.logfiles import unit_of_file, unit_of_partition
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of, first_of, moment
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC, place_of_key
from kafkalog_core.topics.group_states import GroupStates, group_bytes, group_of_key, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.copies import CopiesOnDisk, LogCopy
    from kafkalog_core.kafka.sim.group_states import GroupLogPart, GroupLogRecord, GroupRecords
    from kafkalog_core.ops.groups.logs import TopicsOfDisks
    from kafkalog_core.ops.groups.request import GroupsRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.group_states import DescribedMember

__all__ = ["Choice", "GroupLog", "ReadGroups", "group_logs", "read_groups", "read_history_of"]

_SHOWN_PROBLEMS: Final = 20
_PAIR: Final = 2


class GroupLog(Struct, frozen=True, kw_only=True):
    """A partition of the topic to read.

    Args:
        path: of its directory, or of a single file.
        parts: of its log files.
        cleaned_to: the offset that the cleaner has reached; None: unknown.
    """

    path: str
    parts: tuple[GroupLogPart, ...]
    cleaned_to: int | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of log."""
        return sum(part.size_bytes for part in self.parts)


class ReadGroups(Struct):
    """What was read.

    Attributes:
        states: of the groups.
        owners: who had a partition when its offset was committed, by group and place, of groups that were named;
            None: nobody had it. Offsets without an entry: that is unknown.
        lost: places whose offset at the moment compaction has removed, by group.
        notes: sentences about what was read.
        gaps: those of them about what is not known any more of the moment that is asked for.
        findings: about the logs.
        then_ms: the time that is asked for, of an offset that of the last record up to it; None: the end of the logs,
            or there is no such record.
        later_logs: the time of the first record of each log that begins after the moment, by its path.
        known_from_ms: of the first record, if all logs with records begin after the moment; None: they do not.
    """

    states: GroupStates = field(default_factory=GroupStates)
    owners: dict[tuple[str, TopicPartition], DescribedMember | None] = field(default_factory=dict)
    lost: dict[str, set[TopicPartition]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    then_ms: int | None = None
    later_logs: dict[str, int] = field(default_factory=dict)
    known_from_ms: int | None = None


class Choice(Struct):
    """Which copies of the partitions of a topic are read.

    Attributes:
        notes: a sentence for each partition with several copies.
        findings: about copies that cannot be read.
        errors: why they cannot.
    """

    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    errors: list[StorageError] = field(default_factory=list)

    def best(self, disks: CopiesOnDisk, topic: str, number: int, release: Release) -> LogCopy | None:
        """Return the copy of a partition with which a cluster would go on; None: none can be read."""
        places = disks.places[topic, number]
        best, copies, errors = best_of(places, release)
        self.errors += errors
        for each in errors:
            path = each.path or places[0].place.path
            self.findings.append(found(code_of_error(each), path, reason=each.message, topic=topic, partition=number))
        if best is not None and len(copies) >= _PAIR:
            others = "; ".join(
                f"{copy.path} has leader epoch {copy.leader_epoch} and ends at {copy.log_end_offset}"
                for copy in copies
                if copy is not best
            )
            self.notes.append(
                f"{topic}-{number} has {len(copies)} copies; a cluster would go on with {best.path}, which has "
                f"leader epoch {best.leader_epoch} and ends at offset {best.log_end_offset}: {others}"
            )
        return best


def group_logs(
    disks: CopiesOnDisk, release: Release, max_batch_bytes: int
) -> tuple[list[GroupLog], list[str], list[Finding]]:
    """Return the logs to read, one copy of each partition, with sentences about the choice, and findings.

    Raises SelectionError if no log of the topic is among what was named, StorageError if none can be read.
    """
    options = ScanOptions(max_batch_bytes=max_batch_bytes, resync=True)
    logs, choice = [], Choice()
    notes, findings = choice.notes, choice.findings
    numbers = sorted(number for topic, number in disks.places if topic == OFFSETS_TOPIC)
    for number in numbers:
        best = choice.best(disks, OFFSETS_TOPIC, number, release)
        if best is None:
            continue
        unit = unit_of_partition(best.partition, best.place.log_dir)
        parts = tuple(parts_of(unit.files, options))
        logs.append(GroupLog(path=best.path, parts=parts, cleaned_to=best.place.cleaned_to))
    for target in disks.files:
        if target.topic != OFFSETS_TOPIC or target.kind not in LOG_KINDS:
            raise SelectionError(f"not a log of {OFFSETS_TOPIC}: name log directories", path=target.path)
        logs.append(GroupLog(path=target.path, parts=tuple(parts_of(unit_of_file(target).files, options))))
        notes.append(f"{target.path} was read alone: earlier and later segments may say otherwise")
    if not logs and choice.errors:
        raise choice.errors[0]
    if not logs:
        raise SelectionError(
            f"no partition of {OFFSETS_TOPIC} is among what was named, so no group is known; name the log directories "
            "of all brokers: each has some of its partitions"
        )
    count = partition_count(read_cluster(disks.brokers), OFFSETS_TOPIC) or max(numbers, default=-1) + 1
    missing = sorted(set(range(count)) - set(numbers))
    if missing and not disks.files:
        names = first_of([f"{OFFSETS_TOPIC}-{number}" for number in missing])
        notes.append(f"what was named has no copy of {names}, so the groups there are missing")
    return logs, notes, findings


def read_groups(
    request: GroupsRequest,
    disks: CopiesOnDisk,
    names: TopicsOfDisks,
    release: Release,
    report: Report,
    progress: Progress,
    workers: Workers | None = None,
) -> ReadGroups:
    """Read the logs, by workers if they are given, and replay them.

    Raises SelectionError, StorageError and WorkerLostError.
    """
    logs, notes, findings = group_logs(disks, release, request.max_batch_bytes)
    _check_moment(request, logs)
    result = ReadGroups(notes=notes, findings=findings, then_ms=request.until_ms)
    size_bytes = sum(log.size_bytes for log in logs)
    progress.expect(size_bytes)
    report.expect(partitions=len(logs), files=sum(len(log.parts) for log in logs), size_bytes=size_bytes)
    groups = tuple(group_bytes(name) for name in request.groups) or None
    pieces = [(part, request.moment, groups, request.max_batch_bytes) for log in logs for part in log.parts]
    if workers is None:
        results = run_all(read_part, pieces, request.jobs, size_bytes, progress)
    else:
        results = workers.map(read_part, pieces)
    has_earlier = False
    for log in logs:
        records = joined(islice(results, len(log.parts)))
        _count(records, log, report)
        result.findings += _unread(log.path, records)
        # One log has the offset that is asked for: if several are read, it is the one that has the group.
        is_own = len(logs) == 1 or records.newest.count or any(each.is_commit is None for each in records.ordered)
        if request.moment.end_offset != MAX_INT64 and is_own and records.last_ms >= 0:
            result.then_ms = max(result.then_ms or 0, records.last_ms)
        watch = _Owners(result, names) if groups else None
        states = replayed(records, None if watch is None else watch.see)
        has_earlier = _note_lost(result, request, log, records) or has_earlier
        result.states.absorb(states)
    _note_begin(result, has_earlier=has_earlier)
    result.notes += result.gaps
    for what, count in result.states.undecoded().items():
        result.findings.append(found("groups.undecoded", logs[0].path, records=count_of(count, "record"), problem=what))
    return result


def _check_moment(request: GroupsRequest, logs: list[GroupLog]) -> None:
    """Raise SelectionError for an offset where several logs have one."""
    if request.moment.end_offset != MAX_INT64 and len(logs) > 1 and len(request.groups) != 1:
        raise SelectionError(
            f"--at takes an offset of one partition, and {len(logs)} partitions of {OFFSETS_TOPIC} are read: name the "
            "group with --group, name one partition, or give a time"
        )


def _count(records: GroupRecords, log: GroupLog, report: Report) -> None:
    report.partitions += 1
    report.files += len(log.parts)
    report.bytes += records.size_bytes
    report.batches += records.batches
    report.records += records.records


def _unread(path: str, records: GroupRecords) -> list[Finding]:
    problems = dict.fromkeys(records.problems)
    findings = [
        found("groups.unread", path, topic=OFFSETS_TOPIC, problem=each) for each in islice(problems, _SHOWN_PROBLEMS)
    ]
    if len(problems) > _SHOWN_PROBLEMS:
        more = count_of(len(problems) - _SHOWN_PROBLEMS, "more place")
        findings.append(found("groups.unread", path, topic=OFFSETS_TOPIC, problem=f"{more} like these"))
    return findings


def _note_begin(result: ReadGroups, *, has_earlier: bool) -> None:
    """Note the logs that begin after the moment."""
    if not result.later_logs:
        return
    paths, first_ms = [*result.later_logs], min(result.later_logs.values())
    if len(paths) == 1:
        text = f"{paths[0]} begins at {moment(first_ms)}"
    else:
        text = (
            f"{count_of(len(paths), 'log')} begin after that moment, the first at {moment(first_ms)}: {first_of(paths)}"
        )
    result.gaps.append(f"{text}; nothing is known of the time before")
    if not has_earlier:
        result.known_from_ms = first_ms


def _note_lost(result: ReadGroups, request: GroupsRequest, log: GroupLog, records: GroupRecords) -> bool:
    """Note what a moment asks for that the log does not hold any more; return whether it begins before the moment."""
    if request.moment.is_open:
        return True
    is_later = request.until_ms is not None and records.first_ms is not None and records.first_ms > request.until_ms
    if is_later and records.first_ms is not None:
        result.later_logs[log.path] = records.first_ms
    known = {each.key for each in records.ordered} | records.newest.keys()
    lost: list[str] = []
    for key, offset in records.later.items():
        place = place_of_key(key)
        if place is None or offset >= (log.cleaned_to or 0) or key in known:
            continue
        result.lost.setdefault(group_of_key(key) or "", set()).add(place)
        lost.append(f"{place[0]}-{place[1]}")
    if lost:
        result.gaps.append(
            f"the cleaner has compacted {log.path} up to offset {log.cleaned_to}, after that moment: "
            f"{count_of(len(lost), 'offset')} of then cannot be known, because only later commits are left"
        )
    return records.first_ms is not None and not is_later


class _Owners:
    """Notes who had a partition when its offset was committed: a commit names no member."""

    def __init__(self, result: ReadGroups, names: TopicsOfDisks) -> None:
        self._result = result
        self._names = names
        self._members: dict[str, tuple[DescribedMember, ...]] = {}

    def see(self, record: GroupLogRecord, states: GroupStates) -> None:
        """Take a record, and the state after it."""
        key = record.key
        if record.is_commit is not None or not key:
            return
        group, place = group_of_key(key) or "", place_of_key(key)
        if place is None:
            self._members.pop(group, None)
        elif record.value is not None:
            if group not in self._members:
                self._members[group] = states.describe(group, self._names.name).members
            self._result.owners[group, place] = owner_of(self._members[group], *place)


def read_history_of(
    request: GroupsRequest, logs: list[GroupLog], progress: Progress
) -> Iterator[tuple[GroupLog, GroupRecords]]:
    """Yield the records of the named groups and all markers in the order of each log, some at a time."""
    progress.expect(sum(log.size_bytes for log in logs))
    groups = tuple(group_bytes(name) for name in request.groups)
    read = partial(group_history, groups=groups, max_batch_bytes=request.max_batch_bytes, advance=progress.advance)
    for log in logs:
        for item in read(log.parts, request.moment):
            yield log, item
