"""The lock of a log directory, held while its files are changed: a broker that is started meanwhile stops.

Brokers lock `.lock` with a POSIX record lock over the whole file. Such a lock belongs to the process and is released as
soon as the process closes the file anywhere, so nothing else in kafkalog may open it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import ExitStack, suppress
from threading import Event
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import AccessError, LockedError, NotFoundError
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import SUPERUSER, Attributes, WriteError
from kafkalog_core.storage.locks import OWN_LOCK, Holder, file_lock_holder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["LogDirLocks"]

_NAME: Final = fixed_file_name(FileKind.LOCK)
_HELD: Final = frozenset({errno.EAGAIN, errno.EACCES})
_PREFIX: Final = "kafkalog-lock."
_SUFFIX: Final = ".tmp"
_TRIES: Final = 200
_PAUSE_SECONDS: Final = 0.01


class LogDirLocks:
    """Locks of log directories, and of directories outside any log directory, held while entered.

    A lock file that this process created is deleted at the end.

    Args:
        directories: log directories, whose lock is that of the brokers.
        disk: performs the steps.
        outside: directories with a lock of kafkalog's own, which no broker reads.

    Raises:
        StorageError: a lock is held (LockedError) or cannot be taken (AccessError).
    """

    def __init__(self, directories: Iterable[str], disk: Disk, outside: Iterable[str] = ()) -> None:
        self._directories = tuple(directories)
        self._outside = tuple(outside)
        self._disk = disk

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for directory in self._directories:
                # LogManager.lockLogDirs takes `.lock` in each log directory, and a broker that finds it locked stops.
                stack.enter_context(_BrokerLock(directory, self._disk))
            for directory in self._outside:
                stack.enter_context(_OwnLock(directory, self._disk))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()


class _BrokerLock:
    """The lock of one log directory, held while entered."""

    def __init__(self, directory: str, disk: Disk) -> None:
        self._directory = directory
        self._path = f"{directory}/{_NAME}"
        self._disk = disk
        self._trusted = TrustedDirectories([directory])

    def __enter__(self) -> None:
        with self._disk.within(self._trusted):
            # Created only if it is missing: brokers never delete it.
            is_made = not self._trusted.exists(self._path) and self._make()
            self._descriptor = _locked(self._trusted, self._path)
            self._is_made = is_made
            self._sweep()

    def __exit__(self, *error: object) -> None:
        try:
            if self._is_made:
                self._remove()
        finally:
            # Closing releases the lock: POSIX locks end with the first close of the file in the process (fcntl(2)).
            os.close(self._descriptor)

    def _make(self) -> bool:
        """Create a lock file with an owner who can open it. Return whether this process created it.

        A broker that cannot open it takes the directory offline. It is first created under another name, because a
        broker that starts at this moment must not find one of the wrong owner.
        """
        attributes = Attributes.of_new_file(self._directory, self._trusted)
        # A `.lock` that the broker may not open takes the log directory offline.
        if os.geteuid() not in {SUPERUSER, attributes.uid}:
            raise AccessError(
                f"does not exist yet, and user {attributes.uid}, who owns the directory, could not open one of yours; "
                f"run this as that user, or as root",
                path=self._path,
            )
        temporary = f"{self._directory}/{_PREFIX}{os.getpid()}{_SUFFIX}"
        # An earlier process with this process ID was killed
        if self._trusted.exists(temporary):
            self._disk.unlink(temporary)
        try:
            self._disk.write_file(temporary, (), attributes, None)
            is_ours = self._put(temporary, attributes)
        finally:
            if self._trusted.exists(temporary):
                self._disk.unlink(temporary)
        self._disk.sync_directory(self._directory)
        return is_ours

    def _put(self, temporary: str, attributes: Attributes) -> bool:
        """Give the lock file its name, or create it if there are no hard links. Return False if it exists by now."""
        try:
            # A hard link gives the complete file its name at once, and fails if a broker was faster.
            if self._disk.link(temporary, self._path):
                return True
            # Without hard links the file is visible before it has its owner; that is the best there is.
            file = self._disk.new_file(self._path)
        except WriteError as error:
            if error.errno == errno.EEXIST:
                return False
            raise
        try:
            with file:
                file.finish(attributes, None)
        # A broker that cannot open what is left takes the directory offline
        except WriteError:
            with suppress(WriteError):
                self._disk.unlink(self._path)
            raise
        return True

    def _sweep(self) -> None:
        """Delete what a process left that was killed while it created a lock file.

        One that is at work finds the lock of this process.
        """
        for name in self._trusted.names(self._directory):
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                with suppress(WriteError):
                    self._disk.unlink(f"{self._directory}/{name}")

    def _remove(self) -> None:
        """Delete a lock file that this process created.

        A broker may have opened the file just before it is deleted, and would then lock a file that no other process
        can find. So the lock is held until no other process has the file open: the broker finds it locked, and stops.
        """
        status = self._trusted.status(self._path)
        # Another process has replaced the file: what is there is not ours to delete.
        if status is None or not os.path.samestat(status, os.fstat(self._descriptor)):
            return
        with suppress(WriteError), self._disk.within(self._trusted):
            # Unlinked while locked, see above: a broker that has it open already fails to lock it.
            self._disk.unlink(self._path)
            pause = Event()
            for _ in range(_TRIES):
                if _is_alone(self._descriptor):
                    break
                pause.wait(_PAUSE_SECONDS)


class _OwnLock:
    """A lock file of kafkalog's in a directory that no broker locks, held while entered.

    No broker reads its name, should the directory be moved into a log directory meanwhile.
    """

    def __init__(self, directory: str, disk: Disk) -> None:
        self._directory = directory
        self._path = f"{directory}/{OWN_LOCK}"
        self._disk = disk
        self._trusted = TrustedDirectories([directory])

    def __enter__(self) -> None:
        with self._disk.within(self._trusted):
            for _ in range(_TRIES):
                self._make()
                try:
                    self._descriptor = _locked(self._trusted, self._path)
                except NotFoundError:
                    # The process that held it has deleted it
                    continue
                # A file that lost its name between open and lock protects nothing.
                if self._is_there():
                    return
                os.close(self._descriptor)
        raise LockedError("is held by one process after another; run the same command again", path=self._path)

    def __exit__(self, *error: object) -> None:
        try:
            with suppress(WriteError), self._disk.within(self._trusted):
                if self._is_there():
                    # First: a process that opens it now finds that it has no name, and tries again.

                    self._disk.unlink(self._path)
        finally:
            os.close(self._descriptor)

    def _make(self) -> None:
        if self._trusted.exists(self._path):
            return
        is_root = os.geteuid() == SUPERUSER
        attributes = Attributes.of_new_file(self._directory, self._trusted) if is_root else None
        try:
            self._disk.write_file(self._path, (), attributes, None)
        except WriteError as error:
            if error.errno not in {errno.EEXIST, errno.ENOENT}:
                raise AccessError(
                    f"{error.message}, and without it two runs of kafkalog could change the same files; run this as "
                    "the owner of the directory, or as root",
                    path=self._path,
                ) from error

    def _is_there(self) -> bool:
        status = self._trusted.status(self._path)
        return status is not None and os.path.samestat(status, os.fstat(self._descriptor))


def _is_alone(descriptor: int) -> bool:
    """Return whether no other process has the file open: only then Linux grants a write lease (`F_SETLEASE`)."""
    try:
        # A lease is refused while anybody else has the file open: the only way to ask that without /proc of other
        # users.
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        return error.errno not in _HELD
    except AttributeError:  # not on Linux
        return True
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


def _locked(trusted: TrustedDirectories, path: str) -> int:
    """Return the descriptor of a file whose lock this process now holds. Raises LockedError or AccessError."""
    descriptor = _opened(trusted, path)
    try:
        # Without waiting: a broker holds it for days.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Before the file is closed: it is not ours
        holder = file_lock_holder(path)
        os.close(descriptor)
        if error.errno not in _HELD:
            reason = (error.strerror or str(error)).lower()
            raise AccessError(f"cannot be locked: {reason}", path=path) from error
        holder = holder or Holder("another process", "other" if path.endswith(f"/{_NAME}") else "kafkalog")
        raise LockedError(
            f"held by {holder.sentence}. {holder.advice}, and run the same command again; nothing has been changed",
            path=path,
        ) from error
    return descriptor


def _opened(trusted: TrustedDirectories, path: str) -> int:
    name, directory = trusted.at(path)
    try:
        # Not through a link, and not blocked by a FIFO that somebody has put there.
        descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.EROFS:
            raise AccessError("cannot be locked: the file system is mounted read-only", path=path) from error
        if error.errno == errno.ELOOP:
            raise AccessError("cannot be locked: it is a symbolic link; delete it", path=path) from error
        if error.errno in {errno.EACCES, errno.EPERM}:
            raise AccessError(
                "cannot be locked: no permission to write it; run this as the broker's user, or as root", path=path
            ) from error
        raise open_error(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise AccessError("cannot be locked: it is not a regular file; delete it", path=path)
    return descriptor
