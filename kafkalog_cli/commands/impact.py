"""`kafkalog impact`: what a plan, a replica or the next start means for groups of consumers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import cores, watched
from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import kafka_start_options, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.progress import end_progress
from kafkalog_cli.render.writers import IMPACTS, open_results
from kafkalog_core.command_lines import shell_path
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.errors import FieldError
from kafkalog_core.ops.impact.impact import ImpactRequest, find_impacts, reset_lines
from kafkalog_core.ops.planners import is_plan_file, parse_plans
from kafkalog_core.storage.access import open_error
from kafkalog_core.text import csv_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.ops.impact.impact import Impacts
    from kafkalog_core.ops.planners import StoredPlan

__all__ = ["impact_command"]

EXAMPLES = (
    Example("kafkalog impact /var/lib/kafka", "What does the next start of the broker mean for its consumers?"),
    Example(
        "kafkalog truncate --at-damage --plan-out plan.json /var/lib/kafka && kafkalog impact plan.json",
        "What does a repair mean for them, before it is applied?",
    ),
    Example(
        "kafkalog impact --replica /mnt/broker-2 /mnt/broker-1", "What does it mean to go on with another replica?"
    ),
    Example(
        "kafkalog impact --group payments --export csv -o payments.csv plan.json",
        "The offsets at which a group should be afterwards, for kafka-consumer-groups.sh --reset-offsets --from-file",
    ),
)
_START: Final = 4096
_EMPTY: Final = Selection()


@click.command(
    name="impact",
    cls=Command,
    own=("--group", "--replica", "--export"),
    examples=EXAMPLES,
    exit_statuses=tuple(ExitStatus),
)
@click.argument("paths", metavar="PLAN|PATH...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "--replica",
    "replicas",
    metavar="DIR",
    multiple=True,
    type=click.Path(readable=False),
    help="Compare with going on with the copies in this log directory. Repeatable.",
)
@click.option("--group", "groups", metavar="G", multiple=True, help="Only this group. Repeatable.")
@click.option(
    "--isolation-level",
    type=click.Choice(("read_uncommitted", "read_committed")),
    default="read_uncommitted",
    show_default=True,
    help="Which records consumers get: isolation.level of their configuration.",
)
@click.option(
    "--export",
    type=click.Choice(("csv",)),
    help=(
        "Print only the offsets at which the changed groups should be, in the form that kafka-consumer-groups.sh "
        "--reset-offsets --from-file takes."
    ),
)
@now_option
@kafka_start_options
@reading_options
@common.output_option
def impact_command(
    paths: tuple[str, ...], now_ms: int, request: SettingsRequest, export: str | None, output: str, **given: Any
) -> int:
    """Show what a plan, a replica or the next start of a broker means for the groups of consumers on these disks.

    PLAN is a file that a repair command wrote with --plan-out: kafkalog plans the same command again, in memory and in
    a temporary directory, and simulates the start of the broker on the result. PATH is a log directory: without a plan
    its start is simulated as it is. Name the disks that hold the partitions of __consumer_offsets too; of several
    copies of a partition the one with the latest leader epoch and end counts.

    For each group and partition the result is: unchanged, N records read again, N records gone that it had not read, or
    a reset by auto.offset.reset, with what earliest and latest read. Nothing is written to the disks. The exit status
    is 4 if anything changes for a group, or if commits cannot be read. An offset that has expired is reported, and does
    not change the exit status: the coordinator deletes it unless the group is in use again before that.
    """
    if export is not None and output != "table":
        raise click.UsageError("--export is a form of output itself: leave out --output and --ndjson")
    plans, others = _plans_and_paths(paths)
    roots = [plan.root for plan in plans]
    targets = common.resolve_all([*roots, *others], _EMPTY)
    replica = common.resolve_all(given["replicas"], _EMPTY) if given["replicas"] else ()
    if plans and replica:
        raise click.UsageError("give a plan or --replica, not both")
    with watched() as progress:
        found = find_impacts(
            ImpactRequest(
                targets=targets,
                plans=tuple(plans),
                replica=replica,
                kafka=request,
                now_ms=now_ms,
                groups=given["groups"],
                isolation=given["isolation_level"],
                jobs=cores(),
            ),
            progress,
        )
    end_progress()
    is_changed = any(each.effect not in {"unchanged", "unknown"} for each in found.impacts)
    status = ExitStatus.DAMAGE if is_changed or found.problems else ExitStatus.CLEAN
    if export is not None:
        _export(found)
        return int(ExitStatus.CLEAN)
    writer = open_results(IMPACTS, output, shows_all=bool(given["groups"]))
    writer.write(found)
    report = Report()
    report.rows = len(found.impacts)
    writer.finish(report.summary_row() | {"exit_status": int(status)})
    return int(status)


def _plans_and_paths(paths: Sequence[str]) -> tuple[list[StoredPlan], list[str]]:
    """Return the plans of the files that are plans, and the other paths. Raises FieldError and StorageError."""
    plans: list[StoredPlan] = []
    others: list[str] = []
    for path in paths:
        text = _plan_text(path)
        if text is None:
            others.append(path)
            continue
        try:
            plans += parse_plans(text)
        except FieldError as error:
            raise FieldError(error.message, path=path) from error
    return plans, others


def _plan_text(path: str) -> bytes | None:
    """Return the content of a plan file; None: it is none."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            start = file.read(_START)
            return start + file.read() if is_plan_file(start) else None
    except OSError as error:
        raise open_error(path, error) from error


def _export(found: Impacts) -> None:
    """Print the CSV, and on stderr the command that takes it."""
    lines = list(reset_lines(found.impacts))
    for line in lines:
        click.echo(",".join(map(csv_text, line)))
    if not lines:
        click.echo("kafkalog: nothing changes for these groups: there is no offset to reset", err=True)
        return
    names = sorted({each.commit.group for each in found.impacts if each.is_reset_needed})
    groups = " ".join(f"--group {shell_path(name)}" for name in names)
    click.echo(
        "kafkalog: once the broker runs and while the groups have no members: kafka-consumer-groups.sh "
        f"--bootstrap-server HOST:9092 {groups} --reset-offsets --from-file FILE --execute",
        err=True,
    )
