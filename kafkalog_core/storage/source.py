"""Bounded windows over one file, read only.

The whole file is never in memory, and there is no mmap (its pages would count). A place that the disk cannot read
(EIO) is narrowed to blocks of 4 KiB and told apart from the end of the file. The size is the one seen at open: what
a live broker appends later is seen by `refresh`.
"""

from __future__ import annotations

import errno
import os
import stat
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import AccessError, NotFoundError, StorageError
from kafkalog_core.format.layout import DISK_BLOCK_BYTES
from kafkalog_core.storage.rights import denied

if TYPE_CHECKING:
    from io import FileIO
    from types import TracebackType

__all__ = ["AS_IT_IS", "PEEK_BYTES", "WINDOW_BYTES", "Change", "Source", "UnreadableError"]

WINDOW_BYTES: Final = 1024 * 1024
PEEK_BYTES: Final = 17
"""Kafka's HEADER_SIZE_UP_TO_MAGIC: enough to go on from batch to batch."""
_UNREADABLE_ERRNOS: Final = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN})
_MAX_UNREADABLE_BYTES: Final = 1024 * 1024
AS_IT_IS: Final = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
"""A link is not followed, and a FIFO does not block."""


class UnreadableError(StorageError):
    """The disk cannot read `size_bytes` bytes from `position` on; at most 1 MiB is probed at a time."""

    def __init__(self, path: str, position: int, size_bytes: int) -> None:
        super().__init__(f"the disk cannot read {size_bytes} bytes at byte {position}", path=path)
        self.position = position
        self.size_bytes = size_bytes


class Change(Enum):
    """What happened to a file between its opening and now."""

    NONE = "none"
    GREW = "grew"
    SHRANK = "shrank"
    REPLACED = "replaced"
    MODIFIED = "modified"


def open_error(path: str, error: OSError) -> StorageError:
    """The StorageError that says in one sentence why the operating system refused a path."""
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return NotFoundError("no such file or directory", path=path)
    if error.errno == errno.ELOOP:
        return AccessError("its symbolic links lead in a circle", path=path)
    if error.errno in {errno.EACCES, errno.EPERM}:
        return denied(path)
    return AccessError(f"the system cannot read it ({os.strerror(error.errno or 0)})", path=path)


class Source:
    """One open file. `size_bytes` is its size at open, or at the last `refresh` that saw it shrink or let it grow."""

    def __init__(self, path: str, file: FileIO) -> None:
        self.path = path
        self._file = file
        self._opened = os.fstat(file.fileno())
        self.size_bytes = self._opened.st_size
        self._buffer = bytearray(min(WINDOW_BYTES, self.size_bytes))  # most files are small
        self._view = memoryview(self._buffer)
        self._small = memoryview(bytearray(PEEK_BYTES))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a regular file for reading. Raises NotFoundError or AccessError."""
        name = os.fspath(path)
        try:
            if not stat.S_ISREG(os.stat(name).st_mode):  # a FIFO would block the open
                raise AccessError("not a regular file", path=name)
            return cls(name, open(name, "rb", buffering=0))
        except OSError as error:
            raise open_error(name, error) from error

    @classmethod
    def open_at(cls, path: str, name: str, directory: int) -> Self:
        """Open a regular file of an open directory; a link is not followed. Raises NotFoundError or AccessError.

        `path` is what messages call it.
        """
        try:
            number = os.open(name, AS_IT_IS, dir_fd=directory)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise AccessError("is a symbolic link, which is not followed", path=path) from error
            raise open_error(path, error) from error
        if stat.S_ISREG(os.fstat(number).st_mode):
            return cls(path, open(number, "rb", buffering=0))
        os.close(number)
        raise AccessError("not a regular file", path=path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; windows already given out stay readable."""
        self._file.close()

    @property
    def inode(self) -> int:
        """The inode of the open file."""
        return self._opened.st_ino

    @property
    def version(self) -> tuple[int, int, int, int]:
        """By what the open file, as it was at open, is known: device, inode, size and time of change."""
        opened = self._opened
        return opened.st_dev, opened.st_ino, opened.st_size, opened.st_mtime_ns

    def window(self, position: int, size_bytes: int = WINDOW_BYTES) -> memoryview:
        """Bytes from `position` on, valid until the next call.

        Fewer than asked for come at the end of the file and before a place that the disk cannot read.
        Raises UnreadableError when the byte at `position` itself cannot be read.
        """
        wanted = min(size_bytes, self.size_bytes - position)
        if wanted <= 0:
            return self._view[:0]
        if wanted > len(self._buffer):
            self._buffer = bytearray(wanted)
            self._view = memoryview(self._buffer)
        elif len(self._buffer) > WINDOW_BYTES >= wanted:  # a giant batch has passed: give its memory back
            self._buffer = bytearray(WINDOW_BYTES)
            self._view = memoryview(self._buffer)
        return self._view[: self._fill(self._view[:wanted], position)]

    def peek(self, position: int) -> memoryview:
        """The next `PEEK_BYTES` bytes, fewer at the end of the file, valid until the next call: cheaper than a window.

        Raises UnreadableError.
        """
        try:
            return self._small[: self._pread(self._small, position)]
        except OSError:
            return self.window(position, PEEK_BYTES)

    def read(self, position: int, size_bytes: int) -> bytes:
        """A copy of `size_bytes` bytes from `position` on, fewer at the end of the file."""
        return bytes(self.window(position, size_bytes))

    def refresh(self, *, grow: bool = False) -> Change:
        """Compare the open file with the one of that name now; with `grow`, take a larger size as the new one."""
        now = os.fstat(self._file.fileno())
        try:
            named = os.stat(self.path)
        except OSError:
            return Change.REPLACED
        if (named.st_dev, named.st_ino) != (now.st_dev, now.st_ino):
            return Change.REPLACED
        if now.st_size < self._opened.st_size:
            self.size_bytes = min(self.size_bytes, now.st_size)
            return Change.SHRANK
        if now.st_size > self._opened.st_size:
            if grow:
                self.size_bytes = now.st_size
            return Change.GREW
        return Change.NONE if now.st_mtime_ns == self._opened.st_mtime_ns else Change.MODIFIED

    def _fill(self, target: memoryview, position: int) -> int:
        filled = 0
        while filled < len(target):
            try:
                count = self._pread(target[filled:], position + filled)
            except OSError as error:
                if error.errno not in _UNREADABLE_ERRNOS:
                    raise open_error(self.path, error) from error
                return filled + self._fill_by_blocks(target[filled:], position + filled, at_start=filled == 0)
            if count == 0:  # shorter than its size said: cut under our hands
                self.size_bytes = position + filled
                break
            filled += count
        return filled

    def _fill_by_blocks(self, target: memoryview, position: int, *, at_start: bool) -> int:
        """Read up to the first block that the disk cannot read; raise where that is the first one."""
        filled = 0
        while filled < len(target):
            block = DISK_BLOCK_BYTES - (position + filled) % DISK_BLOCK_BYTES
            try:
                count = self._pread(target[filled : filled + block], position + filled)
            except OSError as error:
                if filled == 0 and at_start:
                    raise UnreadableError(self.path, position, self._unreadable_bytes(position)) from error
                break
            if count == 0:
                self.size_bytes = position + filled
                break
            filled += count
        return filled

    def _unreadable_bytes(self, position: int) -> int:
        end = min(self.size_bytes, position + _MAX_UNREADABLE_BYTES)
        probe = position
        byte = memoryview(bytearray(1))
        while probe < end:
            probe = min(end, probe + DISK_BLOCK_BYTES - probe % DISK_BLOCK_BYTES)
            try:
                self._pread(byte, probe)
            except OSError:
                continue
            break
        return probe - position

    def _pread(self, target: memoryview, position: int) -> int:
        self._file.seek(position)
        return self._file.readinto(target) or 0
