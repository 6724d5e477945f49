"""Changes to files as values: a plan is a list of them, and `writer.py` alone carries them out.

A command stages its changes one after another, in the order in which they are to be made, while it reads the disk. The
stage that receives them decides what happens: `DryRunStage` counts and hashes, so that a plan can be shown, and
`staging.JournalStage` also writes the new content into the journal, so that an apply reads the disk once. A broker sees
no change until all of them are staged.
"""

from __future__ import annotations

import hashlib
import os
import stat
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

from kafkalog_core.errors import AccessError, RefusedError
from kafkalog_core.storage.changing.trusted import ANYWHERE
from kafkalog_core.storage.source import WINDOW_BYTES, UnreadableError
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.storage.changing.trusted import TrustedDirectories
    from kafkalog_core.storage.source import Source

__all__ = [
    "INDEXES",
    "KEPT_BYTES",
    "SAMPLE_BYTES",
    "SWAP",
    "WHOLE_BYTES",
    "Change",
    "ChangeKind",
    "DryRunStage",
    "Fingerprint",
    "OneFile",
    "Stage",
    "fingerprint",
    "fingerprint_of_bytes",
    "fingerprint_start",
    "grouped",
    "is_hashed_whole",
    "is_offset_index",
    "may_delete_first",
    "pieces",
    "saved_tail_end",
    "status_of",
    "swap_name",
    "whole_hash",
]


ChangeKind = Literal["replace", "create", "cut", "remove"]

INDEXES: Final = (".index", ".timeindex", ".txnindex")
"""The index files of a segment. A start rebuilds all of them if the first one, the offset index, is missing."""


SWAP: Final = ".swap"
"""The suffix of a file that waits to be renamed into place in a segment replacement."""


class OneFile(Protocol):
    """What a planned change and an entry of a journal have in common."""

    @property
    def kind(self) -> ChangeKind:
        """The kind of the change."""

    @property
    def path(self) -> str:
        """The path of the file."""

    @property
    def swap(self) -> int | None:
        """The base offset of the segment replacement that it is a part of; None: it is part of none."""


Item = TypeVar("Item", bound=OneFile)


def grouped(changes: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the changes in their order, in groups; the order within a group is free.

    A group is one change, or all parts of one segment replacement, or the new indexes of one segment.

    If there is no space for both the old and the new indexes of a segment, the old ones are deleted before the new ones
    are written: the offset index, if there is one, is deleted first and written last. While it is missing, every start
    rebuilds all indexes of the segment from the log (`LogLoader.loadSegmentFiles`, `LogSegment.sanityCheck` and
    `recover`). A plan with a new offset index has read the log to its end without damage, or truncates it where such a
    start does.
    """
    # `groupby`, not a dictionary: only neighbours form a group, so that the order of the plan is kept.
    for _, group in groupby(changes, _group_of):
        yield list(group)


def may_delete_first(group: Sequence[OneFile], *, is_back: bool = False) -> bool:
    """Return whether the files of a group may be deleted before the new ones are written; `is_back`: by an undo."""
    kinds = {"replace"} if is_back else {"replace", "create"}
    # LogLoader.loadSegmentFiles recovers a segment without an offset index, so a crash between the two costs a rebuild
    # and no record.
    return any(change.kind in kinds and change.swap is None and is_offset_index(change.path) for change in group)


def is_offset_index(path: str) -> bool:
    """Return whether a path is that of an offset index."""
    return path.endswith(INDEXES[0])


def _group_of(change: OneFile) -> tuple[object, ...]:
    directory, _, name = change.path.rpartition("/")
    if change.swap is not None:
        return directory, change.swap
    stem, dot, suffix = name.partition(".")
    # The indexes of a segment are one group, since a start that finds the first one missing writes all of them.
    if change.kind in {"replace", "create"} and f"{dot}{suffix}" in INDEXES:
        return directory, stem, "indexes"
    return directory, name, "alone"


def swap_name(path: str) -> str:
    """Return the name of a file that is about to be renamed into place in a segment replacement."""
    return f"{path}{SWAP}"


class Fingerprint(Struct, frozen=True):
    """Size, modification time and hash of a file, which show whether it has changed since it was planned with.

    Args:
        size_bytes: its size.
        mtime_ns: its modification time, in nanoseconds.
        sha256: SHA-256 of its content in hexadecimal; for files above `WHOLE_BYTES`, of their size and of the first and
            last MiB.
    """

    size_bytes: int
    mtime_ns: int
    sha256: str


class Change(Struct, frozen=True, kw_only=True):
    """One file, before and after.

    Args:
        kind: `replace` and `create` write whole files, `cut` truncates one in place, `remove` deletes it.
        path: path of the file.
        before: the existing file; None: there must be none.
        size_bytes: size of the file after the change; None: the file is deleted.
        sha256: SHA-256 of the whole content after the change; None if `kind` is `cut` or `remove`.
        why: the reason, one sentence.
        swap: base offset of the segment that replaces others. All changes of a directory with the same one are made at
            once. None: the change is made by itself.
    """

    kind: ChangeKind
    path: str
    before: Fingerprint | None
    size_bytes: int | None
    sha256: str | None
    why: str
    swap: int | None = None


class Stage(Protocol):
    """Receives the changes of one plan, in the order in which they are to be made.

    Several files of one directory change at once, as a broker sees it, if they are given the same `swap` one after
    another: it is the base offset of the segment that replaces others.
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
        """Stage a whole file, new or in place of an existing one. Return None if that one has this content already.

        Args:
            path: path of the file.
            content: its new content, in pieces.
            why: the reason, one sentence.
            like: path of the file whose owner, group and mode a new file gets: in a partition, its `.log`. From a
                directory it gets the owner, the group and the read permissions.
            mtime_ns: modification time after the change; None: the time of the writing.
            swap: base offset of the segment replacement that it is a part of. The file is then written even if it has
                this content already.
        """

    def cut(self, path: str, size_bytes: int, *, why: str) -> Change | None:
        """Stage the truncation of a file in place, which keeps its modification time.

        Return None if it is not longer.
        """

    def remove(self, path: str, *, why: str, swap: int | None = None) -> Change | None:
        """Stage a deletion. Return None if there is no such file.

        `swap` is the base offset of the segment replacement that the deletion is a part of.
        """


WHOLE_BYTES: Final = 16 * 1024 * 1024
"""The largest size at which a file is hashed whole: every index is."""
SAMPLE_BYTES: Final = 1024 * 1024
"""Of larger files, which are logs, this many bytes are hashed at each end."""


def status_of(path: str, trusted: TrustedDirectories = ANYWHERE) -> os.stat_result | None:
    """Return the status of a regular file that is to be changed; None: there is none of that name.

    Raises AccessError for anything but a regular file: neither a link nor its target is changed.
    """
    # Without following links: an owner of the directory could point one at a file of root.
    status = trusted.status(path)
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise AccessError(
            "is a symbolic link, which kafkalog does not follow to change a file; put the file itself here", path=path
        )
    if not stat.S_ISREG(status.st_mode):
        raise AccessError("is not a regular file, and is not changed; move it out of this directory first", path=path)
    return status


def fingerprint(path: str, trusted: TrustedDirectories = ANYWHERE) -> Fingerprint | None:
    """Return the fingerprint of a file; None: there is none of that name. Raises AccessError."""
    status = status_of(path, trusted)
    return None if status is None else fingerprint_start(path, status.st_size, status.st_mtime_ns, trusted)


def is_hashed_whole(size_bytes: int) -> bool:
    """Return whether the fingerprint of a file of this size has the hash of all its bytes."""
    return size_bytes <= WHOLE_BYTES


def fingerprint_start(path: str, size_bytes: int, mtime_ns: int, trusted: TrustedDirectories = ANYWHERE) -> Fingerprint:
    """Return the fingerprint of the first `size_bytes` bytes of a file, with this modification time."""
    digest = hashlib.sha256()
    with trusted.source(path) as source:
        for start, end in _hashed(size_bytes):
            # A disk that cannot read a place must still be repairable: the hole is hashed as text, and the same hole
            # gives the same hash.
            for piece in _windows(source, start, end, skips_unreadable=True):
                digest.update(piece)
    return Fingerprint(size_bytes, mtime_ns, digest.hexdigest())


def fingerprint_of_bytes(content: bytes, mtime_ns: int) -> Fingerprint:
    """Return the fingerprint that a file with this content and modification time would have."""
    digest = hashlib.sha256()
    for start, end in _hashed(len(content)):
        digest.update(memoryview(content)[start:end])
    return Fingerprint(len(content), mtime_ns, digest.hexdigest())


def whole_hash(path: str, trusted: TrustedDirectories = ANYWHERE) -> str:
    """Return the SHA-256 of the whole content of a file, in hexadecimal.

    Raises NotFoundError, AccessError or UnreadableError.
    """
    digest = hashlib.sha256()
    for piece in pieces(path, trusted=trusted):
        digest.update(piece)
    return digest.hexdigest()


def pieces(
    path: str, start: int = 0, end: int | None = None, *, trusted: TrustedDirectories = ANYWHERE
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file from `start` to `end`, each piece valid until the next one.

    Raises NotFoundError, AccessError or UnreadableError; UnreadableError also if the file ends before `end`.
    """
    with trusted.source(path) as source:
        yield from _windows(source, start, source.size_bytes if end is None else end, skips_unreadable=False)


def saved_tail_end(change: Change, trusted: TrustedDirectories = ANYWHERE) -> int:
    """Return where the part of a truncated file ends that the journal saves, in bytes of the file.

    A hole up to the end of a sparse file, which may be of any size, is not saved: undo makes it again.
    Raises NotFoundError or AccessError.
    """
    # Sparse tails come from preallocated logs; copying a hole would need space that the file never took.
    with trusted.source(change.path) as source:
        return max(change.size_bytes or 0, source.data_end(change.before.size_bytes if change.before else 0))


def _hashed(size_bytes: int) -> tuple[tuple[int, int], ...]:
    if is_hashed_whole(size_bytes):
        return ((0, size_bytes),)
    # Whole files would cost a second read of every log; an append or a truncation changes the size, the end or the
    # time.
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
            # The file became shorter while it was read.
            raise UnreadableError(source.path, position, end - position)
        yield window
        position += len(window)


KEPT_BYTES: Final = 32 * 1024 * 1024
_LINKED: Final = (
    "the file has another hard link: a shorter copy replaces it here, and the other name keeps the whole file"
)


class DryRunStage:
    """A `Stage` that records the changes and writes nothing.

    Args:
        root: absolute path of the log directory, or of a partition directory outside any log directory. Files are
            changed only in it and in the directories directly in it.
        kept_bytes: up to this many bytes of new content are kept in memory for `replay`.
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
        """Record a whole file. Return None if the existing one has this content already and is in no replacement."""
        before = self._look(path)
        kept = self._keeping(
            content,
            lambda stage, whole: stage.write(path, whole, why=why, like=like, mtime_ns=mtime_ns, swap=swap),
        )
        size_bytes, sha256 = self._receive(path, kept, like, mtime_ns)
        return self._whole(path, before, size_bytes, sha256, why, swap)

    def cut(self, path: str, size_bytes: int, *, why: str) -> Change | None:
        """Record a truncation; for a file with another hard link, its replacement by a shorter copy.

        Return None if the file is not longer.
        """
        status = status_of(path, self._trusted)
        if status is None or status.st_size <= size_bytes:
            return None
        # The journal needs the file as it was, also where the change itself would be skipped.
        before = self._look(path)
        self._call(lambda stage: stage.cut(path, size_bytes, why=why))
        # In place only with one name: a truncation would shorten the file of a hard-linked backup too.
        if status.st_nlink == 1:
            return self._add(Change(kind="cut", path=path, before=before, size_bytes=size_bytes, sha256=None, why=why))
        head = (bytes(piece) for piece in pieces(path, 0, size_bytes, trusted=self._trusted))
        size_bytes, sha256 = self._receive(path, head, path, status.st_mtime_ns)
        return self._whole(path, before, size_bytes, sha256, f"{why} ({_LINKED})")

    def remove(self, path: str, *, why: str, swap: int | None = None) -> Change | None:
        """Record a deletion. Return None if there is no such file."""
        before = self._look(path)
        if before is None:
            return None
        self._call(lambda stage: stage.remove(path, why=why, swap=swap))
        change = Change(kind="remove", path=path, before=before, size_bytes=None, sha256=None, why=why, swap=swap)
        return self._add(change)

    def replay(self, stage: Stage, *, skip: int = 0, most: int | None = None) -> bool:
        """Make the same calls to another stage. Return False, and make none, if the new content was too large to keep.

        Args:
            stage: receives the calls.
            skip: number of changes at the start that are left out.
            most: number of changes after which it ends; None: all calls are made.
        """
        if self._calls is None:
            return False
        start = self._made_by[skip - 1] if skip else 0
        # By call, not by change: a call whose content was there already has made no change.
        for call in self._calls[start : None if most is None else self._made_by[most - 1] if most else 0]:
            call(stage)
        return True

    @property
    def is_kept(self) -> bool:
        """Whether `replay` is possible."""
        return self._calls is not None

    # --- overridden by a stage that writes ----------------------------------------------------------------------------
    def _receive(
        self, path: str, content: Iterable[bytes | memoryview], like: str, mtime_ns: int | None
    ) -> tuple[int, str]:
        """Return the size and SHA-256 of new content."""
        del path, like, mtime_ns
        digest, size_bytes = hashlib.sha256(), 0
        for piece in content:
            digest.update(piece)
            size_bytes += len(piece)
        return size_bytes, digest.hexdigest()

    def _discard(self, path: str) -> None:
        """Discard the content taken last, which the file has already."""

    def _add(self, change: Change) -> Change:
        self._paths.add(change.path)
        self.changes.append(change)
        self._made_by.append(len(self._calls or ()))
        return change

    # --- shared -------------------------------------------------------------------------------------------------------
    def _whole(
        self, path: str, before: Fingerprint | None, size_bytes: int, sha256: str, why: str, swap: int | None = None
    ) -> Change | None:
        if (
            # A part of a replacement is written even if nothing changes, because a start would take a replacement
            # without it as complete.
            swap is None
            and before is not None
            and before.size_bytes == size_bytes
            and whole_hash(path, self._trusted) == sha256
        ):
            self._discard(path)
            return None
        kind: ChangeKind = "create" if before is None else "replace"
        return self._add(
            Change(kind=kind, path=path, before=before, size_bytes=size_bytes, sha256=sha256, why=why, swap=swap)
        )

    def _keeping(
        self, content: Iterable[bytes | memoryview], write: Callable[[Stage, list[bytes]], object]
    ) -> Iterator[bytes | memoryview]:
        """Yield the content as it comes, and keep it while there is room."""
        kept: list[bytes] = []
        # Kept in memory up to a limit, so that an apply after a shown plan need not read and compute everything again.
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
        """Return the fingerprint of the existing file.

        Raises RefusedError for a path that no plan may change, or that this plan changes already.
        """
        around = os.path.dirname(path)
        # A path from a plan file must not lead out of the directory that the user named.
        if path != os.path.abspath(path) or self.root not in {around, os.path.dirname(around)}:
            raise RefusedError(f"is not a file of {self.root} or of a directory in it", path=path)
        # Twice would make the journal ambiguous: which of two old contents is the one to restore?
        if path in self._paths:
            raise RefusedError("is changed twice in one plan", path=path)
        return fingerprint(path, self._trusted)

    def _call(self, call: Callable[[Stage], object]) -> None:
        if self._calls is not None:
            self._calls.append(call)
