"""The reasons of damage in small files (indexes, checkpoints, producer snapshots), the words of their `damage` rows."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkalog_core.findings.broker_actions import BEFORE_OFFLINE
from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL

__all__ = ["ENTRY_DAMAGE", "EntryDamageType"]

_CHECKPOINT: Final = f"Refuses the file, and takes the log directory offline. {BEFORE_OFFLINE}"
_SNAPSHOT: Final = (
    "Deletes the snapshot and uses the next older one. If none is left, it reads the log from its start after an "
    "unclean shutdown, and forgets all producers after a clean one."
)
_SNAPSHOT_CURE: Final = (
    f"Nothing needs to be done if there is an older snapshot. Else stop the broker and delete {CLEAN_MARK}: the next "
    f"start then reads the log. {MARK_OF_ALL}"
)


class EntryDamageType(NamedTuple):
    """One reason of damage in a small file: its meaning, what a broker does with it, and what to do."""

    meaning: str
    broker_action: str
    cure: str


ENTRY_DAMAGE: Final = {
    "malformed-line": EntryDamageType(
        "A line of a text file does not follow the grammar of the file.",
        _CHECKPOINT,
        "Stop the broker and correct the line by hand. A blank line is malformed too.",
    ),
    "partial-entry": EntryDamageType(
        "The bytes at the end of an index are fewer than an entry.",
        "Ignores the incomplete entry (before 2.3: deletes the index and rebuilds it; 0.8: does not start).",
        "Stop the broker, verify the log of the segment, and delete its .index (if only the .timeindex or .txnindex "
        "is broken, delete the .index too): the next start rebuilds all indexes of the segment, and truncates the log "
        "at its first bad batch.",
    ),
    "snapshot-crc-mismatch": EntryDamageType(
        "The stored checksum of a producer snapshot is not the checksum of its bytes.", _SNAPSHOT, _SNAPSHOT_CURE
    ),
    "snapshot-entry-count": EntryDamageType(
        "The size of a producer snapshot contradicts the number of entries in its header.", _SNAPSHOT, _SNAPSHOT_CURE
    ),
    "snapshot-truncated": EntryDamageType("A producer snapshot ends before its last entry.", _SNAPSHOT, _SNAPSHOT_CURE),
    "snapshot-version": EntryDamageType(
        "A producer snapshot has a version that does not exist.", _SNAPSHOT, _SNAPSHOT_CURE
    ),
    "too-large": EntryDamageType(
        "The file is far larger than any file of its kind; it was not read.",
        "Reads the whole file, if it can.",
        "Find out what the file is: no broker writes such a large file of this kind.",
    ),
    "unreadable": EntryDamageType(
        "The disk cannot read some bytes.",
        "Takes the whole log directory offline when it reads here; before 1.0 it halts.",
        "Copy the disk (ddrescue) first, then work on the copy.",
    ),
}
