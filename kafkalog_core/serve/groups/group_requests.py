"""The requests of the members of consumer groups, and the requests that describe groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.groups.group_members import GroupState, JoinRequest, MemberIdentity
from kafkalog_core.serve.groups.modern_group_requests import GROUP_OPERATIONS
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.serve.groups.group_members import Member
    from kafkalog_core.serve.groups.group_registry import GroupRegistry
    from kafkalog_core.serve.network.answers import Answer, ConnectionFacts
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.serve.topics.topic_requests import NodeAddress

__all__ = ["GroupRequests"]

_BATCHED: Final = 4  # FindCoordinator since this version
_LEAVES_SEVERAL: Final = 3
_NEEDS_ID: Final = 4
_SKIPS_ASSIGNMENT: Final = 9
_KNOWN_KEY_TYPES: Final = frozenset({0, 1})  # FindCoordinatorRequest.CoordinatorType: group, transaction
_NOT_FOUND_IS_AN_ERROR: Final = 6  # DescribeGroups since this version (KIP-1043)


class GroupRequests:
    """The handlers of the group APIs."""

    def __init__(
        self,
        groups: GroupRegistry,
        address: Callable[[ConnectionFacts], NodeAddress],
        *,
        can_delete: bool = False,
        create_topic: Callable[[int], object] | None = None,
    ) -> None:
        """Take what the answers are made of.

        create_topic: creates the topic of a type of coordinator, if it is missing. Raises KafkalogError and OSError.
        """
        self._registry = groups
        self._groups = groups.classic
        self._address = address
        self._can_delete = can_delete
        self._create_topic = create_topic

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        handlers: dict[str, tuple[int, Handler]] = {
            "FindCoordinator": (6, self.find_coordinator),
            "JoinGroup": (9, self.join_group),
            "SyncGroup": (5, self.sync_group),
            "Heartbeat": (4, self.heartbeat),
            "LeaveGroup": (5, self.leave_group),
            "ListGroups": (5, self.list_groups),
            "DescribeGroups": (6, self.describe_groups),
        }
        if self._can_delete:
            handlers["DeleteGroups"] = (2, self.delete_groups)
        return handlers

    # --- membership ---------------------------------------------------------------------------------------------------
    def find_coordinator(self, context: RequestContext) -> Answer:
        """Answer FindCoordinator: this node coordinates every group and every transaction."""
        body, node = context.body, self._address(context.connection)
        error, message = self._coordinator_error(body.get("key_type", 0))
        found: Body = {"error_code": error, "error_message": message, "node_id": node.node_id}
        found |= {"host": node.host, "port": node.port}
        if error:
            found |= {"node_id": -1, "host": "", "port": -1}
        if context.version < _BATCHED:
            return context.reply({"throttle_time_ms": 0} | found)
        coordinators = [{"key": key} | found for key in body["coordinator_keys"]]
        return context.reply({"throttle_time_ms": 0, "coordinators": coordinators})

    def _coordinator_error(self, key_type: int) -> tuple[ErrorCode, str | None]:
        """Return what is wrong with a type of coordinator. `KafkaApis.getCoordinator` creates its topic."""
        # FindCoordinatorRequest.CoordinatorType has share groups as well (KIP-932), which are not coordinated here.
        if key_type not in _KNOWN_KEY_TYPES:
            return ErrorCode.INVALID_REQUEST, "only groups and transactions have a coordinator here"
        if self._create_topic is not None:
            try:
                self._create_topic(key_type)
            except (KafkalogError, OSError):
                return ErrorCode.COORDINATOR_NOT_AVAILABLE, None
        return ErrorCode.NONE, None

    def join_group(self, context: RequestContext) -> Answer:
        """Answer JoinGroup, once all members have joined."""
        body = context.body
        session_s = body["session_timeout_ms"] / 1000
        # Since version 1; before, the session's
        rebalance_ms = body.get("rebalance_timeout_ms", -1)
        request = JoinRequest(
            identity=_identity(body),
            client_id=context.request.client_id or "",
            client_host=f"/{context.connection.peer_host}",
            session_s=session_s,
            rebalance_s=session_s if rebalance_ms < 0 else rebalance_ms / 1000,
            protocol_type=body["protocol_type"],
            protocols=tuple((each["name"], bytes(each["metadata"])) for each in body["protocols"]),
            needs_id=context.version >= _NEEDS_ID,
            skips=context.version >= _SKIPS_ASSIGNMENT,
        )
        return self._registry.join(body["group_id"], request, context.reply)

    def sync_group(self, context: RequestContext) -> Answer:
        """Answer SyncGroup, once the leader has assigned."""
        body = context.body
        assignments = {each["member_id"]: bytes(each["assignment"]) for each in body["assignments"]}
        return self._groups.sync(body["group_id"], _identity(body), body["generation_id"], assignments, context.reply)

    def heartbeat(self, context: RequestContext) -> Answer:
        """Answer Heartbeat."""
        body = context.body
        error = self._groups.heartbeat(body["group_id"], _identity(body), body["generation_id"])
        return context.reply({"throttle_time_ms": 0, "error_code": error})

    def leave_group(self, context: RequestContext) -> Answer:
        """Answer LeaveGroup."""
        body = context.body
        if context.version < _LEAVES_SEVERAL:
            error = self._groups.leave(body["group_id"], MemberIdentity(body["member_id"]))
            return context.reply({"throttle_time_ms": 0, "error_code": error})
        members = [
            {
                "member_id": each["member_id"],
                "group_instance_id": each["group_instance_id"],
                "error_code": self._groups.leave(body["group_id"], _identity(each)),
            }
            for each in body["members"]
        ]
        return context.reply({"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "members": members})

    # --- looking at groups --------------------------------------------------------------------------------------------
    def list_groups(self, context: RequestContext) -> Answer:
        """Answer ListGroups."""
        states = {state.lower() for state in context.body.get("states_filter", ())}
        types = {kind.lower() for kind in context.body.get("types_filter", ())}
        groups = [
            {"group_id": name, "protocol_type": kind, "group_state": state, "group_type": group_type}
            for name, (state, kind, group_type) in sorted(self._registry.listed().items())
            if (not states or state.lower() in states) and (not types or group_type in types)
        ]
        return context.reply({"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "groups": groups})

    def describe_groups(self, context: RequestContext) -> Answer:
        """Answer DescribeGroups; an unknown group is Dead, and an error since KIP-1043."""
        is_asked = context.body.get("include_authorized_operations")
        operations = {"authorized_operations": GROUP_OPERATIONS} if is_asked else {}
        on_disk = self._registry.offsets.groups()
        groups = []
        for name in dict.fromkeys(context.body["groups"]):
            error = ErrorCode.NONE
            found = self._groups.describe(name)
            is_consumers = self._registry.consumers.group(name) is not None
            if found is None and name in on_disk and not is_consumers:
                found = GroupState.EMPTY, on_disk[name], "", []
            if found is None:
                found = GroupState.DEAD, "", "", []
                error = ErrorCode.GROUP_ID_NOT_FOUND if context.version >= _NOT_FOUND_IS_AN_ERROR else error
            state, protocol_type, protocol, members = found
            groups.append(
                {
                    "error_code": error,
                    "error_message": f"Group {name} not found." if error else None,
                    "group_id": name,
                    "group_state": state,
                    "protocol_type": protocol_type,
                    "protocol_data": protocol if state is GroupState.STABLE else "",
                    "members": [_described(each, protocol, state) for each in members],
                }
                | operations
            )
        return context.reply({"throttle_time_ms": 0, "groups": groups})

    def delete_groups(self, context: RequestContext) -> Answer:
        """Answer DeleteGroups: a group with members cannot be deleted.

        A member whose session has just ended is none: a broker's timers run to the millisecond (`SystemTimerReaper`).
        """
        self._registry.expire()
        names = context.body["groups_names"]
        results = [{"group_id": name, "error_code": self._registry.delete(name)} for name in names]
        return context.reply({"throttle_time_ms": 0, "results": results})


def _identity(body: Body) -> MemberIdentity:
    return MemberIdentity(body["member_id"], body.get("group_instance_id"))


def _described(member: Member, protocol: str, state: GroupState) -> Body:
    is_stable = state is GroupState.STABLE
    return {
        "member_id": member.identity.member_id,
        "group_instance_id": member.identity.instance_id,
        "client_id": member.request.client_id,
        "client_host": member.request.client_host,
        "member_metadata": member.protocols.get(protocol, b"") if is_stable else b"",
        "member_assignment": member.assignment if is_stable else b"",
    }
