"""Counts, sizes, times and durations as text for sentences; JSON and CSV text."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.json import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "count_of",
    "csv_field",
    "csv_line",
    "csv_text",
    "duration",
    "first_of",
    "has_controls",
    "json_string",
    "json_text",
    "moment",
    "names_near",
    "needs_quotes",
    "size",
    "sizes",
]


_SPANS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
_SIZES: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_MS: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_MAX_MS: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def count_of(number: object, noun: str) -> str:
    """Return a number with its noun: `1 record`, `12 records`, `2 batches`, `2 entries`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith(("ch", "ss", "x")) else "s")
    return f"{number} {noun if number == 1 else plural}"


def duration(time_ms: int) -> str:
    """Return a duration in its largest unit and the next one, without a sign: `7 d`, `3 d 2 h`, `250 ms`."""
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
    """Return a size in powers of 1024, exact below 1 KiB: `512 B`, `1.5 KiB`, `3.0 GiB`."""
    if abs(size_bytes) < 1024:
        return f"{size_bytes} B"
    power = min((abs(size_bytes).bit_length() - 1) // 10, len(_SIZES))
    return f"{size_bytes / 1024**power:.1f} {_SIZES[power - 1]}"


def sizes(*sizes_bytes: int) -> tuple[str, ...]:
    """Return several sizes as text; if two different ones would look the same, all are exact: `4,096 bytes`."""
    texts = tuple(size(each) for each in sizes_bytes)
    if len(set(texts)) == len(set(sizes_bytes)):
        return texts
    return tuple(f"{each:,} bytes" for each in sizes_bytes)


def moment(time_ms: int) -> str:
    """Return a time in ISO 8601, UTC, with milliseconds; after the year 9999 the number with its unit."""
    if not _MIN_MS <= time_ms <= _MAX_MS:
        return f"{time_ms} ms"
    return (_EPOCH + timedelta(milliseconds=time_ms)).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


_ENCODER: Final = Encoder()
_ANY_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)
_CONTROLS: Final = re.compile("[\x7f-\x9f]")


def json_text(value: object) -> str:
    """Return the value as JSON."""
    try:
        text = str(_ENCODER.encode(value), "utf-8")
    except (TypeError, ValueError):  # names of files with lone surrogates, and subclasses of texts and numbers
        text = _ANY_ENCODER.encode(value)
    if text.isascii() and "\x7f" not in text:  # nearly always
        return text
    return _CONTROLS.sub(_escaped, text)  # JSON has none of these outside texts


def json_string(text: str) -> str:
    """Return what `json_text` returns for a text, in less time."""
    encoded = encode_basestring(text)
    return encoded if text.isprintable() else _CONTROLS.sub(_escaped, encoded)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


_NEEDS_QUOTES: Final = frozenset(',"\r\n')
_CSV_FORM_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def csv_field(value: object) -> str:
    """Return one value as a field of CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = _CSV_FORM_CONTROLS.sub(_escaped, value) if isinstance(value, str) else json_text(value)
    return f'"{csv_text(text)}"' if text == "" or needs_quotes(text) else text


def needs_quotes(text: str) -> bool:
    """Return whether a CSV field with this text needs quotes."""
    return not _NEEDS_QUOTES.isdisjoint(text)


def csv_text(text: str) -> str:
    """Return a text with its quotes doubled, for a quoted CSV field."""
    return text.replace('"', '""')


def csv_line(fields: Iterable[str]) -> bytes:
    """Return fields as a CSV line; lone surrogates, from file names that are not UTF-8, are escaped."""
    return (",".join(fields) + "\r\n").encode("utf-8", "backslashreplace")


def has_controls(text: str) -> bool:
    """Return whether a text has control characters that act on a terminal."""
    return _CSV_FORM_CONTROLS.search(text) is not None


_SHOWN: Final = 3


_T = TypeVar("_T")


def first_of(items: Sequence[_T], text_of: Callable[[_T], str] = str, *, joint: str = ", ") -> str:
    """Return the first three items as text, and the number of the others: there may be a hundred thousand."""
    parts = [text_of(item) for item in items[:_SHOWN]]
    more = len(items) - len(parts)
    return joint.join([*parts, f"and {more:,} more"] if more else parts)


def names_near(text: str, names: Iterable[str], *, count: int = 3, least: float = 0.6) -> list[str]:
    """Return the names that resemble a text most, the best first; least: the ratio of `difflib.SequenceMatcher`."""
    from difflib import get_close_matches  # noqa: PLC0415 -- for a text that is wrong

    return get_close_matches(text, [*names], n=count, cutoff=least)
