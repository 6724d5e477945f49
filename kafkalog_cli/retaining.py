"""What the commands share that forecast retention: options, and the way from forecasts to rows and an exit status."""

from __future__ import annotations

import os
import sys
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalog_cli import params
from kafkalog_cli.ending import early_end
from kafkalog_cli.render.progress import end_progress
from kafkalog_core.errors import SettingError
from kafkalog_core.findings import Finding
from kafkalog_core.ops.plans.sites import sites_of
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.retain import RetainRequest
from kafkalog_core.ops.retention.survey import Wanted
from kafkalog_core.ops.retention.what_if import Scenario
from kafkalog_core.ops.selecting.partitions import check_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_cli.render import RetentionWriter
    from kafkalog_core.ops.releases.settings import SettingsRequest
    from kafkalog_core.ops.retain import Retained
    from kafkalog_core.ops.retention.survey import Survey
    from kafkalog_core.ops.selecting.targets import Target

__all__ = ["check_until", "find_policies", "forecast_options", "requests_of", "write_forecasts"]

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


def forecast_options(function: Decorated) -> Decorated:
    """--log-start-offset, --what-if (`scenarios`), --until, --policy (`policies`)."""
    return reduce(lambda inner, decorator: decorator(inner), reversed(_OPTIONS), function)


def find_policies(policies: tuple[str, ...]) -> None:
    """Let policies be imported from the current directory too."""
    if policies and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def check_until(until_ms: int | None, now_ms: int) -> None:
    """Raises click.UsageError where checks cannot be played forward to there."""
    if until_ms is not None and until_ms < now_ms:
        raise click.UsageError("--until lies before now; checks are played forward")


def requests_of(
    targets: Sequence[Target], request: SettingsRequest, now_ms: int, given: dict[str, Any], jobs: int = 1
) -> list[RetainRequest]:
    """What the options ask for, log directory by log directory. Raises SelectionError for a topic that is not there."""
    check_topics(request.topics, targets)
    wanted = Wanted(
        kafka=request, now_ms=now_ms, policies=given["policies"], log_start_offset=given["log_start_offset"]
    )
    return [
        RetainRequest(site=site, wanted=wanted, scenarios=given["scenarios"], until_ms=given["until"], jobs=jobs)
        for site in sites_of(targets)
    ]


def write_forecasts(writer: RetentionWriter, surveys: Iterable[tuple[Survey, Iterator[Retained | Finding]]]) -> int:
    """Forecast after forecast; where the next one cannot be had, what is known is shown before that is said."""
    report = Report()
    with early_end(writer, report):
        for survey, forecasts in surveys:
            writer.begin(survey)
            for each in forecasts:
                _count(each, report)
                writer.write(each)
    end_progress()
    writer.finish(report.summary_row())
    return report.exit_status


def _count(each: Retained | Finding, report: Report) -> None:
    findings = (each,) if isinstance(each, Finding) else each.findings
    for finding in findings:
        report.add_finding(finding.row())
    report.partitions += 1
    report.rows += 1


def _parse_scenario(text: str) -> Scenario:
    """An option's type."""
    try:
        return Scenario.parse(text)
    except SettingError as error:
        raise click.BadParameter(error.message) from error


_OPTIONS: Final = (
    click.option(
        "--log-start-offset",
        type=click.IntRange(min=0),
        metavar="N",
        help="As if records below offset N had been deleted by request (kafka-delete-records). Of one partition.",
    ),
    click.option(
        "--what-if",
        "scenarios",
        type=_parse_scenario,
        multiple=True,
        metavar="KEY=VALUE[,...]",
        help="Also what would stay under other settings, by the names of --set. Repeatable: a matrix of all.",
    ),
    click.option(
        "--until",
        type=params.parse_time_ms,
        metavar="T",
        help="Also play a broker's checks forward to T, from a start now on, with nothing appended meanwhile.",
    ),
    click.option(
        "--policy",
        "policies",
        multiple=True,
        metavar="MODULE:FUNCTION",
        help=(
            "A policy of one's own behind Kafka's: a Python function of the segments, the oldest first, and of now in "
            "ms, that gives true for each one that may go. Of a segment it knows base_offset, next_offset, size_bytes, "
            "largest_timestamp_ms, max_timestamp_ms (-1: none), mtime_ms and is_active. Imported from the current "
            "directory too. Repeatable."
        ),
    ),
)
