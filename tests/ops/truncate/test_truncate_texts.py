"""Reasons that `truncate` gives for each of its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import build
from tests.support.truncating import WATERMARKS, batch, plan, write_log, write_tops

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanDraft


def reasons(draft: PlanDraft, ending: str) -> list[str]:
    """Of the changes of files whose paths end so."""
    return [change.why for change in draft.plan.changes if change.path.endswith(ending)]


def test_of_many_partitions_in_a_checkpoint_the_first_ones_are_named(tmp_path: Path) -> None:
    root = write_tops(tmp_path / "disk", watermarks=[("t", number, 20) for number in range(1200)])
    bad = bytearray(batch(10, 19))
    bad[70] ^= 0xFF
    for number in range(4):
        write_log(root / f"t-{number}", {0: [(0, 9), bytes(bad)]})
    (why,) = reasons(plan(root, at_damage=True), WATERMARKS)
    assert why == "high watermark of t-0 from 20 to 10, t-1 from 20 to 10, t-2 from 20 to 10, and 1 more"


def test_snapshots_go_for_reasons_of_their_own(tmp_path: Path) -> None:
    root = write_tops(tmp_path / "disk")
    partition = write_log(root / "t-0", {20: [(20, 24), (25, 29)]})
    for offset in (10, 20, 30):
        (partition / f"{offset:020d}.snapshot").write_bytes(build.snapshot([]))
    draft = plan(partition, to_offset=25)
    for offset in (10, 20):
        (why,) = reasons(draft, f"/{offset:020d}.snapshot")
        assert why.startswith("a broker does not keep it: it is at or below the log start offset")
    assert reasons(draft, f"/{30:020d}.snapshot") == ["the log ends at offset 25"]
