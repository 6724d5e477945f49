"""One clean of one log (`Cleaner.doClean`): groups of segments, what is kept of them, what was dropped, and why.

A record is kept if it is the newest one of its key (`Cleaner.shouldRetainRecord`) or is after the mapped part. A
tombstone is also dropped when its time is over: in a batch of magic 2 from 3.1 on at the delete horizon of the batch
(KIP-534, `uses_horizons`), else when its segment was last modified before the horizon of the whole clean
(`_legacy_horizon_ms`, from delete.retention.ms). Batches of aborted transactions are dropped at once; a marker only
when no batch of its transaction is left (`transactions.Verdicts`, `Cleaner.checkBatchRetention`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import CleanError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.compression import GZIP_SYSTEM
from kafkalog_core.format.layout import DELETE_HORIZON_BIT, MAX_BATCH_BYTES, MAX_INT32
from kafkalog_core.format.run_filter import (
    BIT_DISCARD,
    BIT_RETAIN_EMPTY,
    OUTCOME_REBUILT,
    REASONS,
    FilterRules,
    HeavyKeys,
    RunFilter,
)
from kafkalog_core.kafka.sim.cleaner.indexes import Appends, CleanedChunk, NewIndexes
from kafkalog_core.kafka.sim.cleaner.log import cleanability, segments_in
from kafkalog_core.kafka.sim.cleaner.offset_map import (
    FilledMap,
    MapFiller,
    check_record_sizes,
    payload_failure,
    read_runs,
    run_bytes,
)
from kafkalog_core.kafka.sim.cleaner.transactions import AbortedTxn, TransactionState, Verdicts, collect_aborted
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.run_filter import Filtered, HeavyKey
    from kafkalog_core.kafka.rules.cleaner_rules import CleanConfig, CleaningRules
    from kafkalog_core.kafka.sim.cleaner.indexes import CleanerAppend
    from kafkalog_core.kafka.sim.cleaner.log import Cleanability, CleanLog, CleanSegment
    from kafkalog_core.kafka.sim.cleaner.offset_map import KnownMap
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.scan import Run

__all__ = ["CleanPass", "Counts", "Group", "Tallies", "group_segments", "next_pass"]


class Counts(Struct):
    """Figures of a segment, a group or a whole clean; `next_horizon_ms`: the earliest kept delete horizon."""

    batches_before: int = 0
    batches_after: int = 0
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    kept_records: Counter[str] = field(default_factory=Counter)
    kept_bytes: Counter[str] = field(default_factory=Counter)
    dropped_records: Counter[str] = field(default_factory=Counter)
    dropped_bytes: Counter[str] = field(default_factory=Counter)
    tombstones_after: int = 0
    next_horizon_ms: int | None = None

    def add(self, other: Counts) -> None:
        """Add the figures of another part."""
        for name in (each for each in self.__struct_fields__ if each != "next_horizon_ms"):
            own, added = getattr(self, name), getattr(other, name)
            if isinstance(own, Counter):
                own.update(added)
            else:
                setattr(self, name, own + added)
        if other.next_horizon_ms is not None:
            self.see_horizon(other.next_horizon_ms)

    def see_horizon(self, horizon_ms: int) -> None:
        """Note a delete horizon that is kept."""
        known = self.next_horizon_ms
        self.next_horizon_ms = horizon_ms if known is None else min(known, horizon_ms)


_KEPT: Final = frozenset(("latest", "past-map", "control", "tombstone"))
_NAMES: Final = {"latest": "latest-of-key"}


class Tallies:
    """The figures that a filter counts from now on."""

    def __init__(self, run_filter: RunFilter) -> None:
        self._filter = run_filter
        self._before = run_filter.tally.copy()
        self._counts = Counts()

    def take(self, sources: BatchColumns, filtered: Filtered) -> None:
        """Count a run that was filtered."""
        counts, written = self._counts, filtered.batches
        counts.batches_before += sources.count
        counts.batches_after += written.count
        counts.bytes_before += sum(sources.column("size_bytes"))
        counts.bytes_after += len(filtered.data)
        if written.has_any("attributes"):
            for row, bits in enumerate(written.column("attributes").tolist()):
                if bits & DELETE_HORIZON_BIT:
                    counts.see_horizon(written.column("base_timestamp_ms")[row])

    def counts(self) -> Counts:
        """Return the figures, with the reasons why records were kept or dropped."""
        counts, tally = self._counts, self._filter.tally.since(self._before)
        for reason, records, size_bytes in zip(REASONS, tally.records, tally.bytes, strict=True):
            if not records:
                continue
            is_kept = reason in _KEPT
            name = _NAMES.get(reason, reason)
            (counts.kept_records if is_kept else counts.dropped_records)[name] += records
            (counts.kept_bytes if is_kept else counts.dropped_bytes)[name] += size_bytes
        counts.records_after = counts.kept_records.total()
        counts.records_before = counts.records_after + counts.dropped_records.total()
        counts.tombstones_after = counts.kept_records["tombstone"]
        return counts


def group_segments(
    segments: Sequence[CleanSegment], config: CleanConfig, rules: CleaningRules, bound_offset: int
) -> list[tuple[CleanSegment, ...]]:
    """Return groups of consecutive segments that fit together by their sizes before the clean (`groupSegmentsBySize`).

    Args:
        segments: that are cleaned.
        config: limits of log and indexes.
        rules: how the limits are compared.
        bound_offset: first offset that is not cleaned.
    """
    groups: list[_Group] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else bound_offset
        if not (groups and groups[-1].take(segment, following - 1)):
            groups.append(_Group(segment, config, rules))
    return [tuple(group.segments) for group in groups]


class _Group:
    """Segments that become one, and the sum of their sizes so far."""

    def __init__(self, first: CleanSegment, config: CleanConfig, rules: CleaningRules) -> None:
        self._config = config
        self._rules = rules
        self.segments = [first]
        self._log_bytes = first.size_bytes
        self._index_bytes = first.index_bytes
        self._timeindex_bytes = first.timeindex_bytes

    def take(self, segment: CleanSegment, last_offset: int) -> bool:
        """Add a segment that ends with an offset, if it fits; return whether it does."""
        config, rules = self._config, self._rules
        margin = 1 if rules.strict_group_limits else 0
        log_bytes = self._log_bytes + segment.size_bytes
        index_bytes = self._index_bytes + segment.index_bytes
        timeindex_bytes = self._timeindex_bytes + segment.timeindex_bytes if rules.groups_time_indexes else 0
        if (
            log_bytes + margin > config.segment_bytes
            or max(index_bytes, timeindex_bytes) + margin > config.segment_index_bytes
            or not self._spans(segment, last_offset)
        ):
            return False
        self.segments.append(segment)
        self._log_bytes, self._index_bytes, self._timeindex_bytes = log_bytes, index_bytes, timeindex_bytes
        return True

    def _spans(self, segment: CleanSegment, last_offset: int) -> bool:
        """Return whether offsets relative to the base offset of the group still fit into the indexes."""
        rules = self._rules
        # KAFKA-12889: an empty segment is exempt from the offset range
        if rules.strict_group_limits or (rules.frees_empty_segments and not segment.size_bytes):
            return True
        if rules.groups_by_last_entry:
            last_offset = segment.last_indexed_offset()
        return last_offset - self.segments[0].base_offset <= MAX_INT32


class Group(Struct):
    """Segments that become one. `chunks` may be called once; the other values are complete after its end.

    Args:
        sources: the segments.
        clean: the clean that they belong to.
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
        """The indexes of the new segment."""
        if self.built is None:
            raise ValueError("nothing of this group is cleaned yet, or the next one is")
        return self.built

    @property
    def base_offset(self) -> int:
        """The base offset of the new segment."""
        return self.sources[0].base_offset

    @property
    def mtime_ns(self) -> int:
        """The modification time of the new log and its indexes: that of the last source (`Cleaner.cleanSegments`)."""
        return self.sources[-1].mtime_ns

    def chunks(self) -> Iterator[CleanedChunk]:
        """Yield the content of the new segment. Raises CleanError and StorageError."""
        return self.clean.clean_group(self)


class CleanPass:
    """One clean of one log.

    Args:
        log: as it is.
        bounds: what may be cleaned of it.
        config: of the topic.
        rules: of the release.
        now_ms: when the clean begins.
        heavy_keys: number of the largest keys to find; 0: none.
        progress: called with the bytes that are read; the dirty part is read twice.
        max_batch_bytes: the largest batch that is read, decompressed too.
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
        # tombstones of v0 and v1, before 3.1 all and markers too, are kept in segments that are newer than this
        self._legacy_horizon_ms = 0
        self.groups: tuple[Group, ...] = ()

    # --- the map ------------------------------------------------------------------------------------------------------
    def build(self, known: KnownMap | None = None) -> None:
        """Fill the map, which decides where the clean ends; `known`: keys that another process has mapped.

        Raises CleanError and StorageError.
        """
        first_dirty, bound = self.bounds.first_dirty, self.bounds.bound
        if known is not None and (known.first_dirty, known.bound) == (first_dirty, bound):
            self._filled = known.filled
        else:
            filler = MapFiller(self.log, self._config, self._rules, self._progress, self._max_batch_bytes)
            self._filled = filler.fill(first_dirty, bound)
        clean = segments_in(self.log.segments, 0, self.bounds.first_dirty, self._rules)
        # Cleaner.doClean: legacyDeleteHorizonMs, from the last segment of the clean part
        self._legacy_horizon_ms = clean[-1].mtime_ms - self._config.delete_retention_ms if clean else 0
        # Cleaner.doClean rewrites all segments from offset 0 on, those of the clean part too
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
        """The end of the clean, which becomes the checkpoint."""
        return self._map.end_offset

    @property
    def is_full(self) -> bool:
        """Whether it ends before the bound because the map was full."""
        return self._map.is_full

    @property
    def mapped_keys(self) -> int:
        """The number of keys in the map."""
        return self._map.offsets.size

    @property
    def map_capacity(self) -> int:
        """The number of keys that fit into the map."""
        return self._map.offsets.capacity

    @property
    def lone_tombstone_keys(self) -> int:
        """The number of tombstones that are the only records of their keys in the dirty part."""
        return self.filter.tally.lone_tombstones

    @property
    def heavy_keys(self) -> list[HeavyKey]:
        """The largest keys of the mapped records, the largest first; empty: none stands out."""
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
        """Free the memory of the map. Nothing can be cleaned or looked up afterwards; the figures are kept."""
        self._filled = self._filter = None
        self.groups = ()  # each refers to this pass, and would keep it in memory

    # --- the log ------------------------------------------------------------------------------------------------------
    def run(self) -> Iterator[Group]:
        """Yield the groups; the chunks of one must be consumed before the next one is asked for."""
        if self._filled is None:
            self.build()
        for group in self.groups:
            yield group
            group.built = None

    def clean_group(self, group: Group) -> Iterator[CleanedChunk]:
        """Yield the content of a new segment, as `Group.chunks`."""
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
            message = "the new transaction index would not be in the order of its markers: the cleaner stops"
            raise CleanError("index-order", message, path=group.sources[0].path)

    def _clean_segment(
        self, group: Group, segment: CleanSegment, following: int | None, appends: Appends | None
    ) -> Iterator[CleanedChunk]:
        if self._rules.heeds_transactions:
            self._begin_segment(segment, following)
        # Cleaner.cleanSegments names this retainLegacyDeletesAndTxnMarkers
        retains_legacy = segment.mtime_ms > self._legacy_horizon_ms
        tallies = Tallies(self.filter)
        if appends is not None:
            is_first = segment is self.groups[0].sources[0]  # after a full map the buffer keeps its size for this one
            appends.begin(segment, grown_for=self._map.largest_batch_bytes if is_first else 0)
        for run in read_runs(segment, self._batches, max_batch_bytes=self._max_batch_bytes):
            yield from self._clean_run(group, segment, run, appends, tallies, retains_legacy=retains_legacy)
        if appends is not None:
            sets = tuple(appends.end())
            if sets:
                yield CleanedChunk(data=memoryview(b""), batches=BatchColumns(0), sets=sets)
        counts = tallies.counts()
        if self._rules.fails_on_null_keys and counts.dropped_records["null-key"]:
            message = "a record without a key: the cleaner of this release stops"
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
    ) -> Iterator[CleanedChunk]:
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
        sets: tuple[CleanerAppend, ...] = ()
        if appends is not None:
            sets = tuple(appends.take(run.batches, filtered.sizes, filtered.batches, _spans(filtered)))
        if filtered.batches.count or sets:
            yield CleanedChunk(data=filtered.data, batches=filtered.batches, sets=sets)
        self._progress.advance(run_bytes(run))

    def _begin_segment(self, segment: CleanSegment, following: int | None) -> None:
        if not self._rules.shares_transactions:
            kept, self._transactions = self._transactions.kept, TransactionState()
            self._transactions.kept = kept
        end = self._end_of(segment) if following is None else following
        aborted = collect_aborted(self.log.segments, segment.base_offset, end, self.log.log_start_offset)
        self._transactions.add(aborted)

    def _end_of(self, segment: CleanSegment) -> int:
        """Return the offset up to which transactions of the last segment of a group are looked for.

        Brokers use the offset after its last batch (`LogSegment.readNextOffset`); a transaction that begins between
        that and the next segment is met there.
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
    """Return what the cleaner decides about a log, and the clean that it would do; None: none.

    Args:
        log: as it is.
        config: of the topic.
        rules: of the release.
        now_ms: by the broker's clock.
        force: clean what may be cleaned, even where a broker would not do it now.
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
    """Return the offset before which the last batch is kept, so that readers can reach the end; None: no batch is.

    `Cleaner.checkBatchRetention` keeps it, if need be without records.
    """
    if rules.keeps_watermark_end:
        return log.high_watermark
    return bounds.bound if rules.keeps_round_end else None


def _spans(filtered: Filtered) -> list[tuple[int, int]]:
    """Return the offsets of the first and last kept record of each batch; the last is -1 unless it is rebuilt."""
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
