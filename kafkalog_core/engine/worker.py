"""What a worker process does: one piece of work after another, until none comes any more (`processes`).

It ignores Ctrl-C: the process that has started it stops it. If that process dies, it ends too.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import select
import signal
from contextlib import suppress
from functools import partial
from importlib import import_module
from mmap import mmap
from threading import Thread
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.turns import SharedCells, StopWorkError, Token, WorkerPlace
from kafkalog_core.errors import KafkalogError
from kafkalog_core.storage.object_paths import REACHING
from kafkalog_core.storage.source import READING
from kafkalog_core.structs import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.storage.object_paths import StorageOptions
    from kafkalog_core.storage.source import ReadLimit

__all__ = ["LENGTH_BYTES", "NO_OUTPUT", "WorkerSettings", "run_to_the_end", "serve", "serve_started", "settings_of"]

LENGTH_BYTES: Final = 8
"""Before each piece and each result in a pipe, its length, big-endian."""
NO_OUTPUT: Final = -1
_MOST_TEXT: Final = 200

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3
_MAPPED_BYTES: Final = 32 * 1024 * 1024
_HELD_BYTES: Final = 64 * 1024 * 1024


class WorkerSettings(NamedTuple):
    """What this process has set for itself: how it reads, also an object store, and when Python looks for cycles."""

    keeps_cache: bool
    limit: ReadLimit | None
    storage: StorageOptions
    gc_threshold: tuple[int, int, int]


def settings_of(jobs: int) -> WorkerSettings:
    """Return the settings of each of some processes: they share what this one may read in a second."""
    limit = None if READING.limit is None else READING.limit.share(jobs)
    return WorkerSettings(READING.keeps_cache, limit, REACHING.options, gc.get_threshold())


def run_to_the_end(run: Callable[[], None]) -> None:
    """Run a function and end this process, without what the other one does at its end."""
    status = 1
    try:
        run()
        status = 0
    finally:
        os._exit(status)


def serve_started(number: int, shared: str, passed: list[int], settings: WorkerSettings, scratch: str) -> None:
    """Serve in a process that the standard library has started. Never returns."""
    pieces, results, life, from_token, to_token, *outputs = passed
    with open(shared, "r+b", buffering=0) as file:
        cells = SharedCells(mmap(file.fileno(), 0))
    place = WorkerPlace(number, cells, Token((from_token, to_token)), *(outputs or [NO_OUTPUT]))
    run_to_the_end(partial(serve, place, settings, pieces, results, life, scratch))


def serve(
    place: WorkerPlace, settings: WorkerSettings, pieces: int, results: int, life: int, scratch: str | None
) -> None:
    """Do the pieces of work that come, until none comes any more. life: ends with the process that sends them."""
    gc.set_threshold(*settings.gc_threshold)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    READING.keeps_cache, READING.limit, REACHING.options = settings.keeps_cache, settings.limit, settings.storage
    _keep_memory()
    WorkerPlace.here = place
    REACHING.check = partial(place.advance, 0)
    with suppress(RuntimeError):  # a limit of threads: then it ends when it asks for another piece
        Thread(target=_end_with_parent, args=(life, scratch), daemon=True).start()
    with open(pieces, "rb") as incoming, suppress(BrokenPipeError):
        while length := incoming.read(LENGTH_BYTES):
            answer = memoryview(_answer(incoming.read(int.from_bytes(length, "big")), place))
            while answer:
                answer = answer[os.write(results, answer) :]


def _answer(message: bytes, place: WorkerPlace) -> bytes:
    """Do a piece of work, and return the bytes of its result or its error."""
    number, is_good = 0, True
    try:
        number, work_of, piece = pickle.loads(message)  # noqa: S301 -- of the process that has started this one
        result = work_of(*piece, place.advance)
    except BaseException as error:  # noqa: BLE001 -- it is raised where the result is waited for
        is_good, result = False, error if isinstance(error, Exception) else RuntimeError(repr(error))
        if not isinstance(error, KafkalogError | StopWorkError):
            result.add_note(import_module("traceback").format_exc())  # which does not go with it
    try:
        answer = pickle.dumps((number, is_good, result))
        if not is_good:  # there are classes of errors that only go one way
            pickle.loads(answer)  # noqa: S301 -- made a moment ago
    except Exception as error:  # noqa: BLE001 -- of any class
        what = str(error if is_good else result)[:_MOST_TEXT]
        answer = pickle.dumps((number, False, RuntimeError(f"{type(result).__name__}: {what}")))
    return len(answer).to_bytes(LENGTH_BYTES, "big") + answer


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


def _end_with_parent(life: int, scratch: str | None) -> None:
    """Wait until the process that has started this one is dead, then delete its temporary files and end."""
    waiting = select.poll()
    waiting.register(life, select.POLLHUP)  # which Linux reports in any case
    waiting.poll()
    if scratch is not None:
        import_module("shutil").rmtree(scratch, ignore_errors=True)
    os._exit(1)
