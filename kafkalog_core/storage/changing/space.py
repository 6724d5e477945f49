"""Whether changes can be made at all, by permissions and free space: checked before the first write."""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.storage.access import may, open_error
from kafkalog_core.storage.changing.changes import grouped, may_delete_first, saved_tail_end
from kafkalog_core.storage.changing.writer import SUPERUSER
from kafkalog_core.storage.logdir import holds_segments, is_broker_dir
from kafkalog_core.storage.partition import partition_name
from kafkalog_core.structs import Struct
from kafkalog_core.text import sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.storage.changing.changes import Change

__all__ = [
    "POINTER_BYTES",
    "STAT_BLOCK_BYTES",
    "Move",
    "Space",
    "broker_dir_around",
    "direct_count",
    "existing_directory",
    "free_bytes",
    "freed_bytes",
    "place_problem",
    "removed_bytes",
    "rounded",
    "spaces_for",
    "spaces_of",
    "write_problems",
]


def write_problems(changes: Iterable[Change]) -> Iterator[str]:
    """Yield why some changes may not be made, a sentence each; each directory and each owner once.

    Raises NotFoundError or AccessError if a file or directory was deleted since the changes were planned.
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
    """Return why a directory, which need not exist yet, cannot hold a journal; None: it can.

    A directory at the top of a log directory stops a broker, and a partition directory is the default place.
    """
    if broker_dir_around(os.path.realpath(directory)) is not None:
        return f"{directory}: is in a broker's directory, where the journal is by default; name another directory"
    there = existing_directory(directory)
    return _directory_problem(there) if os.path.isdir(there) else f"{there}: is not a directory; name another"


def broker_dir_around(directory: str) -> str | None:
    """Return the log directory or partition directory that a real path is, or is somewhere in; None: there is none."""
    while not (is_broker_dir(directory) or (partition_name(directory).is_partition and holds_segments(directory))):
        if directory == os.path.dirname(directory):
            return None
        directory = os.path.dirname(directory)
    return directory


def _directory_problem(directory: str) -> str | None:
    try:
        flags = os.statvfs(directory).f_flag
    # It was deleted since the plan was made
    except OSError as error:
        raise open_error(directory, error) from error
    if flags & os.ST_RDONLY:
        return f"{directory}: its file system is mounted read-only"
    if not may(directory, os.W_OK | os.X_OK):
        return f"{directory}: no permission to create files in it; run this as its owner, or as root"
    return None


def _owner_problem(path: str) -> tuple[object, str | None]:
    """Return a key and the problem of a file whose owner this user cannot set.

    New files get the owner of the file that they replace, or that of the files next to them; only root may set any.
    """
    try:
        status = os.stat(path)
    except OSError as error:  # it was deleted since the plan was made
        raise open_error(path, error) from error
    user = os.geteuid()
    groups = {os.getegid(), *os.getgroups()}
    # A file that the broker's user cannot open takes the log directory offline: the plan is refused instead.
    if user == SUPERUSER or (status.st_uid == user and status.st_gid in groups):
        return None, None
    problem = (
        f"{path}: belongs to user {status.st_uid}, group {status.st_gid}, but a new file of this user would not "
        "(a broker that cannot open it takes the directory offline); run this as that user, or as root"
    )
    return (status.st_uid, status.st_gid), problem


def _file_problem(change: Change) -> str | None:
    if change.kind == "cut" and not may(change.path, os.W_OK):
        return f"{change.path}: no permission to truncate it; run this as its owner, or as root"
    return None


_BLOCK_BYTES: Final = 4096
STAT_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, on every file system."""
_INTENT_BYTES: Final = 2 * 1024
"""The size of one change in the intent, which is written a second time when the run is complete."""
POINTER_BYTES: Final = 2 * _BLOCK_BYTES
"""The size of a pointer: a directory and a file in it."""


class Space(Struct, frozen=True):
    """One file system: a directory on it, the largest number of bytes needed at a time, and the free bytes."""

    path: str
    needed_bytes: int
    free_bytes: int

    @property
    def is_enough(self) -> bool:
        """Whether the needed bytes are free."""
        return self.needed_bytes <= self.free_bytes

    @property
    def shortage(self) -> str:
        """What is needed and what is free, as a clause."""
        needed, free = sizes(self.needed_bytes, self.free_bytes)
        return f"{self.path}: this needs {needed} on its file system, and {free} are free"


class Move(Struct, frozen=True):
    """A file that is written in a directory, and the bytes that it frees when it and its group are written.

    `frees_first`: the old files of the group are deleted before the new ones are written, see `changes.grouped`.
    """

    directory: str
    written_bytes: int
    freed_bytes: int
    group: object
    frees_first: bool = False


def spaces_for(
    changes: Sequence[Change],
    undo_to: str | None,
    *,
    keeps_old: bool,
    is_other_device: bool = False,
    allows_direct: bool = True,
) -> tuple[Space, ...]:
    """Return what each file system needs for changes and their journal; empty if there are no changes.

    Args:
        changes: in their order.
        undo_to: directory of the journal, which need not exist yet; None: next to the files.
        keeps_old: whether the journal keeps old content.
        is_other_device: assume that the journal is on a file system that holds none of the files, and leave that one
            out; `undo_to` has no influence then.
        allows_direct: for a run that keeps nothing: whether changes can be made directly, before its intent is written;
            they can only if all files are on one file system.
    """
    if not changes:
        return ()
    places: dict[int, str] = {}
    peaks: dict[int, int] = {}
    home = None if undo_to is None or is_other_device else _device(existing_directory(undo_to))
    groups = _by_device(changes, places)
    for device, group in groups.items():
        if is_other_device or home not in {None, device}:
            peaks[device] = _peak_of_moves(group)
        elif keeps_old:
            # Everything is staged next to the files before the first one is freed.
            peaks[device] = _staged(group) + _directories(group)
        else:
            peaks[device] = _least_staged(group, allows_direct=allows_direct and len(groups) == 1)
    if undo_to is not None and home is not None:
        places[home] = existing_directory(undo_to)
        copied = [change for change in changes if _device(os.path.dirname(change.path)) != home]
        peaks[home] = peaks.get(home, 0) + _staged(copied) + _saved(copied)
    if keeps_old and not is_other_device:
        journal = home if home is not None else _device(os.path.dirname(changes[0].path))
        # The intent is on the file system of the journal.
        peaks[journal] += _intent(changes, is_inline=home is None)
    return tuple(Space(path, peaks[device], free_bytes(path)) for device, path in places.items())


def spaces_of(moves: Sequence[Move]) -> tuple[Space, ...]:
    """Return what each file system needs for files that are written one by one, each freeing what it replaces."""
    places: dict[int, str] = {}
    peaks: dict[int, int] = {}
    used: dict[int, int] = {}
    for _, each in groupby(moves, lambda move: move.group):
        group = list(each)
        freed: dict[int, int] = {}
        for move in group:
            device = _device(move.directory)
            places.setdefault(device, move.directory)
            used[device] = used.get(device, 0) + rounded(move.written_bytes)
            freed[device] = freed.get(device, 0) + move.freed_bytes
        for device, size_bytes in freed.items():
            is_first = any(move.frees_first for move in group)
            # In a group the new files are all written before the old ones are freed, unless these go first.
            peaks[device] = max(peaks.get(device, 0), used[device] - (size_bytes if is_first else 0))
            used[device] -= size_bytes
    return tuple(Space(path, peaks[device], free_bytes(path)) for device, path in places.items())


def direct_count(changes: Sequence[Change], free: int) -> int:
    """Return how many of the first changes of a run that keeps nothing are made before its intent is written.

    It is the smallest number after which the rest can be staged; 0 if no number is enough.
    """
    return next((count for count, needed in _made_or_staged(changes) if needed <= free), 0)


def free_bytes(path: str, user: int | None = None) -> int:
    """Return the number of bytes that a user may still write to the file system of a directory; None: this process."""
    status = os.statvfs(path)
    # Root may use the reserved blocks.
    blocks = status.f_bfree if (os.geteuid() if user is None else user) == SUPERUSER else status.f_bavail
    return blocks * status.f_frsize


def freed_bytes(change: Change) -> int:
    """Return the number of bytes that a change frees for certain once it is made."""
    allocated = 0 if change.before is None else removed_bytes(change.path)
    return max(0, allocated - rounded(change.size_bytes or 0)) if change.kind == "cut" else allocated


def removed_bytes(path: str) -> int:
    """Return the number of bytes that deleting a file frees: none if it is gone, or if another hard link keeps them."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_blocks * STAT_BLOCK_BYTES if status.st_nlink == 1 else 0


def existing_directory(path: str) -> str:
    """Return a directory, or the nearest existing one above it."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _by_device(changes: Iterable[Change], places: dict[int, str]) -> dict[int, list[Change]]:
    groups: dict[int, list[Change]] = {}
    devices: dict[str, int] = {}
    for change in changes:
        around = os.path.dirname(change.path)
        if around not in devices:
            devices[around] = _device(around)
        places.setdefault(devices[around], around)
        groups.setdefault(devices[around], []).append(change)
    return groups


def _device(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError as error:
        raise open_error(path, error) from error


def _staged(changes: Iterable[Change]) -> int:
    """Return the size of all new content and of the tails of truncations."""
    return sum(rounded(_tail(change) if change.kind == "cut" else change.size_bytes or 0) for change in changes)


def _saved(changes: Iterable[Change]) -> int:
    """Return the size of the old content that is deleted or replaced."""
    return sum(rounded(change.before.size_bytes) for change in changes if change.before and change.kind != "cut")


def _intent(changes: Sequence[Change], *, is_inline: bool) -> int:
    """Return the size of the intent.

    `is_inline`: it holds the old content of files at the top of a log directory, in base64.
    """
    inline = 0
    if is_inline:
        at_top = (each for each in changes if each.before and is_broker_dir(os.path.dirname(each.path)))
        inline = sum(-(-each.before.size_bytes // 3) * 4 for each in at_top if each.before)
    return rounded(len(changes) * _INTENT_BYTES + 2 * inline)


def _directories(changes: Iterable[Change]) -> int:
    """Return the size of the journal's directories next to the files."""
    return _BLOCK_BYTES * len({os.path.dirname(change.path) for change in changes})


def _made_or_staged(changes: Sequence[Change]) -> Iterator[tuple[int, int]]:
    """Yield, for each number of first changes that are made directly, the number and the peak of bytes of all changes.

    The others are staged together, and their intent is written once. Parts of a segment replacement are always staged.
    """
    directories, seen = [0], set[str]()
    for change in reversed(changes):
        seen.add(os.path.dirname(change.path))
        directories.append(_BLOCK_BYTES * len(seen))
    rest = sum(_written(change) for change in changes)
    used = peak = count = 0
    for group in (*grouped(changes), []):
        others = len(changes) - count
        journal = rounded(rounded(others * _INTENT_BYTES) // 2) + directories[others]
        yield count, max(peak, used + rest + journal)
        # Parts of a replacement must all be staged: a start completes them together.
        if any(change.swap is not None for change in group):
            return
        count += len(group)
        rest -= sum(map(_written, group))
        peak = max(peak, used + _peak(group))
        used += sum(_written(change) - freed_bytes(change) for change in group)


def _least_staged(changes: Sequence[Change], *, allows_direct: bool) -> int:
    return max(0, min(needed for count, needed in _made_or_staged(changes) if allows_direct or not count))


def _peak_of_moves(changes: Iterable[Change]) -> int:
    """Return the peak of bytes if each new file is copied here just before it replaces the old one.

    The pointer to the journal uses space that is left over.
    """
    used = peak = 0
    for group in grouped(changes):
        peak = max(peak, used + _peak(group))
        used += sum(_written(change) - freed_bytes(change) for change in group)
    return peak


def _peak(group: Sequence[Change]) -> int:
    """Return the peak of bytes that the changes of one group need.

    The new files of a segment replacement are all written before the first old one is deleted, while the old indexes of
    a segment are deleted first if necessary.
    """
    written, freed = sum(map(_written, group)), sum(map(freed_bytes, group))
    return max(0, written - freed) if may_delete_first(group) else written


def _written(change: Change) -> int:
    """Return the size of the new file of a change."""
    return 0 if change.kind == "cut" else rounded(change.size_bytes or 0)


def _tail(change: Change) -> int:
    start = change.size_bytes or 0
    try:
        return saved_tail_end(change) - start
    # It is reported when the change is made
    except StorageError:
        return change.before.size_bytes - start if change.before else 0


def rounded(size_bytes: int) -> int:
    """Return a size in whole blocks of a file system."""
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
