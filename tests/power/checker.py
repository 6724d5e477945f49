"""Makes the states of a scenario on the disk, recovers each as a user would, and says what is wrong with it.

Of each state of a run, and of its `apply --resume`:

- A broker that starts on it loses no record that the run keeps; where segments are replaced, it finds the old log or
  the new one. Its files have owners and permissions with which it can open them.
- `undo --apply` gives back every byte, owner, permission and time from before; `undo --prune --apply` leaves nothing.
- `apply --resume` finishes it; where it had not begun, everything is as before (or done), and the command that is then
  run leads to the same. No state refuses both.

Of each state of an undo the first two, of a prune that nothing of the broker's has changed, that what is left can be
freed, and that the next command is not refused. A new directory (`--to`) is there whole or not at all.

Not compared: the times of files that the run writes, and the lock file, which a broker makes by itself.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_core.ops.logdirs.brokerdir import read_broker_dir
from kafkalog_core.ops.logdirs.context import PartitionContext
from kafkalog_core.ops.recovery.partition import PartitionLoad
from kafkalog_core.ops.recovery.results import LoadOptions
from kafkalog_core.ops.recovery.snapshots import SnapshotOptions
from kafkalog_core.ops.releases.release import parse_release
from kafkalog_core.ops.releases.settings import Settings
from kafkalog_core.storage.logdir import is_broker_dir, read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.power.models import MODELS, with_unsynced
from tests.power.recorder import recorded
from tests.power.scenarios import CASES, PARTITIONS, Place, Scenario, command, killed, write_patient
from tests.storage.repairs import names_of_ours, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.power.models import State
    from tests.power.recorder import Recording

__all__ = ["Checker", "Problem"]

Files = dict[str, tuple[object, ...]]
KILLED_AT = 0.85
LOCK, OWN_LOCK = ".lock", "kafkalog-lock"
RELEASE = parse_release("4.3")
OPTIONS = LoadOptions(
    release=RELEASE,
    settings=Settings(release=RELEASE).for_topic("t"),
    snapshots=SnapshotOptions.of_release(RELEASE, now_ms=10**13, expiration_ms=10**12),
)


@dataclass(frozen=True)
class Problem:
    """What is wrong with a state."""

    scenario: Scenario
    model: str
    state: str
    message: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.scenario} [{self.model}, {self.state}]: {self.message}"


@dataclass
class Checker:
    """One scenario: recorded when made.

    Args:
        scenario: what is done.
        place: where; the same directories for all states, since journals hold paths.
    """

    scenario: Scenario
    place: Place
    recording: Recording = field(init=False)

    def __post_init__(self) -> None:
        for each in filter(None, (self.place.top, self.place.other)):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir(parents=True)
        scenario, place = self.scenario, self.place
        write_patient(scenario, place)
        self._before = snapshot(place.root)
        self._logs_before = self._logs()
        run = self._runner()
        run()
        self._after, self._logs_after = self._shown(), self._logs()
        self._new = snapshot(place.top / "new") if CASES[scenario.case].is_new_dir else {}
        self._reset()
        recording = self._record(run)
        if scenario.unsynced is not None:
            path = f"{place.root}/{scenario.unsynced}"
            recording = with_unsynced(recording, path, _size(self._before[scenario.unsynced]) * 3 // 4)
        self.recording = recording

    def states(self, model: str, seed: int = 0) -> Iterator[State]:
        """Yield what a loss of power may leave, each once."""
        seen: set[int] = set()
        for state in MODELS[model](self.recording, seed):
            key = state.tree.key()
            if key not in seen:
                seen.add(key)
                yield state

    def check(self, model: str, state: State) -> list[Problem]:
        """Return what is wrong with a state."""
        return [Problem(self.scenario, model, state.label, message) for message in self._messages(state)]

    def _messages(self, state: State) -> Iterator[str]:
        phase, case = self.scenario.phase, CASES[self.scenario.case]
        state.tree.write()
        yield from self._of_broker()
        if case.is_new_dir:
            yield from self._of_new_dir()
        elif phase == "prune":
            yield from self._of_prune()
        else:
            if self.scenario.journal != "none":
                yield from self._taken_back()
            if phase != "undo":
                state.tree.write()
                yield from self._finished()

    # --- recording ----------------------------------------------------------------------------------------------------
    def _runner(self) -> Callable[[], None]:
        line = self.scenario.arguments(self.place)

        def run() -> None:
            status, output = command(*line)
            assert status in {0, 4}, output

        return run

    def _reset(self) -> None:
        for each in filter(None, (self.place.top, self.place.other)):
            for inner in each.iterdir():
                shutil.rmtree(inner)
        write_patient(self.scenario, self.place)

    def _record(self, run: Callable[[], None]) -> Recording:
        scenario, devices = self.scenario, self.scenario.devices(self.place)
        if scenario.phase == "resume":
            with killed(KILLED_AT, run):
                self._reset()
                run()
            line = ["apply", "--resume", *scenario.named(self.place)]
        elif scenario.phase == "apply":
            with recorded(devices) as recording:
                run()
            return recording
        else:
            run()
            line = ["undo", *scenario.named(self.place), *(["--prune"] if scenario.phase == "prune" else []), "--apply"]
        with recorded(devices) as recording:
            status, output = command(*line)
        assert status == 0, output
        assert recording.operations, f"{scenario}: nothing is left to do"
        return recording

    # --- what is there ------------------------------------------------------------------------------------------------
    def _shown(self) -> Files:
        """Files as they are, without the times of those that have changed."""
        now = snapshot(self.place.root)
        return {name: row[:-1] if row != self._before.get(name) else row for name, row in now.items()}

    def _partitions(self) -> list[str]:
        root = str(self.place.root)
        return [f"{root}/{name}" for name in PARTITIONS] if is_broker_dir(root) else [root]

    def _logs(self) -> dict[str, frozenset[tuple[int, int]]]:
        """Return the batches of each partition that a broker has after its start, as first and last offsets."""
        root, found = str(self.place.root), {}
        for path in self._partitions():
            context = PartitionContext(is_clean=False, recovery_point=0)
            partition = read_partition(path)
            if path != root:
                context = read_broker_dir(read_log_dir(root)).context(partition.name, as_loaded=True)
            load = PartitionLoad(partition, context, OPTIONS)
            for _ in load.run():
                pass
            result = load.result
            assert result.problem is None, result.problem
            batches = set()
            for each in result.segments:
                batches |= {batch for batch in _batches(each.segment.files[0].path) if batch[1] < result.end_offset}
            found[path] = frozenset(batches)
        return found

    # --- what is wrong ------------------------------------------------------------------------------------------------
    def _of_broker(self) -> Iterator[str]:
        owners = {row[1:3] for row in self._before.values()}
        for name, row in snapshot(self.place.root).items():
            if name.endswith((".tmp", ".cleaned", "kafkalog-lock")):  # no broker opens any of these
                continue
            if row[1:3] not in owners:
                yield f"{name} belongs to {row[1:3]}"
            if not int(str(row[3])) & 0o040:
                yield f"{name} has the mode {int(str(row[3])):o}"
        if self.scenario.unsynced is not None:
            return
        logs = self._logs()
        for path, before in self._logs_before.items():
            after, now = self._logs_after[path], logs[path]
            if not before & after <= now:
                yield f"a start loses batches of {path}: {sorted(before & after - now)[:3]}"
            if "compact" in self.scenario.case and now not in (before, after):
                yield f"a start finds neither the old log nor the new one in {path}"

    def _of_new_dir(self) -> Iterator[str]:
        new = self.place.top / "new"
        if snapshot(self.place.root) != self._before:
            yield "the source has changed"
        if new.exists() and _untimed(snapshot(new)) != _untimed(self._new):
            yield "the new directory is there and not whole"
        for each in self.place.top.iterdir():
            if each.name != "data":
                shutil.rmtree(each)
        status, output = command(*self.scenario.arguments(self.place))
        if status not in {0, 4} or _untimed(snapshot(new)) != _untimed(self._new):
            yield f"the same command again: {status} {output[-300:]}"

    def _of_prune(self) -> Iterator[str]:
        if _without_lock(self._shown()) != _without_lock(self._after):
            yield "a file of the broker has changed"
        yield from self._pruned()
        status, output = command("reindex", str(self.place.root), "--kafka", "4.3", "--all", "--jobs", "1", "--apply")
        if status not in {0, 4}:
            yield f"the next command is refused: {output[-300:]}"

    def _taken_back(self) -> Iterator[str]:
        has_begun = self._has_journal()
        if has_begun:
            status, output = command("undo", *self.scenario.named(self.place), "--apply")
            is_done = "there is no run" in output or "has been taken back already" in output
            if status and not is_done:
                yield f"undo --apply: {status} {_tail(output)}"
                return
        yield from self._pruned()
        yield from self._differences(snapshot(self.place.root), self._before, "undo", begun=has_begun)

    def _finished(self) -> Iterator[str]:
        has_begun = self._has_journal()
        status, output = command("apply", "--resume", *self.scenario.named(self.place))
        if status not in {0, 4}:
            yield f"apply --resume: {status} {_tail(output)}"
            return
        now = self._shown()
        if _without_lock(now) == _without_lock(self._after):
            return
        found = list(self._differences(snapshot(self.place.root), self._before, "apply --resume", begun=has_begun))
        yield from found
        if found or self.scenario.unsynced is not None:
            return
        yield from self._pruned()
        status, output = command(*self.scenario.arguments(self.place))
        if status not in {0, 4}:
            yield f"the same command again: {status} {_tail(output)}"
        elif _without_lock(self._shown()) != _without_lock(self._after):
            yield "the same command again leads elsewhere"

    def _pruned(self) -> Iterator[str]:
        """Free what is left; a journal elsewhere that nothing leads to any more is named itself."""
        named = self.scenario.named(self.place)
        elsewhere = named[1:]
        for line in (named, [*elsewhere, *named[:1]]) if elsewhere else (named,):
            status, output = command("undo", *line, "--prune", "--apply")
            if status:
                yield f"undo --prune --apply: {status} {_tail(output)}"
                return
        left = [os.path.basename(each) for place in named for each in names_of_ours(Path(place))]
        if left:
            yield f"undo --prune --apply leaves {', '.join(left)}: {_tail(output)}"

    def _has_journal(self) -> bool:
        status, output = command("undo", *self.scenario.named(self.place), "--list", "--output", "ndjson")
        assert status == 0, output
        rows = [json.loads(line) for line in output.splitlines()]
        return any(row["type"] == "journal" and row["state"] != "nothing" for row in rows)  # else it had not begun

    def _differences(self, now: Files, wanted: Files, way: str, *, begun: bool) -> Iterator[str]:
        now, wanted = _without_lock(now), _without_lock(wanted)
        names = sorted(name for name in {*now, *wanted} if now.get(name) != wanted.get(name))
        if not begun and self.scenario.unsynced in names:
            names.remove(self.scenario.unsynced)  # the broker's own loss
        if names:
            yield f"{way} leaves {', '.join(names[:3])} otherwise"


def _size(row: tuple[object, ...]) -> int:
    content = row[0]
    assert isinstance(content, bytes)
    return len(content)


def _tail(output: str) -> str:
    return output.strip().rpartition("\n")[2][-400:]


def _batches(path: str) -> set[tuple[int, int]]:
    """First and last offsets of the whole batches of a log."""
    with open(path, "rb") as file:
        data = file.read()
    found, position = set(), 0
    while position + 61 <= len(data):
        base = int.from_bytes(data[position : position + 8], "big")
        last = base + int.from_bytes(data[position + 23 : position + 27], "big")
        size = int.from_bytes(data[position + 8 : position + 12], "big")
        position += 12 + size
        if size <= 0 or position > len(data):
            break
        found.add((base, last))
    return found


def _untimed(files: Files) -> Files:
    return {name: row[:-1] for name, row in files.items()}


def _without_lock(files: Files) -> Files:
    """Without lock files, which a broker, or the next run of ours, makes or takes over."""
    return {name: row for name, row in files.items() if name != LOCK and not name.startswith(OWN_LOCK)}
