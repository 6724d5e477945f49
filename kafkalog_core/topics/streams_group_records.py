"""The records of streams groups (KIP-1071) in `__consumer_offsets`, read.

A member has tasks: a partition number of a subtopology. The topology of the group says which topics a subtopology
reads. (`StreamsCoordinatorRecordHelpers` and the replays of `GroupMetadataManager` of Kafka 4.3; all values have
version 0.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.structs import Struct, field
from kafkalog_core.wire.codec import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["StoredStreamsGroup", "StreamsMember", "replay_streams"]

_PREFIX: Final = "StreamsGroup"
_PARTS: Final = {
    17: "Metadata",
    19: "MemberMetadata",
    20: "TargetAssignmentMetadata",
    21: "TargetAssignmentMember",
    22: "CurrentMemberAssignment",
    23: "Topology",
}
_KEY_BYTES: Final = 2

_STABLE: Final = 1
"""The state of a member with its target tasks (`MemberState` of streams groups); in consumer groups it is 0."""
Tasks = dict[str, tuple[int, ...]]
"""Partition numbers by subtopology id."""


class StreamsMember(Struct, frozen=True, kw_only=True):
    """A member of a streams group, as its record of 19 has it."""

    client_id: str
    client_host: str
    instance_id: str | None = None
    process_id: str = ""


class StoredStreamsGroup(Struct):
    """What the records of a group say.

    Args:
        epoch: of the group.
        target_epoch: of the target assignment; -1: there is none.
        members: by id.
        targets: the active tasks that members are to have.
        active: the active tasks that members have.
        epochs: the epochs of members.
        revoking: members that are still to give up tasks, or wait for tasks of others.
        topology_epoch: of the topology; None: there is none.
        validated_epoch: of the topology whose topics were all found; -1: of none; None: unknown, as 4.1 does not store
            it.
        sources: the topics that a subtopology reads.
    """

    epoch: int = 0
    target_epoch: int = -1
    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, Tasks] = field(default_factory=dict)
    active: dict[str, Tasks] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    revoking: set[str] = field(default_factory=set)
    topology_epoch: int | None = None
    validated_epoch: int | None = None
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether there is a topology, and all of its topics were found (`StreamsGroup.maybeUpdateGroupState`)."""
        return self.topology_epoch is not None and self.validated_epoch in {None, self.topology_epoch}

    def partitions_of(self, member_id: str) -> dict[str, tuple[int, ...]]:
        """Return the partitions of source topics that the active tasks of a member read.

        A task reads the partition of its number of each source topic. A topic may have fewer partitions than the
        subtopology has tasks: then some of these do not exist.
        """
        found: dict[str, set[int]] = {}
        for subtopology, numbers in self.active.get(member_id, {}).items():
            for topic in self.sources.get(subtopology, ()):
                found.setdefault(topic, set()).update(numbers)
        return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(found.items())}


def replay_streams(groups: dict[str, StoredStreamsGroup], key: bytes, value: bytes | None) -> bool:
    """Replay a record into the groups by name; return whether it is of a streams group. Raises ProtocolError."""
    part = _PARTS.get(int.from_bytes(key[:_KEY_BYTES], "big"))
    if part is None:
        return False
    name = _PREFIX + part
    place = codec(f"{name}Key", 0).decode_whole(memoryview(key)[_KEY_BYTES:])
    fields = None
    if value is not None:
        version = int.from_bytes(value[:_KEY_BYTES], "big")
        fields = codec(f"{name}Value", version).decode_whole(memoryview(value)[_KEY_BYTES:])
    group_id = place["group_id"]
    if fields is None and (part == "Metadata" or group_id not in groups):
        groups.pop(group_id, None)
        return True
    group = groups.setdefault(group_id, StoredStreamsGroup())
    if part == "Metadata" and fields is not None:
        group.epoch = fields["epoch"]
        # 4.2 and later also store the settings of the last assignment, always.
        is_known = fields["last_assignment_configs"] is not None
        group.validated_epoch = fields["validated_topology_epoch"] if is_known else None
    elif part == "TargetAssignmentMetadata":
        group.target_epoch = -1 if fields is None else fields["assignment_epoch"]
    elif part == "Topology":
        group.topology_epoch = None if fields is None else fields["epoch"]
        group.sources = {} if fields is None else _sources(fields["subtopologies"])
    else:
        _replay_member(group, part, place["member_id"], fields)
    return True


def _replay_member(group: StoredStreamsGroup, part: str, member_id: str, fields: Mapping[str, Any] | None) -> None:
    if part == "MemberMetadata":
        group.members.pop(member_id, None)
        if fields is not None:
            group.members[member_id] = StreamsMember(
                client_id=fields["client_id"],
                client_host=fields["client_host"],
                instance_id=fields["instance_id"],
                process_id=fields["process_id"],
            )
    elif part == "TargetAssignmentMember":
        group.targets.pop(member_id, None)
        if fields is not None:
            group.targets[member_id] = _tasks(fields["active_tasks"])
    else:
        group.active.pop(member_id, None)
        group.epochs.pop(member_id, None)
        group.revoking.discard(member_id)
        if fields is not None:
            group.active[member_id] = _tasks(fields["active_tasks"])
            group.epochs[member_id] = fields["member_epoch"]
            if fields["state"] != _STABLE:
                group.revoking.add(member_id)


def _tasks(rows: Iterable[Mapping[str, Any]]) -> Tasks:
    return {each["subtopology_id"]: tuple(each["partitions"]) for each in rows}


def _sources(subtopologies: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the topics of each subtopology that its consumers read: source topics, and those of repartitions."""
    return {
        each["subtopology_id"]: (
            *each["source_topics"],
            *(topic["name"] for topic in each["repartition_source_topics"]),
        )
        for each in subtopologies
    }
