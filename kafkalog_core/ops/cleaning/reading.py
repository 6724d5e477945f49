"""A log file as a cleaner reads it: whole batches from one end to the other, or the clean fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import CleanError, FormatError
from kafkalog_core.format.compression import decompress
from kafkalog_core.format.flexible import Cursor
from kafkalog_core.format.layout import LOG_OVERHEAD, MAGIC_V2
from kafkalog_core.ops.cleaning.config import NO_RECORD_LIMIT
from kafkalog_core.storage.scan import HINT, Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.arena import PayloadDamage
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.cleaning.log import CleanSegment
    from kafkalog_core.storage.scan import Run

__all__ = ["check_record_sizes", "payload_failure", "read_runs", "run_bytes"]


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


def check_record_sizes(path: str, run: Run, skips: Sequence[int] | None, *, limit: int, max_batch_bytes: int) -> None:
    """Raise CleanError for the first record of a compressed batch that is larger than the cleaner of 4.4 takes.

    DefaultRecord.readFrom throws InvalidRecordException for it, DataLogInputStream CorruptRecordException for a message
    in a wrapper. Batches that are not compressed have no such limit.

    Args:
        path: of the log file.
        run: the batches.
        skips: for each batch whether the cleaner drops it without reading its records; `None`: it reads all.
        limit: max.decompressed.message.bytes.
        max_batch_bytes: the largest batch that is inflated.
    """
    if limit >= NO_RECORD_LIMIT:
        return
    names = ("codec", "format", "payload_start", "payload_end", "position")
    rows = zip(*(run.batches.column(name) for name in names), strict=True)
    for row, (codec, magic, start, end, position) in enumerate(rows):
        if not codec or start >= end or (skips is not None and skips[row]):
            continue
        try:
            content = decompress(codec, run.memory[start:end], magic=magic, limit_bytes=max_batch_bytes)
            size_bytes = next((size for size in _record_sizes(memoryview(content), magic) if size > limit), None)
        except FormatError:
            continue  # the cleaner fails at this batch in another way
        if size_bytes is not None:
            message = (
                f"a record of {size_bytes} bytes in a compressed batch, above max.decompressed.message.bytes={limit}; "
                f"set it to {size_bytes} or more for the cleaner to take the log again"
            )
            raise CleanError("record-too-large", message, path=path, position=position)


def _record_sizes(content: memoryview, magic: int) -> Iterator[int]:
    """Yield the size of each record of an inflated payload, without the bytes that hold the size."""
    cursor = Cursor(content, 0, "records")
    while cursor.position < len(content):
        if magic < MAGIC_V2:
            cursor.position += LOG_OVERHEAD - 4
            size_bytes = cursor.int32()
        else:
            zigzag = cursor.unsigned_varint()
            size_bytes = (zigzag >> 1) ^ -(zigzag & 1)
        yield size_bytes
        cursor.position += max(size_bytes, 0)


def run_bytes(run: Run) -> int:
    """Size of the batches of a run."""
    positions = run.batches.column("position")
    size: int = positions[-1] + run.batches.column("size_bytes")[-1] - positions[0] if run.batches.count else 0
    return size
