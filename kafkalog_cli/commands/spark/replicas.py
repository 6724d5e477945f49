"""`kafkalog spark replicas`: compare the copies of each partition on several brokers' disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import write_results
from kafkalog_cli.commands.spark.job import run_on_spark, session_options
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.reading import input_storage_option, reading_options
from kafkalog_cli.render.writers import REPLICAS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, work_of
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["replicas_command"]

EXAMPLES = (
    Example(
        "kafkalog spark replicas /mnt/broker-1/kafka /mnt/broker-2/kafka /mnt/broker-3/kafka",
        "Which copy of each partition should be kept, and what do the others lack?",
    ),
    Example(
        "kafkalog spark replicas --topic orders --output ndjson /mnt/broker-*/kafka",
        "One topic, as rows for another program",
    ),
)


@click.command(name="replicas", cls=Command, reads_objects=True, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@common.selection_options
@common.limit_options
@common.output_option
@reading_options
@input_storage_option
@session_options
def replicas_command(
    paths: tuple[str, ...],
    selection: Selection,
    session: SessionSettings,
    max_batch_bytes: int,
    output: str,
) -> int:
    """Compare the copies of each partition on several brokers' disks, and report which one to keep.

    Name the log directories of the brokers, or copies of them. The comparison, the report and the exit status are those
    of `kafkalog replicas`, which is quicker for a few disks. Nothing is changed.
    """
    report = Report()
    targets = resolve_readable(local_paths(paths), selection, report)
    work = work_of(ReplicasRequest(targets=targets, max_batch_bytes=max_batch_bytes))
    writer = open_results(REPLICAS, output)
    comparisons = run_on_spark(session, lambda workers, progress: replicas(work, report, progress, workers))
    return write_results(writer, comparisons, report)
