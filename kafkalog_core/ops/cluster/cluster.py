"""`kafkalog cluster`: the image of a cluster from the metadata logs on its disks, and the disks against it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.sim.copies import check_one_cluster
from kafkalog_core.kafka.sim.logdir.bounds import read_extent
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.kafka.sim.metadata_log import EVERYTHING, MetadataReading, read_file_image, read_image
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.ops.cluster import image_rows as rows
from kafkalog_core.ops.cluster.request import ClusterFound
from kafkalog_core.ops.cluster.volumes import Volumes
from kafkalog_core.ops.cluster.zookeeper_reading import read_zookeeper
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of, first_of, moment
from kafkalog_core.topics.cluster_image import NO_LEADER, id_text
from kafkalog_core.topics.metadata_records import SAME_LEADER, MetadataRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Severity
    from kafkalog_core.kafka.sim.metadata_log import StoredRecord, UnreadPlace, Until
    from kafkalog_core.ops.cluster.image_rows import FormerLeaders
    from kafkalog_core.ops.cluster.request import ClusterRequest, Row
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = [
    "ClusterDisks",
    "cluster",
    "count_read",
    "disks_of",
    "log_dirs_of",
    "newest_log",
    "read_newest",
    "unread_files",
    "unread_findings",
    "watch_leaders",
]

_SHOWN: Final = 20


class MetadataCopy(Struct, frozen=True, kw_only=True):
    """A copy of the metadata log: its directory, its node, and where it ends by its last batch."""

    path: str
    node_id: int | None
    end_offset: int
    leader_epoch: int


class ClusterDisks(Struct):
    """What is named on the command line.

    Args:
        log_dirs: the partitions of each log directory, by its path.
        logs: directories of metadata logs.
        files: snapshots and segments that were named themselves.
    """

    log_dirs: dict[str, Sequence[PartitionPath]] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def disks_of(request: ClusterRequest) -> ClusterDisks:
    """Return what is named. Raises SelectionError if there is no metadata log among it, or no way to one image."""
    disks, seen = _named(request.targets)
    if request.zxid is not None:
        raise SelectionError(
            "a metadata log has offsets, not zxids: a time or an offset is a moment of it; a zxid, which begins with "
            "0x, is one of ZooKeeper's dataDir"
        )
    if not disks.logs and not disks.files:
        raise SelectionError(
            f"no directory {METADATA_TOPIC}-0 in {first_of(sorted(seen))}: name the log directory that has the "
            "metadata log (metadata.log.dir, else the first one of log.dirs) of any broker or controller; a cluster "
            "with ZooKeeper has none: name the dataDir of a ZooKeeper server too"
        )
    if len(disks.files) > 1 and not disks.logs:
        parents = {os.path.dirname(path) or "." for path in disks.files}
        line = shell_line(["kafkalog", "cluster", *sorted(parents)])
        raise SelectionError(
            f"{len(disks.files)} files are named ({first_of(disks.files)}), but an image comes from one of them: name "
            f"that one, or their directory, which has the newest image: {line}"
        )
    return disks


def unread_files(disks: ClusterDisks) -> Iterator[str]:
    """Yield a sentence about files that were named next to a metadata log, and are not read."""
    if disks.logs and disks.files:
        yield f"Not read here: {first_of(disks.files)}; the metadata log that is named is read instead."


def _named(targets: Iterable[Target]) -> tuple[ClusterDisks, set[str]]:
    """Return what targets name, and their paths."""
    disks, seen = ClusterDisks(), set[str]()
    for target in targets:
        seen.add(target.path)
        if isinstance(target, FileTarget):
            if target.kind in {FileKind.LOG, FileKind.KRAFT_SNAPSHOT}:
                disks.files.append(target.path)
        elif isinstance(target, LogDirTarget):
            if target.broker_path is not None:
                disks.log_dirs[target.path] = target.partitions
            log = f"{target.path.rstrip('/')}/{METADATA_TOPIC}-0"
            if is_directory(log):
                disks.logs.append(log)
        elif target.place.name.topic == METADATA_TOPIC:
            disks.logs.append(target.path)
    return disks, seen


def newest_log(disks: ClusterDisks) -> list[MetadataCopy]:
    """Return the copies of the metadata log, the newest first: by leader epoch, then by its end."""
    copies = []
    for path in disks.logs:
        try:
            extent = read_extent(read_partition(path))
        except StorageError:
            extent = None
        node_id = parse_int32(identity_of(os.path.dirname(path)).node_id or "")
        end, epoch = (-1, -1) if extent is None else (extent.end, extent.leader_epoch)
        copies.append(MetadataCopy(path=path, node_id=node_id, end_offset=end, leader_epoch=epoch))
    return sorted(copies, key=lambda copy: (-copy.leader_epoch, -copy.end_offset))


def read_newest(
    disks: ClusterDisks, until: Until, watch: Callable[[ClusterImage, StoredRecord, Any], None] | None = None
) -> tuple[MetadataReading, list[MetadataCopy]]:
    """Return the image of the newest copy that is whole, else of the one that is known the farthest; and all copies."""
    if not disks.logs:
        return read_file_image(disks.files[0]), []
    copies = newest_log(disks)
    readings: list[MetadataReading] = []
    for copy in copies:
        readings.append(read_image(copy.path, until=until, stops_at_damage=True, watch=watch))
        if readings[-1].is_whole:
            break
    return max(readings, key=lambda reading: (reading.end_epoch, reading.end_offset, reading.is_whole)), copies


def cluster(
    request: ClusterRequest, report: Report, progress: Progress = NO_PROGRESS
) -> Generator[ClusterFound, None, None]:
    """Yield the one result. Raises SelectionError, RefusedError for disks of two clusters, StorageError."""
    if request.zookeeper_dirs:
        yield _of_zookeeper(request, report, progress)
        return
    disks = disks_of(request)
    if disks.logs:
        dirs = {*disks.log_dirs, *(os.path.dirname(path) for path in disks.logs)}
        check_one_cluster(sorted(dirs), "kafkalog cluster", "whose topics must not be mixed")
    former: FormerLeaders = {}
    reading, copies = read_newest(disks, request.until, watch_leaders(former))
    image = reading.image
    leaders = _Leaders(reading, former, disks)
    _check_nodes(request, image, leaders.voters)
    volumes = Volumes(disks.log_dirs, image)
    log_dir = os.path.dirname(reading.path)
    identity = identity_of(log_dir)
    result = ClusterFound(cluster=_summary(reading, copies, identity.cluster_id, leaders))
    _add_image(result, request, image, volumes, former)
    logs = {copy.node_id: (copy.path, copy.end_offset) for copy in reversed(copies) if copy.node_id is not None}
    result.controllers += rows.controller_rows(image, leaders.voters, logs, request.brokers)
    result.directories += volumes.rows(identity.cluster_id)
    result.findings += unread_findings(reading)
    result.notes += _notes(request, reading, copies, leaders)
    result.notes += unread_files(disks)
    count_read(report, reading)
    _count_rows(result, report)
    yield result


def _of_zookeeper(request: ClusterRequest, report: Report, progress: Progress) -> ClusterFound:
    """Return the result from the tree of ZooKeeper. Raises SelectionError, StorageError."""
    disks = log_dirs_of(request)
    reading = read_zookeeper(request, [*disks.log_dirs], progress)
    _check_nodes(request, reading.image, ())
    volumes = Volumes(disks.log_dirs, reading.image)
    result = ClusterFound(cluster=reading.summary())
    _add_image(result, request, reading.image, volumes, {})
    result.directories += volumes.rows(reading.state.cluster_id)
    result.findings += (finding.row() for finding in reading.findings)
    result.notes += reading.notes
    # ZooKeeper does not know which log directory of a broker has a replica.
    result.notes += (
        f"{count_of(len(names), 'partition')} of broker {node_id} are in none of its log directories here: "
        f"{first_of(names)}."
        for node_id, names in volumes.absent()
    )
    others = sorted({*disks.logs, *disks.files})
    if others:
        result.notes.append(f"Not read here: the metadata log in {first_of(others)}; it is an image of its own.")
    _count_rows(result, report)
    return result


def log_dirs_of(request: ClusterRequest) -> ClusterDisks:
    """Return what is named next to the data directories of ZooKeeper servers: log directories, or nothing."""
    return _named(request.targets)[0]


def _count_rows(result: ClusterFound, report: Report) -> None:
    for row in result.findings:
        report.add_finding(row)
    report.rows += sum(len(each) for _, each in result.tables)


def _add_image(
    result: ClusterFound, request: ClusterRequest, image: ClusterImage, volumes: Volumes, former: FormerLeaders
) -> None:
    """Add the rows of an image: all but controllers and log directories."""
    topic_ids = _chosen(image, request.topics)
    names = frozenset(image.topics[topic_id].name for topic_id in topic_ids) if request.topics else None
    result.features += rows.feature_rows(image)
    result.brokers += rows.broker_rows(image, volumes.of_nodes, request.brokers)
    result.topics += rows.topic_rows(image, topic_ids, former, volumes.here, volumes.others)
    if request.has_partitions:
        result.partitions += rows.partition_rows(image, topic_ids, former, volumes.paths)
    result.configs += rows.config_rows(image, names, shows_secrets=request.shows_secrets)
    if names is None:
        result.acls += rows.acl_rows(image)
        result.quotas += rows.quota_rows(image)
        result.users += rows.user_rows(image, shows_secrets=request.shows_secrets)
        result.tokens += rows.token_rows(image)


def _chosen(image: ClusterImage, globs: Sequence[str]) -> list[str]:
    """Return the keys of the topics whose names match, by name. Raises SelectionError if none does."""
    topics = sorted(image.topics, key=lambda topic_id: image.topics[topic_id].name)
    if not globs:
        return topics
    chosen = [each for each in topics if any(fnmatchcase(image.topics[each].name, glob) for glob in globs)]
    if not chosen:
        raise SelectionError(f"no topic of the cluster matches {' or '.join(globs)}")
    return chosen


def _check_nodes(request: ClusterRequest, image: ClusterImage, voters: Iterable[int]) -> None:
    """Raise SelectionError if the cluster has none of the nodes that are asked for."""
    if request.brokers:
        known = {*image.brokers, *image.controllers, *voters, *image.nodes_with_replicas}
        if known.isdisjoint(request.brokers):
            asked, has = (first_of(sorted(ids)) for ids in (request.brokers, known))
            raise SelectionError(f"no node of the cluster has the id {asked}; its nodes: {has or 'none'}")


# --- leaders ----------------------------------------------------------------------------------------------------------
def watch_leaders(former: FormerLeaders) -> Callable[[ClusterImage, StoredRecord, object], None]:
    """Return a watcher that keeps, for each partition, the last leader before the present one."""

    def watch(image: ClusterImage, stored: StoredRecord, record: object) -> None:
        if not isinstance(record, MetadataRecord) or record.name not in _ABOUT_LEADERS:
            return
        fields = record.fields
        new = fields["leader"]
        if new == SAME_LEADER:
            return
        topic_id, number = id_text(fields["topic_id"]), fields["partition_id"]
        before = image.partition(topic_id, number)
        if before is not None and before.leader not in {new, NO_LEADER}:
            former[topic_id, number] = before.leader, stored.timestamp_ms

    return watch


_ABOUT_LEADERS: Final = frozenset(("PartitionRecord", "PartitionChangeRecord"))


class _Leaders:
    """The leaders of before, and the leader and the voters of the quorum.

    Attributes:
        leader_id: of the quorum, the last one that is known; None: none is.
        voters: directory ids by node id; None: unknown; empty: the voters are unknown.
    """

    def __init__(self, reading: MetadataReading, former: FormerLeaders, disks: ClusterDisks) -> None:
        image = reading.image
        change = image.leader_change
        lacks = any(
            each.leader == NO_LEADER and (topic_id, number) not in former
            for topic_id, topic in image.topics.items()
            for number, each in topic.partitions.items()
        )
        # A snapshot has no former leaders, but the log before it may still be there.
        is_before = disks.logs and reading.start_offset is not None and reading.start_offset < reading.base_offset
        if (lacks or change is None) and is_before:
            older: FormerLeaders = {}
            before = read_image(reading.path, is_oldest=True, stops_at_damage=True, watch=watch_leaders(older))
            if before.end_offset >= reading.base_offset:
                change = change or before.image.leader_change
                for key, value in older.items():
                    partition = image.partition(*key)
                    if key not in former and partition is not None and partition.leader != value[0]:
                        former[key] = value
        state = _quorum_state(reading.path) if disks.logs else {}
        self.leader_id = change.leader_id if change is not None else parse_int32(state.get("leaderId") or "")
        if self.leader_id == NO_LEADER:
            self.leader_id = None
        self.voters: dict[int, str | None] = {each.voter_id: each.directory_id for each in image.voters}
        if not self.voters and change is not None:
            self.voters = {each.voter_id: each.directory_id for each in change.voters}
        if not self.voters:
            self.voters = dict.fromkeys(_voters(state.get("currentVoters")))


def _quorum_state(directory: str) -> dict[str, str]:
    kind = FileKind.QUORUM_STATE
    try:
        text = read_properties(EntryFile(path=f"{directory}/{fixed_file_name(kind)}", kind=kind))
    except StorageError:
        return {}
    names = ("leaderId", "currentVoters")
    return {} if text is None else {name: value for name in names if (value := text.contents.get(name)) is not None}


def _voters(text: str | None) -> Iterator[int]:
    try:
        yield from [int(voter["voterId"]) for voter in json.loads(text or "[]")]
    except (ValueError, TypeError, KeyError, RecursionError):  # verify reports it
        return


# --- the answer as a whole -------------------------------------------------------------------------------------------
def _summary(
    reading: MetadataReading, copies: Sequence[MetadataCopy], cluster_id: str | None, leaders: _Leaders
) -> Row:
    image = reading.image
    listeners = {
        each.voter_id: [{"name": one.name, "host": one.host, "port": one.port} for one in each.endpoints]
        for each in image.voters
    }
    return {
        "path": reading.path,
        "cluster_id": cluster_id,
        "snapshot": reading.snapshot,
        "base_offset": reading.base_offset,
        "end_offset": reading.end_offset,
        "leader_epoch": reading.end_epoch,
        "last_timestamp_ms": None if reading.last_ms < 0 else reading.last_ms,
        "is_whole": reading.is_whole,
        "leader_id": leaders.leader_id,
        "kraft_version": image.kraft_version,
        "voters": [
            {"node_id": node_id, "directory_id": directory_id, "listeners": listeners.get(node_id, [])}
            for node_id, directory_id in sorted(leaders.voters.items())
        ],
        "metadata_version": image.level,
        "release": rows.release_text(image.level),
        **rows.counts(image),
        "copies": [
            {
                "path": copy.path,
                "node_id": copy.node_id,
                "end_offset": copy.end_offset,
                "leader_epoch": copy.leader_epoch,
            }
            for copy in copies
        ],
        "zxid": None,
        "chroot": None,
        "dead": None,
    }


def count_read(report: Report, reading: MetadataReading) -> None:
    """Count what was read of a metadata log."""
    report.partitions += 1
    report.files += len(reading.paths)
    report.records += reading.records
    for path in reading.paths:
        with suppress(OSError):
            report.bytes += os.path.getsize(path)


def unread_findings(reading: MetadataReading) -> Iterator[Row]:
    """Yield a finding for each place that could not be read, and for the records that were left out."""
    end = reading.end_offset
    for each in reading.replaced[:_SHOWN]:
        yield found("cluster.snapshot-unread", each.path, place=_place(each), problem=each.detail).row()
    for each in reading.damage[:_SHOWN]:
        # A torn append and zeros are what a crash leaves, and a start truncates them.
        severity: Severity = "warning" if each.is_tail else "error"
        yield found(
            "cluster.unread",
            each.path,
            offset=each.offset,
            severity=severity,
            place=_place(each),
            problem=each.detail,
            end=end,
        ).row()
    if reading.contradicted:
        stored, reason = reading.contradictions[0]
        records = count_of(reading.contradicted, "record")
        yield found("cluster.contradiction", stored.path, offset=stored.offset, records=records, problem=reason).row()


def _place(unread: UnreadPlace) -> str:
    return "" if unread.position is None else f" at byte {unread.position}"


def _notes(
    request: ClusterRequest, reading: MetadataReading, copies: Sequence[MetadataCopy], leaders: _Leaders
) -> Iterator[str]:
    begin = f"the snapshot of offset {reading.base_offset}" if reading.base_offset else "the start of the log"
    last = "" if reading.last_ms < 0 else f", written at {moment(reading.last_ms)}"
    yield f"As {reading.path} shows it, from {begin} to offset {reading.end_offset - 1}{last}."
    if reading.unfinished is not None:
        yield (
            f"A metadata transaction (KIP-868) has no end: its {count_of(reading.unfinished, 'record')} do not count."
        )
    if request.until == EVERYTHING:
        yield from _commit_notes(reading, copies, leaders.voters)


def _commit_notes(
    reading: MetadataReading, copies: Sequence[MetadataCopy], voters: Mapping[int, str | None]
) -> Iterator[str]:
    """Yield what is known of the end of the committed records, which no file has."""
    ends = sorted((each.end_offset for each in copies if each.node_id in voters), reverse=True)
    majority = len(voters) // 2 + 1
    if len(voters) < 2 and len(voters) == len(ends):
        return
    if len(ends) < majority:
        known = count_of(len(ends), "voter") if voters else "voters that are unknown"
        of = f" of {len(voters)}" if voters else ""
        yield f"The last records may not be committed: the logs of {known}{of} are here."
    elif ends[majority - 1] < reading.end_offset:
        yield (
            f"Records from offset {ends[majority - 1]} on are not in the logs of a majority of the voters, so they may "
            "not be committed."
        )
