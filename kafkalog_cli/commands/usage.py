"""`kafkalog usage`: what takes the space of a disk, and what of it may go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import cores, watched, write_results
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import kafka_options, now_option
from kafkalog_cli.output_file import OutputFile
from kafkalog_cli.render.writers import USAGES, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import check_topics
from kafkalog_core.ops.usage.usage import UsageRequest, usage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kafkalog_cli.render.writers import ResultWriter
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.ops.usage.sums import DirUsage

__all__ = ["usage_command", "usage_options", "usage_request", "write_usages"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")

EXAMPLES = (
    Example("kafkalog usage /var/lib/kafka", "Which topic ate the disk, and what may go?"),
    Example("kafkalog usage --by kind /var/lib/kafka", "Logs, indexes, leftovers, foreign files: how much of each?"),
    Example("kafkalog usage --by partition --topic orders --compaction /var/lib/kafka", "And what would a clean save?"),
    Example("kafkalog usage --report usage.html /disk1 /disk2", "Also as a picture, an HTML file"),
)


_OPTIONS: Final = (
    click.option(
        "--by",
        type=click.Choice(("topic", "partition", "kind")),
        default="topic",
        show_default=True,
        help="What a row is of. By kind only sizes are read, and nothing about retention: it takes as long as du.",
    ),
    click.option(
        "--compaction",
        is_flag=True,
        help="Also simulate a clean of each compacted log, which reads the logs, and show what it would save.",
    ),
)


def usage_options(function: Decorated) -> Decorated:
    """Add --by and --compaction."""
    return common.stacked(*_OPTIONS)(function)


def usage_request(
    targets: tuple[Target, ...], request: SettingsRequest, now_ms: int, given: dict[str, Any], jobs: int = 1
) -> UsageRequest:
    """Return the request. Raises SelectionError for a topic of --topic-config not in targets."""
    if given["by"] == "kind" and given["compaction"]:
        raise click.UsageError("--compaction is of topics and partitions: leave out --by kind")
    check_topics(request.topics, targets)
    if given["by"] == "kind":
        return UsageRequest(targets=targets, by="kind")
    # Sums by kind are as quick as du: they do without the import of what forecasts.
    from kafkalog_core.ops.compact.forecast import CompactRequest  # noqa: PLC0415 -- see above
    from kafkalog_core.ops.retain.forecaster import RetentionOptions  # noqa: PLC0415 -- see above

    return UsageRequest(
        targets=targets,
        by=given["by"],
        retention=RetentionOptions(kafka=request, now_ms=now_ms),
        compaction=CompactRequest(targets=(), now_ms=now_ms, kafka=request, jobs=jobs) if given["compaction"] else None,
    )


@click.command(name="usage", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@usage_options
@click.option(
    "--report",
    metavar="FILE.html",
    help="Also write an HTML report with a picture of all topics by size. FILE must be outside log directories.",
)
@now_option
@common.selection_options
@kafka_options
@common.jobs_option
@common.output_option
def usage_command(
    paths: tuple[str, ...], selection: Selection, now_ms: int, request: SettingsRequest, **given: Any
) -> int:
    """Show what takes the space of a disk: topics, partitions or kinds of files, the largest first, and what may go.

    PATH is a log directory or a partition directory. Sizes are what the file system has allocated, as du counts: a
    file with several hard links counts once, and links are not followed. Of each topic the output shows the active and
    closed segments, the indexes, and the leftovers, which a broker deletes by itself; what retention deletes at its
    next check and when more is due, by the rules and settings of kafkalog retain; with --compaction also what a clean
    would save.

    Nothing is changed. What this user may not see is unknown and named, and the exit status is 3 then.
    """
    report = Report()
    asked = usage_request(
        resolve_readable(paths, selection, report), request, now_ms, given, jobs=given["jobs"] or cores()
    )
    page = None
    if given["report"] is not None:
        file = OutputFile(given["report"], (each.path for each in asked.targets), is_ours=_is_page)
        page = open_results(USAGES, "html", file)
    writer = open_results(USAGES, given["output"])
    with watched() as progress:
        return write_usages(writer, usage(asked, report, progress), report, page)


def write_usages(
    writer: ResultWriter[DirUsage],
    found: Generator[DirUsage, None, None],
    report: Report,
    page: ResultWriter[DirUsage] | None = None,
) -> int:
    """Write every directory and the summary, and the HTML report if there is one; return the exit status."""
    status = write_results(writer, found if page is None else _shown_too(found, page), report)
    if page is not None:
        page.finish(report.summary_row())
    return status


def _shown_too(found: Generator[DirUsage, None, None], page: ResultWriter[DirUsage]) -> Generator[DirUsage, None, None]:
    for each in found:
        page.write(each)
        yield each


def _is_page(start: bytes) -> bool:
    """Return whether a file begins like a report of this command."""
    return start.startswith(b"<!DOCTYPE html>") and b"<title>kafkalog usage</title>" in start
