"""What is missing, stray or odd in a directory, by names and sizes alone: one catalogue of stable codes.

An oddity is a value and never an exception. Severity `error` stands only where a broker does not start or where it
leaves records behind; what brokers do in the course of their life (files waiting for deletion, indexes not yet made) is
`info`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

__all__ = ["NOT_SHOWN", "ODDITY_TYPES", "Oddity", "OddityType", "Severity", "odd"]

Severity = Literal["info", "warning", "error"]

NOT_SHOWN: Final = "Its records are not shown unless the file itself is named."


class OddityType(NamedTuple):
    """One code of the catalogue: `message` is a template of one plain sentence."""

    severity: Severity
    message: str
    broker_action: str | None = None
    cure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """One oddity; the fields are columns of the `finding` row, `path` its `file`.

    `hides_records`: the file holds records, and none of them is among the partition's.
    """

    code: str
    severity: Severity
    path: str
    message: str
    topic: str | None = None
    partition: int | None = None
    size_bytes: int | None = None
    offset: int | None = None
    broker_action: str | None = None
    cure: str | None = None
    hides_records: bool = False

    def row(self) -> dict[str, object]:
        """The `finding` row as a dict by column name; columns not named here are null."""
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.path,
            "topic": self.topic,
            "partition": self.partition,
            "size_bytes": self.size_bytes,
            "offset": self.offset,
            "message": self.message,
            "broker_action": self.broker_action,
            "cure": self.cure,
        }


ODDITY_TYPES: Final = {
    # --- any directory ------------------------------------------------------------------------------------------------
    "file.vanished": OddityType("info", "The file went away while the directory was listed."),
    "file.not-readable": OddityType(
        "error",
        "It was not read: {reason}.",
        "The whole log directory goes offline.",
        "Mend its permissions, those of its directory, or its disk.",
    ),
    "high-watermark.unknown": OddityType(
        "warning",
        "None of its records are shown: no broker has checkpointed a high watermark for it.",
        "Takes 0 for the high watermark until the replicas have agreed on another.",
        "--committed without =high-watermark shows what is committed up to the end of the log.",
    ),
    "txn.open": OddityType(
        "warning",
        "Producer {producer} has had a transaction open since offset {offset}: read_committed consumers stop there.",
        "Waits for its marker; nothing behind it is read by read_committed consumers or cleaned.",
    ),
    "file.grew": OddityType("info", "It grew while it was read: a broker is writing. What came later is not shown."),
    "file.shrank": OddityType(
        "warning", "It was cut while it was read: a broker is at work. Rows of what is gone may have been shown."
    ),
    "file.replaced": OddityType(
        "warning", "Another file has its name now, or none: rows are of the one that was opened first."
    ),
    "file.modified": OddityType("info", "It was written to while it was read, without a change of size."),
    "file.broken-link": OddityType(
        "warning", "A symbolic link leads to nothing that can be read: {reason}.", "Passes over it."
    ),
    "file.not-regular": OddityType("info", "Neither a regular file nor a directory.", "Passes over it."),
    "file.unreadable": OddityType(
        "warning",
        "Its permissions ({mode}) let not even its owner read it.",
        "Cannot read it either: the whole log directory goes offline.",
        "Give its owner permission to read and write it.",
    ),
    "file.foreign-owner": OddityType(
        "warning",
        "It belongs to user {uid}, the directory that it is in to user {directory_uid}.",
        "Runs as one of the two and may not open it: the whole log directory goes offline.",
        "Give it the owner of the files beside it.",
    ),
    "file.leftover": OddityType(
        "info", "A temporary file of a write that was not finished.", "Overwrites or ignores it."
    ),
    "file.unknown": OddityType("info", "Not a name that a broker gives to a file here.", "Ignores it."),
    # --- partition directories ----------------------------------------------------------------------------------------
    "segment.bad-name": OddityType(
        "error",
        "A file of a segment whose name has no offset before its first dot.",
        "Does not start: it cannot read a number from the name.",
        "Move it out of the partition directory, or give it the name of its first offset, 20 digits.",
    ),
    "segment.misnamed": OddityType(
        "error",
        "A log file of {size_bytes} bytes whose name is not its base offset in 20 digits.",
        "Takes offset {offset} from the name, makes an empty segment there, and never reads this file.",
        "Move it out of the partition directory, or give it the name of its first offset, 20 digits.",
    ),
    "segment.misnamed-empty": OddityType(
        "warning",
        "An empty log file whose name is not its base offset in 20 digits.",
        "Takes offset {offset} from the name and makes an empty segment there.",
        "Move it out of the partition directory.",
    ),
    "segment.duplicate": OddityType(
        "warning",
        "A second log file for base offset {offset}.",
        "Reads the one whose name has 20 digits and never this one.",
        "Compare the two and move this one out of the partition directory.",
    ),
    "segment.misnamed-companion": OddityType(
        "info", "The number in its name is not written with 20 digits.", "Never reads it, and may delete it."
    ),
    "segment.oversize": OddityType(
        "error", "The log file has {size_bytes} bytes; positions in it end at 2147483647.", "Does not start."
    ),
    "segment.index-missing": OddityType(
        "warning",
        "The segment has no offset index.",
        "Recovers the segment: builds its indexes anew, cuts its log at the first bad batch (0.8.0: does not start).",
    ),
    "segment.timeindex-missing": OddityType(
        "warning",
        "The segment has no time index while others of the partition have one.",
        "Makes an empty one: searches by time miss this segment, retention goes by the file's modification time.",
    ),
    "segment.index-orphan": OddityType(
        "warning",
        "An index at offset {offset} without its log file.",
        "Deletes it.",
        "Look for the log file: if it was lost, its records are.",
    ),
    "segment.deleted": OddityType("info", "The file waits for its deletion.", "Removes it at its next start."),
    "segment.swap": OddityType(
        "info",
        "A finished replacement, from compaction or a split, that was not yet put in its place.",
        "Puts it in its place at its next start and deletes what it replaces.",
    ),
    "segment.swap-alone": OddityType(
        "warning",
        "A finished replacement, from compaction or a split, at an offset where no segment is.",
        "Puts it in its place at its next start.",
    ),
    "segment.swap-index-missing": OddityType(
        "warning",
        "A finished replacement that has no offset index.",
        "Puts the log in its place with an index of zeros.",
    ),
    "segment.cleaned": OddityType(
        "info", "An unfinished output of compaction or a split.", "Removes it at its next start."
    ),
    "segment.gap": OddityType(
        "error",
        "The file ends at byte address {end}, the next one starts at {offset}: {size_bytes} bytes are missing.",
        "Kafka 0.7 does not start.",
    ),
    "segment.overlap": OddityType(
        "error",
        "The file ends at byte address {end}, the next one starts at {offset}: they overlap by {size_bytes} bytes.",
        "Kafka 0.7 does not start.",
    ),
    "snapshot.bad-name": OddityType(
        "error",
        "A snapshot of the metadata log whose name has no end offset and epoch.",
        "Does not start: it cannot read the numbers from the name.",
        "Move it out of the directory.",
    ),
    "partition.empty": OddityType(
        "info", "The partition has no segment.", "Makes an empty one at the checkpointed log start offset."
    ),
    "partition.mixed-formats": OddityType(
        "warning",
        "A file of Kafka 0.7 beside segments of a later release.",
        "Ignores it.",
        "Read it by itself.",
    ),
    "dir.nested": OddityType("info", "A directory inside a partition directory.", "Ignores it."),
    # --- log directories ----------------------------------------------------------------------------------------------
    "dir.not-a-partition": OddityType(
        "error",
        "A directory in a broker's log directory whose name is not of a partition: {problem}.",
        "Does not start.",
        "Move it out of the log directory.",
    ),
    "dir.not-a-partition-here": OddityType(
        "warning",
        "A directory beside partitions whose name is not of a partition: {problem}.",
        "Would not start on it.",
    ),
    "dir.duplicate-partition": OddityType(
        "error",
        "A second directory of partition {partition}, beside {other}.",
        "Does not start: a partition may be in a log directory once.",
        "Compare the two and move one out of the log directory.",
    ),
    "dir.future-beside-current": OddityType(
        "warning",
        "A copy to be filled in the same log directory as the partition itself, {other}.",
        "Cannot put it in the partition's place: the log directory goes offline when it tries.",
        "Move one of the two out of the log directory.",
    ),
    "dir.odd-name": OddityType(
        "info", "The partition number is not written as a broker writes it.", "Reads it as partition {partition}."
    ),
    "dir.illegal-topic": OddityType("info", "No broker creates a topic of this name: {problem}.", "Loads it."),
    "dir.delete": OddityType(
        "info", "The partition waits for its deletion.", "Removes it about a minute after its next start."
    ),
    "dir.future": OddityType(
        "info", "A copy that was being moved here from another log directory.", "Goes on filling it."
    ),
    "dir.stray": OddityType(
        "info", "A partition that a broker found not to be its own and set aside.", "Keeps it and never reads it."
    ),
    "dir.unreadable": OddityType(
        "error", "The directory cannot be listed: {reason}.", "The whole log directory goes offline."
    ),
    "file.misplaced": OddityType(
        "info", "A file of a partition at the top of a log directory.", "Ignores it.", "Read it by itself."
    ),
    "dir.unclean": OddityType(
        "info",
        "The log directory has no mark of a clean stop.",
        "Recovers: reads the segments behind each recovery point and cuts them at the first bad batch.",
    ),
    "meta.missing": OddityType(
        "info", "The log directory has no meta.properties.", "Kafka 0.9 to 3.x with ZooKeeper makes one."
    ),
    "meta.missing-kraft": OddityType(
        "warning",
        "The log directory is one of a KRaft broker and has no meta.properties.",
        "Does not start and asks to format the directory.",
        "Put back the file, with the cluster.id and node.id of the broker's other log directories.",
    ),
}


def odd(
    code: str,
    path: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    size_bytes: int | None = None,
    offset: int | None = None,
    hides_records: bool = False,
    **details: object,
) -> Oddity:
    """An oddity of the catalogue; `details` are what its texts name besides the columns."""
    kind = ODDITY_TYPES[code]
    values = {"partition": partition, "size_bytes": size_bytes, "offset": offset, **details}
    message = kind.message.format_map(values)
    return Oddity(
        code=code,
        severity=kind.severity,
        path=path,
        message=f"{message} {NOT_SHOWN}" if hides_records else message,
        topic=topic,
        partition=partition,
        size_bytes=size_bytes,
        offset=offset,
        broker_action=kind.broker_action and kind.broker_action.format_map(values),
        cure=kind.cure,
        hides_records=hides_records,
    )
