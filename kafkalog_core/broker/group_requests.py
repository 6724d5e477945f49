"""The requests of consumer groups: the offsets that the disks hold, and commits that are kept in memory over them."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.broker.groups import GroupState, JoinRequest, MemberIdentity
from kafkalog_core.topics.group_offsets import CommittedOffset
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.broker.answers import Answer, ConnectionFacts
    from kafkalog_core.broker.groups import GroupCoordinator, Member
    from kafkalog_core.broker.requests import Body, Handler, RequestContext
    from kafkalog_core.broker.served_disks import ServedDisks
    from kafkalog_core.broker.topic_requests import NodeAddress
    from kafkalog_core.topics.group_offsets import GroupOffsets

__all__ = ["Commits", "CommittedOffsets", "GroupRequests"]

Commits = Literal["memory", "refuse"]
"""What becomes of offsets that consumers commit."""

_NO_OFFSET: Final = CommittedOffset(-1)
_TOPIC_IDS: Final = 10  # OffsetCommit and OffsetFetch name topics by id since this version
_GROUPS: Final = 8  # OffsetFetch asks for several groups since this version
_BATCHED: Final = 4  # FindCoordinator since this version
_LEAVES_SEVERAL: Final = 3
_NEEDS_ID: Final = 4
_KNOWN_KEY_TYPES: Final = frozenset({0, 1})  # FindCoordinatorRequest.CoordinatorType: group, transaction
_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"
_UNKNOWN_OPERATIONS: Final = -(1 << 31)
_GROUP_OPERATIONS: Final = 1 << 3 | 1 << 8  # AclOperation: READ, DESCRIBE
_NOT_FOUND_IS_AN_ERROR: Final = 6  # DescribeGroups since this version (KIP-1043)
_MAX_METADATA: Final = 4096  # offset.metadata.max.bytes

Place = tuple[str, int]


class CommittedOffsets:
    """Committed offsets: those that the disks hold, and over them those of consumers since the start. Thread-safe."""

    def __init__(self, on_disk: GroupOffsets) -> None:
        self._on_disk = on_disk
        self._in_memory: dict[str, dict[Place, CommittedOffset]] = {}
        self._lock = threading.Lock()

    def groups(self) -> dict[str, str]:
        """Return the protocol type of each group that has ever committed; empty: unknown."""
        with self._lock:
            return dict.fromkeys(self._in_memory, _CONSUMER) | dict(self._on_disk.names())

    def of_group(self, group: str) -> dict[Place, CommittedOffset]:
        """Return all offsets of a group."""
        with self._lock:
            return self._on_disk.offsets.get(group, {}) | self._in_memory.get(group, {})

    def commit(self, group: str, place: Place, offset: CommittedOffset) -> None:
        """Keep an offset until the broker stops."""
        with self._lock:
            self._in_memory.setdefault(group, {})[place] = offset

    def unstable(self, group: str) -> set[Place]:
        """Return the partitions whose offset is in a transaction that was open when the cluster stopped (KIP-447)."""
        return self._on_disk.pending_of(group)


class GroupRequests:
    """The handlers of the group APIs."""

    def __init__(
        self,
        disks: ServedDisks,
        offsets: CommittedOffsets,
        groups: GroupCoordinator,
        address: Callable[[ConnectionFacts], NodeAddress],
        clock_ms: Callable[[], int],
        commits: Commits = "memory",
    ) -> None:
        """Take what the answers are made of. clock_ms: the time of day, in milliseconds since 1970."""
        self._disks = disks
        self._offsets = offsets
        self._groups = groups
        self._address = address
        self._clock_ms = clock_ms
        self._commits = commits

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "FindCoordinator": (6, self.find_coordinator),
            "JoinGroup": (9, self.join_group),
            "SyncGroup": (5, self.sync_group),
            "Heartbeat": (4, self.heartbeat),
            "LeaveGroup": (5, self.leave_group),
            "OffsetCommit": (10, self.offset_commit),
            "OffsetFetch": (10, self.offset_fetch),
            "ListGroups": (5, self.list_groups),
            "DescribeGroups": (6, self.describe_groups),
        }

    # --- membership ---------------------------------------------------------------------------------------------------
    def find_coordinator(self, context: RequestContext) -> Answer:
        """Answer FindCoordinator: this node coordinates every group and every transaction."""
        body, node = context.body, self._address(context.connection)
        error = ErrorCode.NONE if body.get("key_type", 0) in _KNOWN_KEY_TYPES else ErrorCode.INVALID_REQUEST
        found: Body = {"error_code": error, "error_message": None, "node_id": node.node_id}
        found |= {"host": node.host, "port": node.port}
        if error:
            found |= {"error_message": "only groups and transactions have a coordinator here", "node_id": -1}
            found |= {"host": "", "port": -1}
        if context.version < _BATCHED:
            return context.reply({"throttle_time_ms": 0} | found)
        coordinators = [{"key": key} | found for key in body["coordinator_keys"]]
        return context.reply({"throttle_time_ms": 0, "coordinators": coordinators})

    def join_group(self, context: RequestContext) -> Answer:
        """Answer JoinGroup, once all members have joined."""
        body = context.body
        session_s = body["session_timeout_ms"] / 1000
        rebalance_ms = body.get("rebalance_timeout_ms", -1)  # since version 1; before, the session's
        request = JoinRequest(
            identity=_identity(body),
            client_id=context.request.client_id or "",
            client_host=f"/{context.connection.peer_host}",
            session_s=session_s,
            rebalance_s=session_s if rebalance_ms < 0 else rebalance_ms / 1000,
            protocol_type=body["protocol_type"],
            protocols=tuple((each["name"], bytes(each["metadata"])) for each in body["protocols"]),
            needs_id=context.version >= _NEEDS_ID,
        )
        return self._groups.join(body["group_id"], request, context.reply)

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

    # --- offsets ------------------------------------------------------------------------------------------------------
    def offset_commit(self, context: RequestContext) -> Answer:
        """Answer OffsetCommit: nothing is written to the disk."""
        body = context.body
        group, generation = body["group_id"], body.get("generation_id_or_member_epoch", -1)
        identity = MemberIdentity(body.get("member_id", ""), body.get("group_instance_id"))
        refusal = self._groups.check_commit(group, identity, generation)
        if self._commits == "refuse":
            refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED  # clients do not retry it
        topics = []
        for topic in body["topics"]:
            name = self._name(topic, context.version)
            partitions = []
            for each in topic["partitions"]:
                error = refusal or self._commit(group, name, each, context.version)
                partitions.append({"partition_index": each["partition_index"], "error_code": error})
            topics.append({"name": topic.get("name"), "topic_id": topic.get("topic_id"), "partitions": partitions})
        return context.reply({"throttle_time_ms": 0, "topics": topics})

    def _commit(self, group: str, name: str | None, asked: Body, version: int) -> ErrorCode:
        number, metadata = asked["partition_index"], asked["committed_metadata"] or ""
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not self._disks.has_partition(name, number):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if len(metadata) > _MAX_METADATA:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        offset = CommittedOffset(
            asked["committed_offset"], asked.get("committed_leader_epoch", -1), metadata, self._clock_ms()
        )
        topic_id = self._disks.topic_id(name) if version >= _TOPIC_IDS else None
        self._offsets.commit(group, (name, number), replace(offset, topic_id=topic_id))
        return ErrorCode.NONE

    def offset_fetch(self, context: RequestContext) -> Answer:
        """Answer OffsetFetch; a partition without an offset has -1, and no error."""
        body, version = context.body, context.version
        is_stable = body.get("require_stable", False)
        if version < _GROUPS:
            found = self._fetched(body["group_id"], body["topics"], version, must_be_stable=is_stable)
            return context.reply({"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "topics": found})
        groups = [
            {
                "group_id": each["group_id"],
                "topics": self._fetched(each["group_id"], each["topics"], version, must_be_stable=is_stable),
                "error_code": ErrorCode.NONE,
            }
            for each in body["groups"]
        ]
        return context.reply({"throttle_time_ms": 0, "groups": groups})

    def _fetched(self, group: str, asked: list[Body] | None, version: int, *, must_be_stable: bool) -> list[Body]:
        """Return the offsets of a group, of the partitions that are asked for or, with None, of all."""
        known = self._offsets.of_group(group)
        unstable = self._offsets.unstable(group) if must_be_stable else set()
        topics = []
        for topic, name, numbers in self._asked_places(asked, known, version):
            partitions = []
            for number in numbers:
                error = ErrorCode.NONE if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
                offset = _NO_OFFSET if name is None else known.get((name, number), _NO_OFFSET)
                if (name, number) in unstable:
                    offset, error = _NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT
                partitions.append(
                    {
                        "partition_index": number,
                        "committed_offset": offset.offset,
                        "committed_leader_epoch": offset.leader_epoch,
                        "metadata": offset.metadata,
                        "error_code": error,
                    }
                )
            topics.append(topic | {"partitions": partitions})
        return topics

    def _asked_places(
        self, asked: list[Body] | None, known: Iterable[Place], version: int
    ) -> Iterator[tuple[Body, str | None, list[int]]]:
        """Yield how the response names each topic, its name, and the numbers of its partitions."""
        if asked is None:
            by_topic: dict[str, list[int]] = {}
            for name, number in sorted(known):
                by_topic.setdefault(name, []).append(number)
            for name, numbers in by_topic.items():
                topic_id = self._disks.topic_id(name)
                if version < _TOPIC_IDS or topic_id is not None:  # one that is on no disk has no id to be named by
                    yield {"name": name, "topic_id": topic_id}, name, numbers
            return
        for topic in asked:
            names = {"name": topic.get("name"), "topic_id": topic.get("topic_id")}
            yield names, self._name(topic, version), topic["partition_indexes"]

    def _name(self, topic: Body, version: int) -> str | None:
        """Return the name of a topic in a request; None: no topic has the id."""
        if version < _TOPIC_IDS:
            return str(topic["name"])
        return self._disks.topic_name(bytes(topic["topic_id"]))

    # --- looking at groups --------------------------------------------------------------------------------------------
    def list_groups(self, context: RequestContext) -> Answer:
        """Answer ListGroups: groups with members, and those with offsets on the disk, which are empty."""
        states = {state.lower() for state in context.body.get("states_filter", ())}
        types = {kind.lower() for kind in context.body.get("types_filter", ())}
        known = {name: (GroupState.EMPTY, kind) for name, kind in self._offsets.groups().items()}
        groups = [
            {"group_id": name, "protocol_type": kind, "group_state": state, "group_type": _CLASSIC}
            for name, (state, kind) in sorted((known | self._groups.states()).items())
            if (not states or state.lower() in states) and (not types or _CLASSIC in types)
        ]
        return context.reply({"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "groups": groups})

    def describe_groups(self, context: RequestContext) -> Answer:
        """Answer DescribeGroups; an unknown group is Dead, and an error since KIP-1043."""
        operations = _GROUP_OPERATIONS if context.body.get("include_authorized_operations") else _UNKNOWN_OPERATIONS
        on_disk = self._offsets.groups()
        groups = []
        for name in context.body["groups"]:
            error = ErrorCode.NONE
            found = self._groups.describe(name)
            if found is None and name in on_disk:
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
                    "authorized_operations": operations,
                }
            )
        return context.reply({"throttle_time_ms": 0, "groups": groups})


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
