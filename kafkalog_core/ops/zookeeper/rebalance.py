"""`--rebalance GROUP`: who should own each partition of an old group, against the owner nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.kafka.rules.old_consumers import BadPatternError, divide, java_order, threads_by_topic
from kafkalog_core.ops.zookeeper.request import RowsFound
from kafkalog_core.output import tables
from kafkalog_core.text import first_of, names_near

if TYPE_CHECKING:
    from kafkalog_core.ops.zookeeper.request import Row
    from kafkalog_core.topics.zookeeper_state import KafkaState, OldGroup, TopicNodes

__all__ = ["owner_rows"]

_RULE: Final = (
    "the rule is that of partition.assignment.strategy=range, the default: partitions and threads are sorted, each "
    "thread gets partitions / threads of them, and the first ones get one more; no node has the strategy, and "
    "roundrobin (0.8.2 and later), which is not computed, has other owners"
)


def owner_rows(states: list[KafkaState], name: str) -> tuple[RowsFound, list[str]]:
    """Return the row of each partition that the group wants or owns, and notes. Raises SelectionError."""
    state = next((each for each in states if name in each.groups), None)
    if state is None:
        known = sorted({group for each in states for group in each.groups})
        near = names_near(name, known)
        meant = f" (is {' or '.join(near)} meant?)" if near else ""
        there = f"there is {first_of(known)}" if known else "no group keeps anything in ZooKeeper"
        raise SelectionError(f"ZooKeeper has no group {name!r}{meant}: {there}")
    group = state.groups[name]
    notes = [_RULE]
    try:
        wanted = threads_by_topic(group.consumers, state.topics)
    except BadPatternError as error:
        raise SelectionError(f"what the consumers of {name!r} want is unknown: {error}") from error
    rows: list[Row] = []
    for topic in sorted({*wanted, *(topic for topic, _ in group.owners)}):
        threads = wanted.get(topic, [])
        places = _places(state.topics.get(topic))
        if threads and not places:
            notes.append(f"topic {topic} has no partitions in ZooKeeper")
        expected = divide(places, threads)
        owned = {place for owned_topic, place in group.owners if owned_topic == topic}
        named = (*places, *sorted(owned - set(places)))
        rows += (_row(name, group, topic, place, expected.get(place)) for place in named)
    return RowsFound(tables.ZOOKEEPER_OWNER, tuple(rows)), notes


def _places(topic: TopicNodes | None) -> list[str]:
    """Return the names of the partition nodes, sorted as consumers sort them: numbers, or text with 0.7."""
    if topic is None:
        return []
    if topic.partitions_07:
        names = [f"{broker}-{number}" for broker, count in topic.partitions_07.items() for number in range(count)]
        return sorted(names, key=java_order)
    return [str(number) for number in sorted(topic.partitions)]


def _row(name: str, group: OldGroup, topic: str, place: str, expected: str | None) -> Row:
    owner = group.owners.get((topic, place))
    if owner == expected:
        state = "ok"
    elif owner is None:
        state = "not-owned"
    # The name of a thread is the consumer's, a dash and a number.
    elif owner.rpartition("-")[0] not in group.consumers:
        state = "dead-owner"
    else:
        state = "other-owner"
    return {
        "group": name,
        "topic": topic,
        "partition": place,
        "expected": expected,
        "owner": owner,
        "state": state,
    }
