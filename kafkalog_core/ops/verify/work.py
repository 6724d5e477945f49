"""The way through the segments of one partition: those that an earlier run has checked, then the others one by one.

After each segment a line is kept, if the caller wants it, with which a later run continues there.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError, NotFoundError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import FileState
from kafkalog_core.ops.reading.targets import FileTarget
from kafkalog_core.ops.verify.batches import FUTURE_MS
from kafkalog_core.ops.verify.check import SegmentTask
from kafkalog_core.ops.verify.companions import Replacements
from kafkalog_core.ops.verify.partition import PartitionChecker
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
from kafkalog_core.ops.verify.spool import NO_CHAIN, Spool, Spooled
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict, SegmentVerdict
from kafkalog_core.storage.listing import Segment, SegmentState
from kafkalog_core.storage.partition import Partition, read_partition
from kafkalog_core.storage.source import code_of_dir_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.logdir.top_files import PartitionContext
    from kafkalog_core.ops.verify.check import Level
    from kafkalog_core.ops.verify.partition import CheckerPlace
    from kafkalog_core.ops.verify.segment import Reader

__all__ = [
    "SPLIT_BYTES",
    "Course",
    "Depth",
    "Keep",
    "Outcome",
    "PartitionWork",
    "SegmentResult",
    "Segments",
    "Split",
    "check_partition",
    "check_pieces",
    "check_segments",
    "finished",
    "is_timeless",
    "partition_key",
    "unchanged",
]


Keep = Callable[[int, str], None]
_SMALL_STATE_BYTES: Final = 16 * 1024
_LOG_PER_STATE: Final = 1000
"""A state of producers that is not small is kept if there are this many bytes of log for each of its own."""
_DAY_MS: Final = 24 * 60 * 60 * 1000


def partition_key(path: str) -> str:
    """By what a partition is known in a state."""
    return os.path.abspath(path)


def unchanged(
    partition: Partition, context: PartitionContext, lines: Sequence[str], now_ms: int
) -> list[SegmentRecord]:
    """Of the segments that an earlier run has checked, those that need not be read again: the first ones, in order.

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


class Course:
    """One partition: `checker` begins each segment after the first `done` and takes its batches, `end` ends it.

    `skipped_bytes` of log are not read again.

    Args:
        partition: its listing.
        context: what its log directory says of it.
        now_ms: time of the check.
        records: what is known of its first segments; see `unchanged`.
        keep: takes the number of a segment and its line; None: nobody wants lines.

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
        """A segment has been read to its end."""
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
        """Their state, where it is small, or it would be long to come to this place again, or the log grows here."""
        states = self.checker.producer_states
        self._bytes_since += verdict.size_bytes
        size_bytes = states.size_bytes
        is_near_end = self.done >= len(self._partition.segments) - 2
        if size_bytes > _SMALL_STATE_BYTES and self._bytes_since < _LOG_PER_STATE * size_bytes and not is_near_end:
            return None
        self._bytes_since = 0
        return base64.b64encode(states.state_bytes()).decode("ascii")


def is_timeless(verdict: SegmentVerdict, then_ms: int, now_ms: int) -> bool:
    """Return whether the findings would be the same now; a time in the future counts as seen up to a day ago."""
    newest = verdict.max_timestamp_ms
    if newest is None or newest <= min(then_ms, now_ms) + FUTURE_MS:
        return True
    return abs(now_ms - then_ms) < _DAY_MS


SPLIT_BYTES: Final = 64 * 1024 * 1024
"""A partition is worth processes of its own from this size on."""

_LITTLE_PART: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How everything is checked; see `VerifyRequest`."""

    level: Level
    now_ms: int
    max_batch_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """A partition to check.

    Args:
        path: its directory.
        context: what its log directory says of it.
        depth: how deep to look.
        lines: what an earlier run has left of its first segments.
        wants_lines: whether to leave some for a later run.
        split: how many segments, or more, make a large partition one to be given back, to be checked by several
            processes; `None`: never.
        split_bytes: what makes a partition a large one; `None`: `SPLIT_BYTES`.
        reader: who reads its segments.
    """

    path: str
    context: PartitionContext
    depth: Depth
    lines: Sequence[str] = ()
    wants_lines: bool = False
    split: int | None = None
    split_bytes: int | None = None
    reader: Reader = SCANS


@dataclass(frozen=True, slots=True)
class Split:
    """A partition too large for one process: its segments after the first `done`, to be checked by several.

    Of each task it is known how many bytes of its log are to be read.
    """

    partition: Partition
    context: PartitionContext
    tasks: tuple[SegmentTask, ...]
    sizes: tuple[int, ...]
    done: int
    reader: Reader

    def groups(self, most_bytes: int) -> Iterator[tuple[SegmentTask, ...]]:
        """Yield its tasks in order, as many at a time as have no more bytes to read together.

        A small last segment, which an active one mostly is, is joined with those before it.
        """
        group: list[SegmentTask] = []
        size_bytes = 0
        for task, task_bytes in zip(self.tasks, self.sizes, strict=True):
            is_little = task is self.tasks[-1] and task_bytes < most_bytes // _LITTLE_PART
            if group and size_bytes + task_bytes > most_bytes and not is_little:
                yield tuple(group)
                group, size_bytes = [], 0
            group.append(task)
            size_bytes += task_bytes
        if group:
            yield tuple(group)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has come of a piece of work: `skipped_bytes` of log were not read again, `lines` are for a later run.

    `made` is what the partition's `Reading` has made.
    """

    result: PartitionVerdict | PlaceVerdict | Split
    skipped_bytes: int = 0
    lines: tuple[tuple[int, str], ...] = ()
    made: object = None


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """A checked segment of a `Split`, and what its partition's replay needs of it."""

    verdict: SegmentVerdict
    spooled: Spooled


@dataclass(frozen=True, slots=True)
class Segments:
    """Some checked segments of a `Split`, and what their `Reading` has made."""

    results: tuple[SegmentResult, ...]
    made: object


def check_pieces(
    pieces: Sequence[PartitionWork | FileTarget], depth: Depth, advance: Callable[[int], None]
) -> tuple[Outcome, ...]:
    """Check partitions and files in another process. Raises StorageError where a file cannot be opened."""
    return tuple(_check_apart(piece, depth, advance) for piece in pieces)


def _check_apart(piece: PartitionWork | FileTarget, depth: Depth, advance: Callable[[int], None]) -> Outcome:
    if isinstance(piece, FileTarget):
        return Outcome(check_file(piece, depth, advance))
    lines: list[tuple[int, str]] = []
    outcome = check_partition(piece, advance, lambda index, line: lines.append((index, line)))
    return replace(outcome, lines=tuple(lines))


def check_partition(work: PartitionWork, advance: Callable[[int], None], keep: Keep) -> Outcome:
    """Check a partition, or cut a large one into its segments. Raises StateError."""
    try:
        partition = read_partition(work.path)
    except NotFoundError:  # a broker at work has deleted the partition
        return Outcome(PlaceVerdict(path=work.path, findings=(found("file.vanished", work.path),)))
    except StorageError as error:
        reason = found(code_of_dir_error(error), work.path, reason=error.message)
        return Outcome(PlaceVerdict(path=work.path, findings=(reason,)))
    depth, context = work.depth, work.context
    known = unchanged(partition, context, work.lines, depth.now_ms) if work.lines else ()
    tasks = segment_tasks(partition, depth)[len(known) :]
    with work.reader.open() as reading:
        reading.others(partition, advance)
        sizes = tuple(map(reading.unread_bytes, tasks))
        is_large = sum(sizes) > (SPLIT_BYTES if work.split_bytes is None else work.split_bytes)
        if is_large and work.split is not None and len(tasks) >= work.split:
            split = Split(partition, context, tasks, sizes, len(known), work.reader)
            return Outcome(split, made=reading.finish())
        course = Course(partition, context, depth.now_ms, known, keep if work.wants_lines else None)
        for task in tasks:
            course.checker.begin(task.segment)
            course.end(reading.check(task, course.checker, advance))
        verdict = finished(course.checker, partition, depth, advance)
        return Outcome(verdict, course.skipped_bytes, made=reading.finish())


def finished(
    checker: PartitionChecker, partition: Partition, depth: Depth, advance: Callable[[int], None]
) -> PartitionVerdict:
    """The verdict of a partition whose segments are checked, with what is wrong in its other logs.

    Those are finished replacements, which a broker puts in the place of segments at its next start, whatever is in
    them, and snapshots of the metadata log.
    """
    verdict = checker.finish(lambda: advance(0))
    replacements = Replacements(partition, verdict.segments, is_whole=checker.is_whole)
    findings: list[Finding] = []
    for segment in _other_logs(partition):
        task = segment_task(partition, segment, depth, is_last=False)
        other = check_segment(task, NO_CHAIN, advance)
        findings += replacements.findings(other) if segment.state is SegmentState.SWAP else other.findings
    return replace(verdict, findings=(*replacements.mended(verdict.findings), *findings)) if findings else verdict


def _other_logs(partition: Partition) -> Iterator[Segment]:
    for segment in partition.other_segments:
        if segment.state is SegmentState.SWAP and segment.log is not None:
            yield segment
    for file in partition.kraft_snapshots:
        if file.name.state is FileState.LIVE:  # its batches count from 0, whatever the number in its name
            yield Segment(base_offset=0, state=SegmentState.CLOSED, log=file)


def check_segments(
    tasks: Sequence[SegmentTask], reader: Reader, scratch: str | None, advance: Callable[[int], None]
) -> Segments:
    """Check some segments for the process that puts their partition together."""
    results = []
    with reader.open() as reading:
        for task in tasks:
            with Spool(scratch) as spool:
                verdict = reading.check(task, spool, advance)
                results.append(SegmentResult(verdict, spool.spooled()))
        return Segments(tuple(results), reading.finish())


def segment_tasks(partition: Partition, depth: Depth) -> tuple[SegmentTask, ...]:
    """One task for each live segment, in the order of their base offsets."""
    last = len(partition.segments) - 1
    return tuple(
        segment_task(partition, segment, depth, is_last=index == last)
        for index, segment in enumerate(partition.segments)
    )


def segment_task(partition: Partition, segment: Segment, depth: Depth, *, is_last: bool) -> SegmentTask:
    """The task for one segment."""
    return SegmentTask(
        segment=segment,
        topic=partition.topic,
        partition=partition.partition,
        is_v07=partition.format == "v07",
        is_last=is_last,
        level=depth.level,
        now_ms=depth.now_ms,
        max_batch_bytes=depth.max_batch_bytes,
    )
