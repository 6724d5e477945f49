"""`kafkalog spark compact`: what the log cleaner does on many disks, or cleaned logs in a new directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus, command_line
from kafkalog_cli.commands.running import warn_of_interpreted
from kafkalog_cli.commands.shared import write_compactions
from kafkalog_cli.commands.spark.job import run_on_spark, session_options
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.details import detail_options
from kafkalog_cli.options.forecasts import check_memory, cleaning_options
from kafkalog_cli.options.kafka import kafka_options, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.writers import COMPACTIONS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.spark.jobs import DEFAULT_GIANT_BYTES, compact
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_cli.options.details import Detail
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["compact_command"]

EXAMPLES = (
    Example("kafkalog spark compact /mnt/broker-*/kafka", "What does cleaning save, and which logs cannot be cleaned?"),
    Example(
        "kafkalog spark compact --topic '*' --set min.cleanable.dirty.ratio=0.1 --set delete.retention.ms=0 "
        "/mnt/broker-*/kafka",
        "And if logs were cleaned earlier, and tombstones removed at once?",
    ),
    Example(
        "kafkalog spark compact --force --to /mnt/spare/cleaned --topic customers /mnt/broker-1/kafka",
        "Write the cleaned logs elsewhere, and leave the disk as it is",
    ),
)


@click.command(name="compact", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@cleaning_options
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(readable=False),
    help=(
        "Write the cleaned logs of one log directory into a new log directory, as a whole or not at all, and change "
        "nothing else. Every machine must see DIR under the same name."
    ),
)
@click.option(
    "--giant",
    "giant_bytes",
    type=common.parse_size,
    default=str(DEFAULT_GIANT_BYTES),
    metavar="SIZE",
    help=(
        "Let several tasks build the offset map of a partition whose log has at least this size and is more than one "
        "core's share of all logs.  [default: 4 GiB]"
    ),
)
@now_option
@common.selection_options
@kafka_options
@common.limit_options
@detail_options
@common.output_option
@reading_options
@session_options
def compact_command(
    paths: tuple[str, ...],
    selection: Selection,
    request: SettingsRequest,
    session: SessionSettings,
    detail: Detail,
    now_ms: int,
    **given: Any,
) -> int:
    """Forecast what brokers' log cleaners do on many disks: kafkalog compact, with the same rows, on Spark.

    PATH is a log directory or a partition directory, of any number of brokers; every machine of the cluster must see
    them under the same names. Partitions are simulated in parallel. Nothing is changed; --to writes the cleaned logs of
    one log directory into a new one.
    """
    check_memory(given["memory_bytes"])
    warn_of_interpreted()
    report, output = Report(), given["output"]
    to = None if given["to"] is None else local_paths([given["to"]])[0]
    asked = CompactRequest(
        targets=resolve_readable(local_paths(paths), selection, report),
        kafka=request,
        now_ms=now_ms,
        memory_bytes=given["memory_bytes"],
        max_passes=given["max_passes"],
        force=given["force"],
        biggest=given["biggest"],
        max_batch_bytes=given["max_batch_bytes"],
        command_line=command_line(),
        asks_after_transactions=output == "table",
    )
    has_details = detail.shows(paths, selection)
    writer = open_results(COMPACTIONS, output, has_details=has_details, explains=detail.explains)
    giant_bytes = given["giant_bytes"]
    forecasts = run_on_spark(
        session,
        lambda workers, progress: compact(workers, asked, report, progress, to=to, giant_bytes=giant_bytes),
    )
    return write_compactions(writer, forecasts, to, report)
