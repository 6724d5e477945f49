"""Findings of `kafkalog excise`: what takes the place of a damaged batch, and what cannot be excised."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import RECOVER, REPAIRED, FindingType

__all__ = ["EXCISIONS"]

_PASSES: Final = "Keeps everything after it: recovery, consumers, followers and the cleaner pass over this place."
_GAP: Final = "Keeps everything after it: it reads over missing offsets, as where compaction has removed messages."

EXCISIONS: Final = {
    "excise.emptied": FindingType(
        "info",
        "Bytes {position} to {end} ({damage}) become an empty batch of offsets {first} to {last}.",
        _PASSES,
        "Run kafkalog undo to reverse it, as long as no broker has written to the log.",
        "Unreadable bytes become what compaction leaves of a batch without records: 61 bytes that keep the offsets, "
        "the leader epoch, and the sequence numbers of the producer.",
    ),
    "excise.removed": FindingType(
        "info",
        "Bytes {position} to {end} ({damage}) are removed, and {what}.",
        _GAP,
        "Run kafkalog undo to reverse it, as long as no broker has written to the log.",
        "Messages of magic 0 and 1 leave a gap, because these formats have no empty batch. Bytes between two batches "
        "that follow each other hold no offset.",
    ),
    "excise.mended": FindingType(
        "info",
        "The batch of offsets {first} to {last} at byte {position} is kept with all its records. Corrected: {fields}.",
        "Reads the corrected batch like any other.",
        "Run kafkalog undo to reverse it, as long as no broker has written to the log.",
        "The checksum of a batch does not cover its base offset, length, leader epoch and magic. If it is right, every "
        "record is there, and the batches around it show these four fields. No last offset is above the last record.",
    ),
    "excise.ordered": FindingType(
        "info",
        "The two batches of offsets {first} to {last}, bytes {position} to {end}, are put in order; every record is "
        "kept.",
        "Reads both.",
        "Run kafkalog undo to reverse it, as long as no broker has written to the log.",
        "Each continues the other, and both together continue the batches around them: they were exchanged.",
    ),
    "excise.moved": FindingType(
        "info",
        "The batches in bytes {position} to {end} get offsets {first} to {last} back; every record is kept. Found: "
        "{problem}.",
        "Reads all of them.",
        "Run kafkalog undo to reverse it, as long as no broker has written to the log.",
        "They follow each other without a gap, and fit exactly where offsets are missing, or continue the log before "
        "them. No checksum covers the offset of a batch.",
    ),
    "excise.unlinked": FindingType(
        "warning",
        "The batch of offsets {first} to {last} at byte {position} is kept with all its records, but names no producer "
        "afterwards (it was {producer_id}), because a start would end there: {problem}.",
        "Reads the batch like any other, and does not know that this producer wrote it.",
        "Restart the producer if it cannot continue. Nothing else needs to be done.",
        "In an open transaction all batches of a producer belong to it: a marker is missing, or a batch was changed.",
    ),
    "excise.marker": FindingType(
        "info",
        "The transaction marker at byte {position} is rebuilt: {proof}.",
        "Ends the transaction there.",
        "Run kafkalog undo to reverse it, as long as no broker has written to the log.",
        "A transaction index or __transaction_state proves the outcome of a transaction whose marker is damaged.",
    ),
    "excise.reconstructed": FindingType(
        "warning",
        "The header at byte {position} is damaged too, so these fields of the empty batch are reconstructed: {fields}.",
        "Uses them as if a producer had written them.",
        "Nothing needs to be done. Compare with another replica, if there is one: kafkalog replicas.",
        "What the damaged header cannot show comes from the batches around it, from leader-epoch-checkpoint, or from a "
        "later producer snapshot.",
    ),
    "excise.marker-lost": FindingType(
        "warning",
        "The transaction marker of producer {producer_id} at offset {offset} becomes an empty batch, because nothing "
        "proves whether it was COMMIT or ABORT.",
        "Takes the records before it for a part of the producer's next transaction, whose marker commits or aborts "
        "them too.",
        "Give --config server.properties if __transaction_state is on another disk of the broker. "
        "Otherwise check these records against another replica.",
        "The outcome of a transaction is proved by its transaction index, or by __transaction_state.",
    ),
    "excise.transaction-open": FindingType(
        "warning",
        "A marker may have been in a place that is excised: the transaction of producer {producer_id} is open "
        "afterwards, from offset {offset} on.",
        "Lets read_committed consumers read no record from that offset on until the transaction ends, and cleans "
        "nothing after it.",
        "Start the broker, and abort the transaction if its coordinator does not end it: kafka-transactions.sh abort.",
        "An empty batch ends no transaction. The marker cannot be rebuilt, because nothing proves its outcome.",
    ),
    "excise.tail": FindingType(
        "warning",
        "The end of the segment, from byte {position} on ({damage}), is truncated too, as the segment is rewritten.",
        "Truncates it when it recovers the segment.",
        "Nothing needs to be done.",
        "No batch follows these bytes, so nothing is lost that a broker would keep.",
    ),
    "excise.refused-tail": FindingType(
        "warning",
        "A broker stops at byte {position} ({damage}), and no batch that can be read follows. The log ends there "
        "afterwards.",
        "Does not start, or takes the log directory offline.",
        "Look for the records on other replicas and in backups.",
        "The checksum of the batch is right, but nothing opens it. Its offsets are assigned again.",
    ),
    "excise.still-broken": FindingType(
        "warning",
        "A broker that recovers this log afterwards still does not keep all of it: {problem}.",
        "Truncates the log there, or does not start.",
        "See what is there: kafkalog verify.",
        "One excision removes one obstacle. Other damage of the partition needs a decision of its own.",
        next_step="kafkalog verify {file}",
    ),
    "excise.producer-forgotten": FindingType(
        "info",
        "The producer that wrote the records of offsets {first} to {last} is not known, so the empty batch names none.",
        "Refuses the next batch of this producer (OutOfOrderSequenceException) if it has not written since.",
        "Restart such a producer if it cannot continue.",
        "The sequence numbers of a producer are in the header of its last batch.",
    ),
    "excise.healthy": FindingType(
        "error",
        "Offset {offset} is in a healthy batch (offsets {first} to {last}, {records}): to excise it would lose records "
        "that every client can read. The log does not change.",
        "Serves the batch.",
        "Check the offset: kafkalog dump --batches shows the batches around it. To lose these records on purpose, "
        "repeat the command with --healthy.",
        "The batch decompresses, its checksum and its fields are right.",
    ),
    "excise.no-batch": FindingType(
        "error",
        "The log has no batch with offset {offset}: {what}. The log does not change.",
        "Returns the next batch after the offset to a consumer that asks for it.",
        "See which offsets there are: kafkalog dump --batches.",
        "Only bytes of the log can be excised.",
        next_step="kafkalog dump {file} --batches",
    ),
    "excise.at-end": FindingType(
        "error",
        "Nothing readable follows offset {offset} ({damage} at byte {position}): the log ends there. It does not "
        "change.",
        "Truncates the log there when it recovers the segment.",
        "Truncate it: kafkalog recover.",
        "With nothing after it there is nothing that an excision could keep. For the last message of magic 0 or 1 an "
        "excision would let a broker assign its offset again.",
        next_step=RECOVER,
    ),
    "excise.others": FindingType(
        "error",
        "The segment has other damaged places, which have to be excised with it: {what}. The log does not change.",
        "Truncates the log at the first of them when it recovers the segment.",
        "Name all of them: kafkalog excise with one --offset for each.",
        "The indexes of a segment are built from all of its batches, so all of them must be readable afterwards.",
    ),
    "excise.left": FindingType(
        "error",
        "The place at byte {position} ({damage}) cannot be excised: {problem}. The log does not change.",
        "Truncates the log there, or does not start.",
        REPAIRED,
        "Only what the simulated recovery of a broker passes is written.",
        next_step=RECOVER,
    ),
    "excise.replacement": FindingType(
        "error",
        "The replacement {name} has not been swapped in yet, and would restore what is excised: this log does not "
        "change.",
        "Completes the swap at its next start.",
        "Let a broker start on a copy of the directory first, or move the file away if you do not need it.",
        "An interrupted compaction left a finished replacement, which would revert the excision.",
    ),
    "excise.metadata-log": FindingType(
        "error",
        "This is the cluster's metadata log, in which nothing can take the place of a batch. It does not change.",
        "Refuses a batch without records in this log.",
        "If other controllers are healthy, remove this one from the quorum and add it again. Otherwise truncate the "
        "log: kafkalog recover.",
        "Kafka's raft client stops at a batch without records, so an excision would stop every controller.",
        next_step=RECOVER,
    ),
    "excise.old-format": FindingType(
        "error",
        "The log has the format of Kafka 0.7, whose offsets are byte positions: to remove bytes would move all later "
        "messages. It does not change.",
        "Truncates the last file at its first damaged message.",
        "Truncate it: kafkalog recover.",
        "In Kafka 0.7 the address of a message is its position in the log.",
        next_step=RECOVER,
    ),
}
