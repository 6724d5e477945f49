"""The requests of share groups but those that read: heartbeats, descriptions, and their offsets (KIP-932).

The rules are those of `GroupCoordinatorService` and `GroupMetadataManager` of Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.broker.groups.assignors import by_topic
from kafkalog_core.broker.logs.partition_access import error_of
from kafkalog_core.broker.share.share_groups import ShareHeartbeat
from kafkalog_core.errors import KafkalogError
from kafkalog_core.topics.share_state_records import ShareKey
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.broker.disks.live_disks import LiveDisks
    from kafkalog_core.broker.groups.assignors import Place
    from kafkalog_core.broker.groups.group_registry import GroupRegistry
    from kafkalog_core.broker.network.answers import Answer
    from kafkalog_core.broker.requests import Body, Handler, RequestContext
    from kafkalog_core.broker.share.share_groups import ShareGroup, ShareGroups, ShareMember
    from kafkalog_core.broker.share.share_states import ShareStates

__all__ = ["ShareGroupRequests"]

_NO_ID: Final = bytes(16)
_UNKNOWN_OPERATIONS: Final = -(1 << 31)
_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8  # AclOperation: READ, DELETE, DESCRIBE
_UNKNOWN: Final = -1


class ShareGroupRequests:
    """The handlers of share groups."""

    def __init__(self, registry: GroupRegistry, groups: ShareGroups, states: ShareStates, disks: LiveDisks) -> None:
        """Take the groups, which are among those of the registry."""
        self._registry = registry
        self._groups = groups
        self._states = states
        self._disks = disks

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "ShareGroupHeartbeat": (1, self.heartbeat),
            "ShareGroupDescribe": (1, self.describe),
            "DescribeShareGroupOffsets": (1, self.describe_offsets),
            "AlterShareGroupOffsets": (0, self.alter_offsets),
            "DeleteShareGroupOffsets": (0, self.delete_offsets),
        }

    # --- members ------------------------------------------------------------------------------------------------------
    def heartbeat(self, context: RequestContext) -> Answer:
        """Answer ShareGroupHeartbeat."""
        body = context.body
        topics = body["subscribed_topic_names"]
        beat = ShareHeartbeat(
            group_id=body["group_id"],
            member_id=body["member_id"],
            epoch=body["member_epoch"],
            client_id=context.request.client_id or "",
            client_host=f"/{context.connection.peer_host}",
            rack_id=body["rack_id"],
            topics=None if topics is None else frozenset(topics),
        )
        answer = self._registry.share_heartbeat(beat)
        assignment = None if answer.assignment is None else {"topic_partitions": self._rows(answer.assignment)}
        return context.reply(
            {
                "throttle_time_ms": 0,
                "error_code": answer.code,
                "error_message": answer.message,
                "member_id": answer.member_id or None,
                "member_epoch": answer.epoch,
                "heartbeat_interval_ms": self._groups.configs.number(beat.group_id, "share.heartbeat.interval.ms"),
                "assignment": assignment,
            }
        )

    def _rows(self, places: Iterable[Place]) -> list[Body]:
        return [
            {"topic_id": self._disks.topic_id(topic) or _NO_ID, "partitions": list(numbers)}
            for topic, numbers in by_topic(places).items()
        ]

    def describe(self, context: RequestContext) -> Answer:
        """Answer ShareGroupDescribe."""
        operations = _OPERATIONS if context.body["include_authorized_operations"] else _UNKNOWN_OPERATIONS
        groups = []
        for name in context.body["group_ids"]:
            group = self._groups.group(name)
            if group is None:
                message = f"Group {name} not found."
                unknown = {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": message, "group_id": name}
                groups.append(unknown | _NOTHING)
            else:
                groups.append(self._described(group) | {"authorized_operations": operations})
        return context.reply({"throttle_time_ms": 0, "groups": groups})

    def _described(self, group: ShareGroup) -> Body:
        return {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "group_id": group.group_id,
            "group_state": group.state,
            "group_epoch": group.epoch,
            "assignment_epoch": group.target_epoch,
            "assignor_name": "simple",
            "members": [self._member(each) for each in list(group.members.values())],
        }

    def _member(self, member: ShareMember) -> Body:
        rows = zip(by_topic(member.assigned), self._rows(member.assigned), strict=True)
        return {
            "member_id": member.member_id,
            "rack_id": member.rack_id,
            "member_epoch": member.epoch,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": sorted(member.topics),
            "assignment": {"topic_partitions": [row | {"topic_name": topic} for topic, row in rows]},
        }

    # --- offsets ------------------------------------------------------------------------------------------------------
    def describe_offsets(self, context: RequestContext) -> Answer:
        """Answer DescribeShareGroupOffsets: as the share coordinator has them, and the lag."""
        groups = []
        for asked in context.body["groups"]:
            name, topics = asked["group_id"], asked["topics"]
            group = self._groups.group(name)
            if topics is None:
                known = {} if group is None else group.topics.initialized
                topics = [{"topic_name": each.name, "partitions": each.numbers} for each in known.values()]
            rows = [self._offsets_of(name, each["topic_name"], each["partitions"]) for each in topics]
            groups.append({"group_id": name, "topics": rows, "error_code": ErrorCode.NONE, "error_message": None})
        return context.reply({"throttle_time_ms": 0, "groups": groups})

    def _offsets_of(self, group: str, topic: str, numbers: Iterable[int]) -> Body:
        topic_id = self._disks.topic_id(topic)
        return {
            "topic_name": topic,
            "topic_id": topic_id or _NO_ID,
            "partitions": [self._offset_of(ShareKey(group, topic_id or _NO_ID, each), topic) for each in numbers],
        }

    def _offset_of(self, key: ShareKey, topic: str) -> Body:
        row: Body = {
            "partition_index": key.partition,
            "start_offset": _UNKNOWN,
            "leader_epoch": 0,
            "lag": _UNKNOWN,
            "error_code": ErrorCode.NONE,
            "error_message": None,
        }
        state = self._states.state(key)
        if state is None:
            return row
        row |= {"start_offset": state.start, "leader_epoch": state.leader_epoch}
        if state.start < 0 or state.complete_count < 0:
            return row
        try:
            log = self._disks.partition(topic, key.partition)
        except (KafkalogError, OSError) as error:
            return row | {"error_code": error_of(error), "error_message": str(error)}
        end = 0 if log is None else log.high_watermark
        return row | {"lag": end - state.start - state.complete_count}

    def alter_offsets(self, context: RequestContext) -> Answer:
        """Answer AlterShareGroupOffsets: of a group without members, which is made if there is none."""
        body = context.body
        group, code, message = self._registry.empty_share_group(body["group_id"], creates=True)
        if group is None:
            return context.reply(_refused(code, message))
        responses = []
        for topic in body["topics"]:
            name, numbers = topic["topic_name"], [each["partition_index"] for each in topic["partitions"]]
            known = {number for number in numbers if self._disks.has_partition(name, number)}
            offsets = {
                each["partition_index"]: each["start_offset"]
                for each in topic["partitions"]
                if each["partition_index"] in known
            }
            try:
                self._groups.set_offsets(group, name, offsets)
            except (KafkalogError, OSError) as error:
                return context.reply(_refused(error_of(error), str(error)))
            rows = [
                {"partition_index": number}
                | _outcome(ErrorCode.NONE if number in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for number in numbers
            ]
            topic_id = self._disks.topic_id(name) or _NO_ID
            responses.append({"topic_name": name, "topic_id": topic_id, "partitions": rows})
        return context.reply(_refused(ErrorCode.NONE, None) | {"responses": responses})

    def delete_offsets(self, context: RequestContext) -> Answer:
        """Answer DeleteShareGroupOffsets: of a group without members."""
        body = context.body
        group, code, message = self._registry.empty_share_group(body["group_id"], creates=False)
        if group is None:
            return context.reply(_refused(code, message))
        responses = []
        for topic in body["topics"]:
            name = topic["topic_name"]
            topic_id = self._disks.topic_id(name)
            row: Body = {"topic_name": name, "topic_id": topic_id or _NO_ID}
            if topic_id is None:
                row |= _outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif topic_id not in group.topics.initialized:
                row |= _outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
            else:
                try:
                    self._groups.delete_offsets(group, topic_id)
                    row |= _outcome(ErrorCode.NONE)
                except (KafkalogError, OSError) as error:
                    row |= _outcome(error_of(error), str(error))
            responses.append(row)
        return context.reply(_refused(ErrorCode.NONE, None) | {"responses": responses})


def _refused(code: ErrorCode, message: str | None) -> Body:
    return {"throttle_time_ms": 0, "error_code": code, "error_message": message, "responses": []}


def _outcome(code: ErrorCode, message: str | None = None) -> dict[str, Any]:
    return {"error_code": code, "error_message": message or (code.name if code else None)}


_NOTHING: Final[dict[str, object]] = {
    "group_state": "",
    "group_epoch": 0,
    "assignment_epoch": 0,
    "assignor_name": "",
    "members": [],
    "authorized_operations": _UNKNOWN_OPERATIONS,
}
