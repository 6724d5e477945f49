"""Partitions and log directories against what the metadata log assigns to the broker."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.selecting.targets import LogDirTarget, resolve
from kafkalog_core.ops.verify.logdir import LogDirs
from tests.build import Record, batch_v2, meta_properties
from tests.ops.truncating import write_log

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding

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


def registered(*directories: bytes) -> bytes:
    """A broker with no end points and no features."""
    data = _ids(directories)
    fields = NODE.to_bytes(4, "big") + b"\0" + bytes(16) + bytes(8) + b"\1\1\0\0\0"
    return b"\1\0\3" + fields + b"\1" + bytes([0, len(data)]) + data


REMOVED = b"\1\x09\0" + an_id(1) + b"\0"
DIRECTORY, OTHER = an_id(100), an_id(101)


def disk(path: Path, *records: bytes, directory: bytes = DIRECTORY, topic_id: bytes = an_id(1)) -> Path:
    """A log directory of node 1 with partition t-0, and the metadata log."""
    log = path / "__cluster_metadata-0"
    log.mkdir(parents=True)
    batches = [batch_v2([Record(offset=each, timestamp_ms=1, value=value)]) for each, value in enumerate(records)]
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    properties = {"version": "1", "node.id": str(NODE), "cluster.id": "c", "directory.id": text(directory)}
    (path / "meta.properties").write_bytes(meta_properties(properties))
    write_log(path / "t-0", {0: [(0, 4)]})
    (path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {text(topic_id)}")
    return path


def findings(*paths: Path) -> list[Finding]:
    targets = list(resolve([str(path) for path in paths]))
    dirs = LogDirs(targets)
    for target in targets:
        assert isinstance(target, LogDirTarget)
        for place in target.partitions:
            dirs.note(target, place)
    return [finding for verdict in dirs.across() for finding in verdict.findings]


GOOD = (topic("t", an_id(1)), partition(an_id(1), directories=(DIRECTORY,)), registered(DIRECTORY))


def test_what_is_assigned_is_good(tmp_path: Path) -> None:
    assert findings(disk(tmp_path / "a", *GOOD)) == []


def test_another_topic_id(tmp_path: Path) -> None:
    (found,) = findings(disk(tmp_path / "a", *GOOD, topic_id=an_id(7)))
    assert (found.code, found.severity) == ("partition-metadata.not-assigned", "error")
    assert text(an_id(7)) in found.message
    assert text(an_id(1)) in found.message
    assert "-stray" in (found.broker_action or "")


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ((topic("u", an_id(2)), partition(an_id(2))), "does not have"),
        ((*GOOD, REMOVED, topic("u", an_id(2)), partition(an_id(2))), "does not have"),
        ((topic("t", an_id(1)), partition(an_id(1), replicas=(2, 3))), "does not name node 1"),
        ((*GOOD, change(an_id(1), replicas=(2,), directories=(OTHER,))), "does not name node 1"),
    ],
    ids=["other", "removed", "elsewhere", "moved"],
)
def test_a_stray_partition(tmp_path: Path, records: tuple[bytes, ...], why: str) -> None:
    (found,) = findings(disk(tmp_path / "a", *records))
    assert (found.code, found.severity) == ("dir.not-assigned", "error")
    assert why in found.message


def test_another_directory_id(tmp_path: Path) -> None:
    (found,) = findings(disk(tmp_path / "a", *GOOD, directory=OTHER))
    assert (found.code, found.severity) == ("meta.other-directory-id", "error")
    assert text(DIRECTORY) in found.message
    assert text(OTHER) in found.message


def test_the_metadata_log_of_another_directory_counts(tmp_path: Path) -> None:
    first = disk(tmp_path / "a", *GOOD)
    second = disk(tmp_path / "b", directory=OTHER)
    for path in (second / "__cluster_metadata-0").iterdir():
        path.unlink()
    (second / "__cluster_metadata-0").rmdir()
    (second / "t-0").rename(second / "u-0")
    assert [(each.code, each.path) for each in findings(first, second)] == [
        ("partition-metadata.shared-topic-id", f"{second}/u-0/partition.metadata")
    ]
    (second / "u-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {text(an_id(3))}")
    assert [(each.code, each.path) for each in findings(first, second)] == [("dir.not-assigned", f"{second}/u-0")]
    assert findings(second) == []


def test_damage_in_the_metadata_log_proves_nothing(tmp_path: Path) -> None:
    path = disk(tmp_path / "a", *GOOD, topic_id=an_id(7))
    log = path / "__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    log.write_bytes(data)
    (path / "__cluster_metadata-0" / f"{9:020d}.log").write_bytes(b"")
    assert findings(path) == []
