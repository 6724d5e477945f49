"""Progress of a pool of processes, and a piece of work that does not end by itself."""

from __future__ import annotations

import os
import time


class CountedProgress:
    """Counts the bytes that were read; more than a limit is as if the user pressed Ctrl-C."""

    def __init__(self, limit=None):
        self.bytes = 0
        self._limit = limit

    def expect(self, size_bytes):
        raise AssertionError(size_bytes)

    def advance(self, size_bytes):
        self.bytes += size_bytes
        if self._limit is not None and self.bytes > self._limit:
            raise KeyboardInterrupt


def read_for_ever(path, advance):
    """A piece of work that notes its process id and does not end."""
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        advance(1)
        time.sleep(0.001)
