"""`kafkalog spark usage`: what takes the space of many disks, counted where they are."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.spark.job import run_on_spark, session_options
from kafkalog_cli.commands.usage import usage_options, usage_request, write_usages
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import kafka_options, now_option
from kafkalog_cli.render.writers import USAGES, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.usage.usage import usage
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["usage_command"]

EXAMPLES = (
    Example("kafkalog spark usage /mnt/broker-*/kafka", "Which topics take the disks of all brokers?"),
    Example("kafkalog spark usage --by kind --ndjson /mnt/broker-*/kafka > usage.ndjson", "Rows for a script"),
)


@click.command(name="usage", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@usage_options
@now_option
@common.selection_options
@kafka_options
@common.output_option
@session_options
def usage_command(
    paths: tuple[str, ...],
    selection: Selection,
    now_ms: int,
    request: SettingsRequest,
    session: SessionSettings,
    **given: Any,
) -> int:
    """Show what takes the space of many disks: kafkalog usage, with the same rows, on Spark.

    PATH is a log directory or a partition directory, of any number of brokers; every machine of the cluster must see
    them under the same names. A log directory is counted by one task. Nothing is changed.
    """
    report, paths = Report(), local_paths(paths)
    asked = usage_request(resolve_readable(paths, selection, report), request, now_ms, given)
    writer = open_results(USAGES, given["output"])
    with closing(
        run_on_spark(session, lambda workers, progress: usage(asked, report, progress, workers=workers))
    ) as found:
        return write_usages(writer, found, report)
