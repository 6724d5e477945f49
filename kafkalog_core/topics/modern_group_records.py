"""The records of consumer groups (KIP-848) and share groups (KIP-932) in `__consumer_offsets`, written and read.

A group of either kind has one record of its epoch and one of the epoch of its target assignment; a member has one of
its subscription, one of its target and one of what it has. A consumer group also has one of each regular expression, a
share group one of the partitions whose state is in `__share_group_state`. (`GroupCoordinatorRecordHelpers` and the
replays of `GroupMetadataManager` of Kafka 4.3; all values have version 0.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.group_records import Record, encoded
from kafkalog_core.wire.codec import VERSION_BYTES, codec

__all__ = [
    "CONSUMER_RECORDS",
    "SHARE_RECORDS",
    "CurrentAssignment",
    "MemberSubscription",
    "ModernGroupRecords",
    "SharedTopics",
    "StoredModernGroup",
    "TopicNumbers",
    "TopicPartitions",
]

_EPOCH, _SUBSCRIPTION = "Metadata", "MemberMetadata"
_TARGET_EPOCH, _TARGET = "TargetAssignmentMetadata", "TargetAssignmentMember"
_CURRENT: Final = "CurrentMemberAssignment"
_PATTERN, _TOPICS = "RegularExpression", "StatePartitionMetadata"

TopicPartitions = Mapping[bytes, tuple[int, ...]]
"""Partition numbers by topic id, 16 bytes."""


class TopicNumbers(NamedTuple):
    """The name of a topic, and some of its partitions."""

    name: str
    numbers: tuple[int, ...]


class SharedTopics(Struct, frozen=True):
    """The topics of a group by their ids, 16 bytes: those whose state is to be written, is written, is deleted."""

    initializing: Mapping[bytes, TopicNumbers] = field(default_factory=dict)
    initialized: Mapping[bytes, TopicNumbers] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)


class MemberSubscription(Struct, frozen=True, kw_only=True):
    """What a member wants to read; `pattern` empty: names alone.

    Members of share groups have what is before `instance_id`.
    """

    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()
    instance_id: str | None = None
    pattern: str = ""
    rebalance_ms: int = 45_000
    assignor: str | None = None


class CurrentAssignment(Struct, frozen=True, kw_only=True):
    """What a member has, and what it is still to give up; `state`: 0 stable, 1 to give up, 2 to wait for others.

    Members of share groups are stable, and have nothing to give up.
    """

    epoch: int
    previous_epoch: int
    state: int
    assigned: TopicPartitions
    revoking: TopicPartitions


class StoredModernGroup(Struct):
    """What the records of a consumer group (KIP-848) or share group add up to; they are written one by one.

    A classic group is one record, `group_records.GroupValue`.

    `target_epoch` -1: there is no target. `patterns`: regular expressions whose topics a broker has stored, of a
    consumer group. `topics`: those of a share group.
    """

    epoch: int = 0
    target_epoch: int = -1
    subscriptions: dict[str, MemberSubscription] = field(default_factory=dict)
    targets: dict[str, TopicPartitions] = field(default_factory=dict)
    currents: dict[str, CurrentAssignment] = field(default_factory=dict)
    patterns: set[str] = field(default_factory=set)
    topics: SharedTopics = field(default_factory=SharedTopics)


class ModernGroupRecords:
    """The records of one kind of group.

    Both kinds are written from the same fields, by their names: the schema of a kind takes those that it has.
    """

    def __init__(self, prefix: str, types: Mapping[str, int]) -> None:
        """Take the names of the records: a prefix, and what follows it by type (`CoordinatorRecordType`)."""
        self._prefix = prefix
        self._types = types
        self._parts = {number: part for part, number in types.items()}

    # --- writing ------------------------------------------------------------------------------------------------------
    def epoch(self, group: str, epoch: int | None) -> Record:
        """Return the record of a group's epoch; None: the tombstone of the group.

        The hash of the topics' metadata is 0: a broker that opens the log finds it changed, and assigns again.
        """
        fields = None if epoch is None else {"epoch": epoch, "metadata_hash": 0}
        return self._record(_EPOCH, {"group_id": group}, fields)

    def subscription(self, group: str, member_id: str, value: MemberSubscription | None) -> Record:
        """Return the record of what a member wants to read; None: a tombstone."""
        fields = None
        if value is not None:
            fields = {
                "instance_id": value.instance_id,
                "rack_id": value.rack_id,
                "client_id": value.client_id,
                "client_host": value.client_host,
                "subscribed_topic_names": sorted(value.topics),
                "subscribed_topic_regex": value.pattern,
                "rebalance_timeout_ms": value.rebalance_ms,
                "server_assignor": value.assignor,
                "classic_member_metadata": None,
            }
        return self._record(_SUBSCRIPTION, {"group_id": group, "member_id": member_id}, fields)

    def target_epoch(self, group: str, epoch: int | None) -> Record:
        """Return the record of the epoch of a target assignment; None: a tombstone."""
        return self._record(_TARGET_EPOCH, {"group_id": group}, None if epoch is None else {"assignment_epoch": epoch})

    def target(self, group: str, member_id: str, value: TopicPartitions | None) -> Record:
        """Return the record of what a member is to read; None: a tombstone."""
        fields = None if value is None else {"topic_partitions": _rows(value)}
        return self._record(_TARGET, {"group_id": group, "member_id": member_id}, fields)

    def current(self, group: str, member_id: str, value: CurrentAssignment | None) -> Record:
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
        return self._record(_CURRENT, {"group_id": group, "member_id": member_id}, fields)

    def pattern_tombstone(self, group: str, pattern: str) -> Record:
        """Return the tombstone of the topics of a regular expression of a consumer group."""
        return self._record(_PATTERN, {"group_id": group, "regular_expression": pattern}, None)

    def shared_topics(self, group: str, value: SharedTopics | None) -> Record:
        """Return the record of the partitions of a share group with a state; None: a tombstone."""
        fields = None
        if value is not None:
            deleting = [{"topic_id": topic_id, "topic_name": name} for topic_id, name in value.deleting.items()]
            fields = {
                "initializing_topics": _named_rows(value.initializing),
                "initialized_topics": _named_rows(value.initialized),
                "deleting_topics": deleting,
            }
        return self._record(_TOPICS, {"group_id": group}, fields)

    def _record(self, part: str, key: dict[str, Any], value: dict[str, Any] | None) -> Record:
        name = self._prefix + part
        key_bytes = encoded(f"{name}Key", 0, self._types[part], key)
        return key_bytes, None if value is None else encoded(f"{name}Value", 0, 0, value)

    # --- reading ------------------------------------------------------------------------------------------------------
    def replay(self, groups: dict[str, StoredModernGroup], key: bytes, value: bytes | None) -> bool:
        """Replay a record into the groups by name; return whether it is one of this kind. Raises ProtocolError."""
        part = self._parts.get(int.from_bytes(key[:VERSION_BYTES], "big"))
        if part is None:
            return False
        name = self._prefix + part
        place = codec(f"{name}Key", 0).decode_whole(memoryview(key)[VERSION_BYTES:])
        fields = None
        if value is not None:
            version = int.from_bytes(value[:VERSION_BYTES], "big")
            fields = codec(f"{name}Value", version).decode_whole(memoryview(value)[VERSION_BYTES:])
        group_id = place["group_id"]
        if fields is None and (part == _EPOCH or group_id not in groups):
            groups.pop(group_id, None)
            return True
        group = groups.setdefault(group_id, StoredModernGroup())
        if part == _EPOCH and fields is not None:
            group.epoch = fields["epoch"]
        elif part == _TARGET_EPOCH:
            group.target_epoch = -1 if fields is None else fields["assignment_epoch"]
        elif part == _PATTERN:
            (group.patterns.discard if fields is None else group.patterns.add)(place["regular_expression"])
        elif part == _TOPICS:
            group.topics = SharedTopics() if fields is None else _shared_topics(fields)
        else:
            _replay_member(group, part, place["member_id"], fields)
        return True


def _replay_member(group: StoredModernGroup, part: str, member_id: str, fields: dict[str, Any] | None) -> None:
    if fields is None:
        parts: dict[str, dict[str, Any]] = {
            _SUBSCRIPTION: group.subscriptions,
            _TARGET: group.targets,
            _CURRENT: group.currents,
        }
        parts[part].pop(member_id, None)
    elif part == _SUBSCRIPTION:
        group.subscriptions[member_id] = MemberSubscription(
            client_id=fields["client_id"],
            client_host=fields["client_host"],
            rack_id=fields["rack_id"],
            topics=frozenset(fields["subscribed_topic_names"]),
            instance_id=fields.get("instance_id"),
            pattern=fields.get("subscribed_topic_regex") or "",
            rebalance_ms=fields.get("rebalance_timeout_ms", -1),
            assignor=fields.get("server_assignor"),
        )
    elif part == _TARGET:
        group.targets[member_id] = _places(fields["topic_partitions"])
    else:
        group.currents[member_id] = CurrentAssignment(
            epoch=fields["member_epoch"],
            previous_epoch=fields["previous_member_epoch"],
            state=fields["state"],
            assigned=_places(fields["assigned_partitions"]),
            revoking=_places(fields.get("partitions_pending_revocation", ())),
        )


CONSUMER_RECORDS: Final = ModernGroupRecords(
    "ConsumerGroup", {_EPOCH: 3, _SUBSCRIPTION: 5, _TARGET_EPOCH: 6, _TARGET: 7, _CURRENT: 8, _PATTERN: 16}
)
SHARE_RECORDS: Final = ModernGroupRecords(
    "ShareGroup", {_SUBSCRIPTION: 10, _EPOCH: 11, _TARGET_EPOCH: 12, _TARGET: 13, _CURRENT: 14, _TOPICS: 15}
)


# --- topics -----------------------------------------------------------------------------------------------------------
def _rows(places: TopicPartitions) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, "partitions": list(numbers)} for topic_id, numbers in places.items()]


def _rows_without_epochs(places: TopicPartitions) -> list[dict[str, Any]]:
    """Return rows that do not say since which epoch a member has a partition: since the member's own."""
    return [row | {"assignment_epochs": None} for row in _rows(places)]


def _places(rows: Iterable[dict[str, Any]]) -> TopicPartitions:
    return {bytes(each["topic_id"]): tuple(each["partitions"]) for each in rows}


def _named_rows(topics: Mapping[bytes, TopicNumbers]) -> list[dict[str, Any]]:
    return [
        {"topic_id": topic_id, "topic_name": each.name, "partitions": list(each.numbers)}
        for topic_id, each in topics.items()
    ]


def _shared_topics(fields: dict[str, Any]) -> SharedTopics:
    def named(rows: list[dict[str, Any]]) -> dict[bytes, TopicNumbers]:
        return {bytes(each["topic_id"]): TopicNumbers(each["topic_name"], tuple(each["partitions"])) for each in rows}

    return SharedTopics(
        named(fields["initializing_topics"]),
        named(fields["initialized_topics"]),
        {bytes(each["topic_id"]): each["topic_name"] for each in fields["deleting_topics"]},
    )
