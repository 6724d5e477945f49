"""`kafkalog roll`: where logs would have rolled under other settings, and the same logs in such segments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import kafka_options, setting_options
from kafkalog_cli.render.writers import ROLLS, open_results
from kafkalog_cli.running import cores, watched, write_results
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.roll.roll import RollRequest, roll

if TYPE_CHECKING:
    from kafkalog_core.kafka.settings import SettingsRequest
    from kafkalog_core.ops.reading.selection import Selection

__all__ = ["roll_command"]

EXAMPLES = (
    Example("kafkalog roll /var/lib/kafka/orders-0", "Do the settings explain the segments that there are?"),
    Example(
        "kafkalog roll --segment-bytes 134217728 --segment-ms 86400000 /var/lib/kafka",
        "How many segments smaller and younger ones would be",
    ),
    Example(
        "kafkalog roll --segment-bytes 268435456 --apply --to /mnt/spare/kafka /var/lib/kafka",
        "Write the same logs in such segments, as a log directory that a broker starts on",
    ),
)


@click.command(name="roll", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@setting_options(
    segment_bytes="A segment's log may have so many bytes. Kafka 4 takes nothing below 1 MiB; its own tests set "
    "internal.segment.bytes with --set.",
    segment_ms="A new segment begins where a batch is so much later than the first one, in milliseconds.",
    segment_jitter_ms="At most so much is taken off --segment-ms for each segment, in milliseconds.",
    segment_index_bytes="An index file may have so many bytes; where one is full a new segment begins.",
    index_interval_bytes="So many bytes of log lie between two entries of an index.",
)
@click.option(
    "--jitter-seed",
    type=click.IntRange(min=0),
    metavar="N",
    help=(
        "Draw the jitter, the same numbers for the same N.  [default: take nothing off, and say what comes of the most]"
    ),
)
@click.option("--apply", is_flag=True, help="Write the logs in these segments; only with --to.")
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(readable=False),
    help="With --apply: the new log directory to write. What is there stays as it is.",
)
@common.selection_options
@kafka_options
@common.limit_options
@common.jobs_option
@common.output_option
def roll_command(paths: tuple[str, ...], selection: Selection, request: SettingsRequest, **given: Any) -> int:
    """Tell where logs would have begun new segments, by the append rules of the release.

    Each batch counts as one append by the leader (a follower's fetch, and a produce request of magic 0 or 1, hold
    several); the settings are the command line's, else the broker's. Where the answer is the segments that there are,
    the settings explain them. A forecast reads the headers of batches; checksums are looked at with --apply alone.

    With --apply --to DIR the same batches are written into such segments: with indexes, producer snapshots, leader
    epochs and checkpoints, as a log directory that a broker starts on without recovery. It appears when it is whole.
    A log that is damaged is not written, nor is one that a broker is using.
    """
    if given["apply"] != (given["to"] is not None):
        raise click.UsageError(
            "--apply and --to DIR go together: segments are never rolled anew in place, a new directory takes them"
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
    writer = open_results(ROLLS, common.chosen_output(given["output"]))
    with watched() as progress:
        return write_results(writer, roll(asked, report, progress), report)
