"""The C that inflates payloads, as a program under sanitizers: what it accepts, the careful way gives too.

The careful way (`compression.decompress`) asks the codecs' libraries. How both work together: test_decode.py.
"""

from __future__ import annotations

import json
import random
import struct
import subprocess
import zlib
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import lz4.frame
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog_core.errors import FormatError
from kafkalog_core.format.compression import decompress
from tests.compile_c import c_program
from tests.framing import FRAMINGS, GZIP, LZ4, SNAPPY, XERIAL_HEADER, compress, lz4_frame, snappy_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

CODECS = (GZIP, SNAPPY, LZ4)
ODD, ROOM = -1, -2
ROOM_BYTES = 1 << 20  # of whom nothing else is asked
SLACKS = (0, 9, 40, 300)
GOLDEN = [
    golden
    for golden in json.loads(Path(__file__).with_name("compression.json").read_text())
    if golden["codec"] in CODECS
]
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
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "inflate_gzip.h"
#include "inflate_lz4.h"
#include "inflate_snappy.h"

/* From standard input: codec, whether the header checksum is excused, size of the payload, of the room, bytes behind
   either of them that may be touched; and the payload. Buffers end with what may be touched. */
int main(void)
{
    uint32_t of[6];
    while (fread(of, sizeof of, 1, stdin) == 1) {
        unsigned char *p = malloc(of[2] + of[4]), *out = malloc(of[3] + of[5]);
        const unsigned char *readable = p + of[2] + of[4], *writable = out + of[3] + of[5];
        ptrdiff_t size = INFLATE_ODD;
        int32_t said;
        memset(p, 0xEE, of[2] + of[4]);
        if (fread(p, 1, of[2], stdin) != of[2])
            return 1;
        if (of[0] == 1)
            size = inflate_gzip(p, of[2], readable, out, of[3], writable);
        if (of[0] == 2)
            size = inflate_snappy(p, of[2], readable, out, of[3], writable);
        if (of[0] == 3)
            size = inflate_lz4(p, of[2], readable, out, of[3], writable, (int)of[1]);
        said = (int32_t)size;
        fwrite(&said, sizeof said, 1, stdout);
        if (size > 0)
            fwrite(out, 1, (size_t)size, stdout);
        fflush(stdout);
        free(p);
        free(out);
    }
    return 0;
}
"""


class Program:
    """The decoders in a process of their own."""

    def __init__(self, path: str) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def inflate(
        self, codec: int, payload: bytes, *, magic: int = 2, room: int = ROOM_BYTES, slack: tuple[int, int] = (0, 0)
    ) -> bytes | int:
        """The content, or what is said instead."""
        process = self._process
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(struct.pack("=6I", codec, magic == 0, len(payload), room, *slack) + payload)
            process.stdin.flush()
            (size,) = struct.unpack("=i", process.stdout.read(4))
        except (OSError, struct.error):
            pytest.fail(f"{payload.hex()}: {process.communicate()[1].decode()}")
        return process.stdout.read(size) if size >= 0 else int(size)

    def close(self) -> None:
        """Its last words, if there are any, are a failure."""
        assert self._process.communicate()[1] == b""
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    running = Program(c_program(tmp_path_factory.mktemp("inflate"), PROGRAM))
    yield running
    running.close()


def careful(codec: int, payload: bytes, *, magic: int = 2, room: int = ROOM_BYTES) -> bytes | None:
    """What the careful way makes of it: the content, if it is whole and nothing stands behind it."""
    try:
        return bytes(decompress(codec, memoryview(payload), magic=magic, limit_bytes=room))
    except FormatError:
        return None


def agreed(program: Program, codec: int, payload: bytes, **options: int) -> bytes | int:
    """What the C says, with and without room behind the buffers; content only where the careful way has it too."""
    said = program.inflate(codec, payload, **options)
    assert program.inflate(codec, payload, slack=(100, 100), **options) == said
    if isinstance(said, bytes):
        assert said == careful(codec, payload, **options), payload.hex()
    else:
        assert said in {ODD, ROOM}
    return said


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"{golden['case']}: {golden['origin']}")
def test_payloads_of_real_brokers(program, golden):
    payload = bytes.fromhex(golden["payload"])
    assert program.inflate(golden["codec"], payload, magic=golden["magic"]).hex() == golden["content"]


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize(("codec", "framing"), FRAMED)
def test_every_framing_and_buffer(program, codec, framing, content):
    payload = compress(codec, content, framing=framing)
    is_odd = framing == "members" or (framing == "restarted" and len(content) > 1)
    expected = ODD if is_odd else content
    for before, behind in chain(((slack, 400) for slack in SLACKS), ((400, slack) for slack in SLACKS)):
        for room in (len(content), ROOM_BYTES):
            assert program.inflate(codec, payload, room=room, slack=(before, behind)) == expected
    assert agreed(program, codec, payload) == expected
    if content and expected == content:
        assert program.inflate(codec, payload, room=len(content) - 1) == ROOM


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("framing", FRAMINGS[LZ4])
def test_the_header_checksum_of_lz4_is_excused_in_magic_0_alone(program, framing, magic):
    payload = compress(LZ4, TEXT, magic=0, framing=framing)
    assert program.inflate(LZ4, payload, magic=magic) == (ODD if magic else TEXT)


SMALL = [TEXT[:90], TEXT[:300], bytes(70), b"ab" * 60, NOISE[:30] * 3]


@pytest.mark.parametrize("content", SMALL, ids=range(len(SMALL)))
@pytest.mark.parametrize(("codec", "framing"), FRAMED)
def test_every_cut_and_flip(program, codec, framing, content):
    payload = compress(codec, content, framing=framing)
    for size in range(len(payload)):
        agreed(program, codec, payload[:size])
    for tail in (b"\0", b"tail", payload):
        agreed(program, codec, payload + tail)
    changed = bytearray(payload)
    for i, byte in enumerate(payload):
        for mask in (0xFF, 1 << i % 8, 0xF0):
            changed[i] = byte ^ mask
            agreed(program, codec, bytes(changed))
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=PARTS, slack=st.tuples(*2 * [st.sampled_from(SLACKS)]), wrong=st.integers(-1, 1))
def test_snappy_elements(program, parts, slack, wrong):
    """Every length and distance; with a size that is wrong by one they are odd."""
    out, body = bytearray(), b""
    for i, (literals, distance, size, kind) in enumerate(parts):
        if literals:
            out += NOISE[i : i + literals]
            body += snappy_literals(NOISE[i : i + literals])
        if distance <= len(out):
            copied(out, distance, size)
            body += snappy_copy(distance, size, kind)
    payload = varint(max(0, len(out) + wrong)) + body
    said = program.inflate(SNAPPY, payload, room=len(out) + 1, slack=slack)
    assert said == (bytes(out) if len(out) == max(0, len(out) + wrong) else ODD)
    agreed(program, SNAPPY, payload)


MATCHES = st.integers(4, 20) | st.integers(4, 600)
SEQUENCES = st.lists(st.tuples(st.integers(0, 20) | st.integers(0, 600), DISTANCES, MATCHES), max_size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=SEQUENCES, slack=st.tuples(*2 * [st.sampled_from(SLACKS)]), last=st.integers(0, 40))
def test_lz4_sequences(program, parts, slack, last):
    """Every length and distance; good ones end with five literals or more, and with no match in the last twelve."""
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
    said = agreed(program, LZ4, payload)
    assert said == program.inflate(LZ4, payload, slack=slack)
    assert said == bytes(out) or last < 8 or len(out) > 65_000
    if said == bytes(out):
        assert program.inflate(LZ4, payload, room=len(out) + 13, slack=slack) == said


@pytest.mark.parametrize("codec", CODECS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(data=st.data())
def test_any_bytes(program, codec, data):
    whole = compress(codec, TEXT, framing=data.draw(st.sampled_from(FRAMINGS[codec])))
    payload = bytearray(whole[: data.draw(st.integers(0, 60))] + data.draw(st.binary(max_size=60)))
    for place in data.draw(st.lists(st.integers(0, max(0, len(payload) - 1)), max_size=3)):
        payload[place : place + 1] = data.draw(st.binary(max_size=2))
    agreed(program, codec, bytes(payload), room=data.draw(st.sampled_from([0, 10, 100, 1000, ROOM_BYTES])))


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
def test_blocks_of_deflate(program, bits, content):
    assert agreed(program, GZIP, bits.gzip(content)) == content


@pytest.mark.parametrize(("bits", "content"), BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_bad_blocks_of_deflate(program, bits, content):
    """The checksums are those of what a careless reader makes of them."""
    assert agreed(program, GZIP, bits.gzip(content)) == ODD


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


@pytest.mark.parametrize("content", [*CONTENTS.values(), SKEWED], ids=[*CONTENTS, "skewed"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("level", [1, 6, 9])
@pytest.mark.parametrize("window_bits", [25, 31])
def test_every_way_to_deflate(program, content, strategy, level, window_bits):
    for memory_level, flush in ((8, None), (1, zlib.Z_SYNC_FLUSH), (4, zlib.Z_FULL_FLUSH), (9, zlib.Z_PARTIAL_FLUSH)):
        deflater = zlib.compressobj(level, zlib.DEFLATED, window_bits, memory_level, strategy)
        half = len(content) // 2
        payload = deflater.compress(content[:half]) + (deflater.flush(flush) if flush else b"")
        payload += deflater.compress(content[half:]) + deflater.flush()
        assert program.inflate(GZIP, payload, slack=(memory_level, 400)) == content


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 40)), max_size=60),
    level=st.integers(0, 9),
    strategy=st.sampled_from(STRATEGIES),
    slack=st.tuples(*2 * [st.sampled_from(SLACKS)]),
)
def test_any_content_deflated(program, parts, level, strategy, slack):
    content = b"".join(part * count for part, count in parts)
    deflater = zlib.compressobj(level, zlib.DEFLATED, 31, 8, strategy)
    payload = deflater.compress(content) + deflater.flush()
    assert program.inflate(GZIP, payload, slack=slack) == content
    assert program.inflate(GZIP, payload, slack=slack, room=len(content)) == content


def test_odd_gzip(program):
    payload = compress(GZIP, TEXT)
    for at, value in ((2, 7), (3, 1), (3, 8), (3, 0x20), (-5, payload[-5] ^ 1), (-4, payload[-4] ^ 1)):
        changed = bytearray(payload)
        changed[at] = value
        assert agreed(program, GZIP, bytes(changed)) == ODD
    assert agreed(program, GZIP, payload[:-1] + b"\xff") == ROOM


@pytest.mark.parametrize(
    "payload",
    [
        XERIAL_HEADER[:15] + b"\2\0\0\0\1\0",  # another compatible version
        snappy_stream(TEXT) + b"\0",  # a tail
        b"\x80\0",  # a size of two bytes that needs one
        b"\x81\x80\x80\x80\0\0A",
        b"\1\xf8\0\0\0A",  # a literal's size of four bytes
    ],
    ids=range(5),
)
def test_odd_snappy(program, payload):
    assert agreed(program, SNAPPY, payload) == ODD


def changed_frame(at: int, value: int, framing: str = "java") -> bytes:
    frame = bytearray(lz4_frame(TEXT, framing))
    frame[at] = value
    return bytes(frame)


@pytest.mark.parametrize(
    "payload",
    [
        lz4.frame.compress(TEXT * 200, block_linked=True),
        b"\x50\x2a\x4d\x18\x04\0\0\0skip",
        changed_frame(4, 0x61),  # a dictionary
        changed_frame(4, 0x20),  # another version
        changed_frame(5, 0x30),  # blocks of 16 KiB
        changed_frame(5, 0x41),  # a reserved bit
        changed_frame(6, 0x83),  # header checksum
        changed_frame(-1, 0, "content-checksum"),
        changed_frame(-5, 0, "block-checksum"),
        changed_frame(8, 1, "sized"),
        lz4_frame(TEXT) + b"\0",
    ],
    ids=range(11),
)
def test_odd_lz4(program, payload):
    assert agreed(program, LZ4, payload) == ODD
    assert program.inflate(LZ4, payload, magic=0) == careful(LZ4, payload, magic=0) or ODD


def test_many_parts_are_left_to_the_careful_way(program):
    for codec, start, part, end in (
        (SNAPPY, XERIAL_HEADER, b"\0\0\0\1\0", b""),
        (LZ4, lz4_frame(b"")[:7], b"\1\0\0\x80z", b"\0\0\0\0"),
    ):
        assert len(agreed(program, codec, start + part * 4096 + end)) in {0, 4096}
        assert program.inflate(codec, start + part * 4097 + end) == ODD
