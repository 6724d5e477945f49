"""The batches of one segment, in stretches of some KiB: where a read of an offset starts, and where a range must end.

A broker finds the start of a fetch through its index (`OffsetIndex`), which on a dead disk may be missing or wrong. The
map is made from the log alone, by one pass that also checks it, so that damage is known before a byte of it is sent.
Like an index it is sparse: a stretch is a single batch, or several of at most STRETCH_BYTES, of one magic and without a
hole between them. So its memory follows the bytes of the log (2 MB for a gigabyte), not the number of batches.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.layout import MAGIC_V2, MAX_INT64
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.storage.scan import BATCHES_TO_JUDGE, Damage, ScanOptions, batch_too_high, last_places, scan
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.storage.scan import Run
    from kafkalog_core.storage.source import Source

__all__ = ["STRETCH_BYTES", "BatchMap", "Place", "map_batches"]

STRETCH_BYTES: Final = 16 * 1024
_SMALLEST_BATCH: Final = 26  # bytes of an empty message of magic 0, so that the columns of a stretch have room
_STRETCH_ROWS: Final = STRETCH_BYTES // _SMALLEST_BATCH + 1
_SEVERAL: Final = 0
_ONE: Final = 1
_UNIT: Final = 2


class Place(Struct, frozen=True):
    """Where a read starts: bytes `position` to `end` must be sent together, of batches of one magic.

    `last_offset` is that of the last of these batches.
    """

    position: int
    end: int
    magic: int
    last_offset: int


class BatchMap:
    """The stretches of a segment, ascending by position and by last offset.

    Attributes:
        end_offset: the offset after the last batch; the base offset of an empty segment.
        max_timestamp_ms: the largest timestamp of a batch; -1: none.
        epochs: leader epochs by the batch in which each first appears.
        holes: damage, in the order of the file.
    """

    def __init__(self, base_offset: int) -> None:
        self.end_offset = base_offset
        self.max_timestamp_ms = -1
        self.epochs: list[tuple[int, int]] = []
        self.holes: list[Damage] = []
        self._positions = array("q")
        self._ends = array("q")
        self._lasts = array("q")
        self._times = array("q")
        self._magics = bytearray()
        self._units = bytearray()  # what a stretch is: _SEVERAL batches, _ONE batch, or a _UNIT that is read as a whole
        self._breaks: list[int] = []  # ends of the ranges without a hole or a change of the magic

    @property
    def size_bytes(self) -> int:
        """Memory of the map, in bytes."""
        return 8 * (len(self._positions) * 4 + len(self._breaks)) + 2 * len(self._magics)

    @property
    def end(self) -> int:
        """The position after the last batch."""
        return self._ends[-1] if self._ends else 0

    def stretch_of(self, offset: int) -> int | None:
        """Return the number of the first stretch with an offset at or after the given one; None: there is none."""
        number = bisect_left(self._lasts, offset)
        return number if number < len(self._lasts) else None

    def place(self, number: int, offset: int, read: Callable[[int, int], memoryview]) -> Place:
        """Return where a read of an offset starts in a stretch.

        read: returns the bytes from a position to another one. Raises StorageError where it does.
        """
        start, end, magic = self._positions[number], self._ends[number], self._magics[number]
        whole = Place(start, end, magic, self._lasts[number])
        if self._units[number] != _SEVERAL or end - start > STRETCH_BYTES:
            return whole
        batches = BatchColumns(_STRETCH_ROWS)
        LogFraming(0).walk(read(start, end), start, -1, MAX_INT64, check=False, into=batches)
        lasts = batches.column("last_offset")
        row = bisect_left(lasts, offset)
        if row >= batches.count:  # the file is not what it was when it was mapped
            return whole
        position = batches.column("position")[row]
        return Place(position, position + batches.column("size_bytes")[row], magic, lasts[row])

    def range_end(self, position: int, limit: int) -> int:
        """Return where a range from `position` on ends, at `limit` at the latest: before a hole or another magic.

        Nor does it end within batches that must be sent together.
        """
        number = bisect_right(self._breaks, position)
        end = min(limit, self._breaks[number] if number < len(self._breaks) else self.end)
        number = bisect_right(self._positions, end) - 1
        if self._units[number] == _UNIT and position < self._positions[number] < end < self._ends[number]:
            return self._positions[number]
        return end

    def stretches_from_time(self, timestamp_ms: int) -> Iterator[tuple[int, int]]:
        """Yield positions and ends of the stretches with a batch whose largest timestamp is at or after a time."""
        for number, latest in enumerate(self._times):
            if latest >= timestamp_ms:
                yield self._positions[number], self._ends[number]

    def max_timestamp_before(self, offset: int, read: Callable[[int, int], memoryview]) -> int:
        """Return the largest timestamp of the batches that end before an offset; -1: none. `read`: as for `place`."""
        number = bisect_left(self._lasts, offset)
        latest = max(self._times[:number], default=-1)
        if number < len(self._lasts) and self._units[number] != _UNIT:
            start, end = self._positions[number], self._ends[number]
            if end - start <= STRETCH_BYTES:
                batches = BatchColumns(_STRETCH_ROWS)
                LogFraming(0).walk(read(start, end), start, -1, MAX_INT64, check=False, into=batches)
                pairs = zip(batches.column("last_offset"), batches.column("max_timestamp_ms"), strict=True)
                latest = max([latest, *(time_ms for last, time_ms in pairs if last < offset)])
        return latest

    def last_offset_before(self, end: int) -> int:
        """Return an offset that is not below that of the last batch which starts before `end`."""
        return self._lasts[max(bisect_left(self._positions, end) - 1, 0)]

    # --- making it ----------------------------------------------------------------------------------------------------
    def append(self, position: int, end: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Add a batch of magic 2 that was appended to the log, to the last stretch if that has room."""
        self.end_offset = last_offset + 1
        self.max_timestamp_ms = max(self.max_timestamp_ms, max_timestamp_ms)
        has_room = bool(self._ends) and self._ends[-1] == position and end - self._positions[-1] <= STRETCH_BYTES
        if not has_room or self._units[-1] == _UNIT or self._magics[-1] != MAGIC_V2:
            self.add(position, end, MAGIC_V2, last_offset, max_timestamp_ms, of=_ONE)
            return
        self._units[-1] = _SEVERAL
        self._ends[-1], self._lasts[-1] = end, last_offset
        self._times[-1] = max(self._times[-1], max_timestamp_ms)

    def add(
        self, position: int, end: int, magic: int, last_offset: int, max_timestamp_ms: int, *, of: int = _SEVERAL
    ) -> None:
        """Add a stretch after the others. of: what it is."""
        if self._ends and (self._ends[-1] != position or self._magics[-1] != magic):
            self._breaks.append(self._ends[-1])
        self._positions.append(position)
        self._ends.append(end)
        self._magics.append(magic)
        self._units.append(of)
        self._times.append(max_timestamp_ms)
        self._lasts.append(last_offset)

    def cut(self, position: int, last_offset: int) -> None:
        """Remove what is at a position or after it; `last_offset` is that of the batch before it."""
        while self._positions and self._positions[-1] >= position:
            for column in (self._positions, self._ends, self._magics, self._units, self._lasts, self._times):
                column.pop()
        while self._breaks and self._breaks[-1] >= (self._ends[-1] if self._ends else 0):
            self._breaks.pop()
        if self._ends and self._ends[-1] > position:
            self._ends[-1], self._lasts[-1] = position, last_offset


def map_batches(source: Source, base_offset: int, *, options: ScanOptions) -> BatchMap:
    """Read a segment's log, and return its map. Raises StorageError.

    options: with `check` and `resync`, damaged batches are holes; without both, a batch whose checksum is wrong is
        mapped like any other, and what follows a wrong length is one hole.
    """
    return _Mapper(base_offset).map_of(source, options)


class _Mapper:
    """Adds the batches of a scan to a map.

    Offsets may go back: a batch has too high offsets, or the one after it too low ones (`scan.batch_too_high`). A
    consumer that has read a too high batch asks for the offset after it, and would skip all that follows; so such a
    batch is sent together with the one after it, and nobody finds it by its offsets.
    """

    def __init__(self, base_offset: int) -> None:
        self._map = BatchMap(base_offset)
        self._previous = base_offset - 1
        self._last: list[tuple[int, ...]] = []
        self._end_of_last = self._magic_of_last = 0
        self._goes_back = False
        self._joined: tuple[int, int] | None = None  # start and end of what is sent with the next batch

    def map_of(self, source: Source, options: ScanOptions) -> BatchMap:
        base_offset = self._map.end_offset
        for item in scan(source, base_offset=base_offset, options=options):
            if not isinstance(item, Damage):
                self._add_run(item)
            elif item.size_bytes:
                self._end_join()
                self._map.holes.append(item)
            else:
                self._go_back()
        self._end_join()
        self._map.end_offset = max(self._previous + 1, base_offset)
        return self._map

    def _add_run(self, run: Run) -> None:
        batches = run.batches
        lasts = batches.column("last_offset")
        goes_back = lasts[-1] <= self._previous if batches.count == 1 else lasts[-1] <= lasts[-2]
        count = batches.count - goes_back
        self._goes_back = goes_back
        first = 0
        if self._joined is not None and count:
            self._add_rows(run, 0, 1)
            first = 1
        for begin, end in _of_one_magic(batches.column("format"), first, count):
            self._add_rows(run, begin, end)
        self._last = [*self._last, *last_places(batches)][-BATCHES_TO_JUDGE:]
        self._end_of_last = batches.column("position")[-1] + batches.column("size_bytes")[-1]
        self._magic_of_last = batches.column("format")[-1]

    def _add_rows(self, run: Run, first: int, last: int) -> None:
        """Add batches of one magic whose offsets ascend."""
        batches = run.batches
        positions, sizes, lasts = (batches.column(name) for name in ("position", "size_bytes", "last_offset"))
        magic, times = batches.column("format")[first], batches.column("max_timestamp_ms")
        self._map.max_timestamp_ms = max(self._map.max_timestamp_ms, *times[first:last])
        self._note_epochs(batches, first, last)
        end = positions[last - 1] + sizes[last - 1]
        while first < last:
            start = positions[first]
            after = last
            if end - start > STRETCH_BYTES:  # a stretch ends where a batch starts
                after = max(bisect_right(positions, start + STRETCH_BYTES, first, last) - 1, first + 1)
            stop = end if after == last else positions[after]
            self._previous = max(self._previous, lasts[after - 1])
            if self._joined is not None:
                start, of = self._joined[0], _UNIT
                self._joined = None
            else:
                of = _ONE if after == first + 1 else _SEVERAL
            self._map.add(start, stop, magic, self._previous, max(times[first:after]), of=of)
            first = after

    def _note_epochs(self, batches: BatchColumns, first: int, last: int) -> None:
        epochs = batches.column("leader_epoch")
        latest = self._map.epochs[-1][0] if self._map.epochs else -1
        if max(epochs[first:last]) <= latest:
            return
        bases = batches.column("base_offset")
        for row in range(first, last):
            if epochs[row] > latest:
                latest = epochs[row]
                self._map.epochs.append((latest, bases[row]))

    def _go_back(self) -> None:
        """Join the last batch, whose offsets go back, with its neighbour; one that only overlaps it needs nothing."""
        if not self._goes_back:
            return
        position, _, last_offset = self._last[-1]
        too_high = batch_too_high(self._last)
        if too_high is None:  # it is itself too low: it is sent with the next batch, or at the end of the range
            start = position if self._joined is None else self._joined[0]
            self._joined = (start, self._end_of_last)
            return
        start, _ = too_high
        before = self._last[-BATCHES_TO_JUDGE][2]
        self._map.cut(start, before)
        self._previous = last_offset
        self._map.add(start, self._end_of_last, self._magic_of_last, last_offset, self._map.max_timestamp_ms, of=_UNIT)

    def _end_join(self) -> None:
        """Add what waits for a batch that does not come."""
        if self._joined is not None:
            start, end = self._joined
            self._joined = None
            self._map.add(start, end, self._magic_of_last, self._previous, self._map.max_timestamp_ms, of=_UNIT)


def _of_one_magic(formats: Sequence[int], first: int, last: int) -> list[tuple[int, int]]:
    """Return the spans of rows with one magic."""
    if first >= last:
        return []
    bounds = [row for row in range(first + 1, last) if formats[row] != formats[row - 1]]
    return list(zip([first, *bounds], [*bounds, last], strict=True))
