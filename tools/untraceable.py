"""What no check can see: damage that leaves a directory as a healthy broker may have left it.

Pure data. A test damages healthy directories at random and asks another hand what of it can be proven: what verify does
not find is exactly what this list allows. The manual's page on findings is made from it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ONLY_WARNED", "UNTRACEABLE", "UNTRACEABLE_FIELDS", "Untraceable"]


class Untraceable(NamedTuple):
    """`what` leaves no trace, and `why` it looks like a healthy life."""

    what: str
    why: str


UNTRACEABLE: Final = {
    "batch-of-a-compacted-log": Untraceable(
        "Batches lost from a compacted log, and offsets of a batch that were moved between those of its neighbours,"
        " where no entry of an index names it.",
        "Compaction leaves such gaps. A log is a compacted one where the cleaner's checkpoint names it, or where "
        "offsets are missing in several places.",
    ),
    "end-after-a-crash": Untraceable(
        "Batches lost from the end of a log, or a part of the last one, after an unclean stop: down to the high "
        "watermark, the last snapshot and the last leader epoch.",
        "What was not yet on the disk when the machine stopped is gone in the same way.",
    ),
    "start-of-an-old-log": Untraceable(
        "Whole segments lost from the start of a log without leader epochs, as before 0.11.",
        "Retention removes them. Since 0.11 the first leader epoch moves with the start of the log, and shows it.",
    ),
    "leader-epoch-of-a-compacted-log": Untraceable(
        "In a compacted log, a start offset in the leader-epoch-checkpoint that is too low but after the first batch "
        "of the epoch before, and a leader epoch in the header of a batch that is that of the batch before.",
        "The cleaner may leave batches of an earlier leader epoch that reach beyond the start of the next one.",
    ),
    "leader-epoch-of-an-old-log": Untraceable(
        "Another leader epoch in the header of a batch of a log that holds magic 0 or 1 too, where epochs still "
        "rise, and lines lost from the leader-epoch-checkpoint of such a log, or changed so that they still rise.",
        "Brokers empty that file when a topic returns to an older format, so nothing records the epochs of its "
        "batches.",
    ),
    "offset-index-entry": Untraceable(
        "Entries of an offset index lost, one or all; an entry that was added or changed and is true.",
        "How many there are depends on index.interval.bytes and on how often the broker was restarted; older "
        "releases name the first offset of a batch, newer ones the last.",
    ),
    "time-index-entry": Untraceable(
        "Entries of a time index lost, but for the last one of a closed segment of magic 2; an entry that names "
        "another offset of the same batch.",
        "Each entry is as true without the others. The active segment gets its last entry when it is closed; 0.10.0"
        " wrote none for its messages of magic 1.",
    ),
    "producer-of-a-snapshot": Untraceable(
        "A producer missing from a producer snapshot, or another order of them.",
        "Brokers forget a producer a day after its last batch (producer.id.expiration.ms), before 3.4 seven days "
        "(transactional.id.expiration.ms), by their own clock.",
    ),
    "snapshot-of-a-compacted-log": Untraceable(
        "A producer snapshot of a compacted log that says something else of a producer, under a right checksum.",
        "The batches that would tell are cleaned away.",
    ),
    "older-snapshot": Untraceable(
        "A snapshot lost, unless it is that of the end of the log after a clean stop, or that of the last segment if "
        "the end has none; one that was renamed to another offset at which it is as true.",
        "Releases before 2.8 keep the last ones alone, and an older broker that starts deletes the others.",
    ),
    "high-watermark": Untraceable(
        "A high watermark that was lowered, not below the start of the log, or whose line is lost.",
        "It is written every five seconds, and a replica without a leader does not know a higher one.",
    ),
    "recovery-point-after-a-crash": Untraceable(
        "After an unclean stop: a recovery point that was lowered, or whose line is lost.",
        "It is written once a minute, and a new partition has none.",
    ),
    "cleaner-offset": Untraceable(
        "The offset up to which a log was compacted, lowered or lost; the whole cleaner-offset-checkpoint.",
        "A replica that was just copied is compacted and has none; without log.cleaner.enable there is no such file.",
    ),
    "spelling": Untraceable(
        "The order of lines in a checkpoint, other white space between their words or after the last line, "
        "comments in meta.properties.",
        "Brokers write the lines in any order, and nobody reads the rest.",
    ),
    "ids-of-one-directory": Untraceable(
        "Another cluster id, node id or directory id in meta.properties, where no other log directory of the broker"
        " is given; no directory id at all; in a directory of a broker before 0.11, the whole file.",
        "They stand nowhere else in the directory. Brokers before 3.7 write no directory id, and those before 0.9 "
        "no such file.",
    ),
    "topic-id": Untraceable(
        "Another topic id in partition.metadata, where no other partition of the topic is given; those of two "
        "topics exchanged; with ZooKeeper, the whole file.",
        "It is nowhere else in the directory. Brokers before 2.8 write none.",
    ),
    "clean-mark": Untraceable(
        "The mark of a clean stop lost, or another broker epoch in it, or nothing.",
        "Every start removes it, and brokers before 3.9 write an empty one.",
    ),
}
"""Of what `verify` says nothing above info, by kind."""

ONLY_WARNED: Final = {
    "index-of-the-active-segment": Untraceable(
        "The offset or time index of the last segment lost.",
        "A broker makes them when it first needs them.",
    ),
    "index-after-a-crash": Untraceable(
        "After an unclean stop: entries at the end of the last segment's indexes that do not go with its log.",
        "A log that was cut leaves them in the room for entries to come.",
    ),
    "batch-in-one-place": Untraceable(
        "Batches lost in one place of a log, where of the records before it none is without a key and none has the key "
        "of another one.",
        "A replica that was copied from the leader of a compacted topic looks like that, and the settings of a topic "
        "are not in its directory.",
    ),
    "index-without-a-log": Untraceable(
        "A log lost, with its indexes left, at the start or at the end of the logs or in a compacted one.",
        "A broker removes the log of a segment first, and a crash may come in between.",
    ),
    "line-of-a-partition": Untraceable(
        "A line of a checkpoint that names a partition of which there is no directory; after a clean stop, a "
        "partition without a line of its recovery point.",
        "A partition that was deleted or moved is kept in the checkpoints until they are written again.",
    ),
    "checkpoint-after-a-crash": Untraceable(
        "After an unclean stop: a checkpoint that is empty, and a log that starts after its first leader epoch.",
        "The first start makes them empty, and leader epochs are written after old segments were removed.",
    ),
    "snapshot-after-a-crash": Untraceable(
        "After an unclean stop: the producer snapshot of the last segment lost.",
        "It is not forced to the disk when a segment is begun.",
    ),
    "words-of-the-mark": Untraceable(
        "A mark of a clean stop that holds no JSON.",
        "Brokers look at its existence alone.",
    ),
}
"""What is a warning at most, by kind."""


UNTRACEABLE_FIELDS: Final = {
    ("txnindex of a compacted log", "first_offset"): Untraceable(
        "In an entry of a transaction index of a compacted log, another first offset: between the marker of the "
        "producer before and the first batch of the transaction that is left, or its own marker where none is left.",
        "The cleaner keeps the entry unchanged and removes the batches that would prove it.",
    ),
    ("txnindex of a compacted log", "last_stable_offset"): Untraceable(
        "In such an entry, a last stable offset that is lower, or another one up to the offset after the marker.",
        "It is the first offset of another transaction, whose batches may be cleaned away.",
    ),
    ("quorum-state", "ids"): Untraceable(
        "In quorum-state, a higher leader epoch, and with it in version 1 any leader or vote; no leader; a vote for "
        "another voter, or none.",
        "A node learns of an epoch and votes in it before the first batch of it is in its log, as of new voters. A "
        "node whose leader is gone keeps the epoch without a leader, and votes are in no log.",
    ),
    ("leader-epoch-checkpoint", "last_epoch"): Untraceable(
        "In a leader-epoch-checkpoint, a last entry that starts at the end of the log: its epoch, raised, or the entry "
        "added.",
        "A broker writes the entry when it becomes the leader, before the first batch of that epoch.",
    ),
    ("leader-epoch-checkpoint", "first_start"): Untraceable(
        "In a leader-epoch-checkpoint, another start offset of the first entry: between the base offset of the first "
        "segment and the log start offset; in a compacted log up to the first batch; after an unclean stop, or "
        "outside of a log directory, raised within the batches of its epoch.",
        "A broker raises it with the log start offset, of which the checkpoint is up to a minute old. A follower "
        "begins with the first batch that the cleaner left on the leader.",
    ),
    ("cleaner-offset-checkpoint", "offset"): Untraceable(
        "An offset in the cleaner-offset-checkpoint that was raised, up to the end of the log.",
        "A clean ends where its offset map is full, in the middle of a batch too, and a log that is truncated "
        "afterwards may end there.",
    ),
}
"""Values that other values of a healthy broker may replace unnoticed, by file and field."""
