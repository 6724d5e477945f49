"""The journals that are in a log directory, in a partition, or in a directory that `--undo-to` named."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from kafkalog_core.errors import FieldError
from kafkalog_core.format.names import JOURNAL_PREFIX, journal_run
from kafkalog_core.storage.changing.journal import INTENT, OF_SEVERAL, Journal, parse_journal
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Found", "Remains", "find_journals", "held_bytes", "real_path"]


@dataclass(frozen=True, slots=True)
class Remains:
    """What has the name of a journal and is none: what a run left that ended before it had changed anything.

    Args:
        run: the name.
        paths: files and directories of it, those that are in others last.
        reason: why it is no journal, one clause.
        is_unreadable: a journal is there that cannot be read; what it holds may be needed.
    """

    run: str
    paths: tuple[str, ...]
    reason: str
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Journals by their names, which is the order of their times, and what is left of others."""

    journals: tuple[Journal, ...] = ()
    remains: tuple[Remains, ...] = ()


@dataclass(slots=True)
class _Traces:
    """What was seen of one run."""

    paths: list[str] = field(default_factory=list)
    journal: Journal | None = None
    problem: str | None = None


def find_journals(root: str) -> Found:
    """The journals in a directory and in those directly below it. Raises NotFoundError or AccessError for itself."""
    runs: dict[str, _Traces] = {}
    for directory in (root, *_directories(root)):
        for path in _named(directory, is_root=directory == root):
            run = journal_run(os.path.basename(path))
            if run is not None:
                traces = runs.setdefault(run, _Traces())
                traces.paths.append(path)
                _read(traces, run, path)
                if os.path.lexists(f"{path}/{OF_SEVERAL}"):
                    _read_above(traces, run, directory)
    journals = [traces.journal for traces in runs.values() if traces.journal is not None]
    return Found(
        tuple(sorted(journals, key=lambda journal: journal.order)),
        tuple(_remains(run, traces) for run, traces in sorted(runs.items()) if traces.journal is None),
    )


def held_bytes(journal: Journal) -> int:
    """What pruning a journal frees: old files that have no other name, copies and tails."""
    total = 0
    for directory in journal.directories():
        try:
            with os.scandir(directory) as entries:
                statuses = [entry.stat(follow_symlinks=False) for entry in entries]
        except OSError:
            continue
        total += sum(status.st_size for status in statuses if status.st_nlink == 1)
    return total


def real_path(path: str) -> str:
    """The one path of a file whatever names lead to its directory; the file itself is never a link."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _directories(root: str) -> list[str]:
    """Directories directly below, each once: by its own name rather than by that of a link, and never `root` again."""
    try:
        status = os.stat(root)
        with os.scandir(root) as entries:
            named = sorted((entry.is_symlink(), entry.path) for entry in entries if journal_run(entry.name) is None)
    except OSError as error:
        raise open_error(root, error) from error
    found: dict[tuple[int, int], str] = {}
    for _, path in named:
        with suppress(OSError):  # a link that leads nowhere, or to itself
            inner = os.stat(path)
            if stat.S_ISDIR(inner.st_mode) and not os.path.samestat(inner, status):
                found.setdefault((inner.st_dev, inner.st_ino), path)
    return sorted(found.values())


def _named(directory: str, *, is_root: bool) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.path for entry in entries if entry.name.startswith(JOURNAL_PREFIX))
    except OSError as error:
        if is_root:
            raise open_error(directory, error) from error
        return []  # a directory that cannot be listed is told by whoever reads it


def _read(traces: _Traces, run: str, path: str) -> None:
    """Take the intent that a path is or holds, if it is one."""
    is_directory = os.path.isdir(path)
    intent = f"{path}/{INTENT}" if is_directory else path
    if os.path.basename(path) != run or not os.path.isfile(intent):
        return
    try:
        place: Literal["partition", "top"] = "partition" if is_directory else "top"
        journal = parse_journal(_content(intent), run, os.path.dirname(path), place)
        if isinstance(journal, str):
            _read_elsewhere(traces, run, journal, intent)
        else:
            traces.journal = journal
    except (OSError, FieldError) as error:
        reason = error.message if isinstance(error, FieldError) else (error.strerror or str(error)).lower()
        traces.problem = f"{intent}: {reason}"


def _read_above(traces: _Traces, run: str, partition: str) -> None:
    """Take the intent of a run that changed more than this partition; without it nothing can be said of this part."""
    above = f"{os.path.dirname(os.path.abspath(partition))}/{run}"
    if os.path.lexists(above):
        _read(traces, run, above)
    else:
        traces.problem = f"{above} is missing, of which this is a part"


def _read_elsewhere(traces: _Traces, run: str, home: str, pointer: str) -> None:
    """Take the intent in another directory; where that is there without one, the run had not begun.

    The pointer may lie in a copy of what was changed. The journal is of the original, as long as that is there; what
    was moved since, or is mounted elsewhere now, is still its own.
    """
    directory = f"{home}/{run}"
    if os.path.isdir(directory) and not os.path.lexists(f"{directory}/{INTENT}"):
        traces.paths.append(directory)
        return
    journal = parse_journal(_content(f"{directory}/{INTENT}"), run, home, "partition")
    if not isinstance(journal, Journal):
        raise FieldError("leads in a circle")
    if not _is_same(journal.pointer, pointer):
        if os.path.lexists(journal.layout.root):
            raise FieldError(f"is of {journal.layout.root}, of which this is a copy, and is kept in {directory}")
        around = os.path.dirname(pointer)
        root = os.path.dirname(around) if journal.pointer_is_directory else around
        journal = replace(journal, layout=replace(journal.layout, root=root))
    traces.journal = journal


def _is_same(named: str | None, path: str) -> bool:
    try:
        return named is not None and os.path.samefile(named, path)
    except OSError:
        return False


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _remains(run: str, traces: _Traces) -> Remains:
    paths = [inner for path in traces.paths for inner in _with_content(path)]
    if traces.problem is not None:
        return Remains(run, tuple(paths), f"its journal cannot be read ({traces.problem})", is_unreadable=True)
    return Remains(run, tuple(paths), "it ended before it had changed anything")


def _with_content(path: str) -> Iterator[str]:
    yield path
    if os.path.isdir(path) and not os.path.islink(path):
        yield from sorted(f"{path}/{name}" for name in os.listdir(path))
