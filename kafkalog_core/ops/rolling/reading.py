"""The batches of a partition's log, one segment after another, as a source of appends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.storage.items import offset_order
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.segment import Segment

__all__ = ["LogDamage", "log_runs"]


@dataclass(frozen=True, slots=True)
class LogDamage:
    """A place that no append can have left; `is_tail`: the cut end of the log, which a broker's start takes away."""

    path: str
    damage: Damage
    is_tail: bool


def log_runs(
    partition: Partition, *, max_batch_bytes: int, checks: bool, advance: Callable[[int], None]
) -> Iterator[tuple[Segment, Run] | LogDamage]:
    """Runs of whole batches in the order of the log; the first damage ends it.

    Args:
        partition: its directory.
        max_batch_bytes: the largest batch that is read.
        checks: whether checksums are computed; else the framing alone is read.
        advance: is told of bytes of log as they are read.
    """
    options = ScanOptions(max_batch_bytes=max_batch_bytes, check=checks)
    next_offset = 0
    for segment in partition.segments:
        log = segment.files[0]
        with Source.open(log.path) as source:
            for item in scan(source, base_offset=segment.base_offset, options=options, end=source.size_bytes):
                if isinstance(item, Damage):
                    is_last = segment is partition.segments[-1]
                    yield LogDamage(log.path, item, is_tail=is_last and item.is_plain_tail)
                    return
                lasts = item.batches.column("last_offset")
                if lasts[0] < next_offset:  # segments overlap
                    position = item.batches.column("position")[0]
                    first = item.batches.column("base_offset")[0]
                    yield LogDamage(log.path, offset_order(position, first, lasts[0], next_offset), is_tail=False)
                    return
                next_offset = lasts[-1] + 1
                yield segment, item
                advance(sum(item.batches.column("size_bytes")))
