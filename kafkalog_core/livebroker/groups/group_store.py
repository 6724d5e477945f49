"""Groups in the log of the coordinator: what is written when one changes, and what the log says at the start.

The order of the records follows `GroupMetadataManager`: a member's tombstones go from what it has to what it wants. The
tombstones of the group come last, because the loader of a broker refuses a group that still has members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.livebroker.groups.share_groups import ShareGroup
from kafkalog_core.serve.groups.assignors import by_topic
from kafkalog_core.serve.groups.consumer_groups import ConsumerGroup
from kafkalog_core.serve.groups.modern_groups import MemberState, ModernMember
from kafkalog_core.structs import replace
from kafkalog_core.topics.group_records import encode_group
from kafkalog_core.topics.modern_group_records import CONSUMER_RECORDS, SHARE_RECORDS, CurrentAssignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.livebroker.groups.share_groups import ShareGroups
    from kafkalog_core.serve.groups.group_registry import GroupRegistry
    from kafkalog_core.serve.groups.modern_groups import ModernGroup
    from kafkalog_core.serve.logs.partition_access import TopicIds
    from kafkalog_core.topics.group_records import GroupValue, Record
    from kafkalog_core.topics.group_states import GroupStates
    from kafkalog_core.topics.modern_group_records import ModernGroupRecords, StoredModernGroup, TopicPartitions

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
        gone = sorted(before.patterns) if after is None else ()
        patterns = [CONSUMER_RECORDS.pattern_tombstone(before.group_id, each) for each in gone]
        self._save(CONSUMER_RECORDS, before, after, patterns)

    def save_shares(self, before: ShareGroup, after: ShareGroup | None) -> None:
        """Write what changes about a share group; None: it is deleted. Raises KafkalogError."""
        topics = None if after is None else after.topics
        shared = [] if topics == before.topics else [SHARE_RECORDS.shared_topics(before.group_id, topics)]
        self._save(SHARE_RECORDS, before, after, shared)

    def _save(
        self, kind: ModernGroupRecords, before: ModernGroup, after: ModernGroup | None, more: Sequence[Record]
    ) -> None:
        """Write what changes about a group. more: the records that groups of this kind alone have."""
        name = before.group_id
        if after is not None:
            self._write(name, list(self._changes(kind, before, after, more)))
            return
        # As if all members had left first: the loader refuses a group that is deleted with members in it.
        nobody = replace(before, members={}, target={})
        records = [*self._changes(kind, before, nobody, ()), kind.target_epoch(name, None), *more]
        self._write(name, [*records, kind.epoch(name, None)])

    def _changes(
        self, kind: ModernGroupRecords, before: ModernGroup, after: ModernGroup, more: Sequence[Record]
    ) -> Iterator[Record]:
        group_id = after.group_id
        # Tombstones first: a member that comes back under the same id is new.
        yield from _removals(kind, before, after)
        changed = [
            (before.members.get(name), member)
            for name, member in after.members.items()
            if before.members.get(name) is not member
        ]
        for old, member in changed:
            if old is None or old.subscription != member.subscription:
                yield kind.subscription(group_id, member.member_id, member.subscription)
        if after.epoch != before.epoch:
            yield kind.epoch(group_id, after.epoch)
        yield from more
        for name, places in after.target.items():
            if before.target.get(name) != places:
                yield kind.target(group_id, name, self._by_id(places))
        # After the targets: a loader that sees this epoch finds every target of it.
        if after.target_epoch != before.target_epoch:
            yield kind.target_epoch(group_id, after.target_epoch)
        for old, member in changed:
            if old is None or _current(old) != _current(member):
                yield kind.current(group_id, member.member_id, self._current(member))

    def _current(self, member: ModernMember) -> CurrentAssignment:
        return CurrentAssignment(
            epoch=member.epoch,
            previous_epoch=member.previous_epoch,
            state=_STATES.index(member.state),
            assigned=self._by_id(member.assigned),
            revoking=self._by_id(member.revoking),
        )

    def _by_id(self, places: Iterable[TopicPartition]) -> TopicPartitions:
        named = ((self._topics.topic_id(topic), tuple(numbers)) for topic, numbers in by_topic(places).items())
        return {topic_id: numbers for topic_id, numbers in named if topic_id is not None}


def _removals(kind: ModernGroupRecords, before: ModernGroup, after: ModernGroup) -> Iterator[Record]:
    for gone in sorted(before.members.keys() - after.members.keys()):
        yield kind.current(before.group_id, gone, None)
        if gone in before.target:
            yield kind.target(before.group_id, gone, None)
        yield kind.subscription(before.group_id, gone, None)


def _current(member: ModernMember) -> tuple[object, ...]:
    return member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking


def load_groups(registry: GroupRegistry, shares: ShareGroups, states: GroupStates, topics: TopicIds) -> None:
    """Give a registry the groups that the log holds."""
    for name, group in states.classic.items():
        if name not in states.consumers:
            registry.classic.load(name, group)
    for name, stored in states.consumers.items():
        patterns = frozenset(stored.patterns)
        registry.consumers.load(ConsumerGroup(name, *_facts(stored, topics), patterns=patterns))
    for name, stored in states.shares.items():
        shares.load(ShareGroup(name, *_facts(stored, topics), topics=stored.topics))


def _facts(
    stored: StoredModernGroup, topics: TopicIds
) -> tuple[int, int, Mapping[str, ModernMember], Mapping[str, frozenset[TopicPartition]]]:
    """Return the epochs, the members and the target of a group; partitions of topics that are gone are left out."""

    def places(rows: TopicPartitions) -> frozenset[TopicPartition]:
        named = ((topics.topic_name(topic_id), numbers) for topic_id, numbers in rows.items())
        return frozenset((topic, number) for topic, numbers in named if topic is not None for number in numbers)

    members = {}
    for member_id, subscription in stored.subscriptions.items():
        members[member_id] = member = ModernMember(member_id, subscription)
        current = stored.currents.get(member_id)
        if current is not None:
            members[member_id] = replace(
                member,
                epoch=current.epoch,
                previous_epoch=current.previous_epoch,
                # A state of a later release is read as stable.
                state=_STATES[current.state] if current.state < len(_STATES) else MemberState.STABLE,
                assigned=places(current.assigned),
                revoking=places(current.revoking),
            )
    target = {member_id: places(rows) for member_id, rows in stored.targets.items()}
    return stored.epoch, max(stored.target_epoch, 0), members, target
