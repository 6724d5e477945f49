"""`kafkalog truncate`: cut the end of logs off, and bring all that belongs to them into line."""

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

__all__ = ["truncate_command"]

EXAMPLES = (
    Example("kafkalog truncate --as-broker /var/lib/kafka", "What would a broker cut off at its next start?"),
    Example("kafkalog truncate --at-damage /var/lib/kafka/orders-0", "What would go if the log ended at its damage"),
    Example("kafkalog truncate --to-offset 4711 --apply /var/lib/kafka/orders-0", "End the log before offset 4711"),
)


@click.command(name="truncate", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--to-offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="The batch that holds offset N, and all behind it. Of one partition.",
)
@click.option("--at-damage", is_flag=True, help="Everything from the first bad batch of each log on.")
@click.option(
    "--as-broker",
    is_flag=True,
    help=(
        "What the next start of a broker would cut or delete, by its release, the recovery points and the clean "
        "shutdown file; .swap files that it puts in place, and what it deletes with the segments that they replace."
    ),
)
@common.selection_options
@kafka_options
@repair_options
def truncate_command(
    paths: tuple[str, ...],
    selection: Selection,
    to_offset: int | None,
    at_damage: bool,
    as_broker: bool,
    request: SettingsRequest,
    manner: Manner,
) -> int:
    """Cut the end of logs off: segments behind the cut go, the one that holds it is shortened at a batch.

    Indexes, producer snapshots, leader epochs and the checkpoints of the log directory follow. The plan says what is
    lost: records, bytes, times, transactions and producers, and how much of it was committed, as it lies below the high
    watermark. Where a replica is healthy it is the better cure. The exit status of a plan that loses records is 4.
    """
    if sum((to_offset is not None, at_damage, as_broker)) != 1:
        raise click.UsageError("say where: --to-offset N, --at-damage or --as-broker")
    wanted = {"to_offset": to_offset, "at_damage": at_damage, "as_broker": as_broker}
    return run_repair("truncate", paths, selection, {"kafka": asdict(request), **wanted}, manner)
