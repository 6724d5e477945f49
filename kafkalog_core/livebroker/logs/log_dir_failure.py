"""Whether the log directory of a live broker can still be written (Kafka's `LogDirFailureChannel`).

A broker takes a log directory offline at the first I/O error of a log (`LocalLog.maybeHandleIOException`). After it,
what the files hold is unknown: recovery truncates a log at a torn batch, so that whatever is appended after one is
lost, and a file whose fsync failed may lack what was written to it. Here it is offline for writes alone: what was
acknowledged can still be read. One error leaves nothing unknown: an append for which there was no space, and that was
undone.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import LimitError, StorageError
from kafkalog_core.storage.changing.writer import WriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

__all__ = ["ClientFailures", "ClosedLogError", "LogDirFailure", "OfflineError", "unreported"]


_MOST_LATEST: Final = 100


class OfflineError(StorageError):
    """The log directory is offline for writes."""


class ClosedLogError(StorageError):
    """The partition was deleted or closed, so nothing is written to it."""


def unreported(what: str, error: BaseException) -> None:
    """Report nothing."""


class LogDirFailure:
    """The state of one log directory. Thread-safe."""

    def __init__(self, path: str, failed: Callable[[str, BaseException], None] = unreported) -> None:
        """Begin online. failed: receives each write that failed or was refused, and why."""
        self._path = path
        self._failed = failed
        self._cause: str | None = None
        self._noted: BaseException | None = None
        self._lock = threading.Lock()

    @property
    def is_offline(self) -> bool:
        """Whether nothing may be written any more."""
        return self._cause is not None

    def check(self, *, advises: bool = False) -> None:
        """Raise OfflineError if nothing may be written any more. advises: with the next step in its text."""
        if self._cause is None:
            return
        advice = (
            ". What was acknowledged is kept, and can be read. Repair the disk (dmesg shows its errors), and start "
            f"kafkalog again, which recovers the logs: kafkalog serve --read-write {shell_path(self._path)}"
        )
        message = f"is offline for writes: {self._cause}{advice if advises else ''}"
        raise OfflineError(message, path=self._path)

    def writing(self, what: str) -> Writing:
        """Return what surrounds each write; `what`: of which kind, for the report."""
        return Writing(self, what)

    def note(self, what: str, error: BaseException) -> None:
        """Report a write that failed, and go offline unless it was undone for want of space."""
        with self._lock:
            if error is self._noted:
                return  # a write within another one
            self._noted = error
            is_undone = isinstance(error, WriteError) and error.is_undone and error.is_full
            is_new = not is_undone and self._cause is None
            if is_new:
                self._cause = f"{what} failed ({type(error).__name__}: {error})"
        self._failed(what, error)
        if is_new:
            try:
                self.check(advises=True)
            except OfflineError as offline:
                self._failed(f"all further writing to {self._path}", offline)


class Writing:
    """A context manager around a write, which can be entered again and again."""

    def __init__(self, failure: LogDirFailure, what: str) -> None:
        self._failure = failure
        self._what = what

    def __enter__(self) -> None:
        """Raise OfflineError, which is reported, if nothing may be written any more."""
        if self._failure.is_offline:
            try:
                self._failure.check()
            except OfflineError as error:
                self._failure.note(self._what, error)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A batch that is too large for a segment is refused before anything is written (`Appender.append_set`), and so
        # is every change of a partition that another thread has deleted.
        if error is not None and not isinstance(error, LimitError | ClosedLogError):
            self._failure.note(self._what, error)


class ClientFailures:
    """Reports what clients asked for and could not be done to a log directory. The owner serializes calls.

    Clients choose the names in it, so only the latest failures are kept.
    """

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        """Begin without failures. failed: receives what could not be done, and why."""
        self._failed = failed
        self._latest: dict[str, str] = {}

    def __len__(self) -> int:
        """Return how many failures are kept."""
        return len(self._latest)

    @contextmanager
    def reported(self, what: str) -> Iterator[None]:
        """Report a failure of what is done here, the same one once, though clients try again and again.

        That the directory is offline was reported when it went offline.
        """
        try:
            yield
        except OfflineError:
            raise
        except (StorageError, OSError) as error:
            if self._latest.pop(what, None) != str(error):
                self._failed(what, error)
            self._latest[what] = str(error)
            if len(self._latest) > _MOST_LATEST:
                del self._latest[next(iter(self._latest))]
            raise
        self._latest.pop(what, None)
