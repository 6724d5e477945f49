"""Makes the states of a scenario, recovers each as a user would, and says what is wrong with it.

Of each state of a run, and of its `apply --resume`:

- A broker that starts on it loses no record that the run keeps; where segments are replaced, it finds the old log or
  the new one. Its files have owners and permissions with which it can open them.
- `undo --apply` gives back every byte, owner, permission and time from before; `undo --prune --apply` leaves nothing.
- `apply --resume` finishes it; where it had not begun, everything is as before (or done), and the command that is then
  run leads to the same. No state refuses both. Where the first changes are made ahead of the intent, on a full disk
  and with `--no-undo`, each file is as before or as afterwards, or an index that makes way, and the same command
  finishes them.

Once a command has ended, what it has done is there.

Of each state of an undo the first two; of `undo --partial`, that it leads to the same files, and that all come back
once the saved file is whole again; of a prune, that nothing of the broker's has changed, that what is left can be
freed, and that the next command is not refused. A new directory (`--to`) is there whole or not at all.

Not compared: the times of files that the run writes, and the lock file, which a broker makes by itself.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_core.format.names import JOURNAL_PREFIX, journal_run
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext, read_broker_dir
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.repair.undo import plan_undo, scope_of
from kafkalog_core.storage.changing.changes import INDEXES
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.power.models import MODELS, with_unsynced
from tests.power.recorder import recorded
from tests.power.tree import read_tree
from tests.support.full_disk import CORRECTED_BY_A_START
from tests.support.power_player import Player, command, full, sampled, used_bytes
from tests.support.power_scenarios import CASES, PARTITIONS, Place, Scenario, killed, write_patient

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tests.power.models import State
    from tests.power.recorder import Recording
    from tests.power.tree import Tree

__all__ = ["Checker", "Problem"]

Files = dict[str, tuple[object, ...]]
Batches = frozenset[tuple[int, int]]
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
        scenario, place = self.scenario, self.place
        self._devices = scenario.devices(place)
        self._found: dict[object, Batches] = {}
        self._player = Player(self._devices, self._conditions)
        self._reset()
        self._room_bytes = used_bytes(place.top)
        self._before = self._files(self._read())
        self._logs_before = self._logs(self._read())
        run = self._runner()
        run()
        done = self._read()
        self._after, self._logs_after = self._shown(done), self._logs(done)
        self._partly: Files = {}
        self._saved = "", b""
        self._new = _files(done, f"{place.top}/new") if CASES[scenario.case].is_new_dir else {}
        self._reset()
        recording = self._record(run)
        self._player.forget()
        if scenario.unsynced is not None:
            path = f"{place.root}/{scenario.unsynced}"
            recording = with_unsynced(recording, path, _size(self._before[scenario.unsynced]) * 3 // 4)
        self.recording = recording

    def states(self, model: str, seed: int = 0) -> Iterator[State]:
        """Yield what a loss of power may leave, each once. No disk holds more than there is room for."""
        seen: set[tuple[int, bool]] = set()
        for state in MODELS[model](self.recording, seed):
            key = state.tree.key(), state.is_last
            if key not in seen:
                seen.add(key)
                if not self.scenario.is_full or state.tree.used_bytes("first") <= self._room_bytes:
                    yield state

    def check(self, model: str, state: State) -> list[Problem]:
        """Return what is wrong with a state."""
        return [Problem(self.scenario, model, state.label, message) for message in self._messages(state)]

    def _messages(self, state: State) -> Iterator[str]:
        phase, case, tree = self.scenario.phase, CASES[self.scenario.case], state.tree
        if state.is_last:
            yield from self._undone_by_itself(tree)
        yield from self._of_broker(tree)
        if case.is_new_dir:
            yield from self._of_new_dir(tree)
        elif phase == "prune":
            yield from self._of_prune(tree)
        elif phase == "partial":
            yield from self._taken_back_in_part(tree)
        else:
            has_begun = None
            if self.scenario.journal != "none":
                has_begun = yield from self._taken_back(tree)
            if phase not in {"undo", "back"}:
                yield from self._finished(tree, has_begun)

    # --- recording ----------------------------------------------------------------------------------------------------
    def _runner(self) -> Callable[[], None]:
        scenario, line = self.scenario, self.scenario.arguments(self.place)

        def run() -> None:
            with self._conditions(is_full=scenario.is_full and scenario.journal != "next"):
                status, output = command(*line)
            assert status in {0, 4}, output
            self._player.forget()
            if scenario.linked is not None:
                os.link(self.place.root / scenario.linked, self.place.top / "backup")
            if scenario.damaged is not None:
                self._damage(scenario.damaged)

        return run

    def _damage(self, name: str) -> None:
        """Shorten what the run saved of a file."""
        first, *also = self.scenario.named(self.place)
        (journal,) = scope_of(first, also).found.journals
        path = f"{self.place.root}/{name}"
        (entry,) = (each for each in journal.entries if journal.path_of(each) == path)
        saved = journal.layout.saved(path, entry.number, entry.saved)
        self._saved = saved, Path(saved).read_bytes()
        status = os.stat(saved)
        os.truncate(saved, status.st_size - 1)
        os.utime(saved, ns=(status.st_atime_ns, status.st_mtime_ns))

    @contextmanager
    def _conditions(self, *, is_full: bool = True) -> Iterator[None]:
        """The state of the disk and the sizes of files that commands meet."""
        is_full = is_full and self.scenario.is_full
        with full(self.place.top if is_full else None, self._room_bytes), sampled(self.scenario.sampled_bytes):
            yield

    def _reset(self) -> None:
        for each in filter(None, (self.place.top, self.place.other)):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir(parents=True)
        write_patient(self.scenario, self.place)
        self._player.forget()

    def _record(self, run: Callable[[], None]) -> Recording:
        scenario, named = self.scenario, self.scenario.named
        if scenario.phase in {"resume", "back"}:
            with killed(scenario.killed_at, run):
                self._reset()
                run()
            line = ["apply", "--resume", *named(self.place)]
            if scenario.phase == "back":
                line = ["undo", *named(self.place), "--apply"]
        elif scenario.phase == "apply":
            with recorded(self._devices) as recording:
                run()
            return recording
        else:
            run()
            if scenario.is_full:
                self._room_bytes = self._least_room()
            option = {"prune": ["--prune"], "partial": ["--partial"]}.get(scenario.phase, [])
            line = ["undo", *named(self.place), *option, "--apply"]
        with self._conditions(), recorded(self._devices) as recording:
            status, output = command(*line)
        assert status == (3 if scenario.phase == "partial" else 0), output
        if scenario.phase == "partial":
            self._partly = self._shown(self._read())
        assert recording.operations, f"{scenario}: nothing is left to do"
        return recording

    def _least_room(self) -> int:
        """What is there, and for an undo what it asks for."""
        used = used_bytes(self.place.top)
        if self.scenario.phase == "prune":
            return used
        first, *also = self.scenario.named(self.place)
        spaces = plan_undo(scope_of(first, also)).spaces
        return used + sum(space.needed_bytes for space in spaces if space.path.startswith(f"{self.place.top}/"))

    # --- what is there ------------------------------------------------------------------------------------------------
    def _read(self) -> Tree:
        return read_tree(self._devices, count(1))[0]

    def _files(self, tree: Tree) -> Files:
        return _files(tree, str(self.place.root))

    def _shown(self, tree: Tree) -> Files:
        """Files as they are, without the times of those that have changed, and without lock files."""
        rows = self._files(tree).items()
        return _without_lock({name: row[:-1] if row != self._before.get(name) else row for name, row in rows})

    def _named(self, tree: Tree) -> list[str]:
        return self.scenario.named(self.place, exists=lambda path: tree.find(str(path)) is not None)

    def _logs(self, tree: Tree) -> dict[str, Batches]:
        """Return the batches of each partition that a broker has after its start, as first and last offsets."""
        root, rows = str(self.place.root), sorted(self._files(tree).items())
        seen = [(name, *row[:-1]) for name, row in rows]
        if CASES[self.scenario.case].is_alone:
            return {root: self._loaded(tree, root, tuple(seen))}
        tops = [row for row in seen if "/" not in str(row[0])]
        parts = {name: [row for row in seen if str(row[0]).startswith(f"{name}/")] for name in PARTITIONS}
        return {name: self._loaded(tree, f"{root}/{name}", (*tops, *part)) for name, part in parts.items()}

    def _loaded(self, tree: Tree, path: str, seen: tuple[object, ...]) -> Batches:
        """Return what a start makes of a partition; of files that look the same it is asked once."""
        found = self._found.get((path, seen))
        if found is None:
            self._player.write(tree)
            root, partition = str(self.place.root), read_partition(path)
            context = PartitionContext(is_clean=False, recovery_point=0)
            if path != root:
                context = read_broker_dir(read_log_dir(root)).context(partition.name, as_loaded=True)
            load = PartitionLoad(partition, context, OPTIONS)
            for _ in load.run():
                pass
            result = load.result
            assert result.problem is None, result.problem
            batches = (batch for each in result.segments for batch in _batches(each.segment.files[0].path))
            found = self._found[path, seen] = frozenset(batch for batch in batches if batch[1] < result.end_offset)
        return found

    # --- what is wrong ------------------------------------------------------------------------------------------------
    def _of_broker(self, tree: Tree) -> Iterator[str]:
        owners = {row[1:3] for row in self._before.values()}
        for name, row in self._files(tree).items():
            if name.endswith((".tmp", ".cleaned", OWN_LOCK)):  # no broker opens any of these
                continue
            if row[1:3] not in owners:
                yield f"{name} belongs to {row[1:3]}"
            if not int(str(row[3])) & 0o040:
                yield f"{name} has the mode {int(str(row[3])):o}"
        yield from self._indexes_that_make_way(tree)
        yield from self._indexes_that_wait(tree)
        if self.scenario.unsynced is not None:
            return
        logs = self._logs(tree)
        for path, before in self._logs_before.items():
            after, now = self._logs_after[path], logs[path]
            if not before & after <= now:
                yield f"a start loses batches of {path}: {sorted(before & after - now)[:3]}"
            if "compact" in self.scenario.case and now not in (before, after):
                yield f"a start finds neither the old log nor the new one in {path}"

    def _undone_by_itself(self, tree: Tree) -> Iterator[str]:
        """What a command that has ended has not fsynced."""
        phase, now = self.scenario.phase, self._shown(tree)
        if CASES[self.scenario.case].is_new_dir:
            if tree.find(f"{self.place.top}/new") is None:
                yield "the new directory is not there, and the command has ended"
            return
        wanted = {"undo": self._before, "back": self._before, "partial": self._partly}.get(phase, self._after)
        ours = [each for path, _ in tree.walk() if (each := os.path.basename(path)).startswith(JOURNAL_PREFIX)]
        if now != _without_lock(wanted):
            yield "a file is not what it is to be, and the command has ended"
        if ours and (phase == "prune" or self.scenario.journal == "none"):
            yield f"{', '.join(ours)} is still there, and the command has ended"

    def _indexes_that_make_way(self, tree: Tree) -> Iterator[str]:
        """Time indexes that are gone where the offset index is not, without which a start builds both again.

        `LogSegment.sanityCheck` of a broker takes a time index that is not there for an empty one.
        """
        now = self._files(tree)
        for name in ({*self._before} & {*self._after}) - {*now}:
            stem, _, suffix = name.rpartition(".")
            if suffix == "timeindex" and {f"{stem}.log", f"{stem}.index"} <= {*now}:
                yield f"{name} is gone and the offset index is there"

    def _indexes_that_wait(self, tree: Tree) -> Iterator[str]:
        """`.swap` files of indexes that a start puts next to a log which they are not of.

        It puts each in its place, also without that of a log; a `.cleaned` file makes it delete them all.
        """
        now = self._files(tree)
        guarded = {os.path.dirname(name) for name in now if name.endswith(".cleaned")}
        for name in (name for name in now if name.endswith(tuple(f"{index}.swap" for index in INDEXES))):
            index = name.removesuffix(".swap")
            log = f"{index.rpartition('.')[0]}.log"
            if os.path.dirname(name) in guarded or f"{log}.swap" in now:
                continue
            pairs = [
                (files.get(log, (None,))[0], files.get(index, (None,))[0]) for files in (self._before, self._after)
            ]
            if (now.get(log, (None,))[0], now[name][0]) not in pairs:
                yield f"a start puts {name} next to another log"

    def _of_new_dir(self, tree: Tree) -> Iterator[str]:
        top, new = str(self.place.top), f"{self.place.top}/new"
        if self._files(tree) != self._before:
            yield "the source has changed"
        if tree.find(new) is not None and _untimed(_files(tree, new)) != _untimed(self._new):
            yield "the new directory is there and not whole"
        names = tree.inodes[tree.roots[top]].names
        again = self._player.play(
            tree.without(top, [name for name in names if name != "data"]), *self.scenario.arguments(self.place)
        )
        if again.status not in {0, 4} or _untimed(_files(again.tree, new)) != _untimed(self._new):
            yield f"the same command again: {again.status} {again.last_line}"

    def _of_prune(self, tree: Tree) -> Iterator[str]:
        if self._shown(tree) != self._after:
            yield "a file of the broker has changed"
        tree = yield from self._pruned(tree)
        line = ("reindex", str(self.place.root), "--kafka", "4.3", "--all", "--jobs", "1", "--apply")
        with_room = self._player.play(tree, *line) if not self.scenario.is_full else None
        if with_room is not None and with_room.status not in {0, 4}:
            yield f"the next command is refused: {with_room.last_line}"

    def _taken_back(self, tree: Tree) -> Generator[str, None, bool]:
        """Take a run back; whether there was one."""
        undone = self._player.play(tree, "undo", *self._named(tree), "--apply")
        has_begun = "there is no kafkalog run" not in undone.output
        if undone.status and has_begun and "has been undone already" not in undone.output:
            yield f"undo --apply: {undone.status} {undone.last_line}"
            return has_begun
        tree = yield from self._pruned(undone.tree)
        yield from self._differences(tree, "undo", begun=has_begun)
        return has_begun

    def _taken_back_in_part(self, tree: Tree) -> Iterator[str]:
        """Go on as the messages say; then repair what was saved, and take back the rest."""
        named = self._named(tree)
        undone = self._player.play(tree, "undo", *named, "--apply")
        if "--partial" in undone.output:
            undone = self._player.play(undone.tree, "undo", *named, "--partial", "--apply")
        if undone.status != 3 or self._shown(undone.tree) != _without_lock(self._partly):
            yield f"undo --partial leads to other files: {undone.status} {undone.last_line}"
        path, whole = self._saved
        tree = undone.tree.with_content(path, whole)
        undone = self._player.play(tree, "undo", *named, "--apply")
        if undone.status:
            yield f"undo of the rest: {undone.status} {undone.last_line}"
            return
        tree = yield from self._pruned(undone.tree)
        yield from self._differences(tree, "undo of the rest", begun=True)

    def _finished(self, tree: Tree, has_begun: bool | None) -> Iterator[str]:
        finished = self._player.play(tree, "apply", "--resume", *self._named(tree))
        if finished.status not in {0, 4}:
            yield f"apply --resume: {finished.status} {finished.last_line}"
            return
        if self._shown(finished.tree) == self._after:
            return
        if has_begun is None:
            has_begun = self._has_journal(tree)
        tree = finished.tree
        is_ahead = self.scenario.is_ahead and not has_begun
        found = list(self._torn(tree) if is_ahead else self._differences(tree, "apply --resume", begun=has_begun))
        yield from found
        if found or self.scenario.unsynced is not None:
            return
        tree = yield from self._pruned(tree)
        again = self._player.play(tree, *self.scenario.arguments(self.place))
        if again.status not in {0, 4}:
            yield f"the same command again: {again.status} {again.last_line}"
            return
        now = self._shown(again.tree)
        names = sorted(name for name in {*now, *self._after} if now.get(name) != self._after.get(name))
        if is_ahead:
            names = [name for name in names if not name.endswith(CORRECTED_BY_A_START)]
            if self._logs(again.tree) != self._logs_after:
                yield "the same command again leads to another log"
        if names:
            yield f"the same command again leaves {', '.join(names)} otherwise"

    def _torn(self, tree: Tree) -> Iterator[str]:
        """Files that are neither as before nor as afterwards where changes are made one by one, without a journal."""
        now, before = self._shown(tree), _without_lock(self._before)
        for name in sorted({*now, *before, *self._after}):
            is_way = now.get(name) is None and name.endswith(INDEXES)
            states = [before.get(name), before.get(name, ())[:-1], self._after.get(name)]
            if now.get(name) not in states and not is_way and not name.endswith(".tmp"):
                yield f"{name} is neither old nor new"

    def _pruned(self, tree: Tree) -> Generator[str, None, Tree]:
        """Free what is left; a journal elsewhere that nothing leads to any more is named itself."""
        named, output = self._named(tree), ""
        elsewhere = named[1:]
        for line in (named, [*elsewhere, *named[:1]]) if elsewhere else (named,):
            pruned = self._player.play(tree, "undo", *line, "--prune", "--apply")
            tree, output = pruned.tree, pruned.last_line
            if pruned.status:
                yield f"undo --prune --apply: {pruned.status} {output}"
                return tree
        paths = (path for path, _ in tree.walk())
        left = [path for path in paths if os.path.basename(path).startswith("kafkalog-")]
        if left:
            yield f"undo --prune --apply leaves {', '.join(map(os.path.basename, left))}: {output}"
        return tree

    def _has_journal(self, tree: Tree) -> bool:
        listed = self._player.play(tree, "undo", *self._named(tree), "--list", "--output", "ndjson")
        assert listed.status == 0, listed.output
        rows = [json.loads(line) for line in listed.output.splitlines()]
        return any(row["type"] == "journal" and row["state"] != "nothing" for row in rows)  # else it had not begun

    def _differences(self, tree: Tree, way: str, *, begun: bool) -> Iterator[str]:
        now, wanted = _without_lock(self._files(tree)), _without_lock(self._before)
        names = sorted(name for name in {*now, *wanted} if now.get(name) != wanted.get(name))
        if not begun and self.scenario.unsynced in names:
            names.remove(self.scenario.unsynced)  # the broker's own loss
        if names:
            yield f"{way} leaves {', '.join(names[:3])} otherwise"


def _files(tree: Tree, root: str) -> Files:
    """All that a file has, by its name below a directory; what kafkalog keeps for itself is left out."""
    found: Files = {}
    waiting = [("", tree.find(root))]
    while waiting:
        around, number = waiting.pop()
        for name, inner in tree.inodes[number].names.items() if number is not None else ():
            inode = tree.inodes[inner]
            if journal_run(name) is not None:
                continue
            if inode.is_directory:
                waiting.append((f"{around}{name}/", inner))
                continue
            has = inode.attributes
            found[around + name] = (inode.data, has.uid, has.gid, has.mode, has.extended, inode.mtime_ns)
    return found


def _size(row: tuple[object, ...]) -> int:
    content = row[0]
    assert isinstance(content, bytes)
    return len(content)


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
