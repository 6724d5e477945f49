"""What the judges of the pipeline share: a reader of an export's table that is none of kafkalog's."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, object]


def parquet_rows(directory: Path) -> dict[tuple[str, int], list[Row]]:
    """Rows by topic and partition of all files that are in the table, files in the order of names.

    Without `timestamp` and `is_committed`, which no dump has.
    """
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for file in files_of(directory / "records"):
        rows = pq.ParquetFile(directory / "records" / file["path"]).read().to_pylist()
        assert file["num_records"] == len(rows)
        offsets = [row["offset"] for row in rows]
        assert [file["min.offset"], file["max.offset"]] == [min(offsets), max(offsets)]
        places = [(row["topic"], row["partition"]) for row in rows]
        assert [file["min.topic"], file["max.topic"]] == [min(places)[0], max(places)[0]]
        assert places == sorted(places) or ".kafkalog." not in file["path"], "other programs sort no rows"
        for row in rows:
            found[row.pop("topic"), row.pop("partition")].append(_as_dumped(row))
    return found


def files_of(table: Path, version: int | None = None) -> list[dict[str, Any]]:
    """What a Delta table says of its files, by their names; empty: there is no table."""
    if not DeltaTable.is_deltatable(str(table)):
        return []
    files = pa.table(DeltaTable(str(table), version=version).get_add_actions(flatten=True)).to_pylist()
    return sorted(({**file, "path": unquote(file["path"])} for file in files), key=lambda file: file["path"])


def names_of(table: Path, version: int | None = None) -> set[str]:
    """The names of the files that are in a Delta table."""
    return {file["path"] for file in files_of(table, version)}


def data_of(table: Path) -> set[str]:
    """The names of the files that are in its directory."""
    return {str(path.relative_to(table)) for path in table.rglob("*.parquet") if "_delta_log" not in path.parts}


def version_of(table: Path) -> int:
    """The version of a Delta table; -1: there is none."""
    return DeltaTable(str(table)).version() if DeltaTable.is_deltatable(str(table)) else -1


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its columns of type timestamp, after a look at each of them."""
    for name in [name for name in row if f"{name}_ms" in row]:
        time, time_ms = row.pop(name), row[f"{name}_ms"]
        is_moment = time_ms not in {None, -1} and _FIRST_MS <= time_ms < _END_MS
        assert time == (_EPOCH + timedelta(milliseconds=time_ms) if is_moment else None)
    return row


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _END_MS = -62_135_596_800_000, 253_402_300_800_000  # of the years 1 to 9999


def _as_dumped(row: dict[str, Any]) -> Row:
    """Headers are pairs, as in the rows of a dump that was read back."""
    without_times(row)
    del row["is_committed"]
    if row.get("headers") is not None:
        row["headers"] = [(header["key"], header["value"]) for header in row["headers"]]
    return row
