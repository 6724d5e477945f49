"""Broker messages about the metadata log of a KRaft node: where it is, its quorum-state, and its batches."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["METADATA"]


METADATA: Final = (
    BrokerMessage(
        "broker.metadata-elsewhere",
        "error",
        (
            (
                "Found unexpected metadata location in data directory `{entry}` (the configured metadata directory is "
                "{dir})."
            ),
        ),
        "The metadata log is in {entry}, but the settings have {dir} as its log directory.",
        "Two disks are mounted in the place of each other, or metadata.log.dir or the order of log.dirs has changed.",
        "Does not start. The files do not change.",
        "Mount the disks as before, or correct the settings.",
        ("dir.metadata-elsewhere",),
    ),
    BrokerMessage(
        "broker.quorum-state-unreadable",
        "error",
        ("Error while reading the Quorum status from the file {path}",),
        "The node could not read {path}.",
        "A loss of power, a full disk or an editor left it empty or damaged.",
        "Does not start.",
        "Correct the file by hand, or restore a copy of this node's own file. Do not let the node create a new one: it "
        "would forget its vote, and may vote twice in one epoch.",
        ("quorum-state",),
        ("kafkalog verify {log_dir}",),
    ),
    BrokerMessage(
        "broker.metadata-batch-empty",
        "error",
        ("Batch must contain at least one record; baseOffset = {offset}; epoch = {number}",),
        "The metadata log has a batch without records at offset {offset}.",
        "A tool replaced a damaged batch, as is right in the logs of topics.",
        "Does not start: Kafka's raft client refuses a batch without records in this log.",
        "If other controllers are healthy, remove this one from the quorum and add it again. Otherwise restore a copy "
        "of the metadata log.",
        ("metadata-log.empty-batch",),
        ("kafkalog verify {log_dir}",),
    ),
)
