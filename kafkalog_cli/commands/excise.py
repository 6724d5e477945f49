"""`kafkalog excise`: replace the batch of an offset with an empty one, and keep everything after it."""

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
    from kafkalog_core.ops.repair.plan import Json

__all__ = ["excise_command"]

EXAMPLES = (
    Example("kafkalog excise --offset 4711 /var/lib/kafka/orders-0", "What would be lost with the batch of an offset?"),
    Example("kafkalog excise --offset 4711 --apply /var/lib/kafka/orders-0", "Excise it"),
    Example(
        "kafkalog excise --offset 4711 --healthy --apply /var/lib/kafka/orders-0",
        "Excise a batch that is not damaged, and lose its records",
    ),
)


@click.command(name="excise", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--offset",
    "offsets",
    type=click.IntRange(min=0),
    metavar="N",
    multiple=True,
    required=True,
    help="Excise the batch that contains offset N. Repeat the option for more batches of the same partition.",
)
@click.option(
    "--healthy",
    "takes_healthy",
    is_flag=True,
    help="Excise the batch even if nothing is wrong with it: its records are lost.",
)
@common.selection_options
@kafka_options
@reading_options
@repair_options
def excise_command(
    paths: tuple[str, ...],
    selection: Selection,
    offsets: tuple[int, ...],
    takes_healthy: bool,
    request: SettingsRequest,
    repair: RepairOptions,
) -> int:
    """Replace the batch of an offset with an empty batch, and keep everything after it.

    For one batch that cannot be decompressed, stops the cleaner or a consumer, or at which a broker would truncate the
    log. It becomes an empty batch of 61 bytes, as compaction leaves one: brokers, followers, consumers and the cleaner
    pass over it. Messages of magic 0 and 1 have no empty batch: they are removed, and leave a gap. A batch whose
    checksum shows that only its base offset, length, leader epoch or magic is wrong is corrected and keeps its records;
    a transaction marker is rebuilt if its outcome is proved. The segment is rewritten with its indexes, and needs that
    much space. If another replica is healthy, copy it instead: no follower fetches an excised batch again. The exit
    status of a plan that loses records is 4.
    """
    wanted: dict[str, Json] = {"offsets": offsets, "healthy": takes_healthy}
    return run_repair("excise", paths, selection, {"kafka": asdict(request), **wanted}, repair)
