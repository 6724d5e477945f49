"""How the old consumers of Kafka 0.7 to 1.x divided partitions among themselves, by the nodes in ZooKeeper.

ZookeeperConsumerConnector.rebalance, since 0.8.2 RangeAssignor, with partition.assignment.strategy=range: every
consumer sorted partitions and threads alike, computed its own part, and wrote its name into the owner nodes. TopicCount
and TopicFilter say which threads want which topic. No node has the strategy: one with roundrobin (0.8.2 and later)
divides otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["BadPatternError", "divide", "threads_by_topic"]

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Left out of patterns by exclude.internal.topics, which is true unless the consumer says otherwise (since 0.8.2)."""


class BadPatternError(ValueError):
    """A pattern of topics that is not read here; Java's expressions differ in few signs."""


def java_order(text: str) -> bytes:
    """Return the key by which Java sorts strings: their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def threads_by_topic(consumers: Mapping[str, Mapping[str, Any]], topics: Iterable[str]) -> dict[str, list[str]]:
    """Return the threads that want each topic, sorted as consumers sort them.

    Args:
        consumers: the subscriptions by consumer id, as `zookeeper_nodes` reads them: `pattern` and `streams`.
        topics: all topics of the cluster, for patterns.

    Raises BadPatternError.
    """
    known = list(topics)
    wanted: dict[str, list[str]] = {}
    for consumer, subscription in consumers.items():
        for name, count in subscription.get("streams", {}).items():
            pattern = subscription.get("pattern", "static")
            for topic in (name,) if pattern == "static" else _matching(pattern, name, known):
                # TopicCount.makeConsumerThreadIdsPerTopic
                wanted.setdefault(topic, []).extend(f"{consumer}-{number}" for number in range(count))
    return {topic: sorted(threads, key=java_order) for topic, threads in sorted(wanted.items())}


def _matching(pattern: str, text: str, topics: Iterable[str]) -> list[str]:
    """Return the topics of a whitelist or a blacklist (TopicFilter: commas divide, spaces and quotes do not count)."""
    cleaned = text.strip().replace(",", "|").replace(" ", "")
    cleaned = cleaned.lstrip("\"'").rstrip("\"'")
    try:
        expression = re.compile(cleaned)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPatternError(f"{text!r} is not an expression: {error}") from error
    is_whitelist = pattern == "white_list"
    return [
        topic
        for topic in topics
        if topic not in _INTERNAL and (expression.fullmatch(topic) is not None) == is_whitelist
    ]


def divide(partitions: Sequence[str], threads: Sequence[str]) -> dict[str, str]:
    """Return which thread should own each partition of a topic.

    Each thread gets partitions / threads of them in a row, and the first ones get one more each.

    Args:
        partitions: sorted.
        threads: those that want the topic, sorted.
    """
    owners: dict[str, str] = {}
    if not threads:
        return owners
    each, extra = divmod(len(partitions), len(threads))
    for position, thread in enumerate(threads):
        start = each * position + min(position, extra)
        owners.update((name, thread) for name in partitions[start : start + each + (position < extra)])
    return owners
