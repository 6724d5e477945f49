"""Where a consumer of a group goes on that finds its committed offset in a log, by what brokers and clients do.

A consumer that gets a partition fetches its committed offset (`ConsumerCoordinator.refreshCommittedOffsets`). If the
commit has a leader epoch, a client that knows KIP-320 first asks the broker where that epoch ends
(`OffsetsForLeaderEpoch`): an end below the position means that the log was truncated, and the client goes on at that
end (`SubscriptionState.maybeCompleteValidation`), unless its auto.offset.reset is none. Java clients do so since 2.3,
with brokers of 2.4 and later, and librdkafka since 2.1. An offset that is not between the log start offset and the high
watermark is out of range: the fetch fails, and auto.offset.reset decides (`FetchCollector.handleInitializeErrors`), as
it does for a group without a commit. The end of the log itself is in range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.kafka.sim.logdir.leader_epochs import History
    from kafkalog_core.topics.group_offsets import CommittedOffset

__all__ = ["ConsumerPosition", "Range", "position_in"]

Range = Literal["in-range", "below-start", "beyond-end", "no-commit"]


class ConsumerPosition(Struct, frozen=True, kw_only=True):
    """Where a consumer goes on.

    Args:
        range: where the committed offset is; only one that is in range does not depend on auto.offset.reset.
        offset: the next offset that it reads, without leader epochs; None: auto.offset.reset decides.
        truncated_to: where a client goes on that checks the leader epoch and finds the log truncated; None: it finds
            nothing, or the commit has no leader epoch.
    """

    range: Range
    offset: int | None
    truncated_to: int | None = None


def position_in(
    committed: CommittedOffset | None, start_offset: int, end_offset: int, history: History
) -> ConsumerPosition:
    """Return where a consumer goes on in a log.

    Args:
        committed: the group's; None: it has none.
        start_offset: the log start offset.
        end_offset: the end of what consumers get, the high watermark.
        history: the leader epochs of the log.
    """
    if committed is None:
        return ConsumerPosition(range="no-commit", offset=None)
    offset = committed.offset
    truncated_to = _truncated_to(committed, history)
    if offset < start_offset:
        return ConsumerPosition(range="below-start", offset=None)
    if offset > end_offset:
        return ConsumerPosition(range="beyond-end", offset=None, truncated_to=truncated_to)
    return ConsumerPosition(range="in-range", offset=offset, truncated_to=truncated_to)


def _truncated_to(committed: CommittedOffset, history: History) -> int | None:
    """Return where the log was truncated, if the leader epoch of a commit shows it; None: it does not.

    `LeaderEpochFileCache.endOffsetFor`: with no epoch up to that one the answer is the start of the first one. The
    broker begins a new epoch at the end of the log when it leads after a start, so the last epoch ends there too.
    """
    if committed.leader_epoch < 0:
        return None
    found = history.up_to(committed.leader_epoch)
    first = history.epochs[0].start_offset if history.epochs else history.end_offset
    end = first if found is None else found[1]
    return end if end < committed.offset else None
