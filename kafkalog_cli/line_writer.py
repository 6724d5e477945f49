"""Lines for a stream that nobody may read: a bounded queue, and one thread that writes.

A pipe that is not read takes 64 KiB, then each write to it blocks. The threads that serve clients must not wait for
that, so they only put lines into the queue.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections import deque
from contextlib import suppress
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LineWriter", "write_to_stderr"]

_MAX_CHARACTERS: Final = 1024 * 1024


class LineWriter:
    """Writes lines in their order on a thread of its own. `write` never blocks. Thread-safe; `close` it at the end.

    Lines beyond the bound are counted and dropped. Once there is room again, a line with their number takes their
    place.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        dropped: Callable[[int], str],
        *,
        max_characters: int = _MAX_CHARACTERS,
    ) -> None:
        """Start the thread.

        write: writes a line, and may block. dropped: returns the line that reports a number of dropped lines.
        max_characters: bound of all lines that wait.
        """
        self._write = write
        self._dropped_line = dropped
        self._max_characters = max_characters
        self._lines: deque[str] = deque()
        self._characters = 0
        self._dropped = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="kafkalog-lines", daemon=True)
        self._thread.start()

    def write(self, line: str) -> bool:
        """Queue a line without its line feed, and return whether there was room for it."""
        with self._changed:
            if self._is_closed or self._characters + len(line) > self._max_characters:
                self._dropped += 1
                return False
            self._report_dropped()
            self._add(line)
            self._changed.notify()
            return True

    def close(self, timeout_s: float = 1.0) -> bool:
        """Return whether all lines were written within a time; later lines are dropped."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._characters += len(line)

    def _report_dropped(self) -> None:
        """Queue the line that takes the place of dropped ones, which is short enough to exceed the bound."""
        if self._dropped:
            number, self._dropped = self._dropped, 0
            self._add(self._dropped_line(number))

    def _next(self) -> str | None:
        """Wait for the next line; None: the writer is closed, and all lines are written."""
        with self._changed:
            while not self._lines:
                self._report_dropped()
                if not self._lines:
                    if self._is_closed:
                        return None
                    self._changed.wait()
            line = self._lines.popleft()
            self._characters -= len(line)
            return line

    def _run(self) -> None:
        while (line := self._next()) is not None:
            with suppress(OSError, ValueError):  # a stream that is closed takes no line, and no thread may end of it
                self._write(line)


def write_to_stderr(line: str) -> None:
    """Write a line to stderr, and wait until it takes all of it. Raises OSError.

    The file descriptor is used, not the stream: a thread that blocks in the stream holds its lock, and Python aborts
    at its end when it cannot flush the stream.
    """
    stream = sys.stderr
    if stream is None:  # descriptor 2 was closed at the start
        return
    try:
        descriptor = stream.fileno()
    except UnsupportedOperation:  # a buffer in memory
        stream.write(f"{line}\n")
        return
    rest = memoryview(f"{line}\n".encode(stream.encoding or "utf-8", "backslashreplace"))
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another process that has the pipe made it non-blocking
            select.select([], [descriptor], [])
