"""`kafkalog seek`: where a record is, by its offset, its time or its position."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.running import Interruption, clock_ms, early_end
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.kafka import kafka_option
from kafkalog_cli.options.reading import input_storage_option, reading_options
from kafkalog_cli.render.writers import RowSettings, open_writer
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.seek import SeekQuestion, SeekRequest, seek
from kafkalog_core.output import tables

if TYPE_CHECKING:
    from kafkalog_cli.render.writers import Writer
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.filters.expression import Filters

__all__ = ["seek_command"]

EXAMPLES = (
    Example("kafkalog seek --offset 4200 /var/lib/kafka/orders-0", "The segment, batch and position of an offset"),
    Example(
        "kafkalog seek --timestamp 2026-11-21T02:15 --topic 'pay*' /var/lib/kafka",
        "The first offset since a point in time, for each partition of some topics",
    ),
    Example(
        "kafkalog seek --offset 4200 --explain /var/lib/kafka/orders-0",
        "How the answer was found: segments, index entries and pages, bytes",
    ),
    Example(
        "kafkalog seek --offset 4200 --read 1MiB /var/lib/kafka/orders-0",
        "What a fetch of 1 MiB from this offset returns",
    ),
    Example(
        "kafkalog seek --position 17230 /var/lib/kafka/orders-0/00000000000000004096.log", "The batch at a position"
    ),
    Example(
        "kafkalog seek --key customer-17 --timestamp 2026-11-21 /var/lib/kafka/orders-0",
        "The first record of a key since a day",
    ),
    Example(
        "kafkalog seek --before -1 --max 5 /var/lib/kafka/orders-0",
        "The last segments, as the oldest clients request them",
    ),
)
DEFAULT_MAX_READ_BYTES: Final = "50MiB"  # fetch.max.bytes of Kafka's brokers and consumers
_BEFORE: Final = re.compile(r"-[12]")
_ANSWERS: Final = frozenset({"found", "next", "end"})


def parse_before(text: str) -> int:
    """Return -1 (latest), -2 (earliest), or a time in milliseconds since 1970."""
    return int(text) if _BEFORE.fullmatch(text.strip()) else common.parse_time_ms(text)


@click.command(
    name="seek", cls=Command, own=("--explain",), reads_objects=True, examples=EXAMPLES, exit_statuses=tuple(ExitStatus)
)
@common.targets_argument
@click.option(
    "--offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="The first record at or after offset N (Kafka 0.7: at byte address N).",
)
@click.option(
    "--timestamp",
    type=common.parse_time_ms,
    metavar="T",
    help=(
        "The first record, in offset order, with a timestamp of T or later: ISO 8601, UTC unless a zone is given, "
        "or milliseconds since 1970 (12 digits and more)."
    ),
)
@click.option(
    "--position",
    type=click.IntRange(min=0),
    metavar="P",
    help="The batch that contains byte P of a log file; the first byte is 0.",
)
@click.option("--earliest", is_flag=True, help="The first record that a broker serves: at the log start offset.")
@click.option("--latest", is_flag=True, help="The log end offset: the offset that the next record would get.")
@click.option(
    "--before",
    type=parse_before,
    metavar="T|-1|-2",
    help=(
        "As the oldest clients request offsets: base offsets of segments that were last modified at or before T, the "
        "largest first. -1: all, with the log end offset first; -2: only the first segment."
    ),
)
@click.option(
    "--max",
    "count",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="With --before: maximum number of offsets.",
)
@click.option(
    "--read",
    "read_bytes",
    type=common.parse_size,
    metavar="SIZE",
    help=(
        "Also show what a fetch of this size from the record on returns: whole batches, and the cut batch at the end. "
        "Since 0.10.1 the first batch is returned whole, however large it is. Bytes, or 64KiB, 1m (powers of 1024)."
    ),
)
@click.option(
    "--max-read-bytes",
    type=common.parse_size,
    default=DEFAULT_MAX_READ_BYTES,
    show_default=True,
    metavar="SIZE",
    help="With --read, 0.7 to 0.10.0: a client doubles the fetch size up to this limit for a larger message.",
)
@common.content_options
@click.option("--explain", is_flag=True, help="Show each step: segments, index slots and 4 KiB pages, bytes read.")
@kafka_option
@common.selection_options
@common.limit_options
@reading_options
@input_storage_option
@common.output_option
def seek_command(paths: tuple[str, ...], selection: Selection, filters: Filters, **given: Any) -> int:
    """Find a record by its offset, its time, its position or its content, with the help of the indexes.

    PATH is a partition directory, a log directory, a log file or a glob of them; each log gives an answer. The answer
    comes from the log: kafkalog uses an index entry only if the log agrees with it. A broker trusts its indexes and
    searches one segment for a time; a finding reports where it would answer differently.

    With a filter on keys, values or headers, the answer is the first record that the filters select, from the offset or
    time on, or in the whole log. No index helps there: the log is read up to that record.

    The exit status is 3 if no log has an answer: the offset is out of range, or no record is that late. It is 4 if
    kafkalog found damage on the way.
    """
    question = _question(given, filters)
    request = SeekRequest(
        targets=resolve_all(paths, selection),
        question=question,
        filters=filters,
        now_ms=clock_ms(),
        read_bytes=given["read_bytes"],
        max_read_bytes=given["max_read_bytes"],
        explain=given["explain"],
        kafka=given["kafka"],
        max_batch_bytes=given["max_batch_bytes"],
    )
    shown = (tables.SEEK, tables.FETCH, tables.BATCH) if request.read_bytes is not None else (tables.SEEK,)
    writer = open_writer(given["output"], RowSettings(tables=(*shown, tables.DAMAGE, tables.FINDING)))
    return _write_all(writer, request)


def _write_all(writer: Writer, request: SeekRequest) -> int:
    """Write every chunk and the summary; return the exit status. An error is raised after what is known by then."""
    report = Report()
    has_answer = False
    with early_end(writer, report), Interruption() as interruption:
        for chunk in seek(request, report):
            writer.write(chunk)
            has_answer |= chunk.table is tables.SEEK and any(row["outcome"] in _ANSWERS for row in chunk.rows())
            interruption.check()
    status = int(report.exit_status) or int(ExitStatus.CLEAN if has_answer else ExitStatus.REFUSED)
    writer.finish(report.summary_row() | {"exit_status": status, "no_answer": not has_answer})
    return status


def _question(given: dict[str, Any], filters: Filters) -> SeekQuestion:
    """Return the question; a filter alone asks for its first record. Raises UsageError unless there is exactly one."""
    asked = [kind for kind in ("offset", "timestamp", "position", "before") if given[kind] is not None]
    asked += [kind for kind in ("earliest", "latest") if given[kind]]
    if filters.looks_at_content:
        asked = asked or ["earliest"]
        if asked[0] in {"position", "before", "latest"}:
            raise click.UsageError(f"--{asked[0]} asks for one place; filters on keys, values and headers do not apply")
    if len(asked) != 1:
        raise click.UsageError("give one of --offset, --timestamp, --position, --earliest, --latest and --before")
    kind = asked[0]
    if kind == "before" and given["read_bytes"] is not None:
        raise click.UsageError("--before gives offsets of segments; --read cannot be combined with it")
    value = 0 if kind in {"earliest", "latest"} else given[kind]
    return SeekQuestion(cast("Any", kind), value, given["count"])
