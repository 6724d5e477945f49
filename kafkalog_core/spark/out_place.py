"""Where an output may be: in a new or empty directory, or in its own; never inside of a broker's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalog_core.errors import RefusedError
from kafkalog_core.spark.manifest import INNER, commit_numbers, read_commit
from kafkalog_core.storage.changing.permission import broker_files_around
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_place", "refuse_inside"]


def check_place(path: str, kind: str) -> None:
    """Refuse what is no directory, is another output, or holds other people's files."""
    _refuse_log_dir(path)
    if not os.path.lexists(path):
        return
    if not os.path.isdir(path):
        raise RefusedError("is a file and not a directory; name another directory with --to", path=path)
    numbers = commit_numbers(path)
    if numbers:
        there = read_commit(path, numbers[-1]).kind
        if there != kind:
            raise RefusedError(
                f"holds the output of another job: {there}, not {kind}; name another directory with --to", path=path
            )
        return
    file = _first_file(path)
    if file is not None:
        raise RefusedError(
            f"not empty, and nothing that a run of this job has made: it holds {file!r}; name a new or empty "
            f"directory with --to",
            path=path,
        )


def refuse_inside(path: str, sources: Iterable[str]) -> None:
    """Raise RefusedError for an output inside of what is read: the next run would read it too."""
    there = os.path.realpath(path)
    for source in sources:
        if f"{there}/".startswith(f"{os.path.realpath(source).rstrip('/')}/"):
            raise RefusedError(
                f"is within {source}, which is read; name a directory outside of it with --to", path=path
            )


def _first_file(path: str) -> str | None:
    """Any file of somebody else's; a run that died early has left nothing but empty directories beside its own."""
    try:
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name == INNER:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    return entry.name
                inside = _first_file(entry.path)
                if inside is not None:
                    return f"{entry.name}/{inside}"
    except OSError as error:
        raise open_error(path, error) from error
    return None


def _refuse_log_dir(path: str) -> None:
    """A foreign directory at the top of a log directory stops a broker; in a partition it has no business either."""
    around = broker_files_around(os.path.realpath(path))
    if around is not None:
        raise RefusedError(f"is within Kafka's own directory {around}; name one outside of it with --to", path=path)
