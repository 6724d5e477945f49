"""A repair that is killed: a real broker that starts on the state in between loses no more than on the old one.

The repair is all of the commands one after another; points are sampled over all steps of their writing.
`KAFKALOG_CRASH_POINTS` says how many (a long run: 20), `KAFKALOG_CRASH_REPORT` names a file for what was seen.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalog_core.format.names import JOURNAL_PREFIX
from tests.integration.repairing import MARKED_CLEAN, REPAIRS, TOPICS, consumed, put, run
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.records import Record
    from tests.integration.repairing import Patient

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.parametrize("patient", [jars.KAFKA_VERSION], indirect=True),
]

COMMANDS = (*REPAIRS, MARKED_CLEAN)
SHOWS = frozenset({"rename", "truncate", "unlink"})  # steps whose effect a broker may see

Tree = dict[str, tuple[object, ...]]


class Point(NamedTuple):
    """Before which step of which command the process ends."""

    command: int
    at: int
    step: str

    def __str__(self) -> str:
        return f"{' '.join(COMMANDS[self.command])}: before step {self.at}, {self.step}"


@dataclass(frozen=True, slots=True)
class Course:
    """The whole repair: the state before each command and behind the last, and the steps of each."""

    patient: Patient
    states: tuple[Path, ...]
    steps: tuple[tuple[str, ...], ...]

    def points(self, count: int) -> list[Point]:
        """A third of them anywhere, the others between steps whose effect a broker may see."""
        everywhere = [
            Point(number, at, step) for number, steps in enumerate(self.steps) for at, step in enumerate(steps)
        ]
        visible = [point for point in everywhere if _shows(point.step)]
        return sorted({*_spread(visible, count - count // 3), *_spread(everywhere, count // 3)})

    def last_of(self, verb: str) -> Point:
        """Before the last step of a command whose effect a broker may see."""
        number = next(number for number, command in enumerate(COMMANDS) if command[0] == verb)
        return next(Point(number, at, step) for at, step in reversed([*enumerate(self.steps[number])]) if _shows(step))

    def between(self, point: Point, place: Path) -> None:
        """Let the command be killed at a point; the state it leaves is copied."""
        broker = self.patient.restore(self.states[point.command])
        assert _run(self.patient, point.command, point.at, place.with_name("steps")) == -signal.SIGKILL
        put(broker.log_dir, place)


def make_course(patient: Patient, place: Path) -> Course:
    """Repair a copy from the beginning to the end."""
    broker = patient.restore(patient.damaged)
    states, steps = [patient.damaged], []
    for number in range(len(COMMANDS)):
        notes = place / "steps"
        assert _run(patient, number, -1, notes) == 0
        steps.append(tuple(notes.read_text().replace(f"{broker.log_dir}/", "").splitlines()))
        put(broker.log_dir, place / f"{number}")
        states.append(place / f"{number}")
    return Course(patient, tuple(states), tuple(steps))


def _run(patient: Patient, number: int, at: int, notes: Path) -> int:
    command = [*COMMANDS[number], str(patient.broker.log_dir), *patient.options(), "--apply", "--output", "ndjson"]
    dying = [sys.executable, "-m", "tests.integration.dying", str(notes), str(at), *command]
    return subprocess.run(dying, stdout=subprocess.DEVNULL, check=False, timeout=120).returncode


def _shows(step: str) -> bool:
    what, _, path = step.partition(" ")
    return what in SHOWS and JOURNAL_PREFIX not in path


def _spread(points: list[Point], count: int) -> Iterator[Point]:
    return (points[number * len(points) // count] for number in range(count))


def _tree(root: Path, *, times: bool) -> Tree:
    """All files that are not kafkalog's own: content and permissions, and where wanted the times of change."""
    found: Tree = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_file() and JOURNAL_PREFIX not in name:
            status = path.stat()
            found[name] = (path.read_bytes(), status.st_mode, *((status.st_mtime_ns,) if times else ()))
    return found


def _take_back(root: Path) -> None:
    """Undo run after run, until there is none."""
    while (done := run("undo", root, "--apply")).status == 0:
        pass
    assert "there is no kafkalog run to undo here" in done.errors


def _finish(patient: Patient, point: Point) -> None:
    """Finish or repeat the command that was killed, then the others."""
    root = patient.broker.log_dir
    done = run("apply", "--resume", root)
    assert done.status == 0, (done.rows, done.errors)
    for command in COMMANDS[point.command :]:
        patient.repair(*command)


def _lost(old: dict[str, list[Record]], now: dict[str, list[Record]]) -> dict[str, int]:
    return {topic: len(set(old[topic]) - set(now[topic])) for topic in TOPICS}


def test_killed_anywhere_a_broker_loses_no_more(fresh: Patient, tmp_path: Path) -> None:
    broker = fresh.restore(fresh.damaged)
    broker.start()
    old = asyncio.run(consumed(broker))
    course = make_course(fresh, tmp_path)
    before, after = _tree(fresh.damaged, times=True), _tree(course.states[-1], times=False)
    total = sum(len(steps) for steps in course.steps)
    seen = [
        f"Kafka {jars.KAFKA_VERSION}, {total} steps of writing in all.",
        f"A broker on the untouched damaged directory gives {sum(map(len, old.values()))} records.",
        "Killed with signal 9 at these points; a broker then gave so many records, none of those missing. Of copies,",
        "one was taken back to the byte, mode and time, one was finished to the bytes of an undisturbed repair.",
    ]
    for point in course.points(int(os.environ.get("KAFKALOG_CRASH_POINTS", "6"))):
        place = tmp_path / "between"
        course.between(point, place)
        broker.start()
        now = asyncio.run(consumed(broker))
        assert not any(_lost(old, now).values()), f"{point}: {_lost(old, now)}"
        fresh.restore(place)
        _take_back(broker.log_dir)
        assert _tree(broker.log_dir, times=True) == before, str(point)
        fresh.restore(place)
        _finish(fresh, point)
        assert _tree(broker.log_dir, times=False) == after, str(point)
        seen.append(f"{sum(map(len, now.values()))} records  {point}")
    if "KAFKALOG_CRASH_REPORT" in os.environ:
        Path(os.environ["KAFKALOG_CRASH_REPORT"]).write_text("\n".join(seen) + "\n")


def _way_out(root: Path) -> str:
    """Follow the printed commands until no run is interrupted any more; which of them it was."""
    if run("apply", "--resume", root).status == 0:
        return "finished"
    refused = run("undo", root, "--apply")
    if refused.status == 0:
        return "taken back"
    lines = re.findall(r"kafkalog (undo \S+ (?:--prune )?--run \S+ (?:--partial )?--apply)", refused.errors)
    assert lines, refused.errors
    done = run(*shlex.split(lines[0]))
    assert done.status == (3 if "--partial" in lines[0] else 0), done.errors
    return "taken back in part" if "--partial" in lines[0] else "given up"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_after_a_broker_that_started_in_between_there_is_a_way_out(fresh: Patient, tmp_path: Path, end: str) -> None:
    """And a broker that starts after it loses no more than before."""
    broker = fresh.restore(fresh.damaged)
    broker.start()
    old = asyncio.run(consumed(broker))
    course = make_course(fresh, tmp_path)
    seen = []
    points = course.points(int(os.environ.get("KAFKALOG_CRASH_POINTS", "3")))
    for point in sorted({*points, course.last_of("truncate")}):
        course.between(point, tmp_path / "between")  # the original goes on: a copy has no hard links
        if not any(row.get("state") == "interrupted" for row in run("undo", broker.log_dir, "--list").rows):
            continue
        broker.start()
        getattr(broker, end)()
        way = _way_out(broker.log_dir)
        listed = run("undo", broker.log_dir, "--list").rows
        assert not any(row.get("state") == "interrupted" for row in listed), str(point)
        broker.start()
        now = asyncio.run(consumed(broker))
        assert not any(_lost(old, now).values()), f"{point}, {way}: {_lost(old, now)}"
        broker.kill()
        seen.append(f"{way}: {point}")
    assert seen
    print("\n".join(seen))  # noqa: T201 -- pytest -s shows it


def test_the_old_end_of_a_log_is_restored_once_the_broker_has_to_recover(fresh: Patient, tmp_path: Path) -> None:
    """As the refusal says: without the files that declare the logs whole, the next start truncates the damage again."""
    broker = fresh.restore(fresh.damaged)
    broker.start()
    old = asyncio.run(consumed(broker))
    course = make_course(fresh, tmp_path)
    course.between(course.last_of("truncate"), tmp_path / "between")
    broker.start()
    broker.stop()
    refused = run("undo", broker.log_dir, "--apply")
    found = re.search(r"(\S+/\.kafka_cleanshutdown) and (\S+-checkpoint): written after this run", refused.errors)
    assert (refused.status, found is not None) == (3, True), refused.errors
    assert found is not None
    for path in found.groups():
        shutil.move(path, tmp_path)
    before = _tree(broker.log_dir, times=False)
    refused = run("undo", broker.log_dir, "--apply")
    assert "written after this run" not in refused.errors
    lines = re.findall(r"kafkalog (undo \S+ --run \S+ --partial --apply)", refused.errors)
    assert run(*shlex.split(lines[0])).status == 3, "a checkpoint of all logs was left"
    after = _tree(broker.log_dir, times=False)
    assert any(len(after[name][0]) > len(before[name][0]) for name in before if name.endswith(".log"))  # type: ignore[arg-type]
    broker.start()
    assert not any(_lost(old, asyncio.run(consumed(broker))).values())
