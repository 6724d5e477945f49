"""Which part of a log the cleaner may clean, whether it would choose the log now, and what holds it back.

`LogCleanerManager.cleanableOffsets` and `grabFilthiestCompactedLog`, `LogToClean`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.cleaner.log import segments_in
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.kafka.cleaner.log import CleanLog, CleanSegment
    from kafkalog_core.kafka.cleaner.rules import CleanConfig, CleaningRules

__all__ = ["Cleanability", "HoldBack", "Holder", "State", "cleanability"]

Holder = Literal["active-segment", "open-transaction", "high-watermark", "min-compaction-lag"]
State = Literal["cleanable", "not-dirty-enough", "nothing-cleanable", "not-compacted", "cleaner-off"]
_FIRST_BATCH: Final = ScanOptions(check=False, first_window_bytes=4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldBack:
    """What ends the cleanable part: its kind, its offset, one sentence.

    `until_ms`: the time from which it no longer does; None: the time alone does not decide.
    """

    kind: Holder
    offset: int
    detail: str
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanability:
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
    relation = "above" if ratio > config.min_dirty_ratio else "not above"
    state: State = "cleanable" if ratio > config.min_dirty_ratio else "not-dirty-enough"
    return state, f"its dirty ratio {ratio:.4f} is {relation} min.cleanable.dirty.ratio={config.min_dirty_ratio}"
