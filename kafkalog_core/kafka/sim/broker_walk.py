"""A log as a broker's recovery walks it: whole batches up to the first bad one, and why that one is bad.

The rules are those of `FileLogInputStream.nextBatch`, and of `DefaultRecordBatch.ensureValid` for every checksum. Here
is decided where recovery truncates a log: at the first batch with a wrong CRC, a wrong size or an incomplete end.
Unlike `scan` the walk ends there, and accepts what a broker accepts: offsets that go back, and batches of a magic that
no release writes if their checksum is right. Where a broker does not compute checksums, `stop_of_broker` returns
whether it reads past what a scan calls damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.layout import (
    ENVELOPE,
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_CRC,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V1,
    MAGIC_V2,
    MAX_INT64,
    MIN_ENTRY_SIZE,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, ScanPlace, offset_order, scan
from kafkalog_core.storage.source import WINDOW_BYTES, UnreadableError
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.storage.source import Source

__all__ = ["HeaderWalk", "ReadStop", "Unwalkable", "WalkedBatch", "stop_of_broker", "walk_as_broker"]

_ANY_OFFSET: Final = -MAX_INT64 - 1
_FIRST_NEGATIVE_MAGIC: Final = 0x80
_FRAMING: Final = LogFraming(0)
_LAST_OFFSET_DELTA: Final = slice(23, 27)
_LEGACY_ATTRIBUTES: Final = 17
_CODEC_BITS: Final = 7


class Unwalkable(NamedTuple):
    """A place where the walk throws an exception, and why, as a clause."""

    position: int
    reason: str


class WalkedBatch(NamedTuple):
    """What the first 17 bytes of a batch or message hold.

    Args:
        position: byte in the log.
        size_bytes: of the whole entry.
        offset: base offset of a batch, last offset of a message.
        magic: 0 to 255.
    """

    position: int
    size_bytes: int
    offset: int
    magic: int

    @property
    def is_legacy(self) -> bool:
        """Whether a broker treats it as a message of magic 0 or 1: it reads the magic as a signed byte."""
        return self.magic < MAGIC_V2 or self.magic >= _FIRST_NEGATIVE_MAGIC

    @property
    def has_known_legacy_magic(self) -> bool:
        """Whether its magic is 0 or 1."""
        return self.magic <= MAGIC_V1


class HeaderWalk:
    """Headers of one log.

    Args:
        source: the log.
        end: where it ends, at most the size of the file.
    """

    def __init__(self, source: Source, end: int) -> None:
        self._source = source
        self.end = min(end, source.size_bytes)

    def batches(self, position: int) -> Iterator[WalkedBatch | Unwalkable]:
        """Yield batches from a position on; an `Unwalkable` is the last item. Raises UnreadableError."""
        # FileLogInputStream.nextBatch: the file ends where no header up to the magic fits
        while 0 <= position < self.end - HEADER_SIZE_UP_TO_MAGIC:
            header = self._source.read(position, HEADER_SIZE_UP_TO_MAGIC)
            if len(header) < HEADER_SIZE_UP_TO_MAGIC:  # the file has become shorter
                return
            offset, size = ENVELOPE.struct.unpack_from(header)
            # CorruptRecordException: smaller than LegacyRecord.RECORD_OVERHEAD_V0
            if size < MIN_ENTRY_SIZE:
                yield Unwalkable(position, f"a record size of {size}, below the minimum of {MIN_ENTRY_SIZE}")
                return
            # a batch that is not complete ends the file silently
            if position > self.end - LOG_OVERHEAD - size:
                return
            yield WalkedBatch(position, LOG_OVERHEAD + size, offset, header[MAGIC_POSITION])
            position += LOG_OVERHEAD + size

    def last_offset(self, batch: WalkedBatch) -> int | Unwalkable:
        """Return the last offset of a batch: that of a message is in its first field."""
        if batch.is_legacy:
            return batch.offset
        header = self._source.read(batch.position, RECORD_BATCH_OVERHEAD)
        if len(header) < RECORD_BATCH_OVERHEAD:
            return Unwalkable(batch.position, "the file ends within the header of a batch")
        return batch.offset + int.from_bytes(header[_LAST_OFFSET_DELTA], "big", signed=True)

    def codec_bits(self, batch: WalkedBatch) -> int:
        """Return the codec in the attributes of a message of magic 0 or 1; 0 is none."""
        return self._source.read(batch.position + _LEGACY_ATTRIBUTES, 1)[0] & _CODEC_BITS


class ReadStop(NamedTuple):
    """Where a broker stops reading; `is_end`: it takes the place for the end of the file, else it throws."""

    position: int
    is_end: bool


def stop_of_broker(source: Source, damage: Damage, end: int) -> ReadStop | None:
    """Return where a broker stops in damage that a scan without checksums has found; None: it steps over all of it.

    Args:
        source: the log.
        damage: of a scan that does not check; a broker does not see damage of size 0.
        end: where the broker takes the file to end.

    Raises:
        UnreadableError: the disk does not return the bytes.
    """
    position, after = damage.position, damage.position + damage.size_bytes
    if position == after:
        return None
    for item in HeaderWalk(source, end).batches(position):
        if isinstance(item, Unwalkable):
            return ReadStop(item.position, is_end=False)
        position = item.position + item.size_bytes
        if position >= after:
            return None
    return ReadStop(position, is_end=True)


def walk_as_broker(
    source: Source,
    *,
    base_offset: int,
    max_batch_bytes: int,
    takes_v2_magic: bool,
    byte_range: tuple[int, int] | None = None,
    place: ScanPlace | None = None,
) -> Iterator[Run | Damage]:
    """Yield runs of whole batches, then, unless the file ends with one, the first damage, whatever follows it.

    After a run whose last batch has offsets that go back, and before a batch whose magic counts as 2, damage of size 0
    reports it, and the walk goes on.

    Args:
        source: a `.log` file.
        base_offset: the number in its name.
        max_batch_bytes: the largest batch.
        takes_v2_magic: a magic from 3 to 127 counts as 2; else as that of a message, as those below 0 always do.
        byte_range: first byte, and the byte after the last, of a part that is walked as if it were the file. Positions
            are relative to its start.
        place: where the walk goes on after the whole batches that another one has read; None: it begins.
    """
    walk = _Walk(source, max_batch_bytes, byte_range or (0, source.size_bytes), takes_v2_magic=takes_v2_magic)
    walk.previous = max(base_offset, -MAX_INT64) - 1
    if place is not None:
        walk.position, walk.previous = place.position, place.previous
    yield from walk.runs()
    if walk.position < walk.size_bytes:
        yield walk.damage(base_offset)


class _Walk:
    def __init__(
        self, source: Source, max_batch_bytes: int, byte_range: tuple[int, int], *, takes_v2_magic: bool
    ) -> None:
        self.position = 0
        self.previous = _ANY_OFFSET
        self._source = source
        self._origin, self._end = byte_range
        self._max_batch_bytes = max_batch_bytes
        self._takes_v2_magic = takes_v2_magic
        self._columns = BatchColumns.for_bytes(byte_range[1] - byte_range[0], LOG_OVERHEAD)
        self._wanted = WINDOW_BYTES
        self._is_over = False

    @property
    def size_bytes(self) -> int:
        """Bytes that are walked; a file may become shorter meanwhile."""
        return max(0, min(self._end, self._source.size_bytes) - self._origin)

    def runs(self) -> Iterator[Run | Damage]:
        """Yield runs up to the first damage."""
        while self.position < self.size_bytes and not self._is_over:
            asked = min(self._wanted, self.size_bytes - self.position)
            try:
                window = self._source.window(self._origin + self.position, asked)
            except UnreadableError:
                return
            before = self.position
            yield from self._runs_in(window, before)
            if len(window) < asked and self.position == before:
                return  # the first batch continues where the disk cannot be read, or the file has become shorter

    def _runs_in(self, window: memoryview, start: int) -> Iterator[Run | Damage]:
        """Yield the runs of one window; set how much is wanted next, or that the walk is over."""
        self._wanted = WINDOW_BYTES
        at, until, is_checked, is_odd = 0, len(window), True, False
        while at < len(window):
            limit = self._max_batch_bytes
            # the kernel checks size and CRC of each batch (DefaultRecordBatch.ensureValid), up to the first bad one
            stop, at = kernels.walk(window, at, until, start, self.previous, limit, is_checked, self._columns)
            self.position = start + at
            if self._columns.count:
                yield Run(window, self._columns, resynced=False, begins=start, has_odd_magic=is_odd)
                if stop == kernels.STOP_ORDER:
                    yield self._disorder()
                self.previous = self._columns.column("last_offset")[-1]
            until, is_checked, is_odd = len(window), True, stop == kernels.STOP_MAGIC
            if stop == kernels.STOP_MORE:
                self._read_on(window[at:])
                return
            if stop == kernels.STOP_MAGIC:
                magic = window[at + MAGIC_POSITION]
                until = self._accept(window, at)
                if until and window[at + MAGIC_POSITION] == MAGIC_V2:
                    yield Damage(self.position, 0, "unknown-magic", f"magic {magic} counts as 2", None)
                is_checked = window[at + MAGIC_POSITION] == MAGIC_V2
            elif stop not in {kernels.STOP_END, kernels.STOP_ORDER}:
                self._is_over = True
            if self._is_over or until <= at:
                return

    def _disorder(self) -> Damage:
        firsts, lasts = self._columns.column("base_offset"), self._columns.column("last_offset")
        before = lasts[-2] if len(lasts) > 1 else self.previous
        return offset_order(self._columns.column("position")[-1], firsts[-1], lasts[-1], before + 1)

    def _read_on(self, header: memoryview) -> None:
        """Read more: the entry at the position continues after the window."""
        needed = _FRAMING.header_bytes
        if len(header) >= needed:
            needed = _FRAMING.entry_bytes(header)
        self._wanted = max(needed, WINDOW_BYTES)
        self._is_over = self.position + needed > self.size_bytes

    def _accept(self, window: memoryview, at: int) -> int:
        """Write the magic that a broker takes an unknown one for into the window.

        Return where the next walk has to stop: at the end of the window, where the checksum is still to be checked, or
        after this one entry; 0: nowhere, as the entry is bad or not completely in the window.
        """
        entry = window[at:]
        size, magic = _FRAMING.entry_bytes(entry), entry[MAGIC_POSITION]
        if size > self._max_batch_bytes:
            self._is_over = True
            return 0
        if size > len(entry):
            self._read_on(entry)
            return 0
        # FileLogInputStream.nextBatch: a magic above 1 is a DefaultRecordBatch, any other a legacy message
        if self._takes_v2_magic and magic < _FIRST_NEGATIVE_MAGIC:
            self._is_over = size < RECORD_BATCH_OVERHEAD
            window[at + MAGIC_POSITION] = MAGIC_V2  # its checksum does not cover the magic
            return len(window)
        stored = int.from_bytes(entry[LEGACY_CRC:MAGIC_POSITION], "big")
        self._is_over = crc32(entry[MAGIC_POSITION:size]) != stored
        window[at + MAGIC_POSITION] = MAGIC_V1
        return at + size

    def damage(self, base_offset: int) -> Damage:
        """Return the damage at the position, as a scan reports it; it includes everything after it."""
        options = ScanOptions(max_batch_bytes=self._max_batch_bytes)
        start, end = self._origin + self.position, self._origin + self.size_bytes
        found = next(scan(self._source, base_offset=base_offset, options=options, start=start, end=end))
        if isinstance(found, Damage):
            return replace(found, position=found.position - self._origin)
        return Damage(
            self.position, end - start, "unknown-magic", "its checksum is wrong for the magic that it has", None
        )
