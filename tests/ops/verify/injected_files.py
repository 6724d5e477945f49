"""Healthy log directories in several flavours, made from a seed as the releases write them: the files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.ops.verify.injected_log import TOPICS, Broker, Writer, compacted
from tests.support.build import (
    epoch_checkpoint,
    meta_properties,
    offset_checkpoint,
    offset_index,
    partition_metadata,
    snapshot,
    time_index,
    txn_index,
)

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tests.ops.verify.injected_log import Log, Segment

__all__ = ["build"]

TOPIC_IDS: Final = {"orders": "dY86piI2T52nV-5FQRA3tA", "other": "VeTDeB9TQfeyonOMzk1nFg"}
CLUSTER_ID: Final = "JP8dLpwyRqt7lTsK7P_TbQ"
DIRECTORY_ID: Final = "7EVkxLGh-XcHy9MykOI4gg"


def build(path: Path, flavour: str, random: Random) -> Broker:
    """Write a healthy log directory of two topics."""
    logs = []
    for topic in TOPICS:
        log = Writer(topic, flavour, random).log()
        logs.append(compacted(log, random) if flavour == "compacted" else log)
    broker = Broker(path, flavour, tuple(logs))
    _write(broker)
    return broker


def _write(broker: Broker) -> None:
    for log in broker.logs:
        _write_log(broker, log)
    entries = [(log.topic, 0, log.end) for log in broker.logs]
    flushed = entries if broker.is_clean else [(log.topic, 0, log.segments[-1].base) for log in broker.logs]
    files = {
        "recovery-point-offset-checkpoint": offset_checkpoint(flushed),
        "replication-offset-checkpoint": offset_checkpoint(entries if broker.is_clean else flushed),
        "cleaner-offset-checkpoint": offset_checkpoint(_cleaned(broker)),
        "meta.properties": meta_properties(_meta(broker)),
    }
    if broker.flavour != "legacy":
        files["log-start-offset-checkpoint"] = offset_checkpoint([])
    if broker.is_clean:
        is_old = broker.flavour in {"legacy", "mixed"}
        files[".kafka_cleanshutdown"] = b"" if is_old else b'{"version":0,"brokerEpoch":7}'
    for name, data in files.items():
        (broker.path / name).write_bytes(data)


def _cleaned(broker: Broker) -> list[tuple[str, int, int]]:
    if broker.flavour != "compacted":
        return []
    return [(log.topic, 0, log.segments[-1].base) for log in broker.logs]


def _meta(broker: Broker) -> dict[str, str]:
    if broker.flavour in {"legacy", "mixed"}:
        return {"version": "0", "broker.id": "1", "cluster.id": CLUSTER_ID}
    return {"version": "1", "node.id": "1", "cluster.id": CLUSTER_ID, "directory.id": DIRECTORY_ID}


def _write_log(broker: Broker, log: Log) -> None:
    directory = broker.path / f"{log.topic}-0"
    directory.mkdir(parents=True)
    for segment in log.segments:
        room = bytes(120) if not broker.is_clean and segment is log.segments[-1] else b""
        _write_segment(directory, segment, room)
    if broker.flavour == "legacy":
        return
    for offset, producers in log.snapshots.items():
        (directory / f"{offset:020d}.snapshot").write_bytes(snapshot(producers))
    (directory / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint(log.epochs))
    (directory / "partition.metadata").write_bytes(partition_metadata(TOPIC_IDS[log.topic]))


def _write_segment(directory: Path, segment: Segment, room: bytes) -> None:
    """`room`: what an open index ends with."""
    offsets, times = segment.indexes()
    files = {"log": segment.data, "index": offset_index(offsets) + room, "timeindex": time_index(times) + room}
    _write_files(directory, segment.name, files)
    if segment.aborted:
        _write_files(directory, segment.name, {"txnindex": txn_index(segment.aborted)})


def _write_files(directory: Path, name: str, contents: dict[str, bytes]) -> None:
    """Files of one segment by their suffix."""
    for suffix, data in contents.items():
        (directory / f"{name}.{suffix}").write_bytes(data)
