"""Room on disks: what changes need while they are made, and what there is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.storage.changing.changes import Change

__all__ = ["Space", "free_bytes", "spaces_for"]

_BLOCK_BYTES: Final = 4096
_INTENT_BYTES: Final = 2 * 1024
"""What the journal says of one change; it is written anew beside the old one when it is done."""
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


def spaces_for(changes: Sequence[Change], undo_to: str | None) -> tuple[Space, ...]:
    """What each file system needs for changes and their journal; empty where nothing is to be done.

    Beside the files a journal holds what they replace as second names of it, and only the tail of a cut as a copy. In a
    directory of its own on another file system it holds copies of everything, and the new files wait there.
    """
    places: dict[int, str] = {}
    peaks: dict[int, int] = {}
    home = None if undo_to is None else _device(undo_to)
    for device, group in _by_device(changes, places):
        peaks[device] = _peak_of_moves(group) if home not in {None, device} else _staged(group)
    if undo_to is not None and changes and home is not None:
        places[home] = undo_to
        copied = [change for change in changes if _device(os.path.dirname(change.path)) != home]
        peaks[home] = peaks.get(home, 0) + _staged(copied) + _saved(copied)
    if changes:
        journal = home if home is not None else _device(os.path.dirname(changes[0].path))
        peaks[journal] += _rounded(len(changes) * _INTENT_BYTES)
    return tuple(Space(path, peaks[device], free_bytes(path)) for device, path in places.items())


def free_bytes(path: str) -> int:
    """What this process may still write to the file system of a directory."""
    status = os.statvfs(path)
    blocks = status.f_bfree if os.geteuid() == _SUPERUSER else status.f_bavail
    return blocks * status.f_frsize


def _by_device(changes: Iterable[Change], places: dict[int, str]) -> Iterable[tuple[int, list[Change]]]:
    groups: dict[int, list[Change]] = {}
    devices: dict[str, int] = {}
    for change in changes:
        around = os.path.dirname(change.path)
        if around not in devices:
            devices[around] = _device(around)
        places.setdefault(devices[around], around)
        groups.setdefault(devices[around], []).append(change)
    return groups.items()


def _device(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError as error:
        raise open_error(path, error) from error


def _staged(changes: Iterable[Change]) -> int:
    """All new content, and the tails of cuts."""
    return sum(_rounded(_tail(change) if change.kind == "cut" else change.size_bytes or 0) for change in changes)


def _saved(changes: Iterable[Change]) -> int:
    """What goes away, whole."""
    return sum(_rounded(change.before.size_bytes) for change in changes if change.before and change.kind != "cut")


def _peak_of_moves(changes: Iterable[Change]) -> int:
    """The most that is used at a time where each new file comes here just before it takes the old one's place.

    The new files of a replacement of segments all come before the first old one goes.
    """
    used = peak = freed = 0
    swap: object = None
    for change in changes:
        part = None if change.swap is None else (os.path.dirname(change.path), change.swap)
        if part is None or part != swap:
            used, freed, swap = used - freed, 0, part
        used += 0 if change.kind == "cut" else _rounded(change.size_bytes or 0)
        peak = max(peak, used)
        freed += _tail(change) if change.kind == "cut" else change.before.size_bytes if change.before else 0
    return peak


def _tail(change: Change) -> int:
    return change.before.size_bytes - (change.size_bytes or 0) if change.before else 0


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
