"""The catalogue of damage reasons: the stable words of `damage` rows, what they mean, and what to do.

`LOG_DAMAGE` is what the scan and the decoders of logs say, `ENTRY_DAMAGE` what the readers of small files do.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL, DamageType, FindingType, Severity

__all__ = [
    "DAMAGE_CODES",
    "DAMAGE_REASONS",
    "ENTRY_DAMAGE",
    "LATER_RELEASE",
    "LOGS",
    "LOG_DAMAGE",
    "V07_SUFFIX",
    "ZERO_TAIL",
    "in_07",
]


_RECOVERED: Final = (
    "After an unclean shutdown, if the segment is not below the recovery point: truncates the log here and "
    "deletes all later segments of the partition. After a clean shutdown: does not read it, and readers that "
    "come here get an error."
)
_REPLICA: Final = (
    "Copy the partition from a healthy replica. Without one, run kafkalog dump --resync before a broker starts "
    "on the directory: it shows what is after this place."
)
_SERVED: Final = (
    "Never opens the payload of a batch whose checksum is good: it serves the batch, and the consumer fails on it. "
    "Compaction of the partition stops at it."
)
_BY_HEADER: Final = (
    "Consumers continue after the last offset of the header: they may skip records, or read them again and again."
)
_SKIP: Final = (
    "Let consumers seek past the batch. The producer wrote it this way, so every replica has the same bytes. "
    "Retention deletes it in time, unless the topic is compacted."
)
_CHECKPOINT: Final = "Refuses the file; from 1.0 on takes the log directory offline, earlier releases do not start."
_SNAPSHOT: Final = (
    "Deletes the snapshot and takes the next older one. With none left: after an unclean shutdown it reads the "
    "log from its start, after a clean one it forgets all producers."
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
        "The last batch extends past the end of the file: an append was interrupted, or a closed file was truncated.",
        "After an unclean shutdown: truncates it, which loses nothing that all replicas acknowledged. After a "
        "clean shutdown: leaves it and appends after it, so that readers fail here later.",
        "In an earlier segment than the last one the file was truncated, and a start may delete the segments after it: "
        "copy the partition from a replica. In the last one after a crash nothing needs to be done: the next start "
        f"truncates it. With {CLEAN_MARK}, copy the directory away and delete that file on a stopped broker, so that "
        f"the next start recovers. {MARK_OF_ALL}",
    ),
    "zero-filled": _framing(
        "Zero bytes: preallocated space after the last batch, or a hole that a crash left.",
        "After an unclean shutdown: truncates it. After a clean shutdown, at the end of the newest segment: "
        "does not start.",
        "In the middle, or in an earlier segment than the last one: copy the partition from a healthy replica before a "
        "broker starts. At the end of the last one after a crash nothing needs to be done: the next start truncates "
        f"it. With {CLEAN_MARK}, copy the directory away and delete that file on a stopped broker. {MARK_OF_ALL}",
    ),
    "bad-length": _framing("A length that cannot be true, is too small for its magic, or passes the end of the file."),
    "unknown-magic": _framing(
        "A magic of no known format.", "Keeps it if its checksum is good, as of a later release. Else: " + _RECOVERED
    ),
    "crc-mismatch": _framing("A batch whose checksum is not that of its bytes."),
    "over-limit": _framing(
        "A batch larger than --max-batch-bytes; it was stepped over.",
        "Reads it: the limit is kafkalog's own. Releases 0.8.2 to 0.10 truncate what they recover at a message "
        "above max.message.bytes.",
        "Give a larger --max-batch-bytes, if the size may be true.",
    ),
    "unreadable": _framing(
        "Bytes that the disk cannot read, with the batch that they are in.",
        "Takes the whole log directory offline when it comes here; before 1.0 it halts.",
        "Stop the broker and copy the disk (ddrescue) first. Then copy the partition from a healthy replica.",
    ),
    "offset-order": _framing(
        "A whole batch whose offsets go back below those before it, or below the number in the file name.",
        "In recovery: empties the segment and deletes all later ones, or does not start, or does not notice: that "
        "depends on where index entries fall. Otherwise serves it, and consumers may read records twice or miss them.",
        "Copy the partition from a healthy replica.",
    ),
    # --- payload under a good checksum: format.decode -----------------------------------------------------------------
    "payload": _payload("Compressed records that their codec refuses."),
    "payload-limit": _payload(
        "Compressed records that inflate to more than --max-batch-bytes, or are in over 262,144 parts.",
        "Reads it: the limit is kafkalog's own. Consumers and compaction need the memory for it.",
        "Give a larger --max-batch-bytes, if the size may be true.",
    ),
    "payload-truncated": _payload("Compressed records that end early."),
    "payload-trailing": _payload(
        "Bytes after the end of compressed records, which Kafka ignores; the records were read.",
        "Ignores them, as consumers do.",
        _NOTHING,
    ),
    "wrapper-value": _payload("A compressed message whose key and value lengths do not fit, or that has no value."),
    "record-length": _payload("A record whose length is negative or passes the end of its batch."),
    "record-varint": _payload("A variable-length integer that is truncated or too long."),
    "record-key": _payload("A key that passes the end of its record."),
    "record-value": _payload("A value that passes the end of its record."),
    "record-headers": _payload("Headers that pass the end of their record, or a negative count or length."),
    "record-trailing": _payload("A record whose fields end before its length does, or that has none."),
    "record-count": _payload("A record count that is negative, or bytes after the last record."),
    "header-contradiction": _payload(
        "A whole batch whose offsets and record count cannot all be true.", "Does not compare them. " + _BY_HEADER
    ),
    "record-offset": _payload(
        "A record in a whole batch at an offset outside of the batch's own.", "Does not check it. " + _BY_HEADER
    ),
    "headers-limit": _payload("A record with more than a million headers."),
    "message-length": _payload("An inner message whose size cannot be true."),
    "message-key": _payload("An inner message whose key passes its end."),
    "message-value": _payload("An inner message whose value passes its end."),
    "message-magic": _payload("An inner message of an unknown magic."),
    "message-nested": _payload("A compressed message in a compressed one, which only Kafka 0.7 writes."),
    "message-cut": _payload("A set of inner messages that ends within one; consumers get those before it."),
    "message-crc": _payload(
        "A message in a compressed one whose own checksum is wrong, although the outer checksum is right; "
        "consumers refuse it, from 0.8 on unless check.crcs is off."
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
        "With the broker stopped, delete the .index of the segment (next to a broken .timeindex or .txnindex "
        "too): the next start then rebuilds all indexes of the segment. Verify its log before, as that start "
        "truncates it at the first bad batch.",
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


ZERO_TAIL: Final = "log.zero-tail"
LATER_RELEASE: Final = "log.needs-later-release"

DAMAGE_CODES: Final = {
    "torn-tail": "log.torn-tail",
    "zero-filled": "log.zero-filled",
    "bad-length": "log.bad-length",
    "unknown-magic": "log.unknown-magic",
    "unreadable": "log.unreadable",
    "crc-mismatch": "batch.crc-mismatch",
    "over-limit": "batch.over-limit",
    "offset-order": "batch.offset-order",
    "header-contradiction": "batch.header-contradiction",
    "record-offset": "record.offset-outside",
    "payload": "batch.payload",
    "payload-limit": "batch.payload-limit",
    "payload-truncated": "batch.payload-truncated",
    "payload-trailing": "batch.payload-trailing",
    "wrapper-value": "batch.wrapper-value",
    "record-length": "record.length",
    "record-varint": "record.varint",
    "record-key": "record.key",
    "record-value": "record.value",
    "record-headers": "record.headers",
    "record-trailing": "record.trailing",
    "record-count": "batch.record-count",
    "headers-limit": "record.headers-limit",
    "message-length": "record.inner-length",
    "message-key": "record.inner-key",
    "message-value": "record.inner-value",
    "message-magic": "record.inner-magic",
    "message-nested": "record.inner-nested",
    "message-cut": "record.inner-cut",
    "message-crc": "record.inner-crc",
    "message-empty": "batch.wrapper-empty",
    "message-offset": "record.inner-offset",
}
"""The code of every reason of `LOG_DAMAGE`; zeros up to the end of a file are `ZERO_TAIL`."""
DAMAGE_REASONS: Final = {code: reason for reason, code in DAMAGE_CODES.items()} | {ZERO_TAIL: "zero-filled"}
"The reason of damage by code."

_IN_BATCH: Final = "In the batch at byte {position}, which ends at offset {last}: {detail}."
_MESSAGES: Final = {
    "log.torn-tail": "The file ends within a batch, in bytes {position} to {end}: {detail}{lost}.",
    ZERO_TAIL: "The file ends in {size_bytes} zero bytes, from byte {position} on{lost}.",
    "log.zero-filled": "Bytes {position} to {end} start with zeros where a batch should be: {detail}{lost}.",
    "log.bad-length": "Bytes {position} to {end} cannot be taken apart into batches: {detail}{lost}.",
    "log.unknown-magic": "Bytes {position} to {end} do not form a batch: {detail}{lost}.",
    "log.unreadable": "Bytes {position} to {end} cannot be read from the disk: {detail}{lost}.",
    "batch.crc-mismatch": "The batch in bytes {position} to {end} is damaged: {detail}{lost}.",
    "batch.over-limit": "Bytes {position} to {end} were not checked: {detail}{lost}.",
    "batch.offset-order": "The batch at byte {position} has offsets that cannot be: {detail}.",
    "batch.header-contradiction": "The header of the batch at byte {position} contradicts itself: {detail}.",
    "record.offset-outside": "In the batch at byte {position}: {detail}.",
    "record.inner-crc": "In the batch at byte {position}, which ends at offset {last}, the message of offset {offset} "
    "has a wrong checksum of its own, though that of the whole batch agrees.",
}
_SEVERITIES: Final[dict[str, Severity]] = {
    ZERO_TAIL: "warning",  # normal after a crash, deadly after a clean stop: who knows the directory says which
    "batch.payload-trailing": "warning",  # readers pass over these two, so that a broker takes them from a producer
    "record.inner-cut": "warning",
}


def _damage(code: str, reason: str) -> FindingType:
    damage = LOG_DAMAGE[reason]
    severity = _SEVERITIES.get(code, "error")
    return FindingType(severity, _MESSAGES.get(code, _IN_BATCH), damage.broker_action, damage.cure, damage.meaning)


_COPY: Final = "Copy the partition from a healthy replica"
_COMPARE: Final = (
    "Compare the batch with another replica by kafkalog dump --batches; where they differ, copy the partition "
    "from the healthy one."
)
_WRITTEN_SO: Final = (
    "The checksum is good, so it was written like this: other replicas hold the same bytes. kafkalog dump --records "
    "shows what is readable."
)

_HEADERS: Final = {
    "batch.epoch-back": FindingType(
        "error",
        "The batch at byte {position}, offset {offset}, has leader epoch {epoch}, but the batch {where} it has "
        "{beside}: leader epochs never go back.",
        "Loads it. When it rebuilds the leader epochs it drops those that contradict; a follower may then "
        "truncate its log at a wrong offset.",
        _COMPARE,
        "Leader epochs never go back in a log. Nothing protects this field: of two neighbours that contradict each "
        "other the one named is that which does not fit to the batches around it.",
    ),
    "batch.bad-epoch": FindingType(
        "error",
        "The batch at byte {position}, offset {offset}, has leader epoch {epoch}, which no leader has.",
        "Loads it, and takes it for a batch without an epoch.",
        _COMPARE,
        "Leader epochs are -1 (none) or count from 0. Nothing protects this field.",
    ),
    "batch.timestamp-order": FindingType(
        "warning",
        "The batch at byte {position}, offset {offset}, starts at timestamp {first}, but its header gives "
        "{largest} as the largest one.",
        "Uses the largest one for searches by time and for retention, and no other.",
        "Nothing needs to be done on the disk; check the clock and the code of the producer.",
        "The first timestamp of a batch is above the largest: a producer that counts from another one than its first "
        "record's, or a wrong header.",
    ),
    "batch.unknown-attributes": FindingType(
        "warning",
        "The batch at byte {position}, offset {offset}, has attributes {attributes:#06x}, with bits that magic {magic} "
        "does not use.",
        "Ignores them.",
        "Nothing, if a later release wrote it; else compare the batch with another replica.",
        "Attribute bits that no release up to 4.4 writes: a later release or an unusual producer set them.",
    ),
    "batch.unknown-codec": FindingType(
        "error",
        "The batch at byte {position}, offset {offset}, is compressed by codec {codec}, which magic {magic} does not "
        "have.",
        "Loads it, as recovery does not check the codec. Consumers and the cleaner fail on it.",
        _WRITTEN_SO + " Let consumers continue after it.",
        "A codec id without a meaning, or zstd in a message of magic 0 or 1: its records cannot be read.",
    ),
    "segment.offset-overflow": FindingType(
        "error",
        "The batch at byte {position} ends at offset {offset}, more than 2147483647 above the segment's base offset.",
        "Splits the segment when it loads it (1.1 and later), and does not start where that fails; older "
        "releases cannot index the batches after it.",
        "If the offset is right, let a broker of 1.1 or later split it. If it is not, copy the partition from a "
        "healthy replica: the log would end at a wrong offset.",
        "Offsets too far from the base offset for any index: old cleaners wrote such segments, but an offset that was "
        "damaged looks the same, as nothing protects it.",
    ),
    "batch.future-timestamp": FindingType(
        "warning",
        "Timestamps lie more than a day in the future, the largest, {largest} ms, {days} days; batches with such: "
        "{count}, the first at byte {position}.",
        "Does not delete the segment, nor any after it, by retention.ms before that time; new segments may be "
        "rolled too early.",
        "Free the space by retention.bytes or kafka-delete-records.sh; message.timestamp.after.max.ms (3.6 and later) "
        "refuses such records.",
        "Timestamps of producers whose clock or unit is wrong, or this machine's clock is.",
    ),
    "batch.negative-timestamp": FindingType(
        "warning",
        "Timestamps are negative without saying that there is none (-1); batches with such: {count}, the first at byte "
        "{position}.",
        "Takes them for none where it searches by time.",
        "Nothing needs to be done on the disk; check the clock and the code of the producer.",
        "Timestamps before 1970, which Kafka's own producers refuse.",
    ),
}

_RECORDS: Final = {
    "record.offset-order": FindingType(
        "error",
        "In the batch at byte {position}, offsets {first} to {last}, the record of offset {offset} is not above the "
        "one before it.",
        "Refuses such a batch from a producer, so none wrote it. Consumers may get records twice or skip some.",
        _WRITTEN_SO,
        "Offsets in a batch always ascend.",
    ),
    "record.wrapper-overlap": FindingType(
        "error",
        "The compressed message at byte {position} starts with offset {offset}, which the batch before it has reached "
        "already; its own is {last}.",
        "Loads it. Consumers get these offsets twice.",
        f"{_COPY}. kafkalog dump --records shows them.",
        "A compressed message of magic 0 or 1 whose own offset is higher than that of the batch before, but not the "
        "offsets of what is inside.",
    ),
    "record.wrapper-end": FindingType(
        "error",
        "The last message in the compressed one at byte {position} has offset {offset}, the outer one {last}.",
        "Loads it, and uses the outer offset alone; consumers get the inner ones.",
        f"{_COPY}. kafkalog dump --records shows them.",
        "A compressed message has the offset of its last inner message. Nothing protects the outer offset.",
    ),
    "record.timestamp-over-max": FindingType(
        "warning",
        "In the batch at byte {position} the record of offset {offset} has timestamp {timestamp}, but its "
        "header gives {largest} as the largest one.",
        "Searches by time skip the batch, and retention may delete the record too early.",
        "Nothing needs to be done on the disk; raise retention.ms if the record would go too early.",
        "A record younger than the largest timestamp in its batch's header, which a leader computes itself.",
    ),
    "record.timestamp-under-max": FindingType(
        "warning",
        "The header of the batch at byte {position}, offsets {first} to {last}, gives {largest} as the largest "
        "timestamp, but that of its records is {timestamp}.",
        "Searches by time stop at the batch without finding a record; retention may keep the segment too long.",
        "Nothing needs to be done on the disk.",
        "No record has the largest timestamp of its batch's header, which a leader computes itself.",
    ),
    "record.control-key": FindingType(
        "error",
        "In the control batch at byte {position} the key of the record at offset {offset} is not that of a "
        "control record: {detail}.",
        "Does not start if it replays this batch, on this start and on every later one.",
        f"{_COPY}. {_WRITTEN_SO}",
        "The key of a control record holds a version from 0 on and a type, 2 bytes each.",
    ),
    "record.control-value": FindingType(
        "error",
        "In the control batch at byte {position} the value of the record at offset {offset} cannot be read: {detail}.",
        "Does not start if it replays this batch, on this start and on every later one.",
        f"{_COPY}. {_WRITTEN_SO}",
        "The value of a control record depends on its type: the end of a transaction, a change of leader.",
    ),
    "record.control-type": FindingType(
        "warning",
        "The control record of offset {offset}, in the batch at byte {position}, is of type {kind}, which no release "
        "up to 4.4 writes.",
        "Passes over it; where the batch has a producer id, it does not start if it replays it.",
        "Nothing, if a later release wrote it: use that one. Else copy the partition from a healthy replica.",
        "A control record of a later release, or one whose key is wrong.",
    ),
    "record.marker-count": FindingType(
        "error",
        "The control batch at byte {position}, which ends a transaction, holds more than one record.",
        "Looks at the first one alone.",
        _WRITTEN_SO,
        "The end of a transaction is a batch of exactly one record.",
    ),
}

_ENDS: Final = {
    "log.end-hidden": FindingType(
        "error",
        "The last entry of the offset index does not lead to a whole batch, so the broker takes offset {offset}, the "
        "base offset of the segment, for the log end offset, although the log holds offset {last}.",
        "Hides every record of the segment after a clean shutdown, and assigns their offsets again.",
        "Start no broker on it yet. Cut the log at its first damage, which keeps every batch before it.",
        "After a clean shutdown a broker looks for the log end offset from the last index entry on, and computes no "
        "checksum (LogSegment.readNextOffset).",
    ),
    LATER_RELEASE: FindingType(
        "error",
        "The next start reads the batch at byte {position} to learn of the producers. It is a control batch whose "
        "record the log cleaner has removed. Nothing is damaged.",
        "Does not start: releases 0.11 to 1.1 fail at such a batch (NoSuchElementException). Release 2.0 and later "
        "start.",
        "Start release 2.0 or later on the log directory, and do not truncate the log. To start this release, "
        "write the producer snapshot at the log end with kafkalog reindex, and then mark the log directory as "
        "cleanly shut down with kafkalog checkpoint --mark-clean: the start then reads the snapshot, and not "
        "the log.",
        "The log cleaner keeps a control batch without its record where a producer's last batch is needed. Releases "
        "before 2.0 ask each control batch for its first record (ProducerAppendInfo.append).",
    ),
    "log.end-unreadable": FindingType(
        "error",
        "The broker reads the batch at byte {position} when it looks for the log end offset, and fails: {why}.",
        "Does not start after a clean shutdown.",
        "Start no broker on it yet. Cut the log at its first damage, or copy the partition from a healthy replica.",
        "After a clean shutdown a broker looks for the log end offset from the last index entry on. Since 4.1 it reads "
        "base offsets there, and decompresses a batch that seems to be a compressed message (FileRecords).",
    ),
}

LOGS: Final = {
    **{code: _damage(code, reason) for code, reason in DAMAGE_REASONS.items()},
    **_HEADERS,
    **_RECORDS,
    **_ENDS,
}


V07_SUFFIX: Final = ".kafka"
"""The end of a log file's name in 0.7."""
_ELSEWHERE: Final = (
    "In an earlier segment, and after a clean shutdown, it checks nothing, and a consumer that reads this place fails."
)
_LAST_COPY: Final = (
    "Kafka 0.7 keeps one copy of a partition. Copy the directory away before a broker starts on it, and see "
    "which records can be read after this place: kafkalog dump --resync. To truncate the log here: kafkalog "
    "truncate --at-damage."
)
_CUTS: Final = f"In the last segment after an unclean shutdown: truncates the log at this message. {_ELSEWHERE}"
_TAIL: Final = (
    "In the last segment after an unclean shutdown: truncates these bytes. After a clean shutdown: appends "
    "after them, and consumers cannot read what it appends. In an earlier segment: checks nothing, and a "
    "consumer that reads this place fails."
)
_MAGIC: Final = f"In the last segment after an unclean shutdown: does not start. {_ELSEWHERE}"
_SERVES: Final = "Serves the message as it is, and the consumer fails on it."
_AFTER: Final = (
    "Set the stored position of the consumers to the address of the next message (kafkalog dump shows it). Retention "
    "deletes the segment in time."
)
_READ_AGAIN: Final = "Fails at every read of this place."
_DISK: Final = "Stop the broker and copy the disk (ddrescue) first: Kafka 0.7 keeps one copy of a partition."
_FRAMING: Final = {
    "log.torn-tail": (_TAIL, _LAST_COPY),
    "log.zero-tail": (_TAIL, _LAST_COPY),
    "log.zero-filled": (_CUTS, _LAST_COPY),
    "log.bad-length": (_CUTS, _LAST_COPY),
    "log.unknown-magic": (_MAGIC, _LAST_COPY),
    "log.unreadable": (_READ_AGAIN, _DISK),
    "batch.crc-mismatch": (_CUTS, _LAST_COPY),
}


def in_07(code: str, kind: FindingType) -> FindingType:
    """Return the text of a finding in a file of Kafka 0.7; the catalogue's own text if it applies to 0.7 too."""
    if code not in LOGS or kind.broker_action is None:
        return kind
    broker_action, cure = _FRAMING.get(code, (_SERVES, _AFTER))
    return kind._replace(broker_action=broker_action, cure=cure)
