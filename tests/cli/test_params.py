"""What the command line's sizes, ranges, times and patterns mean."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.options import common

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4096", 4096),
        ("17b", 17),
        ("64k", 65536),
        ("64KiB", 65536),
        ("64kB", 64000),
        ("1g", 2**30),
        ("2 MiB", 2 * 2**20),
        ("3MB", 3_000_000),
        ("1T", 2**40),
    ],
)
def test_size(text, size_bytes):
    assert common.parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5g", "1p", "g", "0x10", "99999999t", "64 KiB/s"])
def test_no_size(text):
    with pytest.raises(click.BadParameter):
        common.parse_size(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3..9", (3, 9)), ("3..", (3, None)), ("..9", (None, 9)), ("7", (7, 7)), ("1_000..2_000", (1000, 2000))],
)
def test_range(text, expected):
    assert common.parse_range(text) == expected


@pytest.mark.parametrize("text", ["", "..", "9..3", "a..b", "-5..3", "1...3", "1-3", str(2**63)])
def test_no_range(text):
    with pytest.raises(click.BadParameter):
        common.parse_range(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000000..1700000000001", (1_700_000_000_000, 1_700_000_000_001)),
        ("1970-01-02..", (DAY_MS, None)),
        ("..1970-01-01", (None, DAY_MS - 1)),
        ("1970-01-02", (DAY_MS, 2 * DAY_MS - 1)),
        ("1970-01-01T00:00:01.5..1970-01-01T00:00:02Z", (1500, 2000)),
        ("1970-01-01T02:00+02:00..", (0, None)),
        ("1969-12-31T23:59:59..", (-1000, None)),
    ],
)
def test_times(text, expected):
    assert common.parse_times(text) == expected


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("2025..", ["2025-01-01 (if 2025 was meant)", "1970-01-01T00:00:02.025 (2025 milliseconds"]),
        ("..202510", ["2025-10-01 (if 2025-10 was meant)", "1970-01-01T00:03:22.510"]),
        ("20251009", ["2025-10-09 (if 2025-10-09 was meant)", "1970-01-01T05:37:31.009"]),
        ("1700000000..", ["2023-11-14T22:13:20 (if seconds were meant)", "1970-01-20T16:13:20.000"]),
        ("20259999", ["write 1970-01-01T05:37:39.999"]),
        ("0..", ["1970-01-01T00:00:00.000"]),
        ("99999999999", ["5138-11-16T09:46:39 (if seconds were meant)", "1973-03-03T09:46:39.999"]),
    ],
)
def test_a_small_number_is_no_clear_time(text, readings):
    with pytest.raises(click.BadParameter) as caught:
        common.parse_times(text)
    for reading in readings:
        assert reading in caught.value.message


def test_milliseconds_from_1973_on():
    assert common.parse_times("100000000000..") == (10**11, None)


@pytest.mark.parametrize("text", ["yesterday", "2024-13-01", "..", "2024-01-02..2024-01-01"])
def test_no_times(text):
    with pytest.raises(click.BadParameter):
        common.parse_times(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("a=b", (b"a", b"b")), ("a", (b"a", None)), ("a=", (b"a", b"")), ("a=b=c", (b"a", b"b=c"))]
)
def test_header(text, expected):
    assert common.parse_header(text) == expected


def test_hexadecimal():
    assert common.parse_hex("0x00 ff") == b"\x00\xff"
    with pytest.raises(click.BadParameter):
        common.parse_hex("0f0")


def test_patterns_are_checked():
    assert common.parse_pattern("a|b") == "a|b"
    with pytest.raises(click.BadParameter, match="not a regular expression"):
        common.parse_pattern("(")
    with pytest.raises(click.BadParameter, match="two meanings"):
        common.parse_pattern("[[:alpha:]]")


@given(st.binary())
def test_any_bytes_come_through_the_command_line(data):
    assert common.command_line_bytes(data.decode("utf-8", "surrogateescape")) == data


@given(st.text())
def test_any_text_is_a_value_or_a_usage_error(text):
    for parse in (common.parse_size, common.parse_range, common.parse_times, common.parse_hex, common.parse_pattern):
        try:
            parse(text)
        except (click.BadParameter, ValueError):  # click makes a usage error of a ValueError too
            continue
