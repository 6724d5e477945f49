"""One look at one directory: every entry with one stat, while a live broker may rename and delete.

Symbolic links are followed, as a broker follows them. Names that are not UTF-8 keep their bytes as lone surrogates.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import Final

from kafkalog_core.errors import NotFoundError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import FileName, parse_file_name
from kafkalog_core.storage.file_codes import code_of_error
from kafkalog_core.storage.rights import denied
from kafkalog_core.storage.source import open_error

__all__ = ["DirectoryInfo", "FileInfo", "Listing", "list_directory", "stat_path"]

_VANISHED_ERRNOS: Final = frozenset({errno.ENOENT, errno.ESTALE})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A regular file as one stat saw it."""

    path: str
    name: FileName
    size_bytes: int
    mtime_ns: int
    device: int
    inode: int
    mode: int
    uid: int
    gid: int

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> FileInfo:
        """From a path and its stat."""
        return cls(
            path=path,
            name=parse_file_name(os.path.basename(path)),
            size_bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            device=status.st_dev,
            inode=status.st_ino,
            mode=stat.S_IMODE(status.st_mode),
            uid=status.st_uid,
            gid=status.st_gid,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryInfo:
    """A directory inside another one, not yet listed."""

    path: str
    raw_name: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Entries of a directory, sorted by name; what is neither file nor directory is an finding."""

    path: str
    files: tuple[FileInfo, ...]
    directories: tuple[DirectoryInfo, ...]
    findings: tuple[Finding, ...]


def stat_path(path: str) -> os.stat_result:
    """Stat a path, links followed. Raises NotFoundError or AccessError."""
    try:
        return os.stat(path)
    except OSError as error:
        raise open_error(path, error) from error
    except ValueError as error:  # a NUL in it
        raise NotFoundError("no such file or directory", path=path) from error


def list_directory(path: str) -> Listing:
    """List a directory. Raises NotFoundError or AccessError for the directory itself, never for one of its entries."""
    files: list[FileInfo] = []
    directories: list[DirectoryInfo] = []
    findings: list[Finding] = []
    uid = stat_path(path).st_uid
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                seen = _look_at(entry)
                if isinstance(seen, FileInfo):
                    files.append(seen)
                    findings += _ownership_findings(seen, uid)
                elif isinstance(seen, DirectoryInfo):
                    directories.append(seen)
                else:
                    findings.append(seen)
    except OSError as error:
        raise open_error(path, error) from error
    return Listing(
        path=path,
        files=tuple(sorted(files, key=lambda file: file.name.raw)),
        directories=tuple(sorted(directories, key=lambda directory: directory.raw_name)),
        findings=tuple(sorted(findings, key=lambda finding: finding.path)),
    )


def _look_at(entry: os.DirEntry[str]) -> FileInfo | DirectoryInfo | Finding:
    try:
        status = entry.stat()
    except OSError as error:
        if error.errno == errno.EACCES and not entry.is_symlink():  # the directory refuses, for all that is in it
            raise denied(entry.path) from error
        problem = open_error(entry.path, error)
        if entry.is_symlink():
            return found("file.broken-link", entry.path, reason=problem.message)
        if error.errno in _VANISHED_ERRNOS:
            return found("file.vanished", entry.path)
        return found(code_of_error(problem), entry.path, reason=problem.message)
    if stat.S_ISREG(status.st_mode):
        return FileInfo.of(entry.path, status)
    if stat.S_ISDIR(status.st_mode):
        return DirectoryInfo(path=entry.path, raw_name=entry.name, device=status.st_dev, inode=status.st_ino)
    return found("file.not-regular", entry.path)


def _ownership_findings(file: FileInfo, directory_uid: int) -> list[Finding]:
    if not file.mode & stat.S_IRUSR:
        return [found("file.unreadable", file.path, mode=f"{file.mode:04o}")]
    if file.uid != directory_uid:
        return [found("file.foreign-owner", file.path, uid=file.uid, directory_uid=directory_uid)]
    return []
