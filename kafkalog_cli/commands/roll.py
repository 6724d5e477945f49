"""`kafkalog roll`: where logs would have rolled under other settings, and copies of the logs in those segments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import cores, watched, write_results
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.details import detail_options
from kafkalog_cli.options.kafka import kafka_options, setting_options
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.writers import ROLLS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.roll.roll import RollRequest, roll

if TYPE_CHECKING:
    from kafkalog_cli.options.details import Detail
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest

__all__ = ["roll_command"]

EXAMPLES = (
    Example("kafkalog roll /var/lib/kafka/orders-0", "Do the settings explain the segments?"),
    Example(
        "kafkalog roll --segment-bytes 134217728 --segment-ms 86400000 /var/lib/kafka",
        "How many segments would there be with smaller limits?",
    ),
    Example(
        "kafkalog roll --segment-bytes 268435456 --apply --to /mnt/spare/kafka /var/lib/kafka",
        "Write the same logs in such segments, into a log directory on which a broker starts",
    ),
)


@click.command(name="roll", cls=Command, own=("--apply",), examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@setting_options(
    segment_bytes="Maximum size of a segment's log, in bytes. Kafka 4 accepts nothing below 1 MiB; for less, set "
    "internal.segment.bytes with --set.",
    segment_ms="Roll at a batch that is this much later than the first batch of the segment, in milliseconds.",
    segment_jitter_ms="Subtract up to this much from --segment-ms for each segment, in milliseconds.",
    segment_index_bytes="Maximum size of an index file, in bytes; the log rolls when an index is full.",
    index_interval_bytes="Bytes of log between two entries of an index.",
)
@click.option(
    "--jitter-seed",
    type=click.IntRange(min=0),
    metavar="N",
    help=(
        "Seed of the random jitter: the same N gives the same result.  [default: no jitter, and the result with the "
        "largest jitter]"
    ),
)
@click.option("--apply", is_flag=True, help="Write the logs in these segments; only together with --to.")
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(readable=False),
    help="With --apply: the new log directory. The logs themselves are not changed.",
)
@common.selection_options
@kafka_options
@common.limit_options
@common.jobs_option
@reading_options
@detail_options
@common.output_option
def roll_command(
    paths: tuple[str, ...], selection: Selection, request: SettingsRequest, detail: Detail, **given: Any
) -> int:
    """Show where logs would have rolled, by the append rules of the release.

    Each batch counts as one append by the leader (in reality a follower's fetch, and a produce request of magic 0 or 1,
    append several at once). Settings come from the command line, else from the broker. If the result equals the
    segments on the disk, the settings explain them. A forecast reads the headers of batches; only --apply computes
    checksums.

    With --apply --to DIR the same batches are written into such segments, with indexes, producer snapshots, leader
    epochs and checkpoints, as a log directory on which a broker starts without recovery. DIR appears when it is
    complete. A damaged log, and a log that a broker is using, is not written.
    """
    if given["apply"] != (given["to"] is not None):
        raise click.UsageError(
            "--apply and --to DIR need each other: kafkalog never rolls a log in place, only into a new directory"
        )
    report = Report()
    asked = RollRequest(
        targets=resolve_readable(paths, selection, report),
        kafka=request,
        seed=given["jitter_seed"],
        to=None if given["to"] is None else os.path.abspath(given["to"]),
        jobs=given["jobs"] or cores(),
        max_batch_bytes=given["max_batch_bytes"],
    )
    has_details = detail.shows(paths, selection)
    writer = open_results(ROLLS, given["output"], has_details=has_details, explains=detail.explains)
    with watched() as progress:
        return write_results(writer, roll(asked, report, progress), report)
