"""`kafkalog compact`: what the cleaner would do to compacted topics, and doing it offline."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli import options, params
from kafkalog_cli.command import Command, Example
from kafkalog_cli.exits import ExitStatus, status_of
from kafkalog_cli.interrupt import Stopped
from kafkalog_cli.kafka_options import kafka_options
from kafkalog_cli.render import open_compactions
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.repair import repair_options, run_repair, watched
from kafkalog_cli.setting_options import now_option, setting_options
from kafkalog_cli.targets import resolve_readable
from kafkalog_core.errors import KafkalogError
from kafkalog_core.format import kernels
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.ops.cleaning.to_dir import compact_to
from kafkalog_core.ops.compact import CompactRequest, compact
from kafkalog_core.ops.report import Report

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalog_cli.repair import Manner
    from kafkalog_core.ops.cleaning.forecast import CompactForecast
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.releases.settings import SettingsRequest
    from kafkalog_core.ops.selecting.selection import Selection

__all__ = ["compact_command"]

EXAMPLES = (
    Example("kafkalog compact /var/lib/kafka", "Why is compaction stuck, and what would it save?"),
    Example(
        "kafkalog compact --topic __consumer_offsets --biggest 20 /var/lib/kafka",
        "What fills the offsets topic: its partitions, segments and biggest keys",
    ),
    Example(
        "kafkalog compact --min-cleanable-dirty-ratio 0.1 --delete-retention-ms 0 /var/lib/kafka/customers-0",
        "What if it were cleaned earlier, and forgot its tombstones at once?",
    ),
    Example("kafkalog compact --force --apply /var/lib/kafka/customers-0", "Clean it now, with undo"),
    Example(
        "kafkalog compact --apply --to /mnt/spare/cleaned /var/lib/kafka/customers-0",
        "Write the cleaned log elsewhere, and leave the patient as it is",
    ),
)
DEFAULT_BIGGEST = 10
MAX_BIGGEST = 250
LEAST_MAP_BYTES = 64


@click.command(name="compact", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@options.targets_argument
@click.option(
    "--force",
    is_flag=True,
    help="Clean whatever the dirty ratio is. Lags, the high watermark, open transactions and the active segment count.",
)
@click.option(
    "--memory",
    "memory_bytes",
    type=params.parse_size,
    metavar="SIZE",
    help=(
        "Memory of the offset map, 24 bytes a key; each of --jobs has one. Where it is full a clean ends early, and "
        "another one goes on.  "
        "[default: what a broker gives it, log.cleaner.dedupe.buffer.size: 128 MiB]"
    ),
)
@click.option(
    "--max-passes",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most so many cleans of a partition.  [default: until nothing more is cleanable]",
)
@click.option(
    "--biggest",
    type=click.IntRange(min=0, max=MAX_BIGGEST),
    default=DEFAULT_BIGGEST,
    show_default=True,
    metavar="N",
    help="Show so many of the keys with most bytes in what is cleaned.",
)
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(readable=False),
    help="With --apply: write the cleaned log as a new log directory here, and change nothing else.",
)
@setting_options(
    min_cleanable_dirty_ratio="Clean a log whose dirty ratio is above this, from 0 to 1.",
    delete_retention_ms="How long a clean keeps tombstones and transaction markers, in milliseconds.",
    min_compaction_lag_ms="Leave records alone that are younger than this, in milliseconds.",
    max_compaction_lag_ms="Clean, whatever the dirty ratio is, a log with uncleaned records older than this.",
)
@now_option
@options.selection_options
@kafka_options
@options.limit_options
@repair_options
def compact_command(
    paths: tuple[str, ...],
    selection: Selection,
    request: SettingsRequest,
    manner: Manner,
    now_ms: int,
    **given: Any,
) -> int:
    """Forecast what a broker's cleaner does to compacted topics, record by record.

    Per partition: whether it would be cleaned now and why, what holds the cleaner back, what a clean would save, what
    stays and goes for which reason, the biggest keys. The rules are those of the release. Nothing is changed without
    --apply, which cleans in place, with undo, or, with --to, into a new directory. Cleaned in place, the old segments
    take their room in the undo journal until kafkalog undo --prune. A forecast of what goes is not a loss: the exit
    status is 0.
    """
    _check_memory(given["memory_bytes"])
    if given["to"] is not None and not manner.apply:
        raise click.UsageError("--to says where --apply writes; give --apply too, or neither")
    if not kernels.COMPILED:
        click.echo("kafkalog: no compiled kernels here; the interpreted ones are about 100 times slower", err=True)
    changes = given["to"] is None and (manner.apply or manner.plan_out is not None)
    if changes:
        return run_repair("compact", paths, selection, _plan_options(request, given), manner, now_ms=now_ms)
    if manner.plan_out is not None or manner.undo_to is not None:
        raise click.UsageError("--plan-out and --undo-to are of changes in place, which --apply without --to makes")
    report = Report()
    asked = CompactRequest(
        targets=resolve_readable(paths, selection, report),
        kafka=request,
        now_ms=now_ms,
        memory_bytes=given["memory_bytes"],
        max_passes=given["max_passes"],
        force=given["force"],
        biggest=given["biggest"],
        jobs=manner.jobs,
        max_batch_bytes=given["max_batch_bytes"],
    )
    return _show(asked, None if given["to"] is None else os.path.abspath(given["to"]), report, manner.output)


def _check_memory(memory_bytes: int | None) -> None:
    if memory_bytes is not None and memory_bytes < LEAST_MAP_BYTES:
        raise click.UsageError(f"--memory {memory_bytes}: not even two keys of 24 bytes fit into that")
    if memory_bytes is not None and memory_bytes > MAX_INT32:
        raise click.UsageError(f"--memory {memory_bytes}: an offset map of Kafka's has {MAX_INT32} bytes at most")


def _plan_options(request: SettingsRequest, given: dict[str, Any]) -> dict[str, Any]:
    """What the planner is asked for, in values that JSON has."""
    return {
        "kafka": asdict(request),
        "memory_bytes": given["memory_bytes"],
        "max_passes": given["max_passes"],
        "force": given["force"],
        "max_batch_bytes": given["max_batch_bytes"],
    }


def _show(request: CompactRequest, to: str | None, report: Report, output: str) -> int:
    """Write every forecast and the summary; where the next one cannot be had, that is said after what is known.

    `to`: the directory that is written; null: none.
    """
    writer = open_compactions(output)
    try:
        with watched() as progress, closing(_forecasts(request, to, report, progress)) as forecasts:
            for forecast in forecasts:
                writer.write(forecast)
    except Stopped:
        writer.finish(report.summary_row() | {"interrupted": True, "exit_status": int(ExitStatus.CRASH)})
        raise
    except KafkalogError as error:
        if report.rows:
            writer.finish(report.summary_row() | {"exit_status": int(status_of(error))})
        raise
    writer.finish(report.summary_row())
    if to is not None:
        click.echo(f"kafkalog: written: {safe_text(to)}, with the logs that were not cleaned as they are", err=True)
    return int(report.exit_status)


def _forecasts(
    request: CompactRequest, to: str | None, report: Report, progress: Progress
) -> Generator[CompactForecast, None, None]:
    return compact(request, report, progress) if to is None else compact_to(request, to, report, progress)
