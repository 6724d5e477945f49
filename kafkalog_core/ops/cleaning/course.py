"""The course of one clean: the map, then group after group of segments, read and filtered into new ones.

`Cleaner.doClean`, `cleanSegments` and `cleanInto`. Nothing is written here: what a new segment holds comes out in
chunks, for whoever writes or counts them. Memory: the map, a window of the log and what is left of it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

from kafkalog_core.errors import CleanError
from kafkalog_core.format.clean import RunFilter
from kafkalog_core.format.clean_terms import BIT_DISCARD, BIT_RETAIN_EMPTY, OUTCOME_REBUILT, FilterRules
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.deflate import GZIP_SYSTEM
from kafkalog_core.format.heavy_keys import HeavyKeys
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.cleaning.appends import Appends
from kafkalog_core.ops.cleaning.bounds import cleanability
from kafkalog_core.ops.cleaning.grouping import group_segments
from kafkalog_core.ops.cleaning.mapping import FilledMap, MapFiller
from kafkalog_core.ops.cleaning.new_indexes import NewIndexes
from kafkalog_core.ops.cleaning.ranges import segments_in
from kafkalog_core.ops.cleaning.reading import check_record_sizes, payload_failure, read_runs, run_bytes
from kafkalog_core.ops.cleaning.stats import Counts
from kafkalog_core.ops.cleaning.tallies import Tallies
from kafkalog_core.ops.cleaning.transactions import AbortedTxn, TransactionState, collect_aborted
from kafkalog_core.ops.cleaning.verdicts import Verdicts
from kafkalog_core.ops.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.clean_terms import Filtered
    from kafkalog_core.format.heavy_keys import HeavyKey
    from kafkalog_core.ops.cleaning.appends import AppendSet
    from kafkalog_core.ops.cleaning.bounds import Cleanability
    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.log import CleanLog, CleanSegment
    from kafkalog_core.ops.cleaning.mapping import KnownMap
    from kafkalog_core.ops.cleaning.rules import CleaningRules
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.storage.scan import Run

__all__ = ["Chunk", "CleanPass", "Group", "next_pass"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a new segment, valid until the next one.

    `batches` are what `data` holds; their positions are places in the new segment. `sets`: appends that end with this
    piece, of releases that index by appends.
    """

    data: memoryview
    batches: BatchColumns
    sets: tuple[AppendSet, ...]


@dataclass(slots=True)
class Group:
    """Segments that become one; `chunks` may be called once, and all else is whole when it is at its end.

    Args:
        sources: the segments.
        clean: which they are of.
        aborted: entries for the transaction index of the new segment; empty: it has none.
        size_bytes: of the new log.
        built: its indexes, until the next group is asked for.
    """

    sources: tuple[CleanSegment, ...]
    clean: CleanPass
    aborted: list[AbortedTxn] = field(default_factory=list)
    size_bytes: int = 0
    built: NewIndexes | None = None

    @property
    def indexes(self) -> NewIndexes:
        """Indexes of the new segment."""
        if self.built is None:
            raise ValueError("nothing of this group is cleaned yet, or the next one is")
        return self.built

    @property
    def base_offset(self) -> int:
        """Base offset of the new segment."""
        return self.sources[0].base_offset

    @property
    def mtime_ns(self) -> int:
        """What the new segment's log and indexes get: that of the last source."""
        return self.sources[-1].mtime_ns

    def chunks(self) -> Iterator[Chunk]:
        """The content of the new segment. Raises CleanError and StorageError."""
        return self.clean.clean_group(self)


class CleanPass:
    """One clean of one log.

    Args:
        log: as it is.
        bounds: what may be cleaned of it.
        config: of the topic.
        rules: of the release.
        now_ms: when the clean begins.
        heavy_keys: how many of the biggest keys are looked for; 0: none.
        progress: told the bytes that are read: those of the dirty part once more than the others.
        max_batch_bytes: the largest batch that is read, inflated too.
    """

    def __init__(
        self,
        log: CleanLog,
        bounds: Cleanability,
        config: CleanConfig,
        rules: CleaningRules,
        *,
        now_ms: int,
        heavy_keys: int = 0,
        progress: Progress = NO_PROGRESS,
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self.log = log
        self.bounds = bounds
        self.counts = Counts()
        self.by_source: dict[int, Counts] = {}
        self._config = config
        self._rules = rules
        self._now_ms = now_ms
        self._heavy_keys = heavy_keys
        self._heavy = HeavyKeys() if heavy_keys else None
        self._progress = progress
        self._max_batch_bytes = max_batch_bytes
        self._batches = BatchColumns()
        self._filled: FilledMap | None = None
        self._filter: RunFilter | None = None
        self._transactions = TransactionState()
        self._verdicts = Verdicts(rules, log.producers, _kept_end(log, bounds, rules), now_ms)
        self._legacy_horizon_ms = 0  # tombstones of v0 and v1 (before 3.1 all, and markers) in newer segments stay
        self.groups: tuple[Group, ...] = ()

    # --- the map ------------------------------------------------------------------------------------------------------
    def build(self, known: KnownMap | None = None) -> None:
        """Fill the map, and so find out where the clean ends; `known`: others may have filled it already.

        Raises CleanError and StorageError.
        """
        first_dirty, bound = self.bounds.first_dirty, self.bounds.bound
        if known is not None and (known.first_dirty, known.bound) == (first_dirty, bound):
            self._filled = known.filled
        else:
            filler = MapFiller(self.log, self._config, self._rules, self._progress, self._max_batch_bytes)
            self._filled = filler.fill(first_dirty, bound)
        clean = segments_in(self.log.segments, 0, self.bounds.first_dirty, self._rules)
        self._legacy_horizon_ms = clean[-1].mtime_ms - self._config.delete_retention_ms if clean else 0
        sources = segments_in(self.log.segments, 0, self.end_offset, self._rules)
        grouped = group_segments(sources, self._config, self._rules, self.bounds.bound)
        self.groups = tuple(Group(group, self) for group in grouped)
        self._filter = RunFilter(
            self._filled.offsets,
            _filter_rules(self._rules),
            now_ms=self._now_ms,
            delete_retention_ms=self._config.delete_retention_ms,
            heavy=self._heavy,
        )

    @property
    def end_offset(self) -> int:
        """Where the clean ends: the checkpoint afterwards."""
        return self._map.end_offset

    @property
    def is_full(self) -> bool:
        """Whether it ends before the bound, as the map was full."""
        return self._map.is_full

    @property
    def mapped_keys(self) -> int:
        """Keys in the map."""
        return self._map.offsets.size

    @property
    def map_capacity(self) -> int:
        """Keys that fit into it."""
        return self._map.offsets.capacity

    @property
    def lone_tombstone_keys(self) -> int:
        """Tombstones that are the only records of their keys in the dirty part."""
        return self.filter.tally.lone_tombstones

    @property
    def heavy_keys(self) -> list[HeavyKey]:
        """The biggest keys of the records that the map knows, the biggest first; empty: none stands out."""
        return [] if self._heavy is None else self._heavy.biggest(self._heavy_keys)

    @property
    def _map(self) -> FilledMap:
        if self._filled is None:
            raise ValueError("the offset map is not built yet")
        return self._filled

    @property
    def filter(self) -> RunFilter:
        """The filter of the records, with what it has counted."""
        if self._filter is None:
            raise ValueError("the offset map is not built yet")
        return self._filter

    def release(self) -> None:
        """Give the memory of the map back: nothing more is to be cleaned or asked of it. What was counted stays."""
        self._filled = self._filter = None
        self.groups = ()  # each knows this pass, and would keep it

    # --- the log ------------------------------------------------------------------------------------------------------
    def run(self) -> Iterator[Group]:
        """The groups, one after another: the chunks of one must be at their end before the next one is asked for."""
        if self._filled is None:
            self.build()
        for group in self.groups:
            yield group
            group.built = None

    def clean_group(self, group: Group) -> Iterator[Chunk]:
        """See `Group.chunks`."""
        indexes = NewIndexes(group.base_offset, self._config, self._rules, group.sources[0].path)
        group.built = indexes
        appends = Appends(self._config, self._rules) if self._rules.appends_chunks else None
        for number, segment in enumerate(group.sources):
            following = group.sources[number + 1].base_offset if number + 1 < len(group.sources) else None
            for chunk in self._clean_segment(group, segment, following, appends):
                indexes.take(chunk)
                yield chunk
        indexes.close()
        group.aborted, self._transactions.kept = self._transactions.kept, []
        if any(one.last_offset >= other.last_offset for one, other in pairwise(group.aborted)):
            message = "the new transaction index would not be in the order of markers, at which the cleaner stops"
            raise CleanError("index-order", message, path=group.sources[0].path)

    def _clean_segment(
        self, group: Group, segment: CleanSegment, following: int | None, appends: Appends | None
    ) -> Iterator[Chunk]:
        if self._rules.heeds_transactions:
            self._begin_segment(segment, following)
        retains_legacy = segment.mtime_ms > self._legacy_horizon_ms
        tallies = Tallies(self.filter)
        if appends is not None:
            is_first = segment is self.groups[0].sources[0]  # a full map leaves the buffer as it is for this one
            appends.begin(segment, grown_for=self._map.largest_batch_bytes if is_first else 0)
        for run in read_runs(segment, self._batches, max_batch_bytes=self._max_batch_bytes):
            yield from self._clean_run(group, segment, run, appends, tallies, retains_legacy=retains_legacy)
        if appends is not None:
            sets = tuple(appends.end())
            if sets:
                yield Chunk(data=memoryview(b""), batches=BatchColumns(0), sets=sets)
        counts = tallies.counts()
        if self._rules.fails_on_null_keys and counts.dropped_records["null-key"]:
            message = "a record without a key, at which this release's cleaner stops"
            raise CleanError("null-key", message, path=segment.path)
        self.by_source[segment.base_offset] = counts
        self.counts.add(counts)

    def _clean_run(
        self,
        group: Group,
        segment: CleanSegment,
        run: Run,
        appends: Appends | None,
        tallies: Tallies,
        *,
        retains_legacy: bool,
    ) -> Iterator[Chunk]:
        bits = self._verdicts.bits(
            run.memory, run.batches, self._transactions, segment.path, retains_legacy=retains_legacy
        )
        check_record_sizes(
            segment.path,
            run,
            None if bits is None else [bool(each & BIT_DISCARD and not each & BIT_RETAIN_EMPTY) for each in bits],
            limit=self._config.max_record_bytes,
            max_batch_bytes=self._max_batch_bytes,
        )
        filtered = self.filter.filter(
            run.memory,
            run.batches,
            None if bits is None else bytes(bits),
            retains_legacy=retains_legacy,
            begins=run.begins,
            max_bytes=self._max_batch_bytes,
            position=group.size_bytes,
        )
        if filtered.damage is not None:
            raise payload_failure(segment.path, run.batches, filtered.damage)
        tallies.take(run.batches, filtered)
        group.size_bytes += len(filtered.data)
        sets: tuple[AppendSet, ...] = ()
        if appends is not None:
            sets = tuple(appends.take(run.batches, filtered.sizes, filtered.batches, _spans(filtered)))
        if filtered.batches.count or sets:
            yield Chunk(data=filtered.data, batches=filtered.batches, sets=sets)
        self._progress.advance(run_bytes(run))

    def _begin_segment(self, segment: CleanSegment, following: int | None) -> None:
        if not self._rules.shares_transactions:
            kept, self._transactions = self._transactions.kept, TransactionState()
            self._transactions.kept = kept
        end = self._end_of(segment) if following is None else following
        aborted = collect_aborted(self.log.segments, segment.base_offset, end, self.log.log_start_offset)
        self._transactions.add(aborted)

    def _end_of(self, segment: CleanSegment) -> int:
        """The offset up to which transactions of a group's last segment are looked for.

        Brokers take the offset behind its last batch; what begins between that and the next segment is met there.
        """
        if not self._rules.shares_transactions:
            return self._map.offsets.latest_offset + 1
        segments = self.log.segments
        behind = bisect_right(segments, segment.base_offset, key=attrgetter("base_offset"))
        return segments[behind].base_offset if behind < len(segments) else self.log.end_offset


def next_pass(
    log: CleanLog,
    config: CleanConfig,
    rules: CleaningRules,
    now_ms: int,
    *,
    force: bool = False,
    heavy_keys: int = 0,
    progress: Progress = NO_PROGRESS,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> tuple[Cleanability, CleanPass | None]:
    """What the cleaner says of a log, and the clean that it would do; null: none.

    Args:
        log: as it is.
        config: of the topic.
        rules: of the release.
        now_ms: by the broker's clock.
        force: clean whatever may be cleaned, even where a broker would not do it now.
        heavy_keys: see `CleanPass`.
        progress: see `CleanPass`.
        max_batch_bytes: see `CleanPass`.
    """
    bounds = cleanability(log, config, rules, now_ms)
    if not bounds.would_run and not (force and bounds.has_work):
        return bounds, None
    return bounds, CleanPass(
        log,
        bounds,
        config,
        rules,
        now_ms=now_ms,
        heavy_keys=heavy_keys,
        progress=progress,
        max_batch_bytes=max_batch_bytes,
    )


def _kept_end(log: CleanLog, bounds: Cleanability, rules: CleaningRules) -> int | None:
    """Return the offset whose batch before it is kept, so that readers can reach the end; `None`: none is."""
    if rules.keeps_watermark_end:
        return log.high_watermark
    return bounds.bound if rules.keeps_round_end else None


def _spans(filtered: Filtered) -> list[tuple[int, int]]:
    """Of each batch the offsets of the first and last record that stay; the last one -1 but of those written anew."""
    columns = zip(filtered.outcomes, filtered.first_kept, filtered.last_kept, strict=True)
    return [(first, last if outcome == OUTCOME_REBUILT else -1) for outcome, first, last in columns]


def _filter_rules(rules: CleaningRules) -> FilterRules:
    return FilterRules(
        keeps_past_latest=rules.keeps_past_latest,
        looks_up_control_keys=rules.looks_up_control_keys,
        uses_horizons=rules.uses_horizons,
        converts_legacy=rules.converts_legacy,
        wrappers=rules.wrappers,
        gzip_system=GZIP_SYSTEM if rules.names_gzip_system else 0,
        lz4_java=rules.lz4_java,
    )
