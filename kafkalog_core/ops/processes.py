"""Worker processes: each does one piece of work after another, and results come in the order of the pieces.

Workers ignore Ctrl-C: the process that waits for them stops them, and they end within one window of a file. If that
process dies, they end too.
"""

from __future__ import annotations

import ctypes
import gc
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
from contextlib import suppress
from functools import partial
from mmap import mmap
from multiprocessing import reduction
from threading import Event, Thread, active_count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from kafkalog_core.errors import KafkalogError, WorkerLostError
from kafkalog_core.storage.object_paths import REACHING
from kafkalog_core.storage.scan import ScanPlace
from kafkalog_core.storage.source import READING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.sharedctypes import Synchronized
    from types import TracebackType

    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.object_paths import StorageOptions
    from kafkalog_core.storage.source import ReadLimit

__all__ = ["Pool", "TurnRelay", "TurnWriter", "Turns"]

START_METHOD: Final = "forkserver" if sys.platform == "linux" else "spawn"
"""Not fork: the process has threads of its own, for progress and for waiting, and descriptors of locks."""
_FORK: Final = "fork" if sys.platform == "linux" else ""
"""Where none of that is so: the processes are there at once, with all that this one has imported."""
_MOST_TEMP_BYTES: Final = 70
"""Of TMPDIR: the server listens on a socket 32 bytes below it, and the address of a socket has 107 (sun_path)."""
_WORK_MODULE: Final = "kafkalog_core.ops.verify.work"
_LOOK_SECONDS: Final = 0.2
_AT_ONCE: Final = 1
_AFTER_RANGES: Final = 2
"""When processes stop."""
_PATIENCE_S: Final = 2.0
_PAUSE: Final = Event()
_LEAST_PAUSE_S: Final = 0.0005
_MOST_PAUSE_S: Final = 0.01
_WAIT_SECONDS: Final = 0.02
"""For the end of a scan, which takes less than a millisecond."""
_AHEAD: Final = 4
"""Pieces of work that wait for each process: enough to keep it busy, so few that results do not pile up."""

_RANGES: Final = 1 << 32
"""More than a piece has."""
_NO_RANGE: Final = -1

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3
_MAPPED_BYTES: Final = 32 * 1024 * 1024
_HELD_BYTES: Final = 64 * 1024 * 1024
ROOM_BYTES: Final = 4 * 1024 * 1024
_KEPT_BYTES: Final = 32 * 1024 * 1024
_ALL_BYTES: Final = _KEPT_BYTES + ROOM_BYTES

_Result = TypeVar("_Result")


class _StopWorkError(Exception):
    """The caller no longer waits for the work."""


class Turns:
    """Whose turn it is to write: pieces of work are numbered from 0, and each waits until those before it have ended.

    Pieces must be begun in the order of their numbers, so that the one whose turn it is is never waiting for a process.
    Several processes may work on one piece, in ranges (`TurnRelay`), which have turns of their own.
    """

    def __init__(self, context: multiprocessing.context.BaseContext) -> None:
        self._at: Any = context.Value("q", 0, lock=False)
        self.reading = context.Lock()
        self.relayed: Any = context.Array("q", 5, lock=False)
        """While `reading` is held: number of the last piece in ranges, its next range, and where that begins."""
        self.relayed[0] = -1

    def is_at(self, number: int, part: int = 0) -> bool:
        """Return whether it is the turn of a piece, or a range of it."""
        return bool(self._at.value == number * _RANGES + part)

    def wait(self, number: int, part: int, look: Callable[[], object]) -> None:
        """Wait for the turn of a piece, or a range of it. look: called now and then; it may raise an error.

        It looks again and again: who wakes others by a condition waits for them, for ever if one was killed.
        """
        pause_s = _LEAST_PAUSE_S
        while not self.is_at(number, part):
            look()
            _PAUSE.wait(pause_s)
            pause_s = min(1.1 * pause_s, _MOST_PAUSE_S)

    def end(self, number: int, next_part: int | None = None) -> None:
        """End the turn of a piece, or of a range of it before the next one."""
        self._at.value = (number + 1) * _RANGES if next_part is None else number * _RANGES + next_part


class Pool:
    """At most `jobs` processes, as a context manager. `progress` receives the bytes that they read.

    `scratch` is a directory for temporary files, which is deleted with the pool. `output` is a file descriptor that
    the work may write to, in `turns`. `own_limit` is what this process may read meanwhile, if it has given an output.
    After a KeyboardInterrupt `is_stopping`, and results still come of what was read and written by then.
    """

    def __init__(self, jobs: int, progress: Progress, *, output: int | None = None, may_fork: bool = False) -> None:
        """Prepare the processes. may_fork: whether they may get all descriptors of this one, such as those of locks."""
        self.jobs = jobs
        self._progress = progress
        self._counted_bytes = 0
        self._has_output = output is not None
        self.is_stopping = False
        self._directory = tempfile.TemporaryDirectory(prefix="kafkalog-workers-")
        self.scratch = self._directory.name
        is_alone = active_count() == 1 and "pyarrow" not in sys.modules  # whose threads Python does not count
        method = _FORK if may_fork and _FORK and is_alone else START_METHOD
        if method == "forkserver" and len(os.fsencode(tempfile.gettempdir())) > _MOST_TEMP_BYTES:
            method = "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            _start_server(context)
        self._read_bytes: Synchronized[int] = context.Value("q", 0)
        self._stop: Synchronized[int] = context.Value("b", 0)
        self.turns = Turns(context)
        self._starting: Thread | None = None
        self._has_started = Event()
        self._is_forked = method == _FORK
        readers = jobs + (output is not None)  # who shares the output out reads too
        self.own_limit = None if READING.limit is None else READING.limit.share(readers)
        passed: Any = output if output is None or self._is_forked else _Passed(output)
        self._executor = ProcessPoolExecutor(
            jobs,
            mp_context=context,
            initializer=_start_worker,
            initargs=(
                self._read_bytes,
                self._stop,
                self.scratch,
                self.turns,
                passed,
                _process_of(readers),
            ),
        )

    def start(self) -> None:
        """Start the processes; the caller may work meanwhile, until `has_started`."""
        if self._is_forked:  # at once, and in this thread, the only one
            self._executor.submit(_no_work)
            self._has_started.set()
            return
        self._starting = Thread(target=self._start, daemon=True)
        self._starting.start()

    @property
    def has_started(self) -> bool:
        """Whether a process is ready after `start`, or has failed, as the next piece of work will."""
        return self._has_started.is_set()

    def _start(self) -> None:
        try:
            for each in [self._executor.submit(_no_work) for _ in range(self.jobs)][:1]:
                each.result()
        except Exception:  # noqa: BLE001 -- the next piece of work meets it too, and reports it
            return
        finally:
            self._has_started.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop.get_obj().value = _AT_ONCE  # without its lock, as below
        if self._starting is not None:
            self._starting.join()
        writers = multiprocessing.active_children() if kind is not None and self._has_output else []
        self._executor.shutdown(wait=not writers, cancel_futures=True)
        for process in writers:  # one that writes to a pipe of which nobody reads sees nothing of a stop
            process.join(_PATIENCE_S / len(writers))
            process.terminate()
        self._directory.cleanup()

    def map(self, work_of: Callable[..., _Result], pieces: Iterable[tuple[Any, ...]]) -> Iterator[_Result]:
        """See `pool.Workers`."""
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
            try:
                result = self._result(waiting.popleft(), waiting)
            except KeyboardInterrupt:
                yield from self._written(waiting)
                raise
            yield result

    def _written(self, waiting: deque[Future[_Result]]) -> Iterator[_Result]:
        """Let processes that read a piece in ranges end after the present ones, and yield what they have found."""
        if not self._has_output:
            return
        self.is_stopping, self._stop.get_obj().value = True, _AFTER_RANGES
        with suppress(NotYetError, _StopWorkError, KafkalogError, OSError, BrokenProcessPool):
            for future in waiting:
                if future.cancel():
                    return
                yield future.result(_PATIENCE_S)

    def _submit(self, work_of: Callable[..., _Result], piece: tuple[Any, ...]) -> Future[_Result]:
        try:
            return self._executor.submit(_work, work_of, piece)
        except BrokenProcessPool as error:
            raise self._lost() from error

    def _result(self, future: Future[_Result], others: deque[Future[_Result]]) -> _Result:
        while True:
            try:
                result = future.result(_LOOK_SECONDS)
            except NotYetError:
                self._look(future, others)
            except _StopWorkError:  # because another one has failed, whose error is the reason
                if not others:
                    raise
                future = others.popleft()
            except BrokenProcessPool as error:
                raise self._lost() from error
            else:
                self._look(future, others)
                return result

    def _lost(self) -> WorkerLostError:
        end = ": the output ends there, maybe inside a line" if self._has_output else ""
        message = (
            f"a worker process was killed, perhaps by the out-of-memory killer{end}; --jobs 1 needs the least memory"
        )
        error = WorkerLostError(message)
        error.wrote_rows = self._has_output
        return error

    def _look(self, future: Future[_Result], others: deque[Future[_Result]]) -> None:
        """Show what was read meanwhile. If that raises KeyboardInterrupt, the result is the first of those to come."""
        read_bytes = self._read_bytes.get_obj().value  # without its lock, with which a process may be killed
        counted_bytes, self._counted_bytes = self._counted_bytes, read_bytes
        try:
            self._progress.advance(read_bytes - counted_bytes)
        except KeyboardInterrupt:
            others.appendleft(future)
            raise


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


class _ProcessSettings(NamedTuple):
    """What this process has set for itself: how it reads, also an object store, and when Python looks for cycles."""

    keeps_cache: bool
    limit: ReadLimit | None
    storage: StorageOptions
    gc_threshold: tuple[int, int, int]


def _process_of(jobs: int) -> _ProcessSettings:
    """Return the settings of each of some processes: they share what this one may read in a second."""
    limit = None if READING.limit is None else READING.limit.share(jobs)
    return _ProcessSettings(READING.keeps_cache, limit, REACHING.options, gc.get_threshold())


def _start_worker(
    read_bytes: Synchronized[int],
    stop: Synchronized[int],
    scratch: str,
    turns: Turns,
    output: int | None,
    settings: _ProcessSettings,
) -> None:
    gc.set_threshold(*settings.gc_threshold)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    READING.keeps_cache, READING.limit, REACHING.options = settings.keeps_cache, settings.limit, settings.storage
    _keep_memory()
    _state.update(read_bytes=read_bytes, stop=stop, turns=turns, output=output)
    REACHING.check = partial(_advance, 0)
    if output is not None:
        _state.update(memory=mmap(-1, _ALL_BYTES))
    Thread(target=_end_with_parent, args=(scratch,), daemon=True).start()


def _keep_memory() -> None:
    """Let malloc keep freed memory: each piece of work needs as much, and getting it takes as long as half of the work.

    mallopt is of the GNU C library; elsewhere nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _HELD_BYTES)


def _end_with_parent(scratch: str) -> None:
    """Wait until the parent process is dead, then delete its temporary files and end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(1)


class _Passed:
    """A file descriptor on its way to a process that starts, where it becomes the number of its copy."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (reduction.DupFd(self._descriptor),)


def _copied(passed: Any) -> int:
    return int(passed.detach())


def _no_work() -> None:
    """Do nothing: the process is there."""


class TurnWriter:
    """A stream to the output of the pool for one piece of work, in a process of the pool: it writes when it may.

    What it gets before its turn it keeps, in memory that all pieces of the process use, up to _KEPT_BYTES; then it
    waits. So it does not wait at the end of a range, whose rows may stay there while the next one is read. What was
    written to its `room` is there already: copying it takes as long as a third of making it.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._part = 0
        self._turns: Turns = _state["turns"]
        self._descriptor: int = _state["output"]
        self._memory: mmap = _state["memory"]
        self._kept_bytes = self._written_bytes = 0
        self._ended: deque[tuple[int, int]] = deque()  # earlier ranges: number, and where their rows end in the memory
        self._has_begun = False

    def room(self) -> memoryview:
        """Return memory for lines, which are then given to `write`."""
        return memoryview(self._memory)[self._kept_bytes : self._kept_bytes + ROOM_BYTES]

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes. Raises OSError."""
        self.put_what_may()
        if self._has_begun:
            self._write(data)
            return
        if len(data) > ROOM_BYTES:  # a line as long as that
            self.put()
            self._write(data)
            return
        if not isinstance(data, memoryview) or data.obj is not self._memory:
            self._memory[self._kept_bytes : self._kept_bytes + len(data)] = data
        self._kept_bytes += len(data)
        if self._kept_bytes >= _KEPT_BYTES:
            self.put()

    def begin_part(self, part: int) -> None:
        """Begin a range of the piece."""
        self._part, self._has_begun = part, False
        if not self._ended:
            self._kept_bytes = self._written_bytes = 0

    def end_part(self) -> None:
        """End a range of the piece before another one. Raises OSError."""
        self.put_what_may()
        if self._has_begun:
            self._turns.end(self._number, self._part + 1)
        else:
            self._ended.append((self._part, self._kept_bytes))

    def end(self) -> None:
        """Write what is kept, and end the turn of the piece. Raises OSError."""
        self.put()
        self._turns.end(self._number)

    def put(self) -> None:
        """Write what is kept, when its turn has come. Raises OSError."""
        self.put_ended()
        self._turns.wait(self._number, self._part, lambda: _advance(0))
        self.put_what_may()

    def put_ended(self) -> None:
        """Write what is kept of the ranges that have ended, when their turn has come. Raises OSError."""
        while self._ended:
            self._turns.wait(self._number, self._ended[0][0], lambda: _advance(0))
            self.put_what_may()

    def put_what_may(self) -> None:
        """Write what is kept and whose turn has come. Raises OSError."""
        while self._ended and self._turns.is_at(self._number, self._ended[0][0]):
            part, end = self._ended.popleft()
            self._put_to(end)
            self._turns.end(self._number, part + 1)
        if not self._ended and not self._has_begun and self._turns.is_at(self._number, self._part):
            self._put_to(self._kept_bytes)
            self._kept_bytes = self._written_bytes = 0
            self._has_begun = True

    def _put_to(self, end: int) -> None:
        with memoryview(self._memory) as memory, memory[self._written_bytes : end] as kept:
            self._write(kept)
        self._written_bytes = end

    def _write(self, data: bytes | memoryview) -> None:
        written = 0
        while written < len(data):
            written += os.write(self._descriptor, data[written:])


class TurnRelay:
    """What several processes need to read one piece in ranges (`logreader.Relay`); each writes the rows of its own."""

    def __init__(self, number: int, stream: TurnWriter, range_bytes: int, start: ScanPlace | None) -> None:
        self.range_bytes = range_bytes
        self._start = start
        self._number = number
        self._stream = stream
        self._turns: Turns = _state["turns"]
        self._is_reading = False
        self.place: ScanPlace | None = None
        self.has_begun = self.has_read = False

    def begin(self) -> bool:
        """See Relay."""
        while not self._turns.reading.acquire(timeout=_WAIT_SECONDS):
            self._stream.put_what_may()  # for which the one that reads may be waiting
            _advance(0)
        if _state["stop"].value == _AFTER_RANGES:
            self._turns.reading.release()
            return False
        number, part, *place = self._turns.relayed
        if number > self._number or (number == self._number and part == _NO_RANGE):
            self._turns.reading.release()
            return False
        part, self.place = (0, self._start) if number < self._number else (part, ScanPlace(*place))
        self._turns.relayed[0], self._turns.relayed[1] = self._number, part + 1
        self._stream.begin_part(part)
        self._is_reading = self.has_begun = self.has_read = True
        return True

    def give(self, place: ScanPlace) -> None:
        """See Relay."""
        self._turns.relayed[2:] = place
        self._is_reading = False
        self._turns.reading.release()

    def end(self) -> None:
        """See Relay."""
        self._stream.end_part()
        self.has_begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the last range, and with it the piece; or let all others end, which would wait for this one."""
        if kind is not None:
            _state["stop"].value = _AT_ONCE
            return
        if not self._is_reading:
            if self.has_begun:  # and the rest of its rows could not be read
                self._stream.end_part()
            self._stream.put_ended()
            return
        self._turns.relayed[1] = _NO_RANGE
        self._turns.reading.release()
        self._stream.end()


def _work(work_of: Callable[..., _Result], piece: tuple[Any, ...]) -> _Result:
    return work_of(*piece, _advance)


def _advance(size_bytes: int) -> None:
    if _state["stop"].value == _AT_ONCE:
        raise _StopWorkError
    with _state["read_bytes"].get_lock():
        _state["read_bytes"].value += size_bytes
