"""One open file, read tolerantly: what the disk cannot read, holes, and what happens to the file meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_left
from contextlib import ExitStack, contextmanager
from enum import Enum
from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import AccessError, NotFoundError, StorageError
from kafkalog_core.format.layout import DISK_BLOCK_BYTES, MAX_INT64
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.object_paths import is_object
from kafkalog_core.storage.reading import READING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import RawIOBase
    from types import TracebackType

    from kafkalog_core.storage.object_file import ObjectFile
    from kafkalog_core.storage.page_cache import ReadPages

__all__ = [
    "CHANGE_CODES",
    "PEEK_BYTES",
    "READ_FLAGS",
    "WINDOW_BYTES",
    "FileChange",
    "Source",
    "UnreadableError",
    "reading_together",
]


WINDOW_BYTES: Final = 1024 * 1024
PEEK_BYTES: Final = 17
"""Kafka's HEADER_SIZE_UP_TO_MAGIC: enough to step from batch to batch."""
_UNREADABLE_ERRNOS: Final = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN})
_MAX_UNREADABLE_BYTES: Final = 1024 * 1024
_PREADV: Final = getattr(os, "preadv", None)  # not on Windows
_SEEK_DATA: Final = getattr(os, "SEEK_DATA", None)  # not on Windows
_STAT_BLOCK_BYTES: Final = 512
_SMALL_BYTES: Final = 128 * 1024
"""The largest file that is requested together with others."""
_TOGETHER: Final = 64
"""Files that are requested together, unless the process may open less than four times as many."""
READ_FLAGS: Final = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
"""Flags to open a file: a link is not followed, and a FIFO does not block."""


class UnreadableError(StorageError):
    """The disk cannot read `size_bytes` bytes from `position` on; at most 1 MiB is probed at a time."""

    def __init__(self, path: str, position: int, size_bytes: int) -> None:
        super().__init__(f"the disk cannot read {size_bytes} bytes at byte {position}", path=path)
        self.position = position
        self.size_bytes = size_bytes


class FileChange(Enum):
    """What happened to a file between its opening and now."""

    NONE = "none"
    GREW = "grew"
    SHRANK = "shrank"
    TRIMMED = "trimmed"
    REPLACED = "replaced"
    MODIFIED = "modified"


class Source:
    """One open file. `size_bytes` is its size at open, or at the last `refresh` that saw it shrink or let it grow."""

    def __init__(self, path: str, file: RawIOBase, status: os.stat_result | None = None) -> None:
        """Read an open file. status: of one that is not of a file system."""
        self.path = path
        self._file = file
        self._opened = os.fstat(file.fileno()) if status is None else status
        self.size_bytes = self._opened.st_size
        self.wanted_to = MAX_INT64
        """Where reading will end: an object is read ahead up to there, and the pages after it belong to others."""
        # For `window`: many files are opened for their first bytes alone
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
        self.peeked = memoryview(bytearray(PEEK_BYTES))
        self._limit = READING.limit
        self._may_have_holes = (
            _SEEK_DATA is not None
            and status is None
            # Fewer blocks than bytes: a sparse file. Compressing file systems look alike, and lseek(2) decides.
            and self._opened.st_blocks * _STAT_BLOCK_BYTES < self._opened.st_size
        )
        self._pages: ReadPages | None = None
        held = READING.held.get(path)
        # A held file gives its pages back where it was opened.
        is_held = held is not None and held[1:3] == (self._opened.st_dev, self._opened.st_ino)
        if not READING.keeps_cache and status is None and not is_held:
            from kafkalog_core.storage.page_cache import ReadPages  # noqa: PLC0415 -- ctypes, for such a reader alone

            self._pages = ReadPages(file.fileno(), self.size_bytes)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Source:
        """Open a regular file, or an object, for reading. Raises NotFoundError or AccessError."""
        name = os.fspath(path)
        if is_object(name):
            from kafkalog_core.storage.object_file import ObjectFile  # noqa: PLC0415 -- for such a path alone

            return _ObjectSource(name, ObjectFile(name, None if READING.limit is None else READING.limit.count))
        if name in READING.planned:
            planned = READING.planned[name]
            if planned is None:
                raise NotFoundError("no such file or directory", path=name)
            opened: Source = planned.opened(name)
            return opened
        try:
            status = os.stat(name)
            # A FIFO would block the open
            if not stat.S_ISREG(status.st_mode):
                raise AccessError("not a regular file", path=name)
            held = READING.held.get(name)
            is_held = held is not None and held[1:] == (status.st_dev, status.st_ino, get_ident())
            return cls(name, open(os.dup(held[0]) if held is not None and is_held else name, "rb", buffering=0))
        except OSError as error:
            raise open_error(name, error) from error

    @classmethod
    def open_at(cls, path: str, name: str, directory: int) -> Self:
        """Open a regular file in an open directory; a link is not followed. Raises NotFoundError or AccessError.

        `path` is the file's name in messages.
        """
        try:
            number = os.open(name, READ_FLAGS, dir_fd=directory)
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
        try:
            if error is None:
                self.require_same()
        finally:
            self.close()

    def read_up_to(self, end: int) -> None:
        """Read nothing from a byte on, which belongs to another reader: neither does the system read it ahead."""
        self.wanted_to = end
        # Random: the kernel's readahead would load the pages of the next reader's part.
        if self._pages is not None and end < self.size_bytes:
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def take_pages(self) -> ReadPages | None:
        """Return what gives back the file's pages, which the caller does from now on; None: they stay."""
        pages, self._pages = self._pages, None
        return pages

    def require_same(self) -> None:
        """Raise ObjectReplacedError if the bytes read so far may be of two objects, which those of a file never are."""

    def close(self) -> None:
        """Close the file; windows already returned remain readable."""
        if self._pages is not None and not self._file.closed:
            self._pages.give_back()
        self._file.close()

    @property
    def inode(self) -> int:
        """The inode of the open file."""
        return self._opened.st_ino

    @property
    def mtime_ns(self) -> int:
        """The modification time of the file as it was opened."""
        return self._opened.st_mtime_ns

    @property
    def version(self) -> tuple[int, int, int, int]:
        """The identity of the file as it was opened: device, inode, size and modification time."""
        opened = self._opened
        return opened.st_dev, opened.st_ino, opened.st_size, opened.st_mtime_ns

    def window(self, position: int, size_bytes: int = WINDOW_BYTES) -> memoryview:
        """Return the bytes from `position` on, valid until the next call.

        There are fewer than asked for at the end of the file and before a place that the disk cannot read. Raises
        UnreadableError if the byte at `position` itself cannot be read.
        """
        wanted = min(size_bytes, self.size_bytes - position)
        if wanted <= 0:
            return self._view[:0]
        if wanted > len(self._buffer):
            self._buffer = bytearray(max(wanted, min(WINDOW_BYTES, self.size_bytes)))
            self._view = memoryview(self._buffer)
        # A giant batch has passed: give its memory back
        elif len(self._buffer) > WINDOW_BYTES >= wanted:
            self._buffer = bytearray(WINDOW_BYTES)
            self._view = memoryview(self._buffer)
        return self._view[: self._fill(self._view[:wanted], position)]

    def peeks(self) -> Callable[[int], bool]:
        """Return a function for many small reads: it reads `PEEK_BYTES` bytes at a position into `peeked`.

        It returns False if there are fewer, or the disk cannot read them.
        """
        read = self._read_at if self._pages is None and self._limit is None else self._pread
        peeked = self.peeked

        def peeks(position: int) -> bool:
            try:
                return read(peeked, position) == PEEK_BYTES
            except OSError:
                return False

        return peeks

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return a copy of `size_bytes` bytes from `position` on, fewer at the end of the file."""
        return bytes(self.window(position, size_bytes))

    def hole_end(self, position: int) -> int:
        """Return where the hole of a sparse file ends that a position is in; the position itself if it is in none.

        A hole is a range of zeros that no block of the disk holds (lseek(2), SEEK_DATA): a search for other bytes
        skips it, as a file of some blocks may have any size. Where the file system does not know its holes there are
        none, and the zeros are read.
        """
        if not self._may_have_holes or position >= self.size_bytes:
            return position
        number = self._file.fileno()
        try:
            found = os.lseek(number, position, _SEEK_DATA or 0)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return position
            # No data up to the end, which is an earlier one if the file was truncated
            found = os.fstat(number).st_size
        return max(position, min(found, self.size_bytes))

    def data_end(self, end: int) -> int:
        """Return where the last data before `end` ends: from there to `end` there is a hole. `end` if there is none."""
        if self.hole_end(max(0, end - 1)) < end:
            return end
        # Holes are found forwards only (SEEK_DATA); backwards they need a bisection.
        return bisect_left(range(end), True, key=lambda position: self.hole_end(position) >= end)

    def refresh(self, *, grow: bool = False, data_end: int | None = None) -> FileChange:
        """Compare the open file with the present one of that name; with `grow`, use a larger size from now on.

        `data_end`: where the last batch ends that was read. A file that shrank to there was TRIMMED: nothing is lost.
        """
        # The open descriptor shows the file that is read; the name may lead to another one by now, as after a
        # compaction.
        now = os.fstat(self._file.fileno())
        try:
            named = os.stat(self.path)
        except OSError:
            return FileChange.REPLACED
        # LocalLog.replaceSegments renames a cleaned segment over the old name.
        if (named.st_dev, named.st_ino) != (now.st_dev, now.st_ino):
            return FileChange.REPLACED
        if now.st_size < self._opened.st_size:
            self.size_bytes = min(self.size_bytes, now.st_size)
            # FileRecords.trim cuts the preallocated rest at a roll: nothing is lost.
            return FileChange.TRIMMED if now.st_size == data_end else FileChange.SHRANK
        if now.st_size > self._opened.st_size:
            if grow:
                self.size_bytes = now.st_size
            return FileChange.GREW
        return FileChange.NONE if now.st_mtime_ns == self._opened.st_mtime_ns else FileChange.MODIFIED

    def _fill(self, target: memoryview, position: int) -> int:
        filled = 0
        while filled < len(target):
            try:
                count = self._pread(target[filled:], position + filled)
            except OSError as error:
                if error.errno not in _UNREADABLE_ERRNOS:
                    raise open_error(self.path, error) from error
                # EIO for a large read does not say where: read by blocks up to the bad one.
                return filled + self._fill_by_blocks(target[filled:], position + filled, at_start=filled == 0)
            # Truncated meanwhile: shorter than its size
            if count == 0:
                self.size_bytes = position + filled
                break
            filled += count
        return filled

    def _fill_by_blocks(self, target: memoryview, position: int, *, at_start: bool) -> int:
        """Read up to the first block that the disk cannot read; raise if that is the first one."""
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
            # One byte a block is enough to know whether the disk can read it.
            probe = min(end, probe + DISK_BLOCK_BYTES - probe % DISK_BLOCK_BYTES)
            try:
                self._pread(byte, probe)
            except OSError:
                continue
            break
        return probe - position

    def _pread(self, target: memoryview, position: int) -> int:
        if self._pages is not None:
            self._pages.about_to_read(position, len(target), self.wanted_to)
        size = self._read_at(target, position)
        if self._limit is not None:
            self._limit.count(size)
        return size

    def _read_at(self, target: memoryview, position: int) -> int:
        if _PREADV is not None:
            return int(_PREADV(self._file.fileno(), (target,), position))
        self._file.seek(position)
        return self._file.readinto(target) or 0


class _ObjectSource(Source):
    """One object that is open: `ObjectFile` reads ahead, repeats what fails, and knows when it was replaced."""

    def __init__(self, path: str, file: ObjectFile) -> None:
        super().__init__(path, file, file.status)
        self._object = file

    def refresh(self, *, grow: bool = False, data_end: int | None = None) -> FileChange:
        """Return NONE: an object never changes. Raises ObjectReplacedError if another one has replaced it."""
        del grow, data_end
        self._object.require_unreplaced()
        return FileChange.NONE

    def require_same(self) -> None:
        """Ask whether it is still the object of that name. Raises ObjectReplacedError, AccessError."""
        self._object.require_same()

    def _pread(self, target: memoryview, position: int) -> int:
        return self._read_at(target, position)

    def _read_at(self, target: memoryview, position: int) -> int:
        return self._object.read_to(target, position, self.wanted_to)


CHANGE_CODES: Final = {
    FileChange.GREW: "file.grew",
    FileChange.SHRANK: "file.shrank",
    FileChange.TRIMMED: "file.trimmed",
    FileChange.REPLACED: "file.replaced",
    FileChange.MODIFIED: "file.modified",
}


# --- several files ----------------------------------------------------------------------------------------------------
@contextmanager
def reading_together(paths: Iterable[str]) -> Iterator[None]:
    """Request the small ones of some files at once, and give back their pages when all is read.

    A disk takes about as long for ten requests as for one, and a file may be read more than once. Of many files the
    first are taken: each is open meanwhile, and a `Source` reads from that descriptor (`READING.held`) as long as the
    file has that name. With a limit of the bytes in a second nothing is requested.
    """
    # Without preadv, descriptors of one file would share their position.
    is_able = hasattr(os, "posix_fadvise") and _PREADV is not None
    with ExitStack() as stack:
        if is_able and READING.limit is None:
            _hold_first(paths, stack)
        yield


def _hold_first(paths: Iterable[str], stack: ExitStack) -> None:
    most = os.sysconf("SC_OPEN_MAX")  # -1: there is no limit
    for path in islice(paths, _TOGETHER if most < 0 else min(_TOGETHER, most // 4)):
        if path not in READING.held and not is_object(path):
            try:
                _hold(path, stack)
            except OSError as error:  # what is wrong with a file is reported by its reader
                if error.errno in {errno.EMFILE, errno.ENFILE}:
                    # The readers need them
                    stack.close()
                    return


def _hold(path: str, stack: ExitStack) -> None:
    """Open a file and request what is not in memory of it, until the stack is unwound. Raises OSError."""
    from kafkalog_core.storage.page_cache import absent_ranges, give_back, opened  # noqa: PLC0415 -- as in `Source`

    descriptor = stack.enter_context(opened(path))
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _SMALL_BYTES:
        return
    ranges = absent_ranges(descriptor, 0, status.st_size)
    if ranges:
        # Requested for all files at once: the disk orders the requests.
        os.posix_fadvise(descriptor, 0, status.st_size, os.POSIX_FADV_WILLNEED)
    if not READING.keeps_cache:
        stack.callback(give_back, descriptor, ranges)
    READING.held[path] = descriptor, status.st_dev, status.st_ino, get_ident()
    stack.callback(READING.held.pop, path)
