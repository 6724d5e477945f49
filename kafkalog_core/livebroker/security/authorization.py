"""What a client may do, and how a request is answered that it may not send: what the rules of all APIs share.

A rule precedes the handler of an API (`AuthHelper` in `KafkaApis` of Kafka 4.3). It refuses the request, or calls
the handler with the part of the request that the client may ask for, and amends the response: rows of what was refused
are added, and what the client may not see is removed. So handlers know nothing of authorization.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalog_core.livebroker.cluster.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    Authorizer,
    ResourceType,
)
from kafkalog_core.structs import Struct, field, replace
from kafkalog_core.wire.error_codes import ErrorCode
from kafkalog_core.wire.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkalog_core.serve.network.answers import Answer, Reply
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.wire.schemas import MessageField

__all__ = [
    "FAILED",
    "MESSAGES",
    "Access",
    "Rule",
    "TopicLookup",
    "TopicRows",
    "amended",
    "completed",
    "host_text",
    "of_cluster",
    "refusal",
    "refused_topics",
    "split",
    "unchecked",
    "with_operations",
]

FAILED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a refused operation, by the type of the resource (`AclEntry.authorizationError`)."""
MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""What responses say of these errors (`Errors`)."""
_NO_OPERATIONS: Final = -(1 << 31)  # what responses have where authorized operations were not asked for
_IPV6_GROUPS: Final = 8


class TopicLookup(Struct, frozen=True):
    """What rules need to know of topics.

    Args:
        name_of: returns the name of the topic with an id of 16 bytes; None: there is none.
        names: returns the names of all topics.
        creates: whether the broker creates a topic that a client asks for [auto.create.topics.enable].
    """

    name_of: Callable[[bytes], str | None]
    names: Callable[[], Collection[str]]
    creates: bool = True


class Access(Struct, frozen=True):
    """What the client of one request may do.

    Args:
        authorizer: decides.
        client: its principal and its host.
        topics: the topics that there are.
    """

    authorizer: Authorizer
    client: tuple[str, str]
    topics: TopicLookup

    def may(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Return whether the client may do something with a resource."""
        return self.authorizer.may(self.client, operation, kind, name)

    def to_cluster(self, operation: AclOperation) -> bool:
        """Return whether the client may do something with the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def to_topic(self, operation: AclOperation, name: str) -> bool:
        """Return whether the client may do something with a topic."""
        return self.may(operation, ResourceType.TOPIC, name)

    def to_group(self, operation: AclOperation, name: str) -> bool:
        """Return whether the client may do something with a group."""
        return self.may(operation, ResourceType.GROUP, name)

    def operations(self, kind: ResourceType, name: str) -> int:
        """Return what the client may do with a resource, as a bit field (`AuthHelper.authorizedOperations`)."""
        return sum(1 << each for each in SUPPORTED_OPERATIONS[kind] if self.may(AclOperation(each), kind, name))

    def topic_of(self, row: Body, name: str = "name") -> str | None:
        """Return the name of the topic in a row of a request, by its name or its id; None: no topic has the id."""
        found: str | None = row.get(name)
        return found or self.topics.name_of(bytes(row.get("topic_id") or bytes(16)))


Rule: TypeAlias = Callable[["Access", "RequestContext", "Handler"], "Answer"]
"""Answers a request of an API for a client, with the handler of the API."""


def unchecked(access: Access, context: RequestContext, handler: Handler) -> Answer:
    """Answer a request that everybody may send."""
    del access
    return handler(context)


def of_cluster(*operations: AclOperation, refused: Callable[[Body, ErrorCode, str], Body] | None = None) -> Rule:
    """Return the rule of an API for which a client needs one of some operations on the cluster.

    refused: returns the fields of the response to a request that is refused, from the request's body, the error and its
        message; None: error and message at the top.
    """

    def rule(access: Access, context: RequestContext, handler: Handler) -> Answer:
        if any(map(access.to_cluster, operations)):
            return handler(context)
        # AuthHelper.authorizeClusterOperation
        message = f"Request {context.request.api.name} needs {operations[-1].name} permission."
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if refused is None:
            return refusal(context, code, error_message=message)
        return context.reply(completed(context, refused(context.body, code, message)))

    return rule


def refusal(context: RequestContext, code: ErrorCode, **fields: object) -> Reply:
    """Return a response with an error at the top; what is not given has its default."""
    return context.reply(completed(context, {"error_code": code} | fields))


def amended(
    context: RequestContext, amend: Callable[[Body], Body], changes: Mapping[str, Any] | None = None
) -> RequestContext:
    """Return a request whose response is amended, and completed, before it is encoded; changes: of its fields."""
    request = replace(context.request, body={**context.body, **(changes or {})})
    return replace(context, request=request, amend=lambda body: completed(context, amend(body)))


def split(names: Iterable[str], may: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Return the names of a request that the client may ask for, and the others, each once."""
    # Each name once, since a request may have one name many times.
    answers = {name: may(name) for name in dict.fromkeys(names)}
    return [name for name, is_allowed in answers.items() if is_allowed], [
        name for name, is_allowed in answers.items() if not is_allowed
    ]


def refused_topics(
    rows: Iterable[Body], code: ErrorCode, asked: tuple[str, str], answered: tuple[str, str], **fields: object
) -> list[Body]:
    """Return rows of topics of a response that refuse every partition of some rows of a request.

    asked, answered: the field with the partitions and, in each of them, that of its number. fields: what a row of a
    partition has besides number and error.
    """
    refused = []
    for row in rows:
        numbers = (each[asked[1]] if isinstance(each, dict) else each for each in row[asked[0]])
        partitions = [{answered[1]: number, "error_code": code, **fields} for number in numbers]
        named = {key: row[key] for key in ("name", "topic", "topic_name", "topic_id") if key in row}
        refused.append(named | {answered[0]: partitions})
    return refused


class TopicRows(Struct, frozen=True, kw_only=True):
    """The rule of an API whose request and response have rows of topics: each partition of a refused one has an error.

    Args:
        operation: what the client wants to do with each topic.
        asked: the field of the request with the rows.
        answered: the same field of the response.
        name: the field of a row with the topic's name.
        asked_partitions: the field of a row with the partitions, and the field of a partition with its number.
        answered_partitions: the same for the response.
        fields: what a row of a refused partition has besides number and error.
    """

    operation: AclOperation
    asked: str = "topics"
    answered: str = "topics"
    name: str = "name"
    asked_partitions: tuple[str, str] = ("partitions", "partition_index")
    answered_partitions: tuple[str, str] = ("partitions", "partition_index")
    fields: Mapping[str, object] = field(default_factory=dict)

    def __call__(self, access: Access, context: RequestContext, handler: Handler) -> Answer:
        """See Rule."""
        allowed, refused = self.split(access, context.body[self.asked])
        if not refused:
            return handler(context)

        def amend(body: Body) -> Body:
            return body | {self.answered: [*body[self.answered], *self.refusals(refused)]}

        return handler(amended(context, amend, {self.asked: allowed}))

    def split(self, access: Access, rows: Iterable[Body]) -> tuple[list[Body], list[Body]]:
        """Return the rows that the client may ask for, those of unknown topic ids among them, and the others."""
        allowed: list[Body] = []
        refused: list[Body] = []
        for row in rows:
            # A topic id that is unknown names nothing to protect: the handler answers UNKNOWN_TOPIC_ID.
            name = access.topic_of(row, self.name)
            is_allowed = name is None or access.to_topic(self.operation, name)
            (allowed if is_allowed else refused).append(row)
        return allowed, refused

    def refusals(self, rows: Iterable[Body], code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED) -> list[Body]:
        """Return rows of the response that refuse some rows of the request."""
        return refused_topics(rows, code, self.asked_partitions, self.answered_partitions, **self.fields)

    def refuse_all(self, context: RequestContext, code: ErrorCode) -> Answer:
        """Answer a request of which nothing is done."""
        return context.reply(completed(context, {self.answered: self.refusals(context.body[self.asked], code)}))


def completed(context: RequestContext, body: Body) -> Body:
    """Return the body of a response with the defaults of Kafka's generated classes for each field that is missing."""
    schema = schema_of(f"{context.request.api.name}Response", context.version)
    return _filled(schema.fields, body)


def _filled(fields: Iterable[MessageField], given: Mapping[str, Any]) -> Body:
    filled = dict(given)
    for each in fields:
        value = given.get(each.name, each.default)
        if each.struct is not None and each.is_array and value:
            value = [_filled(each.struct.fields, row) for row in value]
        filled[each.name] = value
    return filled


def with_operations(access: Access, kind: ResourceType, row: Body, bits: str, name: str) -> Body:
    """Return a row of a response with what the client may do, if its field `bits` is set."""
    # Only where the request has asked for it, since each operation is a look through the ACLs.
    if row.get(bits, _NO_OPERATIONS) == _NO_OPERATIONS:
        return row
    return row | {bits: access.operations(kind, name)}


def host_text(peer_host: str) -> str:
    """Return an address as bindings have it (`InetAddress.getHostAddress`): IPv6 in eight groups without zeros."""
    if ":" not in peer_host:
        return peer_host
    # Java writes IPv6 addresses without `::`, and bindings are compared as text.
    number = int(ipaddress.IPv6Address(peer_host))
    groups = (number >> 16 * place & 0xFFFF for place in reversed(range(_IPV6_GROUPS)))
    return ":".join(f"{group:x}" for group in groups)
