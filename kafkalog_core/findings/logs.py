"""Findings about batches and records, and the reasons of damage in logs, the stable words of `damage` rows.

`LOG_DAMAGE` holds the reasons of the scan and the decoders of logs; those of other files are in `entries`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkalog_core.findings.client_reads import CONSUMERS
from kafkalog_core.findings.kinds import (
    DUMP_BATCHES,
    DUMP_RECORDS,
    RAISE_LIMIT,
    RECOVER,
    REPAIRED,
    START_LATER,
    FindingType,
    Severity,
)

__all__ = [
    "DAMAGE_CODES",
    "DAMAGE_REASONS",
    "LOGS",
    "LOG_DAMAGE",
    "OF_ONE_BATCH",
    "STARTS_LATER",
    "ZERO_TAIL",
    "LogDamageType",
]

_RECOVERED: Final = (
    "Truncates the log here, or keeps this place, so that fetches that reach it fail: this depends on the release, "
    "the last shutdown and the recovery point. kafkalog verify simulates the next start."
)
_SERVED: Final = "Does not decode the records of a batch with a good checksum: it serves the batch."
_CLEANER: Final = "The log cleaner stops at it."
_SKIP: Final = (
    "See what can be read: kafkalog dump --records --resync. To take the batch out of the log: kafkalog excise. The "
    "checksum is good, so the batch was written this way. Retention deletes it in time, unless the topic is compacted."
)
_NOTHING: Final = "Nothing needs to be done."
_IN_BATCH: Final = "In the batch at byte {position}, which ends at offset {last}: {detail}."


class LogDamageType(NamedTuple):
    """One reason of damage in a log, with the finding of verify about it."""

    code: str
    message: str
    meaning: str
    broker_action: str = _RECOVERED
    cure: str = REPAIRED
    severity: Severity = "error"
    next_step: str | None = RECOVER

    def finding_type(self) -> FindingType:
        """Return the finding of the catalog."""
        return FindingType(
            self.severity, self.message, self.broker_action, self.cure, self.meaning, next_step=self.next_step
        )


def _served(before: str = _SERVED, after: str = _CLEANER) -> str:
    """Return what a broker does with a batch whose checksum is good, and the place of what consumers do that get it."""
    return " ".join(part for part in (before, CONSUMERS, after) if part)


def _payload(
    code: str,
    meaning: str,
    broker_action: str | None = None,
    cure: str = _SKIP,
    *,
    message: str = _IN_BATCH,
    severity: Severity = "error",
    next_step: str | None = DUMP_RECORDS,
) -> LogDamageType:
    action = _served() if broker_action is None else broker_action
    return LogDamageType(code, message, meaning, action, cure, severity, next_step)


LOG_DAMAGE: Final = {
    # --- framing: storage.scan --------------------------------------------------------------------------------------
    "torn-tail": LogDamageType(
        "log.torn-tail",
        "The file ends inside a batch, in bytes {position} to {end}: {detail}{lost}.",
        "The last batch extends past the end of the file: an append was interrupted, or a closed file was truncated.",
        "After an unclean shutdown: truncates the log here. After a clean shutdown: appends after these bytes, so that "
        "fetches fail here later.",
        f"{REPAIRED} In the last segment nothing needs to be done after a crash: the next start truncates the log "
        "here.",
    ),
    "zero-filled": LogDamageType(
        "log.zero-filled",
        "Bytes {position} to {end} start with zeros where a batch should be: {detail}{lost}.",
        "The bytes are zeros: preallocated space after the last batch, or a hole that a crash left.",
        "After an unclean shutdown: truncates the log here. After a clean shutdown, at the end of the last segment: "
        "does not start.",
        f"{REPAIRED} At the end of the last segment nothing needs to be done after a crash: the next start truncates "
        "the log here.",
    ),
    "bad-length": LogDamageType(
        "log.bad-length",
        "Bytes {position} to {end} do not form batches: {detail}{lost}.",
        "The length of a batch is impossible, is too small for its magic, or passes the end of the file.",
    ),
    "unknown-magic": LogDamageType(
        "log.unknown-magic",
        "Bytes {position} to {end} do not form a batch: {detail}{lost}.",
        "The magic is of no known format.",
        "Keeps the batch if its checksum is good, as one of a later release. Treats other bytes like log.bad-length.",
    ),
    "crc-mismatch": LogDamageType(
        "batch.crc-mismatch",
        "The batch in bytes {position} to {end} is damaged: {detail}{lost}.",
        "The stored checksum of a batch is not the checksum of its bytes.",
    ),
    "over-limit": LogDamageType(
        "batch.over-limit",
        "Bytes {position} to {end} were not checked: {detail}{lost}.",
        "The batch is larger than --max-batch-bytes and was skipped.",
        "Reads the batch: the limit is kafkalog's own. In recovery, releases 0.8.1 to 0.10.2 truncate the log at a "
        "message larger than max.message.bytes.",
        "Raise --max-batch-bytes, if the size may be right.",
        next_step=RAISE_LIMIT,
    ),
    "unreadable": LogDamageType(
        "log.unreadable",
        "Bytes {position} to {end} cannot be read from the disk: {detail}{lost}.",
        "The disk cannot read some bytes, and so the batch that they are in.",
        "Does not start if it recovers the segment. Else it starts, and closes the connection of each fetch that "
        "reaches this place.",
        "Stop the broker and copy the disk (ddrescue) first. Then copy the partition from a healthy replica.",
        next_step=None,
    ),
    "offset-order": LogDamageType(
        "batch.offset-order",
        "The batch at byte {position} has impossible offsets: {detail}.",
        "The offsets of a complete batch are below those of the batch before it, or below the base offset in the file "
        "name.",
        "In recovery it empties the segment and deletes all later ones, or does not start, or does not notice, "
        f"depending on where index entries are. Otherwise it serves the batch. {CONSUMERS}",
    ),
    # --- payload under a good checksum: format.decode -----------------------------------------------------------------
    "payload": _payload("batch.payload", "The codec cannot decompress the records."),
    "payload-limit": _payload(
        "batch.payload-limit",
        "Compressed records are larger than --max-batch-bytes when decompressed, or are in more than 262,144 parts.",
        "Reads them: the limit is kafkalog's own.",
        "Raise --max-batch-bytes, if the size may be right.",
        next_step=RAISE_LIMIT,
    ),
    "payload-truncated": _payload("batch.payload-truncated", "The compressed records end early."),
    "payload-trailing": _payload(
        "batch.payload-trailing",
        "There are bytes after the end of the compressed records. Kafka ignores them; the records were read.",
        _served("Ignores them.", ""),
        severity="warning",
    ),
    "payload-checksum": _payload(
        "batch.payload-checksum",
        "The checksum or the size of the content in an lz4 frame is wrong. Kafka verifies neither; the records were "
        "read, and may be damaged.",
        _served("Does not verify it.", ""),
        "Compare the records with another replica (kafkalog dump --records).",
        message="In the batch at byte {position}: {detail}.",
        severity="warning",
        next_step=DUMP_RECORDS,
    ),
    "payload-dependent": _payload(
        "batch.payload-dependent",
        "The blocks of an lz4 frame depend on each other, which Java's code refuses. The records were read.",
        message="In the batch at byte {position}: {detail}.",
    ),
    "payload-flags": _payload(
        "batch.payload-flags",
        "Reserved flags are set in the header of a gzip stream. Kafka does not look at them; the records were read.",
        _served("Ignores them.", ""),
        message="In the batch at byte {position}: {detail}.",
        severity="warning",
    ),
    "payload-window": _payload(
        "batch.payload-window",
        "A zstd frame asks for a window of more than 128 MiB, which Java's code refuses. The records were read.",
        message="In the batch at byte {position}: {detail}.",
    ),
    "wrapper-value": _payload(
        "batch.wrapper-value", "A compressed message has no value, or its key and value lengths do not fit."
    ),
    "record-length": _payload("record.length", "The length of a record is negative or passes the end of its batch."),
    "record-varint": _payload("record.varint", "A variable-length integer is truncated or too long."),
    "record-key": _payload("record.key", "A key passes the end of its record."),
    "record-value": _payload("record.value", "A value passes the end of its record."),
    "record-headers": _payload(
        "record.headers", "Headers pass the end of their record, or have a negative count or length."
    ),
    "record-trailing": _payload(
        "record.trailing", "The fields of a record end before its length does, or the record has no fields."
    ),
    "record-count": _payload(
        "batch.record-count", "The record count is negative, or there are bytes after the last record."
    ),
    "header-contradiction": _payload(
        "batch.header-contradiction",
        "The offsets and the record count of a complete batch contradict each other.",
        _served("Does not compare them when it loads the log.", ""),
        message="The header of the batch at byte {position} contradicts itself: {detail}.",
    ),
    "record-offset": _payload(
        "record.offset-outside",
        "A record of a complete batch has an offset outside the offsets of the batch.",
        _served("Does not compare them when it loads the log.", ""),
        message="In the batch at byte {position}: {detail}.",
    ),
    "headers-limit": _payload("record.headers-limit", "A record has more than a million headers."),
    "message-length": _payload("record.inner-length", "The size of an inner message is impossible."),
    "message-key": _payload("record.inner-key", "The key of an inner message passes its end."),
    "message-value": _payload("record.inner-value", "The value of an inner message passes its end."),
    "message-magic": _payload("record.inner-magic", "An inner message has an unknown magic."),
    "message-nested": _payload(
        "record.inner-nested",
        "A compressed message contains a compressed message. Kafka 0.7 wrote such messages, and so did producers that "
        "compressed again what they sent again. kafkalog dump --records --resync shows the records of both.",
    ),
    "message-cut": _payload(
        "record.inner-cut",
        "The inner messages end inside a message. Those before it were read.",
        severity="warning",
        next_step=None,
    ),
    "message-crc": _payload(
        "record.inner-crc",
        "A message inside a compressed one has a wrong checksum of its own, although the outer checksum is right. "
        "Whether a consumer verifies it depends on the client.",
        message=(
            "In the batch at byte {position}, which ends at offset {last}, the message at offset {offset} has a wrong "
            "checksum of its own, although the checksum of the whole batch is right."
        ),
    ),
    "message-empty": _payload("batch.wrapper-empty", "A compressed message contains no whole message."),
    "message-offset": _payload("record.inner-offset", "Relative inner offsets pass the offset of their wrapper."),
}

ZERO_TAIL: Final = "log.zero-tail"
STARTS_LATER: Final = {"old-release": "log.needs-later-release", "first-offset": "log.first-offset-back"}
"""The finding of each problem of a start (`LoadProblem.kind`) that a later release does not have."""

DAMAGE_CODES: Final = {reason: damage.code for reason, damage in LOG_DAMAGE.items()}
"""The code of every reason of `LOG_DAMAGE`; zeros up to the end of a file are `ZERO_TAIL`."""
DAMAGE_REASONS: Final = {code: reason for reason, code in DAMAGE_CODES.items()} | {ZERO_TAIL: "zero-filled"}
"The reason of damage by code."


_COPY: Final = "Copy the partition from a healthy replica"
_COMPARE: Final = (
    "Compare the batch with another replica (kafkalog dump --batches). If they differ, copy the partition from the "
    "healthy one."
)
_WRITTEN_SO: Final = (
    "The checksum is good, so the batch was written this way. kafkalog dump --records shows what can be read."
)


def _odd(message: str, meaning: str) -> FindingType:
    """Return the warning about a batch whose records can be read, but not by all clients."""
    message = f"In the batch at byte {{position}}, which ends at offset {{last}}, {message}"
    return FindingType(
        "warning", message, _served("Loads the batch.", ""), _WRITTEN_SO, meaning, next_step=DUMP_RECORDS
    )


_HEADERS: Final = {
    "batch.epoch-back": FindingType(
        "error",
        "The batch at byte {position}, offset {offset}, has leader epoch {epoch}, but the batch {where} it has "
        "{beside}: leader epochs never go back.",
        "Loads the batch. When it rebuilds the leader epochs it drops those that contradict each other; a follower "
        "may then truncate its log at a wrong offset.",
        _COMPARE,
        "Leader epochs never go back in a log. No checksum protects this field: of two batches that contradict each "
        "other, the finding names the one that does not fit the batches around it.",
        next_step=DUMP_BATCHES,
    ),
    "batch.bad-epoch": FindingType(
        "error",
        "The batch at byte {position}, offset {offset}, has leader epoch {epoch}, which no leader has.",
        "Loads the batch, and treats it as a batch without an epoch.",
        _COMPARE,
        "Leader epochs are -1 (none) or start from 0. No checksum protects this field.",
        next_step=DUMP_BATCHES,
    ),
    "batch.timestamp-order": FindingType(
        "warning",
        "The batch at byte {position}, offset {offset}, starts at timestamp {first}, but its header gives {largest} "
        "as the largest one.",
        "Uses the largest timestamp for searches by time and for retention, and no other.",
        "Nothing needs to be done on the disk. Check the clock and the code of the producer.",
        "The first timestamp of a batch is above the largest one. The producer does not count from the timestamp of "
        "its first record, or the header is wrong.",
    ),
    "batch.unknown-attributes": FindingType(
        "warning",
        "The batch at byte {position}, offset {offset}, has attributes {attributes:#06x}: some of these "
        "bits are unused in magic {magic}.",
        "Ignores them.",
        "If a later release wrote the batch, nothing needs to be done. Else compare the batch with another replica.",
        "No known release writes these attribute bits: a later release or an unusual producer set them.",
    ),
    "batch.unknown-codec": FindingType(
        "error",
        "The batch at byte {position}, offset {offset}, is compressed with codec {codec}, which does not exist in "
        "magic {magic}.",
        _served("Loads the batch, because recovery does not check the codec."),
        _SKIP,
        "The codec id is unknown, or is zstd in a message of magic 0 or 1: the records cannot be read.",
        next_step=DUMP_RECORDS,
    ),
    "batch.compressed-empty": FindingType(
        "error",
        "The batch at byte {position}, offset {offset}, is compressed with {codec}, but counts no record.",
        _served("Loads the batch.", ""),
        _SKIP,
        "The log cleaner writes the batches from which it removes all records without compression.",
        next_step=DUMP_BATCHES,
    ),
    "segment.offset-overflow": FindingType(
        "error",
        "The batch at byte {position} ends at offset {offset}, more than 2147483647 above the segment's base offset.",
        "Splits the segment when it recovers it, as after an unclean shutdown (2.0 and later), and does not start if "
        "that fails. Else it loads the segment as it is. Older releases cannot index the batches after it.",
        "If the offset is right, kafkalog recover splits the segment as a broker of 2.0 or later does. If it is wrong, "
        "copy the partition from a healthy replica, because the log would end at a wrong offset.",
        "The offset is too far from the base offset for any index. Old cleaners wrote such segments, but a damaged "
        "offset looks the same, because no checksum protects it.",
        next_step=RECOVER,
    ),
    "batch.future-timestamp": FindingType(
        "warning",
        "Timestamps are more than a day in the future, the largest, {largest} ms, {days} days; batches with such "
        "timestamps: {count}, the first at byte {position}.",
        "Does not delete the segment, nor any segment after it, by retention.ms before that time. It may roll new "
        "segments too early.",
        "Free the space with retention.bytes or kafka-delete-records.sh. message.timestamp.after.max.ms (3.6 and "
        "later) refuses such records.",
        "The clock or the time unit of a producer is wrong, or the clock of this machine.",
    ),
    "batch.negative-timestamp": FindingType(
        "warning",
        "Timestamps are negative but not -1 (no timestamp); batches with such timestamps: {count}, the first at byte "
        "{position}.",
        "Ignores them when it searches by time.",
        "Nothing needs to be done on the disk. Check the clock and the code of the producer.",
        "The timestamps are before 1970.",
    ),
}

_RECORDS: Final = {
    "record.offset-order": FindingType(
        "error",
        "In the batch at byte {position}, offsets {first} to {last}, the record at offset {offset} is not above the "
        "record before it.",
        _served("Loads the batch.", ""),
        _WRITTEN_SO,
        "Offsets in a batch always increase.",
        next_step=DUMP_RECORDS,
    ),
    "record.wrapper-overlap": FindingType(
        "error",
        "The compressed message at byte {position} starts with offset {offset}, but the batch before it has reached "
        "this offset already; its own offset is {last}.",
        _served("Loads the message.", ""),
        f"{_COPY}. kafkalog dump --records shows the offsets.",
        "The offset of a compressed message of magic 0 or 1 is above the batch before it, but the offsets of the "
        "messages inside are not.",
        next_step=DUMP_RECORDS,
    ),
    "record.wrapper-end": FindingType(
        "error",
        "The last message inside the compressed message at byte {position} has offset {offset}, but the compressed "
        "message has {last}.",
        _served("Loads the message, and uses only the outer offset.", ""),
        f"{_COPY}. kafkalog dump --records shows the offsets.",
        "A compressed message has the offset of its last inner message. No checksum protects the outer offset.",
        next_step=DUMP_RECORDS,
    ),
    "record.timestamp-over-max": FindingType(
        "warning",
        "In the batch at byte {position} the record at offset {offset} has timestamp {timestamp}, but the header "
        "gives {largest} as the largest timestamp.",
        "Skips the batch when it searches by time. Retention may delete the record too early.",
        "Nothing needs to be done on the disk. Raise retention.ms if retention would delete the record too early.",
        "A record is younger than the largest timestamp in the header of its batch, which a leader computes itself.",
    ),
    "record.negative-length": _odd(
        "the record at offset {offset} has a key, value or header value whose length is negative, but not -1.",
        "The length -1 means that there is no key or value. kafkalog reads every negative length as -1.",
    ),
    "record.header-key": _odd(
        "a header key of the record at offset {offset} is not UTF-8.", "Header keys are text in UTF-8."
    ),
    "record.other-magic": _odd(
        "the message at offset {offset} has another magic than the compressed message that holds it.",
        "A compressed message has the magic of the messages in it.",
    ),
    "record.timestamp-under-max": FindingType(
        "warning",
        "The header of the batch at byte {position}, offsets {first} to {last}, gives {largest} as the largest "
        "timestamp, but the largest of its records is {timestamp}.",
        "When it searches by time, it may not look into later segments, and then finds no record. Retention may keep "
        "the segment too long.",
        "Nothing needs to be done on the disk.",
        "No record has the largest timestamp in the header of its batch, which a leader computes itself.",
    ),
    "record.control-key": FindingType(
        "error",
        "In the control batch at byte {position} the key of the record at offset {offset} is not the key of a control "
        "record: {detail}.",
        "Does not start if it replays this batch, now and at every later start. It replays batches with a producer id "
        "alone.",
        f"{_COPY}. {_WRITTEN_SO}",
        "The key of a control record holds a version (0 or above) and a type, 2 bytes each.",
        next_step=DUMP_RECORDS,
    ),
    "record.control-value": FindingType(
        "error",
        "In the control batch at byte {position} the value of the record at offset {offset} cannot be read: {detail}.",
        "Does not start if it replays this batch, now and at every later start. It replays batches with a producer id "
        "alone.",
        f"{_COPY}. {_WRITTEN_SO}",
        "The value of a control record depends on its type: the end of a transaction, or a change of leader.",
        next_step=DUMP_RECORDS,
    ),
    "record.control-type": FindingType(
        "warning",
        "The control record at offset {offset}, in the batch at byte {position}, has type {kind}, which no known "
        "release writes.",
        "Skips the record. If the batch has a producer id, the broker does not start when it replays it.",
        "If a later release wrote the record, use that release. Else copy the partition from a healthy replica.",
        "A later release wrote the control record, or its key is wrong.",
    ),
    "record.marker-count": FindingType(
        "error",
        "The control batch at byte {position}, which ends a transaction, holds more than one record.",
        "Reads only the first record.",
        _WRITTEN_SO,
        "The end of a transaction is a batch of exactly one record.",
        next_step=DUMP_RECORDS,
    ),
}

_ENDS: Final = {
    "log.end-hidden": FindingType(
        "error",
        "From the last entry of the offset index on the broker does not find the last whole batch, so it takes offset "
        "{offset} as the log end offset, although the log holds offset {last}.",
        "Hides the records from that offset on after a clean shutdown, and assigns their offsets again.",
        f"Start no broker on it yet. {REPAIRED}",
        "After a clean shutdown a broker searches the log end offset from the last index entry on, and computes no "
        "checksum (LogSegment.readNextOffset).",
        next_step=RECOVER,
    ),
    STARTS_LATER["old-release"]: FindingType(
        "error",
        "The next start reads the batch at byte {position} to rebuild the producer state. It is a control batch whose "
        "record the log cleaner has removed. Nothing is damaged.",
        "Does not start: releases 0.11 to 1.1 fail at such a batch (NoSuchElementException). Release 2.0 and later "
        "start.",
        "Start release 2.0 or later on the log directory, and do not truncate the log. To start this release, write "
        "the producer snapshot at the log end with kafkalog reindex, and then mark the log directory as cleanly shut "
        "down with kafkalog checkpoint --mark-clean: the start then reads the snapshot, and not the log.",
        "The log cleaner keeps a control batch without its record where a producer's last batch is needed. Releases "
        "before 2.0 ask each control batch for its first record (ProducerAppendInfo.append).",
        next_step="kafkalog checkpoint {above} --mark-clean --apply",
    ),
    STARTS_LATER["first-offset"]: FindingType(
        "error",
        "The compressed message at byte {position} begins with an offset that the message before it has too: "
        "{problem}.",
        "Does not start: releases before 2.0 add the first offset of a compressed message to the index. Release 2.0 "
        "and later add its last offset, and start.",
        "Start release 2.0 or later on the log directory, and do not truncate the log. To start this release, copy the "
        "partition from a healthy replica, or truncate the log at the offset after the message before this one: "
        "kafkalog truncate --to-offset.",
        "The offsets in an index increase (OffsetIndex.append). A compressed message of magic 0 or 1 has its last "
        "offset outside, and the first one inside.",
        next_step=START_LATER,
    ),
    "log.stops-broker": FindingType(
        "error",
        "The start of a broker fails here: {problem}.",
        "Does not start.",
        REPAIRED,
        "The simulated start of a broker on the partition fails, and no other finding says why.",
        next_step=RECOVER,
    ),
    "log.end-unreadable": FindingType(
        "error",
        "The broker reads the batch at byte {position} when it searches the log end offset, and fails: {why}.",
        "Does not start after a clean shutdown.",
        f"Start no broker on it yet. {REPAIRED}",
        "After a clean shutdown a broker searches the log end offset from the last index entry on. Since 4.1 it reads "
        "base offsets there, and decompresses a batch that seems to be a compressed message (FileRecords).",
        next_step=RECOVER,
    ),
}

LOGS: Final = {
    **{damage.code: damage.finding_type() for damage in LOG_DAMAGE.values()},
    # normal after a crash, but after a clean shutdown a broker does not start: the check of the directory decides
    ZERO_TAIL: LOG_DAMAGE["zero-filled"]
    .finding_type()
    ._replace(
        severity="warning",
        message="The file ends with {size_bytes} zero bytes, from byte {position} on{lost}.",
    ),
    **_HEADERS,
    **_RECORDS,
    **_ENDS,
}


OF_ONE_BATCH: Final = frozenset(LOGS) - {
    *_ENDS,
    "batch.future-timestamp",
    "batch.negative-timestamp",
    "segment.offset-overflow",
}
"""The findings that say what is wrong with the batch at their position; the others are about a file, or a start."""
