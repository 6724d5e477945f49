"""The records that a group coordinator writes to `__consumer_offsets`: committed offsets, classic groups, tombstones.

`GroupCoordinatorRecordHelpers` of Kafka 4.3. Values have the newest version that every release since 2.1 reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.structs import Struct
from kafkalog_core.wire.codec import VERSION_BYTES, codec

if TYPE_CHECKING:
    from kafkalog_core.topics.group_offsets import CommittedOffset

__all__ = ["GroupMember", "GroupValue", "Record", "decode_group", "encode_group", "encode_offset", "encoded"]

_OFFSET_KEY: Final = 1
_GROUP_KEY: Final = 2
_VALUE_VERSION: Final = 3
_EXPIRING_VERSION: Final = 1
"""The only version with a time after which an offset expires, as OffsetCommit 2 to 4 may state one."""

Record = tuple[bytes, bytes | None]
"""Key and value; None: a tombstone."""


class GroupMember(Struct, frozen=True, kw_only=True):
    """A member of a classic group, as the log has it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_ms: int
    session_ms: int
    subscription: bytes
    assignment: bytes


class GroupValue(Struct, frozen=True, kw_only=True):
    """The record of a classic group, with its members; `state_ms`: when it came into its state, -1: unknown.

    Groups of KIP-848 and share groups have several records instead: `modern_group_records.StoredModernGroup`.
    """

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    members: tuple[GroupMember, ...]


def encode_offset(group: str, topic: str, partition: int, offset: CommittedOffset | None) -> Record:
    """Return the record of a committed offset; None: a tombstone."""
    key = encoded("OffsetCommitKey", 0, _OFFSET_KEY, {"group": group, "topic": topic, "partition": partition})
    if offset is None:
        return key, None
    version = _EXPIRING_VERSION if offset.expires_ms >= 0 else _VALUE_VERSION
    fields = {
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commit_timestamp": offset.commit_timestamp_ms,
    }
    if offset.expires_ms >= 0:
        fields["expire_timestamp"] = offset.expires_ms
    return key, encoded("OffsetCommitValue", version, version, fields)


def encode_group(group: str, value: GroupValue | None) -> Record:
    """Return the record of a classic group; None: a tombstone."""
    key = encoded("GroupMetadataKey", 0, _GROUP_KEY, {"group": group})
    if value is None:
        return key, None
    fields = {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "current_state_timestamp": value.state_ms,
        "members": [
            {
                "member_id": each.member_id,
                "group_instance_id": each.instance_id,
                "client_id": each.client_id,
                "client_host": each.client_host,
                "rebalance_timeout": each.rebalance_ms,
                "session_timeout": each.session_ms,
                "subscription": each.subscription,
                "assignment": each.assignment,
            }
            for each in value.members
        ],
    }
    return key, encoded("GroupMetadataValue", _VALUE_VERSION, _VALUE_VERSION, fields)


def decode_group(key: bytes, value: bytes | None) -> tuple[str, GroupValue | None] | None:
    """Return name and value of a classic group's record; None: it is another record. Raises ProtocolError."""
    if int.from_bytes(key[:VERSION_BYTES], "big") != _GROUP_KEY:
        return None
    name: str = codec("GroupMetadataKey", 0).decode_whole(memoryview(key)[VERSION_BYTES:])["group"]
    if value is None:
        return name, None
    version = int.from_bytes(value[:VERSION_BYTES], "big")
    found = codec("GroupMetadataValue", version).decode_whole(memoryview(value)[VERSION_BYTES:])
    members = tuple(
        GroupMember(
            member_id=each["member_id"],
            instance_id=each.get("group_instance_id"),
            client_id=each["client_id"],
            client_host=each["client_host"],
            rebalance_ms=each.get("rebalance_timeout", -1),
            session_ms=each["session_timeout"],
            subscription=bytes(each["subscription"]),
            assignment=bytes(each["assignment"]),
        )
        for each in found["members"]
    )
    return name, GroupValue(
        protocol_type=found["protocol_type"],
        generation=found["generation"],
        protocol=found["protocol"],
        leader=found["leader"],
        state_ms=found.get("current_state_timestamp", -1),
        members=members,
    )


def encoded(name: str, version: int, prefix: int, fields: dict[str, Any]) -> bytes:
    """Return a key or a value with `prefix`, its type or version, in front."""
    pieces = codec(name, version).encode(fields)
    return prefix.to_bytes(VERSION_BYTES, "big") + b"".join(bytes(memoryview(piece)) for piece in pieces)  # type: ignore[arg-type]
