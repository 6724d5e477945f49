"""What `apply --resume` and `undo` check before they change a file: the journal's copies, byte by byte."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.ops.apply import resume
from kafkalog_core.ops.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.storage.repairs import LOG, UnlinkingDisk, apply_to, interrupt, make_dir, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("fake_planner", "no_waiting")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "disk")


def flip(path: Path) -> None:
    """One bit in the middle; size and modification time stay."""
    times = path.stat().st_mtime_ns
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times, times))


def cut(path: Path) -> None:
    times = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes()[:-1])
    os.utime(path, ns=(times, times))


def is_now_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def is_now_a_link(path: Path) -> None:
    path.rename(path.parent.parent / "moved")
    path.symlink_to(path.parent.parent / "moved")


def without_moved(root: Path) -> dict[str, tuple[object, ...]]:
    return {name: value for name, value in snapshot(root).items() if name != "t-1/moved"}


WRONG = {
    "flipped": (flip, "is not what it was"),
    "shorter": (cut, "is not what it was"),
    "gone": (os.unlink, "is not what it was"),
    "directory": (is_now_a_directory, "cannot be read"),
    "link": (is_now_a_link, "cannot be read"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_new_content_that_is_not_whole_is_refused_and_the_run_can_be_taken_back(root: Path, kind: str) -> None:
    old = snapshot(root)
    interrupt(root, is_wide=True)
    (run,) = (root / "t-1").glob("kafkalog-undo-*")
    (staged,) = run.glob("new-*")
    act: Callable[[Path], None] = WRONG[kind][0]
    act(staged)
    between = snapshot(root)
    (journal,) = scope_of(str(root)).interrupted()
    with pytest.raises(RefusedError) as caught:
        resume(journal, Disk())
    assert caught.value.path == str(staged)
    assert caught.value.message.startswith(f"the new content of t-1/{LOG} {WRONG[kind][1]}")
    assert caught.value.message.endswith(f"; take the run back: kafkalog undo {root} --run {journal.run} --apply")
    assert snapshot(root) == between
    if kind == "directory":
        staged.rmdir()
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert without_moved(root) == old


@pytest.mark.parametrize("kind", WRONG)
def test_old_content_that_is_not_whole_is_refused(root: Path, kind: str) -> None:
    journal = apply_to(root, UnlinkingDisk(), is_wide=True)
    (run,) = (root / "t-1").glob("kafkalog-undo-*")
    (saved,) = run.glob("old-*")
    now = snapshot(root)
    WRONG[kind][0](saved)
    plan = plan_undo(scope_of(str(root)))
    told = " ".join(plan.obstacles)
    assert f"what was saved of t-1/{LOG} " in told
    assert f"kafkalog undo {root} --prune --run {journal.run} --apply" in told
    with pytest.raises(RefusedError):
        apply_undo(plan, Disk())
    assert without_moved(root) == now
