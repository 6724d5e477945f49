"""The checksums against known values, in pieces, on every kind of buffer; and that importing them stays cheap.

The kernels compute those of short spans in C of their own: each length through every twin, and each way of that C.
"""

from __future__ import annotations

import ctypes
import random
import struct
import subprocess
import sys
import zlib

import crc32c as package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core import kernels
from kafkalog_core.format.checksums import ZLIB, crc32, crc32c
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.layout import MAX_INT64
from tests.support.compile_c import c_library
from tests.support.twins import TWINS, twin

LONGEST = 5000  # well beyond what the kernels take for a short span
NOISE = random.Random(3720).randbytes(LONGEST + 64)
# The PDU of a read command in appendix B.4 of RFC 3720, and its CRC-32C.
READ_COMMAND = bytes.fromhex(
    "01c0000000000000000000000000000014000000000004000000001400000018280000000000000002000000" + "00" * 4
)
READ_COMMAND_CRC = 0xD9963A56


def test_check_values():
    """Of "123456789", as the catalog of CRC algorithms lists them."""
    assert (crc32(b"123456789"), crc32c(b"123456789")) == (0xCBF43926, 0xE3069283)
    assert (crc32(b""), crc32c(b"")) == (0, 0)


def test_rfc_3720_values():
    """Appendix B.4 of RFC 3720 (iSCSI), which are CRC-32C."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(bytes(range(32))[::-1]) == 0x113FDB5C
    assert crc32c(READ_COMMAND) == READ_COMMAND_CRC


@given(data=st.binary(max_size=400), cut=st.integers(0, 400))
def test_pieces_and_buffers(data, cut):
    for function, reference in ((crc32, zlib.crc32), (crc32c, package.crc32c)):
        whole = reference(data)
        assert function(data[cut:], function(data[:cut])) == whole
        assert function(memoryview(b"x" + data)[1:]) == function(bytearray(data)) == whole


@pytest.mark.parametrize("name", ["crc32", "decompressobj", "error"])
def test_the_library_speaks_the_interface_of_zlib(name):
    assert hasattr(ZLIB, name)


def test_the_import_does_not_look_versions_up():
    script = "import sys, kafkalog_core.format.checksums; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_isal_zlib_serves():
    script = (
        "import sys, zlib; sys.modules['isal'] = None\n"
        "from kafkalog_core.format.checksums import ZLIB, crc32\n"
        "print(ZLIB is zlib, crc32 is zlib.crc32)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


# --- spans in the kernels ---------------------------------------------------------------------------------------------
def entry(span_format, span):
    """An entry whose checksum covers `span`; where a format has a magic in it, `span` starts with that."""
    if span_format == "v07":
        return struct.pack(">ixI", 5 + len(span), 0) + span
    if span_format == "v1":
        return struct.pack(">qiI", 0, 4 + len(span), 0) + span
    return struct.pack(">qiibI", 0, 9 + len(span), 0, 2, 0) + span


def computed(name, span_format, span, *, before=b"", behind=b""):
    """What a twin's walk computes for `span`, with other bytes around the entry."""
    memory, columns = before + entry(span_format, span) + behind, BatchColumns(1)
    walk = twin(name).walk_v07 if span_format == "v07" else twin(name).walk
    stop, _ = walk(memory, len(before), len(memory) - len(behind), 0, 0, MAX_INT64, True, columns)
    assert stop == (kernels.STOP_CHECKSUM if span else kernels.STOP_END)  # stored is 0, which is that of no bytes
    return columns.row(0)["crc_computed"]


@pytest.mark.parametrize("name", TWINS)
def test_known_values_in_the_kernels(name):
    assert computed(name, "v07", b"123456789") == 0xCBF43926
    assert computed(name, "v2", READ_COMMAND) == READ_COMMAND_CRC


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize(
    ("span_format", "shortest", "reference"), [("v07", 0, zlib.crc32), ("v1", 10, zlib.crc32), ("v2", 40, crc32c)]
)
def test_spans_of_every_length_in_the_kernels(name, span_format, shortest, reference):
    for length in range(shortest, LONGEST + 1):
        at = length * 7 % 64
        span = (b"\1" if span_format == "v1" else NOISE[:1]) + NOISE[at + 1 : at + length] if length else b""
        crc = computed(name, span_format, span, before=NOISE[: length * 5 % 19], behind=NOISE[: length % 23])
        assert crc == reference(span), length


@pytest.fixture(scope="module", params=[(), ("-DKAFKALOG_PORTABLE",)], ids=["processor", "portable"])
def short_crc(request, tmp_path_factory):
    """The C of short spans as a library, as this processor would run it or by tables alone."""
    text = (
        '#include "short_crc.h"\n'
        "uint32_t ieee(const unsigned char *p, size_t size) { return short_crc32(p, size); }\n"
        "uint32_t castagnoli(const unsigned char *p, size_t size) { return short_crc32c(p, size); }\n"
        "int by_tables(void) { return short_crc32 == crc32_by_tables && short_crc32c == crc32c_by_tables; }\n"
        "ptrdiff_t limit(void) { return short_crc32_bytes + short_crc32c_bytes; }\n"
    )
    loaded = ctypes.CDLL(c_library(tmp_path_factory.mktemp("short_crc"), text, request.param))
    for function in (loaded.ieee, loaded.castagnoli):
        function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_void_p, ctypes.c_size_t)
    assert loaded.by_tables() == 1 or not request.param
    return loaded


@pytest.mark.parametrize(("name", "reference"), [("ieee", zlib.crc32), ("castagnoli", crc32c)])
def test_the_c_of_short_spans(short_crc, name, reference):
    function, buffer = getattr(short_crc, name), ctypes.create_string_buffer(NOISE)
    address = ctypes.addressof(buffer)
    for length in range(LONGEST + 1):
        at = length * 7 % 64
        assert function(address + at, length) == reference(NOISE[at : at + length]), length
    assert function(ctypes.addressof(ctypes.create_string_buffer(b"123456789")), 9) == reference(b"123456789")


def test_long_spans_are_the_library_s(short_crc):
    assert 0 < short_crc.limit() < 2 * LONGEST
