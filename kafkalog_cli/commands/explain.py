"""`kafkalog explain`: the meaning of a code, and of a line of a broker's log."""

from __future__ import annotations

import gzip
import re
import sys
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.render.explanations import code_lines, digest_lines, entry_lines, heading_lines
from kafkalog_cli.render.writers import RowSettings, open_writer
from kafkalog_core.errors import AccessError
from kafkalog_core.kafka.releases import LATEST
from kafkalog_core.ops.explain import LINE_CHARACTERS, Digest, entries, explained, near
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.explain import Entry, Heading
    from kafkalog_core.rows.tables import Table

__all__ = ["explain_command"]

EXAMPLES = (
    Example("kafkalog explain crc-mismatch", "What a code means"),
    Example(
        'kafkalog explain "Corruption found in segment 0, truncating to offset 606"',
        "What a line of a broker's log means",
    ),
    Example("kafkalog explain --log /var/log/kafka/server.log", "What a whole log reports about the disks"),
    Example("journalctl -u kafka | kafkalog explain --log -", "The same, from another program"),
)
NOT_KNOWN: Final = (
    "kafkalog: no message about a log directory that kafkalog knows. If the broker does not start, "
    "kafkalog verify LOG_DIR shows what is wrong with the disk."
)
_HELP: Final = f"""Explain a code of kafkalog, or a line of a broker's log.

CODE is the code of a finding (segment.gap), a reason of damage (crc-mismatch), a message (broker.stray), or the part
before the dot of a code, which shows all codes of that subject. Without CODE all codes are listed, one on each line.

LINE is one or more lines of a broker's log, as any release from 0.8 to {LATEST} writes them. The output shows what
happened, why, what the broker did, and what to run next. The exit status is 3 if no line is recognised. --log shows
each message of a log once, the most severe first, with its line numbers.
"""
_CODE: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")
_GZIP: Final = b"\x1f\x8b"


@click.command(
    name="explain",
    cls=Command,
    help=_HELP,
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED),
)
@click.argument("words", metavar="[CODE | LINE]", nargs=-1)
@click.option(
    "--log",
    metavar="FILE",
    type=click.Path(readable=False, allow_dash=True),
    help="Read a whole log of a broker, plain or gzip; - is standard input.",
)
@click.option(
    "--output",
    type=click.Choice(("table", "json", "ndjson", "csv")),
    default="table",
    show_default=True,
    help="Form of the result.",
)
def explain_command(words: tuple[str, ...], log: str | None, output: str) -> int:
    """Run `kafkalog explain`; return the exit status. Its help is `_HELP`."""
    text = " ".join(words)
    if log is not None:
        if words:
            raise click.UsageError("--log FILE cannot be combined with CODE or LINE")
        return _explain_log(log, output)
    if not text:
        return _show(tables.EXPLANATION, entries().values(), output, code_lines(entries().values()))
    if _CODE.fullmatch(text):
        return _explain_code(text, output)
    return _explain_lines(text, output)


def _explain_code(code: str, output: str) -> int:
    found = explained(code)
    if not found:
        names = near(code)
        hint = f"; is one of these meant? {', '.join(names)}" if names else "; kafkalog explain lists all codes"
        raise click.UsageError(f"no code {code}{hint}")
    return _show(tables.EXPLANATION, found, output, entry_lines(found))


def _explain_lines(text: str, output: str) -> int:
    digest = Digest().take(text.splitlines())
    headings = digest.headings()
    if len(headings) == 1 and digest.lines == 1:
        return _show(tables.BROKER_MESSAGE, headings, output, heading_lines(headings[0]))
    return _show_digest(digest, "the text", output)


def _explain_log(path: str, output: str) -> int:
    try:
        if path == "-":
            digest = Digest().take(_lines(sys.stdin.buffer))
        else:
            with open(path, "rb") as plain:
                is_gzip = plain.peek(len(_GZIP)).startswith(_GZIP)
                stream = cast("BinaryIO", gzip.GzipFile(fileobj=plain)) if is_gzip else plain
                digest = Digest().take(_lines(stream))
    except (EOFError, gzip.BadGzipFile) as error:
        raise AccessError(f"not a complete gzip file: {error}", path=path) from error
    except OSError as error:
        raise open_error(path, error) from error
    return _show_digest(digest, "standard input" if path == "-" else path, output)


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a log, cut at the length of the longest message."""
    while line := stream.readline(LINE_CHARACTERS):
        yield line.decode("utf-8", "replace")
        while line and not line.endswith(b"\n"):
            line = stream.readline(LINE_CHARACTERS)


def _show_digest(digest: Digest, source: str, output: str) -> int:
    status = ExitStatus.CLEAN if digest.recognised else ExitStatus.REFUSED
    lines = digest_lines(digest, source) if digest.recognised else ()
    _show(tables.BROKER_MESSAGE, digest.headings(), output, lines, status)
    if not digest.recognised:
        click.echo(NOT_KNOWN, err=True)
    return status


def _show(
    table: Table,
    items: Iterable[Entry | Heading],
    output: str,
    lines: Iterable[str],
    status: ExitStatus = ExitStatus.CLEAN,
) -> int:
    """Print lines for a person, or rows and the summary; return the exit status."""
    if output == "table":
        for line in lines:
            click.echo(line)
        return status
    rows = [item.row() for item in items]
    writer = open_writer(output, RowSettings(tables=(table,)))
    writer.write(RowChunk(table, rows))
    report = Report()
    report.rows = len(rows)
    writer.finish(report.summary_row() | {"exit_status": int(status)})
    return status
