"""`kafkalog spark JOB`: the jobs of the data pipeline. PySpark is imported when a job runs, not before."""

from __future__ import annotations

from typing import Final

import click

from kafkalog_cli.command import CommandGroup, Example, ExitStatus

__all__ = ["JOBS", "spark_group"]

JOBS: Final = {
    "catalog": (
        "kafkalog_cli.commands.spark.catalog:catalog_command",
        "Make a catalogue of disks as Parquet, and bring it up to date.",
    ),
    "export": (
        "kafkalog_cli.commands.spark.export:export_command",
        "Export records to Parquet, and go on where the last run has ended.",
    ),
    "pack": (
        "kafkalog_cli.commands.spark.pack:pack_command",
        "Pack kafkalog for the executors of a cluster.",
    ),
    "replicas": (
        "kafkalog_cli.commands.spark.replicas:replicas_command",
        "Compare the copies of partitions on several brokers' disks.",
    ),
    "sql": (
        "kafkalog_cli.commands.spark.sql:sql_command",
        "Query records, batches, segments and findings with SQL.",
    ),
    "verify": (
        "kafkalog_cli.commands.spark.verify:verify_command",
        "Check many disks at once, with the findings of `kafkalog verify`.",
    ),
    "retain": (
        "kafkalog_cli.commands.spark.retain:retain_command",
        "Say what retention deletes on many disks, when, and why not.",
    ),
    "compact": (
        "kafkalog_cli.commands.spark.compact:compact_command",
        "Forecast what cleaners do on many disks, or write cleaned logs.",
    ),
}


EXAMPLES = (
    Example("kafkalog spark verify --master 'local[4]' /data/*/kafka", "All disks of a broker, on four cores of it"),
    Example("kafkalog spark verify --master spark://host:7077 /mnt/*/kafka", "All disks of a cluster, on a cluster"),
)


@click.group(
    name="spark",
    cls=CommandGroup,
    table=JOBS,
    examples=EXAMPLES,
    exit_statuses=tuple(ExitStatus),
)
def spark_group() -> None:
    """Work on the disks of a whole cluster, through Apache Spark.

    Runs on this machine's cores with nothing to start (--master 'local[*]', the default), or on a Spark cluster whose
    machines see all paths under the same names. Needs pip install 'kafkalog[spark]' and Java 17 or newer, which
    pip install 'kafkalog[spark,jre]' brings along. Small inputs are done sooner by the command of the same name without
    `spark`: Spark takes about 10 seconds to start.
    """
