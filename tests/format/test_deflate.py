"""Compression as Kafka's writers frame it; what comes out is read by the readers and by the libraries."""

from __future__ import annotations

import gzip
import hashlib
import random
from array import array

import lz4.block
import lz4.frame
import pytest

from kafkalog_core.errors import UnsupportedError
from kafkalog_core.format import compression
from kafkalog_core.format.compression import compress
from kafkalog_core.format.decompression import decompress
from kafkalog_core.kernels.constants import LZ4_FORM_1_2, LZ4_FORM_1_3, LZ4_FORM_1_5, LZ4_HASHES
from tests.support.build import GZIP, LZ4, SNAPPY, ZSTD
from tests.support.framing import FAULTY_LZ4_CHECKSUM, XERIAL_HEADER
from tests.support.twins import TWINS, all_agree, twin

LZ4_FORMS = (LZ4_FORM_1_2, LZ4_FORM_1_3, LZ4_FORM_1_5)
SIZES = (0, 1, 100, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 300_000)


def a_text(size: int, seed: int) -> bytes:
    rng = random.Random(seed)
    words = [rng.randbytes(rng.randrange(1, 9)) for _ in range(200)]
    text = b"".join(rng.choices(words, k=size // 2 + 1))
    return text[:size]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("size", SIZES)
def test_what_is_compressed_is_read_again(codec: int, size: int) -> None:
    for data in (a_text(size, size), random.Random(size).randbytes(size)):
        for magic in (2,) if codec == ZSTD else (0, 1, 2):
            packed = compress(codec, memoryview(data), magic=magic)
            assert bytes(decompress(codec, packed, magic=magic, limit_bytes=2**20)) == data


def test_framing_is_that_of_the_java_clients() -> None:
    data = a_text(70_000, 1)
    packed = compress(GZIP, data, magic=2)
    assert packed[:10] == bytes.fromhex("1f8b08000000000000ff")
    assert gzip.decompress(packed) == data
    assert compress(GZIP, data, magic=2, gzip_system=0) == packed[:9] + b"\0" + packed[10:]
    assert compress(SNAPPY, data, magic=2).startswith(XERIAL_HEADER)
    packed = compress(LZ4, data, magic=2)
    assert packed[:7] == bytes.fromhex("04224d18604082")
    assert lz4.frame.decompress(packed) == data
    assert compress(LZ4, data, magic=0)[6] == FAULTY_LZ4_CHECKSUM
    packed = compress(ZSTD, data, magic=2)
    assert (packed[4], packed[-3:]) == (0, b"\1\0\0")  # no content size; the last block is empty


def test_blocks_of_lz4_that_do_not_shrink_are_stored() -> None:
    packed = compress(LZ4, random.Random(1).randbytes(1000), magic=2)
    assert int.from_bytes(packed[7:11], "little") == 1000 | 0x80000000


REAL_RECORDS = bytes.fromhex(
    "d601000000086b303139c0017b226e223a3133322c226964223a223738353639376638222c2274657874223a22726566756e"
    "642078656e6f6e207a6570687972206b72696c6c206361727420726176656e20726566756e64206361727420636564617220"
    "706561726c20227d00"
)
REAL_FRAME = bytes.fromhex(
    "04224d186040826a000000f343d601000000086b303139c0017b226e223a3133322c226964223a223738353639376638222c"
    "2274657874223a22726566756e642078656e6f6e207a6570687972206b72696c6c206361727420726176656e202500011200"
    "f000636564617220706561726c20227d0000000000"
)


def test_blocks_of_lz4_are_those_of_a_real_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that a broker of 4.3.1 has compressed. The library would find other matches."""
    for name in TWINS:
        monkeypatch.setattr(compression, "kernels", twin(name))
        assert compress(LZ4, REAL_RECORDS, magic=2) == REAL_FRAME


@pytest.mark.parametrize(
    ("data", "block"),
    [
        (b"aaaaaabababba", "116101007062616261626261"),
        (b"abbbbbbbababaa", "226162010060616261626161"),
        (b"abaaaaaabbbbbbb", "3161626101007062626262626262"),
        (b"bbababbbbaababbaaabbaabbabbaaabbaabbabb", "a16262616261626262626108002161610500001600040c00506262616262"),
    ],
)
@pytest.mark.parametrize("name", TWINS)
def test_the_last_match_may_start_where_liblz4_lets_it(name: str, data: bytes, block: str) -> None:
    """Blocks of LZ4Factory.fastestInstance of lz4-java 1.10.2 on Linux (JNI); its pure Java compressor makes others."""
    assert a_block(name, data, LZ4_FORM_1_5).hex() == block


@pytest.mark.parametrize("form", [LZ4_FORM_1_2, LZ4_FORM_1_3])
@pytest.mark.parametrize("name", TWINS)
def test_older_forms_give_up_one_place_earlier(name: str, form: int) -> None:
    """Blocks of LZ4Factory.fastestInstance of lz4-java 1.2.0, 1.3.0, 1.4, and 1.4.1 on Linux (JNI)."""
    assert a_block(name, b"aaaaaabababba", form).hex() == "d061616161616162616261626261"
    assert a_block(name, b"abbbbbbbababaa", form).hex() == "e06162626262626262616261626161"


@pytest.mark.parametrize(
    ("form", "digest"),
    [
        (LZ4_FORM_1_2, "0a0b4430cfcaf5cfe881a294f8f94bd8f4275f78840dc93cd2fd41bace8ff6e3"),  # 1.2.0
        (LZ4_FORM_1_3, "4ccb06cfe323302dd7af0d07991962cbceb62816509f18609b022995f9fc81aa"),  # 1.3.0, 1.4, 1.4.1
        (LZ4_FORM_1_5, "504a7159503cc0b4fccb1c189a06bbfbcd37914432be39b387823186be53f230"),  # 1.5.0 to 1.11.2
    ],
)
@pytest.mark.parametrize("name", TWINS)
def test_blocks_of_lz4_are_those_of_each_lz4_java(name: str, form: int, digest: str) -> None:
    """SHA-256 of what LZ4Factory.fastestInstance of these versions makes of the same inputs on Linux (JNI)."""
    made = hashlib.sha256()
    for size in (*range(0, 600, 7), 5000, 65535, 65536):
        for data in (a_text(size, size), bytes(random.Random(size).choices(b"abc", k=size))):
            made.update(a_block(name, data, form))
    assert made.hexdigest() == digest


def a_block(name: str, data: bytes, form: int) -> bytes:
    room = bytearray(len(data) + len(data) // 255 + 16)
    size = twin(name).pack_lz4(data, array("q", bytes(8 * LZ4_HASHES)), room, form)
    return bytes(room[:size])


def test_a_frame_has_the_blocks_of_the_lz4_java_that_is_named() -> None:
    data = b"aaaaaabababba"
    assert compress(LZ4, data, magic=2) == compress(LZ4, data, magic=2, lz4_java="1.5")
    assert compress(LZ4, data, magic=2)[7:11] == (12).to_bytes(4, "little")
    for older in ("1.2", "1.3"):
        assert compress(LZ4, data, magic=2, lz4_java=older)[7:11] == (13 | 0x80000000).to_bytes(4, "little")


def test_twins_make_the_same_blocks_of_lz4() -> None:
    rng = random.Random(3)
    for size in (*range(20), 100, 1000, 5000):
        for data in (a_text(size, size), rng.randbytes(size), bytes(size), b"ab" * (size // 2)):
            for form in LZ4_FORMS:
                packed = all_agree([a_block(name, data, form) for name in TWINS])
                assert isinstance(packed, bytes)
                assert lz4.block.decompress(packed, uncompressed_size=size) == data


def test_codecs_without_a_name_are_refused() -> None:
    for codec in (0, 5, 7, -1):
        with pytest.raises(UnsupportedError):
            compress(codec, b"x", magic=2)
