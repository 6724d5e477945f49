"""What a task writes, on its way from its process to the output: files of some megabytes, deleted when they are read.

A task may have a few such files at a time, and then waits until the first of them was read: so the space that they need
is bounded, whatever a task writes. Only one is read at a time, that of the first task which has not ended; those after
it wait. Results are in order, and no process waits for one after it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


__all__ = ["MOST_FILES", "SPOOL_BYTES", "SpoolReader", "SpoolWriter", "has_room"]

SPOOL_BYTES: Final = 8 * 1024 * 1024
"""Size of a file, unless a single line is larger."""
MOST_FILES: Final = 4
"""Files of a task that were not read yet, and the one that is being written."""
_PAUSE: Final = Event()
_PAUSE_S: Final = 0.002


def _path(directory: str, task: int, number: int) -> str:
    return f"{directory}/rows-{task}-{number}"


def has_room(directory: str, jobs: int) -> bool:
    """Return whether there is space for all that tasks may have written before it is read."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize >= (jobs + 1) * (MOST_FILES + 1) * SPOOL_BYTES


class SpoolWriter:
    """The stream of one task, a context manager. Lines are written as a whole: a file ends where one of them does."""

    def __init__(self, directory: str, task: int, look: Callable[[], object]) -> None:
        """Begin. look: called now and then while it waits for the reader; it may raise an error."""
        self._directory = directory
        self._task = task
        self._look = look
        self._number = self._size = 0
        self._memory = memoryview(bytearray(SPOOL_BYTES))

    def room(self) -> memoryview:
        """Return memory for lines, which are then given to `write`."""
        return self._memory[self._size :]

    def write(self, data: bytes | memoryview) -> None:
        """Take lines. Raises WorkerLostError if there is no space for them."""
        size = len(data)
        if isinstance(data, memoryview) and data.obj is self._memory.obj:  # they are there
            self._size += size
        else:
            if size > SPOOL_BYTES - self._size:
                self._put(self._memory[: self._size])
            if size > SPOOL_BYTES:
                self._put(data)
                return
            self._memory[self._size : self._size + size] = data
            self._size += size
        if self._size >= SPOOL_BYTES // 2:
            self._put(self._memory[: self._size])

    def _put(self, data: bytes | memoryview) -> None:
        self._size = 0
        if not data:
            return
        oldest = _path(self._directory, self._task, self._number - MOST_FILES)
        while self._number >= MOST_FILES and os.path.exists(oldest):
            self._look()
            _PAUSE.wait(_PAUSE_S)
        path = _path(self._directory, self._task, self._number)
        try:
            with open(f"{path}.tmp", "wb", buffering=0) as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
            os.rename(f"{path}.tmp", path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            advice = "set TMPDIR to another place, or use --jobs 1, which needs none"
            message = f"a temporary file cannot be written: {reason}; {advice}"
            raise WorkerLostError(message, path=self._directory) from error
        self._number += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is kept, also before an error: the rows before it are shown."""
        self._put(self._memory[: self._size])


class SpoolReader:
    """Passes on what tasks have written, the first one's first."""

    def __init__(self, directory: str, write: Callable[[memoryview], object]) -> None:
        self._directory = directory
        self._write = write
        self.task = self._number = 0

    def pass_on(self) -> None:
        """Pass on the files of the present task that are complete."""
        with suppress(FileNotFoundError):
            while True:
                path = _path(self._directory, self.task, self._number)
                with open(path, "rb", buffering=0) as file:
                    data = file.read()
                os.unlink(path)
                self._number += 1
                self._write(memoryview(data))

    def end_task(self) -> None:
        """Pass on what the present task has written to its end, and begin with the next one."""
        self.pass_on()
        self.task, self._number = self.task + 1, 0
