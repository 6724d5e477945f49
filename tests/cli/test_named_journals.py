"""Every journal that an output names is there at that moment, and every command that it names finds it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops import planners
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from tests.cli.mend import Said, install, run
from tests.support import repairs
from tests.support.repairs import LOCK_HOLDER, CountingDisk, Disk, DyingDisk, Killed, make_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = re.compile(r"kafkalog-undo-\d{8}T\d{6}Z-\d+")
PATH = re.compile(r"(/[^\s:;,()\"]*kafkalog-undo-\d{8}T\d{6}Z-\d+(?:[\w./-]*\w)?)([^;]*)")
MISSING = re.compile("is not there|is missing|no such file")
COMMAND = re.compile(r"kafkalog ((?:undo|apply --resume) [^;()\"\\]*)")


@pytest.fixture(autouse=True)
def _command(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


class Ways:
    """A log directory, commands on it, and the check of all that they print."""

    def __init__(self, place: Path, *, is_elsewhere: bool, is_narrow: bool) -> None:
        self.place = place
        self.root = make_dir(place / "log")
        self.undo_to = place / "undo" if is_elsewhere else None
        self._options = ["--undo-to", str(self.undo_to)] if is_elsewhere else []
        self._options += ["--narrow"] if is_narrow else []
        self._named = self.root / "t-0" if is_narrow else self.root

    def mend(self, *more: object) -> Said:
        return self.run("mend", self._named, *self._options, *more)

    def undo(self, *more: object) -> Said:
        return self.run("undo", self._named, *more)

    def run(self, *arguments: object) -> Said:
        said = run(*arguments)
        self.check(said)
        return said

    def check(self, said: Said) -> None:
        """Fail where a journal is named that is not there, or a command that does not find its run."""
        text = said.out + said.err
        there = {name for path in self.place.rglob("kafkalog-undo-*") for name in RUN.findall(path.name)}
        assert set(RUN.findall(text)) <= there, text
        for path, rest in PATH.findall(text):
            assert MISSING.search(rest) or (self.place / path).exists(), (path, text)
        for command in COMMAND.findall(text):
            words = [word.rstrip(".") for word in command.split(" --apply", maxsplit=1)[0].split()]
            if words[0] == "undo" and "--run" in words:
                found = run(*words)
                assert "no journal" not in found.err, (command, found.err)

    def kill(self, at: int, *, keeps_undo: bool = True) -> None:
        """Apply, and be killed at a step."""
        with pytest.raises(Killed):
            self._apply(self._named, DyingDisk(at), keeps_undo=keeps_undo)

    def steps(self, *, keeps_undo: bool) -> int:
        """The steps of an apply to the end."""
        twin = make_dir(self.place / "twin")
        counting = CountingDisk()
        self._apply(twin / self._named.relative_to(self.root), counting, keeps_undo=keeps_undo)
        shutil.rmtree(twin)
        return len(counting.steps)

    def _apply(self, named: Path, disk: Disk, *, keeps_undo: bool) -> None:
        undo_to = None if self.undo_to is None or not keeps_undo else str(self.undo_to)
        options = {"is_wide": named.name != "t-0"}
        request = PlanRequest(target=target_dir([str(named)]), options=options, now_ms=repairs.NOW_MS)
        draft = make_plan("reindex", request, undo_to=undo_to, keeps_undo=keeps_undo)
        apply_plan(draft, disk, now_ms=repairs.NOW_MS)


@pytest.fixture(params=["beside", "elsewhere"])
def ways(request: pytest.FixtureRequest, tmp_path: Path, is_narrow: bool) -> Iterator[Ways]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(planners.PLANNERS, "reindex", "tests.cli.mend:plan")
        yield Ways(tmp_path, is_elsewhere=request.param == "elsewhere", is_narrow=is_narrow)


pytestmark = pytest.mark.parametrize("is_narrow", [False, True], ids=["log-dir", "partition"])


def test_one_apply_after_the_other(ways: Ways) -> None:
    for _ in range(2):
        assert ways.mend("--apply").status == 0
        ways.undo("--list")
    ways.mend()
    assert ways.undo("--apply").status == 0
    ways.mend("--apply")
    assert ways.undo("--prune", "--apply").status == 0
    ways.undo()
    assert ways.mend("--apply").status == 0
    ways.undo()


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="only Linux says who holds a lock")
@pytest.mark.parametrize("at", [10, -20])
@pytest.mark.parametrize("keeps_undo", [True, False])
def test_a_run_that_is_at_work_was_not_interrupted(ways: Ways, at: int, keeps_undo: bool) -> None:
    """Its journal may be gone a moment later: no command names it while another process holds the lock."""
    if at < 0:
        at += ways.steps(keeps_undo=keeps_undo)
    ways.kill(at, keeps_undo=keeps_undo)
    command = [sys.executable, "-c", LOCK_HOLDER, str(ways.root / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        for said in (ways.mend(), ways.mend("--apply"), ways.undo(), ways.undo("--list"), ways.undo("--prune")):
            assert "was interrupted" not in said.out + said.err
            assert not re.search("--run|--resume", said.out + said.err)
        child.communicate()
    out = "".join(ways.run("undo", place, "--prune").out for place in (ways.root, ways.undo_to) if place is not None)
    assert "was interrupted" in out or "would free 1" in out


def test_a_plan_is_applied_twice(ways: Ways) -> None:
    plan = ways.place / "plan.json"
    ways.mend("--plan-out", plan)
    for _ in range(2):
        ways.run("apply", plan)
        ways.run("apply", "--resume", plan)
    ways.undo("--prune", "--apply")
    ways.run("apply", plan)
    ways.run("apply", "--resume", plan)


@pytest.mark.parametrize("at", [1, 4, 9, 14, 19, 24, 29, 34])
def test_an_apply_after_one_that_was_killed(ways: Ways, at: int) -> None:
    ways.kill(at)
    ways.mend()
    ways.mend("--apply")
    ways.undo("--list")
    ways.undo("--prune")
    ways.undo("--prune", "--apply")
    ways.undo("--apply")
    assert ways.mend("--apply").status == 0


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_directory_of_undo_to_is_gone(ways: Ways, is_killed: bool) -> None:
    ways.kill(24) if is_killed else ways.mend("--apply")
    if ways.undo_to is not None:
        shutil.rmtree(ways.undo_to)
    for _ in range(2):
        ways.mend("--apply")
        ways.undo("--list")
        ways.undo()
        ways.undo("--prune", "--apply")


def test_nothing_is_kept(ways: Ways) -> None:
    named = ways.root / "t-0"
    for _ in range(2):
        said = ways.run("mend", named, "--narrow", "--no-undo", "--apply")
        assert said.status == 0
        assert said.plan["run"] is None
    assert RUN.search(said.out + said.err) is None
    ways.undo()
    ways.run("apply", "--resume", named)
