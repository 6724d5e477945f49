"""Where share groups are in their partitions, read from partitions of `__share_group_state` (KIP-932)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.errors import ProtocolError
from kafkalog_core.format.layout import MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.kafka.sim.coordinator_logs import data_records
from kafkalog_core.text import count_of
from kafkalog_core.topics.share_state_records import replay_share_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.topics.share_state_records import ShareKey, ShareState

__all__ = ["StoredShareState", "read_share_states"]


class StoredShareState(NamedTuple):
    """The state of a partition, and the timestamp of its last record."""

    state: ShareState
    timestamp_ms: int


def read_share_states(
    directories: Iterable[str], *, max_batch_bytes: int = MAX_BATCH_BYTES, until_ms: int = MAX_INT64
) -> tuple[dict[ShareKey, StoredShareState], list[str]]:
    """Return the states, and a sentence for each place that cannot be read, where changes may be missing.

    Args:
        directories: of the partitions, one copy of each.
        max_batch_bytes: larger batches are damage.
        until_ms: records with a later timestamp are left out.
    """
    states: dict[ShareKey, ShareState] = {}
    times: dict[ShareKey, int] = {}
    problems: list[str] = []
    for directory in directories:
        skipped = Counter[str]()
        for timestamp_ms, key, value in data_records(
            directory, problems, max_batch_bytes=max_batch_bytes, until_ms=until_ms
        ):
            try:
                times[replay_share_state(states, key or b"", value)[0]] = timestamp_ms
            except ProtocolError as error:
                skipped[str(error)] += 1
        problems += (f"{directory}: {count_of(count, 'record')}: {what}" for what, count in skipped.items())
    return {key: StoredShareState(state, times[key]) for key, state in states.items()}, problems
