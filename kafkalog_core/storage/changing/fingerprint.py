"""What tells whether a file is still the same one, and what is in it: sizes, times and hashes."""

from __future__ import annotations

import hashlib
import stat
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import AccessError
from kafkalog_core.storage.changing.changes import Fingerprint
from kafkalog_core.storage.changing.trusted import ANYWHERE
from kafkalog_core.storage.source import WINDOW_BYTES, UnreadableError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from kafkalog_core.storage.changing.trusted import TrustedDirectories
    from kafkalog_core.storage.source import Source

__all__ = [
    "SAMPLE_BYTES",
    "WHOLE_BYTES",
    "fingerprint",
    "fingerprint_of_bytes",
    "fingerprint_start",
    "is_hashed_whole",
    "pieces",
    "status_of",
    "whole_hash",
]

WHOLE_BYTES: Final = 16 * 1024 * 1024
"""Files up to this size are hashed whole: every index is."""
SAMPLE_BYTES: Final = 1024 * 1024
"""Of larger ones, which are logs, so much is hashed at both ends."""


def status_of(path: str, trusted: TrustedDirectories = ANYWHERE) -> os.stat_result | None:
    """Stat of a regular file that is to be changed; null: there is none of that name.

    Raises AccessError for what is there and is no regular file: a link is not changed, nor what it leads to.
    """
    status = trusted.status(path)
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise AccessError("is a symbolic link, which is not changed; put the file itself here", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise AccessError("is no regular file", path=path)
    return status


def fingerprint(path: str, trusted: TrustedDirectories = ANYWHERE) -> Fingerprint | None:
    """Fingerprint of a file; null: there is none of that name. Raises AccessError."""
    status = status_of(path, trusted)
    return None if status is None else fingerprint_start(path, status.st_size, status.st_mtime_ns, trusted)


def is_hashed_whole(size_bytes: int) -> bool:
    """Whether the fingerprint of a file of this size has the hash of all its bytes."""
    return size_bytes <= WHOLE_BYTES


def fingerprint_start(path: str, size_bytes: int, mtime_ns: int, trusted: TrustedDirectories = ANYWHERE) -> Fingerprint:
    """What the fingerprint would be of the first `size_bytes` bytes of a file, with that time."""
    digest = hashlib.sha256()
    with trusted.source(path) as source:
        for start, end in _hashed(size_bytes):
            for piece in _windows(source, start, end, skips_unreadable=True):
                digest.update(piece)
    return Fingerprint(size_bytes, mtime_ns, digest.hexdigest())


def fingerprint_of_bytes(content: bytes, mtime_ns: int) -> Fingerprint:
    """What the fingerprint would be of a file with this content and that time."""
    digest = hashlib.sha256()
    for start, end in _hashed(len(content)):
        digest.update(memoryview(content)[start:end])
    return Fingerprint(len(content), mtime_ns, digest.hexdigest())


def whole_hash(path: str, trusted: TrustedDirectories = ANYWHERE) -> str:
    """Hash of everything in a file, in hexadecimal. Raises NotFoundError, AccessError or UnreadableError."""
    digest = hashlib.sha256()
    for piece in pieces(path, trusted=trusted):
        digest.update(piece)
    return digest.hexdigest()


def pieces(
    path: str, start: int = 0, end: int | None = None, *, trusted: TrustedDirectories = ANYWHERE
) -> Iterator[bytes | memoryview]:
    """The bytes of a file from `start` up to `end`, each piece valid until the next.

    Raises NotFoundError, AccessError or UnreadableError; UnreadableError too where the file ends before `end`.
    """
    with trusted.source(path) as source:
        yield from _windows(source, start, source.size_bytes if end is None else end, skips_unreadable=False)


def _hashed(size_bytes: int) -> tuple[tuple[int, int], ...]:
    if is_hashed_whole(size_bytes):
        return ((0, size_bytes),)
    return ((0, SAMPLE_BYTES), (size_bytes - SAMPLE_BYTES, size_bytes))


def _windows(source: Source, start: int, end: int, *, skips_unreadable: bool) -> Iterator[memoryview | bytes]:
    position = start
    while position < end:
        try:
            window = source.window(position, min(WINDOW_BYTES, end - position))
        except UnreadableError as error:
            if not skips_unreadable:
                raise
            yield f"unreadable {error.position} {error.size_bytes}".encode()
            position += error.size_bytes
            continue
        if not window:
            raise UnreadableError(source.path, position, end - position)
        yield window
        position += len(window)
