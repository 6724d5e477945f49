"""Killed at any step, an excision can be undone to the byte and finished; a broker that starts in between loses nothing
that it would have kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.undo import scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support import build
from tests.support.excising import plan, read_offsets, write
from tests.support.killed_applies import Kills
from tests.support.repairs import names_of_ours, snapshot, undo_all
from tests.support.truncating import NOW_MS, carry_out, started

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.excising import Written

KEPT = [each for each in range(36) if not 15 <= each <= 17 and not 24 <= each <= 26]


def damaged(root: Path) -> Written:
    """Damage in the middle segment and at the start of the active one."""
    written = write(root, 2, build.LZ4)
    for base, number in ((12, 1), (24, 0)):
        written.flip(base, written.at(base, number)[1] - 5)
    return written


@pytest.fixture
def killed(tmp_path: Path) -> Kills:
    return Kills(tmp_path, damaged, lambda written: plan(written.partition, 15, 24))


STRIDES = pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])


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
        elif plan(written.partition, 15, 24).plan.changes and read_offsets_or_none(written) is None:
            apply_plan(plan(written.partition, 15, 24), Disk(), now_ms=NOW_MS)
        assert read_offsets(written.partition) == KEPT
        assert started(written.partition, is_clean=False).lost_bytes == 0


@STRIDES
def test_a_start_in_between_finds_every_batch(killed: Kills, stride: int) -> None:
    """After a clean shutdown it recovers nothing: it completes what is there of the replacement."""
    for written in killed(stride):
        carry_out(written.partition)
        result = started(written.partition)
        assert (result.problem, result.end_offset, result.lost_bytes) == (None, 36, 0)
        sizes = {base: written.log(base).stat().st_size for base in (0, 12, 24)}
        assert sizes[0] == sum(map(len, written.segments[0]))
        assert all(sizes[base] > sum(map(len, written.segments[base])) / 2 for base in (12, 24))


def read_offsets_or_none(written: Written) -> list[int] | None:
    """What is read of a log without damage."""
    try:
        return read_offsets(written.partition)
    except AssertionError:
        return None
