"""Options of the commands that show what coordinators keep: groups and transactions, also of their jobs on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkalog_cli.options.common import option_type, stacked
from kafkalog_core.engine import quantities
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.sim.group_states import Moment
from kafkalog_core.ops.groups.request import GroupsRequest
from kafkalog_core.ops.transactions.transactions import TransactionsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest

__all__ = ["group_options", "groups_request", "transaction_options", "transactions_request"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")

_TIME_DIGITS: Final = 12
"""A number with at least as many digits is a time in milliseconds, as for other options."""


@option_type
def _parse_moment(text: str) -> Moment:
    """Return the end of what is replayed: a time, or the offset of the last record."""
    if text.isascii() and text.isdigit() and len(text) < _TIME_DIGITS:
        return Moment(end_offset=int(text) + 1)
    return Moment(until_ms=quantities.parse_time_ms(text))


def group_options(function: Decorated) -> Decorated:
    """Add --group (`names`), --topic (`topics`) and --at."""
    return stacked(*_GROUP_OPTIONS)(function)


def groups_request(
    targets: Sequence[Target],
    now_ms: int,
    request: SettingsRequest,
    given: Mapping[str, Any],
    *,
    has_positions: bool,
    jobs: int = 1,
    zookeeper_dirs: tuple[str, ...] = (),
) -> GroupsRequest:
    """Return the request of the options; has_positions: whether members and offsets are wanted without --group too."""
    names = tuple(dict.fromkeys(given["names"]))
    return GroupsRequest(
        targets=tuple(targets),
        groups=names,
        topics=given["topics"],
        moment=given["at"] or Moment(),
        now_ms=now_ms,
        kafka=request,
        has_positions=has_positions or bool(names),
        jobs=jobs,
        max_batch_bytes=given["max_batch_bytes"],
        zookeeper_dirs=zookeeper_dirs,
    )


_GROUP_OPTIONS: Final = (
    click.option(
        "--group",
        "names",
        metavar="ID",
        multiple=True,
        help="Show this group with its members, and each partition with offset, lag and what is wrong. Repeatable.",
    ),
    click.option(
        "--topic",
        "topics",
        metavar="GLOB",
        multiple=True,
        help="Only offsets of topics whose name matches GLOB (* ? [...]). Repeatable: any of them.",
    ),
    click.option(
        "--at",
        type=_parse_moment,
        metavar="TIME|OFFSET",
        help=(
            "As it was at a time (ISO 8601, UTC unless a zone is given, or milliseconds since 1970, 12 digits and "
            "more), or after the record at this offset of the partition of __consumer_offsets. Only what compaction "
            "has left is known."
        ),
    ),
)


def transaction_options(function: Decorated) -> Decorated:
    """Add --producer (`producer_ids`), --transactional-id (`transactional_ids`) and --all (`shows_all`)."""
    return stacked(*_TRANSACTION_OPTIONS)(function)


def transactions_request(
    targets: Sequence[Target], now_ms: int, given: Mapping[str, Any], *, jobs: int = 1
) -> TransactionsRequest:
    """Return the request of the options."""
    return TransactionsRequest(
        targets=tuple(targets),
        now_ms=now_ms,
        producer_ids=frozenset(given["producer_ids"]),
        transactional_ids=frozenset(given["transactional_ids"]),
        kafka=given["kafka"],
        jobs=jobs,
        max_batch_bytes=given["max_batch_bytes"],
    )


_TRANSACTION_OPTIONS: Final = (
    click.option(
        "--producer",
        "producer_ids",
        type=click.IntRange(min=0, max=MAX_INT64),
        metavar="ID",
        multiple=True,
        help=(
            "Only the transactions of this producer id, with those that have ended; the logs are read as a whole. "
            "Repeatable."
        ),
    ),
    click.option(
        "--transactional-id",
        "transactional_ids",
        metavar="ID",
        multiple=True,
        help="Only the transactions of this transactional id, likewise. Repeatable.",
    ),
    click.option(
        "--all",
        "shows_all",
        is_flag=True,
        help="Also show the transactional ids without an open transaction, and each open transaction in each log.",
    ),
)
