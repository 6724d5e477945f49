"""Some records of the cluster metadata log: features' levels, what brokers support, topics, and what is configured.

    value = frame version, record type, record version (unsigned varints each), then the fields, flexible encoding

Every other type of record gives None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalog_core.format.flexible import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.format.flexible import Buffer

__all__ = [
    "BROKER_RESOURCE",
    "METADATA_VERSION",
    "TOPIC_RESOURCE",
    "ConfigValue",
    "FeatureLevel",
    "MetadataRecord",
    "Registration",
    "TopicCreated",
    "TopicRemoved",
    "decode_metadata_record",
    "release_of_level",
]

METADATA_VERSION: Final = "metadata.version"
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""Of a node by its id; of all of them where the name is empty (ConfigResource.Type)."""
_FRAME_VERSION: Final = 1
_REGISTER_BROKER: Final = 0
_TOPIC: Final = 2
_CONFIG: Final = 4
_REMOVE_TOPIC: Final = 9
_REGISTER_CONTROLLER: Final = 27
_FEATURE_LEVEL: Final = 12
_FIRST_WITH_SHUTDOWN: Final = 1
_FIRST_WITH_MIGRATION: Final = 2
_LOG_DIRS_TAG: Final = 0
_FIRST_LEVELS: Final = (  # the first level of metadata.version that is of a release (MetadataVersion.java)
    (1, (3, 0)),
    (2, (3, 1)),
    (3, (3, 2)),
    (4, (3, 3)),
    (8, (3, 4)),
    (9, (3, 5)),
    (12, (3, 6)),
    (15, (3, 7)),
    (20, (3, 8)),
    (21, (3, 9)),
    (22, (4, 0)),
    (26, (4, 1)),
    (28, (4, 2)),
    (30, (4, 3)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevel:
    """The level of a feature that the whole cluster uses from here on."""

    name: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A broker or controller that started.

    Args:
        node_id: its id.
        highest_levels: of each feature that its release knows.
        log_dirs: ids of a broker's log directories, in base64url; empty: it did not say.
    """

    node_id: int
    highest_levels: dict[str, int]
    log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """A topic and its id, in base64url."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRemoved:
    """A topic that was deleted, by its id."""

    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """A setting of a topic or a broker; `value` null: it is not set any more."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


MetadataRecord: TypeAlias = ConfigValue | FeatureLevel | Registration | TopicCreated | TopicRemoved


def release_of_level(level: int) -> tuple[int, int] | None:
    """The release, 3.0 or later, that a level of metadata.version came with; those above all known: the latest."""
    return next((release for first, release in reversed(_FIRST_LEVELS) if first <= level), None)


def decode_metadata_record(value: Buffer) -> MetadataRecord | None:
    """The record in a data record's value; None where it is of another type, or framed as no release knows.

    Raises TruncatedError or FieldError for one of these types that is not whole.
    """
    cursor = Cursor(value, 0, "metadata record")
    frame, kind, version = cursor.unsigned_varint(), cursor.unsigned_varint(), cursor.unsigned_varint()
    if frame != _FRAME_VERSION:
        return None
    decode = _DECODERS.get(kind)
    return None if decode is None else decode(cursor, version)


def _feature_level(cursor: Cursor, _: int) -> FeatureLevel:
    return FeatureLevel(name=cursor.compact_string(), level=cursor.int16())


def _topic(cursor: Cursor, _: int) -> TopicCreated:
    return TopicCreated(name=cursor.compact_string(), topic_id=cursor.uuid())


def _removed_topic(cursor: Cursor, _: int) -> TopicRemoved:
    return TopicRemoved(topic_id=cursor.uuid())


def _config(cursor: Cursor, _: int) -> ConfigValue:
    return ConfigValue(
        resource_type=cursor.int8(),
        resource_name=cursor.compact_string(),
        name=cursor.compact_string(),
        value=cursor.compact_nullable_string(),
    )


def _broker(cursor: Cursor, version: int) -> Registration:
    node_id = cursor.int32()
    if version >= _FIRST_WITH_MIGRATION:
        cursor.boolean()  # whether it is one that migrates from ZooKeeper
    cursor.uuid()  # of this run of the broker
    cursor.int64()  # the broker's epoch
    levels = _levels(cursor)
    cursor.compact_nullable_string()  # its rack
    cursor.boolean()  # whether it is fenced
    if version >= _FIRST_WITH_SHUTDOWN:
        cursor.boolean()  # whether it is about to stop
    tagged = {field.tag: field.data for field in cursor.tagged_fields()}
    return Registration(node_id=node_id, highest_levels=levels, log_dirs=_log_dirs(tagged.get(_LOG_DIRS_TAG)))


def _log_dirs(data: bytes | None) -> tuple[str, ...]:
    cursor = Cursor(data or b"\1", 0, "log directories of a broker")
    return cursor.compact_array(cursor.uuid)


def _controller(cursor: Cursor, _: int) -> Registration:
    node_id = cursor.int32()
    cursor.uuid()
    cursor.boolean()  # whether it is ready for a migration from ZooKeeper
    return Registration(node_id=node_id, highest_levels=_levels(cursor))


def _levels(cursor: Cursor) -> dict[str, int]:
    """Features, behind the end points."""
    cursor.compact_array(lambda: _end_point(cursor))
    return dict(cursor.compact_array(lambda: _feature(cursor)))


def _end_point(cursor: Cursor) -> None:
    cursor.compact_string()
    cursor.compact_string()
    cursor.uint16()
    cursor.int16()
    cursor.tagged_fields()


def _feature(cursor: Cursor) -> tuple[str, int]:
    name, _, highest = cursor.compact_string(), cursor.int16(), cursor.int16()
    cursor.tagged_fields()
    return name, highest


_DECODERS: Final[Mapping[int, Callable[[Cursor, int], MetadataRecord]]] = {
    _REGISTER_BROKER: _broker,
    _TOPIC: _topic,
    _CONFIG: _config,
    _REMOVE_TOPIC: _removed_topic,
    _FEATURE_LEVEL: _feature_level,
    _REGISTER_CONTROLLER: _controller,
}
