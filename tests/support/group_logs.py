"""Partitions of `__consumer_offsets` with commits of ours, in the formats that a broker of 2.1 to 4.0 writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from kafkalog_core.wire.codec import codec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["commit_record", "write_commits"]

_TIME_MS = 1_795_226_847_397


def commit_record(group: str, topic: str, partition: int, offset: int, leader_epoch: int = -1) -> NewRecord:
    """The record of a commit."""
    fields = {"group": group, "topic": topic, "partition": partition}
    key = b"\0\1" + b"".join(map(bytes, codec("OffsetCommitKey", 0).encode(fields)))
    body = {"offset": offset, "leader_epoch": leader_epoch, "metadata": "", "commit_timestamp": _TIME_MS}
    return NewRecord(key, b"\0\3" + b"".join(map(bytes, codec("OffsetCommitValue", 3).encode(body))), _TIME_MS)


def write_commits(directory: Path, records: Sequence[NewRecord]) -> None:
    """Make the directory of a partition with these records, each in a batch of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    batches = [encode_batch([record], BatchHeader(base_offset=number)) for number, record in enumerate(records)]
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    for name in ("index", "timeindex"):
        (directory / f"{0:020}.{name}").write_bytes(b"")
