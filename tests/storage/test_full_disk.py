"""0 bytes free: repairs that free room are applied, killed, failed, taken back and finished there."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.ops.apply import apply_draft
from kafkalog_core.ops.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.storage.full_disk import CASES, Case, FullDisk, Rounds, mounted_disk
from tests.storage.repairs import names_of_ours, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_waiting")

SAMPLE = 5
"""Points of each case; the long run takes all."""
FULL = tuple(case for case in CASES if case.is_full)
RETAIN = {"assignment": "retention.bytes=45000"}


@pytest.fixture(scope="module")
def disk() -> Iterator[FullDisk]:
    with mounted_disk() as mounted:
        yield mounted


@pytest.mark.parametrize("case", FULL, ids=str)
def test_a_sample_of_the_long_run(case: Case, disk: FullDisk, tmp_path: Path) -> None:
    rounds = Rounds(case, disk, tmp_path)
    assert rounds.new != rounds.old
    count = len(rounds.steps)
    for at in range(count - 1, 0, -(count // SAMPLE)):
        rounds.check_killed(at)
    rounds.check_failed(count // 2, errno.ENOSPC, forever=True)
    rounds.check_failed(count // 3, errno.EIO, forever=False)


@pytest.mark.parametrize("case", FULL, ids=str)
def test_nothing_is_written_there_before_something_is_freed(case: Case, disk: FullDisk, tmp_path: Path) -> None:
    class Watching(Disk):
        """Notes what is written on the full disk while 0 bytes are free."""

        def step(self, what: str, path: str) -> None:
            if what == "write" and path.startswith(f"{disk.root}/") and not disk.free_bytes:
                early.append(path)

    early: list[str] = []
    rounds = Rounds(case, disk, tmp_path)
    rounds.reset()
    rounds.apply(Watching())
    assert early == []


def test_without_either_option_it_is_refused_and_both_are_named(disk: FullDisk, tmp_path: Path) -> None:
    rounds = Rounds(Case("retain", RETAIN, keeps_undo=True), disk, tmp_path)
    rounds.reset()
    draft = rounds.draft(beside=True)
    assert not draft.plan.changes[0].size_bytes
    with pytest.raises(RefusedError, match=r"0 B are free; the same command fits with --undo-to DIR.*--no-undo"):
        apply_draft(draft, Disk(), now_ms=0)
    assert snapshot(disk.root) == rounds.old
    assert names_of_ours(disk.root) == []


def test_an_undo_says_how_much_room_it_lacks_before_it_changes_anything(disk: FullDisk, tmp_path: Path) -> None:
    rounds = Rounds(Case("retain", RETAIN, keeps_undo=True), disk, tmp_path)
    disk.fill()
    new = snapshot(disk.root)
    plan = plan_undo(scope_of(rounds.root))
    (obstacle,) = plan.obstacles
    assert "KiB on its file system while it is done, and 0 B are free; move something else away first" in obstacle
    with pytest.raises(RefusedError, match="nothing has been changed"):
        apply_undo(plan, Disk())
    assert snapshot(disk.root) == new
    (disk.path / "filler").unlink()
    apply_undo(plan_undo(scope_of(rounds.root)), Disk())
    assert snapshot(disk.root) == rounds.old


def test_without_undo_nothing_is_left_of_a_journal(disk: FullDisk, tmp_path: Path) -> None:
    Rounds(Case("retain", RETAIN, keeps_undo=False), disk, tmp_path)
    assert names_of_ours(disk.root) == []
