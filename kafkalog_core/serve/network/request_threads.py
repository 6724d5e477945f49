"""The threads that handle requests which read or change a disk: the network's threads never wait for one.

Kafka hands every request to such threads (`KafkaRequestHandlerPool`, num.io.threads). Here those that are answered from
memory alone are handled on the thread of their connection.
"""

from __future__ import annotations

import math
import threading
from contextlib import nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from kafkalog_core.serve.network.answers import Close, PendingAnswer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never

    from kafkalog_core.serve.network.answers import Answer

__all__ = ["CHANGE_S", "RequestThreads"]

_STOPPED: Final = "the broker is being stopped"
_THREADS: Final = 8  # the default of num.io.threads
_JOIN_S: Final = 1.0
CHANGE_S: Final = 60.0
"""How long the end of a broker waits for what writes."""


class RequestThreads:
    """A few threads that handle requests. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._change_lock = threading.Lock()  # one change at a time, as in Kafka's controller
        self._busy = 0
        self._is_closed = False

    def read(self, handle: Callable[[], Answer]) -> Answer:
        """Return the answer, which comes later, of a handler that reads; none if the client has left before."""
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
            self._busy += 1
            # Threads begin when they are needed: most runs never have a slow request.
            if self._busy > len(self._threads) < _THREADS:
                thread = threading.Thread(target=self._run, name=f"kafkalog-requests-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._waiting.put(run)
        return pending

    def _run(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()
            with self._lock:
                self._busy -= 1

    def close(self) -> bool:
        """End the threads: a read that takes longer than a second goes on, and its answer is dropped.

        A change that has begun ends; one that has not is not made. Return whether it has ended within a minute: else
        it may still write.
        """
        with self._lock:
            self._is_closed = True
        # Only a change is waited for; a read that goes on harms nobody.
        has_ended = self._change_lock.acquire(timeout=CHANGE_S)
        if has_ended:
            self._change_lock.release()
        # One end for each thread, after the work that waits.
        for _ in self._threads:
            self._waiting.put(None)
        for each in self._threads:
            each.join(_JOIN_S)
        return has_ended
