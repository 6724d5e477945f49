"""The C that searches for a literal, as a library of its own: as this processor would run it, and without its help."""

from __future__ import annotations

import ctypes
import random

import pytest

from kafkalog_core.format.literals import ByteLiteral
from tests.support.compile_c import c_library

TEXT = (
    '#include "find_bytes.h"\n'
    "int holds(const unsigned char *p, ptrdiff_t size, ptrdiff_t room, const unsigned char *text,\n"
    "          const unsigned char *mask, ptrdiff_t length, ptrdiff_t first, ptrdiff_t second)\n"
    "{ find_literal literal = {text, mask, length, first, second}; return find_bytes(p, size, room, &literal); }\n"
)


@pytest.fixture(scope="module", params=[(), ("-DKAFKALOG_PORTABLE",)], ids=["processor", "portable"])
def holds(request, tmp_path_factory):
    """The function, which may read `room` bytes of its field and what follows."""
    function = ctypes.CDLL(c_library(tmp_path_factory.mktemp("find_bytes"), TEXT, request.param)).holds
    size, text = ctypes.c_ssize_t, ctypes.c_char_p
    function.argtypes = (ctypes.c_void_p, size, size, text, text, size, size, size)

    def call(field: bytes, after: bytes, literal: ByteLiteral) -> bool:
        room = ctypes.create_string_buffer(field + after, len(field) + len(after))
        place = (literal.text, literal.mask, len(literal.text), literal.first, literal.second)
        return bool(function(room, len(field), len(field) + len(after), *place))

    return call


def test_it_finds_what_python_finds(holds):
    noise = random.Random(11)
    outcomes = set()
    for _ in range(20_000):
        letters = noise.choice([b"ab", b"abAB", b"a\x00\xff@`[{Z"])
        field = bytes(noise.choices(letters, k=noise.randrange(70)))
        text = bytes(noise.choices(letters, k=noise.choice([1, 1, 2, 3, 5, 17, 33])))
        folds = noise.random() < 0.5
        if noise.random() < 0.3 and len(field) > len(text):
            at = noise.randrange(len(field) - len(text) + 1)
            field = field[:at] + (text.swapcase() if folds else text) + field[at + len(text) :]
        after = (text * 2)[: noise.randrange(20)]  # what follows the field is not part of it
        found = holds(field, after, ByteLiteral(text, folds=folds))
        assert found == ((text.lower() in field.lower()) if folds else (text in field)), (field, text, folds)
        outcomes.add(found)
    assert outcomes == {True, False}
