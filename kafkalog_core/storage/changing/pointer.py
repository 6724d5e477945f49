"""The pointer to a journal elsewhere: a small file in the root of the run, with the path of the journal.

A full disk has no space for it before the first change. It is then written after the first few deletions, when no other
change needs its space. If the process dies before that, or never frees enough, the directory that `--undo-to` named
leads to the run, and messages name that directory. An undo that needs the space of the pointer deletes it, and writes
it again at the end if there is space.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.changing.attributes import Attributes
from kafkalog_core.storage.changing.journal_file import write_pointer
from kafkalog_core.storage.changing.space import POINTER_BYTES, free_bytes, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.storage.changing.journal import Entry, Journal
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["leave_pointer", "leave_pointer_if_room", "pointer_room", "remove_pointer"]

_STAT_BLOCK_BYTES: Final = 512
_FILE_BITS: Final = 0o600, 0o044
_DIRECTORY_BITS: Final = 0o700, 0o055


def leave_pointer(disk: Disk, journal: Journal) -> None:
    """Write it, unless it is there or the journal needs none."""
    path, trusted = journal.pointer, journal.trusted
    if path is None or not trusted.holds(path) or trusted.exists(path):
        return
    root = Attributes.of(journal.layout.root, trusted)
    around = os.path.dirname(path)
    if journal.pointer_is_directory and not trusted.exists(around):
        disk.make_directory(around, _own(root, *_DIRECTORY_BITS))
    write_pointer(disk, path, journal.layout, _own(root, *_FILE_BITS))
    if journal.pointer_is_directory:
        disk.sync_directory(journal.layout.root)


def leave_pointer_if_room(disk: Disk, journal: Journal, rest: Iterable[Entry]) -> None:
    """Write it where it takes no room that the changes need which are still to be made."""
    if journal.pointer is None:
        return
    written = (entry.after for entry in rest if entry.kind != "cut" and entry.after is not None)
    needed = POINTER_BYTES + sum(rounded(file.size_bytes) for file in written)
    if free_bytes(journal.layout.root) >= needed:
        leave_pointer(disk, journal)


def remove_pointer(disk: Disk, journal: Journal) -> None:
    """Delete it, and what is left of one that was not finished."""
    paths = list(_paths(journal))
    for path in paths:
        disk.unlink(path)
    pointer = journal.pointer
    if pointer is None:
        return
    around = os.path.dirname(pointer)
    has_directory = journal.pointer_is_directory and journal.trusted.holds(around) and journal.trusted.exists(around)
    if has_directory:
        disk.remove_directory(around)
    if paths or has_directory:
        disk.sync_directory(journal.layout.root)


def pointer_room(journal: Journal) -> int:
    """Bytes that are free once it is deleted."""
    statuses = (journal.trusted.status(path) for path in _paths(journal))
    return sum(status.st_blocks * _STAT_BLOCK_BYTES for status in statuses if status is not None)


def _paths(journal: Journal) -> Iterator[str]:
    """The file, and the one that was to become it, where they are there."""
    path, trusted = journal.pointer, journal.trusted
    for name in () if path is None else (path, f"{path}.tmp"):
        if trusted.holds(name) and trusted.exists(name):
            yield name


def _own(root: Attributes, always: int, if_root_has_it: int) -> Attributes:
    """Return attributes of a file of ours: the owner of the directory may read and delete it."""
    return replace(root, mode=always | root.mode & if_root_has_it, extended={})
