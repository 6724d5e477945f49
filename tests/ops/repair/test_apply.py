"""From plans to changed disks and back: owners, refusals, drift, the order in which runs can be taken back."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import AccessError, KafkalogError, NotFoundError, RefusedError
from kafkalog_core.ops import planners
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair import apply as apply_module
from kafkalog_core.ops.repair.apply import apply_plan, check_drift, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.refusals import Refusal
from kafkalog_core.storage.changing import file_states, space
from kafkalog_core.storage.changing import space as permission
from kafkalog_core.storage.changing.changes import WHOLE_BYTES
from kafkalog_core.storage.changing.journal_search import held_bytes
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import replace
from tests.support.other_users import let_others_in
from tests.support.repairs import (
    LOG,
    NOW_MS,
    OWNER,
    FailingDisk,
    Killed,
    apply_to,
    draft_of,
    make_dir,
    names_of_ours,
    snapshot,
    undo_all,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.changing.journal import Journal

INDEX = "t-0/00000000000000000000.index"


@pytest.fixture(autouse=True)
def _planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners.PLANNERS, "reindex", "tests.support.repairs:plan")
    monkeypatch.setitem(planners.PLANNERS, "truncate", "tests.ops.repair.test_apply:write_named")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "log")


def write_named(request: PlanRequest, stage: Any, progress: object) -> PlanReport:
    """A planner that writes the files that its options name."""
    del progress
    names = request.options["names"]
    assert isinstance(names, dict)
    for name, text in names.items():
        stage.write(f"{request.target.root}/{name}", [text.encode()], why="w", like=f"{request.target.root}/t-0/{LOG}")
    return PlanReport(needs_release=bool(request.options.get("needs_release")))


def write_into(root: Path, disk: Disk | None = None, **names: str) -> Journal:
    named = {name.replace("__", "/"): text for name, text in names.items()}
    request = PlanRequest(target=target_dir([str(root)]), options={"names": named}, now_ms=NOW_MS)
    return apply_plan(make_plan("truncate", request), disk or Disk(), now_ms=NOW_MS)


# --- what is kept -----------------------------------------------------------------------------------------------------
def test_owner_group_mode_attributes_and_times(root: Path) -> None:
    old = snapshot(root)
    apply_to(root, Disk(), is_wide=True)
    new = snapshot(root)
    for name in (INDEX, f"t-0/{LOG}", f"t-1/{LOG}", "recovery-point-offset-checkpoint"):
        assert new[name][0] != old[name][0]
        assert new[name][1:5] == old[name][1:5]
    assert new[f"t-0/{LOG}"][5] == old[f"t-0/{LOG}"][5]
    assert new[f"t-1/{LOG}"][5] == 1_500_000_000_000_000_001
    assert new["t-0/00000000000000000060.snapshot"][1:4] == old[f"t-0/{LOG}"][1:4]
    assert new["log-start-offset-checkpoint"][1:4] == old["meta.properties"][1:4]


def test_journals_belong_to_the_broker_which_can_delete_its_partition(root: Path) -> None:
    apply_to(root, Disk(), is_wide=True)
    for name in names_of_ours(root):
        status = os.stat(name)
        assert (status.st_uid, status.st_gid) == OWNER
        if os.path.isdir(name):
            assert status.st_mode & 0o700 == 0o700


def test_no_name_that_a_broker_reads_and_no_directory_at_the_top(root: Path) -> None:
    apply_to(root, Disk(), is_wide=True)
    for around, directories, names in os.walk(root):
        for name in (*directories, *names):
            if "kafkalog-" in f"{around}/{name}":
                assert not name[0].isdigit()
                assert not name.endswith((".deleted", ".swap", ".cleaned", ".log", ".index", ".timeindex", ".snapshot"))
        if around == str(root):
            assert not any(name.startswith("kafkalog-") for name in directories)


def test_one_partition_keeps_its_journal_to_itself(root: Path) -> None:
    journal = apply_to(root, Disk())
    assert journal.layout.intent == f"{root}/t-0/{journal.run}/intent.json"
    assert not any(name.startswith("kafkalog-") for name in os.listdir(root))


def test_a_partition_outside_of_any_log_directory(root: Path) -> None:
    for name in ("meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint", ".lock"):
        (root / name).unlink()
    old = snapshot(root)
    apply_to(root / "t-0", Disk())
    assert snapshot(root) != old
    scope = scope_of(str(root / "t-0"))
    assert scope.root == str(root / "t-0")
    apply_undo(plan_undo(scope), Disk())
    assert snapshot(root) == old


def test_a_partition_that_is_a_link(root: Path, tmp_path: Path) -> None:
    (root / "t-0").rename(tmp_path / "far-0")
    (root / "t-0").symlink_to(tmp_path / "far-0")
    old = snapshot(tmp_path / "far-0")
    top = snapshot(root)
    with pytest.raises(RefusedError, match=f"t-0 is a symbolic link to {tmp_path}/far-0, .*too: {root}/t-0$"):
        apply_to(root, Disk(), is_wide=True)
    assert (snapshot(root), snapshot(tmp_path / "far-0")) == (top, old)
    request = PlanRequest(target=target_dir([str(root), str(root / "t-0")]), options={"is_wide": True}, now_ms=NOW_MS)
    apply_plan(make_plan("reindex", request), Disk(), now_ms=NOW_MS)
    assert snapshot(tmp_path / "far-0") != old
    plan = plan_undo(scope_of(str(root)))
    assert f"t-0 is a symbolic link to {tmp_path}/far-0" in str(plan.obstacles[0])
    assert f"kafkalog undo {root} {tmp_path}/far-0 --run {plan.journal.run} --apply" in str(plan.obstacles[0])
    with pytest.raises(RefusedError):
        apply_undo(plan, Disk())
    apply_undo(plan_undo(scope_of(str(root), [str(tmp_path / "far-0")])), Disk())
    assert snapshot(tmp_path / "far-0") == old
    assert (root / "t-0").is_symlink()


def test_a_backup_of_hard_links_stays_whole(root: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    for name in os.listdir(root / "t-0"):
        os.link(root / "t-0" / name, backup / name)
    saved, old = snapshot(backup), snapshot(root)
    apply_to(root, Disk())
    assert snapshot(backup) == saved
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(backup) == saved
    assert snapshot(root) == old


def test_a_directory_that_was_moved_can_be_taken_back(root: Path, tmp_path: Path) -> None:
    old = snapshot(root)
    apply_to(root, Disk(), is_wide=True)
    moved = root.rename(tmp_path / "mnt")
    apply_undo(plan_undo(scope_of(str(moved))), Disk())
    assert snapshot(moved) == old


def test_names_that_are_not_utf_8(root: Path) -> None:
    partition = os.fsencode(root) + b"/t\xff-3"
    os.mkdir(partition)
    with open(partition + b"/" + LOG.encode(), "wb") as file:
        file.write(b"x" * 90)
    old = snapshot(root)
    write_into(root, **{f"t\udcff-3/{LOG}": "short", INDEX: "x"})
    assert snapshot(root) != old
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == old


# --- undo in any order that is possible -------------------------------------------------------------------------------
def test_two_runs_on_one_file_go_back_in_order(root: Path) -> None:
    old = snapshot(root)
    first = write_into(root, **{INDEX: "one", "meta.properties": "one"})
    middle = snapshot(root)
    second = write_into(root, **{INDEX: "two"})
    assert first.run.endswith("-1")
    assert second.run.endswith("-2")
    plan = plan_undo(scope_of(str(root)), first.run)
    assert len(plan.obstacles) == 1
    assert INDEX in str(plan.obstacles[0])
    assert f"--run {second.run}" in str(plan.obstacles[0])
    with pytest.raises(RefusedError, match="nothing has been changed"):
        apply_undo(plan, Disk())
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == middle
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == old
    with pytest.raises(NotFoundError, match="no kafkalog run"):
        plan_undo(scope_of(str(root)))


def test_two_runs_on_different_files_go_back_in_any_order(root: Path) -> None:
    old = snapshot(root)
    first = write_into(root, **{INDEX: "one"})
    second = write_into(root, **{"meta.properties": "two", "t-1/x": "y"})
    apply_undo(plan_undo(scope_of(str(root)), first.run), Disk())
    assert snapshot(root)[INDEX] == old[INDEX]
    assert plan_undo(scope_of(str(root)), first.run).obstacles == (Refusal(f"{first.run} has been undone already"),)
    apply_undo(plan_undo(scope_of(str(root)), second.run), Disk())
    assert snapshot(root) == old


def test_ten_runs_in_one_second(root: Path) -> None:
    old = snapshot(root)
    runs = [write_into(root, **{INDEX: f"{number}"}).run for number in range(11)]
    assert [journal.run for journal in scope_of(str(root)).found.journals] == runs
    for run in reversed(runs):
        assert plan_undo(scope_of(str(root))).journal.run == run
        apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == old


@pytest.mark.parametrize("name", [INDEX, f"t-0/{LOG}"])
def test_what_a_broker_has_changed_since_is_left(root: Path, name: str) -> None:
    apply_to(root, Disk())
    with open(root / name, "ab") as file:
        file.write(b"broker")
    now = snapshot(root)
    plan = plan_undo(scope_of(str(root)))
    changed, ways = map(str, plan.obstacles)
    assert changed == f"{root}/{name}: has changed since this run, most likely by a broker that was started"
    saved = "which has the only copy of what this run deleted or replaced"
    assert ways.startswith(
        f"it cannot be undone as a whole. Keep the files as they are and delete the journal, {saved}: "
    )
    with pytest.raises(RefusedError):
        apply_undo(plan, Disk())
    assert snapshot(root) == now


def test_a_partition_that_is_gone(root: Path) -> None:
    write_into(root, **{"t-1/new": "x", "meta.properties": "y"})
    shutil.rmtree(root / "t-1")
    gone, ways = map(str, plan_undo(scope_of(str(root))).obstacles)
    assert "t-1/new: its directory no longer exists" in gone
    assert "--partial" not in ways


def test_a_file_of_the_same_name_came_since(root: Path) -> None:
    apply_to(root, Disk())
    (root / "t-0" / "00000000000000000050.log").write_bytes(b"new")
    changed, _ = map(str, plan_undo(scope_of(str(root))).obstacles)
    assert f"{50:020}.log: has changed since" in changed


@pytest.mark.parametrize("which", ["old", "tail"])
def test_a_journal_that_is_not_what_it_was(root: Path, which: str) -> None:
    journal = apply_to(root, Disk())
    now = snapshot(root)
    kept = [name for name in os.listdir(f"{root}/t-0/{journal.run}") if name.startswith(which)]
    with open(f"{root}/t-0/{journal.run}/{kept[0]}", "r+b") as file:
        file.write(b"\xff\x00\xff")
    plan = plan_undo(scope_of(str(root)))
    assert "has changed" in str(plan.obstacles[0])
    with pytest.raises(RefusedError):
        apply_undo(plan, Disk())
    assert snapshot(root) == now
    os.unlink(f"{root}/t-0/{journal.run}/{kept[0]}")
    assert "cannot be read" in str(plan_undo(scope_of(str(root))).obstacles[0]) or which == "old"


class NoLinks(Disk):
    """On a file system without hard links."""

    def link(self, path: str, new_path: str) -> bool:
        del path, new_path
        return False


def spoil(path: str) -> None:
    """Change a byte far from both ends, and nothing that a directory shows."""
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(status.st_size // 2)
        file.write(b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


LARGE = 17 << 20


@pytest.mark.parametrize("which", ["old", "tail"])
def test_a_byte_in_the_middle_of_what_was_saved(root: Path, which: str) -> None:
    big = root / "t-0" / (LOG if which == "tail" else "big")
    big.write_bytes(bytes(LARGE))
    disk = NoLinks()
    journal = apply_to(root, disk) if which == "tail" else write_into(root, disk, **{"t-0/big": "x"})
    now = snapshot(root)
    (saved,) = (root / "t-0" / journal.run).glob("tail-*" if which == "tail" else "old-*")
    assert saved.stat().st_size > WHOLE_BYTES
    spoil(str(saved))
    plan = plan_undo(scope_of(str(root)))
    damaged, _ = map(str, plan.obstacles)
    assert damaged == f"{big}: its old content in the journal has changed: {saved}"
    with pytest.raises(RefusedError):
        apply_undo(plan, Disk())
    assert snapshot(root) == now


def test_a_byte_in_the_middle_of_new_content(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(disk: Disk, journal: Journal, states: object) -> Journal:
        del disk, states
        spoil(f"{root}/t-0/{journal.run}/new-0001")
        raise Killed

    monkeypatch.setattr(apply_module, "finish", stopped)
    with pytest.raises(Killed):
        write_into(root, **{"t-0/big": "x" * LARGE})
    (journal,) = scope_of(str(root)).interrupted()
    with pytest.raises(RefusedError, match=r"the new content of .*big has changed"):
        resume(journal, Disk())
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert not (root / "t-0" / "big").exists()


def test_what_changes_right_before_the_first_file_is_refused_and_nothing_stays(root: Path) -> None:
    """It is checked once, when all is ready; no more is it said that some files have been changed."""

    class Broker(Disk):
        def rename(self, path: str, new_path: str) -> None:
            super().rename(path, new_path)
            if new_path.endswith("intent.json"):
                with open(root / INDEX, "ab") as file:
                    file.write(b"x")

    old = snapshot(root)
    with pytest.raises(RefusedError, match="has changed since"):
        apply_to(root, Broker())
    assert {name for name, row in snapshot(root).items() if row != old[name]} == {INDEX}
    assert names_of_ours(root) == []


@pytest.mark.parametrize("at", ["apply", "undo"])
def test_all_is_checked_once_before_the_first_file(root: Path, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    whole_hash = file_states.whole_hash
    monkeypatch.setattr(file_states, "whole_hash", lambda path, trusted: seen.append(path) or whole_hash(path, trusted))
    apply_to(root, NoLinks())
    if at == "undo":
        plan = plan_undo(scope_of(str(root)))
        seen.clear()
        apply_undo(plan, Disk())
    assert seen
    assert len(seen) == len(set(seen))


def test_a_file_that_changes_between_plan_and_undo(root: Path) -> None:
    apply_to(root, Disk())
    plan = plan_undo(scope_of(str(root)))
    with open(root / INDEX, "ab") as file:
        file.write(b"x")
    with pytest.raises(RefusedError, match="has changed since"):
        apply_undo(plan, Disk())
    assert not scope_of(str(root)).interrupted()


def test_a_file_that_is_gone_from_the_journal(root: Path) -> None:
    journal = apply_to(root, Disk())
    for name in os.listdir(f"{root}/t-0/{journal.run}"):
        if name.startswith("old"):
            os.unlink(f"{root}/t-0/{journal.run}/{name}")
    assert plan_undo(scope_of(str(root))).obstacles


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"kafkalog":"kafkalog undo journal","version":9}', b"null", b"[" * 100_000, b"\xff"]
)
def test_an_intent_that_cannot_be_read(root: Path, text: bytes) -> None:
    journal = apply_to(root, Disk())
    with open(journal.layout.intent, "wb") as file:
        file.write(text)
    scope = scope_of(str(root))
    assert scope.found.journals == ()
    assert scope.found.remains[0].is_unreadable
    assert "cannot be read" in str(draft_of(root).plan.obstacles[0])
    assert plan_prune(scope).remains == ()
    apply_prune(plan_prune(scope, journal.run), Disk())
    assert names_of_ours(root) == []


def test_an_intent_that_leads_out_of_its_place(root: Path) -> None:
    journal = apply_to(root, Disk())
    with open(journal.layout.intent, encoding="utf-8") as file:
        value = json.load(file)
    value["entries"][0]["path"] = "../../etc/passwd"
    with open(journal.layout.intent, "w", encoding="utf-8") as file:
        json.dump(value, file)
    assert scope_of(str(root)).found.remains[0].is_unreadable


# --- prune ------------------------------------------------------------------------------------------------------------
def test_prune_frees_and_says_how_much(root: Path) -> None:
    journal = apply_to(root, Disk(), is_wide=True)
    now = snapshot(root)
    held = held_bytes(journal)
    assert held > 9000 - 4100
    plan = plan_prune(scope_of(str(root)))
    assert [replace(each, trusted=journal.trusted) for each in plan.journals] == [journal]
    apply_prune(plan, Disk())
    assert names_of_ours(root) == []
    assert snapshot(root) == now
    assert plan_prune(scope_of(str(root))).journals == ()


def test_prune_of_one_of_two(root: Path) -> None:
    first = write_into(root, **{INDEX: "one"})
    second = write_into(root, **{"meta.properties": "two"})
    apply_prune(plan_prune(scope_of(str(root)), first.run), Disk())
    assert [journal.run for journal in scope_of(str(root)).found.journals] == [second.run]
    with pytest.raises(NotFoundError, match="no journal"):
        plan_prune(scope_of(str(root)), first.run)


def test_a_journal_elsewhere_is_found_from_both_sides(root: Path, tmp_path: Path) -> None:
    undo_to = tmp_path / "undo"
    undo_to.mkdir()
    old = snapshot(root)
    journal = apply_to(root, Disk(), undo_to=undo_to, is_wide=True)
    assert journal.layout.intent == f"{undo_to}/{journal.run}/intent.json"
    for place in (root, undo_to, root / "t-1"):
        assert [each.run for each in scope_of(str(place)).found.journals] == [journal.run]
    plan = plan_undo(scope_of(str(undo_to)))
    assert f"kafkalog undo {root} --run {journal.run} --apply" in str(plan.obstacles[0])
    with pytest.raises(RefusedError):
        apply_undo(plan, Disk())
    apply_undo(plan_undo(scope_of(str(undo_to), [str(root)])), Disk())
    assert snapshot(root) == old
    kept = plan_prune(scope_of(str(undo_to)))
    assert not kept.journals
    assert f"kafkalog undo {root} --prune --run {journal.run} --apply" in kept.kept[0]
    apply_prune(plan_prune(scope_of(str(undo_to), [str(root)])), Disk())
    assert names_of_ours(tmp_path) == []


def test_a_run_that_takes_the_name_of_another_one_leaves_its_journal(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of different log directories begin in the same second, with the same `--undo-to`."""
    undo_to, other = tmp_path / "undo", make_dir(tmp_path / "other")
    undo_to.mkdir()
    old = snapshot(root)
    journal = apply_to(root, Disk(), undo_to=undo_to, is_wide=True)
    monkeypatch.setattr(apply_module, "_free_run", lambda *_: journal.run)
    with pytest.raises(RefusedError, match="another run has just taken this name"):
        apply_to(other, Disk(), undo_to=undo_to, is_wide=True)
    apply_undo(plan_undo(scope_of(str(undo_to), [str(root)])), Disk())
    assert snapshot(root) == old


def test_a_journal_elsewhere_that_is_not_mounted(root: Path, tmp_path: Path) -> None:
    undo_to = tmp_path / "undo"
    undo_to.mkdir()
    apply_to(root, Disk(), undo_to=undo_to, is_wide=True)
    undo_to.rename(tmp_path / "away")
    assert "it is unknown whether" in str(draft_of(root).plan.obstacles[0])
    (tmp_path / "away").rename(undo_to)
    assert not draft_of(root, seed=2).plan.obstacles


def test_a_partition_that_was_copied_out_of_a_run_of_several(root: Path, tmp_path: Path) -> None:
    journal = apply_to(root, Disk(), is_wide=True)
    shutil.copytree(root / "t-0", tmp_path / "t-0")
    scope = scope_of(str(tmp_path / "t-0"))
    assert scope.found.journals == ()
    assert scope.found.remains[0].is_unreadable
    assert "to which this part belongs, is missing" in scope.found.remains[0].reason
    assert plan_prune(scope).remains == ()
    for name in ("meta.properties", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (root / name).unlink()  # from now on it looks like a pile of partitions that somebody copied
    found = scope_of(str(root / "t-0")).found.journals
    assert [replace(each, trusted=journal.trusted) for each in found] == [journal]


def test_only_what_touches_a_partition_is_shown_for_it(root: Path) -> None:
    first = write_into(root, **{INDEX: "one"})
    second = write_into(root, **{"t-1/x": "two", "meta.properties": "y"})
    assert [each.run for each in scope_of(str(root / "t-0")).found.journals] == [first.run]
    assert [each.run for each in scope_of(str(root / "t-1")).found.journals] == [second.run]


# --- refusals ---------------------------------------------------------------------------------------------------------
def refused(root: Path, message: str, **options: Any) -> None:
    """That a plan says why it cannot be applied, and is not."""
    draft = draft_of(root, **options)
    old = snapshot(root)
    assert any(message in str(obstacle) for obstacle in draft.plan.obstacles), draft.plan.obstacles
    with pytest.raises(RefusedError, match="nothing has been changed"):
        apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert snapshot(root) == old
    assert names_of_ours(root) == []


def test_no_space(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "free_bytes", lambda path: 4096)
    refused(root, "Keep the undo journal in a directory on another file system, where it takes ")


@pytest.mark.parametrize("place", ["", "t-0", "t-0/deep"])
def test_no_journal_among_the_files_of_a_broker(root: Path, place: str) -> None:
    (root / place).mkdir(exist_ok=True)
    refused(root, "is in a broker's directory", undo_to=root / place)


def test_a_directory_for_the_journal_is_made_with_those_above_it(root: Path, tmp_path: Path) -> None:
    undo_to = tmp_path / "not" / "there"
    draft = draft_of(root, undo_to=undo_to)
    assert draft.plan.obstacles == ()
    assert not undo_to.parent.exists()
    old = snapshot(root)
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert [path.stat().st_mode & 0o777 for path in (undo_to, undo_to.parent)] == [0o700, 0o700]
    undo_all(root)
    assert snapshot(root) == old
    with suppress(KafkalogError):
        apply_to(root, FailingDisk(20, errno.EIO), undo_to=tmp_path / "other" / "place")
    assert snapshot(root) == old
    assert not (tmp_path / "other").exists()


def test_no_directory_for_the_journal_where_a_file_is(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(root, "is not a directory; name another", undo_to=tmp_path / "file")


def test_a_file_system_that_is_read_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(root)
    fields = {name: getattr(real, name) for name in ("f_bfree", "f_bavail", "f_frsize")}
    now = SimpleNamespace(**fields, f_flag=real.f_flag | os.ST_RDONLY)
    monkeypatch.setattr(permission.os, "statvfs", lambda path: now)
    refused(root, "mounted read-only")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize(("uid", "gid"), [(65534, 65534), (OWNER[0], 65534)])
def test_a_foreign_owner(root: Path, uid: int, gid: int) -> None:
    for directory in (root, root / "t-0", root / "t-1"):
        directory.chmod(0o777)
    for file in root.rglob("*"):
        if file.is_file():
            file.chmod(0o666)
    let_others_in(root)
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        refused(root, f"belongs to user {OWNER[0]}, group {OWNER[1]}")
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_owner_needs_no_root(root: Path) -> None:
    let_others_in(root)
    old = snapshot(root)
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(OWNER[1])
    os.seteuid(OWNER[0])
    try:
        apply_to(root, Disk(), is_wide=True)
        assert snapshot(root) != old
        apply_undo(plan_undo(scope_of(str(root))), Disk())
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
    assert snapshot(root) == old


def test_a_directory_without_permission(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        permission.os, "access", lambda path, mode, **_: not (mode & os.W_OK and str(path).endswith("t-0"))
    )
    refused(root, "no permission to create files in it")
    told = [each for each in map(str, draft_of(root).plan.obstacles) if "no permission to create files in it" in each]
    assert len(told) == 1, "of five changes in one directory"


def test_a_log_that_may_not_be_cut(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        permission.os, "access", lambda path, mode, **_: not (mode & os.W_OK and str(path).endswith(LOG))
    )
    refused(root, "no permission to truncate it")


def test_the_release_must_be_known_where_it_matters(root: Path) -> None:
    options = {"names": {"meta.properties": "x"}, "needs_release": True}
    request = PlanRequest(target=target_dir([str(root)]), options=options, now_ms=0)
    (obstacle,) = map(str, make_plan("truncate", request).plan.obstacles)
    assert "--kafka VERSION" in obstacle
    nothing = PlanRequest(target=target_dir([str(root)]), options={"names": {}, "needs_release": True}, now_ms=0)
    assert make_plan("truncate", nothing).plan.obstacles == ()
    with pytest.raises(RefusedError, match="has nothing to apply"):
        apply_plan(make_plan("truncate", nothing), Disk(), now_ms=NOW_MS)


@pytest.mark.parametrize("name", [INDEX, f"t-0/{LOG}", "t-0/00000000000000000050.log"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_file_that_changes_after_the_plan(root: Path, name: str, is_kept: bool) -> None:
    draft = draft_of(root)
    if not is_kept:
        draft.dry_run._calls = None
    with open(root / name, "r+b") as file:
        file.write(bytes(8))
    old = snapshot(root)
    with pytest.raises(RefusedError, match=r"nothing has been changed\. Plan again"):
        apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert snapshot(root) == old
    assert names_of_ours(root) == []


def test_drift(root: Path) -> None:
    changes = draft_of(root).plan.changes
    check_drift(changes, changes, None)
    for other in (changes[:-1], changes[1:], (*changes, changes[0]), draft_of(root, seed=2).plan.changes):
        with pytest.raises(RefusedError):
            check_drift(changes, other, None)


def test_too_much_to_be_kept_is_planned_twice(root: Path) -> None:
    draft = draft_of(root, is_wide=True)
    draft.dry_run._calls = None
    old = snapshot(root)
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert snapshot(root) != old
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == old


def test_bytes_that_read_back_otherwise_are_not_put_in_place(root: Path) -> None:
    class Failing(Disk):
        def _put(self, number: int, data: memoryview) -> int:
            return super()._put(number, memoryview(bytes(len(data))))

    old = snapshot(root)
    with pytest.raises(AccessError, match="does not read back as it was written: the disk is failing"):
        apply_to(root, Failing())
    assert snapshot(root) == old
    assert names_of_ours(root) == []


def test_large_content(root: Path) -> None:
    text = "".join(random.Random(3).choices("abc", k=3_000_000))
    old = snapshot(root)
    write_into(root, **{"t-0/big": text})
    assert (root / "t-0" / "big").read_text() == text
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == old
