"""Killed at any step, a recovery is undone to the byte or finished; a start in between loses no more than alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.undo import scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support.excising import Written, read_offsets, write
from tests.support.killed_applies import Kills
from tests.support.recover_plans import plan
from tests.support.repairs import names_of_ours, snapshot, undo_all
from tests.support.truncating import MARK, NOW_MS, started

if TYPE_CHECKING:
    from pathlib import Path

KEPT = [each for each in range(33) if not 15 <= each <= 17]
ALONE = 15
"""Where a broker by itself ends the log."""


def damaged(root: Path) -> Written:
    """Damage in the middle, a torn tail, a replacement that waits, and an index that is gone."""
    written = write(root)
    written.flip(12, written.at(12, 1)[1] - 5)
    written.log(24).write_bytes(written.log(24).read_bytes()[:-7])
    written.log(0, "log.swap").write_bytes(b"".join(written.segments[0]))
    written.log(24, "timeindex").unlink()
    return written


@pytest.fixture
def killed(tmp_path: Path) -> Kills:
    return Kills(tmp_path, damaged, lambda written: plan(written.root, only_copy=True))


STRIDES = pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])


@STRIDES
def test_it_is_undone_to_the_byte(tmp_path: Path, killed: Kills, stride: int) -> None:
    old = {name: row[0] for name, row in snapshot(damaged(tmp_path / "old").root).items()}
    for written in killed(stride):
        undo_all(written.root)
        assert {name: row[0] for name, row in snapshot(written.root).items()} == old
        assert names_of_ours(written.root) == []


@STRIDES
def test_it_is_finished(killed: Kills, stride: int) -> None:
    for written in killed(stride):
        interrupted = scope_of(str(written.root)).interrupted()
        if interrupted:
            resume(interrupted[0], Disk())
        elif not (written.root / MARK).exists():
            apply_plan(plan(written.root, only_copy=True), Disk(), now_ms=NOW_MS)
        assert read_offsets(written.partition) == KEPT
        assert (written.root / MARK).exists()
        for is_clean in (True, False):
            result = started(written.partition, is_clean=is_clean)
            assert (result.problem, result.lost_bytes, result.end_offset) == (None, 0, 33)


@STRIDES
def test_a_start_in_between_keeps_what_it_would_have_kept(killed: Kills, stride: int) -> None:
    for written in killed(stride):
        result = started(written.partition, is_clean=(written.root / MARK).exists())
        assert result.problem is None
        assert result.end_offset >= ALONE
