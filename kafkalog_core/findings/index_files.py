"""Findings about offset, time and transaction indexes."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import (
    MOVE_FILE,
    RECOVER,
    UNLESS_RECOVERED,
    FindingType,
)

__all__ = ["INDEXES"]

_REBUILT: Final = (
    "With the broker stopped, kafkalog recover rebuilds the segment's indexes. A "
    "broker that finds no .index rebuilds them too, and truncates the log at its first bad batch."
)
_DISK: Final = "Copy the disk (ddrescue) first, and work on the copy. "
_TRUSTED: Final = f"Checks only the end of the index (2.3 and later: nothing) and trusts it{UNLESS_RECOVERED}. "
_READS: Final = _TRUSTED + "A fetch of an offset near this entry starts too early, or misses records."
_SEEKS: Final = _TRUSTED + "A search by time near this entry returns a wrong offset."
_KEPT: Final = _TRUSTED + "Time retention takes the age of the segment from the last entry."
_CLOSED: Final = "When a broker closes a segment, it writes the largest timestamp as the last entry of the time index. "

INDEXES: Final = {
    "index.not-a-file": FindingType(
        "error",
        "The entry has the name of a segment's index, but it is not a file that can be read: {problem}.",
        "Fails to open it and takes the log directory offline: at the start for the last segment, later at the first "
        "read that needs it.",
        "Move it out of the partition directory. Then kafkalog recover rebuilds the index.",
        "A pipe, a device or a directory has the name of an index.",
        next_step=MOVE_FILE,
    ),
    "index.wrong-position": FindingType(
        "error",
        "An index entry has the position of a byte where no batch starts: {problem}.",
        _READS,
        _REBUILT,
        "Each entry of an offset index has the position of a batch. No batch starts at this position.",
        next_step=RECOVER,
    ),
    "index.wrong-offset": FindingType(
        "error",
        "An index entry has an offset that does not belong to its batch: {problem}.",
        _READS,
        _REBUILT,
        "Each entry of an offset index has the first or the last offset of what was appended at its position. This "
        "entry has another offset.",
        next_step=RECOVER,
    ),
    "index.before-base": FindingType(
        "error",
        "An index entry has an offset below the segment's base offset: {problem}.",
        _READS,
        _REBUILT,
        "Offsets in an index are stored relative to the segment's base offset and are never negative.",
        next_step=RECOVER,
    ),
    "index.beyond-log": FindingType(
        "error",
        "An index entry points past the end of the log: {problem}.",
        _TRUSTED
        + (
            "Records may have been lost at the end of the log. After a clean shutdown the broker may take the last "
            "segment for empty."
        ),
        "Find out whether the log was longer: then another replica may have the missing records. " + _REBUILT,
        "The index has entries for positions or offsets that are not in the log, or no longer.",
        next_step=RECOVER,
    ),
    "index.unsorted": FindingType(
        "error",
        "An index entry is out of order: {problem}.",
        _READS,
        _REBUILT,
        "Offsets and positions in an offset index increase from entry to entry, because lookups are binary searches.",
        next_step=RECOVER,
    ),
    "index.partial-entry": FindingType(
        "error",
        "The offset index ends within an entry: {problem}.",
        "Ignores the incomplete entry (before 2.3: deletes the index and rebuilds it; 0.8: does not start).",
        _REBUILT,
        "The size of the file is not a multiple of 8 bytes, the size of an entry. No broker leaves such a file.",
        next_step=RECOVER,
    ),
    "index.zero-entries": FindingType(
        "error",
        "The offset index ends with {size_bytes} bytes of zeros, which the next start takes for entries.",
        f"Reads the zeros as entries{UNLESS_RECOVERED}. Then a fetch from the segment starts at its first byte, which "
        "is correct but slow.",
        _REBUILT,
        "Only the index of the segment that is being written has space for later entries. The broker trims the index "
        "when it closes the segment, at a clean shutdown too.",
        next_step=RECOVER,
    ),
    "index.oversize": FindingType(
        "error",
        "The offset index has {size_bytes} bytes, but a broker maps at most 2147483647; it was not read.",
        "Does not start if it opens the index then, as it does that of the last segment. Otherwise fetches from the "
        "segment fail.",
        _REBUILT,
        "An index file is larger than 2 GiB - 1 byte. No broker creates one.",
        next_step=RECOVER,
    ),
    "index.sparse": FindingType(
        "warning",
        "The offset index has far fewer entries than expected for this log: {problem}.",
        f"Uses the index as it is{UNLESS_RECOVERED}. Fetches are correct, but search long parts of the log.",
        _REBUILT,
        "A broker adds an entry after every index.interval.bytes of log (default 4096). Some entries may have been "
        "lost.",
    ),
    "index.unreadable": FindingType(
        "error",
        "The disk cannot read {size_bytes} bytes of the offset index.",
        "It is unknown what a broker does that reads these bytes, through a memory map.",
        _DISK + _REBUILT,
        "The disk reports an error for a part of the index file.",
        next_step=RECOVER,
    ),
    "timeindex.wrong-timestamp": FindingType(
        "error",
        "A time index entry has another timestamp than the log: {problem}.",
        _SEEKS + " If it is the last entry, time retention uses it as the segment's largest timestamp.",
        _REBUILT,
        "Each entry of a time index has the largest timestamp of the log so far, and an offset of the batch with that "
        "timestamp.",
        next_step=RECOVER,
    ),
    "timeindex.wrong-offset": FindingType(
        "error",
        "A time index entry has an offset that is in no batch: {problem}.",
        _SEEKS,
        _REBUILT,
        "Each entry of a time index has an offset of the batch with its timestamp.",
        next_step=RECOVER,
    ),
    "timeindex.before-base": FindingType(
        "error",
        "A time index entry has an offset below the segment's base offset: {problem}.",
        _SEEKS,
        _REBUILT,
        "Offsets in an index are stored relative to the segment's base offset and are never negative.",
        next_step=RECOVER,
    ),
    "timeindex.beyond-log": FindingType(
        "error",
        "A time index entry has an offset past the end of the log: {problem}.",
        _SEEKS,
        "Find out whether the log was longer: then another replica may have the missing records. " + _REBUILT,
        "The index has entries for offsets that are not in the log, or no longer.",
        next_step=RECOVER,
    ),
    "timeindex.unsorted": FindingType(
        "error",
        "A time index entry is out of order: {problem}.",
        _SEEKS,
        _REBUILT,
        "Timestamps in a time index increase from entry to entry, and offsets never decrease, because lookups are "
        "binary searches.",
        next_step=RECOVER,
    ),
    "timeindex.partial-entry": FindingType(
        "error",
        "The time index ends within an entry: {problem}.",
        "Ignores the incomplete entry (before 2.3: deletes the index and rebuilds it).",
        _REBUILT,
        "The size of the file is not a multiple of 12 bytes, the size of an entry. No broker leaves such a file.",
        next_step=RECOVER,
    ),
    "timeindex.zero-entries": FindingType(
        "error",
        "The time index ends with {size_bytes} bytes of zeros, which the next start takes for entries.",
        "Uses 1970 as the segment's largest timestamp: time retention, if the topic has one, deletes the segment at "
        "its first check, within 30 s of the start (0.11 to 2.2: builds the index again).",
        _REBUILT,
        "Only the index of the segment that is being written has space for later entries. The broker trims the index "
        "when it closes the segment, at a clean shutdown too.",
        next_step=RECOVER,
    ),
    "timeindex.oversize": FindingType(
        "error",
        "The time index has {size_bytes} bytes, but a broker maps at most 2147483647; it was not read.",
        "Does not start if it opens the index then, as it does that of the last segment. Otherwise searches by time "
        "and retention fail.",
        _REBUILT,
        "An index file is larger than 2 GiB - 1 byte. No broker creates one.",
        next_step=RECOVER,
    ),
    "timeindex.incomplete": FindingType(
        "error",
        "The time index of a closed segment lacks the segment's largest timestamp: {problem}.",
        f"Uses too small a timestamp for the segment{UNLESS_RECOVERED}: time retention may delete it too early, and "
        "searches by time miss records.",
        _REBUILT,
        _CLOSED + "Segments of magic 1 from 0.10.0 have no time index; the severity is then info.",
        next_step=RECOVER,
    ),
    "timeindex.empty": FindingType(
        "error",
        "The time index of a closed segment is empty: {problem}.",
        f"Uses the modification time of the file as the age of its records{UNLESS_RECOVERED}. Searches by time miss "
        "them.",
        _REBUILT,
        _CLOSED
        + (
            "Segments of magic 1 from 0.10.0 have no time index; the severity is then info. A broker creates an empty "
            ".timeindex where somebody deleted it."
        ),
        next_step=RECOVER,
    ),
    "timeindex.unreadable": FindingType(
        "error",
        "The disk cannot read {size_bytes} bytes of the time index.",
        "It is unknown what a broker does that reads these bytes, through a memory map.",
        _DISK + _REBUILT,
        "The disk reports an error for a part of the index file.",
        next_step=RECOVER,
    ),
}
