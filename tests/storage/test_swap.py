"""Segments that are replaced at once: killed at any step, a broker finds the old log whole, or the new one."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError, UnfinishedError
from kafkalog_core.ops import planners
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from tests.support import build
from tests.support.repairs import (
    CountingDisk,
    DyingDisk,
    Killed,
    UnlinkingDisk,
    names_of_ours,
    resume_or_apply,
    snapshot,
    undo_all,
)
from tests.support.truncating import NOW_MS, batch, carry_out, started, write_log, write_tops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage

SHM = "/dev/shm"  # noqa: S108 -- another file system than that of the test's own directory
SEGMENTS = {0: [(0, 4), (5, 9)], 10: [(10, 14), (15, 19)], 20: [(20, 24), (25, 29)], 30: [(30, 34)]}
"""Two replacements: 0 and 10 become one, 20 becomes a shorter one; 30 is active."""
CLEANED = {0: [(0, 4), (15, 19)], 20: [(25, 29)]}
LAST_SOURCE = {0: 10, 20: 20}
STRIDES = {"partition": 1, "top": 6, "no-links": 11, "other-disk": 7}
ABORTED = build.txn_index([(7, 1, 3, 4)])

pytestmark = pytest.mark.usefixtures("swapping", "no_waiting")


def planner(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """The changes that a compaction makes."""
    del progress
    partition = f"{request.target.root}/t-0" if request.target.log_dir else request.target.root
    for base, batches in CLEANED.items():
        stem = f"{partition}/{base:020d}"
        like, mtime_ns = f"{stem}.log", os.stat(f"{partition}/{LAST_SOURCE[base]:020d}.log").st_mtime_ns
        data = [batch(*each) for each in batches]
        for suffix, content in ((".log", data), (".index", []), (".timeindex", [build.time_index([(1019, 19)])])):
            stage.write(stem + suffix, content, why="cleaned", like=like, mtime_ns=mtime_ns, swap=base)
        if base == 20:
            stage.write(f"{stem}.txnindex", [ABORTED], why="cleaned", like=like, swap=base)
        else:
            stage.remove(f"{stem}.txnindex", why="no aborted transaction is left", swap=base)
            for suffix in ("log", "index", "timeindex", "snapshot"):
                stage.remove(f"{partition}/{10:020d}.{suffix}", why="part of segment 0", swap=base)
    if request.target.log_dir:
        content = build.offset_checkpoint([("t", 0, 30)])
        top = f"{request.target.root}/meta.properties"
        stage.write(f"{request.target.root}/cleaner-offset-checkpoint", [content], why="cleaned", like=top)
    return PlanReport()


@pytest.fixture
def swapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners.PLANNERS, "reindex", f"{__name__}:planner")


class Patient:
    """Log directories, or partitions, that are all alike."""

    def __init__(self, place: Path, layout: str, elsewhere: Path | None) -> None:
        self.place, self.layout, self.elsewhere = place, layout, elsewhere
        self.number = 0
        self.stride = STRIDES[layout]
        self.door = UnlinkingDisk if layout == "no-links" else Disk
        root = self.fresh()
        self.old, self.old_log = snapshot(root), self.log(root)

        class Counting(CountingDisk, self.door):  # type: ignore[name-defined,misc]
            pass

        there, back = Counting(), Counting()
        self.apply(root, there)
        self.new, self.new_log, self.steps = snapshot(root), self.log(root), there.steps
        undo_all(root, back)
        self.undo_steps = back.steps

    def fresh(self) -> Path:
        self.number += 1
        root = self.place / f"{self.number}"
        if self.elsewhere is not None:
            (self.elsewhere / f"{self.number}").mkdir()
        partition = write_log(root if self.layout == "partition" else root / "t-0", SEGMENTS)
        (partition / f"{0:020d}.txnindex").write_bytes(ABORTED)
        for offset in (10, 20, 30):
            (partition / f"{offset:020d}.snapshot").write_bytes(build.snapshot([]))
        if self.layout != "partition":
            write_tops(root, cleaned=[("t", 0, 0)])
            (root / "meta.properties").write_bytes(b"")
        for around, _, names in os.walk(root):
            for order, name in enumerate(sorted(names)):
                time_ns = 1_600_000_000_000_000_000 + order * 1_000_000_000
                os.utime(os.path.join(around, name), ns=(time_ns, time_ns))
        return root

    def partition(self, root: Path) -> Path:
        return root if self.layout == "partition" else root / "t-0"

    def apply(self, root: Path, disk: Disk) -> None:
        undo_to = None if self.elsewhere is None else str(self.elsewhere / root.name)
        request = PlanRequest(target=target_dir([str(root)]), options={}, now_ms=NOW_MS)
        apply_plan(make_plan("reindex", request, undo_to=undo_to), disk, now_ms=NOW_MS)

    def dying(self, at: int) -> Disk:
        class Dying(DyingDisk, self.door):  # type: ignore[name-defined,misc]
            pass

        return Dying(at)

    def log(self, root: Path, *, is_clean: bool = True) -> dict[int, list[tuple[int, int]]]:
        """What a start makes of the log: batches of each segment, by base offset."""
        result = started(self.partition(root), is_clean=is_clean)
        assert result.problem is None
        assert result.lost_bytes == 0
        assert result.orphans == ()
        return {each.base_offset: batches(each.segment.files[0].path) for each in result.segments if each.segment}

    def is_new(self, root: Path) -> bool:
        return _untimed(snapshot(root)) == _untimed(self.new)

    def killed(self) -> Iterator[Path]:
        """An apply that ended before each step."""
        for at in range(0, len(self.steps) + 1, self.stride):
            root = self.fresh()
            with suppress(Killed):
                self.apply(root, self.dying(at))
            yield root
            shutil.rmtree(root)

    def killed_undo(self) -> Iterator[Path]:
        """An undo that ended before each step."""
        for at in range(0, len(self.undo_steps) + 1, self.stride):
            root = self.fresh()
            self.apply(root, self.door())
            with suppress(Killed):
                undo_all(root, self.dying(at))
            yield root
            shutil.rmtree(root)


def _untimed(files: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """Without the times of what has that of its writing."""
    written_now = ("cleaner-offset-checkpoint", ".txnindex")
    return {name: row[:-1] if name.endswith(written_now) else row for name, row in files.items()}


def batches(path: str) -> list[tuple[int, int]]:
    data, position, found = Path(path).read_bytes(), 0, []
    while position < len(data):
        base = int.from_bytes(data[position : position + 8], "big")
        found.append((base, base + int.from_bytes(data[position + 23 : position + 27], "big")))
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def parts(log: dict[int, list[tuple[int, int]]]) -> tuple[object, object]:
    """The two replacements apart."""
    return {base: found for base, found in log.items() if base < 20}, log.get(20)


@pytest.fixture(params=["top", *(pytest.param(each, marks=pytest.mark.slow) for each in STRIDES if each != "top")])
def patient(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Patient]:
    if request.param != "other-disk":
        yield Patient(tmp_path, request.param, None)
        return
    if not os.path.isdir(SHM) or os.stat(SHM).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("no second file system at hand")
    elsewhere = Path(tempfile.mkdtemp(dir=SHM))
    yield Patient(tmp_path, request.param, elsewhere)
    shutil.rmtree(elsewhere)


def test_there_and_back(patient: Patient) -> None:
    assert patient.old_log == SEGMENTS
    assert patient.new_log == CLEANED | {30: SEGMENTS[30]}
    root = patient.fresh()
    patient.apply(root, patient.door())
    assert patient.is_new(root)
    names = sorted(path.name for path in patient.partition(root).iterdir() if path.name[0].isdigit())
    assert names == [
        *(f"{0:020d}.{suffix}" for suffix in ("index", "log", "timeindex")),
        *(f"{20:020d}.{suffix}" for suffix in ("index", "log", "snapshot", "timeindex", "txnindex")),
        *(f"{30:020d}.{suffix}" for suffix in ("index", "log", "snapshot", "timeindex")),
    ]
    source = SEGMENTS  # the file that a later broker writes to has no second name
    assert all(os.stat(patient.partition(root) / f"{base:020d}.log").st_nlink == 1 for base in CLEANED)
    undo_all(root, patient.door())
    assert snapshot(root) == patient.old
    assert names_of_ours(root) == []
    assert patient.log(root) == source


@pytest.mark.slow
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_at_any_step_finds_each_side_whole(patient: Patient, is_clean: bool) -> None:
    old, new = parts(patient.old_log), parts(patient.new_log)
    seen = []
    for root in patient.killed():
        found = parts(patient.log(root, is_clean=is_clean))
        assert found[0] in (old[0], new[0])
        assert found[1] in (old[1], new[1])
        seen.append((found[0] == new[0], found[1] == new[1]))
    assert sorted(seen) == seen, "no part comes back, and the first is replaced before the second"
    assert {(False, False), (True, False), (True, True)} == set(seen)
    seen = []
    for root in patient.killed_undo():
        found = parts(patient.log(root, is_clean=is_clean))
        assert found[0] in (old[0], new[0])
        assert found[1] in (old[1], new[1])
        seen.append((found[0] == new[0], found[1] == new[1]))
    assert sorted(seen, reverse=True) == seen
    assert {(False, False), (True, False), (True, True)} == set(seen)


@pytest.mark.slow
def test_killed_anywhere_it_is_finished_or_taken_back(patient: Patient) -> None:
    for number, root in enumerate(patient.killed()):
        if number % 2:
            undo_all(root, patient.door())
            assert snapshot(root) == patient.old
            assert names_of_ours(root) == []
        elif names_of_ours(root):
            resume_or_apply(root, patient.door())
            assert patient.is_new(root)
            undo_all(root, patient.door())
            assert snapshot(root) == patient.old
    for root in patient.killed_undo():
        undo_all(root, patient.door())
        assert snapshot(root) == patient.old
        assert names_of_ours(root) == []


@pytest.mark.slow
def test_a_broker_that_started_in_between_leaves_both_ways_open(patient: Patient) -> None:
    """It has finished the replacement that was begun, or has thrown it away."""
    for number, root in enumerate(patient.killed()):
        carry_out(patient.partition(root))
        assert not list(patient.partition(root).glob("*.swap"))
        assert not list(patient.partition(root).glob("*.cleaned"))
        if number % 2 and names_of_ours(root):
            resume_or_apply(root, patient.door())
            assert without_swept(_untimed(snapshot(root))) == without_swept(_untimed(patient.new))
        undo_all(root, patient.door())
        assert without_swept(snapshot(root)) == without_swept(patient.old)
    for root in patient.killed_undo():
        carry_out(patient.partition(root))
        undo_all(root, patient.door())
        assert without_swept(snapshot(root)) == without_swept(patient.old)


def without_swept(files: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """Without the snapshot of a replacement's own base offset: a start that completes it deletes that one too."""
    return {name: row for name, row in files.items() if not name.endswith(f"{20:020d}.snapshot")}


def test_killed_again_while_it_is_finished_or_taken_back(patient: Patient) -> None:
    middle = [at for at, what in enumerate(patient.steps) if what in {"rename", "unlink"}][-14::3]
    for at in middle:
        for again in range(0, 60, 7):
            root = patient.fresh()
            with suppress(Killed):
                patient.apply(root, patient.dying(at))
            with suppress(Killed):
                undo_all(root, patient.dying(again)) if again % 2 else resume_or_apply(root, patient.dying(again))
            patient.log(root)
            undo_all(root, patient.door())
            assert snapshot(root) == patient.old
            shutil.rmtree(root)


def test_a_replacement_of_somebody_else_stands_in_the_way(patient: Patient) -> None:
    root = patient.fresh()
    other = patient.partition(root) / f"{20:020d}.log.cleaned"
    other.touch()
    with pytest.raises(UnfinishedError, match="another replacement of segments, which is not finished"):
        patient.apply(root, patient.door())
    with pytest.raises(RefusedError):
        patient.apply(root, patient.door())
    other.unlink()
    undo_all(root, patient.door())
    assert snapshot(root) == patient.old


def test_a_swap_file_of_somebody_else_at_a_segment_that_is_deleted(patient: Patient) -> None:
    """The run writes none for a segment that it deletes: this one is neither taken for its own nor deleted."""
    root = patient.fresh()
    other = patient.partition(root) / f"{10:020d}.log.swap"
    other.write_bytes(b"theirs")
    with pytest.raises(UnfinishedError, match="another replacement of segments, which is not finished"):
        patient.apply(root, patient.door())
    undo_all(root, patient.door())
    assert other.read_bytes() == b"theirs"
    other.unlink()
    assert snapshot(root) == patient.old


def same_planner(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """A replacement of a segment by what it is already."""
    del progress
    stem = f"{request.target.root}/{0:020d}"
    for suffix in (".log", ".index", ".timeindex"):
        content, mtime_ns = Path(stem + suffix).read_bytes(), os.stat(stem + suffix).st_mtime_ns
        stage.write(stem + suffix, [content], why="cleaned", like=f"{stem}.log", mtime_ns=mtime_ns, swap=0)
    return PlanReport()


@pytest.mark.slow
def test_a_replacement_that_changes_nothing_is_finished_from_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but its own files tells how far it has got: none of them is left."""
    monkeypatch.setitem(planners.PLANNERS, "reindex", f"{__name__}:same_planner")
    patient = Patient(tmp_path, "partition", None)
    assert patient.is_new(patient.fresh())
    assert {"link", "rename"} <= {*patient.steps}
    for number, root in enumerate(patient.killed()):
        if number % 3 == 2:
            undo_all(root)
            assert names_of_ours(root) == []
        elif names_of_ours(root):
            resume_or_apply(root)
        assert snapshot(root) == patient.old, number
