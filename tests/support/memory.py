"""The memory that one run of the command line takes at most, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROMISED_BYTES = 150_000_000
PROGRAM = """
import atexit, resource, runpy, sys
out, sys.argv = sys.argv[1], sys.argv[1:]
sys.modules["numpy"] = None  # pyarrow imports it where it is installed, as other packages of the tests want it: 15 MB

@atexit.register
def note():
    try:
        lines = open("/proc/self/status").readlines()  # getrusage counts what the parent had before the exec, too
        peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open(out, "w") as file:
        file.write(str(peak))

runpy.run_module("kafkalog_cli", run_name="__main__")
"""


def peak_bytes(tmp_path: Path, *arguments: str) -> int:
    """The largest resident set of one run, whose output is thrown away."""
    peak = tmp_path / "peak"
    command = [sys.executable, "-c", PROGRAM, str(peak), *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode in {0, 3, 4}, done.stderr
    return int(peak.read_text())
