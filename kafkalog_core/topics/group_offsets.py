"""The offsets that groups committed, by the records of `__consumer_offsets` in the order of the log.

The last record of a key counts, and one without a value deletes. An offset that was committed in a transaction counts
once the producer's COMMIT marker follows, unless a later record has been committed by then, and never after an ABORT
marker. The offsets of a group have tombstones of their own, so they are kept when the group is deleted.
(`GroupMetadataManager.doLoadGroupsAndOffsets`, and since 4.0 `OffsetMetadataManager.replay`.)
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import ProtocolError
from kafkalog_core.structs import Struct, field
from kafkalog_core.wire.codec import VERSION_BYTES, codec

if TYPE_CHECKING:
    from kafkalog_core.format.names import TopicPartition

__all__ = [
    "OFFSETS_TOPIC",
    "OFFSET_KEYS",
    "CommittedOffset",
    "GroupOffsets",
    "expires_at_ms",
    "has_expired",
    "offset_of_value",
    "place_of_key",
]

OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSET_KEYS: Final = frozenset({0, 1})
"""The types of the keys of committed offsets, in their first two bytes."""
_OFFSET_END: Final = VERSION_BYTES + 8
_NO_ID: Final = bytes(16)


class CommittedOffset(Struct, frozen=True):
    """A committed offset.

    Args:
        offset: the next one to read.
        leader_epoch: of the record before it; -1: unknown (before KIP-320).
        metadata: text that the consumer added.
        commit_timestamp_ms: when it was committed.
        topic_id: of the topic, 16 bytes; None: unknown (before 4.1).
        expires_ms: when it expires, whatever the group does; -1: by offsets.retention.minutes.
        record_offset: where its record is in the log; -1: it is in none.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    topic_id: bytes | None = None
    expires_ms: int = -1
    record_offset: int = -1


class GroupOffsets(Struct):
    """What the replayed records say.

    Attributes:
        offsets: committed offsets by group, topic and partition.
        pending: offsets of transactions that have no marker yet, by producer id.
        skipped: how many records cannot be decoded, by what is wrong with them.
    """

    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    pending: dict[int, dict[tuple[str, TopicPartition], CommittedOffset]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    _keys: dict[bytes, tuple[str, TopicPartition]] = field(default_factory=dict)

    def replay(self, key: bytes, value: bytes | None, record_offset: int, transaction: int | None = None) -> str | None:
        """Replay the record of an offset. Return its group; None: the key cannot be decoded.

        Args:
            key: of one of the types OFFSET_KEYS.
            value: None: a tombstone.
            record_offset: of the record, in the log.
            transaction: the producer id of a transactional batch; None: it is of none.
        """
        known = self._keys.get(key)
        if known is None:
            decoded = self._decoded("OffsetCommitKey", 0, key)
            if decoded is None:
                return None
            known = self._keys[key] = decoded["group"], (decoded["topic"], decoded["partition"])
        group, place = known
        if value is None:
            self._delete(group, place)
            return group
        offset = self._offset(value, record_offset)
        if offset is not None and transaction is None:
            self._set(group, place, offset)
        elif offset is not None and transaction is not None:
            self.pending.setdefault(transaction, {})[known] = offset
        return group

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Replay a marker of a producer: what a later record has committed in the meantime is kept."""
        for (group, place), offset in self.pending.pop(producer_id, {}).items():
            known = self.offsets.get(group, {}).get(place)
            if is_commit and (known is None or offset.record_offset > known.record_offset):
                self._set(group, place, offset)

    def absorb(self, other: GroupOffsets) -> None:
        """Add what another partition of the topic holds: it has other groups, and markers of its own."""
        self.offsets |= other.offsets
        for producer_id, offsets in other.pending.items():
            self.pending.setdefault(producer_id, {}).update(offsets)
        self.skipped += other.skipped

    def pending_of(self, group: str) -> set[TopicPartition]:
        """Return the partitions of a group with offsets in a transaction that is open."""
        return {place for offsets in self.pending.values() for of_group, place in offsets if of_group == group}

    def _set(self, group: str, place: TopicPartition, offset: CommittedOffset) -> None:
        self.offsets.setdefault(group, {})[place] = offset

    def _delete(self, group: str, place: TopicPartition) -> None:
        """Delete an offset, and what open transactions were to make of it."""
        for offsets in self.pending.values():
            offsets.pop((group, place), None)
        of_group = self.offsets.get(group, {})
        of_group.pop(place, None)
        if not of_group:
            self.offsets.pop(group, None)

    def _offset(self, value: bytes, record_offset: int) -> CommittedOffset | None:
        # The version of a value is in its first two bytes.
        found = self._decoded("OffsetCommitValue", int.from_bytes(value[:VERSION_BYTES], "big"), value)
        if found is None:
            return None
        topic_id = found.get("topic_id", _NO_ID)
        return CommittedOffset(
            found["offset"],
            found.get("leader_epoch", -1),
            found["metadata"],
            found["commit_timestamp"],
            None if topic_id == _NO_ID else topic_id,
            found.get("expire_timestamp", -1),
            record_offset,
        )

    def _decoded(self, name: str, version: int, data: bytes) -> dict[str, Any] | None:
        try:
            return codec(name, version).decode_whole(data, VERSION_BYTES)
        except ProtocolError as error:
            self.skipped[str(error)] += 1
            return None


def place_of_key(key: bytes | None) -> TopicPartition | None:
    """Return the topic and partition of the key of a committed offset; None: it is another key, or damaged."""
    if key is None or int.from_bytes(key[:VERSION_BYTES], "big") not in OFFSET_KEYS:
        return None
    try:
        decoded = codec("OffsetCommitKey", 0).decode_whole(key, VERSION_BYTES)
    except ProtocolError:
        return None
    return decoded["topic"], decoded["partition"]


def offset_of_value(value: bytes) -> int:
    """Return the offset in the value of a committed offset: the first field of each version of OffsetCommitValue."""
    return int.from_bytes(value[VERSION_BYTES:_OFFSET_END], "big", signed=True)


def expires_at_ms(offset: CommittedOffset, *, empty_since_ms: int, retention_ms: int) -> int:
    """Return when an offset of a group that nothing keeps expires (`OffsetExpirationConditionImpl`).

    empty_since_ms: when the group lost its last member; -1: unknown, or it never had one, so the commit's time counts.
    """
    if offset.expires_ms >= 0:
        return offset.expires_ms
    return (empty_since_ms if empty_since_ms >= 0 else offset.commit_timestamp_ms) + retention_ms


def has_expired(offset: CommittedOffset, *, empty_since_ms: int, now_ms: int, retention_ms: int) -> bool:
    """Return whether a broker deletes such an offset at a time; empty_since_ms: as in `expires_at_ms`."""
    return now_ms >= expires_at_ms(offset, empty_since_ms=empty_since_ms, retention_ms=retention_ms)
