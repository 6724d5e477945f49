"""`verify` beside a bare checksum and the stock tool: `python -m benchmarks.verify DATE [--size 1GB] [--only v2/none]`.

Parts, all of them unless `--part` names some:
  levels      each format, codec and shape at each level, in this process, and with the producers of a busy topic
  memory      whole processes over logs of three sizes
  indexes     a log with an index entry for every batch: what its indexes add, and what the stock tool takes for them
  jobs        one partition of many segments, and a log directory of large partitions, with 1, 2 and 4 processes
  partitions  a log directory of ten thousand small partitions

Rates are of wall time. Every ratio is made of two figures of one turn, so that a machine that is busy meanwhile slows
both; those to the bare checksum are of processor time, which a machine that is shared disturbs less. What is checked
must be healthy and be seen whole. Prints tables, writes `results/DATE-verify.json` after each part (parts that are in
it and are not measured again stay), decides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from benchmarks import broker, machine, others, report
from benchmarks.data import FIRST_SEGMENT, LogFile, recipes, write_log
from benchmarks.run import RESULTS, SMALL_BYTES, size_of
from kafkalog_core import kernels
from kafkalog_core.engine.targets import resolve
from kafkalog_core.format import layout
from kafkalog_core.ops import bench
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS, Recipe, build_block
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import Level, VerifyRequest
from kafkalog_core.ops.verify.verdict import PartitionVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PARTS: Final = ("levels", "memory", "indexes", "jobs", "partitions")
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
NOW_MS: Final = 2 * FIRST_TIMESTAMP_MS
PLAIN: Final = Recipe(format="v2", codec="none", shape="16k")
SINGLE: Final = Recipe(format="v2", codec="none", shape="single")
_JAVA_OPTIONS: Final = {"java_shallow": (), "java_deep": ("--deep-iteration",)}
_JAVA_INDEX_OPTIONS: Final = ("--verify-index-only",)
_JAVA_ENTRIES: Final = (2_500, 5_000, 10_000)
_JOBS: Final = (1, 2, 4)
_MEMORY_BYTES: Final = (SMALL_BYTES, 256_000_000, 1_000_000_000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for, print and write it."""
    options = _options(arguments)
    java = others.JavaTool()
    about = machine.description() | {
        "size_bytes": options.size,
        "repeats": options.repeats,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
        "java": java.name,
    }
    for name, value in about.items():
        print(f"{name}: {value}")
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-verify.json"
    results: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {}
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        directory = Path(options.dir or scratch)
        for part in options.part or PARTS:
            loads = [os.getloadavg()[0]]
            print(f"\n{part}, at a load of {loads[0]:.1f}", flush=True)
            measured = list(_MEASURES[part](options, directory, java))
            loads.append(os.getloadavg()[0])
            results[part] = {"about": about | {"load_at_start_and_end": loads}, "measured": measured}
            target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {target}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--part", action="append", choices=PARTS, help="one of the parts; repeatable")
    parser.add_argument("--size", type=size_of, default=10**9, help="bytes of each log of levels (default 1GB)")
    parser.add_argument("--only", action="append", default=[], help="part of a recipe's name, as v2/none; repeatable")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each measure (default 3)")
    parser.add_argument("--java-size", type=size_of, default=SMALL_BYTES, help="bytes of the Java tool's log")
    parser.add_argument("--java-repeats", type=int, default=2, help="turns of the Java tool (0: leave it out)")
    parser.add_argument("--java-limit", type=float, default=120.0, help="seconds after which it is stopped (indexes)")
    parser.add_argument("--entries", type=int, default=6_833_000, help="of the indexes (default: 82 MB of .timeindex)")
    parser.add_argument("--jobs-size", type=size_of, default=2 * 10**9, help="bytes that the processes share")
    parser.add_argument("--partitions", type=int, default=10_000, help="small partitions")
    parser.add_argument(
        "--dir", help="where the logs are written and kept; else a temporary directory, emptied as it goes"
    )
    return parser.parse_args(arguments)


# --- one pass in this process -----------------------------------------------------------------------------------------
class _Seconds(NamedTuple):
    wall: float
    cpu: float


def _verify_seconds(path: str, level: Level, logs: Sequence[LogFile]) -> _Seconds:
    """Seconds of `verify` with one process; the logs must be healthy and seen whole."""
    start, cpu_start = perf_counter(), process_time()
    request = VerifyRequest(targets=tuple(resolve([path])), level=level, now_ms=NOW_MS)
    verdicts = list(verify(request))
    seconds = _Seconds(perf_counter() - start, process_time() - cpu_start)
    errors = [finding for verdict in verdicts for finding in verdict.findings if finding.severity == "error"]
    if errors:
        raise SystemExit(f"{errors[0].code} at {errors[0].position} in {path}: {errors[0].message}")
    segments = [one for verdict in verdicts if isinstance(verdict, PartitionVerdict) for one in verdict.segments]
    seen = sum(one.batches for one in segments), sum(one.records for one in segments)
    wanted = sum(log.batch_count for log in logs), sum(log.record_count for log in logs)
    if seen[0] != wanted[0] or (level == "records" and seen != wanted):
        raise SystemExit(f"verify saw {seen} batches and records of {wanted} in {path}")
    return seconds


def _forget(options: argparse.Namespace, *paths: str) -> None:
    if not options.dir:
        for path in paths:
            Path(path).unlink(missing_ok=True)


# --- levels -----------------------------------------------------------------------------------------------------------
def _levels(options: argparse.Namespace, directory: Path, java: others.JavaTool) -> Iterator[dict[str, Any]]:
    print(report.heading(report.VERIFY_COLUMNS))
    for recipe in recipes(mixed=False):
        for has_producers in (False, True) if recipe.format == "v2" else (False,):
            name = recipe.name + ("/producers" if has_producers else "")
            if options.only and not any(f"{name}/".startswith(f"{part}/") for part in options.only):
                continue
            write = broker.write_produced if has_producers else write_log
            log = write(recipe, directory, options.size)
            seconds = _level_turns(log, options.repeats)
            if not has_producers:
                seconds |= _java_turns(recipe, directory, options, java, log)
            cell = report.cell(name, log, seconds, report.VERIFY_RATIOS)
            print(report.line(cell, report.VERIFY_COLUMNS), flush=True)
            _forget(options, log.path)
            yield cell


def _level_turns(log: LogFile, repeats: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {}
    bench.checksum(log.path, perf_counter)  # into the page cache
    for _ in range(repeats):
        seconds.setdefault("checksum", []).append(bench.checksum(log.path, perf_counter).seconds)
        seconds.setdefault("checksum_cpu", []).append(bench.checksum(log.path, process_time).seconds)
        for level in LEVELS:
            taken = _verify_seconds(log.path, level, [log])
            seconds.setdefault(level, []).append(taken.wall)
            seconds.setdefault(f"{level}_cpu", []).append(taken.cpu)
    return seconds


def _java_turns(
    recipe: Recipe, directory: Path, options: argparse.Namespace, java: others.JavaTool, log: LogFile
) -> dict[str, list[float]]:
    """Seconds that the stock tool would take for the whole log, without its start: it checks and prints headers alone.

    The deep turn prints what it can tell of each record without its content.
    """
    if java.missing or not options.java_repeats or recipe.format == "v07":
        return {}
    one_batch = write_log(recipe, directory, 1)
    some = write_log(recipe, directory, min(options.size, options.java_size))
    turns: dict[str, list[float]] = {}
    for name, how in _JAVA_OPTIONS.items():
        for _ in range(options.java_repeats):
            seconds = java.seconds(some.path, how) - java.seconds(one_batch.path, how)
            share = (some.record_count - one_batch.record_count) / log.record_count
            turns.setdefault(name, []).append(seconds / share)
    if some.path != log.path:
        _forget(options, some.path)
    return turns


# --- memory -----------------------------------------------------------------------------------------------------------
def _memory(options: argparse.Namespace, directory: Path, java: others.JavaTool) -> Iterator[dict[str, Any]]:
    """Peak of the resident set by the size of the log, with one process."""
    del java
    for recipe in (PLAIN, SINGLE):
        turns = {}
        for size_bytes in _MEMORY_BYTES:
            log = write_log(recipe, directory, size_bytes)
            turns[log] = [machine.verify_process(log.path, "--jobs", "1") for _ in range(options.repeats)]
            _forget(options, log.path)
        start = machine.verify_process(write_log(recipe, directory, 1).path, "--jobs", "1")
        cell = report.process_cell(recipe.name, turns, start)
        print(report.process_lines(cell, "verify"), flush=True)
        yield cell


# --- indexes ----------------------------------------------------------------------------------------------------------
def _indexes(options: argparse.Namespace, directory: Path, java: others.JavaTool) -> Iterator[dict[str, Any]]:
    """Processor time that the indexes add, as the difference of one turn; then the stock tool, smaller ones first."""
    indexed = broker.write_indexed(SINGLE, directory, _bytes_of(options.entries))
    places = {"bare": indexed.bare, "index": indexed.with_index, "both": indexed.with_both}
    turns: dict[str, list[float]] = {name: [] for name in places}
    bench.checksum(indexed.log.path, perf_counter)
    for _ in range(options.repeats + 1):
        for name, path in places.items():
            turns[name].append(_verify_seconds(path, "headers", [indexed.log]).cpu)
    added = {
        "index_seconds": report.spread(b - a for a, b in zip(turns["bare"][1:], turns["index"][1:], strict=True)),
        "timeindex_seconds": report.spread(b - a for a, b in zip(turns["index"][1:], turns["both"][1:], strict=True)),
    }
    records = _verify_seconds(indexed.with_both, "records", [indexed.log]).wall
    print(
        f"{indexed.log.batch_count:,} batches: {indexed.index_bytes / 1e6:.0f} MB of offset index"
        f" {added['index_seconds']['median']:.3f} s, {indexed.timeindex_bytes / 1e6:.0f} MB of time index"
        f" {added['timeindex_seconds']['median']:.3f} s; all of it at level records {records:.2f} s",
        flush=True,
    )
    stock = list(_java_indexes(options, directory, java, indexed.with_both)) if not java.missing else []
    yield {
        "batches": indexed.log.batch_count,
        "index_bytes": indexed.index_bytes,
        "timeindex_bytes": indexed.timeindex_bytes,
        **added,
        "records_seconds": records,
        "java": stock,
    }


def _java_indexes(
    options: argparse.Namespace, directory: Path, java: others.JavaTool, whole: str
) -> Iterator[dict[str, Any]]:
    if not options.java_repeats:
        return
    places = [broker.write_indexed(SINGLE, directory, _bytes_of(entries)).with_both for entries in _JAVA_ENTRIES]
    for place in (*places, whole):
        path = Path(place) / f"{FIRST_SEGMENT}.timeindex"
        entries = path.stat().st_size // layout.TIME_INDEX_ENTRY.size
        try:
            seconds = java.seconds_within(options.java_limit, str(path), _JAVA_INDEX_OPTIONS)
            told = f"stopped after {options.java_limit:.0f} s" if seconds is None else f"{seconds:.2f} s"
        except subprocess.CalledProcessError as error:  # on large logs its heap is too small
            seconds, told = None, f"failed with exit status {error.returncode}"
        print(f"  stock tool, time index of {entries:,} entries: {told}", flush=True)
        yield {"entries": entries, "seconds": seconds, "told": told}


def _bytes_of(entries: int) -> int:
    """Bytes of log for so many single batches and one more."""
    block = build_block(SINGLE)
    blocks, rest = divmod(entries + 1, len(block.ends))
    return blocks * len(block.data) + (block.ends[rest - 1] if rest else 0)


# --- jobs -------------------------------------------------------------------------------------------------------------
def _jobs(options: argparse.Namespace, directory: Path, java: others.JavaTool) -> Iterator[dict[str, Any]]:
    del java
    partition, logs = broker.write_segments(PLAIN, directory, options.jobs_size, options.jobs_size // 8)
    log_dir = broker.spread_segments(logs, directory / "large-partitions")
    total = sum(log.size_bytes for log in logs)
    for name, path in (("one partition of segments", partition), ("partitions of one segment", log_dir)):
        turns = _process_turns(path, options.repeats)
        yield _jobs_cell(f"{len(logs)} x {logs[0].size_bytes / 1e6:.0f} MB, {name}", turns, total)
    _forget(options, *(log.path for log in logs))


def _process_turns(path: str, repeats: int, jobs: Iterable[int] = _JOBS) -> dict[int, list[machine.ProcessPass]]:
    turns: dict[int, list[machine.ProcessPass]] = {number: [] for number in jobs}
    machine.verify_process(path, "--jobs", "1", "--level", "checksums")  # into the page cache
    for _ in range(repeats):
        for number, passes in turns.items():
            passes.append(machine.verify_process(path, "--jobs", str(number)))
    return turns


def _jobs_cell(name: str, turns: dict[int, list[machine.ProcessPass]], size_bytes: int) -> dict[str, Any]:
    print(name)
    cells = []
    for number, passes in turns.items():
        gain = report.spread(one.seconds / now.seconds for one, now in zip(turns[1], passes, strict=True))
        seconds = report.spread(one.seconds for one in passes)
        print(
            f"  {number} jobs: {seconds['median']:6.2f} s, {size_bytes / 1e9 / seconds['median']:5.2f} GB/s,"
            f" {gain['median']:.2f} times one job, peak {max(one.peak_rss_bytes for one in passes) / 1e6:.0f} MB",
            flush=True,
        )
        peak = max(one.peak_rss_bytes for one in passes)
        cells.append({"jobs": number, "seconds": seconds, "gain": gain, "peak_rss_bytes": peak})
    return {"name": name, "size_bytes": size_bytes, "turns": cells}


# --- many partitions --------------------------------------------------------------------------------------------------
def _partitions(options: argparse.Namespace, directory: Path, java: others.JavaTool) -> Iterator[dict[str, Any]]:
    del java
    path = broker.write_log_dir(directory, options.partitions)
    size_bytes = sum(file.stat().st_size for file in Path(path).glob("*/*.log"))
    turns = _process_turns(path, options.repeats)
    yield _jobs_cell(f"{options.partitions:,} small partitions", turns, size_bytes)


_MEASURES: Final = {
    "levels": _levels,
    "memory": _memory,
    "indexes": _indexes,
    "jobs": _jobs,
    "partitions": _partitions,
}

if __name__ == "__main__":
    main()
