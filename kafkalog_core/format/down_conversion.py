"""Record batches as the message sets of magic 0 and 1, which clients before 0.11 and before 0.10 read.

The rules are those of `RecordsUtil.downConvert` and `LazyDownConversionRecords` of Kafka 3.9, the last line that
converts (KIP-724 removed it in 4.0), with three differences. The messages are not compressed, so that batches of a
codec that the client does not know (zstd, KIP-110) are readable too; checksums are verified, because the new
ones would hide that the old ones were wrong; and the result says where to go on, for ranges that hold no message.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from kafkalog_core import kernels
from kafkalog_core.errors import ChecksumError, FieldError, FormatError, LimitError, UnsupportedError
from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import (
    CONTROL_BIT,
    LEGACY_CRC,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    MAX_BATCH_BYTES,
    MAX_INT32,
    MESSAGE_V0,
    MESSAGE_V1,
    RECORD_OVERHEAD_V0,
    RECORD_OVERHEAD_V1,
    TIMESTAMP_TYPE_BIT,
)
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.format.decode import RecordRun

__all__ = ["MessageSet", "down_convert"]

_NULL: Final = -1
_CRC_BYTES: Final = 4
_LENGTH_BYTES: Final = 4
_RECORD_FIELDS: Final = (
    "batch",
    "offset",
    "timestamp_ms",
    "key_start",
    "key_size",
    "value_start",
    "value_size",
    "crc_ok",
)


class MessageSet(Struct, frozen=True):
    """Converted messages.

    Args:
        data: whole messages, in the order of their offsets.
        next_offset: the first offset that is not covered: the messages below it are in `data`, or there are none.
        is_full: whether the limit of bytes ended the conversion.
    """

    data: bytes
    next_offset: int
    is_full: bool


def down_convert(
    data: memoryview,
    magic: int,
    first_offset: int,
    *,
    max_bytes: int = MAX_INT32,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> MessageSet:
    """Return the records of some batches as uncompressed messages of magic 0 or 1.

    A batch that is cut at the end is ignored. Headers and control batches have no form in these magics and are dropped;
    so are records below `first_offset` (librdkafka relies on it). Batches that have
    the magic already, or a lower one, are copied whole. If a batch after the first message cannot be decoded, the
    messages before it are returned.

    Args:
        data: batches of magic 0, 1 and 2, one after the other.
        magic: the highest magic of the result, 0 or 1.
        first_offset: the offset that the client asked for.
        max_bytes: size of the result; one message is returned even if it is larger.
        max_batch_bytes: the largest batch, and its largest decompressed payload.

    Raises:
        FormatError: the first batch that matters cannot be decoded.
    """
    if magic not in (MAGIC_V0, MAGIC_V1):
        raise ValueError(f"messages have magic 0 or 1, not {magic}")
    writer = _MessageWriter(magic, first_offset, max_bytes, max_batch_bytes)
    try:
        _convert(data, writer)
    except FormatError:
        # The client gets what precedes the damage, and the error when it asks for the rest.
        if not writer.data:
            raise
    return MessageSet(bytes(writer.data), writer.next_offset, writer.is_full)


def _convert(data: memoryview, writer: _MessageWriter) -> None:
    """Give the batches to a writer, run by run, until it is full. Raises FormatError."""
    batches = BatchColumns.for_bytes(len(data), LOG_OVERHEAD)
    position, stop = 0, kernels.STOP_END
    while position < len(data) and stop in {kernels.STOP_END, kernels.STOP_ORDER} and not writer.is_full:
        # Offsets that go back are served as they are, as a broker does: -1 is below every offset.
        limit = writer.max_batch_bytes
        stop, position = kernels.walk(data, position, len(data), 0, -1, limit, True, batches)
        _write_run(data, batches, writer)
    if stop not in {kernels.STOP_END, kernels.STOP_ORDER, kernels.STOP_MORE} and not writer.is_full:
        raise _stop_error(data, batches, stop, position)


def _stop_error(data: memoryview, batches: BatchColumns, stop: int, position: int) -> FormatError:
    """Return the error of the bytes at which a walk stopped."""
    if stop == kernels.STOP_CHECKSUM:
        row = batches.count  # filled, but not counted
        stored, computed = (
            batches.view[batches.fields.index(name) * batches.capacity + row] for name in ("crc_stored", "crc_computed")
        )
        return ChecksumError("the checksum of a batch is wrong", stored=stored, computed=computed, position=position)
    if stop == kernels.STOP_MAGIC:
        return UnsupportedError(f"a batch of magic {data[position + MAGIC_POSITION]}", position=position)
    if stop == kernels.STOP_LIMIT:
        return LimitError("a batch is larger than the limit", position=position)
    return FieldError("the length of a batch is not valid", position=position)


def _write_run(data: memoryview, batches: BatchColumns, writer: _MessageWriter) -> None:
    """Write the batches of a walk: control batches are dropped, those that the client reads copied."""
    kinds = [
        "dropped" if form == MAGIC_V2 and attributes & CONTROL_BIT else "converted" if form > writer.magic else "copied"
        for form, attributes in zip(batches.column("format"), batches.column("attributes"), strict=True)
    ]
    for kind, group in groupby(range(batches.count), kinds.__getitem__):
        rows = list(group)
        part = batches.part(rows[0], rows[-1] + 1)
        if kind == "copied":
            writer.copy(data, part)
        elif kind == "converted":
            writer.convert(data, part)
        if writer.is_full:
            return
        writer.pass_to(part.column("last_offset"))


class _MessageWriter:
    """The messages so far, their end, and whether the next one no longer fits."""

    def __init__(self, magic: int, first_offset: int, max_bytes: int, max_batch_bytes: int) -> None:
        self.magic = magic
        self.max_batch_bytes = max_batch_bytes
        self.data = bytearray()
        self.next_offset = first_offset
        self.is_full = False
        self._first_offset = first_offset
        self._max_bytes = max_bytes
        self._columns = RecordColumns()

    def pass_to(self, last_offsets: Iterable[int]) -> None:
        """Note that every offset up to the last of some batches is covered."""
        self.next_offset = max(self.next_offset, max(last_offsets) + 1)

    def copy(self, data: memoryview, batches: BatchColumns) -> None:
        """Copy whole batches. Their offsets are not looked at: clients skip messages below the offset they asked for.

        The position of a row is that in `data`, because `walk` gets 0 as the position of its first byte.
        """
        columns = (batches.column(name) for name in ("position", "size_bytes", "last_offset"))
        for position, size_bytes, last_offset in zip(*columns, strict=True):
            if not self._has_room(size_bytes):
                return
            self.data += data[position : position + size_bytes]
            self.pass_to([last_offset])

    def convert(self, data: memoryview, batches: BatchColumns) -> None:
        """Write each record of some batches as a message. Raises FormatError; the records before it are written."""
        for item in decode_run(data, batches, max_bytes=self.max_batch_bytes, records=self._columns):
            if isinstance(item, PayloadDamage):
                if not item.is_read:
                    raise FieldError(f"a batch cannot be decoded: {item.detail}")
                continue
            self._write(item)
            if self.is_full:
                return

    def _write(self, run: RecordRun) -> None:
        memory, attributes = run.memory, run.batches.column("attributes")
        is_v0 = self.magic == MAGIC_V0
        overhead = LOG_OVERHEAD + (RECORD_OVERHEAD_V0 if is_v0 else RECORD_OVERHEAD_V1)
        rows = zip(*map(run.records.column, _RECORD_FIELDS), strict=True)
        for batch, offset, timestamp_ms, key_start, key_size, value_start, value_size, is_correct in rows:
            if offset < self._first_offset:
                continue
            if not is_correct:
                raise FieldError(f"the checksum of the message at offset {offset} in a wrapper is wrong")
            size_bytes = overhead + max(key_size, 0) + max(value_size, 0)
            if not self._has_room(size_bytes):
                return
            rest = size_bytes - LOG_OVERHEAD
            if is_v0:
                head = MESSAGE_V0.struct.pack(offset, rest, 0, MAGIC_V0, 0, key_size)
            else:  # a record of a batch with LogAppendTime is decoded with the batch's maximum timestamp
                kind = attributes[batch] & TIMESTAMP_TYPE_BIT
                head = MESSAGE_V1.struct.pack(offset, rest, 0, MAGIC_V1, kind, timestamp_ms, key_size)
            key = b"" if key_size == _NULL else memory[key_start : key_start + key_size]
            value = b"" if value_size == _NULL else memory[value_start : value_start + value_size]
            length = value_size.to_bytes(_LENGTH_BYTES, "big", signed=True)
            covered = b"".join((head[MAGIC_POSITION:], key, length, value))
            self.data += head[:LEGACY_CRC] + crc32(covered).to_bytes(_CRC_BYTES, "big")
            self.data += covered
            self.next_offset = max(self.next_offset, offset + 1)

    def _has_room(self, size_bytes: int) -> bool:
        """Return whether an entry fits; the first one always does (KIP-74)."""
        self.is_full = bool(self.data) and len(self.data) + size_bytes > self._max_bytes
        return not self.is_full
