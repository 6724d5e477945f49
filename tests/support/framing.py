"""Compressed payloads as Kafka's clients frame them, for tests, fuzzing and benchmarks.

The first framing of a codec in `FRAMINGS` is the one of Kafka's own Java client; the others are written by other
clients or are legal by the codec's specification.
"""

from __future__ import annotations

import struct
import zlib

import lz4.frame
import snappy
import zstandard

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
FRAMINGS = {
    0: ("none",),
    GZIP: ("member", "members", "stored"),
    SNAPPY: ("xerial", "raw", "restarted"),
    LZ4: ("java", "sized", "block-checksum", "content-checksum", "large-blocks"),
    ZSTD: ("stream", "sized", "frames", "checksum", "skippable"),
}
XERIAL_HEADER = bytes.fromhex("82534e41505059000000000100000001")
# What a writer of magic 0 puts as header checksum behind FLG 0x60 and BD 0x40: it hashes the frame's magic too.
FAULTY_LZ4_CHECKSUM = 0x1A


def compress(codec: int, data: bytes, *, magic: int = 2, framing: str | None = None) -> bytes:
    """`data` compressed. Of magic 0, lz4 frames get the faulty header checksum that its writers give them."""
    name = framing or FRAMINGS[codec][0]
    if codec == 0:
        return data
    if codec == GZIP:
        return gzip_stream(data, name)
    if codec == SNAPPY:
        return snappy_stream(data, name)
    if codec == LZ4:
        frame = lz4_frame(data, name)
        return with_faulty_checksum(frame) if magic == 0 else frame
    if codec == ZSTD:
        return zstd_stream(data, name)
    raise ValueError(f"codec {codec}")


def gzip_stream(data: bytes, framing: str = "member") -> bytes:
    """RFC 1952: one member, two of them, or one of stored blocks."""
    if framing == "members":
        return gzip_stream(data[: len(data) // 3]) + gzip_stream(data[len(data) // 3 :])
    level = {"member": 6, "stored": 0}[framing]
    return zlib.compress(data, level, 31)


def snappy_stream(data: bytes, framing: str = "xerial", *, block_bytes: int = 32 * 1024) -> bytes:
    """A raw body, or a block stream: blocks behind their int32 size. A restarted one has a header before each block."""
    if framing == "raw":
        body: bytes = snappy.compress(data)
        return body
    between = {"xerial": b"", "restarted": XERIAL_HEADER}[framing]
    starts = range(0, len(data), block_bytes if framing == "xerial" else max(1, len(data) // 3))
    size = starts.step
    blocks = [snappy.compress(data[i : i + size]) for i in starts]
    return XERIAL_HEADER + between.join(struct.pack(">i", len(block)) + block for block in blocks)


def lz4_frame(data: bytes, framing: str = "java") -> bytes:
    """A frame of independent blocks. Java writes FLG 0x60 and BD 0x40, other clients 0x68 and 0x70 too."""
    frame: bytes = lz4.frame.compress(
        data,
        block_linked=False,
        store_size=framing == "sized",
        block_checksum=framing == "block-checksum",
        content_checksum=framing == "content-checksum",
        block_size=lz4.frame.BLOCKSIZE_MAX4MB if framing == "large-blocks" else lz4.frame.BLOCKSIZE_MAX64KB,
    )
    return frame


def with_faulty_checksum(frame: bytes) -> bytes:
    """A frame with a header checksum that is wrong; with Java's descriptor the one that 0.8.2 and 0.9 write."""
    position = 14 if frame[4] & 0x08 else 6
    checksum = FAULTY_LZ4_CHECKSUM if frame[4:6] == b"\x60\x40" else frame[position] ^ 0xFF
    return frame[:position] + bytes([checksum]) + frame[position + 1 :]


def zstd_stream(data: bytes, framing: str = "stream") -> bytes:
    """RFC 8878: a frame without content size, as a Java stream writes it, or with it, several, a skippable one."""
    if framing == "frames":
        return zstd_stream(data[: len(data) // 3]) + zstd_stream(data[len(data) // 3 :], "sized")
    if framing == "skippable":
        return struct.pack("<II", 0x184D2A57, 5) + b"skip!" + zstd_stream(data)
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=framing == "checksum")
    if framing == "sized":
        return compressor.compress(data)
    stream = compressor.compressobj()
    return stream.compress(data) + stream.flush()
