"""What a leader checks of a producer's batch before it appends it, and how it answers a batch that it has already.

The rules follow `UnifiedLog.analyzeAndValidateRecords`, `LogValidator` and `ProducerAppendInfo` of Kafka 4.3.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.errors import FormatError
from kafkalog_core.format.batch_writer import recompressed, up_converted, with_append_time
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import (
    CONTROL_BIT,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    MAX_INT32,
    TRANSACTIONAL_BIT,
)
from kafkalog_core.livebroker.logs.live_log import Appended
from kafkalog_core.serve.logs.partition_access import PartitionError
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.structs import Struct
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.producer_anomalies import Known
    from kafkalog_core.livebroker.logs.live_log import LiveLog

__all__ = [
    "AppendPolicy",
    "InvalidBatchError",
    "ProducedBatch",
    "RecordError",
    "append_produced",
    "checked_batch",
    "codec_of",
]

_CODECS: Final = {"uncompressed": 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_ZSTD: Final = 4
_FIRST_WITH_ZSTD: Final = 7
_FIRST_WITH_BATCHES: Final = 3
_NO_ID: Final = -1
_LARGEST_MAGIC: Final = 2
_FRAMING: Final = LogFraming(0)


class AppendPolicy(Struct, frozen=True, kw_only=True):
    """What the settings of a topic say of appends.

    Args:
        max_message_bytes: the largest batch.
        max_decompressed_bytes: of its records.
        codec: of what is stored; None: the producer's (compression.type=producer).
        is_compacted: whether every record needs a key.
        has_append_time: message.timestamp.type=LogAppendTime.
        before_max_ms, after_max_ms: how far the timestamp of a record may be from now.
    """

    max_message_bytes: int
    max_decompressed_bytes: int
    codec: int | None = None
    is_compacted: bool = False
    has_append_time: bool = False
    before_max_ms: int = 2**63 - 1
    after_max_ms: int = 2**63 - 1


def codec_of(compression_type: str) -> int | None:
    """Return the codec id of a compression.type; None: that of the producer."""
    return _CODECS.get(compression_type)


class RecordError(NamedTuple):
    """A record of a batch that is refused (KIP-467)."""

    number: int
    message: str


class InvalidBatchError(PartitionError):
    """A batch that is refused; `records`: those that are the reason, if single ones are."""

    def __init__(self, code: ErrorCode, message: str, records: tuple[RecordError, ...] = ()) -> None:
        super().__init__(code)
        self.message = message
        self.records = records


class ProducedBatch(NamedTuple):
    """A batch that may be appended, and what it says of its producer.

    `rows`: its header, valid until this thread checks the next batch; None: `data` is not what was checked.
    """

    data: bytearray
    rows: BatchColumns | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    append_time_ms: int


class _Thread(threading.local):
    """Columns of this thread, which are reused."""

    def __init__(self) -> None:
        self.batches = BatchColumns(4)
        self.records = RecordColumns()


_THREAD: Final = _Thread()


def checked_batch(records: memoryview, policy: AppendPolicy, *, version: int, now_ms: int) -> ProducedBatch:
    """Return what a client sends to a partition, ready to be appended.

    Args:
        records: a batch of magic 2 or, before version 3, messages of magic 0 and 1.
        policy: of the topic.
        version: of the Produce request.
        now_ms: the time of the append.

    Raises InvalidBatchError.
    """
    if len(records) < LOG_OVERHEAD + 5:
        raise InvalidBatchError(ErrorCode.INVALID_RECORD, "there is no record batch")
    magic = records[MAGIC_POSITION]
    # Since version 3 of Produce clients send magic 2 only (KIP-98).
    if magic > _LARGEST_MAGIC or (version >= _FIRST_WITH_BATCHES and magic < MAGIC_V2):
        raise InvalidBatchError(ErrorCode.INVALID_RECORD, f"magic {magic} is not accepted in version {version}")
    data = bytearray(records) if magic == MAGIC_V2 else _converted(records, policy)
    batches = _only_batch(data)
    header = batches.row(0)
    codec, attributes = header["codec"], header["attributes"]
    # UNSUPPORTED_COMPRESSION_TYPE: zstd came with version 7 of Produce (KIP-110).
    if codec == _ZSTD and version < _FIRST_WITH_ZSTD:
        raise InvalidBatchError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of Produce (KIP-110)")
    # Before decompression, as LogValidator does: a large batch costs nothing then.
    if len(data) > policy.max_message_bytes:
        message = f"the batch has {len(data)} bytes, more than max.message.bytes={policy.max_message_bytes}"
        raise InvalidBatchError(ErrorCode.MESSAGE_TOO_LARGE, message)
    _check_header(header)
    _check_records(data, batches, header, policy, now_ms)
    is_changed = policy.has_append_time
    # compression.type of the topic: stored in another codec than the producer's.
    if policy.codec is not None and policy.codec != codec:
        data = recompressed(memoryview(data), batches, policy.codec, max_bytes=policy.max_decompressed_bytes)
        is_changed = True
    # LogAppendTime replaces the largest timestamp in the header, and no record is rewritten.
    if policy.has_append_time:
        with_append_time(data, now_ms)
    base = header["base_sequence"]
    delta = header["last_offset"] - header["base_offset"]
    return ProducedBatch(
        data,
        None if is_changed else batches,
        header["producer_id"],
        header["producer_epoch"],
        base,
        # DefaultRecordBatch.incrementSequence: it wraps after 2^31-1.
        _NO_ID if base < 0 else (base + delta) & MAX_INT32,
        bool(attributes & TRANSACTIONAL_BIT),
        now_ms if policy.has_append_time else _NO_ID,
    )


def _converted(records: memoryview, policy: AppendPolicy) -> bytearray:
    """Return messages of an old client as a batch."""
    try:
        return up_converted(records, codec=policy.codec, max_bytes=policy.max_decompressed_bytes)
    except FormatError as error:
        raise InvalidBatchError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _only_batch(data: bytearray) -> BatchColumns:
    """Return the header of a batch whose checksum is right, and after which nothing follows."""
    batches = _THREAD.batches
    # The checksum is computed before anything else is believed.
    stop, end = _FRAMING.walk(memoryview(data), 0, -1, len(data), check=True, into=batches)
    if not batches.count or batches.cell("format", 0) != MAGIC_V2:
        what = "its checksum is wrong" if stop == kernels.STOP_CHECKSUM else "it is not a whole record batch"
        raise InvalidBatchError(ErrorCode.CORRUPT_MESSAGE, what)
    # LogValidator: one batch for each partition, so that an error concerns one batch.
    if batches.count > 1 or end != len(data):
        raise InvalidBatchError(ErrorCode.INVALID_RECORD, "a produce request has one batch for each partition")
    return batches


def _check_header(header: dict[str, int]) -> None:
    count, attributes = header["record_count"], header["attributes"]
    delta = header["last_offset"] - header["base_offset"]
    producer_id, base_sequence = header["producer_id"], header["base_sequence"]
    problem = None
    if attributes & CONTROL_BIT:
        problem = "clients cannot write control batches"
    # Clients send records without holes; only the cleaner makes some.
    elif count <= 0 or count != delta + 1:
        problem = f"the batch says that it has {count} records and {delta + 1} offsets"
    elif attributes & TRANSACTIONAL_BIT and producer_id < 0:
        problem = "a transactional batch has no producer id"
    elif producer_id >= 0 and base_sequence < 0:
        problem = f"producer {producer_id} sends the sequence number {base_sequence}"
    if problem is not None:
        raise InvalidBatchError(ErrorCode.INVALID_RECORD, problem)


def _check_records(
    data: bytearray, batches: BatchColumns, header: dict[str, int], policy: AppendPolicy, now_ms: int
) -> None:
    """Check every record: that it can be decoded, has the next offset, a key if it needs one, and a fitting time."""
    expected, seen = header["base_offset"], 0
    limit = policy.max_decompressed_bytes
    for piece in decode_run(memoryview(data), batches, max_bytes=limit, records=_THREAD.records):
        if isinstance(piece, PayloadDamage):
            raise InvalidBatchError(ErrorCode.INVALID_RECORD, piece.detail)
        cell, rows = piece.records.cell, piece.records.count
        if rows and (cell("offset", 0) != expected or cell("offset", rows - 1) != expected + rows - 1):
            raise InvalidBatchError(ErrorCode.INVALID_RECORD, "the offsets of its records do not follow each other")
        # Compacted topics need keys (LogValidator).
        if policy.is_compacted and -1 in piece.records.column("key_size"):
            bad = [number for number, size in enumerate(piece.records.column("key_size"), seen) if size < 0]
            errors = tuple(RecordError(each, "a compacted topic needs a key") for each in bad)
            message = "one or more records have been rejected: a compacted topic needs keys"
            raise InvalidBatchError(ErrorCode.INVALID_RECORD, message, errors)
        if not policy.has_append_time:
            _check_times(piece.records.column("timestamp_ms"), seen, policy, now_ms)
        expected += rows
        seen += rows
    if seen != header["record_count"]:
        raise InvalidBatchError(ErrorCode.INVALID_RECORD, "it holds fewer records than it says")


def _check_times(times: memoryview, first: int, policy: AppendPolicy, now_ms: int) -> None:
    least, most = now_ms - policy.before_max_ms, now_ms + policy.after_max_ms
    if not len(times) or (min(times) >= least and max(times) <= most):
        return
    bad = [number for number, time in enumerate(times, first) if time >= 0 and not least <= time <= most]
    if bad:
        errors = tuple(RecordError(each, "its timestamp is out of range") for each in bad)
        raise InvalidBatchError(ErrorCode.INVALID_TIMESTAMP, f"timestamps must be {least} to {most}", errors)


def append_produced(log: LiveLog, batch: ProducedBatch) -> Appended:
    """Append a batch, or return the offsets that it got when it was sent before (KIP-98).

    Raises PartitionError and StorageError. Call it under the log's lock if what came before must still hold.
    """
    with log.lock:
        # The common case first: the batch follows the last one of its producer.
        if batch.producer_id >= 0 and not log.is_next(batch.producer_id, batch.producer_epoch, batch.base_sequence):
            known = log.known_producer(batch.producer_id)
            duplicate = None if known is None else _duplicate_of(known, batch)
            if duplicate is not None:
                # A retry: the producer gets the offsets of its first attempt, and nothing is appended.
                return duplicate
            if known is not None:
                _check_producer(known, batch)
        elif batch.producer_id >= 0 and not batch.is_transactional and log.has_transaction(batch.producer_id):
            raise PartitionError(ErrorCode.INVALID_TXN_STATE)
        return log.append(batch.data, batch.rows)


def _duplicate_of(known: Known, batch: ProducedBatch) -> Appended | None:
    """Return the offsets of a batch that is one of the last five (`ProducerStateEntry.findDuplicateBatch`)."""
    if known.epoch != batch.producer_epoch:
        return None
    # Five, as many as a producer may have in flight (max.in.flight.requests.per.connection).
    for each in known.recent:
        if (each.first_sequence, each.last_sequence) == (batch.base_sequence, batch.last_sequence):
            span = (each.last_sequence - each.first_sequence) & MAX_INT32
            return Appended(each.first_offset, each.first_offset + span)
    return None


def _check_producer(known: Known, batch: ProducedBatch) -> None:
    """Check epoch and sequence (`ProducerAppendInfo.maybeValidateDataBatch`)."""
    # An older instance of the producer.
    if batch.producer_epoch < known.epoch:
        raise PartitionError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if batch.producer_epoch != known.epoch:
        # A new epoch begins with sequence 0, unless the epoch was unknown.
        if batch.base_sequence != 0 and known.epoch != _NO_ID:
            raise PartitionError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    elif known.epoch != _NO_ID:
        last = known.recent[0].last_sequence if known.recent else _NO_ID
        if batch.base_sequence != (last + 1) & MAX_INT32:
            raise PartitionError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # A non-transactional batch within a transaction would end with it (ProducerAppendInfo.appendDataBatch).
    if known.txn_first_offset is not None and not batch.is_transactional:
        raise PartitionError(ErrorCode.INVALID_TXN_STATE)
