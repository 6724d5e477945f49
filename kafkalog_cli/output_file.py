"""Files that the CLI writes at the request of the user, such as plans and reports.

A file is complete or absent: it is written in the same directory under another name, fsynced and renamed. None is
written into a log directory, where a file that brokers do not know would itself be damage.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final

from kafkalog_cli.standard_streams import check_output, stream_of
from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.storage.access import may
from kafkalog_core.storage.changing.space import broker_dir_around
from kafkalog_core.storage.logdir import is_broker_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["OutputFile"]

_PREFIX: Final = ".kafkalog-"
_START_BYTES: Final = 4096
_ELSEWHERE: Final = "a file of kafkalog would be damage there; name a file elsewhere"


class OutputFile:
    """A file that is written once or several times; the constructor checks that it can be written.

    Args:
        path: path of the file, as the user gave it; a symbolic link is followed.
        reads: paths that the command reads; nothing is written to any of them, or into it.
        is_ours: returns whether a file that begins with these bytes may be overwritten; None: any file may.

    Raises NotFoundError or AccessError, so that a run of hours does not end with a file that cannot be written.
    """

    def __init__(self, path: str, reads: Iterable[str] = (), *, is_ours: Callable[[bytes], bool] | None = None) -> None:
        self._path = path
        self._real = os.path.realpath(path)
        self._directory = os.path.dirname(self._real)
        self._check_place()
        self._check_not_among(reads)
        if is_ours is not None and os.path.lexists(self._real):
            self._check_overwritten(is_ours)

    def write(self, pieces: Iterable[str]) -> None:
        """Write the whole file, or replace it. Raises AccessError, and leaves nothing then."""
        self.fill(lambda file: file.writelines(piece.encode(errors="backslashreplace") for piece in pieces))

    def fill(self, writes: Callable[[IO[bytes]], None]) -> None:
        """Write the whole file of bytes, or replace it: `writes` gets the open file. Raises AccessError."""
        try:
            with self._replaced() as file:
                writes(file)
        except OSError as error:
            raise AccessError(f"cannot be written: {_reason_of(error)}", path=self._path) from error

    @contextmanager
    def as_stdout(self) -> Iterator[None]:
        """Let standard output be the file in the body. The file is complete or absent: a body that raises leaves none.

        Raises AccessError if the file cannot be created.
        """
        before = sys.stdout
        with self._replaced() as file:
            sys.stdout = stream_of(file.fileno(), before.encoding, before.errors)
            try:
                yield
                sys.stdout.flush()
                check_output()
            finally:
                with suppress(OSError):
                    sys.stdout.detach()
                sys.stdout = before

    @contextmanager
    def _replaced(self) -> Iterator[IO[bytes]]:
        """Yield the new file under another name, then give it its name; delete it if the body raises."""
        try:
            number, temporary = tempfile.mkstemp(dir=self._directory, prefix=_PREFIX, suffix=".tmp")
        except OSError as error:
            raise AccessError(f"cannot be written: {_reason_of(error)}", path=self._path) from error
        try:
            with os.fdopen(number, "wb") as file:
                yield file
                file.flush()
                os.fchmod(number, self._mode())
                os.fsync(number)
            os.replace(temporary, self._real)
        except BaseException:
            os.unlink(temporary)
            raise
        self._sync_directory()

    def _mode(self) -> int:
        """Return the mode of the file to be replaced, else that of a new file of this user."""
        try:
            return stat.S_IMODE(os.stat(self._real).st_mode)
        except OSError:
            mask = os.umask(0)
            os.umask(mask)
            return 0o666 & ~mask

    def _sync_directory(self) -> None:
        """Fsync the directory, on file systems that can; the file itself is complete by then."""
        number = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        except OSError:
            return
        finally:
            os.close(number)

    # --- before anything is read --------------------------------------------------------------------------------------
    def _check_place(self) -> None:
        if not self._path or self._path.endswith("/"):
            raise NotFoundError("no file name to write to", path=self._path)
        if not os.path.isdir(self._directory):
            raise NotFoundError("cannot be written: its directory does not exist", path=self._path)
        if os.path.lexists(self._real) and not os.path.isfile(self._real):
            raise AccessError("cannot be written: it exists and is not a regular file", path=self._path)
        if not may(self._directory, os.W_OK | os.X_OK):
            raise AccessError("cannot be written: no permission to create a file in its directory", path=self._path)

    def _check_overwritten(self, is_ours: Callable[[bytes], bool]) -> None:
        """Raise AccessError if the file is not of kafkalog; an empty file may be overwritten."""
        try:
            with open(self._real, "rb") as file:
                start = file.read(_START_BYTES)
        except OSError as error:
            reason = _reason_of(error)
            raise AccessError(f"would be overwritten, but cannot be read: {reason}", path=self._path) from error
        if start and not is_ours(start):
            raise AccessError("would be overwritten, but is not a file of kafkalog; name another file", path=self._path)

    def _check_not_among(self, reads: Iterable[str]) -> None:
        around = broker_dir_around(self._directory)
        if around is not None:
            kind = "log" if is_broker_dir(around) else "partition"
            raise AccessError(f"is in the {kind} directory {around}: {_ELSEWHERE}", path=self._path)
        for path in reads:
            place = os.path.realpath(path)
            if place == self._real:
                raise AccessError("is a file that this command reads; name another file", path=self._path)
            if os.path.isdir(place) and os.path.commonpath([place, self._directory]) == place:
                raise AccessError(f"is in {path}, which this command reads: {_ELSEWHERE}", path=self._path)


def _reason_of(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
