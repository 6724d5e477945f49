"""`kafkalog compact`: what the log cleaner would do to compacted topics; with --apply it cleans them offline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus, command_line
from kafkalog_cli.commands.repair import repair_options, run_repair
from kafkalog_cli.commands.running import warn_of_interpreted, watched
from kafkalog_cli.commands.shared import write_compactions
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.forecasts import check_memory, cleaning_options
from kafkalog_cli.options.kafka import kafka_options, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.writers import COMPACTIONS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.compact.compact import compact
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.ops.compact.new_log_dir import compact_to
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.repair.plan_rows import impact_command
from kafkalog_core.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalog_cli.commands.repair import RepairOptions
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.progress import Progress

__all__ = ["compact_command"]

EXAMPLES = (
    Example("kafkalog compact /var/lib/kafka", "Why is compaction stuck, and what would it save?"),
    Example(
        "kafkalog compact --topic __consumer_offsets --biggest 20 /var/lib/kafka",
        "What fills the offsets topic: its partitions, segments and largest keys",
    ),
    Example(
        "kafkalog compact --topic customers --min-cleanable-dirty-ratio 0.1 --delete-retention-ms 0 /var/lib/kafka",
        "What if it were cleaned earlier, and tombstones were removed at once?",
    ),
    Example(
        "kafkalog compact --config server.properties --topic customers --force --apply /var/lib/kafka",
        "Clean it now; kafkalog undo can take it back",
    ),
    Example(
        "kafkalog compact --config server.properties --apply --to /mnt/spare/cleaned /var/lib/kafka/customers-0",
        "Write the cleaned log elsewhere, and leave the log itself unchanged",
    ),
)


@click.command(name="compact", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@cleaning_options
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(readable=False),
    help="With --apply: write the cleaned logs into this new log directory, and change nothing else.",
)
@now_option
@common.selection_options
@kafka_options
@common.limit_options
@reading_options
@repair_options
def compact_command(
    paths: tuple[str, ...],
    selection: Selection,
    request: SettingsRequest,
    repair: RepairOptions,
    now_ms: int,
    **given: Any,
) -> int:
    """Forecast what a broker's log cleaner does to compacted topics, record by record.

    For each partition: whether it would be cleaned now and why, what holds the cleaner back (of an open transaction its
    transactional id, and what a clean saves once it has ended), and how much a clean would save. For a partition that
    is named, and with --details, also which records are kept or removed and why, the segments, and the largest keys.
    The rules are those of the release. Nothing
    is changed without --apply, which cleans in place, with undo, or with --to into a new directory. After a clean in
    place the undo journal holds the old segments until kafkalog undo --prune. Records that a clean removes are not a
    loss: the exit status is 0.

    Where a topic has a setting of its own, an option that would override it acts only if --topic, --topic-regex or
    --topic-config names the topic. --apply is refused if no topic is named.
    """
    check_memory(given["memory_bytes"])
    if given["to"] is not None and not repair.apply:
        raise click.UsageError("--to is the directory that --apply writes; give both or neither")
    warn_of_interpreted()
    changes = given["to"] is None and (repair.apply or repair.plan_out is not None)
    if changes:
        return run_repair("compact", paths, selection, _plan_options(request, given), repair, now_ms=now_ms)
    if repair.plan_out is not None or repair.undo_to is not None or not repair.keeps_undo:
        raise click.UsageError("--plan-out, --undo-to and --no-undo are for a clean in place, by --apply without --to")
    report = Report()
    asked = CompactRequest(
        targets=resolve_readable(paths, selection, report),
        kafka=request,
        now_ms=now_ms,
        memory_bytes=given["memory_bytes"],
        max_passes=given["max_passes"],
        force=given["force"],
        biggest=given["biggest"],
        jobs=repair.jobs,
        max_batch_bytes=given["max_batch_bytes"],
        command_line=command_line(),
        asks_after_transactions=repair.output == "table",
    )
    to = None if given["to"] is None else os.path.abspath(given["to"])
    detail = repair.detail
    writer = open_results(
        COMPACTIONS,
        repair.output,
        impact_command(target_dirs(asked.targets), asked.command_line) if to is None else None,
        has_details=detail.shows(paths, selection),
        explains=detail.explains,
    )
    with watched() as progress:
        return write_compactions(writer, _forecasts(asked, to, report, progress), to, report)


def _plan_options(request: SettingsRequest, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the planner, as values that JSON has."""
    return {
        "kafka": asdict(request),
        "memory_bytes": given["memory_bytes"],
        "max_passes": given["max_passes"],
        "force": given["force"],
        "max_batch_bytes": given["max_batch_bytes"],
    }


def _forecasts(
    request: CompactRequest, to: str | None, report: Report, progress: Progress
) -> Generator[CompactForecast, None, None]:
    return compact(request, report, progress) if to is None else compact_to(request, to, report, progress)
