"""The changes of several steps as one list of changes: what each file is after all of them.

A `JoinedStage` receives the changes of one planner after another. The later ones read the files as the earlier ones
leave them (`storage.planned`), and a file that several of them change has one change in the plan. So the steps have one
journal, are applied and undone together, and an interrupted run goes on where it ended.

**The order.** A file is changed where the first step changes it: the planners have an order that is safe for a broker
that starts in between, and later steps only replace the content of files that describe the same log. The checkpoints of
the log directory are changed where the last step changes them: a recovery point at the end of a log is true only when
the log and its indexes are.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import FileKind, FileState, fixed_file_name, parse_file_name
from kafkalog_core.storage.changing.changes import status_of
from kafkalog_core.storage.planned import FileSlice, Pieces, as_new, planned_files, real_slices
from kafkalog_core.storage.reading import PlannedPaths
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["JoinedChange", "JoinedStage"]

_SPOOLED_BYTES: Final = 16 * 1024
_EARLY: Final = fixed_file_name(FileKind.LOG_START_OFFSET)


class JoinedChange(Struct, frozen=True, kw_only=True):
    """What all steps together make of one file.

    Args:
        path: of the file.
        why: the reasons of the steps.
        pieces: its content, of bytes and of slices of files as they are now; None: it is deleted.
        cut: size to which the present file is truncated, if no byte of it changes; None: it is written or deleted.
        like: file whose owner and mode a new file gets.
        mtime_ns: modification time; None: the time of writing.
        swap: base offset of the segment replacement that it is a part of.
    """

    path: str
    why: str
    pieces: Pieces | None = None
    cut: int | None = None
    like: str = ""
    mtime_ns: int | None = None
    swap: int | None = None


class JoinedStage:
    """A `Stage` that joins the changes of several steps.

    Args:
        root: absolute path of the log directory, or of the partition directory outside one.
        now_ms: modification time of new files for readers, in milliseconds since 1970.
        spool: directory for a temporary file with new content, until all is passed on; None: memory holds it.
    """

    def __init__(self, root: str, now_ms: int, spool: str | None = None) -> None:
        self._root = root
        self._spool = None if spool is None else f"{spool}/{os.getpid()}-{id(self)}"
        self._now_ns = now_ms * 1_000_000
        self._changes: dict[str, JoinedChange] = {}
        self._planned = PlannedPaths()

    @property
    def changes(self) -> tuple[JoinedChange, ...]:
        """The changes of all steps, in their order."""
        return tuple(self._changes.values())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let every reader of this process see the files as the steps so far leave them, and those to come."""
        with planned_files(self._planned):  # the mapping itself: what is staged within is seen at once
            yield

    # --- a Stage ------------------------------------------------------------------------------------------------------
    def write(
        self,
        path: str,
        content: Iterable[bytes | memoryview],
        *,
        why: str,
        like: str,
        mtime_ns: int | None = None,
        swap: int | None = None,
    ) -> None:
        """Write a whole file."""
        status = self._status(path)
        pieces = content if isinstance(content, Pieces) else Pieces((b"".join(bytes(each) for each in content),))
        pieces = real_slices(Pieces(tuple(map(self.spooled, pieces.parts))))
        if swap is None and status is not None and self._is_same(path, pieces):
            return
        self._add(JoinedChange(path=path, why=why, pieces=pieces, like=like, mtime_ns=mtime_ns, swap=swap))

    def cut(self, path: str, size_bytes: int, *, why: str) -> None:
        """Truncate a file."""
        status = self._status(path)
        if status is None or status.st_size <= size_bytes:
            return
        known = self._changes.get(path)
        if known is not None and known.pieces is not None:
            self._add(replace(known, why=why, pieces=known.pieces.cut(0, size_bytes)))
        else:
            self._add(JoinedChange(path=path, why=why, cut=size_bytes, mtime_ns=status.st_mtime_ns))

    def remove(self, path: str, *, why: str, swap: int | None = None) -> None:
        """Delete a file."""
        if self._status(path) is not None:
            self._add(JoinedChange(path=path, why=why, swap=swap))

    def spooled(self, part: bytes | FileSlice) -> bytes | FileSlice:
        """Return the same content as a slice of the temporary file, if it is not small and the file takes it."""
        if isinstance(part, FileSlice) or self._spool is None or len(part) < _SPOOLED_BYTES:
            return part
        try:
            with open(self._spool, "ab") as file:
                start = file.tell()
                file.write(part)
        except OSError:  # no space: the next one may be smaller
            return part
        return FileSlice(self._spool, start, start + len(part))

    # --- joined -------------------------------------------------------------------------------------------------------
    def take(self, changes: Iterable[JoinedChange]) -> None:
        """Take the changes that another joined stage has, as if they were made by one step."""
        for change in changes:
            self._add(change)

    def pass_on(self, stage: Stage, *, starts_first: bool = False) -> None:
        """Make all changes in another stage. Raises what it raises.

        starts_first: whether a log ends below its checkpointed log start offset: this checkpoint is written first then,
            because a broker that finds it after the log end deletes the whole log (LogLoader.recoverLog).
        """
        # The files of a replacement that waits are moved before another segment is replaced: a start would mix the two
        # (LogLoader.completeSwapOperations).
        changes = sorted(self.changes, key=lambda change: not _is_of_waiting_replacement(change))
        if starts_first:
            changes.sort(key=lambda change: change.path != f"{self._root}/{_EARLY}")
        for change in changes:
            if change.pieces is not None:
                stage.write(
                    change.path,
                    change.pieces,
                    why=change.why,
                    like=self._real(change.like) if change.like else change.like,
                    mtime_ns=change.mtime_ns,
                    swap=change.swap,
                )
            elif change.cut is not None:
                stage.cut(change.path, change.cut, why=change.why)
            else:
                stage.remove(change.path, why=change.why, swap=change.swap)

    def _status(self, path: str) -> os.stat_result | None:
        """Return the status of a file as the steps so far leave it; None: there is none. Raises AccessError."""
        real = status_of(path)  # neither a link nor its target is changed
        if path in self._planned:
            planned = self._planned[path]
            return None if planned is None else planned.stat_result()
        return real

    def _is_same(self, path: str, pieces: Pieces) -> bool:
        """Return whether a planned file has this content already; that of real files is compared when it is staged."""
        planned = self._planned.get(path)
        return planned is not None and planned.pieces == pieces

    def _add(self, change: JoinedChange) -> None:
        path, known = change.path, self._changes.get(change.path)
        if known is not None:
            # A part of a segment replacement is one, whatever later steps change in it.
            swap = known.swap if change.swap is None else change.swap
            why = change.why if change.why in known.why else f"{known.why}; {change.why}"
            change = replace(change, swap=swap, why=why, like=change.like or known.like)
            if os.path.dirname(path) == self._root:
                del self._changes[path]
        real = status_of(path)
        if change.pieces is None and change.cut is None:
            if real is None:
                # An earlier step creates it: nothing is left to do
                self._changes.pop(path, None)
            else:
                self._changes[path] = change
            self._planned[path] = None
            return
        self._changes[path] = change
        pieces = change.pieces if change.cut is None else Pieces((FileSlice(path, 0, change.cut),))
        like = real or self._like(change.like or os.path.dirname(path))
        mtime_ns = self._now_ns if change.mtime_ns is None else change.mtime_ns
        self._planned[path] = as_new(path, pieces or Pieces(()), like, mtime_ns)

    def _like(self, path: str) -> os.stat_result:
        planned = self._planned.get(path)
        return os.stat(self._real(path)) if planned is None else planned.stat_result()

    def _real(self, path: str) -> str:
        """Return a file or directory that is there before the plan, whose owner a new one gets; else its directory.

        The path may be of a file that a step creates, such as the log of a replacement, and one that a later step has
        deleted again.
        """
        known = self._changes.get(path)
        if os.path.isdir(path) or status_of(path) is not None:
            return path
        return os.path.dirname(path) if known is None or known.like in {"", path} else self._real(known.like)


def _is_of_waiting_replacement(change: JoinedChange) -> bool:
    """Return whether a change deletes a file of an unfinished replacement of segments."""
    is_deleted = change.pieces is None and change.cut is None
    return is_deleted and parse_file_name(os.path.basename(change.path)).state in {FileState.SWAP, FileState.CLEANED}
