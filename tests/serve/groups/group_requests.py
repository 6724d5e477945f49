"""Requests of consumers and admin clients about one group of a live broker, without sockets."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kafkalog_core.serve.network.answers import PendingAnswer

if TYPE_CHECKING:
    from tests.support.live_state import Live

OF_T = [{"name": "t", "partitions": [{"partition_index": 0}]}]


def committed(live: Live, group: str, topic: str, *, is_stable: bool = False) -> tuple[int, int]:
    """A committed offset, and the error in its place."""
    body = {
        "group_id": group,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        "require_stable": is_stable,
    }
    partition = live.ask("OffsetFetch", 7, **body)["topics"][0]["partitions"][0]
    return partition["committed_offset"], partition["error_code"]


def commit_offset(live: Live, group: str, topic: str, offset: int, **fields: Any) -> int:
    """Commit an offset as a consumer without membership."""
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    partition |= fields.pop("partition", {})
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    answer = live.ask("OffsetCommit", 7, topics=[{"name": topic, "partitions": [partition]}], **(body | fields))
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def join(live: Live, group: str) -> str:
    """Let one consumer join, and give it its assignment."""
    subscription = struct.pack(">hi", 0, 1) + struct.pack(">h", 1) + b"t" + struct.pack(">i", -1)
    body = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription}],
    }
    first = live.ask("JoinGroup", 5, **body)
    answer = live.send("JoinGroup", 5, **(body | {"member_id": first["member_id"]}))
    assert isinstance(answer, PendingAnswer)
    live.broker.sweep()
    assert answer.take(0) is not None
    sync = {"group_id": group, "generation_id": 1, "member_id": first["member_id"], "group_instance_id": None}
    assignments = [{"member_id": first["member_id"], "assignment": b"mine"}]
    synced = live.send("SyncGroup", 3, assignments=assignments, **sync)
    assert isinstance(synced, PendingAnswer)
    assert synced.take(0) is not None
    member_id: str = first["member_id"]
    return member_id


def described_group(live: Live, group: str) -> tuple[str, list[str]]:
    """State and members of a group."""
    (found,) = live.ask("DescribeGroups", 3, groups=[group], include_authorized_operations=False)["groups"]
    return found["group_state"], [each["member_id"] for each in found["members"]]
