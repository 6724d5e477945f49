"""The steps of whole runs, of their undo and of their end, as `steps.txt` lists them: what a loss of power meets.

A line of that file ends with an fsync: a change is on the disk before the next one begins.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing import commit
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import NOW_MS, Killed, NotingDisk, make_dir, names_of_ours, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("fake_planner", "no_waiting")

LAYOUTS = ("partition", "top", "elsewhere", "no-links", "no-undo", "other-disk")
BLOCK_BYTES = 4096
INDEX = "t-0/00000000000000000000.index"


class Sections(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


def sections() -> dict[str, str]:
    text = Path(__file__).with_name("steps.txt").read_text(encoding="utf-8")
    parts = re.split(r"^\[(.*)\]\n", text, flags=re.MULTILINE)[1:]
    return Sections(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


class Patient:
    """A log directory, and how a run on it keeps its journal."""

    def __init__(self, place: Path, layout: str) -> None:
        self.root = make_dir(place / "log")
        self.old = snapshot(self.root)
        self._is_wide = layout in {"top", "elsewhere", "no-undo"}
        self._links = layout != "no-links"
        self._keeps_undo = layout != "no-undo"
        self._undo_to: str | None = None
        if layout in {"elsewhere", "other-disk"}:
            (place / "undo").mkdir()
            self._undo_to = str(place / "undo")

    def disk(self, at: str = "", error: BaseException | None = None) -> NotingDisk:
        return NotingDisk(self.root, at, error, links=self._links)

    def apply(self, disk: Disk) -> None:
        request = PlanRequest(target=target_dir([str(self.root)]), options={"is_wide": self._is_wide}, now_ms=NOW_MS)
        draft = make_plan("reindex", request, undo_to=self._undo_to, keeps_undo=self._keeps_undo)
        apply_plan(draft, disk, now_ms=NOW_MS)

    def resume(self, disk: Disk) -> None:
        (journal,) = scope_of(str(self.root)).interrupted()
        assert resume(journal, disk).state == "complete"

    def undo(self, disk: Disk) -> None:
        assert apply_undo(plan_undo(scope_of(str(self.root))), disk).state == "undone"

    def prune(self, disk: Disk) -> None:
        apply_prune(plan_prune(scope_of(str(self.root))), disk)


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Patient:
    layout = str(request.param)
    if layout == "other-disk":  # a file system of its own, as far as the code can see
        other = f"{tmp_path}/undo"
        monkeypatch.setattr(TrustedDirectories, "device", lambda self, path: path.startswith(other))
        really = Disk.link

        def link(disk: Disk, path: str, new_path: str) -> bool:
            return path.startswith(other) == new_path.startswith(other) and really(disk, path, new_path)

        monkeypatch.setattr(Disk, "link", link)
    return Patient(tmp_path, layout)


def shown(patient: Patient, act: Callable[[Disk], None]) -> str:
    disk = patient.disk()
    act(disk)
    return disk.text()


@pytest.mark.parametrize("patient", LAYOUTS, indirect=True)
def test_a_run_and_its_undo(patient: Patient, request: pytest.FixtureRequest) -> None:
    layout = request.node.callspec.params["patient"]
    wanted = sections()
    assert shown(patient, patient.apply) == wanted[f"{layout}: apply"]
    if layout == "no-undo":
        assert names_of_ours(patient.root) == []
        return
    assert shown(patient, patient.undo) == wanted[f"{layout}: undo"]
    assert snapshot(patient.root) == patient.old
    assert shown(patient, patient.prune) == wanted[f"{layout}: prune after the undo"]
    assert names_of_ours(patient.root.parent) == []


@pytest.mark.parametrize("patient", LAYOUTS[:3], indirect=True)
def test_a_run_that_is_kept_and_pruned(patient: Patient, request: pytest.FixtureRequest) -> None:
    layout = request.node.callspec.params["patient"]
    patient.apply(Disk())
    assert shown(patient, patient.prune) == sections()[f"{layout}: prune"]
    assert names_of_ours(patient.root.parent) == []


CASES = [
    *(("partition", "rename t-0/~0060.snapshot", then) for then in ("resume", "undo")),
    *(("other-disk", "rename t-0/~0060.snapshot", then) for then in ("resume", "undo")),
    *(("top", "rename t-1/~0000.log", then) for then in ("resume", "undo")),
    *(("elsewhere", "truncate t-0/~0000.log", then) for then in ("resume", "undo")),
    ("no-undo", "rename t-0/~0060.snapshot", "resume"),
]


@pytest.mark.parametrize(("patient", "at", "then"), CASES, indirect=["patient"])
def test_a_run_that_was_killed_is_finished_or_taken_back(
    patient: Patient, at: str, then: str, request: pytest.FixtureRequest
) -> None:
    layout = request.node.callspec.params["patient"]
    with pytest.raises(Killed):
        patient.apply(patient.disk(at, Killed()))
    act = patient.undo if then == "undo" else patient.resume
    assert shown(patient, act) == sections()[f"{layout}: killed at {at}, {then}"]


FAILURES = [
    ("partition", "rename t-0/J/intent.json"),
    ("partition", "create t-0/J/tail-0003"),
    ("top", "fsync t-1"),
    ("top", "create t-1/J/of-several"),
    ("top", "rename J"),
    ("elsewhere", "rename ../undo/J/intent.json"),
    ("elsewhere", "mkdir ../undo/J"),
    ("no-undo", "fsync t-1"),
]


@pytest.mark.parametrize(("patient", "at"), FAILURES, indirect=["patient"])
def test_a_run_that_cannot_be_staged_takes_away_what_it_has_made(
    patient: Patient, at: str, request: pytest.FixtureRequest
) -> None:
    layout = request.node.callspec.params["patient"]
    disk = patient.disk(at, OSError(errno.EIO, "bad disk"))
    with pytest.raises(KafkalogError, match="bad disk"):
        patient.apply(disk)
    assert disk.text() == sections()[f"{layout}: fails at {at}"]
    assert names_of_ours(patient.root.parent) == []
    assert snapshot(patient.root) == patient.old


@pytest.mark.parametrize("patient", ["other-disk"], indirect=True)
@pytest.mark.parametrize(("there", "back"), [(0, 0), (0, -1), (-1, 0)])
def test_an_index_on_a_full_disk_makes_way_for_the_other_one(
    patient: Patient, there: int, back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte less than the new file needs."""
    (patient.root / INDEX).write_bytes(bytes(BLOCK_BYTES + 1))
    patient.old = snapshot(patient.root)
    wanted = sections()
    monkeypatch.setattr(commit, "free_bytes", lambda path: BLOCK_BYTES + there)
    steps = shown(patient, patient.apply)
    assert steps == wanted["other-disk: apply, no room" if there else "other-disk: apply"]
    monkeypatch.setattr(commit, "free_bytes", lambda path: 2 * BLOCK_BYTES + back)
    assert shown(patient, patient.undo) == wanted["other-disk: undo, no room" if back else "other-disk: undo"]
    assert snapshot(patient.root) == patient.old
