"""The lock of a log directory, held while its files are changed: a broker that starts meanwhile refuses to.

Brokers lock `.lock` with a POSIX record lock over the whole file. Such a lock belongs to the process and is gone as
soon as the process closes the file anywhere, so that nothing else in this project may open it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import AccessError, LockedError
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.storage.changing.attributes import Attributes
from kafkalog_core.storage.changing.writer import WriteError
from kafkalog_core.storage.logdir import is_broker_dir
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["LogDirLocks", "file_lock_holder", "lock_holder", "locked_dirs"]

_NAME: Final = fixed_file_name(FileKind.LOCK)
_HELD: Final = frozenset({errno.EAGAIN, errno.EACCES})
_OWNER_BITS: Final = 0o600
_READ_BITS: Final = 0o044
_SUPERUSER: Final = 0
_LOCKS: Final = "/proc/locks"


def locked_dirs(paths: Iterable[str]) -> list[str]:
    """The log directories that paths are, or are in, where links lead included; those that have a lock or need one.

    A lock tells one by itself only where it is in the path or right above it: other programs name files so too.
    """
    near: set[str] = set()
    above: set[str] = set()
    for path in paths:
        for spelling in (os.path.abspath(path), os.path.realpath(path)):
            near |= {spelling, os.path.dirname(spelling)}
            around = os.path.dirname(spelling)
            while around not in above:
                above.add(around)
                around = os.path.dirname(around)
    found: dict[tuple[int, int], str] = {}
    for directory in sorted(near | above):
        if is_broker_dir(directory) or (directory in near and os.path.lexists(f"{directory}/{_NAME}")):
            status = os.stat(directory)
            found.setdefault((status.st_dev, status.st_ino), directory)
    return list(found.values())


def lock_holder(directory: str) -> str | None:
    """Who holds the lock of a log directory, e.g. `process 4711 (java)`; null: nobody, or the system does not tell."""
    return file_lock_holder(f"{directory}/{_NAME}")


def file_lock_holder(path: str) -> str | None:
    """The same of any file that somebody may hold a POSIX lock of."""
    try:
        status = os.stat(path)
        with open(_LOCKS, encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        words = line.split()
        if name in words and "POSIX" in words and "->" not in words:
            pid = words[words.index(name) - 1]
            return None if pid == str(os.getpid()) else _process(pid)
    return None


def _process(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="backslashreplace") as file:
            return f"process {pid} ({file.read().strip()})"
    except OSError:
        return f"process {pid}"


class LogDirLocks:
    """The locks of some log directories, held while entered. The files stay, as brokers leave them.

    Raises LockedError where one is held, AccessError where it cannot be locked.
    """

    def __init__(self, directories: Iterable[str], disk: Disk) -> None:
        self._directories = tuple(directories)
        self._disk = disk
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for directory in self._directories:
                path = f"{directory}/{_NAME}"
                if not os.path.lexists(path):
                    self._make(directory, path)
                stack.callback(os.close, _locked(directory, path))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def _make(self, directory: str, path: str) -> None:
        """A lock that is there at once with an owner who can open it: a broker that cannot takes the directory offline.

        It is made under another name first, since whoever starts at this moment must not find one of ours.
        """
        status = Attributes.of(directory)
        if os.geteuid() not in {_SUPERUSER, status.uid}:
            raise AccessError(
                f"there is none yet, and one of yours would keep user {status.uid} out, who owns the directory; "
                f"run this as that user, or as root",
                path=path,
            )
        attributes = Attributes(uid=status.uid, gid=status.gid, mode=_OWNER_BITS | (status.mode & _READ_BITS))
        temporary = f"{directory}/kafkalog-lock.{os.getpid()}.tmp"
        self._disk.write_file(temporary, (), attributes, None)
        try:
            if not self._disk.link(temporary, path):
                self._disk.write_file(path, (), attributes, None)
        except WriteError as error:
            if error.errno != errno.EEXIST:  # else somebody made one at this moment
                raise
        finally:
            self._disk.unlink(temporary)
        self._disk.sync_directory(directory)


def _locked(directory: str, path: str) -> int:
    """An open file whose lock is held."""
    try:
        number = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EROFS:
            raise AccessError("cannot be locked: the file system is mounted read-only", path=path) from error
        if error.errno in {errno.EACCES, errno.EPERM}:
            raise AccessError(
                "cannot be locked: no permission to write it; run this as the broker's user, or as root", path=path
            ) from error
        raise open_error(path, error) from error
    try:
        fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = lock_holder(directory)  # before the file is closed: it is not ours
        os.close(number)
        if error.errno not in _HELD:
            reason = (error.strerror or str(error)).lower()
            raise AccessError(f"cannot be locked: {reason}", path=path) from error
        raise LockedError(
            f"held by {holder or 'another process'}, most likely a running broker. Stop it, and run the same command "
            "again; nothing has been changed",
            path=path,
        ) from error
    return number
