"""`kafkalog checkpoint`: the text files of a log directory, checked and mended."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import kafka_options
from kafkalog_cli.repair import Manner, repair_options, run_repair
from kafkalog_core.storage.logdir import is_broker_dir

if TYPE_CHECKING:
    from kafkalog_core.kafka.settings import SettingsRequest
    from kafkalog_core.ops.reading.selection import Selection

__all__ = ["checkpoint_command"]

EXAMPLES = (
    Example("kafkalog checkpoint /var/lib/kafka", "Show the checkpoints, epochs and ids, and what is wrong in them"),
    Example("kafkalog checkpoint /var/lib/kafka --apply", "Mend the lines that are bad, and no others"),
    Example("kafkalog checkpoint /disk1 --beside /disk2", "Take what is lost from the broker's other log directory"),
    Example("kafkalog checkpoint /var/lib/kafka --mark-clean", "See whether the broker may skip its recovery"),
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
        "Also mark the log directory as stopped cleanly, so that the broker recovers nothing: only where every "
        "partition in it verifies and is as a clean stop leaves it. Reads all of it."
    ),
)
@click.option(
    "--beside",
    metavar="DIR",
    multiple=True,
    type=click.Path(readable=False),
    help=("Another log directory of the same broker, to take ids from. Repeatable. Those named as PATH are taken too."),
)
@kafka_options
@repair_options
def checkpoint_command(
    paths: tuple[str, ...],
    selection: Selection,
    mark_clean: bool,
    beside: tuple[str, ...],
    request: SettingsRequest,
    manner: Manner,
) -> int:
    """Show, check and mend the text files: checkpoints of offsets, leader epochs, partition.metadata, meta.properties.

    PATH is a log directory, a partition directory, or one of these files. Shown is each file, how many entries a broker
    finds in it and what it makes of it. What is malformed, or cannot be true beside the log, is mended: with --apply,
    and no other line changes. A recovery point that was lost becomes the base of the last segment, one behind the end
    of the log its end; other offsets that were lost or cannot be true go, as brokers find them anew. Leader epochs are
    taken from the batches, topic ids from other partitions of the topic or the cluster's metadata log. What is nowhere
    on the disk is not made up. Of the logs only the last segments are read, but for --mark-clean.
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
        manner,
    )
