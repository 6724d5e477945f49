"""The records of Kafka's own topics, in the order of a partition's log."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

from kafkalog_core.errors import StorageError
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.decode import RecordRun
    from kafkalog_core.storage.scan import Run

__all__ = ["data_records", "partition_runs", "records_of"]


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


def data_records(
    directory: str, problems: list[str], *, max_batch_bytes: int = MAX_BATCH_BYTES, until_ms: int = MAX_INT64
) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Yield timestamp, key and value of the records of a partition in the order of the log, without markers.

    Args:
        directory: of the partition.
        problems: gets a sentence for each place that cannot be read.
        max_batch_bytes: larger batches are damage.
        until_ms: records with a later timestamp are left out.
    """
    try:
        for run in partition_runs(directory, max_batch_bytes):
            if isinstance(run, str):
                problems.append(run)
                continue
            batches = run.batches
            columns = zip(batches.column("attributes"), batches.column("format"), strict=True)
            is_data = [magic != MAGIC_V2 or not value & CONTROL_BIT for value, magic in columns]
            for item in decode_run(run.memory, batches, max_bytes=max_batch_bytes, wanted=is_data.__getitem__):
                if isinstance(item, PayloadDamage):
                    size = batches.column("size_bytes")[item.batch]
                    problems.append(f"a batch of {size} bytes cannot be read: {item.detail}")
                    continue
                for _, _, timestamp_ms, key, value in records_of(item):
                    if timestamp_ms <= until_ms:
                        yield timestamp_ms, key, value
    except StorageError as error:
        problems.append(str(error))


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
