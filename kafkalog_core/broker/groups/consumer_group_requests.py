"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the requests of the members of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.broker.groups.assignors import by_topic
from kafkalog_core.broker.groups.consumer_groups import Heartbeat
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.broker.groups.assignors import Place
    from kafkalog_core.broker.groups.consumer_groups import ConsumerGroup, ConsumerMember
    from kafkalog_core.broker.groups.group_registry import GroupRegistry
    from kafkalog_core.broker.logs.partition_access import TopicIds
    from kafkalog_core.broker.network.answers import Answer
    from kafkalog_core.broker.requests import Body, Handler, RequestContext

__all__ = ["ConsumerGroupRequests"]

_NO_ID: Final = bytes(16)
_UNKNOWN_OPERATIONS: Final = -(1 << 31)
_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8  # AclOperation: READ, DELETE, DESCRIBE
_CONSUMER_TYPE: Final = 1


class ConsumerGroupRequests:
    """The handlers of the new group protocol."""

    def __init__(self, groups: GroupRegistry, topics: TopicIds) -> None:
        """Take the groups."""
        self._registry = groups
        self._groups = groups.consumers
        self._topics = topics

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"ConsumerGroupHeartbeat": (1, self.heartbeat), "ConsumerGroupDescribe": (1, self.describe)}

    def heartbeat(self, context: RequestContext) -> Answer:
        """Answer ConsumerGroupHeartbeat."""
        body = context.body
        topics = body["subscribed_topic_names"]
        beat = Heartbeat(
            group_id=body["group_id"],
            member_id=body["member_id"],
            epoch=body["member_epoch"],
            client_id=context.request.client_id or "",
            client_host=f"/{context.connection.peer_host}",
            instance_id=body["instance_id"],
            rack_id=body["rack_id"],
            rebalance_ms=body["rebalance_timeout_ms"],
            topics=None if topics is None else frozenset(topics),
            pattern=body.get("subscribed_topic_regex"),
            assignor=body["server_assignor"],
            owned=self._owned(body["topic_partitions"]),
            describes=context.may_use,
        )
        answer = self._registry.heartbeat(beat)
        assignment = None if answer.assignment is None else {"topic_partitions": self._rows(answer.assignment)}
        return context.reply(
            {
                "throttle_time_ms": 0,
                "error_code": answer.code,
                "error_message": answer.message,
                "member_id": answer.member_id or None,
                "member_epoch": answer.epoch,
                "heartbeat_interval_ms": self._groups.limits_of(beat.group_id).heartbeat_ms,
                "assignment": assignment,
            }
        )

    def _owned(self, rows: Iterable[Body] | None) -> frozenset[Place] | None:
        """Return partitions by the names of their topics; those of topics that are gone are left out."""
        if rows is None:
            return None
        named = ((self._topics.topic_name(bytes(each["topic_id"])), each["partitions"]) for each in rows)
        return frozenset((name, number) for name, numbers in named if name is not None for number in numbers)

    def _rows(self, places: Iterable[Place]) -> list[Body]:
        return [
            {"topic_id": self._topics.topic_id(topic) or _NO_ID, "partitions": list(numbers)}
            for topic, numbers in by_topic(places).items()
        ]

    def describe(self, context: RequestContext) -> Answer:
        """Answer ConsumerGroupDescribe."""
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

    def _described(self, group: ConsumerGroup) -> Body:
        return {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "group_id": group.group_id,
            "group_state": group.state,
            "group_epoch": group.epoch,
            "assignment_epoch": group.target_epoch,
            "assignor_name": group.assignor,
            "members": [self._member(group, each) for each in list(group.members.values())],
        }

    def _member(self, group: ConsumerGroup, member: ConsumerMember) -> Body:
        return {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "member_epoch": member.epoch,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": sorted(member.topics),
            "subscribed_topic_regex": member.pattern or None,
            "assignment": self._named_rows(member.assigned),
            "target_assignment": self._named_rows(group.target.get(member.member_id, frozenset())),
            "member_type": _CONSUMER_TYPE,
        }

    def _named_rows(self, places: Iterable[Place]) -> Body:
        rows = zip(by_topic(places), self._rows(places), strict=True)
        return {"topic_partitions": [row | {"topic_name": topic} for topic, row in rows]}


_NOTHING: Final[dict[str, object]] = {
    "group_state": "",
    "group_epoch": 0,
    "assignment_epoch": 0,
    "assignor_name": "",
    "members": [],
    "authorized_operations": _UNKNOWN_OPERATIONS,
}
