"""`kafkalog recover`: bring a disk back with the least loss."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.repair import repair_options, run_repair
from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import kafka_options
from kafkalog_cli.options.reading import reading_options
from kafkalog_core.storage.logdir import is_broker_dir
from kafkalog_core.structs import asdict

if TYPE_CHECKING:
    from kafkalog_cli.commands.repair import RepairOptions
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.ops.repair.plan import Json

__all__ = ["recover_command"]

EXAMPLES = (
    Example("kafkalog recover /var/lib/kafka", "What would a broker lose by itself, and what does it have to lose?"),
    Example("kafkalog recover --only-copy --apply /var/lib/kafka", "Bring back the only copy, and start at once"),
    Example("kafkalog recover --refetch --apply /var/lib/kafka", "Let other replicas bring back what is damaged"),
)


@click.command(name="recover", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--only-copy",
    is_flag=True,
    help="No other replica is in sync: keep every batch that can be read, and excise damaged places.",
)
@click.option(
    "--refetch",
    is_flag=True,
    help="Other replicas are in sync: truncate logs at their damage, so that the broker fetches the rest from them.",
)
@click.option("--as-broker", is_flag=True, help="Truncate logs where a broker would at its next start.")
@common.selection_options
@kafka_options
@reading_options
@repair_options
def recover_command(
    paths: tuple[str, ...],
    selection: Selection,
    only_copy: bool,
    refetch: bool,
    as_broker: bool,
    request: SettingsRequest,
    repair: RepairOptions,
) -> int:
    """Bring a disk back with the least loss by which a broker starts, without recovering anything.

    The plan shows what the broker would delete by itself, and what this plan deletes: offsets, times, reasons. Damaged
    places in the middle of the only copy of a log are excised, and every record after them is kept. Where the metadata
    log in PATH shows other replicas in sync, logs are truncated at their damage, and the broker fetches the rest. If
    that is unknown, --apply needs --only-copy or --refetch. Finished .swap files are put in place, torn tails are
    truncated, indexes, producer snapshots, leader epochs, checkpoints and ids are repaired, and the clean shutdown file
    is written. The exit status of a plan that loses records is 4.
    """
    if sum((only_copy, refetch, as_broker)) > 1:
        raise click.UsageError("give only one of --only-copy, --refetch and --as-broker")
    options: dict[str, Json] = {
        "kafka": asdict(request),
        "only_copy": only_copy,
        "refetch": refetch,
        "as_broker": as_broker,
        "beside": sorted({os.path.abspath(path) for path in paths if is_broker_dir(path)}),
    }
    return run_repair("recover", paths, selection, options, repair, empty_dirs=True)
