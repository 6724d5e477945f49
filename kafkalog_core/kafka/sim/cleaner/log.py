"""A log as `LogCleanerManager` sees it: its segments and producers, which part may be cleaned, and whether it is now.

`cleanability` is one look of the cleaner at a log (`LogCleanerManager.cleanableOffsets`, `grabFilthiestCompactedLog`,
`LogToClean`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.index import iter_offset_entries, split_size
from kafkalog_core.format.layout import MAX_BATCH_BYTES, MAX_INT64, OFFSET_INDEX_ENTRY
from kafkalog_core.format.names import FileKind
from kafkalog_core.format.snapshot import decode_snapshot, decode_snapshot_header
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.rules.producers import CompletedTxn, ProducerStates
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.segment_lookup import IndexPages
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.kafka.rules.cleaner_rules import CleanConfig, CleaningRules
    from kafkalog_core.kafka.rules.producers import OpenTxn
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "CleanLog",
    "CleanSegment",
    "Cleanability",
    "HoldBack",
    "Holder",
    "LastRecord",
    "State",
    "cleanability",
    "read_clean_log",
    "segments_in",
]


def segments_in(
    segments: Sequence[CleanSegment], first_offset: int, end_offset: int, rules: CleaningRules
) -> Sequence[CleanSegment]:
    """Return the segments from the one that holds `first_offset` up to `end_offset` (`LogSegments.values`).

    Args:
        segments: by base offset.
        first_offset: one below the first base offset gives all from the first segment on.
        end_offset: exclusive; not below `first_offset`.
        rules: up to 0.10.0 a range from an offset to itself has the segment that holds it.
    """
    if first_offset == end_offset and rules.shortcuts_empty_ranges:
        return ()
    bases = [segment.base_offset for segment in segments]
    first = max(0, bisect_right(bases, first_offset) - 1)
    return segments[first : max(first, bisect_left(bases, end_offset))]


_HEADERS: Final = ScanOptions(check=False)
_SEQUENCES: Final = "unchecked"
_MAX_SNAPSHOT_BYTES: Final = 256 * 1024 * 1024
_NS_PER_MS: Final = 1_000_000


class LastRecord(NamedTuple):
    """What a broker knows of a producer's last batch; `last_offset` None: it was a marker."""

    last_offset: int | None
    producer_epoch: int
    last_sequence: int


class CleanSegment(Struct, frozen=True, kw_only=True):
    """A segment; the sizes are those of its files, 0 for a missing one.

    `largest_timestamp_ms`: of its records, or the log's modification time where they have none.
    """

    base_offset: int
    path: str
    size_bytes: int
    mtime_ns: int
    largest_timestamp_ms: int
    index_bytes: int = 0
    timeindex_bytes: int = 0
    index_path: str | None = None
    txnindex_path: str | None = None

    @property
    def mtime_ms(self) -> int:
        """When the log file was modified last, as Java reports it."""
        return self.mtime_ns // _NS_PER_MS

    def position_of(self, offset: int) -> int:
        """Return where a reader of this offset starts, by the offset index; 0 where there is no readable one."""
        if self.index_path is None or offset <= self.base_offset:
            return 0
        try:
            with Source.open(self.index_path) as source:
                pages = IndexPages(source, OFFSET_INDEX_ENTRY)
                slot = pages.search(offset - self.base_offset).lower if pages.count else None
                return 0 if slot is None else min(max(pages.entry(slot)[1], 0), self.size_bytes)
        except StorageError:
            return 0

    def last_indexed_offset(self) -> int:
        """Return the offset of the last entry of its offset index, the base offset where there is none."""
        if self.index_path is None:
            return self.base_offset
        with Source.open(self.index_path) as source:
            count, _ = split_size(OFFSET_INDEX_ENTRY, source.size_bytes)
            size = OFFSET_INDEX_ENTRY.size
            entries = list(iter_offset_entries(source.read((count - 1) * size, size))) if count else []
        return self.base_offset + (entries[0][0] if entries else 0)


class CleanLog(Struct, frozen=True, kw_only=True):
    """A log between two cleans.

    Args:
        segments: by base offset, the active one last; never empty.
        log_start_offset: the first offset that a broker serves.
        high_watermark: the first offset that replicas may not have.
        end_offset: the log end offset.
        first_unstable_offset: first offset of a transaction that is open, or was at the high watermark; None: none.
        open_transaction: the open one that began first; None: none is.
        checkpoint: the entry of cleaner-offset-checkpoint, the first offset that no clean has seen; None: there is
            none.
        producers: those that a broker remembers, by id.
    """

    topic: str | None
    partition: int | None
    path: str
    segments: tuple[CleanSegment, ...]
    log_start_offset: int
    high_watermark: int
    end_offset: int
    first_unstable_offset: int | None = None
    open_transaction: OpenTxn | None = None
    checkpoint: int | None = None
    producers: dict[int, LastRecord]

    @property
    def active(self) -> CleanSegment:
        """The last segment."""
        return self.segments[-1]

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: the first unstable offset, else the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def after(self, checkpoint: int, cleaned: Iterable[CleanSegment]) -> CleanLog:
        """Return the log after a clean, whose segments replace all from the first of them to the next kept one.

        Args:
            checkpoint: where the clean ended.
            cleaned: the new segments of all groups, from the start of the log on.
        """
        new = tuple(cleaned)
        kept = [segment for segment in self.segments if segment.base_offset >= checkpoint]
        return replace(self, checkpoint=checkpoint, segments=(*new, *kept))


def read_clean_log(
    view: PartitionView, broker_dir: BrokerDir | None, rules: CleaningRules, config: CleanConfig, now_ms: int
) -> CleanLog:
    """Read the log of a partition as it is now.

    Args:
        view: of the partition; with segments.
        broker_dir: the log directory around it, None: none.
        rules: of the release.
        config: of the topic.
        now_ms: the time, by which silent producers are forgotten.

    Raises:
        NotFoundError: A log does not exist any more.
        AccessError: One cannot be read.
    """
    partition = view.partition
    checkpoint = None
    if broker_dir is not None and broker_dir.is_served(partition.name):
        checkpoint = broker_dir.offset(FileKind.CLEANER_OFFSET, partition.name)
    segments = _segments(view)
    states, unstable = ProducerStates(sequences=_SEQUENCES), None
    if rules.heeds_transactions:
        is_clean = broker_dir is not None and broker_dir.log_dir.is_clean
        max_entries = rules_of(rules.release).max_snapshot_entries
        states, completed = _load_producers(partition, segments, view, is_clean=is_clean, max_entries=max_entries)
        firsts = [transaction.first_offset for transaction in states.open_transactions()[:1]]
        unstable = min((*firsts, *completed), default=None)
        unstable = None if unstable is None else max(unstable, view.log_start_offset)
    return CleanLog(
        topic=view.topic,
        partition=view.number,
        path=view.path,
        segments=segments,
        log_start_offset=view.log_start_offset,
        high_watermark=view.high_watermark,
        end_offset=view.end_offset,
        first_unstable_offset=unstable,
        open_transaction=next(iter(states.open_transactions()), None),
        checkpoint=checkpoint,
        producers=_last_records(states, rules.release, now_ms - config.expiration_ms),
    )


def _segments(view: PartitionView) -> tuple[CleanSegment, ...]:
    by_base = {segment.base_offset: segment for segment in view.partition.segments}
    segments = []
    for seen in view.segments:
        files = by_base[seen.base_offset]
        segments.append(
            CleanSegment(
                base_offset=seen.base_offset,
                path=seen.path,
                size_bytes=seen.size_bytes,
                mtime_ns=files.files[0].mtime_ns,
                largest_timestamp_ms=seen.largest_timestamp_ms,
                index_bytes=seen.index_bytes or 0,
                timeindex_bytes=seen.timeindex_bytes or 0,
                index_path=None if files.index is None else files.index.path,
                txnindex_path=None if files.txnindex is None else files.txnindex.path,
            )
        )
    return tuple(segments)


# --- producers ---------------------------------------------------------------------------------------------------
def _load_producers(
    partition: Partition, segments: Sequence[CleanSegment], view: PartitionView, *, is_clean: bool, max_entries: int
) -> tuple[ProducerStates, list[int]]:
    """Load the producers at the end of the log as a broker does: from the newest snapshot and the batches after it.

    Also return the first offsets of transactions that ended at or after the high watermark. After a clean shutdown, a
    broker that finds no snapshot does not look for producers at all.
    """
    states, offset = _newest_snapshot(partition, view.end_offset, max_entries)
    if states is None:
        # UnifiedLog.rebuildProducerState
        if is_clean and not partition.snapshots:
            return ProducerStates(sequences=_SEQUENCES), []
        states, offset = ProducerStates(sequences=_SEQUENCES), view.log_start_offset
    completed: list[int] = []
    ends = [*(following.base_offset for _, following in pairwise(segments)), view.end_offset]
    for segment, end in zip(segments, ends, strict=True):
        if end <= offset:
            continue
        completed += (
            event.first_offset
            for event in _replayed(segment, states, offset)
            if isinstance(event, CompletedTxn) and event.last_offset >= view.high_watermark
        )
    return states, completed


def _newest_snapshot(partition: Partition, end_offset: int, max_entries: int) -> tuple[ProducerStates | None, int]:
    for file in reversed(partition.snapshots):
        offset = file.name.base_offset
        if offset is None or not file.name.canonical or offset > end_offset or file.size_bytes > _MAX_SNAPSHOT_BYTES:
            continue
        try:
            with Source.open(file.path) as source:
                content = source.window(0, source.size_bytes)
            entries = decode_snapshot(content)
            if decode_snapshot_header(content)[0].entry_count > max_entries:
                continue
            return ProducerStates.from_snapshot(entries, sequences=_SEQUENCES), offset
        except (FormatError, StorageError):
            continue
    return None, 0


def _replayed(segment: CleanSegment, states: ProducerStates, from_offset: int) -> Iterable[object]:
    """Update the states with the batches of a segment, from the one that holds an offset on, up to damage."""
    start = segment.position_of(from_offset)
    with Source.open(segment.path) as source:
        for item in scan(source, base_offset=None, options=_HEADERS, start=start):
            if isinstance(item, Damage):
                if item.size_bytes:
                    return
                continue
            if item.batches.holds_only("producer_id", -1):
                continue
            first = bisect_left(item.batches.column("last_offset"), from_offset)
            markers = markers_of(item.memory, item.batches, max_bytes=MAX_BATCH_BYTES)
            yield from states.replay(item.batches, markers, first=first)


def _last_records(states: ProducerStates, release: Release, forgotten_ms: int) -> dict[int, LastRecord]:
    return {
        entry.producer_id: LastRecord(
            entry.last_offset if entry.last_offset >= 0 else None, entry.producer_epoch, entry.last_sequence
        )
        for entry in states.snapshot_entries(recovery_rules(release).snapshot_style)
        # ProducerStateManager.isProducerExpired
        if entry.current_txn_first_offset >= 0 or entry.timestamp_ms > forgotten_ms
    }


Holder = Literal["active-segment", "open-transaction", "high-watermark", "min-compaction-lag"]
State = Literal["cleanable", "not-dirty-enough", "nothing-cleanable", "not-compacted", "cleaner-off"]
_FIRST_BATCH: Final = ScanOptions(check=False, first_window_bytes=4096)


class HoldBack(Struct, frozen=True, kw_only=True):
    """What ends the cleanable part: its kind, its offset, one sentence.

    `until_ms`: the time from which it no longer does; None: the time alone does not decide.
    """

    kind: Holder
    offset: int
    detail: str
    until_ms: int | None = None


class Cleanability(Struct, frozen=True, kw_only=True):
    """The result of one look of the cleaner at a log.

    Args:
        state: whether it chooses the log, and why not.
        why: the same in one sentence, with the figures.
        first_dirty: first offset that no clean has seen.
        first_dirty_origin: where that comes from.
        resets_checkpoint: whether the cleaner rewrites its checkpoint for it, with a clean or without.
        bound: the base offset of a segment, before which the clean ends.
        clean_bytes: of segments that start below the first dirty offset.
        cleanable_bytes: of segments from the first dirty offset to the bound; the one that holds it may count in both.
        uncleanable_bytes: of segments from the bound on.
        must_now: whether a record is older than max.compaction.lag.ms, so that the ratio does not matter (KIP-354).
        hold_back: what ends the cleanable part.
    """

    state: State
    why: str
    first_dirty: int
    first_dirty_origin: str
    resets_checkpoint: bool
    bound: int
    clean_bytes: int
    cleanable_bytes: int
    uncleanable_bytes: int
    must_now: bool
    hold_back: HoldBack

    @property
    def total_bytes(self) -> int:
        """Clean and cleanable bytes."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float | None:
        """The dirty ratio; None: there are neither clean nor cleanable bytes."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else None

    @property
    def would_run(self) -> bool:
        """Whether a cleaner chooses the log now."""
        return self.state == "cleanable"

    @property
    def has_work(self) -> bool:
        """Whether a clean would do anything, forced where need be."""
        return self.cleanable_bytes > 0


def cleanability(log: CleanLog, config: CleanConfig, rules: CleaningRules, now_ms: int) -> Cleanability:
    """Look at a log once. Raises StorageError where max.compaction.lag.ms needs a time that cannot be read."""
    first_dirty, origin, resets = _first_dirty(log, rules)
    hold_back = _hold_back(log, config, rules, first_dirty, now_ms)
    uncleanable = max(first_dirty, hold_back.offset)
    # LogToClean: the bound is the base offset of the segment that holds the first uncleanable offset
    beyond = _dirty_closed(log, uncleanable, rules)
    bound = (beyond[0] if beyond else log.active).base_offset
    clean_end = first_dirty - 1 if rules.clean_bytes_before_dirty else first_dirty
    clean = _size(segments_in(log.segments, -1, max(clean_end, -1), rules))
    cleanable = _size(segments_in(log.segments, min(first_dirty, bound), bound, rules))
    must_now = rules.has_max_lag and _is_overdue(log, config, rules, first_dirty, now_ms)
    state, why = _state(config, (clean, cleanable), must_now=must_now)
    return Cleanability(
        state=state,
        why=why,
        first_dirty=first_dirty,
        first_dirty_origin=origin,
        resets_checkpoint=resets,
        bound=bound,
        clean_bytes=clean,
        cleanable_bytes=cleanable,
        uncleanable_bytes=_size(segment for segment in log.segments if segment.base_offset >= bound),
        must_now=must_now,
        hold_back=hold_back,
    )


def _first_dirty(log: CleanLog, rules: CleaningRules) -> tuple[int, str, bool]:
    """Return the first dirty offset, where it comes from, and whether the checkpoint is rewritten at once."""
    start = log.segments[0].base_offset if rules.starts_at_first_segment else log.log_start_offset
    checkpoint = log.checkpoint
    if checkpoint is None:
        return start, "start of the log, as the cleaner has no checkpoint for it", False
    # LogCleanerManager.cleanableOffsets returns it with forceUpdateCheckpoint (2.4 and later)
    if checkpoint < start and rules.resets_below_start:
        return start, f"start of the log, as the cleaner's checkpoint {checkpoint} is below it", True
    if checkpoint > log.end_offset and rules.resets_above_end:
        return start, f"start of the log, as the cleaner's checkpoint {checkpoint} is after its end", True
    return checkpoint, "cleaner-offset-checkpoint", False


def _hold_back(log: CleanLog, config: CleanConfig, rules: CleaningRules, first_dirty: int, now_ms: int) -> HoldBack:
    """Return the first obstacle; of several at one offset, the one that lasts longest."""
    found: list[HoldBack] = []
    if rules.heeds_transactions and log.first_unstable_offset is not None:
        offset = log.first_unstable_offset
        found.append(HoldBack(kind="open-transaction", offset=offset, detail=_open_detail(log, offset)))
    if rules.heeds_high_watermark:
        offset = log.high_watermark
        detail = f"replicas have the log up to the high watermark, offset {offset}; it moves as they catch up"
        found.append(HoldBack(kind="high-watermark", offset=offset, detail=detail))
    if rules.has_min_lag and config.min_lag_ms > 0:
        found += _too_young(log, config, rules, first_dirty, now_ms)
    active = log.active.base_offset
    detail = f"the active segment starts at offset {active}; it may be cleaned after the broker rolls a new one"
    found.append(HoldBack(kind="active-segment", offset=active, detail=detail))
    return min(found, key=lambda each: (each.offset, each.kind == "high-watermark"))


def _open_detail(log: CleanLog, offset: int) -> str:
    transaction = log.open_transaction
    if transaction is None or max(transaction.first_offset, log.log_start_offset) != offset:
        return (
            f"a transaction that began at offset {offset} ended after the high watermark, and counts as open until "
            "replicas have its end"
        )
    return (
        f"producer {transaction.producer_id} has a transaction open since offset {offset}, and wrote to it last at "
        f"{moment(transaction.timestamp_ms)}; the cleaner continues after its COMMIT or ABORT (kafka-transactions.sh "
        "finds and aborts hanging transactions)"
    )


def _too_young(
    log: CleanLog, config: CleanConfig, rules: CleaningRules, first_dirty: int, now_ms: int
) -> list[HoldBack]:
    for segment in _dirty_closed(log, first_dirty, rules):
        # KIP-58: a whole segment counts by its largest timestamp
        if segment.largest_timestamp_ms > now_ms - config.min_lag_ms:
            until = segment.largest_timestamp_ms + config.min_lag_ms
            detail = (
                f"the segment at offset {segment.base_offset} has a record of {moment(segment.largest_timestamp_ms)}, "
                f"which is younger than min.compaction.lag.ms={config.min_lag_ms}; from {moment(until)} on it may be "
                "cleaned"
            )
            offset = segment.base_offset
            return [HoldBack(kind="min-compaction-lag", offset=offset, detail=detail, until_ms=until)]
    return []


def _dirty_closed(log: CleanLog, first_offset: int, rules: CleaningRules) -> Sequence[CleanSegment]:
    """Return the segments before the active one, from the one that holds an offset on."""
    active = log.active.base_offset
    return segments_in(log.segments, first_offset, active, rules) if first_offset <= active else ()


def _size(segments: Iterable[CleanSegment]) -> int:
    return sum(segment.size_bytes for segment in segments)


def _is_overdue(log: CleanLog, config: CleanConfig, rules: CleaningRules, first_dirty: int, now_ms: int) -> bool:
    """Return whether a dirty segment begins with a batch older than max.compaction.lag.ms."""
    limit = now_ms - max(config.max_lag_ms, 0)
    if limit <= 0:  # nothing is older: LogCleanerManager.maxCompactionDelay counts times above 0 only
        return False
    for segment in _dirty_closed(log, first_dirty, rules):
        timestamp = _first_timestamp(segment)
        # KIP-354: LogCleanerManager.maxCompactionDelay, by the first batch of each dirty segment
        if 0 < timestamp < limit:
            return True
    return False


def _first_timestamp(segment: CleanSegment) -> int:
    """Return the largest timestamp of the first batch of a segment; the largest of all integers where there is none."""
    with Source.open(segment.path) as source:
        for item in scan(source, base_offset=None, options=_FIRST_BATCH):
            if isinstance(item, Run) and item.batches.count:
                first: int = item.batches.column("max_timestamp_ms")[0]
                return first
            break
    return MAX_INT64


def _state(config: CleanConfig, sizes: tuple[int, int], *, must_now: bool) -> tuple[State, str]:
    clean, cleanable = sizes
    if not config.is_cleaner_on:
        return "cleaner-off", "log.cleaner.enable=false: this broker compacts nothing"
    if not config.is_compacted:
        return "not-compacted", "cleanup.policy does not contain compact"
    total = clean + cleanable
    if not cleanable:
        return "nothing-cleanable", "no dirty segment is in the part that may be cleaned"
    ratio = cleanable / total
    if must_now:
        return "cleanable", f"a dirty record is older than max.compaction.lag.ms={config.max_lag_ms}"
    # LogCleanerManager.grabFilthiestCompactedLog: cleanableRatio > minCleanableRatio, strictly
    relation = "above" if ratio > config.min_dirty_ratio else "not above"
    state: State = "cleanable" if ratio > config.min_dirty_ratio else "not-dirty-enough"
    return state, f"its dirty ratio {ratio:.4f} is {relation} min.cleanable.dirty.ratio={config.min_dirty_ratio}"
