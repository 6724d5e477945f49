"""Findings of `kafkalog reindex`: what it leaves as it is, and why."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["REINDEXING"]

REINDEXING: Final = {
    "reindex.damaged": FindingType(
        "error",
        "Not reindexed, as the log is damaged at byte {position} ({problem}): an index that is built up to "
        "there would hide it.",
        "Where the .index is missing, or the segment is recovered after a crash: builds the index up to there and cuts "
        "{behind_bytes} bytes of log behind it, whatever is in them.",
        "See what stands behind it: kafkalog dump --resync. Copy the partition from a healthy replica, or cut it: "
        "kafkalog truncate --at-damage (this place and all behind it), kafkalog reindex --as-broker (this segment from "
        "there on).",
        "Indexes are built from whole batches. Bytes that are none, in the middle of a log, are a loss that somebody "
        "has to decide about; an index would make a broker serve what stands before them as if nothing were missing.",
    ),
    "reindex.disorder": FindingType(
        "error",
        "Not reindexed, as the offsets in the log do not ascend: {problem}.",
        "Notices it only at an entry of the index: then it empties the segment and deletes those behind it when it "
        "recovers it after a crash, and does not start where its .index is missing.",
        "Save what is in it before a broker is started: kafkalog dump. Copy the partition from a healthy replica.",
        "Offsets go back in the log, which no broker writes; the checksum of a batch does not protect its offset.",
    ),
    "reindex.overflow": FindingType(
        "error",
        "Not reindexed, as it can be neither indexed nor split: {problem}.",
        "Does not start: it can split a segment only where the last batch is beyond the reach of its indexes, and "
        "all offsets ascend.",
        "Save what is in it before a broker is started: kafkalog dump. Copy the partition from a healthy replica.",
        "Offsets in an index are 32 bits, relative to the segment's base offset.",
    ),
    "reindex.index-full": FindingType(
        "error",
        "Not reindexed, as there is no room for its entries: {problem}.",
        "Does not start where it has to rebuild the index with these settings.",
        "Raise segment.index.bytes of the topic or index.interval.bytes, in the broker's settings too, and give them "
        "with --set or --topic-config.",
        "segment.index.bytes bounds the size of an index; more entries than fit in there stop a recovery.",
    ),
    "reindex.bad-records": FindingType(
        "error",
        "Not reindexed, as what its batches say cannot be: {problem}.",
        "Does not start when it recovers the segment or replays its producers.",
        "Save what is in it before a broker is started: kafkalog dump. Copy the partition from a healthy replica.",
        "Checksums are good, but a transaction marker or a compressed message cannot be read, or a transaction "
        "contradicts itself.",
    ),
    "reindex.over-limit": FindingType(
        "error",
        "Not reindexed, as a batch at byte {position} is over the limit: {problem}.",
        "Reads it: the limit is kafkalog's own.",
        "Raise --max-batch-bytes.",
        "The limit is kafkalog's own, for the sake of memory.",
    ),
    "reindex.unread": FindingType(
        "error",
        "Not reindexed, as a file cannot be read or replaced: {problem}.",
        "Takes the log directory offline where it cannot read a file itself.",
        "Copy the disk (ddrescue) first, and work on the copy. Check that you may read the file.",
        "What cannot be read is not replaced, as nobody could put it back.",
    ),
    "reindex.producers-unknown": FindingType(
        "warning",
        "Producer snapshots, transaction indexes and leader epochs from offset {offset} on are left as they are: what "
        "producers did before is not known.",
        "Builds them from what it finds when it recovers the log, or takes them as they are after a clean stop.",
        "Mend the segment before it first; then reindex again.",
        "Transactions and producers go on from segment to segment. Behind a segment that could not be read to its end "
        "their state is known only from the next snapshot that is right.",
    ),
    "reindex.kept": FindingType(
        "info",
        "Some indexes ({count}) are right though not byte for byte what a recovery writes: they stay.",
        "Uses them as they are.",
        "Nothing needs to be done; kafkalog reindex --all writes them too.",
        "A running broker counts the bytes between two entries anew when it is started, and some releases write one "
        "entry for several batches. Such indexes lead to every record.",
    ),
    "reindex.no-index": FindingType(
        "info",
        "Kafka 0.7 has no indexes: there is nothing to rebuild.",
        "A broker of 0.7 reads the log alone.",
        "Nothing needs to be done.",
        "In 0.7 an offset is the position of a byte, so nothing has to be looked up.",
    ),
    "reindex.no-log": FindingType(
        "info",
        "No segment of its own belongs to this file: it is left as it is.",
        "Deletes indexes without a log when it starts.",
        "Name a .log file, a partition directory or a log directory.",
        "Indexes are rebuilt from the .log file of the same base offset.",
    ),
}
