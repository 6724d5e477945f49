"""Files that a starting broker rebuilds from the log, so that they may differ after an interrupted run.

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.storage.changing.changes import Fingerprint
    from kafkalog_core.storage.changing.journal import Journal, JournalEntry
    from kafkalog_core.storage.changing.trusted import TrustedDirectories

__all__ = [
    "CLEAN_SHUTDOWN_CONTENT",
    "CLEAN_SHUTDOWN_FILE",
    "bases_of_logs",
    "checkpoints_next_to_clean_shutdown",
    "has_broker_run",
    "is_derived",
    "is_rebuilt",
    "logs_of_derived",
]

_LOG: Final = re.compile(r"\d{20}\.log")
_EPOCHS: Final = "leader-epoch-checkpoint"
_CHECKPOINT: Final = "-offset-checkpoint"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
_OF_PARTITION: Final = (".snapshot", _EPOCHS)


def is_derived(path: str) -> bool:
    """Whether a start rebuilds the file of this name from the log; false for files at the top of a log directory."""
    return path.endswith((*INDEXES, *_OF_PARTITION))


def logs_of_derived(paths: Iterable[str], trusted: TrustedDirectories) -> dict[str, Fingerprint]:
    """Return the logs from which derived files among some paths are built, without logs that are among these paths.

    For an index it is the log of its segment. For every partition it is the last log too, because no append or
    truncation leaves that one unchanged. Raises AccessError.
    """
    changed = set(paths)
    found: dict[str, Fingerprint] = {}
    for path in sorted(filter(is_derived, changed)):
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
    """Whether a checkpoint of `checkpoints_next_to_clean_shutdown` has changed."""
    root = journal.layout.root
    known = {f"{root}/{path}": log for path, log in journal.logs.items() if path.endswith(_CHECKPOINT)}
    return any(fingerprint(path, journal.trusted) != file for path, file in known.items())


def is_rebuilt(journal: Journal, entry: JournalEntry, is_known: Callable[[JournalEntry], bool]) -> bool:
    """Whether a file that is neither as before nor as after its change was rebuilt by a start from a known log.

    Args:
        journal: the run.
        entry: the file.
        is_known: whether the file of another entry is as before or as after its change, or can be made so.
    """
    path, trusted = journal.path_of(entry), journal.trusted
    directory = os.path.dirname(path)
    if not (journal.is_interrupted and is_derived(path) and trusted.is_directory(directory)):
        return False
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
    return remembered is not None and fingerprint(log, journal.trusted) == remembered


def _begins_as_cut(path: str, entry: JournalEntry, trusted: TrustedDirectories) -> bool:
    """Whether a truncated file still begins with the bytes that the truncation keeps, which are saved nowhere else."""
    status, after = trusted.status(path), entry.after
    if status is None or after is None or status.st_size < after.size_bytes:
        return False
    return fingerprint_start(path, after.size_bytes, after.mtime_ns, trusted) == after


def bases_of_logs(directory: str, trusted: TrustedDirectories) -> list[int]:
    """Return the base offsets of the logs in a directory, in order; none if the directory does not exist."""
    if not trusted.is_directory(directory):
        return []
    return [int(os.path.basename(path).partition(".")[0]) for path in _logs(directory, trusted)]


def _logs(directory: str, trusted: TrustedDirectories) -> list[str]:
    """Return the logs of a partition, by base offset."""
    return [f"{directory}/{name}" for name in trusted.names(directory) if _LOG.fullmatch(name)]


CLEAN_SHUTDOWN_CONTENT: Final = b""
"""The content of a clean shutdown file: an empty one means a clean shutdown to every release.

Since 3.9 a broker writes its broker epoch into it (`CleanShutdownFileHandler`), which is unknown here. An empty file
claims no epoch: the broker registers as one that lost it.
"""
