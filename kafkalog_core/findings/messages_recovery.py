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
_BEFORE_NEXT: Final = "Before another start check the other partitions of the directory, on a copy where there is room."

RECOVERY: Final = (
    BrokerMessage(
        "broker.truncated-at-corruption",
        "error",
        (
            "Corruption found in segment {segment} of log {partition}, truncating to offset {offset}",
            "Corruption found in segment {segment}, truncating to offset {offset}",
        ),
        "Recovery found a bad batch in segment {segment} of {partition} and truncated the log there: it ends "
        "at offset {offset} now.",
        "The last shutdown was not clean, and recovery ends at the first batch whose size or checksum is "
        "wrong. A torn last append does this after every crash and costs nothing that all replicas "
        "acknowledged.",
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
        "Truncates the segment there. After an unclean shutdown it also deletes all later segments of the "
        "partition (a line about corruption or truncation follows); where only the index was missing, later "
        "segments are kept, with a gap before them.",
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
        "Recovery read the last segment and found nothing to truncate.",
        "The last shutdown was not clean.",
        "Truncated nothing.",
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
        "The last shutdown was not clean; Kafka 0.7 and 0.8.0 then recover the last segment only, up to its "
        "first bad message.",
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
        "{partition} ends at offset {end}, but log-start-offset-checkpoint has {start} as its start: the whole "
        "log was deleted.",
        "Log files were removed by hand, recovery truncated the log below its start, or the checkpoint is of "
        "another copy of it.",
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
        "The offset index of {path} is missing and is rebuilt.",
        "It was deleted by hand, or the segment was copied without it.",
        "Reads the whole segment and checks its checksums, whether the shutdown was clean or not. At the first "
        "bad batch it truncates the log; later segments are kept, so that there is a gap.",
        "Nothing, if no line about invalid messages follows. " + _BEFORE_NEXT,
        ("segment.index-missing",),
    ),
    BrokerMessage(
        "broker.no-index-file",
        "error",
        ("Found log file with no corresponding index file.",),
        "A log file has no index, and this release does not start without.",
        "An .index file was deleted. Kafka 0.8.0 does not rebuild indexes.",
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
        "An index of {path} failed its check and is rebuilt: {reason}.",
        "The index was written by a crash, another copy of the log, or a hand. Which checks are made depends on the "
        "release: up to 2.1 all indexes are, from 2.8 on only the transaction index is.",
        "Deletes the indexes and reads the whole segment; it truncates the log at the first bad batch and "
        "keeps later segments.",
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
        "The check of {path} failed: its last entry is not above its base offset, or its size is not a whole "
        "number of entries.",
        "A crash left zeros at its end although there is a clean shutdown file, or the file is of another log.",
        "0.8.0 to 0.8.2 do not start; 0.9 to 2.1 and tiered storage's cache delete the index and rebuild it.",
        "With the broker stopped, delete the .index of the segment (not the log, nor the .timeindex alone): "
        "the next start rebuilds its indexes. Verify the log first, as that start truncates it at the first "
        "bad batch.",
        ("index",),
    ),
    BrokerMessage(
        "broker.index-orphan",
        "warning",
        ("Found an orphaned index file {path}, with no corresponding log file", "Found an orphaned index file, {path}"),
        "{path} had no log file and was deleted.",
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
        "Move the .txnindex AND the .index of the same segment out of the directory: the broker then reads the "
        "segment and rebuilds both. Verify the log first, as that start truncates it at the first bad batch.",
        ("txnindex.bad-version",),
    ),
    BrokerMessage(
        "broker.offset-overflow",
        "error",
        ("Split operation is only permitted for segments with overflow, and the problem path is {path}",),
        "{path} holds an offset below its base, or one too far above it, and cannot be split.",
        "A batch header is damaged (the base offset is not covered by the checksum), or the file has a wrong name.",
        "Does not start, now or later.",
        "Copy the partition from a healthy replica. Where one is in sync and leads, the partition directory "
        "may be moved out of the log directory instead: the broker fetches the partition again.",
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
        "A batch in {path} gives its size as {size_bytes} bytes, less than any batch has: there are zeros or garbage.",
        "Typically there are zeros or garbage after the last batch although .kafka_cleanshutdown is there, so "
        "that recovery does not truncate them. A disk image, a snapshot or rsync of a running broker makes "
        "such pairs.",
        "At the start: does not start. While it runs: the fetch fails, consumers and followers stop there.",
        f"Keep a copy, and see what is after the bad place. If that may be lost, delete {CLEAN_MARK}: the next start "
        f"recovers and truncates there. {MARK_OF_ALL}",
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
        "In recovery: truncates the log there. On a follower or a consumer: it stops fetching the partition.",
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
        "{dir} has no clean shutdown file, so all of its partitions are recovered.",
        "The broker was killed, the machine went down, or the last start was interrupted (the mark is removed at the "
        "start).",
        "Reads every segment from the recovery point on; it truncates a partition at the first bad batch and "
        "deletes its later segments.",
        "Normal after a crash. To see before the next start what would be truncated, verify a stopped broker's "
        "directory first.",
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
        "Segment {segment} of {partition} may not have been flushed before the crash: the broker reads it and "
        "rebuilds its indexes.",
        "Normal after an unclean shutdown.",
        "Reads it whole. Lines about corruption follow if it truncates something.",
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
        "{path} is a finished result of compaction or a split that did not replace the old segments yet.",
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
        "It was truncated by a crash or damaged.",
        "Deletes it and takes the next older one, and reads the log from there; without any it reads the whole "
        "log. On a clean start with no snapshot left, it no longer notices duplicates of old batches.",
        "Nothing needs to be done, if no error follows.",
        ("snapshot-crc-mismatch", "snapshot-truncated", "snapshot-version"),
    ),
    BrokerMessage(
        "broker.loading-failed",
        "error",
        ("Error while loading logs in {dir} in {count}ms", "Error while loading log dir {dir}"),
        "Not all partitions of {dir} could be loaded.",
        "A line near this one names the cause.",
        "Continues or stops, as that line describes.",
        "Look at the most severe of the other lines.",
        (),
        ("kafkalog verify {dir}",),
    ),
)
