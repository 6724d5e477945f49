"""The leader epochs of a partition as a broker keeps them: `LeaderEpochFileCache` over `leader-epoch-checkpoint`.

A follower that has none begins to fetch by truncating its own log at its high watermark
(`ReplicaManager.initialFetchOffset`, `AbstractFetcherThread.partitionFetchState`). Its leader has at least the epoch
that it leads with.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.checkpoint import CheckpointEpoch, CheckpointVerdict, read_epoch_checkpoint
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.text_files import TextWindows
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.format.textfile import FileRefusal
    from kafkalog_core.kafka.rules.releases import Release

__all__ = ["EpochCache", "EpochFile", "EpochStart", "History", "history", "read_epoch_file", "truncation_offset"]


class EpochStart(NamedTuple):
    """The first offset of a leader epoch."""

    epoch: int
    start_offset: int


class EpochFile(Struct, frozen=True):
    """A leader-epoch-checkpoint: the entries that a broker reads, and why it refuses the file; None: it does not."""

    path: str
    entries: tuple[EpochStart, ...]
    refusal: FileRefusal | None


def read_epoch_file(directory: str, *, most: int | None = None) -> EpochFile | None:
    """Read the file of a partition directory; None: there is none, it cannot be read, or it has more than `most`."""
    path = f"{directory}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
    entries: list[EpochStart] = []
    refusal: FileRefusal | None = None
    try:
        with Source.open(path) as source:
            text = TextWindows(source)
            for item in read_epoch_checkpoint(text.windows()):
                if isinstance(item, CheckpointEpoch):
                    if len(entries) == most:
                        return None
                    entries.append(EpochStart(item.leader_epoch, item.start_offset))
                elif isinstance(item, CheckpointVerdict):
                    refusal = item.refusal
            if text.lost is not None:
                return None
    except StorageError:
        return None
    return EpochFile(path, tuple(entries), refusal)


def epochs_in_file(directory: str) -> tuple[EpochStart, ...]:
    """Return the epochs in the file of a partition directory; empty: there is none, or a broker refuses it."""
    epochs = read_epoch_file(directory)
    return () if epochs is None or epochs.refusal is not None else epochs.entries


class EpochCache:
    """Leader epochs, ascending.

    Args:
        entries: lines of the file in their order; a broker that loads them discards those that contradict later ones.
        release: whose rules are used.
    """

    def __init__(self, entries: Iterable[EpochStart], release: Release) -> None:
        self._repairs_file = rules_of(release).repairs_epoch_file
        self._entries: list[EpochStart] = []
        if not self._repairs_file:
            self._entries = list(entries)
            return
        for entry in entries:
            self._put(entry)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """All entries."""
        return tuple(self._entries)

    def assign(self, entry: EpochStart) -> None:
        """Add a batch of this epoch at this offset; only an epoch above all others adds an entry."""
        # LogSegment.recover assigns only an epoch above the latest one
        if self._entries and entry.epoch <= self._entries[-1].epoch:
            return
        if not self._repairs_file:
            if entry.epoch >= 0 and (not self._entries or entry.start_offset >= self._entries[-1].start_offset):
                self._entries.append(entry)
        elif entry.epoch >= 0:
            self._put(entry)

    def truncate_end(self, end_offset: int) -> None:
        """Truncate at the new log end offset: remove epochs that start there or after it (`truncateFromEnd`)."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()

    def truncate_start(self, start_offset: int) -> None:
        """Truncate at the new log start offset: the last epoch up to it starts there (`truncateFromStart`)."""
        kept = [entry for entry in self._entries if entry.start_offset > start_offset]
        if len(kept) < len(self._entries):
            last = self._entries[len(self._entries) - len(kept) - 1]
            self._entries = [EpochStart(last.epoch, start_offset), *kept]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()

    def _put(self, entry: EpochStart) -> None:
        """Add an entry, and remove from the end those that it contradicts (`LeaderEpochFileCache.assign`)."""
        latest = self._entries[-1] if self._entries else None
        if latest is not None and entry.epoch == latest.epoch and entry.start_offset >= latest.start_offset:
            return
        while self._entries and (
            self._entries[-1].epoch >= entry.epoch or self._entries[-1].start_offset >= entry.start_offset
        ):
            self._entries.pop()
        self._entries.append(entry)


class History(NamedTuple):
    """The leader epochs of a log, ascending, each with its first offset, and the log end offset."""

    epochs: tuple[EpochStart, ...]
    end_offset: int

    @property
    def latest(self) -> int | None:
        """The latest leader epoch; None: unknown."""
        return self.epochs[-1].epoch if self.epochs else None

    def up_to(self, epoch: int) -> tuple[int, int] | None:
        """Return the largest epoch up to this one, and where it ends; None: there is none (`endOffsetFor`)."""
        at = bisect_right(self.epochs, epoch, key=lambda each: each.epoch)
        if at == 0:
            return None
        end = self.epochs[at].start_offset if at < len(self.epochs) else self.end_offset
        return self.epochs[at - 1].epoch, end


def history(in_file: Iterable[EpochStart], in_log: Iterable[EpochStart], end_offset: int) -> History:
    """Return what a broker knows: its file, and the batches where the file does not name their epoch."""
    starts = {each.epoch: each.start_offset for each in in_log}
    starts.update({each.epoch: each.start_offset for each in in_file if 0 <= each.start_offset <= end_offset})
    return History(tuple(EpochStart(epoch, starts[epoch]) for epoch in sorted(starts)), end_offset)


def truncation_offset(follower: History, leader: History) -> int | None:
    """Return the end of the follower's log after it has met the leader (KIP-101); None: one of them knows no epochs."""
    asked = follower.latest
    end = follower.end_offset
    if asked is None or not leader.epochs:
        return None
    while True:
        # KIP-279: the follower asks again with its own epoch before the leader's answer, until both agree
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
