"""Seeks in one large segment: `python -m benchmarks.seek DATE [--size 1GB] [--repeats 1000]`.

A seeded log with both indexes (an entry a batch, as with `index.interval.bytes` 0: the most that there can be) is
searched for offsets and times all over it. What counts is the work in the library, files open and in the page cache;
beside it stand a first search with the opening of the files, the index pages that were read against those that the
algorithm needs, and the memory of the process. Prints a table, writes `results/DATE-seek.json`, decides nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks import broker, machine, report
from benchmarks.run import RESULTS, size_of
from kafkalog_core import kernels
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS, Recipe
from kafkalog_core.storage.lookup import PartitionLookup
from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.segment_lookup import WARM_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.format.layout import Layout

_RECIPES: Final = (
    Recipe(format="v2", codec="none", shape="16k"),
    Recipe(format="v2", codec="none", shape="single"),
    Recipe(format="v2", codec="zstd", shape="16k"),
)
_STRIDE: Final = 7_990_271  # a prime: offsets all over the log, the same in every run


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seek", description=__doc__)
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--size", type=size_of, default=10**9, help="bytes of each log, as 1GB or 64MiB (default 1GB)")
    parser.add_argument("--repeats", type=int, default=1000, help="searches of each kind (default 1000)")
    parser.add_argument("--dir", help="where the logs are written and kept; else a temporary directory")
    options = parser.parse_args(arguments)
    about = machine.description() | {
        "date": options.date,
        "size_bytes": options.size,
        "repeats": options.repeats,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
    }
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        cells = [_cell(recipe, Path(options.dir or scratch), options) for recipe in _RECIPES]
    about["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak memory of this process, which has written the logs: {about['peak_rss_bytes'] / 1e6:.0f} MB resident")
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.date}-seek.json"
    target.write_text(json.dumps({"about": about, "cells": cells}, indent=1) + "\n")
    print(f"written: {target}")


def _cell(recipe: Recipe, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    indexed = broker.write_indexed(recipe, directory, options.size)
    segments = read_partition(indexed.with_both).segments
    records = indexed.log.record_count
    offsets = [number * _STRIDE % records for number in range(options.repeats)]
    needed_offset = _pages_needed(OFFSET_INDEX_ENTRY, indexed.index_bytes)
    needed_time = needed_offset + _pages_needed(TIME_INDEX_ENTRY, indexed.timeindex_bytes)

    def by_offset(lookup: PartitionLookup, offset: int, trace: Trace) -> None:
        located = lookup.find_offset(offset, trace)
        if located is None or located.record is None or located.record.offset != offset:
            raise SystemExit(f"offset {offset} was not found")

    def by_time(lookup: PartitionLookup, offset: int, trace: Trace) -> None:
        record = lookup.find_time(FIRST_TIMESTAMP_MS + offset, trace)
        if record is None or record.timestamp_ms != FIRST_TIMESTAMP_MS + offset:
            raise SystemExit(f"the record number {offset} was not found by its time")

    cell: dict[str, Any] = {"recipe": recipe.name, "size_bytes": indexed.log.size_bytes, "records": records}
    for name, search, needed in (("offset", by_offset, needed_offset), ("timestamp", by_time, needed_time)):
        with PartitionLookup(segments) as lookup:
            search(lookup, 0, Trace())
            warm = [_timed(search, lookup, offset) for offset in offsets]
        cold = []
        for offset in offsets[: max(1, options.repeats // 10)]:
            start = perf_counter()
            with PartitionLookup(segments) as lookup:
                search(lookup, offset, Trace())
            cold.append(perf_counter() - start)
        most = max(pages for _, pages, _ in warm)
        cell[name] = {
            "seconds": report.spread(seconds for seconds, _, _ in warm),
            "seconds_with_opening": report.spread(cold),
            "index_pages_most": most,
            "index_pages_needed": needed,
            "scanned_bytes": report.spread(size for _, _, size in warm),
        }
        print(
            f"{recipe.name:18} by {name:9}: median {cell[name]['seconds']['median'] * 1e3:.3f} ms,"
            f" with opening {cell[name]['seconds_with_opening']['median'] * 1e3:.3f} ms;"
            f" at most {most} index pages of 4 KiB, the algorithm needs up to {needed};"
            f" median {cell[name]['scanned_bytes']['median']:.0f} bytes of log",
            flush=True,
        )
    return cell


def _timed(
    search: Callable[[PartitionLookup, int, Trace], None], lookup: PartitionLookup, offset: int
) -> tuple[float, int, int]:
    trace = Trace()
    start = perf_counter()
    search(lookup, offset, trace)
    return perf_counter() - start, trace.index_pages, trace.scanned_bytes


def _pages_needed(layout: Layout, size_bytes: int) -> int:
    """Pages that Kafka's search of an index touches in the worst case.

    The first entry of the warm section, the first one of all, then a page for every halving down to one page; an entry
    that lies on two pages, in an index whose entries do not fill a page, costs one more there and at each end.
    """
    cold = max(0, size_bytes - WARM_BYTES)
    halvings = math.ceil(math.log2(max(1, cold / 4096))) + 1
    straddling = 0 if 4096 % layout.size == 0 else halvings + 2
    return max(3, halvings + 2) + straddling


if __name__ == "__main__":
    main()
