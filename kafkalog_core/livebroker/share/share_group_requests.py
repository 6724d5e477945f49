"""The requests of share groups but those that read: heartbeats, descriptions, and their offsets (KIP-932).

The rules follow `GroupCoordinatorService` and `GroupMetadataManager` of Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import KafkalogError
from kafkalog_core.livebroker.groups.share_groups import ShareGroup
from kafkalog_core.serve.groups.modern_group_requests import NO_ID, ModernGroupRequests
from kafkalog_core.serve.logs.partition_access import error_of
from kafkalog_core.serve.network.repeats import distinct_groups, distinct_partitions
from kafkalog_core.topics.share_state_records import ShareKey
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.livebroker.groups.share_groups import ShareGroups
    from kafkalog_core.livebroker.share.share_states import ShareStates
    from kafkalog_core.serve.groups.group_registry import GroupRegistry
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["ShareGroupRequests"]

_UNKNOWN: Final = -1


class ShareGroupRequests(ModernGroupRequests):
    """The handlers of share groups."""

    _groups: ShareGroups

    def __init__(self, registry: GroupRegistry, groups: ShareGroups, states: ShareStates, disks: LiveDisks) -> None:
        """Take the groups, which are among those of the registry."""
        super().__init__(registry, groups, disks)
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
        return self._answered(context, self._registry.share_heartbeat(self._beat(context)))

    # --- offsets ------------------------------------------------------------------------------------------------------
    def describe_offsets(self, context: RequestContext) -> Answer:
        """Answer DescribeShareGroupOffsets: as the share coordinator has them, and the lag."""
        groups = []
        for asked in distinct_groups(context.body["groups"]):
            name, topics = asked["group_id"], asked["topics"]
            group = self._groups.group(name)
            if topics is None:
                known = {} if group is None else group.topics.initialized
                topics = [{"topic_name": each.name, "partitions": each.numbers} for each in known.values()]
            topics = distinct_partitions(topics, "topic_name", "partitions")
            rows = [self._offsets_of(name, each["topic_name"], each["partitions"]) for each in topics]
            groups.append({"group_id": name, "topics": rows, "error_code": ErrorCode.NONE, "error_message": None})
        return context.reply({"throttle_time_ms": 0, "groups": groups})

    def _offsets_of(self, group: str, topic: str, numbers: Iterable[int]) -> Body:
        topic_id = self._disks.topic_id(topic)
        return {
            "topic_name": topic,
            "topic_id": topic_id or NO_ID,
            "partitions": [self._offset_of(ShareKey(group, topic_id or NO_ID, each), topic) for each in numbers],
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
        if state.lag(0) is None:
            return row
        try:
            log = self._disks.partition(topic, key.partition)
        except (KafkalogError, OSError) as error:
            return row | {"error_code": error_of(error), "error_message": str(error)}
        end = 0 if log is None else log.high_watermark
        return row | {"lag": state.lag(end)}

    def _empty_group(self, name: str, *, creates: bool) -> tuple[ShareGroup | None, ErrorCode, str | None]:
        """Return a group without members, else why there is none.

        creates: whether it is made if there is no group (`getOrMaybeCreateShareGroup`).
        """
        if not name:
            return None, ErrorCode.INVALID_GROUP_ID, None
        if self._registry.is_other(name):
            return None, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} is not a share group."
        group = self._groups.group(name) or (ShareGroup(name) if creates else None)
        if group is None:
            return None, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found."
        if group.members:
            return None, ErrorCode.NON_EMPTY_GROUP, f"The group {name} is not empty."
        return group, ErrorCode.NONE, None

    def alter_offsets(self, context: RequestContext) -> Answer:
        """Answer AlterShareGroupOffsets: of a group without members, which is made if there is none."""
        body = context.body
        group, code, message = self._empty_group(body["group_id"], creates=True)
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
            topic_id = self._disks.topic_id(name) or NO_ID
            responses.append({"topic_name": name, "topic_id": topic_id, "partitions": rows})
        return context.reply(_refused(ErrorCode.NONE, None) | {"responses": responses})

    def delete_offsets(self, context: RequestContext) -> Answer:
        """Answer DeleteShareGroupOffsets: of a group without members."""
        body = context.body
        group, code, message = self._empty_group(body["group_id"], creates=False)
        if group is None:
            return context.reply(_refused(code, message))
        responses = []
        for topic in body["topics"]:
            name = topic["topic_name"]
            topic_id = self._disks.topic_id(name)
            row: Body = {"topic_name": name, "topic_id": topic_id or NO_ID}
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
