"""The quorum that the disks of its nodes describe: who may vote, whose log is the longest, and what others have more.

The longest log is the one that would win an election among the named voters (`sim.quorum_disk`). Brokers copy the
metadata log too: a copy that goes on after the longest log of a voter has records that a rescued quorum loses.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError
from kafkalog_core.kafka.sim.quorum_disk import LogEnd, on_majority, read_quorum_disk
from kafkalog_core.ops.checkpoint.offsets import log_epochs
from kafkalog_core.ops.truncate.truncate import cuts_of
from kafkalog_core.ops.truncate.truncation import Truncation, truncate_at_offset
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.kafka.sim.quorum_disk import QuorumDisk
    from kafkalog_core.ops.checkpoint.offsets import EpochRun

__all__ = ["EPOCHS_BEYOND", "Quorum", "Row", "read_quorum"]

Row = dict[str, object]

EPOCHS_BEYOND: Final = 1000
"""How far the epoch of a rescued quorum is above the highest one of any named disk.

A record of the metadata log is identified by its offset and its epoch alone. Voters whose disks are gone may have held
elections that no named disk has seen, and brokers may have copied records of those epochs, or know the epoch: they
would keep other records than the rescued leader, or refuse it as a leader of the past. A higher epoch makes each of
them truncate to where the rescued log ends. (etcdutl raises the revision of a restored store for the same reason.)
"""


class Quorum:
    """The named disks of one cluster.

    Args:
        disks: one for each metadata log, at least one, all of the same cluster.
    """

    def __init__(self, disks: Sequence[QuorumDisk]) -> None:
        self.disks = tuple(disks)
        furthest = max(disks, key=lambda disk: disk.end)
        self.voters = furthest.voters
        """Ids of all voters; empty: unknown."""
        self._voter_dirs = {
            voter.voter_id: voter.directory_id
            for voter in (furthest.reading.image.voters if furthest.is_dynamic else ())
        }
        self._common: dict[str, int] = {}
        self.furthest = furthest
        """The disk with the longest log of all, which may be a broker's."""
        self.members = tuple(disk for disk in disks if self.is_voter(disk))
        """The disks of voters, in the order in which they were named."""
        self.longest = max(self.members or disks, key=lambda disk: disk.end)
        """The disk of a voter with the longest log; without any the longest of all."""

    def is_voter(self, disk: QuorumDisk) -> bool:
        """Return whether a disk is that of a voter; a voter's new disk is not (KIP-853)."""
        if disk.node_id not in self.voters:
            return False
        return self._voter_dirs.get(disk.node_id, disk.identity.directory_id) == disk.identity.directory_id

    @property
    def epoch(self) -> int:
        """The highest epoch that any named disk has seen."""
        return max(disk.epoch for disk in self.disks)

    @property
    def majority(self) -> int:
        """How many voters elect a leader."""
        return len(self.voters) // 2 + 1

    @property
    def absent(self) -> tuple[int, ...]:
        """Ids of the voters whose disks were not named."""
        named = {disk.node_id for disk in self.members}
        return tuple(voter for voter in self.voters if voter not in named)

    @cached_property
    def committed(self) -> int:
        """The records below this offset are committed for certain; more of them may be.

        A snapshot has committed records alone (`RaftClient.createSnapshot`), and so has what a majority has.
        """
        snapshots = [disk.snapshot.offset for disk in self.disks if disk.snapshot is not None]
        ends = [LogEnd(0, self.common(disk)) for disk in self.members]
        common = on_majority(ends, len(self.voters)) if self.voters else None
        return max([*snapshots, 0 if common is None else common.offset])

    def common(self, disk: QuorumDisk) -> int:
        """Return the offset up to which a log has the same records as the longest one.

        Two logs with a record of the same offset and epoch are the same up to it: the property on which Raft, and the
        truncation of a follower (`KafkaRaftLog.truncateToEndOffset`), are built.
        """
        known = self._common.get(disk.path)
        if known is None:
            own, longest = (dict(_ends(each)) for each in (disk, self.longest))
            ends = [min(end, longest[epoch]) for epoch, end in own.items() if epoch in longest]
            known = self._common[disk.path] = disk.end.offset if disk is self.longest else max(ends, default=0)
        return known

    def truncation(self, disk: QuorumDisk) -> Truncation | None:
        """Return what a node deletes of its log when the longest one leads; None: nothing."""
        common = self.common(disk)
        if common >= disk.end.offset or not disk.partition.segments:
            return None
        found = truncate_at_offset(disk.partition, common, NO_PROGRESS.advance)
        return found if isinstance(found, Truncation) and not found.is_empty else None

    def rows(self) -> Iterator[Row]:
        """Yield a `quorum_disk` row for each disk, the longest log first."""
        for disk in sorted(self.disks, key=lambda each: (each is not self.longest, [-part for part in each.end])):
            common, election = self.common(disk), disk.election
            yield {
                "path": disk.path,
                "node_id": disk.node_id,
                "directory_id": disk.identity.directory_id,
                "role": "voter" if self.is_voter(disk) else "observer",
                "is_longest": disk is self.longest,
                "last_epoch": disk.end.epoch,
                "end_offset": disk.end.offset,
                "common_offset": common,
                "only_here": disk.end.offset - common,
                "epoch": disk.epoch,
                "leader_id": None if election is None or election.leader_id < 0 else election.leader_id,
                "snapshot_offset": None if disk.snapshot is None else disk.snapshot.offset,
                "voters": ", ".join(map(str, disk.voters)) or None,
                "kraft_version": disk.reading.image.kraft_version,
                "problem": disk.problem or _torn(disk) or _ahead(disk),
            }

    def lost_logs(self) -> Iterator[tuple[QuorumDisk, list[tuple[str, int]]]]:
        """Yield the disks with records that the longest log does not have, and where those are."""
        for disk in self.disks:
            truncation = self.truncation(disk)
            if truncation is not None:
                for cuts in cuts_of(truncation):
                    yield disk, cuts


def read_quorum(directories: Iterable[str], *, kafka: str | None = None) -> Quorum:
    """Read the metadata logs in some directories. Raises StorageError; RefusedError if they are of several clusters.

    Args:
        directories: of the metadata logs.
        kafka: the release of the nodes; None: as their log directories show.
    """
    disks = [read_quorum_disk(directory, kafka=kafka) for directory in directories]
    clusters = {disk.identity.cluster_id: disk.log_dir for disk in disks}
    if len(clusters) > 1:
        shown = first_of([f"{path} has {cluster_id or 'none'}" for cluster_id, path in clusters.items()], joint="; ")
        reason = f"the disks are not of one cluster, by cluster.id of their meta.properties: {shown}"
        raise RefusedError(Refusal(reason, (WayOut("name the disks of one cluster"),)))
    nodes: dict[int, str] = {}
    for disk in disks:
        other = None if disk.node_id is None else nodes.setdefault(disk.node_id, disk.path)
        if other not in {None, disk.path}:
            reason = f"{other} and {disk.path} are both of node {disk.node_id}"
            raise RefusedError(Refusal(reason, (WayOut("name one disk of each node"),)))
    return Quorum(disks)


def _ends(disk: QuorumDisk) -> Iterator[tuple[int, int]]:
    """Yield the offset after the last record of each epoch that is known."""
    if disk.snapshot is not None:
        yield disk.snapshot.epoch, disk.snapshot.offset
    runs: list[EpochRun] = [] if disk.is_replaced else log_epochs(disk.partition, NO_PROGRESS) or []
    for run in runs:
        yield run.epoch, min(run.end, disk.end.offset)
    yield disk.end.epoch, disk.end.offset


def _torn(disk: QuorumDisk) -> str | None:
    """Return what a crash has left at the end of a log, a clause."""
    if disk.torn is None:
        return None
    path, position = disk.torn
    return f"{path} ends with a torn batch, from byte {position} on, which a start truncates"


def _ahead(disk: QuorumDisk) -> str | None:
    if not disk.is_replaced or disk.snapshot is None:
        return None
    return (
        f"its snapshot ends at offset {disk.snapshot.offset}, after its log: a start deletes the log and begins there"
    )


def voters_text(voters: Sequence[int]) -> str:
    """Return `3 voters (1, 2 and 3)`."""
    if not voters:
        return "an unknown number of voters"
    *others, last = map(str, voters)
    names = f"{', '.join(others)} and {last}" if others else last
    return f"{count_of(len(voters), 'voter')} ({names})"
