"""Who may send the requests about topics, their records and their settings, and producers' requests.

Each rule names what `KafkaApis`, `ControllerApis` and their helpers of Kafka 4.3 check for the API, and in which order.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.layout import (
    MAGIC_POSITION,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_BIT,
    V2_ATTRIBUTES,
)
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.livebroker.cluster.acls import CLUSTER_NAME, AclOperation, ResourceType
from kafkalog_core.livebroker.security.authorization import (
    FAILED,
    MESSAGES,
    TopicRows,
    amended,
    completed,
    refusal,
    split,
    with_operations,
)
from kafkalog_core.serve.network.answers import Close, NoResponse
from kafkalog_core.serve.topics.topic_requests import metadata_rows
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.livebroker.security.authorization import Access, Rule
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["TOPIC_RULES"]

_NO_ID: Final = bytes(16)
_TOPIC_FAILED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_TRANSACTION_FAILED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOPIC_MESSAGE: Final = MESSAGES[_TOPIC_FAILED]
_BY_IDS: Final = 6  # DeleteTopics names topics by id since this version
_FIRST_OF_BROKERS: Final = 4  # AddPartitionsToTxn comes from brokers since this version (KIP-890)
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})  # Topic.isInternal

# --- records ----------------------------------------------------------------------------------------------------------
_PRODUCE: Final = TopicRows(
    operation=AclOperation.WRITE,
    asked="topic_data",
    answered="responses",
    asked_partitions=("partition_data", "index"),
    answered_partitions=("partition_responses", "index"),
    fields={"base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1},
)


def _produce(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """Batches of a transaction need WRITE on the transactional id too. With acks=0 an error closes the connection."""
    body = context.body
    name = body.get("transactional_id")
    has_answer = body["acks"] != 0
    if _has_transactional(body["topic_data"]) and (name is None or not _may_transact(access, name)):
        return _PRODUCE.refuse_all(context, _TRANSACTION_FAILED) if has_answer else _closed(_TRANSACTION_FAILED)
    answer = _PRODUCE(access, context, handler)
    if isinstance(answer, NoResponse) and _PRODUCE.split(access, body["topic_data"])[1]:
        return _closed(_TOPIC_FAILED)
    return answer


def _closed(code: ErrorCode) -> Close:
    return Close(f"a produce request with acks=0 failed: {code.name}")


def _has_transactional(topics: Iterable[Body]) -> bool:
    """Return whether a batch is of a transaction (`RequestUtils.hasTransactionalRecords`)."""
    views = (each["records"] for topic in topics for each in topic["partition_data"])
    return any(
        view is not None
        and len(view) >= RECORD_BATCH_OVERHEAD
        and view[MAGIC_POSITION] == MAGIC_V2
        and view[V2_ATTRIBUTES + 1] & TRANSACTIONAL_BIT
        for view in views
    )


def _may_transact(access: Access, name: str) -> bool:
    return access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


_FETCH: Final = TopicRows(
    operation=AclOperation.READ,
    name="topic",
    answered="responses",
    asked_partitions=("partitions", "partition"),
    fields={"high_watermark": -1, "records": b"", "aborted_transactions": None},
)
_LIST_OFFSETS: Final = TopicRows(
    operation=AclOperation.DESCRIBE, fields={"timestamp": -1, "offset": -1, "old_style_offsets": []}
)
_LEADER_EPOCH: Final = TopicRows(
    operation=AclOperation.DESCRIBE,
    name="topic",
    asked_partitions=("partitions", "partition"),
    answered_partitions=("partitions", "partition"),
)


def _leader_epoch(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """Brokers need CLUSTER_ACTION; consumers ask too, and need DESCRIBE on the topics (KIP-320)."""
    if access.to_cluster(AclOperation.CLUSTER_ACTION):
        return handler(context)
    return _LEADER_EPOCH(access, context, handler)


# --- metadata ---------------------------------------------------------------------------------------------------------
def _metadata(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """Without DESCRIBE a topic is not listed, and is refused if it is asked for, whether it exists or not.

    A topic that does not exist is created only with CREATE on the cluster or on the topic.
    """
    asked = context.body["topics"]
    is_all = asked is None or (context.version == 0 and not asked)
    rows = [] if is_all else metadata_rows(asked, context.version)
    if rows is None:
        return handler(context)  # it is refused as a whole
    allowed, refused = [], []
    for row in rows:
        problem = _metadata_problem(access, context.body, row)
        if problem is None:
            allowed.append(row)
        else:
            refused.append(problem)

    def amend(body: Body) -> Body:
        found = [
            with_operations(access, ResourceType.TOPIC, each, "topic_authorized_operations", each["name"])
            for each in (body["topics"] if is_all or allowed else ())
            if not is_all or access.to_topic(AclOperation.DESCRIBE, each["name"])
        ]
        return _with_cluster_operations(access, body) | {"topics": found + refused}

    return handler(amended(context, amend, None if is_all else {"topics": allowed}))


def _metadata_problem(access: Access, body: Body, row: Body) -> Body | None:
    """Return the row of the response for a topic that is refused; None: it is not."""
    name = access.topic_of(row)
    if name is None:
        return None
    # KafkaApis.handleTopicMetadataRequest: topic ids are not sensitive, so a row with one is answered with it
    has_id = row["name"] is None
    if not access.to_topic(AclOperation.DESCRIBE, name):
        return _refused_topic(None if has_id else name, bytes(row["topic_id"]) if has_id else _NO_ID)
    creates = access.topics.creates and body.get("allow_auto_topic_creation", True)
    if creates and name not in access.topics.names() and not _may_create(access, name):
        return _refused_topic(name, _NO_ID, is_internal=name in _INTERNAL)
    return None


def _refused_topic(name: str | None, topic_id: bytes, *, is_internal: bool = False) -> Body:
    return {"error_code": _TOPIC_FAILED, "name": name, "topic_id": topic_id, "is_internal": is_internal}


def _may_create(access: Access, name: str) -> bool:
    return access.to_cluster(AclOperation.CREATE) or access.to_topic(AclOperation.CREATE, name)


def _with_cluster_operations(access: Access, body: Body) -> Body:
    """Set what the client may do with the cluster, which is nothing without DESCRIBE (`AuthHelper`)."""
    bits = "cluster_authorized_operations"
    if not access.to_cluster(AclOperation.DESCRIBE):
        return body | {bits: min(body[bits], 0)}  # the least integer is kept: it was not asked for
    return with_operations(access, ResourceType.CLUSTER, body, bits, CLUSTER_NAME)


def _describe_cluster(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """Everybody may ask where the brokers are."""
    return handler(amended(context, lambda body: _with_cluster_operations(access, body)))


def _describe_topic_partitions(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """As Metadata (`DescribeTopicPartitionsRequestHandler`), page by page: no page has a topic that is hidden."""
    asked = [each["name"] for each in context.body["topics"]]
    allowed, hidden = split(asked or access.topics.names(), partial(access.to_topic, AclOperation.DESCRIBE))
    refused = [_refused_topic(each, _NO_ID) for each in hidden if asked]

    def amend(body: Body) -> Body:
        found = [
            with_operations(access, ResourceType.TOPIC, each, "topic_authorized_operations", each["name"])
            for each in body["topics"]
        ]
        return body | {"topics": found + refused}

    if not allowed:  # no names would mean all of them
        return context.reply(completed(context, {"topics": refused, "next_cursor": None}))
    return handler(amended(context, amend, {"topics": [{"name": each} for each in allowed]}))


_PRODUCERS: Final = TopicRows(
    operation=AclOperation.READ,
    asked_partitions=("partition_indexes", ""),
    fields={"error_message": _TOPIC_MESSAGE},
)


# --- changes ----------------------------------------------------------------------------------------------------------
def _create_topics(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """CREATE on the cluster or the topic; settings of the new topic are answered with DESCRIBE_CONFIGS alone."""
    asked = context.body["topics"]
    counts = Counter(each["name"] for each in asked)
    unique = [each for each, count in counts.items() if count == 1]  # a duplicate is an error of another kind
    # ControllerApis.createTopics: the metadata topic is refused to everybody, for another reason
    refused = [_refused_creation(each) for each in unique if each != METADATA_TOPIC and not _may_create(access, each)]
    gone = {each["name"] for each in refused}

    def amend(body: Body) -> Body:
        return body | {"topics": [_without_configs(access, each) for each in body["topics"]] + refused}

    return handler(amended(context, amend, {"topics": [each for each in asked if each["name"] not in gone]}))


def _refused_creation(name: str) -> Body:
    return {"name": name, "error_code": _TOPIC_FAILED, "error_message": "Authorization failed."}


def _without_configs(access: Access, row: Body) -> Body:
    """See `ReplicationControlManager.createTopic`."""
    if row["error_code"] or access.to_topic(AclOperation.DESCRIBE_CONFIGS, row["name"]):
        return row
    hidden = {"num_partitions": -1, "replication_factor": -1, "configs": []}
    return row | hidden | {"topic_config_error_code": _TOPIC_FAILED}


def _delete_topics(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """DELETE on the cluster or the topic. Only with DESCRIBE the answer shows whether a topic exists."""
    if access.to_cluster(AclOperation.DELETE):
        return handler(context)
    field = "topics" if context.version >= _BY_IDS else "topic_names"
    allowed, refused = [], []
    for row in context.body[field]:
        named = row if isinstance(row, dict) else {"name": row}
        name = access.topic_of(named)
        problem = None if name is None else _deletion_problem(access, named, name)
        if problem is None:
            allowed.append(row)
        else:
            refused.append(problem)

    def amend(body: Body) -> Body:
        return body | {"responses": [*body["responses"], *refused]}

    return handler(amended(context, amend, {field: allowed}))


def _deletion_problem(access: Access, row: Body, name: str) -> Body | None:
    """See `ControllerApis.deleteTopics`: by its id, a topic is named to those who may describe it."""
    is_described = access.to_topic(AclOperation.DESCRIBE, name)
    failed = {"error_code": _TOPIC_FAILED, "error_message": _TOPIC_MESSAGE}
    if row["name"] is None:
        if access.to_topic(AclOperation.DELETE, name):
            return None
        return failed | {"name": name if is_described else None, "topic_id": bytes(row["topic_id"])}
    is_unknown = is_described and name not in access.topics.names()  # UNKNOWN_TOPIC_OR_PARTITION is the better answer
    if is_unknown or (is_described and access.to_topic(AclOperation.DELETE, name)):
        return None
    return failed | {"name": name, "topic_id": _NO_ID}


def _create_partitions(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """ALTER on the topic."""
    names = [each["name"] for each in context.body["topics"]]
    gone = {each for each in names if not access.to_topic(AclOperation.ALTER, each)}

    def amend(body: Body) -> Body:
        refused = [{"name": each, "error_code": _TOPIC_FAILED, "error_message": None} for each in sorted(gone)]
        return body | {"results": [*body["results"], *refused]}

    allowed = [each for each in context.body["topics"] if each["name"] not in gone]
    return handler(amended(context, amend, {"topics": allowed}))


_DELETE_RECORDS: Final = TopicRows(operation=AclOperation.DELETE, fields={"low_watermark": -1})


# --- producers --------------------------------------------------------------------------------------------------------
def _init_producer_id(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """An idempotent producer needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679)."""
    name = context.body["transactional_id"]
    code = ErrorCode.NONE
    if name is not None:
        is_two_phase = context.body.get("enable2_pc", False)  # since version 6 (KIP-939)
        is_allowed = _may_transact(access, name) and (
            not is_two_phase or access.may(AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, name)
        )
        code = code if is_allowed else _TRANSACTION_FAILED
    elif not access.to_cluster(AclOperation.IDEMPOTENT_WRITE):
        is_writer = access.authorizer.may_with_any(access.client, AclOperation.WRITE, ResourceType.TOPIC)
        code = code if is_writer else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return refusal(context, code, producer_id=-1, producer_epoch=-1) if code else handler(context)


def _add_partitions(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """Clients need WRITE on the id and on every topic; if a topic is refused, no partition is added."""
    if context.version >= _FIRST_OF_BROKERS:
        if access.to_cluster(AclOperation.CLUSTER_ACTION):
            return handler(context)
        return refusal(context, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    body = context.body
    topics = body["v3_and_below_topics"]
    if not _may_transact(access, body["v3_and_below_transactional_id"]):
        return context.reply(_added(context, {each["name"]: _TRANSACTION_FAILED for each in topics}))
    codes = {
        each["name"]: ErrorCode.OPERATION_NOT_ATTEMPTED
        if each["name"] not in _INTERNAL and access.to_topic(AclOperation.WRITE, each["name"])
        else _TOPIC_FAILED
        for each in topics
    }
    return context.reply(_added(context, codes)) if _TOPIC_FAILED in codes.values() else handler(context)


def _added(context: RequestContext, codes: Mapping[str, ErrorCode]) -> Body:
    rows = [
        {
            "name": each["name"],
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": codes[each["name"]]}
                for number in each["partitions"]
            ],
        }
        for each in context.body["v3_and_below_topics"]
    ]
    return completed(context, {"results_by_topic_v3_and_below": rows})


def _add_offsets(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """WRITE on the transactional id, then READ on the group."""
    if not _may_transact(access, context.body["transactional_id"]):
        return refusal(context, _TRANSACTION_FAILED)
    if not access.to_group(AclOperation.READ, context.body["group_id"]):
        return refusal(context, FAILED[ResourceType.GROUP])
    return handler(context)


def _end_transaction(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """WRITE on the transactional id."""
    is_allowed = _may_transact(access, context.body["transactional_id"])
    return handler(context) if is_allowed else refusal(context, _TRANSACTION_FAILED, producer_id=-1, producer_epoch=-1)


def _describe_transactions(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """DESCRIBE on the transactional id; of its topics, those with DESCRIBE."""
    allowed, hidden = split(context.body["transactional_ids"], partial(_may_see_transaction, access))
    refused = [{"error_code": _TRANSACTION_FAILED, "transactional_id": each} for each in hidden]

    def amend(body: Body) -> Body:
        states = [
            each | {"topics": [row for row in each["topics"] if access.to_topic(AclOperation.DESCRIBE, row["topic"])]}
            for each in body["transaction_states"]
        ]
        return body | {"transaction_states": states + refused}

    return handler(amended(context, amend, {"transactional_ids": allowed}))


def _may_see_transaction(access: Access, name: str) -> bool:
    return access.may(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)


def _list_transactions(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """Those whose id the client may describe."""

    def amend(body: Body) -> Body:
        rows = body.get("transaction_states", ())
        return body | {
            "transaction_states": [each for each in rows if _may_see_transaction(access, each["transactional_id"])]
        }

    return handler(amended(context, amend))


TOPIC_RULES: Final[dict[str, Rule]] = {
    "Produce": _produce,
    "Fetch": _FETCH,
    "ListOffsets": _LIST_OFFSETS,
    "OffsetForLeaderEpoch": _leader_epoch,
    "Metadata": _metadata,
    "DescribeCluster": _describe_cluster,
    "DescribeTopicPartitions": _describe_topic_partitions,
    "DescribeProducers": _PRODUCERS,
    "CreateTopics": _create_topics,
    "DeleteTopics": _delete_topics,
    "CreatePartitions": _create_partitions,
    "DeleteRecords": _DELETE_RECORDS,
    "InitProducerId": _init_producer_id,
    "AddPartitionsToTxn": _add_partitions,
    "AddOffsetsToTxn": _add_offsets,
    "EndTxn": _end_transaction,
    "DescribeTransactions": _describe_transactions,
    "ListTransactions": _list_transactions,
}
"""The rules by the names of the APIs."""
