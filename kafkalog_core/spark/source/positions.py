"""Positions of a stream in a partition: where the last read ended, and where the next one ends.

The files may have changed since: segments were deleted or cleaned, or the log was truncated and written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.engine.parts import LogPart, last_good, walk_lengths
from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.layout import MAX_BATCH_BYTES, RECORD_BATCH_OVERHEAD
from kafkalog_core.ops.dump.file_parts import FilePart
from kafkalog_core.ops.dump.follow import may_be_unfinished
from kafkalog_core.storage.scan import Damage, scan
from kafkalog_core.storage.source import Source, UnreadableError
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.engine.parts import Walk
    from kafkalog_core.kafka.sim.logfiles import LogFile, Unit

__all__ = ["Position", "UnreadRecords", "end_of", "go_on", "parts_between"]


class Position(NamedTuple):
    """The position in a partition at which the next read starts.

    Args:
        segment: base offset of the segment.
        byte: byte of its file at which an entry ends or the file begins.
        offset: the next offset that is expected there.
        mark_byte: byte at which the last entry before it starts; -1: there is none, or it is unknown.
        mark: checksum over that entry's header.
    """

    segment: int
    byte: int
    offset: int
    mark_byte: int = -1
    mark: int = 0


class UnreadRecords(Struct, frozen=True):
    """Records that are not read: a sentence, and the file or directory that it is about."""

    message: str
    path: str


def go_on(
    unit: Unit,
    start: Position | None,
    *,
    max_bytes: int | None = None,
    until: Position | None = None,
    on_loss: Callable[[UnreadRecords], None],
) -> Position | None:
    """Return the position up to which a partition can be read; None: it has no segment.

    An incomplete batch at the end is left for the next read, and so is a last batch whose checksum is wrong.

    Args:
        unit: the partition as it is now.
        start: position where the last read ended; None: the log's start.
        max_bytes: most bytes to read, but at least a whole batch; None: all.
        until: position at which to stop; None: the log's end.
        on_loss: called for records that are missing, or that are after damage in the last segment.

    Raises StorageError if a segment cannot be opened.
    """
    if not unit.files:
        return start
    here = _found_again(unit, start, on_loss)
    left = max_bytes
    for file, following in zip(unit.files, (*unit.files[1:], None), strict=True):
        if _base(file) < here.segment:
            continue
        if until is not None and (here.segment, here.byte) >= (until.segment, until.byte):
            return here
        bound = until.byte if until is not None and until.segment == here.segment else None
        if following is None:
            return _end_in_last(file, here, bound, left, on_loss)
        end = _end_in_closed(file, here, bound, left)
        if end is not None:
            return end
        left = None if left is None else left - (file.file.size_bytes - here.byte)
        here = _start_of(following)
        if left is not None and left <= 0:
            return here
    return here


def end_of(unit: Unit, on_loss: Callable[[UnreadRecords], None]) -> Position | None:
    """Return the end of a partition; None: it has no segment. Raises StorageError if the last one cannot be opened."""
    return go_on(unit, _start_of(unit.files[-1]), on_loss=on_loss) if unit.files else None


def parts_between(
    unit: Unit, start: Position | None, end: Position, on_loss: Callable[[UnreadRecords], None]
) -> Iterator[FilePart]:
    """Yield the parts from one position to another, which `go_on` has returned. Raises StorageError."""
    files = [file for file in unit.files if _base(file) <= end.segment]
    if not files or _base(files[-1]) != end.segment:
        on_loss(UnreadRecords(f"some records below offset {end.offset} were deleted before they were read", unit.path))
    if not files:
        return
    here = _found_again(unit, start, on_loss)
    for file in files:
        if _base(file) < here.segment:
            continue
        begin = here if _base(file) == here.segment else _start_of(file)
        last = end.byte if _base(file) == end.segment else None
        if last is None or last > begin.byte:
            part = LogPart(start=begin.byte, end=last, begin=begin.byte, next_offset=begin.offset)
            yield FilePart(file=file, log_dir=unit.log_dir, part=part)


def _base(file: LogFile) -> int:
    return file.base_offset or 0


def _start_of(file: LogFile) -> Position:
    return Position(segment=_base(file), byte=0, offset=_base(file))


# --- where the last read ended ----------------------------------------------------------------------------------------
def _found_again(unit: Unit, start: Position | None, on_loss: Callable[[UnreadRecords], None]) -> Position:
    """Return where to continue: the same position, or the same offset in the files that exist now."""
    first = _start_of(unit.files[0])
    if start is None:
        return first
    file = next((file for file in unit.files if _base(file) == start.segment), None)
    if file is not None:
        with Source.open(file.path) as source:
            if _is_unchanged(source, start):
                return start
    if start.offset < first.offset:
        deleted = _offsets(start.offset, first.offset - 1)
        were = "was" if first.offset - start.offset == 1 else "were"
        on_loss(UnreadRecords(f"{deleted} {were} deleted from the log's start before they were read", unit.path))
        return first
    return _by_offset(unit, start, on_loss)


def _is_unchanged(source: Source, start: Position) -> bool:
    """Return whether a file still has what was read of it."""
    if source.size_bytes < start.byte:
        return False
    return start.mark_byte < 0 or _mark(source, start.mark_byte, start.byte) == start.mark


def _mark(source: Source, position: int, end: int) -> int:
    try:
        return crc32(source.read(position, min(RECORD_BATCH_OVERHEAD, end - position)))
    except UnreadableError:
        return 0


def _by_offset(unit: Unit, start: Position, on_loss: Callable[[UnreadRecords], None]) -> Position:
    """Return the position of an offset whose segment was cleaned, or was truncated and perhaps written again.

    A cleaner never cleans the active segment (`LogCleanerManager.cleanableOffsets`), so a change there is a truncation.
    """
    file = [file for file in unit.files if _base(file) <= start.offset][-1]
    if file is unit.files[-1] and _base(file) <= start.segment:
        message = (
            f"the log was read up to offset {start.offset}, then it was truncated to a lower one: records that were "
            "read are no longer in the log, and other records may have their offsets"
        )
        on_loss(UnreadRecords(message, file.path))
    end = _base(file)
    with Source.open(file.path) as source:
        for item in scan(source, base_offset=file.base_offset):
            if isinstance(item, Damage):
                continue
            for row, last in enumerate(item.batches.column("last_offset")):
                if last >= start.offset:
                    return Position(_base(file), item.batches.column("position")[row], start.offset)
                end = last + 1
        return Position(_base(file), walk_lengths(source, 0, source.size_bytes).position, end)


# --- where the next read ends------------------------------------------------------------------------------------------
def _end_in_closed(file: LogFile, here: Position, bound: int | None, max_bytes: int | None) -> Position | None:
    """Return where to stop in a segment that another one follows; None: after all of it, damage included."""
    rest = file.file.size_bytes - here.byte
    if bound is None and (max_bytes is None or rest <= max_bytes):
        return None
    with Source.open(file.path) as source:
        walk = _walk(source, here, bound, max_bytes)
        if walk.is_broken or walk.position >= source.size_bytes:
            return None
        return _position_after(source, here, walk)


def _end_in_last(
    file: LogFile, here: Position, bound: int | None, max_bytes: int | None, on_loss: Callable[[UnreadRecords], None]
) -> Position:
    """Return where to stop in the active segment."""
    with Source.open(file.path) as source:
        walk = _walk(source, here, bound, max_bytes)
        if walk.is_broken and _is_damaged(source, walk.position):
            message = f"byte {walk.position} does not start a batch: nothing after it is read"
            on_loss(UnreadRecords(message, file.path))
        if walk.before and walk.position >= source.size_bytes and _is_wrong(source, walk.before[-1]):
            walk = walk._replace(position=walk.before.pop()[0])  # a broker may be writing it now
        return _position_after(source, here, walk)


def _walk(source: Source, here: Position, bound: int | None, max_bytes: int | None) -> Walk:
    end = source.size_bytes if bound is None else min(bound, source.size_bytes)
    if max_bytes is not None:
        end = min(end, here.byte + max_bytes)
    return walk_lengths(source, here.byte, end)


def _is_wrong(source: Source, place: tuple[int, int]) -> bool:
    return place[1] <= MAX_BATCH_BYTES and last_good(source, [place], MAX_BATCH_BYTES) is None


def _is_damaged(source: Source, position: int) -> bool:
    """Return whether the bytes after the whole batches cannot be an append in progress."""
    item = next(scan(source, base_offset=None, start=position), None)
    return isinstance(item, Damage) and not may_be_unfinished(source, item)


def _position_after(source: Source, here: Position, walk: Walk) -> Position:
    """Return the position after the entries that a walk has passed."""
    if not walk.before:
        return here
    last = walk.before[-1][0]
    good = last_good(source, walk.before, MAX_BATCH_BYTES)
    offset = here.offset if good is None else max(here.offset, good[1].column("last_offset")[0] + 1)
    return Position(here.segment, walk.position, offset, last, _mark(source, last, walk.position))


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"
