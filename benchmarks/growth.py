"""How the time of commands grows with what is in a directory: `python -m benchmarks.growth DATE [--times 25]`.

Every direction of `tests/support/growing.py` is made in two sizes, the second four times the first, and every command
that works on it runs on both as a process of its own. The exponent is that of the processor time above what the command
takes on an input of one: 1 is linear. Prints a table, writes `results/DATE-growth.json`, decides nothing; the tests
count calls.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine
from benchmarks.run import RESULTS
from tests.support.growing import GROWING, Growing

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP: Final = 4


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--times", type=int, default=25, help="the smaller size, by the size of the tests (default 25)")
    parser.add_argument("--only", action="append", default=[], help="part of a direction's name; repeatable")
    options = parser.parse_args()
    print(f"{'input':44} {'command':36} {'of one':>8} {'smaller':>8} {'4 times':>8} {'exponent':>8}")
    about = machine.description() | {"date": options.date, "times": options.times, "only": options.only}
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-growth.json"
    cells: list[dict[str, Any]] = []
    for name, growing in GROWING.items():
        if not options.only or any(part in name for part in options.only):
            with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
                for cell in _cells(name, growing, Path(scratch), options.times):
                    cells.append(cell)
                    target.write_text(json.dumps({"about": about, "cells": cells}, indent=1) + "\n")
    print(f"written: {target}")


def _cells(name: str, growing: Growing, scratch: Path, times: int) -> Iterator[dict[str, Any]]:
    counts = (1, growing.count * times, growing.count * times * _STEP)
    paths = [growing.make(scratch / str(count), count) for count in counts]
    for line in growing.commands:
        base, small, large = (_seconds(line, path) for path in paths)
        grown = max(0.01, small - base), max(0.01, large - base)
        exponent = (
            math.log(grown[1] / grown[0], _STEP) if grown[1] > 0.5 else None
        )  # less is lost in the noise of a busy machine
        shown = "-" if exponent is None else f"{exponent:.2f}"
        label = f"{counts[1]:,} {name}"
        command = line.replace(" {path}", "").replace(" --jobs 1", "")
        print(f"{label:44} {command[:36]:36} {base:8.2f} {small:8.2f} {large:8.2f} {shown:>8}", flush=True)
        yield {
            "input": name,
            "counts": counts,
            "command": command,
            "cpu_seconds": [round(seconds, 3) for seconds in (base, small, large)],
            "exponent": None if exponent is None else round(exponent, 2),
        }


def _seconds(line: str, path: Path) -> float:
    """Processor time of one run, children of it included."""
    command = [sys.executable, "-m", "kafkalog_cli", *(word.format(path=path) for word in line.split())]
    before = os.times()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    after = os.times()
    if done.returncode not in {0, 3, 4}:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main()
