"""How long commands take for more of one thing: `python -m benchmarks.curves DATE`, then `--draw docs/curves.svg`.

Wall time of whole processes over logs and directories that grow: bytes, segments, damaged places, partitions, and the
same log with one process and with all cores. For each command the exponent between the two largest sizes is printed, of
the time above that of the smallest one: 1 is linear. Writes `results/DATE-curves.json`; `--draw` makes a picture of the
newest result file, for which it needs matplotlib. Decides nothing.
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
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine
from benchmarks.broker import write_log_dir
from benchmarks.data import write_log
from benchmarks.run import RESULTS
from kafkalog_core.ops.bench import Recipe
from tests.support.growing import GROWING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MB: Final = 1_000_000
_HEADERS: Final = "verify --quiet --level headers --jobs 1"
_READ: Final = ("verify --quiet --jobs 1", "dump --records --output ndjson --jobs 1")
_PLAN: Final = ("reindex --jobs 1 --ndjson", "truncate --at-damage --jobs 1 --ndjson", "retain --jobs 1 --ndjson")
_CORES: Final = ("verify --quiet", "dump --records --output ndjson", "reindex --all")
_SIZES: Final[dict[str, tuple[int, ...]]] = {
    "megabytes": (30, 100, 300, 1000),
    "segments": (1_000, 10_000, 30_000, 100_000),
    "damaged places": (100, 1_000, 10_000, 30_000),
    "partitions": (300, 1_000, 3_000, 10_000),
    "processes": (1, 2),
}
_ENDS_WELL: Final = frozenset({0, 4})  # 4: damage, or a plan that loses data
_ENV: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write, or draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=__doc__)
    parser.add_argument("date", nargs="?", help="names the result file, as 2026-01-31")
    parser.add_argument("--turns", type=int, default=3, help="of each measure (default 3)")
    parser.add_argument("--only", action="append", default=[], help="part of what grows; repeatable")
    parser.add_argument("--draw", metavar="PICTURE.svg", help="draw the newest result file, and measure nothing")
    options = parser.parse_args(arguments)
    if options.draw:
        newest = max(RESULTS.glob("*-curves.json"))
        _draw(json.loads(newest.read_text())["curves"], options.draw)
        return
    if options.date is None:
        parser.error("a date, or --draw")
    target = RESULTS / f"{options.date}-curves.json"
    chosen = {what for what in _SIZES if not options.only or any(part in what for part in options.only)}
    kept = json.loads(target.read_text())["curves"] if target.exists() else []
    curves: list[dict[str, Any]] = [each for each in kept if each["what"] not in chosen]
    about = machine.description() | {"date": options.date, "turns": options.turns}
    for what, sizes in _SIZES.items():
        if what in chosen:
            with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
                for curve in _measured(what, sizes, Path(scratch), options.turns):
                    curves.append(curve)
                    target.write_text(json.dumps({"about": about, "curves": curves}, indent=1) + "\n")
    print(f"written: {target}")


def _measured(what: str, sizes: Sequence[int], scratch: Path, turns: int) -> Iterator[dict[str, Any]]:
    """Yield the curve of each command, and print it."""
    paths = [_made(what, size, scratch) for size in sizes]
    commands = {"megabytes": _READ, "damaged places": _READ, "processes": _CORES}.get(what, (_HEADERS, *_PLAN))
    for command in commands:
        lines = [f"{command} --jobs {size}" if what == "processes" else command for size in sizes]
        seconds = [[_seconds(line, path) for _ in range(turns)] for line, path in zip(lines, paths, strict=True)]
        medians = [median(each) for each in seconds]
        exponent = None if what == "processes" else _exponent(sizes, medians)
        name = command.removesuffix(" --jobs 1")
        figures = " ".join(f"{size:,}: {each:.2f}" for size, each in zip(sizes, medians, strict=True))
        print(f"{what:16} {name:36} {figures}{'' if exponent is None else f'  exponent {exponent}'}", flush=True)
        yield {"what": what, "command": name, "sizes": list(sizes), "seconds": seconds, "exponent": exponent}


def _made(what: str, size: int, scratch: Path) -> str:
    place = scratch / f"{what.replace(' ', '-')}-{size}"
    if what in {"megabytes", "processes"}:
        recipe = Recipe(format="v2", codec="none", shape="16k", mixed=True)
        return str(Path(write_log(recipe, scratch, (size if what == "megabytes" else 1000) * _MB).path).parent)
    if what == "partitions":
        return write_log_dir(scratch, size)
    return str(GROWING[what].make(place, size))


def _seconds(command: str, path: str) -> float:
    line = [sys.executable, "-m", "kafkalog_cli", *command.split(), path]
    start = perf_counter()
    done = subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_ENV, check=False)
    seconds = perf_counter() - start
    if done.returncode not in _ENDS_WELL:
        raise SystemExit(f"{' '.join(line)} ended with {done.returncode}")
    return round(seconds, 3)


def _exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float | None:
    """Return that of the growth between the two largest sizes; None: too little time to say."""
    before, after = seconds[-2] - seconds[0], seconds[-1] - seconds[0]
    grown_by = (sizes[-1] - sizes[0]) / (sizes[-2] - sizes[0])
    return round(math.log(after / before, grown_by), 2) if before > 0 and after > 0.2 else None


def _draw(curves: Sequence[dict[str, Any]], picture: str) -> None:
    """Draw a panel for each thing that grows."""
    import matplotlib as mpl  # noqa: PLC0415 - only here

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "kafkalog"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of what it draws with

    names = list(dict.fromkeys(each["what"] for each in curves))
    figure, panels = plt.subplots(1, len(names), figsize=(4 * len(names), 3.6), layout="constrained", squeeze=False)
    for panel, what in zip(panels[0], names, strict=True):
        for each in (one for one in curves if one["what"] == what):
            panel.plot(each["sizes"], [median(some) for some in each["seconds"]], marker="o", label=each["command"])
        panel.set_xlabel(what)
        panel.set_ylabel("seconds")
        panel.set_ylim(bottom=0)
        panel.grid(visible=True, alpha=0.3)
        panel.legend(fontsize=7)
        if what == "processes":
            panel.set_xticks([1, 2])
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
