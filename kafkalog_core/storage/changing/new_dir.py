"""A new directory tree that appears whole or not at all: written under another name, fsynced, then renamed.

It replaces nothing, so it needs no journal: to undo it, delete the directory.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import NotFoundError, RefusedError, StorageError
from kafkalog_core.storage.access import may
from kafkalog_core.storage.changing.space import broker_dir_around, free_bytes
from kafkalog_core.storage.changing.writer import SUPERUSER, Attributes, WriteError
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.storage.changing.writer import Disk, NewFile

__all__ = ["NewDir", "NewTree", "TaskAttempts", "new_dir_problem", "owned"]

_SUFFIX: Final = ".kafkalog-unfinished"
_PARTS: Final = ".kafkalog-parts"
_ENDED_PARTS: Final = ".kafkalog-ended-parts"
_MAY_WRITE: Final = 0o600
_MAY_ENTER: Final = 0o700


def new_dir_problem(path: str, needs_bytes: int = 0) -> str | None:
    """Return why a new directory cannot be made there, as a clause; None: it can, as far as file metadata shows."""
    return next(_problems(os.path.abspath(path), needs_bytes), None)


def _problems(path: str, needs_bytes: int) -> Iterator[str]:
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        yield f"there is no directory {parent} to create it in"
        return
    if os.path.lexists(path):
        yield from _taken(path)
    for suffix in (_SUFFIX, _PARTS):
        if os.path.lexists(path + suffix):
            yield f"{path}{suffix} was left by a run that was interrupted; delete it first (rm -r)"
    # A directory at the top of a log directory stops a broker (LocalLog.parseTopicPartitionName).
    around = broker_dir_around(os.path.realpath(parent))
    if around is not None:
        yield f"it would be in a broker's directory, {around}; name a directory elsewhere"
    if os.statvfs(parent).f_flag & os.ST_RDONLY:
        yield f"the file system of {parent} is mounted read-only"
    if not may(parent, os.W_OK | os.X_OK):
        yield f"no permission to create a directory in {parent}"
    free = free_bytes(parent)
    if needs_bytes > free:
        yield (
            f"{needs_bytes} bytes are needed, and {free} are free on the file system of {parent}; name a directory on "
            "another one"
        )


def _taken(path: str) -> Iterator[str]:
    if os.path.islink(path) or not os.path.isdir(path):
        yield "there is a file or link of this name; name a directory that does not exist yet"
    elif os.listdir(path):
        yield "it exists and is not empty; name a directory that does not exist yet"
    elif os.path.ismount(path):
        yield "it is a mount point, which cannot be replaced; name a directory in it"


class NewTree:
    """A directory tree that is being written.

    Args:
        home: path of its directory.
        disk: performs the steps.
        like: directory whose owner and permissions the new files get, as far as this process may set them.
    """

    def __init__(self, home: str, *, disk: Disk, like: str) -> None:
        self.home = home
        self._disk = disk
        self._like = like
        files, directories = Attributes.of_new_file(like), Attributes.of(like)
        # The writer itself must be able to write what it creates, whatever mode the model has.
        self._of_files = owned(replace(files, mode=files.mode | _MAY_WRITE))
        self._of_directories = owned(replace(directories, mode=directories.mode | _MAY_ENTER))
        self._files: dict[str, NewFile] = {}
        self._directories: list[str] = []

    # --- content ------------------------------------------------------------------------------------------------------
    def make_home(self) -> None:
        """Create the tree's own directory. Raises WriteError."""
        self._disk.make_directory(self.home, self._of_directories)
        self._directories.append(self.home)

    def directory(self, name: str) -> None:
        """Create a directory in it. Raises WriteError."""
        self._make(self._inside(name))

    def begin(self, name: str) -> NewFile:
        """Create a file that is written piece by piece until `end`. Raises WriteError."""
        path = self._inside(name)
        file = self._disk.new_file(path)
        self._files[path] = file
        return file

    def end(self, file: NewFile, *, mtime_ns: int | None = None) -> None:
        """Fsync a file that is complete, and read it back. Raises WriteError."""
        file.finish(self._of_files, mtime_ns)

    @contextmanager
    def file(self, name: str, *, mtime_ns: int | None = None) -> Iterator[NewFile]:
        """Yield a new file that is complete when the context ends. Raises WriteError."""
        file = self.begin(name)
        yield file
        self.end(file, mtime_ns=mtime_ns)

    def add(self, name: str, content: bytes | Iterable[bytes], *, mtime_ns: int | None = None) -> None:
        """Write a file with this content. Raises WriteError."""
        with self.file(name, mtime_ns=mtime_ns) as file:
            for piece in (content,) if isinstance(content, bytes) else content:
                file.write(piece)

    def sync(self) -> None:
        """Fsync all names in it. Raises WriteError."""
        # From the innermost directory outwards: a name is durable after its content.
        for directory in reversed(self._directories):
            self._disk.sync_directory(directory)

    def discard(self) -> None:
        """Delete all that was written, as far as possible."""
        for path, file in reversed(self._files.items()):
            file.close()
            with suppress(StorageError):
                self._disk.unlink(path)
        for path in reversed(self._directories):
            with suppress(StorageError):
                self._disk.remove_directory(path)

    # --- below --------------------------------------------------------------------------------------------------------
    def _inside(self, name: str) -> str:
        # `..` in a name would write outside the tree.
        parts = name.split("/")
        if not all(parts) or {".", ".."} & {*parts}:
            raise NotFoundError(f"{name!r} is not a valid path in a new directory", path=self.home)
        return f"{self.home}/{name}"

    def _make(self, path: str) -> None:
        self._directories.append(path)
        self._disk.make_directory(path, self._of_directories)


class NewDir(NewTree):
    """A directory tree that appears whole or not at all. Leaving the context without a commit deletes it.

    Args:
        path: path of the directory; it must not exist, or be empty.
        disk: see `NewTree`.
        like: see `NewTree`.
        needs_bytes: space that is needed at least, in bytes.
    """

    def __init__(self, path: str, *, disk: Disk, like: str, needs_bytes: int = 0) -> None:
        self.path = os.path.abspath(path)
        super().__init__(self.path + _SUFFIX, disk=disk, like=like)
        self._needs_bytes = needs_bytes
        self._parts: str | None = None
        self._has_adopted = False
        self._is_committed = False

    def __enter__(self) -> Self:
        problem = new_dir_problem(self.path, self._needs_bytes)
        if problem is not None:
            raise RefusedError(problem, path=self.path)
        try:
            self._make(self.home)
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._end_parts()
        if self._is_committed:
            return
        # Files that other processes wrote are not in `_files`.
        if self._has_adopted:
            _remove_all(self._disk, self.home)
        self.discard()

    # --- written by other processes -----------------------------------------------------------------------------------
    def task_attempts(self) -> TaskAttempts:
        """Return where worker processes write directories of it, each by itself, for `adopt`. Raises WriteError."""
        if self._parts is None:
            self._parts = self.path + _PARTS
            self._disk.make_directory(self._parts, self._of_directories)
        return TaskAttempts(path=self._parts, like=self._like)

    def adopt(self, home: str, name: str) -> None:
        """Move a directory that an attempt has written into the tree. Raises WriteError."""
        path = self._inside(name)
        self._has_adopted = True
        # One rename: the directory of a task appears whole, on the same file system.
        self._disk.rename(f"{home}/{name}", path)
        self._directories.append(path)

    def commit(self) -> None:
        """Fsync all names, then rename the directory to its own name: it exists from here on. Raises WriteError."""
        # All content and names are on disk before the directory gets its final name.
        self.sync()
        self._disk.rename(self.home, self.path)
        self._is_committed = True
        # And the new name with its parent.
        self._disk.sync_directory(os.path.dirname(self.path))

    def _end_parts(self) -> None:
        """Delete what was not adopted: of workers that died or were too late.

        A worker still at work finds no directory.
        """
        if self._parts is None:
            return
        ended = self.path + _ENDED_PARTS
        _remove_all(self._disk, ended)  # if an earlier run could not delete all of it
        with suppress(StorageError):
            # Renamed first: workers that are still at work find no directory from here on.
            self._disk.rename(self._parts, ended)
        for path in (ended, self._parts):
            _remove_all(self._disk, path)


class TaskAttempts(Struct, frozen=True, kw_only=True):
    """A directory in which several processes write parts of a new directory, each attempt in its own directory.

    Args:
        path: path of the directory.
        like: see `NewTree`.
    """

    path: str
    like: str

    @contextmanager
    def tree(self, name: str, disk: Disk) -> Iterator[NewTree]:
        """Yield the tree of one attempt, which is deleted if it fails. Raises WriteError."""
        tree = self._begun(name, disk)
        try:
            yield tree
        except BaseException:
            tree.discard()
            raise

    def _begun(self, name: str, disk: Disk) -> NewTree:
        numbers = count(1)
        while True:
            tree = NewTree(f"{self.path}/{name}.{next(numbers)}", disk=disk, like=self.like)
            try:
                tree.make_home()
            except WriteError as error:
                if error.errno != errno.EEXIST:
                    raise
                # Another attempt at the same has begun, and may have died
                continue
            return tree


def _remove_all(disk: Disk, path: str) -> None:
    """Delete a directory with all its content, as far as possible."""
    for place, directories, files in os.walk(path, topdown=False):
        for step, names in ((disk.unlink, files), (disk.remove_directory, directories)):
            for name in names:
                with suppress(StorageError):
                    step(f"{place}/{name}")
    with suppress(StorageError):
        disk.remove_directory(path)


def owned(attributes: Attributes) -> Attributes:
    """Return attributes with an owner that this process may set: root any, other users themselves."""
    if os.geteuid() == SUPERUSER:
        return attributes
    is_group_free = attributes.gid in {os.getegid(), *os.getgroups()}
    return replace(attributes, uid=os.geteuid(), gid=attributes.gid if is_group_free else os.getegid())
