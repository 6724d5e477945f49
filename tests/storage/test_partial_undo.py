"""A run of which some files cannot be put back: the others are, and what belongs to the former is left with them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support.power_player import command
from tests.support.power_scenarios import Place, Scenario, write_patient
from tests.support.repairs import LOG, StepLimit, apply_to, make_dir, names_of_ours, snapshot
from tests.support.truncating import started

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafkalog_core.storage.changing.journal import Journal, JournalEntry

pytestmark = pytest.mark.usefixtures("no_waiting")

MORE = {"retention.bytes=14000": "retention.bytes=9000"}
"""Retention deletes two segments."""
FIRST, SECOND, THIRD = (f"{base:020}" for base in (0, 10, 20))


class Run:
    """A run that is complete, and what its directory was like before."""

    def __init__(self, case: str, place: Path, *, journal: str = "next") -> None:
        self.place = Place(place / case.replace(" ", "-"))
        self.place.top.mkdir()
        scenario = Scenario(case, journal=journal)
        write_patient(scenario, self.place)
        self.old, self.old_codes = snapshot(self.root), self.codes()
        line = [MORE.get(word, word) for word in scenario.arguments(self.place)]
        status, output = command(*line)
        assert status == 0, output
        self.new, self.new_codes = snapshot(self.root), self.codes()
        self.name = self.journal.run
        self.changed = {os.path.relpath(self.journal.path_of(entry), self.root) for entry in self.journal.entries}

    @property
    def root(self) -> Path:
        return self.place.root

    def codes(self) -> set[str]:
        """What verify finds."""
        return set(re.findall(r'"code":"([^"]+)"', command("verify", str(self.root), "--output", "ndjson")[1]))

    @property
    def journal(self) -> Journal:
        (journal,) = scope_of(str(self.root)).found.journals
        return journal

    def saved(self, name: str) -> str:
        """Where the old content of a file is kept."""
        entry = self._entry(name)
        return self.journal.layout.saved(self.journal.path_of(entry), entry.number, entry.saved)

    def _entry(self, name: str) -> JournalEntry:
        return next(entry for entry in self.journal.entries if entry.path == name)

    def damage(self, name: str) -> None:
        """Shorten what is saved of a file, as a loss of power does; a copy of it is kept next to the journal."""
        saved = self.saved(name)
        shutil.copy2(saved, self.place.top / "copy")
        os.truncate(saved, os.path.getsize(saved) - 1)
        status = os.stat(self.place.top / "copy")
        os.utime(saved, ns=(status.st_mtime_ns, status.st_mtime_ns))

    def mend(self, name: str) -> None:
        """Put what was saved back from the copy."""
        shutil.copy2(self.place.top / "copy", self.saved(name))
        os.chown(self.saved(name), 1001, 1002) if os.geteuid() == 0 else None

    def undo(self, *options: str) -> tuple[int, str]:
        return command("undo", str(self.root), *options, "--apply", "--output", "ndjson")

    def partial(self, text: str) -> list[str]:
        """The command that a refusal names."""
        line = re.search(r"kafkalog (undo \S+ --run \S+ --partial --apply)", text)
        assert line is not None, text[-600:]
        return shlex.split(line[1])

    def back(self) -> set[str]:
        """Files of the run that are as before it and were not after it."""
        now = snapshot(self.root)
        return {name for name in self.changed if now.get(name) == self.old.get(name) != self.new.get(name)}

    def left(self) -> set[str]:
        """Files of the run that are as it left them."""
        now = snapshot(self.root)
        return {name for name in self.changed if now.get(name) == self.new.get(name) != self.old.get(name)}


def names(partition: str, *bases: str, snapshots: Iterable[str] = ()) -> set[str]:
    """The files of deleted segments."""
    found = {f"{partition}/{base}.{suffix}" for base in bases for suffix in ("log", "index", "timeindex")}
    return found | {f"{partition}/{offset}.snapshot" for offset in snapshots}


def of(run: Run, *partitions: str) -> set[str]:
    return {name for name in run.changed if name.partition("/")[0] in partitions}


def check(run: Run, damaged: str, left: set[str]) -> None:
    """The refusal names the file and the command; that leaves some files and puts the others back; then the rest."""
    run.damage(damaged)
    status, refused = run.undo()
    assert status == 3
    assert snapshot(run.root) == run.new
    assert f"{run.root}/{damaged}: its old content in the journal has changed: {run.saved(damaged)}" in refused
    status, done = command(*run.partial(refused), "--output", "ndjson")
    assert status == 3, done
    assert '"state":"applied"' in done
    assert run.left() == left
    assert run.back() == {name for name in run.changed if run.old.get(name) != run.new.get(name)} - left
    kept = {row for row in done.splitlines() if '"kind":"keep"' in row}
    assert len(kept) == len({entry.path for entry in run.journal.entries}) >= len(left)
    assert all(any(f'"file":"{run.root}/{name}"' in row for row in kept) for name in left)
    for partition in run.root.glob("[tu]-0"):
        assert started(partition).problem is None
    assert run.codes() <= run.old_codes | run.new_codes | {"epochs.beyond-end"}  # a start removes them
    status, refused = run.undo()
    assert status == 3, "nothing more can be put back"
    assert "--partial" not in refused
    assert run.left() == left
    run.mend(damaged)
    assert run.undo()[0] == 0
    assert snapshot(run.root) == run.old
    assert command("undo", str(run.root), "--prune", "--apply")[0] == 0
    assert names_of_ours(run.root) == []


def test_the_tail_of_a_log_is_damaged(tmp_path: Path) -> None:
    run = Run("truncate", tmp_path)
    check(run, f"t-0/{SECOND}.log", of(run, "t-0", "replication-offset-checkpoint"))


def test_the_end_of_a_log_is_not_restored_behind_what_a_broker_declared_whole(tmp_path: Path) -> None:
    run = Run("truncate", tmp_path)
    marker = run.root / ".kafka_cleanshutdown"
    assert not marker.exists()
    marker.write_bytes(b"")
    status, refused = run.undo()
    assert status == 3
    sentence = (
        f"{marker}: written after this run, most likely by a broker that was started. The next start would therefore "
        "serve the old end of 2 logs without a check, damage too. To restore it, first move this file out of the log "
        "directory"
    )
    assert refused.count(sentence) == 1 + refused.count('"type":"plan"'), "once in the message and once in the plan"
    assert {name: row for name, row in snapshot(run.root).items() if name != marker.name} == run.new
    if "--partial" in refused:
        assert command(*run.partial(refused), "--output", "ndjson")[0] == 3
        assert not of(run, "t-0") & run.back()
    marker.unlink()
    assert run.undo()[0] == 0
    assert snapshot(run.root) == run.old


def test_a_later_run_that_wrote_the_recovery_points_is_undone_first(tmp_path: Path) -> None:
    run = Run("truncate", tmp_path)
    points = run.root / "recovery-point-offset-checkpoint"
    shutil.copy2(points, tmp_path / "points")
    points.write_bytes(b"0\n2\nt 0 0\nu 0 99\n")
    output = command("checkpoint", str(run.root), "--kafka", "4.3", "--apply", "--output", "ndjson")[1]
    assert '"state":"applied"' in output, output
    assert b"99" not in points.read_bytes()
    status, refused = run.undo("--run", run.name)
    assert status == 3
    assert f"{points}: a later run of kafkalog checkpoint changed it again. Undo that run first" in refused
    assert run.undo()[0] == 0, "the later one"
    status, refused = run.undo()
    assert (status, f"{points}: written after this run" in refused) == (3, True)
    shutil.copy2(tmp_path / "points", points)
    assert run.undo()[0] == 0
    assert snapshot(run.root) == run.old


def test_a_segment_of_the_end_is_damaged(tmp_path: Path) -> None:
    run = Run("truncate", tmp_path)
    check(run, f"t-0/{THIRD}.log", names("t-0", THIRD, snapshots=[THIRD]) | {"replication-offset-checkpoint"})


def test_a_segment_of_the_start_is_damaged(tmp_path: Path) -> None:
    run = Run("retain", tmp_path)
    assert names("t-0", FIRST, SECOND) <= run.changed
    check(run, f"t-0/{FIRST}.log", names("t-0", FIRST) & run.changed)


def test_the_last_one_of_the_start_is_damaged(tmp_path: Path) -> None:
    """Those before it would come back before a gap."""
    run = Run("retain", tmp_path)
    left = {name for name in of(run, "t-0") if run.old.get(name) != run.new.get(name)}
    check(run, f"t-0/{SECOND}.index", left)


def test_a_replacement_of_segments_is_left_whole(tmp_path: Path) -> None:
    run = Run("compact", tmp_path)
    left = of(run, "t-0", "cleaner-offset-checkpoint")
    check(run, f"t-0/{SECOND}.timeindex", {name for name in left if run.old.get(name) != run.new.get(name)})


def test_indexes_of_logs_that_did_not_change(tmp_path: Path) -> None:
    run = Run("reindex", tmp_path)
    assert f"u-0/{FIRST}.index" in run.changed
    left = {name for name in run.changed if name.startswith(f"u-0/{FIRST}.")}
    check(run, f"u-0/{FIRST}.index", {name for name in left if not name.endswith(".snapshot")})


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["next", "same"])
def test_killed_at_every_step_the_undo_leaves_the_same(
    journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain undo of the messages goes on with it."""
    counting = StepLimit(monkeypatch)

    def damaged(number: int) -> Run:
        (tmp_path / f"{number}").mkdir()
        run = Run("truncate", tmp_path / f"{number}", journal=journal)
        run.damage(f"t-0/{THIRD}.log")
        return run

    run = damaged(0)
    steps = counting.run(10**9, lambda: run.undo("--partial"))
    wanted = {name: row[0] for name, row in snapshot(run.root).items()}
    ours = len(names_of_ours(run.place.top))
    for at in range(2, steps, 3):
        run = damaged(at)
        counting.run(at, lambda run=run: run.undo("--partial"))  # type: ignore[misc]
        line = ["--partial"] if run.journal.state != "undoing" else []
        status, output = run.undo(*line)
        assert status == 3, output
        assert {name: row[0] for name, row in snapshot(run.root).items()} == wanted, at
        assert len(names_of_ours(run.place.top)) == ours, at
        assert run.journal.state == "complete"
        assert run.journal.left == frozenset()


@pytest.mark.usefixtures("fake_planner")
def test_files_at_the_top_come_back_with_every_partition(tmp_path: Path) -> None:
    """The log start offsets do anyway; the clean shutdown file would keep a start from recovering what is left."""
    root = make_dir(tmp_path / "log")
    old = snapshot(root)
    journal = apply_to(root, Disk(), is_wide=True)
    new = snapshot(root)
    entry = next(entry for entry in journal.entries if entry.path == f"t-1/{LOG}")
    os.truncate(journal.layout.saved(journal.path_of(entry), entry.number, entry.saved), 3)
    plan = plan_undo(scope_of(str(root)), is_partial=True)
    apply_undo(plan, Disk())
    top = {"recovery-point-offset-checkpoint", ".kafka_cleanshutdown"}
    assert {os.path.relpath(path, root) for path, _, _ in plan.left} == {entry.path} | top
    now = snapshot(root)
    assert {name: now.get(name) for name in top} == {name: new.get(name) for name in top}
    assert "log-start-offset-checkpoint" not in now
    assert {name: row for name, row in now.items() if name.startswith("t-0/")} == {
        name: row for name, row in old.items() if name.startswith("t-0/")
    }


def test_partial_of_a_whole_run_is_the_undo(tmp_path: Path) -> None:
    run = Run("truncate", tmp_path)
    status, output = run.undo("--partial")
    assert status == 0, output
    assert snapshot(run.root) == run.old
    assert run.journal.state == "undone"


def test_what_stands_alone(tmp_path: Path) -> None:
    run = Run("truncate", tmp_path)
    for line in (("--prune", "--partial"), ("--list", "--partial")):
        assert command("undo", str(run.root), *line)[0] == 2
