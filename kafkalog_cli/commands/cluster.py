"""`kafkalog cluster`: the cluster that the metadata log on stopped brokers' disks describes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import early_end, watched, write_results
from kafkalog_cli.commands.zookeeper import HEX, parse_zxid
from kafkalog_cli.options import common
from kafkalog_cli.options.common import option_type, resolve_readable
from kafkalog_cli.render.progress import end_progress
from kafkalog_cli.render.writers import CLUSTER_DIFFERENCES, CLUSTER_EVENTS, CLUSTERS, open_results
from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine import quantities
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.kafka.sim.metadata_log import EVERYTHING, Until
from kafkalog_core.kafka.sim.zookeeper.data_dir import is_data_dir
from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid
from kafkalog_core.ops.cluster.cluster import cluster
from kafkalog_core.ops.cluster.difference import cluster_differences
from kafkalog_core.ops.cluster.history import cluster_events
from kafkalog_core.ops.cluster.recreate import Form, Recreation
from kafkalog_core.ops.cluster.request import ClusterRequest
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.engine.targets import Target

__all__ = ["cluster_command"]

EXAMPLES: Final = (
    Example("kafkalog cluster /var/lib/kafka", "Nodes, topics, leaders and volumes at one glance"),
    Example("kafkalog cluster --topic orders /var/lib/kafka", "Each partition of a topic, with its last leader"),
    Example("kafkalog cluster --at 2026-11-21T09:31 --config /var/lib/kafka", "All settings, as they were at 09:31"),
    Example("kafkalog cluster --history --topic orders /var/lib/kafka", "Who led it when, and who changed what"),
    Example("kafkalog cluster --diff /mnt/yesterday /var/lib/kafka", "What has changed since a copy of yesterday"),
    Example("kafkalog cluster --output json /disks/*/kafka", "The whole image, for a script"),
    Example("kafkalog cluster /var/lib/zookeeper /disks/*/kafka", "The same of a cluster with ZooKeeper"),
    Example("kafkalog cluster --recreate shell /disks/*/kafka", "A script that builds the same cluster again"),
)
_TIME_DIGITS: Final = 12
"""A number with at least as many digits is a time in milliseconds, as for other options."""


@option_type
def _parse_moment(text: str) -> Until | UntilZxid:
    """Return a time, the offset of the last record, or a zxid, which begins with 0x."""
    if text.lower().startswith(HEX):
        return parse_zxid(text)
    if text.isascii() and text.isdigit() and len(text) < _TIME_DIGITS:
        return Until(offset=int(text))
    return Until(time_ms=quantities.parse_time_ms(text))


@click.command(
    name="cluster",
    cls=Command,
    own=("--topic", "--at", "--config"),
    examples=EXAMPLES,
    exit_statuses=tuple(ExitStatus),
)
@common.targets_argument
@click.option(
    "--topic",
    "topics",
    metavar="GLOB",
    multiple=True,
    help="Show each partition and the settings of topics whose name matches GLOB (* ? [...]). Repeatable.",
)
@click.option(
    "--broker",
    "brokers",
    metavar="ID",
    type=click.IntRange(min=0),
    multiple=True,
    help="Show only this node: its registration, log directories and settings. Repeatable.",
)
@click.option("--config", "shows_configs", is_flag=True, help="Show all settings in the metadata log.")
@click.option("--acls", "shows_acls", is_flag=True, help="Show the access control lists.")
@click.option("--users", "shows_users", is_flag=True, help="Show SCRAM users, quotas and delegation tokens.")
@click.option(
    "--show-secrets",
    "shows_secrets",
    is_flag=True,
    help="Show passwords in settings, and the salts and keys of SCRAM users, which are hidden otherwise.",
)
@click.option(
    "--at",
    type=_parse_moment,
    metavar="TIME|OFFSET|ZXID",
    help=(
        "As it was at a time (ISO 8601, UTC unless a zone is given, or milliseconds since 1970, 12 digits and more), "
        "after the record at this offset of the metadata log, or after this transaction of ZooKeeper (0x200000045)."
    ),
)
@click.option("--history", "is_history", is_flag=True, help="Show each change, from the start of the log on.")
@click.option(
    "--diff",
    "other",
    metavar="PATH|TIME|OFFSET|ZXID",
    help="Show what changed from that disk, or from that moment of this log, to the image of PATH.",
)
@click.option(
    "--recreate",
    "form",
    type=click.Choice(("shell", "strimzi")),
    help=(
        "Print what builds the cluster again, without its records: a script of kafka-topics.sh, kafka-configs.sh and "
        "kafka-acls.sh, or KafkaTopic and KafkaUser resources. The log has no passwords of SCRAM users: the script "
        "asks for new ones."
    ),
)
@click.option(
    "--assignments",
    "with_assignments",
    is_flag=True,
    help="With --recreate shell: place each replica on the node that had it.",
)
@common.output_option
def cluster_command(paths: tuple[str, ...], output: str, other: str | None, *, is_history: bool, **given: Any) -> int:
    """Show the cluster: id, quorum, brokers, features, topics, settings, security, and whose each volume is.

    PATH is a log directory with the metadata log (__cluster_metadata-0), that log, or a snapshot of it. Name the disks
    of all nodes: the copy that ends last is used, and each log directory is compared with it.

    The image is the newest snapshot with the log from there on, as a node has it once it has loaded them. The output
    begins with what is missing. A cluster that was shut down has no leaders: who led before is shown then. Which of
    the last records are committed is in no file. Rows (ndjson, json, csv) have the whole image.

    The dataDir of a ZooKeeper server is read instead of a metadata log, and log directories are compared with it too.

    Nothing is written.
    """
    _check_options(given, other, output, is_history=is_history)
    report = Report()
    zookeeper_dirs, targets = _resolved(paths, report)
    asked = ClusterRequest(
        targets=targets,
        zookeeper_dirs=zookeeper_dirs,
        topics=given["topics"],
        brokers=frozenset(given["brokers"]),
        shows_secrets=given["shows_secrets"],
        has_partitions=output != "table" or bool(given["topics"]),
    )
    asked = _at(asked, given["at"] or EVERYTHING)
    if given["form"] is not None:
        return _recreation(asked, given["form"], with_assignments=given["with_assignments"])
    if is_history:
        if zookeeper_dirs:
            line = shell_line(["kafkalog", "zookeeper", "--history", "/brokers/topics", *zookeeper_dirs])
            raise click.UsageError(f"ZooKeeper's logs have another form; run: {line}")
        return _history(asked, output, report)
    if other is not None:
        return _difference(_other(other, asked, report), asked, output, report)
    parts = tuple(name for name in ("configs", "acls", "users") if given[f"shows_{name}"])
    writer = open_results(CLUSTERS, output, parts, asked)
    with watched() as progress:
        return write_results(writer, cluster(asked, report, progress), report)


def _check_options(given: Mapping[str, Any], other: str | None, output: str, *, is_history: bool) -> None:
    """Raise UsageError for options that contradict each other, and for those that would have no effect."""
    if is_history and other is not None:
        raise click.UsageError("--history and --diff are two questions: ask one of them")
    if given["form"] is not None:
        if is_history or other is not None:
            raise click.UsageError("--recreate is of one image: leave out --history and --diff")
        if output != "table":
            raise click.UsageError("--recreate prints a script or resources: leave out --output")
        if given["topics"] or given["brokers"]:
            raise click.UsageError("--recreate is of the whole cluster: leave out --topic and --broker")
        if given["shows_secrets"]:
            raise click.UsageError("--recreate prints no secrets: leave out --show-secrets")
    if given["with_assignments"] and given["form"] != "shell":
        raise click.UsageError("--assignments is for --recreate shell")
    if other is not None and given["brokers"]:
        raise click.UsageError("--diff compares the whole cluster, or --topic: leave out --broker")


def _resolved(paths: tuple[str, ...], report: Report) -> tuple[tuple[str, ...], tuple[Target, ...]]:
    """Return the data directories of ZooKeeper servers among paths, and what the other paths name."""
    zookeeper_dirs = tuple(path for path in paths if is_data_dir(path))
    rest = tuple(path for path in paths if path not in zookeeper_dirs)
    return zookeeper_dirs, resolve_readable(rest, Selection(), report) if rest else ()


def _recreation(request: ClusterRequest, form: Form, *, with_assignments: bool) -> int:
    """Print a script or resources; for an image with holes also why they are not all, which is damage."""
    recreation = Recreation(request, form, with_assignments=with_assignments)
    for piece in recreation.text():
        click.echo(piece, nl=False)
    if recreation.problem is not None:
        click.echo(f"kafkalog: {recreation.problem}", err=True)
    return int(ExitStatus.CLEAN if recreation.problem is None else ExitStatus.DAMAGE)


def _other(text: str, asked: ClusterRequest, report: Report) -> ClusterRequest:
    """Return the request of the image that is compared with: another disk, or another moment of the same."""
    if "/" not in text:
        with suppress(click.BadParameter):  # else it is a path, and the error is that of a path
            return _at(asked, _parse_moment(text))
    zookeeper_dirs, targets = _resolved((text,), report)
    return _at(replace(asked, targets=targets, zookeeper_dirs=zookeeper_dirs), EVERYTHING)


def _at(asked: ClusterRequest, moment: Until | UntilZxid) -> ClusterRequest:
    """Return a request for the same at a moment."""
    if isinstance(moment, UntilZxid):
        return replace(asked, until=EVERYTHING, zxid=moment.zxid)
    return replace(asked, until=moment, zxid=None)


def _history(request: ClusterRequest, output: str, report: Report) -> int:
    writer = open_results(CLUSTER_EVENTS, output, bool(request.topics or request.brokers))
    with watched(), early_end(writer, report):
        cluster_events(request, report, writer.write)
        end_progress()
        writer.finish(report.summary_row())
    return int(report.exit_status)


def _difference(first: ClusterRequest, second: ClusterRequest, output: str, report: Report) -> int:
    writer = open_results(CLUSTER_DIFFERENCES, output, bool(second.topics))
    with watched():
        return write_results(writer, cluster_differences(first, second, report), report)
