"""The files of a partition as a new cluster needs them: leader epochs, committed offsets, producer states.

The controller of a new cluster begins at leader epoch 0, but the batches and the leader-epoch-checkpoint have those of
the old cluster. A leader that begins a lower epoch removes every entry from it on (`LeaderEpochFileCache.assign`). It
then knows no end offset of the epoch that a follower fetched last, or that a consumer committed: the follower gets
OFFSET_OUT_OF_RANGE at each fetch (`Partition.readRecords`), and the consumer takes its position for truncated and
resets it (`SubscriptionState.maybeCompleteValidation`). So every epoch becomes 0. In a batch of magic 2 the partition
leader epoch is before the checksum, which therefore does not change.

A committed offset has the leader epoch and, from 4.1 on, the topic id in the value of its record, which the checksum of
the batch covers: both change in place, and the checksum is computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError
from kafkalog_core.format.checkpoint import CheckpointMend, parse_epoch_entry
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.control import FlexibleReader
from kafkalog_core.format.decode import PayloadDamage, decode_batch
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, V2_CRC, V2_LEADER_EPOCH
from kafkalog_core.format.snapshot import decode_snapshot, encode_snapshot
from kafkalog_core.format.textfile import parse_uuid
from kafkalog_core.storage.changing.changes import pieces
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace
from kafkalog_core.topics.group_offsets import place_of_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.format.snapshot import SnapshotOrder
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.scan import Run

__all__ = ["LogEdit", "OffsetEdit", "needs_edit", "rewritten_log", "with_epoch_0", "without_ended_producers"]

_OPTIONS: Final = ScanOptions(resync=True)
_NONE: Final = b"\xff\xff\xff\xff"
_CRC_END: Final = V2_CRC + 4
_OPEN: Final = -1


# --- logs -------------------------------------------------------------------------------------------------------------
class LogEdit(Struct):
    """What changes in the batches of a log.

    Args:
        offsets: changes the committed offsets in it; None: the log holds none.
        batches: how many batches had another leader epoch than 0.
        highest: the highest leader epoch of these; 0: there is none.
    """

    offsets: OffsetEdit | None = None
    batches: int = 0
    highest: int = 0

    def apply(self, content: bytearray, run: Run) -> bool:
        """Change a run of batches in place; return whether anything has changed."""
        batches, start = run.batches, _start_of_memory(run)
        is_changed = False
        # Nearly all runs of a log that never changed its leader have epoch 0.
        if not batches.holds_only("leader_epoch", 0):
            columns = (batches.column(name) for name in ("position", "format", "leader_epoch"))
            for position, magic, epoch in zip(*columns, strict=True):
                # Magic 0 and 1 have no leader epoch, and -1 is none.
                if magic == MAGIC_V2 and epoch > 0:
                    place = position - start + V2_LEADER_EPOCH
                    content[place : place + 4] = bytes(4)
                    self.batches += 1
                    self.highest = max(self.highest, epoch)
                    is_changed = True
        return (self.offsets is not None and self.offsets.apply(content, run)) or is_changed


def needs_edit(log: FileInfo, edit: LogEdit, advance: Callable[[int], None]) -> bool:
    """Return whether a log changes, and count in `edit` what changes in it. Raises StorageError."""
    is_changed = False
    with Source.open(log.path) as source:
        for item in scan(source, base_offset=log.name.base_offset, options=_OPTIONS):
            if isinstance(item, Damage) or not item.batches.count:
                continue
            # Without a copy where nothing can change: most logs of most clusters are only read.
            if edit.offsets is not None or not item.batches.holds_only("leader_epoch", 0):
                is_changed |= edit.apply(bytearray(item.memory), item)
    advance(log.size_bytes)
    return is_changed


def rewritten_log(log: FileInfo, edit: LogEdit) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the content of a log after the edit; bytes that do not form a batch are as they were.

    Raises StorageError.
    """
    written = 0
    with Source.open(log.path) as source:
        for item in scan(source, base_offset=log.name.base_offset, options=_OPTIONS):
            if isinstance(item, Damage) or not item.batches.count:
                continue
            start, end = item.batches.column("position")[0], item.end
            content = bytearray(item.memory[: end - _start_of_memory(item)])
            edit.apply(content, item)
            yield from pieces(log.path, written, start)
            yield memoryview(content)[item.start_of(0) :]
            written = end
        yield from pieces(log.path, written, source.size_bytes)


def _start_of_memory(run: Run) -> int:
    """Return the position of the first byte of a run's memory, which after damage is one before its first batch."""
    start: int = run.batches.column("position")[0] - run.start_of(0)
    return start


# --- committed offsets ------------------------------------------------------------------------------------------------
_FIRST_WITH_EPOCH: Final = 3
_FIRST_WITH_TOPIC_ID: Final = 4
_EPOCH_AT: Final = 10
"""OffsetCommitValue: version (int16), offset (int64), then the leader epoch."""
_TOPIC_ID_TAG: Final = 0
_TOPIC_ID_BYTES: Final = 16


class OffsetEdit:
    """The committed offsets in a log: without leader epochs, and with the topic ids of the new cluster.

    Args:
        topic_ids: of the new cluster, by name.

    Attributes:
        changed: how many committed offsets changed.
        compressed: how many batches are compressed, and keep what they have: their size would change.
    """

    def __init__(self, topic_ids: Mapping[str, str]) -> None:
        self.topic_ids = topic_ids
        self.changed = 0
        self.compressed = 0

    def apply(self, content: bytearray, run: Run) -> bool:
        """Change a copy of a run's batches in place; return whether anything has changed."""
        batches, before = run.batches, self.changed
        start = _start_of_memory(run)
        for row in range(batches.count):
            if batches.cell("format", row) != MAGIC_V2 or batches.cell("attributes", row) & CONTROL_BIT:
                continue
            if batches.cell("codec", row):
                self.compressed += 1
                continue
            known = self.changed
            for topic, place, value in _committed(run.memory, batches, row):
                self.changed += self._change(content, topic, place, value)
            if self.changed > known:
                first = batches.cell("position", row) - start
                checked = memoryview(content)[first + _CRC_END : first + batches.cell("size_bytes", row)]
                crc = crc32c(checked).to_bytes(4, "big")
                checked.release()
                content[first + V2_CRC : first + _CRC_END] = crc
        return self.changed > before

    def _change(self, content: bytearray, topic: str, place: int, value: bytes) -> bool:
        """Change one value, which is at `place`; return whether it has changed."""
        new = bytearray(value)
        new[_EPOCH_AT : _EPOCH_AT + 4] = _NONE
        at, topic_id = _topic_id_place(value), parse_uuid(self.topic_ids.get(topic, ""))
        if at is not None and topic_id is not None:
            new[at : at + _TOPIC_ID_BYTES] = topic_id
        content[place : place + len(value)] = new
        return new != value


def _committed(memory: memoryview, batches: BatchColumns, row: int) -> Iterator[tuple[str, int, bytes]]:
    """Yield the topic, the place in `memory` and the value of each committed offset in a batch with a leader epoch."""
    names = ("key_start", "key_size", "value_start", "value_size")
    for piece in decode_batch(memory, batches, row, max_bytes=MAX_BATCH_BYTES):
        if isinstance(piece, PayloadDamage):
            return
        for key_start, key_size, start, size in zip(*(piece.records.column(name) for name in names), strict=True):
            if key_size < 0 or size < _EPOCH_AT + 4:  # a tombstone has no value
                continue
            committed = place_of_key(bytes(piece.memory[key_start : key_start + key_size]))
            value = bytes(piece.memory[start : start + size])
            if committed is not None and int.from_bytes(value[:2], "big") >= _FIRST_WITH_EPOCH:
                yield committed[0], start, value


def _topic_id_place(value: bytes) -> int | None:
    """Return where the topic id in an OffsetCommitValue is; None: it has none."""
    if int.from_bytes(value[:2], "big") < _FIRST_WITH_TOPIC_ID:
        return None
    reader = FlexibleReader(value, _EPOCH_AT + 4, "committed offset")
    try:
        reader.compact_bytes()  # the client's own metadata
        reader.int64()  # the time of the commit
        for _ in range(reader.unsigned_varint()):
            tag, size = reader.unsigned_varint(), reader.unsigned_varint()
            if tag == _TOPIC_ID_TAG and size == _TOPIC_ID_BYTES and reader.position + size <= len(value):
                return reader.position
            reader.position += size
    except FormatError:
        return None
    return None


# --- small files ------------------------------------------------------------------------------------------------------
def with_epoch_0(data: bytes) -> bytes:
    """Return a leader-epoch-checkpoint with epoch 0 from the first start offset on; without entries it is unchanged."""
    entries = [line.entry for line in CheckpointMend(data, parse_epoch_entry).lines if line.entry is not None]
    if not entries or (len(entries) == 1 and entries[0].leader_epoch == 0):
        return data
    start = min(entry.start_offset for entry in entries)
    return f"0\n1\n0 {max(start, 0)}\n".encode("ascii")


def without_ended_producers(data: bytes, order: SnapshotOrder) -> tuple[bytes, int]:
    """Return a producer snapshot with the producers of open transactions alone, and how many others it had.

    The new cluster gives out producer ids from its own start on: a new producer with the id, the epoch and the sequence
    of an old one would count as that one, and its batches as repeated (`ProducerStateEntry.findDuplicateBatch`). An
    open transaction must still end. Its marker comes from a new coordinator with a lower epoch, which
    `ProducerAppendInfo.checkCoordinatorEpoch` refuses, so that epoch becomes -1, none.

    Raises FormatError if a broker would not load the snapshot.
    """
    entries = [*decode_snapshot(data)]
    kept = [entry for entry in entries if entry.current_txn_first_offset != _OPEN]
    content = encode_snapshot((replace(entry, coordinator_epoch=-1) for entry in kept), order=order)
    return content, len(entries) - len(kept)
