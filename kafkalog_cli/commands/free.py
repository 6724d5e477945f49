"""`kafkalog free`: the deletions that lose least and give a full disk the space that it needs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus, command_line
from kafkalog_cli.commands.repair import repair_options, run_repair
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.kafka import kafka_options, now_option
from kafkalog_core.engine.selection import Selection
from kafkalog_core.errors import RefusedError
from kafkalog_core.ops.repair.assumptions import with_options
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.space import existing_directory, free_bytes
from kafkalog_core.structs import asdict

if TYPE_CHECKING:
    from kafkalog_cli.commands.repair import RepairOptions
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest

__all__ = ["free_command"]

EXAMPLES = (
    Example("kafkalog free /var/lib/kafka --need 5GiB", "What would have to go, and what that loses"),
    Example(
        "kafkalog free /var/lib/kafka --need 5GiB --config server.properties --undo-to /mnt/usb/undo --apply",
        "Free it, with an undo journal on another disk",
    ),
    Example(
        "kafkalog free /var/lib/kafka --need 5GiB --topic clicks --no-undo --apply",
        "If the rest is not enough, the oldest records of clicks may go",
    ),
)


@click.command(
    name="free",
    cls=Command,
    own=("--need", "--topic"),
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED, ExitStatus.DAMAGE),
)
@common.targets_argument
@click.option(
    "--need",
    "need_bytes",
    type=common.parse_size,
    metavar="SIZE",
    required=True,
    help="How much is to be free on the file system afterwards, such as 5GiB.",
)
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    help="A topic whose oldest segments may go, as the last step. Repeatable.",
)
@click.option(
    "--groups-of",
    "groups_of",
    metavar="DIR",
    multiple=True,
    type=click.Path(readable=False),
    help="Another log directory with partitions of __consumer_offsets, of this broker or another one. Repeatable.",
)
@click.option(
    "--partial-groups",
    is_flag=True,
    help="Count only the groups that are known, although partitions of __consumer_offsets are missing or damaged.",
)
@now_option
@kafka_options
@repair_options
def free_command(
    paths: tuple[str, ...], need_bytes: int, now_ms: int, request: SettingsRequest, repair: RepairOptions, **given: Any
) -> int:
    """Plan the deletions that lose least, until the file system of a stopped broker has the space that it needs.

    PATH is one log directory. The steps, in their order: leftovers that no broker reads, preallocated space of indexes,
    what retention deletes anyway, what every group has consumed, and the oldest segments of the topics of --topic. The
    plan ends as soon as the need is met, and shows what each step frees and loses. The active segment, compacted topics
    (except for what retention deletes), Kafka's own topics and tiered ones are kept.

    Nothing is changed without --apply. An undo journal on the same file system would keep the space, so --apply needs
    --undo-to a directory on another one, or --no-undo; both work with 0 bytes free.
    """
    roots = [target.root for target in target_dirs(resolve_all(paths, Selection()))]
    if len(roots) != 1:
        raise click.UsageError("name one log directory: the need is that of one file system")
    if repair.apply:
        _check_undo(roots[0], repair)
    options = {
        "kafka": asdict(request),
        "need_bytes": need_bytes,
        # For the owner, which the broker runs as: root may write into reserved blocks that the broker cannot.
        "free_bytes": free_bytes(roots[0], os.stat(roots[0]).st_uid),
        "topics": given["topics"],
        "groups_of": [os.path.abspath(path) for path in given["groups_of"]],
        "partial_groups": given["partial_groups"],
    }
    return run_repair("free", paths, Selection(), options, repair, now_ms=now_ms)


def _check_undo(root: str, repair: RepairOptions) -> None:
    """Raise RefusedError for an undo journal on the file system that is to get space."""
    if not repair.keeps_undo:
        return
    place = root if repair.undo_to is None else existing_directory(repair.undo_to)
    if os.stat(place).st_dev == os.stat(root).st_dev:
        line = command_line()
        line = None if line is None else line.without("--undo-to", "")
        ways = (
            WayOut("keep the undo journal on another file system", with_options(line, "--undo-to DIR")),
            WayOut("keep none, so that the run cannot be undone", with_options(line, "--no-undo")),
        )
        raise RefusedError(Refusal("an undo journal on this file system keeps all that is deleted", ways), path=root)
