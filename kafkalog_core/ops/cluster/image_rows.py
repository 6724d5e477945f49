"""The rows of an image: features, nodes, topics, partitions, settings and security."""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING

from kafkalog_core.kafka.rules.releases import LATEST, NEWEST_LEVEL, release_of_level
from kafkalog_core.topics.cluster_image import NO_LEADER
from kafkalog_core.topics.cluster_names import (
    ACL_OPERATIONS,
    ACL_PATTERNS,
    ACL_PERMISSIONS,
    ACL_RESOURCES,
    CONFIG_RESOURCES,
    SCRAM_MECHANISMS,
    SECURITY_PROTOCOLS,
    is_secret,
    word_of,
)
from kafkalog_core.topics.metadata_records import METADATA_VERSION, TOPIC_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.ops.cluster.request import Row
    from kafkalog_core.topics.cluster_image import (
        AclEntry,
        BrokerState,
        ClusterImage,
        ControllerState,
        PartitionRegistration,
    )

__all__ = [
    "FormerLeaders",
    "acl_row",
    "acl_rows",
    "broker_rows",
    "config_rows",
    "controller_rows",
    "counts",
    "feature_rows",
    "partition_rows",
    "quota_rows",
    "release_text",
    "token_rows",
    "topic_rows",
    "user_rows",
]

FormerLeaders = dict[tuple[str, int], tuple[int, int]]
"""By topic id and partition: the last leader other than the present one, and when it ceased to lead."""


def release_text(level: int | None) -> str | None:
    """Return the release of Kafka with a level of metadata.version; None: unknown."""
    if level is None or level > NEWEST_LEVEL:
        return None if level is None else f"newer than {LATEST}"
    release = release_of_level(level)
    return None if release is None else str(release)


def feature_rows(image: ClusterImage) -> Iterator[Row]:
    """Yield the finalized features, with the version of the quorum's protocol, which is one for Kafka's tools."""
    levels = dict(image.features)
    if image.kraft_version:
        levels["kraft.version"] = image.kraft_version
    yield from ({"name": name, "level": level} for name, level in sorted(levels.items()))


def counts(image: ClusterImage) -> Row:
    """Return how much there is of everything, for the row of the cluster."""
    partitions = [each for topic in image.topics.values() for each in topic.partitions.values()]
    return {
        "brokers": len(image.brokers),
        "fenced": sum(each.is_fenced for each in image.brokers.values()),
        "controllers": len(image.controllers),
        "topics": len(image.topics),
        "partitions": len(partitions),
        "leaderless": sum(each.leader == NO_LEADER for each in partitions),
        "under_replicated": sum(map(is_under_replicated, partitions)),
        "acls": len(image.acls),
        "users": len(image.users),
        "next_producer_id": image.next_producer_id,
    }


# --- nodes ------------------------------------------------------------------------------------------------------------
def _node(node: BrokerState | ControllerState) -> Row:
    known = node.features.get(METADATA_VERSION)
    return {
        "node_id": node.node_id,
        "incarnation_id": node.incarnation_id or None,
        "release": release_text(None if known is None else known.highest),
        "listeners": [
            {
                "name": each.name,
                "host": each.host,
                "port": each.port,
                "protocol": word_of(SECURITY_PROTOCOLS, each.security_protocol),
            }
            for each in node.listeners
        ],
        "features": {name: [each.lowest, each.highest] for name, each in sorted(node.features.items())},
    }


def broker_rows(image: ClusterImage, paths: Mapping[int, list[str]], wanted: frozenset[int]) -> Iterator[Row]:
    """Yield the registered brokers, by id; `paths`: their log directories here; `wanted`: empty: all of them."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            replicas.update(partition.replicas)
            leaders[partition.leader] += 1
    for node_id, broker in sorted(image.brokers.items()):
        if wanted and node_id not in wanted:
            continue
        yield {
            **_node(broker),
            "epoch": broker.epoch,
            "rack": broker.rack,
            "is_fenced": broker.is_fenced,
            "in_controlled_shutdown": broker.in_controlled_shutdown,
            "log_dirs": list(broker.log_dirs),
            "cordoned_log_dirs": None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
            "replicas": replicas[node_id],
            "leaders": leaders[node_id],
            "paths": paths.get(node_id, []),
        }


def controller_rows(
    image: ClusterImage, voters: Mapping[int, str | None], logs: Mapping[int, tuple[str, int]], wanted: frozenset[int]
) -> Iterator[Row]:
    """Yield the controllers, by id: those that are registered, and voters.

    Args:
        image: of the cluster.
        voters: the directory id of each voter; None: unknown; empty: the voters are unknown.
        logs: path and end of the metadata log of each node that is here.
        wanted: ids; empty: all of them.
    """
    for node_id in sorted({*image.controllers, *voters}):
        if wanted and node_id not in wanted:
            continue
        controller = image.controllers.get(node_id)
        path, end = logs.get(node_id, (None, None))
        known = {"node_id": node_id, "listeners": [], "features": {}} if controller is None else _node(controller)
        yield {
            **known,
            "is_voter": node_id in voters if voters else None,
            "directory_id": voters.get(node_id),
            "path": path,
            "end_offset": end,
        }


# --- topics -----------------------------------------------------------------------------------------------------------
def topic_rows(
    image: ClusterImage,
    topic_ids: Iterable[str],
    former: FormerLeaders,
    here: Mapping[str, int],
    others: Mapping[str, list[str]],
) -> Iterator[Row]:
    """Yield topics in the given order.

    Args:
        image: of the cluster.
        topic_ids: keys of its topics.
        former: leaders of before.
        here: number of directories of each topic id on these disks.
        others: other topic ids in directories of a topic's name.
    """
    for topic_id in topic_ids:
        topic = image.topics[topic_id]
        partitions = topic.partitions
        leaders = {
            each.leader if each.leader != NO_LEADER else former.get((topic_id, number), (None, 0))[0]
            for number, each in partitions.items()
        }
        configs = image.configs_of(TOPIC_RESOURCE, topic.name)
        yield {
            "topic": topic.name,
            "topic_id": topic.topic_id or None,
            "partitions": len(partitions),
            "replication_factor": max((len(each.replicas) for each in partitions.values()), default=0),
            "leaderless": sum(each.leader == NO_LEADER for each in partitions.values()),
            "under_replicated": sum(is_under_replicated(each) for each in partitions.values()),
            "last_leaders": sorted(each for each in leaders if each is not None),
            "configs": {name: None if is_secret(name) else value for name, value in sorted(configs.items())},
            "here": here.get(topic_id, 0),
            "other_ids": others.get(topic.name, []),
        }


def is_under_replicated(partition: PartitionRegistration) -> bool:
    """Return whether the ISR of a partition lacks a replica."""
    return len(partition.isr) < len(partition.replicas)


def partition_rows(
    image: ClusterImage,
    topic_ids: Iterable[str],
    former: FormerLeaders,
    paths: Mapping[tuple[str, int], list[str]],
) -> Iterator[Row]:
    """Yield the partitions of topics; `paths`: their directories here, by topic id and number."""
    for topic_id in topic_ids:
        topic = image.topics[topic_id]
        for number, each in sorted(topic.partitions.items()):
            last, until_ms = former.get((topic_id, number), (None, None))
            yield {
                "topic": topic.name,
                "topic_id": topic.topic_id or None,
                "partition": number,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "last_leader": last,
                "last_leader_until_ms": until_ms,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "elr": list(each.elr),
                "last_known_elr": list(each.last_known_elr),
                "adding": list(each.adding),
                "removing": list(each.removing),
                "directories": list(each.directories),
                "partition_epoch": each.partition_epoch,
                "is_recovering": each.is_recovering,
                "paths": paths.get((topic_id, number), []),
            }


# --- settings and security --------------------------------------------------------------------------------------------
def config_rows(image: ClusterImage, topics: frozenset[str] | None, *, shows_secrets: bool) -> Iterator[Row]:
    """Yield the settings by resource; `topics`: names of those whose settings are wanted; None: every resource's."""
    for (kind, resource), settings in sorted(image.configs.items()):
        if topics is not None and (kind != TOPIC_RESOURCE or resource not in topics):
            continue
        for name, value in sorted(settings.items()):
            hidden = is_secret(name)
            yield {
                "resource_type": word_of(CONFIG_RESOURCES, kind),
                "resource": resource,
                "name": name,
                "value": None if hidden and not shows_secrets else value,
                "is_secret": hidden,
            }


def acl_row(acl_id: str | None, entry: AclEntry) -> Row:
    """Return the row of an access control entry; `acl_id`: None: it has none."""
    return {
        "acl_id": acl_id,
        "resource_type": word_of(ACL_RESOURCES, entry.resource_type),
        "resource": entry.resource_name,
        "pattern_type": word_of(ACL_PATTERNS, entry.pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": word_of(ACL_OPERATIONS, entry.operation),
        "permission": word_of(ACL_PERMISSIONS, entry.permission_type),
    }


def acl_rows(image: ClusterImage) -> Iterator[Row]:
    """Yield the access control entries, by resource."""
    rows = [acl_row(None if image.is_of_zookeeper else acl_id, entry) for acl_id, entry in image.acls.items()]
    yield from sorted(rows, key=lambda row: [str(row[name]) for name in ("resource_type", "resource", "principal")])


def quota_rows(image: ClusterImage) -> Iterator[Row]:
    """Yield the quotas by entity."""
    for entity, quotas in image.quotas.items():
        yield from ({"entity": dict(entity), "name": name, "value": quotas[name]} for name in sorted(quotas))


def user_rows(image: ClusterImage, *, shows_secrets: bool) -> Iterator[Row]:
    """Yield the SCRAM credentials by user."""
    for _, user in sorted(image.users.items()):
        keys = {"salt": user.salt, "stored_key": user.stored_key, "server_key": user.server_key}
        yield {
            "user": user.user,
            "mechanism": word_of(SCRAM_MECHANISMS, user.mechanism),
            "iterations": user.iterations,
            **{name: base64.b64encode(key).decode() if shows_secrets else None for name, key in keys.items()},
        }


def token_rows(image: ClusterImage) -> Iterator[Row]:
    """Yield the delegation tokens. Their secrets are in no record."""
    for _, token in sorted(image.tokens.items()):
        yield {
            "token_id": token.token_id,
            "owner": token.owner,
            "requester": token.requester,
            "renewers": list(token.renewers),
            "issued_ms": token.issued_ms,
            "expires_ms": token.expires_ms,
            "max_ms": token.max_ms,
        }
