r"""Values as text for people: sizes, times, offsets, keys and values.

Rule of this file: everything that comes from a log or a file name is escaped here, so that no record can steer the
terminal or forge a line. Characters that do not print become `\n`, `\x1b`, `\u202e`; a backslash becomes `\\`.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.text import json_text, moment, size

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "NONE",
    "bytes_cell",
    "counts_cell",
    "decoded_cell",
    "directory_name",
    "headers_cell",
    "human_bytes",
    "number",
    "offsets_cell",
    "origin_cell",
    "place_of",
    "plain",
    "safe_text",
    "span",
    "time_cell",
]

NONE: Final = "-"
SHOWN_BYTES: Final = 2048
SHOWN_HEADERS: Final = 20
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"
_AMBIGUOUS: Final = (" ", '"', "x'")
_WORD: Final = re.compile(r"""[^\s"\\=\[{]+""")
"""A text that is shown without quotes among others."""


def plain(value: object) -> str:
    """Return a number or a word as text; `-` for None."""
    return NONE if value is None else safe_text(str(value))


def safe_text(text: str) -> str:
    """Return the text with everything escaped that does not print."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode("ascii") for char in text
    )


def number(row: Mapping[str, object], name: str) -> int:
    """Return a number of a row; 0 where it is None."""
    value = row.get(name)
    return value if isinstance(value, int) else 0


def human_bytes(size_bytes: object) -> str:
    """Return a size as `512 B`, `1.5 KiB` or `3.0 GiB`: exact below 1 KiB, in powers of 1024."""
    return size(size_bytes) if isinstance(size_bytes, int) else NONE


def time_cell(time_ms: object) -> str:
    """Return a time as ISO 8601 in UTC with milliseconds; -1 as stored; after the year 9999 as a number of ms."""
    if not isinstance(time_ms, int):
        return NONE
    return "-1" if time_ms == -1 else moment(time_ms)


def span(first: object, last: object) -> str:
    """Return a range as `A..B`, as filters take it; an unknown end is a question mark."""
    if first is None and last is None:
        return NONE
    return f"{'?' if first is None else first}..{'?' if last is None else last}"


def offsets_cell(row: Mapping[str, object]) -> str:
    """Return the offsets of a row's log, from its log start offset to the last one."""
    end = row.get("log_end_offset")
    return span(row.get("log_start_offset"), end - 1 if isinstance(end, int) else None)


def bytes_cell(value: object) -> str:
    """Return a key or value: text if it is UTF-8, else `x'00ff'`; quoted if it could be mistaken for another form."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return "null"
    if len(value) <= SHOWN_BYTES:  # nearly all keys and values are plain text: a fast path
        text = str(value, "utf-8", "replace")
        is_plain = text.isprintable() and "\\" not in text and "\ufffd" not in text
        if is_plain and text not in {"", "null"} and not text.startswith(_AMBIGUOUS) and text[-1] != " ":
            return text
    head = bytes(value[:SHOWN_BYTES])
    whole = len(head) == len(value)
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if whole or error.reason != "unexpected end of data":
            return f"x'{head.hex()}" + ("'" if whole else _ELLIPSIS)
        text = head[: error.start].decode("utf-8")
    ambiguous = text in {"", "null"} or text.startswith(_AMBIGUOUS) or text != text.strip()
    shown = safe_text(text) + ("" if whole else _ELLIPSIS)
    return f'"{shown}"' if ambiguous else shown


def decoded_cell(decoded: object, raw: object) -> str:
    """Return what a key or value of one of Kafka's own topics says, on a line: `OffsetCommit group=g topic=t`.

    The bytes are shown of what does not decode, and `null` of a tombstone.
    """
    if not isinstance(decoded, dict):
        return bytes_cell(raw)
    words = [str(decoded["name"])] if "name" in decoded else []
    words += [f"v{decoded['version']}"] if "version" in decoded else []
    words += [f"{name}={_word(value)}" for name, value in decoded["data"].items()]
    text = " ".join(words)
    return text if len(text) <= SHOWN_BYTES else text[:SHOWN_BYTES] + _ELLIPSIS


def _word(value: object) -> str:
    """Return a value of a decoded record: a text as it is if it is one word, else JSON."""
    if isinstance(value, str) and _WORD.fullmatch(value) and value.isprintable():
        return value
    text = json_text(value)
    return text if text.isprintable() else json.dumps(value)  # which has nothing but ASCII


def headers_cell(headers: object) -> str:
    """Return headers as `key=value, key=value`; `-` if there are none."""
    if not isinstance(headers, (list, tuple)) or not headers:
        return NONE
    shown = [f"{bytes_cell(key)}={bytes_cell(value)}" for key, value in headers[:SHOWN_HEADERS]]
    return ", ".join(shown + [_ELLIPSIS] * (len(headers) > SHOWN_HEADERS))


def counts_cell(counts: object) -> str:
    """Return counts as `crc-mismatch 2, torn-tail 1`."""
    if not isinstance(counts, dict):
        return NONE
    return ", ".join(f"{safe_text(str(name))} {count}" for name, count in counts.items())


def place_of(row: Mapping[str, object]) -> str:
    """Return the place of a row: its path, or `orders-0/00000000000000000000.log` without unknown parts."""
    if row.get("path") is not None:
        return safe_text(str(row["path"]))
    topic, partition, segment = row.get("topic"), row.get("partition"), row.get("segment")
    parts = []
    if topic is not None:
        parts.append(safe_text(f"{topic}" if partition is None else f"{topic}-{partition}"))
    if segment is not None:
        parts.append(safe_text(str(segment)))
    return "/".join(parts)


def origin_cell(origin: object, row: Mapping[str, object]) -> str:
    """Return the origin of a value of a partition; a file in the same log directory by its name there."""
    return plain(origin).replace(f"{safe_text(os.path.dirname(str(row.get('path'))))}/", "")


def directory_name(row: Mapping[str, object]) -> str:
    """Return the name of a row's directory, which distinguishes `t-0.<id>-future` from the partition in use."""
    return safe_text(str(row["path"]).rstrip("/").rpartition("/")[2])
