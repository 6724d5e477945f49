"""Everything that a person sees: the only package that imports rich."""

from __future__ import annotations

from kafkalog_cli.render.compactions import CompactWriter, open_compactions
from kafkalog_cli.render.exports import open_exports
from kafkalog_cli.render.plans import PlanWriter, open_plans
from kafkalog_cli.render.query import open_query
from kafkalog_cli.render.replicas import ReplicaWriter, open_replicas
from kafkalog_cli.render.report_data import RunFacts
from kafkalog_cli.render.retention import RetentionWriter, open_retention
from kafkalog_cli.render.rolls import RollWriter, open_rolls
from kafkalog_cli.render.verdicts import VerdictWriter, open_report, open_verdicts
from kafkalog_cli.render.writer import Settings, Writer, open_progress, open_writer

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
