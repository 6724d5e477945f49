"""What clients ask about the cluster and its topics, and the refusal of what would write.

There is one node: it leads every partition that it has. The other replicas that the metadata log knows are offline.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalog_core.errors import StorageError, UnsupportedError
from kafkalog_core.format.names import topic_name_problem
from kafkalog_core.serve.logs.partition_access import ReadableDisks
from kafkalog_core.serve.network.answers import Close
from kafkalog_core.serve.network.repeats import distinct_resources
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.serve.disks.served_disks import ServedTopic
    from kafkalog_core.serve.network.answers import Answer, ConnectionFacts
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.serve.topics.broker_configs import BrokerConfig

    _Found = ServedTopic | tuple[str | None, bytes]  # what was asked for: a topic, or the name and id of none

__all__ = ["ListedDisks", "NodeAddress", "TopicRequests", "metadata_rows"]

_NO_ID: Final = bytes(16)
_FIRST_WITH_IDS: Final = 12  # before, a topic id in Metadata means nothing (KafkaApis.handleTopicMetadataRequest)
_UNKNOWN_OPERATIONS: Final = -(1 << 31)
_TOPIC_OPERATIONS: Final = 1 << 3 | 1 << 8 | 1 << 10  # AclOperation: READ, DESCRIBE, DESCRIBE_CONFIGS
_CLUSTER_OPERATIONS: Final = 1 << 8 | 1 << 10
_ALL_TOPIC_OPERATIONS: Final = sum(1 << each for each in (3, 4, 5, 6, 7, 8, 10, 11))  # AclEntry.supportedOperations
_ALL_CLUSTER_OPERATIONS: Final = sum(1 << each for each in (5, 7, 8, 9, 10, 11, 12))
_BROKERS_ENDPOINT: Final = 1
_CONTROLLERS_ENDPOINT: Final = 2
_TOPIC_RESOURCE: Final = 2  # ConfigResource.Type
_BROKER_RESOURCE: Final = 4
_DYNAMIC_TOPIC_CONFIG: Final = 1  # DescribeConfigsResponse.ConfigSource
_STATIC_BROKER_CONFIG: Final = 4
_STRING_TYPE: Final = 2  # DescribeConfigsResponse.ConfigType
_READ_ONLY: Final = "this broker serves a disk read-only: nothing can be produced to it"


class ListedDisks(ReadableDisks, Protocol):
    """The topics on some disks, as they are listed and described."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""

    @property
    def log_dirs(self) -> Sequence[str]:
        """The log directories."""

    @property
    def topics(self) -> Mapping[str, ServedTopic]:
        """The topics by name."""

    def topic_configs(self, name: str, /) -> Mapping[str, str]:
        """Return the settings of a topic that differ from the broker's."""


class NodeAddress(Struct, frozen=True):
    """This node, as a client reaches it: it may depend on the listener that the client is connected to."""

    node_id: int
    host: str
    port: int

    def body(self) -> Body:
        """Return it as Metadata lists a broker."""
        return {"node_id": self.node_id, "host": self.host, "port": self.port, "rack": None}


class TopicRequests:
    """The handlers of Metadata and Describe* requests over some disks, and of Produce, which is refused."""

    def __init__(
        self,
        disks: ListedDisks,
        address: Callable[[ConnectionFacts], NodeAddress],
        create: Callable[[RequestContext, Collection[str]], None] | None = None,
        of_broker: Callable[[], Iterable[BrokerConfig]] = tuple,
    ) -> None:
        """Take the disks.

        create: creates topics that a client asks for, if that is allowed; None: it never is. of_broker: returns the
        settings of the broker that are known.
        """
        self._of_broker = of_broker
        self._disks = disks
        self._address = address
        self._create = create
        self._topic_operations = _TOPIC_OPERATIONS if create is None else _ALL_TOPIC_OPERATIONS
        self._cluster_operations = _CLUSTER_OPERATIONS if create is None else _ALL_CLUSTER_OPERATIONS

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "Produce": (13, self.produce),
            "Metadata": (13, self.metadata),
            "DescribeTopicPartitions": (0, self.describe_topic_partitions),
            "DescribeCluster": (2, self.describe_cluster),
            "DescribeConfigs": (4, self.describe_configs),
            "DescribeLogDirs": (5, self.describe_log_dirs),
            "DescribeAcls": (3, self.describe_acls),
            "ListPartitionReassignments": (0, self.list_partition_reassignments),
        }

    # --- topics -------------------------------------------------------------------------------------------------------
    def metadata(self, context: RequestContext) -> Answer:
        """Answer Metadata (`KafkaApis.handleTopicMetadataRequest`)."""
        body, node = context.body, self._address(context.connection)
        asked = body["topics"]
        # In version 0 an empty list means all topics.
        is_all = asked is None or (context.version == 0 and not asked)
        if not is_all:
            rows = metadata_rows(asked, context.version)
            if rows is None:
                return context.reply(_invalid_metadata(asked))
            asked = rows
        operations = self._topic_operations if body.get("include_topic_authorized_operations") else _UNKNOWN_OPERATIONS
        # Looked up before the creation: the answer says that a new topic is unknown.
        topics = list(self._all_topics() if is_all else self._asked_topics(asked))
        if not is_all and body.get("allow_auto_topic_creation", True):
            self._create_missing(context, asked)
        of_cluster = body.get("include_cluster_authorized_operations")
        return context.reply(
            {
                "throttle_time_ms": 0,
                "brokers": [node.body()],
                "cluster_id": self._disks.cluster_id,
                "controller_id": node.node_id,
                "topics": [self._described(error, each, operations, node) for error, each in topics],
                "cluster_authorized_operations": self._cluster_operations if of_cluster else _UNKNOWN_OPERATIONS,
                "error_code": ErrorCode.NONE,
            }
        )

    def _create_missing(self, context: RequestContext, asked: Iterable[Body]) -> None:
        """Create the topics that do not exist (auto.create.topics.enable).

        The answer to this request still says that they are unknown, as a broker's answer does: clients ask again.
        """
        if self._create is None:
            return
        names = dict.fromkeys(each["name"] for each in asked)
        missing = [
            name for name in names if name and name not in self._disks.topics and topic_name_problem(name) is None
        ]
        if missing:
            self._create(context, missing)

    def _all_topics(self) -> Iterator[tuple[ErrorCode, ServedTopic]]:
        return ((ErrorCode.NONE, topic) for topic in self._disks.topics.values())

    def _asked_topics(
        self, asked: Iterable[Body]
    ) -> Iterator[tuple[ErrorCode, ServedTopic | tuple[str | None, bytes]]]:
        """Yield each topic that is requested by name or id; for a topic that does not exist, the error."""
        for each in asked:
            name, topic_id = each["name"], bytes(each.get("topic_id") or _NO_ID)
            found = self._disks.topic_name(topic_id) if name is None else name
            topic = self._disks.topics.get(found or "")
            if topic is not None:
                yield ErrorCode.NONE, topic
            elif name is None:
                yield ErrorCode.UNKNOWN_TOPIC_ID, (None, topic_id)
            elif topic_name_problem(name) is not None:
                yield ErrorCode.INVALID_TOPIC_EXCEPTION, (name, _NO_ID)
            else:
                yield ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (name, _NO_ID)

    def _described(self, error: ErrorCode, topic: _Found, operations: int, node: NodeAddress) -> Body:
        """Return a topic as Metadata and DescribeTopicPartitions have it."""
        if isinstance(topic, tuple):
            name, topic_id = topic
            return {
                "error_code": error,
                "name": name,
                "topic_id": topic_id,
                "is_internal": False,
                "partitions": [],
                "topic_authorized_operations": _UNKNOWN_OPERATIONS,
            }
        return {
            "error_code": error,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.is_internal,
            "partitions": [self._partition(topic, number, node) for number in range(topic.partition_count)],
            "topic_authorized_operations": operations,
        }

    def _partition(self, topic: ServedTopic, number: int, node: NodeAddress) -> Body:
        """Return a partition. One that is on no disk, or cannot be read, has no leader: clients read the others."""
        try:
            partition = self._disks.partition(topic.name, number)
        except (StorageError, UnsupportedError):
            partition = None
        is_there = partition is not None
        replicas, in_sync = [node.node_id], [node.node_id] if is_there else []
        assigned = topic.assigned.get(number)
        if assigned is not None and assigned.replicas:
            # the node of a directory that was given to another one is a replica too: it has a copy
            replicas = list(dict.fromkeys((*assigned.replicas, node.node_id) if is_there else assigned.replicas))
            in_sync = list(assigned.isr)
        return {
            "error_code": ErrorCode.NONE if is_there else ErrorCode.LEADER_NOT_AVAILABLE,
            "partition_index": number,
            "leader_id": node.node_id if is_there else -1,
            "leader_epoch": -1 if partition is None else partition.leader_epoch,
            "replica_nodes": replicas,
            "isr_nodes": in_sync,
            "eligible_leader_replicas": [],  # nullable, but the admin client of 4.3.1 fails on null
            "last_known_elr": [],
            "offline_replicas": [each for each in replicas if each != node.node_id or not is_there],
        }

    def describe_topic_partitions(self, context: RequestContext) -> Answer:
        """Answer DescribeTopicPartitions, page by page (KIP-966, `DescribeTopicPartitionsRequestHandler`)."""
        body, node = context.body, self._address(context.connection)
        cursor = body["cursor"]
        # In order, so that a cursor has a place among them.
        names = sorted({each["name"] for each in body["topics"]} or self._disks.topics)
        first_name = "" if cursor is None else cursor["topic_name"]
        left = max(min(body["response_partition_limit"], 2000), 1)  # max.request.partition.size.limit
        topics: list[Body] = []
        next_cursor = None
        for name in names:
            if name < first_name:
                continue
            if left <= 0:
                next_cursor = {"topic_name": name, "partition_index": 0}
                break
            ((error, found),) = self._asked_topics([{"name": name}])
            described = self._described(error, found, self._topic_operations, node)
            first = cursor["partition_index"] if cursor is not None and name == first_name else 0
            page = described["partitions"][first : first + left]
            topics.append(described | {"partitions": page})
            left -= len(page)
            if first + len(page) < len(described["partitions"]):
                next_cursor = {"topic_name": name, "partition_index": first + len(page)}
                break
        return context.reply({"throttle_time_ms": 0, "topics": topics, "next_cursor": next_cursor})

    # --- cluster ------------------------------------------------------------------------------------------------------
    def describe_cluster(self, context: RequestContext) -> Answer:
        """Answer DescribeCluster (KIP-700). Controllers are not served."""
        node, asked = self._address(context.connection), context.body.get("endpoint_type", _BROKERS_ENDPOINT)
        error = {
            _BROKERS_ENDPOINT: ErrorCode.NONE,
            _CONTROLLERS_ENDPOINT: ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        }.get(asked, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
        wants_operations = context.body["include_cluster_authorized_operations"]
        broker = {"broker_id": node.node_id, "host": node.host, "port": node.port, "rack": None, "is_fenced": False}
        return context.reply(
            {
                "throttle_time_ms": 0,
                "error_code": error,
                "error_message": "this is a broker, not a controller" if error else None,
                "endpoint_type": _BROKERS_ENDPOINT,
                "cluster_id": self._disks.cluster_id,
                "controller_id": node.node_id,
                "brokers": [] if error else [broker],
                "cluster_authorized_operations": self._cluster_operations if wants_operations else _UNKNOWN_OPERATIONS,
            }
        )

    def describe_configs(self, context: RequestContext) -> Answer:
        """Answer DescribeConfigs: what the metadata log of the cluster sets for a topic, and what the broker is.

        No default is made up.
        """
        results, own_names = [], {"", str(self._address(context.connection).node_id)}
        for each in distinct_resources(context.body["resources"]):
            kind, name, keys = each["resource_type"], each["resource_name"], each["configuration_keys"]
            is_unknown = kind == _TOPIC_RESOURCE and name not in self._disks.topics
            values = self._disks.topic_configs(name) if kind == _TOPIC_RESOURCE and not is_unknown else {}
            configs = [_config(key, value, _DYNAMIC_TOPIC_CONFIG) for key, value in values.items()]
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else ErrorCode.NONE
            if kind == _BROKER_RESOURCE and name not in own_names:
                error = ErrorCode.INVALID_REQUEST  # ConfigHelper: the id of another broker
            elif kind == _BROKER_RESOURCE:
                configs = [_config(each.name, each.value, _STATIC_BROKER_CONFIG) for each in self._of_broker()]
            results.append(
                {
                    "error_code": error,
                    "error_message": None,
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [each for each in configs if keys is None or each["name"] in keys],
                }
            )
        return context.reply({"throttle_time_ms": 0, "results": results})

    def describe_log_dirs(self, context: RequestContext) -> Answer:
        """Answer DescribeLogDirs: the directories that hold partitions, with the sizes of the logs."""
        asked = context.body["topics"]
        wanted = None if asked is None else {(each["topic"], number) for each in asked for number in each["partitions"]}
        found: dict[str, dict[str, list[Body]]] = {path: {} for path in self._disks.log_dirs}
        for topic in self._disks.topics.values():
            for number, copies in sorted(topic.copies.items()):
                if wanted is not None and (topic.name, number) not in wanted:
                    continue
                for copy in copies:
                    size = {"partition_index": number, "partition_size": _size_of(copy.place.path)}
                    path = copy.log_dir or os.path.dirname(copy.place.path)
                    partitions = found.setdefault(path, {}).setdefault(topic.name, [])
                    partitions.append(size | {"offset_lag": 0, "is_future_key": False})
        results = [_log_dir(path, topics) for path, topics in found.items()]
        return context.reply({"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "results": results})

    def describe_acls(self, context: RequestContext) -> Answer:
        """Answer DescribeAcls as a broker without an authorizer does (`KafkaApis.handleDescribeAcls`)."""
        message = "No Authorizer is configured on the broker"
        error = {"throttle_time_ms": 0, "error_code": ErrorCode.SECURITY_DISABLED, "error_message": message}
        return context.reply(error | {"resources": []})

    def list_partition_reassignments(self, context: RequestContext) -> Answer:
        """Answer ListPartitionReassignments: there is never one."""
        nothing: dict[str, Any] = {"error_code": ErrorCode.NONE, "error_message": None, "topics": []}
        return context.reply({"throttle_time_ms": 0} | nothing)

    # --- refusals -----------------------------------------------------------------------------------------------------
    def produce(self, context: RequestContext) -> Answer:
        """Refuse Produce with an error that no client retries.

        The API must be advertised all the same: librdkafka derives from it which Fetch it may send. After an error on a
        request with acks=0, which has no response, brokers close the connection (`KafkaApis.handleProduceRequest`).
        """
        if context.body["acks"] == 0:
            return Close(_READ_ONLY)
        responses = [
            {
                "name": topic.get("name"),
                "topic_id": topic.get("topic_id"),
                "partition_responses": [
                    {
                        "index": each["index"],
                        "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        "base_offset": -1,
                        "record_errors": [],
                        "error_message": _READ_ONLY,
                    }
                    for each in topic["partition_data"]
                ],
            }
            for topic in context.body["topic_data"]
        ]
        return context.reply({"responses": responses, "throttle_time_ms": 0})


def metadata_rows(asked: Iterable[Body], version: int) -> list[Body] | None:
    """Return the rows of Metadata that count, each once; None: the request is refused as a whole.

    `KafkaApis.handleTopicMetadataRequest`: names do not count next to ids, and versions 10 and 11 have no ids yet.
    """
    places = dict.fromkeys((each["name"], bytes(each.get("topic_id") or _NO_ID)) for each in asked)
    has_ids = any(topic_id != _NO_ID for _, topic_id in places)
    if version < _FIRST_WITH_IDS and (has_ids or any(name is None for name, _ in places)):
        return None
    if has_ids:
        return [{"name": None, "topic_id": topic_id} for _, topic_id in places if topic_id != _NO_ID]
    return [{"name": name, "topic_id": topic_id} for name, topic_id in places]


def _invalid_metadata(asked: Iterable[Body]) -> Body:
    """Return the answer of version 10 or 11 to a row by id, or without a name (`MetadataRequest.getErrorResponse`)."""
    error = ErrorCode.INVALID_REQUEST
    topics: list[Body] = [
        {"error_code": error, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}
        for name, topic_id in dict.fromkeys((each["name"] or "", bytes(each["topic_id"])) for each in asked)
    ]
    return {"brokers": [], "cluster_id": None, "controller_id": -1, "topics": topics, "error_code": error}


def _config(key: str, value: str, source: int) -> Body:
    return {
        "name": key,
        "value": value,
        "read_only": True,
        "is_default": False,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [{"name": key, "value": value, "source": source}],
        "config_type": _STRING_TYPE,
        "documentation": None,
    }


def _log_dir(path: str, topics: dict[str, list[Body]]) -> Body:
    """Return a log directory with its topics, and the size and free space of its file system."""
    total = usable = -1
    try:
        status = os.statvfs(path)
        total, usable = status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize
        error = ErrorCode.NONE
    except OSError:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    return {
        "error_code": error,
        "log_dir": path,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "total_bytes": total,
        "usable_bytes": usable,
        "is_cordoned": False,
    }


def _size_of(path: str) -> int:
    """Return the size of a partition's logs, in bytes; 0 if the directory cannot be listed."""
    try:
        return sum(segment.size_bytes for segment in read_partition(path).segments)
    except StorageError:
        return 0
