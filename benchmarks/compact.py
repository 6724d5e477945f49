"""`compact` on one core: `python -m benchmarks.compact DATE [--sizes 2500000,5000000,10000000] [--keys 1000000]`.

Each log is a partition of records of 90 bytes with a million keys (`benchmarks.keyed`), none of it clean yet. Measured
are whole processes with `--jobs 1`, their start subtracted, by the wall and by the processor: the simulation, and
`--apply --to` a new directory, reading back included; their largest resident sets stand beside the memory of the
offset map. Where Java and Kafka's jars are at hand, the cleaner of 4.3.1 does the same to a copy, in a process that has
already cleaned one; the loading of the log counts, the start of Java does not. In several sizes, so that it shows
whether the time grows with the size alone. Prints a table, writes `results/DATE-compact.json`, decides nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine
from benchmarks.keyed import KeyedLog, write_keyed
from benchmarks.run import RESULTS
from kafkalog_core import kernels
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS
from kafkalog_core.structs import asdict
from tests.integration.log_harness import running_harness
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.machine import ProcessPass
    from tests.integration.log_harness import LogHarness

MEMORY_BYTES: Final = 128 * 1024 * 1024
_SIZES: Final = "2500000,5000000,10000000"
_START_RECORDS: Final = 360
_JAVA_OPTIONS: Final = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As Kafka's own script starts a broker."""
_JAVA_WARM_RECORDS: Final = 1_000_000
_NOW_MS: Final = FIRST_TIMESTAMP_MS + 365 * 24 * 60 * 60 * 1000
_RULES: Final = ("--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--jobs", "1", "--output", "ndjson")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    options = _options(arguments)
    about = machine.description() | {
        "repeats": options.repeats,
        "keys": options.keys,
        "memory_bytes": MEMORY_BYTES,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
        "cleaner": f"{jars.KAFKA_VERSION}, Java options {' '.join(_JAVA_OPTIONS)}",
    }
    for name, value in about.items():
        print(f"{name}: {value}")
    titles = f"\n{'records':>12}{'log':>10}" + "".join(
        f"{name + ' M/s':>15}{'M/cpu s':>9}{'resident':>10}" for name in ("simulated", "applied")
    )
    print(titles + ("" if options.no_java else f"{'Kafka M/s':>11}"))
    measured = []
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-", dir=options.dir) as scratch:
        directory = Path(options.dir or scratch)
        start = write_keyed(directory, _START_RECORDS, _START_RECORDS)
        starts = {"simulated": _simulated(start), "applied": _applied(start, Path(scratch))}
        for records in map(int, options.sizes.split(",")):
            log = write_keyed(directory, records, options.keys)
            row = _measure(log, starts, Path(scratch), options.repeats)
            if not options.no_java:
                row["kafka"] = _kafka(log, directory, Path(scratch), options.repeats)
            measured.append(row)
            print(_line(row), flush=True)
            if not options.dir:
                shutil.rmtree(Path(log.path).parent)
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-compact.json"
    target.write_text(json.dumps({"about": about, "measured": measured}, indent=1) + "\n")
    print(f"written: {target}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compact", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--sizes", default=_SIZES, help=f"records of the logs (default {_SIZES})")
    parser.add_argument("--keys", type=int, default=1_000_000, help="different keys (default 1000000)")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each measure (default 3)")
    parser.add_argument("--no-java", action="store_true", help="leave Kafka's own cleaner out")
    parser.add_argument("--dir", help="where the logs are written and kept; else a temporary directory")
    return parser.parse_args(arguments)


def _measure(log: KeyedLog, starts: dict[str, ProcessPass], scratch: Path, repeats: int) -> dict[str, Any]:
    """Seconds without the start, records a second, and the largest resident set, of both."""
    turns: dict[str, list[ProcessPass]] = {"simulated": [], "applied": []}
    for _ in range(repeats):
        turns["simulated"].append(_simulated(log))
        turns["applied"].append(_applied(log, scratch))
    row: dict[str, Any] = {"log": {name: value for name, value in asdict(log).items() if name != "path"}}
    for name, passes in turns.items():
        seconds = [one.seconds - starts[name].seconds for one in passes]
        cpu_seconds = [one.cpu_seconds - starts[name].cpu_seconds for one in passes]
        row[name] = {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "million_records_per_second": log.records / 1e6 / median(seconds),
            "million_records_per_cpu_second": log.records / 1e6 / median(cpu_seconds),
            "peak_rss_bytes": max(one.peak_rss_bytes for one in passes),
            "start_rss_bytes": starts[name].peak_rss_bytes,
        }
    return row


def _simulated(log: KeyedLog) -> ProcessPass:
    return machine.compact_process(log.path, *_RULES, "--memory", str(MEMORY_BYTES))


def _applied(log: KeyedLog, scratch: Path) -> ProcessPass:
    target = scratch / "cleaned"
    done = machine.compact_process(log.path, *_RULES, "--memory", str(MEMORY_BYTES), "--apply", "--to", str(target))
    shutil.rmtree(target)
    return done


def _kafka(log: KeyedLog, directory: Path, scratch: Path, repeats: int) -> dict[str, Any]:
    """Seconds and records a second of the real cleaner, and what it kept."""
    warm = write_keyed(directory, _JAVA_WARM_RECORDS, _JAVA_WARM_RECORDS // 10)
    with running_harness(options=_JAVA_OPTIONS) as harness:
        _cleaned_by_kafka(harness, warm, scratch)
        turns = [_cleaned_by_kafka(harness, log, scratch) for _ in range(repeats)]
    seconds = [seconds for seconds, _ in turns]
    return {
        "seconds": seconds,
        "million_records_per_second": log.records / 1e6 / median(seconds),
        "records_after": turns[0][1],
    }


def _cleaned_by_kafka(harness: LogHarness, log: KeyedLog, scratch: Path) -> tuple[float, int]:
    """Seconds, and the records that are left, of a copy."""
    copy = scratch / "java" / Path(log.path).name
    shutil.copytree(log.path, copy)
    start = perf_counter()
    done = harness.run("clean", copy, _NOW_MS, {"cleanup.policy": "compact"}, map=MEMORY_BYTES, io=262_144)
    seconds = perf_counter() - start
    shutil.rmtree(copy.parent)
    if int(done["read"]) != log.records:
        raise SystemExit(f"Kafka's cleaner read {done['read']} records of {log.records} in {log.path}")
    return seconds, int(done["written"])


def _line(row: dict[str, Any]) -> str:
    shown = f"{row['log']['records']:>12,}{row['log']['size_bytes'] / 1e6:>7.0f} MB"
    for name in ("simulated", "applied"):
        one = row[name]
        shown += f"{one['million_records_per_second']:>15.2f}{one['million_records_per_cpu_second']:>9.2f}"
        shown += f"{one['peak_rss_bytes'] / 1e6:>7.0f} MB"
    return shown + (f"{row['kafka']['million_records_per_second']:>11.2f}" if "kafka" in row else "")


if __name__ == "__main__":
    main()
