"""`kafkalog zookeeper` on a large tree: `python -m benchmarks.zookeeper [--nodes 1000000] [--turns 3]`.

The data directory has one snapshot of that many nodes, as Kafka writes them (partition states and offsets of old
consumers), and a log with a tenth as many transactions. Measured are whole processes: the summary,
and all rows as JSON lines. Prints nodes a second, the median of the turns and the best, and the largest resident set;
decides nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import machine
from kafkalog_core.format.zookeeper.jute import OPEN_ACL
from kafkalog_core.format.zookeeper.snapshots import Snapshot, Stat, Znode, encode_snapshot
from kafkalog_core.format.zookeeper.transactions import Operation, Transaction, encode_transaction
from kafkalog_core.format.zookeeper.txn_log import encode_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NODES: Final = 1_000_000
_MS: Final = 1_795_229_000_000
_STATE: Final = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[1,2,3]}'
_PARTITIONS: Final = 100
"""Of each topic."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the directory, measure, print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zookeeper", description=__doc__)
    parser.add_argument("--nodes", type=int, default=_NODES, help="nodes of the tree (default 1 million)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each measure (default 3)")
    options = parser.parse_args(arguments)
    for name, value in machine.description().items():
        print(f"{name}: {value}")
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        size_bytes = _write(Path(scratch), options.nodes)
        print(f"{options.nodes} nodes, {options.nodes // 10} transactions, {size_bytes / 1e6:.0f} MB")
        for name, words in (("summary", ()), ("ndjson", ("--output", "ndjson"))):
            passes = [machine.zookeeper_process(scratch, *words) for _ in range(options.turns)]
            rate = options.nodes / statistics.median(each.seconds for each in passes)
            best = options.nodes / min(each.seconds for each in passes)
            of_processor = options.nodes / min(each.cpu_seconds for each in passes)
            peak = max(each.peak_rss_bytes for each in passes)
            print(
                f"{name:<8} {rate:>9,.0f} nodes/s, best {best:>9,.0f}, {of_processor:>9,.0f} a second of CPU, "
                f"{peak / 1e6:,.0f} MB resident"
            )


def _write(place: Path, count: int) -> int:
    version_dir = place / "version-2"
    version_dir.mkdir()
    nodes = {path: _node(data, number) for number, (path, data) in enumerate(_paths(count))}
    snapshot = version_dir / f"snapshot.{count:x}"
    snapshot.write_bytes(encode_snapshot(Snapshot(sessions={}, acls={1: OPEN_ACL}, nodes=nodes)))
    states = [path for path in nodes if path.endswith("/state")]
    log = version_dir / f"log.{count + 1:x}"
    log.write_bytes(encode_log(_transactions(states, count)))
    return snapshot.stat().st_size + log.stat().st_size


def _paths(count: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield that many nodes, parents first."""
    fixed = ("", "/brokers", "/brokers/ids", "/brokers/topics", "/consumers")
    yield from ((path, None) for path in fixed)
    left = count - len(fixed)
    topic = 0
    while left > 0:
        path = f"/brokers/topics/topic-{topic:06}"
        names = [path, f"{path}/partitions"]
        for number in range(_PARTITIONS):
            names += [f"{path}/partitions/{number}", f"{path}/partitions/{number}/state"]
        for name in names[:left]:
            yield name, _STATE % (topic % 3, topic) if name.endswith("/state") else None
        left -= len(names)
        topic += 1


def _node(data: bytes | None, number: int) -> Znode:
    node = Znode(data, b"")
    zxid = max(1, number)
    node.set_stat(Stat(1, zxid, zxid, _MS + number, _MS + number, 0, 0, 0, 0, zxid))
    return node


def _transactions(paths: Sequence[str], count: int) -> Iterator[bytes]:
    for number in range(count // 10):
        path = paths[number * 7919 % len(paths)]
        operation = Operation(type=5, path=path, data=_STATE % (1, number), version=number + 1)
        zxid = count + number + 1
        transaction = Transaction(session_id=1, cxid=number, zxid=zxid, time_ms=_MS + zxid, operation=operation)
        yield encode_transaction(transaction)


if __name__ == "__main__":
    main()
