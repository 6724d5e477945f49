"""The batches of one segment, in stretches of some KiB: where a read of an offset starts, and where a range must end.

A broker finds the start of a fetch through its index (`OffsetIndex`), which on a dead disk may be missing or wrong. The
map is made from the log alone, by one pass that also checks it, so that damage is known before a byte of it is sent.
Like an index it is sparse: a stretch is a single batch, or several of at most STRETCH_BYTES, of one magic and without a
hole between them. So its memory follows the bytes of the log (2 MB for a gigabyte), not the number of batches.

A batch with a wrong offset is a stretch of its own. A broker never looks for it by its own offsets: the last index
entry not above the asked offset is that of a batch before or after it (`OffsetIndex.lookup`), and from there the first
batch that ends at that offset or after it is the answer (`FileRecords.searchForOffsetFromPosition`). So it is found
where the batch after it does not begin earlier, and always sent together with that batch, so that no consumer goes on
at its offsets.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import StorageError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import MAGIC_V2, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.kafka.sim.batch_faults import BatchFaults
from kafkalog_core.kafka.sim.batch_places import without
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.structs import NamedTuple, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kafkalog_core.kafka.sim.batch_places import Misplaced, PlaceBounds
    from kafkalog_core.storage.scan import Run
    from kafkalog_core.storage.source import Source

__all__ = ["STRETCH_BYTES", "BatchMap", "Place", "check_places", "first_record_at", "map_batches"]

STRETCH_BYTES: Final = 16 * 1024
_MISPLACED: Final = "offset-order"
_SMALLEST_BATCH: Final = 26  # bytes of an empty message of magic 0, so that the columns of a stretch have room
_STRETCH_ROWS: Final = STRETCH_BYTES // _SMALLEST_BATCH + 1


class Place(Struct, frozen=True):
    """Where a read starts: bytes `position` to `end` must be sent together, of batches of one magic.

    `last_offset` is that of the last of these batches, and of a batch with a wrong offset what it would be at least.
    """

    position: int
    end: int
    magic: int
    last_offset: int


class _Astray(NamedTuple):
    """A stretch that is a batch with a wrong offset: its last offset, and the first offset of the next right batch."""

    last_offset: int
    until: int


class BatchMap:
    """The stretches of a segment, ascending by position and, apart from misplaced ones, by last offset.

    Attributes:
        end_offset: the offset after the last batch; the base offset of an empty segment.
        log_end_offset: the same with the batches that are holes for what is in them: their offsets are taken.
        tail_end_offset: the same as `end_offset` where the last batch is misplaced, and ends the log.
        misplaced: the batches with wrong offsets that are sent.
        max_timestamp_ms: the largest timestamp of a batch; -1: none.
        epochs: leader epochs by the batch in which each first appears.
        holes: damage, in the order of the file.
    """

    def __init__(self, base_offset: int) -> None:
        self.end_offset = self.log_end_offset = self.tail_end_offset = base_offset
        self.max_timestamp_ms = -1
        self.misplaced: tuple[Misplaced, ...] = ()
        self.epochs: list[tuple[int, int]] = []
        self.holes: list[Damage] = []
        self._positions = array("q")
        self._ends = array("q")
        self._lasts = array("q")
        self._times = array("q")
        self._magics = bytearray()
        self._is_one = bytearray()  # whether a stretch is one batch
        self._breaks: list[int] = []  # ends of the ranges without a hole or a change of the magic
        self._astray: dict[int, _Astray] = {}
        self._together: list[tuple[int, int]] = []  # misplaced batches with the right one after them
        self._base_offset = base_offset

    @property
    def size_bytes(self) -> int:
        """Memory of the map, in bytes."""
        return 8 * (len(self._positions) * 4 + len(self._breaks)) + 2 * len(self._magics)

    @property
    def end(self) -> int:
        """The position after the last batch."""
        return self._ends[-1] if self._ends else 0

    @property
    def unreplayed(self) -> list[Damage]:
        """The batches by which no transaction is replayed: the holes and those with wrong offsets."""
        return sorted((*self.holes, *(each.as_damage for each in self.misplaced)), key=lambda each: each.position)

    def stretch_of(self, offset: int) -> int | None:
        """Return the number of the first stretch with an offset at or after the given one; None: there is none."""
        number = bisect_left(self._lasts, offset)
        while number in self._astray and self._astray[number].last_offset < offset:
            number += 1
        first = number
        while first - 1 in self._astray:
            first -= 1
        for each in range(first, number):
            if self._astray[each].last_offset >= offset and offset <= self._astray[each].until:
                return each
        return number if number < len(self._lasts) else None

    def place(self, number: int, offset: int, read: Callable[[int, int], memoryview]) -> Place:
        """Return where a read of an offset starts in a stretch.

        read: returns the bytes from a position to another one. Raises StorageError where it does.
        """
        start, end, magic = self._positions[number], self._ends[number], self._magics[number]
        if number in self._astray:
            return Place(start, self._together_at(start)[1], magic, self._lasts[number] + 1)
        whole = Place(start, end, magic, self._lasts[number])
        batches = self._walked(number, read)
        if batches is None:
            return whole
        lasts = batches.column("last_offset")
        row = bisect_left(lasts, offset)
        if row >= batches.count:  # the file is not what it was when it was mapped
            return whole
        position = batches.column("position")[row]
        return Place(position, position + batches.column("size_bytes")[row], magic, lasts[row])

    def _walked(self, number: int, read: Callable[[int, int], memoryview]) -> BatchColumns | None:
        """Return the batches of a stretch; None: it is one."""
        start, end = self._positions[number], self._ends[number]
        if self._is_one[number] or end - start > STRETCH_BYTES:
            return None
        batches = BatchColumns(_STRETCH_ROWS)
        LogFraming(0).walk(read(start, end), start, -1, MAX_INT64, check=False, into=batches)
        return batches

    def end_before(self, offset: int, read: Callable[[int, int], memoryview]) -> int | None:
        """Return the offset after the last batch that ends before an offset; None: none does. read: as for `place`."""
        number = bisect_left(self._lasts, offset)
        if number < len(self._lasts):
            batches = self._walked(number, read)
            lasts = () if batches is None else batches.column("last_offset")
            row = bisect_left(lasts, offset)
            if row:
                end: int = lasts[row - 1] + 1
                return end
        return self._lasts[number - 1] + 1 if number else None

    def range_end(self, position: int, limit: int) -> int:
        """Return where a range from `position` on ends, at `limit` at the latest: before a hole or another magic.

        It ends with the batch after a misplaced one too: of an answer, the Java consumer drops what has lower offsets.
        """
        number = bisect_right(self._breaks, position)
        end = min(limit, self._breaks[number] if number < len(self._breaks) else self.end)
        number = bisect_right(self._together, position, key=lambda each: each[1])
        return self.cut(min(end, self._together[number][1]) if number < len(self._together) else end)

    def cut(self, position: int) -> int:
        """Return where a range ends that would end at a position: not after a misplaced batch."""
        first, last = self._together_at(position)
        return first if first < position < last else position

    def _together_at(self, position: int) -> tuple[int, int]:
        """Return the range of misplaced batches, with the right one after them, in which a position is; else (0, 0)."""
        number = bisect_right(self._together, position, key=lambda each: each[0]) - 1
        if number < 0 or position >= self._together[number][1]:
            return 0, 0
        return self._together[number]

    def stretches_from_time(self, timestamp_ms: int) -> Iterator[tuple[int, int]]:
        """Yield positions and ends of the stretches with a batch whose largest timestamp is at or after a time."""
        for number, latest in enumerate(self._times):
            if latest >= timestamp_ms:
                yield self._positions[number], self._ends[number]

    def max_timestamp_before(self, offset: int, read: Callable[[int, int], memoryview]) -> int:
        """Return the largest timestamp of the batches that end before an offset; -1: none. `read`: as for `place`."""
        number = bisect_left(self._lasts, offset)
        latest = max(self._times[:number], default=-1)
        batches = self._walked(number, read) if number < len(self._lasts) else None
        if batches is not None:
            pairs = zip(batches.column("last_offset"), batches.column("max_timestamp_ms"), strict=True)
            latest = max([latest, *(time_ms for last, time_ms in pairs if last < offset)])
        return latest

    def last_offset_before(self, end: int) -> int:
        """Return an offset that is not below that of the last batch which starts before `end`."""
        return self._lasts[max(bisect_left(self._positions, end) - 1, 0)]

    # --- making it ----------------------------------------------------------------------------------------------------
    def append(self, position: int, end: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Add a batch of magic 2 that was appended to the log, to the last stretch if that has room."""
        has_room = bool(self._ends) and self._ends[-1] == position and end - self._positions[-1] <= STRETCH_BYTES
        if not has_room or self._magics[-1] != MAGIC_V2:
            self.add(position, end, MAGIC_V2, last_offset, max_timestamp_ms, is_one=True)
            return
        self._is_one[-1] = False
        self._ends[-1], self._lasts[-1] = end, last_offset
        self._times[-1] = max(self._times[-1], max_timestamp_ms)
        self._note_end(last_offset, max_timestamp_ms)

    def add(
        self, position: int, end: int, magic: int, last_offset: int, max_timestamp_ms: int, *, is_one: bool
    ) -> None:
        """Add a stretch after the others. is_one: whether it is one batch."""
        if self._ends and (self._ends[-1] != position or self._magics[-1] != magic):
            self._breaks.append(self._ends[-1])
        self._positions.append(position)
        self._ends.append(end)
        self._magics.append(magic)
        self._is_one.append(is_one)
        self._times.append(max_timestamp_ms)
        self._lasts.append(last_offset)
        self._note_end(last_offset, max_timestamp_ms)

    def add_misplaced(self, position: int, end: int, magic: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Add a batch with a wrong offset after the others."""
        end_offset, before = self.end_offset, self._lasts[-1] if self._lasts else self._base_offset - 1
        continues = len(self._lasts) - 1 in self._astray
        self._astray[len(self._lasts)] = _Astray(last_offset, MAX_INT64)
        self.add(position, end, magic, before, max_timestamp_ms, is_one=True)
        self.end_offset = self.log_end_offset = end_offset
        self.tail_end_offset = max(end_offset, last_offset + 1)
        self._together.append((self._together.pop()[0] if continues else position, end))

    def end_misplaced(self, end: int, first_offset: int) -> None:
        """Note the end and the first offset of the right batch that comes next, if misplaced ones are before it."""
        number = len(self._lasts) - 1
        if number not in self._astray:
            return
        self._together[-1] = self._together[-1][0], end
        while number in self._astray:
            self._astray[number] = _Astray(self._astray[number].last_offset, first_offset)
            number -= 1

    def _note_end(self, last_offset: int, max_timestamp_ms: int) -> None:
        self.end_offset = self.log_end_offset = self.tail_end_offset = last_offset + 1
        self.max_timestamp_ms = max(self.max_timestamp_ms, max_timestamp_ms)


def map_batches(source: Source, bounds: PlaceBounds, *, options: ScanOptions) -> BatchMap:
    """Read a segment's log, and return its map. Raises StorageError.

    Batches with another error are holes, and so are those with a wrong offset that no consumer passes.

    options: with `check` and `resync`, damaged batches are holes, and so are those with another error; without both, a
        batch whose checksum is wrong is mapped like any other, and what follows a wrong length is one hole.
    """
    base_offset = bounds.base_offset
    faults = BatchFaults(source, bounds, options, opens_batches=options.check)
    found = _mapped(faults.watched(scan(source, base_offset=base_offset, options=options)), base_offset)
    if not faults.may_be_wrong:
        return found
    holes, misplaced = faults.found()
    positions = {each.position for each in misplaced}
    found = _mapped(without(scan(source, base_offset=base_offset, options=options), holes), base_offset, positions)
    found.misplaced = misplaced
    if any(hole.reason != _MISPLACED for hole in holes):
        out_of_place = tuple(hole for hole in holes if hole.reason == _MISPLACED)
        items = without(scan(source, base_offset=base_offset, options=options), out_of_place)
        found.log_end_offset = _mapped(items, base_offset, positions).end_offset
    return found


def _mapped(items: Iterable[Run | Damage], base_offset: int, misplaced: Collection[int] = frozenset()) -> BatchMap:
    """Return the map of batches whose offsets ascend, apart from those at the positions of misplaced ones."""
    found = BatchMap(base_offset)
    for item in items:
        if not isinstance(item, Damage):
            for first, last in _together(item.batches, misplaced):
                _add_rows(found, item.batches, first, last, misplaced)
        elif item.size_bytes:
            found.holes.append(item)
    return found


def _add_rows(found: BatchMap, batches: BatchColumns, first: int, last: int, misplaced: Collection[int]) -> None:
    """Add batches of one magic, or a single misplaced one."""
    positions, sizes, lasts = (batches.column(name) for name in ("position", "size_bytes", "last_offset"))
    magic, times = batches.column("format")[first], batches.column("max_timestamp_ms")
    end = positions[last - 1] + sizes[last - 1]
    if positions[first] in misplaced:
        found.add_misplaced(positions[first], end, magic, lasts[first], times[first])
        return
    # the first offset of a compressed message of magic 0 and 1 is in its content alone
    first_offset = batches.column("base_offset")[first] if magic == MAGIC_V2 else lasts[first]
    found.end_misplaced(positions[first] + sizes[first], first_offset)
    _note_epochs(found, batches, first, last)
    while first < last:
        start = positions[first]
        after = last
        if end - start > STRETCH_BYTES:  # a stretch ends where a batch starts
            after = max(bisect_right(positions, start + STRETCH_BYTES, first, last) - 1, first + 1)
        stop = end if after == last else positions[after]
        found.add(start, stop, magic, lasts[after - 1], max(times[first:after]), is_one=after == first + 1)
        first = after


def _note_epochs(found: BatchMap, batches: BatchColumns, first: int, last: int) -> None:
    epochs = batches.column("leader_epoch")
    latest = found.epochs[-1][0] if found.epochs else -1
    if max(epochs[first:last]) <= latest:
        return
    bases = batches.column("base_offset")
    for row in range(first, last):
        if epochs[row] > latest:
            latest = epochs[row]
            found.epochs.append((latest, bases[row]))


def _together(batches: BatchColumns, misplaced: Collection[int]) -> list[tuple[int, int]]:
    """Return the spans of rows with one magic; a misplaced one is alone."""
    formats = batches.column("format")
    bounds = [row for row in range(1, len(formats)) if formats[row] != formats[row - 1]]
    if misplaced:
        positions = batches.column("position")
        alone = [row for row in range(batches.count) if positions[row] in misplaced]
        bounds = sorted({*bounds, *alone, *(row + 1 for row in alone)} - {0, batches.count})
    return list(zip([0, *bounds], [*bounds, len(formats)], strict=True))


def first_record_at(memory: memoryview, timestamp_ms: int, first_offset: int) -> tuple[int, int] | None:
    """Return offset and timestamp of the first record at or after a time, among those from an offset on."""
    columns = BatchColumns(len(memory) // _SMALLEST_BATCH + 1)
    LogFraming(0).walk(memory, 0, -1, MAX_INT64, check=False, into=columns)
    times = columns.column("max_timestamp_ms")
    for piece in decode_run(memory, columns, max_bytes=MAX_BATCH_BYTES, wanted=lambda row: times[row] >= timestamp_ms):
        if isinstance(piece, RecordRun):
            offsets, record_times = piece.records.column("offset"), piece.records.column("timestamp_ms")
            for offset, time_ms in zip(offsets, record_times, strict=True):
                if time_ms >= timestamp_ms and offset >= first_offset:
                    return offset, time_ms
    return None


def check_places(batches: BatchMap, path: str) -> None:
    """Raise StorageError for a batch whose offsets cannot be right: what is appended would continue them."""
    holes = [(each.position, each.detail) for each in batches.holes if each.reason == _MISPLACED]
    for position, detail in (*holes, *((each.position, each.detail) for each in batches.misplaced)):
        directory = shell_path(os.path.dirname(path))
        reason = f"the batch at byte {position} has impossible offsets: {detail}. Nothing can be appended after it"
        ways = (
            WayOut("see what else is wrong", f"kafkalog verify {directory}"),
            WayOut("restore the file from a replica or a backup"),
            WayOut("truncate the log", f"kafkalog truncate --at-damage {directory} --apply"),
        )
        raise StorageError(Refusal(reason, ways), path=path)
