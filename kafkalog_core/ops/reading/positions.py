"""How far a partition has been read by somebody who comes again: a byte of a segment, and how far to go next.

Nothing is remembered but a `Position`. It stands where a batch ends, with the offset behind that batch, by which the
place is found again where compaction or retention took the segment away, and with a mark of the batch itself, by which
it is noticed that the log was cut and written anew. Where records are gone that were never read, `Loss` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.layout import MAX_BATCH_BYTES, RECORD_BATCH_OVERHEAD
from kafkalog_core.ops.reading.file_part import FilePart, last_good, walk_lengths
from kafkalog_core.ops.reading.splits import Split
from kafkalog_core.ops.reading.tail import may_be_unfinished
from kafkalog_core.storage.scan import Damage, scan
from kafkalog_core.storage.source import Source, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.ops.reading.file_part import Walk
    from kafkalog_core.ops.reading.logfiles import LogFile, Unit

__all__ = ["Loss", "Position", "end_of", "go_on", "parts_between"]


class Position(NamedTuple):
    """Before what is to be read next.

    Args:
        segment: base offset of the segment.
        byte: in its file, where an entry ends or the file begins.
        offset: the next offset that is expected there.
        mark_byte: where the last entry before it starts; -1: there is none, or it is not known.
        mark: checksum over that entry's header.
    """

    segment: int
    byte: int
    offset: int
    mark_byte: int = -1
    mark: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that are not read: one sentence, and the file or directory that it is about."""

    message: str
    path: str


def go_on(
    unit: Unit,
    start: Position | None,
    *,
    max_bytes: int | None = None,
    until: Position | None = None,
    on_loss: Callable[[Loss], None],
) -> Position | None:
    """How far a partition can be read from a position on; null: it has no segment.

    An end that is not whole yet is left for later, and so is a last batch whose checksum is wrong.

    Args:
        unit: the partition as it is now.
        start: where the last time ended; null: at the log's start.
        max_bytes: so much at most, but a whole batch at least.
        until: not behind this one.
        on_loss: told of records that are gone, or that stand behind damage in the last segment.

    Raises StorageError where a segment cannot be opened.
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


def end_of(unit: Unit, on_loss: Callable[[Loss], None]) -> Position | None:
    """The end of a partition; null: it has no segment. Raises StorageError where the last one cannot be opened."""
    return go_on(unit, _start_of(unit.files[-1]), on_loss=on_loss) if unit.files else None


def parts_between(
    unit: Unit, start: Position | None, end: Position, on_loss: Callable[[Loss], None]
) -> Iterator[Split]:
    """What is to be read from one position to another, which `go_on` has found. Raises StorageError."""
    files = [file for file in unit.files if _base(file) <= end.segment]
    if not files or _base(files[-1]) != end.segment:
        on_loss(Loss(f"records below offset {end.offset} went away before all of them were read", unit.path))
    if not files:
        return
    here = _found_again(unit, start, on_loss)
    for file in files:
        if _base(file) < here.segment:
            continue
        begin = here if _base(file) == here.segment else _start_of(file)
        last = end.byte if _base(file) == end.segment else None
        if last is None or last > begin.byte:
            part = FilePart(start=begin.byte, end=last, begin=begin.byte, next_offset=begin.offset)
            yield Split(file=file, log_dir=unit.log_dir, part=part)


def _base(file: LogFile) -> int:
    return file.base_offset or 0


def _start_of(file: LogFile) -> Position:
    return Position(segment=_base(file), byte=0, offset=_base(file))


# --- where it ended the last time -------------------------------------------------------------------------------------
def _found_again(unit: Unit, start: Position | None, on_loss: Callable[[Loss], None]) -> Position:
    """Where to go on: the same place, or the same offset in the files that are there now."""
    first = _start_of(unit.files[0])
    if start is None:
        return first
    file = next((file for file in unit.files if _base(file) == start.segment), None)
    if file is not None:
        with Source.open(file.path) as source:
            if _is_unchanged(source, start):
                return start
    if start.offset < first.offset:
        gone = _offsets(start.offset, first.offset - 1)
        were = "was" if first.offset - start.offset == 1 else "were"
        on_loss(Loss(f"{gone} {were} deleted from the log's start before they were read", unit.path))
        return first
    return _by_offset(unit, start, on_loss)


def _is_unchanged(source: Source, start: Position) -> bool:
    """Whether what was read of a file is still there."""
    if source.size_bytes < start.byte:
        return False
    return start.mark_byte < 0 or _mark(source, start.mark_byte, start.byte) == start.mark


def _mark(source: Source, position: int, end: int) -> int:
    try:
        return crc32(source.read(position, min(RECORD_BATCH_OVERHEAD, end - position)))
    except UnreadableError:
        return 0


def _by_offset(unit: Unit, start: Position, on_loss: Callable[[Loss], None]) -> Position:
    """The place of an offset, where its segment was cleaned, or was cut and perhaps written anew.

    The last segment of a log is never cleaned; of others the offsets are what counts.
    """
    file = [file for file in unit.files if _base(file) <= start.offset][-1]
    if file is unit.files[-1] and _base(file) <= start.segment:
        said = f"the log was read up to offset {start.offset}, then it was cut back to a lower one"
        on_loss(Loss(f"{said}: records that were read are gone, and others may have come in their place", file.path))
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


# --- how far it goes now ----------------------------------------------------------------------------------------------
def _end_in_closed(file: LogFile, here: Position, bound: int | None, max_bytes: int | None) -> Position | None:
    """Where to stop in a segment that others follow; null: all of it is to be read, damage included."""
    rest = file.file.size_bytes - here.byte
    if bound is None and (max_bytes is None or rest <= max_bytes):
        return None
    with Source.open(file.path) as source:
        walk = _walk(source, here, bound, max_bytes)
        if walk.is_broken or walk.position >= source.size_bytes:
            return None
        return _behind(source, here, walk)


def _end_in_last(
    file: LogFile, here: Position, bound: int | None, max_bytes: int | None, on_loss: Callable[[Loss], None]
) -> Position:
    """Where to stop in the segment that grows."""
    with Source.open(file.path) as source:
        walk = _walk(source, here, bound, max_bytes)
        if walk.is_broken and _is_damaged(source, walk.position):
            said = f"no batch stands at byte {walk.position}, but something else: nothing behind it is read"
            on_loss(Loss(said, file.path))
        if walk.before and walk.position >= source.size_bytes and _is_wrong(source, walk.before[-1]):
            walk = walk._replace(position=walk.before.pop()[0])  # perhaps it is being written just now
        return _behind(source, here, walk)


def _walk(source: Source, here: Position, bound: int | None, max_bytes: int | None) -> Walk:
    end = source.size_bytes if bound is None else min(bound, source.size_bytes)
    if max_bytes is not None:
        end = min(end, here.byte + max_bytes)
    return walk_lengths(source, here.byte, end)


def _is_wrong(source: Source, place: tuple[int, int]) -> bool:
    return place[1] <= MAX_BATCH_BYTES and last_good(source, [place], MAX_BATCH_BYTES) is None


def _is_damaged(source: Source, position: int) -> bool:
    """Whether what stands at the end of the whole batches is no append that is going on."""
    item = next(scan(source, base_offset=None, start=position), None)
    return isinstance(item, Damage) and not may_be_unfinished(source, item)


def _behind(source: Source, here: Position, walk: Walk) -> Position:
    """The position behind what a walk has passed."""
    if not walk.before:
        return here
    last = walk.before[-1][0]
    good = last_good(source, walk.before, MAX_BATCH_BYTES)
    offset = here.offset if good is None else max(here.offset, good[1].column("last_offset")[0] + 1)
    return Position(here.segment, walk.position, offset, last, _mark(source, last, walk.position))


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"
