"""Share groups in the log of the coordinator: what is written when one changes, and what the log says at the start.

The order of the records is that of `GroupMetadataManager.shareGroupHeartbeat` and `shareGroupFenceMember`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.broker.groups.assignors import by_topic
from kafkalog_core.broker.share.share_groups import ShareGroup, ShareMember
from kafkalog_core.topics.share_group_records import (
    ShareAssignment,
    ShareSubscription,
    StoredShareGroup,
    encode_share_current,
    encode_share_epoch,
    encode_share_subscription,
    encode_share_target,
    encode_share_target_epoch,
    encode_shared_topics,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.broker.groups.assignors import Place
    from kafkalog_core.broker.logs.partition_access import TopicIds
    from kafkalog_core.topics.consumer_group_records import TopicPartitions
    from kafkalog_core.topics.group_records import Record

__all__ = ["share_group_of", "share_group_records"]


def share_group_records(before: ShareGroup, after: ShareGroup | None, topics: TopicIds) -> list[Record]:
    """Return the records of a change, none for what is as it was; None: the group is deleted."""
    name = before.group_id
    if after is not None:
        return list(_changes(before, after, topics))
    nobody = ShareGroup(name, before.epoch, before.target_epoch, topics=before.topics)
    tombstones = (encode_share_target_epoch(name, None), encode_shared_topics(name, None))
    return [*_changes(before, nobody, topics), *tombstones, encode_share_epoch(name, None)]


def _changes(before: ShareGroup, after: ShareGroup, topics: TopicIds) -> Iterator[Record]:
    group_id = after.group_id
    yield from _removals(before, after)
    changed = [
        (before.members.get(name), member)
        for name, member in after.members.items()
        if before.members.get(name) is not member
    ]
    for old, member in changed:
        if old is None or _subscription(old) != _subscription(member):
            yield encode_share_subscription(group_id, member.member_id, _subscription(member))
    if after.epoch != before.epoch:
        yield encode_share_epoch(group_id, after.epoch)
    if after.topics != before.topics:
        yield encode_shared_topics(group_id, after.topics)
    for name, places in after.target.items():
        if before.target.get(name) != places:
            yield encode_share_target(group_id, name, _by_id(places, topics))
    if after.target_epoch != before.target_epoch:
        yield encode_share_target_epoch(group_id, after.target_epoch)
    for old, member in changed:
        if old is None or _current(old) != _current(member):
            assigned = _by_id(member.assigned, topics)
            current = ShareAssignment(epoch=member.epoch, previous_epoch=member.previous_epoch, assigned=assigned)
            yield encode_share_current(group_id, member.member_id, current)


def _removals(before: ShareGroup, after: ShareGroup) -> Iterator[Record]:
    for gone in sorted(before.members.keys() - after.members.keys()):
        yield encode_share_current(before.group_id, gone, None)
        if gone in before.target:
            yield encode_share_target(before.group_id, gone, None)
        yield encode_share_subscription(before.group_id, gone, None)


def _current(member: ShareMember) -> tuple[object, ...]:
    return member.epoch, member.previous_epoch, member.assigned


def _subscription(member: ShareMember) -> ShareSubscription:
    return ShareSubscription(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(member.topics)),
    )


def _by_id(places: Iterable[Place], topics: TopicIds) -> TopicPartitions:
    named = ((topics.topic_id(topic), tuple(numbers)) for topic, numbers in by_topic(places).items())
    return {topic_id: numbers for topic_id, numbers in named if topic_id is not None}


def share_group_of(name: str, stored: StoredShareGroup, topics: TopicIds) -> ShareGroup:
    """Return a group as the log has it; partitions of topics that are gone are left out."""

    def places(rows: TopicPartitions) -> frozenset[Place]:
        named = ((topics.topic_name(topic_id), numbers) for topic_id, numbers in rows.items())
        return frozenset((topic, number) for topic, numbers in named if topic is not None for number in numbers)

    members = {}
    for member_id, wish in stored.subscriptions.items():
        current = stored.currents.get(member_id)
        members[member_id] = ShareMember(
            member_id,
            wish.client_id,
            wish.client_host,
            wish.rack_id,
            frozenset(wish.topics),
            0 if current is None else current.epoch,
            0 if current is None else current.previous_epoch,
            frozenset() if current is None else places(current.assigned),
        )
    target = {member_id: places(rows) for member_id, rows in stored.targets.items()}
    return ShareGroup(name, stored.epoch, max(stored.target_epoch, 0), members, target, stored.topics)
