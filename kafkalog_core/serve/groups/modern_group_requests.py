"""Requests of members of consumer groups (KIP-848), and what requests of share groups (KIP-932) share with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.serve.groups.assignors import by_topic
from kafkalog_core.serve.groups.modern_groups import Heartbeat
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.serve.groups.group_registry import GroupRegistry
    from kafkalog_core.serve.groups.modern_groups import HeartbeatAnswer, ModernGroup, ModernGroups, ModernMember
    from kafkalog_core.serve.logs.partition_access import TopicIds
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["GROUP_OPERATIONS", "NO_ID", "ConsumerGroupRequests", "ModernGroupRequests"]

NO_ID: Final = bytes(16)
"""The id of a topic that there is not."""
GROUP_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8  # AclOperation: READ, DELETE, DESCRIBE
_CONSUMER_TYPE: Final = 1
_NOTHING: Final[Body] = {
    "group_state": "",
    "group_epoch": 0,
    "assignment_epoch": 0,
    "assignor_name": "",
    "members": [],
}


class ModernGroupRequests:
    """The handlers of heartbeats and descriptions."""

    def __init__(self, registry: GroupRegistry, groups: ModernGroups[Any], topics: TopicIds) -> None:
        """Take the groups of one kind, a part of the registry's groups."""
        self._registry = registry
        self._groups = groups
        self._topics = topics

    # --- heartbeats ---------------------------------------------------------------------------------------------------
    @staticmethod
    def _beat(context: RequestContext) -> Heartbeat:
        """Return what members of both kinds state."""
        body = context.body
        topics = body["subscribed_topic_names"]
        return Heartbeat(
            group_id=body["group_id"],
            member_id=body["member_id"],
            epoch=body["member_epoch"],
            client_id=context.request.client_id or "",
            client_host=f"/{context.connection.peer_host}",
            rack_id=body["rack_id"],
            topics=None if topics is None else frozenset(topics),
        )

    def _answered(self, context: RequestContext, answer: HeartbeatAnswer) -> Answer:
        assignment = None if answer.assignment is None else {"topic_partitions": self._rows(answer.assignment)}
        return context.reply(
            {
                "throttle_time_ms": 0,
                "error_code": answer.code,
                "error_message": answer.message,
                "member_id": answer.member_id or None,
                "member_epoch": answer.epoch,
                "heartbeat_interval_ms": self._groups.limits_of(context.body["group_id"]).heartbeat_ms,
                "assignment": assignment,
            }
        )

    def _rows(self, places: Iterable[TopicPartition]) -> list[Body]:
        return [
            {"topic_id": self._topics.topic_id(topic) or NO_ID, "partitions": list(numbers)}
            for topic, numbers in by_topic(places).items()
        ]

    # --- descriptions -------------------------------------------------------------------------------------------------
    def describe(self, context: RequestContext) -> Answer:
        """Answer ConsumerGroupDescribe or ShareGroupDescribe."""
        is_asked = context.body["include_authorized_operations"]
        operations = {"authorized_operations": GROUP_OPERATIONS} if is_asked else {}
        groups = []
        for name in dict.fromkeys(context.body["group_ids"]):
            group = self._groups.group(name)
            if group is None:
                message = f"Group {name} not found."
                unknown = {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": message, "group_id": name}
                groups.append(unknown | _NOTHING)
            else:
                groups.append(self._described(group) | operations)
        return context.reply({"throttle_time_ms": 0, "groups": groups})

    def _described(self, group: ModernGroup) -> Body:
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

    def _member(self, group: ModernGroup, member: ModernMember) -> Body:
        """Return a member with its target and what else members of consumer groups have: share groups leave it out."""
        subscription = member.subscription
        return {
            "member_id": member.member_id,
            "instance_id": subscription.instance_id,
            "rack_id": subscription.rack_id,
            "member_epoch": member.epoch,
            "client_id": subscription.client_id,
            "client_host": subscription.client_host,
            "subscribed_topic_names": sorted(subscription.topics),
            "subscribed_topic_regex": subscription.pattern or None,
            "assignment": self._named_rows(member.assigned),
            "target_assignment": self._named_rows(group.target.get(member.member_id, frozenset())),
            "member_type": _CONSUMER_TYPE,
        }

    def _named_rows(self, places: Iterable[TopicPartition]) -> Body:
        rows = zip(by_topic(places), self._rows(places), strict=True)
        return {"topic_partitions": [row | {"topic_name": topic} for topic, row in rows]}


class ConsumerGroupRequests(ModernGroupRequests):
    """The handlers of the new group protocol."""

    def __init__(self, groups: GroupRegistry, topics: TopicIds) -> None:
        """Take the groups."""
        super().__init__(groups, groups.consumers, topics)

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"ConsumerGroupHeartbeat": (1, self.heartbeat), "ConsumerGroupDescribe": (1, self.describe)}

    def heartbeat(self, context: RequestContext) -> Answer:
        """Answer ConsumerGroupHeartbeat."""
        body = context.body
        beat = self._beat(context)._replace(
            instance_id=body["instance_id"],
            rebalance_ms=body["rebalance_timeout_ms"],
            pattern=body.get("subscribed_topic_regex"),
            assignor=body["server_assignor"],
            owned=self._owned(body["topic_partitions"]),
            describes=context.may_use,
        )
        return self._answered(context, self._registry.heartbeat(beat))

    def _owned(self, rows: Iterable[Body] | None) -> frozenset[TopicPartition] | None:
        """Return partitions by topic name, without partitions of topics that are gone."""
        if rows is None:
            return None
        named = ((self._topics.topic_name(bytes(each["topic_id"])), each["partitions"]) for each in rows)
        return frozenset((name, number) for name, numbers in named if name is not None for number in numbers)
