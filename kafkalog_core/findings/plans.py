"""Findings of plans that truncate logs: what is deleted, and why something is left alone."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["COMPACTIONS", "REINDEXING", "RETENTION", "ROLLING", "TRUNCATIONS"]


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
        "Offset {wanted} is within the batch of offsets {first} to {last}, which is removed as a whole.",
        "Cuts before the whole batch as well.",
        "Nothing needs to be done; name the offset after the batch to keep it.",
        "Batches are never divided: Kafka's own truncation takes the whole batch away too.",
    ),
    "truncate.open-transactions": FindingType(
        "warning",
        "Transactions are open at the new end ({count}), the first one since offset {offset}: read_committed consumers "
        "stop there until it is ended.",
        "Waits for their markers, which their coordinator may have written already.",
        "Ask the transaction coordinator about them: kafka-transactions.sh find-hanging, then abort.",
        "The truncation removes markers of transactions, or records after the start of some.",
    ),
    "truncate.metadata-log": FindingType(
        "warning",
        "This is the log of the cluster's own metadata: the cluster loses what is truncated below the offset "
        "that its voters agreed on, or this node contradicts the others.",
        "Fetches what the other controllers have, or, alone or with a majority that was truncated alike, "
        "continues without it.",
        "Where other controllers are healthy, do not truncate: remove this one from the quorum and add it again.",
        "A truncation of __cluster_metadata changes topics, partitions and settings of every broker, and "
        "neither quorum-state nor the snapshots next to the log follow it.",
    ),
    "truncate.outside": FindingType(
        "error",
        "The log starts at offset {start}: it has no offset {wanted} to truncate at.",
        "Empties the log, or leaves it as it is, if it has to truncate there.",
        "Name an offset of the log. To throw all of it away, delete its directory on a stopped broker.",
        "The log must hold the offset of a truncation.",
    ),
    "truncate.beyond-end": FindingType(
        "error",
        "The log ends at offset {end} and cannot be truncated at offset {wanted}.",
        "Leaves the log unchanged if it has to truncate to an offset after the end.",
        "Name an offset below the end of the log.",
        "The log must hold the offset of a truncation.",
    ),
    "truncate.hidden": FindingType(
        "error",
        "Damage at byte {position} ({damage}) hides where offset {wanted} is: this log is left as it is.",
        "Looks for the offset from the nearest index entry on, and may fail at the damage.",
        "Truncate at the damage: kafkalog truncate --at-damage. To see what is after it: kafkalog dump --resync.",
        "The place of an offset can only be found where the batches before it can be followed.",
    ),
    "truncate.replacement": FindingType(
        "error",
        "The replacement {name} waits to take the place of segments, and would bring back what is truncated: "
        "this log is left as it is.",
        "Puts it in its place at its next start.",
        "Let a broker start on a copy of the directory first, or move the file away if it is not wanted.",
        "An interrupted compaction left a finished replacement; a truncation would not last.",
    ),
    "truncate.completes": FindingType(
        "warning",
        "A finished replacement waits: {names}. It takes the place of {replaced}.",
        "Puts the replacement in place when it starts, and deletes the files in its range. Since 3.0 it only "
        "renames the replacement; before 3.0 it first recovers the log of the replacement, and truncates it at "
        "the first bad batch.",
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
        "A plan that completes a replacement does nothing else: the next truncation depends on the resulting log.",
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
        "The partition is outside a log directory, so it is unknown whether the last shutdown was clean, and "
        "where the recovery point is. It is left as it is.",
        "Uses the clean shutdown file and the recovery point, which are in its log directory.",
        "Name the partition in its log directory, or truncate at the damage: kafkalog truncate --at-damage.",
        "What a broker truncates depends on the clean shutdown file and on the recovery point.",
    ),
    "truncate.not-foreseen": FindingType(
        "error",
        "What a broker would make of this log is not known: {problem}. It is left as it is.",
        "Cannot be foreseen.",
        "See what is damaged: kafkalog verify. To truncate at the first damaged batch: kafkalog truncate --at-damage.",
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
        "A broker does not start on this log: {problem}. It would truncate nothing; the log is left as it is.",
        "Does not start.",
        "See what is wrong: kafkalog verify. To truncate the log at its first damage: kafkalog truncate --at-damage.",
        "The simulated start of a broker fails here; what it would do after this place is unknown.",
    ),
    "truncate.snapshot-not-made": FindingType(
        "warning",
        "The state of producers at the new end is unknown, as the log cannot be read at byte {position} "
        "({damage}): no snapshot is made.",
        "Reads the log from an older snapshot, and stops where it cannot be read.",
        "See what is there: kafkalog verify.",
        "A producer snapshot at the end of a log saves a broker from reading all of it.",
    ),
}


REINDEXING: Final = {
    "reindex.damaged": FindingType(
        "error",
        "Not reindexed, as the log is damaged at byte {position} ({problem}): an index that is built up to "
        "there would hide it.",
        "Where the .index is missing, or the segment is recovered after a crash: builds the index up to there "
        "and truncates the log: {behind_bytes} bytes after it, whatever is in them.",
        "See what is after it: kafkalog dump --resync. Copy the partition from a healthy replica, or truncate "
        "it: kafkalog truncate --at-damage (this place and all after it), kafkalog reindex --as-broker (this "
        "segment from there on).",
        "Indexes are built from whole batches. Bytes that do not form a batch, in the middle of a log, are a "
        "loss that you have to decide about; with an index a broker would serve what is before them as if "
        "nothing were missing.",
    ),
    "reindex.disorder": FindingType(
        "error",
        "Not reindexed, as the offsets in the log do not ascend: {problem}.",
        "Notices it only at an entry of the index: then it empties the segment and deletes those after it when "
        "it recovers it after a crash, and does not start where its .index is missing.",
        "Save what is in it before a broker is started: kafkalog dump. Copy the partition from a healthy replica.",
        "Offsets go back in the log, which no broker writes; the checksum of a batch does not protect its offset.",
    ),
    "reindex.overflow": FindingType(
        "error",
        "Not reindexed, as it can be neither indexed nor split: {problem}.",
        "Does not start: it can split a segment only where the last batch is beyond the reach of its indexes, and "
        "all offsets ascend.",
        "Save what is in it before a broker is started: kafkalog dump. Copy the partition from a healthy replica.",
        "Offsets in an index are 32 bits, relative to the segment's base offset.",
    ),
    "reindex.index-full": FindingType(
        "error",
        "Not reindexed, as its entries do not fit: {problem}.",
        "Does not start where it has to rebuild the index with these settings.",
        "Raise segment.index.bytes of the topic or index.interval.bytes, in the broker's settings too, and give them "
        "with --set or --topic-config.",
        "segment.index.bytes bounds the size of an index; more entries than fit in there stop a recovery.",
    ),
    "reindex.bad-records": FindingType(
        "error",
        "Not reindexed, as what its batches say cannot be: {problem}.",
        "Does not start when it recovers the segment or replays its producers.",
        "Save what is in it before a broker is started: kafkalog dump. Copy the partition from a healthy replica.",
        "Checksums are good, but a transaction marker or a compressed message cannot be read, or a transaction "
        "contradicts itself.",
    ),
    "reindex.over-limit": FindingType(
        "error",
        "Not reindexed, as a batch at byte {position} is over the limit: {problem}.",
        "Reads it: the limit is kafkalog's own.",
        "Raise --max-batch-bytes.",
        "The limit is kafkalog's own, for the sake of memory.",
    ),
    "reindex.unread": FindingType(
        "error",
        "Not reindexed, as a file cannot be read or replaced: {problem}.",
        "Takes the log directory offline where it cannot read a file itself.",
        "Copy the disk (ddrescue) first, and work on the copy. Check that you may read the file.",
        "What cannot be read is not replaced, as it could not be put back.",
    ),
    "reindex.producers-unknown": FindingType(
        "warning",
        "Producer snapshots, transaction indexes and leader epochs from offset {offset} on are left as they are: what "
        "producers did before is not known.",
        "Rebuilds them from what it finds when it recovers the log, or uses them as they are after a clean shutdown.",
        "Mend the segment before it first; then reindex again.",
        "Transactions and producers continue from segment to segment. After a segment that could not be read to its "
        "end their state is known only from the next snapshot that is right.",
    ),
    "reindex.kept": FindingType(
        "info",
        "Some indexes ({count}) are right although not byte for byte what a recovery writes: they are kept.",
        "Uses them as they are.",
        "Nothing needs to be done; kafkalog reindex --all writes them too.",
        "A running broker restarts the count of bytes between two entries when it is started, and some "
        "releases write one entry for several batches. Such indexes lead to every record.",
    ),
    "reindex.no-index": FindingType(
        "info",
        "Kafka 0.7 has no indexes: there is nothing to rebuild.",
        "A broker of 0.7 reads the log alone.",
        "Nothing needs to be done.",
        "In 0.7 an offset is the position of a byte, so nothing has to be looked up.",
    ),
    "reindex.no-log": FindingType(
        "info",
        "No segment of its own belongs to this file: it is left as it is.",
        "Deletes indexes without a log when it starts.",
        "Name a .log file, a partition directory or a log directory.",
        "Indexes are rebuilt from the .log file of the same base offset.",
    ),
}


_NOTHING: Final = "Nothing needs to be done."

ROLLING: Final = {
    "roll.damaged": FindingType(
        "error",
        "The log is damaged at byte {position} ({problem}): rolls are shown up to there alone.",
        "Stops here when it recovers the segment, and cannot serve these bytes.",
        "See what is wrong: kafkalog verify. Cut it off: kafkalog truncate --at-damage. Then ask again.",
        "A log is appended again batch by batch; bytes that do not form a batch cannot be. With --apply "
        "nothing is written.",
    ),
    "roll.unreadable": FindingType(
        "error",
        "This cannot be read ({problem}): rolls are shown up to there alone.",
        "Takes the whole log directory offline where its own user cannot read it either.",
        "Run this as the broker's user, or as root; where the disk is at fault: kafkalog verify.",
        "A log is appended again from its first batch on; what follows a file that cannot be read is unknown.",
    ),
    "roll.torn-tail": FindingType(
        "info",
        "The last {size_bytes} bytes do not form a whole batch ({problem}) and are not counted.",
        "Cuts them off when it recovers the segment.",
        _NOTHING + " What --apply writes ends before them.",
        "An append was interrupted when the broker stopped.",
    ),
    "roll.not-appendable": FindingType(
        "error",
        "These batches cannot be appended in this order: {problem}.",
        "Refuses the append, or stops when it rebuilds the index.",
        "See what is wrong: kafkalog verify.",
        "An index of a segment holds ascending offsets alone.",
    ),
    "roll.oversized": FindingType(
        "warning",
        "Batches are larger than segment.bytes={limit} ({count}): each is taken to have a segment of its own.",
        "Refuses to append such a batch (RecordBatchTooLargeException), also when a follower fetches it.",
        "Choose a larger segment.bytes.",
        "A batch must fit into a segment. Those that are there were appended under a larger setting.",
    ),
    "roll.wall-clock": FindingType(
        "info",
        "The log does not show when a segment became older than segment.ms, so no roll by time is shown: {why}.",
        "Compares the time at which it opened the segment with its own clock.",
        _NOTHING,
        "Since 0.10.1 a segment is as old as its records; before, and where the first batch of a segment has "
        "no timestamp, the broker's clock counts, and a restart resets it.",
    ),
    "roll.jitter": FindingType(
        "info",
        "A random part of segment.jitter.ms={jitter_ms} is subtracted from segment.ms for each segment: the "
        "rolls shown do not contain it.",
        "Draws a number when it opens a segment, and again at each restart.",
        "Choose what is drawn with --jitter-seed; a restart of the broker draws again.",
        "The number is written down nowhere, so that the very rolls of a broker cannot be foretold.",
    ),
    "roll.old-format": FindingType(
        "warning",
        "Rolls cannot be predicted for Kafka 0.7 logs: they have no offsets, and their segments follow other rules.",
        "Of 0.8 and later does not read it.",
        _NOTHING,
        "Rolls are predicted for 0.8.0 and later.",
    ),
    "roll.left-out": FindingType(
        "info",
        "This directory is not of a partition that is served: it is not written.",
        "Deletes it, renames it, or continues to fill it.",
        "Move it by hand where it is wanted.",
        "Directories that wait for deletion, were found stray, or are being filled do not become part of a new "
        "log directory.",
    ),
}


COMPACTIONS: Final = {
    "compaction.clean-fails": FindingType(
        "warning",
        "A clean of this log stops here: {problem}.",
        "Stops cleaning the partition, and tries again only after a restart; it grows until then. Releases before 2.1 "
        "stop cleaning all partitions.",
        "Run kafkalog verify: it reports whether it is damage, and how to repair it.",
        "The cleaner reads every batch of the dirty part, and gives a partition up at the first one that it cannot "
        "take.",
    ),
    "compaction.not-foreseen": FindingType(
        "warning",
        "What a cleaner would make of this log is not foreseen: {problem}.",
        "Is not known.",
        "See what is there: kafkalog verify.",
        "A clean can be foreseen for logs since Kafka 0.8 whose last segment can be read.",
    ),
    "compaction.over-damage": FindingType(
        "warning",
        "There is damage in this log: {problem}. It is not cleaned over that here.",
        "Continues: its cleaner checks neither checksums nor the order of offsets. It copies such a batch as "
        "it is, or writes its records again with a checksum that agrees, and then nothing shows any more that "
        "they were damaged.",
        "Mend the log first, from a replica where there is one: kafkalog verify names all that is wrong, and the cure.",
        "A clean would turn damage that can be seen into records that look sound.",
    ),
    "compaction.never-ends": FindingType(
        "info",
        "A clean ends at offset {offset}, before offset {bound}: the records between have no offsets or no keys.",
        "Cleans the log again at every look of its cleaner while its dirty ratio is above the setting, though nothing "
        "is left to be cleaned (KAFKA-8764, up to 2.3).",
        "Upgrade to 2.4 or later; until then records with keys that are appended and rolled end it.",
        "Cleaners before 2.4 take the last offset, or key, that they have seen for the end of what is clean.",
    ),
    "compaction.no-watermark": FindingType(
        "warning",
        "No checkpoint has a high watermark of this log; the log end offset, {offset}, is used instead.",
        "Learns its high watermark from the other replicas when it starts, and cleans nothing above it.",
        "Name the log directory that has replication-offset-checkpoint. If every replica has all records, accept the "
        "log end offset: kafkalog compact with --apply and --assume-defaults. Without --assume-defaults, --apply "
        "refuses.",
        "The cleaner would drop older records in favour of newer ones that may still be truncated.",
    ),
    "compaction.no-room": FindingType(
        "warning",
        "The cleans that follow are not in the figures: {problem}.",
        "Cleans on in place.",
        "Give the simulation more memory (--memory), or room: the environment variable TMPDIR names the "
        "directory for temporary files.",
        "Where the offset map is full before the bound the next clean reads what this one leaves.",
    ),
    "compaction.replacement": FindingType(
        "error",
        "The replacement {name} waits to take the place of segments: this log is not cleaned while it is there.",
        "Puts it in its place at its next start.",
        "Let a broker start on a copy of the directory first, or move the file away if it is not wanted.",
        "An interrupted compaction left a finished replacement, and a start would put it over what a clean has made.",
    ),
    "compaction.retention-follows": FindingType(
        "info",
        "Its cleanup.policy is compact,delete: retention follows the clean, and is not part of this.",
        "Deletes segments by retention.ms, retention.bytes and the log start offset after each check of its cleaner.",
        "See what it would delete, and carry it out: kafkalog retain.",
        "With both policies a broker's cleaner thread deletes old segments too, cleaned ones by what is left in them.",
    ),
}


RETENTION: Final = {
    "retain.future-timestamp": FindingType(
        "warning",
        "The largest timestamp of the segment is {ahead} ahead of now, at {time}: retention by time keeps it, "
        "and all that follows it, until {due}.",
        "Keeps the segment and all newer ones; retention by size and delete-records take no notice of timestamps.",
        "Find what wrote it: kafkalog dump --times. To be rid of it sooner use kafka-delete-records, or "
        "retention.bytes for a while; message.timestamp.after.max.ms refuses such records.",
        "Producers choose timestamps. One that is far ahead keeps its segment, and a check stops there.",
    ),
    "retain.held-back": FindingType(
        "info",
        "An older segment that is kept holds back {segments} with {size} that are due: {why}.",
        "Stops each check at the first segment that it keeps, whatever follows it.",
        "Nothing needs to be done, unless the space is needed: then check the segment that holds them back.",
        "Timestamps need not ascend. Segments are deleted from the oldest offset on, and never from the middle.",
    ),
    "retain.high-watermark": FindingType(
        "warning",
        "Segments that are due reach above the high watermark {watermark} ({origin}): they are kept until the "
        "replicas have their records.",
        "Deletes them at the first check after the high watermark has risen.",
        "See why replicas lag: kafka-topics --describe --under-replicated-partitions.",
        "Nothing is deleted that is not known to be on all replicas in sync.",
    ),
    "retain.by-file-time": FindingType(
        "info",
        "No timestamp that a broker knows is there in {segments} ({why}).",
        "Uses the modification time, which copying without cp -p makes new.",
        "Where only the time index is missing, kafkalog reindex builds it.",
        "Records of formats before 0.10.0 have no timestamps, and a time index can be empty or lost.",
    ),
    "retain.remote-unknown": FindingType(
        "info",
        "The topic is tiered: its due segments, {segments} with {size}, are deleted from this disk once they "
        "are in remote storage, and nothing on this disk shows which are.",
        "Asks the remote log metadata, and deletes what has been copied.",
        "Ask a running broker: kafka-get-offsets --time -5 gives the highest offset in remote storage.",
        "The topic __remote_log_metadata holds what is in remote storage.",
    ),
    "retain.cleaner-off": FindingType(
        "warning",
        "Nobody runs retention here: cleanup.policy is {policy}, so that the cleaner would have to, and "
        "log.cleaner.enable is false.",
        "Deletes nothing of this log, however old and large it is.",
        "Set log.cleaner.enable=true, or take compact out of cleanup.policy.",
        "The retention of compacted topics is run by the cleaner's threads.",
    ),
    "retain.not-foreseen": FindingType(
        "warning",
        "What becomes of this log is not foreseen: {problem}.",
        "Is not known.",
        "See what is there: kafkalog verify.",
        "Retention can be foreseen for logs since Kafka 0.8 whose last segment can be read.",
    ),
    "retain.metadata-log": FindingType(
        "info",
        "The log of the cluster's metadata has its own rules: it is deleted up to snapshots, by "
        "metadata.max.retention.ms and metadata.max.retention.bytes.",
        "Deletes what the oldest snapshot that it keeps has made superfluous.",
        "Nothing needs to be done.",
        "The topics' retention has no part in __cluster_metadata.",
    ),
    "retain.producers-unknown": FindingType(
        "warning",
        "The state of producers at the end of the log is unknown, as the log cannot be read at byte {position} "
        "({damage}): no snapshot is made of it.",
        "Forgets these producers where it finds no snapshot.",
        "See what is there: kafkalog verify.",
        "Where all segments go, a snapshot at the end of the log keeps what is known of its producers.",
    ),
}
