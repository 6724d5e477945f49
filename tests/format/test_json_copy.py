"""The C that writes JSON and CSV, as a library of its own: integers against `str`, texts against what Python reads.

The lines that the kernels make of it are compared with `json_line` in test_kernels_ndjson.py.
"""

from __future__ import annotations

import ctypes
import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.text import json_text
from tests.support.compile_c import c_library

ESCAPES, NO_TEXT = 1, 2
SLACK = 16
EDGES = (
    b"",
    b"a",
    b'"',
    b"\x1f",
    b",",
    b"\t",
    b"\r",
    b"\n\x0b",
    b"\x7f",
    b"\xc2",
    b"\xc2\x80",
    b"\xc2\x9f",
    b"\xc2\xa0",
    b"\xdf\xbf",
    b"\xc1\xbf",
    b"\xe0\x9f\xbf",
    b"\xe0\xa0\x80",
    b"\xed\x9f\xbf",
    b"\xed\xa0\x80",
    b"\xef\xbf\xbf",
    b"\xef\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x90\x80\x80",
    b"\xf4\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xf0\x90\x80",
    b"\x80",
    b"\xbf\xbf",
    b"\xff",
)


class Library:
    """The functions, each on a copy of its bytes of exactly their size."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        for function in (self._library.integer, self._library.escaped, self._library.field):
            function.restype = ctypes.c_ssize_t
        self._library.integer.argtypes = (ctypes.c_int64, ctypes.c_void_p)
        for function in (self._library.copy, self._library.escaped, self._library.field):
            function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    @property
    def is_portable(self) -> bool:
        """Whether texts are left to the loops in Cython."""
        return self._library.is_portable() == 1

    def integer(self, value: int) -> bytes:
        """Its digits."""
        out = ctypes.create_string_buffer(20 + SLACK)
        size = self._library.integer(value, out)
        return out.raw[:size]

    def copy(self, text: bytes) -> int:
        """What is said of a text; it has been copied, and nothing far behind it touched."""
        out = ctypes.create_string_buffer(b"\xee" * (len(text) + SLACK + 8))
        seen = self._library.copy(ctypes.create_string_buffer(text, len(text)), len(text), out)
        assert out.raw[: len(text)] == text
        assert out.raw[len(text) + SLACK : -1] == b"\xee" * 8
        return int(seen)

    def escaped(self, text: bytes) -> bytes:
        """A good text, escaped."""
        out = ctypes.create_string_buffer(6 * len(text) + SLACK)
        size = self._library.escaped(ctypes.create_string_buffer(text, len(text)), len(text), out)
        return out.raw[:size]

    def field(self, text: bytes) -> bytes | None:
        """A text as a field of CSV, and nothing far behind it touched; None: it is none."""
        most = 2 * len(text) + 2 + SLACK
        out = ctypes.create_string_buffer(b"\xee" * (most + 8))
        size = self._library.field(ctypes.create_string_buffer(text, len(text)), len(text), out)
        assert out.raw[most:-1] == b"\xee" * 8
        return None if size < 0 else out.raw[:size]


@pytest.fixture(scope="module", params=[(), ("-DKAFKALOG_PORTABLE",)], ids=["processor", "portable"])
def library(request, tmp_path_factory):
    """As this processor would run it, or without regard for it."""
    text = (
        '#include "json_copy.h"\n'
        "ptrdiff_t integer(int64_t value, unsigned char *w) { return json_integer(value, w); }\n"
        "int copy(const unsigned char *p, size_t size, unsigned char *w) { return json_copy(p, size, w); }\n"
        "size_t escaped(const unsigned char *p, size_t size, unsigned char *w)\n"
        "{ return json_copy_escaped(p, size, w); }\n"
        "ptrdiff_t field(const unsigned char *p, size_t size, unsigned char *w) { return csv_copy(p, size, w); }\n"
        "int is_portable(void) { return json_copy == NULL && json_copy_escaped == NULL && csv_copy == NULL; }\n"
    )
    loaded = Library(c_library(tmp_path_factory.mktemp("json_copy"), text, request.param))
    assert loaded.is_portable or not request.param
    return loaded


def assert_text(library: Library, text: bytes) -> None:
    """What the C says of a text and makes of it is what Python does."""
    seen = library.copy(text)
    try:
        letters = text.decode()
    except UnicodeDecodeError:
        assert seen & NO_TEXT, text
        assert library.field(text) is None
        return
    expected = json_text(letters)[1:-1].encode()
    assert seen == (ESCAPES if expected != text else 0), text
    assert library.escaped(text) == expected
    if any(unicodedata.category(letter) == "Cc" and letter not in "\t\n\r" for letter in letters):
        assert library.field(text) is None
    else:
        assert library.field(text) == field_of(letters)


def field_of(text: str) -> bytes:
    """A field as RFC 4180 has it: in quotes if it has one, a comma or the end of a line, or is empty."""
    is_plain = text and not any(letter in text for letter in '",\n\r')
    return (text if is_plain else f'"{text.replace(chr(34), chr(34) * 2)}"').encode()


def test_integers(library):
    powers = [10**power + more for power in range(19) for more in (-1, 0, 1)]
    noise = random.Random(7)
    others = [noise.randrange(-(2**bits), 2**bits) for bits in range(1, 64) for _ in range(50)]
    for value in (*powers, *(-value for value in powers), *others, MAX_INT64, -MAX_INT64, -MAX_INT64 - 1):
        assert library.integer(value) == str(value).encode()


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.hex() or "empty")
def test_edges_at_every_place_of_a_text(library, edge):
    if library.is_portable:
        return
    for before in range(36):
        for behind in range(20):
            assert_text(library, b"a" * before + edge + b"z" * behind)
            assert_text(library, ("é" * before).encode() + edge + b'"' * behind)


def test_every_pair_of_bytes(library):
    if library.is_portable:
        return
    for first in range(0x70, 256):
        for second in range(256):
            assert_text(library, b"x" * (second % 17) + bytes((first, second)))
            assert_text(library, b"\xe1" + bytes((first, second)))
            assert_text(library, b"\xf1" + bytes((first, second)) + b"\x80" * 14)


@given(st.text(max_size=60).map(str.encode) | st.binary(max_size=60), st.integers(0, 59), st.integers(0, 255))
def test_texts_with_one_byte_changed(library, text, at, byte):
    if library.is_portable:
        return
    assert_text(library, text)
    assert_text(library, text[:at] + bytes((byte,)) + text[at + 1 :])
