"""`kafkalog spark groups`: the groups of a whole cluster, by the engine of `kafkalog groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import write_results
from kafkalog_cli.commands.spark.job import run_on_spark, session_options
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.coordinators import group_options, groups_request
from kafkalog_cli.options.kafka import kafka_start_options, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.writers import GROUPS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.ops.groups.groups import groups
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["groups_command"]

EXAMPLES = (
    Example("kafkalog spark groups /mnt/broker-*/kafka", "All groups of a cluster, and those that will be reset"),
    Example(
        "kafkalog spark groups --master spark://host:7077 --output ndjson /mnt/broker-*/kafka > groups.ndjson",
        "All members and offsets as rows, read on a cluster",
    ),
)


@click.command(name="groups", cls=Command, own=("--topic",), examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@group_options
@now_option
@kafka_start_options
@common.limit_options
@common.output_option
@reading_options
@session_options
def groups_command(
    paths: tuple[str, ...], now_ms: int, request: SettingsRequest, session: SessionSettings, **given: Any
) -> int:
    """Show the groups of a whole cluster: kafkalog groups, with the same rows, on Spark.

    PATH is a log directory, or a partition of __consumer_offsets; name the log directories of all brokers. Every
    machine of the cluster must see them under the same names. The partitions of __consumer_offsets are read in
    parallel, large segments in parts; the driver joins them, and looks up the ends of the logs. Nothing is written.
    kafkalog groups has --history and --export.
    """
    report, paths, output = Report(), local_paths(paths), given["output"]
    targets = resolve_readable(paths, Selection(), report)
    asked = groups_request(targets, now_ms, request, given, has_positions=output != "table")
    writer = open_results(GROUPS, output, asked.groups, paths)
    found = run_on_spark(session, lambda workers, progress: groups(asked, report, progress, workers=workers))
    return write_results(writer, found, report)
