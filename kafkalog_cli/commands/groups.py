"""`kafkalog groups`: the offsets, members and lag of each group, from the disks of stopped brokers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import cores, early_end, watched, write_results
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.coordinators import group_options, groups_request
from kafkalog_cli.options.kafka import kafka_start_options, now_option
from kafkalog_cli.options.reading import reading_options
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.progress import end_progress
from kafkalog_cli.render.writers import GROUPS, RowSettings, open_results, open_writer
from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.kafka.sim.zookeeper.data_dir import is_data_dir
from kafkalog_core.ops.groups.groups import groups
from kafkalog_core.ops.groups.history import group_events
from kafkalog_core.ops.groups.request import LEFT_OUT, GroupResult
from kafkalog_core.output import tables
from kafkalog_core.text import csv_field, csv_line

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.ops.groups.request import GroupsRequest

__all__ = ["groups_command"]

EXAMPLES: Final = (
    Example("kafkalog groups /var/lib/kafka", "All groups, their lag, and those that will be reset"),
    Example("kafkalog groups --group billing --at 2026-11-21T09:31 /var/lib/kafka", "Where was a group at 09:31?"),
    Example("kafkalog groups --history billing --topic orders /var/lib/kafka", "Each commit, rebalance and deletion"),
    Example(
        "kafkalog groups --group billing --export csv -o offsets.csv /mnt/disk1 /mnt/disk2",
        "The offsets for kafka-consumer-groups.sh --reset-offsets --from-file",
    ),
)


@click.command(name="groups", cls=Command, own=("--topic",), examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@group_options
@click.option(
    "--history",
    metavar="ID",
    help="Show each commit, rebalance, expiry and deletion of this group, in the order of the log.",
)
@click.option(
    "--export",
    type=click.Choice(("csv",)),
    help=(
        "Write the committed offsets as kafka-consumer-groups.sh --reset-offsets --from-file takes them: topic, "
        "partition, offset for one --group; group, topic, partition, offset for several, or for --all-groups."
    ),
)
@now_option
@kafka_start_options
@common.limit_options
@common.jobs_option
@reading_options
@common.output_option
def groups_command(paths: tuple[str, ...], now_ms: int, request: SettingsRequest, **given: Any) -> int:
    """Show each group: state, members, committed offsets, and lag against the logs on the same disks.

    PATH is a log directory, or a partition of __consumer_offsets. Name the log directories of all brokers: each has
    some partitions of that topic, and some of the logs. If disks have copies of one partition, the copy is read with
    which the cluster would go on; the output names it.

    The data directory of a ZooKeeper server has the groups of old consumers (0.8 to 1.x), of the type zookeeper:
    --export moves their offsets to a cluster of today.

    The output begins with the answer. Without --group a line for each group follows; ndjson, json and csv have the
    members and offsets of all groups. A group is shown as a coordinator has it once it has loaded the log: its members
    are those of the last rebalance. A commit names no member: who had the partition then is inferred from the
    assignments, where the log still has them.

    Where share groups are is read from __share_group_state: the start offset of each partition, and the records after
    it that were delivered. Nothing is written.
    """
    if given["history"] is not None and (given["names"] or given["export"]):
        raise click.UsageError("--history names its group itself, and has no offsets to export")
    if given["export"] is not None and given["output"] != "table":
        raise click.UsageError("--export is a form of output itself: leave out --output and --ndjson")
    report = Report()
    names = (given["history"],) if given["history"] is not None else tuple(dict.fromkeys(given["names"]))
    output = given["output"]
    zookeeper_dirs = (*request.zookeeper_dirs, *(path for path in paths if is_data_dir(path)))
    rest = tuple(path for path in paths if path not in zookeeper_dirs)
    if given["history"] is not None and zookeeper_dirs:
        line = shell_line(["kafkalog", "zookeeper", "--history", f"/consumers/{given['history']}", *zookeeper_dirs])
        raise click.UsageError(f"ZooKeeper's logs have another form; run: {line}")
    asked = groups_request(
        resolve_readable(rest, Selection(), report) if rest else (),
        now_ms,
        request,
        given | {"names": names},
        has_positions=bool(given["export"]) or output != "table",
        jobs=given["jobs"] or cores(),
        zookeeper_dirs=zookeeper_dirs,
    )
    if given["export"] is not None:
        return _export(asked, report)
    if given["history"] is not None:
        return _history(asked, output, report)
    writer = open_results(GROUPS, output, asked.groups, paths)
    with watched() as progress:
        return write_results(writer, groups(asked, report, progress), report)


def _history(request: GroupsRequest, output: str, report: Report) -> int:
    writer = open_writer(output, RowSettings(tables=(tables.GROUP_EVENT, tables.FINDING)))
    with watched() as progress, early_end(writer, report):
        for chunk in group_events(request, report, progress):
            writer.write(chunk)
        end_progress()
        writer.finish(report.summary_row())
    return int(report.exit_status)


def _export(request: GroupsRequest, report: Report) -> int:
    """Write a line for each committed offset; what could not be read is on stderr.

    With one --group, Kafka's tool first reads lines without a group, and prints a stack trace where they have one.
    """
    columns = (
        ("topic", "partition", "offset") if len(request.groups) == 1 else ("group", "topic", "partition", "offset")
    )
    stream = sys.stdout.buffer
    written: set[object] = set()
    with watched() as progress:
        for item in groups(request, report, progress):
            if not isinstance(item, GroupResult):
                for finding in item.findings:
                    click.echo(f"kafkalog: {finding.path}: {finding.message}", err=True)
                for note in item.notes:
                    if note.startswith(LEFT_OUT):
                        click.echo(f"kafkalog: {safe_text(note)}", err=True)
                continue
            if item.group["group"] in written:
                text = f"{LEFT_OUT}the offsets that group {item.group['group']} has in ZooKeeper, next to those in logs"
                click.echo(f"kafkalog: {safe_text(text)}", err=True)
                continue
            written.add(item.group["group"])
            for row in item.offsets:
                # The tool sets no start offsets of share groups.
                if row["offset"] is not None and item.group["group_type"] != "share":
                    fields = [csv_field(row[name]) for name in columns]
                    stream.write(csv_line(fields).replace(b"\r\n", b"\n"))
    end_progress()
    stream.flush()
    return int(report.exit_status)
