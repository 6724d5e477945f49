"""What the judges of the pipeline share: a reader of an export's files that is none of kafkalog's."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, object]


def parquet_rows(directory: Path) -> dict[tuple[str, int], list[Row]]:
    """Rows by topic and partition of all files that a reader of Hive's layout sees, files in the order of names."""
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for path in sorted(directory.glob("topic=*/partition=*/*.parquet")):
        topic, number = (unquote(part.partition("=")[2]) for part in path.parts[-3:-1])
        found[topic, int(number)] += map(_as_dumped, pq.ParquetFile(path).read().to_pylist())
    return found


def _as_dumped(row: dict[str, Any]) -> Row:
    """Headers are pairs, as in the rows of a dump that was read back."""
    if row.get("headers") is not None:
        row["headers"] = [(header["key"], header["value"]) for header in row["headers"]]
    return row
