"""Which node holds which partition, in which of its log directories, as the cluster metadata log says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkalog_core.format.metadata_records import PartitionAssigned, Registration, TopicCreated, TopicRemoved
from kafkalog_core.ops.releases.cluster_records import read_history

if TYPE_CHECKING:
    from kafkalog_core.format.metadata_records import MetadataRecord

__all__ = ["ClusterAssignments", "read_assignments"]

_Key = tuple[str, int]
"""Topic id and partition."""


@dataclass(slots=True)
class ClusterAssignments:
    """The image of a metadata log, as far as partitions go.

    Args:
        path: directory of the metadata log.
        topic_ids: of the topics that there are, by name.
        partitions: replicas and log directories of each.
        log_dirs: ids of the log directories that each node registered last.
    """

    path: str
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[_Key, PartitionAssigned] = field(default_factory=dict)
    log_dirs: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def directory_of(self, topic_id: str, partition: int, node_id: int) -> str | None:
        """The id of the log directory that holds a node's replica; None: it is unknown."""
        assigned = self.partitions.get((topic_id, partition))
        if assigned is None or not assigned.replicas or not assigned.directories:
            return None
        found = dict(zip(assigned.replicas, assigned.directories, strict=False))
        return found.get(node_id)

    def replay(self, record: MetadataRecord) -> None:
        """Carry one record out."""
        if isinstance(record, TopicCreated):
            self.topic_ids[record.name] = record.topic_id
        elif isinstance(record, TopicRemoved):
            self.topic_ids = {name: each for name, each in self.topic_ids.items() if each != record.topic_id}
            self.partitions = {key: each for key, each in self.partitions.items() if key[0] != record.topic_id}
        elif isinstance(record, PartitionAssigned):
            self._assign(record)
        elif isinstance(record, Registration) and record.log_dirs:  # that of a controller names none
            self.log_dirs[record.node_id] = record.log_dirs

    def _assign(self, record: PartitionAssigned) -> None:
        key = record.topic_id, record.partition
        known = self.partitions.get(key)
        if known is not None:
            record = replace(
                record,
                replicas=known.replicas if record.replicas is None else record.replicas,
                directories=known.directories if record.directories is None else record.directories,
            )
        self.partitions[key] = record


def read_assignments(path: str) -> ClusterAssignments | None:
    """Read the directory of a metadata log; None where it is damaged or cannot be read."""
    history = read_history(path)
    if not history.is_whole:
        return None
    found = ClusterAssignments(path)
    for record in history.records():
        found.replay(record)
    return found
