"""Worker processes of the standard library: each does one task after another, and results come in the order of tasks.

They ignore Ctrl-C: the process that has started them stops them, and they end within one window of a file. If that
process dies, they end too.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection, resource_tracker
from threading import Thread
from traceback import format_exc
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from kafkalog_core.errors import KafkalogError, WorkerLostError
from kafkalog_core.storage.object_paths import REACHING
from kafkalog_core.storage.source import READING
from kafkalog_core.structs import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.context import BaseContext
    from multiprocessing.sharedctypes import Synchronized
    from types import TracebackType

    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.object_paths import StorageOptions
    from kafkalog_core.storage.source import ReadLimit

__all__ = ["Pool", "StopWorkError"]

START_METHOD: Final = "forkserver" if sys.platform == "linux" else "spawn"
"""Not fork: the process has threads of its own, for progress and for waiting, and descriptors of locks."""
_MOST_TEMP_BYTES: Final = 70
"""Of TMPDIR: the server listens on a socket 32 bytes below it, and the address of a socket has 107 (sun_path)."""
_LOOK_S: Final = 0.2
_SHORT_S: Final = 0.005
_MOST_TEXT: Final = 200

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3
_MAPPED_BYTES: Final = 32 * 1024 * 1024
_HELD_BYTES: Final = 64 * 1024 * 1024

_Result = TypeVar("_Result")


class StopWorkError(Exception):
    """The caller no longer waits for the work."""


class Pool:
    """At most `jobs` processes, as a context manager. `progress` receives the bytes that they read.

    `scratch` is a directory for temporary files, which is deleted with the pool.
    """

    def __init__(self, jobs: int, progress: Progress) -> None:
        """Prepare the processes; they start with the first tasks. Raises WorkerLostError."""
        self.jobs = jobs
        self._progress = progress
        self._counted_bytes = 0
        self._is_counting = True
        try:
            self._directory = tempfile.TemporaryDirectory(prefix="kafkalog-workers-", ignore_cleanup_errors=True)
        except OSError as error:
            raise _not_started(error) from error
        self.scratch = self._directory.name
        self._context = _context()
        self._shared = _Shared(self._context.Value("q", 0), self._context.Value("b", 0, lock=False))
        with _sigint_blocked():
            resource_tracker.ensure_running()
        self._executor = ProcessPoolExecutor(
            jobs, self._context, initializer=_begin, initargs=(self._shared, _settings_of(jobs), self.scratch)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shared.stop.value = kind is not None
        self._executor.shutdown(cancel_futures=True)
        self._directory.cleanup()

    def map(
        self,
        work_of: Callable[..., _Result],
        tasks: Iterable[tuple[Any, ...]],
        meanwhile: Callable[[], object] | None = None,
    ) -> Iterator[_Result]:
        """See `pool.Workers`. meanwhile: called again and again while the first of the results has not come."""
        waiting: deque[Future[tuple[bool, Any]]] = deque()
        source = iter(tasks)
        while True:
            while len(waiting) <= self.jobs:  # as many as there are processes, and the next one
                task = next(source, None)
                if task is None:
                    break
                waiting.append(self._submit(work_of, task))
            if not waiting:
                return
            first = waiting.popleft()
            try:
                result = self._result(first, meanwhile)
            except KeyboardInterrupt:
                if meanwhile is not None:  # what it has done by now was passed on: the rest of it, too
                    self._is_counting = False
                    yield self._result(first, meanwhile)
                raise
            yield result

    def _submit(self, work_of: Callable[..., _Result], task: tuple[Any, ...]) -> Future[tuple[bool, Any]]:
        if START_METHOD == "forkserver":
            self._context.set_forkserver_preload([work_of.__module__])
        try:
            with _sigint_blocked():  # for the processes, and the server, that are started here
                return self._executor.submit(_run, work_of, task)
        except BrokenProcessPool as error:
            raise _lost() from error
        except (OSError, EOFError, RuntimeError) as error:  # EOFError: of a server that has ended; no more threads
            raise _not_started(error) from error

    def _result(self, future: Future[tuple[bool, Any]], meanwhile: Callable[[], object] | None) -> Any:
        while not future.done():
            wait([future], _LOOK_S if meanwhile is None else _SHORT_S)
            self._count()
            if meanwhile is not None:
                meanwhile()
        try:
            is_good, result = future.result()
        except BrokenProcessPool as error:
            raise _lost() from error
        self._count()
        if is_good:
            return result
        raise result

    def _count(self) -> None:
        if not self._is_counting:
            return
        read_bytes = self._shared.read_bytes.value
        counted_bytes, self._counted_bytes = self._counted_bytes, read_bytes
        self._progress.advance(read_bytes - counted_bytes)


def _context() -> BaseContext:
    method = START_METHOD
    if method == "forkserver" and len(os.fsencode(tempfile.gettempdir())) > _MOST_TEMP_BYTES:
        method = "spawn"
    return multiprocessing.get_context(method)


def _lost() -> WorkerLostError:
    return WorkerLostError(
        "a worker process was killed, perhaps by the out-of-memory killer; --jobs 1 needs the least memory"
    )


def _not_started(error: Exception) -> WorkerLostError:
    return WorkerLostError(f"no worker process could be started: {error}; --jobs 1 needs none")


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT for this thread, and so for the processes that it starts.

    To block it may raise the KeyboardInterrupt of one that has come before: it is blocked then, too.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in a worker process ----------------------------------------------------------------------------------------------
class _Shared(NamedTuple):
    """What the processes share with the one that has started them: the bytes that were read, and whether they stop."""

    read_bytes: Synchronized[int]
    stop: Any

    def advance(self, size_bytes: int) -> None:
        """Count bytes that were read. Raises StopWorkError if nobody waits for the work any more."""
        if self.stop.value:
            raise StopWorkError
        if size_bytes:
            with self.read_bytes.get_lock():
                self.read_bytes.value += size_bytes


class _Here:
    """What this process has of its pool, where it is one of a pool."""

    shared: ClassVar[_Shared]


class _Settings(NamedTuple):
    """What a process has set for itself: how it reads, also an object store, and when Python looks for cycles."""

    keeps_cache: bool
    limit: ReadLimit | None
    storage: StorageOptions
    gc_threshold: tuple[int, int, int]


def _settings_of(jobs: int) -> _Settings:
    """Return the settings of each of some processes: they share what this one may read in a second."""
    limit = None if READING.limit is None else READING.limit.share(jobs)
    return _Settings(READING.keeps_cache, limit, REACHING.options, gc.get_threshold())


def _begin(shared: _Shared, settings: _Settings, scratch: str) -> None:
    """Begin a process of the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(*settings.gc_threshold)
    READING.keeps_cache, READING.limit, REACHING.options = settings.keeps_cache, settings.limit, settings.storage
    _Here.shared, REACHING.check = shared, partial(shared.advance, 0)
    _keep_memory()
    with suppress(RuntimeError):  # a limit of threads: then it ends when it asks for another task
        Thread(target=_end_with_parent, args=(scratch,), daemon=True).start()


def _run(work_of: Callable[..., Any], task: tuple[Any, ...]) -> tuple[bool, Any]:
    """Do a task, and return whether it was done, and its result or its error.

    An error that cannot be pickled both ways would end the pool: its text is returned.
    """
    try:
        return True, work_of(*task, _Here.shared.advance)
    except BaseException as error:  # noqa: BLE001 -- it is raised where the result is waited for
        failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
        if not isinstance(error, KafkalogError | StopWorkError):
            failure.add_note(format_exc())  # which does not go with it
        try:
            pickle.loads(pickle.dumps(failure))  # noqa: S301 -- made a moment ago
        except Exception:  # noqa: BLE001 -- of any class
            failure = RuntimeError(f"{type(error).__name__}: {str(error)[:_MOST_TEXT]}")
        return False, failure


def _keep_memory() -> None:
    """Let malloc keep freed memory: each task needs as much, and getting it takes as long as half of the work.

    mallopt is of the GNU C library; elsewhere nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _HELD_BYTES)


def _end_with_parent(scratch: str) -> None:
    """Wait until the process that has started this one is dead, then delete its temporary files and end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(1)
