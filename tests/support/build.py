"""Builders of Kafka's bytes for tests, fuzzing and benchmarks, written from the formats' description alone.

They share nothing with kafkalog, so that a decoder and its tests cannot agree on the same mistake. Every builder gives
bytes. Whatever a writer computes (checksums, counts, deltas) can be given instead, to build what is broken.

    log = batch_v2([Record(offset=7, key=b"k", value=b"v", timestamp_ms=1000)], codec=GZIP)
    log += wrapper_v1(records, codec=SNAPPY, log_append_time_ms=2000)
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import crc32c

from kafkalog_core.structs import Struct, replace
from tests.support.build_files import (
    Producer,
    epoch_checkpoint,
    meta_properties,
    offset_checkpoint,
    offset_index,
    partition_metadata,
    snapshot,
    time_index,
    txn_index,
)
from tests.support.framing import FRAMINGS, GZIP, LZ4, SNAPPY, ZSTD, compress

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "ABORT",
    "COMMIT",
    "FRAMINGS",
    "GZIP",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
    "LEADER_CHANGE",
    "LZ4",
    "NONE",
    "SNAPPY",
    "SNAPSHOT_FOOTER",
    "SNAPSHOT_HEADER",
    "ZSTD",
    "Producer",
    "Record",
    "batch_v2",
    "compress",
    "control_batch",
    "empty_batch",
    "epoch_checkpoint",
    "kraft_version_value",
    "kraft_voters_value",
    "leader_change_value",
    "message_v0",
    "message_v07",
    "message_v1",
    "meta_properties",
    "offset_checkpoint",
    "offset_index",
    "partition_metadata",
    "record_v2",
    "snapshot",
    "snapshot_footer_value",
    "snapshot_header_value",
    "time_index",
    "txn_index",
    "txn_marker",
    "unsigned_varint",
    "varint",
    "wrapper_v0",
    "wrapper_v07",
    "wrapper_v1",
]

NONE = 0
ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)

Header = tuple[bytes, bytes | None]


class Record(Struct, frozen=True, kw_only=True):
    """What a consumer reads. `attributes` are those of the record itself, always 0 in a batch of magic 2."""

    offset: int = 0
    timestamp_ms: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    attributes: int = 0


# --- varints ---------------------------------------------------------------------------------------------------------
def unsigned_varint(value: int) -> bytes:
    """LEB128: 7 bits a byte, least significant first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Zigzag, then LEB128: 0, -1, 1, -2 become 0, 1, 2, 3. The same bytes for Kafka's varint and varlong."""
    return unsigned_varint(2 * value if value >= 0 else -2 * value - 1)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _sized_int32(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


# --- magic 2 ---------------------------------------------------------------------------------------------------------
def record_v2(record: Record, *, base_offset: int, base_timestamp_ms: int) -> bytes:
    """One record in a batch, its size in front."""
    body = bytearray([record.attributes & 0xFF])
    body += varint(record.timestamp_ms - base_timestamp_ms)
    body += varint(record.offset - base_offset)
    body += _sized(record.key) + _sized(record.value)
    body += varint(len(record.headers))
    for key, value in record.headers:
        body += varint(len(key)) + key + _sized(value)
    return varint(len(body)) + bytes(body)


def batch_v2(
    records: Sequence[Record] = (),
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: int = NONE,
    framing: str | None = None,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    log_append_time_ms: int | None = None,
    base_timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    is_transactional: bool = False,
    is_control: bool = False,
    attributes: int = 0,
    records_count: int | None = None,
    payload: bytes | None = None,
    magic: int = 2,
    crc: int | None = None,
) -> bytes:
    """A record batch.

    Base and last offset are those of the records unless given (after compaction they reach farther). `attributes` are
    bits on top of those that the other arguments set. `payload` is in place of the (compressed) records.
    """
    first = records[0] if records else Record()
    base_offset = first.offset if base_offset is None else base_offset
    last_offset = (records[-1].offset if records else base_offset) if last_offset is None else last_offset
    if delete_horizon_ms is not None:
        base_timestamp_ms = delete_horizon_ms
    if base_timestamp_ms is None:
        base_timestamp_ms = first.timestamp_ms
    if log_append_time_ms is not None:
        max_timestamp_ms = log_append_time_ms
    if max_timestamp_ms is None:
        max_timestamp_ms = max((record.timestamp_ms for record in records), default=-1)
    attributes |= codec
    attributes |= 0x08 if log_append_time_ms is not None else 0
    attributes |= 0x10 if is_transactional else 0
    attributes |= 0x20 if is_control else 0
    attributes |= 0x40 if delete_horizon_ms is not None else 0
    if payload is None:
        plain = b"".join(record_v2(r, base_offset=base_offset, base_timestamp_ms=base_timestamp_ms) for r in records)
        payload = compress(codec, plain, magic=magic, framing=framing)
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset - base_offset,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if records_count is None else records_count,
    )
    covered += payload
    crc = crc32c.crc32c(covered) if crc is None else crc
    return struct.pack(">qiibI", base_offset, 9 + len(covered), leader_epoch, magic, crc) + covered


def empty_batch(base_offset: int, last_offset: int, **fields: int | bool) -> bytes:
    """What compaction leaves of a batch that it must keep: 61 bytes, no base timestamp, no codec."""
    return batch_v2([], base_offset=base_offset, last_offset=last_offset, base_timestamp_ms=-1, **fields)  # type: ignore[arg-type]


# --- control records -------------------------------------------------------------------------------------------------
def control_batch(
    kind: int, value: bytes, *, offset: int, timestamp_ms: int = 0, version: int = 0, **fields: int
) -> bytes:
    """A control batch of one record, whose key is the version and the type. `fields` are those of `batch_v2`."""
    record = Record(offset=offset, timestamp_ms=timestamp_ms, key=struct.pack(">hh", version, kind), value=value)
    return batch_v2([record], is_control=True, **fields)  # type: ignore[arg-type]


def txn_marker(
    kind: int, *, offset: int, producer_id: int, producer_epoch: int = 0, coordinator_epoch: int = 0, **fields: int
) -> bytes:
    """The end of a transaction: COMMIT or ABORT."""
    value = struct.pack(">hi", 0, coordinator_epoch)
    ids = {"producer_id": producer_id, "producer_epoch": producer_epoch, "is_transactional": True}
    return control_batch(kind, value, offset=offset, **ids, **fields)


def leader_change_value(leader_id: int, voters: Sequence[int], granting_voters: Sequence[int] = ()) -> bytes:
    """LeaderChangeMessage, version 0."""
    out = struct.pack(">hi", 0, leader_id)
    for ids in (voters, granting_voters):
        out += unsigned_varint(len(ids) + 1) + b"".join(struct.pack(">i", voter) + b"\0" for voter in ids)
    return out + b"\0"


def snapshot_header_value(last_contained_log_timestamp_ms: int) -> bytes:
    """SnapshotHeaderRecord, version 0."""
    return struct.pack(">hq", 0, last_contained_log_timestamp_ms) + b"\0"


def snapshot_footer_value() -> bytes:
    """SnapshotFooterRecord, version 0."""
    return struct.pack(">h", 0) + b"\0"


def kraft_version_value(kraft_version: int) -> bytes:
    """KRaftVersionRecord, version 0."""
    return struct.pack(">hh", 0, kraft_version) + b"\0"


def kraft_voters_value(voters: Iterable[tuple[int, bytes, Sequence[tuple[str, str, int]], tuple[int, int]]]) -> bytes:
    """VotersRecord, version 0; a voter: id, directory id, endpoints (name, host, port), kraft versions."""
    rows = list(voters)
    out = struct.pack(">h", 0) + unsigned_varint(len(rows) + 1)
    for voter_id, directory_id, endpoints, (lowest, highest) in rows:
        out += struct.pack(">i16s", voter_id, directory_id) + unsigned_varint(len(endpoints) + 1)
        for name, host, port in endpoints:
            for text in (name.encode(), host.encode()):
                out += unsigned_varint(len(text) + 1) + text
            out += struct.pack(">H", port) + b"\0"
        out += struct.pack(">hh", lowest, highest) + b"\0" + b"\0"
    return out + b"\0"


# --- magic 0 and 1 ---------------------------------------------------------------------------------------------------
def _entry(offset: int, covered: bytes, crc: int | None) -> bytes:
    crc = zlib.crc32(covered) if crc is None else crc
    return struct.pack(">qiI", offset, 4 + len(covered), crc) + covered


def message_v0(record: Record, *, attributes: int = 0, magic: int = 0, crc: int | None = None) -> bytes:
    """A message of magic 0, envelope included. It has no timestamp and no headers."""
    covered = (
        struct.pack(">bB", magic, attributes | record.attributes)
        + _sized_int32(record.key)
        + _sized_int32(record.value)
    )
    return _entry(record.offset, covered, crc)


def message_v1(record: Record, *, attributes: int = 0, magic: int = 1, crc: int | None = None) -> bytes:
    """A message of magic 1, envelope included. Bit 3 of the attributes: LogAppendTime."""
    covered = struct.pack(">bBq", magic, attributes | record.attributes, record.timestamp_ms)
    return _entry(record.offset, covered + _sized_int32(record.key) + _sized_int32(record.value), crc)


def wrapper_v0(
    records: Sequence[Record] = (),
    *,
    codec: int = GZIP,
    framing: str | None = None,
    offset: int | None = None,
    inner: bytes | None = None,
    key: bytes | None = None,
    crc: int | None = None,
) -> bytes:
    """A compressed set of magic 0: inner offsets are absolute, the outer is the last. `inner` replaces the records."""
    if offset is None:
        offset = records[-1].offset
    if inner is None:
        inner = b"".join(message_v0(record) for record in records)
    value = compress(codec, inner, magic=0, framing=framing)
    return message_v0(Record(offset=offset, key=key, value=value), attributes=codec, crc=crc)


def wrapper_v1(
    records: Sequence[Record] = (),
    *,
    codec: int = GZIP,
    framing: str | None = None,
    offset: int | None = None,
    first_inner_offset: int = 0,
    log_append_time_ms: int | None = None,
    inner: bytes | None = None,
    key: bytes | None = None,
    crc: int | None = None,
) -> bytes:
    """A compressed set of magic 1: inner offsets are relative to the first, which compaction may have left above 0.

    With LogAppendTime the broker writes the outer message's attributes and timestamp alone: the inner ones stay.
    """
    if offset is None:
        offset = records[-1].offset
    if inner is None:
        shift = first_inner_offset - records[0].offset if records else 0
        inner = b"".join(message_v1(replace(record, offset=record.offset + shift)) for record in records)
    timestamp_ms = log_append_time_ms
    if timestamp_ms is None:
        timestamp_ms = max((record.timestamp_ms for record in records), default=-1)
    value = compress(codec, inner, magic=1, framing=framing)
    attributes = codec | (0x08 if log_append_time_ms is not None else 0)
    outer = Record(offset=offset, timestamp_ms=timestamp_ms, key=key, value=value)
    return message_v1(outer, attributes=attributes, crc=crc)


# --- Kafka 0.7 -------------------------------------------------------------------------------------------------------
def message_v07(payload: bytes, *, magic: int = 1, attributes: int = 0, crc: int | None = None) -> bytes:
    """A message of Kafka 0.7: no offset, no key; the checksum is the payload's alone. Magic 0 has no attributes."""
    header = struct.pack(">b", magic) if magic == 0 else struct.pack(">bB", magic, attributes)
    crc = zlib.crc32(payload) if crc is None else crc
    return struct.pack(">i", len(header) + 4 + len(payload)) + header + struct.pack(">I", crc) + payload


def wrapper_v07(
    messages: Iterable[bytes], *, codec: int = GZIP, framing: str | None = None, crc: int | None = None
) -> bytes:
    """A compressed set of Kafka 0.7. The messages are built ones: plain, of both magics, or wrappers again."""
    return message_v07(compress(codec, b"".join(messages), magic=0, framing=framing), attributes=codec, crc=crc)
