"""Log directories of KRaft brokers: meta.properties, and a metadata log of the records that are wanted."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

TOPIC, BROKER = 2, 4


def config_record(kind: int, resource: str, name: str, value: str | None) -> bytes:
    """A ConfigRecord; `value` None: the setting is removed."""
    return b"\1\4\0" + bytes([kind]) + _text(resource) + _text(name) + _text(value) + b"\0"


def topic_record(name: str, number: int = 1) -> bytes:
    """A TopicRecord; `number` makes the topic's id."""
    return b"\1\2\0" + _text(name) + _id(number) + b"\0"


def removed_record(number: int = 1) -> bytes:
    """A RemoveTopicRecord."""
    return b"\1\x09\0" + _id(number) + b"\0"


def partition_record(partition: int, replicas: tuple[int, ...], number: int = 1) -> bytes:
    """A PartitionRecord: all replicas are in sync, and the first one leads."""
    nodes = _ints(replicas)
    return (
        b"\1\3\0"
        + struct.pack(">i", partition)
        + _id(number)
        + nodes * 2
        + b"\1\1"
        + struct.pack(">3i", replicas[0], 0, 0)
        + b"\0"
    )


def partition_change_record(
    partition: int, in_sync: tuple[int, ...], leader: int, number: int = 1, *, elr: tuple[int, ...] = ()
) -> bytes:
    """A PartitionChangeRecord of the ISR and the leader, and of eligible leader replicas, if there are any."""
    nodes, eligible = _ints(in_sync), _ints(elr)
    fields = b"\0" + bytes([len(nodes)]) + nodes + b"\1\4" + struct.pack(">i", leader)
    fields = b"\3" + fields + b"\6" + bytes([len(eligible)]) + eligible if elr else b"\2" + fields
    return b"\1\5" + (b"\2" if elr else b"\0") + struct.pack(">i", partition) + _id(number) + fields


def registered_record(node: int, *directories: bytes, level: int | None = None) -> bytes:
    """A RegisterBrokerRecord of a broker with no end points, which knows metadata.version up to a level."""
    ids, name = bytes([len(directories) + 1]) + b"".join(directories), b"metadata.version"
    features = b"\1" if level is None else bytes([2, len(name) + 1]) + name + bytes([0, 1, 0, level, 0])
    fields = node.to_bytes(4, "big") + b"\0" + bytes(16) + bytes(8) + b"\1" + features + b"\0\0\0"
    return b"\1\0\3" + fields + b"\1" + bytes([0, len(ids)]) + ids


def write_metadata_log(log_dir: Path, *values: bytes, damage: bytes = b"") -> Path:
    """Write the metadata log: a batch a record; with damage in the first of two segments, or all in one."""
    partition = log_dir / "__cluster_metadata-0"
    partition.mkdir(parents=True)
    batches = [
        build.batch_v2([build.Record(offset=offset, timestamp_ms=1, key=None, value=value)])
        for offset, value in enumerate(values)
    ]
    if damage:
        (partition / f"{0:020}.log").write_bytes(batches[0] + damage)
        (partition / f"{1:020}.log").write_bytes(b"".join(batches[1:]))
    else:
        (partition / f"{0:020}.log").write_bytes(b"".join(batches))
    return partition


def write_meta(log_dir: Path, *, cluster: str = "c", node: int = 7, key: str = "node.id") -> Path:
    """Write meta.properties; with the key `broker.id` that of a broker with ZooKeeper."""
    log_dir.mkdir(parents=True, exist_ok=True)
    version = 1 if key == "node.id" else 0
    (log_dir / "meta.properties").write_text(f"version={version}\ncluster.id={cluster}\n{key}={node}\n")
    return log_dir


def _id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def _ints(values: tuple[int, ...]) -> bytes:
    return bytes([len(values) + 1]) + struct.pack(f">{len(values)}i", *values)


def _text(text: str | None) -> bytes:
    return b"\0" if text is None else bytes([len(text) + 1]) + text.encode()
