"""`kafkalog dump`: batches, records, index entries and damage."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog_cli.command import Command, Example, ExitStatus, OptionalValue
from kafkalog_cli.commands.running import Interruption, StoppableProgress, cores, early_end, warn_of_interpreted
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import kafka_option
from kafkalog_cli.options.reading import input_storage_option, reading_options
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.progress import end_progress, open_progress
from kafkalog_cli.render.writers import RowSettings, open_writer, writer_going_on
from kafkalog_cli.short_lines import OptionLine
from kafkalog_cli.standard_streams import ReaderGoneError, ends_with_reader, has_reader
from kafkalog_core.engine.decoded import AUTO, NO_DECODING, text_decoder
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import FileTarget, LogDirTarget, partition_names, resolve, same_partitions
from kafkalog_core.filters.expression import Filters
from kafkalog_core.format.names import LOG_KINDS, DirectoryState
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.output import tables
from kafkalog_core.storage.paths import is_object
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of
from kafkalog_core.topics.record_decoders import DECODED_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.output.tables import Table
    from kafkalog_core.storage.logdir import PartitionPath

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
        "What a read_committed consumer would get from some topics, as JSON",
    ),
    Example(
        "kafkalog dump --contains 4711 --ignore-case --before 2 --after 2 /var/lib/kafka/orders-0",
        "Records with a text in key, value or headers, each with the two before and after it",
    ),
    Example("kafkalog dump --value-regex 'timeout|refused' --count /var/lib/kafka", "How many records match"),
    Example("kafkalog dump --segments --files --output json /var/lib/kafka", "A census of a whole log directory"),
    Example("kafkalog dump --records --resync broken.log", "Records after damage too"),
)
LINES: Final = (
    OptionLine(("--segments", "--batches", "--records"), "--segments, --batches, --records", "a row for each of these"),
    OptionLine(("--files",), "--files", "also indexes, snapshots, checkpoints"),
    OptionLine(("--offsets",), "--offsets A..B", "both included; also A.. or ..B or A"),
    OptionLine(("--positions",), "--positions A..B", "batches at these bytes of their file"),
    OptionLine(("--times",), "--times A..B", "ISO 8601 (UTC), or ms since 1970"),
    OptionLine(("--key", "--key-hex", "--key-regex"), "--key, --key-hex, --key-regex", "only records with this key"),
    OptionLine(
        ("--value", "--value-hex", "--value-regex"),
        "--value, --value-hex, --value-regex",
        "only records with this value",
    ),
    OptionLine(("--header",), "--header KEY[=VALUE]", "only records with this header"),
    OptionLine(("--contains",), "--contains TEXT", "TEXT in key, value or headers"),
    OptionLine(("--ignore-case", "--invert"), "--ignore-case, --invert", "letters of either case; the others"),
    OptionLine(("--producer-id", "--codec"), "--producer-id ID, --codec CODEC", "only such batches"),
    OptionLine(
        ("--transactional", "--control"), "--[no-]transactional, --[no-]control", "only such batches, or no such"
    ),
    OptionLine(("--committed",), "--committed[=high-watermark]", "what a read_committed consumer gets"),
    OptionLine(("--limit", "--max-count"), "--limit N, --max-count N", "N rows in all, N records a partition"),
    OptionLine(("--before", "--after"), "--before N, --after N", "also N records around each"),
    OptionLine(("--count", "--stats"), "--count, --stats", "how many, or statistics, not rows"),
    OptionLine(("--decode",), "--decode auto|none|TOPIC", "what records of Kafka's own topics say"),
    OptionLine(("--newest-first", "--path"), "--newest-first, --path", "highest offsets first; the files' paths"),
    OptionLine(("--resync",), "--resync", "also what is after damage, marked"),
    OptionLine(("--follow", "--poll-ms"), "--follow, --poll-ms MS", "go on as the log grows"),
    OptionLine(("--jobs",), "--jobs N", "processes that read  [default: cores]"),
)
"""Short lines for --help; a test holds them to the options below, and the help to two screens."""


@click.command(
    name="dump",
    cls=Command,
    reads_objects=True,
    lines=LINES,
    own=("--jobs",),
    examples=EXAMPLES,
    exit_statuses=tuple(ExitStatus),
)
@common.targets_argument
@click.option("--segments", "level", flag_value="segments", help="One row for each segment.")
@click.option("--batches", "level", flag_value="batches", help="One row for each batch. This is the default for logs.")
@click.option(
    "--records",
    "level",
    flag_value="records",
    help="One row for each record. This is the default with a filter on keys, values or headers.",
)
@click.option(
    "--files",
    is_flag=True,
    help=(
        "Also show the entries of indexes, producer snapshots, checkpoints and property files. --limit counts them "
        "too; filters do not apply to them."
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
        "Only what a read_committed consumer gets: no aborted and no open transactions. Up to the log end offset, or "
        "up to the high watermark in the broker's checkpoint."
    ),
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Stop after N rows, including entries of --files; damage and findings are not counted.",
)
@click.option(
    "--count",
    "counts",
    is_flag=True,
    help="Instead of records, one row for each partition or named log file: the number of records that are selected.",
)
@click.option(
    "--max-count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop reading a partition or a named log file after N selected records. --limit counts the rows of all.",
)
@click.option(
    "--before",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help=(
        "Also show the N records before each selected one, in the order of the output: of the same partition, within "
        "the ranges, and whatever their keys, values and headers are."
    ),
)
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Also show the N records after each selected one.",
)
@click.option(
    "--decode",
    type=click.Choice((AUTO, NO_DECODING, *DECODED_TOPICS)),
    default=AUTO,
    show_default=True,
    metavar="auto|none|TOPIC",
    help=(
        "What the keys and values of Kafka's own topics say, in added columns. TOPIC, one of "
        f"{', '.join(DECODED_TOPICS)}: all files hold records of it, whatever their directories are called. Filters "
        "always test the bytes."
    ),
)
@click.option("--newest-first", is_flag=True, help="Highest offsets first.")
@click.option(
    "--stats", is_flag=True, help="Statistics instead of rows: counts, bytes, codecs, sizes, times, producers."
)
@click.option(
    "--resync",
    is_flag=True,
    help="After damage, search for the next batch whose length, magic and CRC are valid; rows after it are marked.",
)
@click.option(
    "--follow",
    is_flag=True,
    help=(
        "Keep reading as the log grows and rolls, until interrupted, also in partitions that are created later. An "
        "incomplete last batch is reported as damage only at the end. If a follower truncates its log and fetches "
        "again, all new rows are shown, and some rows before them may be shown again (file.shrank)."
    ),
)
@click.option(
    "--poll-ms",
    type=click.IntRange(min=10),
    default=500,
    show_default=True,
    metavar="MS",
    help="With --follow: milliseconds between two checks for new data.",
)
@kafka_option
@common.limit_options
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help=(
        "Processes that read large logs at the same time, for batches and records as ndjson or csv. Rows wait for "
        "their turn in temporary files, in the directory that TMPDIR names: at least 24 MiB in all for each process; "
        "rows over 4 MiB need more. Where that space or hard links are missing, one process reads, with a warning. "
        "One process reads for table output, s3://, --follow, --committed, --newest-first, --limit, --max-count, "
        "--before, --after, --segments and --stats. A file of Kafka 0.7, and with --resync any file, is read by one.  "
        "[default: the number of cores]"
    ),
)
@click.option(
    "--path",
    is_flag=True,
    help="Add a column with the path of the file. It distinguishes two directories of one partition.",
)
@reading_options
@input_storage_option
@common.row_options
def dump_command(paths: tuple[str, ...], selection: Selection, filters: Filters, **given: Any) -> int:
    """Show the contents of Kafka's files: batches, records, index entries, damage.

    PATH is a file, a partition, a log directory or a glob, also s3://BUCKET/PREFIX. In a table "3/0 #12" is producer id
    3, producer epoch 0, sequence 12; ABORTED, OPEN: read_committed consumers do not get it.

    Damage never ends the dump: it is reported as a row, and the exit status is 4. The exit status is 3 if one of
    several PATHs cannot be read; the others are shown nevertheless.

    The columns of a table that an option asks for are kept on a narrow terminal: with --offsets the leader epoch, the
    producer and the time, with --codec the codec. A line below the table names the columns that have no room.
    """
    output: str = given.pop("output")
    settings_of = {"bytes_mode": given.pop("bytes_mode"), "live": given["follow"]}
    given["level"] = _level(given["level"], filters, given)
    given["kafka"] = None if given["kafka"] is None else parse_release(given["kafka"])
    _check_together(given, filters)
    is_in_store = any(map(is_object, paths))
    if given["follow"] and is_in_store:
        raise click.UsageError(
            "--follow waits until a broker appends to its files; objects never grow: name a directory"
        )
    is_following, poll_ms, jobs = given.pop("follow"), given.pop("poll_ms"), given.pop("jobs") or cores()
    report = Report()
    targets = resolve_readable(paths, selection, report)
    given["path"] = _needs_path(given["path"], output, same_partitions(targets))
    request = DumpRequest(targets=targets, filters=filters, **given)
    warn_of_interpreted()
    with (
        ends_with_reader(report.note_written),
        Interruption() as interruption,
        open_progress(shares_terminal=sys.stdout.isatty() and not request.stats) as progress,
    ):
        settings = RowSettings(
            tables=row_types(request, is_following=is_following), kept=_asked_columns(filters), **settings_of
        )
        if output == "table" and not is_following:
            from kafkalog_core.kafka.sim.outcomes import LogOutcomes  # noqa: PLC0415 -- for a table alone

            settings = replace(settings, transactions=LogOutcomes(targets), notes=_notes(targets))
        writer, stoppable = open_writer(output, settings), StoppableProgress(progress, interruption)
        is_shared = jobs > 1 and not is_following and not is_in_store and request.comes_batch_by_batch
        going_on = writer_going_on(output, settings) if is_shared else None
        if is_following:
            from kafkalog_core.ops.dump.follow import follow  # noqa: PLC0415 -- as below

            chunks = follow(
                request,
                report,
                wait=lambda: interruption.wait(poll_ms / 1000),
                is_over=interruption.is_noted,
                targets=lambda: resolve(paths, selection, on_refusal=lambda _: None),
            )
        else:
            chunks = _until(interruption, dump(request, report, stoppable))
        with early_end(writer, report):
            if going_on is not None and (descriptor := _descriptor()) is not None:
                from kafkalog_core.ops.dump import parallel  # noqa: PLC0415 - most dumps take less time than its import

                to = parallel.RowOutput(descriptor, writer, sys.stdout.flush, going_on, _warn)
                try:
                    parallel.dump_in_parallel(request, report, stoppable, to, jobs=jobs)
                except BrokenPipeError as error:  # of standard output, to whose descriptor parallel rows are written
                    raise ReaderGoneError from error
            else:
                for chunk in chunks:
                    writer.write(chunk)
        end_progress()
        writer.finish(report.summary_row())
    return int(report.exit_status if has_reader() else report.written_status)


def _warn(text: str) -> None:
    click.echo(f"kafkalog: warning: {text}", err=True)


_OF_PRODUCERS: Final = frozenset({"producer", "notes"})
_ASKED: Final[dict[str, frozenset[str]]] = {
    "offsets": frozenset({"offset", "epoch", "producer", "time (UTC)", "max time (UTC)"}),
    "positions": frozenset({"position", "batch at"}),
    "times_ms": frozenset({"time (UTC)", "max time (UTC)"}),
    "headers": frozenset({"headers"}),
    "contains": frozenset({"headers"}),
    "producer_id": _OF_PRODUCERS,
    "transactional": _OF_PRODUCERS,
    "control": _OF_PRODUCERS,
    "codec": frozenset({"codec"}),
}
"""Columns that a narrow table keeps for each filter: what it is about, and for offsets who wrote there, and when."""


def _asked_columns(filters: Filters) -> frozenset[str]:
    unset = Filters()
    given = (name for name in _ASKED if getattr(filters, name) != getattr(unset, name))
    return frozenset[str]().union(*(_ASKED[name] for name in given))


_ASIDE: Final = {
    DirectoryState.DELETE: "a broker was deleting this partition",
    DirectoryState.STRAY: "a broker has moved this partition aside as stray",
    DirectoryState.FUTURE: "a copy that a broker was moving here from another log directory",
}


def _notes(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return a sentence about each directory that is not the partition that a broker serves."""
    names = [place.name for target in targets for place in _places(target)]
    notes = [f"{name.raw}: {_ASIDE[name.state]}" for name in names if name.state in _ASIDE]
    more = len(notes) - ALIKE_SHOWN
    return (*notes[:ALIKE_SHOWN], *([f"and {count_of(more, 'more such directory')}"] if more > 0 else []))


def _places(target: Target) -> tuple[PartitionPath, ...]:
    if isinstance(target, LogDirTarget):
        return target.partitions
    return () if isinstance(target, FileTarget) else (target.place,)


def _check_together(given: dict[str, Any], filters: Filters) -> None:
    """Raise UsageError for options that exclude each other."""
    counts = given["stats"] or given["level"] == "segments"
    is_like_grep = any(given[name] for name in _LIKE_GREP)
    if given["follow"] and is_like_grep:
        raise click.UsageError("--follow cannot be combined with --count, --max-count, --before or --after")
    if given["counts"] and (given["before"] or given["after"] or given["files"]):
        raise click.UsageError("--count cannot be combined with --before, --after or --files")
    if given["follow"] and (counts or given["newest_first"] or given["committed"]):
        raise click.UsageError("--follow cannot be combined with --stats, --segments, --newest-first or --committed")
    if counts and (given["committed"] or filters != Filters()):
        raise click.UsageError(
            "--stats and --segments count whole logs; they cannot be combined with --committed or filters"
        )


def _descriptor() -> int | None:
    """Return the descriptor of standard output; None: it has none."""
    try:
        return sys.stdout.fileno()
    except (OSError, ValueError):
        return None


def _until(interruption: Interruption, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks until Ctrl-C. Raises Stopped."""
    for chunk in chunks:
        yield chunk
        interruption.check()


def _needs_path(asked: bool, output: str, alike: list[str]) -> bool:
    """Return whether rows have a path: on request, and in a table with several directories of one partition."""
    if alike and not asked and output != "table":
        shown = ", ".join(alike[:ALIKE_SHOWN]) + (f" and {more} more" if (more := len(alike) - ALIKE_SHOWN) > 0 else "")
        message = f"there are several directories of {shown}; --path adds a column that distinguishes their rows"
        click.echo(f"kafkalog: {safe_text(message)}", err=True)
    return asked or (bool(alike) and output == "table")


def row_types(request: DumpRequest, *, is_following: bool = False) -> tuple[Table, ...]:
    """Return the row types that a dump may yield."""
    found = _row_types(request)
    if tables.RECORD_V07 in found and _may_decode(request, is_following=is_following):
        found = (*found[:1], tables.RECORD_DECODED, *found[1:])
    return tuple(tables.with_path(table) if request.path else table for table in found)


def _may_decode(request: DumpRequest, *, is_following: bool) -> bool:
    """Return whether there may be records of Kafka's own topics; those that are followed may be created later."""
    topics = {topic for topic, _ in partition_names(request.targets)}
    if is_following and any(isinstance(target, LogDirTarget) for target in request.targets):
        topics.update(DECODED_TOPICS)
    return any(text_decoder(request.decode, topic) is not None for topic in topics or {None})


def _row_types(request: DumpRequest) -> tuple[Table, ...]:
    """Return the row types without paths. The KRaft snapshots among the files are shown as records."""
    level = {"segments": tables.SEGMENT, "batches": tables.BATCH, "records": tables.RECORD_V07}[request.level]
    first = tables.STATS if request.stats else tables.COUNT if request.counts else level
    entries = (tables.INDEX_ENTRY, tables.PRODUCER, tables.CHECKPOINT, tables.PROPERTY)
    if not request.files and all(
        not isinstance(target, FileTarget) or target.kind in LOG_KINDS for target in request.targets
    ):
        return (first, tables.DAMAGE, tables.FINDING)
    of_snapshots = (tables.RECORD,) if request.level == "segments" else ()
    return (first, tables.DAMAGE, tables.FINDING, *entries, *of_snapshots)


_LIKE_GREP = {"counts": "--count", "max_count": "--max-count", "before": "--before", "after": "--after"}


def _level(level: str | None, filters: Filters, given: dict[str, Any]) -> str:
    """Return the requested level; by default records if a filter or an option needs them, else batches."""
    needing = [option for name, option in _LIKE_GREP.items() if given[name]]
    if given["decode"] in DECODED_TOPICS:
        needing.append("--decode TOPIC")
    if filters.looks_at_content:
        needing.append("filters on keys, values and headers")
    if needing and level not in {None, "records"}:
        raise click.UsageError(f"{needing[0]} {'need' if needing[0][0] == 'f' else 'needs'} --records, not --{level}")
    if needing and given["stats"]:
        raise click.UsageError(f"--stats counts whole logs; it cannot be combined with {needing[0]}")
    return level or ("records" if needing else "batches")
