"""What the judges of the pipeline share: workers without Spark, and a reader of Parquet that is none of kafkalog's."""

from __future__ import annotations

import pickle
from collections import defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

Row = dict[str, object]


class InlineWorkers:
    """Does every piece of work here, at once. All that would cross to an executor and back is pickled, as there."""

    jobs = 2
    scratch = None

    def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        for piece in pieces:
            work, arguments = _sent((work_of, piece))
            yield _sent(work(*arguments, _ignore))


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 -- what was pickled here


def _ignore(size_bytes: int) -> None:
    """Nobody waits for the progress of a test."""


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
