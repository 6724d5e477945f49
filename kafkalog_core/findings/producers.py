"""Findings about producers: their batches in order, transactions, the transaction index and the snapshots."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL, FindingType

__all__ = ["PRODUCERS"]

_REPLAYED: Final = "Says so in its log at most: a broker that loads a log replays it without these checks."
_WRITTEN_SO: Final = (
    "No command repairs it: other replicas hold the same batches if they were written like this. Compare one "
    "of them; where it differs, copy the partition from it"
)
_DROP_TXNINDEX: Final = (
    "With the broker stopped, kafkalog reindex rebuilds it from the log. Without the .index of the segment too "
    "the next start would do so, and truncate its log at the first bad batch."
)
_DROP_SNAPSHOT: Final = (
    "With the broker stopped, kafkalog reindex writes it again, with the state of the producers in the log. By hand: "
    "delete it, and the next start builds the state from the snapshot before it. If it is the only one, delete "
    f"{CLEAN_MARK} too, or the state of all producers is forgotten. {MARK_OF_ALL}"
)

PRODUCERS: Final = {
    # --- batches in order ---------------------------------------------------------------------------------------------
    "producer.sequence-gap": FindingType(
        "warning",
        "Producer {producer} continues with sequence {actual}, but {expected} was expected: {missing} records "
        "are missing.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "Sequence numbers of a producer are missing in one epoch. Batches of it were lost, or compaction has taken "
        "them away in a log that does not show it otherwise.",
    ),
    "producer.sequence-back": FindingType(
        "warning",
        "Producer {producer} goes back to sequence {actual}, but {expected} was expected.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "A leader refuses such a batch, unless it had forgotten the producer. Batches were put in another order, or "
        "into another file.",
    ),
    "producer.duplicate-batch": FindingType(
        "warning",
        "A batch of producer {producer} with sequence {actual} is there twice: the first one is at offset {related}.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "Epoch and sequence numbers are those of one of the producer's last five batches, which a leader never appends "
        "again: its records are there twice.",
    ),
    "producer.epoch-back": FindingType(
        "warning",
        "Producer {producer} writes with epoch {epoch} after epoch {expected}: it had been fenced.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "A batch of a producer epoch lower than one before it. A leader refuses the batches of a fenced producer.",
    ),
    "producer.epoch-start": FindingType(
        "warning",
        "Epoch {epoch} of producer {producer} starts with sequence {actual} instead of 0: its first batches "
        "are missing.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "The first batch of a new producer epoch does not have sequence 0.",
    ),
    "producer.coordinator-epoch-back": FindingType(
        "warning",
        "A marker of producer {producer} is of coordinator epoch {actual}, after one of {expected}.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "A marker from a transaction coordinator that another one had followed already.",
    ),
    "producer.fields": FindingType(
        "warning",
        "The producer fields of the batch contradict each other: {what}.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "Producer id, epoch, sequence and the transactional bit of a batch do not go together: no broker and no client "
        "of Kafka's own writes them so.",
    ),
    "txn.cut": FindingType(
        "warning",
        "Producer {producer} writes with a new epoch in the transaction open since offset {related}: its marker is "
        "missing.",
        "Goes on with the transaction as if it were the same.",
        f"{_WRITTEN_SO}.",
        "A transaction should have ended before the producer's epoch changed; the marker that ended it is not there.",
    ),
    "txn.plain-inside": FindingType(
        "error",
        "Producer {producer} writes outside of transactions while one is open since offset {related}.",
        "Does not start where its replay of producer state reaches this batch.",
        "Look for the marker of the transaction in another replica and copy the partition from there.",
        "A batch without the transactional bit while its producer has a transaction open: a marker in between is lost.",
    ),
    "txn.marker-unreadable": FindingType(
        "error",
        "A control batch of producer {producer} holds no COMMIT and no ABORT that can be read.",
        "Does not start where its replay of producer state reaches this batch.",
        "Copy the partition from a healthy replica.",
        "Every control batch with a producer is a marker that ends a transaction.",
    ),
    "txn.marker-alone": FindingType(
        "info",
        "A marker of producer {producer} ends no transaction.",
        "Takes it in and does nothing.",
        "Nothing needs to be done.",
        "Normal: a marker that was sent twice, a transaction without data in this partition, data that retention or "
        "compaction has removed.",
    ),
    # --- transaction index --------------------------------------------------------------------------------------------
    "txnindex.odd-version": FindingType(
        "error",
        "Entry {slot} has version {version}; only 0 exists.",
        "Looks at the first of the two bytes alone and takes the entry.",
        _DROP_TXNINDEX,
        "The version of an entry is not 0 in a way that brokers do not notice: its bytes were changed.",
    ),
    "txnindex.missing-entry": FindingType(
        "error",
        "The aborted transaction of producer {producer} at offsets {offset} to {last} has no entry.",
        "Serves its records to read_committed consumers as if it were committed. After an unclean shutdown it "
        "rebuilds the index where it recovers the segment.",
        _DROP_TXNINDEX,
        "The log holds a transaction and its ABORT marker, and the transaction index of the marker's segment does not "
        "name it, or is not there.",
    ),
    "txnindex.unknown-entry": FindingType(
        "error",
        "Entry {slot} names an aborted transaction of producer {producer} at offsets {offset} to {last}, which is not "
        "in the log.",
        "Reports it to read_committed consumers, which may skip records that were committed.",
        _DROP_TXNINDEX,
        "An entry of the transaction index for which the log has no transaction that an ABORT marker of the segment "
        "ends.",
    ),
    "txnindex.wrong-entry": FindingType(
        "error",
        "Entry {slot} has {said}, but the log has {meant}.",
        "Trusts the entry: read_committed consumers may get aborted records, or miss committed ones.",
        _DROP_TXNINDEX,
        "An entry of the transaction index whose marker is in the log, with another producer or another first offset.",
    ),
    "txnindex.last-stable-offset": FindingType(
        "warning",
        "Entry {slot} has last stable offset {said}, but by the log it is {meant}.",
        "Stops its search for aborted transactions too early or too late.",
        _DROP_TXNINDEX,
        "The last stable offset of an entry is not the first offset of the earliest transaction that was open then.",
    ),
    "txnindex.unsorted": FindingType(
        "error",
        "Entry {slot} ends at offset {last}, not after the entry before it, {before}.",
        "Trusts the order: entries may not be found.",
        _DROP_TXNINDEX,
        "Entries of a transaction index are in the order of their markers.",
    ),
    "txnindex.below-base": FindingType(
        "error",
        "Entry {slot} ends at offset {last}, below the segment's base offset {base}.",
        "Recovers the segment at every start, and truncates its log at the first bad batch.",
        "Start the broker: it rebuilds the index. Verify the segment's log before.",
        "The marker of an entry must be in the segment.",
    ),
    "txnindex.partial-entry": FindingType(
        "error",
        "The file has {size_bytes} bytes after the last whole entry.",
        "Ignores them, and appends entries after them that it cannot read later.",
        _DROP_TXNINDEX,
        "The size of a transaction index is not a multiple of 34 bytes.",
    ),
    # --- snapshots ----------------------------------------------------------------------------------------------------
    "snapshot.corrupt": FindingType(
        "error",
        "A broker cannot read it: {problem}.",
        "Deletes it and takes the one before it, from which it reads the log again.",
        "Nothing needs to be done as long as an older snapshot or all of the log is there.",
        "A producer snapshot that is short, has another version than 1, or whose checksum is not that of its bytes.",
    ),
    "snapshot.repeated-producer": FindingType(
        "error",
        "Producer {producer} is there twice.",
        "Takes the last of them.",
        _DROP_SNAPSHOT,
        "A snapshot names every producer once.",
    ),
    "snapshot.later-producer": FindingType(
        "error",
        "Producer {producer} has offset {offset} in it, and the snapshot is of offset {name_offset}.",
        "Trusts it, if it is the newest: takes batches for duplicates that it has not yet read.",
        _DROP_SNAPSHOT,
        "A snapshot holds what producers did before its offset: it was renamed, or its bytes were changed.",
    ),
    "snapshot.beyond-end": FindingType(
        "error",
        "It is of offset {offset}, the log ends at {end}.",
        "Deletes it.",
        "Look for the records after the end of the log: there was a later segment.",
        "A producer snapshot of an offset that the log does not reach.",
    ),
    "snapshot.wrong-state": FindingType(
        "error",
        "Producer {producer} has {said}, but by the log it is {meant}.",
        "Trusts it: may take duplicates for new batches, refuse good ones, or keep a transaction open.",
        _DROP_SNAPSHOT,
        "The state of a producer in a producer snapshot is not the one that the batches before its offset "
        "leave behind.",
    ),
    "snapshot.unknown-producer": FindingType(
        "warning",
        "Producer {producer} has no batch in the log.",
        "Keeps it until it expires.",
        "Nothing needs to be done: it expires a day after its last batch.",
        "A snapshot names a producer that has written nothing in the log. An error where the log is whole from there "
        "on, as then its batches cannot have been removed: the entry was changed.",
    ),
    "snapshot.missing": FindingType(
        "error",
        "There is no producer snapshot of offset {offset}, which a broker wrote {occasion}.",
        "After an unclean shutdown: reads the log again from an older one. After a clean one, if there is none "
        "at all: forgets all producers, and can no longer refuse duplicates.",
        f"Where no snapshot is left, delete {CLEAN_MARK} before the start: the broker then reads the log. "
        f"{MARK_OF_ALL}",
        "Brokers since 2.8 write a snapshot for the base offset of every segment but the first, and for the "
        "end of the log at a clean shutdown.",
    ),
    "snapshot.stray": FindingType(
        "info",
        "No segment starts at its offset {offset}.",
        "Deletes it at its next start, unless it is the newest and above the last base offset.",
        "Nothing needs to be done.",
        "A snapshot of a clean shutdown is kept until the next start.",
    ),
    # --- leader epochs ------------------------------------------------------------------------------------------------
    "epochs.missing-entry": FindingType(
        "error",
        "Leader epoch {epoch}, whose first batch is at offset {offset}, has no entry.",
        "Takes its records for those of the epoch before: followers may truncate at the wrong offset.",
        "Add the line, or copy the file from another replica.",
        "A leader epoch that batches of the log have is not in the leader-epoch-checkpoint.",
    ),
    "epochs.start-unknown": FindingType(
        "info",
        "The first leader epoch of the file starts at offset {offset}, the first segment at offset {first}, and the "
        "log start offset is unknown here.",
        "Serves the log from the log start offset on, which log-start-offset-checkpoint holds for it.",
        "Nothing needs to be done if records below that offset were deleted (kafka-delete-records.sh). Verify the log "
        "directory of the partition to be sure.",
        "A broker that raises the log start offset raises the start of the first leader epoch at once, and the "
        "checkpoint within a minute. Without that checkpoint, and after an unclean shutdown, the file alone "
        "shows it.",
    ),
    "epochs.wrong-start": FindingType(
        "error",
        "Leader epoch {epoch} starts at {said} in the file, but the log has a batch of it at offset {offset}.",
        "Answers followers with the wrong offset: they may truncate records that are good, or keep others.",
        "Mend the line, or copy the file from another replica.",
        "Batches of a leader epoch are before its start offset.",
    ),
    "epochs.early-start": FindingType(
        "error",
        "Leader epoch {epoch} starts at {said} in the file, but the log has batches of epoch {before} up to {offset}.",
        "Answers followers with the wrong offset: they may truncate records that are good, or keep others.",
        "Mend the line, or copy the file from another replica.",
        "Batches of a leader epoch are after the start offset of the next one. Either the line is wrong, or "
        "the leader epoch in the header of a batch, which nothing protects.",
    ),
    "epochs.before-start": FindingType(
        "warning",
        "Leader epoch {epoch} starts at offset {offset}, the log at {start}: what was before is gone from the disk.",
        "Takes the epoch to start with the log, and corrects the file.",
        "Look whether older records should be there: in other replicas, among files that were moved away.",
        "When a broker deletes old segments it also moves the start of the first leader epoch. It has not, so the "
        "segments were taken away by somebody else, or the broker was killed in between.",
    ),
    "epochs.beyond-end": FindingType(
        "error",
        "Leader epoch {epoch} starts at offset {said}, but the log ends at {end}.",
        "Removes the entry at its next start.",
        "Look for the records after the end of the log: they were there when the entry was written.",
        "An entry of the leader-epoch-checkpoint past the end of the log.",
    ),
}
