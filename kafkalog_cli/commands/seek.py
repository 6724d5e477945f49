"""`kafkalog seek`: where a record is, by offset, time or byte."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.kafka import kafka_option
from kafkalog_cli.render.writers import Settings, open_writer
from kafkalog_cli.running import Interruption, clock_ms, early_end
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.seek.seek import SeekQuestion, SeekRequest, seek
from kafkalog_core.rows import tables

if TYPE_CHECKING:
    from kafkalog_cli.render.writers import Writer
    from kafkalog_core.ops.reading.selection import Selection

__all__ = ["seek_command"]

EXAMPLES = (
    Example("kafkalog seek --offset 4200 /var/lib/kafka/orders-0", "The segment, batch and byte of an offset"),
    Example(
        "kafkalog seek --timestamp 2026-11-21T02:15 --topic 'pay*' /var/lib/kafka",
        "Where to start reading each partition of some topics for what happened since",
    ),
    Example(
        "kafkalog seek --offset 4200 --explain /var/lib/kafka/orders-0",
        "How the answer was found: segments, index entries and pages, bytes",
    ),
    Example(
        "kafkalog seek --offset 4200 --read 1MiB /var/lib/kafka/orders-0",
        "What a consumer gets that fetches 1 MiB from there",
    ),
    Example("kafkalog seek --position 17230 /var/lib/kafka/orders-0/00000000000000004096.log", "What is at a byte"),
    Example(
        "kafkalog seek --before -1 --max 5 /var/lib/kafka/orders-0", "The last segments, as the oldest clients ask"
    ),
)
DEFAULT_MAX_READ_BYTES: Final = "50MiB"  # fetch.max.bytes of Kafka's brokers and consumers
_BEFORE: Final = re.compile(r"-[12]")
_ANSWERS: Final = frozenset({"found", "end"})


def parse_before(text: str) -> int:
    """`-1` (latest), `-2` (earliest), or a time."""
    return int(text) if _BEFORE.fullmatch(text.strip()) else common.parse_time_ms(text)


@click.command(name="seek", cls=Command, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option(
    "--offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="The first record at offset N or behind it (0.7: at byte address N).",
)
@click.option(
    "--timestamp",
    type=common.parse_time_ms,
    metavar="T",
    help=(
        "The first record, in the order of offsets, that is not earlier than T: ISO 8601, UTC unless a zone is given, "
        "or milliseconds since 1970 (12 digits and more)."
    ),
)
@click.option(
    "--position", type=click.IntRange(min=0), metavar="P", help="The batch that holds byte P of a log file, from 0."
)
@click.option("--earliest", is_flag=True, help="The first record that a broker serves: at the log start offset.")
@click.option("--latest", is_flag=True, help="The end of the log: the offset that the next record would get.")
@click.option(
    "--before",
    type=parse_before,
    metavar="T|-1|-2",
    help=(
        "As the oldest clients ask: base offsets of segments whose files were last modified at T or before, the "
        "largest first. -1: from the end of the log on down; -2: the first segment alone."
    ),
)
@click.option(
    "--max",
    "count",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="With --before: offsets to give at most.",
)
@click.option(
    "--read",
    "read_bytes",
    type=common.parse_size,
    metavar="SIZE",
    help=(
        "Also what a fetch of this size from there on returns: its whole batches, and the slice with the cut batch at "
        "its end. Since 0.10.1 the first batch comes whole, however large it is. Bytes, or 64KiB, 1m (powers of 1024)."
    ),
)
@click.option(
    "--max-read-bytes",
    type=common.parse_size,
    default=DEFAULT_MAX_READ_BYTES,
    show_default=True,
    metavar="SIZE",
    help="With --read, 0.7 to 0.10.0: a client doubles the size up to this for a message that is larger.",
)
@click.option("--explain", is_flag=True, help="Show each step: segments, index slots and 4 KiB pages, bytes read.")
@kafka_option
@common.selection_options
@common.limit_options
@common.output_option
def seek_command(paths: tuple[str, ...], selection: Selection, **given: Any) -> int:
    """Find a record: by its offset, its time or a byte, through the indexes.

    PATH is a partition directory, a log directory, a log file or a glob of them; each log gives an answer. The answer
    is what is in the log, whatever the indexes say: an entry is used only where the log agrees with it. A finding says
    where a broker, which trusts its indexes and looks for a time in one segment alone, would answer otherwise.

    The exit status is 3 where no log has what was asked for: the offset is out of range, or no record is so late. It is
    4 where damage was met on the way.
    """
    question = _question(given)
    request = SeekRequest(
        targets=resolve_all(paths, selection),
        question=question,
        now_ms=clock_ms(),
        read_bytes=given["read_bytes"],
        max_read_bytes=given["max_read_bytes"],
        explain=given["explain"],
        kafka=given["kafka"],
        max_batch_bytes=given["max_batch_bytes"],
    )
    shown = (tables.SEEK, tables.FETCH, tables.BATCH) if request.read_bytes is not None else (tables.SEEK,)
    writer = open_writer(
        common.chosen_output(given["output"]), Settings(tables=(*shown, tables.DAMAGE, tables.FINDING))
    )
    return _write_all(writer, request)


def _write_all(writer: Writer, request: SeekRequest) -> int:
    """Write every chunk and the summary; where the next one cannot be had, that is said after what is known."""
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


def _question(given: dict[str, Any]) -> SeekQuestion:
    """The one question that was asked."""
    asked = [kind for kind in ("offset", "timestamp", "position", "before") if given[kind] is not None]
    asked += [kind for kind in ("earliest", "latest") if given[kind]]
    if len(asked) != 1:
        raise click.UsageError("give one of --offset, --timestamp, --position, --earliest, --latest and --before")
    kind = asked[0]
    if kind == "before" and given["read_bytes"] is not None:
        raise click.UsageError("--before gives offsets of segments; --read goes with the other questions")
    value = 0 if kind in {"earliest", "latest"} else given[kind]
    return SeekQuestion(cast("Any", kind), value, given["count"])
