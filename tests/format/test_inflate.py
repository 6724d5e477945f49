"""Decompression of streams that no client of Kafka writes: odd, damaged and hostile ones, by every library and limit.

Payloads of real brokers, trailing bytes, members, bombs: test_compression.py. Damage between batches: test_decode.py.
"""

from __future__ import annotations

import importlib
import random
import struct
import zlib
from typing import TYPE_CHECKING

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.errors import FieldError, FormatError, LimitError, UnsupportedError
from kafkalog_core.format import decode, decompression
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.decode import Arena
from kafkalog_core.format.decompression import decompress
from kafkalog_core.format.streams import PIECE_BYTES, OddStreamError, TrailingError
from tests.support.framing import FRAMINGS, GZIP, LZ4, SNAPPY, XERIAL_HEADER, compress, lz4_frame, snappy_stream
from tests.support.twins import TWINS, twin

if TYPE_CHECKING:
    from types import ModuleType

CODECS = (GZIP, SNAPPY, LZ4)
LIBRARIES = tuple(map(importlib.import_module, ("zlib", "isal.isal_zlib")))
TEXT = b"".join(b'{"id": %d, "text": "quartz zephyr"}' % (i * i) for i in range(40))
NOISE = random.Random(7).randbytes(70_000)
FRAMED = [(codec, framing) for codec in CODECS for framing in FRAMINGS[codec]]
CONTENTS = {
    "empty": b"",
    "byte": b"x",
    "text": TEXT,
    "blocks": TEXT * 60,
    "zeros": bytes(70_000),
    "noise": NOISE,
    "noise and text": b"".join(NOISE[i : i + i % 90] + TEXT[: i % 70] for i in range(0, 9000, 11)),
    "short repeats": b"".join(NOISE[i : i + i % 17] * (i % 40) for i in range(900)),
}


def outcome(codec: int, payload: bytes, *, magic: int = 2, limit_bytes: int) -> bytes | type[FormatError]:
    """The content, or the kind of the error."""
    try:
        content, kind = decompress(codec, memoryview(payload), magic=magic, limit_bytes=limit_bytes), None
    except OddStreamError as error:
        content, kind = error.content, type(error)
    except FormatError as error:
        return type(error)
    assert len(memoryview(content)) <= limit_bytes
    return kind or bytes(content)


def inflated(codec: int, payload: bytes, *, library: ModuleType | None = None) -> bytes | type[FormatError]:
    """The outcome with one library of gzip: the same in pieces (the limit is below a piece), at once, and in rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decompression, "ZLIB", library or decompression.ZLIB)
        in_pieces, at_once = (outcome(codec, payload, limit_bytes=limit) for limit in (PIECE_BYTES - 1, PIECE_BYTES))
        assert in_pieces in {at_once, LimitError}
        for name in TWINS:
            patch.setattr(decode, "kernels", twin(name))
            check_rows(codec, payload, at_once)
    return at_once


def check_rows(codec: int, payload: bytes, expected: bytes | type[FormatError]) -> None:
    """Rows of an arena, each with this payload, have the same outcome."""
    batches = BatchColumns(3)
    batches.count = 3 if payload else 0
    for row in range(batches.count):
        cells = {
            "format": 2,
            "codec": codec,
            "payload_start": row * len(payload),
            "payload_end": (row + 1) * len(payload),
        }
        for name, value in cells.items():
            batches.column(name)[row] = value
    if payload:
        arena = Arena(memoryview(payload * 3), batches, PIECE_BYTES)
        end, damage = arena.fill(0, 3)
        assert (damage is None) == isinstance(expected, bytes)
        if isinstance(expected, bytes):
            assert bytes(arena.memory) == expected * end
            assert end == 3 or len(arena.memory) >= decode.ARENA_BYTES


def gunzipped(payload: bytes) -> bytes | type[FormatError]:
    """The outcome with either library of gzip; where one of them refuses what the other one reads, that content.

    isal accepts reserved flags and incomplete codes, which zlib refuses.
    """
    outcomes = {inflated(GZIP, payload, library=library) for library in LIBRARIES}
    contents = [each for each in outcomes if isinstance(each, bytes)]
    assert len(contents) <= 1
    return contents[0] if contents else outcomes.pop()


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize(("codec", "framing"), FRAMED)
def test_every_framing_and_limit(codec, framing, content):
    payload = compress(codec, content, framing=framing)
    for library in LIBRARIES:
        assert inflated(codec, payload, library=library) == content
    assert outcome(codec, payload, limit_bytes=len(content)) == content
    if content:
        assert outcome(codec, payload, limit_bytes=len(content) - 1) is LimitError


SMALL = [TEXT[:90], TEXT[:300], bytes(70), b"ab" * 60, NOISE[:30] * 3]


@pytest.mark.slow
@pytest.mark.parametrize("content", SMALL, ids=range(len(SMALL)))
@pytest.mark.parametrize(("codec", "framing"), FRAMED)
def test_every_cut_and_flip(codec, framing, content):
    """A gzip stream has a checksum of its content: no change of it gives other content."""
    payload = compress(codec, content, framing=framing)
    changed = bytearray(payload)
    for size in range(len(payload)):
        inflated(codec, payload[:size])
    for i, byte in enumerate(payload):
        for mask in (0xFF, 1 << i % 8, 0xF0):
            changed[i] = byte ^ mask
            said = gunzipped(bytes(changed)) if codec == GZIP else inflated(codec, bytes(changed))
            assert codec != GZIP or not isinstance(said, bytes) or said == content
        changed[i] = byte


# --- streams that no compressor makes ---------------------------------------------------------------------------------
def snappy_literals(data: bytes) -> bytes:
    size = len(data) - 1
    if size < 60:
        return bytes([size << 2]) + data
    return (bytes([60 << 2, size]) if size < 256 else bytes([61 << 2]) + size.to_bytes(2, "little")) + data


def snappy_copy(distance: int, size: int, kind: int) -> bytes:
    if kind == 1 and distance < 2048 and 4 <= size <= 11:
        return bytes([distance >> 8 << 5 | size - 4 << 2 | 1, distance & 255])
    if kind == 3 or distance >= 1 << 16:
        return bytes([size - 1 << 2 | 3]) + distance.to_bytes(4, "little")
    return bytes([size - 1 << 2 | 2]) + distance.to_bytes(2, "little")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def lz4_sequence(literals: bytes, distance: int, size: int) -> bytes:
    """The last one has size 0."""
    match = size - 4 if size else 0
    token = min(15, len(literals)) << 4 | min(15, match)
    return (
        bytes([token])
        + lz4_rest(len(literals))
        + literals
        + (struct.pack("<H", distance) + lz4_rest(match)) * (size > 0)
    )


def lz4_rest(length: int) -> bytes:
    rest = length - 15
    return b"" if rest < 0 else b"\xff" * (rest // 255) + bytes([rest % 255])


def copied(out: bytearray, distance: int, size: int) -> None:
    for _ in range(size):
        out.append(out[-distance])


DISTANCES = st.integers(1, 20) | st.integers(1, 3000) | st.integers(1, 1 << 16)
PARTS = st.lists(st.tuples(st.integers(0, 300) | st.integers(0, 18), DISTANCES, st.integers(1, 64), st.integers(1, 3)))


@given(parts=PARTS, wrong=st.integers(-1, 1))
def test_snappy_elements(parts, wrong):
    """Every length and distance; a declared size that is wrong by one is an error."""
    out, body = bytearray(), b""
    for i, (literals, distance, size, kind) in enumerate(parts):
        if literals:
            out += NOISE[i : i + literals]
            body += snappy_literals(NOISE[i : i + literals])
        if distance <= len(out):
            copied(out, distance, size)
            body += snappy_copy(distance, size, kind)
    declared = max(0, len(out) + wrong)
    assert inflated(SNAPPY, varint(declared) + body) == (bytes(out) if len(out) == declared else FieldError)


MATCHES = st.integers(4, 20) | st.integers(4, 600)
SEQUENCES = st.lists(st.tuples(st.integers(0, 20) | st.integers(0, 600), DISTANCES, MATCHES), max_size=40)


@given(parts=SEQUENCES, last=st.integers(0, 40))
def test_lz4_sequences(parts, last):
    """Every length and distance; a block must end with five literals or more, and with no match in its last twelve."""
    out, block = bytearray(), b""
    for i, (literals, distance, size) in enumerate(parts):
        if distance > len(out) + literals:
            continue
        out += NOISE[i : i + literals]
        copied(out, distance, size)
        block += lz4_sequence(NOISE[i : i + literals], distance, size)
    out += NOISE[:last]
    block += lz4_sequence(NOISE[:last], 0, 0)
    payload = lz4_frame(b"")[:7] + struct.pack("<I", len(block)) + block + bytes(4)
    said = inflated(LZ4, payload)
    assert said == bytes(out) or last < 8 or len(out) > 65_000


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=300)
@given(data=st.data())
def test_any_bytes(codec, data):
    whole = compress(codec, TEXT, framing=data.draw(st.sampled_from(FRAMINGS[codec])))
    payload = bytearray(whole[: data.draw(st.integers(0, 60))] + data.draw(st.binary(max_size=60)))
    for place in data.draw(st.lists(st.integers(0, max(0, len(payload) - 1)), max_size=3)):
        payload[place : place + 1] = data.draw(st.binary(max_size=2))
    for library in LIBRARIES:
        inflated(codec, bytes(payload), library=library)
    outcome(codec, bytes(payload), limit_bytes=data.draw(st.sampled_from([0, 10, 100, 1000])))


class Bits:
    """A DEFLATE stream in the making; codes are given first bit first."""

    def __init__(self) -> None:
        self._text = ""

    def number(self, value: int, count: int) -> Bits:
        self._text += f"{value:0{count}b}"[::-1] if count else ""
        return self

    def code(self, text: str) -> Bits:
        self._text += text
        return self

    def gzip(self, content: bytes) -> bytes:
        whole = self._text + "0" * (-len(self._text) % 8)
        stream = bytes(int(whole[i : i + 8][::-1], 2) for i in range(0, len(whole), 8))
        return b"\x1f\x8b\x08" + bytes(7) + stream + struct.pack("<II", zlib.crc32(content), len(content))


def fixed(symbol: int) -> str:
    """The code of a literal or length that needs no tables."""
    for first, code, bits in ((0, 0x30, 8), (144, 0x190, 9), (256, 0, 7), (280, 0xC0, 8)):
        if first <= symbol < first + {0: 144, 144: 112, 256: 24, 280: 8}[first]:
            return f"{code + symbol - first:0{bits}b}"
    raise ValueError(symbol)


def own_code(codes: dict[int, int], count: int, distances: list[int]) -> Bits:
    """The head of a last block with a code of its own: lengths by symbol, of `count` literals and lengths.

    They are written one by one, in a code in which 0 to 15 take 4 bits each.
    """
    bits = Bits().number(1, 1).number(2, 2).number(count - 257, 5).number(len(distances) - 1, 5).number(15, 4)
    for symbol in (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15):
        bits.number(4 if symbol < 16 else 0, 3)
    for length in (*(codes.get(symbol, 0) for symbol in range(count)), *distances):
        bits.code(f"{length:04b}")
    return bits


AB = {97: 2, 98: 2, 256: 2, 257: 2}  # a code for a, b, the end and a match of three
GOOD_BLOCKS = {
    "fixed": (
        Bits().number(3, 3).code(fixed(97) + fixed(200) + fixed(259) + "00001" + fixed(256)),
        b"a\xc8" + b"a\xc8" * 2 + b"a",
    ),
    "two distances": (own_code(AB, 258, [1, 1]).code("00" + "01" + "11" + "1" + "10"), b"ababa"),
    "one distance": (own_code(AB, 258, [1]).code("00" + "11" + "0" + "10"), b"aaaa"),
}
BAD_BLOCKS = {
    "no such kind": (Bits().number(7, 3).code(fixed(256)), b""),
    "a distance before the start": (Bits().number(3, 3).code(fixed(97) + fixed(257) + "00001" + fixed(256)), b"aaaa"),
    "distance 30": (Bits().number(3, 3).code(fixed(97) + fixed(257) + "11110" + fixed(256)), b"aaaa"),
    "length 286": (Bits().number(3, 3).code(fixed(97) + fixed(286) + "00000" + fixed(256)), b"a"),
    "287 literals and lengths": (own_code(AB, 287, [1, 1]).code("00" + "10"), b"a"),
    "31 distances": (own_code(AB, 258, [1, 1, *29 * [0]]).code("00" + "10"), b"a"),
    "no end": (own_code({97: 1, 98: 1}, 257, [1, 1]).code("0"), b"a"),
    "too many codes": (own_code(AB | {99: 2}, 258, [1, 1]).code("00" + "10"), b"a"),
    "too few codes": (own_code({97: 2, 98: 2, 256: 2}, 258, [1, 1]).code("00" + "10"), b"a"),
    "too many distances": (own_code(AB, 258, [1, 1, 1]).code("00" + "10"), b"a"),
    "the other distance": (own_code(AB, 258, [1]).code("00" + "11" + "1" + "10"), b"aaaa"),
    "cut": (Bits().number(3, 3).code(fixed(97)), b"a"),
}


@pytest.mark.parametrize(("bits", "content"), GOOD_BLOCKS.values(), ids=GOOD_BLOCKS)
def test_blocks_of_deflate(bits, content):
    assert gunzipped(bits.gzip(content)) == content


@pytest.mark.parametrize(("bits", "content"), BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_bad_blocks_of_deflate(bits, content):
    """The checksums are those of the content that a careless decoder would return."""
    payload = bits.gzip(content)
    said = [inflated(GZIP, payload, library=library) for library in LIBRARIES]
    assert all(isinstance(each, type) for each in said[: 1 if bits is BAD_BLOCKS["too few codes"][0] else 2]), said


FIBONACCI = [1, 1]
while len(FIBONACCI) < 22:
    FIBONACCI.append(FIBONACCI[-1] + FIBONACCI[-2])
SKEWED = b"".join(bytes([65 + i]) * count for i, count in enumerate(FIBONACCI))  # codes of up to 15 bits
STRATEGIES = (
    zlib.Z_DEFAULT_STRATEGY,
    zlib.Z_FILTERED,
    zlib.Z_HUFFMAN_ONLY,
    zlib.Z_RLE,
    zlib.Z_FIXED,
)


@pytest.mark.slow
@pytest.mark.parametrize("content", [*CONTENTS.values(), SKEWED], ids=[*CONTENTS, "skewed"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("level", [1, 6, 9])
@pytest.mark.parametrize("window_bits", [25, 31])
def test_every_way_to_deflate(content, strategy, level, window_bits):
    for memory_level, flush in ((8, None), (1, zlib.Z_SYNC_FLUSH), (4, zlib.Z_FULL_FLUSH), (9, zlib.Z_PARTIAL_FLUSH)):
        deflater = zlib.compressobj(level, zlib.DEFLATED, window_bits, memory_level, strategy)
        half = len(content) // 2
        payload = deflater.compress(content[:half]) + (deflater.flush(flush) if flush else b"")
        payload += deflater.compress(content[half:]) + deflater.flush()
        assert gunzipped(payload) == content


@given(
    parts=st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 40)), max_size=60),
    level=st.integers(0, 9),
    strategy=st.sampled_from(STRATEGIES),
)
def test_any_content_deflated(parts, level, strategy):
    content = b"".join(part * count for part, count in parts)
    deflater = zlib.compressobj(level, zlib.DEFLATED, 31, 8, strategy)
    payload = deflater.compress(content) + deflater.flush()
    assert gunzipped(payload) == content
    assert outcome(GZIP, payload, limit_bytes=len(content)) == content


@pytest.mark.parametrize(
    ("at", "mask", "isal"),
    [(2, 15, FieldError), (-5, 1, FieldError), (-4, 1, FieldError), (-1, 0xFF, FieldError)],
    ids=["method", "checksum", "size", "high byte of the size"],
)
def test_odd_gzip(at, mask, isal):
    changed = bytearray(compress(GZIP, TEXT))
    changed[at] ^= mask
    assert [inflated(GZIP, bytes(changed), library=library) for library in LIBRARIES] == [FieldError, isal]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("member", [0, 1])
def test_reserved_flags_of_gzip_are_reported_and_the_content_is_read(member, library, monkeypatch):
    """GZIPInputStream does not look at them; zlib refuses them, and isal does not."""
    members = [bytearray(compress(GZIP, TEXT)) for _ in range(2)]
    members[member][3] |= 0x80
    first_bytes = len(members[0])
    monkeypatch.setattr(decompression, "ZLIB", library)
    with pytest.raises(OddStreamError) as raised:
        decompress(GZIP, b"".join(members), magic=2, limit_bytes=PIECE_BYTES)
    error = raised.value
    assert (error.reason, bytes(error.content), error.position) == ("payload-flags", TEXT * 2, member * first_bytes + 3)


_EXTRA, _NAME, _COMMENT, _HEADER_CRC = 4, 8, 16, 2


@pytest.mark.parametrize(
    ("flags", "fields", "is_member"),
    [
        (0, b"", True),
        (_EXTRA | _NAME | _COMMENT, b"\2\0xyname\0comment\0", True),
        (_EXTRA, b"\xff\xff", False),
        (_NAME, b"x" * 40, False),
        (_COMMENT, b"x" * 40, False),
        (_HEADER_CRC, None, True),
        (_HEADER_CRC, b"\1\2", False),
    ],
)
def test_a_member_after_the_first_whose_header_cannot_be_read_is_ignored(flags, fields, is_member):
    """As GZIPInputStream.readTrailer does it, which takes any IOException of readHeader for the end of the stream."""
    plain = compress(GZIP, TEXT)
    header = plain[:3] + bytes([flags]) + plain[4:10]
    crc = (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    second = header + (crc if fields is None else fields) + (plain[10:] if is_member else b"")
    second += b"" if is_member else b"z" * 8
    got = inflated(GZIP, plain + second)
    assert got == (TEXT * 2 if is_member else TrailingError)


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        (
            XERIAL_HEADER[:8] + bytes(8) + b"\0\0\0\1\0",
            b"",
        ),  # a version of 0, at which SnappyInputStream looks up to Kafka 0.9
        (XERIAL_HEADER[:15] + b"\2\0\0\0\1\0", b""),  # another compatible version, which SnappyInputStream ignores
        (snappy_stream(TEXT) + b"\0", TrailingError),
        (b"\x80\0", b""),  # a size of two bytes that needs one
        (b"\x81\x80\x80\x80\0\0A", b"A"),
        (b"\1\xf8\0\0\0A", b"A"),  # a literal's size of three bytes
    ],
    ids=range(6),
)
def test_odd_snappy(payload, content):
    assert inflated(SNAPPY, payload) == content


def changed_frame(at: int, value: int, framing: str = "java") -> bytes:
    frame = bytearray(lz4_frame(TEXT, framing))
    frame[at] = value
    return bytes(frame)


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        (lz4.frame.compress(TEXT * 200, block_linked=True), OddStreamError),  # Java refuses it
        (b"\x50\x2a\x4d\x18\x04\0\0\0skip", FieldError),
        (changed_frame(4, 0x61), UnsupportedError),  # a dictionary
        (changed_frame(4, 0x20), FieldError),  # another version
        (changed_frame(5, 0x30), FieldError),  # blocks of 16 KiB
        (changed_frame(5, 0x41), FieldError),  # a reserved bit
        (changed_frame(6, 0x83), FieldError),  # header checksum
        (changed_frame(-1, 0, "content-checksum"), OddStreamError),  # Kafka does not verify it
        (changed_frame(-5, 0, "block-checksum"), FieldError),
        (changed_frame(8, 1, "sized"), FieldError),
        (lz4_frame(TEXT) + b"\0", TrailingError),
    ],
    ids=range(11),
)
def test_odd_lz4(payload, content):
    assert inflated(LZ4, payload) == content
