"""Findings of the export: what an incremental run meets in a log that is not as it was left."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["CATALOGS", "EXPORTS", "LOOKUPS", "REPLICAS"]


_CHOICE: Final = (
    "Find out which log is the right one. Then use either --on-change reload, which removes the partition's "
    "files and exports the log as it is, or --on-change continue, which keeps them and continues at the same "
    "offset, or at the log end offset if that is lower."
)
_NOT_BROKEN: Final = "Nothing: the log itself is sound as far as this is concerned."

EXPORTS: Final = {
    "export.log-shorter": FindingType(
        "error",
        "The export has come to offset {last}, and the log ends before offset {end}: it was truncated, or it is "
        "another log.",
        _NOT_BROKEN,
        _CHOICE,
        "A follower truncates what its leader does not have, and a topic that is created again starts at "
        "offset 0. The export holds records that the log no longer has; nothing of the partition is exported "
        "until you choose.",
    ),
    "export.log-changed": FindingType(
        "error",
        "The batch at offset {last} is not the one that was exported: the log was written again from there or "
        "before, or it is another log.",
        _NOT_BROKEN,
        _CHOICE,
        "The batch that was exported last is compared with the batch that is there now. After a change of "
        "leaders, or an unclean election, the same offsets may hold other records; nothing of the partition is "
        "exported until you choose.",
    ),
    "export.other-topic": FindingType(
        "error",
        "The directory has topic id {topic_id}, and the export has {was}: the topic was deleted and created again.",
        _NOT_BROKEN,
        _CHOICE,
        "Both topics have the same name and count offsets from 0; nothing of the partition is exported until somebody "
        "chooses.",
    ),
    "export.changed-by-choice": FindingType(
        "warning",
        "The log is not the one that was exported ({problem}); --on-change {choice} continues the export.",
        _NOT_BROKEN,
        "Nothing needs to be done.",
        "After reload the files hold the log as it is; after continue they also hold what was exported before, so that "
        "an offset may be there twice, with other records.",
    ),
    "export.file-lost": FindingType(
        "error",
        "This file of the export, with {records} records of offsets {offset} to {last}, is not there, or not as it was "
        "committed: somebody has removed or changed it.",
        _NOT_BROKEN,
        "Put it back, or export its partition again: kafkalog spark export --topic TOPIC --partition N --reload.",
        "An export knows its files by their names and sizes. What is taken out by hand is not exported again by "
        "itself, as the offsets count as exported.",
    ),
    "export.gone-before": FindingType(
        "warning",
        "Offsets {offset} to {last} were deleted from the log before they were exported.",
        "Deletes old segments by retention, or what kafka-delete-records asks for.",
        "Export more often than retention deletes, or take them from another copy of the partition.",
        "The log starts after the last exported offset.",
    ),
    "export.header-keys": FindingType(
        "info",
        "Some header keys ({keys}, the first at offset {offset}) are not UTF-8: their invalid bytes were "
        "written as U+FFFD.",
        "Serves them as they are; Java clients read them with U+FFFD too.",
        "Where the bytes matter, read them by kafkalog dump --records --bytes base64.",
        "A column of text can hold UTF-8 only. Keys and values of records, and values of headers, are bytes "
        "and are kept as they are.",
    ),
    "export.held-back": FindingType(
        "info",
        "The log ends in {size_bytes} bytes that are not a whole batch, from byte {position} on: they are "
        "exported once they form one.",
        "Writes the rest of it, or, if it died in the middle, truncates it at its start.",
        "Nothing needs to be done.",
        "A batch is being written at this moment, or was when the broker stopped or the copy was made. Where a clean "
        "shutdown is marked it is damage, log.torn-tail.",
    ),
    "export.read-later": FindingType(
        "info",
        "This segment, which an earlier run could not open, was exported now.",
        _NOT_BROKEN,
        "Nothing needs to be done.",
        "Its records are in a file of their own.",
    ),
    "export.left-out": FindingType(
        "info",
        "This directory is not of a partition that is served ({state}): it was not exported.",
        "Deletes it, renames it, or continues to fill it.",
        "Name the directory itself where its records are wanted.",
        "Directories that wait for deletion, were found stray, or are being filled hold the same offsets as others.",
    ),
}


REPLICAS: Final = {
    "replicas.divergent": FindingType(
        "error",
        "From offset {offset} on this copy is of another history than the one to keep: it took records under a leader "
        "that the cluster did not go on with. {records} records are in no other copy.",
        "Truncates its log at offset {cut} when it contacts the leader, and fetches the rest from it.",
        "Save the records first (kafkalog dump), then start its broker while the broker of the copy to keep runs.",
        "Two brokers led the partition one after the other, and the second one did not have all records of the first: "
        "an unclean election, or records that were not yet committed.",
    ),
    "replicas.divergent-silently": FindingType(
        "error",
        "From offset {offset} on this copy differs from the one to keep, and its leader epochs do not show it. "
        "{records} records are in no other copy.",
        "Does not notice: it continues from the end of its log, and consumers read other records when it leads.",
        "Save the records that only this copy has (kafkalog dump), then delete the directory: its broker "
        "fetches the partition again.",
        "The leader epochs of both agree over offsets whose records differ: logs of before 0.11, or a log that was "
        "repaired or damaged in a way that its checksums do not show.",
    ),
    "replicas.damaged": FindingType(
        "error",
        "This copy is damaged ({damage}); another one has {records} records that it cannot give any more.",
        "Depends on the damage: kafkalog explain shows it for each finding of kafkalog verify.",
        "Keep the other copy, delete this directory, and let its broker fetch the partition again. kafkalog "
        "verify lists everything that is wrong.",
        "What is damaged in one copy may be whole in another one: compare them before anything is truncated.",
    ),
    "replicas.keep-lacks": FindingType(
        "error",
        "This is the copy to keep, and it lacks {records} records that another one has: they are damaged or missing "
        "here.",
        "Does not notice where they are missing; where they are damaged it does not start, or serves errors.",
        "Save these records from the other copy first (kafkalog dump), and do not delete this directory: it has the "
        "latest history.",
        "No copy has everything: the one to keep lacks least of the history that the cluster went on with.",
    ),
    "replicas.undecided": FindingType(
        "error",
        "From offset {offset} on the copies hold different records, and nothing shows which are the right "
        "ones. {records} records are in this copy alone.",
        "Does not notice: consumers read other records when another broker leads.",
        "Keep all copies, compare their records (kafkalog dump), and ask those who wrote them.",
        "Leader epochs, high watermarks and lengths of the copies are the same, and their records are not.",
    ),
    "replicas.missing": FindingType(
        "error",
        "This copy lacks {records} records without being damaged there: another one has them, and no cleaner has been "
        "at work.",
        "Does not notice: it serves the log with the hole in it.",
        "Keep the other copy, delete this directory, and let its broker fetch the partition again.",
        "A segment was deleted or truncated while the broker was down, or a recovery has truncated one in the middle.",
    ),
    "replicas.behind": FindingType(
        "info",
        "This copy ends at offset {offset}; another one has {records} records more.",
        "Fetches them from the leader.",
        "Nothing, while the other copy is there.",
        "A follower that lags catches up by itself. If it is elected leader before that, the records that it "
        "lacks are lost.",
    ),
    "replicas.another-topic": FindingType(
        "warning",
        "The directories of this name are of different topics: {ids}.",
        "Renames a directory whose topic id is not the cluster's (-stray).",
        "Find out which id the cluster has, and leave the others out.",
        "A topic that was deleted and made again has another id, and a disk of another cluster too.",
    ),
    "replicas.set-aside": FindingType(
        "info",
        "The directory is not a current copy of its partition: it is not compared.",
        "Does not serve it.",
        "Nothing; to compare it, name it without its suffix in a copy of the log directory.",
        "A broker does not serve what it is about to delete, has found to be a stray, or has not yet moved here.",
    ),
    "replicas.not-compared": FindingType(
        "warning",
        "A log of Kafka 0.7, which knows no copies: it is not compared.",
        "Serves it; it has no followers.",
        "Nothing needs to be done.",
        "Brokers of 0.7 do not replicate; their logs are addressed by bytes.",
    ),
}


CATALOGS: Final = {
    "catalog.segments-deleted": FindingType(
        "info",
        "Since the last catalogue {count:,} segments were deleted from the start of the log: offsets {offset} "
        "to {last}, {size_bytes:,} bytes.",
        "Nothing: retention and the deletion of records do this.",
        "Nothing needs to be done. What retention does next: kafkalog retain.",
        "The log begins later than it did. Their rows leave the catalogue.",
    ),
    "catalog.segment-lost": FindingType(
        "warning",
        "This segment (offsets {offset} to {last}, {size_bytes:,} bytes) was in the last catalogue, and its file is "
        "gone, though the log begins before it.",
        "Does not notice: a consumer continues after the gap.",
        "If the topic is compacted, the cleaner has merged it into the segment before. If this is a follower, "
        "it may have truncated its log. Else find out who deleted the file, and look for the records on the "
        "other replicas: kafkalog spark replicas.",
        "Segments are deleted at the start of a log. In its middle only the cleaner deletes them, at its end "
        "only a follower that truncates what its leader does not have.",
    ),
    "catalog.partition-gone": FindingType(
        "warning",
        "This partition ({segments:,} segments, {size_bytes:,} bytes) was in the last catalogue, and its directory is "
        "gone.",
        "Creates it again, empty, where the cluster still assigns it here, and fetches it from the leader.",
        "If its topic was deleted or the partition moved to another disk or broker, nothing needs to be done.",
        "A directory that is given to the catalogue, and no longer has a partition that it had.",
    ),
}


_LOOK: Final = (
    "Run kafkalog verify on the partition: it names every entry that is wrong, and the command that repairs it."
)

LOOKUPS: Final = {
    "lookup.index-not-used": FindingType(
        "warning",
        "An index was not used, and the log was read instead: {problem}.",
        "Uses it as it is, unless it recovers the segment at its start, which rebuilds the index.",
        _LOOK,
        "An index only shows where to start reading. Each entry is compared with the log; where the two "
        "differ, earlier entries are tried, and then the segment is read from its start: slower, and right. "
        "Time entries that the log cleaner wrote may differ and do no harm.",
    ),
    "lookup.broker-differs": FindingType(
        "warning",
        "A broker of {release} answers otherwise: {answer}.",
        "Answers so; where an index is the reason, until it rebuilds the index.",
        _LOOK + " Any other reason remains: a search by time reads one segment alone.",
        "A broker looks for a time only in the first segment whose time index (without entries: whose "
        "modification time) claims to reach it, and trusts its indexes. The records in the log are different.",
    ),
}
