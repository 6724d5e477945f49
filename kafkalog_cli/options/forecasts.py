"""Options of the commands that forecast compaction and retention."""

from __future__ import annotations

import os
import sys
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import setting_options, with_shorthands
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.ops.retain.forecaster import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_memory", "check_until", "cleaning_options", "find_policies", "forecast_options", "retention_options"]


Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_DEFAULT_BIGGEST: Final = 10
_MAX_BIGGEST: Final = 250
_LEAST_MAP_BYTES: Final = 64


def cleaning_options(function: Decorated) -> Decorated:
    """Add --force, --memory, --max-passes, --biggest and the cleaner's settings; above `kafka_options`."""
    return common.stacked(*_CLEANING_OPTIONS)(_SETTINGS(function))


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


_CLEANING_OPTIONS: Final = (
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


_UNITS_MS: Final = {"retention_minutes": 60_000, "retention_hours": 3_600_000}
_POLICIES: Final = {"delete": "delete", "compact": "compact", "both": "compact,delete", "none": ""}
_MAX_HOURS: Final = 2**63 // 3_600_000 - 1


def retention_options(function: Decorated) -> Decorated:
    """Add --retention-ms, -minutes, -hours, -bytes, --cleanup-policy and others; above `kafka_options`."""
    inner = setting_options(
        retention_ms="Delete segments older than this, in milliseconds; -1: no limit.",
        retention_bytes="Delete the oldest segments while at least this many bytes of log remain; -1: no limit.",
        file_delete_delay_ms="Time for which deleted files are kept as .deleted, in milliseconds.",
    )(function)

    def with_units(*arguments: object, **given: Any) -> object:
        units = {name: given.pop(name) for name in _UNITS_MS}
        if given["retention_ms"] is None:
            times = [max(-1, value * _UNITS_MS[name]) for name, value in units.items() if value is not None]
            given["retention_ms"] = str(times[0]) if times else None
        policy, interval_ms = given.pop("cleanup_policy"), given.pop("check_interval_ms")
        shorthands = {} if policy is None else {"cleanup.policy": _POLICIES[policy]}
        shorthands |= {} if interval_ms is None else {"log.retention.check.interval.ms": str(interval_ms)}
        given["assignments"] = with_shorthands(given["assignments"], shorthands)
        return inner(*arguments, **given)

    wrapped = cast("Decorated", update_wrapper(with_units, inner))
    return common.stacked(*_RETENTION_OPTIONS)(wrapped)


_RETENTION_OPTIONS: Final = (
    click.option(
        "--retention-minutes",
        type=click.IntRange(min=-1, max=_MAX_HOURS),
        metavar="N",
        help="Like --retention-ms, in minutes; --retention-ms overrides it.",
    ),
    click.option(
        "--retention-hours",
        type=click.IntRange(min=-1, max=_MAX_HOURS),
        metavar="N",
        help="Like --retention-ms, in hours; --retention-minutes overrides it.",
    ),
    click.option(
        "--cleanup-policy",
        type=click.Choice(tuple(_POLICIES)),
        help="cleanup.policy of the topics: delete, compact, both, or none.",
    ),
    click.option(
        "--check-interval-ms",
        type=click.IntRange(min=1),
        metavar="MS",
        help="Time between two retention checks of the broker (log.retention.check.interval.ms).",
    ),
)


def forecast_options(function: Decorated) -> Decorated:
    """Add --log-start-offset, --what-if (`scenarios`), --until and --policy (`policies`)."""
    return common.stacked(*_FORECAST_OPTIONS)(function)


def find_policies(policies: tuple[str, ...]) -> None:
    """Allow policies to be imported from the current directory."""
    if policies and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def check_until(until_ms: int | None, now_ms: int) -> None:
    """Raise click.UsageError if --until is before now."""
    if until_ms is not None and until_ms < now_ms:
        raise click.UsageError("--until is before now; name a later time")


_FORECAST_OPTIONS: Final = (
    click.option(
        "--log-start-offset",
        type=click.IntRange(min=0),
        metavar="N",
        help="Assume that kafka-delete-records deleted the records below offset N. For one partition.",
    ),
    click.option(
        "--what-if",
        "scenarios",
        type=common.option_type(Scenario.parse),
        multiple=True,
        metavar="KEY=VALUE[,...]",
        help="Also forecast what would be kept under other settings, named as in --set. Repeatable, as one table.",
    ),
    click.option(
        "--until",
        type=common.parse_time_ms,
        metavar="T",
        help="Also forecast every retention check up to T, for a broker that starts now and gets no more records.",
    ),
    click.option(
        "--policy",
        "policies",
        multiple=True,
        metavar="MODULE:FUNCTION",
        help=(
            "A policy of your own, applied after Kafka's: a Python function that takes the segments, the oldest first, "
            "and now in ms, and returns true for each segment that may be deleted. A segment has base_offset, "
            "next_offset, size_bytes, largest_timestamp_ms, max_timestamp_ms (-1: none), mtime_ms and is_active. The "
            "module may be in the current directory. Repeatable."
        ),
    ),
)
