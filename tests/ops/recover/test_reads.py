"""What a recovery costs: the plan reads a healthy log once, whatever the last shutdown; what an apply writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.storage.changing import writer
from kafkalog_core.storage.changing.writer import Disk
from tests.support import build
from tests.support.log_reads import BATCHES, LITTLE, VALUE, counted, times, written
from tests.support.recover_plans import plan, recover
from tests.support.repairs import undo_all
from tests.support.truncating import MARK, NOW_MS, RECOVERY

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes that were read of each log, by its path."""
    return counted(monkeypatch)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_healthy_log_is_read_once(tmp_path: Path, read: dict[str, int], *, is_clean: bool) -> None:
    log = written(tmp_path / "disk", is_clean=is_clean)
    recover(log.root)  # what a test directory lacks: checkpoints, snapshots and the clean shutdown file
    if not is_clean:
        (log.root / MARK).unlink()
        (log.root / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 0)]))
    read.clear()
    draft = plan(log.root)
    assert {change.path.rpartition("/")[2] for change in draft.plan.changes} <= {MARK, RECOVERY}
    assert all(1 <= count <= 1 + LITTLE for count in times(log, read).values()), times(log, read)


def test_a_log_with_a_wrong_index_is_read_once(tmp_path: Path, read: dict[str, int]) -> None:
    """And the last segment for producers, because no snapshot is at the end, and for a start on the result."""
    log = written(tmp_path / "disk", is_clean=True)
    log.log(0, "timeindex").write_bytes(b"")
    draft = plan(log.root)
    assert any(change.path.endswith(".timeindex") for change in draft.plan.changes)
    counts = times(log, read)
    assert counts[0] <= 1 + LITTLE, counts
    assert counts[BATCHES] <= 3 + LITTLE, counts


def test_a_damaged_log_is_not_read_for_each_step(tmp_path: Path, read: dict[str, int]) -> None:
    """By the start that a broker would make, with which the search for damaged places goes on and counts what it would
    delete, and by the start on the result, which tries what takes their place and which the replay follows. Logs of 3
    MB are hashed whole where they change, before and after. The last segment is read by a start on the plan's result
    too.
    """
    log = written(tmp_path / "disk", is_clean=False)
    log.flip(0, log.at(0, 5)[1] - 5)
    plan(log.root, only_copy=True)
    counts = times(log, read)
    assert counts[0] <= 5 + LITTLE, counts
    assert counts[BATCHES] <= 3 + LITTLE, counts


def test_a_damaged_log_of_one_segment_is_not_recovered_again(tmp_path: Path, read: dict[str, int]) -> None:
    """A start on the plan's result would recover it from no producers, as the one before did."""
    log = written(tmp_path / "disk", is_clean=False, bases=(0,))
    log.flip(0, log.at(0, 5)[1] - 5)
    plan(log.root, only_copy=True)
    counts = times(log, read)
    assert counts[0] <= 5 + LITTLE, counts


def test_a_torn_append_is_cut_by_the_start_that_the_replay_follows(tmp_path: Path, read: dict[str, int]) -> None:
    """By the start that a broker would make, the search for damaged places, and a start before and after the cut."""
    log = written(tmp_path / "disk", is_clean=False, bases=(0,))
    with log.log(0).open("ab") as file:
        file.write(VALUE[:100])
    draft = plan(log.root, only_copy=True)
    assert any(change.kind == "cut" for change in draft.plan.changes)
    counts = times(log, read)
    # It has no index, so the end of the log is looked for from its first batch on, and it is hashed whole
    assert counts[0] <= 7 + LITTLE, counts


@pytest.mark.parametrize("damaged", [(), (0,), (0, BATCHES)])
def test_an_apply_writes_new_content_once_and_syncs_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: tuple[int, ...]
) -> None:
    """The figures of docs/recover.md."""
    log = written(tmp_path / "disk", is_clean=False)
    for base in damaged:
        log.flip(base, log.at(base, 5)[1] - 5)
    syncs: list[int] = []
    monkeypatch.setattr(writer, "_sync", syncs.append)
    sizes: list[int] = []
    really = Disk._put
    monkeypatch.setattr(Disk, "_put", lambda disk, number, data: sizes.append(len(data)) or really(disk, number, data))
    draft = plan(log.root, only_copy=True)
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    changes = draft.plan.changes
    assert len(syncs) == 6 + 4 * len(changes)
    assert 0 <= sum(sizes) - sum(change.size_bytes or 0 for change in changes) < 4096 * len(changes)


def test_what_was_followed_in_vain_is_replayed(tmp_path: Path) -> None:
    """A start that stops in the middle of a log does not read all of it: the replay begins again."""
    log = written(tmp_path / "disk", is_clean=False)
    log.flip(BATCHES, log.at(BATCHES, 5)[1] - 5)
    draft = recover(log.root, only_copy=True)
    assert [(loss.first_offset, loss.next_offset) for loss in draft.plan.report.losses] == [(BATCHES + 5, BATCHES + 6)]
    undo_all(log.root)
