"""`kafkalog spark catalog`: a catalog of many disks as Delta tables, updated by each run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import clock_ms, write_results
from kafkalog_cli.commands.spark.job import new_run_id, run_on_spark, session_options
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.reading import reading_options, storage_option
from kafkalog_cli.render.writers import RowSettings, open_writer
from kafkalog_core.engine.report import Report
from kafkalog_core.output import tables
from kafkalog_core.spark.catalog.catalog import CATALOG_KIND, CatalogRequest, catalog
from kafkalog_core.spark.lake.clouds import output_path
from kafkalog_core.spark.lake.output import check_place, refuse_inside
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["catalog_command"]

EXAMPLES = (
    Example("kafkalog spark catalog --to /data/catalog /mnt/broker-*/kafka", "All disks; later only what has changed"),
    Example(
        "kafkalog spark sql --catalog /data/catalog "
        '"select topic, sum(size_bytes) bytes from segments group by topic order by bytes desc"',
        "Which topics take the most space?",
    ),
)


@click.command(name="catalog", cls=Command, reads_objects=True, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--to",
    metavar="DIR",
    required=True,
    type=click.Path(readable=False),
    help=(
        "The directory to write, or a place in an object store (s3://, gs://, abfss://): new, empty, or a catalog, "
        "which is updated."
    ),
)
@storage_option
@common.level_option
@common.selection_options
@common.limit_options
@common.output_option
@reading_options
@session_options
def catalog_command(paths: tuple[str, ...], selection: Selection, session: SessionSettings, **given: Any) -> int:
    """Write a catalog of disks: segments, batches, partitions and findings as Delta tables in DIR.

    PATH is a log directory, a partition directory or a glob of them. Name all that the catalog should hold: a partition
    that is not named is removed from it. Each segment is read once and checked as kafkalog verify does. The next run
    into the same DIR reads only segments that are new or have changed: it compares size, modification time, inode, and
    64 KiB at both ends of their files. A run is committed in one step; a killed run leaves the catalog as it was.
    After damage the run searches for whole batches, as dump --resync does. It shows the partitions and what was deleted
    since the last run; all findings are in DIR, and a finding of severity error makes the exit status 4.
    """
    report = Report()
    store = Store.of(output_path(given["to"]), dict(given["storage"]))
    request = CatalogRequest(
        targets=resolve_all(local_paths(paths), selection),
        output=store,
        now_ms=clock_ms(),
        level=given["level"],
        max_batch_bytes=given["max_batch_bytes"],
    )
    check_place(store, CATALOG_KIND)  # before Spark takes its time to start
    refuse_inside(store, [target.path for target in request.targets])
    run_id = new_run_id(request.now_ms)
    rows = run_on_spark(
        session,
        lambda workers, progress: catalog(workers, request, report, run_id=run_id, progress=progress),
        targets=request.targets,
    )
    writer = open_writer(given["output"], RowSettings(tables=(tables.CATALOG, tables.FINDING)))
    return write_results(writer, rows, report)
