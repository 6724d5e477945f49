"""How far a run has come, by its files alone, and what is refused before one of them is changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.ops import planners
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing import changes as fingerprint_module
from kafkalog_core.storage.changing import commit
from kafkalog_core.storage.changing import journal as pointer_module
from kafkalog_core.storage.changing import staging as staging_module
from kafkalog_core.storage.changing.commit import roll_back
from kafkalog_core.storage.changing.file_states import check_old, is_stuck, state_of
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import replace
from tests.support.repairs import (
    LATER,
    LOG,
    NOW_MS,
    OWNER,
    Killed,
    NotingDisk,
    apply_to,
    interrupt,
    make_dir,
    names_of_ours,
    snapshot,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.changing.journal import Journal, State

pytestmark = pytest.mark.usefixtures("fake_planner", "no_waiting")

INDEX = "00000000000000000000.index"
LATER_INDEX = "00000000000000000050.index"
KEPT = 4100
OTHER = (OWNER[0] + 1, OWNER[1] + 1)
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "log")


def journal_of(root: Path, state: State | None = None) -> Journal:
    (journal,) = scope_of(str(root)).found.journals
    return journal if state is None else replace(journal, state=state)


def state(root: Path, journal: Journal, name: str) -> str:
    entry = next(entry for entry in journal.entries if journal.path_of(entry) == str(root / name))
    return state_of(journal, entry)


def saved(root: Path, journal: Journal, name: str) -> str:
    entry = next(entry for entry in journal.entries if journal.path_of(entry) == str(root / name))
    return journal.layout.saved(str(root / name), entry.number, entry.saved)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def zeros(data: bytes, first: int, until: int) -> bytes:
    return data[:first] + bytes(until - first) + data[until:]


# --- a cut ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("state_now", ["prepared", "undoing", "complete"])
@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("part", True),
        ("whole", True),
        ("sector", True),
        ("part of a sector", False),
        ("first byte", False),
        ("other byte", False),
        ("other last byte", False),
        ("other start", False),
        ("shorter", False),
        ("longer", False),
        ("gone", False),
    ],
)
def test_what_follows_a_cut_is_what_an_undo_has_written(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_ours: bool, state_now: State
) -> None:
    """By pieces that are no multiple of a sector."""
    monkeypatch.setattr(fingerprint_module, "WINDOW_BYTES", 1000)
    log = root / "t-0" / LOG
    old = log.read_bytes()
    part = old[:6500]
    apply_to(root, Disk())
    contents = {
        "part": part,
        "whole": old,
        "sector": zeros(part, 5632, 6144),
        "part of a sector": zeros(part, 5632, 6130),
        "first byte": flipped(part, KEPT),
        "other byte": flipped(part, 5500),
        "other last byte": flipped(part, 6499),
        "other start": flipped(part, 10),
        "shorter": old[: KEPT - 1],
        "longer": old + b"\0",
    }
    if name == "gone":
        log.unlink()
    else:
        log.write_bytes(contents[name])
    wanted = "halfway" if is_ours and state_now == "undoing" else "neither"
    assert state(root, journal_of(root, state_now), f"t-0/{LOG}") == wanted


@pytest.mark.parametrize(
    ("tail_bytes", "wanted"), [(6500 - KEPT, "halfway"), (6499 - KEPT, "neither"), (None, "neither")]
)
def test_bytes_that_are_not_saved_are_not_those_of_an_undo(root: Path, tail_bytes: int | None, wanted: str) -> None:
    log = root / "t-0" / LOG
    old = log.read_bytes()
    apply_to(root, Disk())
    log.write_bytes(old[:6500])
    journal = journal_of(root, "undoing")
    tail = saved(root, journal, f"t-0/{LOG}")
    os.unlink(tail) if tail_bytes is None else os.truncate(tail, tail_bytes)
    assert state(root, journal, f"t-0/{LOG}") == wanted


@pytest.mark.parametrize("state_now", ["prepared", "undoing", "complete"])
def test_a_cut_whose_time_has_not_been_put_back_is_halfway(root: Path, state_now: State) -> None:
    apply_to(root, Disk(), is_wide=True)
    journal = journal_of(root, state_now)
    assert state(root, journal, f"t-0/{LOG}") == "after"
    os.utime(root / "t-0" / LOG, ns=(7, 7))
    assert state(root, journal, f"t-0/{LOG}") == "halfway"
    assert state(root, journal, f"t-1/{LOG}") == "after"
    os.utime(root / "t-1" / LOG, ns=(7, 7))
    assert state(root, journal, f"t-1/{LOG}") == "neither", "a file that was replaced has its time from the start"


def test_bytes_that_are_all_back_are_not_cut_again(root: Path) -> None:
    old = snapshot(root)
    apply_to(root, Disk())
    with pytest.raises(Killed):
        apply_undo(plan_undo(scope_of(str(root))), NotingDisk(root, "fsync t-0/~0000.log", Killed()))
    disk = NotingDisk(root)
    apply_undo(plan_undo(scope_of(str(root))), disk)
    assert "truncate" not in disk.text()
    assert snapshot(root) == old


# --- an index ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state_now", "swap", "wanted"),
    [
        ("prepared", None, "halfway"),
        ("undoing", None, "halfway"),
        ("complete", None, "neither"),
        ("prepared", 0, "neither"),
    ],
)
def test_an_index_that_is_gone_may_have_made_way_for_the_new_one(
    root: Path, state_now: State, swap: int | None, wanted: str
) -> None:
    """Also where the log is not one that the run knows."""
    apply_to(root, Disk(), is_wide=True)
    journal = journal_of(root, state_now)
    (root / "t-0" / INDEX).unlink()
    (root / "t-1" / LOG).unlink()
    (root / "t-0" / LATER).write_bytes(b"of a broker")
    entries = tuple(replace(entry, swap=swap) for entry in journal.entries)
    journal = replace(journal, entries=entries)
    assert state(root, journal, f"t-0/{INDEX}") == wanted
    assert state(root, journal, f"t-1/{LOG}") == "neither"


@pytest.mark.parametrize(
    ("state_now", "gone", "wanted"),
    [
        ("prepared", "", "halfway"),
        ("undoing", "", "halfway"),
        ("prepared", "new", "after"),
        ("undoing", "new", "halfway"),
        ("prepared", "old", "halfway"),
        ("undoing", "old", "before"),
        ("complete", "", "neither"),
    ],
)
def test_an_index_that_a_start_has_made_again_is_of_the_side_that_it_was_made_from(
    root: Path, state_now: State, gone: str, wanted: str
) -> None:
    interrupt(root)
    index = root / "t-0" / INDEX
    index.unlink()
    index.write_bytes(b"made again")
    journal = journal_of(root, state_now)
    if gone:
        os.unlink(f"{journal.layout.directory(str(index))}/{gone}-0001")
    assert state(root, journal, f"t-0/{INDEX}") == wanted


def test_an_index_that_a_start_wrote_in_place_is_the_old_one(root: Path) -> None:
    interrupt(root)
    with open(root / "t-0" / INDEX, "ab") as file:
        file.write(bytes(480))
    assert state(root, journal_of(root, "prepared"), f"t-0/{INDEX}") == "before"
    assert state(root, journal_of(root, "undoing"), f"t-0/{INDEX}") == "before"


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("state_now", ["prepared", "undoing", "complete"])
def test_old_content_that_is_damaged_after_the_plan_is_refused_with_what_is_left_to_do(
    root: Path, state_now: State
) -> None:
    apply_to(root, Disk())
    journal = journal_of(root, state_now)
    path = saved(root, journal, f"t-0/{LATER}")
    os.truncate(path, 3)
    with pytest.raises(RefusedError) as caught:
        check_old(journal)
    ways = {
        "prepared": f"Finish the run instead: kafkalog apply --resume {journal.layout.root}",
        "undoing": "Keep the files as they are and delete the journal, which has the only copy of what this run "
        "deleted or replaced: "
        f"kafkalog undo {journal.layout.root} --prune --run {journal.run} --apply",
    }
    assert str(caught.value).endswith(
        f"t-0/{LATER}: its old content in the journal has changed: {path}; nothing has been changed. "
        f"{ways['prepared' if state_now == 'prepared' else 'undoing']}"
    )
    left = frozenset(entry.number for entry in journal.entries if entry.path == LATER)
    assert {entry.number for entry, _ in check_old(replace(journal, left=left))} == {1, 2, 3, 5}


@pytest.mark.parametrize("what", ["old-0004", "old-0001"])
@pytest.mark.parametrize("is_gone", [True, False])
def test_old_content_of_the_same_size_with_other_bytes_or_none_is_refused(root: Path, what: str, is_gone: bool) -> None:
    apply_to(root, Disk())
    journal = journal_of(root)
    path = f"{journal.layout.directory(str(root / 't-0' / LOG))}/{what}"
    with open(path, "rb") as file:
        content = file.read()
    os.unlink(path)
    if not is_gone:
        with open(path, "wb") as file:
            file.write(flipped(content, 7))
    problem = "cannot be read" if is_gone else "has changed"
    with pytest.raises(RefusedError, match=f"its old content in the journal {problem}: {path}"):
        check_old(journal)


def test_new_content_with_another_time_is_refused(root: Path) -> None:
    """It is not the one that was staged, whatever is in it."""
    interrupt(root, is_wide=True)
    journal = journal_of(root)
    os.utime(f"{root}/t-1/{journal.run}/new-0006", ns=(7, 7))
    with pytest.raises(RefusedError, match=f"the new content of t-1/{LOG} has changed"):
        resume(journal, Disk())


def test_new_content_with_another_middle_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file is known by its ends; what the journal holds is read to the last byte."""
    monkeypatch.setattr(fingerprint_module, "WHOLE_BYTES", 600)
    monkeypatch.setattr(fingerprint_module, "SAMPLE_BYTES", 100)
    interrupt(root, is_wide=True)
    journal = journal_of(root)
    path = f"{root}/t-1/{journal.run}/new-0006"
    with open(path, "r+b") as file:
        content, times = file.read(), os.fstat(file.fileno()).st_mtime_ns
        file.seek(0)
        file.write(flipped(content, 1500))
    os.utime(path, ns=(times, times))
    with pytest.raises(RefusedError, match=f"the new content of t-1/{LOG} has changed"):
        resume(journal, Disk())


def interrupt_without_undo(root: Path) -> Journal:
    request = PlanRequest(target=target_dir([str(root)]), options={}, now_ms=NOW_MS)
    draft = make_plan("reindex", request, keeps_undo=False)
    with pytest.raises(Killed):
        apply_plan(draft, NotingDisk(root, "rename t-0/~0060.snapshot", Killed()), now_ms=NOW_MS)
    return journal_of(root)


def test_a_run_that_keeps_nothing_is_finished_or_given_up(root: Path) -> None:
    journal = interrupt_without_undo(root)
    with pytest.raises(RefusedError, match=f"t-0/{INDEX}: the journal holds no old content of it"):
        check_old(journal)
    os.truncate(f"{root}/t-0/{journal.run}/new-0002", 3)
    with pytest.raises(RefusedError) as caught:
        resume(journal, Disk())
    command = f"kafkalog undo {journal.layout.root} --prune --run {journal.run} --apply"
    assert str(caught.value).endswith(f"delete the journal: {command}")


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("state_now", ["prepared", "undoing", "complete"])
def test_a_run_is_stuck_where_neither_way_is_open(root: Path, state_now: State, old: bool, new: bool) -> None:
    """`old` and `new`: what is damaged."""
    with pytest.raises(Killed):
        apply_to(root, NotingDisk(root, "rename t-0/~0060.snapshot", Killed()))
    journal = journal_of(root, state_now)
    directory = f"{root}/t-0/{journal.run}"
    if old:
        os.truncate(f"{directory}/old-0001", 3)
    if new:
        os.truncate(f"{directory}/new-0002", 3)
    assert is_stuck(journal) == {"prepared": old and new, "undoing": old, "complete": False}[state_now]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_run_that_keeps_nothing_is_stuck_without_its_new_content(root: Path, is_damaged: bool) -> None:
    journal = interrupt_without_undo(root)
    if is_damaged:
        os.truncate(f"{root}/t-0/{journal.run}/new-0002", 3)
    assert is_stuck(journal) == is_damaged


MARKED = {
    "rename t-0/~0000.index": False,
    "rename .kafka_cleanshutdown": False,
    "unlink J.new-0002": True,
}


@pytest.mark.parametrize("at", MARKED)
@pytest.mark.parametrize("is_seen", [False, True])
def test_only_a_mark_that_is_still_to_be_made_is_refused_after_a_broker(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_seen: bool, at: str
) -> None:
    monkeypatch.setitem(planners.PLANNERS, "reindex", "tests.support.repairs:plan_mark")
    (root / ".kafka_cleanshutdown").unlink()
    with pytest.raises(Killed):
        apply_to(root, NotingDisk(root, at, Killed()))
    if is_seen:
        os.utime(root / "recovery-point-offset-checkpoint", ns=(7, 7))
    if is_seen and not MARKED[at]:
        with pytest.raises(RefusedError, match="would declare all logs whole, but a broker has run") as caught:
            resume(journal_of(root), Disk())
        assert caught.value.path == f"{root}/.kafka_cleanshutdown"
    else:
        assert resume(journal_of(root), Disk()).state == "complete"


# --- the journal itself -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("mode", "of_file"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600), (0o711, 0o600)])
@pytest.mark.parametrize("place", ["partition", "top"])
def test_who_may_read_a_directory_may_read_the_journal_in_it(root: Path, place: str, mode: int, of_file: int) -> None:
    for directory in (root, root / "t-0", root / "t-1"):
        directory.chmod(mode)
    apply_to(root, Disk(), is_wide=place == "top")
    journal = journal_of(root if place == "top" else root / "t-0")
    status = os.stat(journal.layout.intent)
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (*OWNER, of_file)
    status = os.stat(root / "t-0" / journal.run)
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (*OWNER, mode)
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    status = os.stat(journal.layout.intent)
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (*OWNER, of_file)


POINTER = "create J.tmp"


@pytest.mark.parametrize(("room", "before"), [(16384, "link t-0/J.0001.tmp"), (12288, "link t-0/J.0002.tmp")])
def test_a_pointer_is_written_as_soon_as_it_takes_no_room_of_the_rest(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, before: str
) -> None:
    """Two new files of a block each are still to be written, then one; the pointer takes two blocks."""
    monkeypatch.setattr(staging_module, "free_bytes", lambda path: 0)
    asked = [0]

    def free_bytes(path: str) -> int:
        asked[0] += 1
        return 0 if asked[0] == 1 else room  # the first time it is before the intent

    monkeypatch.setattr(pointer_module, "free_bytes", free_bytes)
    disk = NotingDisk(root)
    apply_to(root, disk, undo_to=tmp_path / "undo")
    changes = [step for line in disk.lines for step in line if step.startswith(("create J", "link t-0/J", "truncate"))]
    assert changes[changes.index(POINTER) + 1] == before
    assert changes.count(POINTER) == 1


def test_a_pointer_is_written_at_the_end_at_the_latest(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = root / "t-0" / LATER_INDEX
    monkeypatch.setattr(staging_module, "free_bytes", lambda path: 0)
    monkeypatch.setattr(pointer_module, "free_bytes", lambda path: 0 if last.exists() else 8192)
    apply_to(root, Disk(), undo_to=tmp_path / "undo")
    assert (root / journal_of(root).run).exists()


def test_an_undo_that_needs_the_room_of_the_pointer_writes_it_again_at_the_end(root: Path, tmp_path: Path) -> None:
    apply_to(root, Disk(), undo_to=tmp_path / "undo")
    journal, disk = journal_of(root), NotingDisk(root)
    roll_back(disk, journal, check_old(journal), gives_up_pointer=True)
    steps = [step for line in disk.lines for step in line]
    changes = [step for step in steps if step.startswith("rename t-0/")]
    at = [steps.index(step) for step in ("unlink J", changes[0], changes[-1], POINTER)]
    assert at == sorted(at)
    assert journal_of(root).state == "undone"


class Dead(NotingDisk):
    """Takes no step any more after the one where it ends."""

    def step(self, what: str, path: str) -> None:
        if self._error is None:
            raise Killed
        super().step(what, path)


def test_what_a_run_left_that_had_not_begun_is_deleted_with_its_directory_last(root: Path) -> None:
    old = snapshot(root)
    with pytest.raises(Killed):
        apply_to(root, Dead(root, "create t-0/J/tail-0003", Killed()))
    disk = NotingDisk(root)
    apply_prune(plan_prune(scope_of(str(root))), disk)
    (steps,) = disk.lines
    assert sorted(steps[:-1]) == [f"unlink t-0/J/{name}" for name in ("new-0001", "new-0002", "old-0001")]
    assert steps[-1] == "rmdir t-0/J"
    assert snapshot(root) == old
    assert names_of_ours(root) == []


def test_what_is_left_of_a_run_is_still_a_part_of_it(root: Path) -> None:
    """Without its marker the part of a journal in a partition means nothing."""
    apply_to(root, Disk(), is_wide=True)
    run = journal_of(root).run
    os.truncate(root / "t-1" / run / "old-0006", 3)
    apply_undo(plan_undo(scope_of(str(root)), is_partial=True), Disk())
    assert {path.name for path in (root / "t-1" / run).iterdir()} == {"old-0006", "of-several"}
    assert not (root / "t-0" / run).exists()


def create_planner(request: PlanRequest, stage: Stage, progress: object) -> PlanReport:
    """A missing offset index is made with a new time index."""
    del progress
    stem = f"{request.target.root}/t-0/{INDEX.removesuffix('.index')}"
    for suffix in (".index", ".timeindex"):
        stage.write(stem + suffix, [b"\1" * 24], why="index", like=f"{stem}.log")
    return PlanReport()


def test_a_time_index_makes_way_for_an_offset_index_that_is_missing_and_not_on_the_way_back(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as that is missing a start builds both; once it is there a missing time index is one of zeros."""
    monkeypatch.setitem(planners.PLANNERS, "reindex", f"{__name__}:create_planner")
    monkeypatch.setattr(TrustedDirectories, "device", lambda self, path: path.startswith(f"{tmp_path}/undo"))
    monkeypatch.setattr(commit, "free_bytes", lambda path: 0)
    (root / "t-0" / INDEX).unlink()
    old, disk = snapshot(root), NotingDisk(root, links=False)
    apply_to(root, disk, undo_to=tmp_path / "undo")
    changes = [step for line in disk.lines for step in line if step.startswith(("unlink t-0/~", "rename t-0/~"))]
    assert changes == ["unlink t-0/~0000.timeindex", "rename t-0/~0000.timeindex", "rename t-0/~0000.index"]
    disk = NotingDisk(root, links=False)
    apply_undo(plan_undo(scope_of(str(root))), disk)
    changes = [step for line in disk.lines for step in line if step.startswith(("unlink t-0/~", "rename t-0/~"))]
    assert changes == ["rename t-0/~0000.timeindex", "unlink t-0/~0000.index"]
    assert snapshot(root) == old


def longer_planner(request: PlanRequest, stage: Stage, progress: object) -> PlanReport:
    """Both indexes of a segment take two blocks each, where they took one."""
    del progress
    stem = f"{request.target.root}/t-0/{INDEX.removesuffix('.index')}"
    for suffix in (".index", ".timeindex"):
        stage.write(stem + suffix, [b"\1" * 4104], why="index", like=f"{stem}.log")
    return PlanReport()


def test_indexes_make_way_where_there_is_no_room_for_what_is_written_next(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three blocks are free: the four of the new indexes do not fit, the two of the old ones do."""
    monkeypatch.setitem(planners.PLANNERS, "reindex", f"{__name__}:longer_planner")
    monkeypatch.setattr(TrustedDirectories, "device", lambda self, path: path.startswith(f"{tmp_path}/undo"))
    monkeypatch.setattr(commit, "free_bytes", lambda path: 3 * 4096)
    old, disk = snapshot(root), NotingDisk(root, links=False)
    apply_to(root, disk, undo_to=tmp_path / "undo")
    assert [step for line in disk.lines for step in line if step.startswith("unlink t-0/~")]
    disk = NotingDisk(root, links=False)
    apply_undo(plan_undo(scope_of(str(root))), disk)
    assert not [step for line in disk.lines for step in line if step.startswith("unlink t-0/~")]
    assert snapshot(root) == old


# --- owners -----------------------------------------------------------------------------------------------------------
@only_root
@pytest.mark.parametrize("name", [INDEX, LATER])
def test_a_file_that_was_kept_by_a_second_name_comes_back_to_its_owner(root: Path, name: str) -> None:
    """Nothing is given to anybody: the file itself has its owner still."""
    os.chown(root / "t-0" / name, *OTHER)
    old = snapshot(root)
    apply_to(root, Disk())
    index = root / "t-0" / INDEX
    os.chown(index, *OWNER)
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == old


@only_root
def test_a_file_that_is_made_is_not_given_to_an_owner_whom_only_the_journal_knows(root: Path) -> None:
    """A log that was linked to a backup since is put back as a copy."""
    log = root / "t-0" / LOG
    os.chown(log, *OTHER)
    apply_to(root, Disk())
    os.chown(log, *OWNER)
    for name in (INDEX, "00000000000000000060.snapshot"):
        os.chown(root / "t-0" / name, *OWNER)
    os.link(log, root / "backup")
    with pytest.raises(RefusedError, match=f"would give it to user {OTHER[0]}, group {OTHER[1]}, who own neither"):
        apply_undo(plan_undo(scope_of(str(root))), Disk())


@only_root
def test_content_in_the_intent_is_not_given_to_an_owner_whom_only_the_journal_knows(root: Path) -> None:
    """Wherever the file is: anybody who can write to a partition can write a journal there."""
    content = (root / "t-0" / INDEX).read_bytes()
    apply_to(root, Disk())
    journal = journal_of(root)
    entry = replace(journal.entries[0], saved="inline", inline=content)
    assert check_old(replace(journal, entries=(entry,))) == [(entry, "after")]
    assert entry.old_attributes is not None
    entry = replace(entry, old_attributes=replace(entry.old_attributes, uid=OTHER[0]))
    with pytest.raises(RefusedError, match=f"would give it to user {OTHER[0]}"):
        check_old(replace(journal, entries=(entry,)))


@only_root
def test_a_change_that_has_been_made_is_not_asked_for_its_owner_again(root: Path) -> None:
    with pytest.raises(Killed):
        apply_to(root, NotingDisk(root, "rename log-start-offset-checkpoint", Killed()), is_wide=True)
    journal = journal_of(root)
    entries = tuple(
        replace(entry, new_attributes=replace(entry.new_attributes, uid=OTHER[0]))
        if entry.new_attributes and entry.number in {1, 2, 6, 7}
        else entry
        for entry in journal.entries
    )
    assert resume(replace(journal, entries=entries), Disk()).state == "complete"
