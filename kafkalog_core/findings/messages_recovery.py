"""Broker messages about segments at the start: recovery, truncation, indexes, interrupted compaction."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL, BrokerMessage

__all__ = ["RECOVERY"]

_LOST: Final = (
    "If this broker was the leader, or alone, the records are gone from the partition. Stop it before "
    "file.delete.delay.ms (60 s) is over and copy the .deleted files away: they hold the later segments whole. Else "
    "it fetches them again from the leader."
)
_BEFORE_NEXT: Final = (
    "Before another start look at the other partitions of the directory, on a copy where there is room."
)

RECOVERY: Final = (
    BrokerMessage(
        "broker.truncated-at-corruption",
        "error",
        (
            "Corruption found in segment {segment} of log {partition}, truncating to offset {offset}",
            "Corruption found in segment {segment}, truncating to offset {offset}",
        ),
        "Recovery met a bad batch in segment {segment} of {partition} and cut the log there: it ends at offset "
        "{offset} now.",
        "The last stop was not clean, and at the first batch whose size or checksum is wrong recovery gives up. A torn "
        "last append does this after every crash and costs nothing that was acknowledged by all replicas.",
        "Cut the segment's log at the bad batch and renamed every later segment of the partition to .deleted; they are "
        "removed a minute later, or at the next start. The recovery point is not moved up.",
        _LOST,
        ("crc-mismatch", "torn-tail", "bad-length", "zero-filled", "segment.deleted", "dir.unclean"),
        ("kafkalog dump --segments {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.invalid-messages",
        "error",
        (
            "Found invalid messages in log segment {path} at byte offset {position}: {reason}",
            "Found invalid messages in log segment {path} at byte offset {position}.",
            "Found invalid messages in log {partition}",
        ),
        "At byte {position} of {path} recovery found a batch that is not whole: {reason}.",
        "A crash in the middle of an append leaves a torn or zero-filled tail; anything else is damage of the disk, "
        "of a copy, or of a hand.",
        "Cuts the segment there. After an unclean stop all later segments of the partition go too (a line about "
        "corruption or truncation follows); where only the index was missing, later segments stay, with a hole "
        "before them.",
        _LOST,
        ("crc-mismatch", "torn-tail", "bad-length", "zero-filled"),
        ("kafkalog dump --resync {path}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.recovered-whole",
        "info",
        (
            "Recovery succeeded in {count} seconds. 0 bytes truncated.",
            "Truncated 0 invalid bytes from the log {partition}",
        ),
        "Recovery read the last segment and found nothing to cut.",
        "The last stop was not clean.",
        "Nothing was cut.",
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
        "Recovery cut {size_bytes} bytes from the end of the last segment of {partition}.",
        "The last stop was not clean; Kafka 0.7 and 0.8.0 then recover the last segment only, up to its first bad "
        "message.",
        "Cut the bytes for good: no copy of them is kept.",
        "Compare with a replica. Nothing in the directory can bring the bytes back.",
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
        "Recovery found offsets of {partition} in a wrong order and emptied the segment that starts at offset "
        "{offset}.",
        "Offsets must rise from batch to batch; these do not, which no healthy broker writes.",
        "Emptied that segment and renamed every later one to .deleted.",
        _LOST,
        ("offset-order", "segment.deleted"),
        ("kafkalog dump --segments {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.all-segments-deleted",
        "error",
        ("Deleting all segments because logEndOffset ({end}) is smaller than logStartOffset {start}",),
        "{partition} ends at offset {end}, but log-start-offset-checkpoint says that it starts at {start}: the whole "
        "log was thrown away.",
        "Log files were removed by hand, recovery cut the log below its start, or the checkpoint is of another copy "
        "of it.",
        "Renamed all segments to .deleted, emptied the leader epochs, deleted the producer snapshots, and started an "
        "empty segment at {start}.",
        "Stop the broker within a minute and take the .deleted suffix off copies of the files; remove the "
        "partition's line from log-start-offset-checkpoint (and lower its count by one) before the next start.",
        ("segment.deleted", "checkpoint"),
        ("kafkalog dump --files {log_dir}/log-start-offset-checkpoint", "kafkalog dump --segments {place}"),
    ),
    BrokerMessage(
        "broker.index-missing",
        "warning",
        (
            "Could not find offset index file corresponding to log file {path}, recovering segment",
            "Could not find offset index file corresponding to log file {path}, rebuilding index",
            "Could not find index file corresponding to log file {path}, rebuilding index",
        ),
        "The offset index of {path} is missing and is built anew.",
        "It was deleted by hand, or the segment was copied without it.",
        "Reads the whole segment and checks its checksums, whatever the stop was like. At the first bad batch it "
        "cuts the log; later segments stay, so that a hole is left.",
        "Nothing, if no line about invalid messages follows. " + _BEFORE_NEXT,
        ("segment.index-missing",),
    ),
    BrokerMessage(
        "broker.no-index-file",
        "error",
        ("Found log file with no corresponding index file.",),
        "A log file has no index, and this release does not start without.",
        "An .index file was deleted. Kafka 0.8.0 does not build indexes anew.",
        "Stopped.",
        "Put the .index back, start a release from 0.8.1 on the directory, or make an empty file of the index's name "
        "for an empty log.",
        ("segment.index-missing",),
    ),
    BrokerMessage(
        "broker.corrupt-index",
        "warning",
        (
            "Found a corrupted index file corresponding to log file {path} due to {reason}, recovering segment",
            "Found a corrupted index file due to {reason}. deleting {path}, ",
            "Found a corrupted index file, {path}, deleting and rebuilding index",
        ),
        "An index of {path} failed its check and is built anew: {reason}.",
        "The index was written by a crash, another copy of the log, or a hand. Which checks are made depends on the "
        "release: up to 2.1 all indexes are, from 2.8 on only the transaction index is.",
        "Deletes the indexes and reads the whole segment; at the first bad batch the log is cut, later segments stay.",
        "Nothing, if no line about invalid messages follows. " + _BEFORE_NEXT,
        ("index", "txnindex"),
    ),
    BrokerMessage(
        "broker.index-refused",
        "error",
        (
            "Corrupt index found, index file ({path}) has non-zero size but the last offset is {offset}",
            "Corrupt time index found, time index file ({path}) has non-zero size but",
            "Index file {path} is corrupt, found {size_bytes} bytes which is",
        ),
        "The check of {path} failed: its last entry does not lie behind its base offset, or its size is no whole "
        "number of entries.",
        "A crash left zeros at its end and the stop was taken for clean, or the file is of another log.",
        "0.8.0 to 0.8.2 do not start; 0.9 to 2.1 and tiered storage's cache delete the index and build it anew.",
        "With the broker stopped, delete the .index of the segment (not the log, nor the .timeindex alone): the next "
        "start builds its indexes anew. Verify the log first, as that start cuts it at the first bad batch.",
        ("index",),
    ),
    BrokerMessage(
        "broker.index-orphan",
        "warning",
        ("Found an orphaned index file {path}, with no corresponding log file", "Found an orphaned index file, {path}"),
        "{path} has no log file beside it and was deleted.",
        "The log file was removed by hand, or lost in a copy. Its records are not on this disk.",
        "Deleted the index.",
        "Look for the log file in the backup or on a replica.",
        ("segment.index-orphan",),
    ),
    BrokerMessage(
        "broker.txnindex-version",
        "error",
        ("Unexpected aborted transaction version {version} in transaction index {path}, current version",),
        "{path} has an entry of version {version}; only 0 exists.",
        "The transaction index is damaged.",
        "Does not start.",
        "Move the .txnindex AND the .index of the same segment out of the way: the broker then reads the segment and "
        "builds both anew. Verify the log first, as that start cuts it at the first bad batch.",
        ("txnindex.bad-version",),
    ),
    BrokerMessage(
        "broker.offset-overflow",
        "error",
        ("Split operation is only permitted for segments with overflow, and the problem path is {path}",),
        "{path} holds an offset below its base, or one too far above it, and cannot be split.",
        "A batch header is damaged (the base offset is not covered by the checksum), or the file has a wrong name.",
        "Does not start, now or later.",
        "Copy the partition from a healthy replica. Where one is in sync and leads, the partition directory may be "
        "moved out of the log directory instead: the broker fetches it again.",
        ("offset-order",),
        ("kafkalog dump {path}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.segment-split",
        "warning",
        (
            "Splitting overflowed segment {path}",
            "Detected offset overflow at offset {offset} in segment",
            "Found log segments with overflow",
        ),
        "A segment spans more than 2147483647 offsets and is split.",
        "Compaction by a release before 1.1 joined segments too far apart (KAFKA-6264).",
        "Writes new segments, renames the old one to .deleted. No record is lost.",
        "Let it finish.",
        ("segment.cleaned", "segment.swap"),
    ),
    BrokerMessage(
        "broker.record-too-small",
        "error",
        ("Found record size {size_bytes} smaller than minimum record overhead ({count}) in file {path}",),
        "A batch in {path} says that it has {size_bytes} bytes, less than any batch has: zeros or garbage stand there.",
        "Typically a tail of zeros or garbage behind the last batch while .kafka_cleanshutdown says that the stop "
        "was clean, so that recovery does not cut it. A disk image, a snapshot or rsync of a running broker makes "
        "such pairs.",
        "At the start: does not start. While it runs: the fetch fails, consumers and followers stop there.",
        f"Keep a copy, and look what stands behind the bad place. If that may be lost, delete {CLEAN_MARK}: the next "
        f"start recovers and cuts there. {MARK_OF_ALL}",
        ("zero-filled", "bad-length"),
        ("kafkalog dump --resync {path}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.crc-mismatch",
        "error",
        (
            "is corrupt (stored crc = {stored}, computed crc = {computed}",
            "Record is corrupt {reason}",
            "CRC is corrupt",
        ),
        "A batch's checksum is not that of its bytes (stored {stored}, computed {computed}).",
        "Bytes changed on the disk, in memory or in a copy. In the line of a request it may be what a client sent.",
        "In recovery: cuts the log there. On a follower or a consumer: it stops fetching the partition.",
        "Copy the partition from a healthy replica. Check the disk (dmesg, SMART).",
        ("crc-mismatch",),
    ),
    BrokerMessage(
        "broker.unclean-start",
        "info",
        (
            "Attempting recovery for all logs in {dir} since no clean shutdown file was found",
            "Recovering {count} logs from {dir} since no clean shutdown file was found",
        ),
        "{dir} has no mark of a clean stop, so all of its partitions are recovered.",
        "The broker was killed, the machine went down, or the last start was interrupted (the mark is removed at the "
        "start).",
        "Reads every segment from the recovery point on; it cuts a partition at the first bad batch and deletes its "
        "later segments.",
        "Normal after a crash. To know before the next start what would be cut, verify a stopped broker's directory "
        "first.",
        ("dir.unclean",),
        ("kafkalog verify {dir}",),
    ),
    BrokerMessage(
        "broker.recovering-segment",
        "info",
        (
            "Recovering unflushed segment {segment} in log {partition}.",
            "Recovering unflushed segment {segment}",
        ),
        "Segment {segment} of {partition} may not have reached the disk before the crash: it is read and its indexes "
        "are built anew.",
        "Normal after an unclean stop.",
        "Reads it whole. Lines about corruption follow if something is cut.",
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
        "{dir} has the mark of a clean stop: no segment is checked.",
        "The last stop was clean.",
        "Trusts logs and indexes. Damage that came later is not noticed at the start but when the place is read.",
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
        "{path} is a finished result of compaction or a split that had not been put in its place.",
        "The broker stopped in the middle of the exchange.",
        "Puts it in its place and deletes the segments that it replaces. 2.8 and earlier recover it first, 3.9 and "
        "4.x trust it.",
        "Nothing needs to be done.",
        ("segment.swap", "segment.swap-alone", "segment.swap-index-missing"),
    ),
    BrokerMessage(
        "broker.snapshot-unreadable",
        "warning",
        ("Failed to load producer snapshot from '{path}': {reason}", "Loading producer snapshot failed {reason}"),
        "A producer snapshot, {path}, cannot be read: {reason}.",
        "It was cut by a crash or damaged.",
        "Deletes it and takes the next older one, and reads the log from there; without any it reads the whole log. "
        "On a clean start with no snapshot left, duplicates of old batches are no longer noticed.",
        "Nothing needs to be done, if no error follows.",
        ("snapshot-crc-mismatch", "snapshot-truncated", "snapshot-version"),
    ),
    BrokerMessage(
        "broker.loading-failed",
        "error",
        ("Error while loading logs in {dir} in {count}ms", "Error while loading log dir {dir}"),
        "Not all partitions of {dir} could be loaded.",
        "A line near this one names the cause.",
        "Goes on or stops, as that line says.",
        "Look at the most severe of the other lines.",
        (),
        ("kafkalog verify {dir}",),
    ),
)
