"""Everything that a person sees: the only package that imports rich."""

from __future__ import annotations

from kafkalog_cli.render.lines import Settings, Writer, open_progress, open_writer
from kafkalog_cli.render.report.data import RunFacts
from kafkalog_cli.render.writers import (
    CompactWriter,
    PlanWriter,
    ReplicaWriter,
    RetentionWriter,
    RollWriter,
    VerdictWriter,
    open_compactions,
    open_exports,
    open_plans,
    open_query,
    open_replicas,
    open_report,
    open_retention,
    open_rolls,
    open_verdicts,
)

__all__ = [
    "CompactWriter",
    "PlanWriter",
    "ReplicaWriter",
    "RetentionWriter",
    "RollWriter",
    "RunFacts",
    "Settings",
    "VerdictWriter",
    "Writer",
    "open_compactions",
    "open_exports",
    "open_plans",
    "open_progress",
    "open_query",
    "open_replicas",
    "open_report",
    "open_retention",
    "open_rolls",
    "open_verdicts",
    "open_writer",
]
