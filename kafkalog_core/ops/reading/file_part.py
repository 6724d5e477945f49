"""A part of one log file, read by itself and yet exactly as a scan of the whole file would have read it.

A part owns the entries that start in it. Where its first entry is follows from all lengths before it, so the
lengths are walked from the file's start: headers alone, a small share of the bytes of large batches. That walk trusts
every length, which a scan does not: so the scan begins at the last batch before the part whose checksum is right. A
chain of lengths that leads to a good batch is one that a scan follows too, whatever else is wrong on the way; where it
ends before the part, the framing is lost, and the part in which that happens reports the damage to the file's end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format.columns import BATCH_ROWS, BatchColumns
from kafkalog_core.format.layout import ENVELOPE, LOG_OVERHEAD, MAX_INT32
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kafkalog_core.ops.reading.logfiles import LogFile
    from kafkalog_core.storage.scan import ScanOptions
    from kafkalog_core.storage.source import Source

__all__ = [
    "WHOLE",
    "BatchMark",
    "FilePart",
    "ReadHistory",
    "Walk",
    "identity_of",
    "last_good",
    "mark_of",
    "part_items",
    "walk_lengths",
]


_JUMP_BYTES: Final = 2048
"""Entries from this size on are passed over by their headers; smaller ones are walked in windows."""
_SIZE: Final = slice(ENVELOPE.at("size"), LOG_OVERHEAD)
_DENSE_BYTES: Final = 256 * 1024
_LOOKED_AT: Final = 64
"""Batches before a part of which one with a right checksum is looked for; else the whole file is scanned up to it."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The entries of a file that start in bytes `start` to `end` (exclusive; None: to the file's end).

    `begin` is where the walk to the start begins: where an entry starts that a scan has come to before. `next_offset`
    is the offset expected there; None: not known.
    """

    start: int = 0
    end: int | None = None
    begin: int = 0
    next_offset: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the file."""
        return self.start == 0 and self.end is None


WHOLE: Final = FilePart()


def part_items(
    source: Source, part: FilePart, *, base_offset: int | None, options: ScanOptions
) -> Iterator[Run | Damage]:
    """Yield what a scan of a `.log` file, without `resync`, gives out of a part of it.

    Damage belongs to the part that it starts in, and a word about a whole batch to the part of that batch.
    """
    start = _scan_start(source, part, options)
    if start is None:
        return
    if start == part.begin > 0:
        base_offset = part.next_offset
    for item in scan(source, base_offset=base_offset, options=options, start=start):
        position = item.position if isinstance(item, Damage) else item.batches.column("position")[0]
        if part.end is not None and position >= part.end:
            return
        kept = _kept(item, part)
        if kept is not None:
            yield kept


def _kept(item: Run | Damage, part: FilePart) -> Run | Damage | None:
    """Return what of an item is in a part."""
    if isinstance(item, Damage):
        return item if item.position >= part.start else None
    positions = item.batches.column("position")
    first, last = 0, item.batches.count
    if positions[0] < part.start:
        first = sum(position < part.start for position in positions)
    if part.end is not None and positions[-1] >= part.end:
        last = sum(position < part.end for position in positions)
    if (first, last) == (0, item.batches.count):
        return item
    if first == last:
        return None
    begins = positions[0] if item.begins is None else item.begins
    return Run(item.memory, item.batches.part(first, last), item.resynced, begins=begins)


def _scan_start(source: Source, part: FilePart, options: ScanOptions) -> int | None:
    """Return where a scan must begin to reach the part as a scan of the whole file does; None: no scan reaches it."""
    if part.start <= part.begin:
        return part.begin
    walk = _last_walk.to(source, part)
    if walk.is_broken:
        return None
    found = last_good(source, walk.before, options.max_batch_bytes)
    return part.begin if found is None else found[0]


class Walk(NamedTuple):
    """Where a walk over lengths has come to.

    `before` are the last entries that it has passed, as (position, size); `is_broken`: no entry, or not a whole one,
    is at `position`, which is before the place that was asked for.
    """

    position: int
    before: deque[tuple[int, int]]
    is_broken: bool = False


class _LastWalk:
    """How far the file that was walked last was walked: the caller that reads its parts one by one walks it once."""

    def __init__(self) -> None:
        self._version: tuple[int, ...] = ()
        self._begin = 0
        self._walk = Walk(0, deque())

    def to(self, source: Source, part: FilePart) -> Walk:
        """Return the walk to a part's start, going on from the last one of the same, unchanged file."""
        is_known = (self._version, self._begin) == (source.version, part.begin) and self._walk.position <= part.start
        before = self._walk if is_known else Walk(part.begin, deque())
        walk = walk_lengths(source, before.position, part.start, before.before)
        if not walk.is_broken:
            self._version, self._begin, self._walk = source.version, part.begin, walk
        return walk


_last_walk: Final = _LastWalk()


def walk_lengths(source: Source, position: int, end: int, passed_before: Iterable[tuple[int, int]] = ()) -> Walk:
    """Follow the lengths of a `.log` file's entries from one of them to the first that starts at `end` or after it.

    `passed_before` are entries that an earlier walk has passed.
    """
    framing, columns = LogFraming(0), BatchColumns(BATCH_ROWS)
    peek, file_end = source.peek, source.size_bytes
    min_bytes, header_bytes = framing.min_entry_bytes, framing.header_bytes
    before = deque(passed_before, maxlen=_LOOKED_AT)
    while position < end:
        try:
            header = peek(position)
        except UnreadableError:
            return Walk(position, before, is_broken=True)
        size = LOG_OVERHEAD + int.from_bytes(header[_SIZE], "big", signed=True) if len(header) == header_bytes else 0
        if not min_bytes <= size <= file_end - position:
            return Walk(position, before, is_broken=True)
        passed = 0
        if size < _JUMP_BYTES:
            passed = _walk_window(source, framing, position, end, columns)
        if passed:
            places = zip(columns.column("position"), columns.column("size_bytes"), strict=True)
            before.extend([*places][-_LOOKED_AT:])
        else:
            before.append((position, size))
        position += passed or size
    return Walk(position, before)


def last_good(
    source: Source, places: Iterable[tuple[int, int]], max_batch_bytes: int
) -> tuple[int, BatchColumns] | None:
    """Return the last of some entries whose checksum is right: its position, and its row."""
    framing, probe = LogFraming(0), BatchColumns(2)
    for position, size in reversed([*places]):
        if size > max_batch_bytes:
            continue
        try:
            entry = source.window(position, size)
        except UnreadableError:
            continue
        framing.walk(entry, position, -1, max_batch_bytes, check=True, into=probe)
        if probe.count:
            return position, probe
    return None


def _walk_window(source: Source, framing: LogFraming, position: int, end: int, columns: BatchColumns) -> int:
    """Return bytes of small entries passed over at a position; 0 where the first of them is not as it should be."""
    try:
        window = source.window(position, min(_DENSE_BYTES, end - position))
    except UnreadableError:
        return 0
    _, passed = framing.walk(window, position, -1, MAX_INT32, check=False, into=columns)
    return passed if columns.count else 0


_HEADER_BYTES: Final = 61
"""The header of a batch of magic 2; of other formats the checksum is within it too."""
_RECENT: Final = 64
"""Batches that are remembered one by one; of older ones each second, each fourth and so on."""

_STEP: Final = 16
"""Of a long run each so-manieth batch before those is remembered at all."""
_MOST: Final = 4 * _RECENT

Identity = tuple[int, int]
"""Device and inode of a file."""


class BatchMark(NamedTuple):
    """One batch: `header` are its first bytes."""

    identity: Identity
    position: int
    size_bytes: int
    header: bytes
    last_offset: int

    @property
    def end(self) -> int:
        """The byte after it."""
        return self.position + self.size_bytes

    def stands_in(self, source: Source) -> bool:
        """Return whether a file still has the batch."""
        if source.size_bytes < self.end:
            return False
        return source.read(self.position, len(self.header)) == self.header


class ReadHistory:
    """What was read, in its order."""

    def __init__(self) -> None:
        self._marks: list[BatchMark] = []

    def add(self, file: LogFile, run: Run) -> None:
        """Return one more run of a file was read; it is still in memory, from its first batch on."""
        count = run.batches.count
        recent = max(0, count - _RECENT)
        self._marks += (mark_of(file, run, row) for row in (*range(0, recent, _STEP), *range(recent, count)))
        if len(self._marks) > _MOST:
            self._marks = [*self._marks[:-_RECENT:2], *self._marks[-_RECENT:]]

    def is_kept(self, source: Source, identity: Identity) -> bool:
        """Return whether a file still has the batch that was read last, if that was one of its own."""
        last = self._marks[-1] if self._marks else None
        return last is None or last.identity != identity or last.stands_in(source)

    def back_to(self, source: Source, identity: Identity) -> BatchMark | None:
        """Return the last batch that a file still has; what came after it is forgotten. None: it has none of them."""
        while self._marks and self._marks[-1].identity == identity:
            if self._marks[-1].stands_in(source):
                return self._marks[-1]
            self._marks.pop()
        return None

    def back_into(self, identities: Collection[Identity]) -> Identity | None:
        """Return the remaining file whose batch was read last; batches read after it are forgotten."""
        while self._marks:
            if self._marks[-1].identity in identities:
                return self._marks[-1].identity
            self._marks.pop()
        return None


def mark_of(file: LogFile, run: Run, row: int) -> BatchMark:
    """Return one batch of a run that is still in memory, from its first batch on; -1: the last one."""
    position, size = run.batches.column("position")[row], run.batches.column("size_bytes")[row]
    start = run.start_of(row)
    header = bytes(run.memory[start : start + min(size, _HEADER_BYTES)])
    return BatchMark(identity_of(file), position, size, header, run.batches.column("last_offset")[row])


def identity_of(file: LogFile) -> Identity:
    """By what a file is known while it is renamed."""
    return file.file.device, file.file.inode
