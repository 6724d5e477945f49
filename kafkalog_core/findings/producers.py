"""Findings about producers: their batches in order, transactions, the transaction index and the snapshots."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL, RECOVER, UNLESS_RECOVERED, FindingType, Variant

__all__ = ["PRODUCERS"]

_REPLAYED: Final = "Logs it at most: a broker that loads a log replays it without these checks."
_WRITTEN_SO: Final = (
    "No command repairs it: if the batches were written this way, other replicas have the same. Compare the batch "
    "with another replica; if it differs, copy the partition from there"
)
_DROP_TXNINDEX: Final = (
    "With the broker stopped, kafkalog recover rebuilds it from the log. A start without the .index of the segment "
    "rebuilds it too, but also truncates the log at its first bad batch."
)
_DROP_SNAPSHOT: Final = (
    "With the broker stopped, kafkalog recover writes it again from the log. By hand: delete it, and the next start "
    f"builds the state from the snapshot before it. If it is the only snapshot, delete {CLEAN_MARK} too, or the "
    f"broker forgets the state of all producers. {MARK_OF_ALL}"
)

PRODUCERS: Final = {
    # --- batches in order ---------------------------------------------------------------------------------------------
    "producer.sequence-gap": FindingType(
        "warning",
        "Producer {producer} continues with sequence {actual}, but {expected} was expected: {missing} records are "
        "missing.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "Sequence numbers of a producer are missing in one epoch: batches were lost, or compaction removed them from "
        "a log that shows no other sign of compaction.",
    ),
    "producer.sequence-back": FindingType(
        "warning",
        "Producer {producer} goes back to sequence {actual}, but {expected} was expected.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "A leader refuses such a batch, unless it has forgotten the producer. Batches were reordered, or put into "
        "another file.",
    ),
    "producer.duplicate-batch": FindingType(
        "warning",
        "A batch of producer {producer} with sequence {actual} is duplicated: the first one is at offset {related}.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "The epoch and the sequence numbers repeat those of one of the producer's last five batches, which a leader "
        "never appends again: the records are duplicated.",
    ),
    "producer.epoch-back": FindingType(
        "warning",
        "Producer {producer} writes with epoch {epoch} after epoch {expected}, although it had been fenced.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "A batch has a lower producer epoch than a batch before it. A leader refuses the batches of a fenced producer.",
    ),
    "producer.epoch-start": FindingType(
        "warning",
        "Epoch {epoch} of producer {producer} starts with sequence {actual} instead of 0: its first batches are "
        "missing.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "The first batch of a new producer epoch does not have sequence 0.",
    ),
    "producer.coordinator-epoch-back": FindingType(
        "warning",
        "A marker of producer {producer} has coordinator epoch {actual}, after a marker with {expected}.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "The marker comes from a transaction coordinator that another one had already replaced.",
    ),
    "producer.fields": FindingType(
        "warning",
        "The producer fields of the batch contradict each other: {what}.",
        _REPLAYED,
        f"{_WRITTEN_SO}.",
        "The producer id, epoch, sequence and transactional bit of a batch contradict each other: no broker and no "
        "Kafka client writes such a batch.",
    ),
    "txn.cut": FindingType(
        "warning",
        "Producer {producer} writes with a new epoch in the transaction open since offset {related}: its marker is "
        "missing.",
        "Continues the same transaction.",
        f"{_WRITTEN_SO}.",
        "A transaction ends before the producer's epoch changes, but its marker is missing.",
    ),
    "txn.plain-inside": FindingType(
        "error",
        "Producer {producer} writes a non-transactional batch while it has had a transaction open since offset "
        "{related}.",
        "Does not start where its replay of producer state reaches this batch.",
        "Look for the marker of the transaction in another replica and copy the partition from there.",
        "A batch without the transactional bit comes while its producer has a transaction open: a marker before it "
        "was lost.",
        next_step=RECOVER,
    ),
    "txn.marker-unreadable": FindingType(
        "error",
        "A control batch of producer {producer} has no readable COMMIT or ABORT.",
        "Does not start where its replay of producer state reaches this batch.",
        "Copy the partition from a healthy replica.",
        "Every control batch with a producer is a marker that ends a transaction.",
        next_step=RECOVER,
    ),
    "txn.marker-alone": FindingType(
        "info",
        "A marker of producer {producer} ends no transaction.",
        "Loads it without effect.",
        "Nothing needs to be done.",
        "This is normal: a marker was sent twice, the transaction has no data in this partition, or retention or "
        "compaction has removed its data.",
    ),
    # --- transaction index --------------------------------------------------------------------------------------------
    "txnindex.odd-version": FindingType(
        "error",
        "Entry {slot} has version {version}, but only version 0 exists.",
        "Reads only the first of the two bytes and accepts the entry.",
        _DROP_TXNINDEX,
        "The version of an entry is not 0, but brokers do not notice: its bytes were changed.",
        next_step=RECOVER,
    ),
    "txnindex.missing-entry": FindingType(
        "error",
        "The aborted transaction of producer {producer} at offsets {offset} to {last} has no entry.",
        f"Serves its records to read_committed consumers as committed{UNLESS_RECOVERED}.",
        _DROP_TXNINDEX,
        "The log holds a transaction and its ABORT marker, but the transaction index of the marker's segment has no "
        "entry for it, or is missing.",
        next_step=RECOVER,
    ),
    "txnindex.unknown-entry": FindingType(
        "error",
        "Entry {slot} names an aborted transaction of producer {producer} at offsets {offset} to {last}, which is not "
        "in the log.",
        "Reports it to read_committed consumers, which may skip records that were committed" + UNLESS_RECOVERED + ".",
        _DROP_TXNINDEX,
        "For an entry of the transaction index, the log has no transaction that an ABORT marker of the segment ends.",
        next_step=RECOVER,
    ),
    "txnindex.wrong-entry": FindingType(
        "error",
        "Entry {slot} has {said}, but the log has {meant}.",
        f"Trusts the entry{UNLESS_RECOVERED}: read_committed consumers may get aborted records, or miss committed "
        "ones.",
        _DROP_TXNINDEX,
        "The marker of an entry is in the log, but with another producer or another first offset.",
        next_step=RECOVER,
    ),
    "txnindex.last-stable-offset": FindingType(
        "warning",
        "Entry {slot} has last stable offset {said}, but by the log it is {meant}.",
        "Ends its search for aborted transactions too early or too late.",
        _DROP_TXNINDEX,
        "The last stable offset of an entry is not the first offset of the earliest transaction that was open then.",
    ),
    "txnindex.unsorted": FindingType(
        "error",
        "Entry {slot} ends at offset {last}, not after the entry before it, {before}.",
        "Relies on the order: it may miss entries.",
        _DROP_TXNINDEX,
        "The entries of a transaction index are in the order of their markers.",
        next_step=RECOVER,
    ),
    "txnindex.below-base": FindingType(
        "error",
        "Entry {slot} ends at offset {last}, below the segment's base offset {base}.",
        "Recovers the segment at every start, and truncates its log at the first bad batch.",
        "Verify the log of the segment, then start the broker: it rebuilds the index.",
        "The marker of an entry must be in the segment of the index.",
        next_step=RECOVER,
    ),
    "txnindex.partial-entry": FindingType(
        "error",
        "The file has {size_bytes} bytes after the last whole entry.",
        "Ignores them, and appends entries after them that it cannot read later.",
        _DROP_TXNINDEX,
        "The size of a transaction index is not a multiple of 34 bytes.",
        next_step=RECOVER,
    ),
    # --- snapshots ----------------------------------------------------------------------------------------------------
    "snapshot.corrupt": FindingType(
        "error",
        "A broker cannot read it: {problem}.",
        "Deletes it, and reads the log again from a snapshot before it, or from its start.",
        "Nothing needs to be done while an older snapshot or the whole log exists.",
        "The producer snapshot is too short, has another version than 1, or its stored checksum is not the checksum "
        "of its bytes.",
        next_step=RECOVER,
    ),
    "snapshot.many-producers": FindingType(
        "warning",
        "It has {count} producers, more than the {most} that releases 4.2.2 and 4.4 read.",
        "Releases 4.2.2, 4.4 and later delete it, use the snapshot before it, and read the log from there. Other "
        "releases load it.",
        "Nothing needs to be done while an older snapshot or the whole log exists.",
        "Since 4.2.2 and 4.4 the readers that Kafka generates refuse an array of more than 1,000,000 elements "
        "(ProducerStateManager.loadFromSnapshot catches the CorruptSnapshotException).",
    ),
    "snapshot.repeated-producer": FindingType(
        "error",
        "Producer {producer} has two entries.",
        "Uses the last entry.",
        _DROP_SNAPSHOT,
        "A snapshot has one entry for each producer.",
        next_step=RECOVER,
    ),
    "snapshot.later-producer": FindingType(
        "error",
        "Producer {producer} has offset {offset} in the snapshot of offset {name_offset}.",
        "Trusts the snapshot if it is the newest: it takes batches that it has not read yet for duplicates.",
        _DROP_SNAPSHOT,
        "A snapshot holds the state of producers before its offset: it was renamed, or its bytes were changed.",
        next_step=RECOVER,
    ),
    "snapshot.beyond-end": FindingType(
        "error",
        "The snapshot has offset {offset}, but the log ends at {end}.",
        "Deletes it.",
        "Look for the records after the end of the log: a later segment existed.",
        "The offset of a producer snapshot is after the end of the log.",
    ),
    "snapshot.wrong-state": FindingType(
        "error",
        "Producer {producer} has {said}, but by the log it is {meant}.",
        "Trusts the snapshot: it may take duplicates for new batches, refuse good ones, or keep a transaction open.",
        _DROP_SNAPSHOT,
        "The state of a producer in the snapshot differs from the state after the batches before its offset.",
        next_step=RECOVER,
    ),
    "snapshot.unknown-producer": FindingType(
        "warning",
        "Producer {producer} has no batch in the log.",
        "Keeps it until it expires.",
        "Nothing needs to be done: the producer expires a day after its last batch.",
        "A snapshot names a producer that has no batch in the log. The severity is error if the log is complete from "
        "there on, because its batches cannot have been removed: the entry was changed.",
    ),
    "snapshot.missing": FindingType(
        "error",
        "There is no producer snapshot of offset {offset}, which a broker writes {occasion}.",
        "After an unclean shutdown: reads the log from an older snapshot. After a clean shutdown without any "
        "snapshot: forgets all producers, and can no longer refuse duplicates, unless it recovers a segment, which "
        "writes a snapshot.",
        f"If no snapshot is left, delete {CLEAN_MARK} before the start: the broker then reads the log. {MARK_OF_ALL}",
        "Brokers since 2.8 write a snapshot for the base offset of every segment except the first, and for the log "
        "end offset at a clean shutdown.",
        next_step=RECOVER,
    ),
    "snapshot.stray": FindingType(
        "info",
        "No segment starts at offset {offset}, the offset of the snapshot.",
        "Deletes it at its next start, unless it is the newest and above the last base offset.",
        "Nothing needs to be done.",
        "A broker keeps the snapshot of a clean shutdown until its next start.",
    ),
    # --- leader epochs ------------------------------------------------------------------------------------------------
    "epochs.missing-entry": FindingType(
        "error",
        "Leader epoch {epoch}, whose first batch is at offset {offset}, has no entry.",
        "Assigns its records to the epoch before, if there is one: followers may truncate at the wrong offset. If the "
        "file has no later epoch, a recovery of the segment adds the entry.",
        "Stop the broker and run kafkalog recover, which adds the line. Or copy the file from another replica.",
        "Batches of the log have a leader epoch that is not in the leader-epoch-checkpoint.",
        next_step=RECOVER,
    ),
    "epochs.start-unknown": FindingType(
        "info",
        "The first leader epoch of the file starts at offset {offset}, but the first segment at offset {first}, and "
        "the log start offset is unknown here.",
        "Serves the log from the log start offset on, which log-start-offset-checkpoint holds for it.",
        "If records below that offset were deleted (kafka-delete-records.sh), nothing needs to be done. Verify the "
        "log directory of the partition to be sure.",
        "A broker that raises the log start offset raises the start of the first leader epoch at once, and the "
        "checkpoint within a minute. Without that checkpoint, and after an unclean shutdown, only this file shows it.",
    ),
    "epochs.wrong-start": FindingType(
        "error",
        "Leader epoch {epoch} starts at {said} in the file, but the log has a batch of it at offset {offset}.",
        "Answers followers with the wrong offset: they may truncate good records, or keep others.",
        "Stop the broker and run kafkalog recover, which corrects the line. Or copy the file from another replica.",
        "The log has batches of a leader epoch before the start offset of the epoch.",
        next_step=RECOVER,
    ),
    "epochs.late-first": FindingType(
        "info",
        "The first leader epoch, {epoch}, starts at {said} in the file, but the log has a batch of it at offset "
        "{offset}.",
        "Answers followers with the right offset for each epoch of this log; one that has only earlier epochs gets "
        "{said} in place of {offset}.",
        "Nothing needs to be done: kafkalog recover corrects the line.",
        "A request to delete records (kafka-delete-records.sh) raises this offset at once, and the log start offset in "
        "its checkpoint within a minute: a broker that is killed before that has the records again.",
    ),
    "epochs.early-start": FindingType(
        "error",
        "Leader epoch {epoch} starts at {said} in the file, but the log has batches of epoch {before} up to {offset}.",
        "Answers followers with the wrong offset: they may truncate good records, or keep others.",
        "Stop the broker and run kafkalog recover, which corrects the line. Or copy the file from another replica.",
        "The log has batches of a leader epoch after the start offset of the next one. Either the line is wrong, or "
        "the leader epoch in the header of a batch, which no checksum protects.",
        next_step=RECOVER,
    ),
    "epochs.before-start": FindingType(
        "warning",
        "Leader epoch {epoch} starts at offset {offset}, but the log at {start}: the records before it are missing on "
        "this disk.",
        "Leaves the line as it is, unless log-start-offset-checkpoint has a later offset for the partition.",
        "Check whether older records should exist: look for them on other replicas and in directories that were moved "
        "aside.",
        "When a broker deletes old segments it also raises the start of the first leader epoch. It has not done so: "
        "somebody else deleted the segments, or the broker was killed in between, or the topic is tiered and "
        "log-start-offset-checkpoint has lost its line.",
        variants=(
            Variant(
                "epochs_from_checkpoint",
                False,
                "Raises the start of the epoch to the start of the log, and corrects the file.",
            ),
        ),
        next_step=RECOVER,
    ),
    "epochs.beyond-end": FindingType(
        "error",
        "Leader epoch {epoch} starts at offset {said}, but the log ends at {end}.",
        "Removes the entry at its next start.",
        "Look for the records after the end of the log: they existed when the entry was written.",
        "An entry of the leader-epoch-checkpoint is past the end of the log.",
        next_step=RECOVER,
    ),
}
