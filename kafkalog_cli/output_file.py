"""The one way in which the CLI writes a file that a user asked for.

It is whole or not there: it is written beside its place under another name, brought to the disk and then renamed.
Nothing is written among the files of a broker, where a file that no broker knows would itself be damage.
"""

from __future__ import annotations

import os
import stat
import tempfile
from typing import IO, TYPE_CHECKING, Final

from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.ops.reading.targets import FileTarget
from kafkalog_core.storage.changing.space import broker_dir_around
from kafkalog_core.storage.logdir import is_broker_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.ops.reading.targets import Target

__all__ = ["OutputFile"]

_PREFIX: Final = ".kafkalog-"
_START_BYTES: Final = 4096
_ELSEWHERE: Final = "a file of ours would be damage there; name one elsewhere"


class OutputFile:
    """A file to be written once or again and again, and whether that is possible at all.

    Args:
        path: as the user gave it; a link is followed.
        targets: what the command reads: nothing is written into any of it.
        is_ours: whether a file that begins with these bytes may be overwritten; null: any file may.

    Raises NotFoundError or AccessError, so that a run of hours does not end with a file that cannot be made.
    """

    def __init__(
        self, path: str, targets: Iterable[Target] = (), *, is_ours: Callable[[bytes], bool] | None = None
    ) -> None:
        self._path = path
        self._real = os.path.realpath(path)
        self._directory = os.path.dirname(self._real)
        self._check_place()
        self._check_not_among(targets)
        if is_ours is not None and os.path.lexists(self._real):
            self._check_overwritten(is_ours)

    def write(self, pieces: Iterable[str]) -> None:
        """Write the whole file, in place of one that is there. Raises AccessError; nothing is left then."""
        self.fill(lambda file: file.writelines(piece.encode(errors="backslashreplace") for piece in pieces))

    def fill(self, writes: Callable[[IO[bytes]], None]) -> None:
        """The same for a file of bytes, which `writes` writes into the file that it gets."""
        try:
            self._replace(writes)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise AccessError(f"cannot be written: {reason}", path=self._path) from error

    def _replace(self, writes: Callable[[IO[bytes]], None]) -> None:
        number, temporary = tempfile.mkstemp(dir=self._directory, prefix=_PREFIX, suffix=".tmp")
        try:
            with os.fdopen(number, "wb") as file:
                writes(file)
                file.flush()
                os.fchmod(number, self._mode())
                os.fsync(number)
            os.replace(temporary, self._real)
        except BaseException:
            os.unlink(temporary)
            raise
        self._sync_directory()

    def _mode(self) -> int:
        """That of the file that is there, else what this user's files have."""
        try:
            return stat.S_IMODE(os.stat(self._real).st_mode)
        except OSError:
            mask = os.umask(0)
            os.umask(mask)
            return 0o666 & ~mask

    def _sync_directory(self) -> None:
        """The file is whole by then; where a directory cannot be synced, that is all there is to be had."""
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
            raise NotFoundError("there is no such directory to write this file into", path=self._path)
        if os.path.lexists(self._real) and not os.path.isfile(self._real):
            raise AccessError("cannot be written: it is there, and no regular file", path=self._path)
        if not os.access(self._directory, os.W_OK | os.X_OK):
            raise AccessError("cannot be written: no permission to make a file in its directory", path=self._path)

    def _check_overwritten(self, is_ours: Callable[[bytes], bool]) -> None:
        """An empty file holds nothing that could be lost."""
        try:
            with open(self._real, "rb") as file:
                start = file.read(_START_BYTES)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise AccessError(f"would be overwritten, and cannot be read: {reason}", path=self._path) from error
        if start and not is_ours(start):
            raise AccessError("would be overwritten, and is none of ours; name another file", path=self._path)

    def _check_not_among(self, targets: Iterable[Target]) -> None:
        around = broker_dir_around(self._directory)
        if around is not None:
            kind = "log" if is_broker_dir(around) else "partition"
            raise AccessError(f"is in the {kind} directory {around}: {_ELSEWHERE}", path=self._path)
        for target in targets:
            place = os.path.realpath(target.path)
            if isinstance(target, FileTarget):
                if place == self._real:
                    raise AccessError("is what is to be read; name another file", path=self._path)
            elif os.path.commonpath([place, self._directory]) == place:
                raise AccessError(f"is in {target.path}, which is to be read: {_ELSEWHERE}", path=self._path)
