"""Comparisons of copies on their way out: rows for programs, or a table for people."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from kafkalog_cli.render.writer import Settings, Writer, open_writer
from kafkalog_core import tables
from kafkalog_core.ops.replicas.comparison import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.replicas.comparison import Comparison

__all__ = ["ReplicaWriter", "open_replicas"]

_TABLES: Final = (tables.REPLICA, tables.REPLICA_COPY, tables.REPLICA_RANGE, tables.FINDING)


class ReplicaWriter(Protocol):
    """Takes comparisons as they come, and the summary last."""

    def write(self, item: Comparison | Finding) -> None:
        """Show a comparison, or what of it is to be shown; or a finding that is of none."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary."""


class RowReplicas:
    """Comparisons as rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, item: Comparison | Finding) -> None:
        """Write the rows."""
        for chunk in rows_of(item):
            self._writer.write(chunk)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary row."""
        self._writer.finish(summary)


def open_replicas(output: str) -> ReplicaWriter:
    """The writer of one form onto standard output: `table`, `json`, `ndjson` or `csv`."""
    if output == "table":
        return cast("ReplicaWriter", import_module("kafkalog_cli.render.replica_table").ReplicaTable())
    return RowReplicas(open_writer(output, Settings(tables=_TABLES)))
