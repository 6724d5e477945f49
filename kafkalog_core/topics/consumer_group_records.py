"""The records of consumer groups of KIP-848 in `__consumer_offsets`: what a coordinator writes, and what they say.

A group has one record of its epoch and one of the epoch of its target assignment; a member has one of its
subscription, one of its target and one of what it has. (`GroupCoordinatorRecordHelpers` and the replays of
`GroupMetadataManager` of Kafka 4.3; all values have version 0.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkalog_core.topics.group_records import Record, encoded
from kafkalog_core.wire.codec import codec

__all__ = [
    "CurrentAssignment",
    "MemberSubscription",
    "StoredConsumerGroup",
    "TopicPartitions",
    "encode_current",
    "encode_epoch",
    "encode_pattern_tombstone",
    "encode_subscription",
    "encode_target",
    "encode_target_epoch",
    "replay_consumer_group",
]

_KEY_BYTES: Final = 2
_EPOCH, _SUBSCRIPTION, _TARGET_EPOCH, _TARGET, _CURRENT, _PATTERN = 3, 5, 6, 7, 8, 16
_NAMES: Final = {
    _EPOCH: "ConsumerGroupMetadata",
    _SUBSCRIPTION: "ConsumerGroupMemberMetadata",
    _TARGET_EPOCH: "ConsumerGroupTargetAssignmentMetadata",
    _TARGET: "ConsumerGroupTargetAssignmentMember",
    _CURRENT: "ConsumerGroupCurrentMemberAssignment",
    _PATTERN: "ConsumerGroupRegularExpression",
}

TopicPartitions = Mapping[bytes, tuple[int, ...]]
"""Partition numbers by topic id, 16 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """What a member wants to read; `pattern` empty: names alone."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    pattern: str
    rebalance_ms: int
    assignor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a member has, and what it is still to give up; `state`: 0 stable, 1 to give up, 2 to wait for others."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: TopicPartitions
    revoking: TopicPartitions


@dataclass(slots=True)
class StoredConsumerGroup:
    """What the records of a group say.

    `target_epoch` -1: there is no target. `patterns`: regular expressions whose topics a broker has stored.
    """

    epoch: int = 0
    target_epoch: int = -1
    subscriptions: dict[str, MemberSubscription] = field(default_factory=dict)
    targets: dict[str, TopicPartitions] = field(default_factory=dict)
    currents: dict[str, CurrentAssignment] = field(default_factory=dict)
    patterns: set[str] = field(default_factory=set)


# --- writing ----------------------------------------------------------------------------------------------------------
def encode_epoch(group: str, epoch: int | None) -> Record:
    """Return the record of a group's epoch; None: the tombstone of the group.

    The hash of the topics' metadata is left out: a broker that opens the log finds it changed, and assigns again.
    """
    return _record(_EPOCH, {"group_id": group}, None if epoch is None else {"epoch": epoch})


def encode_subscription(group: str, member_id: str, value: MemberSubscription | None) -> Record:
    """Return the record of what a member wants to read; None: a tombstone."""
    fields = None
    if value is not None:
        fields = {
            "instance_id": value.instance_id,
            "rack_id": value.rack_id,
            "client_id": value.client_id,
            "client_host": value.client_host,
            "subscribed_topic_names": list(value.topics),
            "subscribed_topic_regex": value.pattern,
            "rebalance_timeout_ms": value.rebalance_ms,
            "server_assignor": value.assignor,
            "classic_member_metadata": None,
        }
    return _record(_SUBSCRIPTION, {"group_id": group, "member_id": member_id}, fields)


def encode_target_epoch(group: str, epoch: int | None) -> Record:
    """Return the record of the epoch of a target assignment; None: a tombstone."""
    return _record(_TARGET_EPOCH, {"group_id": group}, None if epoch is None else {"assignment_epoch": epoch})


def encode_target(group: str, member_id: str, value: TopicPartitions | None) -> Record:
    """Return the record of what a member is to read; None: a tombstone."""
    fields = None if value is None else {"topic_partitions": _rows(value)}
    return _record(_TARGET, {"group_id": group, "member_id": member_id}, fields)


def encode_current(group: str, member_id: str, value: CurrentAssignment | None) -> Record:
    """Return the record of what a member has; None: a tombstone."""
    fields = None
    if value is not None:
        fields = {
            "member_epoch": value.epoch,
            "previous_member_epoch": value.previous_epoch,
            "state": value.state,
            "assigned_partitions": _rows_without_epochs(value.assigned),
            "partitions_pending_revocation": _rows_without_epochs(value.revoking),
        }
    return _record(_CURRENT, {"group_id": group, "member_id": member_id}, fields)


def encode_pattern_tombstone(group: str, pattern: str) -> Record:
    """Return the tombstone of the topics of a regular expression."""
    return _record(_PATTERN, {"group_id": group, "regular_expression": pattern}, None)


def _record(kind: int, key: dict[str, Any], value: dict[str, Any] | None) -> Record:
    name = _NAMES[kind]
    return encoded(f"{name}Key", 0, kind, key), None if value is None else encoded(f"{name}Value", 0, 0, value)


def _rows(places: TopicPartitions) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, "partitions": list(numbers)} for topic_id, numbers in places.items()]


def _rows_without_epochs(places: TopicPartitions) -> list[dict[str, Any]]:
    """Return rows that do not say since which epoch a member has a partition: since the member's own."""
    return [row | {"assignment_epochs": None} for row in _rows(places)]


# --- reading ----------------------------------------------------------------------------------------------------------
def replay_consumer_group(groups: dict[str, StoredConsumerGroup], key: bytes, value: bytes | None) -> bool:
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
    group = groups.setdefault(group_id, StoredConsumerGroup())
    if kind == _EPOCH and fields is not None:
        group.epoch = fields["epoch"]
    elif kind == _TARGET_EPOCH:
        group.target_epoch = -1 if fields is None else fields["assignment_epoch"]
    elif kind == _PATTERN:
        (group.patterns.discard if fields is None else group.patterns.add)(place["regular_expression"])
    else:
        _replay_member(group, kind, place["member_id"], fields)
    return True


def _replay_member(group: StoredConsumerGroup, kind: int, member_id: str, fields: dict[str, Any] | None) -> None:
    if fields is None:
        parts: dict[int, dict[str, Any]] = {
            _SUBSCRIPTION: group.subscriptions,
            _TARGET: group.targets,
            _CURRENT: group.currents,
        }
        parts[kind].pop(member_id, None)
    elif kind == _SUBSCRIPTION:
        group.subscriptions[member_id] = MemberSubscription(
            instance_id=fields["instance_id"],
            rack_id=fields["rack_id"],
            client_id=fields["client_id"],
            client_host=fields["client_host"],
            topics=tuple(fields["subscribed_topic_names"]),
            pattern=fields["subscribed_topic_regex"] or "",
            rebalance_ms=fields["rebalance_timeout_ms"],
            assignor=fields["server_assignor"],
        )
    elif kind == _TARGET:
        group.targets[member_id] = _places(fields["topic_partitions"])
    else:
        group.currents[member_id] = CurrentAssignment(
            epoch=fields["member_epoch"],
            previous_epoch=fields["previous_member_epoch"],
            state=fields["state"],
            assigned=_places(fields["assigned_partitions"]),
            revoking=_places(fields["partitions_pending_revocation"]),
        )


def _places(rows: list[dict[str, Any]]) -> TopicPartitions:
    return {bytes(each["topic_id"]): tuple(each["partitions"]) for each in rows}
