"""Broker messages about files at the start: recovery, indexes, interrupted compaction, checkpoints."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.broker_actions import BEFORE_OFFLINE
from kafkalog_core.findings.client_reads import CONSUMERS
from kafkalog_core.findings.kinds import REPAIRED, BrokerMessage

__all__ = ["FILES", "RECOVERY"]


_RECOVER: Final = ("kafkalog recover {log_dir}",)
_LOST: Final = (
    "If this broker was the leader, or has the only replica, the records are lost from the partition. Stop it before "
    "file.delete.delay.ms (60 s) has passed and copy the .deleted files away: they hold the complete later segments. "
    "Else the broker fetches them again from the leader."
)
_BEFORE_NEXT: Final = (
    "Before another start check the other partitions of the directory, on a copy if there is enough space."
)

RECOVERY: Final = (
    BrokerMessage(
        "broker.truncated-at-corruption",
        "error",
        (
            "Corruption found in segment {segment} of log {partition}, truncating to offset {offset}",
            "Corruption found in segment {segment}, truncating to offset {offset}",
        ),
        "Recovery found a bad batch in segment {segment} of {partition} and truncated the log there: it ends at "
        "offset {offset} now.",
        "After a shutdown that was not clean, and of the metadata log at each start, recovery stops at the first batch "
        "with a wrong size or checksum. A crash during an append leaves a torn last batch; the crash of a machine also "
        "loses what was not flushed, which other replicas may have.",
        "Truncates the segment's log at the bad batch and renames every later segment of the partition to .deleted. "
        "The broker deletes those a minute later, or at its next start. It does not raise the recovery point.",
        _LOST,
        ("crc-mismatch", "torn-tail", "bad-length", "zero-filled", "segment.deleted", "dir.unclean"),
        ("kafkalog recover {log_dir}", "kafkalog dump --segments {place}"),
    ),
    BrokerMessage(
        "broker.invalid-messages",
        "error",
        (
            "Found invalid messages in log segment {path} at byte offset {position}: {reason}",
            "Found invalid messages in log segment {path} at byte offset {position}.",
            "Found invalid messages in log {partition}",
        ),
        "At byte {position} of {path} recovery found a batch that is not valid: {reason}.",
        "The reason is a wrong checksum (stored crc, computed crc), an impossible size, or a control record that "
        "cannot be read. A crash during an append leaves zeros, whose size is 0. For a batch that the end of the file "
        "cuts off, recovery writes no such line.",
        "Truncates the segment there. After an unclean shutdown it also deletes all later segments of the partition "
        "(a line about corruption or truncation follows). If only the index was missing, it keeps later segments, "
        "with a gap before them.",
        _LOST,
        ("crc-mismatch", "bad-length", "zero-filled", "record.control-key"),
        ("kafkalog recover {log_dir}", "kafkalog dump --resync {path}"),
    ),
    BrokerMessage(
        "broker.recovered-whole",
        "info",
        (
            "Recovery succeeded in {count} seconds. 0 bytes truncated.",
            "Truncated 0 invalid bytes from the log {partition}",
        ),
        "Recovery read the last segment and found nothing to truncate.",
        "The last shutdown was not clean.",
        "Truncates nothing.",
        "Nothing needs to be done.",
        ("dir.unclean",),
    ),
    BrokerMessage(
        "broker.truncated-invalid-bytes",
        "error",
        (
            "Truncated {size_bytes} invalid bytes from the log {partition}",
            "Recovery succeeded in {count} seconds. {size_bytes} bytes truncated.",
        ),
        "Recovery truncated {size_bytes} bytes at the end of the last segment of {partition}.",
        "The last shutdown was not clean. Kafka 0.7 and 0.8.0 then recover only the last segment, up to its first bad "
        "message.",
        "Truncates the log and keeps no copy of the bytes.",
        "Compare the partition with a replica. Nothing in the directory can restore the bytes.",
        ("torn-tail", "zero-filled", "crc-mismatch"),
    ),
    BrokerMessage(
        "broker.segment-emptied",
        "error",
        (
            (
                "Found invalid offset during recovery. Deleting the corrupt segment and creating an empty one with "
                "starting offset {offset}"
            ),
        ),
        "Recovery of {partition} failed in the segment that starts at offset {offset}, and emptied it.",
        "Offsets of its batches do not increase; or, in 4.x, a file could not be read or written.",
        "Empties that segment and renames every later segment to .deleted.",
        _LOST,
        ("offset-order", "segment.deleted"),
        ("kafkalog recover {log_dir}", "kafkalog dump --segments {place}"),
    ),
    BrokerMessage(
        "broker.all-segments-deleted",
        "error",
        (
            "Deleting all segments because logEndOffset ({end}) is smaller than logStartOffset ({start})",
            "Deleting all segments because logEndOffset ({end}) is smaller than logStartOffset {start}",
        ),
        "{partition} ends at offset {end}, but log-start-offset-checkpoint has {start} as its start: the broker "
        "deleted the whole log.",
        "Somebody deleted log files, recovery truncated the log below its start, or the checkpoint belongs to another "
        "copy of the log.",
        "Renames all segments to .deleted, empties the leader epochs, deletes the producer snapshots, and creates an "
        "empty segment at {start}.",
        "Stop the broker within a minute, copy the files and remove the .deleted suffix from the copies. Before the "
        "next start run kafkalog recover, which removes the partition's line from log-start-offset-checkpoint.",
        ("segment.deleted", "checkpoint"),
        ("kafkalog recover {log_dir}", "kafkalog dump --segments {place}"),
    ),
    BrokerMessage(
        "broker.index-missing",
        "warning",
        (
            "Could not find offset index file corresponding to log file {path}, recovering segment",
            "Could not find offset index file corresponding to log file {path}, rebuilding index",
            "Could not find index file corresponding to log file {path}, rebuilding index",
        ),
        "The offset index of {path} is missing and is rebuilt.",
        "Somebody deleted it, or copied the segment without it.",
        "Reads the whole segment and checks its checksums, even after a clean shutdown. At the first bad batch it "
        "truncates the log, but keeps later segments, so that there is a gap.",
        "Nothing needs to be done, if no line about invalid messages follows. " + _BEFORE_NEXT,
        ("segment.index-missing",),
        _RECOVER,
    ),
    BrokerMessage(
        "broker.no-index-file",
        "error",
        ("Found log file with no corresponding index file.",),
        "A log file has no index, and this release does not start without one.",
        "Somebody deleted an .index file. Kafka 0.8.0 does not rebuild indexes.",
        "Stopped.",
        "Rebuild the indexes: kafkalog recover. Or start release 0.8.1 or later on the directory.",
        ("segment.index-missing",),
        _RECOVER,
    ),
    BrokerMessage(
        "broker.corrupt-index",
        "warning",
        (
            "Found a corrupted index file corresponding to log file {path} due to {reason}, recovering segment",
            (
                "Found a corrupted index file due to requirement failed: Corrupt index found, index file ({path}) "
                "{reason}. deleting {other} and rebuilding index"
            ),
            "Found a corrupted index file due to {reason}. deleting {path}, {other} and rebuilding index",
            "Found a corrupted index file, {path}, deleting and rebuilding index",
        ),
        "An index of {path} failed its check and is rebuilt: {reason}.",
        "A crash left the index incomplete, it belongs to another copy of the log, or somebody edited it. Releases up "
        "to 2.1 check all indexes, releases since 2.8 only the transaction index.",
        "Deletes the indexes and reads the whole segment. It truncates the log at the first bad batch and keeps later "
        "segments.",
        "Nothing needs to be done, if no line about invalid messages follows. " + _BEFORE_NEXT,
        ("index", "txnindex"),
        _RECOVER,
    ),
    BrokerMessage(
        "broker.index-refused",
        "error",
        (
            "Corrupt index found, index file ({path}) has non-zero size but the last offset is {offset}",
            "Corrupt time index found, time index file ({path}) has non-zero size but",
            "Time index file {path} is corrupt, found {size_bytes} bytes which is",
            "Index file {path} is corrupt, found {size_bytes} bytes which is",
        ),
        "The check of {path} failed: its last entry is not above its base offset, or its size is not a whole number "
        "of entries.",
        "A crash left zeros at its end although there is a clean shutdown file, or the file belongs to another log.",
        "Releases 0.8.0 to 0.8.2 do not start. Releases 0.9 to 2.2, and the cache of tiered storage, delete the index "
        "and rebuild it.",
        "Stop the broker and rebuild the indexes of the segment: kafkalog recover.",
        ("index",),
        _RECOVER,
    ),
    BrokerMessage(
        "broker.index-orphan",
        "warning",
        (
            "Found an orphaned index file {path}, with no corresponding log file",
            "Found an orphaned index file, {path}, with no corresponding log file",
        ),
        "{path} had no log file, and the broker deleted it.",
        "Somebody deleted the log file, or it was lost in a copy. Its records are not on this disk.",
        "Deletes the index.",
        "Look for the log file in a backup or on a replica.",
        ("segment.index-orphan",),
    ),
    BrokerMessage(
        "broker.txnindex-version",
        "error",
        (
            "Unexpected aborted transaction version {version} in transaction index {path}, current version",
            "Unexpected aborted transaction version {version} in transaction index {path}, supported version",
        ),
        "{path} has an entry of version {version}, but only version 0 exists.",
        "The transaction index is damaged.",
        "Does not start.",
        "Rebuild the indexes of the segment from its log: kafkalog recover.",
        ("txnindex.bad-version",),
        _RECOVER,
    ),
    BrokerMessage(
        "broker.offset-overflow",
        "error",
        ("Split operation is only permitted for segments with overflow, and the problem path is {path}",),
        "{path} holds an offset below its base offset, or one too far above it, and cannot be split.",
        "A batch header is damaged (no checksum protects its base offset), or the file has a wrong name.",
        "Does not start, now and at every later start.",
        "Run kafkalog recover: it corrects such a header where the batches around it show the offset. If a replica is "
        "in sync and leads, you may move the partition directory out of the log directory instead: the broker fetches "
        "the partition again.",
        ("offset-order",),
        ("kafkalog recover {log_dir}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.segment-split",
        "warning",
        (
            "Splitting overflowed segment {reason}",
            "Detected offset overflow at offset {offset} in segment",
            "Found log segments with overflow",
        ),
        "A segment spans more than 2147483647 offsets and is split.",
        "Compaction by a release before 1.1 joined segments too far apart (KAFKA-6264).",
        "Writes new segments and renames the old one to .deleted. No record is lost.",
        "Nothing needs to be done. Let the broker finish.",
        ("segment.cleaned", "segment.swap"),
    ),
    BrokerMessage(
        "broker.record-too-small",
        "error",
        (
            "Found record size {size_bytes} smaller than minimum record overhead ({count}) in file {path}.",
            "Found record size {size_bytes} smaller than minimum record overhead ({count}) in file {path}",
        ),
        "A batch in {path} has a size of {size_bytes} bytes, less than the smallest batch: there are zeros or garbage.",
        "After a crash recovery finds zeros or garbage after the last batch. If there is a .kafka_cleanshutdown, as in "
        "a disk image, a snapshot or an rsync of a running broker, no recovery truncates them.",
        "After a line with Found invalid messages it has truncated the log there, and continues. Else: at the start it "
        "does not start; while it runs, the fetch fails.",
        REPAIRED,
        ("zero-filled", "bad-length"),
        ("kafkalog recover {log_dir}", "kafkalog dump --resync {path}"),
    ),
    # UnifiedLog.analyzeAndValidateRecords, of an append as the leader or as a follower
    BrokerMessage(
        "broker.crc-refused",
        "error",
        ("Record is corrupt (stored crc = {stored}) in topic partition {partition}.",),
        "The broker was to append a batch to {partition} whose bytes do not have its checksum (stored {stored}).",
        "After a line about invalid messages during a fetch, the batch is damaged on the disk of the leader. Else a "
        "client sent it so. Or it changed on its way.",
        "Appends nothing of the request.",
        "After a line about a fetch, verify the partition on the disk of the leader. Else look at the client.",
        ("crc-mismatch",),
        ("kafkalog verify LEADER_LOG_DIR/{partition}",),
    ),
    BrokerMessage(
        "broker.crc-mismatch",
        "error",
        (
            "is corrupt (stored crc = {stored}, computed crc = {computed})",
            "Record is corrupt {reason}",
            "CRC is corrupt",
        ),
        "The stored checksum of a batch is not the checksum of its bytes (stored {stored}, computed {computed}).",
        "Bytes changed on the disk, in memory, in a copy or on the network. If the line is about a request, a client "
        "may have sent the batch.",
        "In recovery it truncates the log there. It refuses such a batch from a producer or a leader. Batches that are "
        f"in the log already it serves unread. {CONSUMERS}",
        f"Stop the broker, and check the disk (dmesg, SMART). {REPAIRED}",
        ("crc-mismatch",),
        ("kafkalog recover {log_dir}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.unclean-start",
        "info",
        (
            "Attempting recovery for all logs in {dir} since no clean shutdown file was found",
            "Recovering {count} logs from {dir} since no clean shutdown file was found",
        ),
        "{dir} has no clean shutdown file, so the broker recovers all of its partitions.",
        "The broker was killed, the machine crashed, or the last start was interrupted (a start deletes the file).",
        "Reads every segment from the recovery point on. It truncates a partition at the first bad batch and deletes "
        "its later segments.",
        "This is normal after a crash. To see what the next start would truncate, stop the broker and run "
        "kafkalog preflight.",
        ("dir.unclean",),
        ("kafkalog preflight {dir}",),
    ),
    BrokerMessage(
        "broker.recovering-segment",
        "info",
        (
            "Recovering unflushed segment {segment} in log {partition}.",
            "Recovering unflushed segment {segment}",
        ),
        "Segment {segment} of {partition} may not have been flushed: the broker reads it and rebuilds its indexes.",
        "This is normal after an unclean shutdown, and for the metadata log at each start.",
        "Reads the whole segment. Lines about corruption follow if it truncates the log.",
        "Nothing needs to be done.",
        ("dir.unclean",),
    ),
    BrokerMessage(
        "broker.clean-start",
        "info",
        (
            "Skipping recovery for all logs in {dir} since clean shutdown file was found",
            "Skipping recovery of {count} logs from {dir} since clean shutdown file was found",
        ),
        "{dir} has a clean shutdown file: no segment is checked.",
        "The last shutdown was clean.",
        "Trusts logs and indexes. It does not notice later damage until something reads it.",
        "Nothing needs to be done.",
        (),
        ("kafkalog verify {dir}",),
    ),
    BrokerMessage(
        "broker.swap-found",
        "info",
        (
            "Found log file {path} from interrupted swap operation",
            "Found file {path} from interrupted swap operation",
        ),
        "{path} is a finished result of compaction or a split, but has not replaced the old segments yet.",
        "The broker stopped in the middle of the swap.",
        "Completes the swap and deletes the old segments. Releases before 3.0 recover the file first; later ones "
        "trust it.",
        "Nothing needs to be done.",
        ("segment.swap", "segment.swap-alone", "segment.swap-index-missing"),
    ),
    BrokerMessage(
        "broker.snapshot-unreadable",
        "warning",
        ("Failed to load producer snapshot from '{path}': {reason}", "Loading producer snapshot failed {reason}"),
        "A producer snapshot, {path}, cannot be read: {reason}.",
        "A crash truncated the file, or it is damaged.",
        "Deletes it, uses the next older one, and reads the log from there; without a snapshot it reads the whole "
        "log. At a clean start without any snapshot, it no longer notices duplicates of old batches.",
        "Nothing needs to be done, if no error follows.",
        ("snapshot-crc-mismatch", "snapshot-truncated", "snapshot-version"),
    ),
    BrokerMessage(
        "broker.loading-failed",
        "error",
        (
            "Error while loading logs in {partition_dir} in {count}ms ({number}/{end} completed in {dir})",
            "Error while loading log dir {dir}",
        ),
        "{path} could not be loaded.",
        "A line near this one names the cause.",
        "Continues or stops, as that line says.",
        "Look at the most severe of the other lines.",
        (),
        ("kafkalog preflight {dir}", "kafkalog recover {dir}"),
        names_no_cause=True,
    ),
)


_OFFLINE: Final = (
    f"Takes the whole log directory offline, and halts if it is the only one. {BEFORE_OFFLINE} The records do not "
    "change."
)
_TEXT_FILE: Final = (
    "Stop the broker and run kafkalog recover, which repairs the bad lines and keeps the others. By hand: line 1 "
    "is 0, line 2 is the number of entries, and each entry has a line. You may delete cleaner-offset-checkpoint "
    "instead. Do not delete replication-offset-checkpoint: followers without leader epochs (before 0.11) truncate "
    "their logs by it. Do not delete recovery-point-offset-checkpoint: after an unclean shutdown the broker then "
    "recovers everything."
)
_DUMP: Final = ("kafkalog recover {log_dir}", "kafkalog dump --files {path}")

FILES: Final = (
    BrokerMessage(
        "broker.checkpoint-malformed",
        "error",
        (
            "Malformed line in checkpoint file [{path}]: {reason}",
            "Malformed line in checkpoint file ({path}): {reason}",
            "Malformed line in offset checkpoint file: '{reason}'.",
            "Malformed line in offset checkpoint file: {reason}",
        ),
        "A line of {path} is malformed: {reason}.",
        "Somebody edited the file, a full disk truncated it, or it is another file.",
        _OFFLINE,
        _TEXT_FILE,
        ("checkpoint.malformed-line",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.checkpoint-count",
        "error",
        (
            "Expected [{count}] entries in checkpoint file [{path}], but found only [{number}]",
            "Expected {count} entries in checkpoint file ({path}), but found only {number}",
            "Expected {count} entries but found only {number}",
        ),
        "Line 2 of {path} gives {count} entries, but the file has {number}.",
        "Somebody added or removed a line and did not change the second line, or the file was truncated.",
        _OFFLINE,
        _TEXT_FILE,
        ("checkpoint.count-mismatch",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.checkpoint-version",
        "error",
        (
            "Unrecognised version:{version}, expected version: {number} in checkpoint file at: {path}",
            "Unrecognized version of the checkpoint file ({path}): {version}",
            "Unrecognized version of the highwatermark checkpoint file: {version}",
        ),
        "The first line of {path} is {version}, not 0.",
        "The file is damaged, or it is another file.",
        _OFFLINE,
        _TEXT_FILE,
        ("checkpoint.unsupported-version",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.checkpoint-start-reset",
        "error",
        (
            "Error occurred while reading log-start-offset-checkpoint file of directory {dir}, resetting",
            "Error occurred while reading log-start-offset-checkpoint file of directory {dir}",
        ),
        "log-start-offset-checkpoint of {dir} could not be read: all partitions start at their first segment.",
        "A line is malformed, the count is wrong, or the disk fails: the line before shows which.",
        "From 1.0 on loads the partitions and then takes the whole directory offline, 3.1 and later not if only a "
        "number was bad. Consumers may see records again that a client had deleted.",
        _TEXT_FILE
        + (" You may delete log-start-offset-checkpoint if no client deletes records and no topic is tiered."),
        ("checkpoint",),
        ("kafkalog recover {dir}", "kafkalog dump --files {dir}/log-start-offset-checkpoint"),
    ),
    BrokerMessage(
        "broker.checkpoint-recovery-reset",
        "error",
        (
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {dir}, resetting",
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {dir}. Resetting",
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {dir}",
            "Error occured while reading recovery-point-offset-checkpoint file of directory {dir}",  # up to 0.10.2
            "Resetting the recovery checkpoint to {number}",  # a line of its own in 1.1
        ),
        "recovery-point-offset-checkpoint of {dir} could not be read: every segment counts as not flushed.",
        "A line is malformed, the count is wrong, or the disk fails: the line before shows which.",
        "After an unclean shutdown it recovers every segment of every partition, and at any damage deletes all "
        "records after it. From 1.0 on it then takes the directory offline, 3.1 and later not if only a number was "
        "bad.",
        _TEXT_FILE,
        ("checkpoint", "dir.unclean"),
        ("kafkalog recover {dir}", "kafkalog dump --files {dir}/recovery-point-offset-checkpoint"),
    ),
    BrokerMessage(
        "broker.checkpoint-unreadable",
        "error",
        ("Error while reading checkpoint file {path}",),
        "{path} could not be read.",
        "The lines after this one show the reason: a malformed line, a wrong count or version, a failing disk, or too "
        "many open files.",
        "From 1.0 on takes the log directory offline. If it is a leader-epoch-checkpoint, its partition is not loaded "
        "either.",
        _TEXT_FILE,
        ("checkpoint",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.cleaner-checkpoint",
        "error",
        (
            "Failed to access checkpoint file {other} in dir {dir}",
            "Failed to access checkpoint file in dir {dir}",
        ),
        "cleaner-offset-checkpoint of {dir} could not be read or written.",
        "A line near this one shows the reason: a malformed line, a wrong count or version, a failing disk, or too "
        "many open files.",
        "From 1.0 on takes the log directory offline.",
        _TEXT_FILE,
        ("checkpoint",),
        ("kafkalog recover {dir}", "kafkalog dump --files {dir}/cleaner-offset-checkpoint"),
    ),
    BrokerMessage(
        "broker.checkpoint-write-deleted",
        "info",
        ("Failed to write to checkpoint file {path}. This is ok if the topic/partition is being deleted",),
        "{path} could not be written because its directory no longer exists.",
        "The partition was deleted or renamed (-delete, -stray) at the same time.",
        "Continues.",
        "Nothing needs to be done, if somebody deleted or moved the partition on purpose.",
        ("dir.delete", "dir.stray"),
    ),
    BrokerMessage(
        "broker.checkpoint-unwritable",
        "error",
        (
            "Error while writing to checkpoint file {path}",
            "Error while writing partition metadata file {path}",
            "Disk error while writing to recovery point file in directory {dir}",
            "Disk error while writing recovery offsets checkpoint in directory {dir}: {reason}",
            "Disk error while writing to logStartOffset file in directory {dir}",
            "Disk error while writing log start offsets checkpoint in directory {dir}: {reason}",
            "Error while writing to highwatermark file in directory {dir}",
        ),
        "The broker could not write a checkpoint: {path}.",
        "The disk is full, read-only or failing, or the file belongs to another user.",
        "Takes the whole log directory offline, and halts if it is the last one.",
        "Check the free space, the mount and dmesg. Give the files of the directory to the broker's user.",
        ("file.foreign-owner", "file.unreadable"),
        ("ls -ln {path}", "df -h {path}"),
    ),
    BrokerMessage(
        "broker.partition-metadata",
        "error",
        (
            "Malformed line in partition metadata file [{path}]: {reason}",
            "Invalid topic ID in partition metadata file ({path})",
            "Error while reading partition metadata file {path}",
            "Unrecognized version of partition metadata file ({path}): {version}",
            "Unrecognized version of partition metadata file + ({path}): {version}",
        ),
        "The broker refuses {path}: it must be a file with two lines, version: 0 and topic_id: with 22 characters.",
        "Somebody edited the file, it was truncated, it is another file, or it could not be read.",
        "Does not load the partition and takes the log directory offline; releases before 3.2 do not start. An empty "
        "file, or an invalid id, stops the broker.",
        "Run kafkalog recover, or write the two lines. The topic id is in partition.metadata of the topic's other "
        "partitions and replicas.",
        ("partition-metadata",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.partition-metadata-empty",
        "error",
        ('Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null',),
        "A partition.metadata file is empty or has only one line, and the broker stops.",
        "A crash or a full disk left the file empty.",
        "Does not start. The message does not name the file, but verify finds it.",
        "Run kafkalog recover, or write the two lines, version: 0 and topic_id: ID. The id is in partition.metadata of "
        "the topic's other partitions and replicas.",
        ("partition-metadata.too-short",),
        _RECOVER,
    ),
    BrokerMessage(
        "broker.topic-id-mismatch",
        "error",
        (
            "Tried to assign topic ID {reason} to log for topic partition {partition},but log already contained",
            "Tried to assign topic ID {reason} to log for topic partition {partition}, but log already contained",
            "Topic ID in memory: {reason} does not match the topic ID for partition {partition} received: {other}",
        ),
        "The topic id of {partition} on the disk is not the one that the cluster has.",
        "The topic was deleted and created again while this broker was down, or the directory belongs to another "
        "cluster.",
        "Refuses the partition, which remains offline here.",
        "Save the records first if you need them. Then stop the broker and move the partition directory out of the "
        "log directory: the broker fetches the new topic's partition.",
        ("partition-metadata",),
        ("kafkalog dump --files {place}/partition.metadata", "kafkalog dump --records {place}"),
    ),
    BrokerMessage(
        "broker.high-watermark-unknown",
        "info",
        (
            "No checkpointed highwatermark is found for partition {partition}",
            "No previously checkpointed highwatermark value found for topic {reason} partition {number}.",
            "No highwatermark file is found. Returning {number} as the highwatermark for partition {partition}",
        ),
        "No checkpoint has a high watermark for the partition: it starts at 0 or at the log start offset.",
        "The partition is new, or replication-offset-checkpoint was deleted.",
        "Agrees on a new one with the replicas.",
        "If the partition is new, nothing needs to be done.",
        ("high-watermark.unknown",),
    ),
    BrokerMessage(
        "broker.epoch-unknown",
        "info",
        ("Unable to read the broker epoch in {dir}.",),
        "{dir} has no readable .kafka_cleanshutdown.",
        "The last shutdown was not clean, or this is the first start.",
        "Registers as a broker without a previous epoch: the controller removes it from the in-sync replicas until it "
        "has caught up.",
        "Nothing needs to be done: this is normal after a crash.",
        ("dir.unclean", "clean-shutdown.malformed"),
        ("kafkalog verify {dir}",),
    ),
)
