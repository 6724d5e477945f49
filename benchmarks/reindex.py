"""`reindex` beside a bare checksum: `python -m benchmarks.reindex DATE [--sizes 256MB,512MB,1GB]`.

Each log is one segment without indexes, which is read, checked and indexed from its first byte to its last in this
process: batches of 16 KiB, of 64 KiB, and of one record each, in several sizes, so that it shows whether the time grows
with the size alone. `recovery` is the pass over the log (the work of a broker's LogSegment.recover), `plan` the whole
command without its writes. Rates are of processor time, ratios of two figures of one turn. Prints a table, writes
`results/DATE-reindex.json`, decides nothing.

What a broker takes for its own recovery is measured by `benchmarks.recovery`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Final

from benchmarks import machine
from benchmarks.data import FIRST_SEGMENT, PARTITION, LogFile, write_log
from benchmarks.run import RESULTS, size_of
from kafkalog_core import kernels
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.layout import BATCH_V2, LOG_OVERHEAD, MAGIC_V2, RECORD_BATCH_OVERHEAD, V2_ATTRIBUTES, V2_CRC
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import recovery_rules
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.recovery import recover_segment
from kafkalog_core.ops import bench
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS, Recipe
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import asdict, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHAPES: Final = ("16k", "64k", "single")
_SIZES: Final = "256MB,512MB,1GB"
_LARGE_BYTES: Final = 64 * 1024
_RECORDS: Final = 400  # that a batch of 64 KiB says it has; recovery does not read them
_INDEX_BYTES: Final = 2**30  # room for the entries of single records, whatever the size


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    options = _options(arguments)
    about = machine.description() | {
        "repeats": options.repeats,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
    }
    for name, value in about.items():
        print(f"{name}: {value}")
    print(
        f"\n{'batches':8}{'size':>10}{'crc GB/s':>10}{'recovery GB/s':>15}{'x crc':>7}{'plan GB/s':>11}{'entries':>10}"
    )
    measured = []
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        directory = Path(options.dir or scratch)
        for shape in options.shape or SHAPES:
            for size_bytes in map(size_of, options.sizes.split(",")):
                log = write_shape(shape, directory, size_bytes)
                row = {"shape": shape} | _measure(log, options.repeats)
                measured.append(row)
                _print(row)
                if not options.dir:
                    Path(log.path).unlink()
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-reindex.json"
    target.write_text(json.dumps({"about": about, "measured": measured}, indent=1) + "\n")
    print(f"written: {target}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reindex", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--sizes", default=_SIZES, help=f"sizes of the segments (default {_SIZES})")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="one of the shapes; repeatable")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each measure (default 3)")
    parser.add_argument("--dir", help="where the logs are written and kept; else a temporary directory")
    return parser.parse_args(arguments)


# --- logs -------------------------------------------------------------------------------------------------------------
def write_shape(shape: str, directory: Path, size_bytes: int) -> LogFile:
    """A log of one of the shapes."""
    return _write_large(directory, size_bytes) if shape == "64k" else _written(shape, directory, size_bytes)


def _written(shape: str, directory: Path, size_bytes: int) -> LogFile:
    return write_log(Recipe(format="v2", codec="none", shape=shape), directory, size_bytes)  # type: ignore[arg-type]


def _write_large(directory: Path, size_bytes: int) -> LogFile:
    """Batches of 64 KiB: their headers differ, what stands in them is taken from the log of 16 KiB batches."""
    block = Path(_written("16k", directory, 4 * 1024 * 1024).path).read_bytes()
    path = directory / f"v2-none-64k-{size_bytes}" / PARTITION / f"{FIRST_SEGMENT}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    count = size_bytes // _LARGE_BYTES
    with path.open("wb") as file:
        for number in range(count):
            at = number * 4099 % (len(block) - _LARGE_BYTES)
            file.write(_large_batch(number, block[at : at + _LARGE_BYTES - RECORD_BATCH_OVERHEAD]))
    return LogFile(path=str(path), size_bytes=count * _LARGE_BYTES, batch_count=count, record_count=count * _RECORDS)


def _large_batch(number: int, payload: bytes) -> bytes:
    time_ms = FIRST_TIMESTAMP_MS + number
    fields = (0, _RECORDS - 1, time_ms, time_ms, -1, -1, -1, _RECORDS)
    size = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(payload)
    head = BATCH_V2.struct.pack(number * _RECORDS, size, 0, MAGIC_V2, 0, *fields)
    crc = crc32c(payload, crc32c(head[V2_ATTRIBUTES:]))
    return head[:V2_CRC] + crc.to_bytes(4, "big") + head[V2_ATTRIBUTES:] + payload


# --- measures ---------------------------------------------------------------------------------------------------------
def _measure(log: LogFile, repeats: int) -> dict[str, Any]:
    bench.checksum(log.path, perf_counter)  # into the page cache
    turns: dict[str, list[float]] = {"checksum": [], "recovery": [], "plan": []}
    entries = 0
    for _ in range(repeats):
        turns["checksum"].append(bench.checksum(log.path, process_time).seconds)
        seconds, entries = _timed(lambda: _recover(log))
        turns["recovery"].append(seconds)
        seconds, changes = _timed(lambda: _plan(log))
        turns["plan"].append(seconds)
        if changes != 3:  # two indexes and the leader epochs
            raise SystemExit(f"{changes} changes were planned for {log.path}")
    ratios = [seconds / checksum for seconds, checksum in zip(turns["recovery"], turns["checksum"], strict=True)]
    return {
        "log": asdict(log),
        "entries": entries,
        "cpu_seconds": turns,
        "gigabytes_per_second": {name: log.size_bytes / 1e9 / median(each) for name, each in turns.items()},
        "recovery_in_checksums": median(ratios),
    }


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    start = process_time()
    result = work()
    return process_time() - start, result


def _recover(log: LogFile) -> int:
    """Recover the segment; the number of entries in its offset index."""
    settings = replace(Settings().for_topic(None), segment_index_bytes=_INDEX_BYTES)
    with Source.open(log.path) as source:
        recovery = recover_segment(
            source,
            0,
            rules=recovery_rules(LATEST),
            settings=settings,
            states=ProducerStates(sequences="unchecked"),
        )
    if recovery.batches != log.batch_count or recovery.problem or recovery.stop:
        raise SystemExit(f"recovery saw {recovery.batches} batches of {log.batch_count} in {log.path}")
    return len(recovery.offset_index) // 8


def _plan(log: LogFile) -> int:
    """Plan the whole command; the number of changes."""
    kafka = SettingsRequest(kafka=str(LATEST), assignments=(f"log.index.size.max.bytes={_INDEX_BYTES}",))
    site = target_dir([str(Path(log.path).parent)])
    return len(make_plan("reindex", PlanRequest(target=site, options={"kafka": asdict(kafka)}, now_ms=0)).plan.changes)


def _print(row: dict[str, Any]) -> None:
    rates = row["gigabytes_per_second"]
    size = f"{row['log']['size_bytes'] / 1e6:,.0f} MB"
    figures = f"{rates['checksum']:>10.2f}{rates['recovery']:>15.2f}{row['recovery_in_checksums']:>7.1f}"
    print(f"{row['shape']:8}{size:>10}{figures}{rates['plan']:>11.2f}{row['entries']:>10,}", flush=True)


if __name__ == "__main__":
    main()
