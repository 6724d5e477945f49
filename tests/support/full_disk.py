"""A small file system of its own (tmpfs) that is full to the last byte, a log directory on it, and its repair.

`python -m tests.support.full_disk FILE [STRIDE]` is the long run: every command that changes files, and its undo, ends
by `kill -9` before each step of its writing, and fails at each with ENOSPC and EIO: with the journal elsewhere and
without one, at 0 bytes free (or where that is refused, with not one block more than it asks for) and on a disk with
room. Each time no record is lost that the plan keeps, the run is taken back to the byte, and finished to the bytes of
an undisturbed one. `roll --to` and `compact --to` leave the full disk as it is, and the new directory is whole or not
there. The result table goes to FILE. The tests of the full disk run a sample of the same.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import KafkalogError, RefusedError, UnfinishedError
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.ops.compact.planning import compact_to
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.ops.roll.roll import RollRequest, roll
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.support import build
from tests.support.repairs import CountingDisk, DyingDisk, FailingDisk, Killed, snapshot
from tests.support.truncating import EPOCHS, RECOVERY, STARTS, WATERMARKS, write_log, write_tops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.ops.repair.plan import PlanDraft
    from kafkalog_core.ops.repair.undo import Scope, UndoPlan

__all__ = ["CASES", "END", "Case", "FullDisk", "NewDirRounds", "Rounds", "mounted_disk", "write_patient"]

FILLER = "filler"
SHM = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 -- another file system, and a quick one
SEGMENTS = {0: (0, 1), 10: (10, 11), 20: (20, 21)}
END = 22
PARTITIONS = ("t-0", "u-0")


class FullDisk:
    """The file system; `fill` leaves 0 bytes free."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path / "data"

    @property
    def free_bytes(self) -> int:
        """What root may still write."""
        status = os.statvfs(self.path)
        return status.f_bfree * status.f_frsize

    def reset(self, pristine: Path, *, free_bytes: int | None = 0) -> Path:
        """The log directory as it was, on a disk with that many bytes free; `None`: with room."""
        for each in self.path.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        shutil.copytree(pristine, self.root)
        if free_bytes is not None:
            self.leave(free_bytes)
        return self.root

    def leave(self, free_bytes: int) -> None:
        """Fill it but for that many bytes."""
        self.fill()
        filler = self.path / FILLER
        os.truncate(filler, filler.stat().st_size - free_bytes)
        assert self.free_bytes == free_bytes

    def fill(self) -> None:
        """Write until nothing more fits."""
        number = os.open(self.path / FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(number, bytes(1024 * 1024))
        except OSError:
            pass
        finally:
            os.close(number)
        assert self.free_bytes == 0


@contextmanager
def mounted_disk(size: str = "1m") -> Iterator[FullDisk]:
    """A tmpfs while entered; the test is skipped where this user may not mount one."""
    place = Path(tempfile.mkdtemp(prefix="kafkalog-full-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    try:
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no tmpfs can be mounted here, which takes root")
        yield FullDisk(place)
    finally:
        if os.path.ismount(place):
            subprocess.run(["umount", "--lazy", str(place)], check=True)  # journals keep directories open
        place.rmdir()


def write_patient(root: Path, command: str = "retain") -> Path:
    """A log directory of 4.3 with two partitions of three segments, and what a command finds wrong with them."""
    for partition in PARTITIONS:
        batches = {base: [_batch(offset) for offset in offsets] for base, offsets in SEGMENTS.items()}
        directory = write_log(root / partition, batches)
        for base in (10, 20):
            (directory / f"{base:020}.snapshot").write_bytes(build.snapshot([]))
        (directory / EPOCHS).write_bytes(build.epoch_checkpoint([(0, 0), (1, 21)]))
    offsets = [(name[0], 0, 0) for name in PARTITIONS]
    ends = [(name[0], 0, END) for name in PARTITIONS]
    is_clean = command in {"reindex", "compact"}
    write_tops(root, recovery=ends if is_clean else offsets, watermarks=ends, starts=offsets, is_clean=is_clean)
    assert {path.name for path in root.iterdir()} >= {RECOVERY, STARTS, WATERMARKS}
    (root / ".lock").touch()
    _HARM[command](root)
    return root


def _batch(offset: int) -> bytes:
    key, value = b"key-%d" % (offset % 3), bytes([offset]) * 20000
    return build.batch_v2([build.Record(offset=offset, timestamp_ms=1000 + offset, key=key, value=value)])


def _tear(root: Path) -> None:
    """The last append to the second partition was cut short."""
    torn = root / "u-0" / f"{20:020}.log"
    torn.write_bytes(torn.read_bytes() + torn.read_bytes()[:18000])


def _spoil_indexes(root: Path) -> None:
    """The indexes of a segment of each partition lead beyond its log."""
    for partition, base in (("t-0", 10), ("u-0", 0)):
        for suffix, entry in ((".index", (5000, 5000000)), (".timeindex", (10**12, 5000))):
            make = build.offset_index if suffix == ".index" else build.time_index
            (root / partition / f"{base:020}{suffix}").write_bytes(make([entry]))


def _spoil_texts(root: Path) -> None:
    """A checkpoint with a broken line, and leader epochs that go back."""
    (root / STARTS).write_bytes(b"0\n2\nt 0 0\nu 0 x\n")
    (root / "t-0" / EPOCHS).write_bytes(b"0\n2\n0 0\n0 21\n")


_HARM = {
    "recover": _tear,  # before damage in the middle is excised, a start truncates the log there
    "retain": _tear,
    "truncate": _tear,
    "reindex": _spoil_indexes,
    "checkpoint": _spoil_texts,
    "compact": lambda root: None,
}


@dataclass(frozen=True)
class Case:
    """A command, where its undo journal is, and what is free on the disk.

    `room`: `full`: 0 bytes; `least`: what the plan asks for, and not one block more; `room`: a lot.
    """

    command: str
    options: dict[str, Any]
    keeps_undo: bool
    room: str = "full"

    def __str__(self) -> str:
        named = [name.replace("_", "-") for name, value in self.options.items() if value is True]
        named += [f"{value}" for name, value in self.options.items() if name == "assignment"]
        way = "--undo-to" if self.keeps_undo else "--no-undo"
        free = {"full": "0 bytes free", "least": "no more free than asked for", "room": "with room"}[self.room]
        return f"{' '.join([self.command, *named])} {way}, {free}"


COMMANDS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("retain", {"assignment": "retention.bytes=45000"}, "full"),
    ("retain", {"assignment": "retention.bytes=0"}, "full"),
    ("truncate", {"at_damage": True}, "full"),
    ("truncate", {"as_broker": True}, "full"),
    ("recover", {"only_copy": True}, "least"),
    ("reindex", {}, "full"),
    ("checkpoint", {}, "least"),
    ("compact", {"force": True}, "least"),
)
CASES = tuple(
    Case(command, options, keeps_undo, room)
    for is_tight in (True, False)
    for command, options, tight in COMMANDS
    for keeps_undo in (True, False)
    for room in [tight if is_tight else "room"]
)
"""A checkpoint has to be whole before it takes the place of the old one, and a cleaned segment too."""

CORRECTED_BY_A_START = (RECOVERY, STARTS, WATERMARKS, EPOCHS, ".index", ".timeindex", ".snapshot")
"""Indexes whose log is gone, among them."""
RELEASE = "4.3"
NOW_MS = 10**13


class SigkillDisk(CountingDisk):
    """Ends the process before a step, as `kill -9` does."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def step(self, what: str, path: str) -> None:
        if len(self.steps) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        super().step(what, path)


class Rounds:
    """Rounds of one case: each begins on the same disk.

    Args:
        case: what is done.
        disk: where.
        place: a directory on another file system.
        is_real: whether kills are those of a process of its own.
    """

    def __init__(self, case: Case, disk: FullDisk, place: Path, *, is_real: bool = False) -> None:
        self.case = case
        self._disk = disk
        self._pristine = place / "pristine" / case.command
        self._is_real = is_real
        if not self._pristine.exists():
            write_patient(self._pristine, case.command)
        self._undo_to = place / "elsewhere" / "journals"
        self.free_bytes: int | None = None if case.room == "room" else 0
        self.reset()
        if case.room == "least":
            self.free_bytes = self.needed_bytes()
            self.reset()
        self.old = snapshot(disk.root)
        counting = CountingDisk()
        self.apply(counting)
        self.steps = counting.steps
        self.new = self._shown()
        self._goal = self._kept()
        self.undo_steps = self._count_undo() if case.keeps_undo else []

    @property
    def root(self) -> str:
        """The log directory."""
        return str(self._disk.root)

    def reset(self) -> None:
        """Begin again."""
        self._disk.reset(self._pristine, free_bytes=self.free_bytes)
        shutil.rmtree(self._undo_to.parent, ignore_errors=True)

    def needed_bytes(self) -> int:
        """What the plan needs on the disk."""
        return next(each.needed_bytes for each in self.draft().plan.spaces if each.path.startswith(self.root))

    def draft(self, *, beside: bool = False) -> PlanDraft:
        """The plan; `beside`: with its journal next to the files."""
        options = dict(self.case.options)
        policy = "compact" if self.case.command == "compact" else "delete"
        assignments = [f"cleanup.policy={policy}", "retention.ms=-1"]
        assignments += [options.pop("assignment")] if "assignment" in options else []
        kafka = {"kafka": RELEASE, "assignments": assignments, "assume_defaults": policy == "compact"}
        request = PlanRequest(target=target_dir([self.root]), options={"kafka": kafka, **options}, now_ms=NOW_MS)
        undo_to = str(self._undo_to) if self.case.keeps_undo and not beside else None
        return make_plan(self.case.command, request, undo_to=undo_to, keeps_undo=self.case.keeps_undo)

    def apply(self, disk: Disk) -> None:
        """Plan and apply."""
        apply_plan(self.draft(), disk, now_ms=NOW_MS)

    def kill(self, at: int) -> None:
        """Apply, and end before a step."""
        self.reset()
        self._die(self.apply, at)

    def _die(self, act: Callable[[Disk], object], at: int) -> None:
        if not self._is_real:
            with suppress(Killed):
                act(DyingDisk(at))
            return
        child = os.fork()
        if not child:
            try:
                act(SigkillDisk(at))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def check_killed(self, at: int) -> int:
        """Kill; a start loses nothing that the plan keeps; take it back, or finish it. How many kills that were."""
        self.kill(at)
        kept = self._kept()
        assert all(self._goal[name] <= kept[name] for name in kept), f"{self.case}: step {at} loses records"
        self._check_finish(f"{self.case}: step {at}")
        if not self.case.keeps_undo:
            return 1
        self.kill(at)
        self._take_back()
        assert snapshot(self._disk.root) == self.old, f"{self.case}: step {at} is not taken back"
        return 2

    def check_failed(self, at: int, number: int, *, forever: bool) -> int:
        """Let a step fail; nothing has been changed then, or it can be finished. How many errors that were."""
        self.reset()
        is_begun = True
        try:
            self.apply(FailingDisk(at, number, forever=forever))
        except UnfinishedError:
            pass
        except KafkalogError:
            is_begun = False
        if not is_begun:
            assert snapshot(self._disk.root) == self.old, f"{self.case}: step {at} fails and changes files"
        self._check_finish(f"{self.case}: step {at} fails")
        return 1

    # --- and back -----------------------------------------------------------------------------------------------------
    def _count_undo(self) -> list[str]:
        self._applied()
        counting = CountingDisk()
        self.take_back(counting)
        assert snapshot(self._disk.root) == self.old, f"{self.case}: is not taken back"
        return counting.steps

    def _applied(self) -> None:
        """Apply; on a full disk what comes free is taken by something else, but for what the undo asks for."""
        self.reset()
        self.apply(Disk())
        if self.case.room != "room":
            self._disk.fill()
            plan = plan_undo(self._scope())
            if self._needed(plan):
                self._check_refused(plan)
            self._disk.leave(self._needed(plan))

    def _needed(self, plan: UndoPlan) -> int:
        return next(each.needed_bytes for each in plan.spaces if each.path.startswith(self.root))

    def _check_refused(self, plan: UndoPlan) -> None:
        """Without room nothing is changed."""
        now = snapshot(self._disk.root)
        with pytest.raises(RefusedError, match="nothing has been changed"):
            apply_undo(plan, Disk())
        assert snapshot(self._disk.root) == now

    def take_back(self, disk: Disk) -> None:
        """Plan and apply an undo."""
        apply_undo(plan_undo(self._scope()), disk)

    def check_undo_killed(self, at: int) -> int:
        """Kill an undo; a start loses nothing that the repair kept, and it is finished. How many kills that were."""
        self._applied()
        self._die(self.take_back, at)
        kept = self._kept()
        assert all(self._goal[name] <= kept[name] for name in kept), f"{self.case}: step {at} of the undo loses records"
        if self._scope().found.journals[0].state != "undone":
            self.take_back(Disk())
        assert snapshot(self._disk.root) == self.old, f"{self.case}: step {at} of the undo is not finished"
        return 1

    # --- what is there ------------------------------------------------------------------------------------------------
    def _scope(self) -> Scope:
        """The journal, from the log directory, or from its own where there was no room for a pointer."""
        if not self._undo_to.is_dir():
            return scope_of(self.root)
        scope = scope_of(self.root, [str(self._undo_to)])
        return scope if scope.found.journals else scope_of(str(self._undo_to), [self.root])

    def _check_finish(self, what: str) -> None:
        """Finish it. Where deletions and cuts were made ahead of the intent, a start may have to correct the rest."""
        is_rest_planned = self.case.command not in {"retain", "truncate"} or self.case.room == "room"
        is_exact = self.case.keeps_undo or is_rest_planned or bool(self._scope().interrupted())
        self._finish()
        now = self._shown()
        others = {name for name in {*now, *self.new} if now.get(name) != self.new.get(name)}
        allowed = set() if is_exact else {name for name in others if name.endswith(CORRECTED_BY_A_START)}
        assert others <= allowed, f"{what}: not finished: {sorted(others)}"
        assert self._kept() == self._goal, what

    def _finish(self) -> None:
        scope = self._scope()
        if scope.interrupted():
            resume(scope.interrupted()[0], Disk())
        elif not scope.found.journals and self.draft().plan.changes:
            self.apply(Disk())

    def _take_back(self) -> None:
        scope = self._scope()
        if not scope.found.journals:
            return
        plan = plan_undo(scope)
        if plan.obstacles and self.case.command == "compact":  # old segments are whole before the new ones are deleted
            self._check_refused(plan)
            self._disk.leave(self._needed(plan))
        self.take_back(Disk())

    def _shown(self) -> dict[str, object]:
        """Content and attributes of all files but for the times of those that were written."""
        now = snapshot(self._disk.root)
        return {name: row[:-1] if row != self.old.get(name) else row for name, row in now.items()}

    def _kept(self) -> dict[str, set[tuple[int, int]]]:
        """What can be read of each partition when a broker has started on a copy."""
        release = parse_release(RELEASE)
        snapshots = SnapshotOptions.of_release(release, now_ms=NOW_MS, expiration_ms=10**12)
        options = LoadOptions(release=release, settings=Settings(release=release).for_topic("t"), snapshots=snapshots)
        found = {}
        for name in PARTITIONS:
            partition = read_partition(f"{self.root}/{name}")
            context = read_broker_dir(read_log_dir(self.root)).context(partition.name, as_loaded=True)
            load = PartitionLoad(partition, context, options)
            for _ in load.run():
                pass
            assert load.result.problem is None, load.result.problem
            paths = [each.segment.files[0].path for each in load.result.segments if each.segment is not None]
            batches = (batch for path in paths for batch in _batches(Path(path).read_bytes()))
            found[name] = {each for each in batches if each[1] < load.result.end_offset}
        return found


def _batches(log: bytes) -> Iterator[tuple[int, int]]:
    """First and last offset of every whole batch."""
    position = 0
    while position + 61 <= len(log):
        base = int.from_bytes(log[position : position + 8], "big")
        last = base + int.from_bytes(log[position + 23 : position + 27], "big")
        position += 12 + int.from_bytes(log[position + 8 : position + 12], "big")
        if position <= len(log):
            yield base, last


class NewDirRounds:
    """Rounds of a command that writes a new directory: the disk that it reads is full, and stays as it is."""

    def __init__(self, command: str, disk: FullDisk, place: Path) -> None:
        self._command = command
        self._disk = disk
        self._place = place / "new"
        pristine = place / "pristine" / "compact"
        if not pristine.exists():
            write_patient(pristine, "compact")
        disk.reset(pristine)
        self._old = snapshot(disk.root)
        counting = CountingDisk()
        self.write(counting)
        self.steps = counting.steps
        self._new = _contents(self._place / "to")

    def write(self, disk: Disk, to: Path | None = None) -> None:
        """Write the directory."""
        if to is None:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place.mkdir()
        target, report = str(to or self._place / "to"), Report()
        targets = resolve([str(self._disk.root)], Selection())
        kafka = SettingsRequest(kafka=RELEASE, assignments=("cleanup.policy=compact",), assume_defaults=True)
        if self._command == "roll":
            rolls = roll(RollRequest(targets=tuple(targets), kafka=kafka, to=target), report, disk=disk)
            assert len(list(rolls)) == len(PARTITIONS)
            return
        request = CompactRequest(targets=tuple(targets), kafka=kafka, now_ms=NOW_MS, force=True)
        assert len(list(compact_to(request, target, report, disk=disk))) == len(PARTITIONS)

    def check_refused(self) -> None:
        """On the full disk itself it does not begin."""
        with pytest.raises(RefusedError, match=r"bytes are needed, and 0 are free"):
            self.write(Disk(), self._disk.path / "to")
        assert sorted(each.name for each in self._disk.path.iterdir()) == ["data", FILLER]

    def check_killed(self, at: int) -> int:
        """Kill; the source is as it was, and the directory is whole or not there."""
        child = os.fork()
        if not child:
            try:
                self.write(SigkillDisk(at))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert snapshot(self._disk.root) == self._old
        assert not (self._place / "to").exists() or _contents(self._place / "to") == self._new
        return 1


def _contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _run(disk: FullDisk, place: Path, stride: int) -> Iterator[str]:
    totals = [0, 0]
    yield "kills  errors  steps  command\n"
    for case in CASES:
        rounds = Rounds(case, disk, place, is_real=True)
        step = stride if case.room != "room" else 3 * stride
        points = range(0, len(rounds.steps), step)
        kills = sum(rounds.check_killed(at) for at in points)
        errors = sum(
            rounds.check_failed(at, number, forever=number == errno.ENOSPC)
            for number in (errno.ENOSPC, errno.EIO)
            for at in points
        )
        totals = [totals[0] + kills, totals[1] + errors]
        yield f"{kills:5}  {errors:6}  {len(rounds.steps):5}  {case}\n"
        if rounds.undo_steps:
            kills = sum(rounds.check_undo_killed(at) for at in range(0, len(rounds.undo_steps), step))
            totals[0] += kills
            yield f"{kills:5}       -  {len(rounds.undo_steps):5}  undo of {case}\n"
    for command in ("roll", "compact"):
        new_dir = NewDirRounds(command, disk, place)
        new_dir.check_refused()
        kills = sum(new_dir.check_killed(at) for at in range(0, len(new_dir.steps), stride))
        totals[0] += kills
        yield f"{kills:5}       -  {len(new_dir.steps):5}  {command} --to another disk, 0 bytes free\n"
    yield f"{totals[0]:5}  {totals[1]:6}         in all: nothing lost, each taken back to the byte or finished\n"


def main() -> None:
    """The long run; a second argument: the stride in steps."""
    stride = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    lines = []
    with mounted_disk() as disk, tempfile.TemporaryDirectory(dir=SHM) as place:
        for line in _run(disk, Path(place), stride):
            sys.stderr.write(line)
            lines.append(line)
    Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
