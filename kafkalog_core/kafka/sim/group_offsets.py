"""The offsets that groups committed, read from partitions of `__consumer_offsets`."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

from kafkalog_core.errors import StorageError
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, MAX_INT64, TRANSACTIONAL_BIT
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.text import count_of
from kafkalog_core.topics.group_offsets import GroupOffsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.decode import RecordRun
    from kafkalog_core.storage.scan import Run

__all__ = ["partition_runs", "read_group_offsets", "records_of"]

_COMMIT_MARKER = 1  # ControlRecordType


def _all(key: bytes | None, value: bytes | None) -> bool:  # noqa: ARG001 - the default of `wanted`
    return True


def read_group_offsets(
    directories: Iterable[str],
    *,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    until_ms: int = MAX_INT64,
    wanted: Callable[[bytes | None, bytes | None], bool] = _all,
) -> tuple[GroupOffsets, list[str]]:
    """Return what groups committed, and a sentence for each place that cannot be read, where commits may be missing.

    Args:
        directories: of the partitions, one copy of each.
        max_batch_bytes: larger batches are damage.
        until_ms: records with a later timestamp are left out.
        wanted: called with the key and the value of each record: whether to decode it.
    """
    found, problems = GroupOffsets(), list[str]()
    for directory in directories:
        of_partition = GroupOffsets()
        try:
            for item in partition_runs(directory, max_batch_bytes):
                if isinstance(item, str):
                    problems.append(item)
                else:
                    problems += _replay(of_partition, item, max_batch_bytes, until_ms, wanted)
        except StorageError as error:
            problems.append(str(error))
        for what, count in of_partition.skipped.items():
            problems.append(f"{directory}: {count_of(count, 'record')}: {what}")
        found.absorb(of_partition)
    return found, problems


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


def _replay(
    found: GroupOffsets,
    run: Run,
    max_bytes: int,
    until_ms: int,
    wanted: Callable[[bytes | None, bytes | None], bool],
) -> list[str]:
    """Replay the records and markers of a run of batches in their order."""
    batches, problems = run.batches, []
    formats, attributes = batches.column("format"), batches.column("attributes")
    producers, times = batches.column("producer_id"), batches.column("max_timestamp_ms")
    markers = [(row, marker) for row, marker in markers_of(run.memory, batches, max_bytes=max_bytes).items()]
    flags = [value if magic == MAGIC_V2 else 0 for value, magic in zip(attributes, formats, strict=True)]

    def end_transactions(before: int) -> None:
        while markers and markers[0][0] < before:
            row, marker = markers.pop(0)
            if times[row] <= until_ms:
                found.end_transaction(producers[row], is_commit=marker.type_id == _COMMIT_MARKER)

    for item in decode_run(run.memory, batches, max_bytes=max_bytes, wanted=lambda row: not flags[row] & CONTROL_BIT):
        if isinstance(item, PayloadDamage):
            problems.append(
                f"a batch of {batches.column('size_bytes')[item.batch]} bytes cannot be read: {item.detail}"
            )
            continue
        for row, offset, timestamp_ms, key, value in records_of(item):
            end_transactions(row)
            if timestamp_ms <= until_ms and wanted(key, value):
                found.replay(key, value, offset, producers[row] if flags[row] & TRANSACTIONAL_BIT else None)
    end_transactions(batches.count)
    return problems


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
