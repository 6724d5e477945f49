"""The catalogue of damage reasons: the stable words of `damage` rows, what they mean, and what to do.

`LOG_DAMAGE` is what the scan and the decoders of logs say, `ENTRY_DAMAGE` what the readers of small files do.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL, DamageType

__all__ = ["ENTRY_DAMAGE", "LOG_DAMAGE"]

_RECOVERED: Final = (
    "After an unclean stop, if the segment is not below the recovery point: cuts the log here and deletes all later "
    "segments of the partition. After a clean stop: does not look, and readers that come here get an error."
)
_REPLICA: Final = (
    "Copy the partition from a healthy replica. Without one: kafkalog dump --resync shows what lies behind the place, "
    "and should be run before a broker starts on the directory."
)
_SERVED: Final = (
    "Never opens the payload of a batch whose checksum is good: it serves the batch, and the consumer fails on it. "
    "Compaction of the partition stops at it."
)
_BY_HEADER: Final = (
    "Consumers go on behind the last offset of the header: records may be passed over, or read again and again."
)
_SKIP: Final = (
    "Consumers have to seek behind the batch; its producer wrote it so, therefore replicas have the same bytes. "
    "Without compaction it goes away by retention."
)
_CHECKPOINT: Final = "Refuses the file; from 1.0 on takes the log directory offline, earlier releases do not start."
_SNAPSHOT: Final = (
    "Deletes the snapshot and takes the next older one. With none left: after an unclean stop reads the log from its "
    "start, after a clean one forgets all producers."
)
_SNAPSHOT_CURE: Final = (
    f"Nothing needs to be done where an older snapshot is left. Else delete {CLEAN_MARK} on a stopped broker: the next "
    f"start then reads the log. {MARK_OF_ALL}"
)
_NOTHING: Final = "Nothing needs to be done."


def _framing(meaning: str, broker_action: str = _RECOVERED, cure: str = _REPLICA) -> DamageType:
    return DamageType(meaning, broker_action, cure)


def _payload(meaning: str, broker_action: str = _SERVED, cure: str = _SKIP) -> DamageType:
    return DamageType(meaning, broker_action, cure)


LOG_DAMAGE: Final = {
    # --- framing: storage.scan --------------------------------------------------------------------------------------
    "torn-tail": _framing(
        "The last batch ends behind the end of the file: an append cut short, or a closed file that was cut.",
        "After an unclean stop: cuts it off, which loses nothing that was acknowledged by all replicas. After a "
        "clean stop: leaves it, and appends behind it, so that readers fail here later.",
        "In an earlier segment than the last one the file was cut, and a start may delete what follows: copy the "
        "partition from a replica. In the last one after a crash nothing needs to be done: the next start cuts it; "
        f"beside {CLEAN_MARK}, copy the directory away and delete that mark on a stopped broker, so that the next "
        f"start recovers. {MARK_OF_ALL}",
    ),
    "zero-filled": _framing(
        "Zero bytes: preallocated space behind the last batch, or a hole that a crash left.",
        "After an unclean stop: cuts it off. After a clean stop, at the end of the newest segment: does not start.",
        "In the middle, or in an earlier segment than the last one: copy the partition from a healthy replica before a "
        "broker starts. At the end of the last one after a crash nothing needs to be done: the next start cuts it; "
        f"beside {CLEAN_MARK}, copy the directory away and delete that mark on a stopped broker. {MARK_OF_ALL}",
    ),
    "bad-length": _framing("A length that cannot be true, is too small for its magic, or passes the end of the file."),
    "unknown-magic": _framing(
        "A magic of no known format.", "Keeps it if its checksum is good, as of a later release. Else: " + _RECOVERED
    ),
    "crc-mismatch": _framing("A batch whose checksum is not that of its bytes."),
    "over-limit": _framing(
        "A batch larger than --max-batch-bytes; it was stepped over.",
        "Reads it: the limit is kafkalog's own. Releases 0.8.2 to 0.10 cut what they recover at a message above "
        "max.message.bytes.",
        "Give a larger --max-batch-bytes, if the size may be true.",
    ),
    "unreadable": _framing(
        "Bytes that the disk cannot read, with the batch that they are in.",
        "Takes the whole log directory offline when it comes here; before 1.0 it halts.",
        "Stop the broker and copy the disk (ddrescue) first. Then copy the partition from a healthy replica.",
    ),
    "offset-order": _framing(
        "A whole batch whose offsets go back behind those before it, or below the number in the file name.",
        "In recovery: empties the segment and deletes all later ones, or does not start, or does not notice: that "
        "depends on where index entries fall. Otherwise serves it, and consumers may read records twice or miss them.",
        "Copy the partition from a healthy replica.",
    ),
    # --- payload under a good checksum: format.decode -----------------------------------------------------------------
    "payload": _payload("Compressed records that their codec refuses."),
    "payload-limit": _payload(
        "Compressed records that inflate to more than --max-batch-bytes, or stand in over 262,144 parts.",
        "Reads it: the limit is kafkalog's own. Consumers and compaction need the memory for it.",
        "Give a larger --max-batch-bytes, if the size may be true.",
    ),
    "payload-truncated": _payload("Compressed records that end early."),
    "payload-trailing": _payload(
        "Bytes behind the end of compressed records, which Kafka ignores; the records were read.",
        "Ignores them, as consumers do.",
        _NOTHING,
    ),
    "wrapper-value": _payload("A compressed message whose key and value lengths do not fit, or that has no value."),
    "record-length": _payload("A record whose length is negative or passes the end of its batch."),
    "record-varint": _payload("A variable-length integer that is cut or too long."),
    "record-key": _payload("A key that passes the end of its record."),
    "record-value": _payload("A value that passes the end of its record."),
    "record-headers": _payload("Headers that pass the end of their record, or a negative count or length."),
    "record-trailing": _payload("A record whose fields end before its length does, or that has none."),
    "record-count": _payload("A record count that is negative, or bytes behind the last record."),
    "header-contradiction": _payload(
        "A whole batch whose offsets and record count cannot all be true.", "Does not compare them. " + _BY_HEADER
    ),
    "record-offset": _payload(
        "A record in a whole batch at an offset outside of the batch's own.", "Does not look for it. " + _BY_HEADER
    ),
    "headers-limit": _payload("A record with more than a million headers."),
    "message-length": _payload("An inner message whose size cannot be true."),
    "message-key": _payload("An inner message whose key passes its end."),
    "message-value": _payload("An inner message whose value passes its end."),
    "message-magic": _payload("An inner message of an unknown magic."),
    "message-nested": _payload("A compressed message inside of a compressed one, which only Kafka 0.7 writes."),
    "message-cut": _payload("A set of inner messages that ends inside of one; consumers get those before it."),
    "message-crc": _payload(
        "A message inside of a compressed one whose checksum is wrong, under a good one of the outer; consumers refuse "
        "it, from 0.8 on unless check.crcs is off."
    ),
    "message-empty": _payload("A compressed message without a message in it."),
    "message-offset": _payload("Relative inner offsets that pass the offset of their wrapper."),
}

ENTRY_DAMAGE: Final = {
    "malformed-line": DamageType(
        "A line of a text file that does not follow the file's grammar.",
        _CHECKPOINT,
        "Correct the line by hand while the broker is stopped. A blank line is malformed too.",
    ),
    "partial-entry": DamageType(
        "Bytes at the end of an index that are fewer than an entry.",
        "Rounds the file down to whole entries (0.8.0: does not start).",
        "With the broker stopped, delete the .index of the segment (beside a broken .timeindex or .txnindex too): the "
        "next start then builds all indexes of the segment anew. Verify its log before, as that start cuts it at the "
        "first bad batch.",
    ),
    "snapshot-crc-mismatch": DamageType(
        "A producer snapshot whose checksum is not that of its bytes.", _SNAPSHOT, _SNAPSHOT_CURE
    ),
    "snapshot-entry-count": DamageType(
        "A producer snapshot whose size is not that of the number of entries in its header.", _SNAPSHOT, _SNAPSHOT_CURE
    ),
    "snapshot-truncated": DamageType("A producer snapshot that ends before its last entry.", _SNAPSHOT, _SNAPSHOT_CURE),
    "snapshot-version": DamageType("A producer snapshot of a version that does not exist.", _SNAPSHOT, _SNAPSHOT_CURE),
    "too-large": DamageType(
        "A file far larger than any of its kind; it was not read.",
        "Reads it whole, if it can.",
        "Look what it is: no broker writes so large a file of this kind.",
    ),
    "unreadable": DamageType(
        "Bytes that the disk cannot read.",
        "Takes the whole log directory offline when it reads here; before 1.0 it halts.",
        "Copy the disk (ddrescue) first, then work on the copy.",
    ),
}
