"""Whether changes may be made at all: told by stats, before the first write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.changing.space import existing_directory
from kafkalog_core.storage.logdir import holds_segments, is_broker_dir
from kafkalog_core.storage.partition import partition_name
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.storage.changing.changes import Change

__all__ = ["broker_files_around", "place_problem", "write_problems"]

_SUPERUSER: Final = 0


def write_problems(changes: Iterable[Change]) -> Iterator[str]:
    """Yield why some changes may not be made, a sentence each; each directory and each owner once.

    Raises NotFoundError or AccessError for a file or directory that has gone since the changes were planned.
    """
    seen: set[object] = set()
    for change in changes:
        around = os.path.dirname(change.path)
        for key, problem in (
            (around, _directory_problem(around)),
            _owner_problem(around if change.before is None else change.path),
            (change.path, _file_problem(change)),
        ):
            if problem is not None and key not in seen:
                seen.add(key)
                yield problem


def place_problem(directory: str) -> str | None:
    """Return why a directory, which need not exist yet, may not take a journal; None: it may.

    A directory at the top of a log directory stops a broker, and one in a partition is what we have without this.
    """
    if broker_files_around(os.path.realpath(directory)) is not None:
        return f"{directory}: is among a broker's files, where the undo journal is without --undo-to; name another"
    there = existing_directory(directory)
    return _directory_problem(there) if os.path.isdir(there) else f"{there}: is not a directory; name another"


def broker_files_around(directory: str) -> str | None:
    """The log or partition directory that a real path is, or is somewhere in; null: none."""
    while not (is_broker_dir(directory) or (partition_name(directory).is_partition and holds_segments(directory))):
        if directory == os.path.dirname(directory):
            return None
        directory = os.path.dirname(directory)
    return directory


def _directory_problem(directory: str) -> str | None:
    try:
        flags = os.statvfs(directory).f_flag
    except OSError as error:  # it has gone since the plan was made
        raise open_error(directory, error) from error
    if flags & os.ST_RDONLY:
        return f"{directory}: its file system is mounted read-only"
    if not os.access(directory, os.W_OK | os.X_OK):
        return f"{directory}: no permission to make files in it; run this as its owner, or as root"
    return None


def _owner_problem(path: str) -> tuple[object, str | None]:
    """New files get the owner of what they replace, else that of the files beside them; only root may give any."""
    try:
        status = os.stat(path)
    except OSError as error:  # it has gone since the plan was made
        raise open_error(path, error) from error
    user = os.geteuid()
    groups = {os.getegid(), *os.getgroups()}
    if user == _SUPERUSER or (status.st_uid == user and status.st_gid in groups):
        return None, None
    problem = (
        f"{path}: belongs to user {status.st_uid}, group {status.st_gid}, and what is written in its place would not "
        "(a broker that cannot open it takes the directory offline); run this as that user, or as root"
    )
    return (status.st_uid, status.st_gid), problem


def _file_problem(change: Change) -> str | None:
    if change.kind == "cut" and not os.access(change.path, os.W_OK):
        return f"{change.path}: no permission to cut it; run this as its owner, or as root"
    return None
