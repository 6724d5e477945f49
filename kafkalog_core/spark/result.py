"""What a job gives to a notebook: its rows by table, and its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.json_form import json_text
from kafkalog_core.tables import TABLES, Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.ops.report import Report

__all__ = ["Result"]

Row = dict[str, object]


class Result:
    """Rows of the tables in `kafkalog_core.TABLES`, the same that the command of that name writes.

    `summary` is the row that stands last there: counts by severity and code, and the `exit_status`.
    """

    def __init__(self, spark: SparkSession, chunks: Iterable[Chunk], report: Report) -> None:
        self._spark = spark
        self._rows: dict[str, list[Row]] = {}
        for chunk in chunks:
            self._rows.setdefault(chunk.table.name, []).extend(chunk.rows())
        self.summary: Mapping[str, object] = report.summary_row()

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {len(rows)}" for name, rows in self._rows.items()) or "no rows"
        return f"<Result: {counts}; exit status {self.summary['exit_status']}>"

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that there are rows of."""
        return tuple(self._rows)

    def rows(self, table: str) -> list[Row]:
        """The rows of a table, as dicts by column; none where the job found none."""
        return self._rows.get(table, [])

    def frame(self, table: str) -> DataFrame:
        """The rows of a table as a DataFrame; maps are JSON text in it. Raises KeyError for a table that is none."""
        from kafkalog_core.spark.rows import rows_to_arrow  # noqa: PLC0415 - imports pyarrow

        flat = _flat(TABLES[table])
        texts = {column.name for column in TABLES[table].columns if column.kind == "map"}
        rows = [
            {name: json_text(value) if name in texts and value is not None else value for name, value in row.items()}
            for row in self.rows(table)
        ]
        import pyarrow as pa  # noqa: PLC0415 - heavy

        return self._spark.createDataFrame(pa.Table.from_batches([rows_to_arrow(flat, rows)]))


def _flat(table: Table) -> Table:
    """The table with texts in place of maps, whose values are of many kinds."""
    return Table(
        table.name,
        tuple(Column(name, "string" if kind == "map" else kind, doc) for name, kind, doc in table.columns),
    )
