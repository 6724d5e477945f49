"""The metadata log of a KRaft node, its snapshots and its quorum-state: what a start checks before it reads records.

`bootstrap.checkpoint` at the top of a log directory is a file of batches like the snapshots, and is checked like them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint import CheckpointEpoch
from kafkalog_core.format.control import KRaftVoters, LeaderChange, decode_control_key, decode_control_value
from kafkalog_core.format.decode import RecordRun, decode_batch
from kafkalog_core.format.layout import CONTROL_BIT, MAX_BATCH_BYTES
from kafkalog_core.format.names import FileKind, FileState, fixed_file_name
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_epochs, read_properties
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.kafka.sim.quorum_disk import voter_ids
from kafkalog_core.kafka.sim.start.metadata_load import SnapshotPlace, compare_snapshots, snapshot_places
from kafkalog_core.ops.verify.broker_action import snapshot_damage
from kafkalog_core.ops.verify.request import NO_CHAIN, SegmentCheck
from kafkalog_core.ops.verify.segment import check_segment
from kafkalog_core.storage.listing import Segment, SegmentState
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Run, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.kafka.sim.logdir.text_files import PropertyText
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir, PartitionContext
    from kafkalog_core.ops.verify.request import Depth
    from kafkalog_core.ops.verify.verdict import PartitionVerdict
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.logdir import LogDir, PartitionPath

_NO_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The directory id that names no directory, base64url of sixteen zeros (`ReplicaKey.NO_DIRECTORY_ID`)."""

__all__ = ["bootstrap_findings", "empty_batch_findings", "quorum_findings", "snapshot_findings"]


def bootstrap_findings(log_dir: LogDir, depth: Depth) -> Iterator[Finding]:
    """Yield the findings in the batches of `bootstrap.checkpoint`, if there is one."""
    for file in log_dir.files:
        if not _is_snapshot(file) or file.name.base_offset is not None:
            continue
        task = SegmentCheck(
            segment=Segment(base_offset=0, state=SegmentState.CLOSED, log=file),
            topic=None,
            partition=None,
            is_v07=False,
            is_last=False,
            level=depth.of_metadata,
            now_ms=depth.now_ms,
            max_batch_bytes=depth.max_batch_bytes,
        )
        for finding in check_segment(task, NO_CHAIN, _unseen).findings:
            yield snapshot_damage(finding)


def snapshot_findings(verdict: PartitionVerdict, context: PartitionContext) -> Iterator[Finding]:
    """Yield findings about the snapshots of the metadata log, compared with the start and the end of its log."""
    if not verdict.segments or verdict.log_end_offset is None:
        return
    try:
        places = snapshot_places(read_partition(verdict.path))
    except StorageError:  # reported with the partition
        return
    start, end, last = verdict.segments[0].base_offset, verdict.log_end_offset, _last_epoch(verdict)
    compared = compare_snapshots(places, start=start, end=end, last_epoch=last)
    if compared.is_missing:
        yield _of(verdict, found("metadata-log.no-snapshot", verdict.path, offset=start, start=start))
    if compared.newest is not None and compared.is_ahead:
        epoch, offset, path = compared.newest
        severity: Severity | None = "error" if context.is_clean else None
        code = "metadata-log.snapshot-ahead"
        yield _of(verdict, found(code, path, offset=offset, severity=severity, epoch=epoch, end=end, last=last or 0))


def empty_batch_findings(verdict: PartitionVerdict) -> Iterator[Finding]:
    """Yield the first batch without records that a node loads: from its newest snapshot on."""
    try:
        places = snapshot_places(read_partition(verdict.path))
    except StorageError:  # reported with the partition
        return
    loaded_from = max(places, default=SnapshotPlace(0, 0, "")).offset
    for segment in verdict.segments:
        found_at = _empty_batch(segment.path, segment.base_offset, loaded_from)
        if found_at is not None:
            offset, position = found_at
            yield _of(verdict, found("metadata-log.empty-batch", segment.path, offset=offset, position=position))
            return


def _empty_batch(path: str, base_offset: int, loaded_from: int) -> tuple[int, int] | None:
    """Return offset and position of the first batch without records from an offset on; None: there is none."""
    names = ("record_count", "base_offset", "last_offset", "position")
    try:
        with Source.open(path) as source:
            for item in scan(source, base_offset=base_offset):
                if not isinstance(item, Run):  # the recovery truncates the log there
                    return None
                for count, base, last, position in zip(*map(item.batches.column, names), strict=True):
                    if not count and last >= loaded_from:
                        return base, position
    except StorageError:  # reported with the segment
        return None
    return None


def quorum_findings(verdict: PartitionVerdict) -> Iterator[Finding]:
    """Yield what quorum-state contradicts: the epochs, leaders and voters of the log, and its own voters."""
    file = EntryFile(path=f"{verdict.path}/{fixed_file_name(FileKind.QUORUM_STATE)}", kind=FileKind.QUORUM_STATE)
    try:
        text = read_properties(file)
    except StorageError:  # reported with the partition
        return
    if text is None or text.is_refused:
        return
    epoch = parse_int32(text.contents.get("leaderEpoch") or "")
    known = [segment.last_epoch for segment in verdict.segments if segment.epochs]  # batches prove it, no other file
    last = max(known, default=None)
    if epoch is not None and last is not None and epoch < last:
        yield _of(verdict, file.finding("quorum-state.old-epoch", epoch=epoch, last=last))
    election = _election(verdict, epoch) if epoch is not None and epoch == last else None
    for finding in (*_wrong_ids(file, text, election), *_wrong_directory(file, text, election)):
        yield _of(verdict, finding)


def _wrong_ids(file: EntryFile, text: PropertyText, election: LeaderChange | None) -> Iterator[Finding]:
    """Yield what is wrong of the leader and of the vote; `election`: with which the epoch of the file begins."""
    voters = set(voter_ids(text.contents.get("currentVoters")))
    if not voters and election is not None:  # version 1 (KIP-853) lists none: the log does
        voters = {voter.voter_id for voter in election.voters}
    for key in ("leaderId", "votedId"):
        node = parse_int32(text.contents.get(key) or "")
        if node is not None and (node < -1 or (voters and node >= 0 and node not in voters)):
            shown = ", ".join(map(str, sorted(voters))) or "not in this file"
            yield file.finding("quorum-state.no-voter", key=key, node=node, voters=shown)
        elif key == "leaderId" and election is not None and node not in {None, -1, election.leader_id}:
            epoch, leader = text.contents.get("leaderEpoch"), election.leader_id
            yield file.finding("quorum-state.other-leader", node=node, epoch=epoch, leader=leader)


def _wrong_directory(file: EntryFile, text: PropertyText, election: LeaderChange | None) -> Iterator[Finding]:
    """Yield what is wrong of the log directory that the vote is for (version 1, KIP-853)."""
    voted, directory = (text.contents.get(key) for key in ("votedId", "votedDirectoryId"))
    if directory is None or directory == _NO_DIRECTORY:
        return
    if voted == "-1":
        yield file.finding("quorum-state.no-vote", directory_id=directory)
    elif election is not None:
        directories: set[str] = set()

        def watch(_: object, _stored: object, record: object) -> None:
            if isinstance(record, KRaftVoters):  # every set of voters: the vote may be older than the last one
                directories.update(each.directory_id for each in record.voters if str(each.voter_id) == voted)

        read_image(os.path.dirname(file.path), watch=watch)
        if directories and directory not in directories:
            known = ", ".join(sorted(directories))
            yield file.finding("quorum-state.other-directory", directory_id=directory, known=known)


def _election(verdict: PartitionVerdict, epoch: int) -> LeaderChange | None:
    """Return the record with which the leader of an epoch begins it (`LeaderState.appendLeaderChangeMessage`)."""
    for segment in verdict.segments:
        start = next((each for each in segment.epochs if each.epoch == epoch), None)
        if start is not None:
            return _leader_change(segment.path, start.position)
    return None


def _leader_change(path: str, position: int) -> LeaderChange | None:
    """Return the LeaderChange record in the batch at a byte of a log; `None`: it is another batch, or damaged."""
    try:
        with Source.open(path) as source:
            run = next(scan(source, base_offset=None, start=position), None)
            if not isinstance(run, Run) or not run.batches.column("attributes")[0] & CONTROL_BIT:
                return None
            for piece in decode_batch(run.memory, run.batches, 0, max_bytes=MAX_BATCH_BYTES):
                if isinstance(piece, RecordRun):
                    key, size, value, length = (
                        piece.records.column(name)[0] for name in ("key_start", "key_size", "value_start", "value_size")
                    )
                    kind, _ = decode_control_key(piece.memory[key : key + size])
                    record, _ = decode_control_value(kind.type, piece.memory[value : value + length])
                    return record if isinstance(record, LeaderChange) else None
    except (StorageError, FormatError):  # reported with the segment
        return None
    return None


def _last_epoch(verdict: PartitionVerdict) -> int | None:
    """Return the highest leader epoch of the batches and of the leader-epoch-checkpoint; None: there is none."""
    epochs = [segment.last_epoch for segment in verdict.segments if segment.epochs]
    kind = FileKind.LEADER_EPOCH
    try:
        text = read_epochs(EntryFile(path=f"{verdict.path}/{fixed_file_name(kind)}", kind=kind))
    except StorageError:  # missing or not readable: reported with the partition
        return max(epochs, default=None)
    entries = (placed.entry for placed in text.entries)
    epochs += [entry.leader_epoch for entry in entries if isinstance(entry, CheckpointEpoch)]
    return max(epochs, default=None)


def _is_snapshot(file: FileInfo) -> bool:
    return file.name.kind is FileKind.KRAFT_SNAPSHOT and file.name.state is FileState.LIVE


def _of(verdict: PartitionVerdict, finding: Finding) -> Finding:
    return replace(finding, topic=verdict.topic, partition=verdict.partition)


def _unseen(size_bytes: int) -> None:
    """Ignore the progress of a file of some hundred bytes."""


def _cluster_findings(broker_dir: BrokerDir | None, place: PartitionPath) -> Iterator[Finding]:
    """Yield a finding if quorum-state is of another cluster than the log directory."""
    if broker_dir is None or broker_dir.cluster_id is None:
        return
    file = EntryFile(path=f"{place.path}/{fixed_file_name(FileKind.QUORUM_STATE)}", kind=FileKind.QUORUM_STATE)
    try:
        text = read_properties(file)
    except StorageError:  # reported with the partition
        return
    cluster_id = None if text is None else text.contents.get("clusterId")
    if cluster_id and cluster_id != broker_dir.cluster_id:
        finding = file.finding("quorum-state.other-cluster", cluster_id=cluster_id, other_id=broker_dir.cluster_id)
        yield replace(finding, topic=place.name.topic, partition=place.name.partition)
