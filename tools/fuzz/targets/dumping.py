"""`dump` of a directory whose files are the input, with any options."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.output.chunk import json_line
from tools.fuzz.directories import PARTITIONS, unpack, written_paths
from tools.fuzz.memory import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.dump.runs import Committed, Level

__all__ = ["dumped"]

_LEVELS: Final[tuple[Level, ...]] = ("batches", "records", "segments", "records")
_COMMITTED: Final[tuple[Committed | None, ...]] = (None, "log-end", "high-watermark", None)
_LIMITS: Final = (None, None, 3, 0)
_MAX_BATCH_BYTES: Final = (1024 * 1024, 300)


def dumped(data: bytes) -> object:
    """Return the rows of a dump: they are JSON, the same in both forms, and the report has a summary."""
    head, files = unpack(data)
    first, second = head.ljust(2, b"\0")
    paths = written_paths(PARTITIONS[second >> 2 & 3], files, second)
    report = Report()
    lines: list[bytes] = []
    try:
        request = DumpRequest(
            targets=tuple(resolve(paths)),
            level=_LEVELS[first & 3],
            committed=_COMMITTED[first >> 2 & 3],
            newest_first=bool(first & 16),
            resync=bool(first & 32),
            stats=bool(first & 64),
            files=bool(first & 128),
            limit=_LIMITS[second >> 4 & 3],
            max_batch_bytes=_MAX_BATCH_BYTES[second >> 6 & 1],
            path=bool(second & 128),
        )
        lines.extend(_lines(request, report))
    except KafkalogError as error:
        lines.append(f"{type(error).__name__}: {error}".encode(errors="surrogateescape"))
    return lines, json.dumps(report.summary_row())


def _lines(request: DumpRequest, report: Report) -> Iterator[bytes]:
    for chunk in dump(request, report):
        text = bytes(chunk.ndjson("auto"))
        rows = list(chunk.rows())
        check(len(rows) == chunk.count, f"{len(rows)} rows, the chunk says {chunk.count}")
        check(text == b"".join(json_line(chunk.table, row, "auto") for row in rows), f"other lines: {text!r}")
        for line in text.decode().split("\n")[:-1]:
            json.loads(line)
        yield text
