"""Decompression: payloads of real brokers, every framing, cuts at every length, bombs, and garbage."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import FieldError, FormatError, LimitError, TruncatedError, UnsupportedError
from kafkalog_core.format import decompression, lz4_frames
from kafkalog_core.format.checksums import lz4_header_checksum
from kafkalog_core.format.decompression import decompress
from kafkalog_core.format.streams import OddStreamError, TrailingError
from tests.support.framing import FRAMINGS, GZIP, LZ4, SNAPPY, XERIAL_HEADER, ZSTD, compress, lz4_frame

# `content` was inflated by other libraries than the ones under test.
GOLDEN = json.loads(Path(__file__).with_name("compression.json").read_text())
MIB = 1024 * 1024
TEXT = b"".join(b'{"id": %d, "text": "quartz zephyr"}' % (i * i) for i in range(40))
FRAMED = [(codec, framing) for codec in (GZIP, SNAPPY, LZ4, ZSTD) for framing in FRAMINGS[codec]]
# Streams that may end between their parts: what stands before the cut is a legal stream.
CONCATENATED = {"members", "restarted", "frames", "skippable", "xerial"}


def inflate(codec: int, payload: bytes, *, magic: int = 2, limit_bytes: int = 16 * MIB) -> bytes:
    return bytes(decompress(codec, memoryview(payload), magic=magic, limit_bytes=limit_bytes))


def what_is_read(codec: int, payload: bytes, *, magic: int = 2) -> tuple[bytes | None, int, type[FormatError] | None]:
    """The content, bytes behind it, and the error."""
    try:
        return inflate(codec, payload, magic=magic), 0, None
    except TrailingError as error:
        return bytes(error.content), error.trailing_bytes, TrailingError
    except FormatError as error:
        return None, 0, type(error)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"{golden['case']}: {golden['origin']}")
def test_payloads_of_real_brokers(golden):
    payload = bytes.fromhex(golden["payload"])
    assert inflate(golden["codec"], payload, magic=golden["magic"]).hex() == golden["content"]
    is_raw = golden["codec"] == SNAPPY and not payload.startswith(XERIAL_HEADER)
    for size in range(len(payload)):
        content, trailing_bytes, error = what_is_read(golden["codec"], payload[:size], magic=golden["magic"])
        if content is None:
            assert is_raw or error is TruncatedError
        else:
            assert (content, trailing_bytes) == (b"", size - 16)  # the header of a block stream


@pytest.mark.parametrize(("codec", "framing"), FRAMED)
@pytest.mark.parametrize("content", [b"", b"x", TEXT, TEXT * 3000], ids=["empty", "byte", "text", "4 MiB"])
def test_every_framing(codec, framing, content):
    check_content_and_limit(codec, framing, content)


def check_content_and_limit(codec: int, framing: str, content: bytes) -> None:
    payload = compress(codec, content, framing=framing)
    assert inflate(codec, payload) == content
    assert inflate(codec, payload, limit_bytes=len(content)) == content
    if content:
        with pytest.raises(LimitError):
            inflate(codec, payload, limit_bytes=len(content) - 1)


@pytest.mark.parametrize(("codec", "framing"), FRAMED)
def test_a_cut_at_every_length(codec, framing):
    check_cuts(codec, framing)


def check_cuts(codec: int, framing: str) -> None:
    payload = compress(codec, TEXT, framing=framing)
    whole_at = []
    for size in range(len(payload)):
        content, trailing_bytes, error = what_is_read(codec, payload[:size])
        if content is None:  # of a raw body the library does not tell a cut from what is bad
            assert framing == "raw" or error is TruncatedError
            continue
        assert TEXT.startswith(content)
        if not trailing_bytes:
            whole_at.append(size)
        assert whole_at[-1] == size - trailing_bytes
    assert bool(whole_at) == (framing in CONCATENATED)
    assert len(whole_at) <= 7


@pytest.mark.parametrize(("codec", "framing"), FRAMED)
@pytest.mark.parametrize("tail", [b"\0", b"\xff\xff\xff", b"\0" * 40, TEXT])
def test_bytes_behind_the_end_are_named(codec, framing, tail):
    with pytest.raises((FieldError, TruncatedError)):
        inflate(codec, compress(codec, TEXT, framing=framing) + tail)


@pytest.mark.parametrize(("codec", "framing"), FRAMED)
def test_a_flipped_byte_gives_a_value_or_a_format_error(codec, framing):
    payload = bytearray(compress(codec, TEXT, framing=framing))
    for i in range(len(payload)):
        payload[i] ^= 0xFF
        with suppress(FormatError):
            inflate(codec, payload, limit_bytes=MIB)
        payload[i] ^= 0xFF


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@given(data=st.data())
def test_any_bytes_give_a_value_or_a_format_error(codec, data):
    prefix = compress(codec, TEXT, framing=data.draw(st.sampled_from(FRAMINGS[codec])))
    payload = prefix[: data.draw(st.integers(0, 40))] + data.draw(st.binary(max_size=60))
    with suppress(FormatError):
        inflate(codec, payload, magic=data.draw(st.sampled_from([0, 1, 2])), limit_bytes=MIB)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@given(content=st.binary(max_size=3000), data=st.data())
def test_round_trip(codec, content, data):
    framing = data.draw(st.sampled_from(FRAMINGS[codec]))
    assert inflate(codec, compress(codec, content, framing=framing)) == content


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@given(content=st.binary(max_size=300), data=st.data())
def test_the_way_for_small_payloads_says_the_same_as_the_careful_one(codec, content, data):
    """A limit below a piece of 1 MiB leaves the careful way alone; only what declares more than that may differ."""
    payload = bytearray(compress(codec, content, framing=data.draw(st.sampled_from(FRAMINGS[codec]))))
    for place in data.draw(st.lists(st.integers(0, len(payload) - 1), max_size=2)):
        payload[place] = data.draw(st.integers(0, 255))
    payload += data.draw(st.sampled_from([b"", b"\0", bytes(payload), payload[-8:], b"tail"]))
    outcomes = [outcome(codec, payload, limit_bytes) for limit_bytes in (MIB - 1, MIB)]
    assert outcomes[0] in {outcomes[1], LimitError}


def outcome(codec: int, payload: bytes, limit_bytes: int) -> bytes | type[FormatError] | tuple[type[FormatError], str]:
    try:
        return inflate(codec, payload, limit_bytes=limit_bytes)
    except LimitError:
        return LimitError
    except FormatError as error:
        return type(error), str(error)


def test_no_codec_is_the_payload_itself():
    payload = memoryview(b"plain")
    assert decompress(0, payload, magic=2, limit_bytes=0) is payload


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_a_codec_id_that_no_release_writes(codec):
    with pytest.raises(UnsupportedError):
        inflate(codec, b"")


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_none_of_the_old_formats(magic):
    with pytest.raises(UnsupportedError):
        inflate(ZSTD, compress(ZSTD, TEXT), magic=magic)


@pytest.mark.parametrize("framing", FRAMINGS[LZ4])
def test_lz4_header_checksum_is_excused_in_magic_0_alone(framing):
    faulty = compress(LZ4, TEXT, magic=0, framing=framing)
    given_bytes = bytearray(faulty)
    assert decompress(LZ4, given_bytes, magic=0, limit_bytes=MIB) == TEXT
    assert given_bytes == faulty
    assert inflate(LZ4, compress(LZ4, TEXT, framing=framing), magic=0) == TEXT
    for magic in (1, 2):
        with pytest.raises(FieldError):
            inflate(LZ4, faulty, magic=magic)


# Whole members, and what GZIPInputStream, KafkaLZ4BlockInputStream and SnappyInputStream ignore behind a stream.
IGNORED = [
    *((GZIP, framing, tail) for framing in FRAMINGS[GZIP] for tail in (b"\0", b"\x1f\x8b\x08", bytes(40), TEXT)),
    (GZIP, "member", compress(GZIP, b"")[:18]),
    *((LZ4, framing, tail) for framing in FRAMINGS[LZ4] for tail in (b"\0", bytes(40), lz4_frame(TEXT))),
    *((SNAPPY, framing, tail) for framing in ("xerial", "restarted") for tail in (b"\0", b"\x82SN", b"\xff\xff")),
]


@pytest.mark.parametrize("limit_bytes", [len(TEXT), 16 * MIB])
@pytest.mark.parametrize(("codec", "framing", "tail"), IGNORED)
def test_what_kafka_ignores_behind_a_stream_does_not_cost_its_content(codec, framing, tail, limit_bytes):
    with pytest.raises(TrailingError, match=f"^{len(tail)} bytes? after the end of the stream") as caught:
        inflate(codec, compress(codec, TEXT, framing=framing) + tail, limit_bytes=limit_bytes)
    assert (bytes(caught.value.content), caught.value.trailing_bytes) == (TEXT, len(tail))


def test_the_faulty_lz4_checksum_and_a_tail():
    with pytest.raises(TrailingError) as caught:
        inflate(LZ4, compress(LZ4, TEXT, magic=0) + b"tail", magic=0)
    assert bytes(caught.value.content) == TEXT


@pytest.mark.parametrize(
    ("codec", "tail"),
    [
        (GZIP, compress(GZIP, TEXT)[:-1]),
        (SNAPPY, compress(SNAPPY, TEXT)[:15]),  # a header that is cut
        (SNAPPY, b"\0\0\1\0"),
        (ZSTD, compress(ZSTD, TEXT)[:-1]),
    ],
)
def test_what_kafka_reads_on_and_is_cut_stays_an_error(codec, tail):
    with pytest.raises(TruncatedError):
        inflate(codec, compress(codec, TEXT) + tail)


EMPTY_ZSTD_FRAME = bytes.fromhex("28b52ffd2000010000")
EMPTY_PARTS = {
    "snappy blocks": (SNAPPY, XERIAL_HEADER, b"\0\0\0\1\0", b""),
    "zstd frames": (ZSTD, b"", EMPTY_ZSTD_FRAME, b""),
    "zstd blocks": (ZSTD, bytes.fromhex("28b52ffd0058"), b"\0\0\0", b"\1\0\0"),
    "gzip members": (GZIP, b"", compress(GZIP, b""), b""),
    "lz4 blocks": (LZ4, lz4_frame(b"")[:7], b"\1\0\0\x80z", b"\0\0\0\0"),
}


@pytest.mark.parametrize(("codec", "start", "part", "end"), EMPTY_PARTS.values(), ids=EMPTY_PARTS)
def test_parts_that_hold_next_to_nothing_are_counted(codec, start, part, end, monkeypatch):
    """Each costs time whatever it holds: 25 MB of empty snappy blocks took 17 s and 915 MB."""
    for module in (decompression, lz4_frames):
        monkeypatch.setattr(module, "MAX_PARTS", 1000)
    assert len(inflate(codec, start + part * 900 + end, limit_bytes=MIB - 1)) in {0, 900}
    with pytest.raises(LimitError, match="too many parts"):
        inflate(codec, start + part * 1001 + end, limit_bytes=MIB - 1)


def test_empty_parts_take_no_memory():
    payload = XERIAL_HEADER + b"\0\0\0\1\0" * 100_000
    inflate(SNAPPY, payload[:26])
    tracemalloc.start()
    try:
        assert inflate(SNAPPY, payload) == b""
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_broken_lz4_frame_leaves_nothing_behind():
    """The library keeps the content size of a frame that failed, and would hold the next frame against it."""
    good, broken = lz4_frame(TEXT), bytearray(lz4_frame(TEXT, "sized"))
    broken[19] ^= 0xFF  # the first token
    for limit_bytes in (MIB - 1, MIB):
        with pytest.raises(FieldError):
            inflate(LZ4, broken, limit_bytes=limit_bytes)
        assert inflate(LZ4, good, limit_bytes=limit_bytes) == TEXT
    with pytest.raises(LimitError):
        inflate(LZ4, lz4_frame(TEXT), limit_bytes=100)
    assert inflate(LZ4, good) == TEXT


def test_lz4_frames_that_the_library_passes_over():
    frame = bytearray(lz4_frame(TEXT, "sized"))
    with pytest.raises(FieldError, match="magic"):
        inflate(LZ4, b"\x50\x2a\x4d\x18\x04\0\0\0skip")
    frame[4] |= 0x01  # an id of a dictionary, 4 bytes behind the content size
    frame[14:15] = b"\0\0\0\0" + bytes([xxh32_second_byte(frame[4:14] + b"\0\0\0\0")])
    assert lz4.frame.decompress(frame) == TEXT
    with pytest.raises(UnsupportedError):
        inflate(LZ4, frame)


def xxh32_second_byte(descriptor: bytes) -> int:
    return lz4_header_checksum(bytes(descriptor))


def odd(payload: bytes, *, magic: int = 2) -> tuple[str, bytes]:
    with pytest.raises(OddStreamError) as caught:
        inflate(LZ4, payload, magic=magic)
    return caught.value.reason, bytes(caught.value.content)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_lz4_linked_blocks_are_read_and_named(magic):
    """Java's clients, brokers and cleaner refuse them; librdkafka and kafka-python read them."""
    content = TEXT * 200
    assert odd(lz4.frame.compress(content, block_linked=True), magic=magic) == ("payload-dependent", content)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("framing", ["content-checksum", "sized"])
@pytest.mark.parametrize("count", [1, 200])
def test_lz4_sums_of_the_content_are_not_verified(magic, framing, count):
    """`Lz4BlockInputStream` steps over the checksum and the size of the content."""
    frame = bytearray(compress(LZ4, TEXT * count, framing=framing))
    frame[-1 if framing == "content-checksum" else 6] ^= 0xFF
    if framing == "sized":
        frame[14] = lz4_header_checksum(bytes(frame[4:14]))
    assert odd(bytes(frame), magic=magic) == ("payload-checksum", TEXT * count)


def test_lz4_frames_with_wrong_sums_and_other_damage_are_refused():
    """A header or block checksum is verified by Kafka, and by nothing less."""
    frame = bytearray(compress(LZ4, TEXT, framing="content-checksum"))
    frame[-1] ^= 0xFF
    with pytest.raises(FieldError):
        inflate(LZ4, bytes(frame[:6]) + bytes([frame[6] ^ 1]) + bytes(frame[7:]))
    both = bytearray(lz4.frame.compress(TEXT, block_linked=False, block_checksum=True, content_checksum=True))
    both[-1] ^= 0xFF
    both[-9] ^= 0xFF
    with pytest.raises(FieldError):
        inflate(LZ4, bytes(both))
    linked = bytearray(lz4.frame.compress(TEXT * 200, block_linked=True, content_checksum=True))
    linked[-1] ^= 0xFF
    with pytest.raises(FieldError, match="not an lz4 frame"):
        inflate(LZ4, bytes(linked))


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("04224d18", TruncatedError),
        ("04224d17604082", FieldError),  # another magic
        ("04224d18a04082", FieldError),  # version 2
        ("04224d18624082", FieldError),  # reserved bit
        ("04224d18614082", UnsupportedError),  # dictionary
        ("04224d18603082", FieldError),  # blocks of 16 KiB
        ("04224d1860408201000100", FieldError),  # a block of more than 64 KiB
        ("04224d186840ffffffffffffff7f00", TruncatedError),  # a content size that nothing verifies
    ],
)
def test_lz4_headers(payload, error):
    with pytest.raises(error):
        inflate(LZ4, bytes.fromhex(payload))


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("82534e415050590000000001000000010000000000", FieldError),  # an empty block
        ("82534e41505059000000000100000001ffffffff00", FieldError),  # a block of -1 bytes
        ("82534e4150505900000000010000000182534e4150505901", FieldError),  # half a header
        ("82534e4150505900000000010000000182534e41505059", TruncatedError),
        ("ffffffff0f", LimitError),
        ("ffffffffff01", FieldError),  # a preamble of six bytes
        ("8080c0010100", FieldError),  # 3 MiB in 6 bytes, of a copy from before the start
        ("8080c0010041", FieldError),  # 3 MiB, of which one byte is there
        ("0500", FieldError),
        ("050041", FieldError),
        ("0a0041" + "0102", FieldError),  # a copy from before the start
    ],
)
def test_snappy_streams(payload, error):
    with pytest.raises(error):
        inflate(SNAPPY, bytes.fromhex(payload), limit_bytes=64 * MIB)


def zstd_frame(descriptor: str, *blocks: tuple[int, int, bytes]) -> bytes:
    """A frame of (type, size, body) blocks behind a descriptor in hex."""
    out = bytes.fromhex("28b52ffd" + descriptor)
    for i, (kind, size, body) in enumerate(blocks, start=1):
        out += (size << 3 | kind << 1 | (i == len(blocks))).to_bytes(3, "little") + body
    return out


RLE = (1, 128 * 1024, b"z")


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (zstd_frame("0058", (3, 0, b"")), FieldError),  # reserved block type
        (zstd_frame("0858", (0, 0, b"")), FieldError),  # reserved bit
        (zstd_frame("0098", *[RLE] * 1025), LimitError),  # a window of 512 MiB for more than 128 MiB of content
        (zstd_frame("e0ffffffffffffff7f", RLE), LimitError),  # content size
        (zstd_frame("a000001000", (1, 5, b"z")), FieldError),  # 1 MiB declared, 5 bytes held
        (zstd_frame("0058", (1, 129 * 1024, b"z")), FieldError),  # a block above 128 KiB
        (zstd_frame("0058", (1, 9, b"z")) + bytes(8), FieldError),  # 9 bytes in one, and 8 behind the frame
        (bytes.fromhex("502a4d18ffffffff"), TruncatedError),  # a skippable frame of 4 GiB
        (b"\x28\xb5", TruncatedError),
        (b"\x28\xb6", FieldError),
    ],
)
def test_zstd_frames(payload, error):
    with pytest.raises(error):
        inflate(ZSTD, payload)


@pytest.mark.parametrize("header", ["0089", "0098", "00a0", "8098" + "00000200"])  # the last has a content size
def test_what_a_large_window_of_zstd_holds_is_read(header):
    """Java refuses a window of more than 128 MiB, whatever is in the frame."""
    with pytest.raises(OddStreamError) as raised:
        inflate(ZSTD, zstd_frame(header, RLE))
    assert (raised.value.reason, bytes(raised.value.content)) == ("payload-window", RLE[2] * RLE[1])


@pytest.mark.parametrize(("size_bytes", "is_refused"), [(16 * 1024, False), (16 * 1024 + 1, True)])
def test_a_large_window_of_a_small_content_is_no_hindrance(size_bytes, is_refused):
    """Kafka's Java code reads a frame of a known size that fits into one of its buffers of 16 KiB without a window."""
    frame = zstd_frame("8098" + size_bytes.to_bytes(4, "little").hex(), (1, size_bytes, b"z"))
    if is_refused:
        with pytest.raises(OddStreamError, match="a window of"):
            inflate(ZSTD, frame)
    else:
        assert inflate(ZSTD, frame) == b"z" * size_bytes


def test_matches_in_a_large_window_of_zstd_are_read():
    plain = bytes(range(256)) * 9000
    options = zstandard.ZstdCompressionParameters.from_level(19, window_log=28, enable_ldm=True)
    stream = zstandard.ZstdCompressor(compression_params=options).compressobj()
    payload = stream.compress(plain) + stream.flush()
    with pytest.raises(OddStreamError) as raised:
        inflate(ZSTD, payload)
    assert bytes(raised.value.content) == plain


@pytest.mark.parametrize("cut", [5, 9])
def test_a_skippable_frame_that_is_cut_after_a_frame_is_ignored(cut):
    frame = zstd_frame("0058", (0, 3, b"end"))
    with pytest.raises(TrailingError) as raised:
        inflate(ZSTD, frame + bytes.fromhex("502a4d18ff000000" + "00" * 3)[:cut])
    assert (bytes(raised.value.content), raised.value.trailing_bytes) == (b"end", cut)


@pytest.mark.parametrize("tail", [zstd_frame("0058", (0, 3, b"end")), b"tail"])
@pytest.mark.parametrize("first", [zstd_frame("2000", (0, 0, b"")), bytes.fromhex("502a4d1800000000")])
def test_zstd_reads_on_behind_a_frame_of_nothing(first, tail):
    """The library calls an empty frame done before it has seen its blocks, and what is behind it."""
    if tail == b"tail":
        with pytest.raises(FieldError):
            inflate(ZSTD, first + tail)
    else:
        assert inflate(ZSTD, first + tail) == b"end"


def test_zstd_with_a_large_window():
    assert inflate(ZSTD, zstd_frame("0088", RLE, (0, 3, b"end"))) == b"z" * 131072 + b"end"


def test_many_small_members_cost_linear_time():
    member = compress(GZIP, b"ab")
    assert inflate(GZIP, member * 20_000) == b"ab" * 20_000


def test_many_threads():
    """The contexts of lz4 and zstd are not shared between threads, which inflate without the interpreter's lock."""
    contents = [bytes([i]) * 20_000 + TEXT * i for i in range(32)]
    payloads = [(codec, compress(codec, content), content) for codec in (LZ4, ZSTD) for content in contents]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda each: inflate(*each[:2]) == each[2], payloads * 3))
    assert all(results)


BOMBS = """
import resource, sys, zlib
from kafkalog_core.errors import LimitError
from kafkalog_core.format.decompression import decompress
from tests.support.framing import compress, lz4_frame

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

limit_mib = 16
limit = limit_mib << 20
deflater = zlib.compressobj(1, zlib.DEFLATED, 31)
gzip_bomb = b"".join([deflater.compress(bytes(1 << 20)) for _ in range(256)] + [deflater.flush()])
rle = (128 * 1024 << 3 | 2).to_bytes(3, "little") + b"z"
last = (128 * 1024 << 3 | 3).to_bytes(3, "little") + b"z"
zeros = lz4_frame(bytes(4 << 20), "large-blocks")
bombs = {
    "gzip": (1, gzip_bomb),
    "gzip members": (1, compress(1, bytes(1 << 20)) * 256),
    "snappy": (2, bytes.fromhex("ffffffff0f0041")),
    "snappy blocks": (2, compress(2, bytes(1 << 20)) * 64),
    "lz4": (3, zeros[:7] + zeros[7:-4] * 256 + zeros[-4:]),
    "zstd 1 KB": (4, bytes.fromhex("28b52ffd0058") + rle * 250 + last),
    "zstd window": (4, bytes.fromhex("28b52ffd0088") + rle * 8000 + last),
    "zstd frames": (4, (bytes.fromhex("28b52ffd0058") + rle * 63 + last) * 100),
}
for codec in (1, 2, 3, 4):  # the libraries' own size
    decompress(codec, compress(codec, b"x"), magic=2, limit_bytes=9)
start_mib = peak_mib()
for name, (codec, bomb) in bombs.items():
    try:
        decompress(codec, bomb, magic=2, limit_bytes=limit)
    except LimitError:
        pass
    else:
        sys.exit(f"{name}: no error")
    if peak_mib() - start_mib > limit_mib + 20:
        sys.exit(f"{name}: {peak_mib() - start_mib:.0f} MiB taken for a limit of {limit_mib} MiB")
"""


def test_bombs_stay_below_the_limit():
    """Gigabytes out of kilobytes end in a LimitError with about the limit in memory, as a process of its own tells."""
    done = subprocess.run([sys.executable, "-c", BOMBS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_codecs_are_imported_at_their_first_use():
    script = (
        "import sys, kafkalog_core.format.compression\n"
        "print({'lz4.frame', 'snappy', 'cramjam', 'zstandard', 'importlib.metadata'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("library", ["zlib", "isal.isal_zlib"])
@pytest.mark.parametrize("framing", FRAMINGS[GZIP])
def test_both_libraries_of_gzip(library, framing, monkeypatch):
    monkeypatch.setattr(decompression, "ZLIB", importlib.import_module(library))
    check_content_and_limit(GZIP, framing, TEXT * 3000)
    check_cuts(GZIP, framing)
    for broken in (compress(GZIP, TEXT, framing=framing)[:-1] + b"\xff", b"\x1f\x8b\x08\0no gzip stream at all"):
        with pytest.raises(FieldError):
            inflate(GZIP, broken)


def test_gzip_header_fields():
    """Extra field, file name, comment and header checksum, which RFC 1952 allows and Kafka's clients do not write."""
    body = zlib.compress(TEXT, 6, 31)[10:]
    extra = b"\x1f\x8b\x08\x1e\0\0\0\0\0\xff" + b"\x02\0ab" + b"name\0" + b"comment\0"
    checksum = (zlib.crc32(extra) & 0xFFFF).to_bytes(2, "little")
    assert inflate(GZIP, extra + checksum + body) == TEXT
