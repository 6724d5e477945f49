"""Who may send the requests of groups: their members, their offsets, and what describes or deletes them.

Each rule names what `KafkaApis` of Kafka 4.3 checks for the API, and in which order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.livebroker.cluster.acls import AclOperation, ResourceType
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
from kafkalog_core.serve.network.repeats import distinct_groups
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.livebroker.security.authorization import Access, Rule
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["GROUP_RULES"]

_GROUP_FAILED: Final = FAILED[ResourceType.GROUP]
_TOPIC_FAILED: Final = FAILED[ResourceType.TOPIC]
_COORDINATORS: Final = {
    # FindCoordinatorRequest.CoordinatorType
    0: ResourceType.GROUP,
    1: ResourceType.TRANSACTIONAL_ID,
}
_SHARE: Final = 2
_BATCHED: Final = 4  # FindCoordinator since this version
_NO_PROTOCOL: Final = 7  # JoinGroup: the protocol of an error is null since this version
_GROUPS: Final = 8  # OffsetFetch asks for several groups since this version
_FIRST_WITH_ERROR: Final = 2  # OffsetFetch has an error for the whole group since this version
_NO_OFFSET: Final = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}
_HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


# --- members ----------------------------------------------------------------------------------------------------------
def _member(access: Access, context: RequestContext, handler: Handler, **fields: object) -> Answer:
    """READ on the group. fields: what the response has besides the error."""
    if access.to_group(AclOperation.READ, context.body["group_id"] or ""):  # that of ShareFetch may be null
        return handler(context)
    return refusal(context, _GROUP_FAILED, **fields)


def _join(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """READ on the group (`JoinGroupRequest.getErrorResponse`)."""
    protocol = None if context.version >= _NO_PROTOCOL else ""
    return _member(access, context, handler, generation_id=-1, protocol_name=protocol, member_id="")


def _beat(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """READ on the group, and DESCRIBE on each topic that the member names."""
    body = context.body
    if not access.to_group(AclOperation.READ, body["group_id"]):
        return refusal(context, _GROUP_FAILED, error_message=MESSAGES[_GROUP_FAILED])
    describes = partial(access.to_topic, AclOperation.DESCRIBE)
    if not all(map(describes, body["subscribed_topic_names"] or ())):
        return refusal(context, _TOPIC_FAILED)
    return handler(replace(context, may_use=describes))  # topics of its regular expression (TopicRegexResolver)


def _coordinator(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """DESCRIBE on the group or the transactional id; of share groups, brokers ask (CLUSTER_ACTION)."""
    body = context.body
    key_type = body.get("key_type", 0)
    if key_type == _SHARE and not access.to_cluster(AclOperation.CLUSTER_ACTION):
        kind, names = ResourceType.CLUSTER, frozenset[str]()
    elif key_type in _COORDINATORS:
        kind = _COORDINATORS[key_type]
        keys = body["coordinator_keys"] if context.version >= _BATCHED else [body["key"]]
        names = frozenset(each for each in keys if access.may(AclOperation.DESCRIBE, kind, each))
    else:
        return handler(context)
    failed = {"error_code": FAILED[kind], "node_id": -1, "host": "", "port": -1}
    if context.version < _BATCHED:
        if body["key"] in names:
            return handler(context)
        return context.reply(completed(context, failed | {"error_message": MESSAGES[FAILED[kind]]}))
    refused = [{"key": each} | failed for each in body["coordinator_keys"] if each not in names]

    def amend(answer: Body) -> Body:
        return answer | {"coordinators": [*answer["coordinators"], *refused]}

    allowed = [each for each in body["coordinator_keys"] if each in names]
    return handler(amended(context, amend, {"coordinator_keys": allowed}))


# --- offsets ----------------------------------------------------------------------------------------------------------
_COMMIT: Final = TopicRows(operation=AclOperation.READ)


def _offset_commit(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """READ on the group, then on each topic."""
    if not access.to_group(AclOperation.READ, context.body["group_id"]):
        return _COMMIT.refuse_all(context, _GROUP_FAILED)
    return _COMMIT(access, context, handler)


def _txn_offset_commit(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """WRITE on the transactional id, then as OffsetCommit."""
    if not access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, context.body["transactional_id"]):
        return _COMMIT.refuse_all(context, FAILED[ResourceType.TRANSACTIONAL_ID])
    return _offset_commit(access, context, handler)


def _offset_delete(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """DELETE on the group, then READ on each topic."""
    if not access.to_group(AclOperation.DELETE, context.body["group_id"]):
        return refusal(context, _GROUP_FAILED)
    return _COMMIT(access, context, handler)


_FETCH: Final = TopicRows(
    operation=AclOperation.DESCRIBE, asked_partitions=("partition_indexes", ""), fields=_NO_OFFSET
)


def _offset_fetch(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """See _offsets_of_groups; older versions ask for one group."""
    if context.version < _GROUPS:
        return _offset_fetch_of_one(access, context, handler)
    return _offsets_of_groups(access, context, handler, rows=_FETCH)


def _offsets_of_groups(access: Access, context: RequestContext, handler: Handler, *, rows: TopicRows) -> Answer:
    """DESCRIBE on each group, and on each topic: those that were not asked for by name are left out silently."""
    groups: list[Body] = []
    refused: list[Body] = []
    hidden: dict[str, list[Body]] = {}
    for each in distinct_groups(context.body["groups"]):
        name, topics = each["group_id"], each["topics"]
        if not _may_see(access, name):
            refused.append({"group_id": name, "error_code": _GROUP_FAILED})
            continue
        if topics is not None:
            topics, hidden[name] = rows.split(access, topics)
        groups.append(each | {"topics": topics})

    def amend(answer: Body) -> Body:
        found = [_visible(access, each, hidden.get(each["group_id"]), rows) for each in answer["groups"]]
        return answer | {"groups": found + refused}

    return handler(amended(context, amend, {"groups": groups}))


def _offset_fetch_of_one(access: Access, context: RequestContext, handler: Handler) -> Answer:
    topics = context.body["topics"]
    if not access.to_group(AclOperation.DESCRIBE, context.body["group_id"]):
        if context.version >= _FIRST_WITH_ERROR:
            return refusal(context, _GROUP_FAILED)
        return _FETCH.refuse_all(context, _GROUP_FAILED)
    allowed, hidden = (None, None) if topics is None else _FETCH.split(access, topics)
    return handler(amended(context, lambda answer: _visible(access, answer, hidden, _FETCH), {"topics": allowed}))


def _visible(access: Access, answer: Body, refused: list[Body] | None, rows: TopicRows) -> Body:
    """Return the offsets of a group, with an error for each refused topic; None: all topics were asked for."""
    if answer.get("error_code"):
        return answer
    if refused is not None:
        return answer | {"topics": [*answer["topics"], *rows.refusals(refused)]}
    return answer | {"topics": [each for each in answer["topics"] if _is_described(access, each, rows)]}


def _is_described(access: Access, row: Body, rows: TopicRows) -> bool:
    name = access.topic_of(row, rows.name)
    return name is not None and access.to_topic(rows.operation, name)


# --- looking at groups ------------------------------------------------------------------------------------------------
def _list(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """With DESCRIBE on the cluster all groups are listed, else those with DESCRIBE."""
    if access.to_cluster(AclOperation.DESCRIBE):
        return handler(context)

    def amend(body: Body) -> Body:
        return body | {"groups": [each for each in body["groups"] if _may_see(access, each["group_id"])]}

    return handler(amended(context, amend))


def _may_see(access: Access, group: str) -> bool:
    return access.to_group(AclOperation.DESCRIBE, group)


def _describe(
    access: Access,
    context: RequestContext,
    handler: Handler,
    *,
    asked: str,
    topics_of: Callable[[Body], Iterator[str]],
) -> Answer:
    """DESCRIBE on each group, and on each topic that its members have."""
    allowed, hidden = split(context.body[asked], partial(_may_see, access))
    refused = [{"group_id": each, "error_code": _GROUP_FAILED} for each in hidden]

    def amend(body: Body) -> Body:
        return body | {"groups": [described(each) for each in body["groups"]] + refused}

    def described(group: Body) -> Body:
        name = group["group_id"]
        if not all(access.to_topic(AclOperation.DESCRIBE, each) for each in topics_of(group)):
            return {"group_id": name, "error_code": _TOPIC_FAILED, "error_message": _HIDDEN}
        return (
            group
            if group["error_code"]
            else with_operations(access, ResourceType.GROUP, group, "authorized_operations", name)
        )

    return handler(amended(context, amend, {asked: allowed}))


def _topics_of_members(group: Body) -> Iterator[str]:
    """Yield the topics of the members of a group with its own assignor."""
    for member in group.get("members", ()):
        for field in ("assignment", "target_assignment"):  # share groups have no target
            for row in member.get(field, {}).get("topic_partitions", ()):
                yield row["topic_name"]


def _no_topics(group: Body) -> Iterator[str]:
    """Yield nothing: what members of classic groups have is known to them alone."""
    del group
    return iter(())


def _delete(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """DELETE on each group."""
    allowed, kept = split(context.body["groups_names"], partial(access.to_group, AclOperation.DELETE))
    refused = [{"group_id": each, "error_code": _GROUP_FAILED} for each in kept]

    def amend(body: Body) -> Body:
        return body | {"results": [*body["results"], *refused]}

    return handler(amended(context, amend, {"groups_names": allowed}))


# --- share groups (KIP-932) -------------------------------------------------------------------------------------------
_SHARE_OFFSETS: Final = TopicRows(operation=AclOperation.READ, name="topic_name", answered="responses")
_OFFSETS_OF_SHARE: Final = TopicRows(
    operation=AclOperation.DESCRIBE,
    name="topic_name",
    asked_partitions=("partitions", ""),
    fields={"start_offset": -1, "lag": -1, "error_message": MESSAGES[_TOPIC_FAILED]},
)


def _alter_share_offsets(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """READ on the group, then on each topic."""
    if not access.to_group(AclOperation.READ, context.body["group_id"]):
        return refusal(context, _GROUP_FAILED, error_message=MESSAGES[_GROUP_FAILED])
    return _SHARE_OFFSETS(access, context, handler)


def _share_reader(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """READ on the group. A session has topics that the request does not name, so READ on them is checked later."""
    context = replace(context, may_use=partial(access.to_topic, AclOperation.READ))
    return _member(access, context, handler, error_message=MESSAGES[_GROUP_FAILED])


def _delete_share_offsets(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """DELETE on the group, then READ on each topic."""
    body = context.body
    if not access.to_group(AclOperation.DELETE, body["group_id"]):
        return refusal(context, _GROUP_FAILED, error_message=MESSAGES[_GROUP_FAILED])
    allowed, refused = _SHARE_OFFSETS.split(access, body["topics"])
    failed = {"error_code": _TOPIC_FAILED, "error_message": MESSAGES[_TOPIC_FAILED]}

    def amend(answer: Body) -> Body:
        rows = [{"topic_name": each["topic_name"]} | failed for each in refused]
        return answer if answer["error_code"] else answer | {"responses": [*answer["responses"], *rows]}

    return handler(amended(context, amend, {"topics": allowed}))


GROUP_RULES: Final[dict[str, Rule]] = {
    "FindCoordinator": _coordinator,
    "JoinGroup": _join,
    "SyncGroup": _member,
    "Heartbeat": _member,
    "LeaveGroup": _member,
    "ConsumerGroupHeartbeat": _beat,
    "OffsetCommit": _offset_commit,
    "TxnOffsetCommit": _txn_offset_commit,
    "OffsetFetch": _offset_fetch,
    "OffsetDelete": _offset_delete,
    "ListGroups": _list,
    "DescribeGroups": partial(_describe, asked="groups", topics_of=_no_topics),
    "ConsumerGroupDescribe": partial(_describe, asked="group_ids", topics_of=_topics_of_members),
    "DeleteGroups": _delete,
    "ShareGroupHeartbeat": _beat,
    "ShareGroupDescribe": partial(_describe, asked="group_ids", topics_of=_topics_of_members),
    "ShareFetch": _share_reader,
    "ShareAcknowledge": _share_reader,
    "AlterShareGroupOffsets": _alter_share_offsets,
    "DeleteShareGroupOffsets": _delete_share_offsets,
    "DescribeShareGroupOffsets": partial(_offsets_of_groups, rows=_OFFSETS_OF_SHARE),
}
"""The rules by the names of the APIs."""
