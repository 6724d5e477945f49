"""`kafkalog checkpoint`: check and repair the text files of a log directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.repair import RepairOptions, repair_options, run_repair
from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import kafka_options
from kafkalog_core.storage.logdir import is_broker_dir
from kafkalog_core.structs import asdict

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest

__all__ = ["checkpoint_command"]

EXAMPLES = (
    Example(
        "kafkalog checkpoint /var/lib/kafka", "Show the checkpoints, leader epochs and ids, and the errors in them"
    ),
    Example("kafkalog checkpoint /var/lib/kafka --apply", "Repair the wrong lines, and no others"),
    Example("kafkalog checkpoint /disk1 --beside /disk2", "Restore lost ids from the broker's other log directory"),
    Example("kafkalog checkpoint /var/lib/kafka --mark-clean", "Check whether the broker may skip its recovery"),
)


@click.command(
    name="checkpoint",
    cls=Command,
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED, ExitStatus.DAMAGE),
)
@common.targets_argument
@common.selection_options
@click.option(
    "--mark-clean",
    is_flag=True,
    help=(
        "Also write the clean shutdown file, so that the broker skips recovery. Only if every partition in the log "
        "directory verifies and is as a clean shutdown leaves it. Reads the whole log directory."
    ),
)
@click.option(
    "--beside",
    metavar="DIR",
    multiple=True,
    type=click.Path(readable=False),
    help="Another log directory of the same broker, as a source of ids, like each log directory in PATH. Repeatable.",
)
@kafka_options
@repair_options
def checkpoint_command(
    paths: tuple[str, ...],
    selection: Selection,
    mark_clean: bool,
    beside: tuple[str, ...],
    request: SettingsRequest,
    repair: RepairOptions,
) -> int:
    """Show, check and repair the text files: offset checkpoints, leader epochs, partition.metadata, meta.properties.

    PATH is a log directory, a partition directory, or one of these files. The output shows each file, the number of
    entries that a broker reads from it, and what the broker does with it. With --apply, lines that are malformed or
    contradict the log are repaired; no other line changes. A lost recovery point becomes the base offset of the last
    segment; a recovery point after the log end offset becomes the log end offset. Other offsets that are lost or
    impossible are removed, because brokers compute them again. Leader epochs come from the batches, topic ids from
    other partitions of the topic or from the cluster metadata log. kafkalog never invents a value that is nowhere on
    the disk. It reads only the last segments of logs, except with --mark-clean.
    """
    others = (*beside, *(path for path in paths if is_broker_dir(path)))
    return run_repair(
        "checkpoint",
        paths,
        selection,
        {
            "kafka": asdict(request),
            "beside": sorted({os.path.abspath(path) for path in others}),
            "mark_clean": mark_clean,
        },
        repair,
    )
