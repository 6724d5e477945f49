"""Options of the commands that forecast compaction."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import setting_options
from kafkalog_core.format.layout import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_memory", "cleaning_options"]

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_DEFAULT_BIGGEST: Final = 10
_MAX_BIGGEST: Final = 250
_LEAST_MAP_BYTES: Final = 64


def cleaning_options(function: Decorated) -> Decorated:
    """Add --force, --memory, --max-passes, --biggest and the cleaner's settings; above `kafka_options`."""
    with_settings = _SETTINGS(function)
    return reduce(lambda inner, decorator: decorator(inner), reversed(_OPTIONS), with_settings)


def check_memory(memory_bytes: int | None) -> None:
    """Raise click.UsageError for a size that no offset map has."""
    if memory_bytes is not None and memory_bytes < _LEAST_MAP_BYTES:
        raise click.UsageError(
            f"--memory {memory_bytes}: too small for an offset map; give at least {_LEAST_MAP_BYTES} bytes"
        )
    if memory_bytes is not None and memory_bytes > MAX_INT32:
        raise click.UsageError(
            f"--memory {memory_bytes}: too large; an offset map of Kafka has at most {MAX_INT32} bytes"
        )


_OPTIONS: Final = (
    click.option(
        "--force",
        is_flag=True,
        help=(
            "Clean whatever the dirty ratio is. Compaction lag, high watermark, open transactions and the active "
            "segment still limit the cleaner."
        ),
    ),
    click.option(
        "--memory",
        "memory_bytes",
        type=common.parse_size,
        metavar="SIZE",
        help=(
            "Memory of the offset map of each process, 24 bytes for each key. When the map is full, the clean ends "
            "early and another one continues.  [default: log.cleaner.dedupe.buffer.size of the broker: 128 MiB]"
        ),
    ),
    click.option(
        "--max-passes",
        type=click.IntRange(min=1),
        metavar="N",
        help="Maximum number of cleans of a partition.  [default: until nothing more is cleanable]",
    ),
    click.option(
        "--biggest",
        type=click.IntRange(min=0, max=_MAX_BIGGEST),
        default=_DEFAULT_BIGGEST,
        show_default=True,
        metavar="N",
        help="Show the N largest keys in the cleaned part.",
    ),
)
_SETTINGS: Final = setting_options(
    min_cleanable_dirty_ratio="Clean a log if its dirty ratio is above this, from 0 to 1.",
    delete_retention_ms="Time for which a clean keeps tombstones and transaction markers, in milliseconds.",
    min_compaction_lag_ms="Never clean records younger than this, in milliseconds.",
    max_compaction_lag_ms="Clean a log with uncleaned records older than this, whatever its dirty ratio.",
)
