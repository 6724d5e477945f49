"""What Kafka keeps in ZooKeeper, 0.7 to 3.9: one reading of each of its nodes, by the path and the data.

ZkData of Kafka 3.9, ZkUtils of 0.8 to 0.11 and ZookeeperConsumerConnector are the rule. A node that another program has
changed has a `problem`, the reason why Kafka cannot read it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from msgspec import DecodeError
from msgspec.json import Decoder

from kafkalog_core.structs import Struct
from kafkalog_core.topics.cluster_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["DEFAULT_ENTITY", "HIDDEN", "KafkaNode", "chroots", "entity_name", "hide_secrets", "read_node", "scram_of"]

Fields = dict[str, Any]

HIDDEN: Final = b"(hidden)"
DEFAULT_ENTITY: Final = "<default>"
"""The node of what holds for all brokers, users or clients without a node of their own (ConfigEntityName.Default)."""
_SCRAM_SECRETS: Final = re.compile(rb"\b(salt=|stored_key=|server_key=)[A-Za-z0-9+/=]+")
"""ScramCredentialUtils.credentialToString."""
_PASSWORD_SECRETS: Final = re.compile(rb"\b(salt:|encryptedPassword:|initializationVector:|passwordLength:)[^,\"\s]+")
"""EncryptingPasswordEncoder.encode: what the key of password.encoder.secret turns into the password."""
_SETTINGS: Final = re.compile(rb'("((?:[^"\\]|\\.)*)"\s*:\s*)"(?:[^"\\]|\\.)*"')
"""A member of a JSON object whose value is a text, as ConfigEntityZNode.encode writes settings."""
_SCRAM: Final = re.compile(r"(salt|stored_key|server_key|iterations)=([^,]*)")
_SCRAM_NAMES: Final = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})
_WILDCARD_07: Final = re.compile(r"([*!])(\d+)\1(.*)\1", re.DOTALL)
_PLACES: Final = ("/brokers/ids", "/brokers/topics", "/cluster/id", "/kafka-acl", "/config/topics")
"""Nodes that only the root of a Kafka cluster has."""
_DECODER: Final = Decoder()
_TOPS: Final = ("brokers", "cluster", "config", "consumers", "kafka-acl", "admin")


class KafkaNode(Struct, frozen=True):
    """A node of Kafka: its kind, the values in it, and what is wrong with it; None: nothing is."""

    kind: str
    fields: Fields
    problem: str | None = None


class _BadNodeError(Exception):
    """Data that Kafka does not write."""


def chroots(paths: Iterable[str]) -> list[str]:
    """Return the chroots of all Kafka clusters in a tree (zookeeper.connect), shortest first; "": the root is one."""
    named = [path for path in paths if path.endswith(_PLACES)]
    found = {path.removesuffix(place) for path in named for place in _PLACES if path.endswith(place)}
    # Topics, groups and users have any name: the nodes of another cluster have no chroots below them.
    inside = tuple(f"{root}/{name}/" for root in found for name in _TOPS)
    return sorted((each for each in found if not f"{each}/".startswith(inside)), key=lambda each: (len(each), each))


def hide_secrets(data: bytes) -> bytes:
    """Return the data of a node without the keys of SCRAM users, encrypted passwords, and settings that are secrets."""
    # Trees have millions of nodes: what these have in common is searched first.
    shown = _SETTINGS.sub(_hide_value, data) if b'"config"' in data else data
    if b"salt" not in shown:
        return shown
    shown = _SCRAM_SECRETS.sub(rb"\1" + HIDDEN, shown)
    # A value of its own kind has all of these; other data may well have a salt.
    return _PASSWORD_SECRETS.sub(rb"\1" + HIDDEN, shown) if b"encryptedPassword:" in shown else shown


def _hide_value(match: re.Match[bytes]) -> bytes:
    """Return a setting in JSON, without its value if its name speaks of a secret and the value is in clear text."""
    is_clear = b"encryptedPassword:" not in match[0]
    return match[1] + b'"' + HIDDEN + b'"' if is_clear and is_secret(match[2].decode("utf-8", "replace")) else match[0]


def read_node(path: str, data: bytes | None) -> KafkaNode | None:
    """Return what a node means; None: Kafka has no such node.

    Args:
        path: below the chroot.
        data: of the node.
    """
    # Half of a large tree are the nodes above partition states, which have no data and mean nothing.
    if data is None and "/partitions/" in path and not path.endswith("/state"):
        return None
    for pattern, kind, read in _NODES_BELOW.get(path.split("/", 2)[1] if path else "", ()):
        match = pattern.fullmatch(path)
        if match is None:
            continue
        names: Fields = {
            name: int(text) if name in _NUMBERS else text for name, text in match.groupdict().items() if text
        }
        try:
            return KafkaNode(kind, names | read(data))
        except _BadNodeError as error:
            return KafkaNode(kind, names, str(error))
    return None


_NUMBERS: Final = frozenset({"broker", "partition"})


# --- values -----------------------------------------------------------------------------------------------------------
def _text(data: bytes | None) -> str:
    if data is None:
        raise _BadNodeError("the node has no data")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _BadNodeError("the data is not UTF-8") from None


def _object(data: bytes | None) -> Fields:
    """Return the JSON object of a node."""
    try:
        value = _DECODER.decode(data) if data else None
    except (DecodeError, ValueError, RecursionError):
        value = _odd_value(_text(data))
    if not isinstance(value, dict):
        raise _BadNodeError("the data is not a JSON object" if data else "the node has no data")
    return value


def _odd_value(text: str) -> object:
    """Return a JSON value with what JSON does not have, such as half of a surrogate pair, which Kafka reads."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _BadNodeError("the data is not JSON") from None


def _number(value: object) -> int | None:
    """Return a number, which Kafka writes as text in some nodes; None: it is none."""
    if type(value) is int:  # nearly always
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def _numbers(value: object) -> list[int]:
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []


def _by_partition(value: object) -> dict[int, list[int]]:
    """Return replicas by partition, whose number is text."""
    if not isinstance(value, dict):
        return {}
    numbered = {_number(name): _numbers(replicas) for name, replicas in value.items()}
    return {number: numbered[number] for number in sorted(each for each in numbered if each is not None)}


def _words(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


# --- readers ----------------------------------------------------------------------------------------------------------
def _nothing(data: bytes | None) -> Fields:
    del data
    return {}


def _read_broker(data: bytes | None) -> Fields:
    """Return a registration: BrokerIdZNode.decode; 0.7 has creator:host:port (ZkUtils.registerBrokerInZk)."""
    text = _text(data)
    if not text.startswith("{"):
        _, _, place = text.partition(":")
        name, _, number = place.rpartition(":")
        if not name:
            raise _BadNodeError("the registration is neither JSON nor creator:host:port")
        return {"version": 0, "endpoints": [place], "protocols": {}, "host": name, "port": _number(number)}
    value = _object(data)
    host, port = value.get("host"), _number(value.get("port"))
    protocols = value.get("listener_security_protocol_map")
    endpoints = _words(value.get("endpoints")) or ([f"PLAINTEXT://{host}:{port}"] if host else [])
    return {
        "version": _number(value.get("version")),
        "endpoints": endpoints,
        "protocols": protocols if isinstance(protocols, dict) else {},
        "host": host,
        "port": port,
        "rack": value.get("rack"),
        "timestamp_ms": _number(value.get("timestamp")),
    }


def _read_topic(data: bytes | None) -> Fields:
    """Return an assignment (TopicZNode.decode). A topic of 0.7 has no data: its children are brokers."""
    if not data:
        return {"replicas": {}, "is_07": True}
    value = _object(data)
    topic_id = value.get("topic_id")
    return {
        "version": _number(value.get("version")),
        "topic_id": topic_id if isinstance(topic_id, str) else None,
        "replicas": _by_partition(value.get("partitions")),
        "adding": _by_partition(value.get("adding_replicas")),
        "removing": _by_partition(value.get("removing_replicas")),
    }


def _read_state(data: bytes | None) -> Fields:
    """Return leader and ISR of a partition (TopicPartitionStateZNode.decode)."""
    value = _object(data)
    return {
        "leader": _number(value.get("leader")),
        "leader_epoch": _number(value.get("leader_epoch")),
        "controller_epoch": _number(value.get("controller_epoch")),
        "isr": _numbers(value.get("isr")),
        "recovering": value.get("leader_recovery_state") == 1,
    }


def _read_controller(data: bytes | None) -> Fields:
    """Return the controller (ControllerZNode.decode); before 0.8.1 a number (KafkaController.parseControllerId)."""
    text = _text(data)
    if (bare := _number(text)) is not None:
        return {"broker": bare}
    value = _object(data)
    return {
        "broker": _number(value.get("brokerid")),
        "timestamp_ms": _number(value.get("timestamp")),
        "kraft_epoch": _number(value.get("kraftControllerEpoch")),
    }


def _read_number(data: bytes | None) -> Fields:
    value = _number(_text(data).strip())
    if value is None:
        raise _BadNodeError("the data is not a number")
    return {"value": value}


def _read_config(data: bytes | None) -> Fields:
    """Return the settings of an entity (ConfigEntityZNode.decode); no data: none."""
    if not data:
        return {"config": {}}
    config = _object(data).get("config")
    pairs = config.items() if isinstance(config, dict) else ()
    return {"config": {name: value if isinstance(value, str) else json.dumps(value) for name, value in pairs}}


def _read_acls(data: bytes | None) -> Fields:
    """Return the ACLs of a resource (AclEntry.fromBytes)."""
    if not data:
        return {"acls": []}
    entries = _object(data).get("acls")
    names = ("principal", "permissionType", "operation", "host")
    return {
        "acls": [
            {name: str(each.get(name, "")) for name in names}
            for each in (entries if isinstance(entries, list) else ())
            if isinstance(each, dict)
        ]
    }


def _read_token(data: bytes | None) -> Fields:
    value = _object(data)
    return {
        "owner": value.get("owner"),
        "requester": value.get("tokenRequester"),
        "renewers": _words(value.get("renewers")),
        "issue_ms": _number(value.get("issueTimestamp")),
        "expiry_ms": _number(value.get("expiryTimestamp")),
        "max_ms": _number(value.get("maxTimestamp")),
    }


def _read_consumer(data: bytes | None) -> Fields:
    """Return a subscription (TopicCount.constructTopicCount): streams by topic, or by one pattern of topics."""
    text = _text(data)
    wildcard = _WILDCARD_07.fullmatch(text)
    if wildcard is not None:
        sign, count, pattern = wildcard.groups()
        return {"pattern": "white_list" if sign == "*" else "black_list", "streams": {pattern: int(count)}}
    value = _object(data)
    # 0.7 has the streams alone
    streams = value.get("subscription", value if "version" not in value else {})
    pairs = streams.items() if isinstance(streams, dict) else ()
    return {
        "pattern": value.get("pattern") if isinstance(value.get("pattern"), str) else "static",
        "streams": {name: count for name, count in pairs if isinstance(count, int)},
        "timestamp_ms": _number(value.get("timestamp")),
    }


def _read_owner(data: bytes | None) -> Fields:
    return {"thread": _text(data)}


def scram_of(config: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the SCRAM credentials among the settings of a user: salt, stored_key, server_key, iterations by name."""
    return {name: dict(_SCRAM.findall(config[name])) for name in sorted(_SCRAM_NAMES & config.keys())}


def entity_name(name: str) -> str:
    """Return the name of a user or client as it is (Sanitizer.desanitize); `<default>` is that of all others."""
    return unquote(name)


_Row = tuple[re.Pattern[str], str, "Callable[[bytes | None], Fields]"]


def _node(pattern: str, kind: str, read: Callable[[bytes | None], Fields] = _object) -> _Row:
    return re.compile(pattern), kind, read


_TOPIC: Final = "/brokers/topics/(?P<topic>[^/]+)"
_GROUP: Final = "/consumers/(?P<group>[^/]+)"
_PLACE: Final = r"(?P<topic>[^/]+)/(?P<place>\d+(?:-\d+)?)"
_NODES: Final[tuple[_Row, ...]] = (
    _node(rf"{_GROUP}/offsets/{_PLACE}", "offset", _read_number),
    _node(rf"{_GROUP}/owners/{_PLACE}", "owner", _read_owner),
    _node(rf"{_GROUP}/ids/(?P<consumer>[^/]+)", "consumer", _read_consumer),
    _node(rf"{_GROUP}", "group", _nothing),
    _node(rf"{_TOPIC}/partitions/(?P<partition>\d+)/state", "partition", _read_state),
    _node(_TOPIC, "topic", _read_topic),
    _node(rf"{_TOPIC}/(?P<broker>\d+)", "broker-partitions", _read_number),
    _node(r"/brokers/ids/(?P<broker>\d+)", "broker", _read_broker),
    _node("/brokers/seqid", "broker-ids", _nothing),
    _node("/controller", "controller", _read_controller),
    _node("/controller_epoch", "controller-epoch", _read_number),
    _node("/cluster/id", "cluster-id"),
    _node("/feature", "features"),
    _node("/migration", "migration"),
    _node("/latest_producer_id_block", "producer-ids", lambda data: _object(data) if data else {}),
    _node("/config/users/(?P<user>[^/]+)/clients/(?P<client>[^/]+)", "config", _read_config),
    _node("/config/(?P<type>topics|brokers|clients|users|ips)/(?P<name>[^/]+)", "config", _read_config),
    _node("/kafka-acl/(?P<resource_type>[^/]+)/(?P<resource>.+)", "acl", _read_acls),
    _node("/kafka-acl-extended/(?P<pattern>[^/]+)/(?P<resource_type>[^/]+)/(?P<resource>.+)", "acl", _read_acls),
    _node("/admin/delete_topics/(?P<topic>[^/]+)", "topic-deletion", _nothing),
    _node("/admin/reassign_partitions", "reassignment"),
    _node("/admin/preferred_replica_election", "preferred-election"),
    _node("/delegation_token/tokens/(?P<token>[^/]+)", "token", _read_token),
)
_NODES_BELOW: Final = {
    top: tuple(row for row in _NODES if row[0].pattern.split("/", 2)[1] == top)
    for top in {row[0].pattern.split("/", 2)[1] for row in _NODES}
}
"""The same by the first name of the path: there may be millions of nodes."""
