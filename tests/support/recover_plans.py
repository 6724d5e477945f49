"""Plans of `recover`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir, target_dirs
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from tests.support.truncating import INTERVAL, NOW_MS

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanDraft


def plan(path: Path, *others: Path, **options: Any) -> PlanDraft:
    """A plan of recover; `others` are named with the directory."""
    kafka = {
        "kafka": "4.3",
        "config": None,
        "assignments": [f"log.index.interval.bytes={INTERVAL}"],
        "topic_assignments": [],
    }
    target = target_dirs(resolve([str(path), *map(str, others)]))[0] if others else target_dir([str(path)])
    return make_plan("recover", PlanRequest(target=target, options={"kafka": kafka, **options}, now_ms=NOW_MS))


def recover(path: Path, *others: Path, **options: Any) -> PlanDraft:
    """Plan and apply; then there is nothing to do."""
    draft = plan(path, *others, **options)
    assert not draft.plan.obstacles
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert plan(path, *others, **options).plan.changes == ()
    return draft
