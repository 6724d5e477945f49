"""What the commands share that forecast compaction: options, and the way from forecasts to rows and an exit status."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalog_cli.ending import early_end
from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import setting_options
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.text import end_progress
from kafkalog_core.errors import SettingError
from kafkalog_core.findings import Finding
from kafkalog_core.format import kernels
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.reading.targets import check_topics
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.retain.forecaster import RetentionOptions, Scenario
from kafkalog_core.ops.retain.retain import RetainRequest
from kafkalog_core.ops.verify.engine import count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from kafkalog_cli.render import CompactWriter, RetentionWriter, VerdictWriter
    from kafkalog_core.kafka.settings import SettingsRequest
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.ops.retain.forecaster import RetentionForecaster
    from kafkalog_core.ops.retain.retain import Retained
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = [
    "check_memory",
    "check_until",
    "cleaning_options",
    "find_policies",
    "forecast_options",
    "level_option",
    "requests_of",
    "verdict_options",
    "warn_of_interpreted",
    "write_all",
    "write_forecasts",
    "write_retention_forecasts",
]


Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_DEFAULT_BIGGEST: Final = 10
_MAX_BIGGEST: Final = 250
_LEAST_MAP_BYTES: Final = 64


def cleaning_options(function: Decorated) -> Decorated:
    """--force, --memory, --max-passes, --biggest and the cleaner's settings: to stand above `kafka_options`."""
    with_settings = _SETTINGS(function)
    return reduce(lambda inner, decorator: decorator(inner), reversed(_OPTIONS), with_settings)


def check_memory(memory_bytes: int | None) -> None:
    """Raises click.UsageError for what no offset map has."""
    if memory_bytes is not None and memory_bytes < _LEAST_MAP_BYTES:
        raise click.UsageError(f"--memory {memory_bytes}: not even two keys of 24 bytes fit into that")
    if memory_bytes is not None and memory_bytes > MAX_INT32:
        raise click.UsageError(f"--memory {memory_bytes}: an offset map of Kafka's has {MAX_INT32} bytes at most")


def warn_of_interpreted() -> None:
    """Say that it takes long where the kernels are not compiled."""
    if not kernels.COMPILED:
        click.echo("kafkalog: no compiled kernels here; the interpreted ones are about 100 times slower", err=True)


def write_forecasts(
    writer: CompactWriter, forecasts: Generator[CompactForecast, None, None], to: str | None, report: Report
) -> int:
    """Write every forecast and the summary; where the next one cannot be had, that is said after what is known.

    `to`: the directory that is written; null: none.
    """
    with early_end(writer, report), closing(forecasts):
        for forecast in forecasts:
            writer.write(forecast)
    end_progress()
    writer.finish(report.summary_row())
    if to is not None:
        click.echo(f"kafkalog: written: {safe_text(to)}, with the logs that were not cleaned as they are", err=True)
    return int(report.exit_status)


_OPTIONS: Final = (
    click.option(
        "--force",
        is_flag=True,
        help=(
            "Clean whatever the dirty ratio is. Lags, the high watermark, open transactions and the active segment "
            "count."
        ),
    ),
    click.option(
        "--memory",
        "memory_bytes",
        type=common.parse_size,
        metavar="SIZE",
        help=(
            "Memory of the offset map, 24 bytes a key; each process has one. Where it is full a clean ends early, and "
            "another one goes on.  "
            "[default: what a broker gives it, log.cleaner.dedupe.buffer.size: 128 MiB]"
        ),
    ),
    click.option(
        "--max-passes",
        type=click.IntRange(min=1),
        metavar="N",
        help="At most so many cleans of a partition.  [default: until nothing more is cleanable]",
    ),
    click.option(
        "--biggest",
        type=click.IntRange(min=0, max=_MAX_BIGGEST),
        default=_DEFAULT_BIGGEST,
        show_default=True,
        metavar="N",
        help="Show so many of the keys with most bytes in what is cleaned.",
    ),
)
_SETTINGS: Final = setting_options(
    min_cleanable_dirty_ratio="Clean a log whose dirty ratio is above this, from 0 to 1.",
    delete_retention_ms="How long a clean keeps tombstones and transaction markers, in milliseconds.",
    min_compaction_lag_ms="Leave records alone that are younger than this, in milliseconds.",
    max_compaction_lag_ms="Clean, whatever the dirty ratio is, a log with uncleaned records older than this.",
)


def forecast_options(function: Decorated) -> Decorated:
    """--log-start-offset, --what-if (`scenarios`), --until, --policy (`policies`)."""
    return reduce(lambda inner, decorator: decorator(inner), reversed(_RETAINING_OPTIONS), function)


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
    wanted = RetentionOptions(
        kafka=request, now_ms=now_ms, policies=given["policies"], log_start_offset=given["log_start_offset"]
    )
    return [
        RetainRequest(target=site, wanted=wanted, scenarios=given["scenarios"], until_ms=given["until"], jobs=jobs)
        for site in target_dirs(targets)
    ]


def write_retention_forecasts(
    writer: RetentionWriter, forecasters: Iterable[tuple[RetentionForecaster, Iterator[Retained | Finding]]]
) -> int:
    """Forecast after forecast; where the next one cannot be had, what is known is shown before that is said."""
    report = Report()
    with early_end(writer, report):
        for forecaster, forecasts in forecasters:
            writer.begin(forecaster)
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


_RETAINING_OPTIONS: Final = (
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
        type=common.parse_time_ms,
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


level_option = click.option(
    "--level",
    type=click.Choice(("headers", "checksums", "records")),
    default="records",
    show_default=True,
    help=(
        "How deep to look: headers reads batch headers, indexes and small files; checksums every byte; records also "
        "decodes every record."
    ),
)
_fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(("error", "warning")),
    default="error",
    show_default=True,
    help="The least severity of a finding that makes the exit status 4.",
)
_quiet_option = click.option("--quiet", is_flag=True, help="Only the summary line, on stderr, and the exit status.")


def verdict_options(function: Decorated) -> Decorated:
    """--level, --fail-on, --quiet."""
    return level_option(_fail_on_option(_quiet_option(function)))


def write_all(
    writers: Sequence[VerdictWriter],
    verdicts: Iterable[PartitionVerdict | PlaceVerdict],
    report: Report,
) -> None:
    """Write every verdict; where the next one cannot be had, what is known is shown before that is said."""
    shown = writers[0]  # a page of half of it would look like one of all
    with early_end(shown, report):
        for verdict in verdicts:
            count(verdict, report)
            for writer in writers:
                writer.write(verdict)
