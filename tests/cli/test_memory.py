"""Memory stays within the promise: 150 MB and the largest batch, raw and decompressed; measured in child processes.

docs/limits.md ("Memory") states what producers, leader epochs and lines cost on top.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.checksums import crc32c
from tests.support.build import GZIP, LZ4, NONE, SNAPPY, ZSTD, Producer, Record, batch_v2, epoch_checkpoint, snapshot
from tests.support.memory import PROMISED_BYTES, peak_bytes

if TYPE_CHECKING:
    from pathlib import Path

MEBIBYTE = 1024 * 1024
LARGE_BYTES = 48 * MEBIBYTE
LINE_BYTES = 100
"""What `checkpoint` may take for a line that is right."""
CHANGED_BYTES = 250
"""What it may take for one that changes."""
ROOM_BYTES = 12 * MEBIBYTE
"""What a command may take for a large input in other ways, as pieces of it and the allocator's own."""
CODECS = {"none": NONE, "lz4": LZ4, "gzip": GZIP, "snappy": SNAPPY, "zstd": ZSTD}
READERS = [
    *(f"dump --records --output {form}" for form in ("ndjson", "json", "csv", "table")),
    "dump --records --output csv --bytes base64",
    "dump --records --output csv --bytes hex",
    "dump --stats",
    "verify --jobs 1",
    "seek --offset 0",
    "reindex --jobs 1 --all",
    "compact --jobs 1 --force",
]


def _log(place: Path, value: bytes, codec: int) -> str:
    path = place / "orders-0"
    path.mkdir(parents=True)
    (path / f"{0:020}.log").write_bytes(batch_v2([Record(key=b"k", value=value, timestamp_ms=1)], codec=codec))
    return str(path)


@cache
def _value() -> bytes:
    """Text with commas, so that CSV wants it in quotes, of which every codec makes a small payload."""
    return (b"some text, and some more of it; " * (MEBIBYTE // 32)) * (LARGE_BYTES // MEBIBYTE)


CASES = [
    *((reader, codec) for reader in READERS for codec in ("none", "lz4")),
    *((reader, codec) for reader in READERS[:1] for codec in ("gzip", "snappy", "zstd")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "codec"), CASES)
def test_a_large_record_costs_its_batch_and_no_more(reader: str, codec: str, tmp_path: Path) -> None:
    small, large = (
        _log(tmp_path / name, value, CODECS[codec]) for name, value in (("small", b"v"), ("large", _value()))
    )
    raw_bytes = os.path.getsize(f"{large}/{0:020}.log")
    largest = raw_bytes + (LARGE_BYTES if codec != "none" else 0)
    base = peak_bytes(tmp_path, *reader.split(), small)
    assert base < PROMISED_BYTES
    assert peak_bytes(tmp_path, *reader.split(), large) - base < largest + ROOM_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS[:4])
def test_many_records_take_no_more_memory_than_some(reader: str, tmp_path: Path) -> None:
    batch = batch_v2([Record(offset=at, key=b"k", value=b"v" * 200, timestamp_ms=at) for at in range(1000)])
    paths = []
    for count in (5, 100):
        path = tmp_path / str(count) / "orders-0"
        path.mkdir(parents=True)
        (path / f"{0:020}.log").write_bytes(batch * count)
        paths.append(str(path))
    few, many = (peak_bytes(tmp_path, *reader.split(), path) for path in paths)
    assert many - few < 4 * MEBIBYTE


def _epoch_file(place: Path, count: int) -> str:
    """A partition whose leader-epoch-checkpoint has that many lines, all of them right."""
    path = place / "orders-0"
    path.mkdir(parents=True)
    record = Record(offset=count, key=b"k", value=b"v", timestamp_ms=1)
    (path / f"{0:020}.log").write_bytes(batch_v2([record], leader_epoch=count))
    lines = epoch_checkpoint([(epoch, epoch) for epoch in range(count + 1)])
    (path / "leader-epoch-checkpoint").write_bytes(lines)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "most_bytes"),
    [
        ("verify --jobs 1", 60),
        ("dump --files", 8),
        ("checkpoint --jobs 1", LINE_BYTES),
        ("reindex --jobs 1 --all", 600),
    ],
)
def test_lines_of_a_large_epoch_file_cost_few_bytes(command: str, most_bytes: int, tmp_path: Path) -> None:
    counts = 10_000, 60_000
    few, many = (peak_bytes(tmp_path, *command.split(), _epoch_file(tmp_path / str(count), count)) for count in counts)
    assert (many - few) / (counts[1] - counts[0]) < most_bytes + 2 * MEBIBYTE / counts[1]


def _falling_epochs(place: Path, count: int) -> str:
    """A partition whose leader-epoch-checkpoint has that many lines, of which all but one change."""
    path = place / "orders-0"
    path.mkdir(parents=True)
    (path / f"{0:020}.log").write_bytes(batch_v2([Record(offset=99, key=b"k", value=b"v", timestamp_ms=1)]))
    lines = epoch_checkpoint([(count - at, count - at) for at in range(count)])
    (path / "leader-epoch-checkpoint").write_bytes(lines)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["verify --jobs 1", "checkpoint --jobs 1", "checkpoint --jobs 1 --output ndjson", "reindex --jobs 1"]
)
def test_changed_lines_of_an_epoch_file_cost_few_bytes(command: str, tmp_path: Path) -> None:
    counts = 50_000, 100_000
    few, many = (
        peak_bytes(tmp_path, *command.split(), _falling_epochs(tmp_path / str(count), count)) for count in counts
    )
    assert (many - few) / (counts[1] - counts[0]) < CHANGED_BYTES


def _snapshots(place: Path, count: int, *, is_loaded: bool) -> str:
    """A partition with a snapshot of that many producers at the end of its log.

    `is_loaded`: also one at its base, so that a replay begins with them; else it knows none of them.
    """
    path = place / "orders-0"
    path.mkdir(parents=True)
    base = 1000 if is_loaded else 0
    record = Record(offset=base + 99, key=b"k", value=b"v", timestamp_ms=1)
    (path / f"{base:020}.log").write_bytes(batch_v2([record]))
    known = [Producer(producer_id=at, last_sequence=0, last_offset=5, timestamp_ms=1) for at in range(count)]
    for offset in (base, base + 100) if is_loaded else (base + 100,):
        (path / f"{offset:020}.snapshot").write_bytes(snapshot(known))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "is_loaded", "most_bytes"),
    [
        ("verify --jobs 1", False, 100),
        ("verify --jobs 1", True, 100),
        ("reindex --jobs 1 --all", False, 130),
        ("reindex --jobs 1 --all", True, 1000),
        ("dump --files", False, 30),
    ],
)
def test_producers_of_a_snapshot_cost_few_bytes(command: str, is_loaded: bool, most_bytes: int, tmp_path: Path) -> None:
    counts = 60_000, 120_000
    few, many = (
        peak_bytes(tmp_path, *command.split(), _snapshots(tmp_path / str(count), count, is_loaded=is_loaded))
        for count in counts
    )
    assert (many - few) / (counts[1] - counts[0]) < most_bytes


@pytest.mark.slow
def test_producers_of_a_log_cost_what_a_replay_keeps_of_them(tmp_path: Path) -> None:
    """The room for them grows by an eighth, so that twice as many may take somewhat more than twice as much."""
    batch = bytearray(
        batch_v2([Record(key=b"k", value=b"v", timestamp_ms=1)], producer_id=1, producer_epoch=0, base_sequence=0)
    )
    peaks = []
    for count in (20_000, 40_000):
        path = tmp_path / str(count) / "orders-0"
        path.mkdir(parents=True)
        with (path / f"{0:020}.log").open("wb") as file:
            for at in range(count):
                batch[0:8] = at.to_bytes(8, "big")
                batch[43:51] = at.to_bytes(8, "big")
                batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
                file.write(batch)
        peaks.append(peak_bytes(tmp_path, "verify", "--jobs", "1", str(path)))
    assert (peaks[1] - peaks[0]) / 20_000 < 400
