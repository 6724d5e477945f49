"""What a task writes, on its way from its process to the caller: files of some megabytes, deleted when they are read.

A task may have a few such files at a time. Then it waits until the first of them has been read, so the files take a
bounded space, whatever a task writes. The caller reads one task at a time, in the order of the tasks: the others wait,
and no process waits for a later one. The last bytes of a task, less than a file, come with its result: most tasks need
no file.

Workers on other machines share no directory with the caller. They keep their output in memory, compressed.
"""

from __future__ import annotations

import io
import os
import pickle
import zlib
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kafkalog_core.errors import WorkerLostError
from kafkalog_core.text import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "MOST_FILES",
    "SPOOL_BYTES",
    "HeldBytes",
    "OutputStream",
    "SpoolReader",
    "SpoolWriter",
    "TaskOutput",
    "kept_output",
    "outputs_in_memory",
    "send",
    "sent",
    "shortage",
]

SPOOL_BYTES: Final = 8 * 1024 * 1024
"""Size of a file, unless what is written at once is larger."""
MOST_FILES: Final = 4
"""Files of a task that were not read yet, apart from the file that is being written."""
_PAUSE: Final = Event()
_PAUSE_S: Final = 0.002
_BLOCK_BYTES: Final = 4 * 1024 * 1024
_LEVEL: Final = 1


class OutputStream(Protocol):
    """The stream of one task."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Take bytes, which are not divided on their way. Raises WorkerLostError if there is no space for them."""


class TaskOutput(Protocol):
    """What one task has written, which is read once and in order, and its result."""

    def data(self) -> Iterator[bytes]:
        """Yield what the task writes, as soon as it comes, in pieces that end where a write of it ends."""

    def result(self) -> Any:
        """Return the result, after all data. Raises WorkerLostError, and what the task has raised."""


def send(stream: OutputStream, value: object) -> None:
    """Write a value, for `sent`."""
    stream.write(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def sent(output: TaskOutput) -> Iterator[Any]:
    """Yield the values that a task has sent."""
    for data in output.data():
        stream = io.BytesIO(data)
        while stream.tell() < len(data):
            yield pickle.load(stream)  # noqa: S301 -- written by a process of the same run


class HeldBytes(NamedTuple):
    """What a task has written that is in no file: compressed blocks, and the bytes after them."""

    blocks: tuple[bytes, ...] = ()
    last: bytes = b""

    def data(self) -> Iterator[bytes]:
        """Yield it."""
        yield from map(zlib.decompress, self.blocks)
        if self.last:
            yield self.last


# --- by files ---------------------------------------------------------------------------------------------------------
def _path(directory: str, task: int, number: int) -> str:
    return f"{directory}/task-{task}-{number}"


def shortage(directory: str | None, jobs: int) -> str | None:
    """Return why there is no room for all that tasks may have written before it is read, as a clause; None: there is.

    Args:
        directory: for temporary files; None: there is none.
        jobs: number of processes.
    """
    if directory is None:
        return "no directory for temporary files can be written"
    found = os.statvfs(directory)
    # The most that all tasks may have written before it is read, with the file that each is writing.
    free_bytes, needed_bytes = found.f_bavail * found.f_frsize, (jobs + 1) * (MOST_FILES + 1) * SPOOL_BYTES
    if free_bytes >= needed_bytes:
        return None
    return f"{os.path.dirname(directory)} has {size(free_bytes)} free of {size(needed_bytes)} for temporary files"


class SpoolWriter:
    """The stream of a task to its files. A file ends where a write ends."""

    def __init__(self, directory: str, task: int, look: Callable[[], object]) -> None:
        """Begin. look: called now and then while it waits for the reader; it may raise an error."""
        self._directory = directory
        self._task = task
        self._look = look
        self._number = self._size = 0
        self._memory = memoryview(bytearray(SPOOL_BYTES))

    def room(self) -> memoryview:
        """Return memory for bytes, which are then given to `write`."""
        return self._memory[self._size :]

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes. Raises WorkerLostError if there is no space for them."""
        size_bytes = len(data)
        if isinstance(data, memoryview) and data.obj is self._memory.obj:  # they are there
            self._size += size_bytes
        else:
            # A write is never divided: the reader parses each piece by itself.
            if size_bytes > SPOOL_BYTES - self._size:
                self._put(self._memory[: self._size])
            if size_bytes > SPOOL_BYTES:
                self._put(data)
                return
            self._memory[self._size : self._size + size_bytes] = data
            self._size += size_bytes
        if self._size >= SPOOL_BYTES // 2:
            self._put(self._memory[: self._size])

    def kept(self) -> HeldBytes:
        """Return what was written last and is in no file."""
        return HeldBytes(last=bytes(self._memory[: self._size]))

    def _put(self, data: bytes | memoryview) -> None:
        self._size = 0
        if not data:
            return
        oldest = _path(self._directory, self._task, self._number - MOST_FILES)
        # The reader deletes what it has read; until then this task waits, and the space is bounded.
        while self._number >= MOST_FILES and os.path.exists(oldest):
            self._look()
            _PAUSE.wait(_PAUSE_S)
        path = _path(self._directory, self._task, self._number)
        try:
            with open(f"{path}.tmp", "wb", buffering=0) as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
            # A file under this name is whole
            os.rename(f"{path}.tmp", path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            advice = "set TMPDIR to another place, or use --jobs 1, which needs none"
            message = f"a temporary file cannot be written: {reason}; {advice}"
            raise WorkerLostError(message, path=self._directory) from error
        self._number += 1


class SpoolReader:
    """The files of one task."""

    def __init__(self, directory: str, task: int) -> None:
        self._directory = directory
        self._task = task
        self._number = 0

    def files(self) -> Iterator[bytes]:
        """Yield the contents of the files that are there; each is deleted."""
        # The next file is not there yet.
        with suppress(FileNotFoundError):
            while True:
                path = _path(self._directory, self._task, self._number)
                with open(path, "rb", buffering=0) as file:
                    data = file.read()
                # Deleted before it is handed on: the writer may continue at once.
                os.unlink(path)
                self._number += 1
                yield data


# --- in memory --------------------------------------------------------------------------------------------------------
class _MemoryStream:
    """The stream of a task whose process shares no directory with the caller."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._last = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes."""
        self._last += data
        if len(self._last) >= _BLOCK_BYTES:
            self._blocks.append(zlib.compress(self._last, _LEVEL))
            self._last.clear()

    def kept(self) -> HeldBytes:
        """Return all of it."""
        return HeldBytes(tuple(self._blocks), bytes(self._last))


class _KeptOutput(NamedTuple):
    """The output of a task that has ended."""

    kept: HeldBytes
    value: Any

    def data(self) -> Iterator[bytes]:
        """See `TaskOutput`."""
        return self.kept.data()

    def result(self) -> Any:
        """See `TaskOutput`."""
        return self.value


def kept_output(work_of: Callable[..., Any], *task: Any) -> _KeptOutput:
    """Do a task, of which the last argument is the function that counts what is read, and keep what it writes."""
    *given, advance = task
    stream = _MemoryStream()
    value = work_of(*given, stream, advance)
    return _KeptOutput(stream.kept(), value)


def outputs_in_memory(
    map_tasks: Callable[..., Iterator[Any]], work_of: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
) -> Iterator[TaskOutput]:
    """Yield the output of `work_of(*task, stream, advance)` for each task in order. map_tasks: `map` of any workers."""
    return map_tasks(kept_output, ((work_of, *task) for task in tasks))
