"""The records of `__share_group_state`: how far a share group is in a partition (KIP-932).

A snapshot holds the whole state of a partition, an update what has changed since. (`ShareCoordinatorRecordHelpers`,
`ShareCoordinatorShard.replay` and `PersisterStateBatchCombiner` of Kafka 4.3; all values have version 0.)
"""

from __future__ import annotations

from bisect import bisect_right
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.structs import Struct, replace
from kafkalog_core.topics.group_records import Record, encoded
from kafkalog_core.wire.codec import VERSION_BYTES, codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "SHARE_STATE_TOPIC",
    "DeliveryState",
    "ShareKey",
    "ShareState",
    "StateBatch",
    "combined",
    "encode_snapshot",
    "encode_state_tombstone",
    "encode_update",
    "replay_share_state",
    "updated",
]

SHARE_STATE_TOPIC: Final = "__share_group_state"

_SNAPSHOT, _UPDATE = 0, 1
_SAME: Final = -1


class DeliveryState(IntEnum):
    """The state of a record (`RecordState`)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is never delivered again."""
        return self in {DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED}


class ShareKey(NamedTuple):
    """A partition of a share group; the topic by its id, 16 bytes."""

    group: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """Offsets from `first` to `last`, both included: their state (`RecordState`), and how often they were delivered."""

    first: int
    last: int
    state: int
    deliveries: int


class ShareState(Struct, frozen=True, kw_only=True):
    """The state of a partition.

    Args:
        snapshot_epoch: counts snapshots.
        state_epoch: of the group when its offsets were last set.
        leader_epoch: of the partition's leader when it last read the state.
        start: the share-partition start offset; -1: the group has not read the partition yet.
        complete_count: offsets from `start` on that are done with; -1: unknown.
        batches: in order, none below `start`.
        created_ms: time of the last snapshot.
        updates: records since the last snapshot.
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = -1
    start: int = -1
    complete_count: int = -1
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    updates: int = 0

    def lag(self, end_offset: int) -> int | None:
        """Return how many records are not done with (`SharePartitionOffsetInfo.lag`); None: unknown.

        end_offset: the end of what consumers get.
        """
        return None if self.start < 0 or self.complete_count < 0 else end_offset - self.start - self.complete_count


# --- writing ----------------------------------------------------------------------------------------------------------
def encode_snapshot(key: ShareKey, state: ShareState) -> Record:
    """Return the record of a whole state."""
    fields = _common(state) | {
        "state_epoch": state.state_epoch,
        "create_timestamp": state.created_ms,
        "write_timestamp": state.created_ms,
    }
    return _key(_SNAPSHOT, key), encoded("ShareSnapshotValue", 0, 0, fields)


def encode_update(key: ShareKey, state: ShareState) -> Record:
    """Return the record of a change: `batches` are those that have changed."""
    return _key(_UPDATE, key), encoded("ShareUpdateValue", 0, 0, _common(state))


def encode_state_tombstone(key: ShareKey) -> Record:
    """Return the tombstone of a state."""
    return _key(_SNAPSHOT, key), None


def _key(kind: int, key: ShareKey) -> bytes:
    fields = {"group_id": key.group, "topic_id": key.topic_id, "partition": key.partition}
    return encoded(f"{_NAMES[kind]}Key", 0, kind, fields)


def _common(state: ShareState) -> dict[str, Any]:
    return {
        "snapshot_epoch": state.snapshot_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start,
        "delivery_complete_count": state.complete_count,
        "state_batches": [
            {
                "first_offset": each.first,
                "last_offset": each.last,
                "delivery_state": int(each.state),
                "delivery_count": each.deliveries,
            }
            for each in state.batches
        ],
    }


_NAMES: Final = {_SNAPSHOT: "ShareSnapshot", _UPDATE: "ShareUpdate"}


# --- reading ----------------------------------------------------------------------------------------------------------
def replay_share_state(states: dict[ShareKey, ShareState], key: bytes, value: bytes | None) -> tuple[ShareKey, bool]:
    """Replay a record; return its key, and whether it replaces what came before it. Raises ProtocolError."""
    kind = int.from_bytes(key[:VERSION_BYTES], "big")
    name = _NAMES.get(kind, "")
    place = codec(f"{name}Key", 0).decode_whole(memoryview(key)[VERSION_BYTES:])
    share_key = ShareKey(place["group_id"], bytes(place["topic_id"]), place["partition"])
    if value is None:
        states.pop(share_key, None)
        return share_key, True
    version = int.from_bytes(value[:VERSION_BYTES], "big")
    fields = codec(f"{name}Value", version).decode_whole(memoryview(value)[VERSION_BYTES:])
    batches = tuple(
        StateBatch(each["first_offset"], each["last_offset"], each["delivery_state"], each["delivery_count"])
        for each in fields["state_batches"]
    )
    found = ShareState(
        snapshot_epoch=fields["snapshot_epoch"],
        leader_epoch=fields["leader_epoch"],
        start=fields["start_offset"],
        complete_count=fields["delivery_complete_count"],
        batches=batches,
    )
    if kind == _SNAPSHOT:
        states[share_key] = replace(found, state_epoch=fields["state_epoch"], created_ms=fields["create_timestamp"])
    else:
        states[share_key] = updated(states.get(share_key, ShareState()), found)
    return share_key, kind == _SNAPSHOT


def updated(before: ShareState, update: ShareState) -> ShareState:
    """Return a state after an update (`ShareCoordinatorShard.merge`)."""
    start = before.start if update.start == _SAME else update.start
    return replace(
        before,
        leader_epoch=before.leader_epoch if update.leader_epoch == _SAME else update.leader_epoch,
        start=start,
        complete_count=update.complete_count,
        batches=combined(before.batches, update.batches, start),
        updates=before.updates + 1,
    )


def combined(before: Sequence[StateBatch], after: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return batches of both, from an offset on; neighbours of one state are one batch.

    Where several hold an offset, the one counts that was delivered most often, then the one with the larger state:
    deliveries and states only grow (`PersisterStateBatchCombiner`).
    """
    new = sorted(after)
    kept = before[bisect_right(before, start, key=lambda each: each.last + 1) :] if before else ()
    if not new:
        return _joined((), tuple(kept), start)
    # only what the new batches touch is gone through: there may be thousands of others
    low = bisect_right(kept, new[0].first, key=lambda each: each.last + 1)
    high = bisect_right(kept, max(each.last for each in new), key=lambda each: each.first)
    middle = tuple(_swept([*kept[low:high], *new], start))
    return _joined(_joined(tuple(kept[:low]), middle, start), tuple(kept[high:]), start)


def _joined(first: tuple[StateBatch, ...], second: tuple[StateBatch, ...], start: int) -> tuple[StateBatch, ...]:
    """Return batches that follow each other, from an offset on; the two where they meet may become one."""
    if first and first[0].first < start:
        first = (first[0]._replace(first=start), *first[1:])
    if not first and second and second[0].first < start:
        second = (second[0]._replace(first=start), *second[1:])
    if first and second and first[-1].last + 1 == second[0].first and first[-1][2:] == second[0][2:]:
        return (*first[:-1], first[-1]._replace(last=second[0].last), *second[1:])
    return first + second


def _swept(given: list[StateBatch], start: int) -> Iterator[StateBatch]:
    """Yield the batch that counts for each offset, from an offset on."""
    edges = sorted({each.first for each in given} | {each.last + 1 for each in given} | {start})
    opened, open_now = sorted(given, reverse=True), list[StateBatch]()
    pending: StateBatch | None = None
    for at, end in pairwise(edges):
        while opened and opened[-1].first <= at:
            open_now.append(opened.pop())
        open_now = [each for each in open_now if each.last >= at]
        if at < start or not open_now:
            continue
        best = max(open_now, key=lambda each: (each.deliveries, each.state))
        if pending is not None and pending.last + 1 == at and pending[2:] == best[2:]:
            pending = pending._replace(last=end - 1)
            continue
        if pending is not None:
            yield pending
        pending = StateBatch(at, end - 1, best.state, best.deliveries)
    if pending is not None:
        yield pending
