"""Findings of forecasts of retention: why nothing is deleted, and what cannot be told."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["RETENTION"]

RETENTION: Final = {
    "retain.future-timestamp": FindingType(
        "warning",
        "The largest timestamp of the segment lies {ahead} ahead of now, at {time}: retention by time keeps it, and "
        "all that follows it, until {due}.",
        "Keeps the segment and all newer ones; retention by size and delete-records take no notice of timestamps.",
        "Find what wrote it: kafkalog dump --times. To be rid of it sooner use kafka-delete-records, or "
        "retention.bytes for a while; message.timestamp.after.max.ms refuses such records.",
        "Producers choose timestamps. One that is far ahead keeps its segment, and a check stops there.",
    ),
    "retain.held-back": FindingType(
        "info",
        "An older segment that stays holds back {segments} with {size} that would go: {why}.",
        "Stops each check at the first segment that stays, whatever is behind it.",
        "Nothing needs to be done, unless the space is needed: then look at the segment that holds them back.",
        "Timestamps need not ascend. Segments are deleted from the oldest offset on, and never from the middle.",
    ),
    "retain.high-watermark": FindingType(
        "warning",
        "Segments that are due reach above the high watermark {watermark} ({origin}): they stay until replicas have "
        "what is in them.",
        "Deletes them at the first check after the high watermark has risen.",
        "See why replicas lag: kafka-topics --describe --under-replicated-partitions.",
        "Nothing is deleted that is not known to be on all replicas in sync.",
    ),
    "retain.by-file-time": FindingType(
        "info",
        "No timestamp that a broker knows is there in {segments} ({why}).",
        "Goes by the modification time, which copying without cp -p makes new.",
        "Where only the time index is missing, kafkalog reindex builds it.",
        "Records of formats before 0.10.0 have no timestamps, and a time index can be empty or lost.",
    ),
    "retain.remote-unknown": FindingType(
        "info",
        "The topic is tiered: what is due of it, {segments} with {size}, goes from this disk once it is in remote "
        "storage, and nothing on this disk tells what is.",
        "Asks the remote log metadata, and deletes what has been copied.",
        "Ask a running broker: kafka-get-offsets --time -5 gives the highest offset in remote storage.",
        "What is in remote storage is told by the topic __remote_log_metadata.",
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
        "The log of the cluster's metadata has rules of its own: it is cut behind snapshots, by "
        "metadata.max.retention.ms and metadata.max.retention.bytes.",
        "Deletes what the oldest snapshot that it keeps has made superfluous.",
        "Nothing needs to be done.",
        "The topics' retention has no part in __cluster_metadata.",
    ),
    "retain.producers-unknown": FindingType(
        "warning",
        "The state of producers at the end of the log cannot be told, as the log cannot be read at byte {position} "
        "({damage}): no snapshot is made of it.",
        "Forgets these producers where it finds no snapshot.",
        "See what is there: kafkalog verify.",
        "Where all segments go, a snapshot at the end of the log keeps what is known of its producers.",
    ),
}
