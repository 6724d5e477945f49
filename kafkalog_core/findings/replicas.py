"""Findings of the comparison of a partition's copies."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["REPLICAS"]

REPLICAS: Final = {
    "replicas.divergent": FindingType(
        "error",
        "From offset {offset} on this copy is of another history than the one to keep: it took records under a leader "
        "that the cluster did not go on with. {records} records are in no other copy.",
        "Cuts its log at offset {cut} when it meets the leader, and fetches the rest from it.",
        "Save the records first (kafkalog dump), then let it start beside the copy to keep.",
        "Two brokers led the partition one after the other, and the second one did not have all records of the first: "
        "an unclean election, or records that were not yet committed.",
    ),
    "replicas.divergent-silently": FindingType(
        "error",
        "From offset {offset} on this copy differs from the one to keep, and its leader epochs do not show it. "
        "{records} records are in no other copy.",
        "Does not notice: it goes on from the end of its log, and consumers read other records when it leads.",
        "Save the records that it alone has (kafkalog dump), then delete the directory: its broker fetches it anew.",
        "The leader epochs of both agree over offsets whose records differ: logs of before 0.11, or a log that was "
        "repaired or damaged in a way that its checksums do not show.",
    ),
    "replicas.damaged": FindingType(
        "error",
        "This copy is damaged ({damage}); another one has {records} records that it cannot give any more.",
        "Depends on the damage: kafkalog explain of each finding of kafkalog verify says it.",
        "Keep the other copy, delete this directory, and let its broker fetch it anew. kafkalog verify names all that "
        "is wrong.",
        "What is damaged in one copy may be whole in another one: compare before anything is cut.",
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
        "From offset {offset} on the copies hold different records, and nothing tells which are true. {records} "
        "records are in this copy alone.",
        "Does not notice: consumers read other records when another broker leads.",
        "Keep all copies, compare their records (kafkalog dump), and ask those who wrote them.",
        "Leader epochs, high watermarks and lengths of the copies are the same, and their records are not.",
    ),
    "replicas.missing": FindingType(
        "error",
        "This copy lacks {records} records without being damaged there: another one has them, and no cleaner has been "
        "at work.",
        "Does not notice: it serves the log with the hole in it.",
        "Keep the other copy, delete this directory, and let its broker fetch it anew.",
        "A segment was deleted or cut while the broker was down, or a recovery has cut one in the middle.",
    ),
    "replicas.behind": FindingType(
        "info",
        "This copy ends at offset {offset}; another one has {records} records more.",
        "Fetches them from the leader.",
        "Nothing, while the other copy is there.",
        "A follower that is behind catches up by itself. Where it is elected all the same, what it lacks is lost.",
    ),
    "replicas.another-topic": FindingType(
        "warning",
        "The directories of this name are of different topics: {ids}.",
        "Sets a directory aside whose topic id is not the cluster's.",
        "Find out which id the cluster has, and leave the others out.",
        "A topic that was deleted and made again has another id, and a disk of another cluster too.",
    ),
    "replicas.set-aside": FindingType(
        "info",
        "A directory that is no current copy of its partition: it is not compared.",
        "Does not serve it.",
        "Nothing; to compare it, name it without its suffix in a copy of the log directory.",
        "A broker does not serve what it is about to delete, has found to be a stray, or has not yet moved here.",
    ),
    "replicas.not-compared": FindingType(
        "warning",
        "A log of Kafka 0.7, which knows no copies: it is not compared.",
        "Serves it; there are no followers.",
        "Nothing needs to be done.",
        "Brokers of 0.7 do not replicate; their logs are addressed by bytes.",
    ),
}
