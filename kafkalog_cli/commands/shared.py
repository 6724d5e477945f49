"""What a command shares with the job on Spark of the same name: the way from its items to rows and an exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.commands.running import write_results
from kafkalog_cli.render.cells import safe_text
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import check_topics
from kafkalog_core.findings import Finding
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.retain.forecaster import RetentionOptions
from kafkalog_core.ops.retain.retain import RetainRequest
from kafkalog_core.ops.verify.engine import count

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from kafkalog_cli.render.writers import ResultWriter
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["counted", "requests_of", "write_compactions", "write_retention"]


def counted(
    verdicts: Iterable[PartitionVerdict | PlaceVerdict],
    report: Report,
    page: ResultWriter[PartitionVerdict | PlaceVerdict] | None = None,
) -> Generator[PartitionVerdict | PlaceVerdict, None, None]:
    """Yield verdicts after they are counted in the report, and written to the HTML report if there is one."""
    for verdict in verdicts:
        count(verdict, report)
        if page is not None:
            page.write(verdict)
        yield verdict


def write_compactions(
    writer: ResultWriter[CompactForecast],
    forecasts: Generator[CompactForecast, None, None],
    to: str | None,
    report: Report,
) -> int:
    """Write every forecast and the summary; return the exit status.

    `to`: the new log directory that was written; `None`: nothing was written.
    """
    status = write_results(writer, forecasts, report)
    if to is not None:
        click.echo(f"kafkalog: written: {safe_text(to)}; logs that were not cleaned are copied unchanged", err=True)
    return status


def requests_of(
    targets: Sequence[Target], request: SettingsRequest, now_ms: int, given: dict[str, Any], jobs: int = 1
) -> list[RetainRequest]:
    """Return a request for each log directory. Raises SelectionError for a topic of --topic-config not in targets."""
    check_topics(request.topics, targets)
    wanted = RetentionOptions(
        kafka=request, now_ms=now_ms, policies=given["policies"], log_start_offset=given["log_start_offset"]
    )
    return [
        RetainRequest(target=target, wanted=wanted, scenarios=given["scenarios"], until_ms=given["until"], jobs=jobs)
        for target in target_dirs(targets)
    ]


def write_retention(
    writer: ResultWriter[RetentionForecaster | RetainForecast | Finding],
    forecasters: Iterable[tuple[RetentionForecaster, Iterator[RetainForecast | Finding]]],
) -> int:
    """Write every forecast and the summary; return the exit status."""
    report = Report()
    return write_results(writer, _forecasts(forecasters, report), report)


def _forecasts(
    forecasters: Iterable[tuple[RetentionForecaster, Iterator[RetainForecast | Finding]]], report: Report
) -> Generator[RetentionForecaster | RetainForecast | Finding, None, None]:
    """Yield each forecaster and its forecasts, which are counted in the report."""
    for forecaster, forecasts in forecasters:
        yield forecaster
        for each in forecasts:
            for finding in (each,) if isinstance(each, Finding) else each.findings:
                report.add_finding(finding.row())
            report.partitions += 1
            report.rows += 1
            yield each
