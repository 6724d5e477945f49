"""What topics and brokers are configured with, by the cluster metadata log.

A KRaft broker takes the settings of its topics, and those of its own that were changed while it ran, from this log. A
topic that is removed takes its settings with it. Every broker of a cluster has a copy of it in one of its log
directories (`metadata.log.dir`, by default the first one), so one copy answers for all of them; of several, the one
that reaches furthest.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.metadata_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigValue,
)
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.ops.logdirs.extents import read_extent
from kafkalog_core.ops.releases.cluster_records import ClusterTopics, read_history
from kafkalog_core.ops.releases.setting_table import known_names
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ClusterConfigs", "Copies", "OtherCopy", "read_copies"]

_NONE: Final[Mapping[str, str]] = {}
_EVERY_BROKER: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfigs:
    """Settings by their Kafka names; those that have nothing to do with Kafka's files, passwords too, are left out.

    Args:
        path: directory of the metadata log; None: there is none.
        is_whole: whether all of the log from its newest snapshot on could be read.
        listed: names of the topics that exist by this log.
        topics: of each topic.
        has_node: whether the id of this broker is known, without which `broker` is not.
        broker: of this broker, which beat server.properties.
        brokers: of all brokers, which beat it likewise, and are beaten by `broker`.
        others: copies of the log that say something else of topics.
    """

    path: str | None = None
    is_whole: bool = True
    listed: frozenset[str] = frozenset()
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    has_node: bool = False
    broker: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, str] = field(default_factory=dict)
    others: tuple[OtherCopy, ...] = ()

    @property
    def origin(self) -> str:
        """Where these values come from, for a person."""
        return f"{self.path}{'' if self.is_whole else ', which is damaged'}"

    def of_topic(self, topic: str | None) -> Mapping[str, str]:
        """What one topic is configured with."""
        return _NONE if topic is None else self.topics.get(topic, _NONE)

    def knows(self, topic: str | None) -> bool:
        """Whether all settings of a topic are known: those that this log does not have, the topic does not have."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCopy:
    """A copy of the metadata log that says something else of topics than the one that is used.

    Args:
        path: its directory.
        topics: what it says of each topic.
        is_tied: whether it ends where the one that is used does, so that neither is newer.
    """

    path: str
    topics: Mapping[str, Mapping[str, str]]
    is_tied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """One copy of the metadata log: where it ends, all values by resource, and those of topics by name."""

    path: str
    is_whole: bool
    end_offset: int
    listed: frozenset[str]
    values: Mapping[tuple[int, str], Mapping[str, str]]

    topics: Mapping[str, Mapping[str, str]]

    @property
    def rank(self) -> tuple[int, bool]:
        """What a newer copy has more of."""
        return self.end_offset, self.is_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The copies of the metadata log in the log directories of one cluster.

    Args:
        of_dirs: by the path of the log directory.
        newest: the one that ends last; of several the first. None: there is none.
        others: copies that say something else of topics than the newest.
    """

    of_dirs: Mapping[str, _Copy]
    newest: _Copy | None
    others: tuple[OtherCopy, ...]

    def configs(self, node_id: str | None, log_dir: str | None) -> ClusterConfigs:
        """Return what the newest copy says; without any, nothing is known.

        Args:
            node_id: of the broker whose settings are wanted; None: unknown.
            log_dir: path of the log directory whose copy is taken where it ends where the newest does.
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
            has_node=node_id is not None,
            broker=_NONE if node_id is None else newest.values.get((BROKER_RESOURCE, node_id), _NONE),
            brokers=newest.values.get((BROKER_RESOURCE, _EVERY_BROKER), _NONE),
            others=others,
        )


def read_copies(log_dirs: Iterable[str]) -> Copies:
    """Read the metadata logs of some log directories of one cluster, given by their paths."""
    paths = {log_dir: path for log_dir in log_dirs if os.path.isdir(path := f"{log_dir}/{METADATA_TOPIC}-0")}
    copies = {log_dir: _read_copy(path) for log_dir, path in paths.items()}
    newest = max(copies.values(), key=lambda copy: copy.rank, default=None)
    others = [
        OtherCopy(path=copy.path, topics=copy.topics, is_tied=copy.rank == newest.rank)
        for copy in copies.values()
        if newest is not None and copy.topics != newest.topics
    ]
    return Copies(of_dirs=copies, newest=newest, others=tuple(others))


def _read_copy(path: str) -> _Copy:
    history = read_history(path)
    try:
        extent = read_extent(read_partition(path))
    except StorageError:
        extent = None
    topics = ClusterTopics()
    values: defaultdict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    known = frozenset(known_names())
    for record in history.records():
        removed = topics.replay(record)
        if removed is not None:
            values.pop((TOPIC_RESOURCE, removed), None)
        elif isinstance(record, ConfigValue) and record.name in known:
            given = values[record.resource_type, record.resource_name]
            if record.value is None:
                given.pop(record.name, None)
            else:
                given[record.name] = record.value
    return _Copy(
        path=path,
        is_whole=history.is_whole,
        end_offset=-1 if extent is None else extent.end,
        listed=frozenset(topics.names.values()),
        values=dict(values),
        topics={name: given for (kind, name), given in values.items() if kind == TOPIC_RESOURCE},
    )
