"""Findings of the jobs over many disks (export, replicas, catalog), of seek and of groups."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import UNLESS_RECOVERED, VERIFY, FindingType
from kafkalog_core.findings.metadata_log import SNAPSHOT_CURE

__all__ = ["CATALOGS", "CLUSTER", "EXPORTS", "GROUPS", "LOOKUPS", "REPLICAS"]


_CHOICE: Final = (
    "Find out which log is the right one. Then use either --on-change reload, which deletes the partition's files and "
    "exports the log again, or --on-change continue, which keeps them and continues at the same offset, or at the log "
    "end offset if that is lower."
)
_NOT_BROKEN: Final = "Nothing: this is not damage in the log."

EXPORTS: Final = {
    "export.log-shorter": FindingType(
        "error",
        "The export reached offset {last}, but the log ends before offset {end}: it was truncated, or it is another "
        "log.",
        _NOT_BROKEN,
        _CHOICE,
        "A follower truncates what its leader does not have, and a topic that is created again starts at offset 0. "
        "The export holds records that the log no longer has. Nothing of the partition is exported until you choose.",
    ),
    "export.log-changed": FindingType(
        "error",
        "The batch at offset {last} is not the one that was exported: the log was written again from there or before, "
        "or it is another log.",
        _NOT_BROKEN,
        _CHOICE,
        "The last exported batch is compared with the batch in the log. After a change of leaders, or an unclean "
        "election, the same offsets may hold other records. Nothing of the partition is exported until you choose.",
    ),
    "export.other-topic": FindingType(
        "error",
        "The directory has topic id {topic_id}, but the export has {was}: the topic was deleted and created again.",
        _NOT_BROKEN,
        _CHOICE,
        "Both topics have the same name and count offsets from 0. Nothing of the partition is exported until you "
        "choose.",
    ),
    "export.changed-by-choice": FindingType(
        "warning",
        "The log is not the one that was exported ({problem}); --on-change {choice} continues the export.",
        _NOT_BROKEN,
        "Nothing needs to be done.",
        "After reload the files hold the current log. After continue they also hold what was exported before, so that "
        "an offset may appear twice, with different records.",
    ),
    "export.file-lost": FindingType(
        "error",
        "A file of the export ({records} records, offsets {offset} to {last}) is missing, or differs from the "
        "committed file: somebody deleted or changed it.",
        _NOT_BROKEN,
        "Restore the file, or export all partitions again that it may have held: kafkalog spark export --reload.",
        "An export knows its files by their names and sizes. It does not export deleted files again, because their "
        "offsets count as exported.",
    ),
    "export.gone-before": FindingType(
        "warning",
        "Offsets {offset} to {last} were deleted from the log before they were exported.",
        "Deletes old segments by retention, or what kafka-delete-records asks for.",
        "Export more often than retention deletes, or take the records from another copy of the partition.",
        "The log starts after the last exported offset.",
    ),
    "export.header-keys": FindingType(
        "info",
        "Some header keys ({keys}, the first at offset {offset}) are not UTF-8: their invalid bytes were written as "
        "U+FFFD.",
        "Serves them unchanged; Java clients read them with U+FFFD too.",
        "If you need the bytes, read them with kafkalog dump --records --bytes base64.",
        "A text column can hold only UTF-8. Keys and values of records, and values of headers, are bytes and do not "
        "change.",
    ),
    "export.held-back": FindingType(
        "info",
        "The log ends with {size_bytes} bytes that are not a whole batch, from byte {position} on: they are exported "
        "once they form one.",
        "Writes the rest of it, or, if it was killed in the middle, truncates it at its start.",
        "Nothing needs to be done.",
        "The broker is writing a batch now, or was when it stopped or when the copy was made. After a clean shutdown "
        "this is damage (log.torn-tail).",
    ),
    "export.read-later": FindingType(
        "info",
        "This segment, which an earlier run could not open, is now exported.",
        _NOT_BROKEN,
        "Nothing needs to be done.",
        "Its records are in a file of their own.",
    ),
    "export.left-out": FindingType(
        "info",
        "This directory is not a partition that a broker serves ({state}): it was not exported.",
        "Deletes it, renames it, or continues to fill it.",
        "If you need its records, name the directory itself.",
        "Directories that wait for deletion, are stray, or are being filled hold the same offsets as others.",
    ),
}


REPLICAS: Final = {
    "replicas.divergent": FindingType(
        "error",
        "From offset {offset} on this copy has another history than the one to keep: a leader that the cluster did "
        "not continue with appended its records. {records} records are in no other copy.",
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
        "Save the records that only this copy has (kafkalog dump), then delete the directory: its broker fetches the "
        "partition again.",
        "The leader epochs of both agree for offsets whose records differ: the logs are from before 0.11, or one was "
        "repaired, or damaged in a way that its checksums do not show.",
    ),
    "replicas.damaged": FindingType(
        "error",
        "This copy is damaged ({damage}); another copy has {records} records that it has lost.",
        "Depends on the damage: kafkalog explain shows it for each finding of kafkalog verify.",
        "Keep the other copy, truncate this one at the damage (kafkalog recover --refetch), and let its broker fetch "
        "the rest again. kafkalog verify lists everything that is wrong.",
        "A part that is damaged in one copy may be intact in another: compare the copies before you truncate anything.",
    ),
    "replicas.damaged-everywhere": FindingType(
        "error",
        "Every copy is damaged at {where}: no copy has the records there.",
        "Depends on the damage: kafkalog explain shows it for each finding of kafkalog verify.",
        "Do not truncate a copy with --refetch: what follows the damage may not come back. Repair the copy to keep "
        "first (kafkalog recover --only-copy).",
        "No replica can bring these records back. A backup, or a system that has read the topic, may have them.",
    ),
    "replicas.keep-lacks": FindingType(
        "error",
        "This is the copy to keep, but it lacks {records} records that another copy has: they are damaged or missing "
        "here.",
        "Does not notice missing records. If records are damaged, it does not start, or serves errors.",
        "Save these records from the other copy first (kafkalog dump), and do not delete this directory: it has the "
        "latest history.",
        "No copy is complete: the one to keep lacks least of the history that the cluster continued with.",
    ),
    "replicas.undecided": FindingType(
        "error",
        "From offset {offset} on the copies hold different records, and nothing shows which are right. {records} "
        "records are only in this copy.",
        "Does not notice: consumers read other records when another broker leads.",
        "Keep all copies, compare their records (kafkalog dump), and ask the owners of the data.",
        "Leader epochs, high watermarks and lengths of the copies are equal, but their records differ.",
    ),
    "replicas.missing": FindingType(
        "error",
        "This copy lacks {records} records without damage: another copy has them, and no cleaner removed them.",
        "Does not notice: it serves the log with the gap.",
        "Keep the other copy, delete this directory, and let its broker fetch the partition again.",
        "A segment was deleted or truncated while the broker was down, or a recovery truncated a segment in the "
        "middle.",
    ),
    "replicas.behind": FindingType(
        "info",
        "This copy ends at offset {offset}; another copy has {records} more records.",
        "Fetches them from the leader.",
        "Nothing needs to be done while the other copy exists.",
        "A follower that lags catches up by itself. If it is elected leader before that, the records that it lacks "
        "are lost.",
    ),
    "replicas.another-topic": FindingType(
        "warning",
        "The directories of this name belong to different topics: {ids}.",
        "Renames a directory whose topic id is not the cluster's to end in -stray.",
        "Find out which id the cluster has, and leave the other directories out.",
        "A topic that was deleted and created again has another id, and so has a disk of another cluster.",
    ),
    "replicas.set-aside": FindingType(
        "info",
        "The directory is not a current copy of its partition: it is not compared.",
        "Does not serve it.",
        "Nothing needs to be done. To compare it, copy the log directory and name it without its suffix there.",
        "A broker does not serve a directory that waits for deletion, is stray, or is not yet moved here.",
    ),
    "replicas.not-compared": FindingType(
        "warning",
        "The log is from Kafka 0.7, which has no replicas: it is not compared.",
        "Serves it; there are no followers.",
        "Nothing needs to be done.",
        "Brokers of 0.7 do not replicate, and their offsets are byte addresses.",
    ),
}


CATALOGS: Final = {
    "catalog.segments-deleted": FindingType(
        "info",
        "Since the last catalog {count:,} segments were deleted from the start of the log: offsets {offset} to "
        "{last}, {size_bytes:,} bytes.",
        "Deletes segments in this way by retention, or when a client deletes records.",
        "Nothing needs to be done. To see what retention deletes next: kafkalog retain.",
        "The log starts later than before. The rows of the deleted segments leave the catalog.",
    ),
    "catalog.segment-lost": FindingType(
        "warning",
        "This segment (offsets {offset} to {last}, {size_bytes:,} bytes) was in the last catalog, but its file is "
        "missing, although the log starts before it.",
        "Does not notice: a consumer continues after the gap.",
        "If the topic is compacted, the cleaner has merged it into the segment before. If this is a follower, it may "
        "have truncated its log. Else find out who deleted the file, and look for the records on the other replicas: "
        "kafkalog replicas.",
        "Retention deletes segments at the start of a log. In the middle only the cleaner deletes segments, and at "
        "the end only a follower that truncates what its leader does not have.",
    ),
    "catalog.partition-gone": FindingType(
        "warning",
        "This partition ({segments:,} segments, {size_bytes:,} bytes) was in the last catalog, but its directory is "
        "missing.",
        "Creates it again, empty, if the cluster still assigns it to this broker, and fetches it from the leader.",
        "If its topic was deleted, or the partition moved to another disk or broker, nothing needs to be done.",
        "A directory of the catalog no longer has a partition that it had.",
    ),
}


_LOOK: Final = "Run kafkalog verify on the partition: it names every wrong entry, and the command that repairs it."

LOOKUPS: Final = {
    "lookup.index-not-used": FindingType(
        "warning",
        "An index was not used, and the log was read instead: {problem}.",
        f"Uses it as it is{UNLESS_RECOVERED}.",
        _LOOK,
        "An index only shows where to start reading. Each entry is compared with the log. If they differ, earlier "
        "entries are tried, and then the segment is read from its start: slower, but right. Time entries that the log "
        "cleaner wrote may differ and do no harm.",
    ),
    "lookup.broker-differs": FindingType(
        "warning",
        "A broker of {release} answers otherwise: {answer}.",
        "Returns this answer. If an index is the reason, it does so until it rebuilds the index.",
        _LOOK + " Any other reason remains: a search by time reads only one segment.",
        "A broker searches for a time only in the first segment whose time index (without entries: whose modification "
        "time) reaches it, and trusts its indexes. The records in the log are different.",
    ),
}


_AT_FILE: Final = "kafkalog verify {file}"

CLUSTER: Final = {
    "cluster.unread": FindingType(
        "error",
        "The metadata log cannot be read{place}: {problem}. What is shown of the cluster ends before offset {end}; "
        "what comes after it is unknown.",
        "Depends on the damage: kafkalog preflight simulates the next start.",
        cure=(
            "Name the log directories of the other controllers and brokers too: each has a copy of this log, and the "
            f"newest whole one is used. To see all damage: {VERIFY.partition(' {')[0]}."
        ),
        meaning=(
            "The cluster is shown as it was after the last record before the damage. A damaged or missing batch may "
            "hold any change: a topic, a leader, a setting."
        ),
        next_step=_AT_FILE,
    ),
    "cluster.snapshot-unread": FindingType(
        "error",
        "The snapshot cannot be read{place}: {problem}. The log before it has the same records, and the cluster is "
        "shown as a whole.",
        "Depends on the damage: kafkalog preflight simulates the next start.",
        SNAPSHOT_CURE,
        "The cluster is read from an older snapshot, or from the start, and the log from there on.",
        next_step=_AT_FILE,
    ),
    "cluster.contradiction": FindingType(
        "error",
        "The metadata log contradicts itself, so {records} do not count. The first one: {problem}.",
        "Ends its process at this record: a fatal fault of its metadata loader.",
        cure=(
            "Records before this one are missing. Name the log directories of the other controllers and brokers too: "
            "the copy with the latest end is used."
        ),
        meaning="Every change of a topic, a partition or a broker follows the record that made it.",
        next_step=_AT_FILE,
    ),
}
GROUPS: Final = {
    "groups.unread": FindingType(
        "error",
        "A part of this log cannot be read, so commits and members of groups may be missing: {problem}.",
        "Depends on the damage: kafkalog verify simulates the next start.",
        cure=(
            "Read another replica's copy as well: name its log directory too, and the better copy is used. "
            f"To see all damage: {VERIFY.partition(' {')[0]}."
        ),
        meaning=(
            "The state of the groups is that of all records that can be read. A damaged batch may hold later commits "
            "than those that are shown."
        ),
        next_step=_AT_FILE,
    ),
    "groups.undecoded": FindingType(
        "warning",
        "Records of groups that cannot be decoded do not count: {records}, {problem}.",
        "A group coordinator of 4.x skips records of an unknown type, and loads nothing of the partition if the value "
        "of a known type does not decode.",
        cure=(
            "A later release of Kafka may have written them. To see the bytes: kafkalog dump --records --topic "
            "__consumer_offsets."
        ),
        meaning=(
            "A key has an unknown type, a value has an unknown version, or the fields do not add up. All other records "
            "are read."
        ),
    ),
}
