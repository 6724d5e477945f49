"""Findings of `kafkalog recover`: what it chose for a partition, and what it cannot bring back."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import VERIFY, FindingType

__all__ = ["RECOVERIES"]

RECOVERIES: Final = {
    "recover.excised": FindingType(
        "warning",
        "{places} of the log cannot be read: {what}.",
        "Truncates the log at the first of these places when it recovers the segment, and deletes all later records.",
        "This plan replaces only these bytes, and keeps every record after them. If another replica has the records, "
        "copy the partition from there instead.",
        "Damage in the middle of the only copy of a log: an empty batch, as the cleaner writes it, takes its place. "
        "Messages of magic 0 and 1 are removed, which leaves a gap in the offsets.",
    ),
    "recover.refetched": FindingType(
        "warning",
        "The log ends at offset {offset} afterwards, before its first damage: {what}. Other replicas are in sync "
        "(nodes {nodes}).",
        "Fetches the records from the leader, as a follower.",
        "Start this broker only while a replica of these nodes is the leader: a leader that has lost records makes "
        "its followers truncate theirs.",
        "An in-sync replica has every committed record. A follower fetches what is after the end of its own log, and "
        "never what is missing before it.",
    ),
    "recover.left": FindingType(
        "warning",
        "This place cannot be excised, because {why}: {what}.",
        None,
        "Copy the partition from a healthy replica, if there is one.",
        "Only whole batches between readable ones can be replaced. The segment ends before such a place; later "
        "segments are kept.",
    ),
    "recover.hanging": FindingType(
        "error",
        "The marker that ended the transaction of producer {producer_id} (epoch {producer_epoch}) is lost: the "
        "transaction has been open since offset {offset}.",
        "Serves read_committed consumers only up to this offset until the transaction ends.",
        "When the broker runs, abort the transaction: kafka-transactions.sh abort.",
        "An empty batch ends no transaction. Nothing on the named disks proves the outcome of this one.",
    ),
    "recover.not-started": FindingType(
        "error",
        "A broker would not start on this partition after the plan: {problem}.",
        "Does not start, or takes the log directory offline.",
        "See what is wrong: kafkalog verify.",
        "The simulated start of a broker on the files as the plan leaves them.",
        next_step=VERIFY,
    ),
    "recover.truncated-again": FindingType(
        "error",
        "A broker that starts after an unclean shutdown would still truncate {size_bytes} bytes of this log after the "
        "plan.",
        "Truncates the log when it recovers it.",
        "See what is wrong: kafkalog verify.",
        "The simulated start of a broker on the files as the plan leaves them.",
        next_step=VERIFY,
    ),
}
