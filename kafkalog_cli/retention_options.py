"""The shorthands of retention's settings; milliseconds count before minutes, and minutes before hours, as in Kafka."""

from __future__ import annotations

from functools import reduce, update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.setting_options import setting_options, with_shorthands

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["retention_options"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")

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
    return reduce(lambda outer, decorator: decorator(outer), reversed(_OPTIONS), wrapped)


_OPTIONS: Final = (
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
