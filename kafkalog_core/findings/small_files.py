"""Findings about the contents of indexes, checkpoints and property files."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["SMALL_FILES"]

_REFUSED: Final = "A broker refuses the file: {problem}."
_REBUILD: Final = (
    "with the broker stopped, kafkalog reindex builds it anew from the log. So does a start that finds no .index; it "
    "also cuts the log at its first bad batch; a .timeindex alone is not built anew by any broker."
)
_REBUILD_ALL: Final = (
    "With the broker stopped, kafkalog reindex builds it anew from the log. Never delete the .txnindex alone: a broker "
    "builds it only where the .index is missing too, and cuts the log at its first bad batch then."
)


def _checkpoint(meaning: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "From 1.0 on takes the log directory offline, earlier ones do not start; where only a number is bad, 4.x may "
        "go on or not start, by the file.",
        "With the broker stopped: kafkalog checkpoint mends the bad lines and leaves the others. By hand: 0 in line 1, "
        "the number of entries in line 2, then a line an entry.",
        meaning,
    )


def _meta(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not start, or takes the log directory offline where it is not the only one.",
        "With the broker stopped: kafkalog checkpoint, with --beside and the broker's other log directories, in whose "
        "meta.properties the values stand.",
        f"meta.properties is damaged: {what}",
    )


def _partition_metadata(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not load the partition and takes the log directory offline; an empty file or an id that is none stops "
        "it.",
        "With the broker stopped: kafkalog checkpoint takes the id from the topic's other partitions, where there are "
        "any. By hand: two lines, version: 0 and topic_id: with the id that replicas have.",
        f"partition.metadata is damaged: {what}",
    )


def _quorum_state(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not start: the metadata quorum cannot be joined without it.",
        "Correct it by hand, or put back a copy of this node's own file. Do not let the node make a new one: it would "
        "forget for whom it has voted, and may vote twice in one epoch.",
        f"quorum-state of the metadata log is damaged: {what}",
    )


SMALL_FILES: Final = {
    "index.zero-tail": FindingType(
        "info",
        "The index ends with {size_bytes} bytes of zeros: the room made for entries to come.",
        "Cuts it when it recovers or closes the segment; after a clean stop it takes the zeros for entries.",
        meaning=(
            "Brokers make an index as large as it may grow and cut it when the segment is closed; a crash leaves the "
            "zeros."
        ),
        cure=("Nothing after an unclean stop, where the segment is recovered. After a clean one: " + _REBUILD),
    ),
    "txnindex.zero-tail": FindingType(
        "warning",
        "The transaction index ends with {size_bytes} bytes of zeros, which no broker writes.",
        "Takes them for aborted transactions of producer 0.",
        meaning="Transaction indexes are never made larger than what is in them, so zeros are damage.",
        cure=_REBUILD_ALL,
    ),
    "txnindex.bad-version": FindingType(
        "error",
        "An entry of the transaction index has version {version}; only 0 exists.",
        "Does not start.",
        meaning="Each entry of a transaction index begins with version 0.",
        cure=_REBUILD_ALL,
    ),
    "clean-shutdown.malformed": FindingType(
        "info",
        "The mark of a clean stop does not hold JSON: {problem}.",
        "Takes the stop for clean all the same; it does not know the broker epoch of that time.",
        meaning=(
            "Since 3.9 the mark holds JSON with the broker's epoch; only its existence says that the stop was clean."
        ),
        cure="Nothing needs to be done.",
    ),
    "file.unfinished": FindingType(
        "info",
        "A temporary file that was not finished: {problem}.",
        "Overwrites it when it next writes the file.",
        meaning=(
            "A .tmp file that a crash left while a checkpoint was written; the checkpoint itself is the old one, whole."
        ),
        cure="Nothing needs to be done.",
    ),
    "checkpoint.count-mismatch": _checkpoint("Line 2 does not hold the number of the entries that follow."),
    "checkpoint.invalid-utf8": _checkpoint(
        "The file holds bytes that are no text: it is damaged or of something else."
    ),
    "checkpoint.malformed-line": _checkpoint("A line has not the numbers that it must have, or is blank."),
    "checkpoint.negative-count": _checkpoint("Line 2 is a negative number."),
    "checkpoint.negative-epoch": _checkpoint("Leader epochs and their offsets cannot be negative."),
    "checkpoint.unsupported-version": _checkpoint("Line 1 is not 0, the only version there is."),
    "meta.bad-directory-id": _meta("directory.id is no id of 22 characters, or a reserved one."),
    "meta.bad-node-id": _meta("node.id or broker.id is no number."),
    "meta.malformed-line": _meta("a line that is no key and value."),
    "meta.other-directory-id": FindingType(
        "error",
        "The directory.id is {value}, which this node never registered. The metadata log has {partitions} of this "
        "directory in log directory {expected}.",
        "Starts and registers a new log directory. The controller regards the partitions as offline, so this node "
        "leads none of them: a partition without another replica may not be served until the node starts a second "
        "time.",
        "With the broker stopped, change the line directory.id back to the id in the metadata log.",
        "meta.properties was written again, or copied from another log directory (KIP-858, 3.7 and later).",
    ),
    "meta.other-node-id": FindingType(
        "error",
        "The node.id is {value}, but the metadata log ({metadata_log}) has this directory, by its directory.id "
        "{directory_id}, as one of node {expected}.",
        "Does not start as node {expected}: meta.properties of each of its log directories must have its own node.id.",
        "With the broker stopped, put the id of the node that registered the directory back into the line node.id.",
        "meta.properties was written again, or copied from another broker (KIP-858, 3.7 and later).",
    ),
    "meta.no-voter": FindingType(
        "error",
        "The directory.id is {value}, but the metadata log in this directory has node {node_id} as a voter with "
        "directory.id {expected}.",
        "Does not count this node among the voters. If it is the only controller, no leader is elected: the node "
        "waits forever and serves nothing.",
        "With the node stopped, change the line directory.id back to the id in the metadata log.",
        "A controller is a voter by its node.id and the directory.id of its metadata log (KIP-853): meta.properties "
        "was written again, or copied from another log directory.",
    ),
    "meta.missing-key": _meta("a key is missing that this version must have."),
    "meta.unsupported-version": _meta("version is neither 0 nor 1."),
    "partition-metadata.bad-topic-id": _partition_metadata("the topic's id is no id of 22 characters."),
    "partition-metadata.malformed-line": _partition_metadata("a line is no name and value."),
    "partition-metadata.too-short": _partition_metadata("the file is empty or has one line."),
    "partition-metadata.zero-topic-id": _partition_metadata("the topic's id is all zeros, which stands for none."),
    "quorum-state.bad-value": _quorum_state("a value is of another type than it must be."),
    "quorum-state.empty": _quorum_state("it is empty."),
    "quorum-state.malformed-line": _quorum_state("it does not hold a JSON object."),
    "quorum-state.missing-key": _quorum_state("a key is missing that this version must have."),
    "quorum-state.unsupported-version": _quorum_state("data_version is neither 0 nor 1."),
}
