"""The records of share groups (KIP-932) in `__consumer_offsets`: what a coordinator writes, and what they say.

A group has one record of its epoch, one of the epoch of its target assignment, and one of the partitions whose state is
in `__share_group_state`; a member has one of its subscription, one of its target and one of what it has.
(`GroupCoordinatorRecordHelpers` and the replays of `GroupMetadataManager` of Kafka 4.3; all values have version 0.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.topics.group_records import Record, encoded
from kafkalog_core.wire.codec import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.topics.consumer_group_records import TopicPartitions

__all__ = [
    "ShareAssignment",
    "ShareSubscription",
    "SharedTopics",
    "StoredShareGroup",
    "TopicNumbers",
    "encode_share_current",
    "encode_share_epoch",
    "encode_share_subscription",
    "encode_share_target",
    "encode_share_target_epoch",
    "encode_shared_topics",
    "replay_share_group",
]

_KEY_BYTES: Final = 2
_SUBSCRIPTION, _EPOCH, _TARGET_EPOCH, _TARGET, _CURRENT, _TOPICS = range(10, 16)
_NAMES: Final = {
    _SUBSCRIPTION: "ShareGroupMemberMetadata",
    _EPOCH: "ShareGroupMetadata",
    _TARGET_EPOCH: "ShareGroupTargetAssignmentMetadata",
    _TARGET: "ShareGroupTargetAssignmentMember",
    _CURRENT: "ShareGroupCurrentMemberAssignment",
    _TOPICS: "ShareGroupStatePartitionMetadata",
}
_STABLE: Final = 0


class TopicNumbers(NamedTuple):
    """The name of a topic, and some of its partitions."""

    name: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SharedTopics:
    """The topics of a group by their ids, 16 bytes: those whose state is to be written, is written, is deleted."""

    initializing: Mapping[bytes, TopicNumbers] = field(default_factory=dict)
    initialized: Mapping[bytes, TopicNumbers] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSubscription:
    """What a member wants to read."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAssignment:
    """What a member has."""

    epoch: int
    previous_epoch: int
    assigned: TopicPartitions


@dataclass(slots=True)
class StoredShareGroup:
    """What the records of a group say; `target_epoch` -1: there is no target."""

    epoch: int = 0
    target_epoch: int = -1
    subscriptions: dict[str, ShareSubscription] = field(default_factory=dict)
    targets: dict[str, TopicPartitions] = field(default_factory=dict)
    currents: dict[str, ShareAssignment] = field(default_factory=dict)
    topics: SharedTopics = field(default_factory=SharedTopics)


# --- writing ----------------------------------------------------------------------------------------------------------
def encode_share_epoch(group: str, epoch: int | None) -> Record:
    """Return the record of a group's epoch; None: the tombstone of the group.

    The hash of the topics' metadata is 0: a broker that opens the log finds it changed, and assigns again.
    """
    fields = None if epoch is None else {"epoch": epoch, "metadata_hash": 0}
    return _record(_EPOCH, {"group_id": group}, fields)


def encode_share_subscription(group: str, member_id: str, value: ShareSubscription | None) -> Record:
    """Return the record of what a member wants to read; None: a tombstone."""
    fields = None
    if value is not None:
        fields = {
            "rack_id": value.rack_id,
            "client_id": value.client_id,
            "client_host": value.client_host,
            "subscribed_topic_names": list(value.topics),
        }
    return _record(_SUBSCRIPTION, {"group_id": group, "member_id": member_id}, fields)


def encode_share_target_epoch(group: str, epoch: int | None) -> Record:
    """Return the record of the epoch of a target assignment; None: a tombstone."""
    return _record(_TARGET_EPOCH, {"group_id": group}, None if epoch is None else {"assignment_epoch": epoch})


def encode_share_target(group: str, member_id: str, value: TopicPartitions | None) -> Record:
    """Return the record of what a member is to read; None: a tombstone."""
    fields = None if value is None else {"topic_partitions": _rows(value)}
    return _record(_TARGET, {"group_id": group, "member_id": member_id}, fields)


def encode_share_current(group: str, member_id: str, value: ShareAssignment | None) -> Record:
    """Return the record of what a member has; None: a tombstone."""
    fields = None
    if value is not None:
        fields = {
            "member_epoch": value.epoch,
            "previous_member_epoch": value.previous_epoch,
            "state": _STABLE,
            "assigned_partitions": _rows(value.assigned),
        }
    return _record(_CURRENT, {"group_id": group, "member_id": member_id}, fields)


def encode_shared_topics(group: str, value: SharedTopics | None) -> Record:
    """Return the record of the partitions with a state; None: a tombstone."""
    fields = None
    if value is not None:
        fields = {
            "initializing_topics": _named_rows(value.initializing),
            "initialized_topics": _named_rows(value.initialized),
            "deleting_topics": [
                {"topic_id": topic_id, "topic_name": name} for topic_id, name in value.deleting.items()
            ],
        }
    return _record(_TOPICS, {"group_id": group}, fields)


def _record(kind: int, key: dict[str, Any], value: dict[str, Any] | None) -> Record:
    name = _NAMES[kind]
    return encoded(f"{name}Key", 0, kind, key), None if value is None else encoded(f"{name}Value", 0, 0, value)


def _rows(places: TopicPartitions) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, "partitions": list(numbers)} for topic_id, numbers in places.items()]


def _named_rows(topics: Mapping[bytes, TopicNumbers]) -> list[dict[str, Any]]:
    return [
        {"topic_id": topic_id, "topic_name": each.name, "partitions": list(each.numbers)}
        for topic_id, each in topics.items()
    ]


# --- reading ----------------------------------------------------------------------------------------------------------
def replay_share_group(groups: dict[str, StoredShareGroup], key: bytes, value: bytes | None) -> bool:
    """Replay a record into the groups by name; return whether it is one of such a group. Raises ProtocolError."""
    kind = int.from_bytes(key[:_KEY_BYTES], "big")
    name = _NAMES.get(kind)
    if name is None:
        return False
    place = codec(f"{name}Key", 0).decode_whole(memoryview(key)[_KEY_BYTES:])
    fields = None
    if value is not None:
        version = int.from_bytes(value[:_KEY_BYTES], "big")
        fields = codec(f"{name}Value", version).decode_whole(memoryview(value)[_KEY_BYTES:])
    group_id = place["group_id"]
    if fields is None and (kind == _EPOCH or group_id not in groups):
        groups.pop(group_id, None)
        return True
    group = groups.setdefault(group_id, StoredShareGroup())
    if kind == _EPOCH and fields is not None:
        group.epoch = fields["epoch"]
    elif kind == _TARGET_EPOCH:
        group.target_epoch = -1 if fields is None else fields["assignment_epoch"]
    elif kind == _TOPICS:
        group.topics = SharedTopics() if fields is None else _shared_topics(fields)
    else:
        _replay_member(group, kind, place["member_id"], fields)
    return True


def _replay_member(group: StoredShareGroup, kind: int, member_id: str, fields: dict[str, Any] | None) -> None:
    if fields is None:
        parts: dict[int, dict[str, Any]] = {
            _SUBSCRIPTION: group.subscriptions,
            _TARGET: group.targets,
            _CURRENT: group.currents,
        }
        parts[kind].pop(member_id, None)
    elif kind == _SUBSCRIPTION:
        group.subscriptions[member_id] = ShareSubscription(
            rack_id=fields["rack_id"],
            client_id=fields["client_id"],
            client_host=fields["client_host"],
            topics=tuple(fields["subscribed_topic_names"]),
        )
    elif kind == _TARGET:
        group.targets[member_id] = _places(fields["topic_partitions"])
    else:
        group.currents[member_id] = ShareAssignment(
            epoch=fields["member_epoch"],
            previous_epoch=fields["previous_member_epoch"],
            assigned=_places(fields["assigned_partitions"]),
        )


def _places(rows: list[dict[str, Any]]) -> TopicPartitions:
    return {bytes(each["topic_id"]): tuple(each["partitions"]) for each in rows}


def _shared_topics(fields: dict[str, Any]) -> SharedTopics:
    def named(rows: list[dict[str, Any]]) -> dict[bytes, TopicNumbers]:
        return {bytes(each["topic_id"]): TopicNumbers(each["topic_name"], tuple(each["partitions"])) for each in rows}

    return SharedTopics(
        named(fields["initializing_topics"]),
        named(fields["initialized_topics"]),
        {bytes(each["topic_id"]): each["topic_name"] for each in fields["deleting_topics"]},
    )
