"""The steps of one replacement of segments, each as a broker's directory shows it, and what is on the disk between."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError, UnfinishedError
from kafkalog_core.ops import planners
from kafkalog_core.ops.repair.apply import resume
from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing import changes as fingerprint_module
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import LATER, LOG, OWNER, Killed, UnlinkingDisk, apply_to, make_dir, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.changing.changes import Stage

pytestmark = pytest.mark.usefixtures("swapping", "no_waiting")

BASE = "00000000000000000000"
INDEX, TIMES, ABORTED = f"{BASE}.index", f"{BASE}.timeindex", f"{BASE}.txnindex"
LATER_INDEX, SNAPSHOT = "00000000000000000050.index", "00000000000000000050.snapshot"
GUARD = f"{LOG}.cleaned"
MTIME_NS = 1_500_000_000_000_000_001
SHOWN = ("create", "link", "rename", "unlink", "fsync")


def planner(request: PlanRequest, stage: Stage, progress: object) -> PlanReport:
    """Two segments become one, whose time index stays as it is."""
    del progress
    partition = f"{request.target.root}/t-0"
    log, times = f"{partition}/{LOG}", f"{partition}/{TIMES}"
    with open(times, "rb") as file:
        same = file.read()
    for path, content, mtime_ns in (
        (f"{partition}/{INDEX}", b"\1" * 16, MTIME_NS),
        (log, b"\2" * 3000, MTIME_NS),
        (times, same, os.stat(times).st_mtime_ns),
        (f"{partition}/{ABORTED}", b"\3" * 34, MTIME_NS),
    ):
        stage.write(path, [content], why="cleaned", like=log, mtime_ns=mtime_ns, swap=0)
    for name in (LATER, LATER_INDEX, SNAPSHOT):
        stage.remove(f"{partition}/{name}", why="part of segment 0", swap=0)
    return PlanReport()


@pytest.fixture
def swapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners.PLANNERS, "reindex", f"{__name__}:planner")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_dir(tmp_path / "log")
    (root / "t-0" / SNAPSHOT).write_bytes(b"of a producer")
    os.chown(root / "t-0" / SNAPSHOT, *OWNER)
    return root


class SwapDisk(Disk):
    """Notes the steps of the replacement, and ends before the one after a number of others."""

    def __init__(self, limit: int | None = None, guard: str = GUARD) -> None:
        self.changes: list[tuple[str, str]] = []
        self.limit = limit
        self.guard = guard

    def step(self, what: str, path: str) -> None:
        name = os.path.basename(path)
        is_begun = self.changes or name == self.guard
        if what in SHOWN and is_begun and not name.startswith("kafkalog-") and "/kafkalog-" not in path:
            if len(self.changes) == self.limit:
                raise Killed
            self.changes.append((what, name))


class Unlinking(SwapDisk, UnlinkingDisk):
    """Ends at a step, on a file system without hard links."""


def go_on(root: Path, *, is_undone: bool) -> None:
    """Take the run that was interrupted back, or finish it."""
    (journal,) = scope_of(str(root)).interrupted()
    if is_undone:
        undo(root, Disk())
    else:
        resume(journal, Disk())


def undo(root: Path, disk: Disk) -> None:
    apply_undo(plan_undo(scope_of(str(root))), disk)


def new_of(root: Path) -> dict[str, tuple[object, ...]]:
    """What the run makes of a directory."""
    old = snapshot(root)
    gone = {f"t-0/{name}" for name in (LATER, LATER_INDEX, SNAPSHOT)}
    like = old[f"t-0/{LOG}"][1:-1]
    return {name: row for name, row in old.items() if name not in gone} | {
        f"t-0/{INDEX}": (b"\1" * 16, *old[f"t-0/{INDEX}"][1:-1], MTIME_NS),
        f"t-0/{LOG}": (b"\2" * 3000, *like, MTIME_NS),
        f"t-0/{ABORTED}": (b"\3" * 34, *like, MTIME_NS),
    }


def swaps(*names: str) -> list[tuple[str, str]]:
    return [("link", f"{name}.swap") for name in names]


SYNC = ("fsync", "t-0")
LAY_GUARD = [("create", GUARD), ("fsync", GUARD), SYNC]
DROP_GUARD = [SYNC, ("unlink", GUARD), SYNC]
MAKE = [
    *(*LAY_GUARD, *swaps(LOG, INDEX, TIMES, ABORTED), *DROP_GUARD),
    *(("unlink", LATER), ("unlink", LATER_INDEX), ("unlink", SNAPSHOT), SYNC),
    *(("rename", LOG), ("rename", INDEX), ("rename", TIMES), ("rename", ABORTED), SYNC),
]
"""The log is the first of the new files, there and in place."""
TAKE_BACK = [
    *(*LAY_GUARD, *swaps(LOG, LATER, INDEX, TIMES, LATER_INDEX), *DROP_GUARD),
    *(("unlink", ABORTED), SYNC),
    *(("rename", LOG), ("rename", LATER), ("rename", INDEX), ("rename", TIMES), ("rename", LATER_INDEX), SYNC, SYNC),
    *(*swaps(SNAPSHOT), ("rename", SNAPSHOT), SYNC),
]


def test_the_steps_of_a_replacement_and_of_its_undo(root: Path) -> None:
    old, new = snapshot(root), new_of(root)
    disk = SwapDisk()
    apply_to(root, disk)
    assert disk.changes == MAKE
    assert snapshot(root) == new
    assert {(root / name).stat().st_nlink for name in new} == {1}, "a backup of hard links follows"
    disk = SwapDisk()
    undo(root, disk)
    assert disk.changes == TAKE_BACK
    assert snapshot(root) == old
    assert {(root / name).stat().st_nlink for name in old} == {1}


def alone_planner(request: PlanRequest, stage: Stage, progress: object) -> PlanReport:
    """A segment is replaced that has no index."""
    del progress
    log = f"{request.target.root}/t-0/{LATER}"
    stage.write(log, [b"\2" * 300], why="cleaned", like=log, swap=50)
    return PlanReport()


def test_a_replacement_of_one_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners.PLANNERS, "reindex", f"{__name__}:alone_planner")
    old, disk = snapshot(root), SwapDisk(guard=f"{LATER}.cleaned")
    apply_to(root, disk)
    guard = [(what, name.replace(LOG, LATER)) for what, name in (*LAY_GUARD, *DROP_GUARD)]
    assert disk.changes == [*guard[:3], *swaps(LATER), *guard[3:], SYNC, ("rename", LATER), SYNC]
    undo(root, Disk())
    assert snapshot(root) == old


@pytest.mark.parametrize("limit", range(len(MAKE)))
@pytest.mark.parametrize("is_undone", [False, True])
def test_killed_at_any_step_it_is_finished_or_taken_back(root: Path, is_undone: bool, limit: int) -> None:
    old, new = snapshot(root), new_of(root)
    with pytest.raises(Killed):
        apply_to(root, SwapDisk(limit))
    go_on(root, is_undone=is_undone)
    assert snapshot(root) == (old if is_undone else new)


def start(partition: Path) -> None:
    """A broker's start: it sweeps the replacement or completes it, and makes files again that the log tells."""
    waiting = sorted(partition.glob("*.swap"))
    if (partition / GUARD).exists():
        for path in (*waiting, partition / GUARD):
            path.unlink()
    elif waiting:
        for name in (LATER, LATER_INDEX):
            (partition / name).unlink(missing_ok=True)
        for path in waiting:
            path.rename(path.with_suffix(""))
    for name in (INDEX, TIMES, ABORTED, SNAPSHOT):
        (partition / name).unlink(missing_ok=True)
        (partition / name).write_bytes(b"made again")
        os.chown(partition / name, *OWNER)


@pytest.mark.parametrize("limit", [1, 5, 8, 10, 13, 16, len(MAKE) - 1])
@pytest.mark.parametrize("is_undone", [False, True])
def test_after_a_start_every_file_is_put_back_or_replaced(root: Path, is_undone: bool, limit: int) -> None:
    old, new = snapshot(root), new_of(root)
    with pytest.raises(Killed):
        apply_to(root, SwapDisk(limit))
    start(root / "t-0")
    go_on(root, is_undone=is_undone)
    assert snapshot(root) == (old if is_undone else new)


@pytest.mark.parametrize("limit", range(0, len(TAKE_BACK), 3))
@pytest.mark.parametrize("is_started", [False, True])
def test_an_undo_that_was_killed_goes_on(root: Path, is_started: bool, limit: int) -> None:
    old = snapshot(root)
    apply_to(root, Disk())
    with pytest.raises(Killed):
        undo(root, SwapDisk(limit))
    if is_started:
        start(root / "t-0")
    undo(root, Disk())
    assert snapshot(root) == old


LAID = 5
"""Steps after which the guard, the log and the index are laid down."""


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        (1, MAKE[3:]),
        (LAID, [("unlink", f"{LOG}.swap"), MAKE[3], ("unlink", f"{INDEX}.swap"), *MAKE[4:]]),
        (14, [*MAKE[13:14], *MAKE[14:]]),
        (16, [*MAKE[13:14], *MAKE[16:]]),
    ],
)
def test_a_run_that_is_finished_takes_the_steps_that_are_left(
    root: Path, limit: int, steps: list[tuple[str, str]]
) -> None:
    with pytest.raises(Killed):
        apply_to(root, SwapDisk(limit))
    (journal,) = scope_of(str(root)).interrupted()
    disk = SwapDisk()
    disk.changes.append(("", ""))
    resume(journal, disk)
    assert disk.changes[1:] == steps


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        (1, [("unlink", GUARD), SYNC]),
        (LAID, [("unlink", f"{LOG}.swap"), ("unlink", f"{INDEX}.swap"), *DROP_GUARD]),
        (10, [*LAY_GUARD, *(("unlink", f"{name}.swap") for name in (ABORTED, TIMES, LOG, INDEX)), *DROP_GUARD]),
    ],
)
def test_what_was_laid_down_and_never_took_a_place_goes_under_the_guard(
    root: Path, limit: int, steps: list[tuple[str, str]]
) -> None:
    """Without it a start would put some of the new files in place."""
    with pytest.raises(Killed):
        apply_to(root, SwapDisk(limit))
    disk = SwapDisk()
    disk.changes.append(("", ""))
    undo(root, disk)
    assert disk.changes[1:] == steps


@pytest.mark.parametrize(
    "name", ["00000000000000000007.log.swap", "00000000000000000007.index.swap", f"{LATER}.cleaned"]
)
def test_files_of_another_replacement_are_not_mixed_with_this_one(root: Path, name: str) -> None:
    (root / "t-0" / name).write_bytes(b"of a broker")
    old, disk = snapshot(root), SwapDisk()
    with pytest.raises(UnfinishedError, match="belongs to another replacement of segments, which is not finished"):
        apply_to(root, disk)
    assert disk.changes == []
    assert snapshot(root) == old


@pytest.mark.parametrize("limit", [None, *range(0, 12, 2)])
@pytest.mark.parametrize("is_undone", [False, True])
def test_a_log_that_differs_in_its_middle_alone_is_replaced(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_undone: bool, limit: int | None
) -> None:
    """A large one is known by its ends: only what waits in the journal tells how far the run has got."""
    monkeypatch.setattr(fingerprint_module, "WHOLE_BYTES", 600)
    monkeypatch.setattr(fingerprint_module, "SAMPLE_BYTES", 100)
    monkeypatch.setitem(planners.PLANNERS, "reindex", f"{__name__}:middle_planner")
    old = snapshot(root)
    if limit is None:
        apply_to(root, Disk())
    else:
        with pytest.raises(Killed):
            apply_to(root, SwapDisk(limit))
    for journal in scope_of(str(root)).interrupted():
        if not is_undone:
            resume(journal, Disk())
    if is_undone:
        undo(root, Disk())
    log = f"t-0/{LOG}"
    content = old[log][0]
    assert isinstance(content, bytes)
    assert snapshot(root) == old | {log: (content if is_undone else _middle(content), *old[log][1:])}
    assert not list(root.glob("t-0/*.swap"))


def _middle(content: bytes) -> bytes:
    return content[:4000] + b"other" + content[4005:]


def middle_planner(request: PlanRequest, stage: Stage, progress: object) -> PlanReport:
    """A cleaner notes in a batch when its tombstones may go: the size and the time of the log stay."""
    del progress
    for name in (LOG, INDEX):
        path = f"{request.target.root}/t-0/{name}"
        with open(path, "rb") as file:
            content = file.read()
        mtime_ns = os.stat(path).st_mtime_ns
        data = _middle(content) if name == LOG else content
        stage.write(path, [data], why="cleaned", like=path, mtime_ns=mtime_ns, swap=0)
    return PlanReport()


@pytest.mark.parametrize("limit", [None, 1])
def test_an_old_part_that_stays_as_it_is_has_to_be_whole_too(root: Path, limit: int | None) -> None:
    """The undo puts it back with the others: a start that completes the replacement deletes the one that is there."""
    disk = UnlinkingDisk()
    if limit is None:
        apply_to(root, disk)
    else:
        with pytest.raises(Killed):
            apply_to(root, Unlinking(limit))
    (journal,) = scope_of(str(root)).found.journals
    entry = next(entry for entry in journal.entries if entry.path == TIMES)
    saved = journal.layout.saved(journal.path_of(entry), entry.number, entry.saved)
    os.truncate(saved, 23)
    before = snapshot(root)
    plan = plan_undo(scope_of(str(root)))
    assert f"{TIMES}: its old content in the journal has changed: {saved}" in " ".join(map(str, plan.obstacles))
    with pytest.raises(RefusedError):
        apply_undo(plan, disk)
    assert snapshot(root) == before
