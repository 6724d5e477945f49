"""Sessions: what they are started with, that they are quiet, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkalog_core.spark.errors import SparkError
from kafkalog_core.spark.session import SessionSettings, open_session, spark_session

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from kafkalog_core.spark.session import SessionSettings, spark_session
from kafkalog_core.spark.workers import SparkWorkers
from tests.spark.tasks import wait
try:
    print("begun", flush=True)
    with spark_session(SessionSettings(master="local[2]")) as spark:
        if sys.argv[1] == "sql":
            print("session", flush=True)
            spark.range(10**13).selectExpr("sum(id % 7)").collect()
        for number in SparkWorkers(spark).map(wait, ((number, 0.2) for number in range(10**6))):
            print("session", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def start(how: str, directory: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of(group: int) -> list[str]:
    """Command lines of the processes of a session of the operating system, the daemons of Spark's in their own groups."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = entry.joinpath("stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == group and fields[0] != "Z":
                found.append(entry.joinpath("cmdline").read_bytes().decode(errors="replace"))
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.parametrize("how", ["map", "sql"])
def test_ctrl_c_ends_everything(how, tmp_path):
    with start(how, tmp_path) as child:
        assert child.stdout is not None
        while "session" not in child.stdout.readline():
            assert child.poll() is None
        time.sleep(1)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert out.endswith("interrupted\n")
    assert (child.returncode, err) == (0, "")
    assert processes_of(child.pid) == []
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_spark_starts(tmp_path):
    with start("map", tmp_path) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(1.5)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (out, err, child.returncode) == ("interrupted\n", "", 0)
    deadline = time.monotonic() + 30
    while processes_of(child.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(child.pid) == []
    assert list(tmp_path.iterdir()) == []
