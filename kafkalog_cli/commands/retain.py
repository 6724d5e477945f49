"""`kafkalog retain`: what retention deletes, when, and why not; with --apply now."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.shared import requests_of, write_retention
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.kafka import kafka_options, now_option
from kafkalog_cli.options.retention import check_until, find_policies, forecast_options, retention_options
from kafkalog_cli.render.writers import RETENTION, open_results
from kafkalog_cli.repair import repair_options, run_repair
from kafkalog_cli.running import watched
from kafkalog_core.ops.retain.forecaster import RetentionForecaster
from kafkalog_core.ops.retain.retain import retain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_cli.repair import Manner
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.settings import SettingsRequest
    from kafkalog_core.ops.reading.selection import Selection
    from kafkalog_core.ops.retain.forecaster import Retained
    from kafkalog_core.ops.retain.retain import RetainRequest
    from kafkalog_core.progress import Progress

__all__ = ["retain_command"]

EXAMPLES = (
    Example("kafkalog retain /var/lib/kafka", "What would be deleted now, what later, and why not"),
    Example("kafkalog retain --topic orders --until 2026-11-23 /var/lib/kafka", "What will be gone by then, and when"),
    Example(
        "kafkalog retain --what-if log.retention.hours=24 --what-if retention.bytes=1073741824 /var/lib/kafka",
        "What would stay under other settings",
    ),
    Example(
        "kafkalog retain --config server.properties --retention-hours 24 --undo-to /mnt/usb/undo --apply "
        "/var/lib/kafka/orders-0",
        "Make room on a full disk",
    ),
    Example(
        "kafkalog retain --policy mine:keep_mondays /var/lib/kafka/orders-0",
        "Try a policy of one's own, a Python function of segments and the time",
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
@repair_options
def retain_command(
    paths: tuple[str, ...], selection: Selection, now_ms: int, request: SettingsRequest, manner: Manner, **given: Any
) -> int:
    """Say what a broker's retention would delete, when, and what keeps the rest, from the files alone.

    PATH is a log directory or a partition directory. Each segment gets a verdict, the rule that decided it, the figures
    that were compared, and the time at which it falls due. A check deletes from the oldest segment on and stops at the
    first one that stays, so that one segment can hold back many.

    Nothing is changed. With --apply what a broker would delete at its first check is deleted now; kafkalog undo takes
    it back. With --plan-out, --undo-to or --no-undo the plan for that is shown in place of the forecast: the files, the
    room that it needs and that is free. What a policy deletes is no damage: the exit status is 0.
    """
    find_policies(given["policies"])
    if manner.apply or manner.plan_out is not None or manner.undo_to is not None or not manner.keeps_undo:
        if given["scenarios"] or given["until"] is not None:
            raise click.UsageError(
                "--what-if and --until are forecasts; they do not go with --apply, --plan-out, --undo-to or --no-undo"
            )
        options_of_plan = {
            "kafka": asdict(request),
            "policies": given["policies"],
            "log_start_offset": given["log_start_offset"],
        }
        return run_repair("retain", paths, selection, options_of_plan, manner, now_ms=now_ms)
    check_until(given["until"], now_ms)
    requests = requests_of(resolve_all(list(paths), selection), request, now_ms, given, jobs=manner.asked_jobs or 1)
    with watched() as progress:
        return write_retention(open_results(RETENTION, manner.output, given["until"]), _forecasts(requests, progress))


def _forecasts(
    requests: list[RetainRequest], progress: Progress
) -> Iterator[tuple[RetentionForecaster, Iterator[Retained | Finding]]]:
    for request in requests:
        forecaster = RetentionForecaster(request.target, request.wanted)
        yield forecaster, retain(request, forecaster, progress)
