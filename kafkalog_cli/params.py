"""Types of the options: functions from the command line's text to sizes, ranges, times, patterns.

Each is given to click as an option's `type`. Nothing here reads a file or a clock. What cannot be understood is a usage
error that says what is expected.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from kafkalog_core.errors import SelectionError
from kafkalog_core.ops.selecting import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "OPEN",
    "Range",
    "command_line_bytes",
    "parse_header",
    "parse_hex",
    "parse_pattern",
    "parse_range",
    "parse_size",
    "parse_times",
]

Range = tuple[int | None, int | None]
"""First and last value, both inclusive; None is open."""

OPEN: Final[Range] = (None, None)


def command_line_bytes(text: str) -> bytes:
    """The very bytes that the shell passed on, UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")


def parse_size(text: str) -> int:
    """`4096`, `64k`, `64KiB`, `64kB`: letters alone and with iB are powers of 1024, with B powers of 1000."""
    with _usage():
        return spelled.parse_size(text)


def parse_range(text: str) -> Range:
    """`A..B`, `A..`, `..B` or `A` alone; both ends belong to it."""
    with _usage():
        return spelled.parse_range(text)


def parse_times(text: str) -> Range:
    """Like `parse_range`, of epoch milliseconds or ISO 8601 times; a last day without a time of day is meant whole."""
    with _usage():
        return spelled.parse_times(text)


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970, 1973-03-03 or later, or ISO 8601."""
    with _usage():
        return spelled.parse_time_ms(text)


@contextmanager
def _usage() -> Iterator[None]:
    """What cannot be understood is said as click says it."""
    try:
        yield
    except SelectionError as error:
        raise click.BadParameter(error.message) from None


def parse_pattern(text: str) -> str:
    """A regular expression over bytes, checked here so that a bad one is a usage error."""
    try:
        re.compile(command_line_bytes(text))
    except (re.error, OverflowError, RecursionError) as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None
    return text


def parse_hex(text: str) -> bytes:
    """Bytes in hexadecimal, blanks allowed between them."""
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not hexadecimal") from None


def parse_header(text: str) -> tuple[bytes, bytes | None]:
    """`KEY=VALUE`, or `KEY` alone for any value."""
    key, equals, value = text.partition("=")
    return command_line_bytes(key), command_line_bytes(value) if equals else None
