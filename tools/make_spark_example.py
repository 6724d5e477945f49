"""Make the log directory of the example in docs/spark.md: five producers, one day, and a damaged disk.

    python -m tools.make_spark_example DIRECTORY

The bytes follow from the seed alone. They are built by the tests' builders, from the format's description.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.build import (
    LZ4,
    NONE,
    ZSTD,
    Record,
    batch_v2,
    epoch_checkpoint,
    meta_properties,
    offset_checkpoint,
    offset_index,
    partition_metadata,
    time_index,
)

SEED: Final = 20260131
START_MS: Final = 1_769_817_600_000  # 2026-01-31T00:00:00Z
HOUR_MS: Final = 3_600_000
SEGMENT_BYTES: Final = 512 * 1024
INDEX_INTERVAL_BYTES: Final = 4096
PARTITIONS: Final = 3
TOPIC_ID: Final = "b3JkZXJzLW9mLWEtZGF5IQ"
RECORDS: Final = (5, 40)


class Writer(NamedTuple):
    """A producer: from which hour to which it writes, how many batches an hour, and how it compresses them."""

    producer_id: int
    first_hour: float
    last_hour: float
    batches_an_hour: int
    codec: int


WRITERS: Final = (
    Writer(4001, 0.0, 24.0, 60, LZ4),
    Writer(4002, 0.0, 13.4, 90, NONE),
    Writer(4003, 6.0, 18.0, 120, ZSTD),
    Writer(4007, 13.4, 24.0, 90, NONE),
    Writer(-1, 9.0, 9.5, 400, NONE),
)
DAMAGE: Final = ((0, 0.30, 3), (1, 0.55, 25), (2, 0.80, 1))
"""Partition, position as a share of its log, and the number of consecutive batches in which one byte is flipped."""


def main() -> None:
    """Write it."""
    root = Path(sys.argv[1])
    chance = random.Random(SEED)  # noqa: S311 - the same bytes each time
    for number in range(PARTITIONS):
        _write(root / f"orders-{number}", list(_batches(chance)))
    _damage(root)
    ends = [(path.name.rpartition("-")[0], int(path.name[-1]), 0) for path in sorted(root.glob("orders-*"))]
    (root / "log-start-offset-checkpoint").write_bytes(offset_checkpoint(ends))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        (root / name).write_bytes(offset_checkpoint([]))
    (root / "meta.properties").write_bytes(meta_properties({"version": "1", "node.id": "1", "cluster.id": "example"}))


def _batches(chance: random.Random) -> list[bytes]:
    """The batches of one partition, in the order of their times."""
    moments = sorted(
        (START_MS + int(HOUR_MS * chance.uniform(writer.first_hour, writer.last_hour)), number)
        for number, writer in enumerate(WRITERS)
        for _ in range(int((writer.last_hour - writer.first_hour) * writer.batches_an_hour / PARTITIONS))
    )
    offset = 0
    sequences = [0] * len(WRITERS)
    result = []
    for time_ms, number in moments:
        writer, count = WRITERS[number], chance.randint(*RECORDS)
        records = [
            Record(
                offset=offset + each,
                timestamp_ms=time_ms + each,
                key=b"order-%06d" % chance.randrange(10**6),
                value=chance.randbytes(chance.randint(20, 120)),
            )
            for each in range(count)
        ]
        is_idempotent = writer.producer_id >= 0
        result.append(
            batch_v2(
                records,
                codec=writer.codec,
                producer_id=writer.producer_id,
                producer_epoch=0 if is_idempotent else -1,
                base_sequence=sequences[number] if is_idempotent else -1,
            )
        )
        offset += count
        sequences[number] += count
    return result


def _write(partition: Path, batches: list[bytes]) -> None:
    """The batches as segments."""
    partition.mkdir(parents=True)
    log = b""
    base = 0
    for batch in batches:
        if log and len(log) + len(batch) > SEGMENT_BYTES:
            _write_segment(partition, base, log)
            log, base = b"", int.from_bytes(batch[:8], "big")
        log += batch
    _write_segment(partition, base, log)
    (partition / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(0, 0)]))
    (partition / "partition.metadata").write_bytes(partition_metadata(TOPIC_ID))


def _write_segment(partition: Path, base: int, log: bytes) -> None:
    """A log file with its indexes: an entry for the first batch after each 4 KiB, and the last time of all."""
    offsets, times = [], []
    indexed, last_time, last_time_offset = 0, -1, base
    for position in _starts(log):
        base_of_batch, last_delta = log[position : position + 8], log[position + 23 : position + 27]
        last = int.from_bytes(base_of_batch, "big") + int.from_bytes(last_delta, "big")
        if position - indexed > INDEX_INTERVAL_BYTES:
            offsets.append((last - base, position))
            times.append((last_time, last_time_offset - base))
            indexed = position
        max_time = int.from_bytes(log[position + 35 : position + 43], "big")
        if max_time > last_time:
            last_time, last_time_offset = max_time, last
    times.append((last_time, last_time_offset - base))
    (partition / f"{base:020}.log").write_bytes(log)
    (partition / f"{base:020}.index").write_bytes(offset_index(offsets))
    (partition / f"{base:020}.timeindex").write_bytes(time_index(times))


def _starts(log: bytes | bytearray) -> list[int]:
    """Where batches start."""
    starts, position = [], 0
    while position < len(log):
        starts.append(position)
        position += 12 + int.from_bytes(log[position + 8 : position + 12], "big")
    return starts


def _damage(root: Path) -> None:
    """Flip the last byte of some batches in a row."""
    for number, share, count in DAMAGE:
        logs = sorted((root / f"orders-{number}").glob("*.log"))
        log = logs[int(len(logs) * share)]
        data = bytearray(log.read_bytes())
        starts = _starts(data)
        first = len(starts) // 2
        for start in starts[first + 1 : first + 1 + count]:
            data[start - 1] ^= 0xFF
        log.write_bytes(data)


if __name__ == "__main__":
    main()
