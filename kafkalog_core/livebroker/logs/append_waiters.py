"""Who waits for an append to a partition (Kafka's `DelayedOperationPurgatory`).

A waiter is another client's request. If it fails, the append has happened all the same: the failure is reported, and
the appender goes on.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["AppendWaiters"]


class AppendWaiters:
    """Functions that are called after an append to one of their partitions, until they are removed. Thread-safe."""

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        """Begin with none. failed: receives what failed, and the exception of a function that was called."""
        self._failed = failed
        self._waiting: dict[tuple[str, int], dict[Callable[[], None], None]] = {}
        self._lock = threading.Lock()

    def add(self, partitions: Iterable[tuple[str, int]], call: Callable[[], None]) -> None:
        """Call a function after each append to one of these partitions."""
        with self._lock:
            for each in partitions:
                self._waiting.setdefault(each, {})[call] = None

    def remove(self, partitions: Iterable[tuple[str, int]], call: Callable[[], None]) -> None:
        """Stop calling it; it need not be there any more."""
        with self._lock:
            for each in partitions:
                waiting = self._waiting.get(each)
                if waiting is not None:
                    waiting.pop(call, None)
                    if not waiting:
                        del self._waiting[each]

    def notify(self, topic: str, partition: int) -> None:
        """Call those who wait for a partition, on the thread that appended. One that fails is not called again."""
        with self._lock:
            # Copied: a function that is called may remove itself.
            calls = list(self._waiting.get((topic, partition), ()))
        for call in calls:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - whatever it is, the batch is in the log
                # Its request is answered when its time is over
                self._drop(call)
                with suppress(Exception):
                    self._failed(f"a request that waits for {topic}-{partition}", error)

    def _drop(self, call: Callable[[], None]) -> None:
        with self._lock:
            partitions = [place for place, waiting in self._waiting.items() if call in waiting]
        self.remove(partitions, call)
