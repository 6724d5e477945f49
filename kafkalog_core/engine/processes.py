"""Worker processes: each does one piece of work after another, and results come in the order of the pieces.

Pieces and results go through pipes, which this process looks at while it waits for a result: it needs no thread, and a
process is there a few milliseconds after it was asked for. This process stops the workers, and they end within one
window of a file; what they do is in `worker`.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import signal
import sys
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from mmap import mmap
from threading import Event, Thread, active_count
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kafkalog_core.engine.turns import AFTER_RANGES, AT_ONCE, SharedCells, StopWorkError, Token, Turns, WorkerPlace
from kafkalog_core.engine.worker import (
    LENGTH_BYTES,
    NO_OUTPUT,
    WorkerSettings,
    run_to_the_end,
    serve,
    serve_started,
    settings_of,
)
from kafkalog_core.errors import KafkalogError, WorkerLostError
from kafkalog_core.storage.source import READING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.process import BaseProcess
    from types import TracebackType

    from kafkalog_core.progress import Progress

__all__ = ["Pool"]

START_METHOD: Final = "forkserver" if sys.platform == "linux" else "spawn"
"""Not fork: the process has threads of its own, for progress and for waiting, and descriptors of locks."""
_CAN_FORK: Final = sys.platform == "linux"
"""Where none of that is so: the processes are there at once, with all that this one has imported."""
_MOST_TEMP_BYTES: Final = 70
"""Of TMPDIR: the server listens on a socket 32 bytes below it, and the address of a socket has 107 (sun_path)."""
_WORK_MODULE: Final = "kafkalog_core.ops.verify.work"
_LOOK_SECONDS: Final = 0.2
_PATIENCE_S: Final = 2.0
_PAUSE: Final = Event()
_PAUSE_S: Final = 0.002
_AHEAD: Final = 4
"""Pieces of work that wait for each process: enough to keep it busy, so few that results do not pile up."""
_SENT: Final = 2
"""Of those, how many it has: the one that it works on, and the next one. Pieces that have turns must be begun in their
order, so it has one of them: the next one could be begun by another process."""
_PIPE_BYTES: Final = 1 << 16
_RESULT_BYTES: Final = 1 << 20

_Result = TypeVar("_Result")


class _LostError(Exception):
    """A process has ended before its work."""


class Pool:
    """At most `jobs` processes, as a context manager. `progress` receives the bytes that they read.

    `scratch` is a directory for temporary files, which is deleted with the pool; None: the processes are copies of this
    one. `output` is a file descriptor that the work may write to, in `turns`. `own_limit` is what this process may read
    meanwhile, if it has given an output. `cells` are what all of them share. After a KeyboardInterrupt `is_stopping`,
    and results still come of what was read and written by then.
    """

    def __init__(self, jobs: int, progress: Progress, *, output: int | None = None, may_fork: bool = False) -> None:
        """Prepare the processes. Raises WorkerLostError.

        may_fork: whether they may get all descriptors of this one, such as those of locks.
        """
        self.jobs = self._most = jobs
        self._progress = progress
        self._counted_bytes = 0
        self._has_output = output is not None
        self._sent = 1 if self._has_output else _SENT
        self.is_stopping = False
        is_alone = active_count() == 1 and "pyarrow" not in sys.modules  # whose threads Python does not count
        readers = jobs + (output is not None)  # who shares the output out reads too
        self.own_limit = None if READING.limit is None else READING.limit.share(readers)
        can_fork = may_fork and _CAN_FORK and is_alone
        try:
            self._starter = (_Fork if can_fork else _Start)(jobs, output, settings_of(readers))
        except OSError as error:
            raise _not_started(error) from error
        self.scratch = self._starter.scratch
        self.turns = Turns(self._starter.cells)
        self.cells = self._starter.cells
        self._workers: list[_Worker] = []
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._results: dict[int, tuple[bool, Any]] = {}
        self._number = 0
        self._starting: Thread | None = None
        self._has_started = Event()

    def start(self) -> None:
        """Start the processes; the caller may work meanwhile, until `has_started`."""
        if isinstance(self._starter, _Fork):  # at once, and in this thread, the only one
            self._start()
            return
        self._starting = Thread(target=self._start, daemon=True)
        self._starting.start()

    @property
    def has_started(self) -> bool:
        """Whether the processes are there after `start`, or one has failed, as the next piece of work will."""
        return self._has_started.is_set()

    def _start(self) -> None:
        try:
            while len(self._workers) < self.jobs:
                self._start_one()
        except Exception:  # noqa: BLE001 -- the next piece of work meets it too, and reports it if there is none
            return
        finally:
            self._has_started.set()

    def _start_one(self) -> None:
        """Start a process more. Raises WorkerLostError if the system gives none."""
        ends: list[int] = []
        try:
            ends += os.pipe()
            ends += os.pipe()
            pieces, to_pieces, results, to_results = ends
            _enlarge(results)
            process = self._starter.start(len(self._workers), (pieces, to_results), (to_pieces, results))
        except (OSError, EOFError) as error:  # EOFError: of a fork server that could not fork, and has ended
            for end in ends:
                os.close(end)
            raise _not_started(error) from error
        os.close(pieces)
        os.close(to_results)
        self._workers.append(_Worker(process, to_pieces, results))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.cells.stop = AT_ONCE
        if self._starting is not None:
            self._starting.join()
        for worker in self._workers:
            worker.close()
        if kind is not None and self._has_output:
            for worker in self._workers:  # one that writes to a pipe of which nobody reads sees nothing of a stop
                worker.join(_PATIENCE_S / len(self._workers))
                worker.kill()
        for worker in self._workers:
            worker.end()
        self._starter.close()

    # --- the work -----------------------------------------------------------------------------------------------------
    def stop_at_once(self) -> None:
        """Let no process write any more: the turn of this one has come, and it writes nothing."""
        self.cells.stop = AT_ONCE

    def map(self, work_of: Callable[..., _Result], pieces: Iterable[tuple[Any, ...]]) -> Iterator[_Result]:
        """See `pool.Workers`."""
        waiting: deque[int] = deque()
        source = iter(pieces)
        while True:
            try:
                while len(waiting) < self.jobs * _AHEAD:
                    piece = next(source, None)
                    if piece is None:
                        break
                    waiting.append(self._submit(work_of, piece))
                if not waiting:
                    return
                result = self._result(waiting)
            except KeyboardInterrupt:
                yield from self._written(waiting)
                raise
            yield result

    def _written(self, waiting: deque[int]) -> Iterator[Any]:
        """Let processes that read a piece in ranges end after the present ones, and yield what they have found.

        Raises WorkerLostError if one does not end soon, because its reader takes so little: what it wrote is unknown.
        """
        if not self._has_output:
            return
        self.is_stopping, self.cells.stop = True, AFTER_RANGES
        unsent = {number for number, _ in self._unsent}
        self._unsent.clear()
        for number in waiting:
            if number in unsent:
                return
            if not self._has_come(number, _PATIENCE_S):
                raise _cut("interrupted, and a worker process did not end: the output ends there")
            try:
                result = self._taken(number)
            except (StopWorkError, KafkalogError, OSError):
                return
            yield result

    def _submit(self, work_of: Callable[..., _Result], piece: tuple[Any, ...]) -> int:
        self._number += 1
        self._unsent.append((self._number, pickle.dumps((self._number, work_of, piece))))
        self._guarded(0.0)
        return self._number

    def _result(self, waiting: deque[int]) -> Any:
        """Return the first of the results that are waited for, which then is no longer one of them."""
        while True:
            has_come = waiting[0] in self._results
            if not has_come:
                self._guarded(_LOOK_SECONDS)
                has_come = waiting[0] in self._results
            read_bytes = self.cells.read_bytes
            counted_bytes, self._counted_bytes = self._counted_bytes, read_bytes
            self._progress.advance(read_bytes - counted_bytes)
            if not has_come:
                continue
            try:
                return self._taken(waiting.popleft())
            except StopWorkError:  # because another one has failed, whose error is the reason
                if not waiting:
                    raise

    def _taken(self, number: int) -> Any:
        is_good, result = self._results.pop(number)
        if is_good:
            return result
        raise result

    def _has_come(self, number: int, patience_s: float) -> bool:
        """Return whether a result has come, or comes within some seconds, or less if others come."""
        for _ in range(int(patience_s / _PAUSE_S)):
            if number in self._results:
                return True
            self._guarded(_PAUSE_S)
        return number in self._results

    def _guarded(self, wait_s: float) -> None:
        """Exchange what there is. Raises WorkerLostError."""
        try:
            self._exchange(wait_s)
        except _LostError as lost:
            killed = "a worker process was killed, perhaps by the out-of-memory killer"
            if self._has_output:
                raise _cut(f"{killed}: the output ends there", "; --jobs 1 needs the least memory") from lost
            raise WorkerLostError(f"{killed}; --jobs 1 needs the least memory") from lost

    def _exchange(self, wait_s: float) -> None:
        """Send pieces to processes that have too few, and take results, for which it waits some seconds at most."""
        if self._starting is not None and not self._has_started.is_set():
            self._starting.join(wait_s)
            return
        self._send()
        waiting = select.poll()
        for worker in self._workers:
            waiting.register(worker.results, select.POLLIN)
            if worker.outgoing:
                waiting.register(worker.pieces, select.POLLOUT)
        found = {descriptor for descriptor, _ in waiting.poll(wait_s * 1000)}
        for worker in self._workers:
            if worker.results in found:
                for number, is_good, result in worker.received():
                    self._results[number] = (is_good, result)
            if worker.pieces in found:
                worker.send()
        if found:
            self._send()

    def _send(self) -> None:
        """Send pieces, each to a process that has the fewest, which is started if there is none."""
        while self._unsent:
            worker = min(self._workers, key=lambda each: each.at_work, default=None)
            if (worker is None or worker.at_work) and len(self._workers) < self._most:
                try:
                    self._start_one()
                except WorkerLostError:
                    if worker is None:
                        raise
                    self._most = len(self._workers)  # those that are there do the work
                else:
                    worker = self._workers[-1]
            if worker is None or worker.at_work >= self._sent:
                return
            _, piece = self._unsent.popleft()
            worker.send(piece)


# --- a process, as the one that has started it sees it ----------------------------------------------------------------
class _Worker:
    """A process with its two pipes. `at_work` counts its pieces; `outgoing` is what the pipe had no room for."""

    def __init__(self, process: _Copy | BaseProcess, pieces: int, results: int) -> None:
        self.pieces = pieces
        self.results = results
        self.at_work = 0
        self.outgoing = bytearray()
        self._process = process
        self._incoming = bytearray()
        os.set_blocking(pieces, False)
        os.set_blocking(results, False)

    def send(self, piece: bytes = b"") -> None:
        """Send a piece, or more of what is outgoing; it never waits."""
        if piece:
            self.at_work += 1
            self.outgoing += len(piece).to_bytes(LENGTH_BYTES, "big") + piece
        with suppress(BlockingIOError, BrokenPipeError):  # of a process that is gone: its results have ended too
            while self.outgoing:
                del self.outgoing[: os.write(self.pieces, self.outgoing[:_PIPE_BYTES])]

    def received(self) -> Iterator[tuple[int, bool, Any]]:
        """Yield the results that have come: number of the piece, whether it is a result, result or error.

        Raises _LostError after the last result if the process is gone.
        """
        has_ended = False
        with suppress(BlockingIOError):
            while not has_ended:
                data = os.read(self.results, _PIPE_BYTES)
                self._incoming += data
                has_ended = not data
        while len(self._incoming) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._incoming[:LENGTH_BYTES], "big")
            if len(self._incoming) < end:
                break
            message = bytes(self._incoming[LENGTH_BYTES:end])
            del self._incoming[:end]
            self.at_work -= 1
            yield pickle.loads(message)  # noqa: S301 -- of a process of our own
        if has_ended:
            raise _LostError

    def close(self) -> None:
        """Let the process end: no piece comes any more."""
        os.close(self.pieces)
        os.close(self.results)

    def join(self, timeout_s: float) -> None:
        """Wait for its end, at most some seconds."""
        self._process.join(timeout_s)

    def kill(self) -> None:
        """Kill it, if it is still there."""
        self._process.kill()

    def end(self) -> None:
        """Wait for its end, and give back what is known of it."""
        self._process.join(None)
        self._process.close()


class _Copy:
    """A forked process, as far as it is a `multiprocessing.Process`."""

    def __init__(self, run: Callable[[], None]) -> None:
        """Fork; the copy runs a function and ends."""
        with _sigint_blocked():
            self._pid = os.fork()
            if not self._pid:
                run_to_the_end(run)
        self._is_there = True

    def join(self, timeout_s: float | None) -> None:
        """Wait for its end, at most some seconds; None: as long as it takes."""
        looks = 1 if timeout_s is None else 1 + int(timeout_s / _PAUSE_S)
        for _ in range(looks):
            if self._has_ended(os.WNOHANG if timeout_s is not None else 0):
                return
            _PAUSE.wait(_PAUSE_S)

    def _has_ended(self, options: int) -> bool:
        if self._is_there:
            try:
                self._is_there = os.waitpid(self._pid, options)[0] == 0
            except ChildProcessError:  # this process ignores SIGCHLD, so the system waits for its processes
                self._is_there = False
        return not self._is_there

    def kill(self) -> None:
        """Kill it, if it is still there."""
        if not self._has_ended(os.WNOHANG):
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)  # who ignores SIGTERM has processes that do, too

    def close(self) -> None:
        """Give back nothing: the system has forgotten a process that was waited for."""


class _Fork:
    """Starts processes that are copies of this one."""

    scratch = None

    def __init__(self, jobs: int, output: int | None, settings: WorkerSettings) -> None:
        self._memory = mmap(-1, SharedCells.size_bytes(jobs))
        self.cells = SharedCells(self._memory)
        self._token, self._life = _token_pipe(), os.pipe()
        self._output, self._settings = NO_OUTPUT if output is None else output, settings
        self._ours: list[int] = []

    def start(self, number: int, its: tuple[int, int], ours: tuple[int, int]) -> _Copy:
        """Start a process, which gets the ends `its` of its pipes: to read pieces and to write results."""

        def run() -> None:
            for descriptor in (*self._ours, *ours, self._life[1]):
                os.close(descriptor)
            place = WorkerPlace(number, self.cells, Token(self._token), self._output)
            serve(place, self._settings, *its, self._life[0], None)

        process = _Copy(run)
        self._ours += ours
        return process

    def close(self) -> None:
        """Give back what the processes shared with this one."""
        for descriptor in (*self._token, *self._life):
            os.close(descriptor)


class _Start:
    """Starts processes by the standard library, for which everything that they get is pickled."""

    def __init__(self, jobs: int, output: int | None, settings: WorkerSettings) -> None:
        multiprocessing, tempfile = import_module("multiprocessing"), import_module("tempfile")
        import_module("multiprocessing.resource_tracker").ensure_running()  # unblocks SIGINT when it has started
        self._directory = tempfile.TemporaryDirectory(prefix="kafkalog-workers-")
        self.scratch = self._directory.name
        method = START_METHOD
        if method == "forkserver" and len(os.fsencode(tempfile.gettempdir())) > _MOST_TEMP_BYTES:
            method = "spawn"
        self._context: Any = multiprocessing.get_context(method)
        self._path, size = os.path.join(self.scratch, "shared"), SharedCells.size_bytes(jobs)
        with ExitStack() as undo:
            undo.callback(self._directory.cleanup)
            if method == "forkserver":
                _start_server(self._context)
            with open(self._path, "w+b", buffering=0) as file:
                file.write(bytes(size))  # not a hole: a full disk would kill who writes to its memory
                self.cells = SharedCells(mmap(file.fileno(), size))
            self._token, self._life = _token_pipe(), os.pipe()
            undo.pop_all()
        self._outputs, self._settings = [] if output is None else [output], settings

    def start(self, number: int, its: tuple[int, int], ours: tuple[int, int]) -> BaseProcess:
        """See `_Fork.start`."""
        del ours
        passed = [_Passed(each) for each in (*its, self._life[0], *self._token, *self._outputs)]
        process: BaseProcess = self._context.Process(
            target=serve_started, args=(number, self._path, passed, self._settings, self.scratch), daemon=True
        )
        with _sigint_blocked():  # the process, and a server that had ended and is started for it
            process.start()
        return process

    def close(self) -> None:
        """Delete what the processes shared with this one."""
        for descriptor in (*self._token, *self._life):
            os.close(descriptor)
        self._directory.cleanup()


def _cut(what: str, advice: str = "") -> WorkerLostError:
    """Return the error after which no summary is written: it could follow half a line, and would count too little."""
    error = WorkerLostError(f"{what}, maybe inside a line{advice}")
    error.wrote_rows = True
    return error


def _not_started(error: OSError | EOFError) -> WorkerLostError:
    return WorkerLostError(f"no worker process could be started: {error}; --jobs 1 needs none")


def _enlarge(pipe: int) -> None:
    """Give a pipe room for more results, so that a process need not wait until this one looks at it."""
    with suppress(OSError, AttributeError):  # the system's limit for a user, another system
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _RESULT_BYTES)


def _token_pipe() -> tuple[int, int]:
    """Return the ends of a pipe in which there is a token."""
    ends = os.pipe()
    Token(ends).release()
    return ends


def _start_server(context: Any) -> None:
    """Start the fork server with SIGINT blocked, so that neither it nor its processes receive one."""
    from multiprocessing import forkserver  # noqa: PLC0415 -- only where there is one

    context.set_forkserver_preload([_WORK_MODULE])
    with _sigint_blocked():
        forkserver.ensure_running()


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


class _Passed:
    """A file descriptor on its way to a process that starts, where it becomes the number of its copy."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing import reduction  # noqa: PLC0415 -- only here

        return _copied, (reduction.DupFd(self._descriptor),)


def _copied(passed: Any) -> int:
    return int(passed.detach())
