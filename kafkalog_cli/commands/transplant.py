"""`kafkalog transplant`: make log directories belong to another cluster."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.repair import repair_options, run_repair
from kafkalog_cli.options import common
from kafkalog_core.engine.selection import Selection
from kafkalog_core.format.textfile import parse_uuid

if TYPE_CHECKING:
    from kafkalog_cli.commands.repair import RepairOptions

__all__ = ["transplant_command"]

_ID = "MkU3OEVBNTcwNTJENDM2Qg"
EXAMPLES = (
    Example(
        f"kafkalog transplant /var/lib/kafka --cluster-id {_ID}",
        "The cluster has a new id, and the rest is as it was: change only the ids of this directory",
    ),
    Example(
        f"kafkalog transplant /old/data --cluster-id {_ID} --topic-ids /new/data",
        "Give the disk of a dead cluster to the same node of a new one, which has the topics already",
    ),
    Example(
        f"kafkalog transplant /old/data --cluster-id {_ID} --node-id 7 --topic-ids topics.txt",
        "The same for a broker with another id, and topics.txt from kafka-topics.sh --describe",
    ),
)


@click.command(
    name="transplant",
    cls=Command,
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED, ExitStatus.DAMAGE),
)
@common.targets_argument
@click.option("--cluster-id", required=True, metavar="ID", help="The id of the new cluster.")
@click.option(
    "--node-id",
    type=click.IntRange(min=0),
    metavar="N",
    help="The node of the new cluster that gets the directories.  [default: the same id]",
)
@click.option(
    "--topic-ids",
    metavar="PATH",
    multiple=True,
    type=click.Path(readable=False),
    help=(
        "The topics of the new cluster: a file with the output of kafka-topics.sh --describe, or a log directory of "
        "the new cluster with its metadata log, best that of the same node. Repeatable, for directories of several "
        "nodes. Without it, the directories keep their own metadata log, and only the ids in meta.properties change."
    ),
)
@click.option(
    "--directory-id",
    metavar="ID",
    help="The directory.id that the new cluster knows for the one directory in PATH.  [default: from its metadata log]",
)
@repair_options
def transplant_command(
    paths: tuple[str, ...],
    cluster_id: str,
    node_id: int | None,
    topic_ids: tuple[str, ...],
    directory_id: str | None,
    repair: RepairOptions,
) -> int:
    """Make log directories of one cluster belong to another.

    PATH is a log directory. The plan gives it the ids of the new cluster, and each partition the topic id that it has
    there. Leader epochs become 0, because a new cluster begins at 0 and its leaders refuse higher ones. Committed
    offsets lose the epochs and topic ids of the old cluster. Producer snapshots keep only open transactions. The old
    metadata log is removed, or replaced by that of the new cluster. The records stay as they are. The plan reports what
    the next start would rename to end in -stray, and replicas that end before others. Stop the brokers of both clusters
    first. kafkalog undo restores every byte, as long as no broker has started on the directories.
    """
    for option, value in (("--cluster-id", cluster_id), ("--directory-id", directory_id)):
        if value is not None and parse_uuid(value) is None:
            shape = "22 characters, as kafka-storage.sh random-uuid prints"
            raise click.UsageError(f"{option} {value!r} is not an id: {shape}")
    if directory_id is not None and len(paths) != 1:
        raise click.UsageError("--directory-id is the id of one log directory: name one PATH")
    options = {
        "cluster_id": cluster_id,
        "node_id": node_id,
        "topic_ids": [os.path.abspath(path) for path in topic_ids],
        "directory_id": directory_id,
    }
    return run_repair("transplant", paths, Selection(), options, repair)
