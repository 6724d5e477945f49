"""What topics and brokers are configured with, by the cluster metadata log.

A KRaft broker takes the settings of its topics, and those of its own that were changed while it ran, from this log. A
topic that is removed takes its settings with it.
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
    TopicCreated,
    TopicRemoved,
)
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name
from kafkalog_core.ops.logdirs.textfiles import read_properties
from kafkalog_core.ops.reading.entry_faults import EntryFile
from kafkalog_core.ops.releases.cluster_records import MetadataHistory, read_history
from kafkalog_core.ops.releases.setting_table import known_names

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ClusterConfigs", "read_cluster_configs"]

_NONE: Final[Mapping[str, str]] = {}
_EVERY_BROKER: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfigs:
    """Settings by their Kafka names; those that have nothing to do with Kafka's files, passwords too, are left out.

    Args:
        path: directory of the metadata log; null: there is none.
        is_whole: whether all of the log from its newest snapshot on could be read.
        topics: of each topic.
        broker: of this broker, which beat server.properties.
        brokers: of all brokers, which beat it likewise, and are beaten by `broker`.
    """

    path: str | None = None
    is_whole: bool = True
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """Where these values come from, for a person."""
        return f"{self.path}{'' if self.is_whole else ', which is damaged'}"

    def of_topic(self, topic: str | None) -> Mapping[str, str]:
        """What one topic is configured with."""
        return _NONE if topic is None else self.topics.get(topic, _NONE)


def read_cluster_configs(log_dir: str) -> ClusterConfigs:
    """By the metadata log in a log directory; without one, or where it is unreadable, there are none."""
    path = f"{log_dir}/{METADATA_TOPIC}-0"
    if not os.path.isdir(path):
        return ClusterConfigs()
    history = read_history(path)
    values = _replay(history)
    node_id = _node_id(log_dir)
    return ClusterConfigs(
        path=path,
        is_whole=history.is_whole,
        topics={name: given for (kind, name), given in values.items() if kind == TOPIC_RESOURCE},
        broker=_NONE if node_id is None else values.get((BROKER_RESOURCE, node_id), _NONE),
        brokers=values.get((BROKER_RESOURCE, _EVERY_BROKER), _NONE),
    )


def _replay(history: MetadataHistory) -> dict[tuple[int, str], dict[str, str]]:
    names: dict[str, str] = {}
    values: defaultdict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    known = frozenset(known_names())
    for record in history.records():
        if isinstance(record, TopicCreated):
            names[record.topic_id] = record.name
        elif isinstance(record, TopicRemoved):
            values.pop((TOPIC_RESOURCE, names.pop(record.topic_id, "")), None)
        elif isinstance(record, ConfigValue) and record.name in known:
            given = values[record.resource_type, record.resource_name]
            if record.value is None:
                given.pop(record.name, None)
            else:
                given[record.name] = record.value
    return dict(values)


def _node_id(log_dir: str) -> str | None:
    """Of meta.properties."""
    path = f"{log_dir}/{fixed_file_name(FileKind.META_PROPERTIES)}"
    try:
        text = read_properties(EntryFile(path=path, kind=FileKind.META_PROPERTIES))
    except StorageError:
        return None
    return None if text is None else text.contents.get("node.id")
