"""Worker processes of the standard library: each does one task after another, and results come in the order of tasks.

They ignore Ctrl-C: the process that has started them stops them, and they end within one window of a file. If that
process dies, they end too.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from multiprocessing import connection, resource_tracker
from threading import Thread, active_count
from traceback import format_exc
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeVar

from kafkalog_core.engine.spool import (
    HeldBytes,
    SpoolFiles,
    SpoolReader,
    SpoolWriter,
    outputs_in_memory,
    shortage,
    temporary_directory,
)
from kafkalog_core.errors import KafkalogError, WorkerLostError
from kafkalog_core.storage.object_paths import REACHING
from kafkalog_core.storage.reading import READING, PlannedPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.context import BaseContext
    from multiprocessing.sharedctypes import Synchronized
    from types import TracebackType

    from kafkalog_core.engine.spool import TaskOutput
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.object_paths import StorageOptions
    from kafkalog_core.storage.reading import ReadLimit

__all__ = ["Pool", "StopWorkError"]

START_METHOD: Final = "forkserver" if sys.platform == "linux" else "spawn"
_CAN_FORK: Final = sys.platform == "linux"
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
_Begun = TypeVar("_Begun")


class StopWorkError(Exception):
    """The caller no longer waits for the work."""


class Pool:
    """At most `jobs` processes, as a context manager. `progress` receives the bytes that they read."""

    def __init__(self, jobs: int, progress: Progress, *, may_fork: bool = False) -> None:
        """Prepare the processes; they start with the first tasks. Raises WorkerLostError.

        may_fork: whether they may get all descriptors of this process, such as those of locks. They start in a tenth of
        the time then, because they import nothing again.
        """
        self.jobs = jobs
        self._progress = progress
        self._counted_bytes = 0
        self._directory = temporary_directory("kafkalog-workers-")
        self._scratch = None if self._directory is None else self._directory.name
        self._numbers = itertools.count()
        self._is_counting = True
        self._context = _context(self._scratch, may_fork=may_fork)
        self._children = _keep_exit_statuses()
        try:
            self._shared = _Shared(self._context.Value("q", 0), self._context.Value("b", 0, lock=False))
            # Ctrl-C goes to the whole process group; the children inherit the blocked signal, and the caller ends them.
            with _sigint_blocked():
                # A process of its own, which would wait for a processor that a worker needs. Copies need none: their
                # semaphores have no names.
                if self._context.get_start_method() != "fork":
                    resource_tracker.ensure_running()
            self._executor = ProcessPoolExecutor(
                jobs, self._context, initializer=_begin, initargs=(self._shared, _settings_of(jobs), self._scratch)
            )
        except OSError as error:
            self._clean_up()
            raise _not_started(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shared.stop.value = True  # Results of unfinished tasks are no longer wanted.
        try:
            # Nothing is cancelled by force: a task ends at its next report of bytes.
            self._executor.shutdown(cancel_futures=True)
        except RuntimeError:  # its thread could not be started, so there is nothing to wait for
            pass
        finally:
            self._clean_up()

    @cached_property
    def shortage(self) -> str | None:
        """Why there is no room for large outputs, as a clause; None: there is. It is found out once."""
        return shortage(self._scratch, self.jobs)

    def map(self, work_of: Callable[..., _Result], tasks: Iterable[tuple[Any, ...]]) -> Iterator[_Result]:
        """Yield the results of `work_of(*task, advance)`; see `pool.Workers`."""
        for future in self._in_order(partial(self._submit, work_of), tasks):
            yield self.done(future).result()

    def outputs(self, work_of: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[TaskOutput]:
        """Yield the output of `work_of(*task, stream, advance)` for each task, in their order; they are read lazily.

        Read each output before the next one is requested. Its data come while the task is at work.
        """
        # No room for temporary files: outputs are kept in memory instead.
        if self._scratch is None or self.shortage is not None:
            yield from outputs_in_memory(self.map, work_of, tasks)
            return
        yield from self._in_order(partial(self._submit_output, self._scratch, work_of), tasks)

    def stop_counting(self) -> None:
        """Report no more progress: the listener has raised an error, and would raise it again."""
        self._is_counting = False

    def wait(self, future: Future[_Done], seconds: float) -> None:
        """Wait for a task, but no longer than that, and count what was read. Raises what the progress raises."""
        wait([future], seconds)
        self._count()

    def done(self, future: Future[_Done]) -> _Done:
        """Return a task's result as soon as it has ended. Raises WorkerLostError, and what the progress raises."""
        while not future.done():
            # In steps: the progress may raise an error of its own, such as Ctrl-C.
            self.wait(future, _LOOK_S)
        self._count()
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise _lost() from error

    def _in_order(
        self, submit: Callable[[tuple[Any, ...]], _Begun], tasks: Iterable[tuple[Any, ...]]
    ) -> Iterator[_Begun]:
        """Yield the tasks that were started, in order: one more at a time than there are processes."""
        waiting: deque[_Begun] = deque()
        source = iter(tasks)
        while True:
            # One more than there are processes, so that none waits for the caller; more would fill the spool.
            for task in itertools.islice(source, self.jobs + 1 - len(waiting)):
                waiting.append(submit(task))
            if not waiting:
                return
            yield waiting.popleft()

    def _submit(
        self, work_of: Callable[..., Any], task: tuple[Any, ...], place: tuple[str, int] | None = None
    ) -> Future[_Done]:
        if self._context.get_start_method() == "forkserver":
            # The server imports the module of the work once, and each process inherits it.
            self._context.set_forkserver_preload([work_of.__module__])
        try:
            with _sigint_blocked():  # for the processes, and the server, that are started here
                return self._executor.submit(_run, work_of, task, place)
        except BrokenProcessPool as error:
            raise _lost() from error
        # EOFError: of a server that has ended; RuntimeError: no more threads
        except (OSError, EOFError, RuntimeError) as error:
            raise _not_started(error) from error

    def _submit_output(self, scratch: str, work_of: Callable[..., Any], task: tuple[Any, ...]) -> _PoolOutput:
        place = scratch, next(self._numbers)
        return _PoolOutput(self, self._submit(work_of, task, place), SpoolReader(*place))

    def _count(self) -> None:
        if not self._is_counting:
            return
        read_bytes = self._shared.read_bytes.value
        counted_bytes, self._counted_bytes = self._counted_bytes, read_bytes
        self._progress.advance(read_bytes - counted_bytes)

    def _clean_up(self) -> None:
        if self._children is not None:
            signal.signal(signal.SIGCHLD, self._children)
        if self._directory is not None:
            self._directory.cleanup()


class _PoolOutput:
    """The output of a task of a pool. If the progress ends `data`, call it again for the rest."""

    def __init__(self, pool: Pool, future: Future[_Done], files: SpoolReader) -> None:
        self._pool = pool
        self._future = future
        self._files = files
        self._is_read = False

    def data(self) -> Iterator[bytes | memoryview]:
        """See `TaskOutput`."""
        while not self._is_read:
            # Before the look: what is written after it is looked at again
            is_done = self._future.done()
            yield from self._files.files()
            if not is_done:
                self._pool.wait(self._future, _SHORT_S)
                continue
            self._is_read = True
            if self._future.exception() is None:
                yield from self._future.result().kept.data()

    def result(self) -> Any:
        """See `TaskOutput`."""
        return self._pool.done(self._future).result()


def _context(scratch: str | None, *, may_fork: bool) -> BaseContext:
    # A copy of a process with threads may wait without end for a lock that one of them held: threads of progress, say.
    method = "fork" if may_fork and _CAN_FORK and active_count() == 1 else START_METHOD
    # The path of the server's socket would be longer than the system allows.
    if method == "forkserver" and (scratch is None or len(os.fsencode(os.path.dirname(scratch))) > _MOST_TEMP_BYTES):
        method = "spawn"
    return multiprocessing.get_context(method)


def _keep_exit_statuses() -> signal.Handlers | None:
    """Let the system keep the exit status of children, and return how to undo that; None: it does.

    A supervisor may start it with SIGCHLD ignored. The system then keeps no exit status of a child, and the executor
    would wait for one without end.
    """
    if signal.getsignal(signal.SIGCHLD) is not signal.SIG_IGN:
        return None
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    except ValueError:  # not the main thread
        return None
    return signal.SIG_IGN


def _lost() -> WorkerLostError:
    return WorkerLostError(
        "a worker process was killed, perhaps by the out-of-memory killer; --jobs 1 needs the least memory"
    )


def _not_started(error: Exception) -> WorkerLostError:
    return WorkerLostError(f"no worker process could be started: {error}; --jobs 1 needs none")


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT for this thread, and so for the processes that it starts.

    Blocking may raise the KeyboardInterrupt of an earlier SIGINT. SIGINT is blocked then, too.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in a worker process ----------------------------------------------------------------------------------------------
class _Shared(NamedTuple):
    """What the workers share with their parent process: the bytes that were read, and whether to stop."""

    read_bytes: Synchronized[int]
    stop: Any

    def advance(self, size_bytes: int) -> None:
        """Count bytes that were read. Raises StopWorkError if the caller no longer waits for the work."""
        # The one point at which a task can be stopped: every reader calls it.
        if self.stop.value:
            raise StopWorkError
        if size_bytes:
            # The value is shared by all processes, and `+=` is two steps.
            with self.read_bytes.get_lock():
                self.read_bytes.value += size_bytes


class _WorkerState:
    """This worker's shared values and spool files."""

    shared: ClassVar[_Shared]
    spool_files: ClassVar[SpoolFiles | None] = None


class _Settings(NamedTuple):
    """Settings of a process: how it reads files and object stores, and when Python looks for cycles."""

    keeps_cache: bool
    limit: ReadLimit | None
    storage: StorageOptions
    gc_threshold: tuple[int, int, int]
    planned: PlannedPaths


def _settings_of(jobs: int) -> _Settings:
    """Return the settings of each process. The processes share the read limit of this one."""
    limit = None if READING.limit is None else READING.limit.share(jobs)
    return _Settings(READING.keeps_cache, limit, REACHING.options, gc.get_threshold(), PlannedPaths(READING.planned))


def _begin(shared: _Shared, settings: _Settings, scratch: str | None) -> None:
    """Begin a process of the pool."""
    # Ctrl-C reaches the parent, which stops the work in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # As in the parent, where the command has set it.
    gc.set_threshold(*settings.gc_threshold)
    READING.keeps_cache, READING.limit, REACHING.options = settings.keeps_cache, settings.limit, settings.storage
    READING.planned = settings.planned
    _WorkerState.shared, REACHING.check = shared, partial(shared.advance, 0)
    _keep_memory()
    # A limit of threads: then it ends when it asks for another task
    with suppress(RuntimeError):
        Thread(target=_end_with_parent, args=(scratch,), daemon=True).start()


class _Done(NamedTuple):
    """The end of a task: its result or its error, and the last bytes that it has written."""

    value: Any = None
    error: Exception | None = None
    kept: HeldBytes = HeldBytes()

    def result(self) -> Any:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def _run(work_of: Callable[..., Any], task: tuple[Any, ...], place: tuple[str, int] | None) -> _Done:
    """Do a task. place: of its spool, directory and number; None: it has none."""
    advance = _WorkerState.shared.advance
    stream = None if place is None else SpoolWriter(*place, _spool_files(place[0]), partial(advance, 0))
    given = task if stream is None else (*task, stream)
    try:
        done = _Done(work_of(*given, advance))
    except BaseException as error:  # noqa: BLE001 -- it is raised where the result is waited for
        done = _Done(error=_sendable(error))
    return done if stream is None else done._replace(kept=stream.kept())


def _spool_files(scratch: str) -> SpoolFiles:
    if _WorkerState.spool_files is None:
        _WorkerState.spool_files = SpoolFiles(scratch)
    return _WorkerState.spool_files


def _sendable(error: BaseException) -> Exception:
    """Return an error that can be pickled and unpickled. Any other error would end the pool."""
    failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
    if not isinstance(error, KafkalogError | StopWorkError):
        # An unexpected error loses its traceback on the way: its text is added as a note.
        failure.add_note(format_exc())
    try:
        # Both ways: some errors can be pickled and not unpickled, and that would break the whole pool.
        pickle.loads(pickle.dumps(failure))  # noqa: S301 -- made a moment ago
    except Exception:  # noqa: BLE001 -- of any class
        return RuntimeError(f"{type(error).__name__}: {str(error)[:_MOST_TEXT]}")
    return failure


def _keep_memory() -> None:
    """Let malloc keep freed memory. Each task needs as much, and allocating it again takes half as long as the work.

    mallopt is a function of the GNU C library; elsewhere nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    # Above this size malloc maps memory of its own and gives it back at once; windows of 1 MiB are below it.
    mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _HELD_BYTES)


def _end_with_parent(scratch: str | None) -> None:
    """Wait until the process that has started this one is dead, then delete its temporary files and end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        # The sentinel is readable when the parent ends, also by SIGKILL.
        connection.wait([parent.sentinel])
        if scratch is not None:
            # Renamed first: of several processes one deletes the files.
            ended = f"{scratch}-ended"
            with suppress(OSError):  # another process was first
                os.rename(scratch, ended)  # after that, no task adds a file
            shutil.rmtree(ended, ignore_errors=True)
        os._exit(1)
