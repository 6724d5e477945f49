"""A run is killed, a broker starts, and then the run is finished or taken back, or given up where that is not safe.

The broker is a simulated one: it does to a directory what starts were seen to do, and nothing that depends on the run.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.ops import planners
from kafkalog_core.ops.repair.apply import resume
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.locks import OWN_LOCK
from tests.support import build
from tests.support.power_player import command
from tests.support.power_scenarios import Place, Scenario, write_patient
from tests.support.repairs import StepLimit, apply_to, make_dir, names_of_ours, snapshot
from tests.support.truncating import carry_out, started

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafkalog_core.storage.changing.journal import Journal

pytestmark = pytest.mark.usefixtures("no_waiting")

EPOCHS = "leader-epoch-checkpoint"
ZEROS = bytes(480)
SNAPSHOT = build.snapshot([]) + b"other"
STRIDES = {"truncate": 5, "truncate a partition": 3, "reindex": 5, "retain": 7, "compact": 6}
LATER_NS = 1_790_000_000_000_000_000


def start(partition: Path) -> None:
    """Unfinished replacements are completed or swept; indexes, snapshots and leader epochs are made again."""
    carry_out(partition)
    end = started(partition, is_clean=True).end_offset
    logs = {path.stem for path in partition.glob("*.log")}
    for path in sorted(partition.iterdir()):
        is_orphan = path.suffix in {".index", ".timeindex", ".txnindex"} and path.stem not in logs
        if is_orphan or (path.suffix == ".snapshot" and int(path.stem) > end):
            path.unlink()
    for stem in sorted(logs):
        for suffix in (".index", ".timeindex"):
            path = partition / f"{stem}{suffix}"
            _write(path, (path.read_bytes() if path.exists() else b"") + ZEROS)
    _write(partition / f"{end:020}.snapshot", SNAPSHOT)
    epochs = partition / EPOCHS
    lines = epochs.read_bytes().split(b"\n")[2:-1] if epochs.exists() else []
    kept = [line for line in lines if int(line.split()[1]) < end]
    epochs.unlink(missing_ok=True)  # a broker renames a new file
    _write(epochs, b"\n".join([b"0", b"%d" % (len(kept) + 1), *kept, b"9 %d" % end]) + b"\n")


def _write(path: Path, content: bytes) -> None:
    """Write in place, as brokers write indexes."""
    path.write_bytes(content)
    os.utime(path, ns=(LATER_NS, LATER_NS))


def partitions(root: Path) -> list[Path]:
    """The partition directories, or the only one."""
    found = [path.parent for path in root.glob("*/*.log")] + [path.parent for path in root.glob("*.log")]
    return sorted(set(found))


def append(partition: Path) -> None:
    """The broker takes a batch."""
    end = started(partition).end_offset
    with open(max(partition.glob("*.log")), "ab") as file:
        file.write(build.batch_v2([build.Record(offset=end, timestamp_ms=5000, value=b"new")]))


class Patients:
    """Log directories of one scenario, all alike."""

    def __init__(self, name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scenario = Scenario(name)
        self._place = place
        self._number = 0
        self.counting = StepLimit(monkeypatch)
        done = self.fresh()
        self.old = snapshot(done.root)
        self.steps = self.counting.run(10**9, lambda: self.apply(done))
        self.new = snapshot(done.root)
        self.undo_steps = self.counting.run(10**9, lambda: command("undo", str(done.root), "--apply"))

    def fresh(self) -> Place:
        self._number += 1
        place = Place(self._place / f"{self._number}")
        place.top.mkdir()
        write_patient(self.scenario, place)
        return place

    def apply(self, place: Place) -> None:
        command(*self.scenario.arguments(place))

    def killed(self, stride: int) -> Iterator[tuple[Path, Journal]]:
        """Interrupted runs, each with its journal: at every step between the first change and the last."""
        for at in range(stride % 3, self.steps, stride):
            place = self.fresh()
            self.counting.run(at, lambda place=place: self.apply(place))  # type: ignore[misc]
            yield from self._interrupted(place)

    def killed_undo(self, stride: int) -> Iterator[tuple[Path, Journal]]:
        """As `killed`, while the run is taken back."""
        for at in range(stride % 3, self.undo_steps, stride):
            place = self.fresh()
            self.apply(place)
            self.counting.run(at, lambda place=place: command("undo", str(place.root), "--apply"))  # type: ignore[misc]
            yield from self._interrupted(place)

    def _interrupted(self, place: Place) -> Iterator[tuple[Path, Journal]]:
        for journal in scope_of(str(place.root)).interrupted():
            yield place.root, journal


@pytest.fixture(
    params=["retain", *(pytest.param(each, marks=pytest.mark.slow) for each in STRIDES if each != "retain")]
)
def patients(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patients:
    return Patients(request.param, tmp_path, monkeypatch)


def files(root: Path, journal: Journal) -> dict[str, tuple[object, ...] | None]:
    """The files of a run as they are now."""
    now = snapshot(root)
    names = [os.path.relpath(journal.path_of(entry), root) for entry in journal.entries]
    return {name: now.get(name) for name in names}


def start_all(root: Path) -> None:
    for partition in partitions(root):
        start(partition)


def check_files(root: Path, journal: Journal, wanted: Mapping[str, tuple[object, ...]], *, times: bool) -> int:
    """Files are the wanted ones, or what the broker has made of the wanted ones in place; how many are the latter."""
    count = 0
    for name, row in files(root, journal).items():
        goal = wanted.get(name)
        if (row and row[: None if times else -1]) == (goal and goal[: None if times else -1]):
            continue
        assert row is not None, name
        assert goal is not None, name
        went_on = {goal[0] + ZEROS, SNAPSHOT}  # type: ignore[operator]
        if name.endswith(EPOCHS):
            *lines, last = row[0].split(b"\n")[2:-1]  # type: ignore[attr-defined]
            assert last.startswith(b"9 ")
            went_on = {row[0]} if lines == goal[0].split(b"\n")[2:-1] else set()  # type: ignore[attr-defined]
        assert row[0] in went_on, name
        count += 1
    return count


def done(*line: str) -> None:
    """Run a command that succeeds."""
    status, output = command(*line)
    assert status == 0, output


@pytest.mark.slow
def test_a_start_in_between_leaves_both_ways_open(patients: Patients) -> None:
    stride, ways = STRIDES[patients.scenario.case], set()
    for number, (root, journal) in enumerate(patients.killed(stride)):
        start_all(root)
        if number % 2:
            done("apply", "--resume", str(root))
            check_files(root, journal, patients.new, times=False)
        else:
            done("undo", str(root), "--apply")
            check_files(root, journal, patients.old, times=True)
        assert not scope_of(str(root)).interrupted()
        ways.add(number % 2)
    assert ways == {0, 1}
    for root, journal in patients.killed_undo(stride):
        start_all(root)
        done("undo", str(root), "--apply")
        check_files(root, journal, patients.old, times=True)
        assert not scope_of(str(root)).interrupted()


def test_a_broker_that_appended_gives_the_run_up(patients: Patients) -> None:
    """A log that the run does not know: nothing is put next to it, and the refusal has the command that frees it."""
    stuck = 0
    for root, journal in patients.killed(3 * STRIDES[patients.scenario.case]):
        for partition in partitions(root):
            append(partition)
            start(partition)
        before = {name: row for name, row in snapshot(root).items() if name != OWN_LOCK}
        with pytest.raises(RefusedError) as caught:
            apply_undo(plan_undo(scope_of(str(root))), Disk())
        with pytest.raises(RefusedError, match="has changed since") as resumed:
            resume(journal, Disk())
        for text in (str(caught.value), str(resumed.value)):
            line = re.search(r"kafkalog (undo \S+ --prune --run \S+ --apply)", text)
            assert line is not None, text
            assert shlex.split(line[1]) == [
                "undo",
                str(journal.layout.root),
                "--prune",
                "--run",
                journal.run,
                "--apply",
            ]
        assert command("undo", str(root), "--prune", "--apply")[0] == 0, "it is not named"
        assert names_of_ours(root)
        _, planned = command("undo", str(root), "--prune", "--run", journal.run, "--output", "ndjson")
        status, done = command(*shlex.split(line[1]), "--output", "ndjson")
        assert status == 0
        for output, state in ((planned, "planned"), (done, "done")):
            for entry in journal.entries:
                kept = f'"file":"{journal.path_of(entry)}"'
                assert any(
                    kept in row and '"kind":"keep"' in row and f'"state":"{state}"' in row
                    for row in output.splitlines()
                )
            assert output.count('"kind":"remove"') == sum(entry.saved != "nothing" for entry in journal.entries)
        assert snapshot(root) == before
        assert names_of_ours(root) == []
        assert "dir.interrupted" not in command("verify", str(root))[1]
        stuck += 1
    assert stuck


@pytest.mark.parametrize("is_started", [False, True])
def test_no_log_directory_is_marked_clean_after_a_broker(
    is_started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep a start from recovering what that broker wrote before it died."""
    monkeypatch.setitem(planners.PLANNERS, "reindex", "tests.support.repairs:plan_mark")
    counting = StepLimit(monkeypatch)
    seen = 0
    for at in range(1000):
        root = make_dir(tmp_path / f"{at}")
        (root / ".kafka_cleanshutdown").unlink()
        old = snapshot(root)
        steps = counting.run(at, lambda root=root: apply_to(root, Disk()))  # type: ignore[misc]
        interrupted = scope_of(str(root)).interrupted()
        is_marked = (root / ".kafka_cleanshutdown").exists()
        if interrupted and is_started:
            checkpoint = root / "recovery-point-offset-checkpoint"
            os.utime(checkpoint, ns=(LATER_NS, LATER_NS))
            if not is_marked:
                with pytest.raises(RefusedError, match=r"a broker has run since.*\. Undo the run: kafkalog undo "):
                    resume(interrupted[0], Disk())
                seen += 1
            os.utime(checkpoint, ns=(LATER_NS, old[checkpoint.name][5]))  # type: ignore[arg-type]
            apply_undo(plan_undo(scope_of(str(root))), Disk())
            assert snapshot(root) == old
        elif interrupted:
            resume(interrupted[0], Disk())
            assert (root / ".kafka_cleanshutdown").exists()
            seen += 1
        if steps <= at:
            break
    assert seen > 3
