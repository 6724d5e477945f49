"""`kafkalog spark retain`: what retention deletes of the logs of many disks."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.shared import requests_of, write_retention
from kafkalog_cli.commands.spark.job import run_on_spark, session_options
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.details import detail_options
from kafkalog_cli.options.forecasts import check_until, find_policies, forecast_options, retention_options
from kafkalog_cli.options.kafka import kafka_options, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.writers import RETENTION, open_results
from kafkalog_core.spark.jobs import retain
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_cli.options.details import Detail
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["retain_command"]

EXAMPLES = (
    Example(
        "kafkalog spark retain --output ndjson /mnt/broker-*/kafka > retention.ndjson",
        "What is deleted on all disks now and later, and what keeps the rest",
    ),
    Example(
        "kafkalog spark retain --what-if retention.ms=86400000 --what-if log.retention.hours=72 /mnt/broker-*/kafka",
        "How much space would other settings free in the whole cluster?",
    ),
)


@click.command(name="retain", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@retention_options
@forecast_options
@now_option
@common.selection_options
@kafka_options
@detail_options
@common.output_option
@reading_options
@session_options
def retain_command(
    paths: tuple[str, ...],
    selection: Selection,
    now_ms: int,
    request: SettingsRequest,
    session: SessionSettings,
    detail: Detail,
    **given: Any,
) -> int:
    """Forecast what retention deletes on many disks: kafkalog retain, with the same rows, on Spark.

    PATH is a log directory or a partition directory, of any number of brokers; every machine of the cluster must see
    them under the same names. The release, settings and checkpoints of each log directory apply to it. Nothing is
    changed; kafkalog retain --apply deletes.
    """
    find_policies(given["policies"])
    check_until(given["until"], now_ms)
    targets = resolve_all(local_paths(paths), selection)
    output, has_details = given["output"], detail.shows(paths, selection)
    writer = open_results(RETENTION, output, given["until"], has_details=has_details, explains=detail.explains)
    requests = requests_of(targets, request, now_ms, given)
    with closing(run_on_spark(session, lambda workers, progress: retain(workers, requests, progress))) as forecasters:
        return write_retention(writer, forecasters)
