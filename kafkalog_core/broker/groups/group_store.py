"""Groups in the log of the coordinator: what is written when one changes, and what the log says at the start.

The order of the records is that of `GroupMetadataManager`: a member's tombstones go from what it has to what it wants,
and those of the group come last, because the loader of a broker refuses a group that still has members.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.broker.groups.assignors import by_topic
from kafkalog_core.broker.groups.consumer_groups import ConsumerGroup, ConsumerMember, MemberState
from kafkalog_core.broker.share.share_group_store import share_group_of, share_group_records
from kafkalog_core.errors import ProtocolError
from kafkalog_core.topics.consumer_group_records import (
    CurrentAssignment,
    MemberSubscription,
    StoredConsumerGroup,
    encode_current,
    encode_epoch,
    encode_pattern_tombstone,
    encode_subscription,
    encode_target,
    encode_target_epoch,
    replay_consumer_group,
)
from kafkalog_core.topics.group_records import GroupValue, decode_group, encode_group
from kafkalog_core.topics.share_group_records import StoredShareGroup, replay_share_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.broker.groups.assignors import Place
    from kafkalog_core.broker.groups.group_registry import GroupRegistry
    from kafkalog_core.broker.logs.partition_access import TopicIds
    from kafkalog_core.broker.share.share_groups import ShareGroup
    from kafkalog_core.topics.consumer_group_records import TopicPartitions
    from kafkalog_core.topics.group_records import Record

__all__ = ["LoggedGroups", "load_groups"]

_STATES: Final = (MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED)
"""By their numbers in the log."""


class LoggedGroups:
    """A GroupStore over the log of the coordinator."""

    def __init__(self, write: Callable[[str, Sequence[Record]], None], topics: TopicIds) -> None:
        """Take the function that appends records of a group; it raises KafkalogError."""
        self._write = write
        self._topics = topics

    def save_classic(self, name: str, value: GroupValue | None) -> None:
        """See GroupStore."""
        self._write(name, [encode_group(name, value)])

    def save_consumers(self, before: ConsumerGroup, after: ConsumerGroup | None) -> None:
        """See GroupStore: nothing is written for what is as it was."""
        name = before.group_id
        if after is None:
            nobody = ConsumerGroup(name, before.epoch, before.target_epoch)
            records = [*self._changes(before, nobody), encode_target_epoch(name, None)]
            records += [encode_pattern_tombstone(name, each) for each in sorted(before.patterns)]
            records.append(encode_epoch(name, None))
        else:
            records = list(self._changes(before, after))
        self._write(name, records)

    def save_shares(self, before: ShareGroup, after: ShareGroup | None) -> None:
        """Write what changes about a share group; None: it is deleted. Raises KafkalogError."""
        self._write(before.group_id, share_group_records(before, after, self._topics))

    def _changes(self, before: ConsumerGroup, after: ConsumerGroup) -> Iterator[Record]:
        group_id = after.group_id
        yield from _removals(before, after)
        changed = [
            (before.members.get(name), member)
            for name, member in after.members.items()
            if before.members.get(name) is not member
        ]
        for old, member in changed:
            if old is None or _subscription(old) != _subscription(member):
                yield encode_subscription(group_id, member.member_id, _subscription(member))
        if after.epoch != before.epoch:
            yield encode_epoch(group_id, after.epoch)
        for name, places in after.target.items():
            if name not in before.target or before.target[name] != places:
                yield encode_target(group_id, name, self._by_id(places))
        if after.target_epoch != before.target_epoch:
            yield encode_target_epoch(group_id, after.target_epoch)
        for old, member in changed:
            if old is None or _current(old) != _current(member):
                yield encode_current(group_id, member.member_id, self._current(member))

    def _current(self, member: ConsumerMember) -> CurrentAssignment:
        return CurrentAssignment(
            epoch=member.epoch,
            previous_epoch=member.previous_epoch,
            state=_STATES.index(member.state),
            assigned=self._by_id(member.assigned),
            revoking=self._by_id(member.revoking),
        )

    def _by_id(self, places: Iterable[Place]) -> TopicPartitions:
        named = ((self._topics.topic_id(topic), tuple(numbers)) for topic, numbers in by_topic(places).items())
        return {topic_id: numbers for topic_id, numbers in named if topic_id is not None}


def _removals(before: ConsumerGroup, after: ConsumerGroup) -> Iterator[Record]:
    for gone in sorted(before.members.keys() - after.members.keys()):
        yield encode_current(before.group_id, gone, None)
        if gone in before.target:
            yield encode_target(before.group_id, gone, None)
        yield encode_subscription(before.group_id, gone, None)


def _current(member: ConsumerMember) -> tuple[object, ...]:
    return member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking


def _subscription(member: ConsumerMember) -> MemberSubscription:
    return MemberSubscription(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(member.topics)),
        pattern=member.pattern,
        rebalance_ms=int(member.rebalance_s * 1000),
        assignor=member.assignor,
    )


def load_groups(registry: GroupRegistry, records: Iterable[tuple[bytes, bytes | None]], topics: TopicIds) -> list[str]:
    """Give a registry the groups that the log holds; return a sentence for each record that cannot be read."""
    classic: dict[str, GroupValue] = {}
    consumers: dict[str, StoredConsumerGroup] = {}
    shares: dict[str, StoredShareGroup] = {}
    problems = []
    for key, value in records:
        try:
            if replay_consumer_group(consumers, key, value) or replay_share_group(shares, key, value):
                continue
            decoded = decode_group(key, value)
        except ProtocolError as error:
            problems.append(str(error))
            continue
        if decoded is not None and decoded[1] is not None:
            classic[decoded[0]] = decoded[1]
        elif decoded is not None:
            classic.pop(decoded[0], None)
    for name, group in classic.items():
        if name not in consumers:
            registry.classic.load(name, group)
    for name, stored in consumers.items():
        registry.consumers.load(_group(name, stored, topics))
    _load_shares(registry, shares, topics)
    return problems


def _load_shares(registry: GroupRegistry, shares: dict[str, StoredShareGroup], topics: TopicIds) -> None:
    if registry.shares is not None:
        for name, stored in shares.items():
            registry.shares.load(share_group_of(name, stored, topics))


def _group(name: str, stored: StoredConsumerGroup, topics: TopicIds) -> ConsumerGroup:
    """Return a group; partitions of topics that are gone are left out."""

    def places(rows: TopicPartitions) -> frozenset[Place]:
        named = ((topics.topic_name(topic_id), numbers) for topic_id, numbers in rows.items())
        return frozenset((topic, number) for topic, numbers in named if topic is not None for number in numbers)

    members = {}
    for member_id, wish in stored.subscriptions.items():
        member = ConsumerMember(
            member_id,
            wish.client_id,
            wish.client_host,
            wish.instance_id,
            wish.rack_id,
            wish.rebalance_ms / 1000,
            frozenset(wish.topics),
            wish.pattern,
            wish.assignor,
        )
        members[member_id] = member
        current = stored.currents.get(member_id)
        if current is not None:
            members[member_id] = replace(
                member,
                epoch=current.epoch,
                previous_epoch=current.previous_epoch,
                state=_STATES[current.state] if current.state < len(_STATES) else MemberState.STABLE,
                assigned=places(current.assigned),
                revoking=places(current.revoking),
            )
    target = {member_id: places(rows) for member_id, rows in stored.targets.items()}
    return ConsumerGroup(
        name, stored.epoch, max(stored.target_epoch, 0), members, target, patterns=frozenset(stored.patterns)
    )
