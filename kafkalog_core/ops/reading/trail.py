"""Batches that were read of a growing log, by which it is noticed that one was cut and written anew.

A follower cuts its log to where its leader's goes another way and appends behind it, in milliseconds: the file may be
longer than before at the next look. So the start of the last batch, its checksum included, is held against what stands
there now. Of all that was read some batches are remembered, the last ones one by one and older ones ever more
sparsely, so that there is one to go on from however much was cut, and memory stays small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkalog_core.ops.reading.logfiles import LogFile
    from kafkalog_core.storage.scan import Run
    from kafkalog_core.storage.source import Source

__all__ = ["Mark", "Trail", "identity_of", "mark_of"]

_HEADER_BYTES: Final = 61
"""The header of a batch of magic 2; of other formats the checksum is within it too."""
_RECENT: Final = 64
"""Batches that are remembered one by one; of older ones each second, each fourth and so on."""

_STEP: Final = 16
"""Of a long run each so-manieth batch before those is remembered at all."""
_MOST: Final = 4 * _RECENT

Identity = tuple[int, int]
"""Device and inode of a file."""


class Mark(NamedTuple):
    """One batch: `header` are its first bytes."""

    identity: Identity
    position: int
    size_bytes: int
    header: bytes
    last_offset: int

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.position + self.size_bytes

    def stands_in(self, source: Source) -> bool:
        """Whether a file still has the batch."""
        if source.size_bytes < self.end:
            return False
        return source.read(self.position, len(self.header)) == self.header


class Trail:
    """What was read, in its order."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []

    def add(self, file: LogFile, run: Run) -> None:
        """One more run of a file was read; it is still in memory, from its first batch on."""
        count = run.batches.count
        recent = max(0, count - _RECENT)
        self._marks += (mark_of(file, run, row) for row in (*range(0, recent, _STEP), *range(recent, count)))
        if len(self._marks) > _MOST:
            self._marks = [*self._marks[:-_RECENT:2], *self._marks[-_RECENT:]]

    def is_kept(self, source: Source, identity: Identity) -> bool:
        """Whether a file still has the batch that was read last, if that was one of its own."""
        last = self._marks[-1] if self._marks else None
        return last is None or last.identity != identity or last.stands_in(source)

    def back_to(self, source: Source, identity: Identity) -> Mark | None:
        """The last batch that a file still has; what came behind it is forgotten. Null: it has none of them."""
        while self._marks and self._marks[-1].identity == identity:
            if self._marks[-1].stands_in(source):
                return self._marks[-1]
            self._marks.pop()
        return None

    def back_into(self, identities: Collection[Identity]) -> Identity | None:
        """The file of which the last batch was read among those that are left; what came behind it is forgotten."""
        while self._marks:
            if self._marks[-1].identity in identities:
                return self._marks[-1].identity
            self._marks.pop()
        return None


def mark_of(file: LogFile, run: Run, row: int) -> Mark:
    """One batch of a run that is still in memory, from its first batch on; -1: the last one."""
    position, size = run.batches.column("position")[row], run.batches.column("size_bytes")[row]
    start = run.start_of(row)
    header = bytes(run.memory[start : start + min(size, _HEADER_BYTES)])
    return Mark(identity_of(file), position, size, header, run.batches.column("last_offset")[row])


def identity_of(file: LogFile) -> Identity:
    """By what a file is known while it is renamed."""
    return file.file.device, file.file.inode
