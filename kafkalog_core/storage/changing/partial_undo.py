"""Which entries of a run are left when not all of them can be undone, so that the files still agree with each other.

A saved file may be damaged, or a file may have changed since. Files that belong together are then left together:

- A log that is truncated, replaced or created, and every other file of its partition: old indexes, snapshots and leader
  epochs disagree with a log that is not the old one.
- Segments that were deleted whole are restored as far as they follow on the existing log, so that there is no gap: if
  the start of a log was deleted, those after the last one that cannot be restored; if its end was deleted, those before
  the first one. Snapshots beyond them are left too. Leader epochs beyond them are restored, because a start removes
  them. If no log is restored, the partition is left.
- Indexes of a segment whose log the run did not change belong to this segment alone, and a snapshot belongs to nothing
  else: a start that finds none replays the log.
- Checkpoints at the top of the log directory belong to all partitions: they are restored when every partition is. The
  log start offsets are the exception. The old ones are never above the new ones, and restored segments need them,
  because a start deletes what is below: if they cannot be restored, no deleted segment is.
- The clean shutdown file is restored only with everything else: it would keep a start from recovering the rest.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.changing.changes import INDEXES
from kafkalog_core.storage.changing.derived import CLEAN_SHUTDOWN_FILE, bases_of_logs, is_derived
from kafkalog_core.storage.logdir import is_broker_dir

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkalog_core.storage.changing.journal import Journal, JournalEntry

__all__ = ["left_out"]

_STARTS: Final = "log-start-offset-checkpoint"
_SEGMENT_FILE: Final = re.compile(rf"(\d{{20}})(\.log|{'|'.join(map(re.escape, INDEXES))})")
_SNAPSHOT: Final = re.compile(r"(\d{20})\.snapshot")
_NO_OFFSET: Final = 2**63
_OF_LOG: Final = "belongs to a log that is left as it is"
_GAP: Final = "would be separated from the log by a segment that cannot be put back"
_BELOW: Final = f"a start would delete it again, as {_STARTS} cannot be put back"
_OF_ALL: Final = "belongs to the whole log directory, of which other files are left as they are"


def left_out(journal: Journal, problems: Mapping[int, str]) -> dict[int, str]:
    """Return the entries of a run that are not undone, by number, each with the reason.

    Args:
        journal: the run.
        problems: why the files of some entries cannot be restored, by number.
    """
    left: dict[int, str] = {}
    top: list[JournalEntry] = []
    partitions: dict[str, list[JournalEntry]] = {}
    for entry in journal.entries:
        directory = os.path.dirname(journal.path_of(entry))
        at_top = directory == journal.layout.root and is_broker_dir(directory)
        (top if at_top else partitions.setdefault(directory, [])).append(entry)
    has_starts = not any(entry.number in problems for entry in top if os.path.basename(entry.path) == _STARTS)
    for directory, entries in partitions.items():
        bases = bases_of_logs(directory, journal.trusted)
        left |= _left_in_partition(entries, problems, bases, has_starts=has_starts)
    is_partial = bool(left)
    for entry in top:
        name = os.path.basename(entry.path)
        if entry.number in problems:
            left[entry.number] = problems[entry.number]
        elif is_partial and name != _STARTS:
            left[entry.number] = _OF_ALL
    for entry in top:
        if left and os.path.basename(entry.path) == CLEAN_SHUTDOWN_FILE:
            left.setdefault(entry.number, _OF_ALL)
    return left


def _left_in_partition(
    entries: Sequence[JournalEntry], problems: Mapping[int, str], bases: Sequence[int], *, has_starts: bool
) -> dict[int, str]:
    """Return the entries of a partition that are left; `bases` are the base offsets of the existing logs."""
    logs = {base: entry for entry in entries if (base := _base_of(entry, ".log")) is not None}
    if not has_starts and any(entry.kind == "remove" for entry in logs.values()):
        return {entry.number: problems.get(entry.number, _BELOW) for entry in entries}
    bad = [entry for entry in entries if entry.number in problems]
    left = {entry.number: problems[entry.number] for entry in bad}
    gone = set()
    for entry in bad:
        base = _base_of(entry)
        if entry.swap is None and _offset_of(entry) is not None:
            continue
        if entry.swap is None and base is not None and base not in logs:
            left |= {each.number: left.get(each.number, _OF_LOG) for each in entries if _base_of(each) == base}
        elif base is not None and _is_deleted_whole(base, entries):
            gone.add(base)
        elif logs or not is_derived(entry.path):
            return {each.number: left.get(each.number, _OF_LOG) for each in entries}
    return left | _after_gap(entries, logs, gone, bases, left) if gone else left


def _after_gap(
    entries: Sequence[JournalEntry],
    logs: Mapping[int, JournalEntry],
    gone: Collection[int],
    bases: Sequence[int],
    left: Mapping[int, str],
) -> dict[int, str]:
    """Return what is left of deleted segments of which some are `gone`; everything if no log would be restored."""
    deleted = {base for base in logs if _is_deleted_whole(base, entries)}
    first, last = min(gone), max(gone)
    if bases and last < bases[0]:
        lost = {base for base in deleted if base <= last}
        snapshots = range(last + 1)
    elif bases and first > bases[-1]:
        lost = {base for base in deleted if base >= first}
        snapshots = range(first, _NO_OFFSET)
    else:
        lost, snapshots = set(logs), range(0)
    if not any(entry.before is not None and base not in lost for base, entry in logs.items()):
        return {entry.number: left.get(entry.number, _OF_LOG) for entry in entries}
    found = {}
    for entry in entries:
        offset = _offset_of(entry)
        if _base_of(entry) in lost or (offset is not None and offset in snapshots):
            found[entry.number] = left.get(entry.number, _GAP)
    return found


def _is_deleted_whole(base: int, entries: Sequence[JournalEntry]) -> bool:
    """Whether the run deleted the log of a segment and all its indexes, and did not replace it by another segment."""
    of_segment = [entry for entry in entries if _base_of(entry) == base]
    has_log = any(entry.path.endswith(".log") for entry in of_segment)
    return has_log and all(entry.kind == "remove" and entry.swap is None for entry in of_segment)


def _base_of(entry: JournalEntry, suffix: str | None = None) -> int | None:
    """Return the base offset of a file's segment; None: it belongs to no segment, or has another suffix."""
    match = _SEGMENT_FILE.fullmatch(os.path.basename(entry.path))
    return None if match is None or suffix not in {None, match[2]} else int(match[1])


def _offset_of(entry: JournalEntry) -> int | None:
    match = _SNAPSHOT.fullmatch(os.path.basename(entry.path))
    return None if match is None else int(match[1])
