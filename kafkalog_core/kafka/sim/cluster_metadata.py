"""What the copies of the cluster metadata log set for topics and brokers, and what the releases of nodes are.

Every broker and controller of a KRaft cluster has a copy of this log. A node registers whenever it starts, with the
highest level of `metadata.version` that its release knows: that is the release, to the minor version. Without KRaft the
servers of ZooKeeper have the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SettingError, StorageError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.rules.setting_table import known_names
from kafkalog_core.kafka.sim.logdir.bounds import read_extent
from kafkalog_core.kafka.sim.metadata_log import read_shared_image
from kafkalog_core.kafka.sim.zookeeper.data_dir import read_data_dir
from kafkalog_core.kafka.sim.zookeeper.ensemble import best_of, end_of
from kafkalog_core.kafka.sim.zookeeper.restoring import restore
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.metadata_records import BROKER_RESOURCE, METADATA_VERSION, TOPIC_RESOURCE
from kafkalog_core.topics.zookeeper_image import image_of_zookeeper
from kafkalog_core.topics.zookeeper_state import kafka_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.engine.named_dirs import NamedDirs
    from kafkalog_core.topics.cluster_image import BrokerState, ClusterImage, ControllerState

__all__ = ["ClusterConfigs", "Copies", "OtherCopy", "level_of_node", "read_copies", "read_zookeeper_copy"]


def level_of_node(image: ClusterImage, node_id: int | None) -> int | None:
    """Return the highest level of metadata.version that the release of a registered node knows; None: unknown.

    node_id: None: of an unknown node, what all of them have in common.
    """
    nodes: list[BrokerState | ControllerState] = [*image.brokers.values(), *image.controllers.values()]
    ranges = [node.features.get(METADATA_VERSION) for node in nodes if node_id in {None, node.node_id}]
    levels = {0 if each is None else each.highest for each in ranges}
    return levels.pop() if len(levels) == 1 else None


_NONE: Final[Mapping[str, str]] = {}
_EVERY_BROKER: Final = ""


class ClusterConfigs(Struct, frozen=True, kw_only=True):
    """Settings by their Kafka names. Those that do not matter for Kafka's files, passwords too, are left out.

    Args:
        path: directory of the metadata log, or data directory of ZooKeeper; None: there is none.
        is_whole: whether all of the log from its newest snapshot on could be read.
        listed: names of the topics that exist by this log.
        topics: of each topic.
        broker: of this broker, which override server.properties; empty where its id is unknown.
        brokers: of all brokers, which override it too, and are overridden by `broker`.
        others: copies of the log with other settings of topics.
    """

    path: str | None = None
    is_whole: bool = True
    listed: frozenset[str] = frozenset()
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, str] = field(default_factory=dict)
    others: tuple[OtherCopy, ...] = ()

    @property
    def origin(self) -> str:
        """Where these values come from, for people."""
        if self.path is None:
            return "the settings of the topic"
        return f"{self.path}{'' if self.is_whole else ', which is damaged'}"

    def of_topic(self, topic: str | None) -> Mapping[str, str]:
        """Return the settings of one topic."""
        return _NONE if topic is None else self.topics.get(topic, _NONE)

    def knows(self, topic: str | None) -> bool:
        """Return whether all settings of a topic are known: one that this log does not have is not set."""
        return self.is_whole and topic is not None and (topic in self.listed or topic in self.topics)

    def contradictions(self, topic: str | None, name: str) -> str:
        """Return how other copies of the log differ in a topic's setting, as the end of the origin's text."""
        value = self.of_topic(topic).get(name)
        older: list[str] = []
        tied: list[str] = []
        for copy in self.others:
            other = copy.topics.get(topic or "", _NONE).get(name)
            if other == value:
                continue
            if other is not None:
                (tied if copy.is_tied else older).append(f"{copy.path} has {name}={other}")
            elif copy.is_tied:
                tied.append(f"{copy.path} does not set {name}")
        text = f", newer than others: {'; '.join(older)}" if older else ""
        return f"{text}, contradicted by a copy that ends at the same offset: {'; '.join(tied)}" if tied else text


class OtherCopy(Struct, frozen=True, kw_only=True):
    """A copy of the metadata log with other settings of topics than the one that is used.

    Args:
        path: its directory.
        topics: its settings of each topic.
        is_tied: whether it ends where the one that is used does, so that neither is newer.
    """

    path: str
    topics: Mapping[str, Mapping[str, str]]
    is_tied: bool


class _Copy(Struct, frozen=True, kw_only=True):
    """One copy of the metadata log: where it ends, all values by resource, and those of topics by name."""

    path: str
    is_whole: bool
    end_offset: int
    listed: frozenset[str]
    values: Mapping[tuple[int, str], Mapping[str, str]]

    topics: Mapping[str, Mapping[str, str]]

    @property
    def rank(self) -> tuple[int, bool]:
        """The key by which copies are compared: a newer one has a larger rank."""
        return self.end_offset, self.is_whole


class Copies(Struct, frozen=True, kw_only=True):
    """The copies of the metadata log in the log directories of one cluster.

    Args:
        of_dirs: by the path of the log directory.
        newest: the one that ends last; of several the first. None: there is none.
        others: copies with other settings of topics than the newest.
    """

    of_dirs: Mapping[str, _Copy]
    newest: _Copy | None
    others: tuple[OtherCopy, ...]

    def configs(self, node_id: str | None, log_dir: str | None) -> ClusterConfigs:
        """Return the settings in the newest copy; without any, nothing is known.

        Args:
            node_id: of the broker whose settings are wanted; None: unknown.
            log_dir: path of the log directory whose copy is used if it ends where the newest does.
        """
        newest, own, others = self.newest, self.of_dirs.get(log_dir or ""), self.others
        if newest is None:
            return ClusterConfigs()
        if own is not None and own.rank == newest.rank:
            if own.topics != newest.topics:
                first = OtherCopy(path=newest.path, topics=newest.topics, is_tied=True)
                others = (first, *(copy for copy in others if copy.path != own.path))
            newest = own
        return ClusterConfigs(
            path=newest.path,
            is_whole=newest.is_whole,
            listed=newest.listed,
            topics=newest.topics,
            broker=_NONE if node_id is None else newest.values.get((BROKER_RESOURCE, node_id), _NONE),
            brokers=newest.values.get((BROKER_RESOURCE, _EVERY_BROKER), _NONE),
            others=others,
        )


def read_copies(log_dirs: Iterable[str], named: NamedDirs | None = None) -> Copies:
    """Read the metadata logs of some log directories of one cluster.

    Args:
        log_dirs: their paths.
        named: what the command reads once; None: nothing is kept.
    """
    paths = {log_dir: path for log_dir in log_dirs if is_directory(path := f"{log_dir}/{METADATA_TOPIC}-0")}
    copies = {log_dir: _read_copy(path, named) for log_dir, path in paths.items()}
    newest = max(copies.values(), key=lambda copy: copy.rank, default=None)
    others = [
        OtherCopy(path=copy.path, topics=copy.topics, is_tied=copy.rank == newest.rank)
        for copy in copies.values()
        if newest is not None and copy.topics != newest.topics
    ]
    return Copies(of_dirs=copies, newest=newest, others=tuple(others))


def read_zookeeper_copy(data_dirs: Sequence[str], cluster_id: str | None) -> Copies:
    """Read what the servers of ZooKeeper have, of which the one counts that an election prefers.

    Args:
        data_dirs: their data directories.
        cluster_id: of the log directory that is meant; None: it has none.

    Raises SettingError where this cluster is not in the tree, or which one is meant is unknown, and StorageError.
    """
    servers = [read_data_dir(path) for path in data_dirs]
    server = servers[0] if len(servers) == 1 else best_of([end_of(each) for each in servers]).data_dir
    restored = restore(server)
    states = kafka_states(restored.tree.nodes)
    if cluster_id is not None:
        states = [state for state in states if state.cluster_id == cluster_id]
    if len(states) != 1:
        whose = "" if cluster_id is None else f" with the cluster id {cluster_id} of the log directory"
        raise SettingError(
            f"{server.path} has {len(states)} Kafka clusters{whose}, so the settings of topics are unknown; "
            f"kafkalog cluster {server.path} shows what is there"
        )
    image, _ = image_of_zookeeper(states[0])
    newest = _copy_of(image, server.path, restored.last_zxid, is_whole=restored.can_be_restored)
    return Copies(of_dirs={}, newest=newest, others=())


def _read_copy(path: str, named: NamedDirs | None) -> _Copy:
    reading = read_shared_image(path, named)
    try:
        extent = read_extent(read_partition(path))
    except StorageError:
        extent = None
    return _copy_of(reading.image, path, -1 if extent is None else extent.end, is_whole=reading.is_whole)


def _copy_of(image: ClusterImage, path: str, end: int, *, is_whole: bool) -> _Copy:
    known = frozenset(known_names())
    given = {
        resource: {name: value for name, value in settings.items() if name in known}
        for resource, settings in image.configs.items()
    }
    values = {resource: settings for resource, settings in given.items() if settings}
    return _Copy(
        path=path,
        is_whole=is_whole,
        end_offset=end,
        listed=frozenset(image.topic_ids),
        values=values,
        topics={name: settings for (kind, name), settings in values.items() if kind == TOPIC_RESOURCE},
    )
