"""Partitions and log directories of a KRaft broker against what the metadata log assigns to the broker.

When the broker has loaded its logs, it renames each partition that the metadata log does not assign to it to `-stray`
(`LogManager.isStrayReplica`: the topic id is unknown, or the node is not a replica), and starts an empty one where it
is a replica. A log directory whose id it never registered is a new one to the controller, which takes the partitions
for offline that are assigned to the old id.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.ops.releases.cluster_assignments import read_assignments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir
    from kafkalog_core.ops.releases.cluster_assignments import ClusterAssignments
    from kafkalog_core.ops.verify.across import TopicId

__all__ = ["check_assignments"]


def check_assignments(group: Sequence[BrokerDir], topic_ids: Iterable[TopicId]) -> Iterator[tuple[str, Finding]]:
    """Findings about the log directories of one broker, each with the path that it is about.

    Args:
        group: the log directories; where none has the metadata log, nothing is known.
        topic_ids: as the partition.metadata files say.
    """
    places = (place for broker_dir in group for place in broker_dir.log_dir.partitions)
    logs = (place for place in places if place.name.topic == METADATA_TOPIC)
    log = next((place.path for place in logs if _is_current(place.name.state)), None)
    node = next((each.node_id for each in group if each.is_kraft and each.node_id is not None), None)
    assignments = None if log is None or node is None or not node.isdecimal() else read_assignments(log)
    if assignments is None or node is None or not assignments.partitions:
        return
    by_path = {each.place.path: each for each in topic_ids if _is_current(each.place.name.state)}
    for broker_dir in group:
        own = [by_path[place.path] for place in broker_dir.log_dir.partitions if place.path in by_path]
        for topic_id in own:
            finding = _stray(topic_id, assignments, int(node))
            if finding is not None:
                yield topic_id.place.path, finding
        lost = _lost_directory(broker_dir, group, own, assignments, int(node))
        if lost is not None:
            yield broker_dir.path, lost


def _is_current(state: DirectoryState) -> bool:
    return state is DirectoryState.CURRENT


def _stray(topic_id: TopicId, assignments: ClusterAssignments, node_id: int) -> Finding | None:
    name = topic_id.place.name
    if name.topic is None or name.partition is None or name.topic == METADATA_TOPIC:
        return None
    assigned = assignments.partitions.get((topic_id.topic_id, name.partition))
    if assigned is not None and (not assigned.replicas or node_id in assigned.replicas):
        return None
    expected = assignments.topic_ids.get(name.topic)
    names: Mapping[str, object] = {"metadata_log": assignments.path, "node_id": node_id, "topic_id": topic_id.topic_id}
    place = {"topic": name.topic, "partition": name.partition}
    if expected is not None and expected != topic_id.topic_id:
        return found("partition-metadata.not-assigned", topic_id.path, expected=expected, **place, **names)  # type: ignore[arg-type]
    why = "does not have this partition"
    if assigned is not None:
        why = f"does not name node {node_id} among the replicas of this partition"
    return found("dir.not-assigned", topic_id.place.path, why=why, **place, **names)  # type: ignore[arg-type]


def _lost_directory(
    broker_dir: BrokerDir,
    group: Sequence[BrokerDir],
    own: Sequence[TopicId],
    assignments: ClusterAssignments,
    node_id: int,
) -> Finding | None:
    """A directory with another id than the one that its partitions are assigned to."""
    value, registered = broker_dir.directory_id, assignments.log_dirs.get(node_id, ())
    if value is None or not registered or value in registered:
        return None
    known = {each.directory_id for each in group}
    assigned = Counter(
        directory
        for each in own
        if each.place.name.partition is not None
        and (directory := assignments.directory_of(each.topic_id, each.place.name.partition, node_id)) in registered
        and directory not in known
    )
    if not assigned:
        return None
    ((expected, count),) = assigned.most_common(1)
    partitions = "1 partition" if count == 1 else f"{count:,} partitions"
    return found("meta.other-directory-id", broker_dir.meta_path, value=value, expected=expected, partitions=partitions)
