"""Findings of preflight about a start as a whole: the metadata log, the coordinators, and the limits of the machine."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import RECOVER, FindingType

__all__ = ["STARTS"]

_COMPAT: Final = "kafkalog preflight {above} --compat"
_RELEASE: Final = (
    "Start a release that loads it. If no release does, keep a copy of the directory, and restore the partition from "
    "another replica."
)

STARTS: Final = {
    "metadata-log.refused": FindingType(
        "error",
        "Kafka {release} does not load the metadata log: {why}.",
        "Does not start.",
        "Start the release that wrote the directory.",
        "A later release wrote a record, a level of a feature or a setting that this release does not accept. It reads "
        "all of them at every start, also those of which nothing is left in the cluster, until a snapshot replaces "
        "them.",
        next_step=_COMPAT,
    ),
    "coordinator.not-served": FindingType(
        "error",
        "The group coordinator of Kafka {release} does not load the partition: {why}.",
        "Starts, but does not serve the partition: clients of {groups} get NOT_COORDINATOR.",
        _RELEASE,
        "The coordinator reads the whole partition after the start, and refuses a record that contradicts what it read "
        "before, or that it does not know. Compaction may leave such records after a migration of a group between "
        "protocols (KAFKA-20254, KAFKA-21117).",
        next_step=_COMPAT,
    ),
    "coordinator.served-empty": FindingType(
        "error",
        "The group coordinator of Kafka {release} stops reading the partition: {why}.",
        "Starts, and serves the partition without any group: consumers of {groups} find no committed offset, and begin "
        "where auto.offset.reset says.",
        _RELEASE,
        "The coordinator of releases up to 3.9 logs an error, and continues without what the partition holds.",
        next_step=_COMPAT,
    ),
    "coordinator.served-before": FindingType(
        "error",
        "The group coordinator of Kafka {release} takes a place in the partition for its end: {why}.",
        "Starts, and serves the partition with what is before that place: consumers of {groups} find older offsets, or "
        "none.",
        "Stop the consumers of these groups. Run kafkalog recover: it keeps every batch that can be read.",
        "A length beyond the end of the file is to a broker as an append that was cut short, so it logs no error.",
        next_step=RECOVER,
    ),
    "coordinator.served-partly": FindingType(
        "error",
        "The transaction coordinator of Kafka {release} stops reading the partition: {why}.",
        "Starts, but does not know {groups} as the partition has them: it does not end their open transactions.",
        _RELEASE,
        "The coordinator logs an error, and serves what it has read before that record.",
        next_step=_COMPAT,
    ),
    "coordinator.forgets": FindingType(
        "warning",
        "Kafka {release} does not know {what} in the partition.",
        "Skips these records with a warning in its log: what they say of {groups} is not known to it.",
        "Start a release that knows them. After an aborted upgrade nothing needs to be done.",
        "A later release wrote the records. From 3.5 and 3.4.1 on a coordinator skips unknown types of them (KIP-915).",
        next_step=_COMPAT,
    ),
    "start.limit": FindingType(
        "error",
        "The broker reaches a limit of the machine, {limit}: it needs {needed}, and the machine has {allowed}.",
        "Starts only as far as the limit allows: {consequence}.",
        "Raise the limit, or free the space, before the start.",
        "Each segment has an open file and, from 0.10.1 on, two maps in memory once its indexes are read. A start "
        "writes files in each partition.",
    ),
}
