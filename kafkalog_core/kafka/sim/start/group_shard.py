"""Which record of `__consumer_offsets` the group coordinator of 4.0 and later cannot replay (`GroupMetadataManager`).

The coordinator replays every record in the order of the log, and refuses some that contradict what it has replayed
before. Compaction removes records, so that what was right when it was written may be refused later.

- A record of a consumer, share or streams group, while the group is a classic one
  (`getOrMaybeCreatePersistedConsumerGroup` and its siblings). A classic group that only commits have made, or one
  without members and protocol type, is replaced by a consumer group, and by a streams group since KAFKA-20254. So a
  downgrade to a classic group fails after some compactions, also in 4.4 (KAFKA-21117).
- The tombstone of a member that still has an assignment, and that of a group that still has members.
- A partition that two members have at once (`ConsumerGroup.addPartitionEpochs`, `StreamsGroup.addTaskProcessId`):
  before KAFKA-19862 always, since then if the second one has it at an epoch that is not later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.kafka.rules.coordinator_rules import CoordinatorRules

__all__ = ["GroupShard", "ReplayError"]

_OFFSETS: Final = frozenset({0, 1})
_CLASSIC: Final = 2
_LEFT: Final = -1
"""The epoch of a member that has left (`ConsumerGroupHeartbeatRequest.LEAVE_GROUP_MEMBER_EPOCH`)."""

_Kind = Literal["classic", "consumer", "share", "streams"]
_Part = Literal["group", "member", "target epoch", "target", "current", "other"]
_PARTS: Final[Mapping[int, tuple[_Kind, _Part]]] = {
    3: ("consumer", "group"),
    4: ("consumer", "other"),
    5: ("consumer", "member"),
    6: ("consumer", "target epoch"),
    7: ("consumer", "target"),
    8: ("consumer", "current"),
    10: ("share", "member"),
    11: ("share", "group"),
    12: ("share", "target epoch"),
    13: ("share", "target"),
    14: ("share", "current"),
    15: ("share", "other"),
    16: ("consumer", "other"),
    17: ("streams", "group"),
    19: ("streams", "member"),
    20: ("streams", "target epoch"),
    21: ("streams", "target"),
    22: ("streams", "current"),
    23: ("streams", "other"),
}
_Place = tuple[str, int]
"""A partition: the id of its topic and its number. A task: its kind and subtopology, and its number."""


class ReplayError(Exception):
    """Why a record cannot be replayed."""


class _Member(Struct):
    """A member: its epoch, the process of a streams client, and what it has or is still to give up."""

    epoch: int = 0
    process: str | None = None
    places: tuple[_Place, ...] = ()


class _Group(Struct):
    """A group that is not classic, or a classic one: `is_simple` as `ClassicGroup.isSimpleGroup`."""

    kind: _Kind
    is_simple: bool = False
    members: dict[str, _Member] = field(default_factory=dict)
    targets: set[str] = field(default_factory=set)
    target_epoch: int = -1
    owners: dict[_Place, Any] = field(default_factory=dict)


class GroupShard:
    """The groups of one partition, as far as they decide which record is refused."""

    def __init__(self, rules: CoordinatorRules) -> None:
        self._rules = rules
        self._groups: dict[str, _Group] = {}

    def replay(self, record_type: int, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        """Replay a record by the fields of its key and its value. Raises ReplayError.

        value: None: a tombstone.
        """
        if record_type in _OFFSETS:
            if value is not None:  # OffsetMetadataManager.replay
                self._groups.setdefault(key["group"], _Group(kind="classic", is_simple=True))
        elif record_type == _CLASSIC:
            self._groups.pop(key["group"], None)
            if value is not None:
                is_simple = not value["protocol_type"] and not value["members"]
                self._groups[key["group"]] = _Group(kind="classic", is_simple=is_simple)
        else:
            kind, part = _PARTS[record_type]
            name = key["group_id"]
            group = self._group(name, kind, is_tombstone=value is None)
            if group is not None:
                self._replay(group, part, key, value)
            if part == "group" and value is None:
                self._groups.pop(name, None)

    def _group(self, name: str, kind: _Kind, *, is_tombstone: bool) -> _Group | None:
        """Return the group of a record; None: a tombstone of a group that does not exist, which is ignored."""
        group = self._groups.get(name)
        if group is None and is_tombstone:
            return None
        is_replaced = group is not None and group.is_simple and self._replaces_simple(kind)
        if group is None or is_replaced:
            group = self._groups[name] = _Group(kind=kind)
        if group.kind != kind:
            raise ReplayError(f"Group {name} is not a {kind} group: here it is a {group.kind} group")
        return group

    def _replaces_simple(self, kind: _Kind) -> bool:
        return kind == "consumer" or (kind == "streams" and self._rules.takes_commits_before_streams)

    def _replay(self, group: _Group, part: _Part, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if part == "group" and value is None:
            _refuse_group_with_parts(group)
        elif part == "target epoch":
            if value is None and group.targets:
                raise ReplayError(f"the target assignment is deleted, but still has {len(group.targets)} members")
            group.target_epoch = -1 if value is None else value["assignment_epoch"]
        elif part == "target":
            (group.targets.discard if value is None else group.targets.add)(key["member_id"])
        elif part == "member":
            self._replay_member(group, key["member_id"], value)
        elif part == "current":
            self._replay_current(group, key["member_id"], value)

    def _replay_member(self, group: _Group, name: str, value: Mapping[str, Any] | None) -> None:
        member = group.members.get(name)
        if value is not None:
            old = member or _Member()
            self._update(group, name, _Member(old.epoch, value.get("process_id"), old.places))
        elif member is not None:
            if member.epoch != _LEFT:
                raise ReplayError(f"member {name} is deleted, but its current assignment was not deleted before")
            if name in group.targets:
                raise ReplayError(f"member {name} is deleted, but is still in the target assignment")
            del group.members[name]

    def _replay_current(self, group: _Group, name: str, value: Mapping[str, Any] | None) -> None:
        member = group.members.get(name)
        if value is not None:
            process = None if member is None else member.process
            self._update(group, name, _Member(value["member_epoch"], process, _places(group.kind, value)))
        elif member is not None:
            self._update(group, name, _Member(_LEFT, member.process))

    def _update(self, group: _Group, name: str, new: _Member) -> None:
        """Replace a member, and change the owners of what it had and has (`updateMember`)."""
        old = group.members.get(name)
        group.members[name] = new
        if group.kind == "consumer":
            self._change_owners(group, old, new)
        elif group.kind == "streams" and not self._rules.replaces_owners:
            _change_processes(group, old, new)

    def _change_owners(self, group: _Group, old: _Member | None, new: _Member) -> None:
        owners = group.owners
        for place in () if old is None else old.places:
            epoch = owners.get(place)
            if old is not None and epoch == old.epoch:
                del owners[place]
            elif not self._rules.replaces_owners:
                raise ReplayError(f"{_text(place)} is given up, but is owned at {_epoch(epoch)}")
        for place in new.places:
            epoch = owners.get(place)
            if epoch is not None and not (self._rules.replaces_owners and epoch < new.epoch):
                raise ReplayError(
                    f"{_text(place)} is assigned at epoch {new.epoch}, but is still owned at {_epoch(epoch)}"
                )
            owners[place] = new.epoch


def _refuse_group_with_parts(group: _Group) -> None:
    """Raise ReplayError for the tombstone of a group that still has members or a target assignment."""
    if group.members:
        raise ReplayError(f"the group is deleted, but still has {len(group.members)} members")
    if group.targets and group.kind != "streams":
        raise ReplayError(f"the group is deleted, but its target assignment still has {len(group.targets)} members")
    if group.target_epoch != -1:
        raise ReplayError("the group is deleted, but the epoch of its target assignment was not deleted before")


def _change_processes(group: _Group, old: _Member | None, new: _Member) -> None:
    """Change the processes of tasks, as 4.1.0 and 4.1.1 do: an active task has one, others have any number."""
    owners = group.owners
    for place in () if old is None else old.places:
        processes = owners.setdefault(place, set())
        if old is None or old.process not in processes:
            raise ReplayError(f"{_text(place)} is given up, but its process does not have it")
        processes.discard(old.process)
    for place in new.places:
        if new.process is None:
            continue
        processes = owners.setdefault(place, set())
        if processes and place[0].startswith(_ACTIVE):
            raise ReplayError(f"{_text(place)} is assigned, but is still owned by process {min(processes)}")
        processes.add(new.process)


_ACTIVE: Final = "active task"
_TASKS: Final = (("active", _ACTIVE), ("standby", "standby task"), ("warmup", "warmup task"))


def _places(kind: _Kind, value: Mapping[str, Any]) -> tuple[_Place, ...]:
    """Return what the value of a current assignment has."""
    if kind == "streams":
        return tuple(
            (f"{text} of subtopology {row['subtopology_id']}", number)
            for suffix in ("tasks", "tasks_pending_revocation")
            for name, text in _TASKS
            for row in value[f"{name}_{suffix}"]
            for number in row["partitions"]
        )
    if kind == "share":
        return ()
    return (*_partitions(value["assigned_partitions"]), *_partitions(value["partitions_pending_revocation"]))


def _partitions(rows: Iterable[Mapping[str, Any]]) -> list[_Place]:
    return [(uuid_text(bytes(row["topic_id"])), number) for row in rows for number in row["partitions"]]


def _text(place: _Place) -> str:
    name, number = place
    return (
        f"{name}, partition {number}," if "subtopology" in name else f"partition {number} of the topic with id {name}"
    )


def _epoch(epoch: int | None) -> str:
    return "no epoch" if epoch is None else f"epoch {epoch}"
