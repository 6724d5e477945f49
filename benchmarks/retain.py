"""Forecasts of retention over trees of many segments: `python -m benchmarks.retain DATE [--segments 10000]`.

Trees of a quarter, half, all and twice as many segments, so that it can be seen whether the time grows with them; each
as partitions of 100 segments and as a single one. A segment is a sparse log of 1 GiB, an offset index, a time index and
a producer snapshot; the last one of each partition holds batches. Measured are the forecast in the library with its
rows, and the whole command, by the clock and by the processor (a machine that is shared disturbs that less). Prints a
table, writes `results/DATE-retain.json`, decides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine, report
from benchmarks.run import RESULTS
from kafkalog_core import kernels
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster, RetentionOptions
from kafkalog_core.ops.retain.retain import RetainRequest, retain
from kafkalog_core.ops.retain.rows import partition_rows, segment_rows
from kafkalog_core.progress import NO_PROGRESS
from tests.support.build import (
    Record,
    batch_v2,
    epoch_checkpoint,
    offset_checkpoint,
    offset_index,
    snapshot,
    time_index,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOW_MS: Final = 1_800_000_000_000
_STEP_MS: Final = 60_000
_RECORDS: Final = 1_000_000
_SEGMENT_BYTES: Final = 1024**3
_PER_PARTITION: Final = 100
_OPTIONS: Final = ("--kafka", "4.3.1", "--retention-hours", "24", "--now", str(_NOW_MS))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retain", description=__doc__)
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--segments", type=int, default=10_000, help="segments of the tree (default 10000)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each (default 5)")
    options = parser.parse_args(arguments)
    about = machine.description() | {
        "date": options.date,
        "repeats": options.repeats,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
        "load_at_start_and_end": [os.getloadavg()[0]],
    }
    cells = []
    for count in (options.segments // 4, options.segments // 2, options.segments, options.segments * 2):
        for per_partition in (_PER_PARTITION, count):
            with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
                write_tree(Path(scratch), count, per_partition)
                cells.append(_cell(Path(scratch), count, per_partition, options.repeats))
    about["load_at_start_and_end"].append(os.getloadavg()[0])
    about["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak memory of this process: {about['peak_rss_bytes'] / 1e6:.0f} MB resident")
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-retain.json"
    target.write_text(json.dumps({"about": about, "cells": cells}, indent=1) + "\n")
    print(f"written: {target}")


def _cell(log_dir: Path, count: int, per_partition: int, repeats: int) -> dict[str, Any]:
    library = [_forecast(log_dir, count) for _ in range(repeats)]
    command = [_command(log_dir) for _ in range(repeats)]
    cell = {
        "segments": count,
        "segments_per_partition": per_partition,
        "forecast_seconds": report.spread(wall for wall, _ in library),
        "forecast_processor_seconds": report.spread(busy for _, busy in library),
        "command_seconds": report.spread(wall for wall, _ in command),
        "command_processor_seconds": report.spread(busy for _, busy in command),
    }
    busy = cell["forecast_processor_seconds"]["median"]
    print(
        f"{count:7,} segments, {per_partition:7,} a partition: forecast median"
        f" {cell['forecast_seconds']['median']:.3f} s, processor {busy:.3f} s ({busy / count * 1e6:.0f} us a segment);"
        f" the whole command {cell['command_seconds']['median']:.3f} s,"
        f" processor {cell['command_processor_seconds']['median']:.3f} s",
        flush=True,
    )
    return cell


def _forecast(log_dir: Path, count: int) -> tuple[float, float]:
    start, busy = perf_counter(), process_time()
    asked = RetentionOptions(
        kafka=SettingsRequest(kafka="4.3.1", assignments=("retention.ms=86400000",)), now_ms=_NOW_MS
    )
    site = target_dir([str(log_dir)])
    seen = 0
    for each in retain(RetainRequest(target=site, wanted=asked), RetentionForecaster(site, asked), NO_PROGRESS):
        if isinstance(each, RetainForecast):
            seen += segment_rows(each.forecast).count
            partition_rows(each.forecast)
    if seen != count:
        raise SystemExit(f"{seen} segments were seen of {count}")
    return perf_counter() - start, process_time() - busy


def _command(log_dir: Path) -> tuple[float, float]:
    start, busy = perf_counter(), _of_children()
    command = [sys.executable, "-m", "kafkalog_cli", "retain", str(log_dir), *_OPTIONS, "--output", "ndjson"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - start, _of_children() - busy


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_tree(log_dir: Path, count: int, per_partition: int) -> None:
    """Write a log directory of so many segments."""
    partitions = count // per_partition
    ends = [("orders", number, per_partition * _RECORDS) for number in range(partitions)]
    (log_dir / "replication-offset-checkpoint").write_bytes(offset_checkpoint(ends))
    for number in range(partitions):
        directory = log_dir / f"orders-{number}"
        directory.mkdir()
        (directory / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(0, 0)]))
        for segment in range(per_partition):
            _write_segment(directory, segment, is_last=segment == per_partition - 1, count=per_partition)


def _write_segment(directory: Path, segment: int, *, is_last: bool, count: int) -> None:
    base = segment * _RECORDS
    largest_ms = _NOW_MS - (count - segment) * _STEP_MS * (100 * _PER_PARTITION // count)
    stem = f"{directory}/{base:020}"
    Path(f"{stem}.index").write_bytes(b"" if is_last else offset_index([(_RECORDS // 2, 4096)]))
    Path(f"{stem}.timeindex").write_bytes(time_index([(largest_ms, _RECORDS - 1)]))
    Path(f"{stem}.snapshot").write_bytes(snapshot([]))
    if is_last:
        records = [Record(offset=base + _RECORDS - 1, value=b"v", timestamp_ms=largest_ms)]
        Path(f"{stem}.log").write_bytes(batch_v2(records))
        return
    with open(f"{stem}.log", "wb") as log:
        os.truncate(log.fileno(), _SEGMENT_BYTES)


if __name__ == "__main__":
    main()
