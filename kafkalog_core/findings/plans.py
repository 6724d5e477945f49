"""Findings of the commands that plan or predict: truncate, reindex, roll, compact and retain."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.broker_actions import OFFLINE
from kafkalog_core.findings.kinds import MOVE_FILE, RECOVER, REPAIRED, VERIFY, FindingType

__all__ = ["BEFORE_PLACE", "COMPACTIONS", "IN_FILE", "REINDEXING", "RETENTION", "ROLLING", "TRUNCATIONS"]


_REPLICA: Final = "Copy the partition from a healthy replica, if there is one."

TRUNCATIONS: Final = {
    "truncate.cut": FindingType(
        "info",
        "The log ends at offset {offset} afterwards: {what}.",
        "Takes that offset as the log end offset.",
        "Run kafkalog undo to reverse it, as long as no broker has written to the log.",
        "The part that a plan truncates at the end of a log.",
    ),
    "truncate.whole-batch": FindingType(
        "info",
        "Offset {wanted} is inside the batch of offsets {first} to {last}, which is removed as a whole.",
        "Truncates before the whole batch too.",
        "Nothing needs to be done. To keep the batch, name the offset after it.",
        "A batch is never divided: Kafka's own truncation removes the whole batch too.",
    ),
    "truncate.open-transactions": FindingType(
        "warning",
        "Transactions are open at the new end ({count}), the first since offset {offset}: read_committed consumers "
        "stop there until it ends.",
        "Waits for their markers, which their coordinator may have written already.",
        "Ask the transaction coordinator about them: kafka-transactions.sh find-hanging, then abort.",
        "The truncation removes markers of transactions, or records after their start.",
    ),
    "truncate.metadata-log": FindingType(
        "warning",
        "This is the cluster's metadata log. If the truncation is below the offset that its voters agreed on, the "
        "cluster loses metadata, or this node contradicts the others.",
        "Fetches the missing part from the other controllers. If it is alone, or with a majority that was truncated "
        "alike, it continues without it.",
        "If other controllers are healthy, do not truncate: remove this one from the quorum and add it again.",
        "A truncation of __cluster_metadata changes the topics, partitions and settings of every broker, but neither "
        "quorum-state nor the snapshots next to the log change with it.",
    ),
    "truncate.outside": FindingType(
        "error",
        "The log starts at offset {start}, so it cannot be truncated at offset {wanted}.",
        "Empties the log, or does not change it, if it has to truncate there.",
        "Name an offset of the log. To delete the whole log, stop the broker and delete its directory.",
        "Only an offset in the log can be the new log end offset.",
    ),
    "truncate.beyond-end": FindingType(
        "error",
        "The log ends at offset {end} and cannot be truncated at offset {wanted}.",
        "Does not change the log if it has to truncate to an offset after the end.",
        "Name an offset below the end of the log.",
        "Only an offset in the log can be the new log end offset.",
    ),
    "truncate.hidden": FindingType(
        "error",
        "Damage at byte {position} ({damage}) hides the position of offset {wanted}: this log does not change.",
        "Searches for the offset from the nearest index entry on, and may fail at the damage.",
        f"{REPAIRED} To truncate at the damage: kafkalog truncate --at-damage.",
        "An offset can be found only if the batches before it can be read.",
        next_step=RECOVER,
    ),
    "truncate.replacement": FindingType(
        "error",
        "The replacement {name} has not been swapped in yet, and would restore what is truncated: this log does not "
        "change.",
        "Completes the swap at its next start.",
        "Let a broker start on a copy of the directory first, or move the file away if you do not need it.",
        "An interrupted compaction left a finished replacement, which would revert the truncation.",
    ),
    "truncate.completes": FindingType(
        "warning",
        "A finished replacement has not been swapped in yet: {names}. It replaces {replaced}.",
        "Completes the swap when it starts, and deletes the files in its range. Since 3.0 it only renames the "
        "replacement. Before 3.0 it first recovers the log of the replacement, and truncates it at the first bad "
        "batch.",
        "Verify the partition first: kafkalog verify shows whether the replacement is whole. To keep the present "
        "segments instead, move the .swap files out of the partition directory before a broker starts on it.",
        "A broker that starts completes an interrupted compaction or split. The plan shows the records that are lost "
        "with the deleted files.",
        next_step="kafkalog verify {file}",
    ),
    "truncate.cuts-more": FindingType(
        "warning",
        "The broker truncates this log further after it completes the swap.",
        "Recovers the log after it completes the swap.",
        "Apply this plan, then plan again.",
        "A plan that completes a swap does nothing else, because the next truncation depends on the resulting log.",
        next_step="kafkalog truncate {file} --as-broker",
    ),
    "truncate.end-lost": FindingType(
        "error",
        "The broker takes offset {offset} as the log end offset, although the log holds whole batches up to offset "
        "{last}: where it looks for the end, the log is damaged, or its offsets go back. The log does not change.",
        "Truncates nothing, hides the records from its log end offset on, and assigns their offsets again.",
        f"Start no broker on it yet. {REPAIRED}",
        "The offset after the last batch is the log end offset, whatever is before it. After a clean shutdown a broker "
        "searches that batch from the last index entry on (LogSegment.readNextOffset); if it finds none, the base "
        "offset is the end.",
        next_step=RECOVER,
    ),
    "truncate.end-misled": FindingType(
        "error",
        "The last entry of the offset index points to no batch, so the broker takes offset {offset}, the base offset "
        "of the segment, as the log end offset. The log is whole, up to offset {last}. It does not change.",
        "Truncates nothing after a clean shutdown, hides every record of the segment, and assigns their offsets again.",
        "Start no broker on it yet. Rebuild the index: kafkalog recover.",
        "After a clean shutdown a broker searches the log end offset from the last index entry on "
        "(LogSegment.readNextOffset). If the entry points past the last batch, the base offset is the end.",
        next_step=RECOVER,
    ),
    "truncate.no-log-dir": FindingType(
        "error",
        "The partition is outside a log directory, so it is unknown whether the last shutdown was clean, and what the "
        "recovery point is. The log does not change.",
        "Uses the clean shutdown file and the recovery point, which are in its log directory.",
        "Name the partition in its log directory. See what is damaged, and the command that repairs it: kafkalog "
        "verify.",
        "What a broker truncates depends on the clean shutdown file and on the recovery point.",
        next_step="kafkalog verify {file}",
    ),
    "truncate.not-foreseen": FindingType(
        "error",
        "It is unknown what a broker does with this log: {problem}. The log does not change.",
        "Does something that cannot be predicted.",
        "See what is damaged, and the command that repairs it: kafkalog verify.",
        "The start of a broker can be simulated only if every file can be read.",
        next_step=VERIFY,
    ),
    "truncate.misnamed": FindingType(
        "error",
        "The name of a log file is not its base offset in 20 digits: {problem}. This log does not change.",
        "Creates the empty segment, and recovers or loads the others.",
        "Move the file out of the partition directory, or rename it to its first offset in 20 digits. Then plan again.",
        "What a broker truncates is planned for segments that it reads. kafkalog verify reports such a file as "
        "segment.misnamed.",
        next_step=MOVE_FILE,
    ),
    "truncate.split-first": FindingType(
        "error",
        "A broker splits this segment first: {problem}. The log does not change.",
        "Splits it when it recovers it.",
        "Split it first: kafkalog recover. Then plan again.",
        "An offset more than 2^31-1 above the base offset does not fit into an index.",
        next_step=RECOVER,
    ),
    "truncate.broker-stops": FindingType(
        "error",
        "A broker does not start on this log: {problem}. It truncates nothing, so the log does not change.",
        "Does not start.",
        REPAIRED,
        "The simulated start of a broker fails here. What a broker would do after this place is unknown.",
        next_step=RECOVER,
    ),
    "truncate.broker-offline": FindingType(
        "error",
        "A broker takes the whole log directory offline because of this log: {problem}. It truncates nothing, so the "
        "log does not change.",
        f"{OFFLINE}. It does not start if it has no other log directory.",
        "See what is wrong: kafkalog verify.",
        "The simulated start of a broker cannot read a file of the log. From 1.0 on the other log directories of the "
        "broker stay online (KIP-112).",
        next_step=VERIFY,
    ),
    "truncate.snapshot-not-made": FindingType(
        "warning",
        "The state of producers at the new end is unknown, because the log cannot be read at byte {position} "
        "({damage}): no snapshot is created.",
        "Reads the log from an older snapshot, and stops where it cannot be read.",
        "See what is there: kafkalog verify.",
        "With a producer snapshot at the end of a log, a broker does not have to read all of it.",
    ),
}

BEFORE_PLACE: Final = (
    "Copy the partition from a healthy replica. If there is none, look at the records from this place on (kafkalog "
    "dump --records --resync), and truncate the log before it: kafkalog truncate --to-offset {offset}."
)
"""The cure of `truncate.broker-stops` where the log is not damaged up to the place; the next step is `AT_OFFSET`."""
IN_FILE: Final = "kafkalog verify shows what is wrong with this file, and the command that mends it."
"""The cure of both for a whole file; the next step is `VERIFY`."""

REINDEXING: Final = {
    "reindex.damaged": FindingType(
        "error",
        "The segment is not reindexed, because the log is damaged at byte {position} ({problem}): an index that ends "
        "there would hide the damage.",
        "Depends on its last shutdown and on the other segments: kafkalog verify simulates the start, and reports what "
        "it does here.",
        f"{REPAIRED} To lose this segment from there on: kafkalog reindex --as-broker.",
        "Indexes are built from whole batches. Bytes in the middle of a log that do not form a batch are a loss, and "
        "you have to decide about it: with an index, a broker would serve the part before them as if nothing were "
        "missing.",
        next_step=RECOVER,
    ),
    "reindex.disorder": FindingType(
        "error",
        "The segment is not reindexed, because the offsets in the log do not increase: {problem}.",
        "Depends on its last shutdown and on the other segments: kafkalog verify simulates the start, and reports what "
        "it does here.",
        f"Start no broker on it yet. {REPAIRED}",
        "The offsets in the log go back, but no broker writes this. The checksum of a batch does not protect its "
        "offset.",
        next_step=RECOVER,
    ),
    "reindex.overflow": FindingType(
        "error",
        "The segment is not reindexed, because it can be neither indexed nor split: {problem}.",
        "Does not start if it recovers the segment (after an unclean shutdown, or without an offset index): it can "
        "split a segment only if its last batch is out of reach of its indexes, and all offsets increase. After a "
        "clean shutdown it does not recover a segment that has an index.",
        f"Start no broker on it yet. {REPAIRED}",
        "Offsets in an index are 32 bits, relative to the segment's base offset.",
        next_step=RECOVER,
    ),
    "reindex.index-full": FindingType(
        "error",
        "The segment is not reindexed, because its entries do not fit: {problem}.",
        "Does not start if it has to rebuild the index with these settings.",
        "Raise segment.index.bytes of the topic or index.interval.bytes, also in the broker's settings, and give them "
        "with --set or --topic-config.",
        "segment.index.bytes limits the size of an index. A recovery that needs more entries stops.",
    ),
    "reindex.bad-records": FindingType(
        "error",
        "The segment is not reindexed, because its batches hold impossible values: {problem}.",
        "Does not start when it recovers the segment or replays its producers.",
        f"Start no broker on it yet. {REPAIRED}",
        "The checksums are good, but a transaction marker or a compressed message cannot be read, or a transaction "
        "contradicts itself.",
        next_step=RECOVER,
    ),
    "reindex.over-limit": FindingType(
        "error",
        "The segment is not reindexed, because a batch at byte {position} is over the limit: {problem}.",
        "Reads it: the limit is kafkalog's own.",
        "Raise --max-batch-bytes.",
        "The limit bounds the memory of the command.",
    ),
    "reindex.unread": FindingType(
        "error",
        "The segment is not reindexed, because a file cannot be read or replaced: {problem}.",
        "Takes the log directory offline if it cannot read the file either.",
        "Copy the disk (ddrescue) first, and work on the copy. Check that you have permission to read the file.",
        "A file that cannot be read is not replaced, because it could not be restored.",
    ),
    "reindex.producers-unknown": FindingType(
        "warning",
        "Producer snapshots, transaction indexes and leader epochs from offset {offset} on do not change: the earlier "
        "state of producers is unknown.",
        "Rebuilds them when it recovers the log, or uses them as they are after a clean shutdown.",
        "Repair the segment before it first, then reindex again.",
        "Transactions and producers continue from segment to segment. If a segment cannot be read to its end, their "
        "state is known only from the next correct snapshot on.",
    ),
    "reindex.kept": FindingType(
        "info",
        "Some indexes ({count}) are right, but differ in bytes from those that a recovery writes: they are kept.",
        "Uses them as they are.",
        "Nothing needs to be done. kafkalog reindex --all writes them again.",
        "A broker counts the bytes between two entries from its start, and some releases write one entry for several "
        "batches. Such indexes find every record.",
    ),
    "reindex.no-index": FindingType(
        "info",
        "Kafka 0.7 has no indexes: there is nothing to rebuild.",
        "Reads only the log.",
        "Nothing needs to be done.",
        "In 0.7 an offset is the position of a byte, so a broker needs no index.",
    ),
    "reindex.no-log": FindingType(
        "info",
        "The file belongs to no segment here: it does not change.",
        "Deletes indexes without a log when it starts.",
        "Name a .log file, a partition directory or a log directory.",
        "Indexes are rebuilt from the .log file of the same base offset.",
    ),
}


_NOTHING: Final = "Nothing needs to be done."

ROLLING: Final = {
    "roll.damaged": FindingType(
        "error",
        "The log is damaged at byte {position} ({problem}): rolls are shown only up to there.",
        "Stops here when it recovers the segment, and cannot serve these bytes.",
        "Repair the log first: kafkalog recover. Then run the command again.",
        "The prediction appends the log again batch by batch, and bytes that do not form a batch cannot be appended. "
        "With --apply nothing is written.",
        next_step=RECOVER,
    ),
    "roll.unreadable": FindingType(
        "error",
        "A file cannot be read ({problem}): rolls are shown only up to there.",
        "Takes the whole log directory offline if its own user cannot read it either.",
        "Run the command as the broker's user, or as root. If the disk is damaged: kafkalog verify.",
        "The prediction appends the log again from its first batch on. What follows an unreadable file is unknown.",
    ),
    "roll.torn-tail": FindingType(
        "info",
        "The last {size_bytes} bytes do not form a whole batch ({problem}) and are not counted.",
        "Truncates them when it recovers the segment.",
        _NOTHING + "The log that --apply writes ends before them.",
        "An append was interrupted when the broker stopped.",
    ),
    "roll.not-appendable": FindingType(
        "error",
        "These batches cannot be appended in this order: {problem}.",
        "Refuses the append, or stops when it rebuilds the index.",
        "See what is wrong: kafkalog verify.",
        "The offsets in an index must increase.",
        next_step=VERIFY,
    ),
    "roll.oversized": FindingType(
        "warning",
        "Batches are larger than segment.bytes={limit} ({count}): each gets a segment of its own.",
        "Refuses to append such a batch (RecordBatchTooLargeException), even when a follower fetches it.",
        "Choose a larger segment.bytes.",
        "A batch must fit into a segment. These batches were appended with a larger setting.",
    ),
    "roll.wall-clock": FindingType(
        "info",
        "The log does not show when a segment became older than segment.ms, so no rolls by time are shown: {why}.",
        "Compares the time at which it opened the segment with its own clock.",
        _NOTHING,
        "Since 0.10.1 the age of a segment is the age of its records. Before, and if the first batch of a segment has "
        "no timestamp, the broker's clock counts, and a restart resets it.",
    ),
    "roll.jitter": FindingType(
        "info",
        "A broker subtracts a random number from segment.ms for each segment, at most {most} ms "
        "(segment.jitter.ms={jitter_ms}). The rolls shown do not contain it.",
        "Draws a number when it opens a segment, and again at each restart.",
        "Choose the random numbers with --jitter-seed; a broker draws again when it restarts.",
        "No file holds the number, so the exact rolls of a broker cannot be predicted.",
    ),
    "roll.old-format": FindingType(
        "warning",
        "Rolls cannot be predicted for Kafka 0.7 logs: they have no offsets, and their segments follow other rules.",
        "Does not read it, from 0.8 on.",
        _NOTHING,
        "Rolls are predicted for 0.8.0 and later.",
    ),
    "roll.left-out": FindingType(
        "info",
        "This directory is not a partition that a broker serves: it is not written.",
        "Deletes it, renames it, or continues to fill it.",
        "If you need the directory, move it by hand.",
        "Directories that wait for deletion, are stray, or are being filled do not become part of a new log directory.",
    ),
}


COMPACTIONS: Final = {
    "compaction.clean-fails": FindingType(
        "warning",
        "A clean of this log stops here: {problem}.",
        "Stops cleaning the partition, and tries again only after a restart; it grows until then. Releases before 2.1 "
        "stop cleaning all partitions.",
        "Run kafkalog verify: it reports whether it is damage, and how to repair it.",
        "The cleaner reads every batch of the dirty part, and stops at the first one that it cannot process.",
    ),
    "compaction.not-foreseen": FindingType(
        "warning",
        "It cannot be predicted how a cleaner compacts this log: {problem}.",
        "Does something that cannot be predicted.",
        "See what is there: kafkalog verify.",
        "Compaction can be predicted for logs since Kafka 0.8 whose last segment can be read.",
    ),
    "compaction.over-damage": FindingType(
        "warning",
        "There is damage in this log: {problem}. This command does not clean it.",
        "Cleans the log: its cleaner checks neither checksums nor the order of offsets. It copies such a batch "
        "unchanged, or writes its records again with a good checksum, so that the damage can no longer be seen.",
        "Repair the log first, from a replica if there is one: kafkalog verify names everything that is wrong, and "
        "what repairs it.",
        "A clean would turn visible damage into records that look good.",
    ),
    "compaction.never-ends": FindingType(
        "info",
        "A clean ends at offset {offset}, before offset {bound}: the records between have no offsets or no keys.",
        "Cleans the log again at every check while its dirty ratio is above the setting, although nothing is left to "
        "clean (KAFKA-8764, up to 2.3).",
        "Upgrade to 2.4 or later. Until then it ends when records with keys are appended and rolled.",
        "Cleaners before 2.4 take the last offset or key that they read as the end of the clean part.",
    ),
    "compaction.no-watermark": FindingType(
        "warning",
        "No checkpoint has a high watermark of this log; the log end offset, {offset}, is used instead.",
        "Gets its high watermark from the other replicas when it starts, and cleans nothing above it.",
        "Name the log directory that has replication-offset-checkpoint. If every replica has all records, accept the "
        "log end offset: kafkalog compact with --apply and --assume-defaults. Without --assume-defaults, --apply "
        "refuses.",
        "The cleaner would drop older records in favor of newer ones that may still be truncated.",
    ),
    "compaction.no-room": FindingType(
        "warning",
        "Later cleans are not in the figures: {problem}.",
        "Continues to clean the log.",
        "Give the simulation more memory (--memory) or more disk space: the environment variable TMPDIR names the "
        "directory for temporary files.",
        "If the offset map is full before the bound, the next clean reads the result of this one.",
    ),
    "compaction.replacement": FindingType(
        "error",
        "The replacement {name} has not been swapped in yet: this log is not cleaned while the file exists.",
        "Completes the swap at its next start.",
        "Let a broker start on a copy of the directory first, or move the file away if you do not need it.",
        "An interrupted compaction left a finished replacement. A start would replace the result of this clean with "
        "it.",
    ),
    "compaction.retention-follows": FindingType(
        "info",
        "Its cleanup.policy is compact,delete: retention follows the clean, but is not shown here.",
        "Deletes segments by retention.ms, retention.bytes and the log start offset after each check of its cleaner.",
        "See what retention would delete, and apply it: kafkalog retain.",
        "With both policies the cleaner thread of a broker also deletes old segments; it uses the timestamps that are "
        "left after a clean.",
    ),
}


RETENTION: Final = {
    "retain.future-timestamp": FindingType(
        "warning",
        "The largest timestamp of the segment is {ahead} after now, at {time}: retention by time keeps the segment, "
        "and all segments after it, until {due}.",
        "Keeps the segment and all newer ones. Retention by size and delete-records ignore timestamps.",
        "Find the records: kafkalog dump --times. To delete the segment sooner use kafka-delete-records, or "
        "retention.bytes for a while. message.timestamp.after.max.ms refuses such records.",
        "Producers choose timestamps. Retention keeps a segment with a timestamp in the future, and stops its check "
        "there.",
    ),
    "retain.held-back": FindingType(
        "info",
        "An older segment, which is kept, holds back segments that are due ({segments}, {size}): {why}.",
        "Ends each check at the first segment that it keeps.",
        "If you do not need the space, nothing needs to be done. Else check the segment that holds them back.",
        "Timestamps need not increase. Retention deletes segments from the oldest offset on, never in the middle.",
    ),
    "retain.high-watermark": FindingType(
        "warning",
        "Segments that are due reach above the high watermark {watermark} ({origin}): they are kept until the "
        "replicas have their records.",
        "Deletes them at the first check after the high watermark has risen.",
        "Find out why replicas lag: kafka-topics --describe --under-replicated-partitions.",
        "A broker deletes only records that all in-sync replicas have.",
    ),
    "retain.by-file-time": FindingType(
        "info",
        "A broker finds no timestamp in {segments} ({why}).",
        "Uses the modification time, which a copy without cp -p changes.",
        "If only the time index is missing, kafkalog recover builds it.",
        "Records of formats before 0.10.0 have no timestamps, and a time index can be empty or lost.",
    ),
    "retain.zero-time": FindingType(
        "warning",
        "The last entry of the time index of {segments} is zeros, which a broker takes for the largest timestamp.",
        "Takes them for segments of 1970, and deletes them by time at its first check.",
        "If kafkalog verify reports timeindex.zero-entries, the records are newer: rebuild the index before a broker "
        "starts, with kafkalog recover. Else the records have the timestamp 0, and retention.ms=-1 keeps them.",
        "Copied files of a running broker have space after their entries, and a producer can send the timestamp 0.",
        next_step=RECOVER,
    ),
    "retain.remote-unknown": FindingType(
        "info",
        "The topic is tiered: segments that are due ({segments}, {size}) are deleted from this disk only when they "
        "are in remote storage. This disk does not show which ones are.",
        "Asks the remote log metadata, and deletes the segments that have been copied.",
        "Ask a running broker: kafka-get-offsets --time -5 gives the highest offset in remote storage.",
        "The topic __remote_log_metadata lists the segments in remote storage.",
    ),
    "retain.cleaner-off": FindingType(
        "warning",
        "No thread runs retention here: cleanup.policy is {policy}, so the cleaner would run it, but "
        "log.cleaner.enable is false.",
        "Deletes nothing of this log, however old and large it is.",
        "Set log.cleaner.enable=true, or remove compact from cleanup.policy.",
        "The cleaner threads run the retention of compacted topics.",
    ),
    "retain.not-foreseen": FindingType(
        "warning",
        "Retention of this log cannot be predicted: {problem}.",
        "Does something that cannot be predicted.",
        "See what is there: kafkalog verify.",
        "Retention can be predicted for logs since Kafka 0.8 whose last segment can be read.",
    ),
    "retain.metadata-log": FindingType(
        "info",
        "The cluster's metadata log has its own rules: a node deletes it up to a snapshot, by "
        "metadata.max.retention.ms and metadata.max.retention.bytes.",
        "Deletes the segments that its oldest snapshot covers.",
        "Nothing needs to be done.",
        "The retention of topics does not apply to __cluster_metadata.",
    ),
    "retain.producers-unknown": FindingType(
        "warning",
        "The state of producers at the end of the log is unknown, because the log cannot be read at byte {position} "
        "({damage}): no snapshot is created.",
        "Forgets these producers if it finds no snapshot.",
        "See what is there: kafkalog verify.",
        "If all segments are deleted, a snapshot at the end of the log keeps the known state of its producers.",
    ),
}
