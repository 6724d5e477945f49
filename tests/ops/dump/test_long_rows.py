"""Lines of rows with a very long key or value: the same text, in bounded pieces."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.engine import chunks
from kafkalog_core.engine.chunks import long_csv_row, long_line
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import csv_columns, csv_row, json_line

MODES = ("auto", "base64", "hex")


def row_of(key: bytes | None, value: bytes | None) -> dict[str, object]:
    fields = {"topic": 't"\udcff', "offset": 7, "headers": [(b"h", b"\xff"), (b"\x01", None)], "type": "record"}
    return fields | {"key": key, "value": value}


def long_row_of(key: bytes | None, value: bytes | None) -> dict[str, object]:
    row = row_of(key, value)
    return {name: memoryview(cell) if isinstance(cell, bytes) else cell for name, cell in row.items()}


@pytest.mark.parametrize("mode", MODES)
@given(key=st.none() | st.binary(max_size=40), text=st.none() | st.text(max_size=40), size=st.integers(1, 9))
def test_pieces_are_the_line(mode, key, text, size):
    value = None if text is None else text.encode("utf-8", "surrogatepass")
    whole = json_line(tables.RECORD, row_of(key, value), mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_PIECE_BYTES", 3 * size)
        assert b"".join(long_line(tables.RECORD, long_row_of(key, value), mode)) == whole


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "value",
    [b"\x01" * 5_000_000, "é".encode() * 2_000_001 + b"\xc3", random.Random(1).randbytes(5_000_000)],
    ids=["controls", "cut", "random"],
)
def test_no_piece_is_long(mode, value):
    pieces = list(long_line(tables.RECORD, long_row_of(b"k", value), mode))
    assert b"".join(pieces) == json_line(tables.RECORD, row_of(b"k", value), mode)
    assert max(map(len, pieces)) < 5 * 1024 * 1024


@pytest.mark.parametrize("mode", MODES)
@given(
    key=st.none() | st.binary(max_size=40),
    text=st.none() | st.text(st.sampled_from('a,"\r\n\t\x00\x85\u00e4\N{SNOWMAN}'), max_size=80),
    size=st.integers(1, 9),
)
def test_pieces_are_the_csv_line(mode, key, text, size):
    value = None if text is None else text.encode("utf-8", "surrogatepass")
    header = tuple(csv_columns([tables.RECORD, tables.DAMAGE], mode))
    whole = csv_row(tables.RECORD, row_of(key, value), header, mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_PIECE_BYTES", 3 * size)
        assert b"".join(long_csv_row(tables.RECORD, long_row_of(key, value), header, mode)) == whole
