"""Partitions written for a test, a dump of them as plain rows, and their records as row chunks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkalog_core.engine.chunks import Lines, RecordChunk, RowOrigin
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from tests.support.build import Record
from tests.support.twins import walked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["PLACE", "Row", "dump_rows", "offsets_of", "record_chunks", "records", "write_segments"]

Row = dict[str, Any]
PLACE = RowOrigin("t", 3, "00000000000000000007.log")


def write_segments(directory: Path, segments: Mapping[int, bytes], *, suffix: str = "log") -> Path:
    """A partition directory with a log file for each base offset, and empty indexes."""
    directory.mkdir(parents=True, exist_ok=True)
    for base_offset, data in segments.items():
        (directory / f"{base_offset:020d}.{suffix}").write_bytes(data)
        if suffix == "log":
            (directory / f"{base_offset:020d}.index").touch()
            (directory / f"{base_offset:020d}.timeindex").touch()
    return directory


def records(first: int, count: int, *, size: int = 5) -> list[Record]:
    """Records of ascending offsets and timestamps, with keys that are their offsets."""
    return [
        Record(offset=offset, timestamp_ms=1000 + offset, key=b"k%d" % offset, value=b"v" * size)
        for offset in range(first, first + count)
    ]


def dump_rows(*paths: Path, report: Report | None = None, **request: Any) -> list[Row]:
    """All rows of a dump; both forms of each chunk must say the same."""
    rows: list[Row] = []
    targets = tuple(resolve([str(path) for path in paths]))
    for chunk in dump(DumpRequest(targets=targets, **request), report or Report()):
        lines = [json.loads(line) for line in bytes(chunk.ndjson("hex")).splitlines()]
        chunk_rows = list(chunk.rows())
        assert len(lines) == len(chunk_rows) == chunk.count
        rows += chunk_rows
    return rows


def offsets_of(rows: Iterable[Row], kind: str = "record") -> list[int]:
    """Offsets of the record rows, or base offsets of the batch rows."""
    column = "offset" if kind == "record" else "base_offset"
    return [row[column] for row in rows if row["type"] == kind]


def record_chunks(data: bytes, *, is_v07: bool = False, capacity: int = 7) -> list[RecordChunk]:
    """Chunks of all records, each with columns of its own."""
    memory = memoryview(data)
    found = []
    for run in decode_run(memory, walked(memory, is_v07=is_v07), max_bytes=1 << 20, records=RecordColumns(capacity)):
        assert isinstance(run, RecordRun)
        kept = RecordRun(run.memory, run.batches.copy(), run.records.copy())
        kept.records.headers = run.records.headers.copy()
        found.append(RecordChunk(Lines(PLACE), kept, resynced=False))
    return found
