"""`kafkalog verify`: what is wrong with a disk, and what is not."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from kafkalog_cli import options
from kafkalog_cli.command import Command, Example
from kafkalog_cli.exits import ExitStatus
from kafkalog_cli.outfile import OutFile
from kafkalog_cli.render import RunFacts, open_progress, open_report, open_verdicts
from kafkalog_cli.version import version
from kafkalog_core.format import kernels
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.rows import count
from kafkalog_core.ops.verify.size import log_bytes

if TYPE_CHECKING:
    from kafkalog_core.ops.selection import Selection
    from kafkalog_core.ops.verify.check import Level

__all__ = ["verify_command"]

EXAMPLES = (
    Example("kafkalog verify /var/lib/kafka", "Check a whole log directory"),
    Example("kafkalog verify --quiet --fail-on warning /data/*/kafka && echo fine", "Check all disks in a script"),
    Example("kafkalog verify --report verify.html /var/lib/kafka", "And a page for those who ask how bad it is"),
    Example("kafkalog verify --level checksums --topic 'pay*' /var/lib/kafka", "Some topics, without their records"),
)


@click.command(name="verify", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@options.targets_argument
@click.option(
    "--level",
    type=click.Choice(("headers", "checksums", "records")),
    default="records",
    show_default=True,
    help=(
        "How deep to look: headers reads batch headers, indexes and small files; checksums every byte; records also "
        "decodes every record."
    ),
)
@click.option(
    "--fail-on",
    type=click.Choice(("error", "warning")),
    default="error",
    show_default=True,
    help="The least severity of a finding that makes the exit status 4.",
)
@click.option("--quiet", is_flag=True, help="Only the summary line, on stderr, and the exit status.")
@click.option(
    "--report",
    metavar="FILE.html",
    help="Also write a page for a browser: verdict, damage maps, timelines, cures. Not among the files of a broker.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that read at the same time.  [default: as many as there are cores]",
)
@options.selection_options
@options.limit_options
@options.verdict_output_option
def verify_command(
    paths: tuple[str, ...], selection: Selection, level: Level, max_batch_bytes: int, **given: object
) -> int:
    """Check everything on a disk: logs, indexes, snapshots, checkpoints, names, owners.

    PATH is a log directory, a partition directory, a file or a glob of them; give all log directories of a broker
    together, so that they are compared. Nothing is changed. The exit status is 4 where something is damaged: what
    brokers leave behind in the course of their life is not.
    """
    request = VerifyRequest(
        targets=tuple(resolve(paths, selection)),
        level=level,
        now_ms=time.time_ns() // 1_000_000,
        max_batch_bytes=max_batch_bytes,
        jobs=int(str(given["jobs"] or len(os.sched_getaffinity(0)))),
    )
    if not kernels.COMPILED:
        click.echo("kafkalog: no compiled kernels here; the interpreted ones are about 100 times slower", err=True)
    report = Report(fail_on=str(given["fail_on"]))
    writers = [open_verdicts("quiet" if given["quiet"] else options.chosen_output(given["output"]))]
    if given["report"] is not None:
        file = OutFile(str(given["report"]), request.targets)
        writers.append(open_report(file, _run_facts(paths, selection, request)))
    with open_progress(shares_terminal=False) as progress:
        if sys.stderr.isatty():
            progress.expect(log_bytes(request.targets))
        for verdict in verify(request, progress):
            count(verdict, report)
            for writer in writers:
                writer.write(verdict)
    for writer in writers:
        writer.finish(report.summary_row())
    return int(report.exit_status)


def _run_facts(paths: tuple[str, ...], selection: Selection, request: VerifyRequest) -> RunFacts:
    return RunFacts(
        version=version(),
        level=request.level,
        targets=paths,
        selection=str(selection),
        started_ms=request.now_ms,
    )
