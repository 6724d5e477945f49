"""Log directories to roll again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.roll.roll import RollRequest, roll
from tests.support.build import (
    ABORT,
    COMMIT,
    Producer,
    Record,
    batch_v2,
    epoch_checkpoint,
    meta_properties,
    offset_checkpoint,
    partition_metadata,
    snapshot,
    txn_marker,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.ops.roll.forecast import RollForecast

TOPIC_ID = "Bd_hzfXlQ1-SuBkFKsGV-A"
NOW_MS = 1_700_000_000_000


def plain(offset: int, *, size: int = 400, time_ms: int = NOW_MS, **fields: Any) -> bytes:
    """A batch of one record."""
    return batch_v2([Record(offset=offset, timestamp_ms=time_ms + offset, value=b"v" * size)], **fields)


def transactional(offset: int, producer_id: int, sequence: int) -> bytes:
    """A batch of one record in a transaction."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    return plain(offset, is_transactional=True, **fields)


def history(count: int = 40) -> list[bytes]:
    """Batches of two producers with transactions of both ends, and others between them; two leader epochs."""
    batches = []
    for offset in range(count):
        kind, epoch = offset % 8, int(offset >= count // 2)
        if kind in {1, 3}:
            batches.append(transactional(offset, 7, 2 * (offset // 8) + (kind > 2)))
        elif kind in {2, 4}:
            batches.append(transactional(offset, 9, 2 * (offset // 8) + (kind > 2)))
        elif kind == 5:
            batches.append(txn_marker(ABORT, offset=offset, producer_id=7, timestamp_ms=NOW_MS + offset))
        elif kind == 7:
            batches.append(txn_marker(COMMIT, offset=offset, producer_id=9, timestamp_ms=NOW_MS + offset))
        else:
            batches.append(plain(offset))
        batches[-1] = batches[-1][:12] + epoch.to_bytes(4) + batches[-1][16:]  # no checksum covers it
    return batches


def make_dir(root: Path, *, name: str = "t-0", cut: int = 15) -> Path:
    """A log directory of a broker of 4.x that stopped cleanly: one partition of two segments."""
    batches = history()
    partition = root / name
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(b"".join(batches[:cut]))
    (partition / f"{cut:020d}.log").write_bytes(b"".join(batches[cut:]))
    for base in (0, cut):
        for suffix in ("index", "timeindex"):
            (partition / f"{base:020d}.{suffix}").write_bytes(b"")
    (partition / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(0, 0), (1, 20)]))
    (partition / "partition.metadata").write_bytes(partition_metadata(TOPIC_ID))
    topic, _, number = name.rpartition("-")
    for file, offset in (
        ("recovery-point-offset-checkpoint", 15),
        ("replication-offset-checkpoint", 38),
        ("log-start-offset-checkpoint", 3),
        ("cleaner-offset-checkpoint", 0),
    ):
        (root / file).write_bytes(offset_checkpoint([(topic, int(number), offset), ("gone", 0, 5)]))
    (root / "meta.properties").write_bytes(
        meta_properties({"version": "1", "cluster.id": "aW50ZWdyYXRpb24tdGVzdA", "node.id": "1"})
    )
    (root / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":17}')
    return root


def silent_producer(offset: int) -> bytes:
    """A snapshot that knows somebody of whom nothing is in the log any more."""
    return snapshot([Producer(producer_id=5, last_offset=2, last_sequence=1, timestamp_ms=offset)])


def rolled(
    path: Path, *, to: Path | None = None, kafka: str = "4.3", disk: Any = None, **given: Any
) -> list[RollForecast]:
    """What the command finds; settings by their names, with `_` for dots."""
    request = RollRequest(
        targets=tuple(resolve([str(path)])),
        kafka=SettingsRequest(
            kafka=kafka, assignments=tuple(f"{name.replace('_', '.')}={value}" for name, value in given.items())
        ),
        to=None if to is None else str(to),
    )
    return list(roll(request, Report(), disk=disk))
