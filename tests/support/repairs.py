"""A log directory to be repaired, a planner that changes it in every way, and doors that end or fail at a step."""

from __future__ import annotations

import hashlib
import os
import random
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.format.names import journal_run
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanDraft
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.changing.journal import Journal

OWNER = (1001, 1002) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
NOW_MS = 1_767_323_045_000
LOG = "00000000000000000000.log"
LATER = "00000000000000000050.log"
FILES = {
    "meta.properties": 80,
    ".lock": 0,
    ".kafka_cleanshutdown": 30,
    "recovery-point-offset-checkpoint": 60,
    f"t-0/{LOG}": 9000,
    "t-0/00000000000000000000.index": 64,
    "t-0/00000000000000000000.timeindex": 24,
    f"t-0/{LATER}": 5000,
    "t-0/00000000000000000050.index": 32,
    "t-0/leader-epoch-checkpoint": 12,
    f"t-1/{LOG}": 4000,
    "t-1/00000000000000000000.index": 40,
}
LOCK_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""
"""A program that holds the lock of a log directory, as Java takes it, until its standard input ends."""


def make_dir(root: Path) -> Path:
    """The directory; every file has bytes, permissions and a time of its own."""
    chance = random.Random(7)
    for number, (name, size_bytes) in enumerate(FILES.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(size_bytes))
        os.chown(path, *OWNER)
        path.chmod((0o640, 0o644, 0o600)[number % 3])
        time_ns = 1_600_000_000_123_456_789 + number * 1_000_000_007
        os.utime(path, ns=(time_ns, time_ns))
    note(root / "t-0" / "00000000000000000000.index")
    for directory in (root / "t-0", root / "t-1", root):
        os.chown(directory, *OWNER)
    return root


def note(path: Path) -> None:
    """An extended attribute, where the file system takes one."""
    with suppress(OSError):
        os.setxattr(path, "user.note", b"of the broker")


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """All that a file has, by its name; what kafkalog keeps for itself is left out."""
    found: dict[str, tuple[object, ...]] = {}
    for around, directories, names in os.walk(root):
        directories[:] = [name for name in directories if journal_run(name) is None]
        for name in names:
            path = os.path.join(around, name)
            if journal_run(name) is None:
                status = os.stat(path)
                with open(path, "rb") as file:
                    content = file.read()
                extended = tuple((key, os.getxattr(path, key)) for key in sorted(os.listxattr(path)))
                found[os.path.relpath(path, root)] = (
                    *(content, status.st_uid, status.st_gid, status.st_mode, extended, status.st_mtime_ns),
                )
    return found


def names_of_ours(root: Path) -> list[str]:
    """Files and directories that are kafkalog's own."""
    return sorted(
        os.path.join(around, name)
        for around, directories, names in os.walk(root)
        for name in (*directories, *names)
        if name.startswith("kafkalog-")
    )


def plan(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """The fake planner: every kind of change, in two partitions and at the top, or in one partition alone."""
    del progress
    first = f"{request.target.root}/t-0" if request.target.log_dir else request.target.root
    seed = int(str(request.options.get("seed", 1)))
    content = random.Random(seed).randbytes(3000)
    log = f"{first}/{LOG}"
    stage.write(f"{first}/00000000000000000000.index", [content[:100], content[100:120]], why="index", like=log)
    stage.write(f"{first}/00000000000000000060.snapshot", [content[:10]], why="snapshot", like=log)
    stage.cut(log, 4100, why="cut")
    stage.remove(f"{first}/{LATER}", why="behind the cut")
    stage.remove(f"{first}/00000000000000000050.index", why="behind the cut")
    if request.options.get("is_wide"):
        _plan_wide(request.target.root, content, stage)
    return PlanReport()


def _plan_wide(root: str, content: bytes, stage: Stage) -> None:
    log = f"{root}/t-1/{LOG}"
    stage.write(log, [content[:2000], b"", content[2000:]], why="log", like=log, mtime_ns=1_500_000_000_000_000_001)
    top = f"{root}/meta.properties"
    stage.write(f"{root}/recovery-point-offset-checkpoint", [b"0\n0\n"], why="checkpoint", like=top)
    stage.write(f"{root}/log-start-offset-checkpoint", [b"0\n1\n"], why="checkpoint", like=top)
    stage.remove(f"{root}/.kafka_cleanshutdown", why="marker")


def draft_of(root: Path, *, undo_to: Path | None = None, **options: Any) -> PlanDraft:
    """A plan of the fake planner."""
    request = PlanRequest(target=target_dir([str(root)]), options=options, now_ms=NOW_MS)
    return make_plan("reindex", request, undo_to=None if undo_to is None else str(undo_to))


def apply_to(root: Path, disk: Disk, *, undo_to: Path | None = None, **options: Any) -> Journal:
    """Plan and apply."""
    return apply_plan(draft_of(root, undo_to=undo_to, **options), disk, now_ms=NOW_MS)


def interrupt(root: Path, **options: Any) -> None:
    """Apply, and be killed before the first file of the last partition is put in place."""
    last = root / ("t-1" if options.get("is_wide") else "t-0")
    with pytest.raises(Killed):
        apply_to(root, PlacingDisk(last), **options)


def undo_all(root: Path, disk: Disk | None = None) -> None:
    """Take back what there is to be taken back, and free the rest."""
    scope = scope_of(str(root))
    if any(journal.state not in {"undone", "pruning"} for journal in scope.found.journals):
        apply_undo(plan_undo(scope), disk or Disk())
    apply_prune(plan_prune(scope_of(str(root))), disk or Disk())


def resume_or_apply(root: Path, disk: Disk | None = None, **options: Any) -> None:
    """Finish what was begun; what had not begun is done from the start."""
    scope = scope_of(str(root))
    door = disk or Disk()
    if scope.interrupted():
        resume(scope.interrupted()[0], door)
    elif not any(journal.state == "complete" for journal in scope.found.journals):
        apply_to(root, door, **options)


class Killed(BaseException):
    """The process has been killed; nothing of it runs any more."""


NOTED = ("create", "link", "rename", "unlink", "fsync", "truncate", "rmdir", "mkdir", "write")


class NotingDisk(Disk):
    """Notes its steps by short names, and may end or fail at one of them.

    Args:
        root: directory that names are relative to.
        at: the step, as it is noted.
        error: what it ends with.
        links: whether the file system has hard links.
    """

    def __init__(self, root: Path, at: str = "", error: BaseException | None = None, *, links: bool = True) -> None:
        self.lines: list[list[str]] = [[]]
        self._root = root
        self._at = at
        self._error = error
        self._links = links

    def step(self, what: str, path: str) -> None:
        if what not in NOTED:
            return
        name = os.path.relpath(path, self._root).replace("0" * 16, "~")
        name = re.sub(r"kafkalog-undo-[0-9TZ]+-1", "J", name)
        line, step = self.lines[-1], f"{what} {name}"
        if what != "write" or (line[-1:] != [f"create {name}"] and line[-1:] != [step]):
            line.append(step)
        if what == "fsync":
            self.lines.append([])
        if self._error is not None and step == self._at:
            error, self._error, self.lines = self._error, None, [[]]
            raise error

    def link(self, path: str, new_path: str) -> bool:
        return self._links and super().link(path, new_path)

    def text(self) -> str:
        return "\n".join(", ".join(line) for line in self.lines if line)


class CountingDisk(Disk):
    """Knows its steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, what: str, path: str) -> None:
        del path
        self.steps.append(what)


class DyingDisk(Disk):
    """Ends before a step, or in the middle of it where that is a write; there is nothing after."""

    def __init__(self, at: int, *, torn: bool = False) -> None:
        self._left = at
        self._torn = torn

    def step(self, what: str, path: str) -> None:
        del path
        self._left -= 1
        if self._left < 0 and not (self._torn and what == "write" and self._left == -1):
            raise Killed

    def _put(self, number: int, data: memoryview) -> int:
        if self._left < 0:
            os.write(number, data[: len(data) // 2])
            raise Killed
        return super()._put(number, data)


class PlacingDisk(Disk):
    """Ends before a file of one directory is put in place: the intent and what is staged are on the disk by then."""

    def __init__(self, directory: Path, how: str = "link") -> None:
        self._directory = str(directory)
        self._how = how

    def step(self, what: str, path: str) -> None:
        if what == self._how and path.endswith(".tmp") and os.path.dirname(path) == self._directory:
            raise Killed


class FailingDisk(Disk):
    """Fails at one step, or from it on."""

    def __init__(self, at: int, number: int, *, forever: bool = False) -> None:
        self._left = at
        self._number = number
        self._forever = forever

    def step(self, what: str, path: str) -> None:
        self._left -= 1
        if self._left == -1 or (self._forever and self._left < 0):
            raise OSError(self._number, os.strerror(self._number), path)


class UnlinkingDisk(Disk):
    """On a file system without hard links, and with writes that take a few bytes at a time."""

    def link(self, path: str, new_path: str) -> bool:
        del path, new_path
        return False

    def _put(self, number: int, data: memoryview) -> int:
        return super()._put(number, data[:700])


class StepLimit:
    """Lets a run end before a step, whatever disk it uses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self.limit = 10**9
        monkeypatch.setattr(Disk, "step", self._step)

    def _step(self, what: str, path: str) -> None:
        del what, path
        self.steps += 1
        if self.steps > self.limit:
            raise Killed

    def run(self, limit: int, act: Callable[[], object]) -> int:
        """Run, killed before the step after `limit` others; the number of steps."""
        self.steps, self.limit = 0, limit
        with suppress(Killed):
            act()
        self.limit = 10**9
        return self.steps


def plan_mark(request: PlanRequest, stage: Stage, progress: object) -> PlanReport:
    """Changes a file of a partition, and marks the log directory clean at the end."""
    del progress
    root = request.target.root
    stage.write(f"{root}/t-0/{0:020}.index", [b"12345678"], why="index", like=f"{root}/t-0/{0:020}.log")
    stage.write(f"{root}/.kafka_cleanshutdown", [b"{}"], why="all is whole", like=f"{root}/meta.properties")
    return PlanReport()


def sealed(value: dict[str, Any]) -> bytes:
    """The text of a journal as kafkalog seals it."""
    members = {name: member for name, member in value.items() if name != "sha256"}
    text = json_text(members).encode("utf-8", "backslashreplace")
    return json_text({"sha256": hashlib.sha256(text).hexdigest(), **members}).encode("utf-8", "backslashreplace")
