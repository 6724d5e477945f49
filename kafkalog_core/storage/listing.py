"""One listing of one directory: every entry with one stat, while a live broker may rename and delete files.

Symbolic links are followed, as a broker follows them. Names that are not UTF-8 keep their bytes as lone surrogates.
"""

from __future__ import annotations

import errno
import os
import stat
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import (
    LOG_KINDS,
    SEGMENT_KINDS,
    FileKind,
    FileName,
    FileState,
    parse_file_name,
    segment_file_name,
)
from kafkalog_core.storage.access import code_of_error, denied, open_error
from kafkalog_core.storage.paths import is_object
from kafkalog_core.storage.reading import READING
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "DirectoryInfo",
    "FileInfo",
    "Listing",
    "Segment",
    "SegmentState",
    "group_segments",
    "list_directory",
    "names_in",
    "stat_path",
]


_VANISHED_ERRNOS: Final = frozenset({errno.ENOENT, errno.ESTALE})


class FileInfo(Struct, frozen=True, kw_only=True):
    """A regular file as one stat saw it."""

    path: str
    name: FileName
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    device: int
    inode: int
    mode: int
    uid: int
    gid: int

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> FileInfo:
        """Return it from a path and its stat."""
        return cls(
            path=path,
            name=parse_file_name(os.path.basename(path)),
            size_bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
            device=status.st_dev,
            inode=status.st_ino,
            mode=stat.S_IMODE(status.st_mode),
            uid=status.st_uid,
            gid=status.st_gid,
        )


class DirectoryInfo(Struct, frozen=True, kw_only=True):
    """A directory in another one, not yet listed."""

    path: str
    raw_name: str
    device: int
    inode: int


class Listing(Struct, frozen=True, kw_only=True):
    """Entries of a directory, sorted by name; an entry that is neither a file nor a directory is a finding."""

    path: str
    files: tuple[FileInfo, ...]
    directories: tuple[DirectoryInfo, ...]
    findings: tuple[Finding, ...]


def stat_path(path: str) -> os.stat_result:
    """Return the status of a path, links followed. Raises NotFoundError or AccessError."""
    if is_object(path):
        from kafkalog_core.storage import objects  # noqa: PLC0415 -- for such a path alone

        return objects.status(path)
    if path in READING.planned:
        planned = READING.planned[path]
        if planned is None:
            raise NotFoundError("no such file or directory", path=path)
        result: os.stat_result = planned.stat_result()
        return result
    try:
        return os.stat(path)
    except OSError as error:
        raise open_error(path, error) from error
    # A NUL in it
    except ValueError as error:
        raise NotFoundError("no such file or directory", path=path) from error


def list_directory(path: str) -> Listing:
    """List a directory. Raises NotFoundError or AccessError for the directory itself, never for one of its entries."""
    if is_object(path):
        return _list_objects(path)
    files: list[FileInfo] = []
    directories: list[DirectoryInfo] = []
    findings: list[Finding] = []
    # A broker creates the directory as its own user: files of another user are suspect.
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
    if READING.planned:
        files = [*(file for file in files if file.path not in READING.planned), *_planned_in(path)]
    return Listing(
        path=path,
        files=tuple(sorted(files, key=lambda file: file.name.raw)),
        directories=tuple(sorted(directories, key=lambda directory: directory.raw_name)),
        findings=tuple(sorted(findings, key=lambda finding: finding.path)),
    )


def _planned_in(path: str) -> Iterator[FileInfo]:
    """Yield the files of a directory that are read as a plan will leave them."""
    for name in READING.planned.paths_in(path):
        planned = READING.planned[name]
        if planned is not None:
            yield FileInfo.of(name, planned.stat_result())


def _list_objects(path: str) -> Listing:
    """List a directory of an object store, whose entries have no owners and no links."""
    from kafkalog_core.storage import objects  # noqa: PLC0415 -- for such a path alone

    found = objects.entries(path)
    return Listing(
        path=path,
        files=tuple(FileInfo.of(entry.path, entry.status) for entry in found if not entry.is_directory),
        directories=tuple(
            DirectoryInfo(path=entry.path, raw_name=entry.name, device=entry.status.st_dev, inode=entry.status.st_ino)
            for entry in found
            if entry.is_directory
        ),
        findings=(),
    )


def names_in(path: str, *, directories: bool = False) -> Iterator[str]:
    """Yield the names in a directory, or of its directories, in any order. Raises NotFoundError, AccessError."""
    if is_object(path):
        from kafkalog_core.storage import objects  # noqa: PLC0415 -- as above

        yield from (name for name, is_folder in objects.names(path).items() if is_folder or not directories)
        return
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if (not directories or entry.is_dir()) and entry.path not in READING.planned:
                    yield entry.name
    except OSError as error:
        raise open_error(path, error) from error
    if READING.planned and not directories:
        yield from (file.name.raw for file in _planned_in(path))


def _look_at(entry: os.DirEntry[str]) -> FileInfo | DirectoryInfo | Finding:
    try:
        status = entry.stat()
    except OSError as error:
        # The directory refuses, for all that is in it
        if error.errno == errno.EACCES and not entry.is_symlink():
            raise denied(entry.path) from error
        problem = open_error(entry.path, error)
        if entry.is_symlink():
            return found("file.broken-link", entry.path, reason=problem.message)
        # A broker deletes `.deleted` files while we list (LocalLog.deleteSegmentFiles).
        if error.errno in _VANISHED_ERRNOS:
            return found("file.vanished", entry.path)
        return found(code_of_error(problem), entry.path, reason=problem.message)
    if stat.S_ISREG(status.st_mode):
        return FileInfo.of(entry.path, status)
    if stat.S_ISDIR(status.st_mode):
        return DirectoryInfo(path=entry.path, raw_name=entry.name, device=status.st_dev, inode=status.st_ino)
    return found("file.not-regular", entry.path)


def _ownership_findings(file: FileInfo, directory_uid: int) -> list[Finding]:
    # LogLoader.removeTempFilesAndCollectSwapFiles: one file that it may not read takes the log directory offline.
    if not file.mode & stat.S_IRUSR:
        return [found("file.unreadable", file.path, mode=f"{file.mode:04o}")]
    if file.uid != directory_uid:
        return [found("file.foreign-owner", file.path, uid=file.uid, directory_uid=directory_uid)]
    return []


class SegmentState(StrEnum):
    """The state of a segment in its life cycle."""

    ACTIVE = "active"
    """The last segment, to which a broker appends."""
    CLOSED = "closed"
    DELETED = "deleted"
    """Renamed to `.deleted`, and about to be deleted."""
    SWAP = "swap"
    """A finished replacement that is not renamed into place yet."""
    CLEANED = "cleaned"
    """An unfinished replacement."""
    UNREAD = "unread"
    """No broker reads it: its name is not its base offset in 20 digits, or it has the format of another release."""
    ORPHAN = "orphan"
    """Indexes without a log."""


class Segment(Struct, frozen=True, kw_only=True):
    """The files of one base offset; `snapshot` is the producer snapshot at that offset."""

    base_offset: int
    state: SegmentState
    log: FileInfo | None = None
    index: FileInfo | None = None
    timeindex: FileInfo | None = None
    txnindex: FileInfo | None = None
    snapshot: FileInfo | None = None

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """The existing files, the log first."""
        parts = (self.log, self.index, self.timeindex, self.txnindex, self.snapshot)
        return tuple(part for part in parts if part is not None)

    @property
    def size_bytes(self) -> int:
        """Size of the log file in bytes, 0 if there is none."""
        return 0 if self.log is None else self.log.size_bytes


_FIELD_OF_KIND: Final = {
    FileKind.LOG: "log",
    FileKind.LOG_V07: "log",
    FileKind.OFFSET_INDEX: "index",
    FileKind.TIME_INDEX: "timeindex",
    FileKind.TXN_INDEX: "txnindex",
    FileKind.SNAPSHOT: "snapshot",
}
_STATE_OF_FILES: Final = {
    FileState.DELETED: SegmentState.DELETED,
    FileState.SWAP: SegmentState.SWAP,
    FileState.CLEANED: SegmentState.CLEANED,
}


def group_segments(files: Iterable[FileInfo], log_kind: FileKind) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Return the live segments of a partition and all others, each sorted by base offset.

    Live segments are those that a broker reads: a log of `log_kind` with a canonical name. Files whose names hold no
    offset belong to no segment.
    """
    groups: dict[tuple[int, str, FileState, str], dict[str, FileInfo]] = {}
    for file in files:
        name = file.name
        if name.kind in SEGMENT_KINDS and name.base_offset is not None:
            extra = FileKind.LOG_V07 if name.kind is FileKind.LOG_V07 else ""
            # `5.log` and `05.log` have one offset, and are two files to a broker.
            prefix = name.raw.partition(".")[0]
            groups.setdefault((name.base_offset, prefix, name.state, extra), {})[_FIELD_OF_KIND[name.kind]] = file
    live: list[Segment] = []
    others: list[Segment] = []
    for (base_offset, _, file_state, _), parts in sorted(groups.items()):
        state = _STATE_OF_FILES.get(file_state) or _live_state(base_offset, parts, log_kind)
        if state is None:
            continue
        segment = Segment(base_offset=base_offset, state=state, **parts)
        (live if state is SegmentState.CLOSED else others).append(segment)
    if live:
        # The last live segment is the active one.
        live[-1] = replace(live[-1], state=SegmentState.ACTIVE)
    return tuple(live), tuple(others)


def _live_state(base_offset: int, parts: dict[str, FileInfo], log_kind: FileKind) -> SegmentState | None:
    log = parts.get("log")
    if log is None:
        # A snapshot without a log is normal: a clean shutdown leaves one at the log end.
        return SegmentState.ORPHAN if parts.keys() - {"snapshot"} else None
    name = log.name
    # `LogLoader.loadSegmentFiles` creates an empty segment with the padded name, and ignores a log with another one.
    if name.kind is log_kind and name.kind in LOG_KINDS and name.raw == segment_file_name(base_offset, log_kind):
        return SegmentState.CLOSED
    return SegmentState.UNREAD
