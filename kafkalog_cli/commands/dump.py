"""`kafkalog dump`: every batch, record or index entry, damaged places included."""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli import options
from kafkalog_cli.command import Command, Example, OptionalValue
from kafkalog_cli.exits import ExitStatus
from kafkalog_cli.interrupt import Interruption
from kafkalog_cli.render import Settings, open_progress, open_writer
from kafkalog_core import tables
from kafkalog_core.errors import KafkalogError
from kafkalog_core.format import kernels
from kafkalog_core.format.names import LOG_KINDS
from kafkalog_core.ops.dump import DumpRequest, dump
from kafkalog_core.ops.follow import follow
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.select import Filters
from kafkalog_core.ops.targets import FileTarget, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_cli.render import Writer
    from kafkalog_core.ops.rows import Chunk
    from kafkalog_core.ops.selection import Selection
    from kafkalog_core.tables import Table

__all__ = ["dump_command"]

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
@options.targets_argument
@click.option("--segments", "level", flag_value="segments", help="One row a segment.")
@click.option("--batches", "level", flag_value="batches", help="One row a batch. This is the default for logs.")
@click.option(
    "--records",
    "level",
    flag_value="records",
    help="One row a record. This is the default with --key, --key-regex, --value-regex or --header.",
)
@click.option(
    "--files", is_flag=True, help="Also the entries of indexes, producer snapshots, checkpoints and property files."
)
@options.selection_options
@options.filter_options
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
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N rows of the chosen kind.")
@click.option("--newest-first", is_flag=True, help="Highest offsets first.")
@click.option("--stats", is_flag=True, help="Figures instead of rows: counts, bytes, codecs, sizes, times, producers.")
@click.option(
    "--resync",
    is_flag=True,
    help="Search behind damage for the next place where length, magic and CRC agree, and mark what is found.",
)
@click.option("--follow", is_flag=True, help="Keep reading as the log grows and rolls, until interrupted.")
@click.option(
    "--poll-ms",
    type=click.IntRange(min=10),
    default=500,
    show_default=True,
    metavar="MS",
    help="With --follow: milliseconds between two looks.",
)
@options.limit_options
@options.output_options
def dump_command(paths: tuple[str, ...], selection: Selection, filters: Filters, **given: Any) -> int:
    """Show what Kafka's files hold: batches, records, index entries, damage.

    PATH is a file of any kind, a partition directory, a log directory or a glob of them. A damaged place never ends the
    dump: a row stands for it, and the exit status is 4.
    """
    output = options.chosen_output(given.pop("output"))
    settings_of = {"bytes_mode": given.pop("bytes_mode"), "live": given["follow"]}
    is_following, poll_ms = given.pop("follow"), given.pop("poll_ms")
    given["level"] = _level(given["level"], filters)
    if is_following and (given["stats"] or given["newest_first"]):
        raise click.UsageError("--follow goes with neither --stats nor --newest-first")
    if (given["stats"] or given["level"] == "segments") and (given["committed"] or filters != Filters()):
        raise click.UsageError("--stats and --segments count whole logs: they go with neither --committed nor filters")
    request = DumpRequest(targets=tuple(resolve(paths, selection)), filters=filters, **given)
    writer = open_writer(output, Settings(tables=row_types(request), **settings_of))
    if not kernels.COMPILED:
        click.echo("kafkalog: no compiled kernels here; the interpreted ones are about 100 times slower", err=True)
    report = Report()
    with open_progress(shares_terminal=sys.stdout.isatty() and not request.stats) as progress:
        if is_following:
            with Interruption() as interruption:
                chunks = follow(request, report, wait=lambda: interruption.wait(poll_ms / 1000))
                _write_all(writer, takewhile(lambda _: not interruption.is_noted(), chunks), report)
        else:
            _write_all(writer, dump(request, report, progress), report)
    writer.finish(report.summary_row())
    return int(report.exit_status)


def _write_all(writer: Writer, chunks: Iterable[Chunk], report: Report) -> None:
    """Write every chunk; where one cannot be had, what was written is brought to its end before that is said."""
    try:
        for chunk in chunks:
            writer.write(chunk)
    except KafkalogError:
        if report.rows:
            writer.finish(report.summary_row() | {"exit_status": int(ExitStatus.REFUSED)})
        raise


def row_types(request: DumpRequest) -> tuple[Table, ...]:
    """The row types that a dump may yield; a KRaft snapshot among the files gives records where no level is its own."""
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
