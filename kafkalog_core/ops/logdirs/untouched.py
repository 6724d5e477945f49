"""That nobody changes the files of a log directory while something is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import LockedError, RefusedError
from kafkalog_core.storage.changing.lock import lock_holder
from kafkalog_core.storage.listing import stat_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.logdir import LogDir

__all__ = ["check_not_running", "check_untouched"]


def check_not_running(log_dir: LogDir | None) -> None:
    """Raises LockedError where a process works on a log directory that is to be copied; null: none is known."""
    holder = None if log_dir is None else lock_holder(log_dir.path)
    if log_dir is not None and holder is not None:
        raise LockedError(
            f"held by {holder.sentence}: a copy made while it writes does not form a log. {holder.advice}, and run the "
            "same command again",
            path=log_dir.path,
        )


def check_untouched(files: Iterable[FileInfo]) -> None:
    """Raises RefusedError where a file is not as it was when it was listed, NotFoundError where it is gone."""
    for file in files:
        status = stat_path(file.path)
        if (status.st_size, status.st_mtime_ns) != (file.size_bytes, file.mtime_ns):
            raise RefusedError(
                "another process wrote to it while it was read, and the unfinished copy has been removed; stop the "
                "broker and run the same command again",
                path=file.path,
            )
