"""`kafkalog cluster --recreate shell`: a shell script of Kafka's own tools that builds the same cluster again.

The values go to the tools through properties files on stdin where the command line would change them: `ConfigCommand`
splits `--add-config` at commas and drops brackets, and `TopicCommand` splits `--config` at each equals sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.command_lines import shell_word
from kafkalog_core.text import count_of
from kafkalog_core.topics.cluster_names import ACL_OPERATIONS, SCRAM_MECHANISMS, is_secret
from kafkalog_core.topics.metadata_records import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.topics.cluster_image import AclEntry, ClusterImage, QuotaEntity, TopicState

__all__ = ["Volume", "operation_name", "printable", "recreate_shell", "volume_table"]

_METRICS_RESOURCE: Final = 16
_ENTITIES: Final = {BROKER_RESOURCE: "brokers", _METRICS_RESOURCE: "client-metrics", GROUP_RESOURCE: "groups"}
"""The entity types of kafka-configs.sh by `ConfigResource.Type`; topics get theirs when they are made."""
_QUOTA_ENTITIES: Final = {"user": "users", "client-id": "clients", "ip": "ips"}
_RESOURCES: Final = {
    2: "--topic",
    3: "--group",
    4: "--cluster",
    5: "--transactional-id",
    6: "--delegation-token",
    7: "--user-principal",
}
_CLUSTER: Final = 4
_PATTERNS: Final = {3: "literal", 4: "prefixed"}
_ALLOW: Final = 3
_HEAD: Final = """#!/usr/bin/env bash
# Builds a Kafka cluster as the disks describe it: topics, settings, users, quotas, ACLs. It holds no records.
# Usage: bash FILE HOST:PORT, with the bin directory of Kafka in PATH
# COMMAND_CONFIG names a file with the settings of the tools, if the cluster wants authentication.
# A run that failed can be repeated: what is there already is left as it is, or set again.
set -eu
server=${1:?usage: bash FILE HOST:PORT}
tool() {
    program=$1
    shift
    "$program" --bootstrap-server "$server" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} "$@"
}
"""
_ASK: Final = """
# The disks hold no passwords of SCRAM users, only keys made from them, which no tool takes: each user needs a new
# password. The script asks for it (or reads one line of its input), and never shows it in a command line.
scram_user() { # name, mechanism, iterations
    printf 'New password of %q (%s): ' "$1" "$2" >&2
    if [ -t 0 ]; then stty -echo; fi
    IFS= read -r password
    if [ -t 0 ]; then stty echo; echo >&2; fi
    printf '%s' "$password" | sed 's/\\\\/\\\\\\\\/g' | sed "s/^/$2=iterations=$3,password=/" |
        tool kafka-configs.sh --alter --entity-type users --entity-name "$1" --add-config-file /dev/stdin
}
"""


class Volume(NamedTuple):
    """A log directory, with the ids in its meta.properties; None: unknown."""

    path: str
    node_id: str | None
    directory_id: str | None
    cluster_id: str | None


def operation_name(number: int) -> str | None:
    """Return the name of an ACL operation as kafka-acls.sh spells it (`SecurityUtils.operationName`); None: unknown."""
    word = ACL_OPERATIONS.get(number)
    return None if word is None else word.title().replace("_", "")


def printable(text: str) -> str:
    """Return a text for a comment, which must not end its line."""
    return "".join(character if character.isprintable() else "?" for character in text)


def volume_table(volumes: Iterable[Volume]) -> Iterator[str]:
    """Yield the table of log directories, each with its node id, directory id and cluster id."""
    rows = [("volume", "node", "directory id", "cluster id"), *volumes]
    texts = [tuple("unknown" if cell is None else printable(cell) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(4)]
    for row in texts:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def recreate_shell(
    image: ClusterImage, volumes: Iterable[Volume], *, source: str, with_assignments: bool = False
) -> Iterator[str]:
    """Yield the script in pieces.

    Args:
        image: of the cluster.
        volumes: the log directories of the cluster.
        source: where the image was read, for the first lines.
        with_assignments: whether topics get the same replicas, node by node; else the controller places them.
    """
    yield _HEAD
    yield f"#\n# Read from {printable(source)}.\n"
    yield from (f"# {line}\n" for line in volume_table(volumes))
    yield from _notes(image)
    topics = sorted(image.topics.values(), key=lambda topic: topic.name)
    if topics:
        yield f"\n# --- {count_of(len(topics), 'topic')}\n"
    for topic in topics:
        yield from _topic(topic, image.configs_of(TOPIC_RESOURCE, topic.name), with_assignments=with_assignments)
    yield from _settings(image)
    if image.users:
        yield _ASK
        for (name, mechanism), user in sorted(image.users.items()):
            called = SCRAM_MECHANISMS.get(mechanism)
            if called is not None:
                yield f"scram_user {shell_word(name)} {called} {user.iterations}\n"
    if image.quotas:
        yield "\n# --- quotas\n"
    for entity, values in sorted(image.quotas.items(), key=lambda item: [(kind, name or "") for kind, name in item[0]]):
        yield _configs(" ".join(_quota_entity(entity)), {key: _number(value) for key, value in sorted(values.items())})
    if image.acls:
        yield "\n# --- ACLs, last: they may shut out the user that runs this script\n"
    for group in _acl_groups(image.acls.values()):
        yield f"tool kafka-acls.sh --add --force {group}\n"


def _notes(image: ClusterImage) -> Iterator[str]:
    levels = ", ".join(f"{name} {level}" for name, level in sorted(image.features.items()))
    if levels:
        yield f"# Its feature levels, which kafka-storage.sh format and kafka-features.sh set: {printable(levels)}.\n"
    if image.tokens:
        yield (
            f"# {count_of(len(image.tokens), 'delegation token')} cannot be made again with the same id: clients ask "
            "for new ones.\n"
        )
    if image.brokers:
        nodes = ", ".join(str(node) for node in sorted(image.brokers))
        yield f"# It had {count_of(len(image.brokers), 'broker')}: {nodes}.\n"


def _topic(topic: TopicState, configs: Mapping[str, str], *, with_assignments: bool) -> Iterator[str]:
    replicas = [partition.replicas for _, partition in sorted(topic.partitions.items())]
    if not replicas:
        return
    words = ["tool kafka-topics.sh --create --if-not-exists --topic", shell_word(topic.name)]
    factors = {len(nodes) for nodes in replicas}
    if with_assignments and len(factors) == 1:
        words += ["--replica-assignment", ",".join(":".join(map(str, nodes)) for nodes in replicas)]
    else:
        words += ["--partitions", str(len(replicas)), "--replication-factor", str(max(factors))]
    where = f"--entity-type topics --entity-name {shell_word(topic.name)}"
    shown = {name: value for name, value in configs.items() if not is_secret(name)}
    apart = {name: value for name, value in shown.items() if "=" in value or not value}
    for name, value in sorted(shown.items()):
        if name not in apart:
            words.append(f"--config {shell_word(f'{name}={value}')}")
    if len(factors) > 1:  # TopicCommand takes one replication factor for all partitions
        fewest, most = min(factors), max(factors)
        yield f"# its partitions have {fewest} to {most} replicas; kafka-reassign-partitions.sh changes one\n"
    yield " ".join(words) + "\n"
    if apart:
        yield _configs(where, apart)
    yield from _secret_names(configs, where)


def _settings(image: ClusterImage) -> Iterator[str]:
    resources = sorted((kind, name) for kind, name in image.configs if kind in _ENTITIES)
    if resources:
        yield "\n# --- settings of brokers, groups and client metrics\n"
    for kind, name in resources:
        values = image.configs[kind, name]
        where = f"--entity-type {_ENTITIES[kind]} " + (
            f"--entity-name {shell_word(name)}" if name else "--entity-default"
        )
        yield from _secret_names(values, where)
        shown = {key: value for key, value in sorted(values.items()) if not is_secret(key)}
        if shown:
            yield _configs(where, shown)


def _secret_names(values: Iterable[str], where: str) -> Iterator[str]:
    """Yield a comment that names the settings that are secrets, if there are any."""
    secrets = sorted(name for name in values if is_secret(name))
    if secrets:
        yield f"# set by hand, because they are secrets: {', '.join(map(printable, secrets))} ({where})\n"


def _configs(where: str, values: Mapping[str, str]) -> str:
    """Return a command that sets values, which it reads as Java properties from its input."""
    lines = "".join(f"{_property(name)}={_property(value)}\n" for name, value in values.items())
    return f"tool kafka-configs.sh --alter {where} --add-config-file /dev/stdin <<'END'\n{lines}END\n"


def _property(text: str) -> str:
    """Return a key or a value of Java properties (`Properties.load`), in ASCII and on one line."""
    escaped = []
    for number, character in enumerate(text):
        if character in "\\=:#!" or (character == " " and not number):
            escaped.append(f"\\{character}")
        elif " " <= character <= "~":
            escaped.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            escaped += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "".join(escaped)


def _quota_entity(entity: QuotaEntity) -> Iterator[str]:
    for kind, name in sorted(entity, key=lambda pair: list(_QUOTA_ENTITIES).index(pair[0])):
        yield f"--entity-type {_QUOTA_ENTITIES[kind]}"
        yield "--entity-default" if name is None else f"--entity-name {shell_word(name)}"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _acl_groups(entries: Iterable[AclEntry]) -> Iterator[str]:
    """Yield the arguments of kafka-acls.sh, one command for all entries that differ in the operation alone."""
    groups: dict[tuple[int, str, int, str, str, int], set[int]] = {}
    for entry in entries:
        key = (
            entry.resource_type,
            entry.resource_name,
            entry.pattern_type,
            entry.principal,
            entry.host,
            entry.permission_type,
        )
        groups.setdefault(key, set()).add(entry.operation)
    for (kind, name, pattern, principal, host, permission), operations in sorted(groups.items()):
        if kind not in _RESOURCES or pattern not in _PATTERNS:
            continue
        who = "allow" if permission == _ALLOW else "deny"
        words = [f"--{who}-principal", shell_word(principal), f"--{who}-host", shell_word(host)]
        called = [each for number in sorted(operations) if (each := operation_name(number)) is not None]
        words += [word for each in called for word in ("--operation", each)]
        words += [_RESOURCES[kind], *([] if kind == _CLUSTER else [shell_word(name)])]
        words += ["--resource-pattern-type", _PATTERNS[pattern]] if pattern != 3 else []
        yield " ".join(words)
