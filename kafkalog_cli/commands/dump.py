"""`kafkalog dump`: every batch, record or index entry, damaged places included."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.command import Command, Example, ExitStatus, OptionalValue
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import kafka_option
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.progress import open_progress
from kafkalog_cli.render.writers import Settings, open_writer
from kafkalog_cli.running import Interruption, StoppableProgress, early_end, warn_of_interpreted
from kafkalog_core.format.names import LOG_KINDS
from kafkalog_core.kafka.releases import parse_release
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.follow import follow
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.reading.runs import DumpRequest
from kafkalog_core.ops.reading.selection import Filters
from kafkalog_core.ops.reading.targets import FileTarget, resolve, same_partitions
from kafkalog_core.rows import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.reading.selection import Selection
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.rows.tables import Table

__all__ = ["dump_command"]

ALIKE_SHOWN = 5

EXAMPLES = (
    Example("kafkalog dump /var/lib/kafka/orders-0", "The batches of a partition"),
    Example(
        "kafkalog dump --records --offsets 4200.. --limit 10 /var/lib/kafka/orders-0/*.log",
        "Ten records from an offset on",
    ),
    Example(
        "kafkalog dump --records --committed --topic 'pay*' --output ndjson /var/lib/kafka > payments.ndjson",
        "What a read_committed consumer would get of some topics, for other programs",
    ),
    Example("kafkalog dump --segments --files --output json /var/lib/kafka", "A census of a whole log directory"),
    Example("kafkalog dump --records --resync broken.log", "What lies behind the damage too"),
)


@click.command(name="dump", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option("--segments", "level", flag_value="segments", help="One row a segment.")
@click.option("--batches", "level", flag_value="batches", help="One row a batch. This is the default for logs.")
@click.option(
    "--records",
    "level",
    flag_value="records",
    help="One row a record. This is the default with --key, --key-regex, --value-regex or --header.",
)
@click.option(
    "--files",
    is_flag=True,
    help=(
        "Also the entries of indexes, producer snapshots, checkpoints and property files. --limit counts them too; "
        "filters do not reach them."
    ),
)
@common.selection_options
@common.filter_options
@click.option(
    "--committed",
    cls=OptionalValue,
    bare_value="log-end",
    type=click.Choice(("log-end", "high-watermark")),
    help=(
        "Only what a read_committed consumer gets: no aborted and no open transactions. Up to the end of the log, or "
        "up to the high watermark that the broker has checkpointed."
    ),
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Stop after N rows, entries of --files included; damage and findings are not counted.",
)
@click.option("--newest-first", is_flag=True, help="Highest offsets first.")
@click.option("--stats", is_flag=True, help="Figures instead of rows: counts, bytes, codecs, sizes, times, producers.")
@click.option(
    "--resync",
    is_flag=True,
    help="Search behind damage for the next place where length, magic and CRC agree, and mark what is found.",
)
@click.option(
    "--follow",
    is_flag=True,
    help=(
        "Keep reading as the log grows and rolls, until interrupted; partitions that are made later too. A last batch "
        "that is not whole is held back, and said to be damage only at the end. Where a follower cuts its log and "
        "writes it anew, all that is new is shown, perhaps with some rows before it again (file.shrank)."
    ),
)
@click.option(
    "--poll-ms",
    type=click.IntRange(min=10),
    default=500,
    show_default=True,
    metavar="MS",
    help="With --follow: milliseconds between two looks.",
)
@kafka_option
@common.limit_options
@click.option(
    "--path",
    is_flag=True,
    help="A further column: the path of the file that a row comes from. Two directories of one partition need it.",
)
@common.output_options
def dump_command(paths: tuple[str, ...], selection: Selection, filters: Filters, **given: Any) -> int:
    """Show what Kafka's files hold: batches, records, index entries, damage.

    PATH is a file of any kind, a partition directory, a log directory or a glob of them. A damaged place never ends the
    dump: a row stands for it, and the exit status is 4. It is 3 where one of several PATHs could not be read; the
    others are shown all the same.
    """
    output = common.chosen_output(given.pop("output"))
    settings_of = {"bytes_mode": given.pop("bytes_mode"), "live": given["follow"]}
    given["level"] = _level(given["level"], filters)
    given["kafka"] = None if given["kafka"] is None else parse_release(given["kafka"])
    _check_together(given, filters)
    is_following, poll_ms = given.pop("follow"), given.pop("poll_ms")
    report = Report()
    targets = resolve_readable(paths, selection, report)
    given["path"] = _needs_path(given["path"], output, same_partitions(targets))
    request = DumpRequest(targets=targets, filters=filters, **given)
    warn_of_interpreted()
    with (
        Interruption() as interruption,
        open_progress(shares_terminal=sys.stdout.isatty() and not request.stats) as progress,
    ):
        writer = open_writer(output, Settings(tables=row_types(request), **settings_of))
        chunks = (
            follow(
                request,
                report,
                wait=lambda: interruption.wait(poll_ms / 1000),
                is_over=interruption.is_noted,
                targets=lambda: resolve(paths, selection, on_refusal=lambda _: None),
            )
            if is_following
            else _until(interruption, dump(request, report, StoppableProgress(progress, interruption)))
        )
        with early_end(writer, report):
            for chunk in chunks:
                writer.write(chunk)
    writer.finish(report.summary_row())
    return int(report.exit_status)


def _check_together(given: dict[str, Any], filters: Filters) -> None:
    """Refuse options that do not go together."""
    counts = given["stats"] or given["level"] == "segments"
    if given["follow"] and (counts or given["newest_first"] or given["committed"]):
        raise click.UsageError("--follow goes with none of --stats, --segments, --newest-first and --committed")
    if counts and (given["committed"] or filters != Filters()):
        raise click.UsageError("--stats and --segments count whole logs: they go with neither --committed nor filters")


def _until(interruption: Interruption, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The chunks, up to Ctrl-C. Raises Stopped."""
    for chunk in chunks:
        yield chunk
        interruption.check()


def _needs_path(asked: bool, output: str, alike: list[str]) -> bool:
    """Whether rows name their file: where asked, and in a table where nothing else tells two directories apart."""
    if alike and not asked and output != "table":
        shown = ", ".join(alike[:ALIKE_SHOWN]) + (f" and {more} more" if (more := len(alike) - ALIKE_SHOWN) > 0 else "")
        message = f"there are several directories of {shown}; --path adds a column that tells their rows apart"
        click.echo(f"kafkalog: {safe_text(message)}", err=True)
    return asked or (bool(alike) and output == "table")


def row_types(request: DumpRequest) -> tuple[Table, ...]:
    """The row types that a dump may yield."""
    return tuple(tables.with_path(table) if request.path else table for table in _row_types(request))


def _row_types(request: DumpRequest) -> tuple[Table, ...]:
    """Without paths; a KRaft snapshot among the files gives records where no level is its own."""
    level = {"segments": tables.SEGMENT, "batches": tables.BATCH, "records": tables.RECORD_V07}[request.level]
    first = tables.STATS if request.stats else level
    entries = (tables.INDEX_ENTRY, tables.PRODUCER, tables.CHECKPOINT, tables.PROPERTY)
    if not request.files and all(
        not isinstance(target, FileTarget) or target.kind in LOG_KINDS for target in request.targets
    ):
        return (first, tables.DAMAGE, tables.FINDING)
    of_snapshots = (tables.RECORD,) if request.level == "segments" else ()
    return (first, tables.DAMAGE, tables.FINDING, *entries, *of_snapshots)


def _level(level: str | None, filters: Filters) -> str:
    """The level asked for; records where a filter needs them."""
    needs_records = bool(filters.headers or filters.key is not None or filters.patterns)
    if needs_records and level not in {None, "records"}:
        raise click.UsageError(f"filters on keys, values and headers need --records, not --{level}")
    return level or ("records" if needs_records else "batches")
