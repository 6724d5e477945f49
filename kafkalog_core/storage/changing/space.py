"""Room on disks: what changes need while they are made, what they free, and what there is.

Full disks are the usual case, so the space of a plan is computed step by step, in the order of its changes: the space
that a step frees is available to later steps. A deletion frees the blocks that the file system has allocated: few for a
preallocated index, and none for a file with a second name.

Where the old content is kept decides what a run needs on the file system of the files:

- In a journal next to the files, by second names: all new content, and the tails of cuts; nothing is freed.
- In a journal on another file system: one new file at a time, or all those of one replacement of segments. The pointer
  to the journal takes room that is left over, if there is any (`pointer`).
- Nowhere: all new content and the intent. Where these do not fit, the first changes of the plan are made one by one
  ahead of the intent, as few as leave enough room for it (`made_ahead`), all of them if need be.

A new file has to be whole before it takes the place of the old one, so that one block is needed to rewrite a file of
one block. The indexes of a segment are the exception: see `changes.grouped`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.changing.changes import grouped, makes_way
from kafkalog_core.storage.logdir import is_broker_dir
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.storage.changing.changes import Change

__all__ = [
    "POINTER_BYTES",
    "Move",
    "Space",
    "existing_directory",
    "free_bytes",
    "freed_bytes",
    "made_ahead",
    "rounded",
    "spaces_for",
    "spaces_of",
]

_BLOCK_BYTES: Final = 4096
_STAT_BLOCK_BYTES: Final = 512
_INTENT_BYTES: Final = 2 * 1024
"""The size of one change in the intent, which is written a second time when the run is complete."""
POINTER_BYTES: Final = 2 * _BLOCK_BYTES
"""A directory and a file in it."""
_SUPERUSER: Final = 0


@dataclass(frozen=True, slots=True)
class Space:
    """One file system: a directory on it, the most that is needed on it at a time, and what is free."""

    path: str
    needed_bytes: int
    free_bytes: int

    @property
    def is_enough(self) -> bool:
        """Whether it fits."""
        return self.needed_bytes <= self.free_bytes


@dataclass(frozen=True, slots=True)
class Move:
    """A file that is written in a directory, and what it frees when it, and all of its group, is there.

    `frees_first`: the files of the group make way for their successors, see `changes.grouped`.
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
    makes_ahead: bool = True,
) -> tuple[Space, ...]:
    """What each file system needs for changes and their journal; empty where nothing is to be done.

    Args:
        changes: in their order.
        undo_to: directory of the journal, which need not be there yet; `None`: next to the files.
        keeps_old: whether the journal keeps old content.
        is_other_device: assume that the journal is on a file system that holds none of the files, and leave that file
            system out; `undo_to` has no influence then.
        makes_ahead: of a run that keeps nothing: whether changes can be made ahead of its intent, which they are only
            where all files are on one file system.
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
            peaks[device] = _staged(group) + _directories(group)
        else:
            peaks[device] = _least_staged(group, makes_ahead=makes_ahead and len(groups) == 1)
    if undo_to is not None and home is not None:
        places[home] = existing_directory(undo_to)
        copied = [change for change in changes if _device(os.path.dirname(change.path)) != home]
        peaks[home] = peaks.get(home, 0) + _staged(copied) + _saved(copied)
    if keeps_old and not is_other_device:
        journal = home if home is not None else _device(os.path.dirname(changes[0].path))
        peaks[journal] += _intent(changes, is_inline=home is None)
    return tuple(Space(path, peaks[device], free_bytes(path)) for device, path in places.items())


def spaces_of(moves: Sequence[Move]) -> tuple[Space, ...]:
    """What each file system needs for files that are written one after another, each freeing what it replaces."""
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
            peaks[device] = max(peaks.get(device, 0), used[device] - (size_bytes if is_first else 0))
            used[device] -= size_bytes
    return tuple(Space(path, peaks[device], free_bytes(path)) for device, path in places.items())


def made_ahead(changes: Sequence[Change], free: int) -> int:
    """Return how many of the first changes are made before the intent of a run that keeps nothing is written.

    The fewest after which there is room for all that is staged for the others; 0 where no number is enough.
    """
    return next((count for count, needed in _made_or_staged(changes) if needed <= free), 0)


def free_bytes(path: str) -> int:
    """What this process may still write to the file system of a directory."""
    status = os.statvfs(path)
    blocks = status.f_bfree if os.geteuid() == _SUPERUSER else status.f_bavail
    return blocks * status.f_frsize


def freed_bytes(change: Change) -> int:
    """What a change gives back to the file system once it is made, as far as that is certain."""
    try:
        status = os.lstat(change.path)
    except OSError:
        return 0
    if change.before is None or status.st_nlink > 1:
        return 0
    allocated = status.st_blocks * _STAT_BLOCK_BYTES
    return max(0, allocated - rounded(change.size_bytes or 0)) if change.kind == "cut" else allocated


def existing_directory(path: str) -> str:
    """A directory, or where it is not there yet the nearest one above it."""
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
    """All new content, and the tails of cuts."""
    return sum(rounded(_tail(change) if change.kind == "cut" else change.size_bytes or 0) for change in changes)


def _saved(changes: Iterable[Change]) -> int:
    """What goes away, whole."""
    return sum(rounded(change.before.size_bytes) for change in changes if change.before and change.kind != "cut")


def _intent(changes: Sequence[Change], *, is_inline: bool) -> int:
    """The intent; `is_inline`: it holds the old content of files at the top of a log directory, as base64."""
    inline = 0
    if is_inline:
        at_top = (each for each in changes if each.before and is_broker_dir(os.path.dirname(each.path)))
        inline = sum(-(-each.before.size_bytes // 3) * 4 for each in at_top if each.before)
    return rounded(len(changes) * _INTENT_BYTES + 2 * inline)


def _directories(changes: Iterable[Change]) -> int:
    """The directories of a journal next to the files."""
    return _BLOCK_BYTES * len({os.path.dirname(change.path) for change in changes})


def _made_or_staged(changes: Sequence[Change]) -> Iterator[tuple[int, int]]:
    """For 0 and more first changes that are made ahead: how many, and the most that these and the others need.

    The others are staged together, and their intent is written once. Parts of a replacement of segments are always
    staged.
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
        if any(change.swap is not None for change in group):
            return
        count += len(group)
        rest -= sum(map(_written, group))
        peak = max(peak, used + _peak(group))
        used += sum(_written(change) - freed_bytes(change) for change in group)


def _least_staged(changes: Sequence[Change], *, makes_ahead: bool) -> int:
    return max(0, min(needed for count, needed in _made_or_staged(changes) if makes_ahead or not count))


def _peak_of_moves(changes: Iterable[Change]) -> int:
    """The most that is used at a time where each new file comes here just before it takes the old one's place.

    The pointer to the journal takes room that is left over.
    """
    used = peak = 0
    for group in grouped(changes):
        peak = max(peak, used + _peak(group))
        used += sum(_written(change) - freed_bytes(change) for change in group)
    return peak


def _peak(group: Sequence[Change]) -> int:
    """The most that the changes of one group need at a time.

    The new files of a replacement of segments all come before the first old one is deleted, while the indexes of a
    segment make way first where they have to.
    """
    written, freed = sum(map(_written, group)), sum(map(freed_bytes, group))
    return max(0, written - freed) if makes_way(group) else written


def _written(change: Change) -> int:
    """What a new file takes."""
    return 0 if change.kind == "cut" else rounded(change.size_bytes or 0)


def _tail(change: Change) -> int:
    return change.before.size_bytes - (change.size_bytes or 0) if change.before else 0


def rounded(size_bytes: int) -> int:
    """A size in whole blocks of a file system."""
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
