r"""Lines, blanks, numbers and ids of the broker's text files, as Java reads them, and malformed lines as data.

`BufferedReader.readLine`, `Integer.parseInt`, `Long.parseLong` and `String.split` differ from their namesakes in
Python: no blanks or underscores in a number, a lone CR as a line end, no empty parts at the end.
"""

from __future__ import annotations

import base64
import codecs
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format.layout import MAX_INT32, MAX_INT64
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "MAX_LINE_BYTES",
    "Failure",
    "FileRefusal",
    "Line",
    "MalformedLine",
    "iter_lines",
    "join_surrogates",
    "malformed_line",
    "parse_int32",
    "parse_int64",
    "parse_uuid",
    "split",
    "uuid_text",
]

# A checkpoint line has at most a topic of 249 bytes and two numbers. A longer line is cut, so that garbage without a
# line end (a binary file under a checkpoint's name) takes no memory.
MAX_LINE_BYTES: Final = 64 * 1024
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_INTEGER: Final = re.compile(r"([+-]?)(\d+)")  # \d as in Character.digit: any decimal digit of Unicode
_MAX_INT64_DIGITS: Final = 19
_MAX_SHORT_DIGITS: Final = 18
_UUID: Final = re.compile(r"([A-Za-z0-9_-]{22})(==)?")


class Failure(StrEnum):
    """How a broker fails on a file that it refuses; the consequence depends on the file and the release."""

    IO = "io"
    """IOException: usually the log directory goes offline."""
    RUNTIME = "runtime"
    """A runtime exception (NumberFormatException, IllegalArgumentException): usually the broker does not start."""


class FileRefusal(Struct, frozen=True, kw_only=True):
    """The first reason why a broker refuses a file. `code` is a stable word, `problem` one sentence."""

    failure: Failure
    code: str
    problem: str


class MalformedLine(Struct, frozen=True, kw_only=True):
    r"""A line that cannot be parsed. `text`: at most 64 KiB of it, bytes that are not UTF-8 as `\xNN`."""

    line: int
    position: int
    size_bytes: int
    text: str
    problem: str


class Line(NamedTuple):
    """A line: `number` from 1, `data` without line end (cut if `is_cut`), `size_bytes` with line end."""

    number: int
    position: int
    size_bytes: int
    data: bytes
    is_cut: bool


def iter_lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """Yield the lines of a file given in chunks. Lines end with LF, CR or CRLF; the last one may lack its end."""
    number, start, position = 1, 0, 0  # start: of the line; position: of the chunk
    pending = bytearray()
    held_cr = False  # the previous chunk ended with CR: an LF that follows belongs to it
    for chunk in chunks:
        at = 0
        if held_cr and chunk:
            at = int(chunk.startswith(b"\n"))
            yield _line(number, start, position - 1, position + at, pending)
            number, start, held_cr = number + 1, position + at, False
        for end in _LINE_END.finditer(chunk, at):
            text_end, line_end = end.span()
            if line_end == len(chunk) and end.group() == b"\r":
                held_cr = True
                break
            if pending or text_end - at > MAX_LINE_BYTES:
                _append(pending, chunk, at, text_end)
                yield _line(number, start, position + text_end, position + line_end, pending)
            else:
                yield Line(number, start, line_end - at, chunk[at:text_end], is_cut=False)
            at = line_end
            number, start = number + 1, position + at
        _append(pending, chunk, at, len(chunk) - held_cr)
        position += len(chunk)
    if position > start:
        yield _line(number, start, position - held_cr, position, pending)


def parse_int32(text: str) -> int | None:
    """Parse as `Integer.parseInt` does; return `None` where it throws."""
    return _parse(text, MAX_INT32)


def parse_int64(text: str) -> int | None:
    """Parse as `Long.parseLong` does; return `None` where it throws."""
    return _parse(text, MAX_INT64)


def parse_uuid(text: str) -> bytes | None:
    """Parse as `org.apache.kafka.common.Uuid.fromString` does (base64url, padding optional); `None` where it throws."""
    match = _UUID.fullmatch(text)
    return None if match is None else base64.urlsafe_b64decode(match[1] + "==")


def uuid_text(value: bytes | memoryview) -> str:
    """Return an id of 16 bytes as `org.apache.kafka.common.Uuid.toString` does: base64url without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Split as `Pattern.split` does: parts between matches, without empty ones at the end; else the whole text."""
    parts = pattern.split(text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def malformed_line(line: Line, problem: str) -> MalformedLine:
    """Return a line as a malformed line."""
    text = line.data.decode("utf-8", "backslashreplace")
    return MalformedLine(
        line=line.number, position=line.position, size_bytes=line.size_bytes, text=text, problem=problem
    )


def join_surrogates(text: str) -> str:
    r"""Join pairs of surrogates to one character; replace a lone surrogate by its escape, `\ud800`."""
    # These need no module of the package `encodings`, which a process without free descriptors could not import.
    data, _ = codecs.utf_16_le_encode(text, "surrogatepass")
    joined, _ = codecs.utf_16_le_decode(data, "surrogatepass", True)
    return joined.encode("utf-8", "backslashreplace").decode("utf-8")


def _parse(text: str, largest: int) -> int | None:
    if len(text) <= _MAX_SHORT_DIGITS and text.isascii() and text.isdigit():  # nearly all numbers; twice as fast
        value = int(text)
        return value if value <= largest else None
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    if len(digits) > _MAX_INT64_DIGITS:  # Java accepts any number of leading zeros; int() refuses thousands of digits
        if any(int(digit) for digit in digits[:-_MAX_INT64_DIGITS]):
            return None
        digits = digits[-_MAX_INT64_DIGITS:]
    value = int(sign + digits)
    return value if -largest - 1 <= value <= largest else None


def _append(pending: bytearray, chunk: bytes, start: int, end: int) -> None:
    pending += chunk[start : min(end, start + MAX_LINE_BYTES - len(pending))]


def _line(number: int, start: int, text_end: int, end: int, pending: bytearray) -> Line:
    data = bytes(pending)
    pending.clear()
    return Line(number, start, end - start, data, is_cut=text_end - start > len(data))
