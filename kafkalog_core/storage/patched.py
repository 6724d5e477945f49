"""Files read as a plan would leave them: bytes of the present file, with others in place of some of them.

So that whatever reads a log (a scan, a simulated start) can read a rewritten one before it is written, without a copy.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import contextmanager
from io import FileIO, RawIOBase
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.storage.reading import READING
from kafkalog_core.storage.source import FileChange, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Patch", "PlannedFiles", "patched_size", "reading_planned"]


class Patch(NamedTuple):
    """Bytes of a file from `start` to `end`, and what takes their place."""

    start: int
    end: int
    content: bytes


class _Piece(NamedTuple):
    """Bytes of the new file that follow each other: new content, or bytes of the old file from `start` on."""

    size_bytes: int
    start: int = 0
    content: bytes | None = None


def patched_size(size_bytes: int, patches: Sequence[Patch]) -> int:
    """Return the size of a file of this size after some patches."""
    return size_bytes + sum(len(patch.content) - (patch.end - patch.start) for patch in patches)


class PlannedFiles:
    """Files that are read as a plan would leave them, by their paths.

    `patch` gives a present file other bytes in some places, `write` is the whole content of a file, present or new.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, tuple[list[_Piece], str | None]] = {}

    def patch(self, path: str, size_bytes: int, patches: Sequence[Patch]) -> None:
        """Give a file of this size other bytes; the patches ascend and do not overlap."""
        pieces: list[_Piece] = []
        position = 0
        for patch in patches:
            pieces += (_Piece(patch.start - position, position), _Piece(len(patch.content), content=patch.content))
            position = patch.end
        pieces.append(_Piece(size_bytes - position, position))
        self._pieces[path] = [piece for piece in pieces if piece.size_bytes], None

    def write(self, path: str, content: bytes, *, like: str) -> None:
        """Give a file this content; `like` is a present file, of which a new one has the status."""
        self._pieces[path] = [_Piece(len(content), content=content)] if content else [], like

    def forget(self, path: str) -> None:
        """Read a file as it is again."""
        self._pieces.pop(path, None)

    def opened(self, path: str) -> Source | None:
        """Open one of the files; None: it is not one of them. Raises OSError."""
        found = self._pieces.get(path)
        if found is None:
            return None
        pieces, like = found
        return _PlannedSource(path, pieces, like)


@contextmanager
def reading_planned(files: PlannedFiles) -> Iterator[None]:
    """Within it, every `Source` of this process that is opened reads these files as they would be."""
    before = READING.planned
    READING.planned = files.opened
    try:
        yield
    finally:
        READING.planned = before


class _PlannedSource(Source):
    """A file as it would be; `like`: a file of which a status is taken, where none of its bytes are read."""

    def __init__(self, path: str, pieces: Sequence[_Piece], like: str | None) -> None:
        if like is None:
            super().__init__(path, FileIO(path))
        else:
            super().__init__(path, RawIOBase(), os.stat(like))
        self._planned = pieces
        self._ends = [*accumulate(piece.size_bytes for piece in pieces)]
        self.size_bytes = self._ends[-1] if pieces else 0
        # Both are about positions in the old file
        self._may_have_holes = False
        self._pages = None

    def refresh(self, *, grow: bool = False, data_end: int | None = None) -> FileChange:
        """Return NONE: no broker writes to a file that is planned."""
        del grow, data_end
        return FileChange.NONE

    def _read_at(self, target: memoryview, position: int) -> int:
        filled = 0
        for number in range(bisect_right(self._ends, position), len(self._planned)):
            piece, at = self._planned[number], position + filled
            skipped = at - (self._ends[number] - piece.size_bytes)
            part = target[filled : filled + piece.size_bytes - skipped]
            if piece.content is not None:
                part[:] = piece.content[skipped : skipped + len(part)]
                filled += len(part)
            else:
                read = super()._read_at(part, piece.start + skipped)
                filled += read
                if read < len(part):
                    break
            if filled == len(target):
                break
        return filled
