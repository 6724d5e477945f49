"""`kafkalog spark export`: records as a Delta table, to which each run adds the new ones; or as plain files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import clock_ms, write_results
from kafkalog_cli.commands.spark.job import new_run_id, run_on_spark, session_options
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.reading import reading_options, storage_option
from kafkalog_cli.render.writers import EXPORTS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.spark.export.export import COMMIT_BYTES, EXPORT_KIND, ExportOptions, ExportRequest, export
from kafkalog_core.spark.export.plan import TASK_BYTES
from kafkalog_core.spark.lake.clouds import output_path
from kafkalog_core.spark.lake.output import Output, refuse_inside
from kafkalog_core.spark.lake.plain import FORMATS
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.errors import local_paths

if TYPE_CHECKING:
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["export_command"]

EXAMPLES = (
    Example("kafkalog spark export --to /data/records /mnt/broker-1/kafka", "All records of a disk; later new ones"),
    Example(
        "kafkalog spark export --topic 'orders*' --from-time 2025-03-01 --to /data/orders /mnt/broker-1/kafka",
        "Some topics, from the first record of a day",
    ),
    Example(
        "kafkalog spark export --topic orders --partition 3 --reload --from-offset 120000 --to /data/orders "
        "/mnt/broker-1/kafka",
        "Export a partition again from an offset, and replace what was exported",
    ),
    Example(
        "kafkalog spark export --format parquet --to /data/orders-files --topic orders /mnt/broker-1/kafka",
        "Plain Parquet files of a topic, once",
    ),
)


@click.command(name="export", cls=Command, reads_objects=True, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--to",
    metavar="DIR",
    required=True,
    type=click.Path(readable=False),
    help=(
        "The directory to write, or a place in an object store (s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "
        "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX): new, empty, or that of an earlier run, which is "
        "continued."
    ),
)
@click.option(
    "--format",
    type=click.Choice(tuple(FORMATS)),
    default="delta",
    show_default=True,
    help=(
        "delta: a table, which later runs continue. parquet: only its files, once, into a new or empty DIR; they are "
        "complete when DIR/_SUCCESS is there. Needs no library for Delta tables."
    ),
)
@click.option(
    "--from-offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="Begin at this offset in partitions that are new to the export or reloaded.  [default: the log start offset]",
)
@click.option(
    "--from-time",
    "from_time_ms",
    type=common.parse_time_ms,
    metavar="TIME",
    help="Begin at the first record that is not older than this: milliseconds since 1970, or ISO 8601.",
)
@click.option(
    "--reload",
    is_flag=True,
    help=(
        "Export records again that were exported before, from --from-offset or --from-time, and remove the old rows in "
        "the same commit."
    ),
)
@click.option(
    "--on-change",
    type=click.Choice(("stop", "reload", "continue")),
    default="stop",
    show_default=True,
    help=(
        "What to do with a log that is not the one that was exported: it was truncated or rewritten, or belongs to "
        "another topic. stop: leave the partition as it is, and report a finding. reload: export it again. continue: "
        "keep the exported records and go on at the same offset, or at the log end offset if that is lower."
    ),
)
@click.option(
    "--resync/--no-resync",
    default=True,
    show_default=True,
    help=(
        "After damage, search for whole batches and export them too, with true in the column resynced. With "
        "--no-resync nothing after a damaged length is read, up to the end of the segment."
    ),
)
@click.option(
    "--committed",
    is_flag=True,
    help=(
        "Export only what a read_committed consumer gets: no aborted records, no control records, and nothing from the "
        "first open transaction on, which comes with a later run. Without it the column is_committed shows the same."
    ),
)
@click.option(
    "--compression",
    type=click.Choice(("snappy", "zstd", "none")),
    default="snappy",
    show_default=True,
    help="Compression of the Parquet files.",
)
@click.option(
    "--file-bytes",
    "task_bytes",
    type=common.parse_size,
    default=str(TASK_BYTES),
    metavar="SIZE",
    help="Approximate bytes of log that a task reads and a file holds, of one partition or many.  [default: 128MiB]",
)
@click.option(
    "--commit-bytes",
    type=common.parse_size,
    default=str(COMMIT_BYTES),
    metavar="SIZE",
    help="Commit after this many bytes of log; a killed run repeats the work since its last commit.  [default: 16GiB]",
)
@click.option(
    "--sync/--no-sync",
    "syncs",
    default=True,
    show_default=True,
    help=(
        "Fsync every file before it is committed, so that a power failure loses nothing. With --no-sync the export "
        "does not wait for the disk."
    ),
)
@storage_option
@common.selection_options
@common.limit_options
@common.output_option
@reading_options
@session_options
def export_command(paths: tuple[str, ...], selection: Selection, session: SessionSettings, **given: Any) -> int:
    """Export records to a Delta table: DIR/records, sorted by topic, partition and offset in each file.

    PATH is a log directory, a partition directory or a glob of them. The next run into the same DIR continues after the
    last exported record of each partition. Files and positions are committed in one step, so a killed run or a repeated
    task neither loses nor doubles a record; Ctrl-C keeps what was committed. Damaged places are reported as findings,
    which are also stored in the table DIR/findings, and the whole records around them are exported; the exit status is
    then 4. A partition that is on several of the disks is refused: name the copy to export, see kafkalog spark
    replicas. A finding reports offsets that retention deleted before they were exported.

    With --format parquet there is no table: one run writes the files, and DIR/_SUCCESS at its end. A run that fails or
    is interrupted deletes its files, and one that was killed leaves a directory that further runs refuse.
    """
    if given["from_offset"] is not None and given["from_time_ms"] is not None:
        raise click.UsageError("--from-offset and --from-time both set where to begin; give only one of them")
    runs = FORMATS[given["format"]]
    if runs.is_once:
        _refuse_options_of_tables()
    report = Report()
    to = output_path(given["to"])
    store = Store.of(to, dict(given["storage"]), syncs=given["syncs"])
    request = ExportRequest(
        targets=resolve_readable(local_paths(paths), selection, report),
        output=store,
        format=given["format"],
        asked=ExportOptions(
            from_offset=given["from_offset"],
            from_time_ms=given["from_time_ms"],
            reload=given["reload"],
            on_change=given["on_change"],
        ),
        compression=given["compression"],
        task_bytes=max(1, given["task_bytes"]),
        commit_bytes=max(1, given["commit_bytes"]),
        max_batch_bytes=given["max_batch_bytes"],
        resync=given["resync"],
        committed=given["committed"],
    )
    runs.check(store, EXPORT_KIND)  # before Spark takes its time to start
    refuse_inside(store, [target.path for target in request.targets])
    now_ms = clock_ms()
    run_id = new_run_id(now_ms)
    rows = run_on_spark(
        session,
        lambda workers, progress: export(workers, request, report, run_id=run_id, now_ms=now_ms, progress=progress),
    )
    output = given["output"]
    writer = open_results(
        EXPORTS, output, to, lambda: 0 if runs.is_once else Output(store, EXPORT_KIND).head.version or 0
    )
    return write_results(writer, rows, report)


def _refuse_options_of_tables() -> None:
    """Raise UsageError for options about earlier runs and about commits."""
    for name, option in (("reload", "--reload"), ("on_change", "--on-change"), ("commit_bytes", "--commit-bytes")):
        if click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option} is for tables, which later runs continue; omit it or --format parquet")
