"""Atomic commits to an output directory: tasks stage files, and one rename makes a run's files and state visible."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import sys
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

from kafkalog_core.errors import AccessError, LockedError, NotFoundError, RefusedError, StorageError, UnfinishedError
from kafkalog_core.spark.commit.manifest import (
    INNER,
    SUCCESS,
    FileFacts,
    Manifest,
    Part,
    check_place,
    commit_numbers,
    commit_path,
    live_files,
    read_commit,
    read_manifest,
    read_state,
    settled_number,
    state_path,
)
from kafkalog_core.storage.changing.lock import file_lock_holder
from kafkalog_core.storage.changing.writer import Attributes, Disk, WriteError
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Commit", "Output", "attempt_name", "hive_name", "roll_forward", "sync_file", "writing"]


HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_HIVE_ESCAPED: Final = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_attempts = count()


def attempt_name(stem: str, suffix: str = ".parquet") -> str:
    """Return a name for a staged file that no other task and no other attempt at this task uses."""
    if "pyspark" in sys.modules:  # else this is not a Spark task
        from pyspark import TaskContext  # noqa: PLC0415 -- this module is used without it too

        task = TaskContext.get()
        if task is not None:
            ids = f"s{task.stageId()}-p{task.partitionId()}-a{task.attemptNumber()}-t{task.taskAttemptId()}"
            return f"{stem}-{ids}-{next(_attempts)}{suffix}"
    return f"{stem}-local{os.getpid()}-{next(_attempts)}{suffix}"


def sync_file(path: str) -> None:
    """Fsync a file that another library has written. Raises WriteError."""
    Disk().sync_file(path)


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turn an OSError of another library that writes this file, or into this directory, into a WriteError."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"cannot be written: {(error.strerror or str(error)).lower()}", path=path, number=error.errno
        ) from error


def hive_name(column: str, value: object) -> str:
    """Return the directory name of a partition column's value, escaped so that Spark reads the value back."""
    text = HIVE_NULL if value is None else str(value)
    return f"{column}={_HIVE_ESCAPED.sub(lambda match: f'%{ord(match[0]):02X}', text)}"


_STATES_KEPT: Final = 2
_HELD: Final = frozenset({errno.EAGAIN, errno.EACCES})
_FOLDERS: Final = ("commits", "states", "staging")
_open_outputs: set[str] = set()
"""Real paths of this process' open outputs: POSIX locks do not exclude two threads of one process."""


# --- the output -------------------------------------------------------------------------------------------------------
class Output:
    """A directory of committed files, locked while it is open; a context manager that closes it."""

    def __init__(self, path: str, kind: str, disk: Disk) -> None:
        self.path = path
        self.kind = kind
        self.number = 0
        self.made_ms: int | None = None
        self.state: dict[str, Any] = {}
        self.disk = disk
        self._lock: int | None = None
        self._commit: Commit | None = None

    @classmethod
    def open(cls, path: str, kind: str, disk: Disk | None = None) -> Self:
        """Create or open the directory, and finish the commit of a run that ended too early.

        Raises RefusedError if it holds something else, LockedError if another run is writing into it, WriteError.
        """
        output = cls(os.path.abspath(path), kind, disk or Disk())
        check_place(output.path, kind)
        output._prepare()
        output._take_lock()
        try:
            output._recover()
        except BaseException:
            output.close()
            raise
        return output

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Abandon what was not committed, and release the lock."""
        try:
            if self._commit is not None:
                self._commit.close()
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
                _open_outputs.discard(os.path.realpath(self.path))

    def files(self) -> dict[str, FileFacts]:
        """Return all files of the output, by name. Raises RefusedError if a commit's manifest was changed."""
        return live_files(self.path)

    def begin(self, run_id: str) -> Commit:
        """Begin a commit and create its staging directory. Raises WriteError."""
        staging = f"{self.path}/{INNER}/staging/{run_id}"
        self.disk.make_directory(staging, None)
        self._commit = Commit(self, run_id, staging)
        return self._commit

    def settle(self, manifest: Manifest) -> None:
        """Put the files of the last commit in place; repeating it changes nothing. Raises WriteError, RefusedError."""
        staging = f"{self.path}/{INNER}/staging/{manifest.run}"
        folders = set()
        for part in manifest.adds:
            final = f"{self.path}/{part.name}"
            if os.path.lexists(f"{staging}/{part.staged}"):
                self.make_directories(os.path.dirname(final))
                self.disk.rename(f"{staging}/{part.staged}", final)
            elif not os.path.lexists(final):
                raise RefusedError(
                    f"commit {manifest.number} names this file, but it is missing; restore it from a backup, or write "
                    "into a new directory: --to DIR",
                    path=final,
                )
            folders.add(os.path.dirname(final))
        self._sync(folders)
        emptied = set()
        for name in manifest.removes:
            if os.path.lexists(f"{self.path}/{name}"):
                self.disk.unlink(f"{self.path}/{name}")
            emptied.add(os.path.dirname(f"{self.path}/{name}"))
        self._sync(filter(os.path.isdir, emptied))  # before `_SUCCESS`, after which no run looks again
        self._succeed(manifest)

    def done(self, manifest: Manifest, state: dict[str, Any]) -> None:
        """Remember the last commit."""
        self.number, self.made_ms, self.state = manifest.number, manifest.made_ms, state

    def forget(self) -> None:
        """Forget the commit that was begun."""
        self._commit = None

    def sweep(self) -> None:
        """Delete the staging directories of runs that ended too early."""
        staging = f"{self.path}/{INNER}/staging"
        for entry in _entries(staging):
            if entry.is_dir(follow_symlinks=False):
                self.remove_tree(entry.path)
            else:
                self.disk.unlink(entry.path)
        self.sweep_states()

    def sweep_states(self) -> None:
        """Delete states that are no longer needed."""
        for name in [entry.name for entry in _entries(f"{self.path}/{INNER}/states")]:
            number = name.removesuffix(".json")
            if number.isdecimal() and not self.number - _STATES_KEPT < int(number) <= self.number:
                self.disk.unlink(f"{self.path}/{INNER}/states/{name}")

    def remove_tree(self, path: str) -> None:
        """Delete a staging directory; if a task adds a file meanwhile, the directory is left for the next run."""
        for entry in _entries(path):
            if entry.is_dir(follow_symlinks=False):
                self.remove_tree(entry.path)
            else:
                self.disk.unlink(entry.path)
        try:
            self.disk.remove_directory(path)
        except WriteError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise

    def make_directories(self, path: str) -> None:
        """Create a directory of the output and its missing parents."""
        if os.path.isdir(path):
            return
        above = os.path.dirname(path)
        self.make_directories(above)
        self.disk.make_directory(path, None)
        self.disk.sync_directory(above)

    def attributes(self) -> Attributes:
        """Return the attributes of new small files: users who may read the directory may read them."""
        status = os.stat(self.path)
        return Attributes(uid=os.geteuid(), gid=_group(status), mode=0o600 | status.st_mode & 0o066)

    def _prepare(self) -> None:
        above = os.path.dirname(self.path)
        if not os.path.isdir(above):
            raise NotFoundError("the directory for the output does not exist; create it", path=above)
        for path in (self.path, f"{self.path}/{INNER}", *(f"{self.path}/{INNER}/{folder}" for folder in _FOLDERS)):
            try:
                self.make_directories(path)
            except WriteError as error:
                if (
                    error.errno != errno.EEXIST
                ):  # another run starts at this moment; the lock decides which one continues
                    raise

    def _take_lock(self) -> None:
        path = f"{self.path}/{INNER}/lock"
        if os.path.realpath(self.path) in _open_outputs:
            raise LockedError(
                "this process already writes into this directory; name another one with --to", path=self.path
            )
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise open_error(path, error) from error
        try:
            fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = file_lock_holder(path)
            os.close(number)
            if error.errno not in _HELD:
                raise AccessError(f"cannot be locked: {(error.strerror or str(error)).lower()}", path=path) from error
            who = holder or "a process that this system does not show, perhaps on another machine"
            raise LockedError(
                f"another run is writing into this directory: {who}; wait for its end and run the same command again",
                path=self.path,
            ) from error
        self._lock = number
        _open_outputs.add(os.path.realpath(self.path))

    def _recover(self) -> None:
        numbers = commit_numbers(self.path)
        if numbers:
            manifest = read_commit(self.path, numbers[-1])
            self.done(manifest, read_state(self.path, manifest))
            if settled_number(self.path) != manifest.number:
                self.settle(manifest)
        self.sweep()

    def _sync(self, folders: Iterable[str]) -> None:
        """Fsync some directories."""
        for folder in sorted(folders):
            self.disk.sync_directory(folder)

    def _succeed(self, manifest: Manifest) -> None:
        """Write `_SUCCESS` atomically."""
        temporary = f"{self.path}/{INNER}/staging/success-{manifest.number}"
        if os.path.lexists(temporary):
            self.disk.unlink(temporary)
        self.write(temporary, json.dumps({"commit": manifest.number}).encode())
        self.disk.rename(temporary, f"{self.path}/{SUCCESS}")
        self.disk.sync_directory(self.path)

    def write(self, path: str, data: bytes) -> None:
        """Write a small file and fsync it."""
        self.disk.write_file(path, (data,), self.attributes(), None)


class Commit:
    """The commits of one run: files that the next `commit` adds and removes together; a run may commit several times.

    `staging` is the directory into which the run's tasks write, for all its commits.
    """

    def __init__(self, output: Output, run_id: str, staging: str) -> None:
        self.staging = staging
        self._output = output
        self._run_id = run_id
        self._adds: list[Part] = []
        self._removes: dict[str, None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether a commit would add and remove no file."""
        return not self._adds and not self._removes

    def add(self, part: Part) -> None:
        """Add a staged file to the next commit. Raises ValueError for a name outside the output."""
        names = part.name.split("/")
        is_ours = names[0] == SUCCESS or (names[0] == INNER and names[1:2] != ["findings"])
        if is_ours or any(name in {"", ".", ".."} for name in names) or "/" in part.staged:
            raise ValueError(f"not a valid name of an output's file: {part.name!r}, staged as {part.staged!r}")
        self._adds.append(part)

    def remove(self, name: str) -> None:
        """Remove a file of an earlier commit with the next commit."""
        self._removes[name] = None

    def commit(self, state: dict[str, Any], *, now_ms: int, facts: Mapping[str, Any] | None = None) -> int:
        """Commit, and return the number of the commit. Readers see no change before its one rename.

        Raises StorageError if nothing is committed, UnfinishedError if the commit is complete but not all its files are
        in place: the next run puts them there first.
        """
        output, number = self._output, self._output.number + 1
        self._check_staged()
        data = json.dumps(state).encode()
        manifest = Manifest(
            kind=output.kind,
            number=number,
            run=self._run_id,
            made_ms=now_ms,
            adds=tuple(self._adds),
            removes=tuple(self._removes),
            state_sha256=hashlib.sha256(data).hexdigest(),
            facts=facts or {},
        )
        self._prepare(manifest, data)
        output.disk.rename(f"{self.staging}/commit.json", commit_path(output.path, number))
        try:
            output.disk.sync_directory(f"{output.path}/{INNER}/commits")
            output.settle(manifest)
        except StorageError as error:
            raise UnfinishedError(
                f"commit {number} is complete, but not all its files are in place: {error}; no record is lost; run the "
                "same command again to finish it",
                path=output.path,
            ) from error
        output.done(manifest, json.loads(data))
        self._adds.clear()
        self._removes.clear()
        return number

    def close(self) -> None:
        """Abandon what was not committed; what cannot be deleted now is deleted by the next run."""
        output = self._output
        output.forget()
        if os.path.lexists(commit_path(output.path, output.number + 1)):
            return  # stopped right after the rename: the commit is complete, and the next run puts its files in place
        with suppress(StorageError):
            output.remove_tree(self.staging)
            output.sweep_states()
        with suppress(StorageError):
            if output.number and settled_number(output.path) != output.number:
                output.settle(read_commit(output.path, output.number))

    def _prepare(self, manifest: Manifest, state: bytes) -> None:
        """Write directories and small files: everything that may fail on a full disk."""
        output = self._output
        for folder in sorted({os.path.dirname(part.name) for part in self._adds}):
            output.make_directories(os.path.join(output.path, folder))
        output.disk.sync_directory(self.staging)
        output.write(f"{self.staging}/state.json", state)
        output.disk.rename(f"{self.staging}/state.json", state_path(output.path, manifest.number))
        output.disk.sync_directory(f"{output.path}/{INNER}/states")
        output.write(f"{self.staging}/commit.json", manifest.to_bytes())
        output.disk.sync_directory(self.staging)
        if os.path.lexists(f"{output.path}/{SUCCESS}"):
            output.disk.unlink(f"{output.path}/{SUCCESS}")

    def _check_staged(self) -> None:
        for part in self._adds:
            path = f"{self.staging}/{part.staged}"
            try:
                size_bytes = os.stat(path).st_size
            except OSError as error:
                raise open_error(path, error) from error
            if size_bytes != part.size_bytes:
                raise AccessError(
                    f"the task wrote {part.size_bytes} bytes into this file, but here it has {size_bytes} bytes; make "
                    "sure that all machines see the same directory under this name",
                    path=path,
                )


# --- readers ----------------------------------------------------------------------------------------------------------
def roll_forward(path: str, kind: str | None = None) -> Manifest:
    """Return the last commit, after putting all its files in place.

    Raises NotFoundError, RefusedError, LockedError, WriteError.
    """
    manifest = read_manifest(path)
    if kind is not None and manifest.kind != kind:
        raise RefusedError(
            f"this directory holds the output of another job, {manifest.kind}, not {kind}; name another --to",
            path=path,
        )
    if settled_number(path) != manifest.number:
        with Output.open(path, manifest.kind):
            return read_manifest(path)
    return manifest


# --- files ------------------------------------------------------------------------------------------------------------
def _group(status: os.stat_result) -> int:
    return status.st_gid if status.st_mode & 0o2000 else os.getegid()


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            yield from list(entries)
    except OSError as error:
        raise open_error(path, error) from error
