"""Where an output is: a directory, or a prefix of an object store; and its files by their names below it.

pyarrow's file systems read and write the files, on the driver and in the tasks. No name is written twice, so that a
task that runs again, or a run that was killed, never changes a file that a commit names.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.storage.changing.writer import Disk, WriteError
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyarrow.fs import FileSystem

__all__ = ["Store", "attempt_name", "run_of", "small_name", "writing"]

_OURS: Final = ".kafkalog."
"""What follows the id of the run in the name of every file that a run writes."""
_attempts = count()


def attempt_name(run: str, stem: str, suffix: str = ".parquet") -> str:
    """Return a name for a new file of a run that no other task and no other attempt at this task uses."""
    if "pyspark" in sys.modules:  # else this is not a Spark task
        from pyspark import TaskContext  # noqa: PLC0415 -- this module is used without it too

        task = TaskContext.get()
        if task is not None:
            ids = f"s{task.stageId()}-p{task.partitionId()}-a{task.attemptNumber()}-t{task.taskAttemptId()}"
            return f"{run}{_OURS}{stem}-{ids}-{next(_attempts)}{suffix}"
    return f"{run}{_OURS}{stem}-local{os.getpid()}-{next(_attempts)}{suffix}"


def small_name(run: str, number: int) -> str:
    """Return the name of a small file of a run, which only its driver writes."""
    return f"{run}{_OURS}{number:06}.json"


def run_of(name: str) -> str | None:
    """Return the run that wrote a file, by its name; None: no run did."""
    run, ours, _ = name.rpartition("/")[2].partition(_OURS)
    return run if ours else None


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turn an OSError of another library that writes this file, or into this directory, into a WriteError."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise WriteError(f"cannot be written: {reason.lower()}", path=path, number=error.errno) from error


class Store(Struct, frozen=True):
    """A directory whose files are named by their paths below it, separated by `/`.

    Args:
        root: its absolute path.
        syncs: whether files are fsynced when they are finished.
    """

    root: str
    syncs: bool = True

    def path(self, name: str) -> str:
        """Return the path of a file, for people and for other libraries."""
        return f"{self.root}/{name}"

    def below(self, folder: str) -> Store:
        """Return a directory below this one."""
        return Store(self.path(folder), self.syncs)

    def create(self, name: str) -> pa.NativeFile:
        """Create a file and the directories above it. Raises OSError."""
        files = _files()
        path = self.path(name)
        files.create_dir(os.path.dirname(path), recursive=True)
        return files.open_output_stream(path)

    def finish(self, name: str) -> None:
        """Fsync a file that was closed. Raises WriteError."""
        if self.syncs:
            Disk().sync_file(self.path(name))

    def write(self, name: str, data: bytes) -> None:
        """Write a small file as a whole. Raises WriteError."""
        with writing(self.path(name)), self.create(name) as file:
            file.write(data)
        self.finish(name)

    def read(self, name: str) -> bytes:
        """Return the contents of a small file. Raises NotFoundError, AccessError."""
        try:
            with _files().open_input_stream(self.path(name)) as file:
                return bytes(file.read())
        except FileNotFoundError as error:
            raise NotFoundError("no such file", path=self.path(name)) from error
        except OSError as error:
            raise AccessError(f"cannot be read: {_reason(error)}", path=self.path(name)) from error

    def files(self, folder: str = "") -> dict[str, int]:
        """Return all files below a folder with their sizes in bytes, by name. Raises AccessError."""
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 -- pyarrow: where there is work for it

        top = self.path(folder) if folder else self.root
        try:
            entries = _files().get_file_info(FileSelector(top, allow_not_found=True, recursive=True))
        except OSError as error:
            raise AccessError(f"cannot be listed: {_reason(error)}", path=top) from error
        skipped = len(self.root) + 1
        return {entry.path[skipped:]: entry.size for entry in entries if entry.type == FileType.File}

    def written_s(self, name: str) -> float | None:
        """Return when a file was written, in seconds since 1970 by the store's clock; None: there is none."""
        from pyarrow.fs import FileType  # noqa: PLC0415 -- see `files`

        with suppress(OSError):
            entry = _files().get_file_info(self.path(name))
            if entry.type == FileType.File and entry.mtime is not None:
                return float(entry.mtime.timestamp())
        return None

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that do not exist are gone already. Raises WriteError."""
        files = _files()
        for name in names:
            with suppress(FileNotFoundError), writing(self.path(name)):
                files.delete_file(self.path(name))

    def sync_directories(self, names: Iterable[str]) -> None:
        """Fsync the directories of some files. Raises WriteError."""
        if not self.syncs:
            return
        for folder in sorted({os.path.dirname(self.path(name)) for name in names}):
            Disk().sync_directory(folder)


@lru_cache(maxsize=1)
def _files() -> FileSystem:
    from pyarrow.fs import LocalFileSystem  # noqa: PLC0415 -- pyarrow: where there is work for it

    return LocalFileSystem()


def _reason(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else str(error)).lower()
