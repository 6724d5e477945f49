"""Where a log is cut, as a value: at an offset, or at the first damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.scan import BATCHES_TO_JUDGE, Damage, Run, ScanOptions, batch_too_high, last_places, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.kafka.start.recovery import SegmentRecovery
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["Cut", "HiddenOffset", "SegmentCut", "cut_at_damage", "cut_at_offset"]


_NO_DAMAGE: Final = frozenset({"over-limit"})
"""What the scan does not read for a reason of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCut:
    """One log that is shortened.

    Args:
        segment: its files.
        size_bytes: of its log afterwards.
        end_offset: after the last batch that it keeps.
        why: a part of a sentence.
        recovery: indexes as a recovery builds them; None: those that are there are shortened.
    """

    segment: Segment
    size_bytes: int
    end_offset: int
    why: str
    recovery: SegmentRecovery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The part of one partition that is deleted.

    Args:
        partition: its files as they are.
        end_offset: where its log ends afterwards.
        segments: logs that are shortened, ascending.
        removed: segments that go as a whole, ascending.
        why_removed: a part of a sentence.
        new_base: base offset of an empty segment that takes the place of all others; None: none.
        inside: first and last offset of the batch that holds the offset that was asked for, where it holds it in its
            middle and is deleted as a whole.
    """

    partition: Partition
    end_offset: int
    segments: tuple[SegmentCut, ...] = ()
    removed: tuple[Segment, ...] = ()
    why_removed: str = ""
    new_base: int | None = None
    inside: tuple[int, int] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is deleted."""
        return not self.segments and not self.removed


@dataclass(frozen=True, slots=True)
class HiddenOffset:
    """Damage after which an offset cannot be found."""

    path: str
    position: int
    reason: str


def cut_at_offset(partition: Partition, offset: int, advance: Callable[[int], None]) -> Cut | HiddenOffset:
    """Cut at the batch that holds an offset, or at the first after it, as `UnifiedLog.truncateTo` does.

    Args:
        partition: has segments, the first of which starts at or below the offset.
        offset: the first that is deleted; of 0.7 an address.
        advance: called with the bytes that are read.
    """
    segments = partition.segments
    number = max(index for index, segment in enumerate(segments) if not index or segment.base_offset <= offset)
    segment = segments[number]
    is_v07 = partition.format == "v07"
    end_offset, inside, position = segment.base_offset, None, None
    for item in _items(segment, advance, is_v07=is_v07, check=False):
        if isinstance(item, Damage):
            is_last = item.size_bytes and item.position + item.size_bytes >= segment.size_bytes
            if is_last and (number < len(segments) - 1 or not item.is_plain_tail):
                return HiddenOffset(_path(segment), item.position, item.reason)
            continue
        batches = item.batches
        lasts = batches.column("last_offset")
        row = next((row for row, last in enumerate(lasts) if last > offset or (last == offset and not is_v07)), None)
        if row is None:
            end_offset = lasts[-1] + (not is_v07)
            continue
        if row:
            end_offset = lasts[row - 1] + (not is_v07)
        position = batches.column("position")[row]
        first = position + segment.base_offset if is_v07 else batches.column("base_offset")[row]
        inside = (first, lasts[row]) if first < offset else None
        break
    cuts: tuple[SegmentCut, ...] = ()
    if position is not None:
        why = f"it ends before offset {offset}"
        cuts = (SegmentCut(segment=segment, size_bytes=position, end_offset=end_offset, why=why),)
    return Cut(
        partition=partition,
        end_offset=end_offset,
        segments=cuts,
        removed=segments[number + 1 :],
        why_removed=f"it starts after offset {offset}",
        inside=inside,
    )


def cut_at_damage(partition: Partition, advance: Callable[[int], None], *, first: int = 0) -> Cut | None:
    """Cut at the first place that is not a whole batch, or one with a wrong checksum; None: there is none.

    Args:
        partition: whose segments are read.
        advance: called with the bytes that are read.
        first: index of the segment to begin with.
    """
    is_v07 = partition.format == "v07"
    for number in range(first, len(partition.segments)):
        segment = partition.segments[number]
        last: list[tuple[int, ...]] = [(0, 0, segment.base_offset - (not is_v07))]
        for item in _items(segment, advance, is_v07=is_v07, check=True):
            if isinstance(item, Run):
                last = [*last, *last_places(item.batches)][-BATCHES_TO_JUDGE:]
                continue
            if item.reason in _NO_DAMAGE:
                continue
            position, kept = (item.position, last[-1]) if item.size_bytes else _before_disorder(item, last)
            end_offset = kept[-1] + (not is_v07)
            why = f"{item.reason} at byte {position}"
            cut = SegmentCut(segment=segment, size_bytes=position, end_offset=end_offset, why=why)
            return Cut(
                partition=partition,
                end_offset=end_offset,
                segments=(cut,),
                removed=partition.segments[number + 1 :],
                why_removed=f"the segment before, of offset {segment.base_offset}, is cut",
            )
    return None


def _before_disorder(damage: Damage, last: Sequence[tuple[int, ...]]) -> tuple[int, tuple[int, ...]]:
    """Return the byte of the batch with wrong offsets, as `verify` names it, and the place of the one before it."""
    wrong = batch_too_high(last)
    if wrong is not None:
        return wrong[0], last[0]
    return damage.position, next(place for place in reversed(last) if place[0] < damage.position or place is last[0])


def _items(segment: Segment, advance: Callable[[int], None], *, is_v07: bool, check: bool) -> Iterator[Run | Damage]:
    position = 0
    with Source.open(_path(segment)) as source:
        options = ScanOptions(check=check)
        for item in scan(
            source, base_offset=segment.base_offset, is_v07=is_v07, options=options, end=source.size_bytes
        ):
            yield item
            if isinstance(item, Run):
                reached = item.batches.column("position")[-1] + item.batches.column("size_bytes")[-1]
                advance(reached - position)
                position = reached
        advance(source.size_bytes - position)


def _path(segment: Segment) -> str:
    return segment.files[0].path
