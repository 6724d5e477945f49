"""Progress of a pool of processes, and work for its processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from kafkalog_core.engine.spool import send
from kafkalog_core.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.engine.spool import OutputStream


class CountedProgress:
    """Counts the bytes that were read; more than a limit is as if the user pressed Ctrl-C."""

    def __init__(self, limit: int | None = None) -> None:
        self.bytes = 0
        self._limit = limit

    def expect(self, size_bytes: int) -> None:
        raise AssertionError(size_bytes)

    def advance(self, size_bytes: int) -> None:
        self.bytes += size_bytes
        if self._limit is not None and self.bytes > self._limit:
            raise KeyboardInterrupt


# --- work with a result alone -----------------------------------------------------------------------------------------
def read_for_ever(path: str, advance: Callable[[int], None]) -> None:
    """A piece of work that notes its process id and does not end."""
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        advance(1)
        time.sleep(0.001)


def double(number: int, advance: Callable[[int], None]) -> int:
    advance(number)
    return 2 * number


def whoami(advance: Callable[[int], None]) -> int:
    advance(1)
    return os.getpid()


def kill_oneself(advance: Callable[[int], None]) -> None:
    advance(1)
    os.kill(os.getpid(), signal.SIGKILL)


def fail(advance: Callable[[int], None]) -> None:
    advance(1)
    raise NotFoundError("no such file or directory", path="x")


def repeat(data: bytes, times: int, advance: Callable[[int], None]) -> bytes:
    advance(times)
    return data * times


class OneWayError(Exception):
    """An error that is pickled and cannot be made again of what was pickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def refuse_twice(advance: Callable[[int], None]) -> None:
    advance(1)
    raise OneWayError("x", "y")


def leave(advance: Callable[[int], None]) -> None:
    advance(1)
    sys.exit(3)


def function_of_its_own(advance: Callable[[int], None]) -> Callable[[], None]:
    advance(1)
    return lambda: None


# --- work that writes -------------------------------------------------------------------------------------------------
def write_numbers(first: int, count: int, stream: OutputStream, advance: Callable[[int], None]) -> int:
    """Send some numbers, and return the next one."""
    for number in range(first, first + count):
        send(stream, number)
        advance(1)
    return first + count


def write_in_room(times: int, stream: OutputStream, advance: Callable[[int], None]) -> int:
    """Write bytes that are already in the memory of the stream."""
    for number in range(times):
        room = stream.room()
        room[:8] = number.to_bytes(8, "big")
        stream.write(room[:8])
        advance(8)
    return times


def write_much(size_bytes: int, times: int, stream: OutputStream, advance: Callable[[int], None]) -> int:
    """Write some bytes again and again, each time another one."""
    for number in range(times):
        stream.write(bytes([number % 256]) * size_bytes)
        advance(size_bytes)
    return times


def write_and_fail(number: int, failing: int, stream: OutputStream, advance: Callable[[int], None]) -> int:
    """Send a number; one task fails after that, with an error of ours."""
    send(stream, number)
    advance(1)
    if number == failing:
        raise NotFoundError("no such file or directory", path="x")
    return number


def write_and_die(number: int, dying: int, stream: OutputStream, advance: Callable[[int], None]) -> int:
    """Send a number; one process is killed after that."""
    send(stream, number)
    advance(1)
    if number == dying:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def write_for_ever(path: str, stream: OutputStream, advance: Callable[[int], None]) -> Any:
    """Note the process id, and write without an end."""
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        stream.write(bytes(1024 * 1024))
        advance(1)
