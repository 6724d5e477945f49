"""The pipeline against Spark's own ways: `python -m benchmarks.spark DATE [--records 10000000] [--dir DIR]`.

One log dir of 10 million records (1 GB, `benchmarks.spark_data`): 4 partitions of two closed segments; verify and
compaction also as a single partition of 8 segments, compaction also with a key that half of the records have. Every job
runs in the same session of `local[2]`, in turns: `export` against Spark's Parquet writer that reads the same columns
from the data source `kafkalog` (neither syncs its files to the disk; an export that does, as is its custom, stands
beside them); the simulation of the cleaner against Spark SQL's group-by of the last offset of each key, from the data
source; `verify` alone. The first turn is told by itself, as it starts the Python processes. The same jobs, without
Spark's own ways, on `local[1]` say what the second core brings. Fixed cost is a whole command on a log dir of two
batches, with and without Spark. Prints a table, writes `results/DATE-spark.json`, decides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine
from benchmarks.run import RESULTS
from benchmarks.spark_data import RECORDS_A_BATCH, Disk, write_disk
from kafkalog_core import kernels
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.spark.export.export import ExportRequest, export
from kafkalog_core.spark.jobs import compact
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.schema import RECORDS, ddl
from kafkalog_core.spark.session.session import SessionSettings, spark_session
from kafkalog_core.spark.session.workers import SparkWorkers
from kafkalog_core.structs import Struct, asdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

_NOW_MS: Final = FIRST_TIMESTAMP_MS + 365 * 24 * 60 * 60 * 1000
_MASTERS: Final = ("local[2]", "local[1]")
_SHUFFLES: Final = {"spark.sql.shuffle.partitions": "8"}
_RULES: Final = SettingsRequest(kafka="4.3.1", assignments=("cleanup.policy=compact",))
_OF_DIRECTORIES: Final = ("topic", "partition", "path")
"""Columns that no file of an export has: its directories' names tell."""


class Bench(Struct, frozen=True, kw_only=True):
    """What a job works with: `scratch` is an empty directory of its own."""

    spark: SparkSession
    disk: Disk
    scratch: Path


# --- the jobs: each gives the records that it saw, or null where it counts something else ----------------------------
def _verify(bench: Bench) -> int:
    request = VerifyRequest(targets=_targets(bench.disk), now_ms=_NOW_MS)
    verdicts = list(verify(request, workers=SparkWorkers(bench.spark)))
    wrong = [finding for verdict in verdicts for finding in verdict.findings if finding.severity == "error"]
    if wrong:
        raise SystemExit(f"{wrong[0].path}: {wrong[0].message}")
    return sum(segment.records for verdict in verdicts for segment in getattr(verdict, "segments", ()))


def _export(bench: Bench, *, syncs: bool = False) -> int:
    request = ExportRequest(targets=_targets(bench.disk), output=Store.of(str(bench.scratch / "out"), syncs=syncs))
    for _ in export(SparkWorkers(bench.spark), request, Report(), run_id="bench", now_ms=_NOW_MS):
        pass
    return _parquet_rows(bench.scratch / "out")


def _synced_export(bench: Bench) -> int:
    return _export(bench, syncs=True)


def _spark_writer(bench: Bench) -> int:
    names = [column.name for column in RECORDS.columns if column.name not in {"type", *_OF_DIRECTORIES}]
    _records(bench, *names).write.parquet(str(bench.scratch / "out"))
    return _parquet_rows(bench.scratch / "out")


def _compact(bench: Bench) -> int:
    request = CompactRequest(targets=_targets(bench.disk), now_ms=_NOW_MS, kafka=_RULES)
    forecasts = list(compact(SparkWorkers(bench.spark), request, Report()))
    return sum(told["records_before"] for forecast in forecasts for told in forecast.passes)


def _group_by(bench: Bench) -> None:
    rows = _records(bench, "partition", "key", "offset").groupBy("partition", "key").agg({"offset": "max"})
    rows.write.format("noop").mode("overwrite").save()


_JOBS: Final[dict[str, Callable[[Bench], int | None]]] = {
    "verify": _verify,
    "export": _export,
    "synced-export": _synced_export,
    "spark-writer": _spark_writer,
    "compact": _compact,
    "group-by": _group_by,
}
_RIVALS: Final = {"export": "spark-writer", "synced-export": "spark-writer", "compact": "group-by"}


def _targets(disk: Disk) -> tuple[Any, ...]:
    return tuple(resolve([disk.path]))


def _records(bench: Bench, *names: str) -> DataFrame:
    source = bench.spark.read.format("kafkalog").option("table", "records").schema(ddl(RECORDS, names))
    return source.load(bench.disk.path)


def _parquet_rows(directory: Path) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy, and not for --help

    return sum(pq.read_metadata(path).num_rows for path in directory.rglob("*part-*.parquet"))


# --- one run ----------------------------------------------------------------------------------------------------------
def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    options = _options(arguments)
    about = machine.description() | {
        "records": options.records,
        "repeats": options.repeats,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
        "load_at_start_and_end": [os.getloadavg()[0]],
    }
    for name, value in about.items():
        print(f"{name}: {value}")
    results: dict[str, Any] = {"about": about, "cells": []}
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-", dir=options.dir) as scratch:
        home = Path(options.dir or scratch)
        results["fixed"] = _fixed_costs(home, Path(scratch), options.repeats)
        disks = _disks(home, options.records)
        for master in options.masters.split(","):
            cells = list(_cells(master, disks, Path(scratch), options))
            results["cells"] += cells
    results["ratios"] = _ratios(results["cells"])
    for name, ratio in results["ratios"].items():
        print(f"{name}: {ratio:.2f}")
    about["load_at_start_and_end"].append(os.getloadavg()[0])
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-spark.json"
    target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {target}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--records", type=int, default=10_000_000, help="records of a log dir (default 10000000)")
    parser.add_argument("--repeats", type=int, default=3, help="turns behind the first one (default 3)")
    parser.add_argument("--masters", default=",".join(_MASTERS), help=f"of Spark (default {','.join(_MASTERS)})")
    parser.add_argument("--only", default=",".join(_JOBS), help=f"jobs to run (default {','.join(_JOBS)})")
    parser.add_argument("--dir", help="where the logs are written and kept; else a temporary directory")
    return parser.parse_args(arguments)


def _disks(home: Path, records: int) -> dict[str, tuple[Disk, tuple[str, ...]]]:
    """The log dirs, and the jobs that run over each."""
    return {
        "4 partitions": (write_disk(home, records, partitions=4, segments=2), tuple(_JOBS)),
        "1 partition": (write_disk(home, records, partitions=1, segments=8), ("verify", "compact", "group-by")),
        "hot key": (
            write_disk(home, records, partitions=4, segments=2, hot_key=True),
            ("compact", "group-by"),
        ),
    }


def _cells(
    master: str, disks: dict[str, tuple[Disk, tuple[str, ...]]], scratch: Path, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Each job over each log dir, in turns: whatever disturbs the machine disturbs all of them."""
    left_out = set() if master == _MASTERS[0] else set(_RIVALS.values())
    asked = set(options.only.split(",")) - left_out
    work = [(name, job) for name, (_, jobs) in disks.items() for job in jobs if job in asked]
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in work}
    place = scratch / "job"
    for disk, _ in disks.values():
        _into_page_cache(disk)
    with spark_session(SessionSettings(master=master, driver_memory="2g", confs=_SHUFFLES)) as spark:
        for _ in range(1 + options.repeats):
            for name, job in work:
                seconds[name, job].append(_seconds(job, Bench(spark=spark, disk=disks[name][0], scratch=place)))
    for (name, job), turns in seconds.items():
        disk = disks[name][0]
        warm = turns[1:] or turns
        cell = {
            "master": master,
            "job": job,
            "disk": name,
            "log": {key: value for key, value in asdict(disk).items() if key != "path"},
            "first_seconds": turns[0],
            "warm_seconds": warm,
            "million_records_per_second": disk.records / 1e6 / median(warm),
        }
        print(
            f"{master:10}{job:14}{name:14} first {turns[0]:6.2f} s, warm {min(warm):6.2f} to {max(warm):6.2f} s,"
            f" median {cell['million_records_per_second']:6.2f} M records/s",
            flush=True,
        )
        yield cell


def _seconds(job: str, bench: Bench) -> float:
    bench.scratch.mkdir()
    start = perf_counter()
    seen = _JOBS[job](bench)
    seconds = perf_counter() - start
    closed = bench.disk.records - bench.disk.partitions * RECORDS_A_BATCH
    if seen is not None and seen != (closed if job == "compact" else bench.disk.records):
        raise SystemExit(f"{job} saw {seen} records of {bench.disk.records} in {bench.disk.path}")
    shutil.rmtree(bench.scratch)
    return seconds


def _into_page_cache(disk: Disk) -> None:
    for path in Path(disk.path).rglob("*.log"):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


def _ratios(cells: list[dict[str, Any]]) -> dict[str, float]:
    """How many times as fast, by the medians of one session; a second core's by those of two."""
    speeds = {(cell["master"], cell["job"], cell["disk"]): cell["million_records_per_second"] for cell in cells}
    ratios = {}
    for (master, job, disk), speed in speeds.items():
        rival = _RIVALS.get(job)
        if (master, rival, disk) in speeds:
            ratios[f"{job} to {rival}, {disk}, {master}"] = speed / speeds[master, rival, disk]
        if master == _MASTERS[0] and (_MASTERS[1], job, disk) in speeds:
            ratios[f"{job}, {disk}, 2 cores to 1"] = speed / speeds[_MASTERS[1], job, disk]
    return ratios


# --- what Spark costs before it does anything -------------------------------------------------------------------------
def _fixed_costs(home: Path, scratch: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of whole commands over one batch."""
    tiny = write_disk(home, 2 * RECORDS_A_BATCH, partitions=1, segments=1).path
    output = scratch / "tiny"
    commands = {
        "verify": ["verify", tiny],
        "spark verify": ["spark", "verify", "--master", _MASTERS[0], tiny],
        "spark export": ["spark", "export", "--master", _MASTERS[0], tiny, "--to", str(output)],
    }
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, arguments in commands.items():
            shutil.rmtree(output, ignore_errors=True)
            start = perf_counter()
            subprocess.run([sys.executable, "-m", "kafkalog_cli", *arguments], check=True, stdout=subprocess.DEVNULL)
            found[name].append(perf_counter() - start)
    for name, seconds in found.items():
        print(f"{name} of two batches, the whole command: {median(seconds):.2f} s")
    return found


if __name__ == "__main__":
    main()
