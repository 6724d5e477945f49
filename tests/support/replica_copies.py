"""Copies of one partition on several disks, built from batches; and what the comparison says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.copies.compare import Comparison
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, work_of
from tests.support.build import (
    Record,
    batch_v2,
    epoch_checkpoint,
    meta_properties,
    offset_checkpoint,
    partition_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

TOPIC_ID = "JG0OakIkRQiyktrz2InRCA"
PARTITION = "t-0"


def records(first: int, last: int, *, word: str = "") -> list[Record]:
    """Records of these offsets; other words make other values."""
    return [
        Record(offset=offset, timestamp_ms=offset, key=b"k%d" % offset, value=f"v{offset}{word}".encode())
        for offset in range(first, last + 1)
    ]


def batches(first: int, last: int, *, each: int = 5, epoch: int = 0, word: str = "") -> list[bytes]:
    """Batches of that many records each."""
    return [
        batch_v2(records(start, min(start + each - 1, last), word=word), leader_epoch=epoch)
        for start in range(first, last + 1, each)
    ]


def lay(
    root: Path,
    node: int,
    segments: Mapping[int, Iterable[bytes]],
    *,
    epochs: Sequence[tuple[int, int]] | None = ((0, 0),),
    high_watermark: int | None = None,
    cleaned_to: int | None = None,
    log_start: int | None = None,
    topic_id: str = TOPIC_ID,
) -> Path:
    """A broker's log directory with one copy; `segments`: batches by base offset."""
    log_dir = root / f"broker-{node}"
    partition = log_dir / PARTITION
    partition.mkdir(parents=True)
    for base, parts in segments.items():
        (partition / f"{base:020}.log").write_bytes(b"".join(parts))
    if epochs is not None:
        (partition / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint(epochs))
    (partition / "partition.metadata").write_bytes(partition_metadata(topic_id))
    (log_dir / "meta.properties").write_bytes(meta_properties({"version": "1", "node.id": str(node)}))
    for name, offset in (
        ("replication-offset-checkpoint", high_watermark),
        ("cleaner-offset-checkpoint", cleaned_to),
        ("log-start-offset-checkpoint", log_start),
    ):
        entries = [] if offset is None else [("t", 0, offset)]
        (log_dir / name).write_bytes(offset_checkpoint(entries))
    return log_dir


def compared(*log_dirs: Path) -> Comparison:
    """The comparison of the one partition that is in them."""
    (only,) = [
        item
        for item in replicas(
            work_of(ReplicasRequest(targets=tuple(resolve([str(path) for path in log_dirs])))), Report()
        )
        if isinstance(item, Comparison)
    ]
    return only


def states(comparison: Comparison) -> list[object]:
    """The state of each copy, in the order of the brokers."""
    return [row["state"] for row in comparison.copies]


def of_broker(comparison: Comparison, node: int) -> dict[str, Any]:
    """The row of one copy."""
    return next(row for row in comparison.copies if row["node_id"] == str(node))


def ranges(comparison: Comparison) -> list[tuple[object, ...]]:
    """Kind, offsets and records of each range."""
    return [(row["kind"], row["first_offset"], row["last_offset"], row["records"]) for row in comparison.ranges]


def codes(comparison: Comparison) -> list[str]:
    """Codes of the findings."""
    return sorted(finding.code for finding in comparison.findings)
