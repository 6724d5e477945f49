"""The only module that changes a broker's disk: every write, rename, link, truncation and fsync, one method each.

No other module writes to a broker's file. `lock.py` alone also opens one for writing, `.lock`, because a POSIX write
lock requires it. A test that wraps `Disk` observes, delays or fails each of these steps, or ends the process there.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import os
import stat
import sys
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import AccessError, RefusedError, StorageError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.changing.trusted import ANYWHERE
from kafkalog_core.storage.source import READ_FLAGS, WINDOW_BYTES
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalog_core.storage.changing.trusted import TrustedDirectories

__all__ = ["SUPERUSER", "Attributes", "Disk", "NewFile", "WriteError", "extended_attributes"]


Result = TypeVar("Result")

_NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_WRITTEN: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPENDED: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_TEMPORARY: Final = ".tmp"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_ONLY_MINE: Final = 0o600
"""Permissions of a file until its owner is set: no other user can open it before that."""


class WriteDigest(Protocol):
    """A hash or checksum with the interface of hashlib's objects."""

    def update(self, piece: bytes | memoryview, /) -> None:
        """Add more bytes."""

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far, in hexadecimal."""


class Crc32c:
    """A CRC-32C as a digest, for files whose hash is not needed: it costs almost nothing."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, piece: bytes | memoryview, /) -> None:
        """Add more bytes."""
        self._value = crc32c(piece, self._value)

    def hexdigest(self) -> str:
        """Return the checksum of all bytes so far, in hexadecimal."""
        return f"{self._value:08x}"


class WriteError(AccessError):
    """The system refused a step that changes a disk; `errno` holds the reason.

    `is_undone`: it was an append, and the file is as it was before.
    """

    def __init__(self, message: str, *, path: str, number: int | None) -> None:
        super().__init__(message, path=path)
        self.errno = number
        self.is_undone = False

    @property
    def is_full(self) -> bool:
        """Whether the file system or the quota has no space left."""
        return self.errno in _FULL


class Disk:
    """The steps that change a disk. Each raises WriteError if the system refuses it."""

    trusted: TrustedDirectories = ANYWHERE
    """The directories from which paths are resolved; see `within`."""

    @contextmanager
    def within(self, trusted: TrustedDirectories) -> Iterator[None]:
        """Restrict all changes to what is reached from these directories without a link.

        Steps may then raise RefusedError.
        """
        before, self.trusted = self.trusted, trusted
        try:
            yield
        finally:
            self.trusted = before

    def step(self, what: str, path: str) -> None:
        """Do nothing; called before each step, so that a test can fail or end there."""

    # --- files --------------------------------------------------------------------------------------------------------
    def write_file(
        self, path: str, content: Iterable[bytes | memoryview], attributes: Attributes | None, mtime_ns: int | None
    ) -> tuple[int, str]:
        """Create a file, fsync it and read it back. Return its size in bytes and its SHA-256.

        A file of that name is an error.

        Args:
            path: path of the new file.
            content: the bytes, in pieces.
            attributes: owner and permissions; None: those that a new file of this process has.
            mtime_ns: modification time; None: the time of the writing.
        """
        with self.new_file(path, hashlib.sha256) as file:
            for piece in content:
                file.write(piece)
            return file.finish(attributes, mtime_ns)

    def new_file(self, path: str, new_digest: Callable[[], WriteDigest] = Crc32c) -> NewFile:
        """Create a file that is written piece by piece, and return it open. A file of that name is an error."""
        descriptor = self._do("create", path, lambda: self._open(path, _NEW))
        return NewFile(self, path, descriptor, new_digest)

    def extend(self, path: str, position: int, content: Iterable[bytes | memoryview], mtime_ns: int) -> None:
        """Write from a position to the new end of a file, fsync it and restore the modification time."""
        descriptor = self._do("open", path, lambda: self._open(path, _WRITTEN))
        try:
            _check_alone(descriptor, path)
            os.lseek(descriptor, position, os.SEEK_SET)
            for piece in content:
                self.write(descriptor, path, piece)
            self._do("fsync", path, lambda: _sync(descriptor))
            self._do("utime", path, lambda: os.utime(descriptor, ns=(mtime_ns, mtime_ns)))
            self._do("fsync", path, lambda: _sync(descriptor))
        finally:
            os.close(descriptor)

    def cut(self, path: str, size_bytes: int, mtime_ns: int) -> None:
        """Truncate a file in place, and restore the modification time."""
        descriptor = self._do("open", path, lambda: self._open(path, _WRITTEN))
        try:
            _check_alone(descriptor, path)
            self._do("truncate", path, lambda: os.ftruncate(descriptor, size_bytes))
            self._do("utime", path, lambda: os.utime(descriptor, ns=(mtime_ns, mtime_ns)))
            self._do("fsync", path, lambda: _sync(descriptor))
        finally:
            os.close(descriptor)

    # --- a log that a live broker appends to --------------------------------------------------------------------------
    def open_log(self, path: str) -> int:
        """Open a file for appends, create it if it is missing, and return its descriptor, which reads it too."""
        return self._do("open", path, lambda: self._open(path, _APPENDED))

    def new_log(self, path: str, attributes: Attributes) -> int:
        """Create a file for appends, and return its descriptor, which reads it too. A file of that name is an error.

        Nothing is fsynced: that comes with the first `sync` of what is appended.
        """
        descriptor = self._do("create", path, lambda: self._open(path, _APPENDED | os.O_EXCL))
        try:
            self._set_attributes(descriptor, path, attributes)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def append(self, descriptor: int, path: str, data: bytes | memoryview, size_bytes: int) -> None:
        """Append to a file of `size_bytes`; where the system refuses a part, the file is truncated to that size.

        Raises WriteError, whose `is_undone` is false if it cannot be truncated: then a torn batch may be at its end.
        """
        try:
            self.write(descriptor, path, data)
        except WriteError as error:
            self._do("truncate", path, lambda: os.ftruncate(descriptor, size_bytes))
            error.is_undone = True
            raise

    def sync(self, descriptor: int, path: str) -> None:
        """Fsync an open file."""
        self._do("fsync", path, lambda: _sync(descriptor))

    def replace_file(self, path: str, content: bytes, like: str) -> None:
        """Write a small file that is old or new after a crash, with the owner and group of `like`."""
        directory, temporary = os.path.dirname(path), self.temporary(path)
        if self.trusted.exists(temporary):
            self.unlink(temporary)
        self.write_file(temporary, (content,), Attributes.of_new_file(like, self.trusted), None)
        self.rename(temporary, path)
        self.sync_directory(directory)

    @staticmethod
    def temporary(path: str) -> str:
        """Return the path of the file that `replace_file` writes first."""
        directory, name = os.path.split(path)
        return f"{directory}/kafkalog-{name}{_TEMPORARY}"

    def sync_file(self, path: str) -> None:
        """Fsync a file that another library, or a broker, has written."""
        descriptor = self._do("open", path, lambda: self._open(path, READ_FLAGS))
        try:
            self._do("fsync", path, lambda: _sync(descriptor))
        finally:
            os.close(descriptor)

    # --- names --------------------------------------------------------------------------------------------------------
    def rename(self, path: str, new_path: str) -> None:
        """Rename a file, and replace the file that has the new name."""
        self._do("rename", new_path, lambda: self._rename(path, new_path))

    def link(self, path: str, new_path: str) -> bool:
        """Create a hard link to a file. Return False if the file system cannot."""
        try:
            self._do("link", new_path, lambda: self._link(path, new_path))
        except WriteError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        return True

    def unlink(self, path: str) -> None:
        """Delete a file."""
        self._do("unlink", path, lambda: self._unlink(path))

    def make_directory(self, path: str, attributes: Attributes | None) -> None:
        """Create a directory whose owner may read, write and enter it.

        `attributes` is None for those that a new directory of this process has.
        """
        self._do("mkdir", path, lambda: self._mkdir(path, 0o777 if attributes is None else 0o700))
        if attributes is None:
            return
        try:
            descriptor = self._do("open", path, lambda: self.trusted.open_directory(path))
            try:
                self._set_attributes(descriptor, path, attributes)
            finally:
                os.close(descriptor)
        except BaseException:
            with suppress(StorageError):
                self.remove_directory(path)
            raise

    def delete_directory(self, path: str) -> None:
        """Delete the files in a directory, then itself; a directory that holds a directory is kept with that.

        No link is followed: one in it is deleted as a file is, and one in its place is refused.
        """
        is_empty = True
        for name in self.trusted.names(path):
            status = self.trusted.status(f"{path}/{name}")
            if status is not None and stat.S_ISDIR(status.st_mode):
                is_empty = False
            elif status is not None:
                self.unlink(f"{path}/{name}")
        if is_empty:
            self.remove_directory(path)

    def remove_directory(self, path: str) -> None:
        """Delete an empty directory."""
        self._do("rmdir", path, lambda: self._rmdir(path))

    def sync_directory(self, path: str) -> None:
        """Fsync the names in a directory."""
        descriptor = self._do("open", path, lambda: self.trusted.open_directory(path))
        try:
            self._do("fsync", path, lambda: _sync(descriptor))
        finally:
            os.close(descriptor)

    # --- below --------------------------------------------------------------------------------------------------------
    def write(self, descriptor: int, path: str, piece: bytes | memoryview) -> None:
        """Write all bytes of a piece, in as many system calls as it takes."""
        rest = memoryview(piece)
        while rest:
            written = self._do("write", path, partial(self._put, descriptor, rest))
            rest = rest[written:]

    def _open(self, path: str, flags: int) -> int:
        with self.trusted.lock:
            name, directory = self.trusted.at(path)
            return os.open(name, flags, _ONLY_MINE, dir_fd=directory)

    def _rename(self, path: str, new_path: str) -> None:
        with self.trusted.lock:
            old, old_directory = self.trusted.at(path)
            new, new_directory = self.trusted.at(new_path)
            os.rename(old, new, src_dir_fd=old_directory, dst_dir_fd=new_directory)
            self.trusted.forget(path)
            self.trusted.forget(new_path)

    def _link(self, path: str, new_path: str) -> None:
        with self.trusted.lock:
            old, old_directory = self.trusted.at(path)
            new, new_directory = self.trusted.at(new_path)
            os.link(old, new, src_dir_fd=old_directory, dst_dir_fd=new_directory, follow_symlinks=False)

    def _unlink(self, path: str) -> None:
        with self.trusted.lock:
            name, directory = self.trusted.at(path)
            os.unlink(name, dir_fd=directory)

    def _mkdir(self, path: str, mode: int) -> None:
        with self.trusted.lock:
            name, directory = self.trusted.at(path)
            os.mkdir(name, mode, dir_fd=directory)

    def _rmdir(self, path: str) -> None:
        with self.trusted.lock:
            name, directory = self.trusted.at(path)
            os.rmdir(name, dir_fd=directory)
            self.trusted.forget(path)

    def _put(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def _set_attributes(self, descriptor: int, path: str, attributes: Attributes) -> None:
        """Set owner, permissions and extended attributes of an open file where they differ."""
        status = os.fstat(descriptor)
        if (status.st_uid, status.st_gid) != (attributes.uid, attributes.gid):
            self._do("chown", path, lambda: os.fchown(descriptor, attributes.uid, attributes.gid))
        self._do("chmod", path, lambda: os.fchmod(descriptor, attributes.mode))
        there = extended_attributes(descriptor)
        for name, value in attributes.extended.items():
            if there.get(name) != value:
                self._do("setxattr", path, partial(os.setxattr, descriptor, name, value))

    def complete(self, descriptor: int, path: str, attributes: Attributes | None, mtime_ns: int | None) -> None:
        """Set the attributes and the modification time of an open file, and fsync it."""
        if attributes is not None:
            self._set_attributes(descriptor, path, attributes)
        if mtime_ns is not None:
            self._do("utime", path, lambda: os.utime(descriptor, ns=(mtime_ns, mtime_ns)))
        self._do("fsync", path, lambda: _sync(descriptor))

    def check(self, path: str, size_bytes: int, expected: str, digest: WriteDigest) -> None:
        """Read a file back and compare its size and digest.

        The page cache is dropped first, as far as the system allows that.
        """
        read_bytes = 0
        descriptor = self._do("read", path, lambda: self._open(path, READ_FLAGS))
        with open(descriptor, "rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while piece := self._do("read", path, lambda: file.read(WINDOW_BYTES)):
                digest.update(piece)
                read_bytes += len(piece)
        if (read_bytes, digest.hexdigest()) != (size_bytes, expected):
            raise WriteError("does not read back as it was written: the disk is failing", path=path, number=errno.EIO)

    def _do(self, what: str, path: str, act: Callable[[], Result]) -> Result:
        try:
            self.step(what, path)
            return act()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise WriteError(f"{_WORDS[what]}: {reason}", path=path, number=error.errno) from error


class NewFile:
    """A new file that is being written; `finish` completes it.

    As a context manager it is closed at the end in any case.

    Args:
        disk: performs the steps.
        path: path of the file.
        descriptor: descriptor of the open file.
        new_digest: makes the digest that is compared with that of the bytes read back.
    """

    def __init__(self, disk: Disk, path: str, descriptor: int, new_digest: Callable[[], WriteDigest]) -> None:
        self.path = path
        self.size_bytes = 0
        self._disk = disk
        self._descriptor: int | None = descriptor
        self._new_digest = new_digest
        self._digest = new_digest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write(self, piece: bytes | memoryview) -> None:
        """Append a piece. Raises WriteError; ValueError if the file is closed."""
        if self._descriptor is None:
            raise ValueError(f"{self.path}: write to a closed file")
        self._disk.write(self._descriptor, self.path, piece)
        self._digest.update(piece)
        self.size_bytes += len(piece)

    def finish(self, attributes: Attributes | None, mtime_ns: int | None) -> tuple[int, str]:
        """Fsync the file and read it back. Return its size in bytes and its digest. Raises WriteError.

        `attributes` is None for those that a new file of this process has.
        """
        if self._descriptor is not None:
            self._disk.complete(self._descriptor, self.path, attributes, mtime_ns)
            self.close()
        digest = self._digest.hexdigest()
        self._disk.check(self.path, self.size_bytes, digest, self._new_digest())
        return self.size_bytes, digest

    def close(self) -> None:
        """Close the file in its present state."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_WORDS: Final = {
    "create": "cannot be created",
    "mkdir": "cannot be created",
    "open": "cannot be opened for writing",
    "write": "cannot be written",
    "read": "cannot be read back",
    "fsync": "cannot be fsynced",
    "chown": "its owner cannot be set",
    "chmod": "its permissions cannot be set",
    "setxattr": "its extended attributes cannot be set",
    "utime": "its modification time cannot be set",
    "truncate": "cannot be truncated",
    "rename": "cannot be renamed into place",
    "link": "a hard link of this name cannot be created",
    "unlink": "cannot be deleted",
    "rmdir": "cannot be deleted",
}


def _check_alone(descriptor: int, path: str) -> None:
    """Raise RefusedError for an open file that is not a regular file, or that has another hard link."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        see = WayOut("see what is in its directory", f"kafkalog verify {shell_path(os.path.dirname(path))}")
        raise RefusedError(Refusal("is not a regular file", (see,)), path=path)
    if status.st_nlink != 1:
        copy = shell_path(path)
        replace_it = WayOut(
            "replace it by a copy of itself first", f"cp -p {copy} {copy}.copy && mv {copy}.copy {copy}"
        )
        reason = "has another hard link, which would be changed with it"
        raise RefusedError(Refusal(reason, (replace_it,)), path=path)


def _sync(descriptor: int) -> None:
    """Fsync a file. On macOS `fsync` does not flush the disk's own cache, but F_FULLFSYNC does."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


SUPERUSER: Final = 0
_PERMISSIONS: Final = 0o777
"""The permission bits that are copied: set-user-id, set-group-id and sticky have no use on a file of Kafka's."""
_NO_SUCH_THING: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class Attributes(Struct, frozen=True, kw_only=True):
    """Owner, group, permissions and extended attributes, which include access control lists and security labels."""

    uid: int
    gid: int
    mode: int
    extended: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, trusted: TrustedDirectories = ANYWHERE) -> Attributes:
        """Return those of a file or directory, without the set-user-id, set-group-id and sticky bits.

        Raises NotFoundError or AccessError.
        """
        return _read(path, trusted)[0]

    @classmethod
    def of_new_file(cls, like: str, trusted: TrustedDirectories = ANYWHERE) -> Attributes:
        """Return those that a new file gets.

        They are all those of a file next to it, or owner, group and read permissions of its directory. Raises
        NotFoundError or AccessError.
        """
        attributes, is_directory = _read(like, trusted)
        if not is_directory:
            return attributes
        return cls(uid=attributes.uid, gid=attributes.gid, mode=0o600 | attributes.mode & 0o044)

    def to_json(self) -> dict[str, object]:
        """Return them as a JSON object of the journal."""
        extended = {name: base64.b64encode(value).decode("ascii") for name, value in self.extended.items()}
        return {"uid": self.uid, "gid": self.gid, "mode": f"{self.mode:04o}", "extended": extended}


def extended_attributes(path: str | int) -> dict[str, bytes]:
    """Return the extended attributes of a file, none where the system or the file system has none. Raises OSError."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(path, name) for name in sorted(os.listxattr(path))}
    except OSError as error:
        if error.errno in _NO_SUCH_THING:
            return {}
        raise


def _read(path: str, trusted: TrustedDirectories) -> tuple[Attributes, bool]:
    """Return the attributes of a file or directory, and whether it is a directory."""
    try:
        descriptor = trusted.open_anything(path)
        try:
            status = os.fstat(descriptor)
            extended = extended_attributes(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise open_error(path, error) from error
    mode = status.st_mode & _PERMISSIONS
    attributes = Attributes(uid=status.st_uid, gid=status.st_gid, mode=mode, extended=extended)
    return attributes, stat.S_ISDIR(status.st_mode)
