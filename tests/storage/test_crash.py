"""Killed at every fifth step, or (slow) at each: what is there can always be taken back, and always be finished."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import KafkalogError, UnfinishedError
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import (
    CountingDisk,
    DyingDisk,
    FailingDisk,
    Killed,
    UnlinkingDisk,
    apply_to,
    make_dir,
    names_of_ours,
    resume_or_apply,
    snapshot,
    undo_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.usefixtures("fake_planner", "no_waiting")

SHM = "/dev/shm"  # noqa: S108 -- another file system than that of the test's own directory
WRITTEN_NOW = {"t-0/00000000000000000000.index", "t-0/00000000000000000060.snapshot"}
WRITTEN_NOW |= {"recovery-point-offset-checkpoint", "log-start-offset-checkpoint"}


STRIDES = {"partition": 1, "top": 1, "elsewhere": 5, "other-disk": 2}


class Patient:
    """Log directories that are all alike, each with its own place for journals."""

    def __init__(self, place: Path, layout: str, elsewhere: Path | None) -> None:
        self._place = place
        self._elsewhere = elsewhere
        self._number = 0
        self.options: dict[str, object] = {"is_wide": layout != "partition"}
        self.old = snapshot(self.fresh())
        done = self.fresh()
        counting = CountingDisk()
        self.apply(done, counting)
        self.steps = counting.steps
        self.stride = STRIDES[layout]
        self.new = self.shown(done)

    def fresh(self) -> Path:
        self._number += 1
        root = make_dir(self._place / f"{self._number}")
        if self._elsewhere is not None:
            undo_to = self._elsewhere / f"{self._number}"
            undo_to.mkdir()
            self.options["undo_to"] = undo_to
        return root

    def apply(self, root: Path, disk: Disk) -> None:
        apply_to(root, disk, **self.options)

    def shown(self, root: Path) -> dict[str, tuple[object, ...]]:
        """Without the times of files that have the time of their writing."""
        return {name: row[:-1] if name in WRITTEN_NOW else row for name, row in snapshot(root).items()}

    def is_new(self, root: Path) -> bool:
        return self.shown(root) == self.new

    def is_old(self, root: Path) -> bool:
        return snapshot(root) == self.old

    def points(self, steps: Sequence[str]) -> range:
        """Where to end: before each step, and behind the last."""
        return range(0, len(steps) + 1, self.stride)

    def killed(self, door: Callable[[int], Disk]) -> Iterator[Path]:
        """A directory for each step, on which an apply ended there."""
        for at in self.points(self.steps):
            root = self.fresh()
            with suppress(Killed):
                self.apply(root, door(at))
            yield root


@pytest.fixture(
    params=["elsewhere", *(pytest.param(each, marks=pytest.mark.slow) for each in ("partition", "top", "other-disk"))]
)
def patient(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Patient]:
    if request.param == "other-disk":
        if not os.path.isdir(SHM) or os.stat(SHM).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("no second file system at hand")
        elsewhere = Path(tempfile.mkdtemp(dir=SHM))
        yield Patient(tmp_path, request.param, elsewhere)
        shutil.rmtree(elsewhere)
        return
    elsewhere = tmp_path_factory.mktemp("journals") if request.param == "elsewhere" else None
    yield Patient(tmp_path, request.param, elsewhere)


def test_a_whole_apply_and_its_undo(patient: Patient) -> None:
    root = patient.fresh()
    patient.apply(root, Disk())
    assert patient.is_new(root)
    undo_all(root)
    assert patient.is_old(root)
    assert names_of_ours(root) == []


def test_killed_anywhere_it_can_be_taken_back(patient: Patient) -> None:
    for root in patient.killed(DyingDisk):
        undo_all(root)
        assert patient.is_old(root)
        assert names_of_ours(root) == []


def test_killed_anywhere_the_partition_alone_leads_to_what_is_left(patient: Patient) -> None:
    """What a run left is at the top of the log directory too, or only there; the user need not know that."""
    for at in sorted({*range(16), *range(16, len(patient.steps), 16)}):  # nothing but staging comes first
        root = patient.fresh()
        with suppress(Killed):
            patient.apply(root, DyingDisk(at))
        undo_all(root / "t-0")
        assert patient.is_old(root)
        assert names_of_ours(root) == []


def test_what_is_left_without_an_intent_claims_nothing(tmp_path: Path) -> None:
    """With old content in it, only a file that says how far it came proves that nothing was changed."""
    seen = set()
    for layout in ("partition", "top"):
        (tmp_path / layout).mkdir()
        patient = Patient(tmp_path / layout, layout, None)
        for at in range(patient.steps.index("rename") + 40):
            root = patient.fresh()
            with suppress(Killed):
                patient.apply(root, DyingDisk(at))
            for remains in scope_of(str(root)).found.remains:
                holds_old = any(os.path.basename(path).startswith(("old-", "tail-")) for path in remains.paths)
                is_sure = remains.reason == "the run ended before it changed anything"
                assert is_sure == (layout == "top" or not holds_old), remains
                assert is_sure or "or the intent was deleted" in remains.reason
                seen.add((layout, holds_old))
    assert seen == {("partition", False), ("partition", True), ("top", False), ("top", True)}
    done = patient.fresh()
    patient.apply(done, Disk())
    (journal,) = scope_of(str(done)).found.journals
    os.unlink(journal.layout.intent)
    shutil.rmtree(done / "t-1" / journal.run)
    os.unlink(done / "t-0" / journal.run / "of-several")
    (remains,) = scope_of(str(done)).found.remains
    assert "or the intent was deleted" in remains.reason


def test_killed_while_it_is_pruned(patient: Patient) -> None:
    """The same command again, with the log directory or the partition, frees the rest."""
    counting = CountingDisk()
    done = patient.fresh()
    patient.apply(done, Disk())
    apply_prune(plan_prune(scope_of(str(done / "t-0"))), counting)
    assert names_of_ours(done) == []
    for at in range(0, len(counting.steps), 2):
        root = patient.fresh()
        patient.apply(root, Disk())
        named = str(root / "t-0") if at % 4 else str(root)
        with suppress(Killed):
            apply_prune(plan_prune(scope_of(named)), DyingDisk(at))
        apply_prune(plan_prune(scope_of(named)), Disk())
        assert names_of_ours(root) == []
        assert patient.is_new(root)


def test_killed_anywhere_it_can_be_finished(patient: Patient) -> None:
    for root in patient.killed(DyingDisk):
        resume_or_apply(root, **patient.options)
        assert patient.is_new(root)
        undo_all(root)
        assert patient.is_old(root)


def test_killed_in_the_middle_of_any_write(patient: Patient) -> None:
    writes = [at for at, what in enumerate(patient.steps) if what == "write"]
    assert len(writes) > 5
    for at in writes:
        root = patient.fresh()
        with suppress(Killed):
            patient.apply(root, DyingDisk(at, torn=True))
        resume_or_apply(root, **patient.options)
        assert patient.is_new(root)
        undo_all(root)
        assert patient.is_old(root)
        assert names_of_ours(root) == []


@pytest.mark.parametrize("torn", [False, True])
def test_killed_while_it_is_taken_back(patient: Patient, torn: bool) -> None:
    counting = CountingDisk()
    root = patient.fresh()
    patient.apply(root, Disk())
    undo_all(root, counting)
    for at in patient.points(counting.steps):
        if torn and "write" not in counting.steps[at : at + 1]:
            continue
        root = patient.fresh()
        patient.apply(root, Disk())
        with suppress(Killed):
            undo_all(root, DyingDisk(at, torn=torn))
        undo_all(root)
        assert patient.is_old(root)
        assert names_of_ours(root) == []


def test_killed_while_it_is_finished(patient: Patient) -> None:
    middle = len(patient.steps) - 25
    root = patient.fresh()
    with suppress(Killed):
        patient.apply(root, DyingDisk(middle))
    counting = CountingDisk()
    resume_or_apply(root, counting, **patient.options)
    assert counting.steps
    for at in patient.points(counting.steps):
        root = patient.fresh()
        with suppress(Killed):
            patient.apply(root, DyingDisk(middle))
        with suppress(Killed):
            resume_or_apply(root, DyingDisk(at), **patient.options)
        resume_or_apply(root, **patient.options)
        assert patient.is_new(root)


@pytest.mark.parametrize(("number", "forever"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_step_that_fails(patient: Patient, number: int, forever: bool) -> None:
    unfinished = 0
    for at in patient.points(patient.steps):
        root = patient.fresh()
        message = failure(patient, root, FailingDisk(at, number, forever=forever))
        if "--resume" in message:
            assert "kafkalog undo" in message
            unfinished += 1
            if at % 2:
                resume_or_apply(root, **patient.options)
                assert patient.is_new(root)
        elif message:
            assert patient.is_old(root)
            assert forever or names_of_ours(root) == []
        undo_all(root)
        assert patient.is_old(root)
    assert unfinished > 5


def failure(patient: Patient, root: Path, disk: Disk) -> str:
    """What the error says with which an apply ends; empty where there is none."""
    try:
        patient.apply(root, disk)
    except KafkalogError as error:
        assert isinstance(error, UnfinishedError) == ("--resume" in str(error))  # noqa: PT017 -- not the only check
        return str(error)
    return ""


def test_no_hard_links_and_short_writes(patient: Patient) -> None:
    root = patient.fresh()
    patient.apply(root, UnlinkingDisk())
    assert patient.is_new(root)
    undo_all(root, UnlinkingDisk())
    assert patient.is_old(root)


def test_there_are_more_than_two_hundred_points(tmp_path: Path) -> None:
    points = 0
    for layout in ("partition", "top"):
        (tmp_path / layout).mkdir()
        patient = Patient(tmp_path / layout, layout, None)
        root, counting = patient.fresh(), CountingDisk()
        patient.apply(root, Disk())
        undo_all(root, counting)
        points += len(patient.steps) + len(counting.steps)
    assert points > 250


def test_ctrl_c_between_two_files(patient: Patient) -> None:
    class Stopping(DyingDisk):
        def step(self, what: str, path: str) -> None:
            try:
                super().step(what, path)
            except Killed:
                raise KeyboardInterrupt from None

    root = patient.fresh()
    with pytest.raises(UnfinishedError, match=r"interrupted.*--resume"):
        patient.apply(root, Stopping(len(patient.steps) - 25))
    resume_or_apply(root)
    assert patient.is_new(root)
    root = patient.fresh()
    with pytest.raises(KeyboardInterrupt):
        patient.apply(root, Stopping(20))
    assert patient.is_old(root)


def test_an_interrupted_run_stands_in_the_way_of_the_next(patient: Patient) -> None:
    root = patient.fresh()
    with suppress(Killed):
        patient.apply(root, DyingDisk(len(patient.steps) - 25))
    assert scope_of(str(root)).interrupted()
    with pytest.raises(KafkalogError, match=r"interrupted between its files.*kafkalog apply --resume .*kafkalog undo"):
        patient.apply(root, Disk())
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert patient.is_old(root)
