"""The reads of a start outside of recovery: the log end offset, look-ups of offsets, and the replay of producers.

They trust the offset index, and walk headers of batches without a checksum (`broker_walk.HeaderWalk`). A start that
follows a clean shutdown reads nothing else of a log.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.decompression import decompress
from kafkalog_core.format.layout import (
    CODEC_MASK,
    ENVELOPE,
    LEGACY_ATTRIBUTES,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V0,
    MAGIC_V2,
    MAX_BATCH_BYTES,
    MAX_INT64,
    MIN_ENTRY_SIZE,
    OFFSET_INDEX_ENTRY,
    RECORD_BATCH_OVERHEAD,
    V0_KEY_LENGTH,
    V1_KEY_LENGTH,
)
from kafkalog_core.format.streams import OddStreamError
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.rules.producers import CompletedTxn
from kafkalog_core.kafka.sim.broker_walk import HeaderWalk, Unwalkable, WalkedBatch
from kafkalog_core.kafka.sim.start.recovery import EMPTY_MARKER, first_empty_marker, marker_fault
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.segment_lookup import IndexPages
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.kafka.rules.producers import ProducerStates, SnapshotStyle
    from kafkalog_core.kafka.rules.rule_table import OffsetSearch
    from kafkalog_core.storage.listing import FileInfo

    OffsetIndex = FileInfo | bytes  # the bytes: of the one that recovery has rebuilt

__all__ = [
    "EndOfLog",
    "Obstacle",
    "ReplaySegment",
    "SegmentReads",
    "closed_messages",
    "end_of_log",
    "find_offset",
    "replay_producers",
]


_HEADERS: Final = ScanOptions(check=False)
_LEAST: Final = -MAX_INT64
_LENGTH: Final = 4


class Obstacle(NamedTuple):
    """A place that a broker cannot read past.

    Args:
        position: byte in the log.
        reason: what is there.
        is_end: whether the broker takes the place for the end of the segment.
        is_of_old_release: whether nothing is damaged there, and releases from 2.0 on read past it.
    """

    position: int
    reason: str
    is_end: bool
    is_of_old_release: bool = False


class EndOfLog(NamedTuple):
    """The end of a log as a broker finds it.

    Args:
        offset: the log end offset.
        obstacle: the place at which the broker stops as it looks for the end; None: there is none.
        is_lost: whether whole batches before the end reach beyond `offset`, so that offsets are assigned again: the
            last index entry led to no batch, so that the base offset is the end, or the offsets go back.
    """

    offset: int
    obstacle: Obstacle | None = None
    is_lost: bool = False


class SegmentReads:
    """The reads of one segment.

    Args:
        source: its log.
        size_bytes: where the broker takes the log to end.
        base_offset: of the segment.
        index: its offset index, or the bytes of the one that recovery has rebuilt; None: it has none, or its entries do
            not count.
        search: how the release looks for an offset after the index entry.
    """

    def __init__(
        self, source: Source, size_bytes: int, base_offset: int, index: OffsetIndex | None, *, search: OffsetSearch
    ) -> None:
        self._source = source
        self._walk = HeaderWalk(source, size_bytes)
        self._base_offset = base_offset
        self._rebuilt = index if isinstance(index, bytes) else b""
        self._index_path = None if index is None or isinstance(index, bytes) else index.path
        self._search = search

    def end(self) -> EndOfLog:
        """Return where the log ends (`LogSegment.readNextOffset`): it is read from the last index entry on.

        Where that entry leads to no whole batch, the end is the base offset.
        """
        # LogSegment.readNextOffset: fetches from offsetIndex.lastOffset, and takes the last batch of that read
        target, _ = self._index_entry(None)
        found = self.position_of(target)
        if found is None:
            return EndOfLog(self._base_offset, is_lost=self.highest() >= self._base_offset)
        if isinstance(found, Unwalkable):
            return EndOfLog(self._base_offset, _fatal(found))
        last: WalkedBatch | None = None
        for item in self._walk.batches(found):
            if isinstance(item, Unwalkable):
                return EndOfLog(self._base_offset, _fatal(item))
            last = item
        offset = self._base_offset - 1 if last is None else self._walk.last_offset(last)
        if isinstance(offset, Unwalkable):
            return EndOfLog(self._base_offset, _fatal(offset))
        return EndOfLog(offset + 1, is_lost=self.highest(found) > offset)

    def is_closed(self, position: int) -> bool:
        """Return whether a fetch that reads the base offset of the batch at a position fails there."""
        batch = next(self._walk.batches(position), None)
        return isinstance(batch, WalkedBatch) and isinstance(self._base_of(batch), Unwalkable)

    def highest(self, position: int = 0) -> int:
        """Return the highest offset of whole batches from a position on; a low number if there is none."""
        highest = _LEAST
        for item in self._walk.batches(position):
            last = item if isinstance(item, Unwalkable) else self._walk.last_offset(item)
            if isinstance(last, Unwalkable):
                break
            highest = max(highest, last)
        return highest

    def position_of(self, offset: int) -> int | Unwalkable | None:
        """Return where a read from an offset on begins (`LogSegment.translateOffset`); None: it finds nothing."""
        _, position = self._index_entry(offset)
        # FileRecords.searchForOffsetFromPosition looks at base offsets, searchForOffsetWithSize at last offsets
        if self._search == "base":
            return self._by_base(offset, position)
        for item in self._walk.batches(position):
            if isinstance(item, Unwalkable):
                return item
            last = self._walk.last_offset(item)
            if isinstance(last, Unwalkable):
                return last
            if last >= offset:
                base = self._base_of(item) if self._search == "last-then-base" else 0
                return base if isinstance(base, Unwalkable) else item.position
        return None

    def _by_base(self, offset: int, position: int) -> int | Unwalkable | None:
        """Find the batch by base offsets, in doubt by the last one (`FileRecords.searchForOffsetFromPosition`)."""
        previous: WalkedBatch | None = None
        for item in self._walk.batches(position):
            if isinstance(item, Unwalkable):
                return item
            base = self._base_of(item)
            if isinstance(base, Unwalkable):
                return base
            if base == offset:
                return item.position
            if base > offset:
                return self._holder(previous, offset, item)
            previous = item
        return self._holder(previous, offset, None)

    def _holder(self, previous: WalkedBatch | None, offset: int, other: WalkedBatch | None) -> int | Unwalkable | None:
        """Return the batch before, if it holds the offset; else the other one."""
        if previous is not None:
            last = self._walk.last_offset(previous)
            if isinstance(last, Unwalkable):
                return last
            if last >= offset:
                return previous.position
        return None if other is None else other.position

    def _base_of(self, batch: WalkedBatch) -> int | Unwalkable:
        """Return the base offset; a broker decompresses a message to find it (`AbstractLegacyRecordBatch`).

        The attributes of a message are where a batch of magic 2 has its checksum. A batch whose magic was changed is
        therefore taken for a compressed message of any codec, and does not open.
        """
        if not batch.is_legacy:
            return batch.offset
        codec = self._walk.codec_bits(batch)
        if not codec:
            return batch.offset
        if batch.has_known_legacy_magic and batch.size_bytes <= MAX_BATCH_BYTES:
            base = _base_within(bytes(self._source.read(batch.position, batch.size_bytes)))
            if base is not None:
                return base
        what = f"the broker takes it for a compressed message (magic {batch.magic}, codec {codec})"
        return Unwalkable(batch.position, f"{what}, which does not open")

    def _index_entry(self, offset: int | None) -> tuple[int, int]:
        """Return offset and position of the last entry, or of the last at or below an offset, found as brokers search.

        The zero tail of a crash counts too. Where there is none, it is the base offset, and 0.
        """
        if self._rebuilt:
            return self._rebuilt_entry(offset)
        if self._index_path is None:
            return self._base_offset, 0
        try:
            with Source.open(self._index_path) as source:
                pages = IndexPages(source, OFFSET_INDEX_ENTRY)
                last = pages.last
                if last is None:
                    return self._base_offset, 0
                if offset is None:
                    return self._base_offset + last[0], 0
                slot = pages.search_all(offset - self._base_offset).lower
                return self._base_offset, 0 if slot is None else max(0, pages.entry(slot)[1])
        except StorageError:
            return self._base_offset, 0

    def _rebuilt_entry(self, offset: int | None) -> tuple[int, int]:
        fields = OFFSET_INDEX_ENTRY.struct.iter_unpack(self._rebuilt)
        entries = [(self._base_offset + first, position) for first, position in fields]
        if offset is None:
            return entries[-1]
        number = bisect_right(entries, offset, key=itemgetter(0))
        return entries[number - 1] if number else (self._base_offset, 0)


def find_offset(readings: Sequence[ReplaySegment], offset: int, *, search: OffsetSearch) -> tuple[str, Obstacle] | None:
    """Look for the batch that holds an offset (`LocalLog.read`); return the place at which the broker stops, if any.

    Args:
        readings: all segments, ascending.
        offset: where the read begins.
        search: how the release looks for it.
    """
    # LocalLog.read goes on to the next segment where LogSegment.read finds nothing
    first = max((number for number, each in enumerate(readings) if each.base_offset <= offset), default=len(readings))
    for reading in readings[first:]:
        if reading.is_whole:
            return None
        if reading.path is None:
            continue
        with Source.open(reading.path) as source:
            reads = SegmentReads(source, reading.size_bytes, reading.base_offset, reading.offset_index, search=search)
            place = reads.position_of(offset)
        if isinstance(place, Unwalkable):
            return reading.path, _fatal(place)
        if place is not None:
            return None
    return None


def end_of_log(
    path: str, size_bytes: int, base_offset: int, index: OffsetIndex | None, *, search: OffsetSearch
) -> EndOfLog:
    """Return the end of a log as a broker finds it that trusts the offset index (`LogSegment.readNextOffset`)."""
    with Source.open(path) as source:
        return SegmentReads(source, size_bytes, base_offset, index, search=search).end()


class ReplaySegment(NamedTuple):
    """A segment that may be read.

    Args:
        base_offset: the number in its name.
        path: of its log; None: it is new, and empty.
        size_bytes: where its log ends.
        offset_index: by which a broker finds where a read begins; None: there is none.
        is_whole: whether every batch was checked, and none is a compressed message whose first offset a read looks for,
            so that a read finds its place without the index.
    """

    base_offset: int
    path: str | None
    size_bytes: int
    offset_index: OffsetIndex | None = None
    is_whole: bool = True


def _ignore(_: int) -> None:
    """Ignore the event."""


def replay_producers(  # noqa: PLR0913 - what a read depends on
    reading: ReplaySegment,
    states: ProducerStates,
    *,
    from_offset: int,
    end_offset: int | None = None,
    search: OffsetSearch,
    reads_empty_markers: bool = True,
    style: SnapshotStyle = "marker-time",
    ended: Callable[[int], None] = _ignore,
    lost: set[int] | None = None,
) -> Obstacle | None:
    """Update producer states with the batches of a segment, from the one that holds an offset on.

    Return the place at which the broker stops; None: there is none.

    Args:
        reading: the segment.
        states: updated in place.
        from_offset: batches that end below it are skipped.
        end_offset: a batch that holds it, or is after it, ends the read; None: the end of the log does.
        search: how the release looks for an offset.
        reads_empty_markers: as in `RecoveryRules`.
        style: of the snapshots that the release writes.
        ended: receives the first offset of each transaction that ends.
        lost: the first offsets of transactions that an earlier read has ended and begun again; updated in place.
    """
    if reading.path is None:
        return None
    with Source.open(reading.path) as source:
        span = _span_of(reading, source, from_offset, end_offset, search)
        if isinstance(span, Unwalkable):
            return _fatal(span)
        start, end = span
        read = _Read(states, reads_empty_markers=reads_empty_markers, style=style, ended=ended, lost=lost)
        is_begun = is_ended = False  # offsets may go back after the batch that the read begins with, or ends before
        for item in scan(source, base_offset=None, options=_HEADERS, start=start, end=end):
            if isinstance(item, Damage):
                obstacle = read.step_over(item, source, end)
            else:
                first, last = 0, item.batches.count
                if reading.is_whole:
                    lasts = item.batches.column("last_offset")
                    first = 0 if is_begun else _first_at(lasts, from_offset)
                    last = last if end_offset is None else _first_at(lasts, end_offset)
                    is_begun, is_ended = is_begun or first < len(lasts), last < len(lasts)
                obstacle = read.carry_on(item, first, last)
            if obstacle is not None and not obstacle.is_end:
                return obstacle
            if obstacle is not None or is_ended:
                break
        return read.finish()


def _first_at(lasts: Sequence[int], offset: int) -> int:
    """Return the first row that ends at an offset or above it, in whatever order they are; their number: none does."""
    if max(lasts, default=_LEAST) < offset:
        return len(lasts)
    return next(row for row, last in enumerate(lasts) if last >= offset)


def _span_of(
    reading: ReplaySegment, source: Source, from_offset: int, end_offset: int | None, search: OffsetSearch
) -> tuple[int, int] | Unwalkable:
    """Return where a read of a segment begins and ends; the broker looks for the end first."""
    size_bytes = min(reading.size_bytes, source.size_bytes)
    if reading.is_whole:
        return 0, size_bytes
    reads = SegmentReads(source, size_bytes, reading.base_offset, reading.offset_index, search=search)
    limit = None if end_offset is None else reads.position_of(end_offset)
    if isinstance(limit, Unwalkable):
        return limit
    first = reads.position_of(from_offset)
    if isinstance(first, Unwalkable):
        return first
    end = size_bytes if limit is None else limit
    return (end, end) if first is None else (first, max(first, end))


class _Read:
    """One read of a segment into the states of producers (`UnifiedLog.loadProducersFromRecords`).

    Args:
        states: updated in place.
        reads_empty_markers: as in `RecoveryRules`.
        style: of the snapshots.
        ended: receives the first offset of each transaction that ends.
        lost: as in `replay_producers`.
    """

    def __init__(
        self,
        states: ProducerStates,
        *,
        reads_empty_markers: bool,
        style: SnapshotStyle,
        ended: Callable[[int], None],
        lost: set[int] | None,
    ) -> None:
        self._states = states
        self._lost = set() if lost is None else lost
        self._lowest = MAX_INT64
        self._tell_ended = ended
        self._reads_empty_markers = reads_empty_markers
        self._before = None if style == "marker-is-batch" else states.rows()
        self._ended: set[int] = set()
        self._gone_back: set[int] = set()
        self._fault: Obstacle | None = None

    def carry_on(self, run: Run, first: int, last: int) -> Obstacle | None:
        """Take the batches from row `first` to `last` (exclusive); no broker catches what is thrown here."""
        batches = run.batches
        if batches.holds_only("producer_id", -1):
            return None
        fault = None
        if first < last:
            base = batches.column("base_offset")[first]  # of a compressed message it is in the content alone
            self._lowest = min(self._lowest, base if base >= 0 else batches.column("last_offset")[first])
        row = first
        while (row := kernels.find_odd_marker(run.memory, batches, row)) < last:
            if marker_fault(run.memory, batches, row, max_bytes=MAX_BATCH_BYTES) is not None:
                last = row
                fault = Obstacle(batches.column("position")[row], "a marker that cannot be read", is_end=False)
                break
            row += 1
        empty = last if self._reads_empty_markers else first_empty_marker(batches, first)
        if empty < last:
            position = batches.column("position")[empty]
            last, fault = empty, Obstacle(position, EMPTY_MARKER, is_end=False, is_of_old_release=True)
        markers = markers_of(run.memory, batches, max_bytes=MAX_BATCH_BYTES)
        for event in self._states.replay(batches, markers, first=first, last=last):
            if isinstance(event, CompletedTxn):
                self._end(event, batches)
            elif event.kind == "epoch-back":
                self._gone_back.add(event.producer_id)
            elif event.kind == "plain-in-transaction":
                reason = f"a batch of producer {event.producer_id} outside of its transaction, which is open"
                return Obstacle(event.position, reason, is_end=False)
        return fault

    def _end(self, txn: CompletedTxn, batches: BatchColumns) -> None:
        """Note that a transaction has ended.

        The broker ends the transactions of a read when all of it was read (`ProducerStateManager.completeTxn`), each by
        its first offset. Where segments overlap, it reads the batches of one a second time, and the second end finds
        nothing.
        """
        # ProducerStateManager.completeTxn: IllegalArgumentException for a transaction that is not ongoing
        is_lost = txn.first_offset in self._lost and txn.first_offset < self._lowest
        if self._fault is None and (is_lost or txn.first_offset in self._ended):
            row = batches.column("base_offset").tolist().index(txn.last_offset)
            reason = f"the transaction of producer {txn.producer_id} from offset {txn.first_offset} on ends twice"
            self._fault = Obstacle(batches.column("position")[row], reason, is_end=False)
        self._ended.add(txn.first_offset)
        self._tell_ended(txn.first_offset)

    def finish(self) -> Obstacle | None:
        """Return the reason that stops the broker after the whole segment was read; None: there is none.

        Only then does it merge the producers of the read into its states (`ProducerStateEntry.update`), from 1.0 on. It
        forgets what it knew of their batches where the epoch is not the one of before the read, whatever it was
        between. And only then it notes the transactions that have begun, before it ends those that have ended: one that
        has done both, in this order of segments that overlap, is none that can end again.
        """
        begun = {txn.first_offset for txn in self._states.open_transactions() if txn.first_offset >= self._lowest}
        self._lost |= begun & self._ended
        self._lost -= begun - self._ended
        if self._before is not None:
            for producer_id in self._gone_back:
                self._states.keep_batches(producer_id, self._before)
        return self._fault

    def step_over(self, damage: Damage, source: Source, end: int) -> Obstacle | None:
        """Walk through damage as the broker does; None: to a batch that a scan finds too, or to the end.

        The broker reads headers only, so it may update producers from bytes that a scan reports as damage.
        """
        if damage.reason == "unreadable":
            return Obstacle(damage.position, damage.reason, is_end=False)
        if not damage.size_bytes:
            return None
        behind, walk, states_at = damage.position + damage.size_bytes, HeaderWalk(source, end), damage.position
        for item in walk.batches(damage.position):
            if isinstance(item, Unwalkable):
                return _fatal(item)
            if item.position == behind:
                return None
            obstacle = None if item.is_legacy else self._carry_on_header(item, source)
            if obstacle is not None:
                return obstacle
            states_at = item.position + item.size_bytes
        return Obstacle(states_at, damage.reason, is_end=True)

    def _carry_on_header(self, batch: WalkedBatch, source: Source) -> Obstacle | None:
        """Update the producer of a batch that a scan refuses, whatever its magic and size."""
        size_bytes = min(batch.size_bytes, MAX_BATCH_BYTES)
        entry = bytearray(source.read(batch.position, max(size_bytes, RECORD_BATCH_OVERHEAD)))
        if len(entry) < RECORD_BATCH_OVERHEAD:
            return Obstacle(batch.position, "the file ends within the header of a batch", is_end=False)
        entry[MAGIC_POSITION] = MAGIC_V2
        for length in (size_bytes, RECORD_BATCH_OVERHEAD):  # all of it, or its header alone
            entry[LOG_OVERHEAD - 4 : LOG_OVERHEAD] = (length - LOG_OVERHEAD).to_bytes(4, "big")
            window, columns = memoryview(entry)[:length], BatchColumns()
            kernels.walk(window, 0, length, batch.position, _LEAST, MAX_BATCH_BYTES, False, columns)
            if columns.count:
                return self.carry_on(Run(window, columns, resynced=False, begins=batch.position), 0, columns.count)
        return None


def closed_messages(run: Run) -> list[int]:
    """Return the rows of compressed messages of magic 0 and 1 whose base offset no broker finds (`_base_within`)."""
    if run.batches.holds_only("format", MAGIC_V2):
        return []
    rows = enumerate(zip(*map(run.batches.column, ("format", "codec", "size_bytes")), strict=True))
    compressed = [(row, size) for row, (magic, codec, size) in rows if magic < MAGIC_V2 and codec]
    entries = ((row, run.memory[run.start_of(row) : run.start_of(row) + size]) for row, size in compressed)
    return [row for row, entry in entries if _base_within(bytes(entry)) is None]


def _base_within(entry: bytes) -> int | None:
    """Return the base offset of a compressed message; None: it does not open.

    A broker decompresses the value and reads only the offset, the size and the codec of each message in it
    (`AbstractLegacyRecordBatch.DeepRecordsIterator`). A last message that is incomplete ends the walk silently.

    Args:
        entry: the whole message, of magic 0 or 1, from its offset on.
    """
    (wrapper, _), magic = ENVELOPE.struct.unpack_from(entry), entry[MAGIC_POSITION]
    inner = _value_within(entry, magic)
    offsets: list[int] = []
    position = 0
    while len(inner) - position >= LOG_OVERHEAD:
        offset, size = ENVELOPE.struct.unpack_from(inner, position)
        if size < MIN_ENTRY_SIZE:
            return None
        if position + LOG_OVERHEAD + size > len(inner):
            break
        # DeepRecordsIterator: a compressed message in a compressed message is an InvalidRecordException
        if not offsets and inner[position + LEGACY_ATTRIBUTES] & CODEC_MASK:
            return None
        offsets.append(offset)
        position += LOG_OVERHEAD + size
    if not offsets:
        return None
    if magic == MAGIC_V0 or not wrapper:  # some versions of librdkafka write 0 there
        return offsets[0]
    return None if wrapper < offsets[-1] else int(wrapper) - offsets[-1] + offsets[0]


def _value_within(entry: bytes, magic: int) -> bytes:
    """Return the decompressed value of a message; empty: there is none, or it does not open."""
    key = V0_KEY_LENGTH if magic == MAGIC_V0 else V1_KEY_LENGTH
    value = key + _LENGTH + max(0, _length(entry, key))
    start, size = value + _LENGTH, _length(entry, value)
    if size < 0 or start + size > len(entry):
        return b""
    payload, codec = memoryview(entry)[start : start + size], entry[LEGACY_ATTRIBUTES] & CODEC_MASK
    try:
        return bytes(decompress(codec, payload, magic=magic, limit_bytes=MAX_BATCH_BYTES))
    except OddStreamError as error:
        return b"" if error.reason == "payload-dependent" else bytes(error.content)
    except FormatError:
        return b""


def _length(entry: bytes, position: int) -> int:
    return int.from_bytes(entry[position : position + _LENGTH], "big", signed=True)


def _fatal(place: Unwalkable) -> Obstacle:
    return Obstacle(place.position, place.reason, is_end=False)
