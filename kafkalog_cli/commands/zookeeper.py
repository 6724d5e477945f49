"""`kafkalog zookeeper`: what a dead ZooKeeper server knew of Kafka, from its snapshots and transaction logs."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import watched, write_results
from kafkalog_cli.options import common
from kafkalog_cli.options.common import option_type
from kafkalog_cli.render.writers import ZOOKEEPERS, open_results
from kafkalog_core.engine import quantities
from kafkalog_core.engine.report import Report
from kafkalog_core.errors import NotFoundError
from kafkalog_core.kafka.sim.zookeeper.data_dir import is_data_dir
from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid
from kafkalog_core.kafka.sim.zookeeper.tree import zxid_text
from kafkalog_core.ops.zookeeper import zookeeper
from kafkalog_core.ops.zookeeper.nodes import normal_path
from kafkalog_core.ops.zookeeper.request import ZookeeperRequest
from kafkalog_core.storage.logdir import is_broker_dir
from kafkalog_core.text import moment

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalog_core.progress import Progress

__all__ = ["HEX", "parse_zxid", "zookeeper_command"]

EXAMPLES: Final = (
    Example("kafkalog zookeeper /var/lib/zookeeper", "What did the cluster look like?"),
    Example("kafkalog zookeeper /mnt/zk1 /mnt/zk2 /mnt/zk3", "Which server of the ensemble has the most?"),
    Example("kafkalog zookeeper --get /controller /var/lib/zookeeper", "One node: data, times, versions, ACL"),
    Example(
        "kafkalog zookeeper --history /brokers/topics/orders /var/lib/zookeeper",
        "When was a topic created, who led it, who deleted it?",
    ),
    Example(
        "kafkalog zookeeper --diff 2026-11-21T09:00 --under /config /var/lib/zookeeper",
        "Which settings were changed since 09:00?",
    ),
    Example("kafkalog zookeeper --rebalance billing /var/lib/zookeeper", "Which partition of a group has no owner?"),
)
HEX: Final = "0x"
"""The beginning of a zxid."""


def parse_zxid(text: str) -> UntilZxid:
    """Return the moment after a transaction. Raises BadParameter."""
    try:
        return UntilZxid(zxid=int(text, 16))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a zxid, such as 0x200000045") from None


@option_type
def _parse_moment(text: str) -> UntilZxid:
    """Return a zxid, which begins with 0x, or a time."""
    if text.lower().startswith(HEX):
        return parse_zxid(text)
    return UntilZxid(time_ms=quantities.parse_time_ms(text))


@option_type
def _parse_other(text: str) -> UntilZxid | str:
    """Return another data directory, or a moment."""
    return text if os.path.isdir(text) else _parse_moment(text)


@click.command(
    name="zookeeper", cls=Command, own=("--get", "--diff"), examples=EXAMPLES, exit_statuses=tuple(ExitStatus)
)
@common.targets_argument
@click.option("--tree", "shows_tree", is_flag=True, help="List the nodes of the tree, or of --under.")
@click.option(
    "--get",
    "nodes",
    metavar="NODE",
    multiple=True,
    help="Show this node, such as /brokers/ids/1: data, times, versions, ACL. Repeatable.",
)
@click.option(
    "--history",
    metavar="NODE",
    help="Show each change of this node and of the nodes below it, in the order of the logs.",
)
@click.option(
    "--diff",
    "other",
    type=_parse_other,
    metavar="ZXID|TIME|DIR",
    help="Show the nodes that differ from an earlier moment, or from another data directory.",
)
@click.option(
    "--rebalance",
    metavar="GROUP",
    help=(
        "Compute which consumer should own each partition of a group of old consumers, and compare it with the owner "
        "nodes."
    ),
)
@click.option(
    "--at",
    type=_parse_moment,
    metavar="ZXID|TIME",
    help="As it was after this transaction (0x200000045) or at this time (ISO 8601, UTC unless a zone is given).",
)
@click.option("--under", default="/", metavar="NODE", help="Only this node and the nodes below it.")
@click.option(
    "--txn-log-dir",
    type=click.Path(exists=True, file_okay=False),
    help="dataLogDir of the server, if its transaction logs are not in PATH.",
)
@click.option("--show-secrets", is_flag=True, help="Show keys of SCRAM users, encrypted passwords and digests of ACLs.")
@common.output_option
def zookeeper_command(paths: tuple[str, ...], output: str, **given: Any) -> int:
    """Rebuild the tree of a stopped ZooKeeper server, and show the Kafka cluster in it.

    PATH is the dataDir of a server, with the directory version-2. Name those of all servers of an ensemble: the one
    with the highest epoch and zxid is read, as an election would, and what the others lack is reported. A log directory
    of Kafka among them must have the cluster id of the tree.

    The tree is the newest whole snapshot, and then each later transaction of the logs, as a start of the server would
    rebuild it. The first line answers whether it can be restored: a transaction that is in no file is never made up.
    Ephemeral nodes are those of the last moment: brokers that were alive, the controller, old consumers.

    ndjson, json and csv have all nodes. Nothing is written.
    """
    report = Report()
    modes = [name for name in ("shows_tree", "nodes", "history", "other", "rebalance") if given[name]]
    if len(modes) > 1:
        raise click.UsageError("--tree, --get, --history, --diff and --rebalance exclude each other")
    mode = modes[0] if modes else "summary"
    if given["under"] != "/" and mode in {"nodes", "history", "rebalance"}:
        raise click.UsageError("--under is for --tree, --diff and the rows of the whole tree")
    request = _request(paths, given, has_nodes=output != "table")
    writer = open_results(ZOOKEEPERS, output, mode, _moment_words(request), paths)
    # A tree is millions of objects without a cycle, of which searches for cycles would take up to half of the time
    gc.disable()
    try:
        with watched() as progress:
            return write_results(writer, _items(mode, given, request, report, progress), report)
    finally:
        gc.enable()


def _request(paths: tuple[str, ...], given: dict[str, Any], *, has_nodes: bool) -> ZookeeperRequest:
    """Return the request. Raises NotFoundError, and UsageError where the options do not fit together."""
    log_dirs = tuple(path for path in paths if not is_data_dir(path) and is_broker_dir(path))
    data_dirs = tuple(path for path in paths if path not in log_dirs)
    if not data_dirs:
        raise NotFoundError(
            "there is a log directory of Kafka only; name the dataDir of a ZooKeeper server too", path=paths[0]
        )
    if given["txn_log_dir"] is not None and len(data_dirs) > 1:
        raise click.UsageError("--txn-log-dir needs a single server")
    return ZookeeperRequest(
        data_dirs=data_dirs,
        txn_log_dir=given["txn_log_dir"],
        log_dirs=log_dirs,
        until=given["at"] or UntilZxid(),
        under=normal_path(given["under"]),
        has_nodes=has_nodes,
        shows_secrets=given["show_secrets"],
    )


def _moment_words(request: ZookeeperRequest) -> list[str]:
    """Return the options with which another command reads the same tree."""
    until = request.until
    words = [] if request.txn_log_dir is None else ["--txn-log-dir", request.txn_log_dir]
    if until.zxid is not None:
        return [*words, "--at", zxid_text(until.zxid)]
    return words if until.time_ms is None else [*words, "--at", moment(until.time_ms)]


def _items(
    mode: str, given: dict[str, Any], request: ZookeeperRequest, report: Report, progress: Progress
) -> Generator[zookeeper.Item, None, None]:
    """Return what is asked for, one item after the other."""
    if mode == "shows_tree":
        return zookeeper.tree(request, report, progress)
    if mode == "nodes":
        return zookeeper.get_nodes(request, given["nodes"], report, progress)
    if mode == "history":
        return zookeeper.history(request, given["history"], report, progress)
    if mode == "other":
        return zookeeper.difference(request, given["other"], report, progress)
    if mode == "rebalance":
        return zookeeper.owners(request, given["rebalance"], report, progress)
    return zookeeper.summary(request, report, progress)
