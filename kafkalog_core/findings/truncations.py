"""Findings of plans that cut logs: what goes, and why something is left alone."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["TRUNCATIONS"]

_REPLICA: Final = "Copy the partition from a healthy replica, if there is one."

TRUNCATIONS: Final = {
    "truncate.cut": FindingType(
        "info",
        "The log ends at offset {offset} afterwards: {what}.",
        "Goes on appending at that offset.",
        "Take it back with kafkalog undo as long as no broker has written to it.",
        "What a plan takes off the end of a log.",
    ),
    "truncate.whole-batch": FindingType(
        "info",
        "Offset {wanted} is inside of the batch of offsets {first} to {last}, which goes as a whole.",
        "Cuts before the whole batch as well.",
        "Nothing needs to be done; name the offset behind the batch to keep it.",
        "Batches are never divided: Kafka's own truncation takes the whole batch away too.",
    ),
    "truncate.open-transactions": FindingType(
        "warning",
        "Transactions are open at the new end ({count}), the first one since offset {offset}: read_committed consumers "
        "stop there until it is ended.",
        "Waits for their markers, which their coordinator may have written already.",
        "Look at what the transaction coordinator knows of them: kafka-transactions.sh find-hanging, then abort.",
        "The cut takes markers of transactions away, or records behind the beginning of some.",
    ),
    "truncate.metadata-log": FindingType(
        "warning",
        "This is the log of the cluster's own metadata: what is cut of it below what its voters agreed on is history "
        "that the cluster loses, or that this node will hold against the others.",
        "Fetches what the other controllers have, or, alone or with a majority that was cut alike, goes on without it.",
        "Where other controllers are healthy, do not cut: remove this one from the quorum and add it anew.",
        "A cut of __cluster_metadata touches topics, partitions and settings of every broker, and neither quorum-state "
        "nor the snapshots beside the log follow it.",
    ),
    "truncate.outside": FindingType(
        "error",
        "The log starts at offset {start}: there is no offset {wanted} in it to cut at.",
        "Empties the log, or leaves it as it is, when it is told to cut there.",
        "Name an offset of the log. To throw all of it away, delete its directory on a stopped broker.",
        "The offset of a cut must be in the log.",
    ),
    "truncate.beyond-end": FindingType(
        "error",
        "The log ends at offset {end} and cannot be cut at offset {wanted}.",
        "Leaves the log unchanged if it has to truncate to an offset after the end.",
        "Name an offset below the end of the log.",
        "The offset of a cut must be in the log.",
    ),
    "truncate.hidden": FindingType(
        "error",
        "Damage at byte {position} ({damage}) hides where offset {wanted} is: this log is left as it is.",
        "Looks for the offset from the nearest index entry on, and may fail at the damage.",
        "Cut at the damage: kafkalog truncate --at-damage. What is behind it: kafkalog dump --resync.",
        "The place of an offset can only be found where the batches before it can be followed.",
    ),
    "truncate.replacement": FindingType(
        "error",
        "The replacement {name} waits to take the place of segments, and would bring back what is cut: this log is "
        "left as it is.",
        "Puts it in its place at its next start.",
        "Let a broker start on a copy of the directory first, or move the file away if it is not wanted.",
        "An interrupted compaction left a finished replacement; a cut beside it would not last.",
    ),
    "truncate.completes": FindingType(
        "warning",
        "A finished replacement waits: {names}. It takes the place of {replaced}.",
        "Puts the replacement in place when it starts, and deletes the files in its range. Since 3.0 it only renames "
        "the replacement; before 3.0 it first recovers the log of the replacement, and cuts it at the first bad batch.",
        "Verify the partition first: kafkalog verify shows whether the replacement is whole. To keep the present "
        "segments instead, move the .swap files out of the partition directory before a broker starts on it.",
        "A broker that starts completes an interrupted compaction or split. The plan shows the records that are lost "
        "with the deleted files.",
    ),
    "truncate.cuts-more": FindingType(
        "warning",
        "The broker truncates this log further after the replacement is in place.",
        "Recovers the log after it has completed the replacement.",
        "Apply this plan, then plan again.",
        "A plan that completes a replacement does nothing else: the next cut depends on the resulting log.",
    ),
    "truncate.end-lost": FindingType(
        "error",
        "The last entry of the offset index leads to a batch that is not whole, so the broker takes offset {offset}, "
        "the base offset of the segment, for the log end offset. The log holds whole batches up to offset {last}. It "
        "is left as it is.",
        "Cuts nothing after a clean shutdown, hides every record of the segment, and assigns their offsets again.",
        "Start no broker on it yet. Cut the log at its first damage, which keeps every batch before it.",
        "After a clean shutdown a broker looks for the log end offset from the last index entry on "
        "(LogSegment.readNextOffset). Where it finds no whole batch there, the base offset is the end.",
    ),
    "truncate.end-misled": FindingType(
        "error",
        "The last entry of the offset index leads to no batch, so the broker takes offset {offset}, the base offset of "
        "the segment, for the log end offset. The log is whole, up to offset {last}. It is left as it is.",
        "Cuts nothing after a clean shutdown, hides every record of the segment, and assigns their offsets again.",
        "Start no broker on it yet. Rebuild the index.",
        "After a clean shutdown a broker looks for the log end offset from the last index entry on "
        "(LogSegment.readNextOffset). An entry that leads past the last batch makes the base offset the end.",
    ),
    "truncate.no-log-dir": FindingType(
        "error",
        "No log directory is around this partition: nobody says how the broker was stopped, and from where it "
        "recovers. It is left as it is.",
        "Goes by the mark of a clean stop and by the recovery point, which stand in its log directory.",
        "Name the partition in its log directory, or cut at the damage: kafkalog truncate --at-damage.",
        "What a broker cuts depends on the mark of a clean stop and on the recovery point.",
    ),
    "truncate.not-foreseen": FindingType(
        "error",
        "What a broker would make of this log is not known: {problem}. It is left as it is.",
        "Cannot be foreseen.",
        "See what is damaged: kafkalog verify. To cut at the first damaged batch: kafkalog truncate --at-damage.",
        "The start of a broker can be played through only as long as every file can be read.",
    ),
    "truncate.split-first": FindingType(
        "error",
        "A broker would split this segment first: {problem}. It is left as it is.",
        "Splits it as it recovers.",
        "Split it first: kafkalog reindex. Then plan again.",
        "Offsets further than 2^31-1 from the base offset do not fit into an index.",
    ),
    "truncate.broker-stops": FindingType(
        "error",
        "A broker does not start on this log: {problem}. There is nothing that it would cut; it is left as it is.",
        "Does not start.",
        "See what is wrong: kafkalog verify. To cut the log at its first damage: kafkalog truncate --at-damage.",
        "The start of a broker, played through, ends here; what it would do behind this place is not known.",
    ),
    "truncate.snapshot-not-made": FindingType(
        "warning",
        "The state of producers at the new end cannot be told, as the log cannot be read at byte {position} "
        "({damage}): no snapshot is made.",
        "Reads the log from an older snapshot, and stops where it cannot be read.",
        "See what is there: kafkalog verify.",
        "A producer snapshot at the end of a log saves a broker from reading all of it.",
    ),
}
