"""`kafkalog spark transactions`: the transactions of a whole cluster, by the engine of `kafkalog transactions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import write_results
from kafkalog_cli.commands.spark.job import run_on_spark, session_options
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.coordinators import transaction_options, transactions_request
from kafkalog_cli.options.kafka import kafka_option, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.writers import TRANSACTIONS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.transactions.transactions import transactions
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["transactions_command"]

EXAMPLES = (
    Example(
        "kafkalog spark transactions /mnt/broker-*/kafka", "What holds read_committed consumers of a cluster back?"
    ),
    Example(
        "kafkalog spark transactions --transactional-id payments-7 --output ndjson /mnt/broker-*/kafka",
        "Every transaction of one application in all logs, which are read as a whole, as rows",
    ),
)


@click.command(name="transactions", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@transaction_options
@common.selection_options
@kafka_option
@now_option
@common.limit_options
@common.output_option
@reading_options
@session_options
def transactions_command(
    paths: tuple[str, ...],
    selection: Selection,
    now_ms: int,
    session: SessionSettings,
    *,
    shows_all: bool,
    **given: Any,
) -> int:
    """Show the open transactions of a whole cluster: kafkalog transactions, with the same rows, on Spark.

    PATH is a log directory or a partition directory; name the log directories of all brokers. Every machine of the
    cluster must see them under the same names. The copies of partitions are read in parallel; the driver reads
    __transaction_state, and joins them. Nothing is written.
    """
    report = Report()
    targets = resolve_readable(local_paths(paths), selection, report)
    asked = transactions_request(targets, now_ms, given)
    writer = open_results(TRANSACTIONS, given["output"], shows_all=shows_all)
    found = run_on_spark(session, lambda workers, progress: transactions(asked, report, progress, workers=workers))
    return write_results(writer, found, report)
