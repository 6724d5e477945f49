"""Every on-disk structure of Kafka's log: struct, size, field offset, mask, magic, sentinel and limit.

No other module defines byte layouts. Each field has its name in Kafka, its unit, whether a checksum covers it, and its
source (Java class or KIP). All integers are big-endian. `UNPROTECTED_FIELDS` lists the fields that no checksum and no
other file protects: a test changes every byte and every bit of small segments of each format, and cuts them at every
length; the changes without a finding are exactly those. `kafkalog-format(5)` is generated from these tables.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, NamedTuple

__all__ = [
    "ALL_LAYOUTS",
    "UNPROTECTED_FIELDS",
    "UNPROTECTED_LENGTH",
    "UNPROTECTED_VALUES",
    "Field",
    "Layout",
    "UnprotectedField",
    "UnprotectedValues",
]


class Field(NamedTuple):
    """One field: `code` is its struct code, `covered` whether the structure's own checksum covers it."""

    name: str
    code: str
    unit: str
    note: str
    covered: bool = False


class Layout:
    """A fixed-size structure: `size` in bytes, `struct` to pack and unpack all fields, `at` for one field's offset."""

    __slots__ = ("checksum", "fields", "name", "offsets", "size", "source", "struct")

    def __init__(self, name: str, source: str, checksum: str, fields: tuple[Field, ...], byte_order: str = ">") -> None:
        self.name = name
        self.source = source
        self.checksum = checksum
        self.fields = fields
        self.struct = struct.Struct(byte_order + "".join(field.code for field in fields))
        self.size = self.struct.size
        self.offsets: dict[str, int] = {}
        position = 0
        for field in fields:
            self.offsets[field.name] = position
            position += struct.calcsize(byte_order + field.code)

    def at(self, field_name: str) -> int:
        """Offset in bytes of a field from the structure's start."""
        return self.offsets[field_name]


# --- the envelope that every entry of a .log file starts with -------------------------------------------------------
ENVELOPE: Final = Layout(
    "log entry envelope",
    "org.apache.kafka.common.record.Records",
    "none",
    (
        Field("offset", "q", "Kafka offset", "magic 0 and 1: offset of the (last inner) message; magic 2: base offset"),
        Field("size", "i", "bytes", "bytes that follow; the entry is size + 12 bytes long"),
    ),
)
LOG_OVERHEAD: Final = ENVELOPE.size
MAGIC_POSITION: Final = 16
HEADER_SIZE_UP_TO_MAGIC: Final = 17
MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
MAGIC_V2: Final = 2
# Records.java, FileLogInputStream: a size below RECORD_OVERHEAD_V0 is corrupt for every magic.
MIN_ENTRY_SIZE: Final = 14

MESSAGE_V0: Final = Layout(
    "message, magic 0",
    "org.apache.kafka.common.record.LegacyRecord; kafka.message.Message (0.8, 0.9)",
    "crc: CRC-32 (IEEE) from magic to the end of the message",
    (
        Field("offset", "q", "Kafka offset", "of a wrapper: the offset of its last inner message"),
        Field("size", "i", "bytes", "bytes that follow"),
        Field("crc", "I", "CRC-32", "over everything after this field"),
        Field("magic", "b", "", "0", True),
        Field("attributes", "b", "bits", "0-2 codec; others unused", True),
        Field("keyLength", "i", "bytes", "negative: null key", True),
    ),
)
MESSAGE_V1: Final = Layout(
    "message, magic 1",
    "org.apache.kafka.common.record.LegacyRecord; KIP-31, KIP-32",
    "crc: CRC-32 (IEEE) from magic to the end of the message",
    (
        Field("offset", "q", "Kafka offset", "in a wrapper: relative, 0-based"),
        Field("size", "i", "bytes", "bytes that follow"),
        Field("crc", "I", "CRC-32", "over everything after this field"),
        Field("magic", "b", "", "1", True),
        Field("attributes", "b", "bits", "0-2 codec, 3 timestamp type; others unused", True),
        Field("timestamp", "q", "ms since 1970", "-1: none", True),
        Field("keyLength", "i", "bytes", "negative: null key", True),
    ),
)
RECORD_OVERHEAD_V0: Final = 14
RECORD_OVERHEAD_V1: Final = 22
LEGACY_CRC: Final = MESSAGE_V0.at("crc")
LEGACY_ATTRIBUTES: Final = MESSAGE_V0.at("attributes")
V1_TIMESTAMP: Final = MESSAGE_V1.at("timestamp")
V0_KEY_LENGTH: Final = MESSAGE_V0.at("keyLength")
V1_KEY_LENGTH: Final = MESSAGE_V1.at("keyLength")

BATCH_V2: Final = Layout(
    "record batch, magic 2",
    "org.apache.kafka.common.record.DefaultRecordBatch; KIP-98, KIP-101, KIP-534",
    "crc: CRC-32C (Castagnoli) from attributes to the end of the batch",
    (
        Field("baseOffset", "q", "Kafka offset", "of the first record as produced; rewritten by the leader"),
        Field("batchLength", "i", "bytes", "bytes that follow"),
        Field("partitionLeaderEpoch", "i", "leader epoch", "-1: none; rewritten by the leader"),
        Field("magic", "b", "", "2"),
        Field("crc", "I", "CRC-32C", "over everything after this field"),
        Field(
            "attributes",
            "h",
            "bits",
            "0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon; others unused",
            True,
        ),
        Field("lastOffsetDelta", "i", "offsets", "last offset - base offset, kept by the cleaner", True),
        Field("baseTimestamp", "q", "ms since 1970", "or the delete horizon, attribute bit 6", True),
        Field("maxTimestamp", "q", "ms since 1970", "of LogAppendTime: every record's timestamp", True),
        Field("producerId", "q", "", "-1: none", True),
        Field("producerEpoch", "h", "", "-1: none", True),
        Field("baseSequence", "i", "", "-1: none; wraps at 2^31", True),
        Field("recordsCount", "i", "records", "0 in a batch that the cleaner emptied", True),
    ),
)
RECORD_BATCH_OVERHEAD: Final = BATCH_V2.size
V2_LEADER_EPOCH: Final = BATCH_V2.at("partitionLeaderEpoch")
V2_CRC: Final = BATCH_V2.at("crc")
V2_ATTRIBUTES: Final = BATCH_V2.at("attributes")
V2_LAST_OFFSET_DELTA: Final = BATCH_V2.at("lastOffsetDelta")
V2_BASE_TIMESTAMP: Final = BATCH_V2.at("baseTimestamp")
V2_MAX_TIMESTAMP: Final = BATCH_V2.at("maxTimestamp")
V2_PRODUCER_ID: Final = BATCH_V2.at("producerId")
V2_PRODUCER_EPOCH: Final = BATCH_V2.at("producerEpoch")
V2_BASE_SEQUENCE: Final = BATCH_V2.at("baseSequence")
V2_RECORDS_COUNT: Final = BATCH_V2.at("recordsCount")

# Attribute bits (DefaultRecordBatch, LegacyRecord).
CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10
UUID_SIZE: Final = 16

# Codec ids (CompressionType.java); zstd since 2.1 (KIP-110).
CODEC_NONE: Final = 0
CODEC_GZIP: Final = 1
CODEC_SNAPPY: Final = 2
CODEC_LZ4: Final = 3
CODEC_ZSTD: Final = 4
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# --- Kafka 0.7 --------------------------------------------------------------------------------------------------------
MESSAGE_V07_0: Final = Layout(
    "Kafka 0.7 message, magic 0",
    "kafka.message.Message (0.7); run of the 0.7.2 classes",
    "crc: CRC-32 (IEEE) of the payload alone",
    (
        Field("length", "i", "bytes", "bytes that follow"),
        Field("magic", "b", "", "0"),
        Field("crc", "I", "CRC-32", "over the payload after this field"),
    ),
)
MESSAGE_V07_1: Final = Layout(
    "Kafka 0.7 message, magic 1",
    "kafka.message.Message (0.7); run of the 0.7.2 classes",
    "crc: CRC-32 (IEEE) of the payload alone",
    (
        Field("length", "i", "bytes", "bytes that follow"),
        Field("magic", "b", "", "1"),
        Field("attributes", "b", "bits", "0-1 codec (0 none, 1 gzip, 2 snappy); others unused"),
        Field("crc", "I", "CRC-32", "over the payload after this field"),
    ),
)
V07_LENGTH_SIZE: Final = 4
V07_MIN_LENGTH: Final = 5
V07_CODEC_MASK: Final = 0x03
# 0.7 readers recurse without limit; 12 levels were read by its classes, no client is known to nest more than 2
V07_MAX_DEPTH: Final = 64

# --- control records ------------------------------------------------------------------------------------------------
CONTROL_KEY: Final = Layout(
    "control record key",
    "org.apache.kafka.common.record.ControlRecordType",
    "the batch's crc",
    (Field("version", "h", "", "0; higher is read as 0", True), Field("type", "h", "", "see the control types", True)),
)
END_TXN_MARKER: Final = Layout(
    "transaction marker value",
    "org.apache.kafka.common.record.EndTransactionMarker",
    "the batch's crc",
    (
        Field("version", "h", "", "0; higher is read as 0", True),
        Field("coordinatorEpoch", "i", "leader epoch", "of the __transaction_state partition that sent it", True),
    ),
)
CONTROL_TYPE_NAMES: Final = (
    "abort",
    "commit",
    "leader_change",
    "snapshot_header",
    "snapshot_footer",
    "kraft_version",
    "kraft_voters",
)

# --- indexes ----------------------------------------------------------------------------------------------------------
OFFSET_INDEX_ENTRY: Final = Layout(
    "offset index entry (.index)",
    "org.apache.kafka.storage.internals.log.OffsetIndex",
    "none",
    (
        Field("relativeOffset", "i", "offsets", "offset - base offset of the segment"),
        Field("position", "i", "byte in .log", "where the batch starts"),
    ),
)
TIME_INDEX_ENTRY: Final = Layout(
    "time index entry (.timeindex)",
    "org.apache.kafka.storage.internals.log.TimeIndex; KIP-33",
    "none",
    (
        Field("timestamp", "q", "ms since 1970", "largest timestamp so far"),
        Field("relativeOffset", "i", "offsets", "offset - base offset of the segment"),
    ),
)
TXN_INDEX_ENTRY: Final = Layout(
    "transaction index entry (.txnindex)",
    "org.apache.kafka.storage.internals.log.AbortedTxn; KIP-98",
    "none",
    (
        Field("version", "h", "", "0; Kafka reads the first byte only"),
        Field("producerId", "q", "", ""),
        Field("firstOffset", "q", "Kafka offset", "base offset of the transaction's first batch"),
        Field("lastOffset", "q", "Kafka offset", "of the ABORT marker"),
        Field("lastStableOffset", "q", "Kafka offset", "when the marker was written"),
    ),
)
TXN_INDEX_VERSION: Final = 0

# --- producer snapshots -----------------------------------------------------------------------------------------------
SNAPSHOT_HEADER: Final = Layout(
    "producer snapshot header (.snapshot)",
    "org.apache.kafka.storage.internals.log.ProducerStateManager",
    "crc: CRC-32C from numEntries to the end of the file",
    (
        Field("version", "h", "", "1"),
        Field("crc", "I", "CRC-32C", "over everything after this field"),
        Field("numEntries", "i", "entries", "", True),
    ),
)
SNAPSHOT_ENTRY: Final = Layout(
    "producer snapshot entry",
    "org.apache.kafka.storage.internals.log.ProducerStateManager",
    "the header's crc",
    (
        Field("producerId", "q", "", "", True),
        Field("epoch", "h", "", "", True),
        Field("lastSequence", "i", "", "-1: no batch known", True),
        Field("lastOffset", "q", "Kafka offset", "-1: no batch known", True),
        Field("offsetDelta", "i", "offsets", "last batch: last - first", True),
        Field("timestamp", "q", "ms since 1970", "", True),
        Field("coordinatorEpoch", "i", "leader epoch", "-1: no marker seen", True),
        Field("currentTxnFirstOffset", "q", "Kafka offset", "-1: no open transaction", True),
    ),
)
SNAPSHOT_VERSION: Final = 1

# --- text files -------------------------------------------------------------------------------------------------------
CHECKPOINT_VERSION: Final = 0
META_VERSIONS: Final = (0, 1)
QUORUM_STATE_VERSIONS: Final = (0, 1)

# --- limits, each with its precedent ----------------------------------------------------------------------------------
MAX_BATCH_BYTES: Final = 256 * 1024 * 1024  # default of --max-batch-bytes; message.max.bytes is 1 MiB + 12 by default
ZSTD_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024  # zstd level 22 writes windows of 2^27
MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
DISK_BLOCK_BYTES: Final = 4096

# --- codec framings ---------------------------------------------------------------------------------------------------
GZIP_MAGIC: Final = b"\x1f\x8b\x08"  # RFC 1952: the id and the one method, deflate
GZIP_MIN_MEMBER_BYTES: Final = 18  # header and trailer
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = Layout(
    "snappy block stream header",
    "org.xerial.snappy.SnappyOutputStream",
    "none",
    (
        Field("magic", "8s", "", "82 53 4e 41 50 50 59 00"),
        Field("version", "i", "", "1"),
        Field("compatibleVersion", "i", "", "1; blocks follow: int32 size, raw snappy"),
    ),
)
XERIAL_BLOCK: Final = Layout(
    "snappy block stream block",
    "org.xerial.snappy.SnappyOutputStream",
    "none",
    (Field("size", "i", "bytes", "of the raw snappy block that follows; the magic's first 4 bytes: a header again"),),
)
XERIAL_JAVA_HEADER: Final = XERIAL_HEADER.struct.pack(XERIAL_MAGIC, 1, 1)  # as SnappyOutputStream writes it
SNAPPY_MAX_RATIO: Final = 22  # the densest element copies 64 bytes and is 3 long

# LZ4 frames (little-endian): magic, FLG, BD, [content size], HC, then blocks of int32 size and body, size 0 at the end.
LZ4_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
LZ4_FLG_POSITION: Final = 4
LZ4_BD_POSITION: Final = 5
LZ4_CONTENT_SIZE_SIZE: Final = 8
LZ4_BLOCK_SIZE: Final = struct.Struct("<I")
LZ4_CHECKSUM_SIZE: Final = 4
LZ4_FLG_VERSION_MASK: Final = 0xC0
LZ4_FLG_VERSION: Final = 0x40
LZ4_FLG_INDEPENDENT: Final = 0x20  # blocks do not refer to earlier blocks
LZ4_FLG_BLOCK_CHECKSUM: Final = 0x10
LZ4_FLG_CONTENT_SIZE: Final = 0x08
LZ4_FLG_CONTENT_CHECKSUM: Final = 0x04
LZ4_FLG_RESERVED: Final = 0x02
LZ4_FLG_DICTIONARY: Final = 0x01
LZ4_BD_RESERVED: Final = 0x8F
LZ4_BD_SIZE_SHIFT: Final = 4
LZ4_BD_64_KIB: Final = 0x40
LZ4_JAVA_HEADER: Final = LZ4_FRAME_MAGIC + b"\x60\x40\x82"  # KafkaLZ4BlockOutputStream: independent blocks of 64 KiB
LZ4_BD_MIN_SIZE_CODE: Final = 4  # codes 4 to 7: blocks of at most 1 << (2 * code + 8) bytes
LZ4_BLOCK_STORED: Final = 0x80000000  # bit of a block's size: the body is not compressed
LZ4_MAX_RATIO: Final = 255  # one more byte of match length adds at most 255 bytes

# Zstandard (RFC 8878, little-endian): frames of header, blocks (3-byte header), [checksum]; skippable frames between.
ZSTD_FRAME_MAGIC: Final = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE_MAGIC: Final = b"\x2a\x4d\x18"  # after a first byte of 0x50 to 0x5f
ZSTD_SKIPPABLE_FIRST: Final = 0x50
ZSTD_SKIPPABLE_MASK: Final = 0xF0
ZSTD_SKIPPABLE_HEADER_SIZE: Final = 8
ZSTD_MAX_HEADER_SIZE: Final = 18
ZSTD_START: Final = struct.Struct("<4xBBHB")  # of a frame without content size: descriptor, window, block header
ZSTD_DESCRIPTOR_CHECKSUM: Final = 0x04
ZSTD_BLOCK_HEADER_SIZE: Final = 3
ZSTD_BLOCK_LAST: Final = 0x01
ZSTD_BLOCK_TYPE_MASK: Final = 0x06
ZSTD_BLOCK_TYPE_RLE: Final = 0x02
ZSTD_BLOCK_TYPE_COMPRESSED: Final = 0x04
ZSTD_BLOCK_SIZE_SHIFT: Final = 3
ZSTD_MAX_BLOCK_BYTES: Final = 128 * 1024
ZSTD_CHECKSUM_SIZE: Final = 4

# --- the file of another product, which is only recognized ------------------------------------------------------------
REDPANDA_BATCH: Final = Layout(
    "Redpanda record batch header, little-endian",
    "redpanda: src/v/model/record.h, record_utils.cc",
    "headerCrc: CRC-32C of the header after it",
    (
        Field("headerCrc", "I", "CRC-32C", "over the rest of the header"),
        Field("sizeBytes", "i", "bytes", "whole batch", True),
        Field("baseOffset", "q", "offset", "", True),
        Field("type", "b", "", "1: data", True),
        Field("crc", "i", "CRC-32C", "Kafka's own, over the big-endian form", True),
        Field("attributes", "h", "bits", "Kafka's", True),
        Field("lastOffsetDelta", "i", "offsets", "", True),
        Field("firstTimestamp", "q", "ms since 1970", "", True),
        Field("maxTimestamp", "q", "ms since 1970", "", True),
        Field("producerId", "q", "", "", True),
        Field("producerEpoch", "h", "", "", True),
        Field("baseSequence", "i", "", "", True),
        Field("recordCount", "i", "records", "", True),
    ),
    byte_order="<",
)

ALL_LAYOUTS: Final = (
    ENVELOPE,
    BATCH_V2,
    MESSAGE_V1,
    MESSAGE_V0,
    MESSAGE_V07_1,
    MESSAGE_V07_0,
    CONTROL_KEY,
    END_TXN_MARKER,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    TXN_INDEX_ENTRY,
    SNAPSHOT_HEADER,
    SNAPSHOT_ENTRY,
    XERIAL_HEADER,
    XERIAL_BLOCK,
)

_SIZES: Final = {
    ENVELOPE: 12,
    MESSAGE_V0: 22,
    MESSAGE_V1: 30,
    BATCH_V2: 61,
    MESSAGE_V07_0: 9,
    MESSAGE_V07_1: 10,
    OFFSET_INDEX_ENTRY: 8,
    TIME_INDEX_ENTRY: 12,
    TXN_INDEX_ENTRY: 34,
    SNAPSHOT_HEADER: 10,
    SNAPSHOT_ENTRY: 46,
    XERIAL_HEADER: 16,
    REDPANDA_BATCH: 61,
    XERIAL_BLOCK: 4,
}
for _layout, _size in _SIZES.items():
    if _layout.size != _size:
        raise ImportError(f"layout {_layout.name!r} is {_layout.size} bytes, not {_size}")

# --- what nothing protects --------------------------------------------------------------------------------------------
UnprotectedValues = Literal["any", "in order", "same codec or none"]

UNPROTECTED_VALUES: Final[dict[UnprotectedValues, str]] = {
    "any": "any value, in any batch",
    "in order": (
        "a value that keeps the order of offsets: not below the number in the file name, above the batch before and "
        "below the next batch; if offsets have no gaps, any larger value in the last batch of a file"
    ),
    "same codec or none": "any value with the same codec, or with none",
}


class UnprotectedField(NamedTuple):
    """A field outside every checksum: which of its values leave no trace, and why."""

    layout: Layout
    field: str
    values: UnprotectedValues
    why: str


UNPROTECTED_FIELDS: Final = (
    UnprotectedField(
        BATCH_V2,
        "baseOffset",
        "in order",
        "The leader writes it on append, so the producer's checksum cannot cover it. All offsets of the batch change "
        "with it.",
    ),
    UnprotectedField(
        BATCH_V2,
        "partitionLeaderEpoch",
        "any",
        "The leader writes it on append. The leader-epoch-checkpoint has the first offset of each epoch, but the log "
        "may be ahead of it.",
    ),
    UnprotectedField(
        MESSAGE_V1,
        "offset",
        "in order",
        "The leader writes it before the message that the checksum covers. In a compressed message it is the offset "
        "of the last inner message, and only that is compared; all inner offsets change with it.",
    ),
    UnprotectedField(
        MESSAGE_V0,
        "offset",
        "in order",
        "The leader writes it before the message that the checksum covers. In a compressed message it is the offset "
        "of the last inner message, and only that is compared; the inner offsets are absolute and do not change.",
    ),
    UnprotectedField(
        MESSAGE_V07_1,
        "attributes",
        "same codec or none",
        "The checksum covers only the payload. The bits after the codec are unused; a wrapper without its codec is a "
        "message with a compressed payload.",
    ),
)
UNPROTECTED_LENGTH: Final = (
    "A file that ends where a batch ends is a legal log: nothing in it shows that batches followed. The indexes, "
    "the producer snapshots and the checkpoints may show it."
)
