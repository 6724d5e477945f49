"""Forecasts of retention on their way out. The form's module is imported when it is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.retain import Retained
    from kafkalog_core.ops.retention.survey import Survey

__all__ = ["RetentionWriter", "open_retention"]


class RetentionWriter(Protocol):
    """Takes what is said of partition after partition, and the summary last."""

    def begin(self, survey: Survey) -> None:
        """Begin with a site."""

    def write(self, each: Retained | Finding) -> None:
        """Show what is said of a partition, or keep it."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary."""


def open_retention(output: str, *, until_ms: int | None) -> RetentionWriter:
    """The writer of one form onto standard output; `until_ms`: how far checks are played forward."""
    if output == "table":
        module = import_module("kafkalog_cli.render.retention_table")
        return cast("RetentionWriter", module.RetentionTable(until_ms))
    module = import_module("kafkalog_cli.render.retention_rows")
    return cast("RetentionWriter", module.RowRetention(output))
