"""`kafkalog spark verify`: the checks of `kafkalog verify` on the cores of a cluster."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import clock_ms, write_results
from kafkalog_cli.commands.shared import counted
from kafkalog_cli.commands.spark.job import run_on_spark, session_options
from kafkalog_cli.commands.spark.typed_paths import TypedPaths
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import kafka_start_options
from kafkalog_cli.options.reading import input_storage_option, reading_options
from kafkalog_cli.render.writers import VERDICTS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["verify_command"]

EXAMPLES = (
    Example("kafkalog spark verify /mnt/broker-*/kafka", "Check the disks of many brokers on all cores"),
    Example(
        "kafkalog spark verify --master spark://host:7077 --quiet /mnt/broker-*/kafka && echo fine",
        "The same on a cluster, in a script",
    ),
)


@click.command(name="verify", cls=Command, reads_objects=True, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@common.verdict_options
@kafka_start_options
@common.selection_options
@common.limit_options
@common.output_option
@reading_options
@input_storage_option
@session_options
def verify_command(paths: tuple[str, ...], selection: Selection, session: SessionSettings, **given: Any) -> int:
    """Check everything on many disks: kafkalog verify, with the same findings, on Spark.

    PATH is a log directory, a partition directory, a file or a glob of them; name all log directories together, so that
    they are compared. Every machine of the cluster must see them under the same names. Partitions, and the segments of
    large partitions, are checked in parallel. Nothing is changed. The exit status is 4 if something is damaged, and 3
    if one of several PATHs cannot be read; the others are checked nevertheless.
    """
    report = Report(fail_on=given["fail_on"])
    request = VerifyRequest(
        targets=resolve_readable(local_paths(paths), selection, report),
        level=given["level"],
        now_ms=clock_ms(),
        max_batch_bytes=given["max_batch_bytes"],
        kafka=given["request"],
    )
    output = "quiet" if given["quiet"] else given["output"]
    verdicts = run_on_spark(
        session,
        lambda workers, progress: TypedPaths(paths).verdicts(verify(request, progress, workers=workers)),
        targets=request.targets,
        shares_terminal=output == "quiet" or (sys.stdout.isatty() and output != "table"),
    )
    with closing(verdicts):
        return write_results(open_results(VERDICTS, output), counted(verdicts, report), report)
