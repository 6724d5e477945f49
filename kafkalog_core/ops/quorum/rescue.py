"""The files that change who leads the quorum: one control batch at the end of the metadata log, and quorum-state.

The batch is the one with which a leader begins its epoch (`LeaderState.appendStartOfEpochControlRecords`): the leader,
the version of the quorum, and the voters. It is a segment of its own, as if the log had been rolled, so that no byte of
the existing log changes. A start recovers the metadata log whatever its checkpoints say (`KafkaRaftLog.createLog` with
`lastShutdownClean` false), so it writes the indexes of the segment itself.

The order is safe at every step: without quorum-state the epoch of the log counts (`QuorumState.initialize`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checkpoint import encode_epoch_checkpoint
from kafkalog_core.format.control import Endpoint, KRaftVersion, KRaftVoter, KRaftVoters, LeaderChange, Voter
from kafkalog_core.format.control_writer import encode_quorum_batch
from kafkalog_core.format.names import FileKind, fixed_file_name, segment_file_name
from kafkalog_core.kafka.sim.logdir.leader_epochs import read_epoch_file
from kafkalog_core.structs import replace
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.kafka.sim.quorum_disk import QuorumDisk
    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["stage_election", "stage_quorum_state", "stage_whole_end", "with_addresses"]

_LISTENER: Final = "CONTROLLER"
"""The name in Kafka's own examples, for a voter of which no record has a listener."""
_NOBODY: Final = -1
_NO_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAA"


def stage_election(disk: QuorumDisk, voters: Sequence[KRaftVoter], epoch: int, now_ms: int, stage: Stage) -> None:
    """Stage the batch with which a node leads these voters in an epoch. The log has to end with a whole batch.

    Args:
        disk: of the node.
        voters: from then on, the node itself among them.
        epoch: of the batch.
        now_ms: the timestamp of its records.
        stage: receives the changes.
    """
    if disk.is_replaced:
        # KafkaRaftLog.truncateToLatestSnapshot: once the new epoch is in the log, the snapshot is no longer ahead of
        # it, and a start would keep segments that do not reach up to the snapshot.
        for segment in reversed(disk.partition.segments):
            for file in segment.files:
                if file.name.base_offset != disk.end.offset:
                    why = f"the snapshot at offset {disk.end.offset} is ahead of the log, and a start deletes the log"
                    stage.remove(file.path, why=why)
    ids = tuple(Voter(voter_id=voter.voter_id) for voter in voters)
    values = (
        LeaderChange(version=0, leader_id=disk.node_id or 0, voters=ids, granting_voters=ids),
        KRaftVersion(version=0, kraft_version=disk.reading.image.kraft_version),
        KRaftVoters(version=0, voters=tuple(voters)),
    )
    batch = encode_quorum_batch(values, base_offset=disk.end.offset, leader_epoch=epoch, timestamp_ms=now_ms)
    path = f"{disk.path}/{segment_file_name(disk.end.offset, FileKind.LOG)}"
    names = ", ".join(str(voter.voter_id) for voter in voters)
    why = (
        f"a control batch makes node {names} the voters" if len(voters) > 1 else f"it makes node {names} the only voter"
    )
    stage.write(path, [batch], why=f"{why}, in epoch {epoch}", like=_like(disk))
    known = read_epoch_file(disk.path)
    kept = [] if known is None or disk.is_replaced else [e for e in known.entries if e.start_offset < disk.end.offset]
    path = f"{disk.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
    content = encode_epoch_checkpoint([*kept, (epoch, disk.end.offset)])
    stage.write(path, [content], why=f"epoch {epoch} starts at offset {disk.end.offset}", like=_like(disk))


def stage_whole_end(disk: QuorumDisk, stage: Stage) -> None:
    """Stage the truncation of a torn end, as a start makes it: no segment may follow one with a torn end."""
    if disk.torn is not None and not disk.is_replaced:
        path, position = disk.torn
        stage.cut(path, position, why="the log ends with a torn batch, which a start truncates")


def stage_quorum_state(disk: QuorumDisk, epoch: int, stage: Stage, *, leader_id: int = _NOBODY) -> None:
    """Stage a quorum-state in an epoch in which the node can only be elected in a later one.

    A leader that restarts resigns first (`QuorumState.initialize`), and is elected in the epoch after.
    """
    election = disk.election
    version = election.version if election is not None else int(disk.is_dynamic)
    common = {"leaderId": leader_id, "leaderEpoch": epoch, "votedId": _NOBODY}
    document: Mapping[str, object]
    if version > 0:
        document = common | {"votedDirectoryId": _NO_DIRECTORY, "data_version": version}
    else:
        # Up to 3.8 a start compares the voters of the file with controller.quorum.voters, if the file has any.
        voters = [{"voterId": leader_id}] if leader_id >= 0 else None
        document = {"clusterId": "", **common, "appliedOffset": 0, "currentVoters": voters, "data_version": 0}
    path = f"{disk.path}/{fixed_file_name(FileKind.QUORUM_STATE)}"
    why = f"the epoch becomes {epoch}, above all that a node of the cluster may know"
    stage.write(path, [json_text(document).encode()], why=why, like=_like(disk))


def with_addresses(voter: KRaftVoter, addresses: Mapping[str, tuple[str, int]]) -> KRaftVoter:
    """Return a voter with other addresses of its listeners, by their names. Raises ValueError, which says why not.

    voter: the other voters use its first listener that they have too.
    addresses: host and port; an empty name: of the only listener.
    """
    known = [each.name for each in voter.endpoints]
    if "" in addresses and len(known) > 1:
        raise ValueError(f"node {voter.voter_id} has {len(known)} controller listeners: {', '.join(known)}")
    named = {name or (known or [_LISTENER])[0]: address for name, address in addresses.items()}
    unknown = sorted(named.keys() - known)
    if unknown and known:
        raise ValueError(
            f"node {voter.voter_id} has no controller listener {unknown[0]} in the log, but {', '.join(known)}"
        )
    new = [Endpoint(name=name, host=host, port=port) for name, (host, port) in named.items() if name in unknown]
    changed = [
        replace(each, host=named[each.name][0], port=named[each.name][1]) if each.name in named else each
        for each in voter.endpoints
    ]
    return replace(voter, endpoints=(*changed, *new))


def _like(disk: QuorumDisk) -> str:
    """Return the file whose owner and mode new files get."""
    logs = [segment.log.path for segment in disk.partition.segments if segment.log is not None]
    return logs[-1] if logs else disk.path
