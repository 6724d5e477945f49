"""What a request asks for more than once, once: else a small request has a large answer, or much is read for it.

The limit of a request's elements bounds the request alone. Where the answer to an element can be larger than the
element, a handler answers each partition, group or resource once; clients put the answers into a map anyway. Kafka
makes a set or a map of some (`FetchRequest.fetchData`, `KafkaApis.handleTopicMetadataRequest`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.serve.network.requests import Body

__all__ = ["distinct_groups", "distinct_partitions", "distinct_resources"]


def distinct_partitions(topics: Iterable[Body], name: str, partitions: str, number: str | None = None) -> list[Body]:
    """Return the rows of topics with each partition once, in the first row that has it, as it is in the last one.

    A row of which nothing is left is not there.

    Args:
        topics: the rows of a request.
        name: the field of a row with the topic's name or id.
        partitions: the field of a row with its partitions.
        number: the field of a partition with its number; None: a partition is its number.
    """
    latest: dict[tuple[Any, int], Any] = {}
    found: list[tuple[Body, list[tuple[Any, int]]]] = []
    for topic in topics:
        keys = [(topic[name], each if number is None else each[number]) for each in topic[partitions]]
        new = [key for key in dict.fromkeys(keys) if key not in latest]
        latest.update(zip(keys, topic[partitions], strict=True))
        if new or not keys:
            found.append((topic, new))
    return [{**topic, partitions: [latest[key] for key in keys]} for topic, keys in found]


def distinct_groups(groups: Iterable[Body]) -> list[Body]:
    """Return rows of groups whose offsets are asked for, each group once, with the topics of all its rows.

    A group is asked for all its topics if one of its rows is (None).
    """
    found: dict[str, tuple[Body, list[Body] | None]] = {}
    for group in groups:
        first, topics = found.setdefault(group["group_id"], (group, []))
        if topics is None or group["topics"] is None:
            found[group["group_id"]] = first, None
        else:
            topics += group["topics"]
    return [{**group, "topics": topics} for group, topics in found.values()]


def distinct_resources(resources: Iterable[Body]) -> list[Body]:
    """Return the resources of a request about settings, each once, with a set of the keys of all its rows.

    All its keys are asked for if they are in one of its rows (None).
    """
    found: dict[tuple[int, str], tuple[Body, set[str] | None]] = {}
    for each in resources:
        keys = each["configuration_keys"]
        name = each["resource_type"], each["resource_name"]
        first, known = found.setdefault(name, (each, set()))
        if known is None or keys is None:
            found[name] = first, None
        else:
            known.update(keys)
    return [{**each, "configuration_keys": keys} for each, keys in found.values()]
