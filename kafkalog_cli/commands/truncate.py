"""`kafkalog truncate`: truncate logs, and update the files that belong to them."""

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

__all__ = ["truncate_command"]

EXAMPLES = (
    Example("kafkalog truncate --as-broker /var/lib/kafka", "What would a broker truncate at its next start?"),
    Example(
        "kafkalog truncate --at-damage /var/lib/kafka/orders-0", "What would be lost if the log ended at its damage?"
    ),
    Example("kafkalog truncate --to-offset 4711 --apply /var/lib/kafka/orders-0", "End the log before offset 4711"),
)


@click.command(name="truncate", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--to-offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="Remove the batch that contains offset N, and everything after it. For one partition.",
)
@click.option("--at-damage", is_flag=True, help="Remove everything from the first damaged batch of each log on.")
@click.option(
    "--as-broker",
    is_flag=True,
    help=(
        "Do what a broker would do at its next start, by its release, the recovery points and the clean shutdown "
        "file: truncate logs, delete segments, and complete .swap files."
    ),
)
@common.selection_options
@kafka_options
@reading_options
@repair_options
def truncate_command(
    paths: tuple[str, ...],
    selection: Selection,
    to_offset: int | None,
    at_damage: bool,
    as_broker: bool,
    request: SettingsRequest,
    repair: RepairOptions,
) -> int:
    """Truncate logs at an offset, at the first damage, or where a broker would.

    Indexes, producer snapshots, leader epochs and the checkpoints of the log directory are updated too. The plan shows
    what is lost: records, bytes, times, transactions and producers, and how many of the records were committed (below
    the high watermark). If another replica is healthy, copy it instead. The exit status of a plan that loses records is
    4.
    """
    if sum((to_offset is not None, at_damage, as_broker)) != 1:
        raise click.UsageError("give one of --to-offset N, --at-damage and --as-broker")
    wanted = {"to_offset": to_offset, "at_damage": at_damage, "as_broker": as_broker}
    return run_repair("truncate", paths, selection, {"kafka": asdict(request), **wanted}, repair)
