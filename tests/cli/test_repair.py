"""From the command line to a changed disk and back: what is said first, exit statuses, plans in files."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalog_cli.commands import repair as repair_module
from kafkalog_core.ops import planners
from kafkalog_core.ops.repair import plan as plan_module
from kafkalog_core.output import tables
from kafkalog_core.storage.changing.lock import LogDirLocks
from tests.cli.mend import STATE, install, plan, run
from tests.support import repairs
from tests.support.refusing import commands_of
from tests.support.repairs import LOCK_HOLDER, DyingDisk, Killed, apply_to, interrupt, make_dir, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage


@pytest.fixture(autouse=True)
def _command(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "log")


# --- plan and apply ---------------------------------------------------------------------------------------------------
def test_a_plan_changes_nothing_and_says_so_first(root: Path) -> None:
    old = snapshot(root)
    said = run("mend", root, output="table")
    assert said.status == 0
    verdict = "reindex would create 2 files, replace 3, truncate 1 and delete 3 in 2 partitions of"
    assert said.lines[0] == f"PLAN: {verdict} {root}."
    text = " ".join(said.out.split())
    assert "Nothing has been changed yet; kafkalog undo can undo it. To apply it:" in text
    assert f"    kafkalog mend {root} --output table --apply" in said.lines
    assert re.search(r"needs [\d.]+ KiB of [\d.]+ \w+ free space at ", text)
    assert re.search(r"^t-0 +create \d, .*delete \d files +frees ", said.out, re.MULTILINE)
    full = run("mend", root, "--details", "--explain", output="table").out
    for part in (
        "by the rules of Kafka 4.3: a sign",
        "index.interval.bytes = 4096 (default of 4.3)",
        "preallocate = false (--set)",
        f"t-0/{0:020}.log",
    ):
        assert part not in said.out
        assert part in full
    assert re.search(r"truncate +t-0/0{20}\.log +8.8 KiB +4.0 KiB +cut", full)
    assert snapshot(root) == old


def test_apply_and_undo(root: Path) -> None:
    old = snapshot(root)
    said = run("mend", root, "--apply", output="table")
    assert said.status == 0
    assert said.lines[0].startswith("DONE: reindex has created 2 files, replaced 3, truncated 1 and deleted 3 in 2 ")
    assert snapshot(root) != old
    undo = re.search(r"kafkalog (undo \S+ --run \S+) --apply", " ".join(said.out.split()))
    assert undo is not None
    planned = run(*undo[1].split(), output="table")
    assert planned.lines[0].startswith("PLAN: undo: ")
    assert planned.out.count("--apply") == said.out.count("--apply") + 1  # "--apply does it", and the command
    assert f"    {undo[0]}" in planned.lines  # the same as the run printed
    assert f"    {undo[0]}" in run("undo", root, output="table").lines
    assert snapshot(root) != old
    said = run(*undo[1].split(), "--apply", output="table")
    assert said.lines[0].startswith("DONE: undo: ")
    assert said.status == 0
    assert snapshot(root) == old


@pytest.mark.parametrize(
    "arguments", [["mend", "--apply"], ["mend"], ["undo", "--list"], ["undo"], ["undo", "--prune"]]
)
def test_rows_have_the_columns_of_their_tables(root: Path, arguments: list[str]) -> None:
    STATE["loses"] = STATE["refuses"] = True
    if arguments[0] == "undo":
        assert run("mend", root, "--apply").rows[0]["undo"]
    said = run(arguments[0], root, *arguments[1:])
    kinds = [str(row["type"]) for row in said.rows]
    assert kinds[0] == "plan"
    assert kinds[-1] == "summary"
    for row in said.rows:
        assert tuple(row) == tables.TABLES[str(row["type"])].names
    if arguments[0] == "mend":
        assert set(kinds) == {"plan", "setting", "loss", "finding", "change", "summary"}
    for output in ("json", "csv"):
        assert run(arguments[0], root, *arguments[1:], output=output).status in {0, 4}


def test_losses_come_before_changes_and_make_the_status_4(root: Path) -> None:
    STATE["loses"] = True
    said = run("mend", root, output="table")
    assert said.status == 4
    assert said.lines[0].endswith("; readers lose 10 records, at least 3 of them committed.")
    assert "Copy the partition from a healthy replica." in said.out
    assert "lost from" not in said.out
    full = run("mend", root, "--details", output="table").out
    assert full.index("lost from") < full.index("change ")
    assert run("mend", root, "--apply").status == 0


def test_what_is_refused_in_part_is_4_before_and_after(root: Path) -> None:
    STATE["refuses"] = True
    assert run("mend", root).status == 4
    said = run("mend", root, "--apply")
    assert said.status == 4
    assert said.plan["state"] == "applied"
    assert said.rows[-1]["codes"] == {"file.not-readable": 1}


def test_nothing_to_do_is_0_and_said(root: Path) -> None:
    STATE["is_idle"] = True
    for more in ([], ["--apply"]):
        said = run("mend", root, *more, output="table")
        assert said.status == 0
        assert said.lines[0].startswith(f"NOTHING TO DO: reindex changes nothing in {root}.")
    STATE["refuses"] = True
    assert run("mend", root, "--apply").status == 4


def test_a_lock_that_is_held(root: Path) -> None:
    apply_to(root, repairs.Disk(), is_wide=True)
    old = snapshot(root)
    command = [sys.executable, "-c", LOCK_HOLDER, str(root / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        for arguments in (["mend", root, "--apply"], ["undo", root, "--apply"], ["apply", root, "--resume"]):
            said = run(*arguments)
            assert said.status == 3
            assert "running broker" not in said.err, "it is none"
            assert ". Stop it, and run the same command again; nothing has been changed" in said.err
            assert said.out == ""
        plan_of_it = run("mend", root)
        assert plan_of_it.status == 0
        assert "this plan cannot be applied until that process has ended" in plan_of_it.err or not os.path.exists(
            "/proc/locks"
        )
        child.communicate()
    assert snapshot(root) == old


def test_it_is_held_while_it_is_applied(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    enter = LogDirLocks.__enter__

    def entered(self: LogDirLocks) -> LogDirLocks:
        seen.extend(self._directories)
        return enter(self)

    monkeypatch.setattr(LogDirLocks, "__enter__", entered)
    run("mend", root / "t-0", "--narrow", "--apply")
    run("undo", root / "t-0", "--apply")
    assert seen == [str(root)] * 2


def when_locked(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen right before the locks are taken."""
    locked = repair_module.locked

    def late(paths: Iterable[str]) -> AbstractContextManager[None]:
        act()
        return locked(paths)

    monkeypatch.setattr(repair_module, "locked", late)


def test_the_disk_is_read_when_it_is_locked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that comes to its end just before must not be taken for one that still runs, or has crashed."""
    seen: list[bool] = []

    def planner(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
        assert request.target.log_dir is not None
        seen.append(request.target.log_dir.is_clean)
        return plan(request, stage, progress)

    marker = root / ".kafka_cleanshutdown"
    marker.unlink()
    monkeypatch.setattr(planners, "planner_of", lambda command: planner)
    when_locked(monkeypatch, marker.touch)
    assert run("mend", root, "--narrow", "--apply").status == 0
    assert set(seen) == {True}


def test_what_leads_elsewhere_by_then_is_not_locked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_dir(tmp_path / "second")
    old = snapshot(other)
    with monkeypatch.context() as patch:
        when_locked(patch, lambda: (root / "u-0").symlink_to(other / "t-0"))
        said = run("mend", root, "--apply")
    assert said.status == 3
    assert f"{other}: appeared while the locks were taken, so it is not locked" in said.err
    assert snapshot(other) == old
    assert run("mend", root, "--apply").status == 0


def test_a_plan_that_cannot_be_applied(root: Path, tmp_path: Path) -> None:
    bad = root / "t-0"
    STATE["loses"] = True  # refused comes before lost: no such plan is applied
    said = run("mend", root, "--undo-to", bad, output="table")
    assert said.status == 3
    assert said.lines[0].startswith("NOT POSSIBLE: reindex would create 2 files")
    assert said.lines[0].endswith("; it cannot be applied as things are, and nothing has been changed.")
    assert said.err == "kafkalog: refused, as the result shows; nothing has been changed\n"
    said = run("mend", root, "--undo-to", bad, "--apply")
    assert said.status == 3
    assert said.plan["state"] == "refused"
    assert "nothing has been changed" in said.err


def test_several_log_directories_one_after_another(root: Path, tmp_path: Path) -> None:
    other = make_dir(tmp_path / "second")
    old = snapshot(root)
    said = run("mend", root, other, "--apply")
    plans = [row for row in said.rows if row["type"] == "plan"]
    assert [row["root"] for row in plans] == [str(root), str(other)]
    assert {row["state"] for row in plans} == {"applied"}
    for row in plans:
        assert run(*str(row["undo"]).split()[1:]).status == 0
    assert snapshot(root) == snapshot(other) == old


def test_none_is_changed_where_one_cannot_be(root: Path, tmp_path: Path) -> None:
    other = make_dir(tmp_path / "second")
    interrupt(other, is_wide=True)
    old = snapshot(root)
    said = run("mend", root, other, "--apply")
    assert said.status == 3
    assert "apply --resume" in said.err
    assert snapshot(root) == old


# --- plans in files ---------------------------------------------------------------------------------------------------
def test_a_plan_in_a_file_is_carried_out(root: Path, tmp_path: Path) -> None:
    file, old = tmp_path / "plan.json", snapshot(root)
    assert run("mend", root, "--plan-out", file).status == 0
    value = json.loads(file.read_bytes())
    assert value["plans"][0]["options"] == {"is_wide": True}
    assert value["plans"][0]["paths"] == [str(root)]
    assert snapshot(root) == old
    said = run("apply", file)
    assert said.status == 0
    assert said.plan["state"] == "applied"
    assert snapshot(root) != old
    assert run("apply", file).status == 3
    assert run("apply", "--resume", file).plan["state"] == "applied"
    assert run("undo", root, "--apply").status == 0
    assert snapshot(root) == old
    assert run("mend", root, "--plan-out", file).status == 0  # one of ours is overwritten


def test_a_plan_of_a_partition_in_a_file(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    run("mend", os.path.relpath(root / "t-0"), "--narrow", "--plan-out", file)
    assert json.loads(file.read_bytes())["plans"][0]["paths"] == [str(root / "t-0")]
    assert run("apply", file).plan["state"] == "applied"


def test_drift_is_refused(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    run("mend", root, "--plan-out", file)
    with open(root / "t-0" / repairs.LOG, "ab") as log:
        log.write(b"x")
    old = snapshot(root)
    said = run("apply", file)
    assert said.status == 3
    assert "has changed since it was planned" in said.err
    assert "Plan again" in said.err
    assert snapshot(root) == old


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "no",
        '{"kafkalog":"kafkalog plans","version":2}',
        '{"kafkalog":"kafkalog plans","version":1}',
        '{"kafkalog":"kafkalog plans","version":1,"plans":[{"command":"rm"}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_plan(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    said = run("apply", file)
    assert said.status == 3
    assert said.err.startswith(f"kafkalog: {file}: is ")


def test_what_cannot_be_an_apply(root: Path, tmp_path: Path) -> None:
    assert run("apply", tmp_path / "none").status == 3
    assert run("apply", root).status == 2


def test_a_plan_is_not_put_among_the_files_of_a_broker(root: Path) -> None:
    assert run("mend", root, "--plan-out", root / "plan.json").status == 3


# --- resume and undo --------------------------------------------------------------------------------------------------
@pytest.fixture
def interrupted(root: Path) -> Path:
    interrupt(root, is_wide=True)
    return root


def test_resume_from_the_directory(interrupted: Path) -> None:
    listed = run("undo", interrupted, "--list", output="table")
    assert "interrupted" in listed.out
    assert f"kafkalog apply --resume {interrupted}" in " ".join(listed.out.split())
    said = run("apply", "--resume", interrupted / "t-1", output="table")
    assert said.status == 0
    assert said.lines[0].startswith("DONE: reindex has ")
    assert run("apply", "--resume", interrupted).plan["state"] == "nothing"
    assert "complete" in run("undo", interrupted, "--list", output="table").out


def test_resume_from_the_plan(root: Path, tmp_path: Path) -> None:
    file, old = tmp_path / "plan.json", snapshot(root)
    run("mend", root, "--plan-out", file)
    interrupt(root, is_wide=True)
    assert run("apply", file).status == 3
    assert run("apply", "--resume", file).plan["state"] == "applied"
    run("undo", root, "--apply")
    assert snapshot(root) == old
    assert run("apply", "--resume", file).plan["state"] == "applied"  # had been taken back: from the start


def test_an_interrupted_undo_is_finished_by_undo(root: Path) -> None:
    old = snapshot(root)
    apply_to(root, repairs.Disk(), is_wide=True)
    with pytest.raises(Killed):
        repairs.undo_all(root, DyingDisk(12))
    assert "the undo of an earlier run was interrupted" in run("undo", root, "--list").out
    said = run("apply", "--resume", root)
    assert said.status == 3
    assert f"Finish it:\n  kafkalog undo {root} --run " in said.err
    assert run("undo", root, "--apply").status == 0
    assert snapshot(root) == old


def test_prune(interrupted: Path) -> None:
    said = run("undo", interrupted, "--prune", "--apply")
    assert said.status == 0
    message = str(said.plan["message"])
    assert f"is kept: {interrupted}: an earlier reindex was interrupted between its files. Finish it first" in message
    run("apply", "--resume", interrupted)
    said = run("undo", interrupted, "--prune", output="table")
    assert said.lines[0].startswith("PLAN: prune: would free 1 journal in ")
    said = run("undo", interrupted, "--prune", "--apply", output="table")
    assert said.lines[0].startswith("DONE: prune: freed 1 journal in ")
    assert run("undo", interrupted, "--list", output="table").lines[0].startswith("UNDO: list: no journal in ")
    said = run("undo", interrupted)
    assert said.status == 3
    assert "there is no kafkalog run to undo here" in said.err


def test_only_the_chosen_run_is_locked(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journals of two log directories are in one place; the broker of the other one is at work again."""
    journals, other = tmp_path / "journals", make_dir(tmp_path / "second")
    journals.mkdir()
    old = snapshot(root)
    first, second = (run("mend", each, "--undo-to", journals, "--apply").plan["run"] for each in (root, other))
    assert first != second
    seen: list[str] = []
    enter = LogDirLocks.__enter__

    def entered(self: LogDirLocks) -> LogDirLocks:
        seen.extend(self._directories)
        return enter(self)

    monkeypatch.setattr(LogDirLocks, "__enter__", entered)
    refused = run("undo", journals, "--run", first, "--apply")
    assert refused.status == 3
    assert f"name all directories:\n  kafkalog undo {root} --run {first} --apply" in refused.err
    assert seen == []
    assert run("undo", journals, root, "--run", first, "--apply").status == 0
    assert snapshot(root) == old
    assert run("undo", journals, root, "--prune", "--run", first, "--apply").status == 0
    assert seen == [str(root)] * 2
    assert run("undo", journals, other, "--apply").status == 0
    assert seen[2:] == [str(other)]


@pytest.mark.parametrize(("link", "to"), [("zz-0", "t-0"), ("a-0", "t-0"), ("loop-0", "."), ("round-0", "round-0")])
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("named", [".", "t-0", "link"])
def test_a_link_inside_of_the_log_directory_hides_no_run(
    root: Path, link: str, to: str, is_wide: bool, named: str
) -> None:
    """Whatever a second name leads to: the partition, the log directory, itself."""
    old = snapshot(root)
    journal = apply_to(root, repairs.Disk(), is_wide=is_wide)
    (root / link).symlink_to(to)
    directory = root / ("t-0" if link == "round-0" else link) if named == "link" else root / named
    assert journal.run in run("undo", directory, "--list").out
    said = run("undo", directory, "--apply")
    assert said.status == 0, said.err
    (root / link).unlink()
    assert snapshot(root) == old


def test_a_plan_made_through_a_second_name_is_resumed(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    (tmp_path / "alias").symlink_to(root)
    assert run("mend", tmp_path / "alias", "--plan-out", file).status == 0
    interrupt(root, is_wide=True)
    (root / "loop-0").symlink_to(".")
    assert run("apply", "--resume", file).plan["state"] == "applied"


def test_undo_of_what_has_changed_since(root: Path) -> None:
    run("mend", root, "--apply")
    with open(root / "t-0" / repairs.LOG, "ab") as log:
        log.write(b"x")
    assert run("undo", root, output="table").lines[0].startswith("NOT POSSIBLE: undo: ")
    said = run("undo", root, "--apply")
    assert said.status == 3
    assert "has changed since this run, most likely by a broker" in said.err


def test_wrong_words(root: Path) -> None:
    assert run("undo", root, "--list", "--apply").status == 2
    assert run("undo", root, "--run", "kafkalog-undo-1").status == 3
    assert run("undo", root / "none").status == 3
    assert run("undo", root / "meta.properties").status == 3


@pytest.mark.parametrize("at", ["permission", "space", "planner"])
def test_a_segment_that_vanishes_meanwhile(root: Path, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker or a person deletes it between any two looks at it: could not operate, in one sentence."""
    log = root / "t-0" / repairs.LOG
    name = {"permission": "write_problems", "space": "_of_space", "planner": "_interrupted"}[at]
    really = getattr(plan_module, name)

    def first_gone(*arguments: object, **named: object) -> object:
        log.unlink()
        return really(*arguments, **named)

    monkeypatch.setattr(plan_module, name, first_gone)
    said = run("mend", root, "--apply")
    assert said.status == 3
    assert "Traceback" not in said.err
    assert said.err.startswith("kafkalog: ")
    assert said.err.count("\n") == 1


def test_an_error_of_a_file_that_nobody_expected(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*arguments: object, **named: object) -> object:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(root / "t-0" / repairs.LOG))

    monkeypatch.setattr(plan_module, "write_problems", gone)
    said = run("mend", root, "--apply")
    assert said.status == 3
    assert said.err.startswith(
        f"kafkalog: {root}/t-0/{repairs.LOG}: no such file or directory. If another process uses these files"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_root_carries_out_no_plan_of_another_user(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, old = tmp_path / "plan.json", snapshot(root)
    run("mend", root, "--plan-out", file)
    os.chown(file, 1234, 1234)
    said = run("apply", file)
    assert said.status == 3
    assert f"chown root {file} && kafkalog apply {file}" in said.err
    assert snapshot(root) == old
    monkeypatch.setenv("SUDO_UID", "1234")
    assert run("apply", file).status == 0


VALUES = [float("inf"), -1, 10**400, None, [], {}, "\0", "\ud800", True, 1.5, "x"]


@pytest.mark.parametrize("name", ["command", "root", "paths", "options", "now_ms", "undo_to", "changes", "keeps_undo"])
def test_anything_in_a_plan(root: Path, tmp_path: Path, name: str) -> None:
    """Each member and those of each change: carried out as it was planned, or refused in one sentence."""
    file = tmp_path / "plan.json"
    run("mend", root, "--plan-out", file)
    value, old = json.loads(file.read_text()), snapshot(root)
    for each in VALUES:
        kept = value["plans"][0][name]
        value["plans"][0][name] = each
        file.write_text(json.dumps(value))
        value["plans"][0][name] = kept
        if each == kept or (name, each) in [("undo_to", None), ("options", {}), ("root", "x"), ("undo_to", "x")]:
            continue
        said = run("apply", file)
        assert said.status == 3, (name, each, said.err)
        assert "internal error" not in said.err
        assert said.err.count("\n") == 1 + len(commands_of(said.err))
        assert snapshot(root) == old
    for inner in value["plans"][0]["changes"][0]:
        for each in VALUES:
            change = value["plans"][0]["changes"][0]
            kept, change[inner] = change[inner], each
            file.write_text(json.dumps(value))
            change[inner] = kept
            if inner != "why" and each != kept:
                assert run("apply", file).status == 3, (inner, each)
    assert snapshot(root) == old


def test_a_run_that_is_given_up_shows_each_file_and_what_is_deleted_of_it(interrupted: Path) -> None:
    """Neither finished nor taken back: a log that the run had cut was changed by somebody else."""
    log = interrupted / "t-0" / repairs.LOG
    with open(log, "ab") as file:
        file.write(b"x")
    (journal,) = (path.name for path in (interrupted / "t-0").glob("kafkalog-undo-*"))
    said = run("undo", interrupted, "--prune", "--run", journal)
    rows = {(row["file"], row["kind"]): row for row in said.rows if row["type"] == "change"}
    kept = rows[str(log), "keep"]
    assert (kept["topic"], kept["partition"], kept["bytes_before"], kept["bytes_after"]) == ("t", 0, 4101, 4101)
    assert kept["why"].startswith("neither as it was before ")
    deleted = [
        row for row in rows.values() if row["kind"] == "remove" and row["why"] == f"saved content of {repairs.LOG}"
    ]
    assert [row["bytes_before"] for row in deleted] == [9000 - 4100, 4000], "a tail, and the log of t-1"
    assert [(row["topic"], row["partition"]) for row in deleted] == [("t", 0), ("t", 1)]
