"""CreateAcls, DescribeAcls and DeleteAcls: the ACLs in the metadata log.

Rules and messages follow `AclApis` and `AclControlManager` of Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.livebroker.cluster.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    host_range,
)
from kafkalog_core.serve.logs.partition_access import error_of
from kafkalog_core.topics.metadata_records import METADATA_VERSION
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import IntEnum

    from kafkalog_core.livebroker.cluster.acls import Acls
    from kafkalog_core.serve.disks.served_disks import FinalizedFeatures
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["AclRequests", "AclStore"]

_LAST_VERSION: Final = 3
_MAX_CHANGES: Final = 10_000  # of one request (QuorumController.MAX_RECORDS_PER_USER_OP)
_RANGES_SINCE: Final = (32, "4.4-IV1")  # MetadataVersion.isCidrAclSupported
_DISABLED: Final = "No Authorizer is configured."
_NOT_KEPT: Final = "ACLs are kept in the metadata log, and the log directory of this broker has none."

_Problem = tuple[ErrorCode, str]


class AclStore(Protocol):
    """Where ACLs are kept."""

    @property
    def has_metadata_log(self) -> bool:
        """Whether they can be changed."""

    @property
    def features(self) -> FinalizedFeatures:
        """The levels of the cluster's features."""

    @property
    def acls(self) -> Acls:
        """The ACLs."""

    def change_acls(self, added: Iterable[AclBinding], removed: Iterable[bytes], /) -> None:
        """Add ACLs, and remove some by their ids. Raises StorageError."""


class AclRequests:
    """The handlers of the requests about ACLs. Who may send them is decided before (`of_cluster`)."""

    def __init__(self, store: AclStore, *, is_enforced: bool) -> None:
        """Take the store. is_enforced: whether there is an authorizer; without one, ACLs are neither shown nor set."""
        self._store = store
        self._is_enforced = is_enforced

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "CreateAcls": (_LAST_VERSION, self.create),
            "DescribeAcls": (_LAST_VERSION, self.describe),
            "DeleteAcls": (_LAST_VERSION, self.delete),
        }

    def describe(self, context: RequestContext) -> Answer:
        """Answer DescribeAcls: the ACLs that a filter matches, by resource pattern."""
        answer: Body = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None, "resources": []}
        # As a broker without authorizer.class.name: it has no ACLs to show.
        if not self._is_enforced:
            message = "No Authorizer is configured on the broker"
            return context.reply(answer | {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": message})
        asked = _filter_of(context.body)
        problem = _filter_problem(asked)
        if problem is not None:
            return context.reply(answer | dict(zip(("error_code", "error_message"), problem, strict=True)))
        by_pattern: dict[tuple[int, str, int], list[Body]] = {}
        for each in self._store.acls.by_id().values():
            if asked.matches(each):
                entry = {"principal": each.principal, "host": each.host, "operation": each.operation}
                rows = by_pattern.setdefault((each.resource_type, each.name, each.pattern), [])
                rows.append(entry | {"permission_type": each.permission})
        resources = [
            {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": rows}
            for (kind, name, pattern), rows in sorted(by_pattern.items())
        ]
        return context.reply(answer | {"resources": resources})

    # --- changes ------------------------------------------------------------------------------------------------------
    def _refusal(self) -> _Problem | None:
        """Return why no ACL can be changed; None: they can."""
        if not self._is_enforced:
            return ErrorCode.SECURITY_DISABLED, _DISABLED
        # Without a metadata log, as with ZooKeeper, they would be forgotten at the end.
        return None if self._store.has_metadata_log else (ErrorCode.UNSUPPORTED_VERSION, _NOT_KEPT)

    def create(self, context: RequestContext) -> Answer:
        """Answer CreateAcls. Valid ones are added as one batch, whatever the others are; one that is there is not."""
        asked = context.body["creations"]
        bindings = [_binding_of(each) for each in asked]
        refusal = self._refusal()
        if refusal is None and len(bindings) > _MAX_CHANGES:  # EventHandlerExceptionInfo
            refusal = ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        level = self._store.features.levels.get(METADATA_VERSION, 0)
        problems = [refusal or _binding_problem(each) or _host_problem(each.host, level) for each in bindings]
        # The valid ones are added although others are not: each has its own result.
        valid = [each for each, problem in zip(bindings, problems, strict=True) if problem is None]
        failure = self._change(valid, ())
        results = [_result(problem or failure) for problem in problems]
        return context.reply({"throttle_time_ms": 0, "results": results})

    def delete(self, context: RequestContext) -> Answer:
        """Answer DeleteAcls: the ACLs that any of the filters matches are removed as one batch."""
        filters = [_filter_of(each) for each in context.body["filters"]]
        refusal = self._refusal()
        known = self._store.acls.by_id()
        found: list[dict[bytes, AclBinding]] = []
        problems: list[_Problem | None] = []
        for each in filters:
            problem = refusal or _filter_problem(each)
            matching = (
                {} if problem else {acl_id: binding for acl_id, binding in known.items() if each.matches(binding)}
            )
            found.append(matching)
            problems.append(problem)
        # An ACL that two filters match is removed once, and shown for both.
        gone = {acl_id for matching in found for acl_id in matching}
        if len(gone) > _MAX_CHANGES:
            message = f"Cannot remove more than {_MAX_CHANGES} acls in a single delete operation."
            failure: _Problem | None = (ErrorCode.INVALID_REQUEST, message)
        else:
            failure = self._change((), gone)
        results = [
            # A failure of the write is the result of each filter that was valid.
            _result(problem or failure)
            | {"matching_acls": [] if failure else [_row(each) for each in matching.values()]}
            for problem, matching in zip(problems, found, strict=True)
        ]
        return context.reply({"throttle_time_ms": 0, "filter_results": results})

    def _change(self, added: Iterable[AclBinding], removed: Iterable[bytes]) -> _Problem | None:
        """Change the ACLs; return why that failed, or None."""
        try:
            if added or removed:
                self._store.change_acls(added, removed)
        except (KafkalogError, OSError) as error:
            return error_of(error), str(error)
        return None


def _result(problem: _Problem | None) -> Body:
    code, message = problem or (ErrorCode.NONE, None)
    return {"error_code": code, "error_message": message}


def _row(binding: AclBinding) -> Body:
    return _result(None) | {
        "resource_type": binding.resource_type,
        "resource_name": binding.name,
        "pattern_type": binding.pattern,
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission,
    }


def _binding_of(row: Body) -> AclBinding:
    return AclBinding(
        row["resource_type"],
        row["resource_name"],
        row["resource_pattern_type"],
        row["principal"],
        row["host"],
        row["operation"],
        row["permission_type"],
    )


def _binding_problem(binding: AclBinding) -> _Problem | None:
    """Return why an ACL is invalid; None: it is not (`AclApis.handleCreateAcls`, `validateNewAcl`)."""
    message = None
    if binding.resource_type == ResourceType.CLUSTER and binding.name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not binding.name:
        message = "Invalid empty resource name"
    elif binding.resource_type not in _values(ResourceType, 2):
        message = f"Invalid resourceType {_name(ResourceType, binding.resource_type)}"
    elif binding.pattern not in {PatternType.LITERAL, PatternType.PREFIXED}:
        message = f"Invalid patternType {_name(PatternType, binding.pattern)}"
    elif binding.operation not in _values(AclOperation, 2):
        message = f"Invalid operation {_name(AclOperation, binding.operation)}"
    elif binding.permission not in {AclPermission.DENY, AclPermission.ALLOW}:
        message = f"Invalid permissionType {_name(AclPermission, binding.permission)}"
    elif ":" not in binding.principal:
        message = (
            f"Could not parse principal from `{binding.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return None if message is None else (ErrorCode.INVALID_REQUEST, message)


def _host_problem(host: str, level: int) -> _Problem | None:
    """Return why the host of an ACL is invalid (`AclControlManager.validateHostPattern`, KAFKA-20088)."""
    if not host:
        return ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty"
    if "/" not in host:
        return None
    first, name = _RANGES_SINCE
    if level < first:
        message = f"CIDR-based ACL host patterns require metadata version {name} or higher."
        return ErrorCode.UNSUPPORTED_VERSION, message
    if host_range(host) is None:
        return ErrorCode.INVALID_REQUEST, f"Invalid CIDR notation '{host}': Could not parse [{host}]"
    return None


def _values(kind: type[IntEnum], first: int) -> range:
    return range(first, max(kind) + 1)


def _name(kind: type[IntEnum], number: int) -> str:
    return kind(number).name if number in _values(kind, 0) else "UNKNOWN"


def _filter_of(row: Body) -> AclFilter:
    return AclFilter(
        row["resource_type_filter"],
        row["resource_name_filter"],
        row["pattern_type_filter"],  # version 0 has none, and means LITERAL (KIP-290)
        row["principal_filter"],
        row["host_filter"],
        row["operation"],
        row["permission_type"],
    )


def _filter_problem(asked: AclFilter) -> _Problem | None:
    """Return why a filter is invalid; None: it is not (`AclControlManager.validateFilter`)."""
    if asked.resource_type not in _values(ResourceType, 1) or asked.pattern not in _values(PatternType, 1):
        return ErrorCode.INVALID_REQUEST, "Unknown patternFilter."
    if asked.operation not in _values(AclOperation, 1) or asked.permission not in _values(AclPermission, 1):
        return ErrorCode.INVALID_REQUEST, "Unknown entryFilter."
    return None
