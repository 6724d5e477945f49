"""A copy of what was changed, while the journal is elsewhere: it is not the original, and the original is not it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import apply_to, make_dir, snapshot

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("fake_planner")


@pytest.mark.parametrize("is_wide", [False, True])
def test_undo_of_a_copy_leaves_the_original_alone(tmp_path: Path, is_wide: bool) -> None:
    root, elsewhere, copy = make_dir(tmp_path / "root"), tmp_path / "undo", tmp_path / "copy"
    elsewhere.mkdir()
    apply_to(root, Disk(), undo_to=elsewhere, is_wide=is_wide)
    done = snapshot(root)
    shutil.copytree(root, copy)
    found = scope_of(str(copy)).found
    assert found.journals == ()
    (remains,) = found.remains
    assert remains.is_unreadable
    assert f"belongs to {root}, of which this directory is a copy" in remains.reason
    assert snapshot(root) == done


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_disk_that_is_mounted_elsewhere_is_still_its_own(tmp_path: Path, is_wide: bool) -> None:
    root, elsewhere, moved = make_dir(tmp_path / "root"), tmp_path / "undo", tmp_path / "moved"
    elsewhere.mkdir()
    old = snapshot(root)
    apply_to(root, Disk(), undo_to=elsewhere, is_wide=is_wide)
    root.rename(moved)
    apply_undo(plan_undo(scope_of(str(moved))), Disk())
    assert snapshot(moved) == old


def test_parts_of_a_journal_without_its_intent_are_kept(tmp_path: Path) -> None:
    root = make_dir(tmp_path / "root")
    journal = apply_to(root, Disk(), is_wide=True)
    done = snapshot(root)
    (root / journal.run).unlink()
    (remains,) = scope_of(str(root)).found.remains
    assert remains.is_unreadable
    assert "missing" in remains.reason
    kept = sorted(str(path) for path in root.rglob("old-*"))
    apply_prune(plan_prune(scope_of(str(root))), Disk())
    assert sorted(str(path) for path in root.rglob("old-*")) == kept
    assert snapshot(root) == done
