"""`kafkalog retain`: what retention deletes, when, and why not; with --apply it deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus, command_line
from kafkalog_cli.commands.repair import repair_options, run_repair
from kafkalog_cli.commands.running import watched
from kafkalog_cli.commands.shared import requests_of, write_retention
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.forecasts import check_until, find_policies, forecast_options, retention_options
from kafkalog_cli.options.kafka import kafka_options, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.writers import RETENTION, open_results
from kafkalog_core.ops.repair.plan_rows import impact_command
from kafkalog_core.ops.retain.forecaster import RetentionForecaster
from kafkalog_core.ops.retain.retain import retain
from kafkalog_core.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_cli.commands.repair import RepairOptions
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.ops.retain.forecaster import RetainForecast
    from kafkalog_core.ops.retain.retain import RetainRequest
    from kafkalog_core.progress import Progress

__all__ = ["retain_command"]

EXAMPLES = (
    Example("kafkalog retain /var/lib/kafka", "What would be deleted now or later, and what keeps the rest"),
    Example(
        "kafkalog retain --topic orders --until 2026-11-23 /var/lib/kafka", "What will be deleted by then, and when"
    ),
    Example(
        "kafkalog retain --what-if log.retention.hours=24 --what-if retention.bytes=1073741824 /var/lib/kafka",
        "What would be kept under other settings",
    ),
    Example(
        "kafkalog retain --config server.properties --topic orders --retention-hours 24 --undo-to /mnt/usb/undo "
        "--apply /var/lib/kafka",
        "Free space on a full disk",
    ),
    Example(
        "kafkalog retain --policy mine:keep_mondays /var/lib/kafka/orders-0",
        "Try a policy of your own, a Python function",
    ),
)


@click.command(
    name="retain",
    cls=Command,
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED, ExitStatus.DAMAGE),
)
@common.targets_argument
@retention_options
@forecast_options
@now_option
@common.selection_options
@kafka_options
@reading_options
@repair_options
def retain_command(
    paths: tuple[str, ...],
    selection: Selection,
    now_ms: int,
    request: SettingsRequest,
    repair: RepairOptions,
    **given: Any,
) -> int:
    """Forecast what a broker's retention would delete, when, and what keeps the rest, from the files alone.

    PATH is a log directory or a partition directory. The output begins with the verdict; a line for each partition
    follows, and the record for which segments wait that are due. For a partition that is named, and with --details,
    each segment is shown with its rule, the values that were compared, and the time at which it becomes due. A
    retention check deletes from the oldest segment on and stops at the first segment that it keeps, so one segment can
    hold back many.

    Nothing is changed. With --apply, kafkalog deletes what a broker would delete at its first check; kafkalog undo
    restores it. With --plan-out, --undo-to or --no-undo but without --apply, the output is the plan for that instead of
    the forecast: the files, the space that it needs and the free space. Deletion by a policy is not damage: the exit
    status is 0.

    Where a topic has a retention or cleanup policy of its own, an option that would override it, and a --policy, acts
    only if --topic, --topic-regex or --topic-config names the topic. The output shows each value that is overridden,
    and --apply is refused if no topic is named.
    """
    find_policies(given["policies"])
    if repair.apply or repair.plan_out is not None or repair.undo_to is not None or not repair.keeps_undo:
        if given["scenarios"] or given["until"] is not None:
            raise click.UsageError(
                "--what-if and --until only forecast; leave them out, or leave out --apply, --plan-out, --undo-to and "
                "--no-undo"
            )
        options_of_plan = {
            "kafka": asdict(request),
            "policies": given["policies"],
            "log_start_offset": given["log_start_offset"],
        }
        return run_repair("retain", paths, selection, options_of_plan, repair, now_ms=now_ms)
    check_until(given["until"], now_ms)
    requests = requests_of(resolve_all(list(paths), selection), request, now_ms, given, jobs=repair.asked_jobs or 1)
    detail, is_plan = repair.detail, not given["scenarios"] and given["until"] is None
    writer = open_results(
        RETENTION,
        repair.output,
        given["until"],
        impact_command((each.target for each in requests), command_line()) if is_plan else None,
        has_details=detail.shows(paths, selection),
        explains=detail.explains,
    )
    with watched() as progress:
        return write_retention(writer, _forecasts(requests, progress))


def _forecasts(
    requests: list[RetainRequest], progress: Progress
) -> Iterator[tuple[RetentionForecaster, Iterator[RetainForecast | Finding]]]:
    for request in requests:
        forecaster = RetentionForecaster(request.target, request.wanted)
        yield forecaster, retain(request, forecaster, progress)
