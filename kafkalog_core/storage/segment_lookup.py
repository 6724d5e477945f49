"""Lookups in one segment: Kafka's binary search over its indexes, where to start reading, and reading.

An index entry is used only if the log agrees with it. Entries are searched as a broker does
(`AbstractIndex.indexSlotRangeFor`): first whether the key is in the warm section, the last 8192 bytes of entries, then
in that part or in the rest. Releases before 2.1 search all entries at once.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.filters.rows import content_marks, range_marks
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns, RecordColumns
from kafkalog_core.format.decode import PayloadDamage, decode_batch, decode_run
from kafkalog_core.format.index import split_size
from kafkalog_core.format.layout import DISK_BLOCK_BYTES, MAGIC_V0, MAX_INT32, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source, UnreadableError
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.layout import Layout
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.lookup_trace import Trace

__all__ = [
    "FIRST_WINDOW_BYTES",
    "WARM_BYTES",
    "BatchPlace",
    "IndexPages",
    "IndexSearch",
    "LookupColumns",
    "RecordPlace",
    "SegmentLookup",
    "first_row_from",
]


WARM_BYTES: Final = 8192
"""Size of Kafka's warm section: at most three pages of 4 KiB, which every search in it reads."""


class IndexSearch(Struct):
    """One search: `lower` is the last slot whose key is not above the searched key; None: there is none.

    `upper` is the first slot whose key is not below it, or, as in Kafka, the slot after an equal key; None: there is
    none. `slots` are the slots that were read, in this order.
    """

    key: int
    lower: int | None = None
    upper: int | None = None
    slots: list[int] = field(default_factory=list)


class IndexPages:
    """The entries of one index file, read by pages of 4 KiB.

    A broker that opens the file takes all `capacity` entries as used. Zeros at its end, preallocated for later entries,
    are left out as soon as a search ends among them: `count` is the number of the others.
    """

    def __init__(self, source: Source, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._pages: dict[int, bytes] = {}
        self.path = source.path
        self.capacity, self.partial_bytes = split_size(layout, source.size_bytes)
        self.count = self.capacity

    @property
    def pages(self) -> list[int]:
        """Numbers of the pages that were read, in ascending order."""
        return sorted(self._pages)

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry as a broker reads it, even if it is zeros; None: there is none. Raises UnreadableError."""
        return self.entry(self.capacity - 1) if self.capacity else None

    def entry(self, slot: int) -> tuple[int, int]:
        """Return the two fields of one entry. Raises UnreadableError."""
        first, second = self._layout.struct.unpack(self._bytes(slot))
        return first, second

    def search(self, key: int, *, column: int = 0, has_warm_section: bool = True) -> IndexSearch:
        """Search the entries in use by one of their fields. Raises UnreadableError."""
        found = self.search_all(key, column=column, has_warm_section=has_warm_section)
        # AbstractIndex takes the whole file for entries when it opens it (length / entry size). Zeros end the used part
        # here.
        edge = found.upper if found.lower is None else found.lower
        if edge is None or any(self._bytes(edge)):
            return found
        self.count = self._used()
        slots = found.slots
        found = self._search(key, self.count, column, has_warm_section=has_warm_section)
        found.slots[:0] = [slot for slot in slots if slot not in found.slots]
        return found

    def search_all(self, key: int, *, column: int = 0, has_warm_section: bool = True) -> IndexSearch:
        """Search all entries, as a broker does that has just opened the file. Raises UnreadableError."""
        return self._search(key, self.capacity, column, has_warm_section=has_warm_section)

    def _search(self, key: int, count: int, column: int, *, has_warm_section: bool) -> IndexSearch:
        found = IndexSearch(key)
        if not count:
            return found
        # AbstractIndex.indexSlotRangeFor: the warm section if its first key is below the searched one, else the rest
        low, high = 0, count - 1
        # 8192 bytes: with 4096-byte pages a search touches the same three pages each time (KAFKA-6432).
        warm = max(0, high - WARM_BYTES // self._layout.size)
        if has_warm_section and self._key(warm, column, found) < key:
            low = warm
        elif self._key(0, column, found) > key:
            found.upper = 0
            return found
        elif has_warm_section:
            high = warm
        self._bisect(found, low, high, column)
        if found.upper is None and found.lower is not None and found.lower < count - 1:
            found.upper = found.lower + 1
        return found

    def _bisect(self, found: IndexSearch, low: int, high: int, column: int) -> None:
        # the key of `low` is not above the searched one, those after `high` are above it
        while low < high:
            middle = (low + high + 1) >> 1
            value = self._key(middle, column, found)
            if value > found.key:
                high = middle - 1
            elif value < found.key:
                low = middle
            else:
                found.lower = found.upper = middle
                return
        found.lower = low

    def _key(self, slot: int, column: int, found: IndexSearch) -> int:
        if slot not in found.slots:
            found.slots.append(slot)
        return self.entry(slot)[column]

    def _used(self) -> int:
        """Return the number of entries before the zeros at the end, by bisection.

        Entries ascend, so zeros can only be a tail.
        """
        low, high = 0, self.capacity - 1
        while low < high:  # entries before `low` are in use, those after `high` are zeros
            middle = (low + high) >> 1
            if any(self._bytes(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def _bytes(self, slot: int) -> bytes:
        size = self._layout.size
        start = slot * size
        page, at = divmod(start, DISK_BLOCK_BYTES)
        data = self._page(page)[at : at + size]
        # An entry of the time index may straddle two pages: 12 does not divide 4096.
        return data if len(data) == size else data + self._page(page + 1)[: size - len(data)]

    def _page(self, number: int) -> bytes:
        if number not in self._pages:
            self._pages[number] = self._source.read(number * DISK_BLOCK_BYTES, DISK_BLOCK_BYTES)
        return self._pages[number]


FIRST_WINDOW_BYTES: Final = 64 * 1024
_PROBED_ROWS: Final = 4


class BatchPlace(Struct, frozen=True):
    """One batch: its place and its offsets; `base_offset` is None for a compressed message of magic 0 and 1."""

    segment: Segment
    position: int
    size_bytes: int
    base_offset: int | None
    last_offset: int
    resynced: bool

    @classmethod
    def of(cls, segment: Segment, run: Run, row: int) -> BatchPlace:
        """Return it from a row of a scan."""
        columns = run.batches.row(row)
        base: int | None = columns["base_offset"]
        if columns["record_count"] < 0 and columns["format"] < 2:
            base = None
        last = base if columns["format"] == FORMAT_V07 and base is not None else columns["last_offset"]
        return cls(segment, columns["position"], columns["size_bytes"], base, last, run.resynced)

    @property
    def log_name(self) -> str:
        """Name of the log file that holds it."""
        return "" if self.segment.log is None else self.segment.log.name.raw


class RecordPlace(Struct, frozen=True):
    """One record and the batch that holds it; `timestamp_ms` is None if the format has none."""

    batch: BatchPlace
    offset: int
    timestamp_ms: int | None


def first_row_from(run: Run, offset: int) -> int:
    """Return the first row of a run that ends at the offset or after it; the number of rows if none does.

    Offsets ascend except for the last row of a run, which may go back.
    """
    is_v07 = run.batches.column("format")[0] == FORMAT_V07
    lasts = run.batches.column("base_offset" if is_v07 else "last_offset")
    # The last row may be the batch whose offsets go back.
    row = bisect_left(lasts, offset, 0, len(lasts) - 1)
    return row if lasts[row] >= offset else len(lasts)


class LookupColumns:
    """Columns that all lookups of one partition share: creating them costs more than a lookup."""

    def __init__(self) -> None:
        self.batches = BatchColumns()
        self.probed = BatchColumns(_PROBED_ROWS)
        self.records = RecordColumns()


class SegmentLookup:
    """One segment with its files open.

    Args:
        segment: the segment, with a log file.
        columns: filled by each lookup; runs and records that were returned before become invalid.
        is_v07: whether it is of Kafka 0.7.
        options: the largest batch that is read.
        has_warm_section: whether indexes are searched as since 2.1.
        is_based: whether the file's name holds its base offset; without it indexes are of no use.
    """

    def __init__(
        self,
        segment: Segment,
        columns: LookupColumns,
        *,
        is_v07: bool,
        options: ScanOptions,
        has_warm_section: bool,
        is_based: bool = True,
    ) -> None:
        if segment.log is None:
            raise StorageError("a segment without a log file")
        self.segment = segment
        self.path = segment.log.path
        self._is_v07 = is_v07
        self._is_based = is_based
        self._has_warm_section = has_warm_section
        # Resync: a look-up must find what is after damage too, where a broker would stop.
        self._options = ScanOptions(
            max_batch_bytes=options.max_batch_bytes, resync=True, first_window_bytes=FIRST_WINDOW_BYTES
        )
        self._probing = ScanOptions(
            max_batch_bytes=options.max_batch_bytes, resync=False, first_window_bytes=FIRST_WINDOW_BYTES
        )
        self._columns = columns
        self.source = Source.open(self.path)
        self._opened: dict[str, Source] = {}

    def require_same(self) -> None:
        """Raise ObjectReplacedError if one of its files is an object that was replaced while it was read."""
        for source in (self.source, *self._opened.values()):
            source.require_same()

    def close(self) -> None:
        """Close its files."""
        for source in (self.source, *self._opened.values()):
            source.close()

    # --- where to start -----------------------------------------------------------------------------------------------
    def start_for_offset(self, offset: int, trace: Trace) -> int:
        """Return a position where a batch starts with no batch before it that reaches the offset."""
        index = self._index(OFFSET_INDEX_ENTRY, trace)
        if index is None:
            return 0
        try:
            return self._start_by_index(index, offset, trace)
        except UnreadableError as error:
            trace.doubt(index.path, f"the disk cannot read {error.size_bytes} bytes of it")
            return 0

    def start_for_time(self, time_ms: int, log_start_offset: int, trace: Trace) -> int:
        """Return a position where a batch starts with no batch before it whose largest timestamp reaches the time."""
        index = self._index(TIME_INDEX_ENTRY, trace)
        start = 0
        if index is not None:
            try:
                start = self._start_by_time(index, time_ms, trace)
            except UnreadableError as error:
                # A missing or damaged index costs time, never an answer.
                trace.doubt(index.path, f"the disk cannot read {error.size_bytes} bytes of it")
        if log_start_offset > self.segment.base_offset:
            start = max(start, self.start_for_offset(log_start_offset, trace))
        return start

    def start_for_end(self, trace: Trace) -> int:
        """Return the last position where a batch starts, as far as the index knows."""
        # The index's last entry is the one nearest to the end.
        return self.start_for_offset(self.segment.base_offset + MAX_INT32, trace)

    def start_for_position(self, position: int, trace: Trace) -> int:
        """Return the nearest position, not after this one, where a batch starts, as far as the index knows."""
        index = self._index(OFFSET_INDEX_ENTRY, trace)
        if index is None:
            return 0
        try:
            found = index.search(position, column=1, has_warm_section=self._has_warm_section)
            _note_search(trace, index, "position", found)
            for slot in _backwards_from(found.lower):
                start = index.entry(slot)[1]
                if start <= position and self.is_whole_at(start):
                    return start
                trace.doubt(index.path, f"entry {slot} names byte {start}, but no whole batch starts there")
        except UnreadableError as error:
            trace.doubt(index.path, f"the disk cannot read {error.size_bytes} bytes of it")
        return 0

    def is_whole_at(self, position: int) -> bool:
        """Return whether a whole batch starts at this position."""
        return 0 <= position < self.source.size_bytes and self.probe(position) is not None

    def _index(self, layout: Layout, trace: Trace) -> IndexPages | None:
        """Return one of its indexes; None: it is missing, cannot be opened or is of no use."""
        is_offset = layout is OFFSET_INDEX_ENTRY
        file = self.segment.index if is_offset else self.segment.timeindex
        if self._is_v07 or not self._is_based:
            return None
        if file is None:
            if is_offset and self.source.size_bytes:
                trace.doubt(
                    self.path, "its offset index is missing, so the log is read from its start", is_missing=True
                )
            elif self.source.size_bytes:
                trace.add("index", f"no time index for {self.path.rpartition('/')[2]}", path=self.path)
            return None
        try:
            if file.path not in self._opened:
                self._opened[file.path] = Source.open(file.path)
            index = IndexPages(self._opened[file.path], layout)
        except StorageError as error:
            trace.doubt(file.path, error.message)
            return None
        return index

    def _start_by_index(self, index: IndexPages, offset: int, trace: Trace) -> int:
        """Return the position in the last entry not above the offset, if reading for the offset can start there."""
        base = self.segment.base_offset
        found = index.search(offset - base, has_warm_section=self._has_warm_section)
        _note_search(trace, index, "offset", found, base)
        # A wrong entry is skipped for an earlier one: fewer bytes to read than from the start of the log.
        for slot in _backwards_from(found.lower):
            relative, position = index.entry(slot)
            problem = self._contradiction(position, offset)
            if problem is None:
                return position
            trace.doubt(index.path, f"entry {slot} places offset {base + relative} at byte {position}, but {problem}")
        return 0

    def _start_by_time(self, index: IndexPages, time_ms: int, trace: Trace) -> int:
        """Return the position of the last entry not later than the time, if the log agrees with the entry."""
        base = self.segment.base_offset
        found = index.search(time_ms, has_warm_section=self._has_warm_section)
        _note_search(trace, index, "time", found, base)
        trace.has_times |= index.count > 0
        for slot in _backwards_from(found.lower):
            timestamp_ms, relative = index.entry(slot)
            # TimeIndex entries name an offset, so the offset index leads to the position
            # (LogSegment.findOffsetByTimestamp).
            start = self.start_for_offset(base + relative, trace)
            problem = self._contradicts_time(start, base + relative, timestamp_ms, trace)
            if problem is None and timestamp_ms <= time_ms:
                return start
            text = f"entry {slot} gives {timestamp_ms} as the largest time up to offset {base + relative}, but "
            trace.doubt(index.path, text + (problem or "it is before an entry of an earlier time"))
        return 0

    # --- does the log agree -------------------------------------------------------------------------------------------
    def _contradiction(self, position: int, offset: int) -> str | None:
        """Return why reading for the offset cannot start at a position; None: it can."""
        if not 0 <= position < self.source.size_bytes:
            return f"the log has {self.source.size_bytes} bytes"
        item = self.probe(position)
        if item is None:
            return "no whole batch starts there"
        if item.batches.column("last_offset")[0] < offset:
            return None
        batch = BatchPlace.of(self.segment, item, 0)
        first = batch.base_offset
        if first is None:
            first = next((record.offset for record in self.records(item, 0, None)), batch.last_offset)
        return f"that batch starts at offset {first}" if first > offset else None

    def _contradicts_time(self, start: int, offset: int, timestamp_ms: int, trace: Trace) -> str | None:
        """Return why a time entry is wrong; None: the batch that holds its offset has its timestamp."""
        for run in self.runs(start, trace):
            row = first_row_from(run, offset)
            if row == run.batches.count:
                continue
            batch = run.batches.row(row)
            # Messages of magic 0 have no timestamp; the index of a mixed log holds the one of the append.
            if batch["format"] == MAGIC_V0 or batch["max_timestamp_ms"] == timestamp_ms:
                return None
            return f"the largest time of the batch that holds this offset is {batch['max_timestamp_ms']}"
        return "the log does not hold this offset"

    # --- reading ------------------------------------------------------------------------------------------------------
    def probe(self, position: int) -> Run | None:
        """Return the first batches from a position on; None: no whole batch starts there."""
        item = next(self.scan(position, self._probing, batches=self._columns.probed), None)
        return item if isinstance(item, Run) and item.batches.column("position")[0] == position else None

    def scan(
        self,
        position: int,
        options: ScanOptions | None = None,
        *,
        end: int | None = None,
        batches: BatchColumns | None = None,
    ) -> Iterator[Run | Damage]:
        """Scan the log from a position where a batch starts."""
        base = self.segment.base_offset if self._is_based else None
        return scan(
            self.source,
            base_offset=base,
            is_v07=self._is_v07,
            options=options or self._options,
            start=position,
            end=end,
            batches=batches or self._columns.batches,
        )

    def runs(self, position: int, trace: Trace) -> Iterator[Run]:
        """Yield the batches from a position on; damage among them is noted."""
        for item in self.scan(position):
            if isinstance(item, Damage):
                trace.met(self.path, item)
            else:
                yield item

    def first_late_record(
        self, run: Run, time_ms: int, log_start_offset: int, trace: Trace | None
    ) -> RecordPlace | None:
        """Return the first record of a run not earlier than the time; None: there is none.

        Only batches whose largest timestamp is not earlier either are opened.
        """
        for row, newest_ms in enumerate(run.batches.column("max_timestamp_ms")):
            if newest_ms < time_ms:
                continue
            for record in self.records(run, row, trace):
                is_late = record.timestamp_ms is not None and record.timestamp_ms >= time_ms
                if is_late and record.offset >= log_start_offset:
                    return record
        return None

    def first_match(self, run: Run, filters: Filters, offset: int, trace: Trace) -> RecordPlace | None:
        """Return the first record of a run, at or after an offset, that an expression selects; None: there is none."""
        for item in decode_run(
            run.memory, run.batches, max_bytes=self._options.max_batch_bytes, records=self._columns.records
        ):
            if isinstance(item, PayloadDamage):
                position = run.batches.column("position")[item.batch]
                trace.met(self.path, Damage(position, 0, item.reason, item.detail, item.next_offset))
                continue
            among = range_marks(Filters(offsets=(offset, None)), item.records)
            marks = content_marks(filters, item, among) or among or bytearray()
            if 1 in marks:
                row = item.records.row(marks.index(1))
                batch = BatchPlace.of(self.segment, run, row["batch"])
                has_times = run.batches.column("format")[row["batch"]] not in {MAGIC_V0, FORMAT_V07}
                return RecordPlace(batch, row["offset"], row["timestamp_ms"] if has_times else None)
        return None

    def records(self, run: Run, row: int, trace: Trace | None) -> Iterator[RecordPlace]:
        """Yield the records of one batch in their order; if they cannot be read, that is noted."""
        batch = BatchPlace.of(self.segment, run, row)
        has_times = run.batches.column("format")[row] not in {MAGIC_V0, FORMAT_V07}
        for item in decode_batch(
            run.memory, run.batches, row, max_bytes=self._options.max_batch_bytes, records=self._columns.records
        ):
            if isinstance(item, PayloadDamage):
                if trace is not None:
                    trace.met(self.path, Damage(batch.position, 0, item.reason, item.detail, item.next_offset))
                continue
            pairs = zip(item.records.column("offset"), item.records.column("timestamp_ms"), strict=True)
            for offset, timestamp_ms in pairs:
                yield RecordPlace(batch, offset, timestamp_ms if has_times else None)


def _backwards_from(slot: int | None) -> Iterator[int]:
    """Yield a slot, then earlier ones in strides that double: unusable entries cost a few tries, not a scan."""
    stride = 1
    while slot is not None and slot >= 0:
        yield slot
        slot -= stride
        stride *= 2


def _note_search(trace: Trace, index: IndexPages, kind: str, found: IndexSearch, base: int = 0) -> None:
    """Add what a search has read, and the entry at which it ends, to the steps."""
    pages, zeros = index.pages, index.capacity - index.count
    trace.index_pages += len(pages)
    name = index.path.rpartition("/")[2]
    text = f"{name}, {count_of(index.count, 'entry')}: "
    figures: dict[str, object] = {}
    if found.slots:
        text += f"reads {_list('slot', found.slots)} on {_list('page', pages)} of 4 KiB; "
    if found.lower is None:
        text += "no entry at or below it: the log is read from its start"
    elif kind == "time":
        timestamp_ms, relative = index.entry(found.lower)
        figures = {"timestamp_ms": timestamp_ms, "offset": base + relative}
        text += f"entry {found.lower}: no record up to offset {base + relative} is later than {timestamp_ms}"
    else:
        relative, position = index.entry(found.lower)
        figures = {"offset": base + relative, "log_position": position}
        text += f"entry {found.lower}: byte {position} of the log"
    if zeros:
        trace.has_zero_tail = True
        text += f"; {count_of(zeros, 'entry')} of zeros at its end not used"
    trace.add(
        "index",
        text,
        path=index.path,
        kind=kind,
        key=base + found.key if kind == "offset" else found.key,
        entries=index.count,
        zero_entries=zeros,
        slots=list(found.slots),
        pages=pages,
        slot=found.lower,
        **figures,
    )


def _list(noun: str, numbers: list[int]) -> str:
    return f"{noun}{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
