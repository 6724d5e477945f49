"""`kafkalog quorum`: the disks of the controllers when the quorum cannot form."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.repair import RepairOptions, repair_options, run_repair
from kafkalog_cli.options.kafka import kafka_options
from kafkalog_cli.options.listening import parse_endpoint
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import names_inside
from kafkalog_core.errors import NotFoundError, UnknownFileError
from kafkalog_core.kafka.sim.quorum_disk import metadata_dir_of
from kafkalog_core.ops.quorum.planning import ACTIONS, targets_of
from kafkalog_core.ops.quorum.quorum import read_quorum
from kafkalog_core.storage.listing import list_directory, stat_path
from kafkalog_core.storage.paths import exists, is_directory
from kafkalog_core.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest

__all__ = ["quorum_command"]

EXAMPLES = (
    Example("kafkalog quorum /disk1 /disk2", "Whose metadata log is the longest, and what does each choice lose?"),
    Example("kafkalog quorum /disk1 force-standalone", "What would it mean to go on with this controller alone?"),
    Example("kafkalog quorum /disk1 force-standalone --apply", "Make it the only voter"),
    Example(
        "kafkalog quorum /disk1 /disk2 /disk3 change-address --address 1=kafka-1.new:9093", "Give a voter a new address"
    ),
    Example("kafkalog quorum /disk1 cut --at 4711", "What is lost if the metadata log ends before offset 4711?"),
)
_SURVIVORS, _, _ADDRESS, _CUT = ACTIONS
_ACTION_WORDS: Final = "|".join(ACTIONS)
_MAX_NODE_ID: Final = 2**31 - 1


@click.command(name="quorum", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@click.argument("words", metavar=f"PATH... [{_ACTION_WORDS}]", nargs=-1, required=True, type=click.Path(readable=False))
@click.option("--at", metavar="OFFSET", type=click.IntRange(min=1), help="With cut: the first offset that is removed.")
@click.option(
    "--address",
    "addresses",
    metavar="ID[/LISTENER]=HOST:PORT",
    multiple=True,
    help=(
        "With change-address: the new address of a voter's controller listener, which is named if the voter has "
        "several. Repeatable."
    ),
)
@kafka_options
@repair_options
def quorum_command(
    words: tuple[str, ...],
    at: int | None,
    addresses: tuple[str, ...],
    request: SettingsRequest,
    repair: RepairOptions,
) -> int:
    """Bring back a KRaft quorum that cannot form, from the disks of its controllers.

    PATH is a log directory with a metadata log (__cluster_metadata-0), or that directory itself. Name the disks of all
    controllers that are left, and those of brokers too: they have copies of the metadata log. survivors, the default,
    shows whose log is the longest, by epoch and then by offset, which records may not be committed, and what each
    choice loses by name: topics, settings, ACLs. force-standalone makes the node with the longest log the only voter.
    change-address gives voters other addresses. cut removes the end of the metadata log. The plan says which settings
    to change, which disks must never start again, and which leaders the controller elects afterwards.
    """
    action = words[-1] if len(words) > 1 and words[-1] in ACTIONS else _SURVIVORS
    paths = words[:-1] if action == words[-1] else words
    if (action == _CUT) != (at is not None):
        raise click.UsageError(
            "cut and --at OFFSET belong together: cut --at 4711 removes offset 4711 and all after it"
        )
    if action == _ADDRESS and not addresses:
        raise click.UsageError("change-address needs --address ID[/LISTENER]=HOST:PORT")
    if addresses and action in {_CUT, _SURVIVORS}:
        raise click.UsageError("--address is for change-address and force-standalone")
    disks = sorted({_metadata_dir(path) for path in paths})
    quorum = read_quorum(disks, kafka=request.kafka)
    options = {
        "kafka": asdict(request),
        "action": action,
        "disks": disks,
        "at": at,
        "addresses": dict(_addresses(addresses)),
    }
    return run_repair("quorum", targets_of(quorum, action), Selection(), options, repair)


def _metadata_dir(path: str) -> str:
    """Return the directory of the metadata log that a path names. Raises StorageError, UsageError."""
    directory = metadata_dir_of(path)
    if directory is None:
        if path in ACTIONS and not exists(path):
            raise click.UsageError(f"{path} is an action: it comes once, after the paths")
        stat_path(path)  # what is not there, or cannot be looked at, is another answer than a directory without a log
        what = "has no metadata log (__cluster_metadata-0)"
        below = (
            (f"{path.rstrip('/')}/{name}" for name in names_inside(list_directory(path))) if is_directory(path) else ()
        )
        inside = tuple(each for each in below if metadata_dir_of(each) is not None)
        if inside:
            raise UnknownFileError(f"{what}, but directories in it have one", path=path, inside=inside)
        raise NotFoundError(
            f"{what}; name the log directory of a KRaft node that has one, by its metadata.log.dir or else the first "
            "of its log.dirs",
            path=os.path.abspath(path),
        )
    return directory


def _addresses(texts: Iterable[str]) -> dict[str, dict[str, list[str | int]]]:
    """Return host and port by node id and by the name of the listener. Raises BadParameter."""
    found: dict[str, dict[str, list[str | int]]] = {}
    for text in texts:
        place, equals, address = text.partition("=")
        node, slash, listener = place.partition("/")
        if not equals or not node.isdecimal() or int(node) > _MAX_NODE_ID or bool(slash) != bool(listener):
            raise click.BadParameter(
                f"{text!r} is not ID=HOST:PORT, such as 1=kafka-1:9093, or ID/LISTENER=HOST:PORT, such as "
                "1/CONTROLLER=kafka-1:9093"
            )
        host, port = parse_endpoint(address)
        if not host or not port:
            raise click.BadParameter(f"{text!r} has no host or no port")
        known = found.setdefault(str(int(node)), {})
        if listener in known:
            raise click.BadParameter(f"{place} is named twice with --address: leave one out")
        known[listener] = [host, port]
    return found
