"""The findings that only several log directories show together: ids, clean shutdown files, partitions in two of them.

The directories may be those of several brokers; only those of one broker are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.findings import found
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    DirectoryState,
    FileKind,
    fixed_file_name,
)
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.cluster import DirectoryOwners
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["TopicId", "brokers_of", "check_across", "check_topic_ids"]


_Said = tuple[str, "Finding"]
"""The directory that a finding is about, and the finding."""


class TopicId(NamedTuple):
    """The topic id in the partition.metadata at `path`; `broker_dir`: None: the partition is outside of any."""

    broker_dir: BrokerDir | None
    place: PartitionPath
    path: str
    topic_id: str

    @property
    def cluster_id(self) -> str | None:
        """Cluster id of the log directory; None: unknown."""
        return None if self.broker_dir is None else self.broker_dir.cluster_id


def check_across(broker_dirs: Sequence[BrokerDir], owners: DirectoryOwners) -> Iterator[_Said]:
    """Yield findings about log directories of one broker, each with the path of the directory that it is about."""
    yield from _check_ids(broker_dirs, owners)
    for group in brokers_of(broker_dirs, owners):
        yield from _check_meta(group)
        yield from _check_marks(group)
        yield from _check_partitions(group)


def check_topic_ids(topic_ids: Iterable[TopicId], compared: Collection[str]) -> Iterator[_Said]:
    """Yield findings about topic ids: a topic has one id, and no other topic has the same.

    compared: paths of partitions whose ids were compared with the metadata log, which shows the right ones: what is
        found there names the next command.
    """
    of_topic: dict[tuple[str | None, str | None], TopicId] = {}
    of_id: dict[tuple[str | None, str], TopicId] = {}
    for topic_id in topic_ids:
        topic = topic_id.place.name.topic
        first = of_topic.setdefault((topic_id.cluster_id, topic), topic_id)
        owner = of_id.setdefault((topic_id.cluster_id, topic_id.topic_id), topic_id)
        if first.topic_id != topic_id.topic_id:
            yield _topic_id_finding("partition-metadata.other-topic-id", topic_id, first, compared)
        if owner.place.name.topic != topic:
            yield _topic_id_finding("partition-metadata.shared-topic-id", topic_id, owner, compared)


def _topic_id_finding(code: str, topic_id: TopicId, other: TopicId, compared: Collection[str]) -> _Said:
    name = topic_id.place.name
    finding = found(
        code,
        topic_id.path,
        topic=name.topic,
        partition=name.partition,
        topic_id=topic_id.topic_id,
        other=repr(other.place.name.raw),
        other_id=other.topic_id,
    )
    return topic_id.place.path, replace(finding, next_step=None) if topic_id.place.path in compared else finding


# --- ids --------------------------------------------------------------------------------------------------------------
def _check_ids(broker_dirs: Sequence[BrokerDir], owners: DirectoryOwners) -> Iterator[_Said]:
    """Check directory ids, and by the other ids which broker owns each directory.

    Another node id is another broker: that is reported once for a broker, and its directories are not compared with
    the first one's. The same node id with another cluster id is a wrong id in a directory of the same broker: the
    directory with the metadata log is right, because it holds the cluster's own records; without one, the first is.
    """
    known = [broker_dir for broker_dir in broker_dirs if broker_dir.meta is not None and not broker_dir.meta.is_refused]
    known.sort(key=lambda broker_dir: not _has_metadata_log(broker_dir))
    directory_ids: dict[str, BrokerDir] = {}
    for broker_dir in known:
        if broker_dir.directory_id is None:
            continue
        other = directory_ids.setdefault(broker_dir.directory_id, broker_dir)
        if other is not broker_dir:
            yield _meta_finding("dir.same-directory-id", broker_dir, other, value=broker_dir.directory_id)
    brokers: dict[str, BrokerDir] = {}
    for broker_dir in known:
        node = owners.node_of(broker_dir.path)
        if node is not None and brokers and node not in brokers:
            first = next(iter(brokers.values()))
            key = "node.id" if broker_dir.is_kraft else "broker.id"
            names = {"key": key, "value": node, "other_value": owners.node_of(first.path)}
            yield _meta_finding("dir.other-node", broker_dir, first, **names)
        own = known[0] if node is None else brokers.setdefault(node, broker_dir)
        clusters = broker_dir.cluster_id, own.cluster_id
        if None not in clusters and clusters[0] != clusters[1]:
            yield _meta_finding("dir.other-cluster", broker_dir, own, value=clusters[0], other_value=clusters[1])


def _has_metadata_log(broker_dir: BrokerDir) -> bool:
    return any(place.name.topic == METADATA_TOPIC for place in broker_dir.log_dir.partitions)


def _meta_finding(
    code: str,
    broker_dir: BrokerDir,
    other: BrokerDir,
    *,
    key: str | None = None,
    value: str | None = None,
    other_value: str | None = None,
) -> _Said:
    finding = found(code, broker_dir.meta_path, other=other.path, key=key, value=value, other_value=other_value)
    return broker_dir.path, finding


def brokers_of(broker_dirs: Sequence[BrokerDir], owners: DirectoryOwners) -> list[list[BrokerDir]]:
    """Return directories by broker; if there is one broker alone, those without a node id belong to it.

    A broker is a node id: where only the cluster id differs, the cluster id is wrong.
    """
    groups: dict[str | None, list[BrokerDir]] = {}
    for broker_dir in broker_dirs:
        groups.setdefault(owners.node_of(broker_dir.path), []).append(broker_dir)
    groups.pop(None, None)
    if len(groups) <= 1:
        return [list(broker_dirs)]
    return list(groups.values())


# --- one broker -------------------------------------------------------------------------------------------------------
def _check_meta(group: Sequence[BrokerDir]) -> Iterator[_Said]:
    kraft = next((broker_dir for broker_dir in group if broker_dir.meta is not None and broker_dir.is_kraft), None)
    identified = next((broker_dir for broker_dir in group if broker_dir.directory_id is not None), None)
    for broker_dir in group:
        if broker_dir.meta is None and kraft is not None and not broker_dir.is_kraft:
            yield broker_dir.path, found("meta.missing-kraft", broker_dir.meta_path, severity="error")
        elif _is_without_directory_id(broker_dir) and identified is not None:
            yield _meta_finding("dir.without-directory-id", broker_dir, identified)


def _is_without_directory_id(broker_dir: BrokerDir) -> bool:
    meta = broker_dir.meta
    return meta is not None and not meta.is_refused and broker_dir.directory_id is None


def _check_marks(group: Sequence[BrokerDir]) -> Iterator[_Said]:
    clean = next((broker_dir for broker_dir in group if broker_dir.log_dir.is_clean), None)
    if clean is None:
        return
    for broker_dir in group:
        # The metadata log alone may be in a `metadata.log.dir` that is none of `log.dirs`: LogManager, which marks its
        # directories when it stops, does not know it, and KafkaRaftLog recovers its log at every start.
        has_others = any(place.name.topic != METADATA_TOPIC for place in broker_dir.log_dir.partitions)
        if not broker_dir.log_dir.is_clean and has_others:
            path = f"{broker_dir.path}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}"
            yield broker_dir.path, found("dir.unclean-beside-clean", path, other=clean.path)


def _check_partitions(group: Sequence[BrokerDir]) -> Iterator[_Said]:
    """Yield findings about a partition in two directories; twice in one directory is reported with that directory."""
    first: dict[tuple[str | None, int | None, DirectoryState], tuple[BrokerDir, PartitionPath]] = {}
    served = (DirectoryState.CURRENT, DirectoryState.FUTURE)
    places = [
        (broker_dir, place)
        for state in served
        for broker_dir in group
        for place in broker_dir.log_dir.partitions
        if place.name.state is state
    ]
    for broker_dir, place in places:
        name = place.name
        known_dir, known = first.setdefault((name.topic, name.partition, name.state), (broker_dir, place))
        if known_dir is not broker_dir:
            code = "dir.second-metadata-log" if name.topic == METADATA_TOPIC else "dir.in-two-log-dirs"
            yield broker_dir.path, _partition_finding(code, place, known)
        elif name.state is DirectoryState.FUTURE and (name.topic, name.partition, DirectoryState.CURRENT) in first:
            current_dir, current = first[name.topic, name.partition, DirectoryState.CURRENT]
            if current_dir is not broker_dir:
                yield broker_dir.path, _partition_finding("dir.moving", place, current)


def _partition_finding(code: str, place: PartitionPath, other: PartitionPath) -> Finding:
    return found(code, place.path, topic=place.name.topic, partition=place.name.partition, other=other.path)
