"""Lines and numbers as Java reads them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format import textfile

TEXTS = st.text(alphabet="ab \n\r", max_size=40).map(str.encode)


def lines(data: bytes, step: int | None = None) -> list[textfile.Line]:
    chunks = [data] if step is None else [data[at : at + step] for at in range(0, len(data), step)]
    return list(textfile.iter_lines(chunks))


def test_three_line_ends() -> None:
    found = lines(b"one\ntwo\r\nthree\rfour\r\n\nlast")
    assert [(line.number, line.position, line.size_bytes, line.data) for line in found] == [
        (1, 0, 4, b"one"),
        (2, 4, 5, b"two"),
        (3, 9, 6, b"three"),
        (4, 15, 6, b"four"),
        (5, 21, 1, b""),
        (6, 22, 4, b"last"),
    ]


def test_no_line_at_all() -> None:
    assert lines(b"") == []
    assert list(textfile.iter_lines([b"", b""])) == []


@given(TEXTS, st.integers(1, 5))
def test_chunks_of_any_size_give_the_same_lines(data: bytes, step: int) -> None:
    assert lines(data, step) == lines(data)


@given(TEXTS)
def test_lines_add_up_to_the_file(data: bytes) -> None:
    found = lines(data)
    assert sum(line.size_bytes for line in found) == len(data)
    assert [line.data for line in found] == data.splitlines()


def test_a_line_without_end_is_cut() -> None:
    longest = textfile.MAX_LINE_BYTES
    for step in (None, 1000):
        exact, longer, last = lines(b"x" * longest + b"\n" + b"y" * (longest + 1) + b"\r\nz", step)
        assert not exact.is_cut
        assert longer.is_cut
        assert len(longer.data) == longest
        assert longer.size_bytes == longest + 3
        assert (last.data, last.is_cut) == (b"z", False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+0", 0),
        ("-0", 0),
        ("007", 7),
        ("0" * 5000 + "12", 12),  # int() refuses that many digits
        ("9" * 5000, None),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("-2147483648", -2147483648),
        ("-2147483649", None),
        ("\u0664\u0662", 42),  # Character.digit knows all digits of Unicode
        ("", None),
        ("-", None),
        (" 1", None),
        ("1 ", None),
        ("1_0", None),
        ("0x1", None),
        ("1\n", None),
        ("\u00b2", None),
    ],
)
def test_integers(text: str, value: int | None) -> None:
    assert textfile.parse_int32(text) == value


def test_long_integers() -> None:
    assert textfile.parse_int64("9223372036854775807") == 2**63 - 1
    assert textfile.parse_int64("9223372036854775808") is None
    assert textfile.parse_int64("-9223372036854775808") == -(2**63)


@given(st.text())
def test_integers_of_any_text(text: str) -> None:
    value = textfile.parse_int64(text)
    assert value is None or -(2**63) <= value < 2**63


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a b", ["a", "b"]),
        (" a b", ["", "a", "b"]),
        ("a b  ", ["a", "b"]),
        ("a\t\x0bb", ["a", "b"]),
        ("", [""]),
        ("  ", [""]),
        ("a\u00a0b", ["a\u00a0b"]),
    ],
)
def test_split(text: str, parts: list[str]) -> None:
    assert textfile.split(re.compile(r"\s+", re.ASCII), text) == parts


def test_uuids() -> None:
    assert textfile.parse_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == bytes(15) + b"\x01"
    assert textfile.parse_uuid("AAAAAAAAAAAAAAAAAAAAAQ==") == bytes(15) + b"\x01"
    assert textfile.parse_uuid("--__AAAAAAAAAAAAAAAAAA") == b"\xfb\xef\xff" + bytes(13)
    for text in (
        "",
        "AAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAAQA",
        "AAAAAAAAAAAAAAAAAAAA+Q",
        "AAAAAAAAAAAAAAAAAAAAAQ=",
    ):
        assert textfile.parse_uuid(text) is None


def test_surrogates() -> None:
    assert textfile.join_surrogates("\ud83d\ude00") == "\N{GRINNING FACE}"
    assert textfile.join_surrogates("a\ud800b") == "a\\ud800b"
