"""The comparison of the copies of a partition, as rows and findings."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.kafka.sim.logdir.leader_epochs import history
from kafkalog_core.kafka.sim.logfiles import is_compacted
from kafkalog_core.ops.copies.comparison import BatchCursor, lockstep
from kafkalog_core.ops.copies.differences import Differences
from kafkalog_core.ops.copies.verdict import (
    Assigned,
    Read,
    ReplicaDir,
    advice,
    judge,
    read_copy,
    reason,
)
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.output.replicas import REPLICA, REPLICA_COPY, REPLICA_RANGE
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct, replace
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.sim.logdir.leader_epochs import History
    from kafkalog_core.ops.copies.differences import Range
    from kafkalog_core.ops.copies.verdict import Copy, ReplicaVerdict

__all__ = ["Comparison", "CopyChoice", "PartitionChoice", "ReplicaTask", "compare"]


Row = dict[str, object]
_PAIR = 2
_ALIKE: Final = frozenset({"identical", "compacted", "trimmed"})
"""States of copies whose choice costs no group a record that the copy to keep has."""


class CopyChoice(Struct, frozen=True, kw_only=True):
    """A copy that a cluster may go on with; `only_here`: records that no other copy has."""

    path: str
    log_start: int
    history: History
    only_here: int


class PartitionChoice(Struct, frozen=True, kw_only=True):
    """The copies of a partition that differ; `keep`: the number of the one to keep, None: unknown."""

    place: TopicPartition
    copies: tuple[CopyChoice, ...]
    keep: int | None

    def in_place_of(self, number: int) -> CopyChoice:
        """Return the copy that is given up for this one: that to keep, or of the others the one with most to lose."""
        if self.keep is not None and number != self.keep:
            return self.copies[self.keep]
        others = (copy for other, copy in enumerate(self.copies) if other != number)
        return max(others, key=lambda copy: (copy.only_here, copy.history.end_offset))


class ReplicaTask(Struct, frozen=True, kw_only=True):
    """The copies of one partition to compare: plain values, which can be sent to other processes.

    `assigned`: what the metadata log says of it; None: unknown.
    """

    topic: str
    partition: int
    places: tuple[ReplicaDir, ...]
    max_batch_bytes: int
    assigned: Assigned | None = None


class Comparison(Struct, frozen=True, kw_only=True):
    """The result of one partition, as rows.

    Args:
        replica: the `replica` row.
        copies: a `replica_copy` row for each copy.
        ranges: `replica_range` rows, in the order of their offsets.
        findings: findings about the copies.
        files: number of log files read.
        size_bytes: size of the logs read, in bytes.
        batches: number of whole batches in them.
        records: number of records in these batches, by their headers.
        choice: the copies between which to choose; None: they differ in nothing that a group of consumers could miss.
    """

    replica: Row
    copies: tuple[Row, ...]
    ranges: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    files: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    choice: PartitionChoice | None = None

    def chunks(self) -> Iterator[RowChunk]:
        """Yield all rows, the `replica` row first."""
        yield RowChunk(REPLICA, [self.replica])
        for table, rows in (
            (REPLICA_COPY, self.copies),
            (REPLICA_RANGE, self.ranges),
            (tables.FINDING, tuple(finding.row() for finding in self.findings)),
        ):
            if rows:
                yield RowChunk(table, rows)


def compare(task: ReplicaTask, advance: Callable[[int], None]) -> Comparison:
    """Compare the copies of a partition. A directory that cannot be read is a finding; a single copy is not read."""
    copies: list[Copy] = []
    unread: list[Finding] = []
    found_here = partial(found, topic=task.topic, partition=task.partition)
    for place in task.places:
        try:
            copy = read_copy(place)
        except StorageError as error:
            unread.append(found_here(code_of_error(error), error.path or place.path, reason=error.message))
            continue
        # 0.7 has no offsets that copies share, only positions in their files.
        if copy.partition.format == "v07":
            unread.append(found_here("replicas.not-compared", place.path))
            continue
        copies.append(copy)
    # Topic ids first: two topics of one name would differ everywhere (KIP-516).
    ids = {copy.topic_id for copy in copies if copy.topic_id is not None}
    if len(ids) > 1:
        return _other_topics(task, copies, unread)
    if len(copies) < _PAIR:
        return _alone(task, copies, unread)
    # The name of a topic that was deleted and created again has another id: what the log says is not of these copies.
    if task.assigned is not None and ids and task.assigned.topic_id not in ids:
        task = replace(task, assigned=None)
    return _read(task, copies, unread, advance)


def _read(
    task: ReplicaTask, copies: Sequence[Copy], unread: list[Finding], advance: Callable[[int], None]
) -> Comparison:
    options = ScanOptions(max_batch_bytes=task.max_batch_bytes)
    # A follower may have fetched what the leader's cleaner had left, so the farthest of them counts.
    cleaned_to = max((copy.place.cleaned_to or 0 for copy in copies), default=0)
    differences = Differences(len(copies), cleaned_to)
    # Their files are open until the last range is compared, and closed whatever happens.
    with ExitStack() as stack:
        cursors = [BatchCursor(copy.partition.segments, copy.log_start, options, advance) for copy in copies]
        for cursor in cursors:
            stack.callback(cursor.close)
        for stretch in lockstep(cursors, task.max_batch_bytes):
            differences.add(stretch)
    in_gaps = _decide_gaps(task, copies, cursors, differences)
    reads = [
        Read(copy, cursor, history(copy.epochs_in_file, cursor.epochs, cursor.end_offset), counts, gaps)
        for copy, cursor, counts, gaps in zip(copies, cursors, differences.tallies, in_gaps, strict=True)
    ]
    verdict = judge(reads, differences)
    _name_tails(differences, verdict)
    return Comparison(
        replica=_replica_row(task, reads, verdict),
        copies=tuple(_copy_row(task, reads, verdict, number) for number in range(len(reads))),
        ranges=tuple(
            _range_row(task, copies, each) for each in sorted(differences.ranges, key=lambda each: each.first)
        ),
        findings=(*unread, *_findings(task, reads, verdict)),
        files=sum(len(copy.partition.segments) for copy in copies),
        size_bytes=sum(copy.bytes for copy in copies),
        batches=sum(cursor.batches for cursor in cursors),
        records=sum(cursor.records for cursor in cursors),
        choice=_choice(task, reads, verdict),
    )


def _choice(task: ReplicaTask, reads: Sequence[Read], verdict: ReplicaVerdict) -> PartitionChoice | None:
    """Return the copies that differ, each history once; None: no group misses a record, whichever is kept."""
    if verdict.state not in {"divergent", "damaged", "missing", "behind"} or task.topic == OFFSETS_TOPIC:
        return None
    numbers = [number for number, state in enumerate(verdict.states) if state not in _ALIKE or verdict.keep is None]
    copies = tuple(
        CopyChoice(
            path=reads[number].copy.place.path,
            log_start=reads[number].copy.log_start,
            history=reads[number].history,
            only_here=reads[number].counts.only_here,
        )
        for number in numbers
    )
    keep = None if verdict.keep is None else numbers.index(verdict.keep)
    return (
        PartitionChoice(place=(task.topic, task.partition), copies=copies, keep=keep) if len(copies) >= _PAIR else None
    )


def _decide_gaps(
    task: ReplicaTask, copies: Sequence[Copy], cursors: Sequence[BatchCursor], differences: Differences
) -> list[tuple[int, int]]:
    """Decide which missing records were lost and which were compacted away; return both numbers for each copy.

    Records above the offset that every cleaner has reached are lost. A copy may have been fetched from one that was
    clean already, so the farthest cleaner counts for all copies. If no cleaner checkpoint can be read, batches with
    fewer records than offsets show that a cleaner was there.
    """
    cleaned_to = max((copy.place.cleaned_to or 0 for copy in copies), default=0)
    is_known = any(copy.place.knows_cleaner for copy in copies)
    is_legal = is_compacted(task.topic, is_cleaned=None)
    is_legal = is_legal or (not is_known and any(cursor.is_thinned for cursor in cursors))
    # Of each copy: what one lost may be what another compacted.
    missing, compacted = [0] * len(copies), [0] * len(copies)
    for each in differences.ranges:
        was_cleaned = is_legal or each.last < cleaned_to
        counts = compacted if was_cleaned else missing
        for number, records in enumerate(each.gaps):
            counts[number] += records
            if not was_cleaned:
                risk = differences.tallies[number].at_risk
                risk.add(records, each.first, each.last, each.times, each.owners - {number})
        if each.kind == "gap":
            each.kind = "compacted" if was_cleaned else "missing"
    return list(zip(missing, compacted, strict=True))


def _name_tails(differences: Differences, verdict: ReplicaVerdict) -> None:
    """Call ranges divergent that only divergent copies have: the other copies do not lack them."""
    for each in differences.ranges:
        starts = [verdict.divergent_at[number] for number in each.owners]
        # All of its owners have left the common history before it, so nobody else lost anything.
        if each.kind in {"behind", "missing"} and all(start is not None and start <= each.first for start in starts):
            each.kind = "divergent"


# --- rows -------------------------------------------------------------------------------------------------------------
def _replica_row(task: ReplicaTask, reads: Sequence[Read], verdict: ReplicaVerdict) -> Row:
    keep = None if verdict.keep is None else reads[verdict.keep]
    return {
        "topic": task.topic,
        "partition": task.partition,
        "state": verdict.state,
        "copies": len(reads),
        "keep": None if keep is None else keep.copy.place.path,
        "basis": verdict.basis,
        "reason": reason(reads, verdict, task.assigned),
        "divergent_offset": verdict.divergent_offset,
        "log_start_offset": min(read.copy.log_start for read in reads),
        "log_end_offset": max(read.cursor.end_offset for read in reads),
        **_risk_columns(reads, keep),
        **_assigned_columns(task.assigned),
    }


def _risk_columns(reads: Sequence[Read], keep: Read | None) -> Row:
    """Return the columns about the records that the copy to keep does not have."""
    if keep is None:
        return {"records_at_risk": None}
    risk = keep.counts.at_risk
    return {
        "records_at_risk": risk.records,
        "at_risk_first_offset": risk.first_offset,
        "at_risk_last_offset": risk.last_offset,
        "at_risk_first_timestamp_ms": risk.times[0],
        "at_risk_last_timestamp_ms": risk.times[1],
        "at_risk_in": [reads[number].copy.place.path for number in sorted(risk.owners)],
    }


def _assigned_columns(assigned: Assigned | None) -> Row:
    return {} if assigned is None else {"leader": assigned.leader, "isr": list(assigned.isr)}


def _copy_row(task: ReplicaTask, reads: Sequence[Read], verdict: ReplicaVerdict, number: int) -> Row:
    copy, cursor, known, counts, _ = reads[number]
    lacks = verdict.lacks[number]
    return {
        "topic": task.topic,
        "partition": task.partition,
        "path": copy.place.path,
        "node_id": copy.place.node_id,
        "state": verdict.states[number],
        "advice": advice(reads, verdict, number),
        "topic_id": copy.topic_id,
        "log_start_offset": copy.log_start,
        "log_end_offset": cursor.end_offset,
        "high_watermark": copy.place.high_watermark,
        "leader_epoch": known.latest,
        "truncation_offset": verdict.truncates_to[number],
        "divergent_offset": verdict.divergent_at[number],
        "segments": len(copy.partition.segments),
        "bytes": copy.bytes,
        "batches": cursor.batches,
        "records": cursor.records,
        "damage_count": cursor.damage_count,
        "damage_bytes": cursor.damage_bytes,
        "only_here": counts.only_here,
        "lacks_damaged": lacks.damaged,
        "lacks_missing": lacks.missing,
        "lacks_behind": lacks.behind,
        "lacks_compacted": lacks.compacted,
        "lacks_trimmed": lacks.trimmed,
    }


def _range_row(task: ReplicaTask, copies: Sequence[Copy], each: Range) -> Row:
    return {
        "topic": task.topic,
        "partition": task.partition,
        "kind": each.kind,
        "first_offset": each.first,
        "last_offset": each.last,
        "records": each.records,
        "first_timestamp_ms": each.times[0],
        "last_timestamp_ms": each.times[1],
        "has": {copy.place.path: text for copy, text in zip(copies, each.has, strict=True)},
    }


def _findings(task: ReplicaTask, reads: Sequence[Read], verdict: ReplicaVerdict) -> Iterator[Finding]:
    """Yield findings about copies that diverge, are damaged or lack records."""
    found_here = partial(found, topic=task.topic, partition=task.partition)
    if verdict.lost is not None:
        yield found_here("replicas.damaged-everywhere", reads[verdict.keep or 0].copy.place.path, where=verdict.lost)
    for number, (read, state) in enumerate(zip(reads, verdict.states, strict=True)):
        path, lacks = read.copy.place.path, verdict.lacks[number]
        if state == "divergent":
            at, truncated_to = verdict.divergent_at[number], verdict.truncates_to[number]
            # Silently: both copies have the same epochs, so no broker would notice (KIP-101).
            code = "replicas.divergent-silently" if verdict.silent[number] else "replicas.divergent"
            code = "replicas.undecided" if verdict.keep is None else code
            yield found_here(code, path, offset=at, cut=truncated_to, records=read.counts.only_here)
        flaw = read.cursor.first_flaw
        if state == "keep" and lacks.damaged + lacks.missing:  # never advise to delete this copy
            yield found_here("replicas.keep-lacks", path, records=lacks.damaged + lacks.missing)
        elif lacks.damaged and flaw is not None:
            yield found_here(
                "replicas.damaged",
                flaw.path,
                position=flaw.position,
                size_bytes=flaw.size_bytes,
                records=lacks.damaged,
                damage=flaw.reason,
            )
        for code, records in (("replicas.missing", lacks.missing), ("replicas.behind", lacks.behind)):
            if records and not (state == "keep" and code == "replicas.missing"):
                yield found_here(code, path, offset=read.cursor.end_offset, records=records)


def _alone(task: ReplicaTask, copies: Sequence[Copy], unread: list[Finding]) -> Comparison:
    """Return the result of a partition with fewer than two copies that can be read."""
    text = "There is no other copy to compare it with." if copies else "No copy can be read."
    return _not_compared(task, copies, unread, "alone", text, f"{text} To check it: kafkalog verify.")


def _other_topics(task: ReplicaTask, copies: Sequence[Copy], unread: list[Finding]) -> Comparison:
    """Return the result of directories that have one name, but belong to different topics."""
    ids = ", ".join(f"{copy.topic_id} in {copy.place.path}" for copy in copies)
    text = (
        f"These are not copies of one partition, because their topic ids differ: {ids}. The topic was deleted and "
        "created again, or the disks are of different clusters. Compare only directories with the same topic id."
    )
    where: Row = {"topic": task.topic, "partition": task.partition}
    other_topic = found("replicas.another-topic", copies[0].place.path, ids=ids, **where)  # type: ignore[arg-type]
    return _not_compared(task, copies, [*unread, other_topic], "another-topic", text, "Not compared.")


def _not_compared(
    task: ReplicaTask, copies: Sequence[Copy], findings: list[Finding], state: str, reason_text: str, advice_text: str
) -> Comparison:
    """Return the result of copies that were not read."""
    where: Row = {"topic": task.topic, "partition": task.partition, "state": state}
    rows = [
        where
        | {
            "path": copy.place.path,
            "node_id": copy.place.node_id,
            "topic_id": copy.topic_id,
            "high_watermark": copy.place.high_watermark,
            "segments": len(copy.partition.segments),
            "bytes": copy.bytes,
            "advice": advice_text,
        }
        for copy in copies
    ]
    row = where | {"copies": len(copies), "reason": reason_text}
    return Comparison(replica=row, copies=tuple(rows), findings=tuple(findings))
