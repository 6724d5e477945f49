"""Sizes, times and spans of time as a person reads them."""

from __future__ import annotations

import pytest

from kafkalog_core.text import count_of, duration, moment, size


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "0 ms"),
        (250, "250 ms"),
        (1_000, "1 s"),
        (303_000, "5 min 3 s"),
        (3_600_000, "1 h"),
        (3_600_005, "1 h"),
        (7 * 86_400_000 + 2 * 3_600_000 + 59_000, "7 d 2 h"),
        (-90_000, "1 min 30 s"),
        (2**63 - 1, "106,751,991,167 d 7 h"),
    ],
)
def test_spans(time_ms: int, text: str) -> None:
    assert duration(time_ms) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 1024**3, "3.0 GiB"), (2**63 - 1, "8.0 EiB")],
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "loss", "1 loss"),
        (2450, "more loss", "2450 more losses"),
        (2, "batch", "2 batches"),
        (0, "entry", "0 entries"),
        (3, "record", "3 records"),
    ],
)
def test_counts(number: int, noun: str, text: str) -> None:
    assert count_of(number, noun) == text


def test_times() -> None:
    assert moment(0) == "1970-01-01T00:00:00.000Z"
    assert moment(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert moment(2**63 - 1) == "9223372036854775807 ms"
