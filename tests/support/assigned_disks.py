"""Small disks of a KRaft broker with a metadata log that assigns partitions to nodes and log directories."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from tests.support.build import Record, batch_v2, kraft_voters_value, meta_properties
from tests.support.clusters import registered_record
from tests.support.truncating import write_log

if TYPE_CHECKING:
    from pathlib import Path

NODE = 1


def an_id(number: int) -> bytes:
    return uuid.UUID(int=(number << 64) + number).bytes


def text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def _ints(values: tuple[int, ...]) -> bytes:
    return bytes([len(values) + 1]) + b"".join(each.to_bytes(4, "big") for each in values)


def _ids(values: tuple[bytes, ...]) -> bytes:
    return bytes([len(values) + 1]) + b"".join(values)


def topic(name: str, topic_id: bytes) -> bytes:
    return b"\1\2\0" + bytes([len(name) + 1]) + name.encode() + topic_id + b"\0"


def partition(topic_id: bytes, *, replicas: tuple[int, ...] = (NODE,), directories: tuple[bytes, ...] = ()) -> bytes:
    fields = (0).to_bytes(4, "big") + topic_id + _ints(replicas) + _ints(replicas) + _ints(()) * 2
    return b"\1\3\1" + fields + (0).to_bytes(4, "big") * 3 + _ids(directories) + b"\0"


def change(topic_id: bytes, *, replicas: tuple[int, ...], directories: tuple[bytes, ...]) -> bytes:
    fields = [(2, _ints(replicas)), (8, _ids(directories))]
    tagged = b"".join(bytes([tag, len(data)]) + data for tag, data in fields)
    return b"\1\5\1" + (0).to_bytes(4, "big") + topic_id + bytes([len(fields)]) + tagged


def registered(*directories: bytes, level: int | None = None) -> bytes:
    return registered_record(NODE, *directories, level=level)


REMOVED = b"\1\x09\0" + an_id(1) + b"\0"
DIRECTORY, OTHER = an_id(100), an_id(101)


def voters(directory: bytes, *others: bytes) -> Record:
    """A control record that makes node 1 a voter, and nodes 2 and later those with the other directories."""
    rows = [(node, each, (), (0, 0)) for node, each in enumerate((directory, *others), NODE)]
    value = kraft_voters_value(rows)
    return Record(offset=0, timestamp_ms=1, key=b"\0\0\0\6", value=value)


def disk(
    path: Path,
    *records: bytes,
    directory: bytes = DIRECTORY,
    topic_id: bytes = an_id(1),
    voter: bytes | None = None,
    other_voters: tuple[bytes, ...] = (),
) -> Path:
    """A log directory of node 1 with partition t-0, and the metadata log."""
    log = path / "__cluster_metadata-0"
    log.mkdir(parents=True)
    first = 0 if voter is None else 1
    batches = [
        batch_v2([Record(offset=each, timestamp_ms=1, value=value)]) for each, value in enumerate(records, first)
    ]
    if voter is not None:
        batches.insert(0, batch_v2([voters(voter, *other_voters)], is_control=True))
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    properties = {"version": "1", "node.id": str(NODE), "cluster.id": "c", "directory.id": text(directory)}
    (path / "meta.properties").write_bytes(meta_properties(properties))
    write_log(path / "t-0", {0: [(0, 4)]})
    (path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {text(topic_id)}")
    return path


GOOD = (topic("t", an_id(1)), partition(an_id(1), directories=(DIRECTORY,)), registered(DIRECTORY))
