"""Some records of the cluster metadata log: feature levels, registrations, topics, partitions, configurations, users.

    value = frame version, record type, record version (unsigned varints each), then the fields, flexible encoding

Every other record type is decoded as `None`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalog_core.format.control import FlexibleReader, KRaftVoters
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.format.control import Buffer

__all__ = [
    "BROKER_RESOURCE",
    "GROUP_RESOURCE",
    "METADATA_VERSION",
    "TOPIC_RESOURCE",
    "ConfigValue",
    "FeatureLevel",
    "MetadataRecord",
    "PartitionAssigned",
    "Registration",
    "ScramCredential",
    "ScramCredentialRemoved",
    "TopicCreated",
    "TopicRemoved",
    "decode_metadata_record",
]

METADATA_VERSION: Final = "metadata.version"
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32
"""A node by its id, or all nodes if the name is empty (ConfigResource.Type)."""
_FRAME_VERSION: Final = 1
_REGISTER_BROKER: Final = 0
_TOPIC: Final = 2
_PARTITION: Final = 3
_CONFIG: Final = 4
_PARTITION_CHANGE: Final = 5
_REMOVE_TOPIC: Final = 9
_REGISTER_CONTROLLER: Final = 27
_SCRAM: Final = 11
_FEATURE_LEVEL: Final = 12
_REMOVE_SCRAM: Final = 22
_FIRST_WITH_SHUTDOWN: Final = 1
_FIRST_WITH_MIGRATION: Final = 2
_LOG_DIRS_TAG: Final = 0
_FIRST_WITH_DIRECTORIES: Final = 1
_CHANGED_ISR_TAG: Final = 0
_CHANGED_REPLICAS_TAG: Final = 2
_CHANGED_DIRECTORIES_TAG: Final = 8


class FeatureLevel(Struct, frozen=True, kw_only=True):
    """The level of a feature, which the whole cluster uses from this offset on."""

    name: str
    level: int


class Registration(Struct, frozen=True, kw_only=True):
    """A broker or controller that started.

    Args:
        node_id: its id.
        highest_levels: of each feature that its release knows.
        log_dirs: ids of a broker's log directories, in base64url; empty: unknown.
    """

    node_id: int
    highest_levels: dict[str, int]
    log_dirs: tuple[str, ...] = ()


class TopicCreated(Struct, frozen=True, kw_only=True):
    """A topic and its id, in base64url."""

    name: str
    topic_id: str


class TopicRemoved(Struct, frozen=True, kw_only=True):
    """A topic that was deleted, by its id."""

    topic_id: str


class ConfigValue(Struct, frozen=True, kw_only=True):
    """A setting of a topic or a broker; `value` is `None` if the setting is removed."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a cluster keeps of a user's password (KIP-900); `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    user: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class ScramCredentialRemoved(Struct, frozen=True, kw_only=True):
    """A user that can no longer connect by a mechanism."""

    user: str
    mechanism: int


class PartitionAssigned(Struct, frozen=True, kw_only=True):
    """The replicas of a partition, from this offset on.

    Args:
        topic_id: in base64url.
        partition: its number.
        replicas: node ids; `None`: unchanged.
        directories: ids of the log directories that hold the replicas, in the same order; `None`: unchanged.
        in_sync: node ids of the ISR; `None`: unchanged.
    """

    topic_id: str
    partition: int
    replicas: tuple[int, ...] | None
    directories: tuple[str, ...] | None
    in_sync: tuple[int, ...] | None = None


MetadataRecord: TypeAlias = (
    ConfigValue
    | FeatureLevel
    | KRaftVoters
    | PartitionAssigned
    | Registration
    | ScramCredential
    | ScramCredentialRemoved
    | TopicCreated
    | TopicRemoved
)
"""A decoded record; the voters are those of a control record."""


def decode_metadata_record(value: Buffer) -> MetadataRecord | None:
    """Return the record in a data record's value; `None` for another type, or an unknown frame version.

    Raises TruncatedError or FieldError if the value of one of these types is damaged.
    """
    cursor = FlexibleReader(value, 0, "metadata record")
    frame, kind, version = cursor.unsigned_varint(), cursor.unsigned_varint(), cursor.unsigned_varint()
    if frame != _FRAME_VERSION:
        return None
    decode = _DECODERS.get(kind)
    return None if decode is None else decode(cursor, version)


def _feature_level(cursor: FlexibleReader, _: int) -> FeatureLevel:
    return FeatureLevel(name=cursor.compact_string(), level=cursor.int16())


def _topic(cursor: FlexibleReader, _: int) -> TopicCreated:
    return TopicCreated(name=cursor.compact_string(), topic_id=cursor.uuid())


def _partition(cursor: FlexibleReader, version: int) -> PartitionAssigned:
    partition, topic_id = cursor.int32(), cursor.uuid()
    replicas = cursor.compact_array(cursor.int32)
    in_sync = cursor.compact_array(cursor.int32)
    for _ in range(2):  # to be removed, to be added
        cursor.compact_array(cursor.int32)
    for _ in range(3):  # leader, leader epoch, partition epoch
        cursor.int32()
    directories = cursor.compact_array(cursor.uuid) if version >= _FIRST_WITH_DIRECTORIES else None
    return PartitionAssigned(
        topic_id=topic_id,
        partition=partition,
        replicas=replicas,
        directories=directories,
        in_sync=in_sync,
    )


def _partition_change(cursor: FlexibleReader, _: int) -> PartitionAssigned:
    partition, topic_id = cursor.int32(), cursor.uuid()
    tagged = {field.tag: field.data for field in cursor.tagged_fields()}
    replicas, directories = tagged.get(_CHANGED_REPLICAS_TAG), tagged.get(_CHANGED_DIRECTORIES_TAG)
    in_sync = tagged.get(_CHANGED_ISR_TAG)
    return PartitionAssigned(
        topic_id=topic_id,
        partition=partition,
        replicas=None if not replicas else _ints(replicas),
        directories=None if not directories else _uuids(directories),
        in_sync=None if not in_sync else _ints(in_sync),
    )


def _ints(data: bytes) -> tuple[int, ...]:
    cursor = FlexibleReader(data, 0, "replicas of a partition")
    return cursor.compact_array(cursor.int32)


def _uuids(data: bytes) -> tuple[str, ...]:
    cursor = FlexibleReader(data, 0, "log directories of a partition")
    return cursor.compact_array(cursor.uuid)


def _removed_topic(cursor: FlexibleReader, _: int) -> TopicRemoved:
    return TopicRemoved(topic_id=cursor.uuid())


def _config(cursor: FlexibleReader, _: int) -> ConfigValue:
    return ConfigValue(
        resource_type=cursor.int8(),
        resource_name=cursor.compact_string(),
        name=cursor.compact_string(),
        value=cursor.compact_nullable_string(),
    )


def _scram(cursor: FlexibleReader, _: int) -> ScramCredential:
    user, mechanism = cursor.compact_string(), cursor.int8()
    salt, stored_key, server_key = (cursor.compact_bytes() for _ in range(3))
    return ScramCredential(
        user=user,
        mechanism=mechanism,
        salt=salt,
        stored_key=stored_key,
        server_key=server_key,
        iterations=cursor.int32(),
    )


def _removed_scram(cursor: FlexibleReader, _: int) -> ScramCredentialRemoved:
    return ScramCredentialRemoved(user=cursor.compact_string(), mechanism=cursor.int8())


def _broker(cursor: FlexibleReader, version: int) -> Registration:
    node_id = cursor.int32()
    if version >= _FIRST_WITH_MIGRATION:
        cursor.boolean()  # whether it migrates from ZooKeeper
    cursor.uuid()  # incarnation id
    cursor.int64()  # the broker's epoch
    levels = _levels(cursor)
    cursor.compact_nullable_string()  # its rack
    cursor.boolean()  # whether it is fenced
    if version >= _FIRST_WITH_SHUTDOWN:
        cursor.boolean()  # whether it is in controlled shutdown
    tagged = {field.tag: field.data for field in cursor.tagged_fields()}
    return Registration(node_id=node_id, highest_levels=levels, log_dirs=_log_dirs(tagged.get(_LOG_DIRS_TAG)))


def _log_dirs(data: bytes | None) -> tuple[str, ...]:
    cursor = FlexibleReader(data or b"\1", 0, "log directories of a broker")
    return cursor.compact_array(cursor.uuid)


def _controller(cursor: FlexibleReader, _: int) -> Registration:
    node_id = cursor.int32()
    cursor.uuid()
    cursor.boolean()  # whether it is ready for a migration from ZooKeeper
    return Registration(node_id=node_id, highest_levels=_levels(cursor))


def _levels(cursor: FlexibleReader) -> dict[str, int]:
    """Return the highest level of each feature; the features follow the end points."""
    cursor.compact_array(lambda: _end_point(cursor))
    return dict(cursor.compact_array(lambda: _feature(cursor)))


def _end_point(cursor: FlexibleReader) -> None:
    cursor.compact_string()
    cursor.compact_string()
    cursor.uint16()
    cursor.int16()
    cursor.tagged_fields()


def _feature(cursor: FlexibleReader) -> tuple[str, int]:
    name, _, highest = cursor.compact_string(), cursor.int16(), cursor.int16()
    cursor.tagged_fields()
    return name, highest


_DECODERS: Final[Mapping[int, Callable[[FlexibleReader, int], MetadataRecord]]] = {
    _REGISTER_BROKER: _broker,
    _TOPIC: _topic,
    _PARTITION: _partition,
    _CONFIG: _config,
    _PARTITION_CHANGE: _partition_change,
    _REMOVE_TOPIC: _removed_topic,
    _SCRAM: _scram,
    _FEATURE_LEVEL: _feature_level,
    _REMOVE_SCRAM: _removed_scram,
    _REGISTER_CONTROLLER: _controller,
}
