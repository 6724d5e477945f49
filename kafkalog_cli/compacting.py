"""What the commands share that forecast compaction: options, and the way from forecasts to rows and an exit status."""

from __future__ import annotations

from contextlib import closing
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalog_cli import params
from kafkalog_cli.ending import early_end
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.progress import end_progress
from kafkalog_cli.setting_options import setting_options
from kafkalog_core.format import kernels
from kafkalog_core.format.layout import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kafkalog_cli.render import CompactWriter
    from kafkalog_core.ops.cleaning.forecast import CompactForecast
    from kafkalog_core.ops.report import Report

__all__ = ["check_memory", "cleaning_options", "warn_of_interpreted", "write_forecasts"]

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_DEFAULT_BIGGEST: Final = 10
_MAX_BIGGEST: Final = 250
_LEAST_MAP_BYTES: Final = 64


def cleaning_options(function: Decorated) -> Decorated:
    """--force, --memory, --max-passes, --biggest and the cleaner's settings: to stand above `kafka_options`."""
    with_settings = _SETTINGS(function)
    return reduce(lambda inner, decorator: decorator(inner), reversed(_OPTIONS), with_settings)


def check_memory(memory_bytes: int | None) -> None:
    """Raises click.UsageError for what no offset map has."""
    if memory_bytes is not None and memory_bytes < _LEAST_MAP_BYTES:
        raise click.UsageError(f"--memory {memory_bytes}: not even two keys of 24 bytes fit into that")
    if memory_bytes is not None and memory_bytes > MAX_INT32:
        raise click.UsageError(f"--memory {memory_bytes}: an offset map of Kafka's has {MAX_INT32} bytes at most")


def warn_of_interpreted() -> None:
    """Say that it takes long where the kernels are not compiled."""
    if not kernels.COMPILED:
        click.echo("kafkalog: no compiled kernels here; the interpreted ones are about 100 times slower", err=True)


def write_forecasts(
    writer: CompactWriter, forecasts: Generator[CompactForecast, None, None], to: str | None, report: Report
) -> int:
    """Write every forecast and the summary; where the next one cannot be had, that is said after what is known.

    `to`: the directory that is written; null: none.
    """
    with early_end(writer, report), closing(forecasts):
        for forecast in forecasts:
            writer.write(forecast)
    end_progress()
    writer.finish(report.summary_row())
    if to is not None:
        click.echo(f"kafkalog: written: {safe_text(to)}, with the logs that were not cleaned as they are", err=True)
    return int(report.exit_status)


_OPTIONS: Final = (
    click.option(
        "--force",
        is_flag=True,
        help=(
            "Clean whatever the dirty ratio is. Lags, the high watermark, open transactions and the active segment "
            "count."
        ),
    ),
    click.option(
        "--memory",
        "memory_bytes",
        type=params.parse_size,
        metavar="SIZE",
        help=(
            "Memory of the offset map, 24 bytes a key; each process has one. Where it is full a clean ends early, and "
            "another one goes on.  "
            "[default: what a broker gives it, log.cleaner.dedupe.buffer.size: 128 MiB]"
        ),
    ),
    click.option(
        "--max-passes",
        type=click.IntRange(min=1),
        metavar="N",
        help="At most so many cleans of a partition.  [default: until nothing more is cleanable]",
    ),
    click.option(
        "--biggest",
        type=click.IntRange(min=0, max=_MAX_BIGGEST),
        default=_DEFAULT_BIGGEST,
        show_default=True,
        metavar="N",
        help="Show so many of the keys with most bytes in what is cleaned.",
    ),
)
_SETTINGS: Final = setting_options(
    min_cleanable_dirty_ratio="Clean a log whose dirty ratio is above this, from 0 to 1.",
    delete_retention_ms="How long a clean keeps tombstones and transaction markers, in milliseconds.",
    min_compaction_lag_ms="Leave records alone that are younger than this, in milliseconds.",
    max_compaction_lag_ms="Clean, whatever the dirty ratio is, a log with uncleaned records older than this.",
)
