"""The producers of a partition as a broker that loads it knows them: the newest snapshot, then the log after it."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.snapshot import decode_snapshot
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.storage.scan import Damage, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import ScanOptions

__all__ = ["read_producer_states"]

_MAX_SNAPSHOT_BYTES: Final = 256 * 1024 * 1024


def _ignore(path: str, damage: Damage) -> None:
    """Do nothing: the default of `on_damage`."""


def read_producer_states(
    partition: Partition,
    options: ScanOptions,
    *,
    log_start_offset: int,
    end_offset: int,
    on_damage: Callable[[str, Damage], None] = _ignore,
) -> ProducerStates:
    """Return the producers at an offset of a partition (`UnifiedLog.rebuildProducerState`). Raises StorageError.

    Nothing expires: the clock of the broker stopped with it (producer.id.expiration.ms). Without a snapshot the whole
    log is read; a broker does so only after an unclean shutdown, else it knows no producer until one sends a batch.

    Args:
        partition: its files.
        options: how its logs are scanned; the state continues over damage.
        log_start_offset: of the log: snapshots before it are not read.
        end_offset: batches from there on are left out.
        on_damage: receives the path of the log and each damage that may hide batches.
    """
    states, start = _newest_snapshot(partition, log_start_offset, end_offset)
    segments = [each for each in partition.segments if each.log is not None]
    ends = [*(each.base_offset for each in segments[1:]), end_offset]
    for segment, end in zip(segments, ends, strict=False):  # an empty directory has an end alone
        if end > start and segment.base_offset < end_offset:
            _replay(states, segment, options, (start, end_offset), on_damage)
    return states


def _newest_snapshot(partition: Partition, log_start_offset: int, end_offset: int) -> tuple[ProducerStates, int]:
    """Return the state of the newest snapshot that can be read, and its offset; else none at the log start offset."""
    for file in reversed(partition.snapshots):
        offset = file.name.base_offset
        # ProducerStateManager.truncateAndReload deletes others, and the one at the log start offset too, which is there
        # if all records were deleted: it is what the broker knew when it stopped
        if offset is None or not file.name.canonical or not log_start_offset <= offset <= end_offset:
            continue
        if file.size_bytes > _MAX_SNAPSHOT_BYTES:
            continue
        try:
            with Source.open(file.path) as source:
                entries = decode_snapshot(source.window(0, source.size_bytes))
            return ProducerStates.from_snapshot(entries, sequences="unchecked"), offset
        except (FormatError, StorageError):
            continue  # ProducerStateManager.loadFromSnapshot: it tries the one before
    return ProducerStates(sequences="unchecked"), log_start_offset


def _replay(
    states: ProducerStates,
    segment: Segment,
    options: ScanOptions,
    offsets: tuple[int, int],
    on_damage: Callable[[str, Damage], None],
) -> None:
    """Replay the batches of a segment that end after the first of two offsets, and begin before the second."""
    start, end = offsets
    if segment.log is None:
        return
    with Source.open(segment.log.path) as source:
        for item in scan(source, base_offset=segment.base_offset, options=options):
            if isinstance(item, Damage):
                if not item.is_plain_tail:
                    states.hole()
                    on_damage(segment.log.path, item)
                continue
            lasts = item.batches.column("last_offset")
            first, last = bisect_left(lasts, start), bisect_left(lasts, end)
            if first < last:
                markers = markers_of(item.memory, item.batches, max_bytes=options.max_batch_bytes)
                states.replay(item.batches, markers, first=first, last=last)
