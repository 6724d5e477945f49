"""`reindex` beside a real broker's own recovery of the same bytes: `python -m benchmarks.recovery DATE`.

A partition has one segment without indexes. A broker of the newest release, with the heap and the compiler that its
start script gives it, starts on it after a crash: what it says that the load of the log took is its time. `reindex`
is plan and apply with one job in this process, as the start of Java is not counted either; `process` is the whole
`kafkalog reindex --apply`, its start included. All write the same indexes, which is checked. Prints a table, writes
`results/DATE-recovery.json`, decides nothing. Needs Java and Maven.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine
from benchmarks.data import FIRST_SEGMENT, PARTITION, LogFile
from benchmarks.reindex import write_shape
from benchmarks.run import RESULTS, size_of
from kafkalog_core import kernels
from kafkalog_core.format.names import JOURNAL_PREFIX
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops import bench
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import asdict
from tests.integration import clients
from tests.integration.broker import Broker
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = {"64k": "1GB", "single": "200MB"}
WANTED: Final = {"64k": 2, "single": 8}
_TOPIC: Final = PARTITION.rpartition("-")[0]
_CONFIGS: Final = {"index.interval.bytes": "4096", "segment.index.bytes": "10485760", "segment.bytes": "1073741824"}
_LOADED: Final = re.compile(rf"Completed load of .*{PARTITION}.* in (\d+)ms")
_RECOVERED: Final = "Recovering unflushed segment 0"
_INDEXES: Final = (".index", ".timeindex")


class _Broker(Broker):
    """As Kafka's own script starts it."""

    java_options = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    options = _options(arguments)
    about = machine.description() | {
        "repeats": options.repeats,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
        "broker": jars.KAFKA_VERSION,
        "broker_java_options": " ".join(_Broker.java_options),
    }
    for name, value in about.items():
        print(f"{name}: {value}")
    print(f"\n{'batches':8}{'size':>10}{'broker':>16}{'reindex':>16}{'ratio':>8}{'wanted':>8}{'process':>16}")
    measured = []
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-", dir=options.dir) as scratch:
        for shape, size in SIZES.items():
            place = Path(scratch, shape)
            log = write_shape(shape, place, size_of(size))
            row = {"shape": shape, "wanted": WANTED[shape]} | _measure(log, place, options.repeats)
            measured.append(row)
            _print(row)
            shutil.rmtree(place)
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-recovery.json"
    target.write_text(json.dumps({"about": about, "measured": measured}, indent=1) + "\n")
    print(f"written: {target}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each measure (default 3)")
    parser.add_argument("--dir", help="on whose disk the logs are written for a while")
    return parser.parse_args(arguments)


def _measure(log: LogFile, place: Path, repeats: int) -> dict[str, Any]:
    broker = _Broker(jars.fetch(), place)
    try:
        broker.start()
        asyncio.run(clients.create_topic(broker, _TOPIC, _CONFIGS))
        _stop(broker)
        own = broker.partition_dir(_TOPIC)
        for path in own.glob(f"{FIRST_SEGMENT}.*"):
            path.unlink()
        shutil.copyfile(log.path, own / f"{FIRST_SEGMENT}.log")
        bench.checksum(str(own / f"{FIRST_SEGMENT}.log"), perf_counter)  # into the page cache
        turns: dict[str, list[float]] = {"broker": [], "reindex": [], "process": []}
        for _ in range(repeats):
            turns["broker"].append(_broker_seconds(broker))
            theirs = _taken_away(own)
            for name, reindex in (("reindex", _reindex_seconds), ("process", _process_seconds)):
                turns[name].append(reindex(own))
                if _taken_away(own) != theirs:
                    raise SystemExit(f"other indexes than the broker's were written for {log.path}")
    finally:
        broker.close()
    ratios = [theirs / ours for theirs, ours in zip(turns["broker"], turns["reindex"], strict=True)]
    return {
        "log": asdict(log),
        "seconds": turns,
        "gigabytes_per_second": {name: log.size_bytes / 1e9 / median(each) for name, each in turns.items()},
        "ratio": median(ratios),
    }


def _broker_seconds(broker: Broker) -> float:
    """What the load of the log takes at a start after a crash."""
    broker.start()
    output = broker.output
    _stop(broker)
    loaded = _LOADED.search(output)
    if _RECOVERED not in output or loaded is None:
        raise SystemExit(f"the broker did not recover the log:\n{output[-4000:]}")
    return int(loaded[1]) / 1000


def _stop(broker: Broker) -> None:
    """Stop it cleanly, so that indexes are trimmed and nothing is lost, and let it look like a crash."""
    broker.stop()
    (broker.log_dir / ".kafka_cleanshutdown").unlink()
    (broker.log_dir / "recovery-point-offset-checkpoint").write_text("0\n0\n")


def _reindex_seconds(directory: Path) -> float:
    """In this process, from nothing to the indexes on the disk."""
    start = perf_counter()
    options = {"kafka": asdict(SettingsRequest(kafka=jars.KAFKA_VERSION))}
    request = PlanRequest(target=target_dir([str(directory)]), options=options, now_ms=FIRST_TIMESTAMP_MS)
    apply_plan(make_plan("reindex", request), Disk(), now_ms=FIRST_TIMESTAMP_MS)
    return perf_counter() - start


def _process_seconds(directory: Path) -> float:
    """A whole process, from nothing to the indexes on the disk."""
    options = ("--apply", "--jobs", "1", "--kafka", jars.KAFKA_VERSION, "--output", "ndjson")
    start = perf_counter()
    command = [sys.executable, "-m", "kafkalog_cli", "reindex", str(directory), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


def _taken_away(directory: Path) -> list[bytes]:
    """The indexes; nothing but the log stays of what a recovery writes."""
    contents = [(directory / f"{FIRST_SEGMENT}{suffix}").read_bytes() for suffix in _INDEXES]
    for path in directory.iterdir():
        if path.suffix in {*_INDEXES, ".snapshot"}:
            path.unlink()
        elif path.name.startswith(JOURNAL_PREFIX):
            shutil.rmtree(path)
    return contents


def _print(row: dict[str, Any]) -> None:
    rates = row["gigabytes_per_second"]
    size = f"{row['log']['size_bytes'] / 1e6:,.0f} MB"
    broker, reindex, process = (f"{rates[name]:>11.3f} GB/s" for name in ("broker", "reindex", "process"))
    ratio = f"{row['ratio']:>8.1f}{row['wanted']:>8}"
    print(f"{row['shape']:8}{size:>10}{broker}{reindex}{ratio}{process}", flush=True)


if __name__ == "__main__":
    main()
