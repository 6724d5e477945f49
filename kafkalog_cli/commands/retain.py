"""`kafkalog retain`: what retention deletes, when, and why not; with --apply now."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli import options, params
from kafkalog_cli.command import Command, Example
from kafkalog_cli.exits import ExitStatus, status_of
from kafkalog_cli.interrupt import Stopped
from kafkalog_cli.kafka_options import kafka_options
from kafkalog_cli.render import open_retention
from kafkalog_cli.repair import repair_options, run_repair, watched
from kafkalog_cli.retention_options import retention_options
from kafkalog_cli.setting_options import now_option
from kafkalog_core.errors import KafkalogError, SettingError
from kafkalog_core.findings import Finding
from kafkalog_core.ops.plans.sites import sites_of
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.retain import RetainRequest, retain
from kafkalog_core.ops.retention.survey import Survey, Wanted
from kafkalog_core.ops.retention.what_if import Scenario
from kafkalog_core.ops.selecting.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_cli.render import RetentionWriter
    from kafkalog_cli.repair import Manner
    from kafkalog_core.ops.releases.settings import SettingsRequest
    from kafkalog_core.ops.retain import Retained
    from kafkalog_core.ops.selecting.selection import Selection

__all__ = ["retain_command"]

EXAMPLES = (
    Example("kafkalog retain /var/lib/kafka", "What would be deleted now, what later, and why not"),
    Example("kafkalog retain --topic orders --until 2026-11-23 /var/lib/kafka", "What will be gone by then, and when"),
    Example(
        "kafkalog retain --what-if log.retention.hours=24 --what-if retention.bytes=1073741824 /var/lib/kafka",
        "What would stay under other settings",
    ),
    Example("kafkalog retain --retention-hours 24 --apply /var/lib/kafka/orders-0", "Make room on a full disk"),
    Example(
        "kafkalog retain --policy mine:keep_mondays /var/lib/kafka/orders-0",
        "Try a policy of one's own, a Python function of segments and the time",
    ),
)


def parse_scenario(text: str) -> Scenario:
    """An option's type."""
    try:
        return Scenario.parse(text)
    except SettingError as error:
        raise click.BadParameter(error.message) from error


@click.command(
    name="retain",
    cls=Command,
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED, ExitStatus.DAMAGE),
)
@options.targets_argument
@retention_options
@click.option(
    "--log-start-offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="As if records below offset N had been deleted by request (kafka-delete-records). Of one partition.",
)
@click.option(
    "--what-if",
    "scenarios",
    type=parse_scenario,
    multiple=True,
    metavar="KEY=VALUE[,...]",
    help="Also what would stay under other settings, by the names of --set. Repeatable: a matrix of all.",
)
@click.option(
    "--until",
    type=params.parse_time_ms,
    metavar="T",
    help="Also play a broker's checks forward to T, from a start now on, with nothing appended meanwhile.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help=(
        "A policy of one's own behind Kafka's: a Python function of the segments, the oldest first, and of now in ms, "
        "that gives true for each one that may go. Of a segment it knows base_offset, next_offset, size_bytes, "
        "largest_timestamp_ms, max_timestamp_ms (-1: none), mtime_ms and is_active. Imported from the current "
        "directory too. Repeatable."
    ),
)
@now_option
@options.selection_options
@kafka_options
@repair_options
def retain_command(
    paths: tuple[str, ...], selection: Selection, now_ms: int, request: SettingsRequest, manner: Manner, **given: Any
) -> int:
    """Say what a broker's retention would delete, when, and what keeps the rest, from the files alone.

    PATH is a log directory or a partition directory. Each segment gets a verdict, the rule that decided it, the figures
    that were compared, and the time at which it falls due. A check deletes from the oldest segment on and stops at the
    first one that stays, so that one segment can hold back many.

    Nothing is changed. With --apply what a broker would delete at its first check is deleted now; kafkalog undo takes
    it back. What a policy deletes is no damage: the exit status is 0.
    """
    policies, until = given["policies"], given["until"]
    if policies and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if manner.apply or manner.plan_out is not None:
        if given["scenarios"] or until is not None:
            raise click.UsageError("--what-if and --until are forecasts; they do not go with --apply or --plan-out")
        wanted = {"kafka": asdict(request), "policies": policies, "log_start_offset": given["log_start_offset"]}
        return run_repair("retain", paths, selection, wanted, manner, now_ms=now_ms)
    if until is not None and until < now_ms:
        raise click.UsageError("--until lies before now; checks are played forward")
    asked = Wanted(kafka=request, now_ms=now_ms, policies=policies, log_start_offset=given["log_start_offset"])
    sites = sites_of(resolve(list(paths), selection))
    requests = [
        RetainRequest(
            site=site, wanted=asked, scenarios=given["scenarios"], until_ms=until, jobs=manner.asked_jobs or 1
        )
        for site in sites
    ]
    return _show(open_retention(manner.output, until_ms=until), requests)


def _show(writer: RetentionWriter, requests: Iterable[RetainRequest]) -> int:
    """Forecast after forecast; where the next one cannot be had, what is known is shown before that is said."""
    report = Report()
    try:
        with watched() as progress:
            for request in requests:
                survey = Survey(request.site, request.wanted)
                writer.begin(survey)
                for each in retain(request, survey, progress):
                    _count(each, report)
                    writer.write(each)
    except Stopped:
        writer.finish(report.summary_row() | {"interrupted": True, "exit_status": int(ExitStatus.CRASH)})
        raise
    except KafkalogError as error:
        if report.rows:
            writer.finish(report.summary_row() | {"exit_status": int(status_of(error))})
        raise
    writer.finish(report.summary_row())
    return report.exit_status


def _count(each: Retained | Finding, report: Report) -> None:
    findings = (each,) if isinstance(each, Finding) else each.findings
    for finding in findings:
        report.add_finding(finding.row())
    report.partitions += 1
    report.rows += 1
