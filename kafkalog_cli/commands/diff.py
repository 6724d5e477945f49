"""`kafkalog diff`: what changed between two copies of the log directories of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import cores, watched, write_results
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.writers import DIFFERENCES, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.kafka.sim.zookeeper.data_dir import is_data_dir
from kafkalog_core.ops.diff.diff import diff
from kafkalog_core.ops.diff.request import DiffRequest, Side
from kafkalog_core.storage.paths import exists

if TYPE_CHECKING:
    from kafkalog_core.engine.targets import Target

__all__ = ["diff_command"]

EXAMPLES: Final = (
    Example("kafkalog diff /backup/kafka /var/lib/kafka", "What changed since the backup?"),
    Example("kafkalog diff --topic orders /backup/kafka /var/lib/kafka", "The same for one topic and its groups"),
    Example(
        "kafkalog diff /backup/disk1,/backup/disk2 /disk1,/disk2", "A broker with two log directories, as in log.dirs"
    ),
    Example("kafkalog diff --ndjson /backup/kafka /var/lib/kafka", "A row for each change, for a script"),
)


@click.command(name="diff", cls=Command, own=("--topic", "--deep"), examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@click.argument("old", metavar="OLD", type=click.Path(readable=False))
@click.argument("new", metavar="NEW", type=click.Path(readable=False))
@click.option(
    "--topic",
    "topics",
    metavar="GLOB",
    multiple=True,
    help="Show only what changed of topics whose name matches GLOB (* ? [...]), with their groups. Repeatable.",
)
@click.option(
    "--deep",
    "is_deep",
    is_flag=True,
    help=(
        "Compute the checksum of each batch too, so that a batch whose records are damaged in one copy differs. Else "
        "only headers are compared, with the checksum that is stored there."
    ),
)
@now_option
@common.limit_options
@common.jobs_option
@reading_options
@common.output_option
def diff_command(
    old: str,
    new: str,
    topics: tuple[str, ...],
    now_ms: int,
    max_batch_bytes: int,
    jobs: int | None,
    output: str,
    *,
    is_deep: bool,
) -> int:
    """Show what changed between two copies of a broker's log directory, such as a backup and the disk of today.

    OLD and NEW are log directories or partitions. Several directories of one broker are separated by commas, as in
    log.dirs; the dataDir of a ZooKeeper server may be among them.

    The first line is the answer. Rows follow: topics and partitions that are new, gone, being deleted, or created again
    under another id; records that were added, truncated, deleted, cleaned or are missing, by partition, with the leader
    epoch at which a log was truncated; settings, quotas and ACLs, where there is a metadata log or ZooKeeper; committed
    offsets that moved; transactions that began or ended.

    Batches with the same header are the same. Indexes, snapshots and modification times are not compared: kafkalog
    verify checks these files. The exit status is 0 with changes and without them, and 4 if a copy could not be read in
    full. Nothing is written.
    """
    report = Report()
    sides = [_side(label, text, report) for label, text in (("OLD", old), ("NEW", new))]
    request = DiffRequest(
        old=sides[0],
        new=sides[1],
        now_ms=now_ms,
        topics=topics,
        is_deep=is_deep,
        jobs=jobs or cores(),
        max_batch_bytes=max_batch_bytes,
    )
    writer = open_results(DIFFERENCES, output)
    with watched() as progress:
        return write_results(writer, diff(request, report, progress), report)


def _side(label: str, text: str, report: Report) -> Side:
    """Return what OLD or NEW names. Raises StorageError and UsageError."""
    paths = (text,) if exists(text) else tuple(filter(None, text.split(",")))
    zookeeper_dirs = tuple(path for path in paths if is_data_dir(path))
    rest = tuple(path for path in paths if path not in zookeeper_dirs)
    if not rest:
        raise click.UsageError(
            f"{label} has no log directory; kafkalog zookeeper --diff compares two ZooKeeper servers"
        )
    targets: tuple[Target, ...] = resolve_readable(rest, Selection(), report)
    return Side(label=label, paths=paths, targets=targets, zookeeper_dirs=zookeeper_dirs)
