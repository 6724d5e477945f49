"""A repair of a directory whose files are the input: planned, applied, disturbed, finished and taken back."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import KafkalogError, UnfinishedError
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import CountingDisk, DyingDisk, FailingDisk, Killed, snapshot
from tools.fuzz.directories import ELSEWHERE, MTIME_MS, PARTITIONS, empty_disk, fill_disk, unpack, written_paths
from tools.fuzz.memory import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.repair.plan import Json, PlanDraft
    from kafkalog_core.ops.repair.undo import Scope

__all__ = ["repaired"]

_COMMANDS: Final[tuple[tuple[str, dict[str, Json]], ...]] = (
    ("reindex", {}),
    ("truncate", {"at_damage": True}),
    ("truncate", {"as_broker": True}),
    ("retain", {}),
    ("checkpoint", {}),
    ("compact", {"force": True}),
    ("reindex", {"all": True}),
    ("checkpoint", {"mark_clean": True}),
)
_WAYS: Final = ("--undo-to", "--no-undo", "beside", "--no-undo")
_NOW_MS: Final = MTIME_MS + 10**12
_ASSIGNMENTS: Final = ("retention.bytes=1", "retention.ms=1000", "log.index.interval.bytes=100")


class _Options(NamedTuple):
    """What the first two bytes of an input say; all zero is the most common run."""

    first: int
    second: int

    @property
    def command(self) -> tuple[str, dict[str, Json]]:
        return _COMMANDS[self.first & 7]

    @property
    def way(self) -> str:
        return _WAYS[self.first >> 3 & 3]

    @property
    def is_full(self) -> bool:
        return bool(self.first & 32)

    @property
    def partition(self) -> str:
        return PARTITIONS[self.first >> 6 & 1]

    @property
    def part(self) -> int:
        """How far the run comes that is disturbed, of 32."""
        return self.second >> 3


class _Repair:
    """One command on one directory, from the start again and again."""

    def __init__(self, options: _Options, data: bytes) -> None:
        self._options = options
        self._data = data
        self._undo_to = f"{ELSEWHERE}/journals"

    def fresh(self) -> str:
        """Write the directory; the path to it."""
        shutil.rmtree(ELSEWHERE, ignore_errors=True)
        ELSEWHERE.mkdir()
        empty_disk()
        (path,) = written_paths(self._options.partition, unpack(self._data)[1], 0)
        if self._options.is_full:
            fill_disk()
        return path

    def draft(self, root: str) -> PlanDraft:
        """Plan. Raises KafkalogError."""
        command, options = self._options.command
        policy = "compact" if command == "compact" else "delete"
        assignments = [*_ASSIGNMENTS, f"cleanup.policy={policy}"]
        kafka = {"kafka": "4.3", "assignments": assignments, "assume_defaults": True}
        request = PlanRequest(target=target_dir([root]), options={"kafka": kafka, **options}, now_ms=_NOW_MS)
        undo_to = self._undo_to if self._options.way == "--undo-to" else None
        return make_plan(command, request, undo_to=undo_to, keeps_undo=self._options.way != "--no-undo")

    def apply(self, root: str, disk: Disk) -> bool:
        """Plan and apply; whether anything was to be done. Raises KafkalogError."""
        draft = self.draft(root)
        if not draft.plan.changes or draft.plan.obstacles:
            return False
        apply_plan(draft, disk, now_ms=_NOW_MS)
        return True

    def scope(self, root: str) -> Scope:
        """What leads to the journal."""
        if not os.path.isdir(self._undo_to):
            return scope_of(root)
        scope = scope_of(root, [self._undo_to])
        return scope if scope.found.journals else scope_of(self._undo_to, [root])

    def finish(self, root: str) -> None:
        """Finish a run that was disturbed, or begin again. Raises KafkalogError."""
        interrupted = self.scope(root).interrupted()
        if interrupted:
            resume(interrupted[0], Disk())
        elif not self.scope(root).found.journals:
            self.apply(root, Disk())

    def take_back(self, root: str) -> None:
        """Take back what there is; where that lacks room, make some. Raises KafkalogError."""
        scope = self.scope(root)
        if any(journal.state != "undone" for journal in scope.found.journals):
            if any(not space.is_enough for space in plan_undo(scope).spaces):
                empty_disk()
            apply_undo(plan_undo(self.scope(root)), Disk())


def repaired(data: bytes) -> object:
    """Whatever ends a repair, it is taken back to the byte, or finished as if nothing had happened."""
    head, _ = unpack(data)
    options = _Options(*head.ljust(2, b"\0"))
    repair = _Repair(options, data)
    root = repair.fresh()
    old = snapshot(Path(root))
    disk = CountingDisk()
    try:
        is_done = repair.apply(root, disk)
    except UnfinishedError as error:
        raise AssertionError(f"an apply that nothing disturbed is not finished: {error}") from error
    except KafkalogError as error:
        check(snapshot(Path(root)) == old, f"refused, and something has changed: {error}")
        return type(error).__name__, str(error)
    new = _bytes(root)
    if not is_done:
        check(snapshot(Path(root)) == old, "nothing was to be done, and something has changed")
        return "nothing"
    keeps = options.way != "--no-undo"
    if keeps:
        repair.take_back(root)
        check(snapshot(Path(root)) == old, "it is not taken back")
    at = options.part * len(disk.steps) // 32
    for disturbance in _disturbances(at):
        _check_disturbed(repair, disturbance, old, new, keeps=keeps)
    return sorted((name, size) for name, size in ((name, len(content)) for name, content in new.items()))


def _disturbances(at: int) -> Iterator[Disk]:
    yield DyingDisk(at, torn=True)
    yield FailingDisk(at, errno.ENOSPC, forever=True)
    yield FailingDisk(at, errno.EIO)


def _check_disturbed(
    repair: _Repair, disk: Disk, old: dict[str, tuple[object, ...]], new: dict[str, bytes], *, keeps: bool
) -> None:
    root = repair.fresh()
    what, is_begun = type(disk).__name__, True
    with suppress(Killed, UnfinishedError):
        try:
            repair.apply(root, disk)
        except UnfinishedError:
            raise
        except KafkalogError as error:
            is_begun = False
            check(snapshot(Path(root)) == old, f"{what}: {error}, and something has changed")
    was_prepared = bool(repair.scope(root).interrupted())
    if keeps:
        repair.take_back(root)
        check(snapshot(Path(root)) == old, f"{what}: it is not taken back")
        return
    if is_begun:
        repair.finish(root)
        now = _bytes(root)
        others = {name for name in {*now, *new} if now.get(name) != new.get(name)}
        check(not (was_prepared and others), f"{what}: not finished as planned: {others}")
        check(not any(".tmp" in name for name in now), f"{what}: something is left: {sorted(now)}")


def _bytes(root: str) -> dict[str, bytes]:
    return {name: bytes(row[0]) for name, row in snapshot(Path(root)).items() if isinstance(row[0], bytes)}
