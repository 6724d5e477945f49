"""Who may open the files of a directory: what stops a broker that nobody sees who looks with other rights.

Stats alone tell it. The user that a broker runs as is taken to be the owner of most of what is there; the superuser
may do everything, so that where he is the owner nothing is worse than a warning.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import INDEX_KINDS, LOG_KINDS, FileKind, FileState
from kafkalog_core.storage.listing import stat_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.storage.listing import FileInfo

__all__ = ["OWNERSHIP_CODES", "broker_uid", "check_directories", "check_files", "is_read_only_mount"]

OWNERSHIP_CODES: Final = frozenset({"file.unreadable", "file.foreign-owner"})
"""What a listing says of single files; `check_files` says it better, as it sees all of them."""
_WRITTEN_KINDS: Final = LOG_KINDS | INDEX_KINDS | {FileKind.LOCK}
_ROOT: Final = 0
_READ: Final = 4
_WRITE: Final = 2
_ENTER: Final = 1
_DIRECTORY_BITS: Final = ((_READ, "list it"), (_WRITE, "make files in it"), (_ENTER, "enter it"))


@dataclass(frozen=True, slots=True)
class _User:
    uid: int
    gid: int

    def may(self, bit: int, owner: _User, mode: int) -> bool:
        """Whether the permissions of a file let this user do it; groups but the main one are not known."""
        if self.uid == _ROOT:
            return True
        if self.uid == owner.uid:
            return bool(mode & bit << 6)
        return bool(mode & bit << 3) if self.gid == owner.gid else bool(mode & bit)


def check_files(path: str, files: Sequence[FileInfo]) -> Iterator[Finding]:
    """Findings about the files of a partition or at the top of a log directory, and about the directory itself."""
    try:
        status = stat_path(path)
    except StorageError:  # it went away
        return
    directory = _User(status.st_uid, status.st_gid)
    broker = _majority((_User(file.uid, file.gid) for file in files), directory)
    mode = stat.S_IMODE(status.st_mode)
    if broker.uid == directory.uid:
        yield from _directory_findings(path, directory, mode)
    else:
        yield from _foreign_directory(path, directory, mode, broker)
    for file in files:
        yield from _file_findings(file, broker, directory.uid)


def broker_uid(files: Iterable[FileInfo], directory: str) -> int:
    """The user that a broker runs as: the owner of most of the files, else of the directory."""
    status = stat_path(directory)
    return _majority((_User(file.uid, file.gid) for file in files), _User(status.st_uid, status.st_gid)).uid


def check_directories(paths: Iterable[str]) -> Iterator[Finding]:
    """Findings about directories of partitions beside each other: those that are not of the user of most of them."""
    statuses: list[tuple[str, _User, int]] = []
    for path in paths:
        try:
            status = stat_path(path)
        except StorageError:  # told when it is listed
            continue
        statuses.append((path, _User(status.st_uid, status.st_gid), stat.S_IMODE(status.st_mode)))
    if not statuses:
        return
    broker = _majority((owner for _, owner, _ in statuses), statuses[0][1])
    for path, owner, mode in statuses:
        if owner.uid != broker.uid:
            yield from _foreign_directory(path, owner, mode, broker)


def is_read_only_mount(path: str) -> bool:
    """Whether nobody can write to the file system that a path is on."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _majority(owners: Iterable[_User], otherwise: _User) -> _User:
    counts = Counter(owners)
    if not counts:
        return otherwise
    uids: Counter[int] = Counter()
    for owner, count in counts.items():
        uids[owner.uid] += count
    top = max(uids.values())
    if uids[otherwise.uid] == top:
        return otherwise
    uid = min(uid for uid, count in uids.items() if count == top)
    return max((owner for owner in counts if owner.uid == uid), key=lambda owner: (counts[owner], owner.gid))


def _directory_findings(path: str, owner: _User, mode: int) -> Iterator[Finding]:
    refused = [what for bit, what in _DIRECTORY_BITS if not mode & bit << 6]
    if refused:
        severity: Severity = "warning" if owner.uid == _ROOT else "error"
        yield found("dir.no-permission", path, mode=f"{mode:04o}", refused=" or ".join(refused), severity=severity)


def _foreign_directory(path: str, owner: _User, mode: int, broker: _User) -> Iterator[Finding]:
    refused = [what for bit, what in _DIRECTORY_BITS if not broker.may(bit, owner, mode)]
    if refused:
        yield found("dir.foreign-owner", path, uid=owner.uid, broker_uid=broker.uid, refused=" or ".join(refused))


def _file_findings(file: FileInfo, broker: _User, directory_uid: int) -> Iterator[Finding]:
    owner, mode = _User(file.uid, file.gid), file.mode
    is_written = file.name.state is FileState.LIVE and file.name.kind in _WRITTEN_KINDS
    severity: Severity = "warning" if file.uid == _ROOT else "error"
    if not mode & stat.S_IRUSR:
        yield found("file.unreadable", file.path, mode=f"{mode:04o}", severity=severity)
    elif is_written and not mode & stat.S_IWUSR:
        yield found("file.not-writable", file.path, mode=f"{mode:04o}", severity=severity)
    if file.uid == broker.uid:
        return
    bits = ((_READ, "read"), (_WRITE, "write")) if is_written else ((_READ, "read"),)
    refused = [what for bit, what in bits if not broker.may(bit, owner, mode)]
    if refused:
        yield found(
            "file.no-access",
            file.path,
            uid=file.uid,
            broker_uid=broker.uid,
            mode=f"{mode:04o}",
            refused=" or ".join(refused),
        )
    elif file.uid != directory_uid:
        yield found("file.foreign-owner", file.path, uid=file.uid, directory_uid=directory_uid)
