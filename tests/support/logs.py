"""Partitions written for a test, and a dump of them as plain rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.reading.runs import DumpRequest
from kafkalog_core.ops.reading.targets import resolve
from tests.support.build import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["Row", "dump_rows", "offsets_of", "records", "write_segments"]

Row = dict[str, Any]


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
