"""Processes that do pieces of work, one after another each: results in the order in which the work was given.

Workers leave Ctrl-C to the process that waits for them; it tells them to stop, and they do within one window of a file.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kafkalog_core.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.sharedctypes import Synchronized
    from types import TracebackType

    from kafkalog_core.ops.progress import Progress

__all__ = ["Pool", "WorkerLostError"]

_LOOK_SECONDS: Final = 0.2
_AHEAD: Final = 4
"""Pieces of work that wait for each process: enough to keep it busy, few enough that results do not pile up."""

_Result = TypeVar("_Result")


class WorkerLostError(KafkalogError):
    """A process ended in the middle of its work."""


class _StopWorkError(Exception):
    """Whoever waited for the work does so no longer."""


class Pool:
    """`jobs` processes; to be entered. What they read is told to `progress`."""

    def __init__(self, jobs: int, progress: Progress) -> None:
        self._jobs = jobs
        self._progress = progress
        self._told_bytes = 0
        context = multiprocessing.get_context("forkserver")
        self._read_bytes: Synchronized[int] = context.Value("q", 0)
        self._stop: Synchronized[int] = context.Value("b", 0)
        self._executor = ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_start_worker, initargs=(self._read_bytes, self._stop)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop.value = 1
        self._executor.shutdown(wait=True, cancel_futures=True)

    def map(self, work_of: Callable[..., _Result], pieces: Iterable[tuple[Any, ...]]) -> Iterator[_Result]:
        """The results of `work_of(*piece, advance)` in the order of `pieces`, which are taken as there is room.

        Several maps may be at work at the same time. Raises WorkerLostError.
        """
        waiting: deque[Future[_Result]] = deque()
        source = iter(pieces)
        while True:
            while len(waiting) < self._jobs * _AHEAD:
                piece = next(source, None)
                if piece is None:
                    break
                waiting.append(self._executor.submit(_work, work_of, piece))
            if not waiting:
                return
            yield self._result(waiting.popleft())

    def _result(self, future: Future[_Result]) -> _Result:
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except NotYetError:
                continue
            except BrokenProcessPool as error:
                raise WorkerLostError(
                    "a process was killed, perhaps for want of memory; --jobs 1 needs least"
                ) from error
            finally:
                read_bytes = self._read_bytes.value
                self._progress.advance(read_bytes - self._told_bytes)
                self._told_bytes = read_bytes


_state: dict[str, Any] = {}


def _start_worker(read_bytes: Synchronized[int], stop: Synchronized[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _state.update(read_bytes=read_bytes, stop=stop)


def _work(work_of: Callable[..., _Result], piece: tuple[Any, ...]) -> _Result:
    return work_of(*piece, _advance)


def _advance(size_bytes: int) -> None:
    if _state["stop"].value:
        raise _StopWorkError
    with _state["read_bytes"].get_lock():
        _state["read_bytes"].value += size_bytes
