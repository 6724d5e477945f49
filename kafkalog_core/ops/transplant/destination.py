"""The cluster that log directories are to belong to: what is known of it, and of the node that gets them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.format.textfile import parse_int32, parse_uuid
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.storage.paths import is_directory, real
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = ["Destination", "DestinationTopic", "read_described", "read_destination"]

_MOST_BYTES: Final = 64 * 1024 * 1024
_METADATA_DIR: Final = f"{METADATA_TOPIC}-0"


class DestinationTopic(Struct, frozen=True):
    """A topic of the new cluster: its id, and the replicas of each of its partitions by number."""

    topic_id: str
    replicas: Mapping[int, Sequence[int]]


class Destination(Struct, frozen=True, kw_only=True):
    """The new cluster.

    Args:
        path: the file or the log directory that it was read from.
        topics: by name.
        image: of its metadata log; None: only the output of kafka-topics is known.
        metadata_dir: directory of that log; None: unknown.
        node_id: of the log directory with it; None: unknown.
        directory_id: of that log directory; None: unknown.
    """

    path: str
    topics: Mapping[str, DestinationTopic] = field(default_factory=dict)
    image: ClusterImage | None = None
    metadata_dir: str | None = None
    node_id: str | None = None
    directory_id: str | None = None

    @property
    def topic_ids(self) -> dict[str, str]:
        """Topic ids by name."""
        return {name: topic.topic_id for name, topic in self.topics.items()}

    def is_own_dir(self, node_id: str | None) -> bool:
        """Return whether it was read from a log directory of this node."""
        return self.metadata_dir is not None and node_id is not None and self.node_id == node_id

    def is_controller(self, node_id: str | None) -> bool:
        """Return whether a node is a controller, as far as the log shows: a voter in it, or a registered controller."""
        if self.image is None:
            return False
        nodes = [*(voter.voter_id for voter in self.image.voters), *self.image.controllers]
        return any(str(node) == node_id for node in nodes)


def read_destination(path: str, cluster_id: str) -> Destination:
    """Read the new cluster from the output of kafka-topics --describe, or from a log directory with its metadata log.

    Raises:
        RefusedError: The directory belongs to another cluster, or a part of its metadata log is missing or damaged.
        SelectionError: The file has no topics.
        StorageError: It cannot be read.
    """
    if not is_directory(path):
        with Source.open(path) as source:
            text = source.read(0, min(source.size_bytes, _MOST_BYTES)).decode("utf-8", "replace")
        topics = read_described(text)
        if not topics:
            raise SelectionError(
                "has no line with a topic and its TopicId, as kafka-topics.sh --describe prints them", path=path
            )
        return Destination(path=path, topics=topics)
    identity, metadata_dir = identity_of(path), f"{path}/{_METADATA_DIR}"
    if identity.cluster_id is not None and identity.cluster_id != cluster_id:
        raise RefusedError(
            f"belongs to cluster {identity.cluster_id}, not to the new cluster {cluster_id}; name another directory",
            path=path,
        )
    if not is_directory(metadata_dir):
        raise SelectionError(f"has no {_METADATA_DIR}: name the metadata log directory of the new cluster", path=path)
    reading = read_image(metadata_dir)
    if not reading.is_whole:
        detail = reading.damage[0].detail if reading.damage else "a part is missing"
        raise RefusedError(
            f"cannot be used: a part of this metadata log is missing or damaged ({detail}); name another log "
            "directory of the new cluster",
            path=metadata_dir,
        )
    return Destination(
        path=path,
        topics={
            topic.name: DestinationTopic(
                topic.topic_id, {number: partition.replicas for number, partition in topic.partitions.items()}
            )
            for topic in reading.image.topics.values()
        },
        image=reading.image,
        metadata_dir=metadata_dir,
        node_id=identity.node_id,
        directory_id=identity.directory_id,
    )


def is_metadata_of(log_dir: str, destination: Destination) -> bool:
    """Return whether the metadata log of the new cluster is the one in a log directory."""
    path = destination.metadata_dir
    return path is not None and real(os.path.dirname(path)) == real(log_dir)


def read_described(text: str) -> dict[str, DestinationTopic]:
    """Return the topics in the output of kafka-topics.sh --describe (`TopicCommand`): fields with tabs between them."""
    ids: dict[str, str] = {}
    replicas: dict[str, dict[int, list[int]]] = {}
    for line in text.splitlines():
        named = (part.partition(":") for part in line.split("\t"))
        fields = {name.strip(): value.strip() for name, _, value in named}
        topic, topic_id = fields.get("Topic"), fields.get("TopicId", "")
        number = parse_int32(fields.get("Partition", ""))
        if topic is None:
            continue
        if parse_uuid(topic_id) is not None:
            ids[topic] = topic_id
        elif number is not None:
            nodes = [parse_int32(each) for each in fields.get("Replicas", "").split(",")]
            replicas.setdefault(topic, {})[number] = [each for each in nodes if each is not None]
    return {topic: DestinationTopic(topic_id, replicas.get(topic, {})) for topic, topic_id in ids.items()}
