"""Options of most commands: paths, selection, filters, forms of output, and the types of their values.

A type is a function from the text on the command line to a value, or a usage error that describes what is expected.
"""

from __future__ import annotations

import re
import sys
import warnings
from functools import reduce, update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.command import OUTPUT_FILE, complete, error_lines
from kafkalog_cli.render.cells import safe_text
from kafkalog_core.engine import quantities
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import LogDirTarget, resolve, where_to_look
from kafkalog_core.errors import KafkalogError
from kafkalog_core.filters.expression import Filters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target

__all__ = [
    "OPEN",
    "Range",
    "command_line_bytes",
    "content_options",
    "filter_options",
    "jobs_option",
    "level_option",
    "limit_options",
    "option_type",
    "output_forms",
    "output_option",
    "parse_header",
    "parse_hex",
    "parse_pattern",
    "parse_range",
    "parse_size",
    "parse_text",
    "parse_times",
    "resolve_all",
    "resolve_readable",
    "row_options",
    "selection_options",
    "stacked",
    "targets_argument",
    "verdict_options",
]


Decorated = TypeVar("Decorated", bound="Callable[..., object]")
Value = TypeVar("Value")
Range = tuple[int | None, int | None]
"""First and last value, both inclusive; None: no limit."""

OPEN: Final[Range] = (None, None)


def command_line_bytes(text: str) -> bytes:
    """Return the bytes that the shell passed, even if they are not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def option_type(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return an option's type: the value that `parse` returns, or a usage error with the message that it raises."""

    def convert(text: str) -> Value:
        try:
            return parse(text)
        except KafkalogError as error:
            raise click.BadParameter(error.message) from None

    return convert


parse_size = option_type(quantities.parse_size)
parse_range = option_type(quantities.parse_range)
parse_times = option_type(quantities.parse_times)
parse_time_ms = option_type(quantities.parse_time_ms)


def parse_pattern(text: str) -> str:
    """Return a regular expression over bytes. Raises BadParameter for an invalid one.

    One such as `[[:alpha:]]`, which other programs read in another way, is not accepted either.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            re.compile(command_line_bytes(text))
    except FutureWarning as warning:
        raise click.BadParameter(f"{text!r} has two meanings: {warning}; write a bracket in brackets as \\[") from None
    except (re.error, OverflowError, RecursionError) as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from None
    return text


def parse_text(text: str) -> bytes:
    """Return the bytes of a text to search for, which must not be empty."""
    if not text:
        raise click.BadParameter("every record contains the empty text")
    return command_line_bytes(text)


def parse_hex(text: str) -> bytes:
    """Return the bytes of a hexadecimal text, which may have spaces between bytes."""
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not hexadecimal") from None


def parse_header(text: str) -> tuple[bytes, bytes | None]:
    """Return the key and the value of `KEY=VALUE`; the value is None for `KEY` alone: any value."""
    key, equals, value = text.partition("=")
    return command_line_bytes(key), command_line_bytes(value) if equals else None


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OUTPUTS = ("table", "json", "ndjson", "csv")
DEFAULT_MAX_BATCH_BYTES = "256MiB"


def stacked(*decorators: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Return one decorator for several; --help lists their options in this order."""
    return lambda function: reduce(lambda inner, decorator: decorator(inner), reversed(decorators), function)


def targets_argument(function: Decorated) -> Decorated:
    """Add the argument PATH..., as the shell passed it."""
    return click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False))(
        function
    )


def selection_options(function: Decorated) -> Decorated:
    """Add --topic, --topic-regex, --exclude and --partition: the command gets a `Selection`, `selection`."""

    def with_selection(*arguments: object, **options: Any) -> object:
        names = ("topics", "topic_regex", "excludes", "partitions")
        selection = Selection(**{name: options.pop(name) for name in names})
        return function(*arguments, selection=selection, **options)

    return stacked(*_SELECTION)(cast("Decorated", update_wrapper(with_selection, function)))


def filter_options(function: Decorated) -> Decorated:
    """Add filters on batches and records, all of which must hold: the command gets `Filters`, `filters`."""
    decorators = (*_RANGE_FILTERS, *_RECORD_FILTERS, *_BATCH_FILTERS)
    return stacked(*decorators)(_with_filters(function))


def content_options(function: Decorated) -> Decorated:
    """Add filters on keys, values and headers, all of which must hold: the command gets `Filters`, `filters`."""
    return stacked(*_RECORD_FILTERS)(_with_filters(function))


def _with_filters(function: Decorated) -> Decorated:
    """Return a function that takes the values of the options of filters, and passes `Filters` on."""

    def with_filters(*arguments: object, **options: Any) -> object:
        key, value = (_one_form(options.pop(name), options.pop(f"{name}_hex"), name) for name in ("key", "value"))
        ranges: dict[str, Any] = {name: options.pop(option, None) or OPEN for name, option in _RANGES.items()}
        others: dict[str, Any] = {name: options.pop(name) for name in _OTHER_FILTERS if name in options}
        filters = Filters(key=key, value=value, **ranges, **others)
        if filters.inverted and not filters.looks_at_content:
            raise click.UsageError("--invert needs a filter on keys, values or headers")
        return function(*arguments, filters=filters, **options)

    return cast("Decorated", update_wrapper(with_filters, function))


def _one_form(text: bytes | None, from_hex: bytes | None, name: str) -> bytes | None:
    if text is not None and from_hex is not None:
        raise click.UsageError(f"--{name} and --{name}-hex are two forms of the same filter; give one of them")
    return text if from_hex is None else from_hex


_SELECTION = (
    click.option(
        "--topic",
        "topics",
        metavar="GLOB",
        multiple=True,
        help="Only topics whose name matches GLOB (* ? [...]). Repeatable: any of them.",
    ),
    click.option(
        "--topic-regex",
        type=parse_pattern,
        metavar="REGEX",
        help="Only topics whose whole name matches this regular expression.",
    ),
    click.option(
        "--exclude",
        "excludes",
        metavar="GLOB",
        multiple=True,
        help="Leave out topics whose name matches GLOB, even if another option selects them. Repeatable.",
    ),
    click.option(
        "--partition",
        "partitions",
        metavar="N",
        multiple=True,
        type=click.IntRange(min=0),
        help="Only partitions with this number. Repeatable: any of them.",
    ),
)
_RANGES = {"offsets": "offsets", "positions": "positions", "times_ms": "times"}
_OTHER_FILTERS = (
    "key_regex",
    "value_regex",
    "contains",
    "headers",
    "ignores_case",
    "inverted",
    "producer_id",
    "transactional",
    "control",
    "codec",
)
_RANGE_FILTERS = (
    click.option(
        "--offsets",
        type=parse_range,
        metavar="A..B",
        help="Only Kafka offsets from A to B, both included; A.. and ..B have one limit, A is one offset.",
    ),
    click.option(
        "--positions",
        type=parse_range,
        metavar="A..B",
        help="Only batches that start at byte A to B of their file, both included.",
    ),
    click.option(
        "--times",
        type=parse_times,
        metavar="A..B",
        help=(
            "Only timestamps from A to B, both included: ISO 8601, UTC unless a zone is given, or milliseconds since "
            "1970 (12 digits and more). A last day without a time of day is included whole. A batch is shown if one of "
            "its records is in the range; if its header is not enough to know, its records are read."
        ),
    ),
)
_RECORD_FILTERS = (
    click.option("--key", type=command_line_bytes, metavar="TEXT", help="Only records with exactly this key."),
    click.option(
        "--key-hex", type=parse_hex, metavar="HEX", help="Only records with exactly this key, in hexadecimal."
    ),
    click.option(
        "--key-regex",
        type=parse_pattern,
        metavar="REGEX",
        help="Only records with a key in which this regular expression (over bytes) matches; never a null key.",
    ),
    click.option("--value", type=command_line_bytes, metavar="TEXT", help="Only records with exactly this value."),
    click.option(
        "--value-hex", type=parse_hex, metavar="HEX", help="Only records with exactly this value, in hexadecimal."
    ),
    click.option(
        "--value-regex",
        type=parse_pattern,
        metavar="REGEX",
        help="Only records with a value in which this regular expression (over bytes) matches; never a tombstone.",
    ),
    click.option(
        "--header",
        "headers",
        type=parse_header,
        metavar="KEY[=VALUE]",
        multiple=True,
        help="Only records with this header, with any value or with exactly VALUE. Repeatable: all of them.",
    ),
    click.option(
        "--contains",
        type=parse_text,
        metavar="TEXT",
        help="Only records with this text anywhere in the key, the value, or the keys and values of headers.",
    ),
    click.option(
        "--ignore-case",
        "ignores_case",
        is_flag=True,
        help=(
            "Letters of either case match in --contains, --key-regex and --value-regex; in regular expressions the "
            "letters of ASCII."
        ),
    ),
    click.option(
        "--invert",
        "inverted",
        is_flag=True,
        help=(
            "Only records that the filters on keys, values and headers do not select. Ranges and filters on batches "
            "still hold."
        ),
    ),
)
_BATCH_FILTERS = (
    click.option(
        "--producer-id",
        type=int,
        metavar="ID",
        help="Only batches with this producer id; -1: only batches without a producer id.",
    ),
    click.option(
        "--transactional/--no-transactional",
        default=None,
        help="Only batches of transactions, or only other batches.",
    ),
    click.option(
        "--control/--no-control",
        default=None,
        help="Only control batches (commit, abort, leader change, ...), or only data batches.",
    ),
    click.option("--codec", type=click.Choice(CODECS), help="Only batches with this compression codec."),
)


def limit_options(function: Decorated) -> Decorated:
    """Add --max-batch-bytes, the limit for the memory that one batch takes."""
    return click.option(
        "--max-batch-bytes",
        type=parse_size,
        default=DEFAULT_MAX_BATCH_BYTES,
        show_default=True,
        metavar="SIZE",
        help="Skip batches larger than this, compressed or decompressed: bytes, or 64KiB, 64MiB, 1g (powers of 1024).",
    )(function)


def _note_output_file(ctx: click.Context, parameter: click.Parameter, path: str | None) -> None:
    """Keep the FILE of -o for `Command.invoke`: no command knows where its standard output leads."""
    del parameter
    ctx.meta[OUTPUT_FILE] = path


def _form_options(default: str | None, help_of_default: str, forms: Sequence[str]) -> Callable[[Decorated], Decorated]:
    """Return what adds --output, --ndjson and -o, with the form that is chosen without the first two."""
    return stacked(
        click.option(
            "--output",
            type=click.Choice(tuple(forms)),
            default=default,
            help=f"Form of the result.  [default: {help_of_default}]",
        ),
        click.option(
            "--ndjson", "output", flag_value="ndjson", help="Short for --output ndjson: a JSON object a line."
        ),
        click.option(
            "-o",
            "output_file",
            metavar="FILE",
            expose_value=False,
            callback=_note_output_file,
            help="Write the result to FILE, which appears or is replaced when the result is complete.",
        ),
    )


def output_forms(*forms: str) -> Callable[[Decorated], Decorated]:
    """Return what adds --output, --ndjson and -o to a report; it is text, on a pipe too. The command gets `output`."""
    return _form_options("table", "table: text, on a pipe too", forms)


output_option = output_forms(*OUTPUTS)


_BYTES = click.option(
    "--bytes",
    "bytes_mode",
    type=click.Choice(("auto", "base64", "hex")),
    default="auto",
    show_default=True,
    help=(
        "Form of keys and values in json, ndjson and csv: auto is text for exact UTF-8 and base64 (key_b64) for other "
        "bytes, in csv also for control characters; base64 and hex (key_hex) are used for all keys and values."
    ),
)


def row_options(function: Decorated) -> Decorated:
    """Add --output, --ndjson, -o and --bytes, for a command that streams rows: a table is only for a terminal.

    The command gets `output` and `bytes_mode`.
    """

    def with_form(*arguments: object, **options: Any) -> object:
        output = options.pop("output") or ("table" if sys.stdout.isatty() else "ndjson")
        return function(*arguments, output=output, **options)

    forms = _form_options(None, "table on a terminal, else ndjson", OUTPUTS)
    return stacked(forms, _BYTES)(cast("Decorated", update_wrapper(with_form, function)))


level_option = click.option(
    "--level",
    type=click.Choice(("headers", "checksums", "records")),
    default="records",
    show_default=True,
    help=(
        "Depth of the check: headers reads batch headers, indexes and small files; checksums reads every byte; records "
        "also decodes every record."
    ),
)
_FAIL_ON = click.option(
    "--fail-on",
    type=click.Choice(("error", "warning")),
    default="error",
    show_default=True,
    help="The lowest severity of a finding that makes the exit status 4.",
)
_QUIET = click.option("--quiet", is_flag=True, help="Print only the summary line, to stderr.")


def verdict_options(function: Decorated) -> Decorated:
    """Add --level, --fail-on and --quiet."""
    return level_option(_FAIL_ON(_QUIET(function)))


jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that read at the same time.  [default: the number of cores]",
)


def resolve_all(paths: Sequence[str], selection: Selection, *, empty_dirs: bool = False) -> tuple[Target, ...]:
    """Return the targets of the paths, as `resolve` does. Raises the error of the first path that names nothing."""
    return _with_empty_ones(tuple(resolve(paths, selection, empty_dirs=empty_dirs)))


def resolve_readable(paths: Sequence[str], selection: Selection, report: Report) -> tuple[Target, ...]:
    """Return the targets that can be read; report each of the others on stderr, and as refused in `report`.

    Raises the error of the last path if none can be read.
    """

    def refuse(error: KafkalogError) -> None:
        report.refusals.append(safe_text(str(error)))
        complete(error)
        for line in error_lines(error):
            click.echo(line, err=True)

    return _with_empty_ones(tuple(resolve(paths, selection, on_refusal=refuse)))


def _with_empty_ones(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """Return the targets; report on stderr each log directory without partitions, which has no rows."""
    for target in targets:
        if isinstance(target, LogDirTarget) and not target.log_dir.partitions:
            sentence = f"{target.path}: a log directory without partitions; {where_to_look(target.path)}"
            click.echo(f"kafkalog: {safe_text(sentence)}", err=True)
    return targets
