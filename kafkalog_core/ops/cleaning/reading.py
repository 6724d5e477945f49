"""A log file as a cleaner reads it: whole batches from one end to the other, or the clean fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import CleanError
from kafkalog_core.storage.scan import HINT, Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.arena import PayloadDamage
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.cleaning.log import CleanSegment
    from kafkalog_core.storage.scan import Run

__all__ = ["payload_failure", "read_runs", "run_bytes"]


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
                detail = item.detail.removesuffix(f", {HINT}")
                raise CleanError(item.reason, detail, path=segment.path, position=item.position)
            yield item


def payload_failure(path: str, batches: BatchColumns, damage: PayloadDamage) -> CleanError:
    """A batch whose records cannot be read, though its checksum agrees."""
    position: int = batches.column("position")[damage.batch]
    return CleanError(damage.reason, damage.detail, path=path, position=position)


def run_bytes(run: Run) -> int:
    """Size of the batches of a run."""
    positions = run.batches.column("position")
    size: int = positions[-1] + run.batches.column("size_bytes")[-1] - positions[0] if run.batches.count else 0
    return size
