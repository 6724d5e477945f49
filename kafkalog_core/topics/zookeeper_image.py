"""The image of a cluster by its nodes in ZooKeeper, as a migration to KRaft would read it (KIP-866).

ZkMigrationClient, ZkTopicMigrationClient, ZkConfigMigrationClient, ZkAclMigrationClient and
ZkDelegationTokenMigrationClient of Kafka 3.9 are the rule. What ZooKeeper does not have (a quorum, ids of log
directories and of ACLs) is empty. What no release reads is left out, and named.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.topics.cluster_image import (
    NO_LEADER,
    AclEntry,
    BrokerState,
    ClusterImage,
    DelegationToken,
    NodeListener,
    PartitionRegistration,
    ScramCredential,
    TopicState,
)
from kafkalog_core.topics.cluster_names import (
    ACL_OPERATIONS,
    ACL_PATTERNS,
    ACL_PERMISSIONS,
    ACL_RESOURCES,
    SCRAM_MECHANISMS,
    SECURITY_PROTOCOLS,
)
from kafkalog_core.topics.metadata_records import BROKER_RESOURCE, TOPIC_RESOURCE
from kafkalog_core.topics.zookeeper_nodes import DEFAULT_ENTITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.topics.zookeeper_state import KafkaState, PartitionNodes

__all__ = ["image_of_zookeeper"]

_ENDPOINT: Final = re.compile(r"(?:(.*)://)?\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
"""EndPoint.uriParseExp. A registration of 0.7 has no name of a listener."""
_PLAINTEXT: Final = "PLAINTEXT"
_RESOURCE_TYPES: Final = {"topics": TOPIC_RESOURCE, "brokers": BROKER_RESOURCE}


def image_of_zookeeper(state: KafkaState) -> tuple[ClusterImage, list[str]]:
    """Return the image of a cluster, and sentences about what was left out of it."""
    image = ClusterImage(is_of_zookeeper=True)
    left: list[str] = []
    for number in sorted(state.brokers):
        image.brokers[number] = _broker(number, state.brokers[number], left)
    _add_topics(image, state)
    for kind, name, values in state.configs:
        if kind in _RESOURCE_TYPES:
            image.configs[_RESOURCE_TYPES[kind], "" if name == DEFAULT_ENTITY else name] = dict(values)
    _add_quotas(image, state, left)
    _add_acls(image, state, left)
    _add_users(image, state, left)
    image.tokens = {token_id: _token(token_id, fields) for token_id, fields in state.tokens.items()}
    image.features = dict(_features(state.features))
    # ProducerIdBlockZNode: the end is the last id of the block.
    end = _whole_number((state.producer_ids or {}).get("block_end"))
    image.next_producer_id = 0 if end is None else end + 1
    return image, left


def _broker(number: int, fields: Mapping[str, Any], left: list[str]) -> BrokerState:
    listeners = []
    for endpoint in fields["endpoints"]:
        listener = _listener(endpoint, fields["protocols"])
        if listener is None:
            left.append(f"left out: the endpoint {endpoint} of broker {number}, which no release of Kafka can read")
        else:
            listeners.append(listener)
    rack = fields.get("rack")
    return BrokerState(
        node_id=number,
        epoch=fields["epoch"],
        listeners=tuple(listeners),
        rack=rack if isinstance(rack, str) else None,
    )


def _listener(endpoint: str, protocols: Mapping[str, object]) -> NodeListener | None:
    """Return a listener (EndPoint.createEndPoint); None: Kafka cannot read it."""
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None:
        return None
    name = match[1] or _PLAINTEXT
    # Before version 4 of the registration a listener has the name of its protocol (BrokerIdZNode.decode).
    protocol = _number_of(SECURITY_PROTOCOLS, protocols.get(name, name))
    return None if protocol is None else NodeListener(name, match[2], int(match[3]), protocol)


def _add_topics(image: ClusterImage, state: KafkaState) -> None:
    for name, nodes in state.topics.items():
        key = nodes.topic_id or name
        partitions = {number: _partition(each) for number, each in nodes.partitions.items()}
        image.topics[key] = TopicState(name, nodes.topic_id or "", partitions)
        image.topic_ids[name] = key


def _add_quotas(image: ClusterImage, state: KafkaState, left: list[str]) -> None:
    for entity, values in state.quotas:
        numbers = {key: number for key, value in values.items() if (number := _quota(value)) is not None}
        if numbers:
            image.quotas[entity] = numbers
        if len(numbers) < len(values):
            names = ", ".join(sorted(values.keys() - numbers.keys()))
            left.append(f"left out: quotas of {_entity_text(entity)} that are not numbers ({names})")


def _add_acls(image: ClusterImage, state: KafkaState, left: list[str]) -> None:
    entries = [_acl(acl) for acl in state.acls]
    known = [entry for entry in entries if entry is not None]
    image.acls = {f"{number}": entry for number, entry in enumerate(known)}
    if len(known) < len(entries):
        left.append(f"left out: {len(entries) - len(known)} ACLs with words that no release of Kafka knows")


def _add_users(image: ClusterImage, state: KafkaState, left: list[str]) -> None:
    for user, mechanisms in state.users.items():
        for name, values in mechanisms.items():
            credential = _credential(user, name, values)
            if credential is None:
                left.append(f"left out: the {name} credential of user {user}, which no release of Kafka can read")
            else:
                image.users[user, credential.mechanism] = credential


def _partition(nodes: PartitionNodes) -> PartitionRegistration:
    # A topic that was just created has no state yet. LeaderAndIsr.LeaderDuringDelete, -2, is of one that is deleted.
    leader = NO_LEADER if nodes.leader is None else max(nodes.leader, NO_LEADER)
    return PartitionRegistration(
        replicas=tuple(nodes.replicas),
        isr=tuple(nodes.isr or ()),
        leader=leader,
        leader_epoch=-1 if nodes.leader_epoch is None else nodes.leader_epoch,
        partition_epoch=-1 if nodes.version is None else nodes.version,
        removing=tuple(nodes.removing),
        adding=tuple(nodes.adding),
        is_recovering=nodes.is_recovering,
    )


def _acl(fields: Mapping[str, str]) -> AclEntry | None:
    """Return an entry (AclEntry.fromBytes); None: a word in it is unknown."""
    resource = _number_of(ACL_RESOURCES, fields["resource_type"])
    pattern = _number_of(ACL_PATTERNS, fields["pattern"])
    operation = _number_of(ACL_OPERATIONS, fields["operation"])
    permission = _number_of(ACL_PERMISSIONS, fields["permissionType"])
    if resource is None or pattern is None or operation is None or permission is None:
        return None
    return AclEntry(
        resource_type=resource,
        resource_name=fields["resource"],
        pattern_type=pattern,
        principal=fields["principal"],
        host=fields["host"],
        operation=operation,
        permission_type=permission,
    )


def _number_of(words: Mapping[int, str], word: object) -> int | None:
    """Return the number of a word, which nodes spell in camel case (SecurityUtils); None: it is unknown."""
    name = str(word).replace("_", "").lower()
    return next((number for number, each in words.items() if each.replace("_", "").lower() == name), None)


def _credential(user: str, name: str, values: Mapping[str, str]) -> ScramCredential | None:
    """Return a credential (ScramCredentialUtils.credentialFromString); None: a part is missing or not base64."""
    mechanism = next(number for number, each in SCRAM_MECHANISMS.items() if each == name)
    iterations = _whole_number(values.get("iterations"))
    try:
        salt, stored, server = (
            base64.b64decode(values[part], validate=True) for part in ("salt", "stored_key", "server_key")
        )
    except (KeyError, binascii.Error, ValueError):
        return None
    if iterations is None:
        return None
    return ScramCredential(
        user=user, mechanism=mechanism, salt=salt, stored_key=stored, server_key=server, iterations=iterations
    )


def _token(token_id: str, fields: Mapping[str, Any]) -> DelegationToken:
    return DelegationToken(
        token_id=token_id,
        owner=str(fields["owner"] or ""),
        requester=str(fields["requester"] or ""),
        renewers=tuple(fields["renewers"]),
        issued_ms=_or_unknown(fields["issue_ms"]),
        max_ms=_or_unknown(fields["max_ms"]),
        expires_ms=_or_unknown(fields["expiry_ms"]),
    )


def _or_unknown(value: int | None) -> int:
    return -1 if value is None else value


def _features(node: Mapping[str, Any] | None) -> Iterator[tuple[str, int]]:
    """Yield the finalized levels (FeatureZNode): version 1 of the node has the lowest and the highest level of each."""
    levels = (node or {}).get("features")
    for name, level in sorted(levels.items()) if isinstance(levels, dict) else ():
        number = _whole_number(level.get("max_version_level") if isinstance(level, dict) else level)
        if number is not None:
            yield name, number


def _quota(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _whole_number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def _entity_text(entity: tuple[tuple[str, str | None], ...]) -> str:
    return ", ".join(f"{kind} {name or '(default)'}" for kind, name in entity)
