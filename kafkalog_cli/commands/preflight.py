"""`kafkalog preflight`: what the next start of a broker does to its log directories."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import cores, warn_of_interpreted, watched
from kafkalog_cli.options import common
from kafkalog_cli.options.details import Detail, detail_options
from kafkalog_cli.options.kafka import kafka_start_options, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.progress import end_progress
from kafkalog_cli.render.writers import COMPATS, PREFLIGHTS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.ops.preflight.compat import compat
from kafkalog_core.ops.preflight.preflight import PreflightRequest, preflight

if TYPE_CHECKING:
    from kafkalog_cli.render.writers import ResultWriter
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest

__all__ = ["preflight_command"]

EXAMPLES = (
    Example("kafkalog preflight /var/lib/kafka", "Does the broker start, and what does it lose?"),
    Example(
        "kafkalog preflight --config server.properties /data/1/kafka /data/2/kafka",
        "All log directories of a broker together, with its settings",
    ),
    Example("kafkalog preflight --kafka 4.4.0 /var/lib/kafka", "And what would another release do?"),
    Example("kafkalog preflight --compat /var/lib/kafka", "Which releases start on it: is a rollback possible?"),
    Example("kafkalog preflight /var/lib/kafka && systemctl start kafka", "Start a broker only if it loses nothing"),
)


@click.command(name="preflight", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "--compat", is_flag=True, help="Show which releases start on the log directories, and what would free the others."
)
@click.option(
    "--max-map-count", type=click.IntRange(1), metavar="N", help="vm.max_map_count of the broker's machine (read here)."
)
@click.option(
    "--open-files", type=click.IntRange(1), metavar="N", help="LimitNOFILE of the broker (this shell's hard limit)."
)
@common.jobs_option
@detail_options
@now_option
@kafka_start_options
@reading_options
@common.output_option
def preflight_command(
    paths: tuple[str, ...], now_ms: int, request: SettingsRequest, output: str, detail: Detail, **given: Any
) -> int:
    """Show what the next start of a broker does to its log directories, before it is started.

    PATH is a log directory: name all log directories of the broker, and that of its metadata log. kafkalog reads
    everything and simulates the start of the release that left the files, or of --kafka: whether the process starts,
    and which file stops it; log directories that go offline; for each partition where its log is truncated, how many
    records are lost, and how many of them consumers may have read (below the high watermark); which partitions are not
    served; and damage that the start does not notice. Nothing is changed.

    kafkalog also names the records that the release does not load: in the metadata log they end the start, in
    __consumer_offsets and __transaction_state the coordinators refuse or skip them. It compares the memory maps, open
    files and space that the broker needs with the limits of the machine. --compat simulates the start of every release
    instead, and shows a row for each minor release.

    The exit status is 0 if the broker starts, no record is lost, hidden or refused, no directory of a partition is
    missing, and no damage is left that it does not notice; else 4.
    """
    warn_of_interpreted()
    targets = common.resolve_all(paths, Selection(), empty_dirs=True)
    asked = PreflightRequest(
        targets=targets,
        now_ms=now_ms,
        kafka=request,
        jobs=given["jobs"] or cores(),
        clock=time.monotonic,
        max_map_count=given["max_map_count"],
        open_files=given["open_files"],
    )
    with watched() as progress:
        result = preflight(asked, progress)
        releases = compat(asked, result) if given["compat"] else None
    end_progress()
    is_bad = result.is_harmed or result.is_wrong_afterwards or (result.missing and releases is None)
    status = ExitStatus.DAMAGE if is_bad else ExitStatus.CLEAN
    writer: ResultWriter[Any]
    if releases is not None:
        writer = open_results(COMPATS, output, has_details=detail.is_asked, explains=detail.explains)
        writer.write(releases)
    else:
        writer = open_results(PREFLIGHTS, output, has_details=detail.is_asked, explains=detail.explains)
        writer.write(result)
    report = Report()
    report.partitions = len(result.partitions)
    report.bytes = result.read_bytes
    report.rows = sum(chunk.count for chunk in (result if releases is None else releases).chunks())
    writer.finish(report.summary_row() | {"exit_status": int(status)})
    return int(status)
