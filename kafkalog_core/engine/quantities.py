"""How sizes, ranges, times and whole numbers are written on a command line, or in an option of Spark."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.filters.expression import Range

__all__ = ["parse_range", "parse_size", "parse_time_ms", "parse_times", "whole_number"]


_MAX_INT64: Final = 2**63 - 1
_SIZE: Final = re.compile(r"(\d+)\s*(?:([kmgt])(i?b)?|b)?", re.IGNORECASE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_PLAIN_MS: Final = 10**11  # 1973-03-03: a smaller number is rather seconds, or a date without dashes
_MIN_SECONDS: Final = 10**8  # 1973-03-03, as seconds
_DATE_DIGITS: Final = (4, 6, 8)  # of 2025, 202510, 20251009
_ONE_DAY: Final = timedelta(days=1)


def parse_size(text: str) -> int:
    """Return the bytes of `4096`, `64k`, `64KiB` or `64kB`: powers of 1024, with `kB` of 1000."""
    # `64k` is 1024 times, `64kB` 1000 times 64: only the B shows that SI units are meant.
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise SelectionError(f"{text!r} is not a size; write bytes as 1048576, 1m or 1MiB (1024^2), or 1MB (1000^2)")
    power = "kmgt".find(match[2].lower()) + 1 if match[2] else 0
    base = 1000 if (match[3] or "").lower() == "b" else 1024
    size_bytes: int = int(match[1]) * base**power
    if not 0 < size_bytes <= _MAX_INT64:
        raise SelectionError(f"{text!r} is out of range: 1 byte to 2^63-1")
    return size_bytes


def parse_range(text: str) -> Range:
    """Return the range of `A..B`, `A..`, `..B` or `A` alone; both ends are included."""
    return _range(text, whole_number, whole_number)


def parse_times(text: str) -> Range:
    """Return a range of epoch milliseconds or ISO 8601 times; a last day without a time of day is included whole."""
    return _range(text, parse_time_ms, lambda last: parse_time_ms(last, end_of_day=True))


def parse_time_ms(text: str, *, end_of_day: bool = False) -> int:
    """Return the epoch milliseconds of a time: all digits are milliseconds, else it is ISO 8601, by default in UTC.

    Digits before 1973-03-03 are refused: they are more likely a date without dashes, or seconds.
    """
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit():
        time_ms = whole_number(stripped)
        if time_ms < _MIN_PLAIN_MS:
            # 20250101 is more likely a date than a moment in 1970.
            raise SelectionError(_two_readings(stripped, time_ms))
        return time_ms
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        raise SelectionError(
            f"{text!r} is not a time; write 2024-05-01, 2024-05-01T12:00:00.500, 2024-05-01T12:00+02:00, "
            "or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    time_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    # A last day is included whole; with a time of day the moment is meant.
    names_a_day_alone = end_of_day and ":" not in stripped and "T" not in stripped.upper()
    return time_ms + _ONE_DAY // timedelta(milliseconds=1) - 1 if names_a_day_alone else time_ms


def _two_readings(text: str, time_ms: int) -> str:
    """Return why a small number is refused: the times that it may mean, each as it should be written."""
    as_ms = (_EPOCH + timedelta(milliseconds=time_ms)).replace(tzinfo=None).isoformat(timespec="milliseconds")
    readings = [f"{as_ms} ({text} milliseconds after the start of 1970)"]
    date = "-".join(part for part in (text[:4], text[4:6], text[6:]) if part)
    first_day = date + "-01-01"[len(date) - 4 :]
    if len(text) in _DATE_DIGITS and _is_day(first_day):
        readings.insert(0, f"{first_day} (if {date} was meant)")
    elif time_ms >= _MIN_SECONDS:
        as_seconds = (_EPOCH + timedelta(seconds=time_ms)).replace(tzinfo=None).isoformat()
        readings.insert(0, f"{as_seconds} (if seconds were meant)")
    return f"{text!r} is ambiguous; write {' or '.join(readings)}"


def _is_day(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _range(text: str, first_of: Callable[[str], int], last_of: Callable[[str], int]) -> Range:
    first_text, dots, last_text = text.strip().partition("..")
    if not dots:
        last_text = first_text
    first = first_of(first_text) if first_text else None
    last = last_of(last_text) if last_text else None
    if first is None and last is None:
        raise SelectionError(f"{text!r} is not a range; write A..B, A.. or ..B, both ends included")
    if first is not None and last is not None and first > last:
        raise SelectionError(f"{text!r} is empty: its end is before its start")
    return first, last


def whole_number(text: str) -> int:
    """Return a number from 0 to 2^63-1; `_` may separate digits. Raises SelectionError, as all of these do."""
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdigit()) or int(digits) > _MAX_INT64:
        raise SelectionError(f"{text!r} is not a whole number from 0 to 2^63-1; a range is written A..B, A.. or ..B")
    return int(digits)
