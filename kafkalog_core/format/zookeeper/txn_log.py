"""The frames of a ZooKeeper transaction log: one entry at a position, what ends a log, and the search after damage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import FieldError, TruncatedError
from kafkalog_core.format.checksums import ZLIB
from kafkalog_core.format.zookeeper.layout import (
    END_OF_TXN,
    FILE_HEADER,
    FILE_VERSION,
    FRAME,
    LOG_MAGIC,
    MIN_TXN_BYTES,
)
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LogEntry", "LogStop", "check_log_header", "encode_log", "find_entry", "frame_bytes", "read_entry"]

StopReason = Literal["end", "partial", "checksum", "length", "more"]

MAX_ENTRY_BYTES: Final = 256 * 1024 * 1024
"""A larger length is damage. jute.maxbuffer is 1 MiB by default, and operators raise it to some tens of MiB."""
_CANDIDATE: Final = re.compile(rb"(?=\0\0\0\0[^\0].{3}[\0-\x0f].{3})|(?=\0\0\0\0.{3}[^\0][\0-\x0f].{3})", re.DOTALL)
"""Where a frame may begin: the upper half of its checksum is 0, the lower one is not, and the length is possible."""


class LogEntry(Struct, frozen=True):
    """An entry: where it begins, and where its bytes begin and end."""

    position: int
    start: int
    end: int

    @property
    def next_position(self) -> int:
        """Where the next entry begins."""
        return self.end + 1


class LogStop(Struct, frozen=True):
    """Why there is no entry at a position.

    Args:
        reason: `end`: zeros or the end of the file follow. `partial`: the last entry was not written as a whole.
            `checksum`, `length`: damage. `more`: the window ends within the entry.
        position: where.
        needs_bytes: with `more`: the size of the entry.
    """

    reason: StopReason
    position: int
    needs_bytes: int = 0


def check_log_header(data: bytes | memoryview) -> None:
    """Check the first bytes of a log.

    Raises:
        TruncatedError: there are fewer than a header.
        FieldError: they are not those of a log (FileTxnIterator.createInputArchive refuses the file).
    """
    if len(data) < FILE_HEADER.size:
        raise TruncatedError("the header of the log is incomplete", position=0)
    magic = FILE_HEADER.unpack_from(data)[0]
    if magic != LOG_MAGIC:
        raise FieldError(f"the file begins with {magic!r}, not with {LOG_MAGIC!r}", position=0)


def read_entry(window: bytes | memoryview, at: int, *, is_last: bool) -> LogEntry | LogStop:
    """Return the entry at a position of a window, or why there is none.

    FileTxnIterator.next ends a log at a length of 0 and at an entry that the file ends in or whose end byte is not
    there; a server does not start after a wrong checksum, or a length that no buffer has.

    Args:
        window: bytes of the file.
        at: a position in it.
        is_last: whether the file ends with the window.
    """
    if len(window) - at < FRAME.size:
        if not is_last:
            return LogStop("more", at, FRAME.size)
        return LogStop("partial" if any(window[at:]) else "end", at)
    checksum, length = FRAME.unpack_from(window, at)
    start = at + FRAME.size
    end = start + length
    if length in {0, -1}:
        reason: StopReason | None = "end"
    elif not MIN_TXN_BYTES <= length <= MAX_ENTRY_BYTES:
        reason = "length"
    elif end >= len(window):
        return LogStop("partial", at) if is_last else LogStop("more", at, end + 1 - at)
    elif window[end] != END_OF_TXN:
        reason = "partial"
    else:
        reason = None if ZLIB.adler32(window[start:end]) == checksum else "checksum"
    return LogEntry(at, start, end) if reason is None else LogStop(reason, at)


def find_entry(window: bytes | memoryview, at: int, *, is_last: bool) -> int | None:
    """Return the position of the first whole entry from `at` on; None: there is none in the window."""
    for match in _CANDIDATE.finditer(window, at):
        if isinstance(read_entry(window, match.start(), is_last=is_last), LogEntry):
            return match.start()
    return None


def frame_bytes(data: bytes) -> bytes:
    """Return an entry with its frame."""
    return FRAME.pack(ZLIB.adler32(data), len(data)) + data + bytes((END_OF_TXN,))


def encode_log(entries: Iterator[bytes], *, padding_bytes: int = 0) -> bytes:
    """Return a log of these entries, with zeros after them."""
    header = FILE_HEADER.pack(LOG_MAGIC, FILE_VERSION, 0)
    return b"".join([header, *map(frame_bytes, entries), bytes(padding_bytes)])
