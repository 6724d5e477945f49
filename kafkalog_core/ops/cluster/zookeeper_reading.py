"""The image of a cluster from the data directories of its ZooKeeper servers, for all that `kafkalog cluster` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.command_lines import shell_line
from kafkalog_core.errors import SelectionError
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid
from kafkalog_core.kafka.sim.zookeeper.tree import zxid_text
from kafkalog_core.ops.cluster import image_rows as rows
from kafkalog_core.ops.zookeeper.request import ZookeeperRequest
from kafkalog_core.ops.zookeeper.servers import restore_server
from kafkalog_core.ops.zookeeper.zookeeper import check_cluster_ids
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of, first_of, moment
from kafkalog_core.topics.zookeeper_image import image_of_zookeeper
from kafkalog_core.topics.zookeeper_state import kafka_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.zookeeper.restoring import Restored
    from kafkalog_core.ops.cluster.request import ClusterRequest, Row
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.cluster_image import ClusterImage
    from kafkalog_core.topics.zookeeper_state import KafkaState

__all__ = ["ZookeeperReading", "read_zookeeper"]


class ZookeeperReading(Struct, kw_only=True):
    """What was read of the servers of an ensemble.

    Args:
        image: of the cluster.
        state: the nodes that it comes from.
        restored: the tree, and how far it can be trusted.
        findings: about the files, and about log directories of another cluster.
        notes: sentences about what was read.
    """

    image: ClusterImage
    state: KafkaState
    restored: Restored
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the tree has every change."""
        return self.restored.can_be_restored

    @property
    def source(self) -> str:
        """Where the image was read, and up to which transaction."""
        return f"{self.restored.data_dir.path} up to zxid {zxid_text(self.restored.last_zxid)}"

    def summary(self) -> Row:
        """Return the row of the cluster. What ZooKeeper does not have is None or empty."""
        image, state, restored = self.image, self.state, self.restored
        return {
            "path": restored.data_dir.path,
            "cluster_id": state.cluster_id,
            "snapshot": None if restored.snapshot is None else restored.snapshot.path,
            "base_offset": None,
            "end_offset": None,
            "leader_epoch": state.controller_epoch,
            "last_timestamp_ms": restored.time_ms,
            "is_whole": self.is_whole,
            "leader_id": None if state.controller is None else state.controller.get("broker"),
            "kraft_version": None,
            "voters": [],
            "metadata_version": image.level,
            "release": rows.release_text(image.level),
            **rows.counts(image),
            "copies": [],
            "zxid": restored.last_zxid,
            "chroot": state.chroot,
            "dead": sorted(image.nodes_with_replicas - image.brokers.keys()),
        }


def read_zookeeper(
    request: ClusterRequest, log_dirs: Sequence[str] = (), progress: Progress = NO_PROGRESS
) -> ZookeeperReading:
    """Return the image that the servers of `request.zookeeper_dirs` have.

    Args:
        request: the servers and the moment.
        log_dirs: log directories of Kafka, which show the cluster that is meant, and whose cluster id is checked.
        progress: of the reading.

    Raises SelectionError where there is no cluster, or several, and StorageError.
    """
    until, dirs = request.until, request.zookeeper_dirs
    if until.offset != MAX_INT64:
        raise SelectionError(
            "ZooKeeper has zxids, not offsets: a time or a zxid, such as 0x200000045, is a moment of its tree"
        )
    time_ms = None if until.time_ms == MAX_INT64 else until.time_ms
    asked = ZookeeperRequest(data_dirs=dirs, until=UntilZxid(zxid=request.zxid, time_ms=time_ms))
    chosen, restored = restore_server(asked, progress)
    state = _state_of(kafka_states(restored.tree.nodes), dirs, log_dirs)
    image, left = image_of_zookeeper(state)
    findings, equal = check_cluster_ids(log_dirs, (state,))
    return ZookeeperReading(
        image=image,
        state=state,
        restored=restored,
        findings=(*restored.findings, *chosen.findings, *findings),
        notes=(*_notes(restored, state), *map(_sentence, (*chosen.notes, *equal, *state.problems, *left))),
    )


def _state_of(states: Sequence[KafkaState], dirs: Sequence[str], log_dirs: Iterable[str]) -> KafkaState:
    """Return the cluster that is meant: the only one of the tree, or the one that the log directories belong to."""
    line = shell_line(["kafkalog", "zookeeper", *dirs])
    if not states:
        raise SelectionError(f"no Kafka cluster is in the tree of {first_of(list(dirs))}; its nodes: {line} --tree")
    ids = {identity_of(path).cluster_id for path in log_dirs} - {None}
    meant = [state for state in states if state.cluster_id in ids] if len(states) > 1 else [*states]
    if len(meant) != 1:
        names = first_of([state.chroot or "/" for state in states])
        raise SelectionError(
            f"the tree has {len(states)} Kafka clusters, below {names}: name a log directory of one of them too; "
            f"all of them are shown by: {line}"
        )
    (state,) = meant
    # 0.7 has a node of a topic for each broker that is alive, and no data in the node of the topic.
    if state.topics and not any(topic.partitions for topic in state.topics.values()):
        raise SelectionError(
            f"the topics in ZooKeeper have neither replicas nor leaders, as those of Kafka 0.7; run: {line}"
        )
    return state


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _notes(restored: Restored, state: KafkaState) -> Iterator[str]:
    begin = "an empty tree" if restored.snapshot is None else restored.snapshot.path
    last = "" if restored.time_ms is None else f", written at {moment(restored.time_ms)}"
    yield (
        f"As ZooKeeper in {restored.data_dir.path} has it: {begin}, then "
        f"{count_of(restored.transactions, 'transaction')} up to zxid {zxid_text(restored.last_zxid)}{last}."
    )
    deleted = [name for name, topic in state.topics.items() if topic.is_deleted]
    if deleted:
        yield f"The deletion of {count_of(len(deleted), 'topic')} was asked for, and not finished: {first_of(deleted)}."
    if state.migration is not None:
        # KRaftMigrationZkWriter: from then on the quorum is where changes are made, and it copies them to ZooKeeper.
        yield (
            "A migration to KRaft was begun: the metadata log of the controllers may have later changes; kafkalog "
            "cluster with a controller's log directory shows it, and --diff with both shows what differs."
        )
