"""Options that several commands share, as decorators. Each option's help names its unit."""

from __future__ import annotations

import sys
from functools import reduce, update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kafkalog_cli import params
from kafkalog_core.ops.selecting.select import Filters
from kafkalog_core.ops.selecting.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "chosen_output",
    "filter_options",
    "limit_options",
    "output_options",
    "selection_options",
    "targets_argument",
    "verdict_output_option",
]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OUTPUTS = ("table", "json", "ndjson", "csv")
DEFAULT_MAX_BATCH_BYTES = "256MiB"


def _stacked(*decorators: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """One decorator out of several; --help lists them in the order given here."""
    return lambda function: reduce(lambda inner, decorator: decorator(inner), reversed(decorators), function)


def targets_argument(function: Decorated) -> Decorated:
    """PATH...: what to work on, as the shell passed it on."""
    return click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False))(
        function
    )


def selection_options(function: Decorated) -> Decorated:
    """--topic, --topic-regex, --exclude, --partition: the command gets them as `selection`."""

    def with_selection(*arguments: object, **options: Any) -> object:
        names = ("topics", "topic_regex", "excludes", "partitions")
        selection = Selection(**{name: options.pop(name) for name in names})
        return function(*arguments, selection=selection, **options)

    return _stacked(*_SELECTION)(cast("Decorated", update_wrapper(with_selection, function)))


def filter_options(function: Decorated) -> Decorated:
    """Filters on batches and records, all of which must hold: the command gets them as `filters`."""

    def with_filters(*arguments: object, **options: Any) -> object:
        key, key_hex = options.pop("key"), options.pop("key_hex")
        if key is not None and key_hex is not None:
            raise click.UsageError("--key and --key-hex are two ways to say the same; give one of them")
        ranges: dict[str, Any] = {name: options.pop(option) or params.OPEN for name, option in _RANGES.items()}
        others: dict[str, Any] = {name: options.pop(name) for name in _OTHER_FILTERS}
        filters = Filters(key=key if key_hex is None else key_hex, **ranges, **others)
        return function(*arguments, filters=filters, **options)

    decorators = (*_RANGE_FILTERS, *_RECORD_FILTERS, *_BATCH_FILTERS)
    return _stacked(*decorators)(cast("Decorated", update_wrapper(with_filters, function)))


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
        type=params.parse_pattern,
        metavar="REGEX",
        help="Only topics whose whole name matches this regular expression.",
    ),
    click.option(
        "--exclude",
        "excludes",
        metavar="GLOB",
        multiple=True,
        help="Not the topics whose name matches GLOB, whatever else selects them. Repeatable.",
    ),
    click.option(
        "--partition",
        "partitions",
        metavar="N",
        multiple=True,
        type=click.IntRange(min=0),
        help="Only partitions of this number. Repeatable: any of them.",
    ),
)
_RANGES = {"offsets": "offsets", "positions": "positions", "times_ms": "times"}
_OTHER_FILTERS = ("key_regex", "value_regex", "headers", "producer_id", "transactional", "control", "codec")
_RANGE_FILTERS = (
    click.option(
        "--offsets",
        type=params.parse_range,
        metavar="A..B",
        help="Only Kafka offsets from A to B, both included; A.. and ..B are open, A alone is one offset.",
    ),
    click.option(
        "--positions",
        type=params.parse_range,
        metavar="A..B",
        help="Only batches that start at byte A to B of their file, both included.",
    ),
    click.option(
        "--times",
        type=params.parse_times,
        metavar="A..B",
        help=(
            "Only timestamps from A to B, both included: ISO 8601, UTC unless a zone is given, or milliseconds since "
            "1970 (12 digits and more). A last day without a time of day is meant whole. A batch is shown where one of "
            "its records would be; where its header does not tell, it is opened."
        ),
    ),
)
_RECORD_FILTERS = (
    click.option("--key", type=params.command_line_bytes, metavar="TEXT", help="Only records with exactly this key."),
    click.option("--key-hex", type=params.parse_hex, metavar="HEX", help="The same, the key's bytes in hexadecimal."),
    click.option(
        "--key-regex",
        type=params.parse_pattern,
        metavar="REGEX",
        help="Only records in whose key this regular expression (over bytes) is found; never a null key.",
    ),
    click.option(
        "--value-regex",
        type=params.parse_pattern,
        metavar="REGEX",
        help="Only records in whose value this regular expression (over bytes) is found; never a tombstone.",
    ),
    click.option(
        "--header",
        "headers",
        type=params.parse_header,
        metavar="KEY[=VALUE]",
        multiple=True,
        help="Only records with this header, of any value or of exactly VALUE. Repeatable: all of them.",
    ),
)
_BATCH_FILTERS = (
    click.option("--producer-id", type=int, metavar="ID", help="Only batches of this producer id; -1: of none."),
    click.option(
        "--transactional/--no-transactional",
        default=None,
        help="Only batches that belong to a transaction, or only others.",
    ),
    click.option(
        "--control/--no-control",
        default=None,
        help="Only control batches (commit, abort, leader change, ...), or only data.",
    ),
    click.option("--codec", type=click.Choice(CODECS), help="Only batches of this compression codec."),
)


def limit_options(function: Decorated) -> Decorated:
    """--max-batch-bytes: the guard against one batch that eats the memory."""
    return click.option(
        "--max-batch-bytes",
        type=params.parse_size,
        default=DEFAULT_MAX_BATCH_BYTES,
        show_default=True,
        metavar="SIZE",
        help="Step over batches larger than this, also once decompressed: bytes, or 64KiB, 64MiB, 1g (powers of 1024).",
    )(function)


def output_options(function: Decorated) -> Decorated:
    """--output and --bytes: the form of the result."""
    return _stacked(
        click.option(
            "--output",
            type=click.Choice(OUTPUTS),
            help="Form of the result.  [default: table on a terminal, else ndjson: one JSON object a line]",
        ),
        click.option(
            "--bytes",
            "bytes_mode",
            type=click.Choice(("auto", "base64", "hex")),
            default="auto",
            show_default=True,
            help=(
                "How keys and values stand in json, ndjson and csv: auto is text where they are exact UTF-8 and "
                "base64 (key_b64) where not, in csv also where they hold control characters; base64 and hex (key_hex) "
                "always."
            ),
        ),
    )(function)


def verdict_output_option(function: Decorated) -> Decorated:
    """--output, for a command whose result is for people first."""
    return click.option(
        "--output",
        type=click.Choice(OUTPUTS),
        help="Form of the result.  [default: table on a terminal, else ndjson: one JSON object a line]",
    )(function)


def chosen_output(output: str | None) -> str:
    """The form asked for, else what suits where stdout goes."""
    return output or ("table" if sys.stdout.isatty() else "ndjson")
