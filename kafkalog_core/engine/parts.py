"""Parts of a log file: how a file is divided, and how a part is read on its own.

A part is a range of bytes. It owns the entries that start in it, and it is read exactly as a scan of the whole file
would read it. The position of its first entry follows from all lengths before it, so the lengths are walked from the
file's start: headers only, a small share of the bytes of large batches. That walk trusts every length, but a scan does
not: so the scan begins at the last batch before the part whose checksum is correct. A chain of lengths that leads to a
good batch is one that a scan follows too, whatever else is wrong on the way; if the chain ends before the part, the
framing is lost, and the part in which that happens reports the damage up to the file's end. With a search after damage,
the walk goes on at the next whole batch, as that scan does. Then the items are the same too, except for one mark: if a
wrong length leads by chance to a later batch, the scan searches and marks all items after it as `resynced`. The walk
trusts the length and does not notice, so later parts lack the mark.

A caller that hands out the parts of a file walks it once and gives each part the place where its reader begins
(`with_begin`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from kafkalog_core.format.columns import BATCH_ROWS, BatchColumns
from kafkalog_core.format.layout import ENVELOPE, LOG_OVERHEAD, MAX_INT32, MAX_INT64
from kafkalog_core.storage.framing import EntrySearch, LogFraming
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import Source, UnreadableError
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.storage.scan import ScanOptions

__all__ = [
    "PART_BYTES",
    "WHOLE",
    "LogPart",
    "Walk",
    "divide",
    "grouped",
    "last_good",
    "part_items",
    "walk_lengths",
    "with_begin",
]

PART_BYTES: Final = 64 * 1024 * 1024
"""Size of a part, unless its reader asks for another one."""


_JUMP_BYTES: Final = 2048
"""Entries of at least this size are skipped by their headers; smaller ones are walked in windows."""
_DENSE_BYTES: Final = 256 * 1024
_LOOKED_AT: Final = 64
"""Number of batches before a part that are searched for one with a correct checksum; else the scan starts earlier."""


class LogPart(Struct, frozen=True):
    """The entries of a file that start in bytes `start` to `end` (exclusive; None: to the file's end).

    The walk to the start begins at `begin`, where an entry starts that an earlier scan has reached. `next_offset` is
    the offset expected there; None: not known.
    """

    start: int = 0
    end: int | None = None
    begin: int = 0
    next_offset: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the part is all of the file."""
        return self.start == 0 and self.end is None


WHOLE: Final = LogPart()


def divide(part: LogPart, size_bytes: int, part_bytes: int = PART_BYTES) -> list[LogPart]:
    """Cut a part into parts of nearly equal size, at most `part_bytes` each.

    size_bytes: size of the part when its file was listed; what is appended since belongs to the last one.
    """
    count = max(1, -(-size_bytes // max(1, part_bytes)))
    bounds = [part.start + size_bytes * number // count for number in range(count)]
    return [replace(part, start=start, end=end) for start, end in zip(bounds, [*bounds[1:], part.end], strict=True)]


class _Sized(Protocol):
    @property
    def size_bytes(self) -> int: ...


_Item = TypeVar("_Item", bound=_Sized)


def grouped(items: Iterable[_Item], size_bytes: int, most: int | None = None) -> Iterator[tuple[_Item, ...]]:
    """Yield the items, in order, in groups of about `size_bytes` and of at most `most` items."""
    group: list[_Item] = []
    group_bytes = 0
    for item in items:
        if group and (group_bytes + item.size_bytes > size_bytes or len(group) == most):
            yield tuple(group)
            group, group_bytes = [], 0
        group.append(item)
        group_bytes += item.size_bytes
    if group:
        yield tuple(group)


# --- a part that is read ----------------------------------------------------------------------------------------------
def part_items(
    source: Source, part: LogPart, *, base_offset: int | None, options: ScanOptions
) -> Iterator[Run | Damage]:
    """Yield the items of a scan of a `.log` file that belong to a part of it.

    Damage belongs to the part that it starts in; damage of size 0, about a whole batch, to the part of that batch.
    """
    start = _scan_start(source, part, options)
    if start is None:
        return
    # The offset is known at the beginning of the part only.
    if start.position == part.begin > 0:
        base_offset = part.next_offset
    until = MAX_INT64 if part.end is None else part.end
    # The system must not read ahead into the part of another process.
    source.read_up_to(until)
    for item in scan(source, base_offset=base_offset, options=options, start=start.position, until=until):
        position = item.position if isinstance(item, Damage) else item.batches.column("position")[0]
        # Items are in the order of the file: from here on all belong to other parts.
        if part.end is not None and position >= part.end:
            return
        kept = _kept(item, part)
        if kept is not None:
            # The walk has passed damage by a search, so what follows is marked as in a scan of the whole file.
            if start.resynced and isinstance(kept, Run):
                kept = kept._replace(resynced=True)
            yield kept


def _kept(item: Run | Damage, part: LogPart) -> Run | Damage | None:
    """Return the rows of an item that start in a part of the file; None: there are none."""
    if isinstance(item, Damage):
        return item if item.position >= part.start else None
    positions = item.batches.column("position")
    first, last = 0, item.batches.count
    if positions[0] < part.start:
        # A run of the scan may begin before the part: its first rows belong to the part before.
        first = sum(position < part.start for position in positions)
    if part.end is not None and positions[-1] >= part.end:
        last = sum(position < part.end for position in positions)
    if (first, last) == (0, item.batches.count):
        return item
    if first == last:
        return None
    return item.rows(first, last)


class _Start(NamedTuple):
    """Where a scan begins, and whether a search after damage has found that place."""

    position: int
    resynced: bool = False


def _scan_start(source: Source, part: LogPart, options: ScanOptions) -> _Start | None:
    """Return where a scan must begin to read the part as a scan of the whole file does; None: no scan reaches it."""
    if part.start <= part.begin:
        return _Start(part.begin)
    # From a begin of its own the walk is short, and who divides the file continues the long one.
    walk = (_LastWalk() if part.begin else _last_walk).to(source, part, options)
    # The framing is lost before the part, and without a search no scan gets here.
    if walk.is_broken and not options.resync:
        return None
    # A good checksum shows that the lengths have led to a batch, and not to bytes that look like one.
    found = last_good(source, walk.before, options.max_batch_bytes)
    return _Start(part.begin if found is None else found[0], walk.resynced)


def with_begin(source: Source, part: LogPart, options: ScanOptions) -> LogPart:
    """Return a part that begins next to its start, so that its reader need not walk there from the file's start.

    Pass the parts of a file in their order, so that the file is walked once. A part that no scan reaches, or only a
    search after damage, is returned as it is.
    """
    if part.start <= part.begin:
        return part
    walk = _last_walk.to(source, part, options)
    found = None if walk.is_broken or walk.resynced else last_good(source, walk.before, options.max_batch_bytes)
    return part if found is None else replace(part, begin=found[0], next_offset=None)


class Walk(NamedTuple):
    """The end of a walk over lengths.

    `before` are the last entries passed, as (position, size), from the last search on; `is_broken`: no whole entry is
    at `position`, which is before the requested byte; `resynced`: whether a search has found the way.
    """

    position: int
    before: deque[tuple[int, int]]
    is_broken: bool = False
    resynced: bool = False


class _LastWalk:
    """The last walk: a caller that reads the parts of a file one by one walks the file once."""

    def __init__(self) -> None:
        self._version: tuple[int, ...] = ()
        self._begin = 0
        self._walk = Walk(0, deque())

    def to(self, source: Source, part: LogPart, options: ScanOptions) -> Walk:
        """Return the walk to a part's start; it continues the last walk if the file is the same and did not change."""
        # The same version of the file: a walk over other lengths would lead elsewhere.
        is_known = (self._version, self._begin) == (source.version, part.begin) and self._walk.position <= part.start
        walk = self._walk if is_known else Walk(part.begin, deque())
        search = EntrySearch(source, LogFraming(0), options.max_batch_bytes)
        # After each search the walk goes on, until it arrives or finds nothing more.
        while True:
            resynced = walk.resynced
            walk = walk_lengths(source, walk.position, part.start, walk.before)._replace(resynced=resynced)
            if not walk.is_broken:
                # Only a walk that arrived is remembered: one that failed must be tried with its own options.
                self._version, self._begin, self._walk = source.version, part.begin, walk
                return walk
            found = None
            if options.resync:
                found = search.find(walk.position + 1, source.size_bytes, before=part.start)
            if found is None:
                return walk
            walk = Walk(found, deque(), resynced=True)


_last_walk: Final = _LastWalk()


def walk_lengths(source: Source, position: int, end: int, passed_before: Iterable[tuple[int, int]] = ()) -> Walk:
    """Follow the lengths of a `.log` file's entries, from one entry to the first that starts at or after `end`.

    `passed_before` are entries that an earlier walk has passed.
    """
    framing, columns = LogFraming(0), None
    file_end, min_bytes = source.size_bytes, framing.min_entry_bytes
    reads, peeked, envelope_of = source.peeks(), source.peeked, ENVELOPE.struct.unpack_from
    # The last places only: `last_good` looks back from the part.
    before = deque(passed_before, maxlen=_LOOKED_AT)
    while position < end:
        # Offset and size are in the first 12 bytes; an unreadable header ends the walk like a wrong length.
        size = LOG_OVERHEAD + envelope_of(peeked)[1] if reads(position) else 0
        if not min_bytes <= size <= file_end - position:
            return Walk(position, before, is_broken=True)
        passed = 0
        # Dense files have thousands of entries in a window: one system call for each would be slower than reading them.
        if size < _JUMP_BYTES:
            columns = columns or BatchColumns(BATCH_ROWS)
            passed = _walk_window(source, framing, position, end, columns)
        if columns is not None and passed:
            places = zip(columns.column("position"), columns.column("size_bytes"), strict=True)
            before.extend([*places][-_LOOKED_AT:])
        else:
            before.append((position, size))
        position += passed or size
    return Walk(position, before)


def last_good(
    source: Source, places: Iterable[tuple[int, int]], max_batch_bytes: int
) -> tuple[int, BatchColumns] | None:
    """Return position and row of the last entry with a correct checksum; None: there is none."""
    framing, probe = LogFraming(0), BatchColumns(2)
    for position, size in reversed([*places]):
        if size > max_batch_bytes:
            continue
        try:
            entry = source.window(position, size)
        except UnreadableError:
            continue
        framing.walk(entry, position, -1, max_batch_bytes, check=True, into=probe)
        # The kernel fills a row only for an entry whose checksum is correct.
        if probe.count:
            return position, probe
    return None


def _walk_window(source: Source, framing: LogFraming, position: int, end: int, columns: BatchColumns) -> int:
    """Return the size of the small entries walked at a position, in bytes; 0 if the first of them is not valid."""
    try:
        window = source.window(position, min(_DENSE_BYTES, end - position))
    except UnreadableError:
        return 0
    # Without checksums: lengths alone are asked for here.
    _, passed = framing.walk(window, position, -1, MAX_INT32, check=False, into=columns)
    return passed if columns.count else 0
