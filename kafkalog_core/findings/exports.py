"""Findings of the export: what an incremental run meets in a log that is not as it was left."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["EXPORTS"]

_CHOICE: Final = (
    "See which log is meant. Then either --on-change reload, which takes the partition's files away and exports the "
    "log as it is, or --on-change continue, which keeps them and goes on at the same offset, or at the log's end where "
    "that is lower."
)
_NOT_BROKEN: Final = "Nothing: the log itself is sound as far as this is concerned."

EXPORTS: Final = {
    "export.log-shorter": FindingType(
        "error",
        "The export has come to offset {last}, and the log ends before offset {end}: it was truncated, or it is "
        "another log.",
        _NOT_BROKEN,
        _CHOICE,
        "A follower truncates what its leader does not have, and a topic that is made anew begins at 0. The export "
        "holds records that the log no longer has; nothing of the partition is exported until somebody chooses.",
    ),
    "export.log-changed": FindingType(
        "error",
        "The batch at offset {last} is not the one that was exported: the log was written anew from there or before, "
        "or it is another log.",
        _NOT_BROKEN,
        _CHOICE,
        "The batch that was exported last is compared with what stands there now. After a change of leaders, or an "
        "unclean election, the same offsets may hold other records; nothing of the partition is exported until "
        "somebody chooses.",
    ),
    "export.other-topic": FindingType(
        "error",
        "The directory is of topic id {topic_id}, and what was exported is of {was}: the topic was deleted and made "
        "anew.",
        _NOT_BROKEN,
        _CHOICE,
        "Both topics have the same name and count offsets from 0; nothing of the partition is exported until somebody "
        "chooses.",
    ),
    "export.changed-by-choice": FindingType(
        "warning",
        "The log is not the one that was exported ({problem}); by --on-change {choice} the export goes on.",
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
        "The log begins behind what was exported last.",
    ),
    "export.header-keys": FindingType(
        "info",
        "Some header keys ({keys}, the first at offset {offset}) are no UTF-8: they were written with U+FFFD in place "
        "of what is none.",
        "Serves them as they are; Java clients read them with U+FFFD too.",
        "Where the bytes matter, read them by kafkalog dump --records --bytes base64.",
        "A column of text cannot hold what is no UTF-8. Keys and values of records, and values of headers, are bytes "
        "and stay what they are.",
    ),
    "export.held-back": FindingType(
        "info",
        "The log ends in {size_bytes} bytes that are no whole batch, from byte {position} on: they are exported when "
        "they are one.",
        "Writes the rest of it, or, where it died in the middle, cuts it off when it starts.",
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
        "Deletes it, sets it aside, or goes on filling it.",
        "Name the directory itself where its records are wanted.",
        "Directories that wait for deletion, were found stray, or are being filled hold the same offsets as others.",
    ),
}
