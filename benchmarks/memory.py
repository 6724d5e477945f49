"""Memory of commands on the largest inputs: `python -m benchmarks.memory DATE [--mebibytes 250]`.

One record of that size, plain and with lz4, in every form of output; a snapshot of 700,000 producers; a leader-epoch
file of a million lines. Prints the largest resident set of each process, writes `results/DATE-memory.json`, decides
nothing; the tests compare smaller inputs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.run import RESULTS
from tests.build import LZ4, NONE, Producer, Record, batch_v2, epoch_checkpoint, snapshot
from tests.cli.test_memory import peak_bytes

READERS = [
    *(f"dump --records --output {form}" for form in ("ndjson", "json", "csv", "table")),
    "verify --jobs 1",
    "seek --offset 0",
]
CHECKERS = ["verify --jobs 1", "reindex --jobs 1 --all", "checkpoint --jobs 1"]
PRODUCERS = 700_000
LINES = 1_000_000


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("date", help="names the result file, as 2026-01-31")
    parser.add_argument("--mebibytes", type=int, default=250, help="of the one record (default 250)")
    options = parser.parse_args()
    cells: dict[str, float] = {}
    for name, codec in (("plain", NONE), ("lz4", LZ4)):
        with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
            value = (b"some text, and some more of it; " * 32768) * options.mebibytes
            place = _partition(Path(scratch), batch_v2([Record(key=b"k", value=value, timestamp_ms=1)], codec=codec))
            del value
            _measure(cells, f"a record of {options.mebibytes} MiB, {name}", READERS, place)
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        place = _partition(Path(scratch), batch_v2([Record(offset=99, key=b"k", value=b"v", timestamp_ms=1)]))
        known = [Producer(producer_id=at, last_sequence=0, last_offset=5, timestamp_ms=1) for at in range(PRODUCERS)]
        (place / f"{100:020}.snapshot").write_bytes(snapshot(known))
        _measure(cells, f"a snapshot of {PRODUCERS:,} producers", CHECKERS[:2], place)
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        record = Record(offset=LINES, key=b"k", value=b"v", timestamp_ms=1)
        place = _partition(Path(scratch), batch_v2([record], leader_epoch=LINES))
        lines = epoch_checkpoint([(epoch, epoch) for epoch in range(LINES + 1)])
        (place / "leader-epoch-checkpoint").write_bytes(lines)
        _measure(cells, f"{LINES:,} lines of leader epochs", CHECKERS, place)
    target = RESULTS / f"{options.date}-memory.json"
    target.write_text(json.dumps({"about": machine.description(), "peak_mebibytes": cells}, indent=1) + "\n")
    print(f"written: {target}")


def _partition(scratch: Path, log: bytes) -> Path:
    place = scratch / "orders-0"
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(log)
    return place


def _measure(cells: dict[str, float], what: str, commands: list[str], place: Path) -> None:
    for command in commands:
        mebibytes = peak_bytes(place.parent, *command.split(), str(place)) / 1024 / 1024
        cells[f"{what}: {command}"] = round(mebibytes, 1)
        print(f"{what:36} {command:34} {mebibytes:8.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
