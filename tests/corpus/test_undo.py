"""Real directories, repaired by every command that there is, and taken back: they are what they were, to the byte."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing import writer
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import asdict
from tests.support.corpus.snapshots import snapshots
from tests.support.repairs import NOW_MS, names_of_ours, snapshot

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

MAX_BATCH_BYTES = 256 * 1024 * 1024
COMMANDS = (
    ("truncate", {"to_offset": None, "at_damage": False, "as_broker": True}),
    ("reindex", {"all": True, "as_broker": True, "max_batch_bytes": MAX_BATCH_BYTES}),
    ("checkpoint", {"beside": [], "mark_clean": False}),
)


def _log_dirs() -> list[str]:
    return sorted({snapshot.log_dir for snapshot in snapshots() if snapshot.fault is None})


@pytest.mark.parametrize("log_dir", _log_dirs())
def test_what_was_repaired_is_taken_back(
    corpus: Path, log_dir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_sync", lambda number: None)
    root = tmp_path / "log"
    shutil.copytree(corpus / log_dir, root, symlinks=True)
    stages = [snapshot(root)]
    release = infer_release(str(root)).release
    kafka = asdict(SettingsRequest(kafka=str(release)))
    for command, options in COMMANDS:
        request = PlanRequest(target=target_dir([str(root)]), options={"kafka": kafka, **options}, now_ms=NOW_MS)
        draft = make_plan(command, request)
        if draft.plan.changes:
            apply_plan(draft, Disk(), now_ms=NOW_MS)
            stages.append(snapshot(root))
            assert stages[-1] != stages[-2]
        assert not make_plan(command, request).plan.changes, f"{command} is not done when it has been applied"
    while len(stages) > 1:
        assert snapshot(root) == stages.pop()
        apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == stages.pop()
    apply_prune(plan_prune(scope_of(str(root))), Disk())
    assert names_of_ours(root) == []
