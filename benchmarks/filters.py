"""Filters of `dump` next to `verify` and a full dump: `python -m benchmarks.filters [--size 200MB] [--turns 5]`.

Whole processes, one after the other in each turn, on logs of each codec and on one whose keys are all different. Prints
the medians of wall time and of processor time, and their ratios to `verify --jobs 1` and to the full dump of the same
run; on a busy machine, only those of processor time mean something. Decides nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks import machine
from benchmarks.data import write_log
from benchmarks.keyed import write_keyed
from benchmarks.run import size_of
from kafkalog_core.ops.bench import CODECS, Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

_DUMP: Final = ("--records", "--output", "ndjson")
_FILTERS: Final = {
    "--key": ("--key", "00999999"),
    "--header": ("--header", "no-such-header"),
    "--contains": ("--contains", "qq7zx"),
    "  and --ignore-case": ("--contains", "qq7zx", "--ignore-case"),
    "literal": ("--value-regex", r"qq7zx[0-9]+"),
    "alternatives": ("--value-regex", r"qq7zx|zzq8j|jjx9q"),
    "classes alone": ("--value-regex", r"[A-Z][0-9]{5}[a-z]"),
    "^ and classes": ("--value-regex", r"^[A-Z][0-9]{5}[a-z]"),
    "--offsets": ("--offsets", "1000..1100"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the logs, measure, print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.filters", description=__doc__)
    parser.add_argument("--size", type=size_of, default=200_000_000, help="bytes of each log (default 200MB)")
    parser.add_argument("--keyed-records", type=int, default=4_000_000, help="records of the keyed log")
    parser.add_argument("--turns", type=int, default=5, help="turns of each measure (default 5)")
    parser.add_argument("--dir", help="where the logs are written and kept; else a temporary directory")
    options = parser.parse_args(arguments)
    for name, value in machine.description().items():
        print(f"{name}: {value}")
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        directory = Path(options.dir or scratch)
        logs = {"keyed": write_keyed(directory, options.keyed_records, options.keyed_records).path}
        for codec in CODECS["v2"]:
            recipe = Recipe(format="v2", codec=codec, shape="16k", mixed=True)
            logs[codec] = write_log(recipe, directory, options.size).path
        for name, path in logs.items():
            _measure(name, path, options.turns)


def _measure(name: str, path: str, turns: int) -> None:
    """Print the medians of one log."""
    passes: dict[str, list[machine.ProcessPass]] = {}
    machine.verify_process(path, "--jobs", "1")  # into the page cache
    for _ in range(turns):
        passes.setdefault("verify", []).append(machine.verify_process(path, "--jobs", "1"))
        passes.setdefault("full dump", []).append(machine.dump_process(path, *_DUMP))
        for each, given in _FILTERS.items():
            passes.setdefault(each, []).append(machine.dump_process(path, *_DUMP, *given))
    wall = {each: median(one.seconds for one in some) for each, some in passes.items()}
    cpu = {each: median(one.cpu_seconds for one in some) for each, some in passes.items()}
    print(f"\n{name:<20} {'seconds':>8} {'to verify':>10} {'to full':>8} {'cpu s':>8} {'to verify':>10} {'to full':>8}")
    for each in passes:
        print(f"{each:<20}", *(_ratios(some, each) for some in (wall, cpu)), flush=True)


def _ratios(medians: dict[str, float], name: str) -> str:
    value = medians[name]
    return f"{value:8.2f} {value / medians['verify']:10.2f} {value / medians['full dump']:8.2f}"


if __name__ == "__main__":
    main()
