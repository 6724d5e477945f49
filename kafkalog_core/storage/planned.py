"""Files as a plan will leave them, before anything is written: every reader of this process sees them.

The steps of one plan follow each other: a log is truncated, then its indexes are rebuilt from the shorter log, then its
checkpoints are set to its new end. `planned_files` shows the result of one step to the next one. `Source`, listings and
`storage.paths` look here first, for paths of a file system; what writes to a disk, and fingerprints, do not.

The content of a planned file is a list of bytes and of ranges of real files, so a log of which one batch changes takes
no memory.
"""

from __future__ import annotations

import io
import os
import stat
from bisect import bisect_right
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.storage.reading import READING, PlannedLayers, PlannedPaths
from kafkalog_core.storage.source import WINDOW_BYTES, FileChange, Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "FileSlice",
    "Patch",
    "Pieces",
    "PlannedFile",
    "PlannedFiles",
    "PlannedSource",
    "as_new",
    "patched",
    "planned_files",
    "real_slices",
]


class FileSlice(Struct, frozen=True):
    """Bytes of a file."""

    path: str
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""
        return self.end - self.start

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes, a window at a time, each valid until the next one.

        Raises NotFoundError, AccessError or UnreadableError, and StorageError where the file ends before `end`.
        """
        position = self.start
        with Source.open(self.path) as source:
            while position < self.end:
                # In windows: a segment may have 2 GiB.
                window = source.window(position, min(WINDOW_BYTES, self.end - position))
                if not window:
                    raise StorageError(
                        f"it became shorter while kafkalog read it: byte {position} is missing", path=self.path
                    )
                yield window
                position += len(window)


class Pieces(Struct, frozen=True):
    """The content of a file: bytes, and slices of files, one after another. It can be iterated again.

    Each piece of an iteration is valid until the next one.
    """

    parts: tuple[bytes | FileSlice, ...]

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""
        return sum(_size_of(part) for part in self.parts)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        for part in self.parts:
            if isinstance(part, FileSlice):
                yield from part.pieces()
            else:
                yield part

    def cut(self, start: int, end: int) -> Pieces:
        """Return the bytes from `start` to `end`."""
        found: list[bytes | FileSlice] = []
        position = 0
        for part in self.parts:
            size = _size_of(part)
            first, last = max(start - position, 0), min(end - position, size)
            if first < last and isinstance(part, FileSlice):
                found.append(FileSlice(part.path, part.start + first, part.start + last))
            elif first < last and not isinstance(part, FileSlice):
                found.append(part[first:last])
            position += size
        return Pieces(tuple(found))


def _size_of(part: bytes | FileSlice) -> int:
    return part.size_bytes if isinstance(part, FileSlice) else len(part)


class PlannedFile(Struct, frozen=True):
    """A file as a plan will leave it.

    Args:
        pieces: its content, of bytes and of slices of real files.
        status: what `os.stat` would return, as ten values and the modification time in nanoseconds.
    """

    pieces: Pieces
    status: tuple[tuple[int, ...], int]

    def opened(self, path: str) -> Source:
        """Open it, under its path."""
        return PlannedSource(path, self)

    def stat_result(self) -> os.stat_result:
        """Return its status."""
        values, mtime_ns = self.status
        return os.stat_result(values, dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), mtime_ns))


def as_new(path: str, pieces: Pieces, like: os.stat_result, mtime_ns: int) -> PlannedFile:
    """Return a planned file with owner and mode of another one; of a directory it gets the read permissions."""
    mode = like.st_mode
    if stat.S_ISDIR(mode):
        mode = stat.S_IFREG | mode & 0o666
    # The same number in every process, and another one for other content of the name
    text = f"{path}\0{mtime_ns}\0{pieces.size_bytes}".encode("utf-8", "surrogateescape")
    inode = int.from_bytes(blake2b(text, digest_size=7).digest(), "big")
    seconds = mtime_ns // 1_000_000_000
    values = (mode, inode, like.st_dev, 1, like.st_uid, like.st_gid, pieces.size_bytes, seconds, seconds, seconds)
    return PlannedFile(pieces, (values, mtime_ns))


class Patch(NamedTuple):
    """Bytes of a file from `start` to `end`, and what takes their place."""

    start: int
    end: int
    content: bytes


def patched(path: str, size_bytes: int, patches: Sequence[Patch]) -> Pieces:
    """Return the content of a file of this size after some patches, which ascend and do not overlap."""
    parts: list[bytes | FileSlice] = []
    position = 0
    for patch in patches:
        parts += (FileSlice(path, position, patch.start), patch.content)
        position = patch.end
    parts.append(FileSlice(path, position, size_bytes))
    return Pieces(tuple(part for part in parts if _size_of(part)))


class PlannedFiles(PlannedPaths):
    """Files for `planned_files`. Those that are planned where it is created are the present ones."""

    def __init__(self) -> None:
        super().__init__()
        self._present = READING.planned

    def patch(self, path: str, size_bytes: int, patches: Sequence[Patch]) -> None:
        """Give a file of this size other bytes in some places, which ascend and do not overlap."""
        self._put(path, real_slices(patched(path, size_bytes, patches), self._present), path)

    def write(self, path: str, content: bytes, *, like: str) -> None:
        """Give a file this content; `like` is a present file, of which a new one has the status."""
        self._put(path, Pieces((content,)), like)

    def _put(self, path: str, pieces: Pieces, like: str) -> None:
        planned = self._present.get(like)
        status = os.stat(like) if planned is None else planned.stat_result()
        self[path] = as_new(path, pieces, status, status.st_mtime_ns)


def real_slices(pieces: Pieces, planned_now: Mapping[str, PlannedFile | None] | None = None) -> Pieces:
    """Return the same content without slices of planned files: of the real files below them.

    Args:
        pieces: the content.
        planned_now: the planned files; None: those that readers see now.
    """
    files = READING.planned if planned_now is None else planned_now
    found: list[bytes | FileSlice] = []
    for part in pieces.parts:
        planned = files.get(part.path) if isinstance(part, FileSlice) else None
        if isinstance(part, FileSlice) and planned is not None:
            found += planned.pieces.cut(part.start, part.end).parts
        else:
            found.append(part)
    return Pieces(tuple(found))


@contextmanager
def planned_files(files: PlannedPaths) -> Iterator[None]:
    """Let every reader of this process see these files; None: there is none of this name.

    The mapping may change meanwhile. Within another such context, files of both are seen.
    """
    before = READING.planned
    lower = before.maps if isinstance(before, PlannedLayers) else [before]
    READING.planned = PlannedLayers(files, *lower) if before else files
    try:
        yield
    finally:
        READING.planned = before


class _Slices(io.RawIOBase):
    """The content of a planned file, opened: each real file is opened when it is needed."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__()
        self._parts = [part for part in pieces.parts if _size_of(part)]
        self._ends = list(accumulate(map(_size_of, self._parts)))
        self._opened: dict[str, io.FileIO] = {}

    def read_to(self, target: memoryview, position: int) -> int:
        """Read bytes of one part into `target`; return their number, 0 at the end. Raises OSError."""
        at = bisect_right(self._ends, position)
        if at == len(self._parts):
            return 0
        part = self._parts[at]
        inner = position - (self._ends[at] - _size_of(part))
        size = min(len(target), self._ends[at] - position)
        if not isinstance(part, FileSlice):
            target[:size] = part[inner : inner + size]
            return size
        file = self._opened.get(part.path)
        if file is None:
            file = self._opened[part.path] = io.FileIO(part.path, "rb")
        file.seek(part.start + inner)
        return file.readinto(target[:size]) or 0

    def close(self) -> None:
        """Close all files."""
        for file in self._opened.values():
            with suppress(OSError):
                file.close()
        super().close()


class PlannedSource(Source):
    """A planned file that is open."""

    def __init__(self, path: str, file: PlannedFile) -> None:
        self._slices = _Slices(file.pieces)
        super().__init__(path, self._slices, file.stat_result())

    def refresh(self, *, grow: bool = False, data_end: int | None = None) -> FileChange:
        """Return NONE: a planned file does not change."""
        del grow, data_end
        return FileChange.NONE

    def read_up_to(self, end: int) -> None:
        """Note that nothing is read from a byte on."""
        self.wanted_to = end

    def _read_at(self, target: memoryview, position: int) -> int:
        filled = 0
        while filled < len(target):  # across parts: a reader of a few bytes takes fewer for the end of the file
            count = self._slices.read_to(target[filled:], position + filled)
            if not count:
                break
            filled += count
        return filled
