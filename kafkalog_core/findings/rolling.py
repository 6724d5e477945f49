"""Findings of the forecast of rolling: where it cannot tell, and what does not fit into a segment."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["ROLLING"]

_NOTHING: Final = "Nothing needs to be done."

ROLLING: Final = {
    "roll.damaged": FindingType(
        "error",
        "The log is damaged at byte {position} ({problem}): where it would have rolled is told up to there alone.",
        "Stops here when it recovers the segment, and cannot serve what stands there.",
        "See what is wrong: kafkalog verify. Cut it off: kafkalog truncate --at-damage. Then ask again.",
        "A log is appended again batch by batch; what is no batch cannot be. With --apply nothing is written.",
    ),
    "roll.unreadable": FindingType(
        "error",
        "This cannot be read ({problem}): where the log would have rolled is told up to there alone.",
        "Takes the whole log directory offline where its own user cannot read it either.",
        "Run this as the broker's user, or as root; where the disk is at fault: kafkalog verify.",
        "A log is appended again from its first batch on; what stands behind a file that cannot be read is not known.",
    ),
    "roll.torn-tail": FindingType(
        "info",
        "The last {size_bytes} bytes are no whole batch ({problem}) and count for nothing.",
        "Cuts them off when it recovers the segment.",
        _NOTHING + " What --apply writes ends before them.",
        "An append was cut short when the broker stopped.",
    ),
    "roll.not-appendable": FindingType(
        "error",
        "These batches cannot be appended in this order: {problem}.",
        "Refuses the append, or stops when it builds the index anew.",
        "See what is wrong: kafkalog verify.",
        "An index of a segment holds ascending offsets alone.",
    ),
    "roll.oversized": FindingType(
        "warning",
        "Batches are larger than segment.bytes={limit} ({count}): each is taken to have a segment of its own.",
        "Refuses to append such a batch (RecordBatchTooLargeException), also when a follower fetches it.",
        "Choose a larger segment.bytes.",
        "A batch must fit into a segment. Those that are there were appended under a larger setting.",
    ),
    "roll.wall-clock": FindingType(
        "info",
        "When a segment grew older than segment.ms the log does not tell, and no roll by time is told: {why}.",
        "Compares the time at which it opened the segment with its own clock.",
        _NOTHING,
        "Since 0.10.1 a segment is as old as its records say; before, and where the first batch of a segment has no "
        "timestamp, the broker's clock counts, and a restart begins anew.",
    ),
    "roll.jitter": FindingType(
        "info",
        "A random part of segment.jitter.ms={jitter_ms} is taken off segment.ms for each segment: what is told comes "
        "of none of it.",
        "Draws a number when it opens a segment, and again at each restart.",
        "Choose what is drawn with --jitter-seed; a restart of the broker draws again.",
        "The number is written down nowhere, so that the very rolls of a broker cannot be foretold.",
    ),
    "roll.old-format": FindingType(
        "warning",
        "A log of Kafka 0.7 has no offsets, and its segments are those of 0.7: nothing is told.",
        "Of 0.8 and later does not read it.",
        _NOTHING,
        "Rolling is told for 0.8.0 and later.",
    ),
    "roll.left-out": FindingType(
        "info",
        "This directory is not of a partition that is served: it is not written.",
        "Deletes it, sets it aside, or goes on filling it.",
        "Move it by hand where it is wanted.",
        "Directories that wait for deletion, were found stray, or are being filled are no part of a new log directory.",
    ),
}
