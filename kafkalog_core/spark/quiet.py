"""Where the words of Spark's processes go: into a file, as they would break into the results and messages of ours."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LOG_CONF", "SparkLog"]

LOG_CONF: Final = "spark.kafkalog.log"
"""The setting by which a session knows its own log."""

_STANDARD: Final = (1, 2)


class SparkLog:
    """A directory for one session: its log, and whatever Spark leaves on this machine's disk while it works.

    Args:
        shows: whether there is no log, as everything goes to stderr.
    """

    def __init__(self, *, shows: bool) -> None:
        self.directory = tempfile.mkdtemp(prefix="kafkalog-spark-")
        self.path = None if shows else os.path.join(self.directory, "spark.log")
        self.is_kept = False
        """Whether the log is to be read by somebody when the session has ended."""

    @contextmanager
    def redirected(self) -> Iterator[None]:
        """While entered, standard output and error are the log: processes that are started now keep them so."""
        if self.path is None:
            yield
            return
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [os.dup(number) for number in _STANDARD]
        log = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for number in _STANDARD:
                os.dup2(log, number)
            yield
        finally:
            for number, before in zip(_STANDARD, saved, strict=True):
                os.dup2(before, number)
                os.close(before)
            os.close(log)

    def close(self) -> None:
        """Remove everything; of a session that failed the log stays."""
        if not self.is_kept or self.path is None:
            shutil.rmtree(self.directory, ignore_errors=True)
            return
        for entry in os.scandir(self.directory):
            if entry.is_dir():
                shutil.rmtree(entry.path, ignore_errors=True)
