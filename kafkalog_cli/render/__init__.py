"""Everything that a person sees: the only package that imports rich."""

from __future__ import annotations

from kafkalog_cli.render.plans import PlanWriter, open_plans
from kafkalog_cli.render.report_data import RunFacts
from kafkalog_cli.render.verdicts import VerdictWriter, open_report, open_verdicts
from kafkalog_cli.render.writer import Settings, Writer, open_progress, open_writer

__all__ = [
    "PlanWriter",
    "RunFacts",
    "Settings",
    "VerdictWriter",
    "Writer",
    "open_plans",
    "open_progress",
    "open_report",
    "open_verdicts",
    "open_writer",
]
