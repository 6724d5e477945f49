"""The request for one partition, its report and its steps: plain values, which other processes can take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.storage.paths import exists
from kafkalog_core.storage.planned import FileSlice, Pieces
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.rule_table import RecoveryRules
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery, SplitPart
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import Segment

__all__ = ["ReindexReport", "ReindexTask", "Step", "split_steps", "stage_step", "taken_name"]


class ReindexTask(Struct, frozen=True, kw_only=True):
    """The request for one partition.

    Args:
        path: of its directory.
        bases: base offsets of the requested segments; None: all, and the files of the partition.
        facts: what is known of it besides its files.
        rules: how the release recovers a segment.
        writes_all: whether a valid index is written too, if it differs from that of a recovery.
        as_broker: whether a damaged log is truncated, as by a broker that has to rebuild its index.
        max_batch_bytes: the largest batch that is read.
        unindexed: base offsets of segments whose offset and time indexes another step builds of the same recovery.
    """

    path: str
    bases: frozenset[int] | None
    facts: PartitionFacts
    rules: RecoveryRules
    writes_all: bool
    as_broker: bool
    max_batch_bytes: int
    unindexed: frozenset[int] = frozenset()


class ReindexReport(Struct, frozen=True, kw_only=True):
    """The report on a partition, apart from its steps.

    Args:
        findings: what is reported.
        refusals: what is not reindexed.
        losses: what is lost.
        tail_bytes: bytes of an append that was interrupted at the end of the log, which are left.
        may_hide_batches: whether a broker may serve batches that consumers do not read: a segment ends above the base
            offset of the next one or, in a log that was never cleaned, above what its indexes can hold; the header of
            a batch cannot be right; or messages of magic 0 or 1 may not open, where fetches of later ones depend on it.
    """

    findings: tuple[Finding, ...] = ()
    refusals: tuple[Finding, ...] = ()
    losses: tuple[Loss, ...] = ()
    tail_bytes: int = 0
    may_hide_batches: bool = False


class Step(Struct, frozen=True, kw_only=True):
    """One change.

    Args:
        kind: `write` a whole file, `cut` it in place, or `remove` it.
        path: of the file.
        why: a sentence without its full stop.
        content: new content, for `write`.
        size_bytes: size afterwards, for `cut`.
        like: file whose owner and mode a new file gets, for `write`: the log of its segment.
        mtime_ns: modification time, for `write`; None: the time of writing.
    """

    kind: Literal["write", "cut", "remove"]
    path: str
    why: str
    content: bytes | FileSlice = b""
    size_bytes: int = 0
    like: str = ""
    mtime_ns: int | None = None


def stage_step(step: Step, stage: Stage) -> None:
    """Stage one step."""
    if step.kind == "cut":
        stage.cut(step.path, step.size_bytes, why=step.why)
    elif step.kind == "remove":
        stage.remove(step.path, why=step.why)
    else:
        stage.write(step.path, Pieces((step.content,)), why=step.why, like=step.like, mtime_ns=step.mtime_ns)


def taken_name(segment: Segment, parts: Sequence[SplitPart]) -> str | None:
    """Return which file already has the name of a part, as a clause; None: none has."""
    for part in parts:
        path = _path(segment, part, FileKind.LOG)
        # The first part has the old name, and replaces the segment.
        if part.base_offset != segment.base_offset and exists(path):
            return f"{path} exists already"
    return None


def split_steps(segment: Segment, parts: Sequence[SplitPart], recoveries: Sequence[SegmentRecovery]) -> Iterator[Step]:
    """Yield the parts of a split segment, the last one first: after each step every batch is in a segment."""
    log = segment.log
    if log is None:
        return
    why = f"offsets of {log.name.raw} exceed the range of its indexes: it becomes {count_of(len(parts), 'segment')}"
    # LocalLog.splitOverflowedSegment renames in descending order too: with the later parts on disk, the old segment
    # still has every batch.
    for part, recovery in zip(reversed(parts), reversed(recoveries), strict=True):
        contents = (
            (FileKind.OFFSET_INDEX, recovery.offset_index),
            (FileKind.TIME_INDEX, recovery.time_index),
            (FileKind.TXN_INDEX, recovery.txn_index or None),
        )
        content = FileSlice(log.path, part.start, part.end)
        log_step = Step(
            kind="write",
            path=_path(segment, part, FileKind.LOG),
            why=why,
            content=content,
            like=log.path,
            mtime_ns=log.mtime_ns,
        )
        # The log first where it is new, since an index without a log is deleted at a start. Where it replaces the old
        # log, its indexes come first: they name offsets that the old log has too.
        if part.base_offset != segment.base_offset:
            yield log_step
        for kind, new in contents:
            if new is not None:
                path = _path(segment, part, kind)
                yield Step(kind="write", path=path, why=why, content=new, like=log.path)
        if part.base_offset == segment.base_offset:
            yield log_step
    yield from _removals(segment, parts[0], recoveries[0], why)


def _removals(segment: Segment, first: SplitPart, recovery: SegmentRecovery, why: str) -> Iterator[Step]:
    """Yield the removal of the files that the first part does not replace."""
    is_new = first.base_offset != segment.base_offset
    for file in segment.files:
        is_stale = file.name.kind is FileKind.TXN_INDEX and not recovery.txn_index
        # Snapshots describe producers at offsets, and stay right for every base offset.
        if (is_new or is_stale) and file.name.kind is not FileKind.SNAPSHOT:
            yield Step(kind="remove", path=file.path, why=why)


def _path(segment: Segment, part: SplitPart, kind: FileKind) -> str:
    directory = "" if segment.log is None else segment.log.path.rpartition("/")[0]
    return f"{directory}/{segment_file_name(part.base_offset, kind)}"
