"""What a task writes, on its way from its process to the caller: files of some megabytes.

A process has a few such files, which it uses again after they were read, and waits while none is free: so the space is
bounded, whatever tasks write. Outputs are read one at a time, in the order of the tasks. So no process waits for a task
after its own. The last bytes of a task come with its result if they are few: most tasks need no file.

Where there is no room for files (`shortage`), processes on this machine keep their output in memory, compressed, until
their task has ended. So do workers on other machines, which share no directory with the caller.
"""

from __future__ import annotations

import io
import os
import pickle
import tempfile
import zlib
from contextlib import suppress
from mmap import ACCESS_READ, mmap
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
    "temporary_directory",
]

SPOOL_BYTES: Final = 4 * 1024 * 1024
"""Size of a file. A larger write gets a file of its own."""
MOST_FILES: Final = 5
"""Files of a process that wait for the reader, without the file that is being written."""
_HEAD_BYTES: Final = 8
"""A file begins with the size of what follows."""
_LITTLE_BYTES: Final = 64 * 1024
"""Bytes that come with the result of a task rather than in a file."""
_PAUSE: Final = Event()
_PAUSE_S: Final = 0.002
_BLOCK_BYTES: Final = 4 * 1024 * 1024
_LEVEL: Final = 1


_TEMP_VARIABLES: Final = ("TMPDIR", "TEMP", "TMP")
_TEMP_PLACES: Final = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108 -- where tempfile looks


def temporary_directory(prefix: str) -> tempfile.TemporaryDirectory[str] | None:
    """Return a new directory for temporary files; None: there is no place for one.

    The working directory, Python's last resort, is left alone: it may be one of a broker's.
    """
    try:
        place = tempfile.gettempdir()
        # The working directory may be a broker's: a temporary directory there would stop it
        # (LocalLog.parseTopicPartitionName).
        if place not in _TEMP_PLACES and not any(map(os.environ.get, _TEMP_VARIABLES)) and place == os.getcwd():
            return None
        return tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True)
    except OSError:
        return None


class OutputStream(Protocol):
    """The stream of one task."""

    def room(self) -> memoryview:
        """Return memory for bytes that are then given to `write`; it is valid until then. See `chunks.LineRoom`."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Take bytes, which are not divided on their way. Raises WorkerLostError if there is no space for them."""


class TaskOutput(Protocol):
    """The output of one task, which is read once and in order, and its result."""

    def data(self) -> Iterator[bytes | memoryview]:
        """Yield what the task writes, as soon as it comes, in pieces that end where a write of it ends.

        A piece is valid until the next one is requested.
        """

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
    """Output of a task that is in no file: compressed blocks, and the bytes after them."""

    blocks: tuple[bytes, ...] = ()
    last: bytes = b""

    def data(self) -> Iterator[bytes]:
        """Yield the bytes in order."""
        yield from map(zlib.decompress, self.blocks)
        if self.last:
            yield self.last


# --- by files ---------------------------------------------------------------------------------------------------------
def _path(directory: str, task: int, number: int) -> str:
    return f"{directory}/task-{task}-{number}"


def shortage(directory: str | None, jobs: int) -> str | None:
    """Return why there is no room for the files of some processes, as a clause; None: there is.

    Args:
        directory: for temporary files; None: there is none.
        jobs: number of processes.
    """
    if directory is None:
        return "no directory for temporary files can be written"
    place, found = os.path.dirname(directory), os.statvfs(directory)
    free_bytes, needed_bytes = found.f_bavail * found.f_frsize, jobs * (MOST_FILES + 1) * SPOOL_BYTES
    if free_bytes < needed_bytes:
        return f"{place} has only {size(free_bytes)} free, and temporary files need {size(needed_bytes)}"
    return None if _has_links(directory) else f"the file system of {place} has no hard links"


def _has_links(directory: str) -> bool:
    """Return whether a file can have two names: FAT and some file systems of networks give it one."""
    path, other = f"{directory}/named-once", f"{directory}/named-twice"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.link(path, other)
        os.unlink(other)
    except OSError:
        return False
    finally:
        with suppress(OSError):
            os.unlink(path)
    return True


class SpoolFiles:
    """The files of one process: a few of fixed size, mapped into its memory, and used again after they were read.

    The output of a task is not copied again: the reader passes the files on. Their space is allocated first, because
    the system kills a process that writes to mapped memory when the disk is full.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._files: list[tuple[str, memoryview]] = []

    def free(self, look: Callable[[], object]) -> tuple[str, memoryview]:
        """Return path and memory of a file that is free; wait for the reader if none is.

        look: called now and then while it waits; it may raise an error. Raises WorkerLostError if there is no space.
        """
        while True:
            for path, memory in self._files:
                if os.stat(path).st_nlink == 1:  # the reader has removed the name under which it was passed on
                    return path, memory
            if len(self._files) <= MOST_FILES:
                self._files.append(self._made(f"{self._directory}/buffer-{os.getpid()}-{len(self._files)}"))
                continue
            look()
            _PAUSE.wait(_PAUSE_S)

    def _made(self, path: str) -> tuple[str, memoryview]:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _allocate(descriptor, _HEAD_BYTES + SPOOL_BYTES)
                return path, memoryview(mmap(descriptor, _HEAD_BYTES + SPOOL_BYTES))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _no_space(error, self._directory) from error


def _allocate(descriptor: int, size_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size_bytes)
    else:
        os.write(descriptor, bytes(size_bytes))


def _no_space(error: OSError, directory: str) -> WorkerLostError:
    reason = (error.strerror or str(error)).lower()
    advice = "set TMPDIR to a directory with more room, or use --jobs 1, which needs none"
    return WorkerLostError(f"a temporary file cannot be written: {reason}; {advice}", path=directory)


class SpoolWriter:
    """The stream of a task to its files. A file ends where a write ends."""

    def __init__(self, directory: str, task: int, spool_files: SpoolFiles, look: Callable[[], object]) -> None:
        """Begin. look: called now and then while it waits for the reader; it may raise an error."""
        self._directory = directory
        self._task = task
        self._spool_files = spool_files
        self._look = look
        self._number = self._size = 0
        self._file: tuple[str, memoryview] | None = None

    def room(self) -> memoryview:
        """Return the rest of the file in memory: what is written there is not copied by `write`."""
        return self._memory()[_HEAD_BYTES + self._size :]

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes. Raises WorkerLostError if there is no space for them."""
        size_bytes = len(data)
        memory = self._memory()
        if isinstance(data, memoryview) and data.obj is memory.obj:  # they are there
            self._size += size_bytes
        elif size_bytes > SPOOL_BYTES:
            self._put()
            self._put_large(data)
        else:
            # A write is never divided: the reader parses each piece by itself.
            if size_bytes > SPOOL_BYTES - self._size:
                self._put()
                memory = self._memory()
            start = _HEAD_BYTES + self._size
            memory[start : start + size_bytes] = data
            self._size += size_bytes
        if self._size >= SPOOL_BYTES - SPOOL_BYTES // 8:
            self._put()

    def kept(self) -> HeldBytes:
        """Return what was written last, if it is little; the rest is in files."""
        if self._size > _LITTLE_BYTES:
            self._put()
        return HeldBytes(last=bytes(self._memory()[_HEAD_BYTES : _HEAD_BYTES + self._size]) if self._size else b"")

    def _memory(self) -> memoryview:
        if self._file is None:
            self._file = self._spool_files.free(self._look)
        return self._file[1]

    def _put(self) -> None:
        """Pass on what is in memory."""
        if self._file is None or not self._size:
            return
        path, memory = self._file
        memory[:_HEAD_BYTES] = self._size.to_bytes(_HEAD_BYTES, "little")
        self._named(path)
        self._file, self._size = None, 0

    def _put_large(self, data: bytes | memoryview) -> None:
        """Pass on what is larger than a file, in a file of its own."""
        oldest = _path(self._directory, self._task, self._number - MOST_FILES)
        # The reader deletes what it has read; until then this task waits, and the space is bounded.
        while self._number >= MOST_FILES and os.path.exists(oldest):
            self._look()
            _PAUSE.wait(_PAUSE_S)
        path = f"{self._directory}/large-{self._task}-{self._number}"
        try:
            with open(path, "xb", buffering=0) as file:
                left = memoryview(len(data).to_bytes(_HEAD_BYTES, "little") + data)
                while left:
                    left = left[file.write(left) :]
        except OSError as error:
            raise _no_space(error, self._directory) from error
        self._named(path)
        os.unlink(path)

    def _named(self, path: str) -> None:
        try:
            os.link(path, _path(self._directory, self._task, self._number))  # a file under this name is whole
        except OSError as error:
            raise _no_space(error, self._directory) from error
        self._number += 1


class SpoolReader:
    """The files of one task."""

    def __init__(self, directory: str, task: int) -> None:
        self._directory = directory
        self._task = task
        self._number = 0

    def files(self) -> Iterator[memoryview]:
        """Yield the contents of the files that are there. Each is valid until the next is requested."""
        while True:
            path = _path(self._directory, self._task, self._number)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            try:
                view = memoryview(mmap(descriptor, 0, access=ACCESS_READ))
                size_bytes = int.from_bytes(view[:_HEAD_BYTES], "little")
                yield view[_HEAD_BYTES : _HEAD_BYTES + size_bytes]
            finally:
                os.close(descriptor)
                with suppress(FileNotFoundError):  # after the end of the pool
                    os.unlink(path)
                self._number += 1


# --- in memory --------------------------------------------------------------------------------------------------------
class _MemoryStream:
    """The stream of a task whose process has no room for files, or shares no directory with the caller."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._last = bytearray()
        self._room: memoryview | None = None

    def room(self) -> memoryview:
        """See `OutputStream`."""
        if self._room is None:
            self._room = memoryview(bytearray(_BLOCK_BYTES))
        return self._room

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
    """Do a task and keep its output in memory. The last argument is the function that counts bytes read."""
    *given, advance = task
    stream = _MemoryStream()
    value = work_of(*given, stream, advance)
    return _KeptOutput(stream.kept(), value)


def outputs_in_memory(
    map_tasks: Callable[..., Iterator[Any]], work_of: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
) -> Iterator[TaskOutput]:
    """Yield the output of `work_of(*task, stream, advance)` for each task in order. map_tasks: `map` of any workers."""
    return map_tasks(kept_output, ((work_of, *task) for task in tasks))
