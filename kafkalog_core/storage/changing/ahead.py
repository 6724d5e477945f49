"""The first changes of a run that keeps nothing, made one by one without a journal: a full disk has no room for one.

Each is whole or not at all, in the order of the plan, so that a broker that starts in between loses no more than with a
journal. What a run that dies here leaves is found by the same command again, which plans the rest; a file that was not
finished has the name of a run of ours, and the next run deletes it (`commit.delete_remains`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError, RefusedError, StorageError
from kafkalog_core.storage.changing.attributes import Attributes
from kafkalog_core.storage.changing.changes import grouped, is_offset_index, makes_way
from kafkalog_core.storage.changing.fingerprint import fingerprint, pieces
from kafkalog_core.storage.changing.space import free_bytes, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.storage.changing.changes import Change, Fingerprint
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["Contents", "make_ahead"]

_WRITTEN: Final = frozenset({"replace", "create"})
Content = tuple[list[bytes | memoryview], str, int | None]


class Contents:
    """A `Stage` that collects new content by its path: the pieces, `like` and `mtime_ns`."""

    def __init__(self) -> None:
        self.found: dict[str, Content] = {}

    def write(
        self,
        path: str,
        content: Iterable[bytes | memoryview],
        *,
        why: str,
        like: str,
        mtime_ns: int | None = None,
        swap: int | None = None,
    ) -> None:
        """Keep the content of a file."""
        del why, swap
        self.found[path] = (list(content), like, mtime_ns)

    def cut(self, path: str, size_bytes: int, *, why: str) -> None:
        """Pass over a cut: the file has the content."""

    def remove(self, path: str, *, why: str, swap: int | None = None) -> None:
        """Pass over a deletion."""


def make_ahead(disk: Disk, run: str, changes: Sequence[Change], contents: Contents) -> Iterator[Change]:
    """Make changes one by one, and yield each before it is made. The directories are locked.

    Args:
        disk: the door.
        run: the name of the run, which temporary files begin with.
        changes: whole groups from the first change of the plan on, none of which is part of a replacement of segments.
        contents: the new content of their files.

    Raises RefusedError where a file is not the planned one, and WriteError.
    """
    number = 0
    for group in grouped(changes):
        has = {change.path: _attributes(disk, change, contents) for change in group if change.kind in _WRITTEN}
        ordered, gone = list(group), set[str]()
        if makes_way(group) and free_bytes(os.path.dirname(group[0].path)) < _written(group):
            ordered.sort(key=lambda change: is_offset_index(change.path))
            for change in reversed([each for each in ordered if each.before is not None]):
                yield change
                _check(disk, change.path, change.before)
                disk.unlink(change.path)
                gone.add(change.path)
                disk.sync_directory(os.path.dirname(change.path))
        for change in ordered:
            number += 1
            yield change
            directory = os.path.dirname(change.path)
            _check(disk, change.path, None if change.path in gone else change.before)
            if change.kind == "cut":
                disk.cut(change.path, change.size_bytes or 0, change.before.mtime_ns if change.before else 0)
                continue
            if change.kind == "remove":
                disk.unlink(change.path)
            else:
                content, _, mtime_ns = _content(disk, change, contents)
                _write(disk, change.path, f"{directory}/{run}.{number:04d}.tmp", content, has[change.path], mtime_ns)
            disk.sync_directory(directory)


def _write(
    disk: Disk,
    path: str,
    temporary: str,
    content: Iterable[bytes | memoryview],
    attributes: Attributes,
    mtime_ns: int | None,
) -> None:
    try:
        disk.write_file(temporary, content, attributes, mtime_ns)
        disk.rename(temporary, path)
    except (KafkalogError, KeyboardInterrupt):
        with suppress(StorageError):
            disk.unlink(temporary)
        raise


def _written(group: Sequence[Change]) -> int:
    return sum(rounded(change.size_bytes or 0) for change in group)


def _check(disk: Disk, path: str, before: Fingerprint | None) -> None:
    if fingerprint(path, disk.trusted) != before:
        raise RefusedError("has changed since it was planned; run the same command again", path=path)


def _attributes(disk: Disk, change: Change, contents: Contents) -> Attributes:
    if change.before is not None:
        return Attributes.of(change.path, disk.trusted)
    return Attributes.of_new_file(_content(disk, change, contents)[1], disk.trusted)


def _content(disk: Disk, change: Change, contents: Contents) -> Content:
    """New content; of a file with a second name, which keeps its bytes, the start: a shorter copy takes its place."""
    found = contents.found.get(change.path)
    if found is not None:
        return found
    start = [bytes(piece) for piece in pieces(change.path, 0, change.size_bytes or 0, trusted=disk.trusted)]
    return [*start], change.path, change.before.mtime_ns if change.before else None
