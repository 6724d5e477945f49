"""`kafkalog groups`: the members and offsets of each group, and how far they are from the ends of the logs."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.command_lines import shell_word
from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.engine.report import Report
from kafkalog_core.errors import SelectionError
from kafkalog_core.findings import found
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.kafka.rules.offset_expiry import expiry_ms
from kafkalog_core.kafka.rules.partitioners import partition_of_name
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.sim.cluster import partition_count, read_cluster
from kafkalog_core.kafka.sim.copies import check_one_cluster, copies_on_disk
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.kafka.sim.named_dirs import other_dirs
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.ops.groups import request as states
from kafkalog_core.ops.groups.logs import LogsOfGroups, TopicsOfDisks, state_in_log
from kafkalog_core.ops.groups.old_groups import OldGroups, read_old_groups
from kafkalog_core.ops.groups.reading import read_groups
from kafkalog_core.ops.groups.request import GroupBasis, GroupResult, rows_of
from kafkalog_core.ops.groups.shares import batch_rows, read_shares
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import duration, first_of, moment, names_near
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.copies import CopiesOnDisk
    from kafkalog_core.ops.groups.logs import PartitionEnds
    from kafkalog_core.ops.groups.reading import ReadGroups
    from kafkalog_core.ops.groups.request import GroupsRequest, Row
    from kafkalog_core.ops.groups.shares import SharePositions
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.group_offsets import CommittedOffset
    from kafkalog_core.topics.group_states import DescribedGroup

__all__ = ["Clock", "absent_groups", "clock_of", "disks_of_groups", "groups", "offset_expiries", "unknown_groups"]

_MINUTE_MS: Final = 60_000
_RETENTION: Final = "offsets.retention.minutes"


class Clock(Struct, frozen=True, kw_only=True):
    """When offsets expire.

    Args:
        release: of the coordinator.
        retention_ms: offsets.retention.minutes.
        now_ms: the time that is used as now.
        basis: where release and settings come from, as a clause.
    """

    release: Release
    retention_ms: int
    now_ms: int
    basis: str

    @property
    def note(self) -> str:
        """A sentence about what expires when."""
        return f"{self.basis}; now is {moment(self.now_ms)}"


def clock_of(request: GroupsRequest, disks: CopiesOnDisk) -> Clock:
    """Return the release and the settings of the coordinator, of the first log directory. Raises SettingError."""
    named = next((target.named_dirs for target in request.targets), NamedDirs())
    log_dir = next(iter(disks.brokers), None)
    place = next(iter(disks.places.values()), None)
    path = log_dir or (None if place is None else place[0].place.path)
    release, evidence = LATEST, f"Kafka {LATEST}, as nothing shows the release"
    if path is not None:
        beside = () if request.kafka.kafka is not None else other_dirs(log_dir, named, {})
        guess = infer_release(path, kafka=request.kafka.kafka, beside=beside)
        release, evidence = guess.release, guess.describe()
    setting = read_settings(request.kafka, release, log_dir, named).broker(_RETENTION)
    minutes = cast("int", setting.value)
    assumed = "" if setting.gap is None else f", assumed: {setting.gap.why}"
    basis = (
        f"offsets expire by the rules of {evidence}; {_RETENTION} is {minutes} "
        f"({duration(minutes * _MINUTE_MS)}, {setting.origin}{assumed})"
    )
    return Clock(release=release, retention_ms=minutes * _MINUTE_MS, now_ms=request.now_ms, basis=basis)


def disks_of_groups(request: GroupsRequest) -> CopiesOnDisk:
    """Return what the targets name. Raises StorageError, and RefusedError for the disks of two clusters."""
    disks = copies_on_disk(request.targets)
    check_one_cluster(disks.brokers, "kafkalog groups", "whose groups must not be mixed")
    return disks


def groups(
    request: GroupsRequest, report: Report, progress: Progress = NO_PROGRESS, *, workers: Workers | None = None
) -> Generator[GroupBasis | GroupResult, None, None]:
    """Yield each group by its name, then what the answer depends on.

    Args:
        request: what to look for.
        report: counts what was read and every row.
        progress: shows the bytes that are read, except by `workers`.
        workers: they read the logs of `__consumer_offsets`; None: this process does, and as many others as the request
            has jobs.

    Raises SelectionError, also for a group that is not there, StorageError, SettingError and WorkerLostError.
    """
    old = read_old_groups(request, progress)
    disks = disks_of_groups(request)
    if request.zookeeper_dirs and not any(topic == OFFSETS_TOPIC for topic, _ in disks.places):
        yield from _old_groups_alone(request, old, disks, report)
        return
    clock, names = clock_of(request, disks), TopicsOfDisks(disks)
    read = read_groups(request, disks, names, clock.release, report, progress, workers)
    known = read.states.names()
    here = {*known, *read.states.deleted}
    unknown = [name for name in request.groups if name not in here and name not in old.names]
    if unknown:
        raise unknown_groups(request, unknown, disks, names, clock.release, read.known_from_ms, workers=workers)
    chosen = [name for name in request.groups if name in here] if request.groups else known
    if read.then_ms is not None:
        clock = replace(clock, now_ms=read.then_ms)
    shares = read_shares(chosen, read.states, disks, names, clock.release, read.then_ms, request.max_batch_bytes)
    read.notes += shares.notes
    read.findings += shares.findings
    with LogsOfGroups(disks, clock.release, read.then_ms) as logs:
        table = _Table(request, read, clock, names, logs, shares)
        if request.topics and not any(map(table.has_places, chosen)) and not any(map(old.has_places, old.chosen)):
            raise _no_topic(request)
        results = chain((table.result(name) for name in chosen), old.results(logs))
        kinds = set()
        # What cannot be read is known once the last group is.
        for result in results:
            kinds.add(result.group["group_type"])
            report.rows += sum(chunk.count for chunk in rows_of(result))
            yield result
        for error in logs.unread:
            read.findings.append(found(code_of_error(error), error.path or "", reason=error.message))
    expiry = [] if kinds == {"share"} else [clock.note]  # a share group commits no offset that expires
    notes = [*_asked(request, read), *read.notes, *expiry, *old.notes]
    findings = (*read.findings, *old.findings)
    yield _counted(GroupBasis(notes=tuple(notes), findings=findings, known_from_ms=read.known_from_ms), report)


def _old_groups_alone(
    request: GroupsRequest, old: OldGroups, disks: CopiesOnDisk, report: Report
) -> Iterator[GroupBasis | GroupResult]:
    """Yield the groups that ZooKeeper has, where no `__consumer_offsets` was named: brokers before 0.8.2 had none."""
    unknown = [name for name in request.groups if name not in old.names]
    if unknown:
        text = absent_groups("ZooKeeper has no group {}", unknown, old.names, disks)
        raise SelectionError(text)
    if request.topics and not any(map(old.has_places, old.chosen)):
        raise _no_topic(request)
    if request.targets:
        release, notes = clock_of(request, disks).release, old.notes
    else:
        release, notes = LATEST, ("the lag is unknown: name the log directories of the brokers too", *old.notes)
    with LogsOfGroups(disks, release, request.until_ms) as logs:
        for result in old.results(logs):
            report.rows += sum(chunk.count for chunk in rows_of(result))
            yield result
        unread = [found(code_of_error(error), error.path or "", reason=error.message) for error in logs.unread]
    yield _counted(GroupBasis(notes=notes, findings=(*unread, *old.findings)), report)


def _no_topic(request: GroupsRequest) -> SelectionError:
    return SelectionError(f"no group has an offset of a topic that matches {' or '.join(request.topics)}")


def _counted(basis: GroupBasis, report: Report) -> GroupBasis:
    for finding in basis.findings:
        report.add_finding(finding.row())
    report.rows += len(basis.findings)
    return basis


def offset_expiries(request: GroupsRequest) -> tuple[Clock, Callable[[str, str, CommittedOffset], int | None]]:
    """Return the clock of the coordinator, and when it deletes an offset of a group in a topic, by `expiry_ms`.

    Raises SelectionError, StorageError and SettingError.
    """
    disks = disks_of_groups(request)
    clock, names = clock_of(request, disks), TopicsOfDisks(disks)
    states_read = read_groups(request, disks, names, clock.release, Report(), NO_PROGRESS).states
    described: dict[str, DescribedGroup] = {}

    def expires(name: str, topic: str, committed: CommittedOffset) -> int | None:
        if name not in described:
            described[name] = states_read.describe(name, names.name)
        group = described[name]
        return expiry_ms(group, topic, committed, retention_ms=clock.retention_ms, release=clock.release)

    return clock, expires


def _asked(request: GroupsRequest, read: ReadGroups) -> Iterator[str]:
    if read.then_ms is not None:
        offset = "" if request.until_ms is not None else f"offset {request.moment.end_offset - 1} of the log, at "
        yield (
            f"as of {offset}{moment(read.then_ms)}: later records are left out, and each log ends at its first batch "
            "with a later timestamp, by the times that producers set"
        )
    elif not request.moment.is_open:
        yield f"as of offset {request.moment.end_offset - 1} of the log, before which there is no record"


def unknown_groups(
    request: GroupsRequest,
    names: Iterable[str],
    disks: CopiesOnDisk,
    topics: TopicsOfDisks,
    release: Release,
    known_from_ms: int | None = None,
    *,
    workers: Workers | None = None,
) -> SelectionError:
    """Return the error for groups that no record names, with the groups that may be meant: all logs are read again.

    known_from_ms: as in `GroupBasis`.
    """
    names = [*names]
    if known_from_ms is not None:
        first = f"these logs begin at {moment(known_from_ms)}, after that moment"
        return SelectionError(f"{first}: --history {shell_word(names[0])} shows the first records of the group")
    everything = replace(request, groups=())
    read = read_groups(everything, disks, topics, release, Report(), NO_PROGRESS, workers)
    when = "" if request.moment.is_open else " at that moment"
    text = absent_groups(f"no record names the group {{}}{when} in these logs", names, read.states.names(), disks)
    return SelectionError("; ".join([text, *read.gaps]))


def absent_groups(text: str, names: Iterable[str], known: Iterable[str], disks: CopiesOnDisk) -> str:
    """Return the sentence about groups that are not there.

    Args:
        text: with a place for their names.
        names: of these groups.
        known: the groups that are there, which may be meant.
        disks: where they were looked for; a group may be in another partition of `__consumer_offsets`.
    """
    known = list(known)
    count = partition_count(read_cluster(disks.brokers), OFFSETS_TOPIC)
    texts, elsewhere = [], []
    for name in names:
        near = names_near(name, known)
        texts.append(f"{name!r} (is {' or '.join(near)} meant?)" if near else repr(name))
        place = (OFFSETS_TOPIC, partition_of_name(name, count)) if count else None
        if place is not None and place not in disks.places:
            elsewhere.append(f"{place[0]}-{place[1]}, in which {name!r} is, is not among what was named")
    parts = [text.format(", ".join(texts)), *elsewhere]
    if known:
        parts.append(f"there {'is' if len(known) == 1 else 'are'} {first_of(known)}")
    return "; ".join(parts)


class _Table:
    """Makes the rows of groups."""

    def __init__(
        self,
        request: GroupsRequest,
        read: ReadGroups,
        clock: Clock,
        names: TopicsOfDisks,
        logs: LogsOfGroups,
        shares: SharePositions,
    ) -> None:
        self._request = request
        self._read = read
        self._clock = clock
        self._names = names
        self._logs = logs
        self._shares = shares

    def result(self, name: str) -> GroupResult:
        """Return the rows of a group."""
        group = self._read.states.describe(name, self._names.name)
        position = self._share_position if group.type == "share" else self._position
        offsets = [position(group, place) for place in self._places(group)]
        members = tuple(_member_row(group, number) for number in range(len(group.members)))
        shown = self._request.has_positions
        return GroupResult(
            group=self._group_row(group, offsets),
            members=members if shown else (),
            offsets=tuple(offsets) if shown else (),
        )

    def has_places(self, name: str) -> bool:
        """Return whether a group has an offset in one of the topics that are asked for."""
        return bool(self._places(self._read.states.describe(name, self._names.name)))

    def _places(self, group: DescribedGroup) -> list[TopicPartition]:
        """Return the partitions that a group has committed, is about to commit or has members for."""
        offsets = self._read.states.offsets
        places = {*offsets.offsets.get(group.name, ()), *offsets.pending_of(group.name)}
        places |= self._read.lost.get(group.name, set())
        if group.type == "share":  # members may have the same partitions, and commit no offsets
            places |= self._shares.places.get(group.name, {}).keys()
        else:
            assigned = (each.assignment for each in group.members)
            places |= {
                (topic, number) for topics in assigned for topic, numbers in topics.items() for number in numbers
            }
        globs = self._request.topics
        return sorted(
            place for place in places if not globs or any(fnmatchcase(place[0], pattern) for pattern in globs)
        )

    def _group_row(self, group: DescribedGroup, offsets: list[Row]) -> Row:
        lags = [max(0, lag) for row in offsets if isinstance(lag := row["lag"], int)]
        committed = [row for row in offsets if row["offset"] is not None]
        times = [time for row in committed if isinstance(time := row["commit_timestamp_ms"], int)]
        expiries = [time for row in committed if isinstance(time := row["expires_ms"], int)]
        problems = Counter(str(row["state"]) for row in offsets if row["state"] in states.WRONG)
        return {
            "group": group.name,
            "group_type": group.type,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "epoch": group.epoch,
            "members": len(group.members),
            "partitions": len(committed),
            # A sum without some of its terms would be too small.
            "lag": sum(lags) if lags and len(lags) == len(committed) else None,
            "known_lag": sum(lags) if lags else None,
            "last_commit_ms": max(times, default=None),
            "problems": dict(problems),
            "pending": sum(row["pending_offset"] is not None for row in offsets),
            "expired": sum(time <= self._clock.now_ms for time in expiries),
            "expires_ms": min(expiries, default=None),
        }

    def _position(self, group: DescribedGroup, place: TopicPartition) -> Row:
        """Return the row of a partition."""
        found_offsets = self._read.states.offsets
        committed = found_offsets.offsets.get(group.name, {}).get(place)
        pending = next(
            (
                (producer_id, offsets[group.name, place])
                for producer_id, offsets in found_offsets.pending.items()
                if (group.name, place) in offsets
            ),
            None,
        )
        ends = self._logs.ends(*place)
        row: Row = {
            "group": group.name,
            "topic": place[0],
            "partition": place[1],
            "offset": None,
            "lag": None,
            "log_start_offset": None if ends is None else ends.start,
            "log_end_offset": None if ends is None else ends.end,
            "commit_timestamp_ms": None,
            "expires_ms": None,
            "pending_offset": None if pending is None else pending[1].offset,
            "pending_producer_id": None if pending is None else pending[0],
        }
        row["state"], row["detail"] = self._judged(group, place, committed, ends)
        if committed is not None:
            row |= self._commit(group, place, committed, ends, is_pending=pending is not None)
        if pending is not None:
            text = f"offset {pending[1].offset} is in an open transaction of producer {pending[0]}"
            row["detail"] = text if row["detail"] is None else f"{row['detail']}; {text}"
        return row

    def _share_position(self, group: DescribedGroup, place: TopicPartition) -> Row:
        """Return the row of a partition of a share group."""
        stored, ends = self._shares.state(group.name, place), self._logs.ends(*place)
        state = None if stored is None else stored.state
        row: Row = {
            "group": group.name,
            "topic": place[0],
            "partition": place[1],
            "offset": None,
            "lag": None,
            "log_start_offset": None if ends is None else ends.start,
            "log_end_offset": None if ends is None else ends.end,
            "commit_timestamp_ms": None if stored is None else stored.timestamp_ms,
            "expires_ms": None,
            "pending_offset": None,
            "topic_id": uuid_text(self._shares.places[group.name][place]),
        }
        if state is None:
            return row | {"state": states.NOT_COMMITTED, "detail": "these disks have no state of it"}
        row |= {
            "leader_epoch": state.leader_epoch,
            "lag": None if ends is None else state.lag(ends.end),
            "share_batches": batch_rows(state),
        }
        if state.start < 0:
            unless = ", unless what cannot be read shows it" if self._shares.findings else ""
            return row | {"state": states.NOT_COMMITTED, "detail": f"the group has not read it yet{unless}"}
        row["offset"] = state.start
        if self._names.is_deleted(place[0]):
            return row | {"state": states.TOPIC_DELETED, "detail": f"topic {place[0]} was deleted"}
        if ends is None:
            return row | {"state": states.NOT_HERE, "detail": "the log is not on these disks"}
        return row | {"state": "ok", "detail": _outside(state.start, ends)}

    def _commit(
        self,
        group: DescribedGroup,
        place: TopicPartition,
        committed: CommittedOffset,
        ends: PartitionEnds | None,
        *,
        is_pending: bool,
    ) -> Row:
        """Return what is known of a committed offset."""
        clock = self._clock
        expires = expiry_ms(group, place[0], committed, retention_ms=clock.retention_ms, release=clock.release)
        lag = None if ends is None else ends.end - committed.offset
        row: Row = {
            "offset": committed.offset,
            "leader_epoch": None if committed.leader_epoch < 0 else committed.leader_epoch,
            "metadata": committed.metadata,
            "commit_timestamp_ms": None if committed.commit_timestamp_ms < 0 else committed.commit_timestamp_ms,
            "lag": lag,
            # A pending commit may come, so the check leaves the offset alone.
            "expires_ms": None if is_pending else expires,
            "record_offset": committed.record_offset,
        }
        if not self._request.has_positions:
            return row  # nobody sees more of it
        row["topic_id"] = None if committed.topic_id is None else uuid_text(committed.topic_id)
        key = group.name, place
        if key in self._read.owners:
            owner = self._read.owners[key]
            row["member_id"] = None if owner is None else owner.member_id
        if ends is not None and lag is not None and lag > 0:
            time_ms = self._logs.timestamp(ends, committed.offset)
            row["record_timestamp_ms"] = time_ms
            if time_ms is not None and ends.last_ms >= time_ms:
                row["lag_ms"] = ends.last_ms - time_ms
        return row

    def _judged(
        self,
        group: DescribedGroup,
        place: TopicPartition,
        committed: CommittedOffset | None,
        ends: PartitionEnds | None,
    ) -> tuple[str, str | None]:
        """Return the state of a position, and what is wrong in a clause; None: nothing is."""
        topic, _ = place
        if committed is None:
            is_lost = place in self._read.lost.get(group.name, ())
            text = "compaction has removed what was committed by then" if is_lost else "no offset is committed"
            return states.UNKNOWN_THEN if is_lost else states.NOT_COMMITTED, text
        current, stored = self._names.topic_id(topic), committed.topic_id
        state: str = "ok"
        detail: str | None = None
        if stored is not None and current is not None and current != stored:
            state = states.TOPIC_RECREATED
            detail = f"committed of the topic with id {uuid_text(stored)}, and {topic} has id {uuid_text(current)} now"
        elif self._names.is_deleted(topic):
            state, detail = states.TOPIC_DELETED, f"topic {topic} was deleted"
        else:
            state, detail = state_in_log(committed.offset, ends)
        return state, detail


def _outside(start: int, ends: PartitionEnds) -> str | None:
    """Return where the start offset of a share group is, if its log does not have it."""
    if start > ends.end:
        return f"{start - ends.end} past the log end offset {ends.end}"
    if start < ends.start:
        return f"{ends.start - start} offsets below the log start offset {ends.start} are gone"
    return None


def _member_row(group: DescribedGroup, number: int) -> Row:
    member = group.members[number]
    return {
        "group": group.name,
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "assignment": {topic: list(numbers) for topic, numbers in sorted(member.assignment.items())},
    }
