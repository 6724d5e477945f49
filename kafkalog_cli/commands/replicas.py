"""`kafkalog replicas`: compare the copies of each partition on several brokers' disks, and report which one to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import cores, watched, write_results
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.reading import input_storage_option, reading_options
from kafkalog_cli.render.writers import REPLICAS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, work_of

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection

__all__ = ["replicas_command"]

EXAMPLES = (
    Example(
        "kafkalog replicas /mnt/broker-1 /mnt/broker-2 /mnt/broker-3",
        "Which copy of each partition should be kept, and what do the others lack?",
    ),
    Example("kafkalog replicas --topic orders --ndjson /mnt/broker-*", "One topic, as rows for another program"),
)


@click.command(name="replicas", cls=Command, reads_objects=True, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@common.selection_options
@common.limit_options
@common.jobs_option
@common.output_option
@reading_options
@input_storage_option
def replicas_command(
    paths: tuple[str, ...], selection: Selection, max_batch_bytes: int, jobs: int | None, output: str
) -> int:
    """Compare the copies of each partition on several brokers' disks, and report which one to keep.

    Name the log directories of the brokers, or copies of them: two to ten are its measure; for the disks of a large
    cluster, `kafkalog spark replicas` compares the same on many machines. The first line names the copy to keep, and
    the records that only other copies have.

    The copies are compared by offset, leader epoch and checksum; batches that differ are compared record by record. The
    history to keep is that of the latest leader epoch, as brokers decide it (KIP-101, KIP-279). The leader and the ISR
    of a metadata log among the directories are reported, but do not decide.

    Where a partition of __consumer_offsets is among them, the report shows what each choice means for each group, as
    `kafkalog impact` counts it. Nothing is changed. The exit status is 4 if copies diverge or a copy has lost records.
    """
    report = Report()
    targets = resolve_readable(paths, selection, report)
    work = work_of(ReplicasRequest(targets=targets, max_batch_bytes=max_batch_bytes))
    writer = open_results(REPLICAS, output)
    with watched() as progress:
        return write_results(writer, replicas(work, report, progress, jobs=jobs or cores()), report)
