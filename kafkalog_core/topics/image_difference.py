"""What differs between two images of a cluster, by name: what the second one no longer has, has besides, or has changed.

Leaders, ISRs and epochs of partitions change all the time and are left out, but for a leader epoch that goes back: the
logs of its replicas may have batches of the higher one. Values of settings are not in a difference, as some are secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from kafkalog_core.topics.cluster_image import AclEntry, ClusterImage, QuotaEntity, TopicState

__all__ = ["Change", "ImageDifference", "config_names", "image_differences"]

Change = Literal["lost", "added", "changed"]
"""What the second image no longer has, has besides, or has in another way."""

_RESOURCES: Final = {2: "topic", 4: "broker", 8: "broker logger", 16: "client metrics", 32: "group"}
_ACL_RESOURCES: Final = {2: "topic", 3: "group", 4: "cluster", 5: "transactional id", 6: "delegation token", 7: "user"}
_OPERATIONS: Final = (
    *("unknown", "any", "all", "read", "write", "create", "delete", "alter", "describe", "cluster action"),
    *("describe configs", "alter configs", "idempotent write", "create tokens", "describe tokens", "two-phase commit"),
)
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_PREFIXED: Final = 4
_ALLOW: Final = 3


class ImageDifference(NamedTuple):
    """One thing that differs.

    Args:
        kind: topic, config, acl, quota, user, token, feature, broker, voters, producer_ids or leader_epoch.
        name: of the thing.
        change: what the second image makes of it.
        detail: how it differs, a clause; None: it is there or not.
    """

    kind: str
    name: str
    change: Change
    detail: str | None = None


def image_differences(first: ClusterImage, second: ClusterImage) -> Iterator[ImageDifference]:
    """Yield what differs, topics first."""
    yield from _topics(first, second)
    yield from _mapped("config", config_names(first), config_names(second))
    yield from _mapped("acl", _acls(first), _acls(second))
    yield from _mapped("quota", _quotas(first), _quotas(second))
    yield from _mapped("user", _users(first), _users(second))
    yield from _mapped("token", first.tokens, second.tokens)
    yield from _mapped("feature", first.features, second.features, lambda level: f"level {level}")
    yield from _mapped("broker", _brokers(first), _brokers(second))
    old, new = (", ".join(str(voter.voter_id) for voter in image.voters) for image in (first, second))
    if old != new:
        yield ImageDifference("voters", old or "none", "changed", f"{new or 'none'} afterwards")
    if second.next_producer_id < first.next_producer_id:
        detail = f"ids from {second.next_producer_id} on are given out again"
        yield ImageDifference("producer_ids", str(first.next_producer_id), "changed", detail)


def config_names(image: ClusterImage) -> dict[str, str]:
    """Return the settings by a name with their resource: `retention.ms of topic a`."""
    names = {}
    for (kind, resource), values in image.configs.items():
        what = f"{_RESOURCES.get(kind, f'resource type {kind}')} {resource}" if resource else "all brokers"
        names |= {f"{name} of {what}": value for name, value in values.items()}
    return names


def _topics(first: ClusterImage, second: ClusterImage) -> Iterator[ImageDifference]:
    for topic in first.topics.values():
        other = second.topics.get(topic.topic_id or topic.name)
        if other is None:
            again = second.topic(topic.name)
            detail = None if again is None else f"topic id {topic.topic_id}; another one of that name is kept"
            yield ImageDifference("topic", topic.name, "lost", detail)
        else:
            yield from _partitions(topic, other)
    for topic in second.topics.values():
        if (topic.topic_id or topic.name) not in first.topics:
            yield ImageDifference("topic", topic.name, "added")


def _partitions(first: TopicState, second: TopicState) -> Iterator[ImageDifference]:
    if first.partitions.keys() != second.partitions.keys():
        detail = f"{count_of(len(second.partitions), 'partition')} instead of {len(first.partitions)}"
        yield ImageDifference("topic", first.name, "changed", detail)
    for number, old in first.partitions.items():
        new = second.partitions.get(number)
        if new is None:
            continue
        if old.replicas != new.replicas:
            detail = f"replicas {_list(new.replicas)} instead of {_list(old.replicas)}"
            yield ImageDifference("topic", f"{first.name}-{number}", "changed", detail)
        if new.leader_epoch < old.leader_epoch:
            detail = f"leader epoch {new.leader_epoch} instead of {old.leader_epoch}"
            yield ImageDifference("leader_epoch", f"{first.name}-{number}", "changed", detail)


def _list(nodes: tuple[int, ...]) -> str:
    return ", ".join(map(str, nodes))


def _mapped(
    kind: str,
    first: Mapping[str, Hashable],
    second: Mapping[str, Hashable],
    shown: Callable[[Hashable], str] | None = None,
) -> Iterator[ImageDifference]:
    for name, value in first.items():
        if name not in second:
            yield ImageDifference(kind, name, "lost")
        elif second[name] != value:
            detail = None if shown is None else f"{shown(second[name])} instead of {shown(value)}"
            yield ImageDifference(kind, name, "changed", detail)
    for name in second:
        if name not in first:
            yield ImageDifference(kind, name, "added")


def _acls(image: ClusterImage) -> dict[str, bool]:
    return {_acl_name(entry): True for entry in image.acls.values()}


def _acl_name(entry: AclEntry) -> str:
    operation = dict(enumerate(_OPERATIONS)).get(entry.operation, str(entry.operation))
    resource = _ACL_RESOURCES.get(entry.resource_type, f"resource type {entry.resource_type}")
    pattern = "prefix " if entry.pattern_type == _PREFIXED else ""
    permission = "allow" if entry.permission_type == _ALLOW else "deny"
    host = "" if entry.host == "*" else f" from {entry.host}"
    return f"{permission} {entry.principal}{host} to {operation} {resource} {pattern}{entry.resource_name}"


def _quotas(image: ClusterImage) -> dict[str, float]:
    return {
        f"{key} of {_entity_name(entity)}": value
        for entity, values in image.quotas.items()
        for key, value in values.items()
    }


def _entity_name(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {'<default>' if name is None else name}" for kind, name in entity)


def _users(image: ClusterImage) -> dict[str, Hashable]:
    return {f"{user} ({_MECHANISMS.get(kind, kind)})": value for (user, kind), value in image.users.items()}


def _brokers(image: ClusterImage) -> dict[str, bool]:
    return {str(node_id): True for node_id in image.brokers}
