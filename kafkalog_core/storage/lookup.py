"""Lookups in one partition: the record at an offset, a time or a byte, and what a fetch returns."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.storage.segment_lookup import BatchPlace, LookupColumns, RecordPlace, SegmentLookup, first_row_from
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from types import TracebackType

    from kafkalog_core.filters.expression import Filters
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.scan import Run

__all__ = ["Located", "PartitionLookup", "Slice", "floor_index"]


MAX_OPEN: Final = 8
"""Segments whose files are kept open: those of one search, and some of the last searches."""
_DEFAULT: Final = ScanOptions()


class Located(Struct, frozen=True):
    """`batch` is where a fetch of the offset starts, `record` the first one from it on; None: there is none after it.

    The record is in a later batch if compaction has emptied the end of the first.
    """

    batch: BatchPlace
    record: RecordPlace | None


class Slice(Struct, frozen=True):
    """What a fetch returns of one log file: `size_bytes` from `position` on.

    `asked` are the sizes that were tried, in order; `is_too_large`: none of them holds the first batch.
    """

    segment: Segment
    position: int
    size_bytes: int
    asked: tuple[int, ...]
    is_too_large: bool = False


def floor_index(bases: Sequence[int], offset: int) -> tuple[int | None, list[int]]:
    """Return the last of ascending base offsets not above the offset, None: there is none; and those compared."""
    low, high, compared = 0, len(bases), []
    while low < high:
        middle = (low + high) // 2
        compared.append(bases[middle])
        if bases[middle] <= offset:
            low = middle + 1
        else:
            high = middle
    return (low - 1 if low else None), compared


class PartitionLookup:
    """Lookups in one partition, whose segments do not change; a context manager that closes their files.

    Args:
        segments: those that a broker reads, by base offset, each with a log file.
        is_v07: whether they are of Kafka 0.7, whose offsets are byte addresses.
        log_start_offset: as checkpointed; the first base offset if that is higher.
        has_warm_section: whether indexes are searched as since 2.1.
        is_based: whether the names of the files hold base offsets; without them indexes are of no use.
        options: the largest batch that is read.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        *,
        is_v07: bool = False,
        log_start_offset: int | None = None,
        has_warm_section: bool = True,
        is_based: bool = True,
        options: ScanOptions = _DEFAULT,
    ) -> None:
        self.segments = tuple(segments)
        self.is_v07 = is_v07
        first_base = segments[0].base_offset if segments else 0
        # A start takes the larger of the checkpoint and the first base offset (LogLoader.load); the caller has done so.
        self.log_start_offset = first_base if log_start_offset is None else log_start_offset
        self._bases = [segment.base_offset for segment in self.segments]
        self._options = options
        self.has_warm_section = has_warm_section
        self._is_based = is_based
        self._open: dict[int, SegmentLookup] = {}
        self._columns = LookupColumns()
        self._log_end: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.require_same()
        finally:
            self.close()

    def require_same(self) -> None:
        """Raise ObjectReplacedError if an open file is an object that was replaced while it was read."""
        for opened in self._open.values():
            opened.require_same()

    def close(self) -> None:
        """Close all files."""
        for opened in self._open.values():
            opened.close()
        self._open.clear()

    def segment(self, index: int) -> SegmentLookup:
        """Return one segment with its files open, until some others are asked for. Raises StorageError."""
        opened = self._open.pop(index, None)
        if opened is None:
            # Least recently used first.
            while len(self._open) >= MAX_OPEN:
                oldest = self._open.pop(next(iter(self._open)))
                try:
                    oldest.require_same()
                finally:
                    oldest.close()
            opened = SegmentLookup(
                self.segments[index],
                self._columns,
                is_v07=self.is_v07,
                options=self._options,
                has_warm_section=self.has_warm_section,
                is_based=self._is_based,
            )
        # The last one used is the last to be closed
        self._open[index] = opened
        return opened

    def segment_of(self, batch: BatchPlace) -> SegmentLookup:
        """Return the segment that holds a batch that was found here."""
        return self.segment(self.segments.index(batch.segment))

    # --- offsets ------------------------------------------------------------------------------------------------------
    def find_offset(self, offset: int, trace: Trace | None = None) -> Located | None:
        """Return where reading from an offset starts, and the first record from it on; None: there is none.

        It does not check whether the offset is in the range of the log. Raises StorageError.
        """
        trace = Trace() if trace is None else trace
        index, compared = floor_index(self._bases, offset)
        index = 0 if index is None else index
        if not self.segments:
            return None
        name = self._name(index)
        text = f"{name}, the last of {count_of(len(self._bases), 'segment')} whose base offset is not above {offset}"
        trace.add("segment", text, segment=name, segments=len(self._bases), compared=compared)
        located: Located | None = None
        # LocalLog.read continues with the next segment if the rest of this one holds no batch from the offset on.
        for number in range(index, len(self.segments)):
            if number > index:
                trace.add(
                    "segment", f"continues with the next segment, {self._name(number)}", segment=self._name(number)
                )
            here = self._first_from(number, offset, trace)
            # A fetch starts at the first batch that reaches the offset, also if compaction left no record in it.
            located = here if located is None or here is None else Located(located.batch, here.record)
            if here is not None and here.record is not None:
                break
        is_exact = located is not None and located.record is not None and located.record.offset == offset
        if not is_exact and not self.is_v07:
            return self._overlapped(index, offset, trace) or located
        return located

    def _overlapped(self, index: int, offset: int, trace: Trace) -> Located | None:
        """Return what the segments before this number hold of the offset or after it; None: nothing.

        Such segments overlap, which no broker leaves on disk; it never looks there.
        """
        located = None
        for number in range(index - 1, -1, -1):
            look = Trace()
            here = self._first_from(number, offset, look)
            if here is None or here.record is None:
                break
            trace.take(look)
            trace.has_overlap = True
            trace.add("segment", f"{self._name(number)} reaches into the segments after it", segment=self._name(number))
            located = here
        return located

    def _first_from(self, number: int, offset: int, trace: Trace) -> Located | None:
        """Return the first batch of one segment that reaches an offset, and its first record from the offset on."""
        first: BatchPlace | None = None
        with closing(self._rows_from(number, offset, trace)) as rows:
            for lookup, run, row in rows:
                first = first or BatchPlace.of(lookup.segment, run, row)
                record = next((one for one in lookup.records(run, row, trace) if one.offset >= offset), None)
                if record is not None:
                    return Located(first, record)
        return None if first is None else Located(first, None)

    def _rows_from(
        self, number: int, offset: int, trace: Trace
    ) -> Generator[tuple[SegmentLookup, Run, int], None, None]:
        """Yield the batches of one segment that end at the offset or after it."""
        lookup = self.segment(number)
        start = self._start_v07(lookup, offset) if self.is_v07 else lookup.start_for_offset(offset, trace)
        with _Scanned(lookup, start, trace) as scanned:
            for run in lookup.runs(start, trace):
                for row in range(first_row_from(run, offset), run.batches.count):
                    scanned.reached(run, row)
                    yield lookup, run, row
                scanned.reached(run, run.batches.count - 1)

    def _start_v07(self, lookup: SegmentLookup, address: int) -> int:
        """Return the position of an address of 0.7; if no whole message starts there, the start of the file."""
        position = address - lookup.segment.base_offset
        # An address of 0.7 is a byte; within a message it would be read as garbage.
        return position if 0 < position < lookup.source.size_bytes and lookup.is_whole_at(position) else 0

    # --- times --------------------------------------------------------------------------------------------------------
    def find_time(self, time_ms: int, trace: Trace | None = None) -> RecordPlace | None:
        """Return the first record whose timestamp is not below the time; None: there is none.

        Records below the log start offset and those without a timestamp do not count. Raises StorageError.
        """
        trace = Trace() if trace is None else trace
        if self.is_v07:
            trace.add("format", "records of Kafka 0.7 have no timestamps")
            return None
        # UnifiedLog.fetchOffsetByTimestamp looks into segments from the log start on.
        first, _ = floor_index(self._bases, self.log_start_offset)
        for number in range(first or 0, len(self.segments)):
            lookup, name = self.segment(number), self._name(number)
            trace.add("segment", f"segment {name}, number {number + 1} of {len(self._bases)}", segment=name)
            start = lookup.start_for_time(time_ms, self.log_start_offset, trace)
            # Negative times are answered as 0, since a missing timestamp is -1.
            found = self._first_in_time(lookup, start, max(time_ms, 0), trace)
            if found is not None:
                return found
        return None

    def end_at(self, time_ms: int) -> int | None:
        """Return where the log ended at a time: at its first batch with a later timestamp; None: there is none.

        A broker appends a batch as a whole, after the timestamps that its producer gave the records. Raises
        StorageError.
        """
        found = self.find_time(time_ms + 1)
        if found is None or found.batch.base_offset is not None:
            return None if found is None else found.batch.base_offset
        segment = self.segment(self.segments.index(found.batch.segment))
        for run in segment.runs(found.batch.position, Trace()):
            return min(record.offset for record in segment.records(run, 0, None))
        return found.offset

    def _first_in_time(self, lookup: SegmentLookup, start: int, time_ms: int, trace: Trace) -> RecordPlace | None:
        """Return the first record of one segment that is late enough, from a position on."""
        with _Scanned(lookup, start, trace) as scanned:
            for run in lookup.runs(start, trace):
                trace.has_times |= max(run.batches.column("max_timestamp_ms")) >= 0
                record = lookup.first_late_record(run, time_ms, self.log_start_offset, trace)
                if record is not None:
                    scanned.reached(run, run.batches.column("position").tolist().index(record.batch.position))
                    return record
                scanned.reached(run, run.batches.count - 1)
        return None

    # --- content ------------------------------------------------------------------------------------------------------
    def find_match(self, start: RecordPlace, filters: Filters, trace: Trace) -> RecordPlace | None:
        """Return the first record, from one on, whose content an expression selects; None: there is none.

        Raises StorageError.
        """
        first = self.segments.index(start.batch.segment)
        for number in range(first, len(self.segments)):
            lookup, position = self.segment(number), start.batch.position if number == first else 0
            with _Scanned(lookup, position, trace) as scanned:
                for run in lookup.runs(position, trace):
                    found = lookup.first_match(run, filters, start.offset, trace)
                    if found is not None:
                        scanned.reached(run, run.batches.column("position").tolist().index(found.batch.position))
                        return found
                    scanned.reached(run, run.batches.count - 1)
        return None

    # --- both ends ----------------------------------------------------------------------------------------------------
    def log_end(self, trace: Trace) -> tuple[int, int]:
        """Return the log end offset, and the position in the last segment after its last whole batch."""
        if self._log_end is None:
            self._log_end = self._find_log_end(trace)
        return self._log_end

    def _find_log_end(self, trace: Trace) -> tuple[int, int]:
        if not self.segments:
            return self.log_start_offset, 0
        number = len(self.segments) - 1
        lookup = self.segment(number)
        offset, position = lookup.segment.base_offset, 0
        has_reached = self.is_v07
        start = 0 if self.is_v07 else lookup.start_for_end(trace)
        with _Scanned(lookup, start, trace) as scanned:
            for run in lookup.runs(start, trace):
                last = run.batches.count - 1
                scanned.reached(run, last)
                position = run.batches.column("position")[last] + run.batches.column("size_bytes")[last]
                last_offset = run.batches.column("last_offset")[last]

                has_reached = has_reached or max(run.batches.column("last_offset")) >= lookup.segment.base_offset
                if has_reached:
                    offset = last_offset if self.is_v07 else last_offset + 1
        trace.add("end", f"the log ends at offset {offset}, byte {position} of {self._name(number)}", offset=offset)
        return offset, position

    def batch_at(self, index: int, position: int, trace: Trace) -> Located | None:
        """Return the batch that holds a byte of a segment's log, and its first record; None: there is none."""
        lookup = self.segment(index)
        start = lookup.start_for_position(position, trace)
        with _Scanned(lookup, start, trace) as scanned:
            for run in lookup.runs(start, trace):
                for row in range(run.batches.count):
                    batch = BatchPlace.of(lookup.segment, run, row)
                    scanned.reached(run, row)
                    if batch.position > position:
                        return None
                    if position < batch.position + batch.size_bytes:
                        return Located(batch, next(lookup.records(run, row, trace), None))
        return None

    # --- fetches ------------------------------------------------------------------------------------------------------
    def fetch(
        self, batch: BatchPlace, size_bytes: int, *, max_bytes: int, has_whole_first: bool, trace: Trace
    ) -> Slice:
        """Return what a fetch of a size returns that starts at a batch.

        Args:
            batch: where it starts, from `find_offset`.
            size_bytes: the size that is asked for.
            max_bytes: a client of 0.8 to 0.10.0 doubles `size_bytes` up to this for a batch that is larger.
            has_whole_first: since 0.10.1 the first batch is returned whole, however large it is.
            trace: receives what was tried.
        """
        number = self.segments.index(batch.segment)
        end = self.segment(number).source.size_bytes
        if number == len(self.segments) - 1:
            # The end of the last whole batch: a torn tail is not served.
            end = max(self.log_end(trace)[1], batch.position + batch.size_bytes)
        asked = [size_bytes]
        if has_whole_first:
            # KIP-74: the first batch is returned whole.
            asked = [max(size_bytes, batch.size_bytes)]
        else:
            # Clients of 0.8 to 0.10.0 cannot read a message larger than the fetch size, and double it.
            while asked[-1] < batch.size_bytes and asked[-1] * 2 <= max_bytes:
                asked.append(asked[-1] * 2)
        size = min(asked[-1], end - batch.position)
        trace.add("fetch", f"{size} bytes from byte {batch.position} on", sizes=list(asked), end=end)
        return Slice(batch.segment, batch.position, size, tuple(asked), is_too_large=size < batch.size_bytes)

    def _name(self, index: int) -> str:
        log = self.segments[index].log
        return "" if log is None else log.name.raw


class _Scanned:
    """Counts what one scan reads, and adds it to the steps at its end."""

    def __init__(self, lookup: SegmentLookup, start: int, trace: Trace) -> None:
        self._name = lookup.path.rpartition("/")[2]
        self._start = self._end = start
        self._batches = 0
        self._row = -1
        self._run_start = -1
        self._trace = trace

    def __enter__(self) -> Self:
        return self

    def reached(self, run: Run, row: int) -> None:
        """Note that the scan has looked at this row and all before it."""
        positions = run.batches.column("position")
        if positions[0] != self._run_start:
            self._run_start, self._row = positions[0], -1
        self._batches += max(0, row - self._row)
        self._row = max(row, self._row)
        self._end = max(self._end, positions[row] + run.batches.column("size_bytes")[row])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        size = self._end - self._start
        self._trace.scanned_bytes += size
        self._trace.scanned_files.add(self._name)
        text = f"{self._name} read from byte {self._start} on: {size} bytes, {count_of(self._batches, 'batch')}"
        self._trace.add("scan", text, position=self._start, size_bytes=size, batches=self._batches)
