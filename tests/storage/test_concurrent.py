"""Two runs at the same moment on a partition outside any log directory, round after round: one of them waits."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import make_dir, names_of_ours, snapshot, undo_all

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 24
CHILD = """
import sys
from pathlib import Path
from kafkalog_cli.commands.repair import locked
from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops import planners
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import apply_to

planners.PLANNERS["reindex"] = "tests.support.repairs:plan"
print("ready", flush=True)
for line in sys.stdin:
    directory = Path(line.strip())
    try:
        with locked([str(directory)]):
            apply_to(directory, Disk(), seed=int(sys.argv[1]))
        print("done", flush=True)
    except KafkalogError as error:
        print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[str]]]:
    with ExitStack() as stack:
        found = []
        for seed in ("1", "2"):
            command = [sys.executable, "-c", CHILD, seed]
            child = subprocess.Popen(
                command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
            )
            found.append(stack.enter_context(child))
        yield found
        for child in found:
            child.communicate()


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.mark.usefixtures("fake_planner")
def test_two_applies_at_once_do_not_mix(tmp_path: Path, children: list[subprocess.Popen[str]]) -> None:
    assert [said(child) for child in children] == ["ready", "ready"]
    done, waited = 0, 0
    for number in range(ROUNDS):
        partition = make_dir(tmp_path / f"{number}") / "t-0"
        for name in os.listdir(partition.parent):
            if not (partition.parent / name).is_dir():
                (partition.parent / name).unlink()
        old = snapshot(partition)
        for child in children:
            assert child.stdin is not None
            child.stdin.write(f"{partition}\n")
        answers = [said(child) for child in children]
        for answer in answers:
            assert answer == "done" or "kafkalog-lock: held by" in answer, answer
        done += answers.count("done")
        waited += len(answers) - answers.count("done")
        for _ in range(answers.count("done")):  # in the reverse order, where one came after the other
            undo_last(partition)
        undo_all(partition)
        assert snapshot(partition) == old
        assert names_of_ours(partition) == []
    assert done >= ROUNDS
    assert waited > 0


def undo_last(partition: Path) -> None:
    apply_undo(plan_undo(scope_of(str(partition))), Disk())
