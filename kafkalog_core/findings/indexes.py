"""Findings about offset and time indexes that do not agree with their log."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["INDEXES"]

_REBUILT: Final = (
    "With the broker stopped, kafkalog reindex builds the segment's indexes anew, or says where its log is damaged. A "
    "broker that finds no .index builds them too, and cuts the log at its first bad batch."
)
_DISK: Final = "Copy the disk (ddrescue) first, and work on the copy. "
_TRUSTED: Final = (
    "Looks only at the end of it (2.0 and later: not even there) and trusts it, unless it recovers the segment, which "
    "builds the index anew. "
)
_READS: Final = _TRUSTED + "Reads from offsets near the entry start at a wrong place: too early, or records are missed."
_SEEKS: Final = _TRUSTED + "Searches by time near the entry give a wrong offset."
_KEPT: Final = _TRUSTED + "The last entry tells time retention how old the segment is."
_CLOSED: Final = "When a segment is closed its largest timestamp becomes the last entry of its time index. "

INDEXES: Final = {
    "index.not-a-file": FindingType(
        "error",
        "It has the name of a segment's index, but it is not a file that can be read: {problem}.",
        "Fails to open it, and the log directory goes offline: at the start in the last segment, later at the first "
        "read that needs it.",
        "Move it out of the partition directory. Then kafkalog reindex rebuilds the index.",
        "A pipe, a device or a directory has the name of an index.",
    ),
    "index.wrong-position": FindingType(
        "error",
        "An index entry names a byte where no batch starts: {problem}.",
        _READS,
        _REBUILT,
        "Each entry of an offset index names the byte where a batch starts. Here no batch starts.",
    ),
    "index.wrong-offset": FindingType(
        "error",
        "An index entry names an offset that does not go with its batch: {problem}.",
        _READS,
        _REBUILT,
        "Each entry of an offset index names an offset of what was appended at its byte: the first or the last of it. "
        "This one is neither.",
    ),
    "index.before-base": FindingType(
        "error",
        "An index entry names an offset below the segment's base offset: {problem}.",
        _READS,
        _REBUILT,
        "Offsets in an index are stored relative to the segment's base offset and are never negative.",
    ),
    "index.beyond-log": FindingType(
        "error",
        "An index entry points behind the end of the log: {problem}.",
        _TRUSTED + "Records may have been cut off the log; after a clean stop the last segment may look empty to it.",
        "Find out where the end of the log went: another replica may have it. " + _REBUILT,
        "The index knows of bytes or offsets that the log does not have (any more).",
    ),
    "index.unsorted": FindingType(
        "error",
        "An index entry is out of order: {problem}.",
        _READS,
        _REBUILT,
        "Offsets and positions in an offset index grow from entry to entry; lookups are binary searches.",
    ),
    "index.partial-entry": FindingType(
        "error",
        "The offset index ends within an entry: {problem}.",
        "Ignores the rest (before 2.0: deletes the index and builds it anew, 0.8: does not start).",
        _REBUILT,
        "The file's size is no multiple of an entry's 8 bytes, which no broker leaves behind.",
    ),
    "index.zero-entries": FindingType(
        "error",
        "The offset index of a closed segment ends with {size_bytes} bytes of zeros.",
        "Takes them for entries: reads from the segment start at its beginning, correct but slow.",
        _REBUILT,
        "Only the active segment's index has room for entries to come; when a segment is closed the index is cut.",
    ),
    "index.sparse": FindingType(
        "warning",
        "The offset index has far fewer entries than the log asks for: {problem}.",
        "Uses it as it is: reads from the segment are correct, but search through long stretches of the log.",
        _REBUILT,
        "A broker makes an entry for every index.interval.bytes of log, 4096 by default. Some may be gone.",
    ),
    "index.unreadable": FindingType(
        "error",
        "The disk cannot read {size_bytes} bytes of the offset index.",
        "The whole log directory goes offline when it comes to read them.",
        _DISK + _REBUILT,
        "The disk gives an error for a part of the index file.",
    ),
    "timeindex.wrong-timestamp": FindingType(
        "error",
        "A time index entry has another timestamp than the log: {problem}.",
        _SEEKS + " If it is the last entry, time retention takes it for the segment's largest timestamp.",
        _REBUILT,
        "Each entry of a time index holds the largest timestamp of the log so far, and an offset of the batch that has "
        "it.",
    ),
    "timeindex.wrong-offset": FindingType(
        "error",
        "A time index entry names an offset that no batch holds: {problem}.",
        _SEEKS,
        _REBUILT,
        "Each entry of a time index names an offset of the batch that has its timestamp.",
    ),
    "timeindex.before-base": FindingType(
        "error",
        "A time index entry names an offset below the segment's base offset: {problem}.",
        _SEEKS,
        _REBUILT,
        "Offsets in an index are stored relative to the segment's base offset and are never negative.",
    ),
    "timeindex.beyond-log": FindingType(
        "error",
        "A time index entry names an offset behind the end of the log: {problem}.",
        _SEEKS,
        "Find out where the end of the log went: another replica may have it. " + _REBUILT,
        "The index knows of offsets that the log does not have (any more).",
    ),
    "timeindex.unsorted": FindingType(
        "error",
        "A time index entry is out of order: {problem}.",
        _SEEKS,
        _REBUILT,
        "Timestamps in a time index grow from entry to entry and offsets never fall; lookups are binary searches.",
    ),
    "timeindex.partial-entry": FindingType(
        "error",
        "The time index ends within an entry: {problem}.",
        "Ignores the rest (before 2.0: deletes the index and builds it anew).",
        _REBUILT,
        "The file's size is no multiple of an entry's 12 bytes, which no broker leaves behind.",
    ),
    "timeindex.zero-entries": FindingType(
        "error",
        "The time index of a closed segment ends with {size_bytes} bytes of zeros.",
        "Takes the segment's largest timestamp for 1970: time retention deletes the segment at once.",
        _REBUILT,
        "Only the active segment's index has room for entries to come; when a segment is closed the index is cut.",
    ),
    "timeindex.incomplete": FindingType(
        "error",
        "The time index of a closed segment does not know its largest timestamp: {problem}.",
        "Takes the segment for older than it is: time retention deletes it too early; searches by time miss records.",
        _REBUILT,
        _CLOSED + "Segments of magic 1 from 0.10.0 have no time index, which is an info.",
    ),
    "timeindex.empty": FindingType(
        "error",
        "The time index of a closed segment is empty: {problem}.",
        "Takes the file's modification time for the age of its records; searches by time miss them.",
        _REBUILT,
        _CLOSED + "Segments of magic 1 from 0.10.0 have no time index, which is an info; where somebody deleted a "
        ".timeindex the broker makes an empty one.",
    ),
    "timeindex.unreadable": FindingType(
        "error",
        "The disk cannot read {size_bytes} bytes of the time index.",
        "The whole log directory goes offline when it comes to read them.",
        _DISK + _REBUILT,
        "The disk gives an error for a part of the index file.",
    ),
}
