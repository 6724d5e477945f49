"""`kafkalog spark sql`: a query over records, batches, segments and findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.spark.job import session_options
from kafkalog_cli.options import common
from kafkalog_cli.options.reading import parse_pair, storage_option
from kafkalog_cli.render.writers import QUERIES, RowSettings, open_results
from kafkalog_cli.standard_streams import ends_with_reader
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.spark.lake.clouds import output_path
from kafkalog_core.spark.session.errors import local_paths
from kafkalog_core.spark.session.session import spark_session
from kafkalog_core.spark.source.sql import Sources, check_options, chunks, query, table_of
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from kafkalog_core.output.chunk import BytesMode
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["sql_command"]

EXAMPLES = (
    Example(
        'kafkalog spark sql "SELECT topic, sum(size_bytes) AS bytes FROM segments GROUP BY topic ORDER BY bytes DESC" '
        "/mnt/broker-*/kafka",
        "Which topics fill the disks?",
    ),
    Example(
        'kafkalog spark sql "SELECT producer_id, count(*), timestamp_millis(max(max_timestamp_ms)) FROM batches '
        "WHERE topic = 'orders' GROUP BY producer_id\" --catalog /data/catalog",
        "Which producers wrote a topic, and until when? From a catalog of kafkalog spark catalog",
    ),
    Example(
        "kafkalog spark sql \"SELECT file, code, message FROM findings WHERE severity = 'error'\" "
        "--option level=checksums /mnt/broker-1/kafka",
        "What is damaged?",
    ),
    Example(
        'kafkalog spark sql --catalog /data/catalog "SELECT version, timestamp_millis(time_ms), partitions, segments '
        'FROM runs ORDER BY version"',
        "Which versions of a catalog are there?",
    ),
    Example(
        'kafkalog spark sql --catalog /data/catalog "SELECT topic, partition, base_offset, record_count, size_bytes '
        'FROM segments_at_3 ANTI JOIN segments USING (path)"',
        "Which segments were there at version 3 of the catalog, and are gone since?",
    ),
)


@click.command(
    name="sql",
    cls=Command,
    reads_objects=True,
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED),
)
@click.argument("statement", metavar="QUERY")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(readable=False))
@click.option(
    "--catalog",
    metavar="DIR",
    type=click.Path(readable=False),
    help="Take batches, segments, findings and partitions from this catalog, without reading the disks.",
)
@click.option(
    "--at-version",
    type=click.IntRange(min=1),
    metavar="N",
    help=(
        "Show the catalog as it was after an earlier run: N is a version of its table runs. The views segments_at_N, "
        "batches_at_N, findings_at_N and partitions_at_N do so next to the tables of the last run, without this option."
    ),
)
@click.option(
    "--export",
    metavar="DIR",
    type=click.Path(readable=False),
    help="Take records from this export, without reading the disks.",
)
@click.option(
    "--option",
    "pairs",
    type=parse_pair,
    metavar="NAME=VALUE",
    multiple=True,
    help=(
        "Read less from the disks, by an option of the data source: topics=orders-*, partitions=0-3, minOffset=100, "
        "since=2026-01-31, level=checksums, ... Repeatable. A WHERE clause reads everything."
    ),
)
@storage_option
@common.row_options
@session_options
def sql_command(
    statement: str,
    paths: tuple[str, ...],
    pairs: tuple[tuple[str, str], ...],
    output: str,
    bytes_mode: str,
    session: SessionSettings,
    **places: Any,
) -> int:
    """Query records, batches, segments and findings with SQL.

    The tables are read from the PATHs, log directories of any number of brokers, or from a catalog and an export, which
    is much faster for several queries. Their columns are those of kafkalog dump and verify (DESCRIBE batches lists
    them). Times are integers of milliseconds; timestamp_millis(timestamp_ms) converts them to timestamps. QUERY is
    Spark SQL; statements that would change something are refused.
    """
    catalog, export = places["catalog"], places["export"]
    if not paths and catalog is None and export is None:
        raise click.UsageError("there is nothing to query; name log directories (PATH), --catalog DIR or --export DIR")
    if places["at_version"] is not None and catalog is None:
        raise click.UsageError("--at-version is a version of a catalog; give --catalog DIR too")
    sources = Sources(
        paths=local_paths(paths),
        options=dict(pairs),
        catalog=None if catalog is None else output_path(catalog),
        at_version=places["at_version"],
        export=None if export is None else output_path(export),
        storage=dict(places["storage"]),
    )
    check_options(sources.options)
    resolve(sources.paths)  # an error in a path is reported before Spark starts
    report = Report()
    # The JVM computes here, and the session takes a broken pipe for its end: that of the reader must not reach it.
    with spark_session(replace(session, is_light=False)) as spark, ends_with_reader():
        frame = query(spark, statement, sources)
        table = table_of(frame)
        mode = cast("BytesMode", bytes_mode)
        writer = open_results(QUERIES, output, table, settings=RowSettings(tables=(table,), bytes_mode=mode))
        for chunk in chunks(frame, table, mode):
            report.rows += chunk.count
            writer.write(chunk)
        writer.finish(report.summary_row())
    return int(report.exit_status)
