"""`kafkalog reindex`: build indexes, producer snapshots and leader epochs anew from the logs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import kafka_options
from kafkalog_cli.repair import repair_options, run_repair

if TYPE_CHECKING:
    from kafkalog_cli.repair import Manner
    from kafkalog_core.kafka.settings import SettingsRequest
    from kafkalog_core.ops.reading.selection import Selection

__all__ = ["reindex_command"]

EXAMPLES = (
    Example("kafkalog reindex /var/lib/kafka", "Which indexes are missing or wrong?"),
    Example("kafkalog reindex --apply /var/lib/kafka/orders-0", "Build those of one partition anew"),
    Example("kafkalog reindex --all --kafka 2.8.2 --topic orders /var/lib/kafka", "All of them, as 2.8.2 would"),
)


@click.command(name="reindex", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--all",
    "writes_all",
    is_flag=True,
    help=(
        "Write every index, snapshot and epoch file that is not byte for byte what a recovery writes, also those that "
        "are right."
    ),
)
@click.option(
    "--as-broker",
    is_flag=True,
    help=(
        "Where a log is damaged, do what a broker does that finds its index missing: cut the segment there and keep "
        "those behind it."
    ),
)
@common.limit_options
@common.selection_options
@kafka_options
@repair_options
def reindex_command(
    paths: tuple[str, ...],
    selection: Selection,
    writes_all: bool,
    as_broker: bool,
    max_batch_bytes: int,
    request: SettingsRequest,
    manner: Manner,
) -> int:
    """Build .index, .timeindex, .txnindex, producer snapshots and leader epochs anew from the logs.

    Written is what is missing or wrong, byte for byte as the recovery of that release writes it, and after a crash what
    the next start would build anew anyway; the active segment's indexes are trimmed as after a clean stop. Any other
    index that a running broker wrote may differ and be right: it stays, and is counted. A segment that is damaged
    before its tail is left alone, with the reason and the next command; the others are done. One whose offsets pass the
    reach of its indexes is split.
    """
    wanted = {"all": writes_all, "as_broker": as_broker, "max_batch_bytes": max_batch_bytes}
    return run_repair("reindex", paths, selection, {"kafka": asdict(request), **wanted}, manner)
