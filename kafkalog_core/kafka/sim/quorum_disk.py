"""The metadata log of one node as the quorum sees it: where it ends, in which epoch, and who may vote.

A node that starts reads its quorum in this order:

1. `KafkaRaftLog`: the log is truncated at its first damage; a snapshot that is ahead of the log replaces it
   (`truncateToLatestSnapshot`).
2. `KRaftControlRecordStateMachine`: with kraft.version 1 the voters are those of the last VotersRecord, committed or
   not; with 0 they are the setting controller.quorum.voters.
3. `QuorumState.initialize`: quorum-state has the epoch, the leader and the vote; the epoch of the log counts if it is
   higher.

A voter votes for a candidate whose log does not end before its own: the epoch of the last record is compared first,
then the end offset (`OffsetAndEpoch.compareTo`). So the longest log wins an election, and all that others have more is
truncated.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.kafka.sim.metadata_log import MetadataReading, live_snapshots, read_image
from kafkalog_core.kafka.sim.named_dirs import Identity, identity_of
from kafkalog_core.kafka.sim.start.metadata_load import MetadataLoad, load_metadata
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import absolute, is_directory
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.storage.partition import Partition

__all__ = ["Election", "LogEnd", "QuorumDisk", "metadata_dir_of", "on_majority", "read_quorum_disk", "voter_ids"]

_NO_EPOCH: Final = -1


class LogEnd(NamedTuple):
    """The end of a metadata log, in the order of elections: the epoch of the last record, and the offset after it."""

    epoch: int
    offset: int


class Election(Struct, frozen=True, kw_only=True):
    """A quorum-state (`QuorumStateData`).

    Args:
        epoch: leader epoch.
        leader_id: of that epoch; -1: unknown.
        version: data_version: 0 up to 3.8 and with kraft.version 0, else 1.
        voters: ids in version 0; empty: unknown.
    """

    epoch: int
    leader_id: int
    version: int
    voters: tuple[int, ...] = ()


class QuorumDisk(Struct, frozen=True, kw_only=True):
    """The metadata log of one node, and what is next to it.

    Args:
        log_dir: absolute path of the log directory.
        partition: the listed directory of the metadata log.
        identity: the ids in meta.properties.
        reading: the image of the cluster up to the end that a start keeps.
        election: quorum-state; None: there is none, or it cannot be read.
        snapshot: id of the newest snapshot; None: there is none.
        load: what the release of the node makes of the log.
    """

    log_dir: str
    partition: Partition
    identity: Identity
    reading: MetadataReading
    election: Election | None
    snapshot: LogEnd | None
    load: MetadataLoad

    @property
    def path(self) -> str:
        """The directory of the metadata log."""
        return self.partition.path

    @property
    def node_id(self) -> int | None:
        """The id of the node; None: unknown."""
        return None if self.identity.node_id is None else parse_int32(self.identity.node_id)

    @property
    def end(self) -> LogEnd:
        """Where the log ends after a start: a snapshot that is ahead of the log replaces it."""
        return LogEnd(max(self.reading.end_epoch, 0), self.reading.end_offset)

    @property
    def is_replaced(self) -> bool:
        """Whether a start deletes the log, because its newest snapshot is ahead of it."""
        return self.load.replaced_by is not None

    @property
    def epoch(self) -> int:
        """The highest epoch that this node has seen."""
        return max(self.end.epoch, _NO_EPOCH if self.election is None else self.election.epoch)

    @property
    def is_dynamic(self) -> bool:
        """Whether the voters are in the log (kraft.version 1)."""
        return self.reading.image.kraft_version > 0

    @property
    def voters(self) -> tuple[int, ...]:
        """Ids of the voters by this disk, in ascending order; empty: unknown."""
        image = self.reading.image
        if self.is_dynamic:
            return tuple(sorted(voter.voter_id for voter in image.voters))
        if self.election is not None and self.election.voters:
            return self.election.voters
        # The setting is not on the disk; the leader wrote down who its voters were.
        change = image.leader_change
        if change is None:
            return tuple(sorted(image.controllers))  # each of them registers, from 3.7 on
        return tuple(sorted(voter.voter_id for voter in change.voters))

    @property
    def torn(self) -> tuple[str, int] | None:
        """The file with a torn end, and the byte where it starts; None: the log ends with a whole batch."""
        for damage in self.reading.damage:
            if damage.is_tail and damage.position is not None and damage.path.endswith(".log"):
                return damage.path, damage.position
        return None

    @property
    def problem(self) -> str | None:
        """Why the log cannot be trusted, a clause; None: no record is missing or damaged up to its end."""
        for damage in self.reading.damage:
            if not damage.is_tail:
                return f"{damage.path}: {damage.detail}"
        if self.load.stop is not None:
            return self.load.stop.text
        if self.reading.contradictions:
            record, reason = self.reading.contradictions[0]
            return f"{record.path}, offset {record.offset}: {reason}"
        return None


def metadata_dir_of(path: str) -> str | None:
    """Return the directory of the metadata log that a path names: the directory itself, or its log directory."""
    whole = absolute(path)
    for directory in (whole, f"{whole}/{METADATA_TOPIC}-0"):
        if directory.endswith(f"/{METADATA_TOPIC}-0") and is_directory(directory):
            return directory
    return None


def read_quorum_disk(directory: str, *, kafka: str | None = None) -> QuorumDisk:
    """Read the metadata log in a directory. Raises StorageError if the directory cannot be listed.

    Args:
        directory: of the metadata log.
        kafka: the release of the node; None: as its log directory shows.
    """
    partition = read_partition(directory)
    reading = read_image(directory, stops_at_damage=True)
    log_dir = directory.removesuffix(f"/{METADATA_TOPIC}-0")
    snapshots = live_snapshots(partition)
    release = infer_release(log_dir, kafka=kafka).release
    (load,) = load_metadata(directory, [release])
    newest = max((LogEnd(file.name.epoch or 0, file.name.base_offset or 0) for file in snapshots), default=None)
    return QuorumDisk(
        log_dir=log_dir,
        partition=partition,
        identity=identity_of(log_dir),
        reading=reading,
        election=_read_election(f"{directory}/{fixed_file_name(FileKind.QUORUM_STATE)}"),
        snapshot=newest,
        load=load or MetadataLoad(stop=None),
    )


def on_majority(ends: Sequence[LogEnd], voters: int) -> LogEnd | None:
    """Return the highest end that a majority of all voters has; None: fewer logs are known than a majority.

    What a majority has is in the log of each leader to come (`LeaderState.maybeUpdateHighWatermark`).
    """
    needed = voters // 2 + 1
    return sorted(ends, reverse=True)[needed - 1] if len(ends) >= needed else None


def _read_election(path: str) -> Election | None:
    try:
        text = read_properties(EntryFile(path=path, kind=FileKind.QUORUM_STATE))
    except StorageError:
        return None
    if text is None or text.is_refused:
        return None
    get = text.contents.get
    numbers = [parse_int32(get(key) or "") for key in ("leaderEpoch", "leaderId", "data_version")]
    epoch, leader_id, version = (-1 if number is None else number for number in numbers)
    return Election(epoch=epoch, leader_id=leader_id, version=version, voters=voter_ids(get("currentVoters")))


def voter_ids(text: str | None) -> tuple[int, ...]:
    """Return the ids in `currentVoters` of a quorum-state; nothing where it lists none that can be read."""
    try:
        return tuple(sorted(int(voter["voterId"]) for voter in json.loads(text or "[]")))
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
