"""The `kafkalog` command: a lazy command table, and the one place where errors become exit statuses.

Rules of this file: the module of a command is imported when the command runs, so that `kafkalog --help` costs little
more than click; every error of kafkalog ends as one sentence on stderr; a traceback is shown only on request
(KAFKALOG_DEBUG=1).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Final, NoReturn

import click

from kafkalog_cli.command import ExitStatus, LazyGroup, error_lines, one_line, status_of
from kafkalog_cli.standard_streams import check_output, drop_output, open_streams
from kafkalog_core.errors import KafkalogError

__all__ = ["COMMANDS", "cli", "run"]

HELP: Final = """Read, check and repair Apache Kafka's on-disk log.

kafkalog works on the files of a stopped broker: any file, a partition directory or a whole log directory. It changes
none of them without --apply, except for serve --read-write, which is a live broker on its log directory. freeze
and spark commands write only into the directory of --to. Every command prints text, on a pipe too, except dump and
spark sql, which write JSON lines to a pipe. --ndjson chooses JSON lines for any of them, and -o FILE writes the result
to a file.

\b
First steps:
  kafkalog preflight /var/lib/kafka      does it start, and what is lost?
  kafkalog recover /var/lib/kafka        bring it back with the least loss
  kafkalog dump /var/lib/kafka/orders-0  what is in these files?
"""
COMMANDS: Final = {
    "dump": (
        "kafkalog_cli.commands.dump:dump_command",
        "Show batches, records, index entries and damage; find a text.",
    ),
    "explain": (
        "kafkalog_cli.commands.explain:explain_command",
        "Explain the code of a finding, or a line of a broker's log.",
    ),
    "seek": ("kafkalog_cli.commands.seek:seek_command", "Find a record by its offset, its time or its position."),
    "which-partition": (
        "kafkalog_cli.commands.which_partition:which_partition_command",
        "Compute the partition of a group, a transactional id or a key.",
    ),
    "verify": ("kafkalog_cli.commands.verify:verify_command", "Check logs, indexes, snapshots, checkpoints and names."),
    "roll": ("kafkalog_cli.commands.roll:roll_command", "Show where logs would roll under other settings."),
    "preflight": (
        "kafkalog_cli.commands.preflight:preflight_command",
        "Show what the next start of a broker does to its disks.",
    ),
    "reindex": (
        "kafkalog_cli.commands.reindex:reindex_command",
        "Rebuild indexes and producer snapshots from the logs.",
    ),
    "recover": (
        "kafkalog_cli.commands.recover:recover_command",
        "Bring a disk back with the least loss, so that a broker starts.",
    ),
    "excise": (
        "kafkalog_cli.commands.excise:excise_command",
        "Replace one damaged batch with an empty one.",
    ),
    "truncate": ("kafkalog_cli.commands.truncate:truncate_command", "Truncate logs."),
    "checkpoint": (
        "kafkalog_cli.commands.checkpoint:checkpoint_command",
        "Show and repair checkpoints, leader epochs and ids.",
    ),
    "quorum": (
        "kafkalog_cli.commands.quorum:quorum_command",
        "Bring back a quorum whose controllers' disks are lost.",
    ),
    "transplant": (
        "kafkalog_cli.commands.transplant:transplant_command",
        "Make log directories belong to another cluster.",
    ),
    "retain": (
        "kafkalog_cli.commands.retain:retain_command",
        "Forecast what retention deletes, when, and why not.",
    ),
    "compact": (
        "kafkalog_cli.commands.compact:compact_command",
        "Forecast what the log cleaner does, or clean logs.",
    ),
    "usage": (
        "kafkalog_cli.commands.usage:usage_command",
        "Show what takes the space of a disk, by topic, partition or kind, and what may go.",
    ),
    "free": (
        "kafkalog_cli.commands.free:free_command",
        "Free space on a full disk, with the least loss.",
    ),
    "freeze": (
        "kafkalog_cli.commands.freeze:freeze_command",
        "Keep what a broker is about to delete, by hard links.",
    ),
    "cluster": (
        "kafkalog_cli.commands.cluster:cluster_command",
        "Show the cluster that the metadata log describes: nodes, topics, leaders, volumes.",
    ),
    "diff": (
        "kafkalog_cli.commands.diff:diff_command",
        "Show what changed between two copies of a log directory.",
    ),
    "groups": ("kafkalog_cli.commands.groups:groups_command", "Show offsets, members and lag of each consumer group."),
    "transactions": (
        "kafkalog_cli.commands.transactions:transactions_command",
        "Show open and hanging transactions, and what they hold back.",
    ),
    "impact": (
        "kafkalog_cli.commands.impact:impact_command",
        "Show what a plan, a replica or a start means for groups of consumers.",
    ),
    "replicas": (
        "kafkalog_cli.commands.replicas:replicas_command",
        "Compare the copies of each partition: which one to keep.",
    ),
    "zookeeper": (
        "kafkalog_cli.commands.zookeeper:zookeeper_command",
        "Show the cluster that a dead ZooKeeper server knew.",
    ),
    "serve": ("kafkalog_cli.commands.serve:serve_command", "Serve a dead disk to Kafka clients, or be a live broker."),
    "spark": ("kafkalog_cli.commands.spark:spark_group", "Work on the disks of a whole cluster with Apache Spark."),
    "apply": ("kafkalog_cli.commands.apply:apply_command", "Apply a plan, or finish an interrupted run."),
    "undo": ("kafkalog_cli.commands.undo:undo_command", "Undo changes that kafkalog has made."),
    "bench": ("kafkalog_cli.commands.bench:bench_command", "Measure how fast this machine reads logs."),
    "completion": ("kafkalog_cli.commands.completion:completion", "Print the completion script for a shell."),
}
SECTIONS: Final = {
    "Look (what is in these files, are they sound?)": ("verify", "dump", "usage", "diff", "explain"),
    "Find (where is a record?)": ("seek", "which-partition"),
    "Consumers and producers (where did each stand, and what does it wait for?)": ("groups", "transactions", "impact"),
    "Forecast (what will a broker do, and why not?)": ("preflight", "retain", "compact", "roll"),
    "Repair (change the files of a stopped broker)": (
        "recover",
        "checkpoint",
        "reindex",
        "excise",
        "truncate",
        "quorum",
        "transplant",
        "apply",
        "undo",
    ),
    "Disk space (what can be kept, what can go?)": ("free", "freeze"),
    "Serve (read a dead disk with any Kafka client)": ("serve",),
    "Cluster (what it was, many disks at once)": ("cluster", "replicas", "zookeeper", "spark"),
    "Other": ("bench", "completion"),
}
"""The commands by the question that they answer."""


MEANT: Final = {
    "cat": ("dump",),
    "catalog": ("spark catalog",),
    "check": ("verify",),
    "acl": ("cluster --acls",),
    "broker": ("cluster",),
    "brokers": ("cluster",),
    "clean": ("compact",),
    "changes": ("diff",),
    "compare": ("diff", "replicas"),
    "consumers": ("groups", "serve"),
    "controllers": ("quorum",),
    "decode": ("dump --records",),
    "delete": ("retain",),
    "du": ("usage",),
    "export": ("spark export", "dump --records --ndjson"),
    "find": ("seek", "dump --contains TEXT"),
    "fix": ("recover",),
    "fsck": ("verify",),
    "grep": ("dump --contains TEXT",),
    "group": ("groups", "serve"),
    "hanging": ("transactions",),
    "help": ("--help",),
    "index": ("reindex",),
    "lag": ("groups",),
    "leader": ("cluster --history",),
    "list": ("dump --segments",),
    "lso": ("transactions",),
    "metadata": ("cluster",),
    "ls": ("dump --segments",),
    "offset": ("seek --offset N",),
    "offsets": ("dump --segments", "groups"),
    "producers": ("transactions", "dump --files"),
    "query": ("spark sql",),
    "read": ("dump --records",),
    "repair": ("recover",),
    "retention": ("retain",),
    "revert": ("undo",),
    "rollback": ("undo",),
    "search": ("dump --contains TEXT",),
    "size": ("usage",),
    "sql": ("spark sql",),
    "start": ("preflight", "serve"),
    "tail": ("dump --follow",),
    "topics": ("cluster",),
    "txn": ("transactions",),
    "users": ("cluster --users",),
    "why": ("explain",),
    "zk": ("zookeeper",),
    "zkcli": ("zookeeper --get NODE",),
    "znode": ("zookeeper --get NODE",),
}
"""Words that other tools have for what a command does. A word that is later a command of its own is removed here."""


class MainGroup(LazyGroup):
    """The group of all commands; it turns the end of a command into an exit status."""

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command; exit with its status, or with the status of its error."""
        try:
            status = ExitStatus(super().invoke(ctx) or ExitStatus.CLEAN)
            sys.stdout.flush()
            check_output()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- the one place where every error ends
            status = _explain(error)
        ctx.exit(status)


def _explain(error: BaseException) -> ExitStatus:
    """Write one sentence about the error to stderr; return the exit status."""
    sentence = ""
    if isinstance(error, KafkalogError):
        status = status_of(error)
    elif isinstance(error, KeyboardInterrupt):
        sentence, status = "interrupted", ExitStatus.CRASH
    elif isinstance(error, OSError) and isinstance(
        error.filename, str
    ):  # a file that is read: standard output has no name
        reason = (error.strerror or str(error)).lower()
        sentence = (
            f"{error.filename}: {reason}. If another process uses these files, stop it and run this command again"
        )
        status = ExitStatus.REFUSED
    elif isinstance(error, OSError):
        sentence, status = f"the result could not be written: {error}", ExitStatus.CRASH
        drop_output()
    else:
        sentence = f"internal error, {type(error).__name__}: {error} (KAFKALOG_DEBUG=1 shows where)"
        status = ExitStatus.CRASH
    lines = error_lines(error) if isinstance(error, KafkalogError) else [f"kafkalog: {one_line(sentence)}"]
    if os.environ.get("KAFKALOG_DEBUG") == "1" and not isinstance(error, KeyboardInterrupt):
        import_module("traceback").print_exception(error)
    for line in lines:
        click.echo(line, err=True)
    return status


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if not value or ctx.resilient_parsing:
        return
    version = import_module("kafkalog_cli.command").version()
    try:
        compiled = import_module("kafkalog_core.kernels").COMPILED
    except ImportError as error:  # a compiled kernel does not match its source
        raise click.ClickException(str(error)) from error
    click.echo(f"kafkalog {version} ({'compiled' if compiled else 'interpreted'} kernels)")
    ctx.exit()


@click.group(
    name="kafkalog",
    cls=MainGroup,
    table=COMMANDS,
    meant=MEANT,
    sections=SECTIONS,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 no errors, 1 crash, 2 usage, 3 could not operate, 4 damage found.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version, and which kernels run: compiled or interpreted.",
)
def cli() -> None:
    """Run a command; its help is HELP."""


def run() -> int:
    """Run the command line of this process; return its exit status once everything is written."""
    if sys.__stdout__ is None:  # the caller has closed it
        click.echo("kafkalog: the result could not be written: standard output is closed", err=True)
        return ExitStatus.CRASH
    open_streams()
    try:
        cli.main(prog_name="kafkalog")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else ExitStatus.CRASH
    except OSError as error:  # click itself could not write
        return _explain(error)
    try:
        sys.stdout.flush()  # help and versions end without a command
        check_output()
    except OSError as error:
        return _explain(error)
    return status
