"""`kafkalog transactions`: open, hanging and prepared transactions, what they hold back, and who ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import cores, watched, write_results
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.coordinators import transaction_options, transactions_request
from kafkalog_cli.options.kafka import kafka_option, now_option
from kafkalog_cli.render.writers import TRANSACTIONS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.transactions.transactions import transactions

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection

__all__ = ["transactions_command"]

EXAMPLES = (
    Example("kafkalog transactions /var/lib/kafka", "Which transaction holds read_committed consumers back?"),
    Example(
        "kafkalog transactions --topic orders /disks/broker-*/kafka",
        "The same for one topic, over the disks of all brokers, whose coordinators know the transactions",
    ),
    Example(
        "kafkalog transactions --transactional-id payments-7 /var/lib/kafka",
        "Every transaction of one application: where it began, and how it ended",
    ),
    Example("kafkalog transactions --ndjson /var/lib/kafka", "Rows for a script"),
)


@click.command(name="transactions", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@transaction_options
@common.selection_options
@kafka_option
@now_option
@common.limit_options
@common.jobs_option
@common.output_option
def transactions_command(
    paths: tuple[str, ...], selection: Selection, now_ms: int, *, shows_all: bool, **given: Any
) -> int:
    """Show the open transactions of stopped brokers: what each holds back, since when, and who ends it.

    The last stable offset of a partition is the first offset of its earliest open transaction: read_committed consumers
    and the log cleaner stop there. Each open transaction in a log is looked up in __transaction_state, wherever that is
    in the named log directories. A transaction that its coordinator does not know is hanging (KIP-664): nothing ends
    it, and the command line that aborts it is shown. Of several copies of a partition each is shown; who ends a
    transaction follows from the copy with which a cluster would go on.

    Name the disks of all brokers: a coordinator that is on none of them may know a transaction, which is then shown as
    undecided. A log is read from its newest producer snapshot on.
    """
    report = Report()
    targets = resolve_readable(paths, selection, report)
    asked = transactions_request(targets, now_ms, given, jobs=given["jobs"] or cores())
    writer = open_results(TRANSACTIONS, given["output"], shows_all=shows_all)
    with watched() as progress:
        return write_results(writer, transactions(asked, report, progress), report)
