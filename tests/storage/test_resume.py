"""What `apply --resume` and `undo` check before they change a file: the journal's copies, byte by byte."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.ops import planners
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import (
    LATER,
    LOG,
    NOW_MS,
    OWNER,
    Killed,
    PlacingDisk,
    UnlinkingDisk,
    apply_to,
    interrupt,
    make_dir,
    names_of_ours,
    snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage

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
    "flipped": (flip, "has changed"),
    "shorter": (cut, "has changed"),
    "gone": (os.unlink, "has changed"),
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
    assert caught.value.message.endswith(f". Undo the run: kafkalog undo {root} --run {journal.run} --apply")
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
    told = " ".join(map(str, plan.obstacles))
    assert f"/t-1/{LOG}: its old content " in told
    assert f"kafkalog undo {root} --prune --run {journal.run} --apply" in told
    with pytest.raises(RefusedError):
        apply_undo(plan, Disk())
    assert without_moved(root) == now


# --- how far an undo came ---------------------------------------------------------------------------------------------
class HalfwayDisk(Disk):
    """Is killed when half of a log's tail has been put back."""

    path = ""

    def step(self, what: str, path: str) -> None:
        self.path = path if what == "write" else ""

    def _put(self, number: int, data: memoryview) -> int:
        if self.path.endswith(LOG):
            os.write(number, data[: len(data) // 2])
            raise Killed
        return super()._put(number, data)


@pytest.mark.parametrize("place", [-1, -1000])
def test_an_undo_goes_on_with_its_own_bytes_and_not_with_those_of_somebody_else(root: Path, place: int) -> None:
    old, log = snapshot(root), root / "t-0" / LOG
    apply_to(root, Disk())
    with pytest.raises(Killed):
        apply_undo(plan_undo(scope_of(str(root))), HalfwayDisk())
    half = log.read_bytes()
    assert 4100 < len(half) < 9000
    log.write_bytes(half[:place] + bytes([half[place] ^ 1]) + half[place:][1:])
    assert f"t-0/{LOG} has changed since" in str(plan_undo(scope_of(str(root))).obstacles[0]).replace(":", "")
    log.write_bytes(half)
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == old


@pytest.mark.parametrize(
    ("first", "until", "is_torn"),
    [
        (4608, 5120, True),
        (4608, 5632, True),
        (4100, 4608, True),
        (6144, 6550, True),
        (4608, 5119, False),
        (4700, 4800, False),
    ],
)
def test_zeros_in_place_of_whole_sectors_are_what_a_loss_of_power_leaves(
    root: Path, first: int, until: int, is_torn: bool
) -> None:
    old, log = snapshot(root), root / "t-0" / LOG
    apply_to(root, Disk())
    with pytest.raises(Killed):
        apply_undo(plan_undo(scope_of(str(root))), HalfwayDisk())
    half = log.read_bytes()
    assert len(half) == 6550
    log.write_bytes(half[:first] + bytes(until - first) + half[until:])
    obstacles = plan_undo(scope_of(str(root))).obstacles
    assert ("has changed since" in " ".join(map(str, obstacles))) == (not is_torn)
    if is_torn:
        apply_undo(plan_undo(scope_of(str(root))), Disk())
        assert snapshot(root) == old


def test_a_pointer_that_leads_to_no_journal(root: Path, tmp_path: Path) -> None:
    journal = apply_to(root, Disk(), undo_to=tmp_path / "undo")
    pointer = journal.pointer
    assert pointer is not None
    shutil.copyfile(pointer, journal.layout.intent)
    found = scope_of(str(root)).found
    assert found.journals == ()
    assert "leads to a file that is not the journal of this run" in found.remains[0].reason


def test_bytes_of_the_tail_that_no_undo_has_put_back_are_of_somebody_else(root: Path) -> None:
    log = root / "t-0" / LOG
    tail = log.read_bytes()[4100:]
    apply_to(root, Disk())
    with log.open("ab") as file:
        file.write(tail[:100])
    assert "has changed since" in " ".join(map(str, plan_undo(scope_of(str(root))).obstacles))


@pytest.mark.parametrize("is_wide", [False, True])
def test_what_was_saved_is_freed_by_an_undo(root: Path, is_wide: bool) -> None:
    journal = apply_to(root, UnlinkingDisk(), is_wide=is_wide)
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    mine = [os.path.join(around, name) for around, _, names in os.walk(root) for name in names if "kafkalog-" in around]
    left = {*mine, *(name for name in names_of_ours(root) if os.path.isfile(name))}
    assert left == {journal.layout.intent}


@pytest.mark.parametrize("is_wide", [False, True])
def test_new_content_has_one_name_in_the_end(root: Path, is_wide: bool) -> None:
    old = snapshot(root)
    journal = apply_to(root, Disk(), is_wide=is_wide)
    made = [Path(journal.path_of(entry)) for entry in journal.entries if entry.kind in {"create", "replace"}]
    assert {path.stat().st_nlink for path in made} == {1}
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert {(root / name).stat().st_nlink for name in old} == {1}


@pytest.mark.parametrize("name", ["new", "old"])
def test_what_an_interrupted_step_left_next_to_a_file_is_taken_away(root: Path, name: str) -> None:
    """A file that was to take the place of another is not left there, whichever way the run ends."""
    old = snapshot(root)
    interrupt(root, is_wide=True)
    (journal,) = scope_of(str(root)).interrupted()
    for entry in (each for each in journal.entries if name == "old" or each.path == f"t-1/{LOG}"):
        Path(journal.layout.temporary(journal.path_of(entry), entry.number)).write_bytes(b"torn")
    if name == "new":
        resume(journal, Disk())
        assert names_of_ours(root) == sorted(
            {journal.layout.intent, *(str(each) for each in root.glob("t-*/kafkalog-*"))}
        )
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert names_of_ours(root) == [journal.layout.intent]
    assert snapshot(root) == old


class SecondNameDisk(Disk):
    """Is killed when the first new file is in place, and before the journal's own name of it is gone."""

    def step(self, what: str, path: str) -> None:
        if what == "unlink" and os.path.basename(path).startswith("new-"):
            raise Killed


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_name_that_an_interrupted_run_left_is_taken_away_by_resume(root: Path, is_wide: bool) -> None:
    with pytest.raises(Killed):
        apply_to(root, SecondNameDisk(), is_wide=is_wide)
    index = root / "t-0" / "00000000000000000000.index"
    assert index.stat().st_nlink == 2
    (journal,) = scope_of(str(root)).interrupted()
    resume(journal, Disk())
    assert {path.stat().st_nlink for path in root.glob("t-?/0*")} == {1}


def test_an_index_is_there_at_every_moment_where_there_is_room_for_both(root: Path) -> None:
    index = root / "t-0" / "00000000000000000000.index"

    class Looking(Disk):
        looks = 0

        def step(self, what: str, path: str) -> None:
            self.looks += 1
            assert index.exists(), (what, path)

    disk = Looking()
    apply_to(root, disk)
    apply_undo(plan_undo(scope_of(str(root))), disk)
    assert disk.looks > 100


def plan_removal(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """A plan that writes nothing."""
    del progress
    first = f"{request.target.root}/t-0" if request.target.log_dir else request.target.root
    stage.remove(f"{first}/{LATER}", why="old")
    return PlanReport()


@pytest.mark.parametrize("keeps_undo", [False, True])
def test_a_run_that_only_deletes(root: Path, keeps_undo: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its journal has a directory, though nothing is staged in it."""
    monkeypatch.setitem(planners.PLANNERS, "reindex", f"{__name__}:plan_removal")
    request = PlanRequest(target=target_dir([str(root / "t-0")]), options={}, now_ms=NOW_MS)
    draft = make_plan("reindex", request, keeps_undo=keeps_undo)
    with pytest.raises(Killed):
        apply_plan(draft, RemovingDisk(), now_ms=NOW_MS)
    (journal,) = scope_of(str(root)).interrupted()
    resume(journal, Disk())
    assert not (root / "t-0" / LATER).exists()
    assert bool(names_of_ours(root)) == keeps_undo


class RemovingDisk(Disk):
    """Is killed before a file of a broker is deleted."""

    def step(self, what: str, path: str) -> None:
        if what == "unlink" and path.endswith(".log"):
            raise Killed


# --- owners -----------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize(
    ("witness", "is_root"),
    [
        *((witness, False) for witness in ("a file", "a backup", "a link", "a directory", "nothing")),
        *(("a file", True), ("a backup", True)),
    ],
)
def test_an_owner_whom_only_another_file_has(root: Path, witness: str, is_root: bool) -> None:
    """Root gives a file back to who owned it where another regular file of this directory is theirs.

    A file of root that has another hard link may have been linked by anybody.
    """
    other = (0, 0) if is_root else (OWNER[0] + 1, OWNER[1] + 1)
    paths = [root / "recovery-point-offset-checkpoint", root / ".kafka_cleanshutdown"]
    for path in paths:
        os.chown(path, *other)
    (root / "0").mkdir()
    there = root / "replication-offset-checkpoint"
    if witness == "a link":
        there.symlink_to(paths[0].name)
        os.lchown(there, *other)
    elif witness == "a directory":
        there.mkdir()
        os.chown(there, *other)
    elif witness in {"a file", "a backup"}:
        there.touch()
        os.chown(there, *other)
        if witness == "a backup":
            os.link(there, root.parent / "backup")
    old = snapshot(root)
    apply_to(root, UnlinkingDisk(), is_wide=True)
    os.chown(paths[0], *OWNER)
    now = snapshot(root)
    if witness == "a file" or (witness == "a backup" and not is_root):
        apply_undo(plan_undo(scope_of(str(root))), Disk())
        assert snapshot(root) == old
    else:
        with pytest.raises(RefusedError, match=f"would give it to user {other[0]}, group {other[1]}, who own neither"):
            apply_undo(plan_undo(scope_of(str(root))), Disk())
        assert snapshot(root) == now


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sets these attributes")
@pytest.mark.parametrize("witness", ["the directory", "a file", "a backup", "nothing"])
def test_a_guarded_attribute_that_only_another_file_or_the_directory_has(root: Path, witness: str) -> None:
    path, there = root / "recovery-point-offset-checkpoint", root / "replication-offset-checkpoint"
    there.touch()
    if witness == "a backup":
        os.link(there, root.parent / "backup")
    os.setxattr(path, "trusted.note", b"of root")
    if witness != "nothing":
        os.setxattr(root if witness == "the directory" else there, "trusted.note", b"of root")
    old = snapshot(root)
    apply_to(root, UnlinkingDisk(), is_wide=True)
    os.removexattr(path, "trusted.note")
    if witness in {"the directory", "a file"}:
        apply_undo(plan_undo(scope_of(str(root))), Disk())
        assert snapshot(root) == old
    else:
        with pytest.raises(
            RefusedError, match=r"would give it the extended attribute trusted\.note, which no file there"
        ):
            apply_undo(plan_undo(scope_of(str(root))), Disk())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_copy_from_another_file_system_needs_a_witness_of_its_owner(root: Path) -> None:
    other, path = (OWNER[0] + 1, OWNER[1] + 1), root / "t-0" / "00000000000000000000.index"
    os.chown(path, *other)
    places = [each for each in ("/dev/shm", "/var/tmp") if os.path.isdir(each)]  # noqa: S108 -- other file systems
    far = next((each for each in places if os.stat(each).st_dev != os.stat(root).st_dev), None)
    if far is None:
        pytest.skip("no second file system at hand")
    undo_to = Path(mkdtemp(dir=far))
    try:
        with pytest.raises(Killed):
            apply_to(root, PlacingDisk(root / "t-0", "create"), undo_to=undo_to)
        os.chown(path, *OWNER)
        (journal,) = scope_of(str(root), [str(undo_to)]).interrupted()
        with pytest.raises(RefusedError, match=f"would give it to user {other[0]}, group {other[1]}"):
            resume(journal, Disk())
        os.chown(root / "t-0", *other)
        resume(journal, Disk())
        assert (path.stat().st_uid, path.stat().st_gid) == other
    finally:
        shutil.rmtree(undo_to)
