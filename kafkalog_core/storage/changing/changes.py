"""What may be done to a file, as values: a plan is a list of them, and `writer.py` alone carries them out.

A command stages its changes one after another, in the order in which they are to be made, while it reads the disk. What
takes them decides what comes of it: `Outline` counts and hashes, so that a plan can be shown; the writer's own stage
also lays new content down beside the journal, so that an apply reads the disk once. Nothing that a broker reads has
changed when all is staged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "INDEXES",
    "Change",
    "ChangeKind",
    "Fingerprint",
    "OneFile",
    "Stage",
    "grouped",
    "is_offset_index",
    "makes_way",
]

ChangeKind = Literal["replace", "create", "cut", "remove"]

INDEXES: Final = (".index", ".timeindex", ".txnindex")
"""The files of a segment that a start builds again when the first of them, the offset index, is missing."""


class OneFile(Protocol):
    """What a change and an entry of a journal have in common."""

    @property
    def kind(self) -> ChangeKind:
        """What is done to the file."""

    @property
    def path(self) -> str:
        """Path of the file."""

    @property
    def swap(self) -> int | None:
        """The base offset of the replacement of segments that it is a part of; `None`: of none."""


Item = TypeVar("Item", bound=OneFile)


def grouped(changes: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the changes in their order, in groups whose order inside the group is free.

    A group is one change, or all parts of one replacement of segments, or the new indexes of one segment.

    The indexes of a segment can make way for their successors where there is no room for both: the offset index, if it
    is there, is deleted first, and it is written last. As long as it is missing every start builds all indexes of the
    segment again from the log (`LogLoader.loadSegmentFiles`, `LogSegment.sanityCheck` and `recover`). Whoever plans a
    new offset index has read the log to its end without damage, or cuts it where such a start does.
    """
    for _, group in groupby(changes, _group_of):
        yield list(group)


def makes_way(group: Sequence[OneFile], *, is_back: bool = False) -> bool:
    """Whether the files of a group may be deleted before their successors are written; `is_back`: by an undo."""
    kinds = {"replace"} if is_back else {"replace", "create"}
    return any(change.kind in kinds and change.swap is None and is_offset_index(change.path) for change in group)


def is_offset_index(path: str) -> bool:
    """Whether a path is that of an offset index."""
    return path.endswith(INDEXES[0])


def _group_of(change: OneFile) -> tuple[object, ...]:
    directory, _, name = change.path.rpartition("/")
    if change.swap is not None:
        return directory, change.swap
    stem, dot, suffix = name.partition(".")
    if change.kind in {"replace", "create"} and f"{dot}{suffix}" in INDEXES:
        return directory, stem, "indexes"
    return directory, name, "alone"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells whether a file is still the one that was planned with.

    Args:
        size_bytes: its size.
        mtime_ns: its modification time.
        sha256: of its content in hexadecimal; of files above `WHOLE_BYTES` of their size, first and last MiB.
    """

    size_bytes: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file, before and after.

    Args:
        kind: `replace` and `create` write whole files, `cut` shortens one in place, `remove` takes it away.
        path: of the file.
        before: the file that is there; null: there must be none.
        size_bytes: of the file afterwards; null: it is gone.
        sha256: of the content afterwards, whole; null where `kind` is `cut` or `remove`.
        why: one plain sentence.
        swap: base offset of the segment that replaces others; all changes of a directory with the same one are made at
            once. Null: made by itself.
    """

    kind: ChangeKind
    path: str
    before: Fingerprint | None
    size_bytes: int | None
    sha256: str | None
    why: str
    swap: int | None = None


class Stage(Protocol):
    """Takes the changes of one plan, in the order in which they are to be made.

    Several files of one directory change at once, as a broker sees it, where they are given the same `swap`, one after
    another: segments that one of their base offset replaces.
    """

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
        """A whole file, in place of the one that is there or new; null where that one has this content already.

        Args:
            path: of the file.
            content: all of it, in pieces.
            why: one plain sentence.
            like: path of the file whose owner, group and mode a new file takes: of a partition, its `.log`. Of a
                directory a new file takes the owner and group, and who may read.
            mtime_ns: its modification time afterwards; null: that of the writing.
            swap: base offset of the replacement that it is a part of; it is written then even where that content is
                there already.
        """

    def cut(self, path: str, size_bytes: int, *, why: str) -> Change | None:
        """Shorten a file in place; it keeps its modification time. Null where it is not longer."""

    def remove(self, path: str, *, why: str, swap: int | None = None) -> Change | None:
        """Take a file away; null where there is none. `swap`: base offset of the replacement that it makes way for."""
