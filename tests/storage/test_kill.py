"""Real processes, killed with signal 9 at moments that a seed chooses."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.repairs import make_dir, names_of_ours, resume_or_apply, snapshot, undo_all

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import sys, time
from pathlib import Path
from kafkalog_core.ops import planners
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import apply_to

class SlowDisk(Disk):
    def step(self, what, path):
        time.sleep(0.002)

planners.PLANNERS["reindex"] = "tests.support.repairs:plan"
print("ready", flush=True)
apply_to(Path(sys.argv[1]), SlowDisk(), is_wide=True)
"""
STEPS_SECONDS = 0.5


@pytest.mark.usefixtures("fake_planner")
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(each, marks=pytest.mark.slow) for each in range(2, 12))])
def test_a_process_that_is_killed(tmp_path: Path, seed: int) -> None:
    root = make_dir(tmp_path / "log")
    old = snapshot(root)
    delay = random.Random(seed).uniform(0, STEPS_SECONDS)
    with subprocess.Popen([sys.executable, "-c", CHILD, str(root)], cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(delay)
        child.kill()
    if seed % 2:
        resume_or_apply(root, is_wide=True)
        assert snapshot(root) != old
        assert not (root / ".kafka_cleanshutdown").exists()
    undo_all(root)
    assert snapshot(root) == old
    assert names_of_ours(root) == []
