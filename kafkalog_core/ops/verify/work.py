"""The check of one partition: after the segments that an earlier run has checked, the others one by one.

A large partition is split: other processes check its segments, and send the batches of producers (`engine.spool`).
After each segment a line is kept, if the caller wants it, with which a later run continues there.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kafkalog_core.engine.parts import grouped
from kafkalog_core.engine.spool import send
from kafkalog_core.engine.targets import FileTarget
from kafkalog_core.errors import FieldError, NotFoundError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.names import METADATA_TOPIC, FileState
from kafkalog_core.kafka.rules.batch_checks import FUTURE_MS
from kafkalog_core.kafka.sim.batch_places import partition_bounds
from kafkalog_core.ops.verify.companions import Replacements
from kafkalog_core.ops.verify.partition import PartitionChecker
from kafkalog_core.ops.verify.request import Chain, Depth, SegmentCheck
from kafkalog_core.ops.verify.resume import (
    SegmentRecord,
    StateError,
    decode,
    encode,
    is_unchanged,
    marked_files,
    marks_of,
)
from kafkalog_core.ops.verify.segment import SCANS, check_file, check_segment
from kafkalog_core.ops.verify.txn_index import FirstAbort
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict, SegmentVerdict
from kafkalog_core.storage.access import code_of_dir_error
from kafkalog_core.storage.listing import Segment, SegmentState
from kafkalog_core.storage.partition import Partition, read_partition
from kafkalog_core.storage.paths import absolute
from kafkalog_core.storage.source import reading_together
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.engine.spool import OutputStream
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.producers import Marker
    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.ops.verify.partition import CheckerPlace
    from kafkalog_core.ops.verify.request import Reader, Reading
    from kafkalog_core.storage.listing import FileInfo

__all__ = [
    "ROW_BYTES",
    "SHARED_PARTITION_BYTES",
    "BatchSender",
    "Keep",
    "PartitionWork",
    "ResumableCheck",
    "SentRun",
    "SharedPartition",
    "WorkResult",
    "check_all",
    "check_partition",
    "check_segments",
    "finished",
    "is_timeless",
    "other_logs",
    "partition_key",
    "replay_runs",
    "unchanged",
]


Keep = Callable[[int, str], None]
_SMALL_STATE_BYTES: Final = 16 * 1024
_LOG_PER_STATE: Final = 1000
"""A state of producers that is not small is kept once per this many bytes of log for each of its bytes."""
_DAY_MS: Final = 24 * 60 * 60 * 1000


def partition_key(path: str) -> str:
    """Return the name of a partition in a state file."""
    return absolute(path)


def unchanged(
    partition: Partition, context: PartitionContext, lines: Sequence[str], now_ms: int
) -> list[SegmentRecord]:
    """Return the first segments, in order, that an earlier run has checked and that need not be read again.

    Raises StateError.
    """
    checker = PartitionChecker(partition, context)
    records: list[SegmentRecord] = []
    before: CheckerPlace | None = None
    whole = 0
    for segment, line in zip(partition.segments, lines, strict=False):
        record = decode(line, partition.path)
        verdict = record.verdict
        files = marked_files(partition, segment, before, record.place)
        is_known = (
            record.premise == checker.premise(verdict)
            and verdict.is_last == (segment is partition.segments[-1])
            and verdict.base_offset == segment.base_offset
            and is_timeless(record.verdict, record.now_ms, now_ms)
        )
        if not is_known or not is_unchanged(files, record.marks):
            break
        records.append(record)
        before = record.place
        if record.producers is not None:
            whole = len(records)
    return records[:whole]


class ResumableCheck:
    """The check of one partition, continued after the first `done` segments, which an earlier run has checked.

    `checker` begins each segment and takes its batches, `end` ends it. `skipped_bytes` of log are not read again.

    Args:
        partition: its listing.
        context: what its log directory shows of it.
        now_ms: time of the check.
        records: of its first segments; see `unchanged`.
        keep: takes the number of a segment and its line; None: no lines are kept.

    Raises StateError.
    """

    def __init__(
        self,
        partition: Partition,
        context: PartitionContext,
        now_ms: int,
        records: Sequence[SegmentRecord] = (),
        keep: Keep | None = None,
    ) -> None:
        self.checker = PartitionChecker(partition, context)
        self.done = len(records)
        self.skipped_bytes = sum(record.verdict.size_bytes for record in records)
        self._partition = partition
        self._now_ms = now_ms
        self._keep = keep
        self._before: CheckerPlace | None = None
        self._bytes_since = 0
        if records:
            self._resume(records)

    def end(self, verdict: SegmentVerdict) -> None:
        """End a segment, which has been read to its end."""
        self.checker.end(verdict)
        if self._keep is not None:
            line = self._line(verdict)
            if line is None:  # it changes: no run continues after it
                self._keep = None
            else:
                self._keep(self.done, line)
        self.done += 1

    def _resume(self, records: Sequence[SegmentRecord]) -> None:
        producers = records[-1].producer_bytes
        try:
            self.checker.resume([(record.verdict, record.place) for record in records], producers or b"")
        except FieldError as error:
            raise StateError(f"the state of producers: {error.message}") from error
        self._before = records[-1].place

    def _line(self, verdict: SegmentVerdict) -> str | None:
        partition, index = self._partition, self.done
        place = self.checker.take_place()
        files = marked_files(partition, partition.segments[index], self._before, place)
        marks = marks_of(files)
        if marks is None:
            return None
        record = SegmentRecord(
            premise=self.checker.premise(verdict),
            now_ms=self._now_ms,
            marks=marks,
            verdict=verdict,
            place=place,
            producers=self._producers(verdict),
        )
        self._before = place
        return encode(partition_key(partition.path), index, record, partition.path)

    def _producers(self, verdict: SegmentVerdict) -> str | None:
        """Return the state of producers in base64, to continue here; None where that costs more than it saves.

        It is kept where it is small, where much log was read since the last one, and near the end, where the log grows.
        """
        states = self.checker.producer_states
        self._bytes_since += verdict.size_bytes
        size_bytes = states.size_bytes
        is_near_end = self.done >= len(self._partition.segments) - 2
        if size_bytes > _SMALL_STATE_BYTES and self._bytes_since < _LOG_PER_STATE * size_bytes and not is_near_end:
            return None
        self._bytes_since = 0
        return base64.b64encode(states.state_bytes()).decode("ascii")


def is_timeless(verdict: SegmentVerdict, then_ms: int, now_ms: int) -> bool:
    """Return whether the findings would be the same now; timestamps in the future may be judged a day later."""
    newest = verdict.max_timestamp_ms
    if newest is None or newest <= min(then_ms, now_ms) + FUTURE_MS:
        return True
    return abs(now_ms - then_ms) < _DAY_MS


SHARED_PARTITION_BYTES: Final = 64 * 1024 * 1024
"""Size from which on the segments of a partition are checked by several processes."""

_LITTLE_PART: Final = 8


class PartitionWork(Struct, frozen=True, kw_only=True):
    """A partition to check.

    Args:
        path: its directory.
        context: what its log directory shows of it.
        depth: how deep to look.
        lines: of its first segments, from an earlier run.
        wants_lines: whether to keep lines for a later run.
        min_segments: a large partition with at least this many segments is returned as `SharedPartition`; None: never.
        min_bytes: size from which on a partition is large; None: `SHARED_PARTITION_BYTES`.
        reader: reads its segments.
    """

    path: str
    context: PartitionContext
    depth: Depth
    lines: Sequence[str] = ()
    wants_lines: bool = False
    min_segments: int | None = None
    min_bytes: int | None = None
    reader: Reader = SCANS


class SharedPartition(Struct, frozen=True):
    """A partition too large for one process: its segments after the first `done`, to be checked by several.

    `sizes` are the bytes of log to read for each task.
    """

    partition: Partition
    context: PartitionContext
    tasks: tuple[SegmentCheck, ...]
    sizes: tuple[int, ...]
    done: int
    reader: Reader

    def groups(self, most_bytes: int) -> list[tuple[SegmentCheck, ...]]:
        """Return the tasks in order, in groups of at most that many bytes to read; a larger task is a group of its own.

        A small last segment, as the active one mostly is, joins the group before it.
        """
        items = map(_SizedTask, self.tasks, self.sizes)
        groups = [tuple(item.task for item in group) for group in grouped(items, most_bytes)]
        if len(groups) > 1 and groups[-1] == self.tasks[-1:] and self.sizes[-1] < most_bytes // _LITTLE_PART:
            groups[-2:] = [groups[-2] + groups[-1]]
        return groups


class _SizedTask(NamedTuple):
    """A task and its bytes to read."""

    task: SegmentCheck
    size_bytes: int


class WorkResult(Struct, frozen=True):
    """The result of a `PartitionWork` or of a file.

    `skipped_bytes` of log were not read again. `lines` are for a later run. `made` is the result of the partition's
    `Reading`.
    """

    result: PartitionVerdict | PlaceVerdict | SharedPartition
    skipped_bytes: int = 0
    lines: tuple[tuple[int, str], ...] = ()
    made: object = None


def check_all(
    all_work: Sequence[PartitionWork | FileTarget], depth: Depth, advance: Callable[[int], None]
) -> tuple[WorkResult, ...]:
    """Check partitions and files in another process. Raises StorageError for a file that cannot be opened."""
    return tuple(_check_apart(work, depth, advance) for work in all_work)


def _check_apart(work: PartitionWork | FileTarget, depth: Depth, advance: Callable[[int], None]) -> WorkResult:
    if isinstance(work, FileTarget):
        return WorkResult(check_file(work, depth, advance))
    lines: list[tuple[int, str]] = []
    outcome = check_partition(work, advance, lambda index, line: lines.append((index, line)))
    return replace(outcome, lines=tuple(lines))


def check_partition(work: PartitionWork, advance: Callable[[int], None], keep: Keep) -> WorkResult:
    """Check a partition, or split a large one into its segments. Raises StateError."""
    try:
        partition = read_partition(work.path)
    except NotFoundError:  # a broker at work has deleted the partition
        return WorkResult(PlaceVerdict(path=work.path, findings=(found("file.vanished", work.path),)))
    except StorageError as error:
        reason = found(code_of_dir_error(error), work.path, reason=error.message)
        return WorkResult(PlaceVerdict(path=work.path, findings=(reason,)))
    with work.reader.open() as reading:
        verdict = reading.unchanged(partition, work.context)
        if verdict is not None:
            return WorkResult(verdict, made=reading.finish(verdict))
        with reading_together(file.path for file in _files_to_read(partition, work) if file.size_bytes):
            return _check_listed(partition, work, reading, advance, keep)


def _check_listed(
    partition: Partition, work: PartitionWork, reading: Reading, advance: Callable[[int], None], keep: Keep
) -> WorkResult:
    depth, context = work.depth, work.context
    known = unchanged(partition, context, work.lines, depth.now_ms) if work.lines else ()
    tasks = segment_tasks(partition, depth)[len(known) :]
    reading.others(partition, advance)
    sizes = tuple(map(reading.unread_bytes, tasks))
    is_large = sum(sizes) > (SHARED_PARTITION_BYTES if work.min_bytes is None else work.min_bytes)
    if is_large and work.min_segments is not None and len(tasks) >= work.min_segments:
        shared = SharedPartition(partition, context, tasks, sizes, len(known), work.reader)
        return WorkResult(shared, made=reading.finish())
    check = ResumableCheck(partition, context, depth.now_ms, known, keep if work.wants_lines else None)
    for task in tasks:
        check.checker.begin(task.segment)
        check.end(reading.check(task, check.checker, advance))
    verdict = finished(check.checker, partition, depth, advance)
    return WorkResult(verdict, check.skipped_bytes, made=reading.finish(verdict))


def _files_to_read(partition: Partition, work: PartitionWork) -> Iterator[FileInfo]:
    """Yield the files that a check reads; none of a large partition, which other processes may read."""
    most_bytes = SHARED_PARTITION_BYTES if work.min_bytes is None else work.min_bytes
    if sum(segment.size_bytes for segment in partition.segments) > most_bytes:
        return
    yield from partition.metadata_files
    yield from partition.snapshots
    for segment in partition.segments if work.depth.level != "files" else ():
        yield from segment.files


def finished(
    checker: PartitionChecker, partition: Partition, depth: Depth, advance: Callable[[int], None]
) -> PartitionVerdict:
    """Return the verdict of a partition whose segments are checked, with the findings in its other logs.

    Those are finished replacements (`.swap`), which a broker puts in place at its next start without a check
    (LogLoader.completeSwapOperations), and snapshots of the metadata log.
    """
    verdict = checker.finish(lambda: advance(0))
    replacements = Replacements(partition, verdict.segments, is_whole=checker.is_whole)
    findings: list[Finding] = []
    for segment in other_logs(partition):
        task = segment_task(partition, segment, depth, is_last=False)
        aborts = FirstAbort()
        other = check_segment(task, aborts, advance)
        is_swap = segment.state is SegmentState.SWAP
        findings += replacements.findings(other, aborts.offset) if is_swap else other.findings
    return replace(verdict, findings=(*replacements.mended(verdict.findings), *findings)) if findings else verdict


def other_logs(partition: Partition) -> Iterator[Segment]:
    """Yield the logs that a broker puts in place or loads at its next start, besides the segments."""
    for segment in partition.other_segments:
        if segment.state is SegmentState.SWAP and segment.log is not None:
            yield segment
    for file in partition.kraft_snapshots:
        if file.name.state is FileState.LIVE:  # its batches count from 0, whatever the number in its name
            yield Segment(base_offset=0, state=SegmentState.CLOSED, log=file)


def check_segments(
    tasks: Sequence[SegmentCheck], reader: Reader, stream: OutputStream, advance: Callable[[int], None]
) -> object:
    """Check some segments of a split partition, and return the result of their `Reading`.

    Sends the runs of each segment and then its verdict, for the process that merges them.
    """
    with reader.open() as reading:
        for task in tasks:
            send(stream, reading.check(task, BatchSender(stream), advance))
        return reading.finish()


def segment_tasks(partition: Partition, depth: Depth) -> tuple[SegmentCheck, ...]:
    """Return one task for each live segment, in the order of their base offsets."""
    last, bounds = len(partition.segments) - 1, partition_bounds(partition)
    return tuple(
        segment_task(partition, segment, depth, is_last=index == last, bounds=bounds.get(segment.base_offset))
        for index, segment in enumerate(partition.segments)
    )


def segment_task(
    partition: Partition, segment: Segment, depth: Depth, *, is_last: bool, bounds: PlaceBounds | None = None
) -> SegmentCheck:
    """Return the task for one segment."""
    return SegmentCheck(
        segment=segment,
        topic=partition.topic,
        partition=partition.partition,
        is_v07=partition.format == "v07",
        is_last=is_last,
        level=depth.of_metadata if partition.topic == METADATA_TOPIC else depth.level,
        now_ms=depth.now_ms,
        max_batch_bytes=depth.max_batch_bytes,
        bounds=bounds,
    )


_REPLAYED: Final = (
    "position",
    "format",
    "attributes",
    "base_offset",
    "last_offset",
    "record_count",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)
"""Columns that the replay reads. The others are zero in a sent run: half of the bytes need not be moved."""


ROW_BYTES: Final = 8 * len(_REPLAYED)
"""Bytes of one batch in the cells of a sent run."""


class SentRun(Struct, frozen=True):
    """A run of batches; without batches, a hole. `cells` are the columns that a replay reads, int64 of this machine."""

    count: int
    cells: bytes
    markers: dict[int, Marker]
    holes: tuple[int, ...] = ()

    @classmethod
    def of(cls, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> Self:
        """Return a copy of a run."""
        return cls(batches.count, b"".join(map(batches.column, _REPLAYED)), dict(markers), tuple(holes))

    def replay(self, to: Chain, batches: BatchColumns) -> None:
        """Pass the batches to a chain, in columns that are reused."""
        if not self.count:
            to.hole()
            return
        batches.count = self.count
        cells = memoryview(self.cells).cast("q")
        for index, name in enumerate(_REPLAYED):
            batches.column(name)[:] = cells[index * self.count : (index + 1) * self.count]
        to.replay(batches, self.markers, self.holes)


def replay_runs(items: Iterable[SentRun | SegmentVerdict], to: Chain) -> SegmentVerdict | None:
    """Pass runs to a chain, in their order, up to a verdict, which is returned; None: there is none."""
    batches = BatchColumns()
    for item in items:
        if not isinstance(item, SentRun):
            return item
        if item.count > batches.capacity:
            batches = BatchColumns(item.count)
        item.replay(to, batches)
    return None


class BatchSender:
    """A chain that sends the batches to the process that merges the segments of a partition."""

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream
        self._is_hole = False

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Send a run."""
        self._is_hole = False
        send(self._stream, SentRun.of(batches, markers, holes))

    def hole(self) -> None:
        """Send a hole, one for several."""
        if not self._is_hole:
            self._is_hole = True
            send(self._stream, SentRun(0, b"", {}))
