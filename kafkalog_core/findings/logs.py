"""Findings about what stands in a log file: its framing, the headers of its batches, and their records.

What the scan and the decoders call damage has a code here for each of its reasons; what that means and what to do about
it is said once, in `damage.LOG_DAMAGE`.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.damage import LOG_DAMAGE
from kafkalog_core.findings.kinds import FindingType, Severity

__all__ = ["DAMAGE_CODES", "DAMAGE_REASONS", "LATER_RELEASE", "LOGS", "ZERO_TAIL"]

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
"""The reason of damage that a code stands for."""

_IN_BATCH: Final = "In the batch at byte {position}, which ends at offset {last}: {detail}."
_MESSAGES: Final = {
    "log.torn-tail": "The file ends inside of a batch, in bytes {position} to {end}: {detail}{lost}.",
    ZERO_TAIL: "The file ends in {size_bytes} zero bytes, from byte {position} on{lost}.",
    "log.zero-filled": "Bytes {position} to {end} start with zeros where a batch should be: {detail}{lost}.",
    "log.bad-length": "Bytes {position} to {end} cannot be taken apart into batches: {detail}{lost}.",
    "log.unknown-magic": "Bytes {position} to {end} are no batch: {detail}{lost}.",
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
        "The batch at byte {position}, offset {offset}, has leader epoch {epoch}, what stands {where} it has {beside}: "
        "leader epochs never go back.",
        "Loads it. When it builds the leader epochs anew it drops those that contradict; a follower may then cut its "
        "log at a wrong offset.",
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
        "The batch at byte {position}, offset {offset}, starts at timestamp {first} and says that its largest is "
        "{largest}.",
        "Takes the largest for searches by time and for retention, and looks at no other.",
        "Nothing needs to be done on the disk; look at the clock and the code of the producer.",
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
        "Loads it, as recovery does not look at the codec. Consumers and the cleaner fail on it.",
        _WRITTEN_SO + " Let consumers go on behind it.",
        "A codec id without a meaning, or zstd in a message of magic 0 or 1: its records cannot be read.",
    ),
    "segment.offset-overflow": FindingType(
        "error",
        "The batch at byte {position} ends at offset {offset}, more than 2147483647 above the segment's base offset.",
        "Splits the segment when it loads it (1.1 and later), and does not start where that fails; older ones cannot "
        "index what is behind.",
        "If the offset is right, let a broker of 1.1 or later split it. If it is not, copy the partition from a "
        "healthy replica: the log would end at a wrong offset.",
        "Offsets too far from the base offset for any index: old cleaners wrote such segments, but an offset that was "
        "damaged looks the same, as nothing protects it.",
    ),
    "batch.future-timestamp": FindingType(
        "warning",
        "Timestamps lie more than a day in the future, the largest, {largest} ms, {days} days; batches with such: "
        "{count}, the first at byte {position}.",
        "Does not delete the segment, nor any behind it, by retention.ms before that time; new segments may be rolled "
        "too early.",
        "Free the space by retention.bytes or kafka-delete-records.sh; message.timestamp.after.max.ms (3.6 and later) "
        "refuses such records.",
        "Timestamps of producers whose clock or unit is wrong, or this machine's clock is.",
    ),
    "batch.negative-timestamp": FindingType(
        "warning",
        "Timestamps are negative without saying that there is none (-1); batches with such: {count}, the first at byte "
        "{position}.",
        "Takes them for none where it searches by time.",
        "Nothing needs to be done on the disk; look at the clock and the code of the producer.",
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
        "Offsets inside of a batch always rise.",
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
        "Loads it, and looks at the outer offset alone; consumers get the inner ones.",
        f"{_COPY}. kafkalog dump --records shows them.",
        "A compressed message stands at the offset of the last message inside. Nothing protects the outer one.",
    ),
    "record.timestamp-over-max": FindingType(
        "warning",
        "In the batch at byte {position} the record of offset {offset} has timestamp {timestamp}; the largest, its "
        "header says, is {largest}.",
        "Searches by time pass over the batch, and retention may delete the record too early.",
        "Nothing needs to be done on the disk; raise retention.ms if the record would go too early.",
        "A record younger than the largest timestamp in its batch's header, which a leader computes itself.",
    ),
    "record.timestamp-under-max": FindingType(
        "warning",
        "The header of the batch at byte {position}, offsets {first} to {last}, says that the largest timestamp is "
        "{largest}; that of its records is {timestamp}.",
        "Searches by time stop at the batch without finding a record; retention may keep the segment too long.",
        "Nothing needs to be done on the disk.",
        "No record has the largest timestamp of its batch's header, which a leader computes itself.",
    ),
    "record.control-key": FindingType(
        "error",
        "In the control batch at byte {position} the key of the record at offset {offset} is no control record's: "
        "{detail}.",
        "Does not start if it replays this batch, on this start and on every later one.",
        f"{_COPY}. {_WRITTEN_SO}",
        "The key of a control record holds a version from 0 on and a type, 2 bytes each.",
    ),
    "record.control-value": FindingType(
        "error",
        "In the control batch at byte {position} the value of the record at offset {offset} cannot be read: {detail}.",
        "Does not start if it replays this batch, on this start and on every later one.",
        f"{_COPY}. {_WRITTEN_SO}",
        "The value of a control record holds what its type says: the end of a transaction, a change of leader.",
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
        "Start release 2.0 or later on the log directory, and do not cut the log. To start this release, write the "
        "producer snapshot at the log end with kafkalog reindex, and then mark the log directory as cleanly shut down "
        "with kafkalog checkpoint --mark-clean: the start then reads the snapshot, and not the log.",
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
