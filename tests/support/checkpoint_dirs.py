"""Log directories with real logs, and plans of `checkpoint` for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanDraft, PlanRequest
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CLUSTER", "DIRECTORY_ID", "NOW_MS", "TOPIC_IDS", "Line", "changed", "draft", "lines", "write_log_dir"]

NOW_MS = 1_800_000_000_000
CLUSTER = "JP8dLpwyRqt7lTsK7P_TbQ"
DIRECTORY_ID = "7EVkxLGh-XcHy9MykOI4gg"
TOPIC_IDS = {"orders": "dY86piI2T52nV-5FQRA3tA", "payments": "nF_41e8tTHK9nSWvBMbngw"}
EPOCHS = ((0, 0), (2, 30), (5, 60))


class Line(NamedTuple):
    """A line that a plan changes, in short."""

    number: int | None
    old: str | None
    new: str | None


def _segment(directory: Path, base: int, end: int) -> None:
    """Ten records a batch, of the leader epochs in EPOCHS."""
    log = b""
    for first in range(base, end, 10):
        records = [
            build.Record(offset=offset, timestamp_ms=NOW_MS - 1000 + offset) for offset in range(first, first + 10)
        ]
        log += build.batch_v2(records, leader_epoch=[epoch for epoch, start in EPOCHS if start <= first][-1])
    (directory / f"{base:020d}.log").write_bytes(log)
    (directory / f"{base:020d}.index").touch()
    (directory / f"{base:020d}.timeindex").write_bytes(build.time_index([(NOW_MS - 1000 + end - 1, end - 1 - base)]))


def _partition(directory: Path, topic: str, *, is_clean: bool) -> None:
    directory.mkdir()
    for base, end in ((0, 50), (50, 100)):
        _segment(directory, base, end)
    (directory / f"{50:020d}.snapshot").write_bytes(build.snapshot([]))
    if is_clean:
        (directory / f"{100:020d}.snapshot").write_bytes(build.snapshot([]))
    (directory / "leader-epoch-checkpoint").write_bytes(build.epoch_checkpoint(EPOCHS))
    (directory / "partition.metadata").write_bytes(build.partition_metadata(TOPIC_IDS[topic]))


def write_log_dir(path: Path, *, is_clean: bool = False) -> Path:
    """orders-0, orders-1 and payments-0 with offsets 0 to 99 in two segments; `is_clean`: as a clean stop leaves it."""
    path.mkdir()
    names = [("orders", 0), ("orders", 1), ("payments", 0)]
    for topic, number in names:
        _partition(path / f"{topic}-{number}", topic, is_clean=is_clean)
    flushed = [(topic, number, 100 if is_clean else 50) for topic, number in names]
    (path / "recovery-point-offset-checkpoint").write_bytes(build.offset_checkpoint(flushed))
    committed = [(topic, number, 100) for topic, number in names]
    (path / "replication-offset-checkpoint").write_bytes(build.offset_checkpoint(committed))
    (path / "log-start-offset-checkpoint").write_bytes(build.offset_checkpoint([]))
    (path / "cleaner-offset-checkpoint").touch()
    meta = {"node.id": "1", "directory.id": DIRECTORY_ID, "version": "1", "cluster.id": CLUSTER}
    (path / "meta.properties").write_bytes(build.meta_properties(meta))
    if is_clean:
        (path / ".kafka_cleanshutdown").touch()
    return path


def draft(*paths: Path, **options: Any) -> PlanDraft:
    """The plan for one site."""
    given = {"kafka": {"kafka": "4.3"}, "beside": [], "mark_clean": False} | options
    return make_plan(
        "checkpoint", PlanRequest(target=target_dir([str(path) for path in paths]), options=given, now_ms=NOW_MS)
    )


def changed(planned: PlanDraft, root: Path) -> list[str]:
    """Files that a plan changes, below the root."""
    return [os.path.relpath(change.path, root) for change in planned.plan.changes]


def lines(planned: PlanDraft, name: str) -> list[Line]:
    """Lines of one file that a plan changes."""
    return [
        Line(row["line"], row["old"], row["new"])  # type: ignore[arg-type]
        for chunk in planned.plan.report.details
        if chunk.table.name == "text_line"
        for row in chunk.rows()
        if str(row["file"]).endswith(f"/{name}")
    ]
