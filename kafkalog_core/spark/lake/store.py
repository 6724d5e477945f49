"""Where an output is: a directory, or a prefix of an object store; and its files by their names below it.

pyarrow's file systems read and write the files, on the driver and in the tasks. No name is written twice, so that a
task that runs again, or a run that was killed, never changes a file that a commit names.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from html import unescape
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import AccessError, DeniedError, NotFoundError, StorageError
from kafkalog_core.spark.lake.clouds import PROBE_ATTEMPTS, cloud_of
from kafkalog_core.storage.changing.writer import Disk, WriteError
from kafkalog_core.storage.object_paths import S3
from kafkalog_core.storage.objects import store_error
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyarrow.fs import FileSystem

__all__ = ["Store", "attempt_name", "reason_of", "run_of", "shown", "small_name", "store_problem", "writing"]

_OURS: Final = ".kafkalog."
"""What follows the id of the run in the name of every file that a run writes."""
_GONE: Final = "RESOURCE_NOT_FOUND"  # an object that was deleted after it was opened
_ANSWER: Final = re.compile(r"<.*?<Code>(?P<code>.*?)</Code>\s*<Message>(?P<message>.*?)</Message>", re.DOTALL)
_REQUEST: Final = re.compile(r"Error performing [A-Z]+ \S+ in (?s:.)*? - ")  # its URL may have a secret
_SIGNATURE: Final = re.compile(r"sig=[^&\s\"'<>]+")
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_attempts = count()


def attempt_name(run: str, stem: str, suffix: str = ".parquet") -> str:
    """Return a name for a new file of a run that no other task and no other attempt at this task uses."""
    if "pyspark" in sys.modules:  # else this is not a Spark task
        from pyspark import TaskContext  # noqa: PLC0415 -- this module is used without it too

        task = TaskContext.get()
        # Attempts of one task may run at once (speculation), so each has a name of its own.
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
        # What another library says is kept; only its class is ours.
        known = store_problem(path, error, "written")
        text = f"cannot be written: {reason_of(error)}" if known is None else known.message
        raise WriteError(text, path=path, number=error.errno) from shown(error)


class Store(Struct, frozen=True):
    """A directory, or a prefix of an object store, whose files are named by their paths below it, separated by `/`.

    Args:
        root: its absolute path, or the URI of an object store; see `clouds`.
        options: how to reach an object store: pairs of a name and a value.
        syncs: whether files are fsynced when they are finished; an object store does it without being asked.
    """

    root: str
    options: tuple[tuple[str, str], ...] = ()
    syncs: bool = True

    @classmethod
    def of(cls, root: str, options: Mapping[str, str] | None = None, *, syncs: bool = True) -> Store:
        """Return the store of a path or URI, with what the environment says of object stores. Raises SelectionError."""
        cloud = cloud_of(root)
        if cloud is None:
            return cls(os.path.abspath(root), (), syncs)
        return cls(root, cloud.options(options or {}), syncs=False)

    def __repr__(self) -> str:
        # Without options, which may be secret
        return f"Store({self.root!r})"

    @property
    def is_local(self) -> bool:
        """Whether it is a directory that this system sees."""
        return cloud_of(self.root) is None

    def delta_options(self) -> AbstractContextManager[dict[str, str]]:
        """Return how the Delta library reaches it, as a context in which a table is opened or created."""
        cloud = cloud_of(self.root)
        return nullcontext({}) if cloud is None else cloud.for_delta(self.root, self.options)

    def path(self, name: str) -> str:
        """Return the path or URI of a file, for people and for other libraries."""
        return f"{self.root}/{name}" if name else self.root

    def below(self, folder: str) -> Store:
        """Return a directory below this one."""
        return Store(self.path(folder), self.options, self.syncs)

    def require_answer(self) -> None:
        """Raise AccessError or NotFoundError soon if an object store does not answer, or refuses the credentials."""
        cloud = cloud_of(self.root)
        if cloud is None:
            return
        from pyarrow.fs import FileSelector  # noqa: PLC0415 -- see `files`

        try:
            files, path = cloud.probe(self.root, self.options)
            # One small listing, tried for seconds: a wrong key must not look like a slow job.
            files.get_file_info(FileSelector(path, allow_not_found=True))
        except (OSError, UnicodeError) as error:
            raise _refused(self.root, error, "listed", PROBE_ATTEMPTS) from shown(error)

    def create(self, name: str) -> pa.NativeFile:
        """Create a file and the directories above it. Raises OSError."""
        files, path = self._at(name)
        if self.is_local:
            files.create_dir(os.path.dirname(path), recursive=True)
        return files.open_output_stream(path)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for reads anywhere in it. Raises OSError."""
        files, path = self._at(name)
        return files.open_input_file(path)

    def finish(self, name: str) -> None:
        """Fsync a file that was closed. Raises WriteError."""
        # An object store has flushed what it has acknowledged.
        if self.syncs:
            Disk().sync_file(self.path(name))

    def write(self, name: str, data: bytes) -> None:
        """Write a small file as a whole. Raises WriteError."""
        with writing(self.path(name)), self.create(name) as file:
            file.write(data)
        self.finish(name)

    def replace(self, name: str, data: bytes, new: str | None = None) -> None:
        """Write a small file, perhaps again: readers see the old data or the new. Raises WriteError.

        `new`: its name until it is complete; None: with the suffix `.new`.
        """
        if not self.is_local:
            # An object appears as a whole
            self.write(name, data)
            return
        new = new or f"{name}.new"
        self.write(new, data)
        Disk().rename(self.path(new), self.path(name))

    def read(self, name: str) -> bytes:
        """Return the contents of a small file. Raises NotFoundError, AccessError."""
        try:
            with self.open(name) as file:
                return bytes(file.read())
        except OSError as error:
            if isinstance(error, FileNotFoundError) or _GONE in str(error):
                raise NotFoundError("no such file", path=self.path(name)) from shown(error)
            raise _refused(self.path(name), error, "read") from shown(error)

    def files(self, folder: str = "") -> dict[str, int]:
        """Return all files below a folder with their sizes in bytes, by name. Raises AccessError."""
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 -- pyarrow: where there is work for it

        try:
            files, top = self._at(folder)
            entries = files.get_file_info(FileSelector(top, allow_not_found=True, recursive=True))
            root = self._at("")[1]
        except (OSError, UnicodeError) as error:
            raise _refused(self.path(folder), error, "listed") from shown(error)
        skipped = len(root) + 1 if root else 0
        return {entry.path[skipped:]: entry.size for entry in entries if entry.type == FileType.File}

    def written_s(self, name: str) -> float | None:
        """Return when a file was written, in seconds since 1970 by the store's clock; None: there is none.

        Raises AccessError.
        """
        from pyarrow.fs import FileType  # noqa: PLC0415 -- see `files`

        try:
            files, path = self._at(name)
            entry = files.get_file_info(path)
        except OSError as error:
            raise _refused(self.path(name), error, "looked at") from shown(error)
        if entry.type != FileType.File or entry.mtime is None:
            return None
        return float(entry.mtime.timestamp())

    def delete(self, names: Iterable[str]) -> None:
        """Delete files. A file that does not exist is ignored. Raises WriteError."""
        for name in names:
            with writing(self.path(name)), suppress(FileNotFoundError):
                files, path = self._at(name)
                files.delete_file(path)

    def sync_directories(self, names: Iterable[str]) -> None:
        """Fsync the directories of some files, and all directories above them in the store. Raises WriteError."""
        if not self.syncs:
            return
        # From the file up to the store's root: a new directory is durable only with its parent.
        for folder in sorted({str(above) for name in names for above in PurePosixPath(name).parents}):
            Disk().sync_directory(os.path.normpath(self.path(folder)))

    def _at(self, name: str) -> tuple[FileSystem, str]:
        """Return pyarrow's file system, and the path of a file in it."""
        cloud = cloud_of(self.root)
        files, root = (_local_file_system(), self.root) if cloud is None else cloud.place(self.root, self.options)
        return files, f"{root}/{name}" if root and name else root or name


@lru_cache(maxsize=1)
def _local_file_system() -> FileSystem:
    from pyarrow.fs import LocalFileSystem  # noqa: PLC0415 -- see `files`

    return LocalFileSystem()


def reason_of(error: Exception) -> str:
    """Return the reason for an error: the system's words, or the first and the last line of an object store's."""
    if isinstance(error, OSError) and error.errno and not str(error).startswith(("When ", "AWS ")):
        return os.strerror(error.errno).lower()
    # What was signed must not appear in a message or a traceback.
    said = _SIGNATURE.sub("sig=...", _REQUEST.sub("", _ANSI.sub("", str(error))))
    parts = [part.strip() for part in said.split("\u21b3")]  # each is the cause of the former
    lines = [_line(part.removeprefix("Kernel error -> ")) for part in parts if part]
    return ": ".join(dict.fromkeys((lines[0], lines[-1]))) if lines else type(error).__name__


_SENT: Final = ("error sending request", "connection error", "operation timed out")
"""In an error of the Delta library: the store has not answered."""
_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WRITING: Final = "check that this key may also put and delete objects there (s3:PutObject, s3:DeleteObject)"


def store_problem(path: str, error: Exception, what: str, attempts: int | None = None) -> StorageError | None:
    """Return what S3 has answered, in the words of inputs; None: it is another store's error, or no answer.

    Args:
        path: of the object, the directory or the table.
        error: pyarrow's, or the Delta library's.
        what: the operation: "read", "listed" or "written".
        attempts: how often it was tried; None: as often as inputs are.
    """
    said = str(error)
    if not path.startswith(S3):
        return None
    if answer := _ANSWER.search(said):  # the Delta library shows the store's own words
        code = _INNER_CAPITAL.sub("_", answer["code"]).upper()
        said = f"AWS Error {code} during REQUEST operation: {unescape(answer['message'])}"
    elif any(word in said for word in _SENT):
        said = "AWS Error NETWORK_CONNECTION during REQUEST operation"
    elif "AWS Error" not in said:
        return None
    known = (
        store_error(path, OSError(said), what) if attempts is None else store_error(path, OSError(said), what, attempts)
    )
    if isinstance(known, DeniedError) and what == "written":
        known = DeniedError(known.message, f"{known.advice}; {_WRITING}", path=path)
    return known if isinstance(known, StorageError) else AccessError(known.message, path=path)


def _refused(path: str, error: Exception, what: str, attempts: int | None = None) -> StorageError:
    known = store_problem(path, error, what, attempts)
    return AccessError(f"cannot be {what}: {reason_of(error)}", path=path) if known is None else known


def shown(error: Exception) -> Exception | None:
    """Return an error that a traceback may show as the cause of another; None: it has the signature of a token."""
    return None if _SIGNATURE.search(str(error)) else error


def _line(text: str) -> str:
    """Return the first line of a text; of a store's answer in XML what it says."""
    answer = _ANSWER.search(text)
    if answer is None:
        return text.partition("\n")[0].rstrip(". ")
    before = f"{text[: answer.start()].rstrip(': ')}: " if answer.start() else ""
    return unescape(f"{before}{answer['code']}: {answer['message']}".partition("\n")[0].rstrip(". "))
