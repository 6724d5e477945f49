"""The leader epochs of a partition as a broker keeps them: `LeaderEpochFileCache` over `leader-epoch-checkpoint`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.checkpoint import EpochEntry, Verdict, read_epoch_checkpoint
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.logdirs.checkpoints import TextWindows
from kafkalog_core.ops.releases.release import Release
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.format.textfile import Refusal

__all__ = ["EpochCache", "EpochFile", "EpochStart", "read_epoch_file"]

_MENDS: Final = Release(2, 0)
"""From here on an entry takes those that it contradicts away; before, it was not taken itself."""


class EpochStart(NamedTuple):
    """The first offset of a leader epoch."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EpochFile:
    """A leader-epoch-checkpoint: what a broker takes from it, and why it refuses it; null: it does not."""

    path: str
    entries: tuple[EpochStart, ...]
    refusal: Refusal | None


def read_epoch_file(directory: str) -> EpochFile | None:
    """The file of a partition directory; null where there is none, or the system does not let it be read."""
    path = f"{directory}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
    entries: list[EpochStart] = []
    refusal: Refusal | None = None
    try:
        with Source.open(path) as source:
            for item in read_epoch_checkpoint(TextWindows(source).windows()):
                if isinstance(item, EpochEntry):
                    entries.append(EpochStart(item.leader_epoch, item.start_offset))
                elif isinstance(item, Verdict):
                    refusal = item.refusal
    except StorageError:
        return None
    return EpochFile(path, tuple(entries), refusal)


class EpochCache:
    """Epochs in their order, ascending.

    Args:
        entries: lines of the file in their order; those that contradict later ones go, as a broker loads them.
        release: whose rules.
    """

    def __init__(self, entries: Iterable[EpochStart], release: Release) -> None:
        self._release = release
        self._entries: list[EpochStart] = []
        if release < _MENDS:
            self._entries = list(entries)
            return
        for entry in entries:
            self._put(entry)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """All of them."""
        return tuple(self._entries)

    def assign(self, entry: EpochStart) -> None:
        """A batch of this epoch at this offset; only a greater epoch than all before says something new."""
        if self._entries and entry.epoch <= self._entries[-1].epoch:
            return
        if self._release < _MENDS:
            if entry.epoch >= 0 and (not self._entries or entry.start_offset >= self._entries[-1].start_offset):
                self._entries.append(entry)
        elif entry.epoch >= 0:
            self._put(entry)

    def cut_end(self, end_offset: int) -> None:
        """The log ends here now: epochs that would start here or behind go."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()

    def cut_start(self, start_offset: int) -> None:
        """The log starts here now: of the epochs up to here the last one does too, the others go."""
        kept = [entry for entry in self._entries if entry.start_offset > start_offset]
        if len(kept) < len(self._entries):
            last = self._entries[len(self._entries) - len(kept) - 1]
            self._entries = [EpochStart(last.epoch, start_offset), *kept]

    def clear(self) -> None:
        """The log is empty now."""
        self._entries.clear()

    def _put(self, entry: EpochStart) -> None:
        """`LeaderEpochFileCache.assign`: what the entry contradicts goes, from the end."""
        latest = self._entries[-1] if self._entries else None
        if latest is not None and entry.epoch == latest.epoch and entry.start_offset >= latest.start_offset:
            return
        while self._entries and (
            self._entries[-1].epoch >= entry.epoch or self._entries[-1].start_offset >= entry.start_offset
        ):
            self._entries.pop()
        self._entries.append(entry)
