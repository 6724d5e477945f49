"""Options of the commands that forecast retention."""

from __future__ import annotations

import os
import sys
from functools import reduce, update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.options import common
from kafkalog_cli.options.kafka import setting_options, with_shorthands
from kafkalog_core.errors import SettingError
from kafkalog_core.ops.retain.forecaster import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_until", "find_policies", "forecast_options", "retention_options"]

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_UNITS_MS: Final = {"retention_minutes": 60_000, "retention_hours": 3_600_000}
_POLICIES: Final = {"delete": "delete", "compact": "compact", "both": "compact,delete", "none": ""}
_MAX_HOURS: Final = 2**63 // 3_600_000 - 1


def retention_options(function: Decorated) -> Decorated:
    """--retention-ms, -minutes, -hours, -bytes, --cleanup-policy, ...: to stand above `kafka_options`."""
    inner = setting_options(
        retention_ms="Delete what is older than so many milliseconds; -1: no limit.",
        retention_bytes="Delete the oldest segments as long as so many bytes of log are left; -1: no limit.",
        file_delete_delay_ms="How long deleted files stay, renamed to .deleted.",
    )(function)

    def with_units(*arguments: object, **given: Any) -> object:
        said = {name: given.pop(name) for name in _UNITS_MS}
        if given["retention_ms"] is None:
            numbers = [
                value * _UNITS_MS[name] if value >= 0 else -1 for name, value in said.items() if value is not None
            ]
            given["retention_ms"] = str(numbers[0]) if numbers else None
        policy, interval = given.pop("cleanup_policy"), given.pop("check_interval_ms")
        shorthands = {} if policy is None else {"cleanup.policy": _POLICIES[policy]}
        shorthands |= {} if interval is None else {"log.retention.check.interval.ms": str(interval)}
        given["assignments"] = with_shorthands(given["assignments"], shorthands)
        return inner(*arguments, **given)

    wrapped = cast("Decorated", update_wrapper(with_units, inner))
    return reduce(lambda outer, decorator: decorator(outer), reversed(_RETENTION_OPTIONS), wrapped)


_RETENTION_OPTIONS: Final = (
    click.option(
        "--retention-minutes",
        type=click.IntRange(min=-1, max=_MAX_HOURS),
        metavar="N",
        help="The same in minutes; --retention-ms counts before it.",
    ),
    click.option(
        "--retention-hours",
        type=click.IntRange(min=-1, max=_MAX_HOURS),
        metavar="N",
        help="The same in hours; --retention-minutes counts before it.",
    ),
    click.option(
        "--cleanup-policy",
        type=click.Choice(tuple(_POLICIES)),
        help="Which rules run: those that delete, those of compacted topics, both, or the least that there is.",
    ),
    click.option(
        "--check-interval-ms",
        type=click.IntRange(min=1),
        metavar="MS",
        help="How often the broker looks for what to delete (log.retention.check.interval.ms).",
    ),
)


def forecast_options(function: Decorated) -> Decorated:
    """--log-start-offset, --what-if (`scenarios`), --until, --policy (`policies`)."""
    return reduce(lambda inner, decorator: decorator(inner), reversed(_FORECAST_OPTIONS), function)


def find_policies(policies: tuple[str, ...]) -> None:
    """Let policies be imported from the current directory too."""
    if policies and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def check_until(until_ms: int | None, now_ms: int) -> None:
    """Raises click.UsageError where checks cannot be played forward to there."""
    if until_ms is not None and until_ms < now_ms:
        raise click.UsageError("--until lies before now; checks are played forward")


def _parse_scenario(text: str) -> Scenario:
    """An option's type."""
    try:
        return Scenario.parse(text)
    except SettingError as error:
        raise click.BadParameter(error.message) from error


_FORECAST_OPTIONS: Final = (
    click.option(
        "--log-start-offset",
        type=click.IntRange(min=0),
        metavar="N",
        help="As if records below offset N had been deleted by request (kafka-delete-records). Of one partition.",
    ),
    click.option(
        "--what-if",
        "scenarios",
        type=_parse_scenario,
        multiple=True,
        metavar="KEY=VALUE[,...]",
        help="Also what would stay under other settings, by the names of --set. Repeatable: a matrix of all.",
    ),
    click.option(
        "--until",
        type=common.parse_time_ms,
        metavar="T",
        help="Also play a broker's checks forward to T, from a start now on, with nothing appended meanwhile.",
    ),
    click.option(
        "--policy",
        "policies",
        multiple=True,
        metavar="MODULE:FUNCTION",
        help=(
            "A policy of one's own behind Kafka's: a Python function of the segments, the oldest first, and of now in "
            "ms, that gives true for each one that may go. Of a segment it knows base_offset, next_offset, size_bytes, "
            "largest_timestamp_ms, max_timestamp_ms (-1: none), mtime_ms and is_active. Imported from the current "
            "directory too. Repeatable."
        ),
    ),
)
