"""`kafkalog spark JOB`: the jobs of the data pipeline. PySpark is imported only when a job runs."""

from __future__ import annotations

from typing import Final

import click

from kafkalog_cli.command import CommandGroup, Example, ExitStatus

__all__ = ["JOBS", "spark_group"]

JOBS: Final = {
    "catalog": (
        "kafkalog_cli.commands.spark.catalog:catalog_command",
        "Create or update a catalog of disks as Delta tables.",
    ),
    "export": (
        "kafkalog_cli.commands.spark.export:export_command",
        "Export records to a Delta table; each run continues after the last one.",
    ),
    "groups": (
        "kafkalog_cli.commands.spark.groups:groups_command",
        "Show the groups of a whole cluster: state, members, offsets and lag.",
    ),
    "pack": (
        "kafkalog_cli.commands.spark.pack:pack_command",
        "Pack kafkalog for the executors of a cluster.",
    ),
    "replicas": (
        "kafkalog_cli.commands.spark.replicas:replicas_command",
        "Compare the copies of each partition on several brokers' disks.",
    ),
    "sql": (
        "kafkalog_cli.commands.spark.sql:sql_command",
        "Query records, batches, segments and findings with SQL.",
    ),
    "transactions": (
        "kafkalog_cli.commands.spark.transactions:transactions_command",
        "Show the open transactions of a whole cluster, and what they hold back.",
    ),
    "verify": (
        "kafkalog_cli.commands.spark.verify:verify_command",
        "Check many disks at once, with the findings of `kafkalog verify`.",
    ),
    "retain": (
        "kafkalog_cli.commands.spark.retain:retain_command",
        "Forecast what retention deletes on many disks, when, and why.",
    ),
    "usage": (
        "kafkalog_cli.commands.spark.usage:usage_command",
        "Show what takes the space of many disks, and what may go.",
    ),
    "compact": (
        "kafkalog_cli.commands.spark.compact:compact_command",
        "Forecast what the log cleaner does on many disks, or write cleaned logs.",
    ),
}


MEANT: Final = {
    "check": ("spark verify",),
    "compare": ("spark replicas",),
    "diff": ("spark replicas",),
    "help": ("spark --help",),
    "query": ("spark sql",),
    "select": ("spark sql",),
    "table": ("spark export", "spark catalog"),
    "tables": ("spark export", "spark catalog"),
}
"""As the words of `kafkalog_cli.main`."""

EXAMPLES = (
    Example("kafkalog spark verify --master 'local[4]' /data/*/kafka", "All disks of a broker, on four of its cores"),
    Example("kafkalog spark verify --master spark://host:7077 /mnt/*/kafka", "All disks of a cluster, on a cluster"),
)


@click.group(
    name="spark",
    cls=CommandGroup,
    table=JOBS,
    meant=MEANT,
    examples=EXAMPLES,
    exit_statuses=tuple(ExitStatus),
)
def spark_group() -> None:
    """Work on the disks of a whole cluster, through Apache Spark.

    A job runs on this machine's cores (--master 'local[*]', the default) or on a Spark cluster whose machines see all
    paths under the same names. It needs Java 17 or newer and, run in kafkalog's sources, pip install '.[lake]';
    '.[lake,jre]' includes a Java. For small inputs the command of the same name without `spark` is faster: Spark takes
    about 10 seconds to start.
    """
