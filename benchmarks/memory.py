"""Memory of commands on the largest inputs: `python -m benchmarks.memory DATE [--mebibytes 250] [--only snapshot]`.

One record of that size, plain and with lz4, in every form of output; 1 GB of records, as a table and as JSON lines; a
snapshot of a million producers (46 MB would be 1.1 million); leader-epoch files of a million lines that are right, and
of a million that change. Prints the largest resident set and the seconds of each process, writes
`results/DATE-memory.json`, decides nothing; the tests compare smaller inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks import machine
from benchmarks.data import write_log
from benchmarks.run import RESULTS
from kafkalog_core.ops.bench import Recipe
from tests.support.build import LZ4, NONE, Producer, Record, batch_v2, epoch_checkpoint, snapshot
from tests.support.memory import peak_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READERS = [
    *(f"dump --records --output {form}" for form in ("ndjson", "json", "csv", "table")),
    "verify --jobs 1 --ndjson",
    "seek --offset 0 --ndjson",
]
RECORDS = ["dump --records --output ndjson", "dump --records --output table"]
CHECKERS = ["verify --jobs 1 --ndjson", "reindex --jobs 1 --all --ndjson", "checkpoint --jobs 1 --ndjson"]
PRODUCERS = 1_000_000
LINES = 1_000_000
LOG_BYTES = 10**9


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--mebibytes", type=int, default=250, help="of the one record (default 250)")
    parser.add_argument("--only", action="append", default=[], help="part of an input's name; repeatable")
    options = parser.parse_args()
    target = RESULTS / f"{options.date}-memory.json"
    about = machine.description() | {"date": options.date, "only": options.only}
    cells: list[dict[str, Any]] = []
    for name, commands, make in _inputs(options.mebibytes):
        if not options.only or any(part in name for part in options.only):
            with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
                for cell in _measured(name, commands, make(Path(scratch))):
                    cells.append(cell)
                    target.write_text(json.dumps({"about": about, "cells": cells}, indent=1) + "\n")
    print(f"written: {target}")


def _inputs(mebibytes: int) -> Iterator[tuple[str, list[str], Callable[[Path], Path]]]:
    """Name of each input, the commands that read it, and what writes it into a directory."""
    for name, codec in (("plain", NONE), ("lz4", LZ4)):
        yield f"a record of {mebibytes} MiB, {name}", READERS, partial(_large_record, mebibytes, codec)
    yield "1 GB of records", RECORDS, _records
    yield f"a snapshot of {PRODUCERS:,} producers", CHECKERS[:2], _snapshot
    yield f"{LINES:,} lines of leader epochs", CHECKERS, _epochs
    yield f"{LINES:,} lines of leader epochs that change", CHECKERS, _falling_epochs


def _large_record(mebibytes: int, codec: int, scratch: Path) -> Path:
    value = (b"some text, and some more of it; " * 32768) * mebibytes
    return _partition(scratch, batch_v2([Record(key=b"k", value=value, timestamp_ms=1)], codec=codec))


def _records(scratch: Path) -> Path:
    log = write_log(Recipe(format="v2", codec="none", shape="16k"), scratch, LOG_BYTES)
    return Path(log.path).parent


def _snapshot(scratch: Path) -> Path:
    place = _partition(scratch, batch_v2([Record(offset=99, key=b"k", value=b"v", timestamp_ms=1)]))
    known = [Producer(producer_id=at, last_sequence=0, last_offset=5, timestamp_ms=1) for at in range(PRODUCERS)]
    (place / f"{100:020}.snapshot").write_bytes(snapshot(known))
    return place


def _epochs(scratch: Path) -> Path:
    record = Record(offset=LINES, key=b"k", value=b"v", timestamp_ms=1)
    place = _partition(scratch, batch_v2([record], leader_epoch=LINES))
    lines = epoch_checkpoint([(epoch, epoch) for epoch in range(LINES + 1)])
    (place / "leader-epoch-checkpoint").write_bytes(lines)
    return place


def _falling_epochs(scratch: Path) -> Path:
    place = _partition(scratch, batch_v2([Record(offset=99, key=b"k", value=b"v", timestamp_ms=1)]))
    lines = epoch_checkpoint([(LINES - at, LINES - at) for at in range(LINES)])
    (place / "leader-epoch-checkpoint").write_bytes(lines)
    return place


def _partition(scratch: Path, log: bytes) -> Path:
    place = scratch / "orders-0"
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(log)
    return place


def _measured(what: str, commands: list[str], place: Path) -> Iterator[dict[str, Any]]:
    for command in commands:
        start, before = perf_counter(), os.times()
        mebibytes = peak_bytes(place.parent, *command.split(), str(place)) / 1024 / 1024
        seconds, after = perf_counter() - start, os.times()
        cpu_seconds = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"{what:46} {command:34} {mebibytes:8.1f} MiB {cpu_seconds:8.1f} s of processor time", flush=True)
        yield {
            "input": what,
            "command": command,
            "peak_mebibytes": round(mebibytes, 1),
            "cpu_seconds": round(cpu_seconds, 1),
            "seconds": round(seconds, 1),
        }


if __name__ == "__main__":
    main()
