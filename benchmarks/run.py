"""All readers side by side in one run: `python -m benchmarks.run DATE [--size 1GB] [--only v2/none/16k] [--quick]`.

For each format, codec and shape a seeded log is written, read once (so that it is in the page cache) and then
measured in some turns: the bare checksum, kafkalog's walk, decode to columns, columns to Python bytes, dump to JSON
lines; aiokafka's C parser; the stock Java tool. Every ratio is made of two figures of one turn, so that a machine
that is busy meanwhile slows both. Prints a table, writes `results/DATE.json`, decides nothing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine, others, report
from benchmarks.data import recipes, write_log
from kafkalog_core import kernels
from kafkalog_core.ops import bench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.data import LogFile
    from kafkalog_core.ops.bench import Recipe

RESULTS: Final = Path(__file__).parent / "results"
PROCESS_RECIPES: Final = ("v2/none/16k", "v2/none/single")
SMALL_BYTES: Final = 64_000_000
_DUMP_OPTIONS: Final = ("--records", "--output", "ndjson")
_UNITS: Final = {"GB": 10**9, "MB": 10**6, "GiB": 2**30, "MiB": 2**20}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for, print and write it."""
    options = _options(arguments)
    java = others.JavaTool()
    about = machine.description() | {
        "date": options.date,
        "size_bytes": options.size,
        "repeats": options.repeats,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
        "aiokafka": others.AIOKAFKA,
        "java": java.name,
    }
    for name, value in about.items():
        print(f"{name}: {value}")
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        directory = Path(options.dir or scratch)
        print(report.HEADING)
        results: dict[str, Any] = {"about": about, "cells": [], "processes": []}
        target = RESULTS / f"{options.date}.json"
        for recipe in _chosen(options):
            results["cells"].append(_cell(recipe, directory, options, java))
            _write(target, results)
        for recipe in _chosen(options):
            if recipe.name in PROCESS_RECIPES:
                results["processes"].append(_process_cell(recipe, directory, options))
                _write(target, results)
    print(f"written: {target}")


def _write(target: Path, results: dict[str, Any]) -> None:
    """What is known so far, so that a long run that is stopped has not run in vain."""
    RESULTS.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=1) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--size", type=size_of, default=10**9, help="bytes of each log, as 1GB or 64MiB (default 1GB)")
    parser.add_argument(
        "--java-size", type=size_of, default=SMALL_BYTES, help="bytes of the Java tool's log (default 64MB)"
    )
    parser.add_argument("--quick", action="store_true", help="logs of 64 MB")
    parser.add_argument("--only", action="append", default=[], help="part of a recipe's name, as v2/none; repeatable")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each measure (default 3)")
    parser.add_argument(
        "--java-repeats", type=int, default=2, help="turns of the Java tool (default 2; 0: leave it out)"
    )
    parser.add_argument(
        "--dir", help="where the logs are written and kept; else a temporary directory, emptied as it goes"
    )
    options = parser.parse_args(arguments)
    if options.quick:
        options.size = SMALL_BYTES
    return options


def size_of(text: str) -> int:
    """Bytes of a size as 1GB or 64MiB."""
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)


def _chosen(options: argparse.Namespace) -> list[Recipe]:
    """Every recipe, and the mixed data of the uncompressed ones; or those that `--only` names."""
    known = [
        *recipes(mixed=False),
        *(recipe for recipe in recipes(mixed=True) if recipe.codec == "none" or options.only),
    ]
    if not options.only:
        return known
    return [recipe for recipe in known if any(f"{recipe.name}/".startswith(f"{part}/") for part in options.only)]


# --- one format, codec and shape --------------------------------------------------------------------------------------
def _cell(recipe: Recipe, directory: Path, options: argparse.Namespace, java: others.JavaTool) -> dict[str, Any]:
    log = write_log(recipe, directory, options.size)
    seconds: dict[str, list[float]] = {}
    bench.checksum(log.path, perf_counter)  # into the page cache
    for _ in range(options.repeats):
        for name, measure in bench.MEASURES.items():
            done = measure(log.path, perf_counter)
            _must_agree(name, done, log)
            seconds.setdefault(name, []).append(done.seconds)
        parsed = None if recipe.format == "v07" else others.aiokafka_seconds(log)
        if parsed is not None:
            seconds.setdefault("aiokafka", []).append(parsed)
    java_seconds = _java_seconds(recipe, directory, options, java, log)
    if java_seconds:
        seconds["java"] = java_seconds
    cell = report.cell(recipe.name, log, seconds)
    print(report.line(cell), flush=True)
    if not options.dir:
        Path(log.path).unlink(missing_ok=True)
    return cell


def _must_agree(name: str, done: bench.Pass, log: LogFile) -> None:
    """A reader that is fast because it reads less is no reader."""
    wanted = log.batch_count if name in {"walk", "verify"} else log.record_count
    if name != "checksum" and done.seen != wanted:
        raise SystemExit(f"{name} saw {done.seen} of {wanted} in {log.path}")


def _java_seconds(
    recipe: Recipe, directory: Path, options: argparse.Namespace, java: others.JavaTool, log: LogFile
) -> list[float]:
    """Seconds that the Java tool would take for the whole log, without its start; empty where it is not at hand."""
    if java.missing or not options.java_repeats or recipe.format == "v07":
        return []
    one_batch = write_log(recipe, directory, 1)
    some = write_log(recipe, directory, min(options.size, options.java_size))
    records = some.record_count - one_batch.record_count
    turns = [java.seconds(some.path) - java.seconds(one_batch.path) for _ in range(options.java_repeats)]
    if not options.dir:
        Path(some.path).unlink(missing_ok=True)
    return [seconds / records * log.record_count for seconds in turns]


# --- whole processes --------------------------------------------------------------------------------------------------
def _process_cell(recipe: Recipe, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """`kafkalog dump --records` as its users run it: memory at two sizes, time at a quarter, a half and all of it."""
    turns = {}
    for size_bytes in sorted({min(SMALL_BYTES, options.size), options.size // 4, options.size // 2, options.size}):
        log = write_log(recipe, directory, size_bytes)
        passes = [machine.dump_process(log.path, *_DUMP_OPTIONS) for _ in range(options.repeats)]
        turns[log] = passes
        if not options.dir:
            Path(log.path).unlink(missing_ok=True)
    start = machine.dump_process(write_log(recipe, directory, 1).path, *_DUMP_OPTIONS)
    cell = report.process_cell(recipe.name, turns, start)
    print(report.process_lines(cell), flush=True)
    return cell


if __name__ == "__main__":
    main()
