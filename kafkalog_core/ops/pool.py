"""Worker processes: each does one piece of work after another, and results come in the order of the pieces.

Workers ignore Ctrl-C: the process that waits for them stops them, and they end within one window of a file. If that
process dies, they end too.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from concurrent.futures.process import BrokenProcessPool
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from kafkalog_core.errors import WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.sharedctypes import Synchronized
    from types import TracebackType

    from kafkalog_core.progress import Progress

__all__ = ["Pool", "Workers", "run_all", "wants_processes"]

START_METHOD: Final = "forkserver" if sys.platform == "linux" else "spawn"
"""Not fork: the process has threads of its own, for progress and for waiting."""
_MOST_TEMP_BYTES: Final = 70
"""Of TMPDIR: the server listens on a socket 32 bytes below it, and the address of a socket has 107 (sun_path)."""
_WORK_MODULE: Final = "kafkalog_core.ops.verify.work"
_LOOK_SECONDS: Final = 0.2
_AHEAD: Final = 4
"""Pieces of work that wait for each process: enough to keep it busy, so few that results do not pile up."""

_Result = TypeVar("_Result")


class _StopWorkError(Exception):
    """The caller no longer waits for the work."""


class Workers(Protocol):
    """Workers that do pieces of work in parallel: processes on this machine, or on others."""

    @property
    def jobs(self) -> int:
        """Number of pieces that are worked on at the same time."""

    @property
    def scratch(self) -> str | None:
        """A directory for temporary files that all workers share; None: there is none, results contain everything."""

    def map(self, work_of: Callable[..., _Result], pieces: Iterable[tuple[Any, ...]]) -> Iterator[_Result]:
        """Return the results of `work_of(*piece, advance)` in the order of `pieces`, which are read lazily.

        Several maps may run at the same time. Raises WorkerLostError, and the errors of this project that `work_of`
        raises.
        """


class Pool:
    """At most `jobs` processes, as a context manager. `progress` receives the bytes that they read.

    `scratch` is a directory for temporary files, which is deleted with the pool.
    """

    def __init__(self, jobs: int, progress: Progress) -> None:
        self.jobs = jobs
        self._progress = progress
        self._counted_bytes = 0
        self._directory = tempfile.TemporaryDirectory(prefix="kafkalog-workers-")
        self.scratch = self._directory.name
        method = START_METHOD if len(os.fsencode(tempfile.gettempdir())) <= _MOST_TEMP_BYTES else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            _start_server(context)
        self._read_bytes: Synchronized[int] = context.Value("q", 0)
        self._stop: Synchronized[int] = context.Value("b", 0)
        self._executor = ProcessPoolExecutor(
            jobs,
            mp_context=context,
            initializer=_start_worker,
            initargs=(self._read_bytes, self._stop, self.scratch),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop.value = 1
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._directory.cleanup()

    def map(self, work_of: Callable[..., _Result], pieces: Iterable[tuple[Any, ...]]) -> Iterator[_Result]:
        """See `Workers`."""
        waiting: deque[Future[_Result]] = deque()
        source = iter(pieces)
        while True:
            while len(waiting) < self.jobs * _AHEAD:
                piece = next(source, None)
                if piece is None:
                    break
                waiting.append(self._submit(work_of, piece))
            if not waiting:
                return
            yield self._result(waiting.popleft())

    def _submit(self, work_of: Callable[..., _Result], piece: tuple[Any, ...]) -> Future[_Result]:
        try:
            return self._executor.submit(_work, work_of, piece)
        except BrokenProcessPool as error:
            raise _lost() from error

    def _result(self, future: Future[_Result]) -> _Result:
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except NotYetError:
                continue
            except BrokenProcessPool as error:
                raise _lost() from error
            finally:
                read_bytes = self._read_bytes.value
                self._progress.advance(read_bytes - self._counted_bytes)
                self._counted_bytes = read_bytes


_SHARED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of log that one process reads in the time that other processes need to start."""


def wants_processes(jobs: int, pieces: int, size_bytes: int) -> bool:
    """Return whether several processes do this work sooner than one: more than one piece, and enough bytes to read."""
    return min(jobs, pieces) > 1 and size_bytes >= _SHARED_BYTES


def run_all(
    work_of: Callable[..., _Result], pieces: Sequence[tuple[Any, ...]], jobs: int, size_bytes: int, progress: Progress
) -> Iterator[_Result]:
    """Yield `work_of(*piece, advance)` for each piece in order, in this process or, if that is faster, in several.

    Args:
        work_of: a function of a module; it calls its last argument with the bytes that it has read.
        pieces: arguments of each call, picklable.
        jobs: the most processes.
        size_bytes: bytes that all pieces read together.
        progress: is shown the bytes that are read.

    Raises WorkerLostError, and what `work_of` raises.
    """
    if not wants_processes(jobs, len(pieces), size_bytes):
        yield from (work_of(*piece, progress.advance) for piece in pieces)
        return
    with Pool(min(jobs, len(pieces)), progress) as pool:
        yield from pool.map(work_of, pieces)


def _lost() -> WorkerLostError:
    return WorkerLostError(
        "a worker process was killed, perhaps by the out-of-memory killer; --jobs 1 needs the least memory"
    )


def _start_server(context: multiprocessing.context.BaseContext) -> None:
    """Start the fork server with SIGINT blocked, so that neither it nor its processes receive one."""
    from multiprocessing import forkserver, resource_tracker  # noqa: PLC0415 -- only where there is one

    context.set_forkserver_preload([_WORK_MODULE])
    resource_tracker.ensure_running()  # unblocks SIGINT when it has started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in the other processes -------------------------------------------------------------------------------------------
_state: dict[str, Any] = {}


def _start_worker(read_bytes: Synchronized[int], stop: Synchronized[int], scratch: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _state.update(read_bytes=read_bytes, stop=stop)
    Thread(target=_end_with_parent, args=(scratch,), daemon=True).start()


def _end_with_parent(scratch: str) -> None:
    """Wait until the parent process is dead, then delete its temporary files and end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(1)


def _work(work_of: Callable[..., _Result], piece: tuple[Any, ...]) -> _Result:
    return work_of(*piece, _advance)


def _advance(size_bytes: int) -> None:
    if _state["stop"].value:
        raise _StopWorkError
    with _state["read_bytes"].get_lock():
        _state["read_bytes"].value += size_bytes
