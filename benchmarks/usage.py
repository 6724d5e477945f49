"""`kafkalog usage` next to `du` and `kafkalog retain`: `python -m benchmarks.usage DATE [--segments 100000]`.

The tree is that of `benchmarks.retain`, in partitions of 100 segments, and half of it, so that it can be seen whether
memory grows with the number of segments. Measured are the whole commands, in turn, by the clock, by the processor (a
machine that is shared disturbs that less) and by their peak of memory, which is never below that of this process: the
system counts it up to the start of the command. Prints a table, writes `results/DATE-usage.json`, decides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine, report
from benchmarks.retain import write_tree
from benchmarks.run import RESULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

_PER_PARTITION: Final = 100
_KAFKALOG: Final = (sys.executable, "-m", "kafkalog_cli")
_RETENTION: Final = ("--kafka", "4.3.1", "--now", "1800000000000", "--ndjson")
COMMANDS: Final = {
    "du": ("du", "-s", "-B1"),
    "usage --by kind": (*_KAFKALOG, "usage", "--by", "kind", "--ndjson"),
    "retain": (*_KAFKALOG, "retain", *_RETENTION),
    "usage": (*_KAFKALOG, "usage", *_RETENTION),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.usage", description=__doc__)
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--segments", type=int, default=100_000, help="segments of the tree (default 100000)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each (default 3)")
    options = parser.parse_args(arguments)
    about = machine.description() | {"date": options.date, "repeats": options.repeats}
    cells = []
    for count in (options.segments // 2, options.segments):
        with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
            write_tree(Path(scratch), count, _PER_PARTITION)
            cells.append(_cell(scratch, count, options.repeats))
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-usage.json"
    target.write_text(json.dumps({"about": about, "cells": cells}, indent=1) + "\n")
    print(f"written: {target}")


def _cell(log_dir: str, count: int, repeats: int) -> dict[str, Any]:
    runs: dict[str, list[tuple[float, float, int]]] = {name: [] for name in COMMANDS}
    for number in range(repeats + 1):
        for name, command in COMMANDS.items():
            measured = _run([*command, log_dir])
            if number:  # the first round fills the caches
                runs[name].append(measured)
    cell: dict[str, Any] = {"segments": count}
    for name, found in runs.items():
        walls, busy, peaks = zip(*found, strict=True)
        cell[name] = {
            "seconds": report.spread(walls),
            "processor_seconds": report.spread(busy),
            "peak_rss_bytes": max(peaks),
        }
        print(
            f"{count:7,} segments, {name:15}: median {cell[name]['seconds']['median']:.2f} s,"
            f" processor {cell[name]['processor_seconds']['median']:.2f} s, peak {max(peaks) / 1e6:.0f} MB",
            flush=True,
        )
    return cell


def _run(command: Sequence[str]) -> tuple[float, float, int]:
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    return perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


if __name__ == "__main__":
    main()
