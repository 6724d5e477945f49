"""Which batches of a segment have a base offset or a leader epoch that cannot be right: no checksum covers either.

This is the rule that `verify`, `dump --committed` and `serve` ask. Every batch is a witness, and so are the name of the
segment (its base offset), the name of the next segment, and each later leader epoch in `leader-epoch-checkpoint`.
Offsets ascend, and leader epochs never decrease. Of witnesses that contradict each other, the fewest are wrong:

- Of the batches, the longest chain with ascending offsets is right. Where two chains are as long, the one in which more
  batches continue without a gap is right: a batch with a wrong offset leaves a gap on both sides.
- A single batch of that chain below the segment's base offset is wrong, unless the batch after it continues it. Several
  are right: the file was renamed.
- A single batch that reaches the next segment, or more offsets than a segment holds, is wrong, unless it continues the
  batch before it and has as many records as offsets. Several are right: the other segment is within their range.
- The last batch is wrong if a later leader epoch starts below it, exactly where the batch would end if it continued the
  batch before it. A line of a text file alone would be no reason: it has no checksum either.
- Of what is left, the longest chain whose leader epochs do not decrease is right.
- The last batch of that chain is wrong if the first two batches of the next segment have a lower leader epoch, but not
  a lower one than the batch before it.

A broker trusts all of them (`LogSegment.recover`, `FileLogInputStream`): it serves them, or does not start.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.layout import MAGIC_V2, MAX_INT32, MAX_INT64
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, read_epoch_file
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import ScanOptions

__all__ = [
    "GO_BACK",
    "Misplaced",
    "MisplacedBatches",
    "PlaceBounds",
    "PlaceWatch",
    "is_of_header",
    "misplaced_batches",
    "partition_bounds",
    "segment_bounds",
    "without",
]

GO_BACK: Final = "offsets go back"
"""How the detail of a batch ends whose offsets are below the expected one."""
_NO_EPOCH: Final = -1
_MOST_EPOCHS: Final = 20_000
_MOST_ROUNDS: Final = 8
"""Each costs as much as the first one; a batch too far below or above is the only one in nearly every log."""


class PlaceBounds(Struct, frozen=True, kw_only=True):
    """What bounds the offsets of a segment.

    Args:
        base_offset: the number in its name.
        next_base: the number in the name of the next segment; None: there is none.
        epochs: the leader epochs of the checkpoint, ascending; empty: it is missing, or not used.
    """

    base_offset: int
    next_base: int | None = None
    epochs: tuple[EpochStart, ...] = ()

    @property
    def end(self) -> int:
        """The offset below which every batch is."""
        end = min(self.base_offset, MAX_INT64 - MAX_INT32) + MAX_INT32 + 1  # LogSegment.canConvertToRelativeOffset
        return end if self.next_base is None else min(end, self.next_base)

    def end_of(self, epoch: int) -> int:
        """Return the offset below which every batch of a leader epoch is, by the checkpoint; MAX_INT64: any."""
        later = bisect_right(self.epochs, epoch, key=lambda each: each.epoch)
        return self.epochs[later].start_offset if epoch >= 0 and later < len(self.epochs) else MAX_INT64


def partition_bounds(partition: Partition) -> dict[int, PlaceBounds]:
    """Return what bounds the offsets of each live segment of a partition, by its base offset."""
    directory = partition.path if partition.format == "log" else None
    return segment_bounds(directory, [each.base_offset for each in partition.segments])


def segment_bounds(directory: str | None, bases: Sequence[int]) -> dict[int, PlaceBounds]:
    """Return what bounds the offsets of consecutive segments, by their base offsets, which ascend.

    A checkpoint of more epochs than a cluster elects leaders in its life is not used: it is as good as missing.
    `directory`: of the checkpoint; None: none is used.
    """
    file = None if directory is None else read_epoch_file(directory, most=_MOST_EPOCHS)
    epochs = EpochCache(() if file is None or file.refusal else file.entries, LATEST).entries
    starts = [each.start_offset for each in epochs]  # ascending
    found: dict[int, PlaceBounds] = {}
    for base, following in zip(bases, [*bases[1:], None], strict=False):
        until = MAX_INT64 if following is None else following
        inside = epochs[bisect_right(starts, base) : bisect_left(starts, until)]
        found[base] = PlaceBounds(base_offset=base, next_base=following, epochs=inside)
    return found


class Misplaced(NamedTuple):
    """A whole batch that is not where its header says.

    `expected_offset` is that after the batch before it; `before_epoch` and `after_epoch` are the leader epochs of the
    batches around it; -1: there is none. `detail` is part of a sentence.
    """

    position: int
    size_bytes: int
    first_offset: int
    last_offset: int
    leader_epoch: int
    fault: Literal["offset", "epoch"]
    expected_offset: int
    detail: str
    before_epoch: int = _NO_EPOCH
    after_epoch: int = _NO_EPOCH

    @property
    def epoch_beside(self) -> tuple[str, int]:
        """Where the batch is that contradicts its leader epoch, before it or after it, and the epoch there."""
        return ("before", self.before_epoch) if self.before_epoch > self.leader_epoch else ("after", self.after_epoch)


class MisplacedBatches(NamedTuple):
    """The misplaced batches, in the order of the file.

    `last_offset` is that of the others; None: there are none. `renamed`: the first of them, if it is below the base
    offset, so that the name of the file is wrong.
    """

    batches: tuple[Misplaced, ...]
    last_offset: int | None
    renamed: Misplaced | None


class PlaceWatch:
    """Watches the scan of a segment: `is_suspicious` if witnesses contradict each other, so that one may be wrong."""

    def __init__(self, bounds: PlaceBounds) -> None:
        self._bounds = bounds
        self._end = MAX_INT64
        self._end_of: int | None = None  # the leader epoch that this is the end of
        self._epoch = _NO_EPOCH
        self._contradicts = False
        self._ends_with_new_epoch = False

    @property
    def is_suspicious(self) -> bool:
        """Whether a batch may be wrong, of those that were seen so far."""
        return self._contradicts or (self._ends_with_new_epoch and self._bounds.next_base is not None)

    def suspect(self) -> None:
        """Note that a batch may be wrong."""
        self._contradicts = True

    def damage(self, damage: Damage) -> None:
        """Take damage, or what is reported about a whole batch: that offsets go back, for one."""
        self._contradicts |= damage.reason == "offset-order"

    def run(self, batches: BatchColumns) -> None:
        """Take whole batches."""
        if self._contradicts or not batches.count:
            return
        epochs = batches.column("leader_epoch")
        lowest, latest = min(epochs), max(epochs)
        if lowest < 0 <= latest:
            lowest = min(epoch for epoch in epochs if epoch >= 0)
        if lowest != self._end_of:
            self._end, self._end_of = min(self._bounds.end, self._bounds.end_of(lowest)), lowest
        self._contradicts = max(batches.column("last_offset")) >= self._end or (
            0 <= lowest < self._epoch or (lowest != latest and not _ascend(epochs))
        )
        before = max(epochs[:-1], default=_NO_EPOCH)
        self._ends_with_new_epoch = 0 <= max(before, self._epoch) < epochs[-1]
        self._epoch = max(self._epoch, latest)


def _ascend(epochs: Sequence[int]) -> bool:
    """Return whether leader epochs never decrease, apart from those of batches without one."""
    known = [epoch for epoch in epochs if epoch >= 0]
    return all(one <= following for one, following in pairwise(known))


class _Batches:
    """The places of all whole batches of a segment."""

    _FIELDS: Final = ("position", "size_bytes", "base_offset", "last_offset", "leader_epoch", "record_count")

    def __init__(self) -> None:
        self.position, self.size_bytes, self.first, self.last, self.epoch, self.count = (
            array("q") for _ in self._FIELDS
        )

    def add(self, batches: BatchColumns) -> None:
        begun = len(self.first)
        columns = (self.position, self.size_bytes, self.first, self.last, self.epoch, self.count)
        for column, name in zip(columns, self._FIELDS, strict=True):
            column.extend(batches.column(name))
        formats = batches.column("format")
        if min(formats) < MAGIC_V2:  # the first offset of a compressed message of magic 0 and 1 is in its content alone
            for row, magic in enumerate(formats, start=begun):
                if magic < MAGIC_V2:
                    self.first[row], self.count[row] = self.last[row], 1


def is_of_header(code: str) -> bool:
    """Return whether a finding is about a batch as a whole, not about its records: its header does not count then."""
    return code.startswith("batch.")


def misplaced_batches(
    source: Source, bounds: PlaceBounds, options: ScanOptions, wrong: Collection[int] = ()
) -> MisplacedBatches:
    """Return the batches of a segment that are not where their headers say, in the order of the file.

    wrong: positions of batches with another error, whose headers do not count as witnesses; those of them that
        contradict the others are returned too.

    It reads the whole file; `PlaceWatch` shows whether that is needed. Memory: 48 bytes a batch. Raises StorageError.
    """
    batches = _Batches()
    for item in scan(source, base_offset=bounds.base_offset, options=options):
        if isinstance(item, Run):
            batches.add(item.batches)
    no_witnesses = {row for row, position in enumerate(batches.position) if position in wrong} if wrong else set()
    chain = _right_offsets(batches, bounds, no_witnesses)
    kept = _epochs_ascend(batches, chain)
    after = _epoch_after(source.path, batches, kept, bounds, options)
    if after != _NO_EPOCH:
        kept.pop()
    fitting = _with_others(batches, chain, no_witnesses, bounds) if no_witnesses else chain
    wrong_offsets = _wrong_offsets(batches, fitting, bounds, no_witnesses)
    found = sorted([*wrong_offsets, *_wrong_epochs(batches, chain, {*kept}, after)])
    renamed = None
    if chain and batches.first[chain[0]] < bounds.base_offset:
        detail = _why_wrong(batches, chain[0], len(batches.position), bounds.base_offset, bounds)
        renamed = _misplaced(batches, chain[0], "offset", bounds.base_offset, detail)
    return MisplacedBatches(tuple(found), batches.last[fitting[-1]] if fitting else None, renamed)


def _right_offsets(batches: _Batches, bounds: PlaceBounds, no_witnesses: Collection[int]) -> list[int]:
    """Return the rows of the longest chain with ascending offsets that is within the bounds of the segment."""
    left_out, chain = {*no_witnesses}, list[int]()
    for _ in range(_MOST_ROUNDS):
        rows = _in_order(batches, bounds, left_out)
        chain = _within(batches, rows, bounds)
        if len(chain) == len(rows):
            break
        left_out.update({*rows} - {*chain})  # it may have taken the place of others
    return chain


def _in_order(batches: _Batches, bounds: PlaceBounds, no_witnesses: Collection[int]) -> list[int]:
    """Return the rows of the longest chain of batches with ascending offsets."""
    first, last = batches.first, batches.last
    valid = bytearray(row not in no_witnesses and 0 <= first[row] <= last[row] for row in range(len(first)))
    rows = _longest_chain((row, first[row], last[row]) for row in range(len(first)) if valid[row])
    chosen = bytearray(len(first))
    for row in rows:
        chosen[row] = 1
    # As long a chain may leave out a neighbour instead: the one of which more batches continue without a gap is right.
    at = 0
    for row in range(len(first)):
        if chosen[row] or not valid[row]:
            continue
        at = bisect_left(rows, row)
        for other in (at - 1, at):
            if not 0 <= other < len(rows):
                continue
            before = rows[other - 1] if other else None
            after = rows[other + 1] if other + 1 < len(rows) else None
            low = -1 if before is None else last[before]
            high = MAX_INT64 if after is None else first[after]
            if low < first[row] and last[row] < high:
                joins = [_joins(batches, bounds, (before, each, after)) for each in (row, rows[other])]
                if joins[0] > joins[1]:
                    rows[other] = row
                    break
    return rows


def _joins(batches: _Batches, bounds: PlaceBounds, rows: tuple[int | None, int, int | None]) -> int:
    """Return how many of two neighbours a batch continues without a gap."""
    before, row, after = rows
    expected = bounds.base_offset if before is None else batches.last[before] + 1
    ends_at = batches.last[row] + 1 == (bounds.next_base if after is None else batches.first[after])
    return (batches.first[row] == expected) + ends_at


def _longest_chain(intervals: Iterable[tuple[int, int, int]]) -> list[int]:
    """Return the rows of the longest chain of intervals of which each begins after the one before it ends.

    intervals: row, first and last number of each, in order.
    """
    ends: list[int] = []  # the lowest end of a chain, by its length - 1
    rows_at: list[int] = []
    before: dict[int, int] = {}
    for row, first, last in intervals:
        length = bisect_left(ends, first)
        if length:
            before[row] = rows_at[length - 1]
        if length == len(ends):
            ends.append(last)
            rows_at.append(row)
        elif last < ends[length]:
            ends[length], rows_at[length] = last, row
    chain: list[int] = []
    row_or_none = rows_at[-1] if rows_at else None
    while row_or_none is not None:
        chain.append(row_or_none)
        row_or_none = before.get(row_or_none)
    return chain[::-1]


def _within(batches: _Batches, rows: list[int], bounds: PlaceBounds) -> list[int]:
    """Return the chain without a single batch below the segment, and without a single one above it."""
    first, last = batches.first, batches.last
    if rows and first[rows[0]] < bounds.base_offset:
        after = None if len(rows) == 1 else first[rows[1]]
        if after is None or (after >= bounds.base_offset and after != last[rows[0]] + 1):
            rows = rows[1:]
    if rows:
        row = rows[-1]
        expected = last[rows[-2]] + 1 if len(rows) > 1 else bounds.base_offset
        is_alone = last[row] >= bounds.end and (len(rows) == 1 or last[rows[-2]] < bounds.end)
        epoch_end = bounds.end_of(batches.epoch[row])
        is_past_epoch = last[row] >= epoch_end == expected + last[row] - first[row] + 1
        continues = first[row] == expected and batches.count[row] == last[row] - first[row] + 1
        if not continues and (is_alone or is_past_epoch):
            rows = rows[:-1]
    return rows


def _with_others(
    batches: _Batches, chain: Sequence[int], no_witnesses: Collection[int], bounds: PlaceBounds
) -> list[int]:
    """Return the chain with the batches that do not count as witnesses, as far as they ascend within it."""
    first, last = batches.first, batches.last
    others = sorted(row for row in no_witnesses if 0 <= first[row] <= last[row])
    found: list[int] = []
    low, begun = min(bounds.base_offset, first[chain[0]]) if chain else bounds.base_offset, 0
    for row in (*chain, None):
        ended = len(others) if row is None else bisect_left(others, row)
        high = bounds.end if row is None else first[row]
        fit = (each for each in others[begun:ended] if low <= first[each] and last[each] < high)
        found += _longest_chain((each, first[each], last[each]) for each in fit)
        if row is not None:
            found.append(row)
            low, begun = last[row] + 1, ended
    return found


def _epochs_ascend(batches: _Batches, rows: Sequence[int]) -> list[int]:
    """Return the rows of the longest chain of batches whose leader epochs do not decrease."""
    epochs = batches.epoch
    # doubled, an epoch begins after an equal one ends
    return _longest_chain((row, 2 * epochs[row] + 1, 2 * epochs[row]) for row in rows if epochs[row] >= 0)


def _epoch_after(path: str, batches: _Batches, kept: Sequence[int], bounds: PlaceBounds, options: ScanOptions) -> int:
    """Return the leader epoch of the segment after that of a path, which the last batch of a chain contradicts.

    -1: it does not.
    """
    if len(kept) < 2 or bounds.next_base is None:
        return _NO_EPOCH
    before, last = batches.epoch[kept[-2]], batches.epoch[kept[-1]]
    if before == last:
        return _NO_EPOCH
    try:
        with Source.open(
            os.path.join(os.path.dirname(path), segment_file_name(bounds.next_base, FileKind.LOG))
        ) as source:
            epochs = _first_epochs(source, bounds.next_base, options)
    except StorageError:
        return _NO_EPOCH
    return epochs[0] if len(epochs) == 2 and before <= epochs[0] <= epochs[1] < last else _NO_EPOCH


def _first_epochs(source: Source, base_offset: int | None, options: ScanOptions) -> list[int]:
    """Return the leader epochs of the first two whole batches of a log; fewer: it has not as many."""
    found: list[int] = []
    for item in scan(source, base_offset=base_offset, options=options):
        if isinstance(item, Run):
            found += item.batches.column("leader_epoch")[:2]
        if len(found) >= 2:
            break
    return found[:2]


def _wrong_offsets(
    batches: _Batches, chain: Sequence[int], bounds: PlaceBounds, no_witnesses: Collection[int]
) -> Iterator[Misplaced]:
    count, expected = len(batches.position), bounds.base_offset
    kept = iter([*chain, count])
    right = next(kept)
    for row in range(count):
        if row == right:
            expected, right = batches.last[row] + 1, next(kept)
            continue
        if row in no_witnesses and not 0 <= batches.first[row] <= batches.last[row]:
            continue  # its header contradicts itself, which is reported
        detail = _why_wrong(batches, row, right, expected, bounds)
        yield _misplaced(batches, row, "offset", expected, detail)


def _why_wrong(batches: _Batches, row: int, right: int, expected: int, bounds: PlaceBounds) -> str:
    first, last = batches.first[row], batches.last[row]
    if last < expected or first < expected:
        return f"{_offsets(first, last)}, where {expected} or more was expected: {GO_BACK}"
    if right < len(batches.position) and last >= batches.first[right]:
        return f"they end with {last}, but the next batch, at byte {batches.position[right]}, has lower ones"
    if bounds.next_base is not None and last >= bounds.next_base:
        return f"they end with {last}, but the next segment starts at {bounds.next_base}"
    if last >= bounds.end:
        return f"they end with {last}, more than {MAX_INT32} above the base offset of the segment"
    epoch = batches.epoch[row]
    return f"they end with {last}, but leader epoch {epoch} ends at {bounds.end_of(epoch)} (leader-epoch-checkpoint)"


def _offsets(first: int, last: int) -> str:
    return f"offset {last}" if first == last else f"offsets {first} to {last}"


def _wrong_epochs(batches: _Batches, chain: Sequence[int], kept: set[int], at_end: int) -> Iterator[Misplaced]:
    """Yield the batches that are not kept; `at_end`: the leader epoch after the last one."""
    with_epoch = [row for row in chain if batches.epoch[row] >= 0]
    for at, row in enumerate(with_epoch):
        if row in kept:
            continue
        before = next((batches.epoch[each] for each in reversed(with_epoch[:at]) if each in kept), _NO_EPOCH)
        after = next((batches.epoch[each] for each in with_epoch[at + 1 :] if each in kept), at_end)
        epoch = batches.epoch[row]
        detail = f"leader epoch {epoch}, but the batches around it have {before} and {after}"
        found = _misplaced(batches, row, "epoch", batches.first[row], detail)
        yield found._replace(before_epoch=before, after_epoch=after)


def _misplaced(batches: _Batches, row: int, fault: Literal["offset", "epoch"], expected: int, detail: str) -> Misplaced:
    place = (batches.position[row], batches.size_bytes[row], batches.first[row], batches.last[row], batches.epoch[row])
    return Misplaced(*place, fault, expected, detail)


def without(items: Iterable[Run | Damage], wrong: Sequence[Damage]) -> Iterator[Run | Damage]:
    """Yield the items of a scan with some of its batches as damage; offsets that go back are not reported.

    wrong: these batches, ascending by position.
    """
    positions = [each.position for each in wrong]
    for item in items:
        if isinstance(item, Damage):
            if item.size_bytes:
                yield item
            continue
        found = item.batches.column("position")
        number = bisect_left(positions, found[0])
        begun = 0
        while number < len(wrong) and positions[number] <= found[-1]:
            row = bisect_left(found, positions[number])
            if begun < row:
                yield _part(item, begun, row)
            if found[row] == positions[number]:
                yield wrong[number]
                begun = row + 1
            number += 1
        if begun < item.batches.count:
            yield item if not begun else _part(item, begun, item.batches.count)


def _part(run: Run, first: int, last: int) -> Run:
    begins = run.batches.column("position")[0] if run.begins is None else run.begins
    return Run(run.memory, run.batches.part(first, last), run.resynced, begins=begins)
