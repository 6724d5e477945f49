"""Who may send the requests about the cluster, settings and users, and the table of the rules of all APIs.

Each rule names what `KafkaApis`, `ControllerApis` and `ConfigHelper` of Kafka 4.3 check for the API.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.livebroker.cluster.acls import AclOperation, Authorizer, ResourceType
from kafkalog_core.livebroker.security.authorization import (
    FAILED,
    MESSAGES,
    Access,
    amended,
    host_text,
    of_cluster,
    refused_topics,
    unchecked,
)
from kafkalog_core.livebroker.security.group_rules import GROUP_RULES
from kafkalog_core.livebroker.security.topic_rules import TOPIC_RULES
from kafkalog_core.serve.server import handlers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.livebroker.security.authorization import Rule, TopicLookup
    from kafkalog_core.serve.network.answers import Answer, ConnectionFacts
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.serve.server import Handlers
    from kafkalog_core.wire.error_codes import ErrorCode

__all__ = ["AuthorizedHandlers"]

_TOPIC: Final = 2  # ConfigResource.Type
_RESOURCES: Final = {
    # authorizeAlterResource, ConfigHelper.handleDescribeConfigsRequest: all others are of the cluster
    _TOPIC: ResourceType.TOPIC,
    32: ResourceType.GROUP,
}


# --- settings ---------------------------------------------------------------------------------------------------------
def _configs(
    operation: AclOperation, answered: str, access: Access, context: RequestContext, handler: Handler
) -> Answer:
    """An operation on each topic or group, or on the cluster for the settings of brokers."""
    allowed, refused = [], []
    for row in context.body["resources"]:
        # Anything but a topic or a group, such as a broker, belongs to the cluster.
        kind = _RESOURCES.get(row["resource_type"], ResourceType.CLUSTER)
        is_cluster = kind is ResourceType.CLUSTER
        if access.to_cluster(operation) if is_cluster else access.may(operation, kind, row["resource_name"]):
            allowed.append(row)
        else:
            named = {"resource_type": row["resource_type"], "resource_name": row["resource_name"]}
            refused.append(named | {"error_code": FAILED[kind], "error_message": MESSAGES[FAILED[kind]]})

    def amend(body: Body) -> Body:
        return body | {answered: [*body[answered], *refused]}

    return handler(amended(context, amend, {"resources": allowed}) if refused else context)


# --- refused requests whose response is more than an error (getErrorResponse of each request) -------------------------
def _each_creation(body: Body, code: ErrorCode, message: str) -> Body:
    return {"results": [{"error_code": code, "error_message": message} for _ in body["creations"]]}


def _each_filter(body: Body, code: ErrorCode, message: str) -> Body:
    return {"filter_results": [{"error_code": code, "error_message": message} for _ in body["filters"]]}


def _each_reassignment(body: Body, code: ErrorCode, message: str) -> Body:
    place = "partitions", "partition_index"
    rows = refused_topics(body["topics"], code, place, place, error_message=message)
    return {"error_code": code, "error_message": message, "responses": rows}


def _each_election(body: Body, code: ErrorCode, message: str) -> Body:
    places = ("partitions", ""), ("partition_result", "partition_id")
    rows = refused_topics(body["topic_partitions"] or (), code, *places, error_message=message)
    return {"error_code": code, "replica_election_results": rows}


def _each_quota(body: Body, code: ErrorCode, message: str) -> Body:
    rows = [{"entity": each["entity"], "error_code": code, "error_message": message} for each in body["entries"]]
    return {"entries": rows}


def _no_quotas(body: Body, code: ErrorCode, message: str) -> Body:
    del body
    return {"error_code": code, "error_message": message, "entries": None}


def _each_user(body: Body, code: ErrorCode, message: str) -> Body:
    # A user may be in both lists, and gets one row.
    users = sorted({each["name"] for field in ("deletions", "upsertions") for each in body[field]})
    return {"results": [{"user": each, "error_code": code, "error_message": message} for each in users]}


def _each_marker(body: Body, code: ErrorCode, message: str) -> Body:
    del message
    places = ("partition_indexes", ""), ("partitions", "partition_index")
    rows = [
        {"producer_id": each["producer_id"], "topics": refused_topics(each["topics"], code, *places)}
        for each in body["markers"]
    ]
    return {"markers": rows}


_ALTER: Final = of_cluster(AclOperation.ALTER)
_DESCRIBE: Final = of_cluster(AclOperation.DESCRIBE)
_ACTION: Final = of_cluster(AclOperation.CLUSTER_ACTION)
_RULES: Final[dict[str, Rule]] = {
    **TOPIC_RULES,
    **GROUP_RULES,
    "ApiVersions": unchecked,
    "SaslHandshake": unchecked,
    "SaslAuthenticate": unchecked,
    "DescribeConfigs": partial(_configs, AclOperation.DESCRIBE_CONFIGS, "results"),
    "AlterConfigs": partial(_configs, AclOperation.ALTER_CONFIGS, "responses"),
    "IncrementalAlterConfigs": partial(_configs, AclOperation.ALTER_CONFIGS, "responses"),
    "ListConfigResources": of_cluster(AclOperation.DESCRIBE_CONFIGS),
    "DescribeLogDirs": _DESCRIBE,
    "ListPartitionReassignments": _DESCRIBE,
    "AlterPartitionReassignments": of_cluster(AclOperation.ALTER, refused=_each_reassignment),
    "ElectLeaders": of_cluster(AclOperation.ALTER, refused=_each_election),
    "DescribeAcls": _DESCRIBE,
    "CreateAcls": of_cluster(AclOperation.ALTER, refused=_each_creation),
    "DeleteAcls": of_cluster(AclOperation.ALTER, refused=_each_filter),
    "DescribeClientQuotas": of_cluster(AclOperation.DESCRIBE_CONFIGS, refused=_no_quotas),
    "AlterClientQuotas": of_cluster(AclOperation.ALTER_CONFIGS, refused=_each_quota),
    "DescribeUserScramCredentials": _DESCRIBE,
    "AlterUserScramCredentials": of_cluster(AclOperation.ALTER, refused=_each_user),
    "DescribeQuorum": _DESCRIBE,
    "UpdateFeatures": _ALTER,
    "UnregisterBroker": _ALTER,
    # the refusal names CLUSTER_ACTION alone
    "WriteTxnMarkers": of_cluster(AclOperation.ALTER, AclOperation.CLUSTER_ACTION, refused=_each_marker),
    "InitializeShareGroupState": _ACTION,
    "ReadShareGroupState": _ACTION,
    "WriteShareGroupState": _ACTION,
    "DeleteShareGroupState": _ACTION,
    "ReadShareGroupStateSummary": _ACTION,
}


class AuthorizedHandlers:
    """Handlers that let a client do what the ACLs allow it, and refuse the rest."""

    def __init__(
        self,
        parts: Iterable[Handlers],
        authorizer: Authorizer,
        topics: TopicLookup,
        user_of: Callable[[ConnectionFacts], str],
    ) -> None:
        """Take the handlers of all APIs.

        authorizer: decides. topics: the topics that there are. user_of: returns the name of a client's
            principal.
        """
        self._parts = list(parts)
        self._authorizer = authorizer
        self._topics = topics
        self._user_of = user_of

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API.

        Raises KeyError for an API that has no rule, so that nothing is served unchecked by mistake, and ValueError if
        two parts have a handler of one API.
        """
        found = handlers_of(self._parts)
        # Here and not at the first request: an API without a rule fails the start.
        return {name: (last, partial(self._answer, _RULES[name], handler)) for name, (last, handler) in found.items()}

    def _answer(self, rule: Rule, handler: Handler, context: RequestContext) -> Answer:
        client = f"User:{self._user_of(context.connection)}", host_text(context.connection.peer_host)
        return rule(Access(self._authorizer, client, self._topics), context, handler)
