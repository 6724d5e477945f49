"""The offset map of one large log, made by several workers: each reads a part of the dirty segments.

Parts are whole segments, one behind the other, so that all of them together read the log once. Their maps are put
together in the order of the log, where the later offset of a key wins. Two things are checked, as they make the result
the map that a cleaner fills by itself: no more keys than fit, and each part began with the transactions that the part
before it has left. Where it is otherwise, or a part cannot be read, there is no map, and the clean fills its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from kafkalog_core.errors import LimitError, StorageError
from kafkalog_core.format.offset_map import OffsetMap
from kafkalog_core.ops.cleaning.bounds import cleanability
from kafkalog_core.ops.cleaning.log import read_clean_log
from kafkalog_core.ops.cleaning.mapping import FilledMap, KnownMap, MapFiller
from kafkalog_core.ops.cleaning.ranges import segments_in
from kafkalog_core.ops.cleaning.rules import cleaning_rules
from kafkalog_core.ops.progress import Advance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.log import CleanLog
    from kafkalog_core.ops.cleaning.rules import CleaningRules
    from kafkalog_core.ops.cleaning.simulation import CompactTask
    from kafkalog_core.ops.cleaning.transactions import AbortedTxn

__all__ = ["MapPart", "PartHead", "merged_map", "packed_part", "parts_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPart:
    """A part, as it goes to a worker: the dirty segments from `start` up to `stop`.

    Args:
        log: its segments from the first dirty one on.
        config: of the topic.
        rules: of the release.
        first_dirty: offset that the clean begins at.
        bound: offset that it ends before.
        start: first segment, counted from the first dirty one.
        stop: segment behind the last one.
        number: of the part, from 0 on.
        parts: how many there are.
        max_batch_bytes: the largest batch that is read, inflated too.
    """

    log: CleanLog
    config: CleanConfig
    rules: CleaningRules
    first_dirty: int
    bound: int
    start: int
    stop: int
    number: int
    parts: int
    max_batch_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHead:
    """What goes before the packed entries of a part; `latest_offset` null: it cannot be used."""

    number: int
    parts: int
    first_dirty: int
    bound: int
    latest_offset: int | None = None
    before: tuple[AbortedTxn, ...] = ()
    after: tuple[AbortedTxn, ...] = ()


def parts_of(task: CompactTask, most: int, advance: Callable[[int], None], *, forced: bool) -> tuple[MapPart, ...]:
    """The parts of the first clean's map; empty: there are no two of them, or the release's rules allow none.

    Args:
        task: of the log.
        most: so many parts at most.
        advance: told that the log was looked at.
        forced: whether the clean is one that a broker would not do now.
    """
    rules = cleaning_rules(task.guess.release)
    advance(0)
    if task.view is None or task.never is not None or rules.map_filling != "records":
        return ()
    config = task.config()
    try:
        log = read_clean_log(task.view, task.broker_dir, rules, config, task.now_ms)
        bounds = cleanability(log, config, rules, task.now_ms)
    except StorageError:
        return ()  # the clean says so by itself
    if not bounds.has_work or not (bounds.would_run or forced):
        return ()
    dirty = segments_in(log.segments, bounds.first_dirty, bounds.bound, rules)
    cuts = _cuts([segment.size_bytes for segment in dirty], most)
    if len(cuts) < 2:
        return ()
    kept = log.segments[log.segments.index(dirty[0]) :]
    part = MapPart(
        log=replace(log, segments=kept, producers={}, open_transaction=None),
        config=config,
        rules=rules,
        first_dirty=bounds.first_dirty,
        bound=bounds.bound,
        start=0,
        stop=len(dirty),
        number=0,
        parts=len(cuts),
        max_batch_bytes=task.max_batch_bytes,
    )
    return tuple(replace(part, start=start, stop=stop, number=number) for number, (start, stop) in enumerate(cuts))


def _cuts(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Where a row of segments is cut so that the parts have about as many bytes each."""
    total = sum(sizes) or 1
    cuts: list[tuple[int, int]] = []
    start = 0
    for stop, done in enumerate(accumulate(sizes), 1):
        if stop == len(sizes) or done * most >= total * (len(cuts) + 1):
            cuts.append((start, stop))
            start = stop
    return cuts


def packed_part(part: MapPart, advance: Callable[[int], None]) -> Iterator[PartHead | bytes]:
    """The map of a part: what it rests on, then the entries in pieces."""
    head = PartHead(number=part.number, parts=part.parts, first_dirty=part.first_dirty, bound=part.bound)
    try:
        filler = MapFiller(part.log, part.config, part.rules, Advance(advance), part.max_batch_bytes)
        found = filler.fill_part(part.first_dirty, part.bound, part.start, part.stop)
    except (LimitError, StorageError):
        yield head  # the clean meets the same, in its own order
        return
    if found.filled.is_full:
        yield head
        return
    offsets = found.filled.offsets
    yield replace(head, latest_offset=offsets.latest_offset, before=found.before, after=found.after)
    yield from offsets.packed()


def merged_map(config: CleanConfig, pieces: Iterable[PartHead | bytes]) -> KnownMap | None:
    """The map of the whole, from those of all parts in their order; null: the clean must fill its own."""
    try:
        offsets = OffsetMap(config.memory_bytes, config.load_factor)
        last = _merge(offsets, pieces)
    except LimitError:
        return None
    if last is None or last.number != last.parts - 1 or offsets.size >= offsets.capacity:
        return None
    filled = FilledMap(offsets=offsets, end_offset=offsets.latest_offset + 1, is_full=False)
    return KnownMap(first_dirty=last.first_dirty, bound=last.bound, filled=filled)


def _merge(offsets: OffsetMap, pieces: Iterable[PartHead | bytes]) -> PartHead | None:
    """The last part; null: one cannot be used, or does not follow from the one before it. Raises LimitError."""
    known: PartHead | None = None
    for piece in pieces:
        if isinstance(piece, bytes):
            offsets.merge(piece)
            continue
        follows = piece.number == 0 if known is None else piece.number == known.number + 1
        if piece.latest_offset is None or not follows or (known is not None and piece.before != known.after):
            return None
        if piece.latest_offset >= 0:
            offsets.latest_offset = piece.latest_offset
        known = piece
    return known
