"""The batches of one segment, in stretches of some KiB: where a read of an offset starts, and where a range must end.

A broker finds the start of a fetch through its index (`OffsetIndex`), which on a dead disk may be missing or wrong. The
map is made from the log alone, by one pass that also checks it, so that damage is known before a byte of it is sent.
Like an index it is sparse: a stretch is a single batch, or several of at most STRETCH_BYTES, of one magic and without a
hole between them. So its memory follows the bytes of the log (2 MB for a gigabyte), not the number of batches.
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
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.storage.scan import Run
    from kafkalog_core.storage.source import Source

__all__ = ["STRETCH_BYTES", "BatchMap", "ReadStart", "check_places", "first_record_at", "map_batches"]

STRETCH_BYTES: Final = 16 * 1024
_MISPLACED: Final = "offset-order"
_SMALLEST_BATCH: Final = 26  # bytes of an empty message of magic 0, so that the columns of a stretch have room
_STRETCH_ROWS: Final = STRETCH_BYTES // _SMALLEST_BATCH + 1


class ReadStart(Struct, frozen=True):
    """Where a read starts: bytes `position` to `end` must be sent together, of batches of one magic.

    `last_offset` is the last offset of these batches.
    """

    position: int
    end: int
    magic: int
    last_offset: int


class BatchMap:
    """The stretches of a segment, ascending by position and by last offset.

    Attributes:
        end_offset: the offset after the last batch; the base offset of an empty segment.
        log_end_offset: the same with the batches that are holes for what is in them: their offsets are taken.
        max_timestamp_ms: the largest timestamp of a batch; -1: none.
        epochs: leader epochs by the batch in which each first appears.
        holes: damage, in the order of the file.
    """

    def __init__(self, base_offset: int) -> None:
        self.end_offset = self.log_end_offset = base_offset
        self.max_timestamp_ms = -1
        self.epochs: list[tuple[int, int]] = []
        self.holes: list[Damage] = []
        self._positions = array("q")
        self._ends = array("q")
        self._lasts = array("q")
        self._times = array("q")
        self._magics = bytearray()
        self._is_one = bytearray()  # whether a stretch is one batch
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

    def read_start(self, number: int, offset: int, read: Callable[[int, int], memoryview]) -> ReadStart:
        """Return where a read of an offset starts in a stretch.

        read: returns the bytes from a position to another one. Raises StorageError where it does.
        """
        start, end, magic = self._positions[number], self._ends[number], self._magics[number]
        whole = ReadStart(start, end, magic, self._lasts[number])
        # A stretch has many batches: walk it again to find the offset's batch. Headers only, of some KiB.
        batches = self._walked(number, read)
        if batches is None:
            return whole
        lasts = batches.column("last_offset")
        row = bisect_left(lasts, offset)
        # The file is not what it was when it was mapped
        if row >= batches.count:
            return whole
        position = batches.column("position")[row]
        return ReadStart(position, position + batches.column("size_bytes")[row], magic, lasts[row])

    def _walked(self, number: int, read: Callable[[int, int], memoryview]) -> BatchColumns | None:
        """Return the batches of a stretch; None: it is one."""
        start, end = self._positions[number], self._ends[number]
        if self._is_one[number] or end - start > STRETCH_BYTES:
            return None
        batches = BatchColumns(_STRETCH_ROWS)
        LogFraming(0).walk(read(start, end), start, -1, MAX_INT64, check=False, into=batches)
        return batches

    def end_before(self, offset: int, read: Callable[[int, int], memoryview]) -> int | None:
        """Return the offset after the last batch that ends before an offset, or None. `read`: as for `read_start`."""
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
        """Return where a range from `position` on ends, at `limit` at the latest: before a hole or another magic."""
        # A client expects batches of one magic in a partition's records, and reads nothing across a hole.
        number = bisect_right(self._breaks, position)
        return min(limit, self._breaks[number] if number < len(self._breaks) else self.end)

    def stretches_from_time(self, timestamp_ms: int) -> Iterator[tuple[int, int]]:
        """Yield positions and ends of the stretches with a batch whose largest timestamp is at or after a time."""
        for number, latest in enumerate(self._times):
            if latest >= timestamp_ms:
                yield self._positions[number], self._ends[number]

    def max_timestamp_before(self, offset: int, read: Callable[[int, int], memoryview]) -> int:
        """Return the largest timestamp of the batches that end before an offset, or -1. `read`: as for `read_start`."""
        number = bisect_left(self._lasts, offset)
        latest = max(self._times[:number], default=-1)
        batches = self._walked(number, read) if number < len(self._lasts) else None
        if batches is not None:
            pairs = zip(batches.column("last_offset"), batches.column("max_timestamp_ms"), strict=True)
            latest = max([latest, *(time_ms for last, time_ms in pairs if last < offset)])
        return latest

    def last_offset_before(self, end: int) -> int:
        """Return an offset at or above the offset of the last batch that starts before `end`."""
        return self._lasts[max(bisect_left(self._positions, end) - 1, 0)]

    # --- making it ----------------------------------------------------------------------------------------------------
    def append(self, position: int, end: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Add a batch of magic 2 that was appended to the log, to the last stretch if that has room."""
        has_room = bool(self._ends) and self._ends[-1] == position and end - self._positions[-1] <= STRETCH_BYTES
        # One stretch is of one magic, so that a range can end between them.
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

    def _note_end(self, last_offset: int, max_timestamp_ms: int) -> None:
        self.end_offset = self.log_end_offset = last_offset + 1
        self.max_timestamp_ms = max(self.max_timestamp_ms, max_timestamp_ms)


def map_batches(source: Source, bounds: PlaceBounds, *, options: ScanOptions) -> BatchMap:
    """Read a segment's log, and return its map. Raises StorageError.

    Batches whose offsets or leader epochs cannot be right are holes, because no reader could be placed by them.

    options: with `check` and `resync`, damaged batches are holes, and so are those with another error; without both, a
        batch whose checksum is wrong is mapped like any other, and what follows a wrong length is one hole.
    """
    faults = BatchFaults(source, bounds, options, opens_batches=options.check)
    found = _mapped(faults.watched(scan(source, base_offset=bounds.base_offset, options=options)), bounds.base_offset)
    wrong = faults.wrong()
    # The first pass has found nothing wrong: nearly every log.
    if not wrong:
        return found
    misplaced = tuple(each for each in wrong if each.reason == _MISPLACED)
    left = _mapped(
        without(scan(source, base_offset=bounds.base_offset, options=options), misplaced), bounds.base_offset
    )
    if len(misplaced) == len(wrong):
        return left
    found = _mapped(without(scan(source, base_offset=bounds.base_offset, options=options), wrong), bounds.base_offset)
    # Two ends: misplaced batches do not count for the log end, unreadable ones do, since their offsets are taken.
    # The offsets of an unreadable batch may exceed 2^63-1 and wrap: such an end would hide all batches before it.
    found.log_end_offset = max(found.end_offset, left.log_end_offset)
    return found


def _mapped(items: Iterable[Run | Damage], base_offset: int) -> BatchMap:
    """Return the map of batches whose offsets ascend."""
    found = BatchMap(base_offset)
    for item in items:
        if not isinstance(item, Damage):
            formats = item.batches.column("format")
            for first, last in _of_one_magic(formats):
                _add_rows(found, item.batches, first, last)
        elif item.size_bytes:
            found.holes.append(item)
    return found


def _add_rows(found: BatchMap, batches: BatchColumns, first: int, last: int) -> None:
    """Add batches of one magic."""
    positions, sizes, lasts = (batches.column(name) for name in ("position", "size_bytes", "last_offset"))
    magic, times = batches.column("format")[first], batches.column("max_timestamp_ms")
    _note_epochs(found, batches, first, last)
    end = positions[last - 1] + sizes[last - 1]
    while first < last:
        start = positions[first]
        after = last
        # A stretch ends where a batch starts
        if end - start > STRETCH_BYTES:
            after = max(bisect_right(positions, start + STRETCH_BYTES, first, last) - 1, first + 1)
        stop = end if after == last else positions[after]
        found.add(start, stop, magic, lasts[after - 1], max(times[first:after]), is_one=after == first + 1)
        first = after


def _note_epochs(found: BatchMap, batches: BatchColumns, first: int, last: int) -> None:
    epochs = batches.column("leader_epoch")
    latest = found.epochs[-1][0] if found.epochs else -1
    # Most runs have no new epoch.
    if max(epochs[first:last]) <= latest:
        return
    bases = batches.column("base_offset")
    for row in range(first, last):
        if epochs[row] > latest:
            latest = epochs[row]
            found.epochs.append((latest, bases[row]))


def _of_one_magic(formats: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges of rows with one magic."""
    bounds = [row for row in range(1, len(formats)) if formats[row] != formats[row - 1]]
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
    for hole in batches.holes:
        if hole.reason == _MISPLACED:
            directory = shell_path(os.path.dirname(path))
            reason = (
                f"the batch at byte {hole.position} has impossible offsets: {hole.detail}. Nothing can be appended "
                "after it"
            )
            ways = (
                WayOut("see what else is wrong", f"kafkalog verify {directory}"),
                WayOut("restore the file from a replica or a backup"),
                WayOut("repair it with the least loss", f"kafkalog recover {directory}"),
                WayOut("truncate the log", f"kafkalog truncate --at-damage {directory} --apply"),
            )
            raise StorageError(Refusal(reason, ways), path=path)
