"""The servers of one ensemble by their disks: which one has the most, which lack some, and which went another way.

FastLeaderElection.totalOrderPredicate elects the server with the highest epoch, then the highest zxid. A follower gives
up what it has in addition, but keeps another transaction of the same zxid: LearnerHandler.syncFollower, and
tests/integration/test_zookeeper_ensemble.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.format.zookeeper.layout import EPOCH_SHIFT
from kafkalog_core.kafka.sim.zookeeper.restoring import transactions_from
from kafkalog_core.kafka.sim.zookeeper.tree import zxid_text
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.zookeeper.transactions import Transaction
    from kafkalog_core.kafka.sim.zookeeper.data_dir import DataDir
    from kafkalog_core.progress import Progress

__all__ = ["ServerEnd", "best_of", "differences", "end_of", "majority_zxid"]


class ServerEnd(Struct, frozen=True, kw_only=True):
    """Where the files of a server end: the last zxid, and its transaction; None: it is in a snapshot alone."""

    data_dir: DataDir
    last_zxid: int
    last: Transaction | None

    @property
    def epoch(self) -> int:
        """The epoch by which it is elected: that of the last leader that it followed."""
        current = self.data_dir.current_epoch
        return self.last_zxid >> EPOCH_SHIFT if current is None else current


def end_of(data_dir: DataDir, progress: Progress = NO_PROGRESS) -> ServerEnd:
    """Return where the files of a server end."""
    newest = data_dir.snapshots[0].zxid if data_dir.snapshots else 0
    last: Transaction | None = None
    for transaction in transactions_from(data_dir, newest, [], progress):
        if last is None or transaction.zxid > last.zxid:
            last = transaction
    if last is None or last.zxid < newest:
        return ServerEnd(data_dir=data_dir, last_zxid=newest, last=None)
    return ServerEnd(data_dir=data_dir, last_zxid=last.zxid, last=last)


def best_of(ends: Sequence[ServerEnd]) -> ServerEnd:
    """Return the server that an election prefers; of equal ones the first."""
    return max(ends, key=lambda end: (end.epoch, end.last_zxid))


def majority_zxid(ends: Sequence[ServerEnd]) -> int:
    """Return the last transaction that a majority of these servers has, if none of them went another way."""
    return sorted((end.last_zxid for end in ends), reverse=True)[len(ends) // 2]


def differences(ends: Sequence[ServerEnd], best: ServerEnd, progress: Progress = NO_PROGRESS) -> Iterator[Finding]:
    """Yield what the other servers lack, or have in addition."""
    others = [end for end in ends if end is not best]
    asked = {end.last_zxid for end in others if end.last is not None}
    theirs = {}
    if asked:
        for transaction in transactions_from(best.data_dir, min(asked) - 1, [], progress):
            if transaction.zxid in asked:
                theirs[transaction.zxid] = transaction
    first = best.data_dir.logs[0].zxid if best.data_dir.logs else None
    for end in others:
        path, last = end.data_dir.path, zxid_text(end.last_zxid)
        same = theirs.get(end.last_zxid)
        # Older than the logs of the best server: only a snapshot could tell
        is_known = first is not None and end.last_zxid >= first
        if end.last is not None and is_known and same != end.last:
            # LearnerHandler.syncFollower compares zxids alone
            code = "zookeeper.diverges" if same is None else "zookeeper.same-zxid"
            yield found(code, path, last=last, other=best.data_dir.path)
        elif end.last_zxid < best.last_zxid:
            newest = zxid_text(best.last_zxid)
            yield found("zookeeper.behind", path, last=last, other=best.data_dir.path, newest=newest)
