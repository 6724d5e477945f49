"""The checksums against known values, in pieces, on every kind of buffer; and that importing them stays cheap."""

from __future__ import annotations

import subprocess
import sys
import zlib

import crc32c as package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.checksums import ZLIB, crc32, crc32c


def test_check_values():
    """Of "123456789", as the catalogue of CRC algorithms lists them."""
    assert (crc32(b"123456789"), crc32c(b"123456789")) == (0xCBF43926, 0xE3069283)
    assert (crc32(b""), crc32c(b"")) == (0, 0)


def test_rfc_3720_values():
    """Appendix B.4 of RFC 3720 (iSCSI), which are CRC-32C."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


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
