"""Counts, sizes, times and spans of time as parts of sentences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["count_of", "duration", "moment", "size", "sizes"]

_SPANS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
_SIZES: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_MS: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_MAX_MS: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def count_of(number: object, noun: str) -> str:
    """`1 record`, `12 records`, `2 batches`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{number} {noun if number == 1 else plural}"


def duration(time_ms: int) -> str:
    """`7 d`, `3 d 2 h`, `5 min 3 s`, `250 ms`: the largest unit and the one below it, without a sign."""
    rest = abs(time_ms)
    parts: list[str] = []
    for unit_ms, name in _SPANS:
        count, rest = divmod(rest, unit_ms)
        if count:
            parts.append(f"{count:,} {name}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or "0 ms"


def size(size_bytes: int) -> str:
    """`512 B`, `1.5 KiB`, `3.0 GiB`: exact below 1 KiB, powers of 1024."""
    if abs(size_bytes) < 1024:
        return f"{size_bytes} B"
    power = min((abs(size_bytes).bit_length() - 1) // 10, len(_SIZES))
    return f"{size_bytes / 1024**power:.1f} {_SIZES[power - 1]}"


def sizes(*sizes_bytes: int) -> tuple[str, ...]:
    """The same of several; where two that differ would read alike, all of them exact: `4,096 bytes`."""
    texts = tuple(size(each) for each in sizes_bytes)
    if len(set(texts)) == len(set(sizes_bytes)):
        return texts
    return tuple(f"{each:,} bytes" for each in sizes_bytes)


def moment(time_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; a number beyond the year 9999 with its unit."""
    if not _MIN_MS <= time_ms <= _MAX_MS:
        return f"{time_ms} ms"
    return (_EPOCH + timedelta(milliseconds=time_ms)).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
