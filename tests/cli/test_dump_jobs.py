"""`dump --jobs`, as it is run, on a log that is large enough for several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.build import batch_v2
from tests.support.logs import records, write_segments

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
DUMP = (sys.executable, "-m", "kafkalog_cli", "dump", "--records", "--output", "ndjson")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large") / "orders-0"
    data = b"".join(batch_v2(records(at, 100, size=1000)) for at in range(0, 150_000, 100))
    return write_segments(directory, {0: data[: 50 * 1024 * 1024], 200_000: b"", 300_000: data})


def output_of(log: Path, *options: str) -> tuple[str, int, int]:
    with subprocess.Popen([*DUMP, *options, str(log)], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        digest, size = sha256(), 0
        while piece := process.stdout.read(1 << 20):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size, process.returncode


def test_the_bytes_are_those_of_one_process(log: Path) -> None:
    one = output_of(log, "--jobs", "1")
    assert one[1] > 200_000_000
    assert one[2] == 4
    assert output_of(log, "--jobs", "2") == output_of(log, "--jobs", "5") == one
    assert output_of(log) == one


def test_all_of_it_ends_with_the_reader(log: Path) -> None:
    """The processes too: none of them holds the descriptors of the one that was started."""
    with subprocess.Popen(
        [*DUMP, "--jobs", "3", str(log)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100_000_000)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 4, "the torn end of the first segment was shown, 70 MB after the start"


def test_ctrl_c_ends_with_a_whole_line_and_the_summary(log: Path) -> None:
    with subprocess.Popen(
        [*DUMP, "--jobs", "3", str(log)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        begun = process.stdout.read(100_000_000)
        os.kill(process.pid, signal.SIGINT)
        rest = process.stdout.read()
        assert process.stderr.read() == b"kafkalog: interrupted\n"
    assert process.returncode == 1
    lines = (begun[-10_000_000:] + rest).splitlines()
    summary = json.loads(lines[-1])
    assert summary["interrupted"]
    assert summary["rows"] == begun.count(b"\n") + rest.count(b"\n") - 1
    assert all(line.endswith(b"}") for line in lines)


def test_a_process_that_is_killed(log: Path) -> None:
    with subprocess.Popen(
        [*DUMP, "--jobs", "2", str(log)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        found = process.stdout.read(50_000_000)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        workers = [
            int(each) for each in children if "resource_tracker" not in Path(f"/proc/{each}/cmdline").read_text()
        ]
        os.kill(workers[-1], signal.SIGKILL)
        end_s = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end_s:
            found += process.stdout.read(1 << 20)
        found += process.stdout.read()
        error = process.stderr.read()
    assert b"a worker process was killed" in error
    assert process.returncode == 1
    if b"the output ends there, maybe inside a line" in error:  # its task was in the middle of its output
        assert b'"summary"' not in found  # nobody has counted its rows
    else:  # between two tasks: all rows that were written are counted
        lines = found.splitlines()
        assert json.loads(lines[-1])["rows"] == len(lines) - 1
