"""A log directory of very many small partitions: `python -m benchmarks.small_partitions DIRECTORY [--count 10000]`.

Each has a segment or two of some batches of an idempotent producer, with all files that a broker keeps beside them, so
that checking it is all about small files. What `kafkalog verify` takes for it is a figure of the README.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests import build

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["write_log_dir"]

NOW_MS: Final = 1_700_000_000_000
PRODUCER_ID: Final = 4000
RECORDS: Final = 5
BATCHES: Final = 3
CLUSTER: Final = "JP8dLpwyRqt7lTsK7P_TbQ"
DIRECTORY_ID: Final = "7EVkxLGh-XcHy9MykOI4gg"


def write_log_dir(path: Path, count: int) -> None:
    """A healthy log directory of a KRaft broker that was stopped cleanly, with `count` partitions of 100 topics."""
    path.mkdir(parents=True)
    ends = []
    for number in range(count):
        topic, partition = f"topic.{number % 100:02d}", number // 100
        segments = 1 + number % 2
        _write_partition(path / f"{topic}-{partition}", segments, f"topic{number % 100:02d}AAAAAAAAAAAAAAA")
        ends.append((topic, partition, segments * BATCHES * RECORDS))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (path / name).write_bytes(build.offset_checkpoint(ends))
    (path / "log-start-offset-checkpoint").write_bytes(build.offset_checkpoint([]))
    (path / "cleaner-offset-checkpoint").touch()
    meta = {"version": "1", "node.id": "1", "cluster.id": CLUSTER, "directory.id": DIRECTORY_ID}
    (path / "meta.properties").write_bytes(build.meta_properties(meta))
    (path / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')


def _write_partition(path: Path, segments: int, topic_id: str) -> None:
    path.mkdir()
    (path / "leader-epoch-checkpoint").write_bytes(build.epoch_checkpoint([(0, 0)]))
    (path / "partition.metadata").write_bytes(build.partition_metadata(topic_id))
    for index in range(segments):
        base = index * BATCHES * RECORDS
        stem = f"{base:020d}"
        batches = [_batch(base + number * RECORDS) for number in range(BATCHES)]
        last_start, end = sum(map(len, batches[:-1])), base + BATCHES * RECORDS
        (path / f"{stem}.log").write_bytes(b"".join(batches))
        (path / f"{stem}.index").write_bytes(build.offset_index([(BATCHES * RECORDS - 1, last_start)]))
        (path / f"{stem}.timeindex").write_bytes(build.time_index([(NOW_MS + end - 1, BATCHES * RECORDS - 1)]))
        (path / f"{end:020d}.snapshot").write_bytes(build.snapshot([_state(end)]))


def _state(end: int) -> build.Producer:
    """What is known of the producer in front of an offset."""
    return build.Producer(
        producer_id=PRODUCER_ID,
        epoch=0,
        last_sequence=end - 1,
        last_offset=end - 1,
        offset_delta=RECORDS - 1,
        timestamp_ms=NOW_MS + end - 1,
    )


def _batch(first: int) -> bytes:
    records = [
        build.Record(offset=offset, timestamp_ms=NOW_MS + offset, key=b"key", value=b"value %d" % offset)
        for offset in range(first, first + RECORDS)
    ]
    return build.batch_v2(records, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=first)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the directory that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args(arguments)
    write_log_dir(options.directory, options.count)


if __name__ == "__main__":
    main()
