"""`kafkalog reindex`: rebuild indexes, producer snapshots and leader epochs from the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.repair import repair_options, run_repair
from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import kafka_options
from kafkalog_cli.options.reading import reading_options
from kafkalog_core.structs import asdict

if TYPE_CHECKING:
    from kafkalog_cli.commands.repair import RepairOptions
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest

__all__ = ["reindex_command"]

EXAMPLES = (
    Example("kafkalog reindex /var/lib/kafka", "Which indexes are missing or wrong?"),
    Example("kafkalog reindex --apply /var/lib/kafka/orders-0", "Rebuild those of one partition"),
    Example(
        "kafkalog reindex --all --kafka 2.8.2 --topic orders /var/lib/kafka", "Rebuild all of them, as Kafka 2.8.2 does"
    ),
)


@click.command(name="reindex", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--all",
    "writes_all",
    is_flag=True,
    help=(
        "Rebuild every index, snapshot and epoch file that differs from what a recovery writes, even if it is valid."
    ),
)
@click.option(
    "--as-broker",
    is_flag=True,
    help=(
        "If a log is damaged, do what a broker does when the index is missing: truncate the segment at the damage "
        "and keep the segments after it."
    ),
)
@common.limit_options
@common.selection_options
@kafka_options
@reading_options
@repair_options
def reindex_command(
    paths: tuple[str, ...],
    selection: Selection,
    writes_all: bool,
    as_broker: bool,
    max_batch_bytes: int,
    request: SettingsRequest,
    repair: RepairOptions,
) -> int:
    """Rebuild .index, .timeindex, .txnindex, producer snapshots and leader epochs from the logs.

    kafkalog writes files that are missing or wrong, byte for byte as the recovery of the release writes them, and after
    a crash also those that the next start would rebuild. The indexes of the active segment are trimmed as in a clean
    shutdown. An index that a running broker wrote may differ and still be valid: it is kept, and counted. A segment
    that is damaged before its tail is left as it is, with the reason and the next command; the other segments are
    reindexed. A segment is split if its offsets exceed the range of its indexes.
    """
    wanted = {"all": writes_all, "as_broker": as_broker, "max_batch_bytes": max_batch_bytes}
    return run_repair("reindex", paths, selection, {"kafka": asdict(request), **wanted}, repair)
