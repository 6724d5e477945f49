"""Files that depend on a log: those that a starting broker rebuilds from it, and those that an undo leaves with it.

If a run was killed and a broker has started since, the indexes may be neither as before nor as after the run: a start
preallocates the indexes of the active segment, rebuilds those that are missing or belong to a segment after the
recovery point, and adds the last entry of a time index when it closes it (`LogLoader`, `LogSegment.recover`,
`onBecomeInactiveSegment`). It writes and deletes producer snapshots (`ProducerStateManager.truncateAndReload`,
`takeSnapshot`), and removes leader epochs at and after the log end offset, before it assigns one there that has no
record yet (`LeaderEpochFileCache.truncateFromEnd`, `assign`).

None of them holds anything that the log does not hold. So the files of the run, old or new, may replace them again if
the run knows the log: logs that the run changes have to be as before or as after it, and those that it does not change
as they were when it was staged, which the journal records (`Journal.logs`). Files at the top of a log directory belong
to all its partitions and are never rebuilt from a log.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.changing.changes import INDEXES, fingerprint, fingerprint_start
from kafkalog_core.storage.logdir import is_broker_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkalog_core.storage.changing.changes import Change, Fingerprint
    from kafkalog_core.storage.changing.journal import Journal, JournalEntry
    from kafkalog_core.storage.changing.trusted import TrustedDirectories

__all__ = [
    "CLEAN_SHUTDOWN_FILE",
    "EMPTY_CLEAN_SHUTDOWN",
    "bases_of_logs",
    "checkpoints_next_to_clean_shutdown",
    "has_broker_run",
    "is_derived",
    "is_rebuilt",
    "left_out",
    "logs_of_derived",
    "recovery_markers",
    "unrecovered_ends",
]


_LOG: Final = re.compile(r"\d{20}\.log")
_EPOCHS: Final = "leader-epoch-checkpoint"
_CHECKPOINT: Final = "-offset-checkpoint"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
_RECOVERY_MARKERS: Final = (CLEAN_SHUTDOWN_FILE, "recovery-point-offset-checkpoint")
EMPTY_CLEAN_SHUTDOWN: Final = b""
"""The content of a clean shutdown file: an empty one means a clean shutdown to every release.

From 3.7 on, a broker writes its broker epoch into it (`CleanShutdownFileHandler`), which is unknown here. An empty file
claims no epoch: the broker registers as one that lost it.
"""
_OF_PARTITION: Final = (".snapshot", _EPOCHS)


def is_derived(path: str) -> bool:
    """Return whether a start rebuilds a file from the log, by its name; false at the top of a log directory."""
    return path.endswith((*INDEXES, *_OF_PARTITION))


def logs_of_derived(paths: Iterable[str], trusted: TrustedDirectories) -> dict[str, Fingerprint]:
    """Return the logs from which derived files among some paths are built, without logs that are among these paths.

    For an index it is the log of its segment. For every partition it is the last log too, because no append or
    truncation leaves that one unchanged. Raises AccessError.
    """
    changed = set(paths)
    found: dict[str, Fingerprint] = {}
    for path in sorted(filter(is_derived, changed)):
        # An index is built from the log of its own segment.
        own = [f"{path.rpartition('.')[0]}.log"] if path.endswith(INDEXES) else []
        last = [log for log in _logs(os.path.dirname(path), trusted) if log not in changed][-1:]
        for log in (*own, *last):
            if log not in changed and log not in found:
                now = fingerprint(log, trusted)
                if now is not None:
                    found[log] = now
    return found


def checkpoints_next_to_clean_shutdown(paths: Iterable[str], trusted: TrustedDirectories) -> dict[str, Fingerprint]:
    """Return the checkpoints next to a clean shutdown file that is to be written, without those among the paths.

    A running broker writes its high watermarks every few seconds, so they show whether one has run before an
    interrupted run comes to that file, which declares all logs whole. Raises AccessError.
    """
    changed = set(paths)
    directories = {os.path.dirname(path) for path in changed if os.path.basename(path) == CLEAN_SHUTDOWN_FILE}
    found = {}
    for directory in directories:
        for name in trusted.names(directory):
            now = fingerprint(f"{directory}/{name}", trusted) if name.endswith(_CHECKPOINT) else None
            if now is not None and f"{directory}/{name}" not in changed:
                found[f"{directory}/{name}"] = now
    return found


def has_broker_run(journal: Journal) -> bool:
    """Return whether a checkpoint of `checkpoints_next_to_clean_shutdown` has changed."""
    root = journal.layout.root
    # ReplicaManager writes high watermarks every replica.high.watermark.checkpoint.interval.ms (5 seconds): an
    # unchanged checkpoint shows that no broker has run.
    known = {f"{root}/{path}": log for path, log in journal.logs.items() if path.endswith(_CHECKPOINT)}
    return any(fingerprint(path, journal.trusted) != file for path, file in known.items())


def recovery_markers(changes: Iterable[Change], root: str, trusted: TrustedDirectories) -> dict[str, Fingerprint]:
    """Return the files of a log directory by which a start decides what it recovers, if logs are cut or deleted.

    They are the clean shutdown file and the recovery points, as far as they exist and the changes leave them alone.
    Raises AccessError.
    """
    changed = {change.path: change.kind for change in changes}
    # Only shorter logs matter: a start that skips recovery serves whatever is at the end of the file.
    if not any(kind in {"cut", "remove"} and _is_log(path) for path, kind in changed.items()):
        return {}
    paths = (f"{root}/{name}" for name in _RECOVERY_MARKERS if is_broker_dir(root))
    found = {path: fingerprint(path, trusted) for path in paths if path not in changed}
    return {path: file for path, file in found.items() if file is not None}


def unrecovered_ends(journal: Journal, entries: Iterable[JournalEntry]) -> tuple[list[JournalEntry], list[str]]:
    """Return the entries whose undo restores the end of a log that a start would not recover, and the files at fault.

    These are the recovery markers that were written after the run, by their paths; without any there are no such
    entries. A broker that starts and stops declares with them that the logs, as it found them, are whole. It would then
    serve damage after the end that it knew, and append to it (`LogLoader`).
    """
    ends = []
    bases: dict[str, list[int]] = {}
    for entry in entries:
        path = journal.path_of(entry)
        if entry.kind in {"cut", "remove"} and entry.before is not None and entry.swap is None and _is_log(path):
            directory, name = os.path.split(path)
            if directory not in bases:
                bases[directory] = bases_of_logs(directory, journal.trusted)
            # Segments deleted at the end are ends too: restored, they follow on what a start has seen as the log end.
            if entry.kind == "cut" or int(name[:20]) > max(bases[directory], default=-1):
                ends.append(entry)
    markers = _markers_written_since(journal) if ends else []
    return (ends, markers) if markers else ([], [])


def _markers_written_since(journal: Journal) -> list[str]:
    """Return the paths of files of `recovery_markers` that neither the run nor anything before it wrote."""
    found = []
    for name in _RECOVERY_MARKERS:
        path = f"{journal.layout.root}/{name}"
        known = {journal.logs.get(name)}
        for entry in journal.entries:
            if journal.path_of(entry) == path:
                known |= {entry.before, entry.after}
        now = fingerprint(path, journal.trusted)
        if now is not None and now not in known:
            found.append(path)
    return found


def is_rebuilt(journal: Journal, entry: JournalEntry, is_known: Callable[[JournalEntry], bool]) -> bool:
    """Return whether a file that is neither as before nor as after its change was rebuilt by a start from a known log.

    Args:
        journal: the run.
        entry: the file.
        is_known: whether the file of another entry is as before or as after its change, or can be made so.
    """
    path, trusted = journal.path_of(entry), journal.trusted
    directory = os.path.dirname(path)
    if not (journal.is_interrupted and is_derived(path) and trusted.is_directory(directory)):
        return False
    # The cut kept the first bytes; if a start has rewritten them, the saved tail fits nothing.
    if entry.kind == "cut" and not _begins_as_cut(path, entry, trusted):
        return False
    logs = _logs(directory, trusted)[-1:]
    logs += [f"{path.rpartition('.')[0]}.log"] if path.endswith(INDEXES) else []
    entries = {journal.path_of(each): each for each in journal.entries}
    return bool(logs) and all(_is_known(journal, log, entries.get(log), is_known) for log in logs)


def _is_known(journal: Journal, log: str, entry: JournalEntry | None, is_known: Callable[[JournalEntry], bool]) -> bool:
    if entry is not None:
        return is_known(entry)
    remembered = journal.logs.get(os.path.relpath(log, journal.layout.root))
    # Unknown logs prove nothing: the file may have been rebuilt from records of another producer.
    return remembered is not None and fingerprint(log, journal.trusted) == remembered


def _begins_as_cut(path: str, entry: JournalEntry, trusted: TrustedDirectories) -> bool:
    """Return whether a truncated file still begins with the bytes that the truncation kept and nothing else holds."""
    status, after = trusted.status(path), entry.after
    if status is None or after is None or status.st_size < after.size_bytes:
        return False
    return fingerprint_start(path, after.size_bytes, after.mtime_ns, trusted) == after


def bases_of_logs(directory: str, trusted: TrustedDirectories) -> list[int]:
    """Return the base offsets of the logs in a directory, in order; none if the directory does not exist."""
    if not trusted.is_directory(directory):
        return []
    return [int(os.path.basename(path).partition(".")[0]) for path in _logs(directory, trusted)]


def _is_log(path: str) -> bool:
    return _LOG.fullmatch(os.path.basename(path)) is not None


def _logs(directory: str, trusted: TrustedDirectories) -> list[str]:
    """Return the logs of a partition, by base offset."""
    return [f"{directory}/{name}" for name in trusted.names(directory) if _LOG.fullmatch(name)]


_LOG_STARTS: Final = "log-start-offset-checkpoint"
_SEGMENT_FILE: Final = re.compile(rf"(\d{{20}})(\.log|{'|'.join(map(re.escape, INDEXES))})")
_SNAPSHOT: Final = re.compile(r"(\d{20})\.snapshot")
_NO_OFFSET: Final = 2**63
_OF_LOG: Final = "belongs to a log that is left as it is"
_GAP: Final = "would be separated from the log by a segment that cannot be restored"
_BELOW: Final = f"a start would delete it again, as {_LOG_STARTS} cannot be restored"
_OF_ALL: Final = "belongs to the whole log directory, of which other files are left as they are"


def left_out(journal: Journal, problems: Mapping[int, str]) -> dict[int, str]:
    """Return the entries of a run that are not undone, by number, each with the reason.

    A saved file may be damaged, or a file may have changed since. Files that belong together are then left together, so
    that the files still agree with each other:

    - A log that is truncated, replaced or created, and every other file of its partition: old indexes, snapshots and
      leader epochs disagree with a log that is not the old one.
    - Segments that were deleted whole are restored as far as they follow on the existing log, so that there is no gap:
      if the start of a log was deleted, those after the last one that cannot be restored; if its end was deleted, those
      before the first one. Snapshots beyond them are left too. Leader epochs beyond them are restored, because a start
      removes them. If no log is restored, the partition is left.
    - Indexes of a segment whose log the run did not change belong to this segment alone, and a snapshot belongs to
      nothing else: a start that finds none replays the log.
    - Checkpoints at the top of the log directory belong to all partitions: they are restored when every partition is.
      The log start offsets are the exception. The old ones are never above the new ones, and restored segments need
      them, because a start deletes what is below: if they cannot be restored, no deleted segment is.
    - The clean shutdown file is restored only with everything else: it would keep a start from recovering the rest.

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
    # Lower log start offsets must be restored before the segments below them (LogLoader.recoverLog deletes what is
    # below).
    has_starts = not any(entry.number in problems for entry in top if os.path.basename(entry.path) == _LOG_STARTS)
    for directory, entries in partitions.items():
        bases = bases_of_logs(directory, journal.trusted)
        left |= _left_in_partition(entries, problems, bases, has_starts=has_starts)
    is_partial = bool(left)
    for entry in top:
        name = os.path.basename(entry.path)
        if entry.number in problems:
            left[entry.number] = problems[entry.number]
        elif is_partial and name != _LOG_STARTS:
            left[entry.number] = _OF_ALL
    for entry in top:
        # With anything left out, a clean shutdown file would keep a start from recovering the rest.
        if left and os.path.basename(entry.path) == CLEAN_SHUTDOWN_FILE:
            left.setdefault(entry.number, _OF_ALL)
    return left


def _left_in_partition(
    entries: Sequence[JournalEntry], problems: Mapping[int, str], bases: Sequence[int], *, has_starts: bool
) -> dict[int, str]:
    """Return the entries of a partition that are left; `bases` are the base offsets of the existing logs."""
    logs = {base: entry for entry in entries if (base := _base_of(entry, ".log")) is not None}
    # UnifiedLog.deleteLogStartOffsetBreachedSegments would delete the restored segments at the next check.
    if not has_starts and any(entry.kind == "remove" for entry in logs.values()):
        return {entry.number: problems.get(entry.number, _BELOW) for entry in entries}
    bad = [entry for entry in entries if entry.number in problems]
    left = {entry.number: problems[entry.number] for entry in bad}
    missing = set()
    for entry in bad:
        base = _base_of(entry)
        if entry.swap is None and _offset_of(entry) is not None:
            continue
        if entry.swap is None and base is not None and base not in logs:
            left |= {each.number: left.get(each.number, _OF_LOG) for each in entries if _base_of(each) == base}
        elif base is not None and _is_deleted_whole(base, entries):
            missing.add(base)
        elif logs or not is_derived(entry.path):
            return {each.number: left.get(each.number, _OF_LOG) for each in entries}
    return left | _after_gap(entries, logs, missing, bases, left) if missing else left


def _after_gap(
    entries: Sequence[JournalEntry],
    logs: Mapping[int, JournalEntry],
    missing: Collection[int],
    bases: Sequence[int],
    left: Mapping[int, str],
) -> dict[int, str]:
    """Return the entries that are left if some deleted segments cannot be restored; all if no log can be restored.

    `missing` are the base offsets of these segments.
    """
    deleted = {base for base in logs if _is_deleted_whole(base, entries)}
    first, last = min(missing), max(missing)
    # The start of the log was deleted: what is restored must reach the existing log without a gap.
    if bases and last < bases[0]:
        lost = {base for base in deleted if base <= last}
        snapshots = range(last + 1)
    # The end of the log was deleted.
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
    """Return whether the run deleted the log of a segment and its indexes, and no other segment replaced it."""
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
