"""The log directories that are named, against the image: whose each is, and which partitions are missing or stray."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.sim.cluster import read_topic_id
from kafkalog_core.kafka.sim.named_dirs import Identity, identity_of
from kafkalog_core.storage.access import denied, may_list, may_read
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.ops.cluster.request import Row
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = ["Volumes"]

_NAMED: Final = 20
_RESERVED: Final = "A" * 20
"""How the ids begin that name no directory: MIGRATING, UNASSIGNED, LOST (`DirectoryId`)."""


class _Volume(Struct):
    """A log directory: who it belongs to by its meta.properties, and its partitions by topic id and number.

    `closed`: paths that this user may not read.
    """

    path: str
    identity: Identity
    node_id: int | None
    places: dict[tuple[str, int], PartitionPath] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)


class Volumes:
    """The log directories that are named.

    Attributes:
        here: the number of directories of each topic id.
        others: topic ids in directories of a topic's name that are not its own.
        paths: of the directories of a partition, by topic id and number.
        of_nodes: the log directories of each node, by meta.properties.
    """

    def __init__(self, log_dirs: Mapping[str, Sequence[PartitionPath]], image: ClusterImage) -> None:
        """Read the topic ids of all partitions; `log_dirs`: their partitions by path."""
        self._image = image
        self.here: dict[str, int] = {}
        self.others: dict[str, list[str]] = {}
        self.paths: dict[tuple[str, int], list[str]] = {}
        self.of_nodes: dict[int, list[str]] = {}
        self._volumes = [self._read(path, places) for path, places in log_dirs.items()]
        # ZooKeeper registers a broker only while it is alive: of a stopped one the replicas are known.
        stopped = image.nodes_with_replicas if image.is_of_zookeeper else set[int]()
        self._nodes = {*image.brokers, *image.controllers, *stopped}
        self._registered = {each: broker.node_id for broker in image.brokers.values() for each in broker.log_dirs}

    def rows(self, cluster_id: str | None) -> Iterator[Row]:
        """Yield the row of each log directory; `cluster_id`: of the image; None: unknown."""
        for volume in self._volumes:
            yield self._row(volume, cluster_id)

    def absent(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each node with log directories here, with the names of its partitions that are in none of them."""
        for node_id in sorted(self.of_nodes):
            here = {key for volume in self._volumes if volume.node_id == node_id for key in volume.places}
            missing = [
                f"{topic.name}-{number}"
                for key, topic in self._image.topics.items()
                for number, partition in topic.partitions.items()
                if node_id in partition.replicas and (key, number) not in here
            ]
            if missing:
                yield node_id, sorted(missing)

    def _read(self, path: str, places: Sequence[PartitionPath]) -> _Volume:
        identity = identity_of(path)
        volume = _Volume(path, identity, parse_int32(identity.node_id or ""))
        meta = f"{path}/{fixed_file_name(FileKind.META_PROPERTIES)}"
        volume.closed += [] if may_read(meta) else [meta]
        if volume.node_id is not None:
            self.of_nodes.setdefault(volume.node_id, []).append(path)
        for place in places:
            name = place.name
            if name.state is not DirectoryState.CURRENT or name.topic in {None, METADATA_TOPIC}:
                continue
            known = self._image.topic_ids.get(name.topic or "", "")
            own = read_topic_id(place)
            topic_id = own or known  # before topic ids the name is all there is
            file = f"{place.path}/{fixed_file_name(FileKind.PARTITION_METADATA)}"
            if own is None and not (may_list(place.path) and may_read(file)):
                volume.closed.append(file)
            volume.places[topic_id or name.topic or "", name.partition or 0] = place
            self.here[topic_id] = self.here.get(topic_id, 0) + 1
            self.paths.setdefault((topic_id, name.partition or 0), []).append(place.path)
            if known and topic_id != known and topic_id not in (others := self.others.setdefault(name.topic or "", [])):
                others.append(topic_id)
        return volume

    def _row(self, volume: _Volume, cluster_id: str | None) -> Row:
        identity, node_id = volume.identity, volume.node_id
        registered_by = self._registered.get(identity.directory_id or "")
        assigned = self._assigned(volume)
        found = None if assigned is None else [key for key in assigned if key in volume.places]
        missing = [] if assigned is None else [self._name(key) for key in assigned if key not in volume.places]
        strays = [os.path.basename(place.path) for key, place in volume.places.items() if self._is_stray(volume, key)]
        problems = self._problems(volume, cluster_id, registered_by, sorted(missing), sorted(strays))
        return {
            "path": volume.path,
            "cluster_id": identity.cluster_id,
            "node_id": node_id,
            "directory_id": identity.directory_id,
            "registered_by": registered_by,
            "assigned": None if assigned is None else len(assigned),
            "found": None if found is None else len(found),
            "missing": sorted(missing)[:_NAMED],
            "strays": sorted(strays)[:_NAMED],
            "detail": "; ".join(problems) or None,
        }

    def _problems(
        self,
        volume: _Volume,
        cluster_id: str | None,
        registered_by: int | None,
        missing: Sequence[str],
        strays: Sequence[str],
    ) -> Iterator[str]:
        identity, node_id = volume.identity, volume.node_id
        if volume.closed:
            more = "" if len(volume.closed) == 1 else f"; {len(volume.closed) - 1} more files are closed to this user"
            yield f"{denied(volume.closed[0])}{more}: what they hold is unknown"
        if cluster_id is not None and identity.cluster_id not in {None, cluster_id}:
            yield f"it is of another cluster, {identity.cluster_id}"
        if node_id is not None and node_id not in self._nodes:
            yield f"node {node_id} is not registered"
        if registered_by is not None and node_id not in {None, registered_by}:
            yield f"node {registered_by} registered this directory, but meta.properties has node {node_id}"
        broker = None if node_id is None else self._image.brokers.get(node_id)
        # A controller's own directory is registered by nobody, and has no partition but the metadata log.
        if identity.directory_id and registered_by is None and broker is not None and broker.log_dirs and volume.places:
            yield "no node registered this directory id"
        if missing:
            yield f"{len(missing)} of its partitions are not here: {first_of(missing)}"
        if strays:
            yield f"{len(strays)} partitions here are not assigned to it: {first_of(strays)}"

    def _assigned(self, volume: _Volume) -> list[tuple[str, int]] | None:
        """Return the partitions that the cluster has in a directory; None: it has no id, or no registered node."""
        node_id, directory_id = volume.node_id, volume.identity.directory_id
        broker = None if node_id is None else self._image.brokers.get(node_id)
        if node_id is None or broker is None:
            return None
        is_only = broker.log_dirs == (directory_id,)
        if not directory_id or directory_id not in broker.log_dirs:
            return None
        found = []
        for topic_id, topic in self._image.topics.items():
            for number, partition in topic.partitions.items():
                if node_id not in partition.replicas:
                    continue
                directory = partition.directory_of(node_id) or _RESERVED
                if directory == directory_id or (is_only and directory.startswith(_RESERVED)):
                    found.append((topic_id, number))
        return found

    def _is_stray(self, volume: _Volume, key: tuple[str, int]) -> bool:
        """Return whether a partition is not one of the node's (`LogManager.isStrayReplica`)."""
        if volume.node_id is None:
            return False
        partition = self._image.partition(*key)
        return partition is None or volume.node_id not in partition.replicas

    def _name(self, key: tuple[str, int]) -> str:
        return f"{self._image.topics[key[0]].name}-{key[1]}"
