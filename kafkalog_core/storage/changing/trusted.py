"""The directories that the user named, held open: every file that is changed is reached from one of them.

The owner of a log directory can rename and link files in it at any moment, while kafkalog often runs as root. So
kafkalog does not pass a whole path to the system: it opens each directory below a named one by its own name relative to
the one above (`openat` with `O_NOFOLLOW`), and the file relative to the last of them. It records each directory that it
has opened by device and inode, and refuses another one in its place. Only the path that the user typed may contain
links.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.source import READ_FLAGS, Source

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ANYWHERE", "LinkError", "TrustedDirectories"]

_KEPT_OPEN: Final = 64
"""The descriptor of directories that are kept open.

A log directory may have more partitions than a process may have open files.
"""
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)

Identity = tuple[int, int]


class LinkError(RefusedError):
    """A directory below a named one is a symbolic link; `target` is where it leads."""

    def __init__(self, path: str, target: str) -> None:
        super().__init__(
            f"is a symbolic link to {target}, which is not followed below a directory that was named", path=path
        )
        self.target = target


class TrustedDirectories:
    """Directories that the user named. Every path given to a method is absolute and without `.` and `..`.

    Thread-safe.

    Attributes:
        lock: hold it from `at` or `directory` to the system call that uses the descriptor.

    Args:
        named: absolute paths; None: every directory of the system counts as named, for changes whose paths do not come
            from a file.
        follows_links: whether a link below a named directory is followed the first time and from then on is that
            directory: for a search that changes nothing.

    Raises:
        StorageError: a named directory does not exist (NotFoundError) or cannot be read (AccessError).
    """

    def __init__(self, named: Iterable[str] | None, *, follows_links: bool = False) -> None:
        self._is_anywhere = named is None
        self._follows_links = follows_links
        self._open: OrderedDict[str, int] = OrderedDict()
        self._known: dict[str, Identity] = {}
        self._named: dict[str, Identity] = {}
        self.lock = threading.RLock()
        for path in named or ():
            self._named[path] = _identity_of(path)
        # Descriptors are closed with the object, also after an exception.
        weakref.finalize(self, _close, self._open)

    @property
    def named(self) -> tuple[str, ...]:
        """The directories that the user named."""
        return tuple(self._named)

    def holds(self, path: str) -> bool:
        """Return whether a path is a named directory, or below one by its text."""
        return self._is_anywhere or any(path == each or path.startswith(f"{each}/") for each in self._named)

    # --- where a path is ----------------------------------------------------------------------------------------------
    def at(self, path: str) -> tuple[str, int | None]:
        """Return name and directory (an open descriptor) of a file, for the `dir_fd` of system calls.

        The descriptor is valid until other directories are asked for, by any thread. Raises LinkError, RefusedError,
        NotFoundError or AccessError.
        """
        try:
            return self._at(path)
        except OSError as error:
            # With the real path in the message, not only the name relative to a descriptor.
            raise open_error(path, error) from error

    def directory(self, path: str) -> int:
        """Return an open descriptor of a directory. Raises as `at`."""
        try:
            return self._directory(path)
        except OSError as error:
            raise open_error(path, error) from error

    def open_directory(self, path: str) -> int:
        """Return a descriptor of a directory that the caller closes. Raises OSError or RefusedError."""
        if self._is_anywhere:
            return os.open(path, _DIRECTORY)
        with self.lock:
            return os.dup(self._directory(path))

    def open_anything(self, path: str) -> int:
        """Return a descriptor of a regular file or directory that the caller closes. Raises OSError or RefusedError."""
        if self._is_anywhere:
            return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        status = self.status(path)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        # A FIFO or a device would block or act on open.
        if not stat.S_ISREG(status.st_mode):
            return self.open_directory(path)
        with self.lock:
            name, directory = self._at(path)
            return os.open(name, READ_FLAGS, dir_fd=directory)

    def forget(self, path: str) -> None:
        """Drop the descriptor and the identity of a directory that this process has removed or renamed."""
        with self.lock:
            self._known.pop(path, None)
            descriptor = self._open.pop(path, None)
            if descriptor is not None:
                os.close(descriptor)

    def _at(self, path: str) -> tuple[str, int | None]:
        if self._is_anywhere:
            return path, None
        if path in self._named:
            # A named directory has no name relative to another one.
            return ".", self._directory(path)
        return os.path.basename(path), self._directory(os.path.dirname(path))

    def _directory(self, path: str) -> int:
        descriptor = self._open.get(path)
        if descriptor is not None:
            self._open.move_to_end(path)
            return descriptor
        # Opened before it is compared: afterwards it cannot be exchanged any more.
        descriptor = self._opened(path)
        status = os.fstat(descriptor)
        identity = status.st_dev, status.st_ino
        if self._known.setdefault(path, self._named.get(path, identity)) != identity:
            os.close(descriptor)
            raise RefusedError(
                "has just been replaced by another directory; stop the process that did so and run the "
                "same command again",
                path=path,
            )
        self._open[path] = descriptor
        # The oldest descriptor is closed; its identity is remembered, so a swap in between is still noticed.
        if len(self._open) > _KEPT_OPEN:
            os.close(self._open.popitem(last=False)[1])
        return descriptor

    def _opened(self, path: str) -> int:
        if path in self._named:
            return os.open(path, _DIRECTORY)
        # Normalized by text: `..` could leave the named directory without a link.
        if not self.holds(path) or os.path.normpath(path) != path or path == os.path.dirname(path):
            raise RefusedError(
                "is outside the directories that were named on the command line; name the log directory itself",
                path=path,
            )
        above, name = self._directory(os.path.dirname(path)), os.path.basename(path)
        try:
            return os.open(name, _DIRECTORY | _NO_LINK, dir_fd=above)
        except OSError:
            # O_NOFOLLOW reports a link as an error of several kinds, so the name is looked at.
            if not _is_link(name, above):
                raise
        descriptor = os.open(name, _DIRECTORY, dir_fd=above)
        status = os.fstat(descriptor)
        # A link to another directory that the user named is as good as that name.
        if self._follows_links or (status.st_dev, status.st_ino) in self._named.values():
            return descriptor
        os.close(descriptor)
        raise LinkError(path, os.path.realpath(path))

    # --- what is there ------------------------------------------------------------------------------------------------
    def status(self, path: str) -> os.stat_result | None:
        """Return the status of the file of this name, without following a link; None: there is none. Raises as `at`."""
        try:
            with self.lock:
                name, directory = self._at(path)
                return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise open_error(path, error) from error

    def exists(self, path: str) -> bool:
        """Return whether anything has this name, a link that leads nowhere too. Raises as `at`."""
        return self.status(path) is not None

    def is_directory(self, path: str) -> bool:
        """Return whether it is a directory, and not a link that may not be followed. Raises RefusedError."""
        try:
            with self.lock:
                self._directory(path)
        except OSError:
            return False
        return True

    def device(self, path: str) -> int:
        """Return the device descriptor of the file system that a directory is on. Raises as `at`."""
        with self.lock:
            return os.fstat(self.directory(path)).st_dev

    def is_same(self, path: str, other: str) -> bool:
        """Return whether two names belong to one file; false if one of them does not exist. Raises as `at`."""
        first, second = self.status(path), self.status(other)
        return first is not None and second is not None and os.path.samestat(first, second)

    def has_other_names(self, path: str) -> bool:
        """Return whether a file has another hard link. Raises as `at`."""
        status = self.status(path)
        return status is not None and status.st_nlink > 1

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted. Raises as `at`."""
        try:
            with self.lock:
                return sorted(os.listdir(self._directory(path)))
        except OSError as error:
            raise open_error(path, error) from error

    def source(self, path: str) -> Source:
        """Return a regular file, opened for reading; a link is not followed. Raises as `at`."""
        with self.lock:
            name, directory = self.at(path)
            return Source.open(path) if directory is None else Source.open_at(path, name, directory)


def _identity_of(path: str) -> Identity:
    try:
        status = os.stat(path)
    except OSError as error:
        raise open_error(path, error) from error
    return status.st_dev, status.st_ino


def _is_link(name: str, directory: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def _close(opened: OrderedDict[str, int]) -> None:
    while opened:
        os.close(opened.popitem()[1])


ANYWHERE: Final = TrustedDirectories(None)
"""For changes whose paths do not come from a file."""
