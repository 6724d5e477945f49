"""`kafkalog explain`: the meaning of a code, and of a line of a broker's log."""

from __future__ import annotations

import gzip
import re
import sys
import textwrap
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO, cast

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.options import common
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.grid import line_width
from kafkalog_cli.render.summary import command_text
from kafkalog_cli.render.writers import RowSettings, open_writer
from kafkalog_core.command_lines import shell_path
from kafkalog_core.engine.report import Report
from kafkalog_core.errors import AccessError
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.ops.explain import LINE_CHARACTERS, Digest, candidates, entries, explained, near
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.access import open_error
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.explain import Entry, Heading
    from kafkalog_core.output.tables import Table

__all__ = ["code_lines", "digest_lines", "entry_lines", "explain_command", "heading_lines"]


EXAMPLES = (
    Example("kafkalog explain crc-mismatch", "What a code means"),
    Example("kafkalog explain crc", "All codes with a word in them"),
    Example(
        'kafkalog explain "Corruption found in segment 0, truncating to offset 606"',
        "What a line of a broker's log means",
    ),
    Example("kafkalog explain --log /var/log/kafka/server.log", "What a whole log reports about the disks"),
    Example("journalctl -u kafka | kafkalog explain", "The same, from another program"),
)
NOT_KNOWN: Final = (
    "kafkalog: this message is not known, so its cause is unknown here. To see whether the disk is the cause: "
    "kafkalog preflight LOG_DIR, or kafkalog verify LOG_DIR."
)
_HELP: Final = f"""Explain a code of kafkalog, or a line of a broker's log.

CODE is the code of a finding (segment.gap), a reason of damage (crc-mismatch), a message (broker.stray), or the part
before the dot of a code, which shows all codes of that subject. A word that several codes contain lists them. Without
CODE all codes are listed, one on each line.

LINE is one or more lines of a broker's log, as any release from 0.8 to {LATEST} writes them, in the layout of log4j,
Strimzi, journald or JSON. The output shows what happened, why, what the broker did, and what to run next. The exit
status is 3 if no line is recognised. --log shows each message of a log once, the most severe first, with its line
numbers. The same is shown of lines on standard input.
"""
_CODE: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")
_GZIP: Final = b"\x1f\x8b"


@click.command(
    name="explain",
    cls=Command,
    own=("--output",),
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
@common.output_option
def explain_command(words: tuple[str, ...], log: str | None, output: str) -> int:
    """Run `kafkalog explain`; return the exit status. Its help is `_HELP`."""
    text = " ".join(words)
    if log is not None:
        if words:
            raise click.UsageError("--log FILE cannot be combined with CODE or LINE")
        return _explain_log(log, output)
    if not text and (first := _first_given()):
        return _show_digest(Digest().take(_lines(sys.stdin.buffer, first)), "standard input", output)
    if not text:
        return _show(tables.EXPLANATION, entries().values(), output, code_lines(entries().values()))
    if _CODE.fullmatch(text):
        return _explain_code(text, output)
    return _explain_lines(text, output)


def _explain_code(code: str, output: str) -> int:
    found = explained(code)
    if not found and len(found := candidates(code)) > 1:
        return _show(tables.EXPLANATION, found, output, code_lines(found))
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


def _first_given() -> bytes:
    """Return the first line of standard input; nothing if that is a terminal, closed or empty."""
    stdin = cast("TextIO | None", sys.stdin)
    return b"" if stdin is None or stdin.isatty() else stdin.buffer.readline(LINE_CHARACTERS)


def _lines(stream: BinaryIO, first: bytes = b"") -> Iterator[str]:
    """Yield the lines of a log, cut at the length of the longest message; first: the line that was read before."""
    while line := first or stream.readline(LINE_CHARACTERS):
        first = b""
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


MAX_WIDTH: Final = 120
_LABEL: Final = 10
_FIELDS: Final = (("what", "happened"), ("why", "why"), ("broker", "broker_action"), ("do", "cure"))


def entry_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of each entry in full."""
    for entry in entries:
        yield f"{entry.code}  ({entry.kind}, {entry.severity})"
        if entry.message != entry.meaning:
            yield from _labelled("says", entry.message)
        yield from _labelled("means", entry.meaning)
        yield from _labelled("broker", entry.broker_action)
        yield from _labelled("cure", entry.cure)
        yield ""


def code_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield a line for each entry: code, severity, and the beginning of its meaning."""
    listed = list(entries)
    longest = max(len(entry.code) for entry in listed)
    for entry in listed:
        start = f"{entry.code:{longest}}  {entry.severity:7}  "
        yield start + textwrap.shorten(entry.meaning, max(_width() - len(start), 20), placeholder=" ...")


def heading_lines(heading: Heading) -> Iterator[str]:
    """Yield the lines of one message: what it means and what to do next."""
    row = heading.row()
    if heading.message.is_elsewhere:
        yield f"Not about the log directory: {heading.message.name}"
    else:
        yield f"{heading.message.severity.upper()}  {heading.message.name}"
    for label, name in _FIELDS:
        yield from _labelled(label, safe_text(str(row[name])))
    yield from _commands(row)


def digest_lines(digest: Digest, source: str) -> Iterator[str]:
    """Yield the lines of all messages of a log, the most severe first, then the lines that were not recognised."""
    headings = digest.headings()
    severe = [heading for heading in headings if heading.message.severity != "info"]
    quiet = [heading for heading in headings if heading.message.severity == "info" and not heading.message.is_elsewhere]
    elsewhere = [heading for heading in headings if heading.message.is_elsewhere]
    yield f"{safe_text(source)}: {count_of(digest.lines, 'line')}, {digest.recognised} of them recognised"
    for heading in severe:
        yield ""
        yield f"{heading.message.severity.upper():7}  {heading.message.name}: {_lines_of(heading)}"
        row = heading.row()
        yield from _labelled("line", safe_text(heading.sample))
        for label, name in _FIELDS:
            yield from _labelled(label, safe_text(str(row[name])))
        if heading.count > 1 and heading.places:
            yield from _labelled("where", ", ".join(map(safe_text, heading.places)) + " ..." * heading.has_more_places)
        yield from _commands(row)
    yield from _quiet_lines("Normal operation:", quiet)
    yield from _quiet_lines("Not about the log directory:", elsewhere)
    if digest.unknown:
        yield ""
        yield f"Not recognised: {count_of(digest.unknown, 'line')} of level WARN, ERROR or FATAL"
        yield from (f"  line {number}: {safe_text(text)}" for number, text in digest.unknown_samples)
        place = "LOG_DIR" if digest.log_dir is None else shell_path(digest.log_dir)
        yield f"  Their cause is unknown here. To see whether the disk is the cause: kafkalog preflight {place}"


def _quiet_lines(title: str, headings: list[Heading]) -> Iterator[str]:
    if headings:
        yield ""
        yield title
        yield from (f"  {heading.message.name}: {_lines_of(heading)}" for heading in headings)


def _lines_of(heading: Heading) -> str:
    if heading.count == 1:
        return f"line {heading.first_line}"
    return f"{heading.count} times, lines {heading.first_line} to {heading.last_line}"


def _commands(row: dict[str, object]) -> Iterator[str]:
    """Yield command lines, which are never broken, and the codes to look up."""
    for command in str(row["commands"]).splitlines():
        yield f"{'  run':{_LABEL}}{command_text(command)}"
    if row["codes"]:
        yield from _labelled("see", f"kafkalog explain CODE, for {row['codes']}")


def _labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _width(),
        initial_indent=f"{'  ' + label:{_LABEL}}",
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _width() -> int:
    return min(line_width(), MAX_WIDTH) if sys.stdout.isatty() else line_width()
