"""The check of one segment by itself, in any process: one scan of its log, which feeds every check."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.catalog import SHOWN, Sink
from kafkalog_core.findings.logs import DAMAGE_CODES, ZERO_TAIL
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.format.names import CHECKPOINT_KINDS, LOG_KINDS, SEGMENT_KINDS, FileKind
from kafkalog_core.kafka.rules.batch_checks import BatchCheck, RecordCheck
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.sim.batch_places import PlaceBounds, PlaceWatch, is_of_header, misplaced_batches
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_epochs, read_offsets, read_properties
from kafkalog_core.ops.verify.indexes import OffsetIndexCheck, TimeIndexCheck
from kafkalog_core.ops.verify.request import NO_CHAIN, Reader, SegmentCheck
from kafkalog_core.ops.verify.txn_index import check_snapshot
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict, SegmentVerdict, Spans
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.listing import Segment, SegmentState
from kafkalog_core.storage.locks import is_being_written
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import (
    REST_MISSING,
    Damage,
    Run,
    ScanOptions,
    scan,
)
from kafkalog_core.storage.source import CHANGE_CODES, FileChange, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from kafkalog_core.engine.targets import FileTarget
    from kafkalog_core.findings import Finding
    from kafkalog_core.format.columns import DamageColumns
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.ops.verify.request import Chain, Check, Depth, Watch
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition

__all__ = ["FILE_CUT", "SCANS", "FramingCheck", "PlaceCheck", "check_file", "check_segment"]


_PLACE: Final = ("position", "size_bytes", "base_offset", "last_offset")


def check_segment(
    task: SegmentCheck, chain: Chain, advance: Callable[[int], None], watch: Watch | None = None
) -> SegmentVerdict:
    """Check everything that a segment shows by itself.

    A file that cannot be opened or read is a finding, never an exception.

    Args:
        task: the segment.
        chain: takes the batches that have a producer.
        advance: called with the bytes of log that were read.
        watch: sees the whole scan; None: there is no observer.
    """
    sink = Sink(task.topic, task.partition)
    log = task.segment.log
    if log is None:
        raise AssertionError("a segment without a log is not a task")
    checker = _SegmentChecker(task, sink, chain, watch)
    try:
        with Source.open(log.path) as source:
            if task.level == "files":
                checker.stop()
            else:
                checker.scan(source, advance)
    except StorageError as error:
        sink.add(code_of_error(error), log.path, reason=error.message)
        checker.stop()
    return checker.verdict(log)


class _SegmentChecker:
    def __init__(self, task: SegmentCheck, sink: Sink, chain: Chain, watch: Watch | None) -> None:
        self._task = task
        self._sink = sink
        self._chain = chain
        self._watch = watch
        self._batches = BatchCheck(task.log, sink)
        self._framing = FramingCheck(task, sink)
        self._places = PlaceCheck(task, sink)
        self._checks: list[Check] = [self._batches, self._places]
        # 0.7 has no indexes.
        if not task.is_v07:
            self._checks += [OffsetIndexCheck(task, sink), TimeIndexCheck(task, sink)]
        self._records = RecordCheck(task.log, sink) if task.level == "records" else None
        if self._records is not None:
            self._checks.append(self._records)
        self._damage = Spans()
        self._lost_offsets = Spans()
        self._lost_from: int | None = None
        self._is_unread = False

    def scan(self, source: Source, advance: Callable[[int], None]) -> None:
        """Read the log to its end."""
        task = self._task
        options = ScanOptions(
            max_batch_bytes=task.max_batch_bytes, check=task.level != "headers", resync=True, bulk_after=SHOWN
        )
        data_end = 0
        for item in scan(source, base_offset=task.segment.base_offset, is_v07=task.is_v07, options=options):
            if isinstance(item, Run):
                data_end = item.end or data_end
                if item.damaged is None:
                    self._framing.run(item)
                    self._run(item)
                else:
                    self._framing.bulk(item, item.damaged)
                    self._bulk(item, item.damaged)
                advance(_bytes_of(item))
                continue
            if _is_unfinished(item, source):
                continue
            self._framing.damage(item)
            if self._watch is not None:
                self._watch.damage(item)
            self._add_damage(item)
            advance(item.size_bytes)
        if self._lost_from is not None:
            self._lost_offsets.add(self._lost_from, MAX_INT64)
        for check in (self._framing, *self._checks):
            check.finish(source.size_bytes)
        # After the scan: what changed meanwhile may be the cause of what was found.
        change = source.refresh(data_end=data_end)
        if change is not FileChange.NONE:
            self._sink.add(CHANGE_CODES[change], source.path)

    def stop(self) -> None:
        """Stop: the rest of the log is not read, and nothing may be concluded from it."""
        self._is_unread = True
        # Transactions that began before may have ended in what was not read.
        self._chain.hole()
        self._lost_offsets.add(self._task.segment.base_offset, MAX_INT64)

    def _run(self, run: Run, holes: Sequence[int] = ()) -> None:
        """Check whole batches; before those in rows `holes` something is damaged."""
        # The first offset after the damage bounds what it has lost.
        if self._lost_from is not None:
            base, last = run.batches.column("base_offset")[0], run.batches.column("last_offset")[0]
            self._lost_offsets.add(self._lost_from, (last if base < 0 else base) - 1)
            self._lost_from = None
        for check in self._checks:
            check.run(run)
        if self._watch is not None:
            self._watch.run(run)
        # Most logs have no producers with ids: their batches need no replay.
        if not self._task.is_v07 and self._batches.has_producers:
            markers = markers_of(run.memory, run.batches, max_bytes=self._task.max_batch_bytes)
            self._chain.replay(run.batches, markers, holes)

    def _bulk(self, run: Run, damaged: DamageColumns) -> None:
        """Take whole batches with damaged ones before, between and after them."""
        if self._watch is not None:
            self._watch.bulk(damaged)
        batches = run.batches
        rows, sizes = damaged.column("row"), damaged.column("size_bytes")
        holes = [row for row, size in zip(rows, sizes, strict=True) if size]
        if holes and (not batches.count or holes[0] == 0):
            self._add_damage(_joined(damaged, 0, holes.count(0)))
        if not batches.count:
            return
        between = [row for row in dict.fromkeys(holes) if 0 < row < batches.count]
        self._run(run, between)
        positions, lengths, bases, lasts = map(batches.column, _PLACE)
        for row in between:
            self._damage.add(positions[row - 1] + lengths[row - 1], positions[row] - 1)
            base = bases[row]
            self._lost_offsets.add(lasts[row - 1] + 1, (lasts[row] if base < 0 else base) - 1)
        if holes and holes[-1] == batches.count:
            self._add_damage(_joined(damaged, damaged.count - holes.count(batches.count), damaged.count))

    def _add_damage(self, damage: Damage) -> None:
        for check in self._checks:
            check.damage(damage)
        if not damage.size_bytes:
            return
        self._chain.hole()
        # From the first of several places in a row.
        if self._lost_from is None:
            self._lost_from = self._task.segment.base_offset if damage.next_offset is None else damage.next_offset
        self._damage.add(damage.position, damage.position + damage.size_bytes - 1)

    def _last_offset(self, of_last_batch: int | None) -> int | None:
        """Return the last offset of the segment; of a misplaced batch only where a broker ends the log after it."""
        right = self._places.last_offset
        if right is None or (self._task.is_last and of_last_batch is not None and of_last_batch > right):
            return of_last_batch
        return right

    def verdict(self, log: FileInfo) -> SegmentVerdict:
        """Return the verdict from what was read."""
        figures = self._batches.figures
        opened = self._records  # has what the headers of compressed messages do not show
        wrapped_records, first_offset = (opened.wrapped_records, opened.first_offset) if opened else (0, None)
        damage = tuple((first, last - first + 1) for first, last in self._damage.spans)
        gaps = (*figures.gaps, opened.first_gap) if opened and opened.first_gap else figures.gaps
        return SegmentVerdict(
            path=log.path,
            base_offset=self._task.segment.base_offset,
            size_bytes=log.size_bytes,
            is_last=self._task.is_last,
            mtime_ms=log.mtime_ns // 1_000_000,
            batches=figures.batches,
            records=figures.records + wrapped_records,
            first_offset=first_offset if figures.first_offset is None else figures.first_offset,
            last_offset=self._last_offset(figures.last_offset),
            first_timestamp_ms=figures.first_timestamp_ms,
            max_timestamp_ms=figures.max_timestamp_ms,
            formats=figures.formats,
            epochs=tuple(each for each in figures.epochs if each.position not in self._places.of_wrong_epoch),
            is_thinned=figures.is_thinned or (opened is not None and opened.is_thinned),
            gaps=gaps,
            gap_count=figures.gap_count + (opened.gap_count if opened else 0),
            damage=damage,
            lost_offsets=self._lost_offsets.spans,
            findings=self._sink.findings,
            damage_joined=self._damage.more,
            whole_between=self._damage.between,
            epoch_behind=figures.epoch_behind,
            is_unread=self._is_unread,
            unopened_batches=0 if opened else figures.batches,
            uncounted_batches=figures.uncounted,
        )


def _bytes_of(run: Run) -> int:
    """Return how many bytes of the file a run covers."""
    places = [columns for columns in (run.batches, run.damaged) if columns is not None and columns.count]
    first = min(columns.column("position")[0] for columns in places)
    return max(columns.column("position")[-1] + columns.column("size_bytes")[-1] for columns in places) - first


def _joined(damaged: DamageColumns, first: int, last: int) -> Damage:
    """Return adjacent damaged entries as one damage."""
    position = damaged.column("position")
    size_bytes = position[last - 1] + damaged.column("size_bytes")[last - 1] - position[first]
    return Damage(position[first], size_bytes, "crc-mismatch", "", damaged.column("previous_offset")[first] + 1)


def _is_unfinished(damage: Damage, source: Source) -> bool:
    """Return whether the file ended within a batch because a broker was writing it."""
    if damage.reason == "torn-tail":
        return is_being_written(source, damage.position)
    is_tail = damage.size_bytes > 0 and damage.position + damage.size_bytes >= source.size_bytes
    return is_tail and source.refresh() is FileChange.GREW


class _Scans:
    """The reader and the reading that scan every segment, and keep nothing."""

    def open(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: no file is open."""

    def unchanged(self, partition: Partition, context: PartitionContext) -> None:
        """Return None: no earlier run is known."""

    def unread_bytes(self, task: SegmentCheck) -> int:
        return 0 if task.level == "files" else task.segment.size_bytes

    def check(self, task: SegmentCheck, chain: Chain, advance: Callable[[int], None]) -> SegmentVerdict:
        return check_segment(task, chain, advance)

    def others(self, partition: Partition, advance: Callable[[int], None]) -> None:
        """Ignore the other segments: the check of the partition reads those that count."""

    def finish(self, verdict: PartitionVerdict | None = None) -> None:
        """Return None: nothing was kept."""


SCANS: Final[Reader] = _Scans()


_PROPERTY_KINDS: Final = frozenset(
    {FileKind.META_PROPERTIES, FileKind.PARTITION_METADATA, FileKind.CLEAN_SHUTDOWN, FileKind.QUORUM_STATE}
)


def check_file(target: FileTarget, depth: Depth, advance: Callable[[int], None]) -> PartitionVerdict | PlaceVerdict:
    """Check one file. Raises StorageError where it cannot be opened."""
    kind = target.kind
    if kind in LOG_KINDS or kind in SEGMENT_KINDS - {FileKind.SNAPSHOT}:
        segment, is_last = _segment_of(target)
        if segment.log is not None:
            return _segment_verdict(target, segment, depth, advance, is_last=is_last)
    if kind is FileKind.KRAFT_SNAPSHOT:
        segment = Segment(base_offset=0, state=SegmentState.CLOSED, log=target.file)
        return _segment_verdict(target, segment, depth, advance, is_last=True)
    return PlaceVerdict(path=target.path, findings=_small_file(target, lambda: advance(0)))


def _segment_of(target: FileTarget) -> tuple[Segment, bool]:
    """Return the segment of a file, and whether it is the last one; a single log is a segment by itself."""
    try:
        # A directory that cannot be listed does not keep a file from being checked by itself.
        partition = read_partition(os.path.dirname(target.path) or ".")
    except StorageError:
        partition = None
    if partition is not None:
        for segment in (*partition.segments, *partition.other_segments):
            if any(os.path.basename(file.path) == os.path.basename(target.path) for file in segment.files):
                return segment, segment is partition.segments[-1] if partition.segments else True
    log = target.file if target.kind in LOG_KINDS else None
    return Segment(base_offset=target.file.name.base_offset or 0, state=SegmentState.UNREAD, log=log), True


def _segment_verdict(
    target: FileTarget, segment: Segment, depth: Depth, advance: Callable[[int], None], *, is_last: bool
) -> PartitionVerdict:
    task = SegmentCheck(
        segment=segment,
        topic=target.topic,
        partition=target.partition,
        is_v07=segment.log is not None and segment.log.name.kind is FileKind.LOG_V07,
        is_last=is_last,
        level=depth.level,
        now_ms=depth.now_ms,
        max_batch_bytes=depth.max_batch_bytes,
    )
    verdict = check_segment(task, NO_CHAIN, advance)
    return PartitionVerdict(
        path=target.path,
        topic=target.topic,
        partition=target.partition,
        segments=(verdict,),
        findings=verdict.findings,
        log_start_offset=verdict.first_offset,
        log_end_offset=None if verdict.last_offset is None else verdict.last_offset + 1,
        at_risk_bytes=None,
    )


def _small_file(target: FileTarget, look: Callable[[], None]) -> tuple[Finding, ...]:
    file = EntryFile(path=target.path, kind=target.kind, topic=target.topic, partition=target.partition)
    if target.kind is FileKind.SNAPSHOT:
        sink = Sink(target.topic, target.partition)
        check_snapshot(target.path, target.file.name.base_offset, None, 0, sink, sink)
        return sink.findings
    if target.kind is FileKind.LEADER_EPOCH:
        return read_epochs(file, look).findings
    if target.kind in CHECKPOINT_KINDS:
        offsets = read_offsets(target.path, target.kind)
        return () if offsets is None else offsets.findings
    if target.kind in _PROPERTY_KINDS:
        properties = read_properties(file)
        return () if properties is None else properties.findings
    return ()


FILE_CUT: Final = "the file was shortened (nothing is appended to a closed segment)"


_TAILS: Final = frozenset({"torn-tail", "zero-filled"})
"""Reasons of damage that depend on whether it is at the end of the file."""


class PlaceCheck:
    """The findings of batches that are not where their headers say. They come last: the whole segment shows them.

    After `finish`, `last_offset` is the last offset of the batches that are right (None: all are, or none is), and
    `of_wrong_epoch` has the positions of those with a wrong leader epoch.
    """

    def __init__(self, task: SegmentCheck, sink: Sink) -> None:
        self._task = task
        self._sink = sink
        self._bounds = task.bounds or PlaceBounds(base_offset=task.segment.base_offset)
        self._watch = PlaceWatch(self._bounds)
        self.last_offset: int | None = None
        self.of_wrong_epoch: set[int] = set()

    def run(self, run: Run) -> None:
        """Look at whole batches."""
        # Offsets that go back are the first sign of a batch in the wrong place.
        if run.damaged is not None and not all(run.damaged.column("size_bytes")):
            self._watch.suspect()
        self._watch.run(run.batches)

    def damage(self, damage: Damage) -> None:
        """Look at damage: where its size is 0, offsets go back."""
        self._watch.damage(damage)

    def finish(self, size_bytes: int) -> None:
        """Report the batches, if there may be any."""
        del size_bytes
        task = self._task
        # A second scan, which most segments never need.
        if not self._watch.is_suspicious or task.is_v07 or task.segment.log is None:
            return
        options = ScanOptions(max_batch_bytes=task.max_batch_bytes, check=task.level != "headers", resync=True)
        path = task.segment.log.path
        with Source.open(path) as source:
            found = misplaced_batches(source, self._bounds, options, self._wrong(path))
        self.last_offset = found.last_offset
        for each in (*found.batches, *([] if found.renamed is None else [found.renamed])):
            position, size = each.position, each.size_bytes
            if each.fault == "offset":
                self._sink.add(
                    "batch.offset-order",
                    path,
                    position=position,
                    size_bytes=size,
                    offset=each.expected_offset,
                    detail=each.detail,
                )
                continue
            self.of_wrong_epoch.add(position)
            where, other = each.epoch_beside
            self._sink.add(
                "batch.epoch-back",
                path,
                position=position,
                size_bytes=size,
                offset=each.first_offset,
                epoch=each.leader_epoch,
                where=where,
                beside=other,
            )

    def _wrong(self, path: str) -> set[int]:
        """Return the positions of the batches that other checks have called errors."""
        return {
            each.position
            for each in self._sink.findings
            if each.position is not None and each.path == path and each.severity == "error"
            if is_of_header(each.code)
        }


class FramingCheck:
    """The findings of damaged places. They wait for the next batch, which shows what offsets are lost in them.

    A broker's action depends on what is around the segment: the caller that knows it finds the reason of a code in
    `findings.logs.DAMAGE_REASONS`.
    """

    def __init__(self, task: SegmentCheck, sink: Sink) -> None:
        self._task = task
        self._sink = sink
        self._path = "" if task.segment.log is None else task.segment.log.path
        self._waiting: list[Damage] = []
        self._waiting_of: Counter[str] = Counter()
        self._waiting_more = 0
        self._more: Counter[str] = Counter()

    def run(self, run: Run) -> None:
        """Report the damage before this run: it ends at the first offset of the run."""
        batches = run.batches
        if self._waiting:
            first = batches.column("base_offset")[0]
            if first < 0:  # a compressed message: only its content has its first offset
                self._put(f", up to those of the compressed message that ends with {batches.column('last_offset')[0]}")
            else:
                self._put(None, first)

    def bulk(self, run: Run, damaged: DamageColumns) -> None:
        """Count damaged places that are not shown any more, and take the whole batches between them."""
        sizes, rows, count = damaged.column("size_bytes").tolist(), damaged.column("row").tolist(), run.batches.count
        orders = sizes.count(0)
        self._more["crc-mismatch"] += len(sizes) - orders
        self._waiting_more += rows.count(0)
        if count:
            self.run(run)
            self._waiting_more = sum(row == count and size > 0 for row, size in zip(rows, sizes, strict=True))

    def damage(self, damage: Damage) -> None:
        """Take one damaged place; `PlaceCheck` reports offsets that go back."""
        if damage.size_bytes:
            self._wait(damage)

    def finish(self, size_bytes: int) -> None:
        """Report the damage at the end of the file, after which no batch comes."""
        del size_bytes
        if self._waiting:
            self._put("")
        for reason, count in self._more.items():
            if count:
                self._sink.count_more(DAMAGE_CODES[reason], self._path, count)

    def _wait(self, damage: Damage) -> None:
        """Keep as many of one reason as are shown, and count the others."""
        if damage.reason not in _TAILS and self._waiting_of[damage.reason] >= SHOWN:
            self._waiting_more += 1
            self._more[damage.reason] += 1
            return
        self._waiting_of[damage.reason] += 1
        self._waiting.append(damage)

    def _put(self, open_end: str | None, behind: int | None = None) -> None:
        """Report the damage that waits, up to the offset of the next batch, or with `open_end` if there is none."""
        waiting, self._waiting = self._waiting, []
        count, self._waiting_more = len(waiting) + self._waiting_more, 0
        self._waiting_of.clear()
        lost = _lost(waiting[0].next_offset, behind, open_end)
        if lost and count > 1:
            lost += f" (these are {count} damaged places in a row)"
        for damage in waiting:
            self._sink.put(self._finding(damage, lost))

    def _finding(self, damage: Damage, lost: str) -> Finding:
        task = self._task
        code = ZERO_TAIL if damage.is_zeros else DAMAGE_CODES[damage.reason]
        return found(
            code,
            self._path,
            topic=task.topic,
            partition=task.partition,
            position=damage.position,
            size_bytes=damage.size_bytes,
            offset=damage.next_offset,
            severity=None if task.is_last or code != ZERO_TAIL else "error",
            end=damage.position + damage.size_bytes - 1,
            detail=damage.detail if task.is_last else damage.detail.replace(REST_MISSING, FILE_CUT),
            lost=lost,
        )


def _lost(first: int | None, behind: int | None, open_end: str | None) -> str:
    """Return which offsets are lost from `first` on, as the end of a sentence."""
    if first is None:
        return ""
    if behind is None:
        return f"; nothing of offset {first} and above can be read here{open_end}"
    if behind <= first:
        return "; no offsets are missing here"
    if behind == first + 1:
        return f"; nothing of offset {first} can be read"
    return f"; nothing of offsets {first} to {behind - 1} can be read"
