"""The metadata log of a large cluster: `python -m benchmarks.cluster [--records 1000000] [--turns 3]`.

The log has 50,000 topics with 4 partitions of 3 replicas and a setting each, and then changes of the ISR and the leader
of any of them, 50 records a batch. The reader is measured alone (`read_image`), by the time of the processor. Prints
records a second, the median of the turns and the best, and how much the resident set grew; decides nothing.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine
from kafkalog_core.format.batch_writer import NewRecord, encode_batch
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.topics.metadata_records import encode_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOPICS: Final = 50_000
_PARTITIONS: Final = 4
_NODES: Final = 9
_OF_TOPIC: Final = 2 + _PARTITIONS
_IN_BATCH: Final = 50
_SEED: Final = 47


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the log, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="metadata records (default 1,000,000)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each measure (default 3)")
    parser.add_argument("--dir", help="where the log is written and kept; else a temporary directory")
    options = parser.parse_args(arguments)
    for name, value in machine.description().items():
        print(f"{name}: {value}")
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        log = Path(options.dir or scratch) / "__cluster_metadata-0"
        if not log.exists():
            write(log, options.records)
        size_bytes = sum(file.stat().st_size for file in log.iterdir())
        print(f"{options.records} records, {size_bytes / 1e6:.0f} MB")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rates = [_rate(str(log), options.records) for _ in range(options.turns)]
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(
            f"read_image: {statistics.median(rates):,.0f} records a second of the processor (median), "
            f"{max(rates):,.0f} (best); resident set grew by {grown:.0f} MB"
        )


def _rate(path: str, records: int) -> float:
    begin = time.process_time()
    reading = read_image(path)
    taken = time.process_time() - begin
    if reading.records != records or not reading.is_whole:
        raise SystemExit(f"read {reading.records} of {records} records")
    return records / taken


def write(log: Path, records: int) -> None:
    """Write the one segment of the log."""
    log.mkdir(parents=True)
    with (log / f"{0:020}.log").open("wb") as file:
        pending: list[NewRecord] = []
        offset = 0
        for name, version, fields in _records(records):
            pending.append(NewRecord(None, encode_record(name, version, fields), 1_700_000_000_000))
            if len(pending) == _IN_BATCH or offset + len(pending) == records:
                batch = encode_batch(pending)
                file.write(offset.to_bytes(8, "big") + batch[8:])
                offset += len(pending)
                pending.clear()


def _records(count: int) -> Iterator[tuple[str, int, dict[str, Any]]]:
    chance = random.Random(_SEED)
    directories = [chance.randbytes(16) for _ in range(_NODES)]
    topics = min(_TOPICS, count // _OF_TOPIC)
    ids = [chance.randbytes(16) for _ in range(topics)]
    for number, topic_id in enumerate(ids):
        name = f"topic-{number}"
        config = {"resource_type": 2, "resource_name": name, "name": "retention.ms", "value": "86400000"}
        yield "TopicRecord", 0, {"name": name, "topic_id": topic_id}
        yield "ConfigRecord", 0, config
        for partition in range(_PARTITIONS):
            replicas = [(number + partition + each) % _NODES for each in range(3)]
            yield (
                "PartitionRecord",
                2,
                {
                    "partition_id": partition,
                    "topic_id": topic_id,
                    "replicas": replicas,
                    "isr": replicas,
                    "removing_replicas": [],
                    "adding_replicas": [],
                    "leader": replicas[0],
                    "leader_epoch": 0,
                    "partition_epoch": 0,
                    "directories": [directories[each] for each in replicas],
                },
            )
    for _ in range(count - topics * _OF_TOPIC):
        leader = chance.randrange(_NODES)
        change = {"partition_id": chance.randrange(_PARTITIONS), "topic_id": chance.choice(ids)}
        yield "PartitionChangeRecord", 2, {**change, "isr": [leader, (leader + 1) % _NODES], "leader": leader}


if __name__ == "__main__":
    main()
