"""Compressed payloads of many batches, inflated one behind the other, and what is said of those that cannot be."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError, FormatError, LimitError, TruncatedError
from kafkalog_core.format import kernels
from kafkalog_core.format.bounded import TrailingError
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns
from kafkalog_core.format.compression import inflater
from kafkalog_core.format.layout import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NAMES,
    CODEC_SNAPPY,
    MAGIC_V0,
    MAGIC_V2,
    V07_MAX_DEPTH,
)

if TYPE_CHECKING:
    from kafkalog_core.format.bounded import Buffer, Content

__all__ = ["Arena", "PayloadDamage", "codec_name", "first_offset", "lost_offsets"]

ARENA_BYTES: Final = 128 * 1024  # are inflated before their records are decoded: so much stays near to the processor
_ROOM: Final = 8  # times as much memory there is, as the last row may need some
_QUICK: Final = frozenset(
    (CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4) if kernels.COMPILED else ()
)  # codecs that the kernel knows
_V07_ROWS: Final = 512  # messages that are walked at a time, in search of wrappers
_INFLATE_ERRORS: Final = (
    (LimitError, "payload-limit"),
    (TruncatedError, "payload-truncated"),
    (TrailingError, "payload-trailing"),
    (FormatError, "payload"),
)


@dataclass(frozen=True, slots=True)
class PayloadDamage:
    """The batch in row `batch` has a good checksum, but not all of its records can be read; `records_before` were.

    For the reason `payload-trailing` it is not records that are missing: bytes stand behind those that hold them.
    `next_offset` is the first offset that was not read; None where it is not known, or nothing is missing.
    """

    batch: int
    reason: str
    detail: str
    records_before: int
    next_offset: int | None = None


def codec_name(codec: int) -> str:
    """Kafka's name of a codec id; `unknown-5` and so on for ids without a name."""
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown-{codec}"


def first_offset(batches: BatchColumns, row: int) -> int | None:
    """Where a batch starts; None of a compressed message, as only its content knows."""
    first: int = batches.column("base_offset")[row]
    return None if first < 0 else first


def lost_offsets(batches: BatchColumns, row: int, lost_from: int | None) -> str:
    """Which offsets a batch holds from `lost_from` on, as the end of a sentence."""
    if batches.column("format")[row] == FORMAT_V07:
        return ""
    last = batches.column("last_offset")[row]
    if lost_from is None:
        return f"; what it holds up to offset {last} is not read"
    if lost_from > last:
        return ""
    return f"; offset {last} is not read" if lost_from == last else f"; offsets {lost_from} to {last} are not read"


class Arena:
    """Inflated payloads one behind the other, and a copy of the batch columns whose spans point into them."""

    def __init__(self, memory: memoryview, batches: BatchColumns, max_bytes: int) -> None:
        self.memory = memoryview(b"")
        self.columns = batches.copy()
        self._memory = memory
        self._batches = batches
        self._max_bytes = max_bytes
        self._codecs, self._formats = batches.column("codec"), batches.column("format")
        self._payloads = batches.column("payload_start"), batches.column("payload_end")
        self._starts, self._ends = self.columns.column("payload_start"), self.columns.column("payload_end")
        self._opener = _WrapperOpener() if self._formats[0] == FORMAT_V07 else None  # no file is so in part
        self._quick = _QUICK if self._opener is None else frozenset()
        self._room = kernels.uncleared(_ROOM * ARENA_BYTES)
        self._row = self._size_bytes = 0  # the next row, and all that those before it hold
        self._held: tuple[int, Content] | None = None  # a row that was inflated when there was no more room for it

    def fill(self, first: int, last: int) -> tuple[int, PayloadDamage | None]:
        """Inflate payloads of rows `first` to `last` (exclusive) until the arena is full; their spans point into it.

        What was given out before is written over. Returns the first row that is not inflated, and the damage that
        ended it: that row's own, or of the row before it, which is inflated, but of which not all bytes are content.
        """
        self._row, self._size_bytes, self.memory = first, 0, memoryview(self._room)
        held, self._held = self._held, None
        damage = None
        try:
            if held is not None and held[0] == first:
                self._put(held[1])
            while self._row < last and self._size_bytes < ARENA_BYTES:
                if not (self._fill_quickly(last) and self._fill_carefully(last)):
                    break
        except TrailingError as error:
            if self._put(error.content):
                damage = self._damage(self._row - 1, error)
        except FormatError as error:
            damage = self._damage(self._row, error)
        self.memory = self.memory[: self._size_bytes]
        return self._row, damage

    def _fill_quickly(self, last: int) -> bool:
        """Rows that the kernel vouches for. Returns whether there may be room for the next one."""
        if self._codecs[self._row] not in self._quick:
            return True
        place = (self._room, self._size_bytes, ARENA_BYTES, self.columns)
        row = kernels.inflate_rows(self._memory, self._batches, self._row, last, self._max_bytes, *place)
        has_room = row >= 0
        if not has_room:
            row = ~row
        if row > self._row:
            self._row, self._size_bytes = row, self._ends[row - 1]
        return has_room

    def _fill_carefully(self, last: int) -> bool:
        """Rows until one that the kernel may vouch for. Returns whether there may be room for that one.

        What stays the same for many small batches is looked up once.
        """
        memory, max_bytes, arena, quick = self._memory, self._max_bytes, self.memory, self._quick
        first, size_bytes = self._row, self._size_bytes
        ends = array("q")
        content: Content | None = None
        inflate_codec = -1
        columns = (column[first:last] for column in (self._codecs, self._formats, *self._payloads))
        try:
            for codec, batch_format, start, end in zip(*columns, strict=True):
                if size_bytes >= ARENA_BYTES or (ends and codec in quick):
                    break
                if codec != inflate_codec:
                    inflate = inflater(codec) if self._opener is None else partial(self._opener.inflate, codec)
                    inflate_codec = codec
                if start < end:
                    content = inflate(memory[start:end], batch_format, max_bytes)
                elif start < 0:
                    raise FieldError("its key and value lengths do not fit, or it has no value to open")
                else:  # a batch that compaction emptied holds nothing to inflate
                    content = b"" if batch_format == MAGIC_V2 else inflate(b"", batch_format, max_bytes)
                behind = size_bytes + len(content)
                if behind > len(arena):
                    break
                arena[size_bytes:behind] = content
                ends.append(behind)
                size_bytes, content = behind, None
        finally:
            self._starts[first : first + len(ends)] = (array("q", [self._size_bytes]) + ends)[: len(ends)]
            self._ends[first : first + len(ends)] = ends
            self._row, self._size_bytes = first + len(ends), size_bytes
        if content is not None and not self._put(content):
            self._held = self._row, content
            return False
        return True

    def _put(self, content: Content) -> bool:
        """The content of the next row; too large a one stands by itself. Returns whether there is room for it."""
        behind = self._size_bytes + len(content)
        if behind <= len(self._room):
            self.memory[self._size_bytes : behind] = content
        elif not self._size_bytes:
            self.memory = memoryview(content)
        else:
            return False
        self._starts[self._row], self._ends[self._row] = self._size_bytes, behind
        self._row, self._size_bytes = self._row + 1, behind
        return True

    def _damage(self, row: int, error: FormatError) -> PayloadDamage:
        if self._payloads[0][row] < 0:
            reason, detail = "wrapper-value", str(error)
        else:
            reason = next(name for kind, name in _INFLATE_ERRORS if isinstance(error, kind))
            detail = f"{codec_name(self._codecs[row])}: {error}"
        if isinstance(error, TrailingError):
            return PayloadDamage(row, reason, detail, 0)
        lost_from = first_offset(self._batches, row)
        return PayloadDamage(row, reason, detail + lost_offsets(self._batches, row, lost_from), 0, lost_from)


class _WrapperOpener:
    """Opens wrappers of 0.7: what they hold, as a flat set of messages.

    All that is inflated on the way counts against the limit, not only what is left of it in the end: a level is held
    while those inside are read, and a hundred bytes can hold many wrappers of a megabyte of empty ones each.
    """

    def __init__(self) -> None:
        self._columns = BatchColumns(_V07_ROWS)
        self._left_bytes = 0
        self._trailing: TrailingError | None = None

    def inflate(self, codec: int, payload: Buffer, _format: int, max_bytes: int) -> Content:
        """All messages of one wrapper, however nested. An `Inflater` for its codec; raises what those raise."""
        self._left_bytes = max_bytes
        self._trailing = None
        content = self._flat(self._opened(codec, payload), depth=1)
        if self._trailing is not None:
            raise TrailingError(content, self._trailing.trailing_bytes, position=self._trailing.position)
        return content

    def _opened(self, codec: int, payload: Buffer) -> Content:
        content: Content
        try:
            content = inflater(codec)(payload, MAGIC_V0, self._left_bytes)
        except TrailingError as error:
            content, self._trailing = error.content, error
        self._left_bytes -= len(content)
        return content

    def _flat(self, content: Content, depth: int) -> Content:
        """Messages with every wrapper replaced by what it holds. A cut message at the end stays as it is."""
        if depth > V07_MAX_DEPTH:
            raise LimitError(f"wrappers are nested more than {V07_MAX_DEPTH} deep")
        messages = memoryview(content)
        end = len(messages)
        flat = bytearray()
        position = kept = 0
        columns = self._columns
        while True:
            _, position = kernels.walk_v07(messages, position, end, 0, 0, end, False, columns)
            if not columns.count:
                break
            for at, size_bytes, codec, start, stop in self._wrappers():
                flat += messages[kept:at]
                kept = at + size_bytes
                flat += memoryview(self._flat(self._opened(codec, messages[start:stop]), depth + 1))
        if not kept:
            return content
        flat += messages[kept:]
        return flat

    def _wrappers(self) -> list[tuple[int, ...]]:
        """Position, size, codec and payload of those messages in the columns that are wrappers themselves."""
        codecs = self._columns.column("codec")
        if not self._columns.has_any("codec"):
            return []
        names = ("position", "size_bytes", "codec", "payload_start", "payload_end")
        rows = zip(*map(self._columns.column, names), strict=True)
        return [row for row, codec in zip(rows, codecs, strict=True) if codec]
