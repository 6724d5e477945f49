"""Committed offsets: the disk on which groups have committed past the end of a log, with what Kafka's tool said, and
partitions of `__consumer_offsets` that a test writes.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any, NamedTuple

from kafkalog_core.kafka.sim.group_states import read_groups
from tests.support.build import Record, batch_v2, txn_marker

__all__ = ["CommitLog", "CommittedPast", "commit_key", "commit_value", "committed_past_end"]

_ARCHIVE = Path(__file__).resolve().parents[2] / "fixtures" / "groups" / "committed-past-end-4.3.1.tgz"


class CommittedPast(NamedTuple):
    """The log directory, and (topic, partition, committed offset, log end offset, lag) by group."""

    log_dir: Path
    described: dict[str, tuple[str, int, int, int, int]]


def committed_past_end(place: Path) -> CommittedPast:
    """Unpack the disk; `describe.txt` in it is from `kafka-consumer-groups.sh --describe --all-groups` of 4.3.1."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(place, filter="data")
    case = place / "committed-past-end-4.3.1"
    described = {}
    for line in (case / "describe.txt").read_text().splitlines()[1:]:
        group, topic, partition, *offsets = line.split()[:6]
        committed, end, lag = map(int, offsets)
        described[group] = topic, int(partition), committed, end, lag
    return CommittedPast(case / "logdir", described)


def commit_key(group: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset, version 1."""
    texts = b"".join(len(each).to_bytes(2, "big") + each.encode() for each in (group, topic))
    return b"\0\1" + texts + partition.to_bytes(4, "big")


def commit_value(offset: int, metadata: str = "", timestamp_ms: int = 5) -> bytes:
    """The value of a committed offset, version 3."""
    text = len(metadata).to_bytes(2, "big") + metadata.encode()
    return b"\0\3" + offset.to_bytes(8, "big") + b"\xff" * 4 + text + timestamp_ms.to_bytes(8, "big")


class CommitLog:
    """A partition of `__consumer_offsets` that a test writes."""

    def __init__(self, place: Path) -> None:
        self.path = place / "__consumer_offsets-0"
        self.path.mkdir()
        self._data = b""
        self._next = 0

    def commit(
        self, offset: int | None, *, group: str = "g", producer: int | None = None, time_ms: int = 1
    ) -> CommitLog:
        record = Record(
            offset=self._next,
            key=commit_key(group, "t", 0),
            value=None if offset is None else commit_value(offset),
            timestamp_ms=time_ms,
        )
        options: dict[str, Any] = {}
        if producer is not None:
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        return self.add(batch_v2([record], **options))

    def end(self, kind: int, producer: int) -> CommitLog:
        return self.add(txn_marker(kind, offset=self._next, producer_id=producer))

    def add(self, data: bytes) -> CommitLog:
        self._data += data
        self._next += 1
        (self.path / f"{0:020}.log").write_bytes(self._data)
        return self

    def offset(self, **options: Any) -> int | None:
        found, _ = read_groups([str(self.path)], **options)
        committed = found.offsets.offsets.get("g", {}).get(("t", 0))
        return None if committed is None else committed.offset
