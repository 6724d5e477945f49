"""The records of Kafka's own topics, in the order of a partition's log."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.decode import RecordRun
    from kafkalog_core.storage.scan import Run

__all__ = ["partition_runs", "records_of"]


def partition_runs(directory: str, max_batch_bytes: int) -> Iterator[Run | str]:
    """Yield the runs of batches of a partition in the order of the log, and a sentence for each damage."""
    options = ScanOptions(max_batch_bytes=max_batch_bytes, resync=True)
    for file in unit_of_partition(read_partition(directory), None).files:
        with Source.open(file.path) as source:
            for item in scan(source, base_offset=file.base_offset, options=options):
                if not isinstance(item, Damage):
                    yield item
                elif not item.is_plain_tail:
                    yield f"{file.path}: byte {item.position}, {item.reason}: {item.detail}"


def records_of(
    run: RecordRun, marks: bytes | bytearray | None = None
) -> Iterator[tuple[int, int, int, bytes | None, bytes | None]]:
    """Yield the row of its batch, offset, timestamp, key and value of each record, or of each marked one."""
    memory = run.memory
    names = ("batch", "offset", "timestamp_ms", "key_start", "key_size", "value_start", "value_size")
    rows = zip(*map(run.records.column, names), strict=True)
    for row, offset, timestamp_ms, key, key_size, value, value_size in rows if marks is None else compress(rows, marks):
        yield (
            row,
            offset,
            timestamp_ms,
            None if key_size < 0 else bytes(memory[key : key + key_size]),
            None if value_size < 0 else bytes(memory[value : value + value_size]),
        )
