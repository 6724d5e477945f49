"""Requests that keep a disk busy leave the network's threads, whose other connections would wait meanwhile.

A request is first handled on the thread of its connection. Where that would read much of a disk (segments are mapped,
partitions opened, logs replayed), `count_read` raises instead, and the whole request is handled again on one of a few
threads that may wait. Kafka does so with every request (`KafkaRequestHandlerPool`); here most are answered
from memory in less time than it takes to wake another thread. A request that changes something is never handled twice:
those that fsync (topics, settings, ACLs, producer ids) are handled on these threads from the start, and one that may
create a topic calls `leave_network` before it changes anything.
"""

from __future__ import annotations

import math
import os
import threading
from contextlib import nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from kafkalog_core.broker.network.answers import Close, PendingAnswer
from kafkalog_core.format.layout import MAX_INT64

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never

    from kafkalog_core.broker.network.answers import Answer

__all__ = [
    "CHANGE_S",
    "LISTING_BYTES",
    "DiskThreads",
    "DiskWaitError",
    "cost_of_opening",
    "cost_of_reading",
    "count_read",
    "leave_network",
]

_SHORT_BYTES: Final = 1 << 20  # what a request reads on a network thread: about a millisecond from the page cache
_FILE_BYTES: Final = 16 * 1024  # what opening a file costs, in bytes that are read in the same time
LISTING_BYTES: Final = 8 * _FILE_BYTES
"""What listing a partition directory costs, in bytes that are read in the same time: it has some files."""
_LOG: Final = ".log"
_STOPPED: Final = "the broker is being stopped"
_THREADS: Final = 4
_JOIN_S: Final = 1.0
CHANGE_S: Final = 60.0
"""How long the end of a broker waits for what writes."""


class DiskWaitError(Exception):
    """Unwinds a request on a network thread that would read a disk at length."""


class _Thread(threading.local):
    """The bytes that the request on this thread may still read; None: it may wait, as all but network threads may."""

    left_bytes: int | None = None


_THREAD: Final = _Thread()


def count_read(size_bytes: int) -> None:
    """Count bytes that are about to be read. Raises DiskWaitError if that is too much for the thread of a network."""
    left_bytes = _THREAD.left_bytes
    if left_bytes is not None:
        if size_bytes > left_bytes:
            raise DiskWaitError
        _THREAD.left_bytes = left_bytes - size_bytes


def cost_of_opening(path: str) -> int:
    """Return the bytes that count for opening a partition directory: its last log, and something for each file."""
    last, size_bytes, count = "", 0, 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                count += 1
                if entry.name.endswith(_LOG) and entry.name > last:
                    last, size_bytes = entry.name, entry.stat().st_size
    except OSError:
        return 0  # opening it fails, and says why
    return size_bytes + count * _FILE_BYTES


def cost_of_reading(path: str) -> int:
    """Return the bytes that count for reading a partition directory as a whole: those of its files, and the files."""
    try:
        with os.scandir(path) as entries:
            return sum(_FILE_BYTES + entry.stat().st_size for entry in entries)
    except OSError:
        return 0  # reading it fails, and says why


def leave_network() -> None:
    """Raise DiskWaitError on the thread of a network, for a request that is about to fsync."""
    if _THREAD.left_bytes is not None:
        raise DiskWaitError


class DiskThreads:
    """A few threads that handle the requests which read at length. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._change_lock = threading.Lock()  # one change at a time, as in Kafka's controller
        self._is_closed = False

    def answer(self, handle: Callable[[], Answer], *, counts_reads: bool = True) -> Answer:
        """Return the answer of a handler, or one that comes later from another thread.

        counts_reads: false: it leaves the network by `leave_network` alone, since after a change it must not.
        """
        _THREAD.left_bytes = _SHORT_BYTES if counts_reads else MAX_INT64
        try:
            return handle()
        except DiskWaitError:
            pass
        finally:
            _THREAD.left_bytes = None
        return self._later(handle, is_change=False)

    def change(self, handle: Callable[[], Answer]) -> Answer:
        """Return the answer, which comes later, of a handler that changes something, even if the client has left."""
        return self._later(handle, is_change=True)

    def _later(self, handle: Callable[[], Answer], *, is_change: bool) -> Answer:
        # No deadline: the client's own timeout closes the connection.
        pending = PendingAnswer(math.inf, lambda: Close("its read was given up"))

        def run() -> None:
            if not (is_change or pending.is_open):
                return  # the client left
            try:
                with self._change_lock if is_change else nullcontext():
                    answer = Close(_STOPPED) if self._is_closed else handle()
            except BaseException as error:  # noqa: BLE001 - raised again on the network's thread, which reports it
                failure = error

                def fail() -> Never:
                    raise failure

                answer = PendingAnswer(-math.inf, fail)
            pending.complete(answer)

        with self._lock:
            if self._is_closed:
                return Close(_STOPPED)
            if len(self._threads) < _THREADS:
                thread = threading.Thread(target=self._run, name=f"kafkalog-reads-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._waiting.put(run)
        return pending

    def _run(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()

    def close(self) -> bool:
        """End the threads: a read that takes longer than a second goes on, and its answer is dropped.

        A change that has begun ends; one that has not is not made. Return whether it has ended within a minute: else
        it may still write.
        """
        with self._lock:
            self._is_closed = True
        has_ended = self._change_lock.acquire(timeout=CHANGE_S)
        if has_ended:
            self._change_lock.release()
        for _ in self._threads:
            self._waiting.put(None)
        for each in self._threads:
            each.join(_JOIN_S)
        return has_ended
