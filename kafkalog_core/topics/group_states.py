"""The state of all groups by the records of `__consumer_offsets`: offsets, and groups of every type with their members.

It is what a group coordinator knows once it has loaded the log, before any member contacts it: committed offsets
(`GroupOffsets`), classic groups (`GroupValue`), consumer and share groups (`StoredModernGroup`) and streams groups. A
first commit for a group without records makes a classic group without members, which exists until the coordinator's
next check deletes it (`OffsetMetadataManager.replay`). A tombstone of a group deletes it.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import ProtocolError
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.group_offsets import OFFSET_KEYS, GroupOffsets
from kafkalog_core.topics.group_records import decode_group
from kafkalog_core.topics.modern_group_records import CONSUMER_RECORDS, SHARE_RECORDS
from kafkalog_core.topics.record_decoders import consumer_protocol
from kafkalog_core.topics.streams_group_records import replay_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.topics.group_records import GroupValue
    from kafkalog_core.topics.modern_group_records import StoredModernGroup, TopicPartitions
    from kafkalog_core.topics.streams_group_records import StoredStreamsGroup

__all__ = [
    "CONSUMER",
    "Assignment",
    "DescribedGroup",
    "DescribedMember",
    "GroupStates",
    "GroupType",
    "group_bytes",
    "group_of_key",
    "owner_of",
]

GroupType = Literal["classic", "consumer", "share", "streams"]
"""The types of groups, by the names of `GroupType`, in lower case."""
Assignment = dict[str, tuple[int, ...]]
"""Partition numbers by topic."""

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""
_GROUP_KEY: Final = 2
_LONGEST: Final = 0xFFFF
_EPOCH_KEYS: Final = frozenset({3, 11, 17})
"""The records of groups that are not classic: their tombstones delete the group."""
_OBSOLETE_KEYS: Final = frozenset({4})
"""ConsumerGroupPartitionMetadata, which releases from 4.1 on only delete."""
_TYPE_BYTES: Final = 2
_UNIFORM: Final = "uniform"
"""The first of the assignors in group.consumer.assignors by default: that of a group whose members name none."""


def group_bytes(group: str) -> bytes:
    """Return what the key of every record of a group begins with, after its type: the id as a string of Kafka."""
    name = group.encode("utf-8", "surrogateescape")  # as a shell passes bytes that are not UTF-8
    return min(len(name), _LONGEST).to_bytes(_TYPE_BYTES, "big") + name


class DescribedMember(Struct, frozen=True, kw_only=True):
    """A member of a group.

    Args:
        member_id: by which the coordinator knows it.
        instance_id: of a static member (KIP-345).
        client_id: of its client.
        host: where it was.
        epoch: of the member; None: members of classic groups have none.
        assignment: the partitions that it has. Topics without a name are there by their ids.
        topics: that it subscribes to; None: unknown.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None = None
    assignment: Assignment = field(default_factory=dict)
    topics: frozenset[str] | None = None


class DescribedGroup(Struct, frozen=True, kw_only=True, dict=True):
    """A group as admin tools describe it.

    Args:
        name: its id.
        type: of the group.
        state: as Kafka's tools show it.
        protocol_type: `consumer`, `connect` and others; empty: nobody joined it, commits are all that is known of it.
        protocol: the assignor; empty: there is none.
        epoch: its generation or epoch; None: it has no record.
        target_epoch: of the assignment of a group whose broker assigns.
        state_ms: since when a classic group is in its state; -1: unknown.
        members: by id.
    """

    name: str
    type: GroupType
    state: str
    protocol_type: str = ""
    protocol: str = ""
    epoch: int | None = None
    target_epoch: int | None = None
    state_ms: int = -1
    members: tuple[DescribedMember, ...] = ()

    @cached_property
    def subscribed(self) -> frozenset[str] | None:
        """The topics that members subscribe to; None: those of some member are unknown."""
        topics: set[str] = set()
        for member in self.members:
            if member.topics is None:
                return None
            topics |= member.topics
        return frozenset(topics)


def _own_name(topic_id: bytes) -> str | None:
    del topic_id
    return None


class GroupStates(Struct):
    """What the replayed records say.

    Attributes:
        offsets: what was committed.
        classic: classic groups by name.
        consumers: consumer groups (KIP-848).
        shares: share groups (KIP-932).
        streams: streams groups (KIP-1071).
        simple: groups that commits alone have made.
        deleted: groups whose last record is a tombstone.
        skipped: how many records cannot be decoded, by what is wrong with them; those of `offsets` are there.
    """

    offsets: GroupOffsets = field(default_factory=GroupOffsets)
    classic: dict[str, GroupValue] = field(default_factory=dict)
    consumers: dict[str, StoredModernGroup] = field(default_factory=dict)
    shares: dict[str, StoredModernGroup] = field(default_factory=dict)
    streams: dict[str, StoredStreamsGroup] = field(default_factory=dict)
    simple: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)

    def replay(
        self, key: bytes | None, value: bytes | None, record_offset: int, transaction: int | None = None
    ) -> None:
        """Replay the record at an offset of the log; transaction: see `GroupOffsets.replay`."""
        if key is None or len(key) < _TYPE_BYTES:
            self.skipped["a record without a key"] += 1
            return
        number = int.from_bytes(key[:_TYPE_BYTES], "big")
        if number in OFFSET_KEYS:
            name = self.offsets.replay(key, value, record_offset, transaction)
            if name is not None and value is not None:
                self.note_commit(name)
            return
        try:
            if number == _GROUP_KEY:
                self._replay_classic(key, value)
            elif not (self._replay_modern(key, value) or number in _OBSOLETE_KEYS):
                self.skipped[f"a key of version {number}"] += 1
        except ProtocolError as error:
            self.skipped[str(error)] += 1

    def note_commit(self, name: str) -> None:
        """Note that a group has committed: it exists from then on."""
        if not (name in self.classic or name in self.consumers or name in self.shares or name in self.streams):
            self.simple.add(name)
        self.deleted.discard(name)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Replay a marker of a producer."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def absorb(self, other: GroupStates) -> None:
        """Add what another partition of the topic holds: it has other groups."""
        self.offsets.absorb(other.offsets)
        self.classic |= other.classic
        self.consumers |= other.consumers
        self.shares |= other.shares
        self.streams |= other.streams
        self.simple |= other.simple
        self.deleted |= other.deleted
        self.skipped += other.skipped

    def undecoded(self) -> Counter[str]:
        """Return how many records cannot be decoded, by what is wrong with them."""
        return self.skipped + self.offsets.skipped

    def protocol_types(self) -> dict[str, str]:
        """Return the protocol type of each group that commits offsets; empty: it never had members."""
        classic = {name: group.protocol_type for name, group in self.classic.items()}
        return dict.fromkeys(self.offsets.offsets, "") | classic | dict.fromkeys(self.consumers, CONSUMER)

    def names(self) -> list[str]:
        """Return the groups that exist, in their order."""
        pending = {group for offsets in self.offsets.pending.values() for group, _ in offsets}
        kinds = (self.classic, self.consumers, self.shares, self.streams, self.simple, self.offsets.offsets, pending)
        return sorted({name for each in kinds for name in each})

    def describe(self, name: str, topic_name: Callable[[bytes], str | None] = _own_name) -> DescribedGroup:
        """Return a group; one that no record names is dead, as for admin tools.

        topic_name: returns the name of the topic with an id of 16 bytes; None: it is unknown.
        """
        if name in self.consumers:
            return _modern(name, CONSUMER, self.consumers[name], topic_name)
        if name in self.shares:
            return _modern(name, "share", self.shares[name], topic_name)
        if name in self.streams:
            return _streams(name, self.streams[name])
        if name in self.classic:
            return _classic(name, self.classic[name])
        exists = name in self.simple or name in self.offsets.offsets or bool(self.offsets.pending_of(name))
        return DescribedGroup(name=name, type="classic", state="Empty" if exists else "Dead")

    def _replay_classic(self, key: bytes, value: bytes | None) -> None:
        found = decode_group(key, value)
        if found is None:
            return
        name, group = found
        self.simple.discard(name)
        if group is not None:
            self.classic[name] = group
            self.deleted.discard(name)
        else:
            self.classic.pop(name, None)
            self.deleted.add(name)

    def _replay_modern(self, key: bytes, value: bytes | None) -> bool:
        """Replay a record of another type of group; return whether it is of one."""
        number = int.from_bytes(key[:_TYPE_BYTES], "big")
        if not (
            CONSUMER_RECORDS.replay(self.consumers, key, value)
            or SHARE_RECORDS.replay(self.shares, key, value)
            or replay_streams(self.streams, key, value)
        ):
            return False
        name = group_of_key(key)
        if name is not None and value is not None:
            self.simple.discard(name)
            self.deleted.discard(name)
        elif name is not None and number in _EPOCH_KEYS:
            self.simple.discard(name)
            self.deleted.add(name)
        return True


def group_of_key(key: bytes) -> str | None:
    """Return the group in the key of a record, its first field after the type; None: it is not text."""
    start = 2 * _TYPE_BYTES
    size = int.from_bytes(key[_TYPE_BYTES:start], "big")
    try:
        return key[start : start + size].decode()
    except UnicodeDecodeError:
        return None


# --- groups of each type ----------------------------------------------------------------------------------------------
def _classic(name: str, group: GroupValue) -> DescribedGroup:
    """Return a classic group: with members it is stable once it is loaded (`GroupMetadata.loadGroup`)."""
    is_consumer = group.protocol_type == CONSUMER
    members = tuple(
        DescribedMember(
            member_id=each.member_id,
            instance_id=each.instance_id,
            client_id=each.client_id,
            host=each.client_host,
            assignment=_assigned(each.assignment) if is_consumer else {},
            topics=_subscribed(each.subscription) if is_consumer else None,
        )
        for each in group.members
    )
    return DescribedGroup(
        name=name,
        type="classic",
        state="Stable" if members else "Empty",
        protocol_type=group.protocol_type,
        protocol=group.protocol or "",
        epoch=group.generation,
        state_ms=group.state_ms,
        members=members,
    )


def _assigned(blob: bytes) -> Assignment:
    """Return the partitions in an assignment; none where it cannot be read, or the member has none yet."""
    if not blob:
        return {}
    try:
        fields = consumer_protocol("ConsumerProtocolAssignment", blob)[2]
    except ProtocolError:
        return {}
    return {each["topic"]: tuple(sorted(each["partitions"])) for each in fields["assigned_partitions"]}


def _subscribed(blob: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription; None: it cannot be read."""
    try:
        return frozenset(consumer_protocol("ConsumerProtocolSubscription", blob)[2]["topics"])
    except ProtocolError:
        return None


def _modern(
    name: str, type_: GroupType, group: StoredModernGroup, topic_name: Callable[[bytes], str | None]
) -> DescribedGroup:
    """Return a consumer or share group (`ConsumerGroup.maybeUpdateGroupState`, `ShareGroup.maybeUpdateGroupState`)."""
    members = []
    for member_id, subscription in sorted(group.subscriptions.items()):
        current = group.currents.get(member_id)
        members.append(
            DescribedMember(
                member_id=member_id,
                instance_id=subscription.instance_id,
                client_id=subscription.client_id,
                host=subscription.client_host,
                epoch=None if current is None else current.epoch,
                assignment={} if current is None else _named(current.assigned, topic_name),
                # What a regular expression matches is the broker's to know.
                topics=None if subscription.pattern else subscription.topics,
            )
        )
    return DescribedGroup(
        name=name,
        type=type_,
        state=_modern_state(group, type_),
        protocol_type=type_,
        protocol=_assignor(group) if type_ == CONSUMER else "simple",
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        members=tuple(members),
    )


def _modern_state(group: StoredModernGroup, type_: GroupType) -> str:
    if not group.subscriptions:
        return "Empty"
    if type_ == "share":
        return "Stable"
    if group.epoch > group.target_epoch:
        return "Assigning"
    is_settled = all(
        (current := group.currents.get(name)) is not None and not current.state and current.epoch == group.target_epoch
        for name in group.subscriptions
    )
    return "Stable" if is_settled else "Reconciling"


def _assignor(group: StoredModernGroup) -> str:
    """Return the assignor that most members name (`ConsumerGroup.preferredServerAssignor`), else the default."""
    named = Counter(each.assignor for each in group.subscriptions.values() if each.assignor)
    return named.most_common(1)[0][0] if named else _UNIFORM


def _named(places: TopicPartitions, topic_name: Callable[[bytes], str | None]) -> Assignment:
    return {topic_name(topic_id) or uuid_text(topic_id): tuple(sorted(numbers)) for topic_id, numbers in places.items()}


def _streams(name: str, group: StoredStreamsGroup) -> DescribedGroup:
    """Return a streams group (`StreamsGroup.maybeUpdateGroupState`)."""
    members = tuple(
        DescribedMember(
            member_id=member_id,
            instance_id=each.instance_id,
            client_id=each.client_id,
            host=each.client_host,
            epoch=group.epochs.get(member_id),
            assignment=group.partitions_of(member_id),
            topics=frozenset(topic for topics in group.sources.values() for topic in topics),
        )
        for member_id, each in sorted(group.members.items())
    )
    if not members:
        state = "Empty"
    elif not group.is_ready:
        state = "NotReady"
    elif group.epoch > group.target_epoch:
        state = "Assigning"
    else:
        epochs = {group.epochs.get(each.member_id) for each in members}
        state = "Stable" if epochs == {group.target_epoch} and not group.revoking else "Reconciling"
    return DescribedGroup(
        name=name,
        type="streams",
        state=state,
        protocol_type="streams",
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        members=members,
    )


def owner_of(members: Iterable[DescribedMember], topic: str, partition: int) -> DescribedMember | None:
    """Return the member that has a partition; None: none has."""
    return next((each for each in members if partition in each.assignment.get(topic, ())), None)
