"""Forecasts of retention as rows, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.writer import Settings, open_writer
from kafkalog_core import tables
from kafkalog_core.findings import Finding
from kafkalog_core.ops.retention.rows import retained_rows, what_if_rows
from kafkalog_core.ops.retention.what_if import totals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.ops.retain import Retained
    from kafkalog_core.ops.retention.survey import Survey
    from kafkalog_core.ops.retention.what_if import Outcome

__all__ = ["RowRetention"]

_TABLES: Final = (
    tables.RETENTION,
    tables.RETAINED_SEGMENT,
    tables.RETENTION_WHAT_IF,
    tables.RETENTION_EVENT,
    tables.FINDING,
)


class RowRetention:
    """Everything as rows, in one form: `json`, `ndjson` or `csv`."""

    def __init__(self, output: str) -> None:
        self._writer = open_writer(output, Settings(tables=_TABLES))
        self._outcomes: list[Outcome] = []
        self._count = 0

    def begin(self, survey: Survey) -> None:
        """Each row says what counts for it."""

    def write(self, each: Retained | Finding) -> None:
        """Write the rows, the partition's own first."""
        for chunk in retained_rows(each):
            self._put(chunk)
        if not isinstance(each, Finding):
            self._outcomes += each.outcomes

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write what all scenarios come to, and the summary row."""
        if self._outcomes:
            self._put(what_if_rows(totals(self._outcomes)))
        self._writer.finish({**summary, "rows": self._count})

    def _put(self, chunk: Chunk) -> None:
        self._count += chunk.count
        self._writer.write(chunk)
