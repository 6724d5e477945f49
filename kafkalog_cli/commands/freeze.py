"""`kafkalog freeze`: keep what a broker is about to delete, next to the live broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import watched, write_results
from kafkalog_cli.options import common
from kafkalog_cli.render.writers import FREEZES, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.usage.freeze import FreezeRequest, freeze

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection

__all__ = ["freeze_command"]

EXAMPLES = (
    Example("kafkalog freeze /data/kafka --to /data/frozen", "Somebody deleted a topic: keep it before it is gone"),
    Example("kafkalog serve /data/frozen", "Then read what was frozen with any Kafka client"),
    Example(
        "kafkalog freeze /data/kafka --topic orders --all --to /data/frozen",
        "Keep a topic as it is, before a repair or a start that may truncate it",
    ),
)


@click.command(
    name="freeze",
    cls=Command,
    own=("--to",),
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED, ExitStatus.DAMAGE),
)
@common.targets_argument
@click.option(
    "--to",
    metavar="DIR",
    required=True,
    type=click.Path(readable=False),
    help=(
        "The directory that gets the links: on the file system of the files, and outside of log directories. It is "
        "created if it is missing; another run adds to it."
    ),
)
@click.option(
    "--all",
    "takes_all",
    is_flag=True,
    help=(
        "Also keep the logs that are in use: closed segments by links, and copies of the active segment and of others "
        "that a recovery may truncate."
    ),
)
@click.option("--dry-run", is_flag=True, help="Only show what would be linked and copied. Each second may count.")
@common.selection_options
@common.output_option
def freeze_command(
    paths: tuple[str, ...], selection: Selection, output: str, *, to: str, takes_all: bool, dry_run: bool
) -> int:
    """Keep what a broker is about to delete, by hard links: deleted topics, and segments that retention deletes.

    PATH is a log directory or a partition directory. A broker renames what it deletes, directories to end in -delete
    and files to end in .deleted, and deletes it after file.delete.delay.ms, by default a minute. A hard link keeps a
    file that its owner deletes, takes no space, and is made at once, next to a live broker. So this command acts
    without --apply: it changes nothing in PATH, and deletes nothing.

    DIR gets each partition under the name that it had while it was served, so that kafkalog dump, verify and serve read
    it. Files that vanish meanwhile are reported. The space of frozen files is not freed until DIR is deleted.
    """
    report = Report()
    request = FreezeRequest(
        resolve=lambda: resolve(paths, selection),
        paths=paths,
        to=to.rstrip("/") or "/",
        takes_all=takes_all,
        is_trial=dry_run,
    )
    writer = open_results(FREEZES, output, request)
    with watched():
        return write_results(writer, freeze(request, report), report)
