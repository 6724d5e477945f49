"""What the metadata log leaves in doubt about a start: it is damaged, or not here, or names directories that are not.

A whole metadata log shows which partitions the broker keeps (`BrokerAssignments`). KafkaRaftLog truncates a damaged one
at the damage when the node starts. What becomes of the partitions whose records are lost then depends on the other
controllers: if one of them has the records, the node fetches them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.cluster import DirectoryOwners, read_assignments, read_topic_id
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kafkalog_core.kafka.sim.cluster import BrokerAssignments
    from kafkalog_core.kafka.sim.metadata_log import MetadataReading
    from kafkalog_core.kafka.sim.start.disk import Fate, LoadedPartition
    from kafkalog_core.ops.repair.context import DirContext
    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = ["MetadataLog"]

_BY_ASSIGNMENT: Final = frozenset({"dir.not-assigned", "dir.partition-missing", "partition-metadata.not-assigned"})


class MetadataLog:
    """The metadata log in the log directories of one KRaft broker, as far as it is not whole.

    Args:
        contexts: of the log directories.
    """

    def __init__(self, contexts: Sequence[DirContext]) -> None:
        self._contexts = contexts
        self._named = contexts[0].target.named_dirs if contexts else None
        logs = (f"{context.target.root}/{METADATA_TOPIC}-0" for context in contexts)
        self._path = next((log for log in logs if is_directory(log)), None)

    def fate(self, part: LoadedPartition, fate: Fate) -> Fate:
        """Return the fate of a partition, given that which it has if the broker keeps it."""
        if fate != "loaded" or part.place.path not in self._unassigned:
            return fate
        return "stray" if self._is_last_copy else "unknown"

    def doubts(self, codes: Collection[str]) -> Iterator[str]:
        """Yield what is unknown, each as a sentence without a full stop.

        codes: of what was found in the log directories.
        """
        if not any(each.broker_dir is not None and each.broker_dir.is_kraft for each in self._contexts):
            return
        if self._path is None:
            yield (
                "none of these log directories has the metadata log, so what it assigns to the broker is unknown; if "
                "no other controller has it either, the broker waits without end"
            )
        if self._unassigned and not self._is_last_copy:
            yield (
                f"{self._path} is damaged, and the part before that does not assign "
                f"{count_of(len(self._unassigned), 'partition')} to the broker, which it renames to -stray unless "
                "another controller has the rest"
            )
        if self._unnamed:
            yield f"{self._path} has {self._unnamed} more of the broker's log directories: name all of them"
        if self._is_one_of_several and not _BY_ASSIGNMENT.isdisjoint(codes):
            yield (
                f"{self._path} is one copy of several: what the controllers have committed decides which partitions "
                "the broker creates, and which it renames to -stray; kafkalog quorum compares the controllers' disks"
            )

    @cached_property
    def _unassigned(self) -> frozenset[str]:
        """The paths of partitions that a damaged log does not assign to the broker before its first damage.

        A node recovers its metadata log at each start and truncates it there (`KafkaRaftLog.createLog`).
        """
        cluster, nodes = self._left, self._nodes
        if cluster is None or len(nodes) != 1:
            return frozenset()
        found = set()
        for place in (place for context in self._contexts for place in context.target.partitions):
            name = place.name
            if name.state is not DirectoryState.CURRENT or name.partition is None or name.topic == METADATA_TOPIC:
                continue
            assigned = cluster.image.partition(read_topic_id(place) or "", name.partition)
            replicas = () if assigned is None else assigned.replicas
            if nodes.isdisjoint(map(str, replicas)):
                found.add(place.path)
        return frozenset(found)

    @cached_property
    def _left(self) -> MetadataReading | None:
        """A damaged metadata log up to its damage; None: it is whole, or not here."""
        damaged = None if self._path is None else read_assignments(self._path, damaged=True, named=self._named)
        return None if damaged is None else read_image(damaged.path, stops_at_damage=True)

    @property
    def _nodes(self) -> set[str]:
        nodes = {each.broker_dir.node_id for each in self._contexts if each.broker_dir is not None}
        return {node for node in nodes if node is not None}

    @property
    def _is_last_copy(self) -> bool:
        """Whether this node is the only controller, so that nobody has the rest, and the start renames strays."""
        image = None if self._left is None else self._left.image
        if image is None or not rules_of(self._contexts[0].release).renames_strays:
            return False
        voters = set(map(str, _voters(image)))
        return bool(voters) and voters == self._nodes

    @cached_property
    def _known(self) -> BrokerAssignments | None:
        paths = [context.target.root for context in self._contexts]
        return DirectoryOwners(paths, self._named).assignments(paths)

    @property
    def _unnamed(self) -> int:
        """Number of log directories that the node registered, and that are not among those here."""
        if self._known is None:
            return 0
        broker = self._known.cluster.image.brokers.get(self._known.node_id)
        return 0 if broker is None else max(0, len(broker.log_dirs) - len(self._contexts))

    @property
    def _is_one_of_several(self) -> bool:
        """Whether the controllers are others than this node alone, by the leader's last record of its voters."""
        if self._known is None:
            return False
        return any(voter != self._known.node_id for voter in _voters(self._known.cluster.image))


def _voters(image: ClusterImage) -> set[int]:
    """Return the ids of the controllers: of the records of voters, or of the leader's last record of its voters."""
    change = () if image.leader_change is None else image.leader_change.voters
    return {voter.voter_id for voter in image.voters or change}
