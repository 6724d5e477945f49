"""Up to which offset every group has consumed each partition, by the offsets that groups committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.kafka.sim.cluster import partition_count, read_cluster
from kafkalog_core.kafka.sim.copies import copies_on_disk
from kafkalog_core.kafka.sim.group_states import read_groups
from kafkalog_core.ops.groups.reading import Choice
from kafkalog_core.structs import Struct
from kafkalog_core.text import first_of
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.topics.group_offsets import CommittedOffset
    from kafkalog_core.topics.modern_group_records import StoredModernGroup

__all__ = ["Consumed", "read_consumed"]


class Consumed(Struct, frozen=True):
    """What groups have consumed.

    Args:
        offsets: the smallest committed offset of each partition that all groups of its topic have committed; none of
            topics that a share group reads.
        groups: the groups that have committed offsets.
        problem: why the groups of the cluster are not known, a clause; None: they are.
    """

    offsets: Mapping[TopicPartition, int]
    groups: tuple[str, ...] = ()
    problem: str | None = None


def read_consumed(targets: Iterable[Target], release: Release, *, is_partial_enough: bool) -> Consumed:
    """Return what groups have consumed, by the logs of `__consumer_offsets` among the targets.

    Args:
        targets: log directories.
        release: of the broker.
        is_partial_enough: whether partitions of the topic may be missing: groups there are unknown then.
    """
    disks = copies_on_disk(targets)
    numbers = sorted(number for topic, number in disks.places if topic == OFFSETS_TOPIC)
    if not numbers:
        return Consumed({}, problem=f"no partition of {OFFSETS_TOPIC} is here; --groups-of DIR names another disk")
    choice = Choice()
    best = [choice.best(disks, OFFSETS_TOPIC, number, release) for number in numbers]
    states, problems = read_groups([each.path for each in best if each is not None])
    problems += map(str, choice.errors)
    count = partition_count(read_cluster(disks.brokers), OFFSETS_TOPIC)
    missing = [f"{OFFSETS_TOPIC}-{number}" for number in range(count) if number not in numbers]
    if not is_partial_enough:
        whole = "--partial-groups counts the groups that are known, --groups-of DIR names another disk"
        if problems:
            return Consumed({}, problem=f"commits may be missing ({first_of(problems)}); {whole}")
        if missing or not count:
            lacks = first_of(missing) or f"the number of partitions of {OFFSETS_TOPIC}"
            return Consumed({}, problem=f"the groups in {lacks} are unknown here; {whole}")
    # A share group commits no offsets (KIP-932), so what it has not read of its topics is unknown.
    shared = {topic for group in states.shares.values() for topic in _topics_of(group)}
    return _consumed(states.offsets.offsets, shared)


def _topics_of(group: StoredModernGroup) -> Iterator[str]:
    """Yield the topics that a share group reads, or is about to read."""
    for each in (*group.topics.initialized.values(), *group.topics.initializing.values()):
        yield each.name
    for member in group.subscriptions.values():
        yield from member.topics


def _consumed(
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]], shared: Collection[str] = ()
) -> Consumed:
    """Return the smallest offsets; none of a partition without the commit of a group that reads its topic.

    shared: topics that share groups read, of which nothing counts as consumed.
    """
    readers: dict[str, set[str]] = {}
    found: dict[TopicPartition, dict[str, int]] = {}
    for group, of_group in committed.items():
        for place, each in of_group.items():
            readers.setdefault(place[0], set()).add(group)
            found.setdefault(place, {})[group] = each.offset
    offsets = {
        place: min(by_group.values())
        for place, by_group in found.items()
        if by_group.keys() == readers[place[0]] and place[0] not in shared
    }
    return Consumed(offsets, tuple(sorted(group for group, of_group in committed.items() if of_group)))
