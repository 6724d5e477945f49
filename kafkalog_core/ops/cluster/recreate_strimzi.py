"""`kafkalog cluster --recreate strimzi`: KafkaTopic and KafkaUser resources that build the same cluster again.

Strimzi 0.49 and later read `kafka.strimzi.io/v1`. The name of a resource is a DNS name, while a topic has a name of
its own in the resource; a user has none, so users whose names are not DNS names cannot be resources. Strings
are written as JSON, which YAML reads.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.cluster.recreate_shell import operation_name, printable, volume_table
from kafkalog_core.text import count_of
from kafkalog_core.topics.cluster_names import SCRAM_MECHANISMS, is_secret, word_of
from kafkalog_core.topics.metadata_records import TOPIC_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.ops.cluster.recreate_shell import Volume
    from kafkalog_core.topics.cluster_image import AclEntry, ClusterImage, TopicState

__all__ = ["recreate_strimzi"]

_API: Final = "kafka.strimzi.io/v1"
_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_BYTES: Final = 253
_HASH_DIGITS: Final = 8
_SCRAM_512: Final = 2
_RESOURCES: Final = {2: "topic", 3: "group", 4: "cluster", 5: "transactionalId"}
_PATTERNS: Final = {3: "literal", 4: "prefix"}
_TYPES: Final = {2: "deny", 3: "allow"}
_QUOTAS: Final = {
    "producer_byte_rate": "producerByteRate",
    "consumer_byte_rate": "consumerByteRate",
    "request_percentage": "requestPercentage",
    "controller_mutation_rate": "controllerMutationRate",
}
_USER: Final = "User:"
_CN: Final = "CN="
_HEAD: Final = """# Strimzi resources (0.49 or later) of a Kafka cluster as the disks describe it: topics, and users
# with ACLs and quotas.
# Set the label strimzi.io/cluster to the name of your Kafka resource, then: kubectl apply -f FILE
"""


def recreate_strimzi(
    image: ClusterImage, volumes: Iterable[Volume], *, source: str, name: str = "my-cluster"
) -> Iterator[str]:
    """Yield the resources in pieces.

    Args:
        image: of the cluster.
        volumes: the log directories of the cluster.
        source: where the image was read, for the first lines.
        name: of the Kafka resource.
    """
    yield _HEAD
    yield f"#\n# Read from {printable(source)}.\n"
    yield from (f"# {line}\n" for line in volume_table(volumes))
    for topic in sorted(image.topics.values(), key=lambda topic: topic.name):
        yield from _topic(topic, image.configs_of(TOPIC_RESOURCE, topic.name), name)
    left: list[str] = []
    for user in _users(image, left):
        yield from _user(user, image, name)
    yield from _left(image, left)


def _topic(topic: TopicState, configs: Mapping[str, str], name: str) -> Iterator[str]:
    replicas = [len(partition.replicas) for partition in topic.partitions.values()]
    if not replicas:
        return
    yield from _begin("KafkaTopic", _resource_name(topic.name), name)
    yield f"  topicName: {_text(topic.name)}\n  partitions: {len(replicas)}\n  replicas: {max(replicas)}\n"
    if shown := {key: value for key, value in sorted(configs.items()) if not is_secret(key)}:
        yield "  config:\n"
        yield from (f"    {_text(key)}: {_text(value)}\n" for key, value in shown.items())
    if len(shown) < len(configs):
        names = ", ".join(printable(name) for name in sorted(configs.keys() - shown.keys()))
        yield f"# set by hand, because they are secrets: {names}\n"


def _resource_name(topic: str) -> str:
    """Return a DNS name for a topic: its own, or one that a hash keeps apart from those of other topics."""
    if _DNS_NAME.fullmatch(topic) and len(topic) <= _NAME_BYTES:
        return topic
    plain = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-") or "topic"
    return f"{plain[: _NAME_BYTES - _HASH_DIGITS - 1]}-{sha256(topic.encode()).hexdigest()[:_HASH_DIGITS]}"


def _begin(kind: str, name: str, cluster: str) -> Iterator[str]:
    yield f"---\napiVersion: {_API}\nkind: {kind}\nmetadata:\n  name: {_text(name)}\n"
    yield f"  labels:\n    strimzi.io/cluster: {_text(cluster)}\nspec:\n"


def _text(text: str) -> str:
    return json.dumps(text)


# --- users ------------------------------------------------------------------------------------------------------------
def _users(image: ClusterImage, left: list[str]) -> list[str]:
    """Return the names of users that can be resources; add to `left` why others cannot."""
    names = {name for name, _ in image.users}
    names |= {name for entity in image.quotas if (name := _quota_user(entity)) is not None}
    for entry in image.acls.values():
        user = _user_of(entry.principal)
        if user is None:
            left.append(f"ACLs of {printable(entry.principal)}: a KafkaUser is one user")
        else:
            names.add(user)
    found = []
    for each in sorted(names):
        bare = each.removeprefix(_CN)
        if _DNS_NAME.fullmatch(bare) and len(bare) <= _NAME_BYTES:
            found.append(each)
        else:
            left.append(f"user {printable(each)}: the name of a KafkaUser is a DNS name")
    return found


def _user_of(principal: str) -> str | None:
    """Return the user of a principal; None: it is another type, or all users."""
    user = principal.removeprefix(_USER)
    return None if user in {principal, "*"} else user


def _quota_user(entity: Sequence[tuple[str, str | None]]) -> str | None:
    """Return the user of a quota for one user, whatever its clients; None: it is for others."""
    return entity[0][1] if len(entity) == 1 and entity[0][0] == "user" else None


def _user(user: str, image: ClusterImage, name: str) -> Iterator[str]:
    yield from _begin("KafkaUser", user.removeprefix(_CN), name)
    fields = 0
    if user.startswith(_CN):
        yield "  authentication:\n    type: tls\n"
        fields += 1
    elif (user, _SCRAM_512) in image.users:
        # The log has keys made from the password, not the password.
        yield "  # Strimzi makes a new password, in the Secret of this name\n"
        yield "  authentication:\n    type: scram-sha-512\n"
        fields += 1
    entries = [entry for entry in image.acls.values() if _user_of(entry.principal) == user and _is_known(entry)]
    if entries:
        yield "  authorization:\n    type: simple\n    acls:\n"
        yield from _acls(entries)
        fields += 1
    quota = image.quotas.get((("user", user),), {})
    known = {_QUOTAS[key]: value for key, value in sorted(quota.items()) if key in _QUOTAS}
    if known:
        yield "  quotas:\n"
        yield from (f"    {key}: {int(value) if value.is_integer() else value}\n" for key, value in known.items())
    elif not fields:
        yield "  {}\n"


def _is_known(entry: AclEntry) -> bool:
    return (
        entry.resource_type in _RESOURCES and entry.pattern_type in _PATTERNS and bool(operation_name(entry.operation))
    )


def _acls(entries: Iterable[AclEntry]) -> Iterator[str]:
    groups: dict[tuple[int, str, int, str, int], set[int]] = {}
    for entry in entries:
        key = entry.resource_type, entry.resource_name, entry.pattern_type, entry.host, entry.permission_type
        groups.setdefault(key, set()).add(entry.operation)
    for (kind, name, pattern, host, permission), operations in sorted(groups.items()):
        yield f"      - resource:\n          type: {_RESOURCES[kind]}\n"
        if _RESOURCES[kind] != "cluster":
            yield f"          name: {_text(name)}\n          patternType: {_PATTERNS[pattern]}\n"
        yield f"        operations: [{', '.join(str(operation_name(each)) for each in sorted(operations))}]\n"
        yield f"        host: {_text(host)}\n        type: {_TYPES.get(permission, 'deny')}\n"


def _left(image: ClusterImage, left: list[str]) -> Iterator[str]:
    """Yield comments on what no resource can hold."""
    left += [
        f"user {printable(name)}: Strimzi has no {word_of(SCRAM_MECHANISMS, mechanism)}"
        for name, mechanism in sorted(image.users)
        if mechanism != _SCRAM_512
    ]
    quotas = sum(_quota_user(entity) is None for entity in image.quotas)
    left += [f"{count_of(quotas, 'quota')} of clients, addresses and defaults"] if quotas else []
    acls = sum(_user_of(entry.principal) is not None and not _is_known(entry) for entry in image.acls.values())
    left += [f"{count_of(acls, 'ACL')} on delegation tokens and users"] if acls else []
    settings = sum(kind != TOPIC_RESOURCE for kind, _ in image.configs)
    left += (
        [f"{count_of(settings, 'resource')} with settings of brokers, groups or metrics: spec.kafka.config"]
        if settings
        else []
    )
    if left:
        yield "---\n# Not in these resources; --recreate shell has them:\n"
        yield from (f"# - {line}\n" for line in dict.fromkeys(left))
