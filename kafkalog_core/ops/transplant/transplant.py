"""`kafkalog transplant`: plans what makes the log directories of one cluster belong to another.

Without the topics of the new cluster only the ids in meta.properties change: the log directory keeps its own metadata
log, so its topics are those of the new cluster too. With them, every partition that the new cluster assigns to the node
gets the topic's new id, leader epoch 0, and committed offsets and producer states that the new cluster can use; the old
metadata log makes room for that of the new cluster.

meta.properties is written last. Until then a broker of the new cluster refuses the directory, so that none starts on
one that is half done (`MetaPropertiesEnsemble.verify`).
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.errors import FormatError, RefusedError, SelectionError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.format.properties import (
    encode_meta_properties,
    encode_partition_metadata,
    mend_meta_properties,
    read_meta_properties,
)
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.sim.cluster import metadata_file, read_topic_id
from kafkalog_core.kafka.sim.logdir.bounds import read_extent
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.ops.checkpoint.file_repair import read_text
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.transplant.destination import Destination, is_metadata_of, read_destination
from kafkalog_core.ops.transplant.rewriting import (
    LogEdit,
    OffsetEdit,
    needs_edit,
    rewritten_log,
    with_epoch_0,
    without_ended_producers,
)
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.changes import pieces
from kafkalog_core.storage.listing import SegmentState, list_directory
from kafkalog_core.storage.locks import lock_holder
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = ["plan_transplant"]

_OFFSETS: Final = "__consumer_offsets"
_TRANSACTIONS: Final = "__transaction_state"
_BY_TOPIC_ID: Final = {
    "__share_group_state": "the progress of share groups",
    "__remote_log_metadata": "where the segments in tiered storage are",
}
"""Internal topics whose records name topics by the ids of the cluster, and what they hold."""
_SERVED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_READ_SEGMENTS: Final = frozenset({SegmentState.ACTIVE, SegmentState.CLOSED, SegmentState.SWAP})


def plan_transplant(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog transplant`: stage the changes of one log directory, and return the report.

    Options: `cluster_id`, `node_id` (None: it is kept), `topic_ids` (paths; none: the directory keeps its own metadata
    log), `directory_id` (None: that of the new cluster's metadata log, else it is kept).

    Raises:
        SelectionError: The request does not name a whole log directory, or the new cluster cannot be read from a file.
        RefusedError: The given log directory is not one of the new cluster, or those in PATH are of several clusters.
        StorageError: A file cannot be read.
    """
    target = request.target
    if target.log_dir is None or not target.is_whole:
        raise SelectionError("transplant works on whole log directories: name a log directory", path=target.root)
    return _Planner(request, stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request, self._stage, self._progress = request, stage, progress
        self._root = request.target.root
        self._context = request.context()
        broker_dir = self._context.broker_dir
        if broker_dir is None:  # a whole log directory is named, as `plan_transplant` has checked
            raise SelectionError("is not a log directory", path=self._root)
        self._broker_dir = broker_dir
        self._cluster_id = str(request.options["cluster_id"])
        node_id = request.options.get("node_id")
        self._node_id = broker_dir.node_id if node_id is None else str(node_id)
        self._check_origin()
        self._destination = self._read_destination()
        self._metadata_dir = f"{self._root}/{METADATA_TOPIC}-0"
        self._findings: list[Finding] = []
        self._refusals: list[Finding] = []
        self._undecided: Refusal | None = None
        self._kept = 0
        self._ended_producers = 0
        self._knows_isr = False
        self._edit = LogEdit()

    def plan(self) -> PlanReport:
        """Stage the partitions, the metadata log, and at last the ids of the directory."""
        if self._node_id is None:
            self._undecided = Refusal(
                f"{self._broker_dir.meta_path} has no node id", (WayOut("name the node", options="--node-id N"),)
            )
        directory_id = self._directory_id()
        places = [
            place
            for place in self._request.target.partitions
            if place.name.state in _SERVED and place.name.topic != METADATA_TOPIC
        ]
        own = self._own_image()
        if self._destination is None:
            self._judge_own(places, own)
        else:
            self._transplant(places, self._destination, own)
        self._stage_meta(directory_id)
        return PlanReport(
            findings=tuple(self._findings),
            refusals=tuple(self._refusals),
            release=None,
            undecided=self._undecided,
            verdict=self._verdict(len(places)),
        )

    def _check_origin(self) -> None:
        """Raise RefusedError for directories of several clusters, or of several nodes that --node-id makes one.

        What one of them knows is not true of the others. A run that was interrupted leaves some that have the new ids
        already.
        """
        named = {path: identity_of(path) for path in (self._root, *self._request.target.named_dirs.paths)}
        clusters = {each.cluster_id: path for path, each in named.items()}
        nodes = {each.node_id: path for path, each in named.items()}
        is_one_node = self._request.options.get("node_id") is not None
        for ids, new_id, kind, key in (
            (clusters, self._cluster_id, "cluster", "cluster.id"),
            (nodes if is_one_node else {}, self._node_id, "node", "node.id"),
        ):
            shown = [f"{path} has {old_id}" for old_id, path in ids.items() if old_id not in {None, new_id}]
            if len(shown) > 1:
                reason = (
                    f"the log directories are of several {kind}s, by {key} of their meta.properties: "
                    f"{first_of(shown, joint='; ')}"
                )
                raise RefusedError(Refusal(reason, (WayOut(f"name those of one {kind}"),)))

    def _read_destination(self) -> Destination | None:
        """Return the new cluster, from the directory of the same node if it was given; None: none was given."""
        paths = cast("Sequence[str]", self._request.options.get("topic_ids") or ())
        found = [
            self._request.target.named_dirs.once(
                ("destination", path, self._cluster_id), partial(read_destination, path, self._cluster_id)
            )
            for path in paths
        ]
        return next((each for each in found if each.is_own_dir(self._node_id)), found[0] if found else None)

    def _verdict(self, count: int) -> str:
        node = f"{'a node' if self._node_id is None else f'node {self._node_id}'} of cluster {self._cluster_id}"
        partitions = count_of(count, "partition")
        if self._destination is not None:
            return f"{node} keeps {self._kept} of {partitions} of this directory"
        if not is_directory(self._metadata_dir):
            return f"this becomes a directory of {node}; which of its {partitions} that cluster keeps is unknown"
        return f"{node} keeps {self._kept} of {partitions}, if it goes on with the metadata log of this directory"

    # --- the directory ------------------------------------------------------------------------------------------------
    def _directory_id(self) -> str | None:
        """Return the new directory id; None: the present one is kept."""
        given, destination = self._request.options.get("directory_id"), self._destination
        if given is not None:
            return str(given)
        if destination is None or destination.image is None:
            return None
        if destination.is_own_dir(self._node_id):
            return destination.directory_id
        broker = destination.image.brokers.get(parse_int32(self._node_id or "") or 0)
        registered = () if broker is None else broker.log_dirs
        if len(registered) == 1:
            return registered[0]
        if len(registered) > 1:
            # Which of them the volume replaces is nowhere on it: the assignments are those of the new cluster.
            self._undecided = Refusal(
                f"node {self._node_id} registered {len(registered)} log directories in the new cluster: "
                f"{', '.join(registered)}",
                (WayOut("say which of them this one replaces", options="--directory-id ID"),),
            )
        return None

    def _stage_meta(self, directory_id: str | None) -> None:
        """Stage meta.properties: the same file with the new ids at its end."""
        path, data = self._broker_dir.meta_path, read_text(self._broker_dir.meta_path) or b""
        known = read_meta_properties(data)
        id_key = "broker.id" if known.get("version") == "0" or known.get("broker.id") is not None else "node.id"
        wanted = {"cluster.id": self._cluster_id, id_key: self._node_id, "directory.id": directory_id}
        new = {key: value for key, value in wanted.items() if value is not None and known.get(key) != value}
        if not data:
            # `StorageTool format` writes version 1; the other keys are those of MetaProperties
            content = encode_meta_properties([("version", "1"), *new.items()])
        else:
            bad = {item.line: "it has another value" for item in known.properties if item.key in new}
            content, _ = mend_meta_properties(data, bad, {key: (value, "") for key, value in new.items()})
        if new:
            what = ", ".join(f"{key} {known.get(key) or 'is new'} -> {value}" for key, value in new.items())
            self._stage.write(path, [content], why=what, like=self._root)

    def _own_image(self) -> ClusterImage | None:
        """Return the newest image in the old cluster's metadata logs; None: no directory that was named has one."""
        named_dirs, found = self._request.target.named_dirs, []
        for path in dict.fromkeys([self._root, *named_dirs.paths]):
            log = f"{path}/{METADATA_TOPIC}-0"
            is_of_new = self._destination is not None and is_metadata_of(path, self._destination)
            if is_directory(log) and not is_of_new:
                reading = named_dirs.once(("image", log), partial(read_image, log))
                if reading.is_whole and reading.image.topics:
                    found.append(reading)
        # A clean shutdown takes a node out of the ISR in its own copy too. After a crash, only others know of it.
        self._knows_isr = self._broker_dir.log_dir.is_clean or len(found) > 1
        newest = max(found, key=lambda reading: (reading.end_epoch, reading.end_offset), default=None)
        return None if newest is None else newest.image

    # --- a directory that keeps its metadata log ----------------------------------------------------------------------
    def _judge_own(self, places: list[PartitionPath], own: ClusterImage | None) -> None:
        """Report the partitions that a start renames, where only the ids of the directory change."""
        if own is None or not is_directory(self._metadata_dir):
            if places:
                self._refusals.append(found("transplant.unknown-topics", self._root, count=len(places)))
            return
        for place in places:
            topic_id = read_topic_id(place)
            partition = None if topic_id is None else own.partition(topic_id, place.name.partition or 0)
            if partition is None:
                self._stray(place, "its metadata log does not have this partition with the id in partition.metadata")
            elif not _has(partition.replicas, self._node_id):
                self._stray(place, f"its metadata log has the replicas {_nodes(partition.replicas)}")
            else:
                self._kept += 1

    def _stray(self, place: PartitionPath, why: str) -> None:
        name, node_id = place.name, self._node_id
        finding = found(
            "transplant.stray", place.path, topic=name.topic, partition=name.partition, why=why, node_id=node_id
        )
        self._refusals.append(finding)

    # --- a directory that changes its metadata log --------------------------------------------------------------------
    def _transplant(self, places: list[PartitionPath], destination: Destination, own: ClusterImage | None) -> None:
        kept: list[tuple[PartitionPath, str]] = []
        for place in places:
            topic = destination.topics.get(place.name.topic or "")
            replicas = None if topic is None else topic.replicas.get(place.name.partition or 0)
            if topic is None:
                self._stray(place, f"it has no topic {place.name.topic}")
            elif replicas is None:
                self._stray(place, f"topic {place.name.topic} has no partition {place.name.partition} there")
            elif not _has(replicas, self._node_id):
                self._stray(place, f"its replicas are on nodes {_nodes(replicas)}")
            else:
                kept.append((place, topic.topic_id))
        self._kept = len(kept)
        holder = None if destination.metadata_dir is None else lock_holder(destination.path)
        if holder is not None:
            self._undecided = Refusal(
                f"{destination.path}: {holder.sentence}, holds the lock of this directory of the new cluster, and its "
                "metadata log still changes",
                (WayOut("stop that broker first, and plan again"),),
            )
        partitions = [(read_partition(place.path), place, topic_id) for place, topic_id in kept]
        sizes = [segment.size_bytes for partition, _, _ in partitions for segment in partition.segments]
        self._progress.expect(sum(sizes))
        offsets = OffsetEdit(destination.topic_ids)
        for partition, place, topic_id in partitions:
            self._stage_partition(partition, place, topic_id, offsets)
        self._report(destination, offsets, own, {place.name.topic or "" for place, _ in kept})
        self._judge_replicas([partition for partition, _, _ in partitions], own)
        self._stage_metadata_log(destination)
        self._stage_clean_shutdown(destination)

    def _stage_partition(self, partition: Partition, place: PartitionPath, topic_id: str, offsets: OffsetEdit) -> None:
        """Stage all that changes in the directory of one partition."""
        has_offsets = partition.topic == _OFFSETS
        logs = [
            segment.log
            for segment in (*partition.segments, *partition.other_segments)
            if segment.log is not None and segment.state in _READ_SEGMENTS and segment.log.name.kind is FileKind.LOG
        ]
        for log in logs:
            edit = LogEdit(offsets if has_offsets else None)
            if needs_edit(log, edit, self._progress.advance):
                self._edit.batches += edit.batches
                self._edit.highest = max(self._edit.highest, edit.highest)
                what = f"{count_of(edit.batches, 'batch')} with leader epochs up to {edit.highest} get epoch 0"
                # The second pass must not count again.
                again = LogEdit(OffsetEdit(offsets.topic_ids) if has_offsets else None)
                self._stage.write(
                    log.path,
                    (bytes(piece) for piece in rewritten_log(log, again)),
                    why=what if edit.batches else "committed offsets get no leader epoch and the new topic ids",
                    like=log.path,
                    mtime_ns=log.mtime_ns,  # retention uses it where batches have no timestamp
                )
        order = self._context.snapshot_options.order
        for snapshot in partition.snapshots:
            data = read_text(snapshot.path)
            try:
                content, ended = (None, 0) if data is None else without_ended_producers(data, order)
            except FormatError:  # a broker deletes a snapshot that it cannot read
                continue
            if content is not None and content != data:
                self._ended_producers = max(self._ended_producers, ended)
                why = f"{count_of(ended, 'producer')} without an open transaction are left out"
                self._stage.write(snapshot.path, [content], why=why, like=snapshot.path, mtime_ns=snapshot.mtime_ns)
        like = partition.path if not logs else logs[0].path
        epochs = f"{partition.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
        data = read_text(epochs)
        if data is not None:
            self._stage.write(epochs, [with_epoch_0(data)], why="leader epoch 0 from its first entry on", like=like)
        path = metadata_file(place).path
        why = f"topic id {read_topic_id(place) or 'is new'} -> {topic_id}"
        self._stage.write(path, [encode_partition_metadata(topic_id)], why=why, like=like)

    def _stage_metadata_log(self, destination: Destination) -> None:
        """Stage the metadata log: that of the new cluster where its node's own directory is given, else none."""
        is_controller = destination.is_controller(self._node_id)
        if is_metadata_of(self._root, destination):
            return
        if not is_directory(self._metadata_dir):
            # Stages change files in directories that exist.
            if is_controller and destination.is_own_dir(self._node_id):
                self._findings.append(found("transplant.metadata-elsewhere", self._root, source=destination.path))
            return
        old = {os.path.basename(file.path): file for file in list_directory(self._metadata_dir).files}
        new = {}
        if destination.metadata_dir is not None and destination.is_own_dir(self._node_id):
            new = {os.path.basename(file.path): file for file in list_directory(destination.metadata_dir).files}
        elif is_controller:
            self._undecided = Refusal(
                f"node {self._node_id} is a controller of the new cluster, and this directory holds the metadata log "
                "of the old one",
                (WayOut("name the log directory with the metadata log of that very node", options="--topic-ids DIR"),),
            )
        for name, file in old.items():
            if name not in new:
                self._stage.remove(file.path, why="it is of the metadata log of the old cluster")
        for name, file in new.items():
            self._stage.write(
                f"{self._metadata_dir}/{name}",
                (bytes(piece) for piece in pieces(file.path)),
                why=f"a copy of {file.path}",
                like=self._metadata_dir,
                mtime_ns=file.mtime_ns,
            )
        code = "transplant.metadata-copied" if new else "transplant.metadata-removed"
        self._findings.append(found(code, self._metadata_dir, source=destination.metadata_dir or "", count=len(old)))

    def _stage_clean_shutdown(self, destination: Destination) -> None:
        """Stage the clean shutdown file with the broker epoch of the new cluster; report where it is missing."""
        path = f"{self._root}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}"
        if not self._broker_dir.log_dir.is_clean:
            self._findings.append(found("transplant.unclean", self._root))
            return
        image, node_id = destination.image, parse_int32(self._node_id or "")
        broker = None if image is None or node_id is None else image.brokers.get(node_id)
        if broker is None:
            self._findings.append(found("transplant.no-broker-epoch", path, node_id=self._node_id))
            return
        # CleanShutdownFileHandler.Content: the epoch of the last registration, which was in the old cluster
        content = f'{{"version":0,"brokerEpoch":{broker.epoch}}}'.encode("ascii")
        why = f"broker epoch {broker.epoch}, with which node {node_id} registered in the new cluster"
        self._stage.write(path, [content], why=why, like=self._root)

    # --- what is reported ---------------------------------------------------------------------------------------------
    def _report(
        self, destination: Destination, offsets: OffsetEdit, own: ClusterImage | None, topics: set[str]
    ) -> None:
        root, edit = self._root, self._edit
        next_id = 0 if destination.image is None else destination.image.next_producer_id
        if _TRANSACTIONS in topics and (own is None or own.next_producer_id > next_id):
            self._findings.append(found("transplant.producer-ids", root, next_id=next_id))
        if edit.batches:
            self._findings.append(found("transplant.epochs", root, count=edit.batches, highest=edit.highest))
        if self._ended_producers:
            self._findings.append(found("transplant.producers", root))
        if offsets.changed:
            self._findings.append(found("transplant.offsets", root, count=offsets.changed))
        if offsets.compressed:
            self._findings.append(found("transplant.offsets-compressed", root, count=offsets.compressed))
        for topic, what in _BY_TOPIC_ID.items():
            if topic in topics:
                self._findings.append(found("transplant.by-topic-id", root, internal=topic, what=what))
        if destination.image is None and self._request.options.get("directory_id") is None:
            self._findings.append(found("transplant.directory-id", self._broker_dir.meta_path, node_id=self._node_id))

    def _judge_replicas(self, partitions: list[Partition], own: ClusterImage | None) -> None:
        """Report replicas that may end before others: the new cluster takes all of them for in sync."""
        old_id, unknown, shown = self._broker_dir.node_id, Counter[str](), []
        for partition in partitions:
            state = None
            if own is not None:
                topic = own.topic(partition.topic or "")
                state = None if topic is None else topic.partitions.get(partition.partition or 0)
            # What an in-sync replica lacks of others was not committed, so that others may truncate it. The same is
            # true of eligible leader replicas (KIP-966), which is where the last one is after a shutdown of all.
            whole = () if state is None else (*state.isr, *state.elr)
            if self._knows_isr and _has(whole, old_id):
                continue
            end = _end_of(partition)
            others = dict(self._other_ends(partition))
            if end is not None and any(other is not None and other > end for other in others.values()):
                longest = max((each for each in others.items() if each[1] is not None), key=lambda each: each[1] or 0)
                self._refusals.append(
                    found(
                        "transplant.shorter",
                        partition.path,
                        topic=partition.topic,
                        partition=partition.partition,
                        end=end,
                        other=longest[0],
                        other_end=longest[1],
                        node_id=self._node_id,
                    )
                )
            elif end is None or not others:
                nodes = "unknown" if state is None else _nodes(whole)
                name = f"{partition.topic}-{partition.partition}"
                shown.append(f"{name} (in sync or eligible: {nodes}; it ends at offset {end})")
                unknown[partition.topic or ""] += 1
        if any(finding.code == "transplant.shorter" for finding in self._refusals):
            self._undecided = self._undecided or Refusal(
                "replicas here end before others of the same partition, and the new cluster may elect them leaders: "
                "the others would then truncate",
                (
                    WayOut(
                        "take this node out of the replicas of these partitions in the new cluster "
                        "(kafka-reassign-partitions.sh), and plan again"
                    ),
                ),
            )
        if shown:
            self._findings.append(
                found(
                    "transplant.maybe-shorter",
                    self._root,
                    what=first_of(shown),
                    count=sum(unknown.values()),
                    node_id=old_id,
                )
            )

    def _other_ends(self, partition: Partition) -> Iterator[tuple[str, int | None]]:
        """Yield the log end offset of the same partition in each other directory that was named."""
        for path in self._request.target.named_dirs.paths:
            other = f"{path}/{partition.name.raw}"
            if path != self._root and is_directory(other):
                yield other, _end_of(read_partition(other))


def _end_of(partition: Partition) -> int | None:
    """Return the log end offset; None: the log cannot be read to its end."""
    try:
        extent = read_extent(partition)
    except StorageError:
        return None
    return None if extent is None or not extent.is_sure else extent.end


def _has(nodes: Iterable[int], node_id: str | None) -> bool:
    return any(str(node) == node_id for node in nodes)


def _nodes(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes)) or "none"
