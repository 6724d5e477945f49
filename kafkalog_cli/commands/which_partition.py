"""`kafkalog which-partition`: the partition of groups, transactional ids, share groups and keys."""

from __future__ import annotations

import sys
from itertools import product
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.options import common
from kafkalog_cli.render.cells import bytes_cell, safe_text
from kafkalog_cli.render.writers import RowSettings, open_writer
from kafkalog_core.engine.report import Report
from kafkalog_core.format.textfile import parse_uuid
from kafkalog_core.kafka.rules.partitioners import PARTITIONERS
from kafkalog_core.ops.which_partition import DEFAULT_PARTITIONS, Asked, answers
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["which_partition_command"]

EXAMPLES = (
    Example("kafkalog which-partition --group payments", "The partition of __consumer_offsets with a group's commits"),
    Example(
        "kafkalog which-partition --transactional-id tx-1 --transactional-id tx-2 --partitions 50",
        "The partitions of __transaction_state with two transactional ids",
    ),
    Example(
        "kafkalog which-partition --key customer-17 --partitions 12",
        "Where a Java producer puts the records of a key in a topic with 12 partitions",
    ),
    Example(
        "cut -f1 keys.tsv | kafkalog which-partition --key - --partitioner crc32 --partitions 12 --output csv",
        "The same of many keys, for producers on librdkafka with its default partitioner",
    ),
    Example(
        "kafkalog which-partition --share-group g --topic-id 5vYgz4rJSMa_FBhdeTtYEg --partition 0",
        "The partition of __share_group_state with the state of a share group in a partition",
    ),
)
_DASH: Final = b"-"


def _parse_topic_id(text: str) -> bytes:
    topic_id = parse_uuid(text)
    if topic_id is None:
        raise click.BadParameter(f"{text!r} is not a topic id, such as 5vYgz4rJSMa_FBhdeTtYEg: 22 letters and digits")
    return topic_id


@click.command(
    name="which-partition",
    cls=Command,
    own=("--output", "--partition"),
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED),
)
@click.option(
    "--group",
    "groups",
    type=common.command_line_bytes,
    metavar="G",
    multiple=True,
    help="A group of any type: the partition of __consumer_offsets. Repeatable; - reads names from standard input.",
)
@click.option(
    "--transactional-id",
    "transactional_ids",
    type=common.command_line_bytes,
    metavar="T",
    multiple=True,
    help="A transactional id: the partition of __transaction_state. Repeatable; - as above.",
)
@click.option(
    "--share-group",
    "share_groups",
    type=common.command_line_bytes,
    metavar="G",
    multiple=True,
    help=(
        "A share group: the partition of __share_group_state with its state in the partitions of --topic-id and "
        "--partition. Repeatable; - as above."
    ),
)
@click.option(
    "--remote-log",
    is_flag=True,
    help="The partition of __remote_log_metadata for the partitions of --topic-id and --partition.",
)
@click.option(
    "--topic-id",
    "topic_ids",
    type=_parse_topic_id,
    metavar="ID",
    multiple=True,
    help="A topic id, as partition.metadata has it. Repeatable.",
)
@click.option(
    "--partition",
    "of_partitions",
    type=click.IntRange(min=0),
    metavar="P",
    multiple=True,
    help="A partition of that topic. Repeatable.",
)
@click.option(
    "--key",
    "keys",
    type=common.command_line_bytes,
    metavar="K",
    multiple=True,
    help="The key of a record, as it was serialized. Repeatable; - as above.",
)
@click.option(
    "--key-hex",
    "hex_keys",
    type=common.parse_hex,
    metavar="HEX",
    multiple=True,
    help="The same in hexadecimal, for keys such as those of LongSerializer. Repeatable.",
)
@click.option(
    "--partitioner",
    type=click.Choice(tuple(PARTITIONERS)),
    default="murmur2",
    show_default=True,
    help=(
        "How the producer chose the partition of a key. murmur2: the Java client's default, also murmur2_random of "
        "librdkafka; java-hashcode: the Scala producer of Kafka 0.8.2 to 1.1 for String keys; crc32: librdkafka's "
        "default, consistent_random."
    ),
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1, max=2**31 - 1),
    metavar="N",
    help=f"Number of partitions of the topic; required for keys.  [default of Kafka's topics: {DEFAULT_PARTITIONS}]",
)
@common.output_option
def which_partition_command(partitions: int | None, output: str, **given: Any) -> int:
    """Compute the partition in which the records of a group, a transactional id or a key are.

    Nothing is read: the partition is the hash of the name, modulo the number of partitions. Each line of the output has
    the partition, then the name.

    The number of partitions is the one that the topic had when the record was written: a topic that has got more
    partitions since keeps its older records where they are. The hash of a key is that of the default partitioner of the
    Java client.
    """
    asked = _asked(given)
    if partitions is None and asked[0].kind == "key":
        raise click.UsageError("--key needs --partitions N, the number of partitions of its topic")
    rows = list(answers(asked, partitions or DEFAULT_PARTITIONS))
    if output == "table":
        for line in _lines(rows):
            click.echo(line)
        return int(ExitStatus.CLEAN)
    writer = open_writer(output, RowSettings(tables=(tables.WHICH_PARTITION,)))
    writer.write(RowChunk(tables.WHICH_PARTITION, rows))
    report = Report()
    report.rows = len(rows)
    writer.finish(report.summary_row())
    return int(ExitStatus.CLEAN)


def _asked(given: dict[str, Any]) -> list[Asked]:
    """Return what is asked for. Raises UsageError unless it is of one kind."""
    keys = [*given["keys"], *given["hex_keys"]]
    kinds = {
        "--group": given["groups"],
        "--transactional-id": given["transactional_ids"],
        "--share-group": given["share_groups"],
        "--remote-log": given["remote_log"],
        "--key": keys,
    }
    found = [name for name, values in kinds.items() if values]
    if len(found) != 1:
        raise click.UsageError(f"give one of {', '.join(kinds)}")
    kind, places = found[0], list(product(given["topic_ids"], given["of_partitions"]))
    if kind in {"--share-group", "--remote-log"}:
        if not places:
            raise click.UsageError(
                f"{kind} needs --topic-id ID and --partition P: each partition has a place of its own"
            )
    elif given["topic_ids"] or given["of_partitions"]:
        raise click.UsageError(f"--topic-id and --partition do not apply to {kind}")
    return list(_questions(kind, given, places)) or _nothing_given()


def _questions(kind: str, given: dict[str, Any], places: list[tuple[bytes, int]]) -> Iterator[Asked]:
    if kind == "--group":
        yield from (Asked(kind="group", name=name) for name in _values(given["groups"]))
    elif kind == "--transactional-id":
        yield from (Asked(kind="transactional_id", name=name) for name in _values(given["transactional_ids"]))
    elif kind == "--share-group":
        for name, (topic_id, partition) in product(_values(given["share_groups"]), places):
            yield Asked(kind="share_state", name=name, topic_id=topic_id, partition=partition)
    elif kind == "--remote-log":
        yield from (Asked(kind="remote_log", topic_id=topic_id, partition=number) for topic_id, number in places)
    else:
        for key in (*_values(given["keys"]), *given["hex_keys"]):
            yield Asked(kind="key", name=key, partitioner=given["partitioner"])


def _values(given: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the values; for a `-` the lines of standard input instead."""
    for value in given:
        if value != _DASH:
            yield value
            continue
        stdin = cast("TextIO | None", sys.stdin)
        stream: Iterable[bytes] = () if stdin is None else stdin.buffer
        yield from (line.removesuffix(b"\n").removesuffix(b"\r") for line in stream)


def _nothing_given() -> list[Asked]:
    raise click.UsageError("standard input has no line")


def _lines(rows: Iterable[dict[str, object]]) -> Iterator[str]:
    """Yield a line for each answer: the partition, for Kafka's own topics its directory, then the name."""
    for row in rows:
        place = str(row["partition"]) if row["topic"] is None else f"{row['topic']}-{row['partition']}"
        name = safe_text(str(row["name"])) if row["key"] is None else bytes_cell(cast("bytes", row["key"]))
        yield f"{place}  {name}"
