"""A plan's changes, counted and hashed while a command stages them: nothing is written.

New content is kept in memory as long as it is little, which it is for all but whole disks; then an apply need not read
the logs a second time (`replay`).
"""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError
from kafkalog_core.storage.changing.changes import Change
from kafkalog_core.storage.changing.fingerprint import fingerprint, pieces, status_of, whole_hash
from kafkalog_core.storage.changing.trusted import ANYWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.storage.changing.changes import ChangeKind, Fingerprint, Stage

__all__ = ["KEPT_BYTES", "Outline"]

KEPT_BYTES: Final = 32 * 1024 * 1024
_LINKED: Final = "the file has another name elsewhere, so that a shorter copy takes its place and the other stays whole"


class Outline:
    """A `Stage` that notes the changes.

    Args:
        root: absolute path of the log directory, or of the partition directory outside of any; files are changed in it
            and in directories directly below it, nowhere else.
        kept_bytes: so much new content is kept for `replay`.
    """

    def __init__(self, root: str, *, kept_bytes: int = KEPT_BYTES) -> None:
        self.root = root
        self._trusted = ANYWHERE
        self.changes: list[Change] = []
        self._paths: set[str] = set()
        self._calls: list[Callable[[Stage], object]] | None = []
        self._made_by: list[int] = []
        self._kept_bytes = kept_bytes

    def write(
        self,
        path: str,
        content: Iterable[bytes | memoryview],
        *,
        why: str,
        like: str,
        mtime_ns: int | None = None,
        swap: int | None = None,
    ) -> Change | None:
        """Note a whole file; null where the one that is there has this content already and is in no replacement."""
        before = self._look(path)
        kept = self._keeping(content, partial(_write, path=path, why=why, like=like, mtime_ns=mtime_ns, swap=swap))
        size_bytes, sha256 = self._take(path, kept, like, mtime_ns)
        return self._whole(path, before, size_bytes, sha256, why, swap)

    def cut(self, path: str, size_bytes: int, *, why: str) -> Change | None:
        """Note a cut; of a file that has a second name, a shorter copy in its place. Null where it is not longer."""
        status = status_of(path, self._trusted)
        if status is None or status.st_size <= size_bytes:
            return None
        before = self._look(path)
        self._call(lambda stage: stage.cut(path, size_bytes, why=why))
        if status.st_nlink == 1:
            return self._add(Change(kind="cut", path=path, before=before, size_bytes=size_bytes, sha256=None, why=why))
        head = (bytes(piece) for piece in pieces(path, 0, size_bytes, trusted=self._trusted))
        size_bytes, sha256 = self._take(path, head, path, status.st_mtime_ns)
        return self._whole(path, before, size_bytes, sha256, f"{why} ({_LINKED})")

    def remove(self, path: str, *, why: str, swap: int | None = None) -> Change | None:
        """Note that a file goes away; null where there is none."""
        before = self._look(path)
        if before is None:
            return None
        self._call(lambda stage: stage.remove(path, why=why, swap=swap))
        change = Change(kind="remove", path=path, before=before, size_bytes=None, sha256=None, why=why, swap=swap)
        return self._add(change)

    def replay(self, stage: Stage, *, skip: int = 0, most: int | None = None) -> bool:
        """Make the same calls to another stage; false, and none is made, where too much content came to be kept.

        Args:
            stage: the other one.
            skip: number of changes at the start that are left out, with their calls.
            most: number of changes after which it ends; `None`: all calls are made.
        """
        if self._calls is None:
            return False
        start = self._made_by[skip - 1] if skip else 0
        for call in self._calls[start : None if most is None else self._made_by[most - 1] if most else 0]:
            call(stage)
        return True

    @property
    def is_kept(self) -> bool:
        """Whether `replay` is possible."""
        return self._calls is not None

    # --- what a stage that writes does otherwise ----------------------------------------------------------------------
    def _take(
        self, path: str, content: Iterable[bytes | memoryview], like: str, mtime_ns: int | None
    ) -> tuple[int, str]:
        """Size and hash of new content."""
        del path, like, mtime_ns
        digest, size_bytes = hashlib.sha256(), 0
        for piece in content:
            digest.update(piece)
            size_bytes += len(piece)
        return size_bytes, digest.hexdigest()

    def _take_back(self, path: str) -> None:
        """The content taken last is what is there already."""

    def _add(self, change: Change) -> Change:
        self._paths.add(change.path)
        self.changes.append(change)
        self._made_by.append(len(self._calls or ()))
        return change

    # --- what both do -------------------------------------------------------------------------------------------------
    def _whole(
        self, path: str, before: Fingerprint | None, size_bytes: int, sha256: str, why: str, swap: int | None = None
    ) -> Change | None:
        if (
            swap is None
            and before is not None
            and before.size_bytes == size_bytes
            and whole_hash(path, self._trusted) == sha256
        ):
            self._take_back(path)
            return None
        kind: ChangeKind = "create" if before is None else "replace"
        return self._add(
            Change(kind=kind, path=path, before=before, size_bytes=size_bytes, sha256=sha256, why=why, swap=swap)
        )

    def _keeping(
        self, content: Iterable[bytes | memoryview], write: Callable[[Stage, list[bytes]], object]
    ) -> Iterator[bytes | memoryview]:
        """The content as it comes, kept on the way while there is room."""
        kept: list[bytes] = []
        for piece in content:
            yield piece
            self._kept_bytes -= len(piece)
            if self._kept_bytes < 0:
                self._calls = None
            if self._calls is not None:
                kept.append(bytes(piece))
        self._call(lambda stage: write(stage, kept))

    # --- checks -------------------------------------------------------------------------------------------------------
    def _look(self, path: str) -> Fingerprint | None:
        """The file that is there. Raises RefusedError for a path that no plan may change, or that this one has."""
        around = os.path.dirname(path)
        if path != os.path.abspath(path) or self.root not in {around, os.path.dirname(around)}:
            raise RefusedError(f"is not a file of {self.root} or of a directory in it", path=path)
        if path in self._paths:
            raise RefusedError("is changed twice in one plan", path=path)
        return fingerprint(path, self._trusted)

    def _call(self, call: Callable[[Stage], object]) -> None:
        if self._calls is not None:
            self._calls.append(call)


def _write(
    stage: Stage, content: list[bytes], *, path: str, why: str, like: str, mtime_ns: int | None, swap: int | None
) -> object:
    return stage.write(path, content, why=why, like=like, mtime_ns=mtime_ns, swap=swap)
