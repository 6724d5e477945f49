"""`kafkalog verify`: check everything on a disk."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus, version
from kafkalog_cli.commands.shared import counted
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import kafka_option
from kafkalog_cli.output_file import OutputFile
from kafkalog_cli.render.progress import open_progress
from kafkalog_cli.render.report.data import RunFacts
from kafkalog_cli.render.writers import VERDICTS, open_results
from kafkalog_cli.running import (
    Interruption,
    StoppableProgress,
    clock_ms,
    cores,
    warn_of_interpreted,
    write_results,
)
from kafkalog_cli.statefile import StateFile
from kafkalog_core.kafka.releases import parse_release
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.verify.engine import VerifyRequest, log_bytes, verify

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalog_cli.render.writers import ResultWriter
    from kafkalog_core.ops.reading.selection import Selection
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["verify_command"]

EXAMPLES = (
    Example("kafkalog verify /var/lib/kafka", "Check a whole log directory"),
    Example("kafkalog verify --quiet --fail-on warning /data/*/kafka && echo fine", "Check all disks in a script"),
    Example("kafkalog verify --report verify.html /var/lib/kafka", "Also write an HTML report"),
    Example(
        "kafkalog verify --resume verify.state /var/lib/kafka",
        "A large disk: run it again to continue an interrupted check",
    ),
    Example(
        "kafkalog verify --level checksums --topic 'pay*' /var/lib/kafka", "Check some topics without decoding records"
    ),
)


@click.command(name="verify", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@common.verdict_options
@click.option(
    "--report",
    metavar="FILE.html",
    help="Also write an HTML report: verdict, damage maps, timelines, cures. FILE must be outside log directories.",
)
@common.jobs_option
@click.option(
    "--resume",
    metavar="STATE",
    help=(
        "Save in this file which segments were checked, and skip segments that were checked before and have not "
        "changed: same size, modification time, inode, and 64 KiB at both ends. Saved every 10 seconds and at the end, "
        "also after Ctrl-C. STATE must be outside log directories."
    ),
)
@kafka_option
@common.selection_options
@common.limit_options
@common.output_option
def verify_command(paths: tuple[str, ...], selection: Selection, **given: Any) -> int:
    """Check everything on a disk: logs, indexes, snapshots, checkpoints, names, owners.

    PATH is a log directory, a partition directory, a file or a glob of them. Name all log directories of a broker
    together, so that kafkalog compares them. Nothing is changed. The exit status is 4 if there is damage; files that
    brokers leave in normal operation are not damage. It is 3 if one of several PATHs cannot be read; the others are
    checked nevertheless.
    """
    if given["report"] is not None and given["resume"] is not None:
        _check_apart(given["report"], given["resume"])
    report = Report(fail_on=given["fail_on"])
    request = VerifyRequest(
        targets=resolve_readable(paths, selection, report),
        level=given["level"],
        now_ms=clock_ms(),
        max_batch_bytes=given["max_batch_bytes"],
        jobs=given["jobs"] or cores(),
        kafka=None if given["kafka"] is None else parse_release(given["kafka"]),
    )
    warn_of_interpreted()
    output = "quiet" if given["quiet"] else common.chosen_output(given["output"])
    with ExitStack() as stack:
        state = _open_state(given["resume"], request, report, stack)
        facts = _run_facts(paths, selection, request, report)
        page = _open_page(given["report"], request, facts)
        verdicts = stack.enter_context(closing(_verdicts(request, output, state, report)))
        status = write_results(open_results(VERDICTS, output), counted(verdicts, report, page), report)
        if page is not None:
            page.finish(report.summary_row())
    return status


def _verdicts(
    request: VerifyRequest, output: str, state: StateFile | None, report: Report
) -> Generator[PartitionVerdict | PlaceVerdict, None, None]:
    """Yield the verdicts until Ctrl-C. Raises Stopped."""
    is_shared = output == "quiet" or (sys.stdout.isatty() and output != "table")
    with Interruption() as interruption, open_progress(shares_terminal=is_shared) as progress:
        if sys.stderr.isatty() and not is_shared:
            progress.expect(log_bytes(request.targets))
        with closing(verify(request, StoppableProgress(progress, interruption, report), state)) as verdicts:
            yield from verdicts


def _check_apart(report: str, state: str) -> None:
    if os.path.realpath(report) == os.path.realpath(state):
        raise click.UsageError("--report and --resume name the same file; name two files")


def _open_state(path: str | None, request: VerifyRequest, report: Report, stack: ExitStack) -> StateFile | None:
    """Open the state file of --resume; return `None` without --resume."""
    return None if path is None else stack.enter_context(StateFile(path, request, report, version()))


def _open_page(
    path: str | None, request: VerifyRequest, facts: RunFacts
) -> ResultWriter[PartitionVerdict | PlaceVerdict] | None:
    """Return the writer of the HTML report; `None` without --report."""
    if path is None:
        return None
    return open_results(VERDICTS, "html", OutputFile(path, request.targets, is_ours=_is_page), facts)


def _is_page(start: bytes) -> bool:
    """Return whether a file begins like a report of this command."""
    return start.startswith(b"<!DOCTYPE html>") and b"<title>kafkalog verify</title>" in start


def _run_facts(paths: tuple[str, ...], selection: Selection, request: VerifyRequest, report: Report) -> RunFacts:
    return RunFacts(
        version=version(),
        level=request.level,
        targets=paths,
        selection=str(selection),
        started_ms=request.now_ms,
        refused=tuple(report.refusals),
    )
