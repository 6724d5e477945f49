"""Where a follower cuts its log when it meets its leader: by leader epochs (KIP-101, KIP-279).

The follower asks for the end of its latest epoch. The leader answers with the largest epoch that it knows up to that
one, and where that ends; where it is a smaller one, the follower cuts there and asks again with an epoch of its own
that is not above it: `AbstractFetcherThread.getOffsetTruncationState`, `LeaderEpochFileCache.endOffsetFor`. The leader
is one that is yet to be elected: its latest epoch ends where its log does.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.ops.recovery.epochs import EpochStart

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["History", "history", "truncation_offset"]


class History(NamedTuple):
    """The leader epochs of a log, ascending, each with its first offset, and the log's end."""

    epochs: tuple[EpochStart, ...]
    end_offset: int

    @property
    def latest(self) -> int | None:
        """The latest leader epoch; null: none is known."""
        return self.epochs[-1].epoch if self.epochs else None

    def up_to(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one, and where it ends; null: there is none."""
        at = bisect_right(self.epochs, epoch, key=lambda each: each.epoch)
        if at == 0:
            return None
        end = self.epochs[at].start_offset if at < len(self.epochs) else self.end_offset
        return self.epochs[at - 1].epoch, end


def history(in_file: Iterable[EpochStart], in_log: Iterable[EpochStart], end_offset: int) -> History:
    """What a broker knows: its file, and the batches where the file says nothing of their epoch."""
    starts = {each.epoch: each.start_offset for each in in_log}
    starts.update({each.epoch: each.start_offset for each in in_file if 0 <= each.start_offset <= end_offset})
    return History(tuple(EpochStart(epoch, starts[epoch]) for epoch in sorted(starts)), end_offset)


def truncation_offset(follower: History, leader: History) -> int | None:
    """The end of the follower's log after it has met the leader; null: epochs do not tell, as one knows none."""
    asked = follower.latest
    end = follower.end_offset
    if asked is None or not leader.epochs:
        return None
    while True:
        answer = leader.up_to(asked)
        if answer is None:  # all of the leader's epochs are later: what the follower has is not the leader's
            return min(end, leader.epochs[0].start_offset)
        epoch, leader_end = answer
        if epoch == asked:
            return min(end, leader_end)
        own = follower.up_to(epoch)
        if own is None:
            return min(end, follower.epochs[0].start_offset, leader_end)
        end = min(end, own[1])
        if own[0] == epoch:
            return min(end, leader_end)
        asked = own[0]
