"""Requests with the ACLs that let them pass; the cases are those of Kafka's AuthorizerIntegrationTest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.livebroker.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from kafkalog_core.wire.error_codes import ErrorCode
from tests.support.live_state import TRANSACTIONAL, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = (
    AclOperation(each) for each in range(3, 13)
)
TOPIC, GROUP, CLUSTER, TXN = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
NAMES: Final = {TOPIC: "t", GROUP: "g", CLUSTER: "kafka-cluster", TXN: "x"}
REFUSED: Final = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TXN: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
T_0: Final = [{"name": "t", "partitions": [{"partition_index": 0}]}]
NO_MEMBER: Final = {"member_id": "", "group_instance_id": None}
NO_PRODUCER: Final = {"producer_id": 1, "producer_epoch": 0}
OF_X: Final = {"transactional_id": "x", **NO_PRODUCER}
OFFSET: Final = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
COMMIT: Final = {
    "group_id": "g",
    "generation_id_or_member_epoch": -1,
    **NO_MEMBER,
    "topics": [{"name": "t", "partitions": [OFFSET]}],
}
HEARTBEAT: Final = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["t"],
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": [],
}
ANY_ACL: Final = {"resource_type_filter": 1, "resource_name_filter": None, "principal_filter": None} | {
    "host_filter": None,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
Need = tuple[ResourceType, AclOperation]


def allow(kind: ResourceType, operation: AclOperation, name: str | None = None, user: str = "alice") -> AclBinding:
    """An ACL for a user."""
    name = NAMES[kind] if name is None else name
    return AclBinding(kind, name, PatternType.LITERAL, f"User:{user}", "*", operation, AclPermission.ALLOW)


def codes_of(value: object) -> Iterator[int]:
    """Every error code in a response."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key.endswith("error_code") and key != "topic_config_error_code":
                yield each
            yield from codes_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from codes_of(each)


def refusals(answer: dict[str, Any]) -> set[int]:
    """The errors of authorization in a response."""
    return set(codes_of(answer)) & set(REFUSED.values())


class Case(NamedTuple):
    """A request, each set of ACLs that lets it pass, and the error without them if not that of the resource."""

    name: str
    version: int
    body: dict[str, Any]
    needs: tuple[list[Need], ...]
    refused: ResourceType | None = None


def case(
    name: str, version: int, body: dict[str, Any], *needs: list[Need], refused: ResourceType | None = None
) -> Case:
    return Case(name, version, body, needs, refused)


def produce_body(batch: bytes, **fields: Any) -> dict[str, Any]:
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
    return {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": data} | fields


def fetch_body(topic: dict[str, Any]) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
    wait = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
    session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    return wait | session | {"topics": [topic | {"partitions": [partition]}]}


JOIN: Final = {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, **NO_MEMBER} | {
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}
IN_BATCH: Final = batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
TOPIC_CONFIG: Final = {"resource_type": 2, "resource_name": "t"}
CASES: Final = [
    case("Produce", 9, produce_body(batch_of(b"a")), [(TOPIC, WRITE)]),
    case("Produce", 3, produce_body(batch_of(b"a")), [(TOPIC, WRITE)]),
    case("Produce", 9, produce_body(IN_BATCH, transactional_id="x"), [(TXN, WRITE), (TOPIC, WRITE)]),
    case("Fetch", 4, fetch_body({"topic": "t"}), [(TOPIC, READ)]),
    case("Fetch", 12, fetch_body({"topic": "t"}), [(TOPIC, READ)]),
    case(
        "ListOffsets",
        7,
        {"replica_id": -1, "isolation_level": 0}
        | {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        *([(TOPIC, each)] for each in (READ, WRITE, DELETE, ALTER, DESCRIBE)),
    ),
    case(
        "ListOffsets",
        0,
        {"replica_id": -1}
        | {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1, "max_num_offsets": 1}]}]},
        [(TOPIC, DESCRIBE)],
    ),
    case(
        "OffsetForLeaderEpoch",
        4,
        {"replica_id": -1}
        | {"topics": [{"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]},
        [(TOPIC, DESCRIBE)],
        [(CLUSTER, ACTION)],
        refused=TOPIC,
    ),
    case("Metadata", 1, {"topics": [{"name": "t"}]}, [(TOPIC, DESCRIBE)]),
    case("DescribeTopicPartitions", 0, {"topics": [{"name": "t"}], "cursor": None}, [(TOPIC, DESCRIBE)]),
    case("DescribeProducers", 0, {"topics": [{"name": "t", "partition_indexes": [0]}]}, [(TOPIC, READ)]),
    case(
        "CreateTopics",
        5,
        {"timeout_ms": 10_000, "validate_only": False}
        | {"topics": [{"name": "n", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]},
        [(CLUSTER, CREATE)],
        refused=TOPIC,
    ),
    case(
        "DeleteTopics",
        3,
        {"topic_names": ["t"], "timeout_ms": 10_000},
        [(TOPIC, DELETE)],
        [(CLUSTER, DELETE)],
        refused=TOPIC,
    ),
    case(
        "CreatePartitions",
        3,
        {"topics": [{"name": "t", "count": 2, "assignments": None}], "timeout_ms": 10_000, "validate_only": True},
        [(TOPIC, ALTER)],
    ),
    case(
        "DeleteRecords",
        2,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 10_000},
        [(TOPIC, DELETE)],
    ),
    case(
        "InitProducerId",
        4,
        {"transactional_id": None, "transaction_timeout_ms": 1000},
        [(CLUSTER, IDEMPOTENT_WRITE)],
        [(TOPIC, WRITE)],
        refused=CLUSTER,
    ),
    case("InitProducerId", 4, {"transactional_id": "x", "transaction_timeout_ms": 1000}, [(TXN, WRITE)]),
    case(
        "AddPartitionsToTxn",
        3,
        {f"v3_and_below_{key}": value for key, value in OF_X.items()}
        | {"v3_and_below_topics": [{"name": "t", "partitions": [0]}]},
        [(TXN, WRITE), (TOPIC, WRITE)],
    ),
    case("AddOffsetsToTxn", 3, OF_X | {"group_id": "g"}, [(TXN, WRITE), (GROUP, READ)]),
    case("EndTxn", 3, OF_X | {"committed": True}, [(TXN, WRITE)]),
    case("TxnOffsetCommit", 3, OF_X | COMMIT, [(TXN, WRITE), (GROUP, READ), (TOPIC, READ)]),
    case("DescribeTransactions", 0, {"transactional_ids": ["x"]}, [(TXN, DESCRIBE)]),
    *(
        case(
            "FindCoordinator",
            version,
            {"key_type": number} | ({"key": NAMES[kind]} if version < 4 else {"coordinator_keys": [NAMES[kind]]}),
            [(kind, DESCRIBE)],
        )
        for version in (1, 4)
        for number, kind in enumerate((GROUP, TXN))
    ),
    case("JoinGroup", 5, JOIN, [(GROUP, READ)]),
    case("JoinGroup", 9, JOIN | {"reason": None}, [(GROUP, READ)]),
    case(
        "SyncGroup",
        3,
        {"group_id": "g", "generation_id": 1, **NO_MEMBER, "member_id": "m", "assignments": []},
        [(GROUP, READ)],
    ),
    case("Heartbeat", 3, {"group_id": "g", "generation_id": 1, **NO_MEMBER}, [(GROUP, READ)]),
    case("LeaveGroup", 3, {"group_id": "g", "members": [NO_MEMBER]}, [(GROUP, READ)]),
    case("ConsumerGroupHeartbeat", 1, HEARTBEAT, [(GROUP, READ), (TOPIC, DESCRIBE)]),
    case("OffsetCommit", 8, COMMIT, [(GROUP, READ), (TOPIC, READ)]),
    case(
        "OffsetFetch",
        1,
        {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]},
        [(GROUP, DESCRIBE), (TOPIC, DESCRIBE)],
    ),
    case(
        "OffsetFetch",
        7,
        {"group_id": "g", "require_stable": False, "topics": [{"name": "t", "partition_indexes": [0]}]},
        [(GROUP, DESCRIBE), (TOPIC, DESCRIBE)],
    ),
    case(
        "OffsetFetch",
        8,
        {"require_stable": False, "groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]},
        [(GROUP, READ), (TOPIC, READ)],
    ),
    case("OffsetFetch", 7, {"group_id": "g", "require_stable": False, "topics": None}, [(GROUP, DESCRIBE)]),
    case("OffsetDelete", 0, {"group_id": "g", "topics": T_0}, [(GROUP, DELETE), (TOPIC, READ)]),
    case("DescribeGroups", 5, {"groups": ["g"], "include_authorized_operations": True}, [(GROUP, DESCRIBE)]),
    case("ConsumerGroupDescribe", 1, {"group_ids": ["g"], "include_authorized_operations": True}, [(GROUP, DESCRIBE)]),
    case("DeleteGroups", 2, {"groups_names": ["g"]}, [(GROUP, DELETE)]),
    case(
        "DescribeConfigs",
        4,
        {"resources": [TOPIC_CONFIG | {"configuration_keys": None}]}
        | {"include_synonyms": False, "include_documentation": False},
        [(TOPIC, DESCRIBE_CONFIGS)],
        [(TOPIC, ALTER_CONFIGS)],
    ),
    case(
        "DescribeConfigs",
        4,
        {"resources": [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}]}
        | {"include_synonyms": False, "include_documentation": False},
        [(CLUSTER, DESCRIBE_CONFIGS)],
    ),
    case(
        "AlterConfigs",
        2,
        {"resources": [TOPIC_CONFIG | {"configs": []}], "validate_only": True},
        [(TOPIC, ALTER_CONFIGS)],
    ),
    case(
        "IncrementalAlterConfigs",
        1,
        {"resources": [{"resource_type": 4, "resource_name": "1", "configs": []}], "validate_only": True},
        [(CLUSTER, ALTER_CONFIGS)],
    ),
    case("DescribeLogDirs", 4, {"topics": None}, [(CLUSTER, DESCRIBE)]),
    case("ListPartitionReassignments", 0, {"timeout_ms": 10_000, "topics": None}, [(CLUSTER, DESCRIBE)]),
    case(
        "AlterPartitionReassignments",
        0,
        {"timeout_ms": 10_000, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
        [(CLUSTER, ALTER)],
    ),
    case(
        "ElectLeaders",
        2,
        {"election_type": 0, "timeout_ms": 10_000, "topic_partitions": [{"topic": "t", "partitions": [0]}]},
        [(CLUSTER, ALTER)],
    ),
    case("DescribeAcls", 3, ANY_ACL, [(CLUSTER, DESCRIBE)]),
    case(
        "CreateAcls",
        3,
        {
            "creations": [
                ANY_ACL
                | {"resource_type": 2, "resource_name": "t", "principal": "User:b"}
                | {"host": "*", "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
            ]
        },
        [(CLUSTER, ALTER)],
    ),
    case("DeleteAcls", 3, {"filters": [ANY_ACL | {"resource_name_filter": "none"}]}, [(CLUSTER, ALTER)]),
]


def creation(binding: AclBinding, version: int = 3) -> dict[str, Any]:
    """An ACL in a request; version 0 has no type of pattern."""
    names = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation")
    row = dict(zip((*names, "permission_type"), binding, strict=True))
    return row if version else {key: value for key, value in row.items() if key != "resource_pattern_type"}
