"""A log file as a cleaner reads it: whole batches from one end to the other, or the clean fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import CleanError
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.arena import PayloadDamage
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.cleaning.log import CleanSegment
    from kafkalog_core.storage.scan import Run

__all__ = ["payload_failure", "read_runs"]


def read_runs(segment: CleanSegment, batches: BatchColumns, *, max_batch_bytes: int, start: int = 0) -> Iterator[Run]:
    """The batches of a segment in runs, each valid until the next.

    Args:
        segment: to be read.
        batches: columns to use.
        max_batch_bytes: the largest batch that is read.
        start: the byte to begin with, where a batch starts.

    Raises:
        CleanError: There is damage.
        NotFoundError: It is gone.
        AccessError: It cannot be read.
    """
    options = ScanOptions(max_batch_bytes=max_batch_bytes)
    base_offset = segment.base_offset if not start else None
    with Source.open(segment.path) as source:
        for item in scan(
            source, base_offset=base_offset, options=options, start=start, end=segment.size_bytes, batches=batches
        ):
            if isinstance(item, Damage):
                raise CleanError(item.reason, item.detail, path=segment.path, position=item.position)
            yield item


def payload_failure(path: str, batches: BatchColumns, damage: PayloadDamage) -> CleanError:
    """A batch whose records cannot be read, though its checksum agrees."""
    position: int = batches.column("position")[damage.batch]
    return CleanError(damage.reason, damage.detail, path=path, position=position)
