"""The kind of a file by its content, independent of its name: a log, a snapshot, a checkpoint, or not Kafka's.

For files without a meaningful name, and for errors that describe the file that was found instead. A result is `proven`
if a checksum or a grammar matches; else only framing and value ranges match.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checksums import crc32, crc32c
from kafkalog_core.format.layout import (
    BATCH_V2,
    CODEC_MASK,
    CODEC_NAMES,
    CODEC_SNAPPY,
    DELETE_HORIZON_BIT,
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_ATTRIBUTES,
    LOG_OVERHEAD,
    LZ4_FRAME_MAGIC,
    MAGIC_POSITION,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    MESSAGE_V0,
    MESSAGE_V07_0,
    MESSAGE_V07_1,
    MESSAGE_V1,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
    RECORD_OVERHEAD_V1,
    REDPANDA_BATCH,
    SNAPSHOT_HEADER,
    SNAPSHOT_VERSION,
    TIMESTAMP_TYPE_BIT,
    V07_LENGTH_SIZE,
    V2_ATTRIBUTES,
    V2_CRC,
)
from kafkalog_core.format.snapshot import CRC_START, SnapshotHeader
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SNIFF_BYTES", "ContentKind", "FileContent", "sniff"]

SNIFF_BYTES: Final = 64 * 1024
"""Bytes at a file's start that `sniff` needs; the checksum of a larger first batch cannot be verified."""


class ContentKind(StrEnum):
    """The kind of the content. Those up to `EPOCH_CHECKPOINT` can be read."""

    LOG_V2 = "log_v2"
    LOG_V1 = "log_v1"
    LOG_V0 = "log_v0"
    LOG_V07 = "log_v07"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    OFFSET_CHECKPOINT = "offset_checkpoint"
    EPOCH_CHECKPOINT = "epoch_checkpoint"
    REDPANDA_LOG = "redpanda_log"
    EMPTY = "empty"
    ZEROS = "zeros"
    TEXT = "text"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


class FileContent(Struct, frozen=True, kw_only=True):
    """The kind of a file. `what` completes a sentence: "this is a JPEG image"."""

    kind: ContentKind
    what: str
    proven: bool = True


_UNKNOWN: Final = FileContent(kind=ContentKind.UNKNOWN, what="bytes of an unknown kind", proven=False)
_SIGNATURES: Final = (
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"GIF8", "a GIF image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "an ELF program"),
    (0, b"PK\x03\x04", "a zip or jar archive"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"\xfd7zXZ\x00", "xz data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data"),
    (0, LZ4_FRAME_MAGIC, "an lz4 frame"),
    (257, b"ustar", "a tar archive"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"SQLite format 3\x00", "an SQLite database"),
    (0, b"\xca\xfe\xba\xbe", "a Java class"),
)
_OFFSET_CHECKPOINT: Final = re.compile(rb"\d+\r?\n\d+\r?\n(\S+[ \t]+\d+[ \t]+-?\d+[ \t]*(\r?\n|\Z)|\Z)")
_EPOCH_CHECKPOINT: Final = re.compile(rb"\d+\r?\n\d+\r?\n\d+[ \t]+\d+[ \t]*(\r?\n|\Z)")
_SMALLEST_BODY: Final = {
    MAGIC_V0: RECORD_OVERHEAD_V0,
    MAGIC_V1: RECORD_OVERHEAD_V1,
    MAGIC_V2: RECORD_BATCH_OVERHEAD - LOG_OVERHEAD,
}
_UNUSED_V2_ATTRIBUTES: Final = DELETE_HORIZON_BIT << 1
_MAX_CUT_CHARACTER: Final = 3  # bytes of a UTF-8 character that the end of `head` cut
_CONTROL_BYTES: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def sniff(head: bytes, size_bytes: int) -> FileContent:
    """Return the kind of a file of this size. `head`: its first `SNIFF_BYTES` bytes, or all. Raises nothing."""
    if size_bytes == 0:
        return FileContent(kind=ContentKind.EMPTY, what="an empty file")
    if not head.strip(b"\0"):
        return FileContent(kind=ContentKind.ZEROS, what="a file of zeros")
    unproven = None
    for test in _TESTS:
        content = test(head, size_bytes)
        if content is not None and content.proven:
            return content
        unproven = unproven or content
    return unproven or _UNKNOWN


def _log(head: bytes, size_bytes: int) -> FileContent | None:
    """Recognize a batch or message of magic 0, 1 or 2; a torn one by the ranges of its fields."""
    if len(head) < HEADER_SIZE_UP_TO_MAGIC:
        return None
    magic = head[MAGIC_POSITION]
    offset, size = (
        int.from_bytes(head[:8], "big", signed=True),
        int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True),
    )
    smallest = _SMALLEST_BODY.get(magic)
    if smallest is None or size < smallest or offset < 0:
        return None
    body = head[: size + LOG_OVERHEAD]
    proven = len(body) == size + LOG_OVERHEAD and _checksum_agrees(body, magic)
    if not proven and not (_plausible_v2(head) if magic == MAGIC_V2 else _plausible_message(head, size, size_bytes)):
        return None
    kind = (ContentKind.LOG_V0, ContentKind.LOG_V1, ContentKind.LOG_V2)[magic]
    torn = "" if size + LOG_OVERHEAD <= size_bytes else ", its first batch cut short"
    return FileContent(kind=kind, what=f"a Kafka log of magic {magic}{torn}", proven=proven)


def _checksum_agrees(batch: bytes, magic: int) -> bool:
    if magic == MAGIC_V2:
        return int.from_bytes(batch[V2_CRC:V2_ATTRIBUTES], "big") == crc32c(batch[V2_ATTRIBUTES:])
    return int.from_bytes(batch[LOG_OVERHEAD:MAGIC_POSITION], "big") == crc32(batch[MAGIC_POSITION:])


def _plausible_v2(head: bytes) -> bool:
    if len(head) < RECORD_BATCH_OVERHEAD:
        return False
    fields: dict[str, int] = dict(zip(BATCH_V2.offsets, BATCH_V2.struct.unpack_from(head), strict=True))
    return (
        0 <= fields["attributes"] < _UNUSED_V2_ATTRIBUTES
        and fields["attributes"] & CODEC_MASK < len(CODEC_NAMES)
        and 0 <= fields["recordsCount"] <= fields["lastOffsetDelta"] + 1
        and min(fields["partitionLeaderEpoch"], fields["producerId"], fields["producerEpoch"]) >= -1
    )


def _plausible_message(head: bytes, size: int, size_bytes: int) -> bool:
    if not len(head) < size + LOG_OVERHEAD <= size_bytes:  # with a wrong checksum these few fields prove nothing
        return False
    layout = MESSAGE_V1 if head[MAGIC_POSITION] == MAGIC_V1 else MESSAGE_V0
    if len(head) < layout.size:
        return False
    key_size: int = layout.struct.unpack_from(head)[-1]
    attributes = head[LEGACY_ATTRIBUTES]
    return attributes <= CODEC_MASK | TIMESTAMP_TYPE_BIT and -1 <= key_size <= size - (layout.size - LOG_OVERHEAD)


def _log_v07(head: bytes, size_bytes: int) -> FileContent | None:
    """Recognize a message of Kafka 0.7: length and magic in range, payload checksum correct."""
    if len(head) < MESSAGE_V07_0.size:
        return None
    end = V07_LENGTH_SIZE + int.from_bytes(head[:V07_LENGTH_SIZE], "big", signed=True)
    magic = head[V07_LENGTH_SIZE]
    layout = (MESSAGE_V07_0, MESSAGE_V07_1)[magic] if magic <= MAGIC_V1 else None
    if layout is None or not layout.size <= end <= size_bytes:
        return None
    what = "a log of Kafka 0.7"
    if len(head) < end:
        known = magic == MAGIC_V0 or head[layout.at("attributes")] <= CODEC_SNAPPY
        return FileContent(kind=ContentKind.LOG_V07, what=what, proven=False) if known else None
    stored = int.from_bytes(head[layout.at("crc") : layout.size], "big")
    return FileContent(kind=ContentKind.LOG_V07, what=what) if stored == crc32(head[layout.size : end]) else None


def _snapshot(head: bytes, size_bytes: int) -> FileContent | None:
    if len(head) < SNAPSHOT_HEADER.size:
        return None
    version, crc, entry_count = SNAPSHOT_HEADER.struct.unpack_from(head)
    header = SnapshotHeader(version=version, crc=crc, entry_count=entry_count)
    if version != SNAPSHOT_VERSION or header.size_bytes != size_bytes:
        return None
    proven = len(head) == size_bytes and crc == crc32c(head[CRC_START:])
    return FileContent(kind=ContentKind.PRODUCER_SNAPSHOT, what="a producer snapshot", proven=proven)


def _redpanda(head: bytes, _size_bytes: int) -> FileContent | None:
    header = head[: REDPANDA_BATCH.size]
    if len(header) < REDPANDA_BATCH.size:
        return None
    header_crc, batch_bytes, *_ = REDPANDA_BATCH.struct.unpack(header)
    if batch_bytes < REDPANDA_BATCH.size or header_crc != crc32c(header[REDPANDA_BATCH.at("sizeBytes") :]):
        return None
    return FileContent(kind=ContentKind.REDPANDA_LOG, what="a log segment of Redpanda, whose batches are not Kafka's")


def _signature(head: bytes, _size_bytes: int) -> FileContent | None:
    for position, magic, what in _SIGNATURES:
        if head.startswith(magic, position):
            return FileContent(kind=ContentKind.FOREIGN, what=what)
    return None


def _text(head: bytes, size_bytes: int) -> FileContent | None:
    """Recognize a checkpoint by the grammar of its first three lines, else UTF-8 text without control bytes."""
    if _CONTROL_BYTES.search(head):
        return None
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) == size_bytes or len(head) - error.start > _MAX_CUT_CHARACTER:
            return None
    if _EPOCH_CHECKPOINT.match(head):
        return FileContent(kind=ContentKind.EPOCH_CHECKPOINT, what="a leader epoch checkpoint")
    if _OFFSET_CHECKPOINT.match(head):
        return FileContent(kind=ContentKind.OFFSET_CHECKPOINT, what="an offset checkpoint")
    return FileContent(kind=ContentKind.TEXT, what="text")


_TESTS: Final[tuple[Callable[[bytes, int], FileContent | None], ...]] = (
    _log,
    _log_v07,
    _snapshot,
    _redpanda,
    _signature,
    _text,
)
