"""Record batches of magic 2 from records: those of Kafka's own topics, transaction markers, and old clients' messages.

`DefaultRecordBatch.writeHeader` and `DefaultRecord.writeTo` of Kafka's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.errors import FieldError, LimitError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.compression import compress
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import (
    BATCH_V2,
    CODEC_MASK,
    CONTROL_BIT,
    END_TXN_MARKER,
    LOG_OVERHEAD,
    MAGIC_V2,
    MAX_INT32,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    V2_ATTRIBUTES,
    V2_CRC,
    V2_MAX_TIMESTAMP,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "BatchHeader",
    "NewRecord",
    "encode_batch",
    "encode_empty",
    "encode_marker",
    "recompressed",
    "up_converted",
    "with_append_time",
]

_NO_ID: Final = -1
_MARKER_KEY: Final = (b"\x00\x00\x00\x00", b"\x00\x00\x00\x01")
"""Version 0, and type 0 (abort) or 1 (commit)."""
_CRC_END: Final = V2_CRC + 4


class NewRecord(NamedTuple):
    """A record to be written; `timestamp_ms` -1: none."""

    key: bytes | memoryview | None
    value: bytes | memoryview | None
    timestamp_ms: int
    headers: Sequence[tuple[bytes, bytes | None]] = ()


class BatchHeader(NamedTuple):
    """What a batch says besides its records; `attributes` without the codec."""

    base_offset: int = 0
    leader_epoch: int = -1
    attributes: int = 0
    producer_id: int = _NO_ID
    producer_epoch: int = _NO_ID
    base_sequence: int = _NO_ID


def encode_batch(records: Sequence[NewRecord], header: BatchHeader | None = None, *, codec: int = 0) -> bytearray:
    """Return a batch with these records, at least one; their offsets follow each other from the base offset on."""
    if not records:
        raise ValueError("a batch has at least one record")
    base_ms = records[0].timestamp_ms
    payload = bytearray()
    for number, record in enumerate(records):
        _put_record(payload, number, record.timestamp_ms - base_ms, record)
    times = (base_ms, max(record.timestamp_ms for record in records))
    return _batch(payload, len(records), len(records) - 1, times, header or BatchHeader(), codec)


def encode_marker(
    *, producer_id: int, producer_epoch: int, is_commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """Return the control batch that ends a transaction (`EndTransactionMarker`, version 0)."""
    value = END_TXN_MARKER.struct.pack(0, coordinator_epoch)
    header = BatchHeader(
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT, producer_id=producer_id, producer_epoch=producer_epoch
    )
    return encode_batch([NewRecord(_MARKER_KEY[is_commit], value, timestamp_ms)], header)


def encode_empty(header: BatchHeader, *, last_offset_delta: int, max_timestamp_ms: int) -> bytearray:
    """Return a batch without records, as the cleaner leaves one (`DefaultRecordBatch.writeEmptyHeader`): 61 bytes.

    Args:
        header: of the batch; of the attributes, those of the codec and of the delete horizon do not count.
        last_offset_delta: last offset - base offset.
        max_timestamp_ms: largest timestamp, in milliseconds since 1970; -1: none.
    """
    kept = header.attributes & (TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    times = (NO_TIMESTAMP, max_timestamp_ms)
    return _batch(bytearray(), 0, last_offset_delta, times, header._replace(attributes=kept), 0)


def recompressed(batch: memoryview, batches: BatchColumns, codec: int, *, max_bytes: int) -> bytearray:
    """Return a batch of magic 2 with its records compressed by another codec, 0: none.

    Args:
        batch: the batch, whole.
        batches: its only row.
        codec: the new codec.
        max_bytes: the largest decompressed payload.

    Raises FormatError.
    """
    for piece in decode_run(batch, batches, max_bytes=max_bytes):
        if isinstance(piece, PayloadDamage):
            raise FieldError(piece.detail)
        payload = piece.memory[piece.batches.column("payload_start")[0] : piece.batches.column("payload_end")[0]]
        fields = list(BATCH_V2.struct.unpack_from(batch))
        body = bytes(payload) if not codec else compress(codec, payload, magic=MAGIC_V2)
        fields[1] = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(body)
        fields[5] = fields[5] & ~CODEC_MASK | codec
        return _sealed(bytearray(BATCH_V2.struct.pack(*fields)) + body)
    raise FieldError("the batch has no records to compress")


def with_append_time(batch: bytearray, timestamp_ms: int) -> None:
    """Give a batch of magic 2 the time of its append (message.timestamp.type=LogAppendTime), in place."""
    attributes = int.from_bytes(batch[V2_ATTRIBUTES : V2_ATTRIBUTES + 2], "big") | TIMESTAMP_TYPE_BIT
    batch[V2_ATTRIBUTES : V2_ATTRIBUTES + 2] = attributes.to_bytes(2, "big")
    batch[V2_MAX_TIMESTAMP : V2_MAX_TIMESTAMP + 8] = timestamp_ms.to_bytes(8, "big", signed=True)
    _sealed(batch)


def up_converted(messages: memoryview, *, codec: int | None, max_bytes: int) -> bytearray:
    """Return messages of magic 0 and 1, as clients before 0.11 send them, as one batch (`LogValidator`).

    Args:
        messages: whole messages, compressed or not, with right checksums.
        codec: of the batch; None: that of the first message.
        max_bytes: the largest decompressed payload.

    Raises FormatError; LimitError if the records are too large.
    """
    batches = BatchColumns.for_bytes(len(messages), LOG_OVERHEAD)
    records: list[NewRecord] = []
    position, first_codec = 0, None
    while position < len(messages):
        stop, end = kernels.walk(messages, position, len(messages), 0, -1, max_bytes, True, batches)
        if stop not in {kernels.STOP_END, kernels.STOP_ORDER} or end == position or not batches.count:
            raise FieldError("the messages are damaged")
        if max(batches.column("format")) > 1:
            raise FieldError("a message set has a batch of magic 2")
        first_codec = batches.column("codec")[0] if first_codec is None else first_codec
        records += _records_of(messages, batches, max_bytes)
        position = end
    if not records:
        raise FieldError("there is no message")
    return encode_batch(records, codec=first_codec or 0 if codec is None else codec)


def _records_of(memory: memoryview, batches: BatchColumns, max_bytes: int) -> Iterable[NewRecord]:
    for piece in decode_run(memory, batches, max_bytes=max_bytes):
        if isinstance(piece, PayloadDamage):
            raise FieldError(piece.detail)
        rows = piece.records
        columns = [rows.column(name) for name in ("key_start", "key_size", "value_start", "value_size", "timestamp_ms")]
        if not all(rows.column("crc_ok")):
            raise FieldError("the checksum of an inner message is wrong")
        for key, key_size, value, value_size, time_ms in zip(*columns, strict=True):
            yield NewRecord(
                None if key_size < 0 else bytes(piece.memory[key : key + key_size]),
                None if value_size < 0 else bytes(piece.memory[value : value + value_size]),
                time_ms if time_ms >= 0 else -1,
            )


def _batch(
    payload: bytearray, count: int, last_delta: int, times: tuple[int, int], header: BatchHeader, codec: int
) -> bytearray:
    body = payload if not codec else compress(codec, payload, magic=MAGIC_V2)
    size = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(body)
    if size > MAX_INT32:
        raise LimitError(f"a batch of {size} bytes is too large")
    head = BATCH_V2.struct.pack(
        header.base_offset,
        size,
        header.leader_epoch,
        MAGIC_V2,
        0,
        header.attributes & ~CODEC_MASK | codec,
        last_delta,
        *times,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    return _sealed(bytearray(head) + body)


def _sealed(batch: bytearray) -> bytearray:
    """Write the checksum, which covers all after itself."""
    batch[V2_CRC:_CRC_END] = crc32c(memoryview(batch)[_CRC_END:]).to_bytes(4, "big")
    return batch


def _put_record(out: bytearray, delta: int, time_delta: int, record: NewRecord) -> None:
    body = bytearray(1)  # attributes of a record: none are defined
    _put_varint(body, time_delta)
    _put_varint(body, delta)
    _put_bytes(body, record.key)
    _put_bytes(body, record.value)
    _put_varint(body, len(record.headers))
    for name, value in record.headers:
        _put_bytes(body, name)
        _put_bytes(body, value)
    _put_varint(out, len(body))
    out += body


def _put_bytes(out: bytearray, value: bytes | memoryview | None) -> None:
    if value is None:
        out.append(1)  # the length -1
        return
    _put_varint(out, len(value))
    out += value


def _put_varint(out: bytearray, value: int) -> None:
    """Append a zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
