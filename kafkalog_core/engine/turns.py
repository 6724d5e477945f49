"""Processes that write to one output in turn: what they share, and what each of them keeps until it may write.

The shared state is a page of int64 cells. Each cell is written by one process at a time, or set by any and not cleared,
so none needs a lock: the one lock there is, `Token`, says who may read the next range of a file.
"""

from __future__ import annotations

import os
import select
from collections import deque
from mmap import PAGESIZE, mmap
from threading import Event
from typing import TYPE_CHECKING, ClassVar, Final, Self

from kafkalog_core.format.columns import fresh_memory
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.storage.page_cache import AHEAD_BYTES
from kafkalog_core.storage.scan import ScanPlace

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = [
    "AFTER_RANGES",
    "AT_ONCE",
    "SharedCells",
    "StopWorkError",
    "Token",
    "TurnRelay",
    "TurnWriter",
    "Turns",
    "WorkerPlace",
]

AT_ONCE: Final = 1
AFTER_RANGES: Final = 2
"""When processes stop."""
_CELL_BYTES: Final = 8
_STOPS: Final = -1  # before the cell of AT_ONCE
_TURN: Final = 2
_RELAYED: Final = 3
_RELAYED_CELLS: Final = 5
_LOOKED_TO: Final = _RELAYED + _RELAYED_CELLS
_READ_BYTES: Final = _LOOKED_TO + 1

_PAUSE: Final = Event()
_LEAST_PAUSE_S: Final = 0.0005
_MOST_PAUSE_S: Final = 0.01
_WAIT_SECONDS: Final = 0.02
"""For the end of a scan, which takes less than a millisecond."""
_RANGES: Final = 1 << 32
"""More than a piece has."""
_NO_RANGE: Final = -1
_TOKEN: Final = b"."

ROOM_BYTES: Final = 4 * 1024 * 1024
_KEPT_BYTES: Final = 32 * 1024 * 1024
_ALL_BYTES: Final = _KEPT_BYTES + ROOM_BYTES


class StopWorkError(Exception):
    """The caller no longer waits for the work."""


class SharedCells:
    """What processes that work together share: whether they stop, whose turn it is, the bytes that each has read."""

    def __init__(self, memory: mmap) -> None:
        """Take the memory, zeroed, of `size_bytes`."""
        self._cells = memoryview(memory).cast("q")

    @staticmethod
    def size_bytes(processes: int) -> int:
        """Return the size of the memory for some processes."""
        return (_READ_BYTES + processes) * _CELL_BYTES

    @property
    def stop(self) -> int:
        """AT_ONCE, AFTER_RANGES, or 0: the work goes on. What one process has set, no other one takes back."""
        return self._cells[_STOPS + AT_ONCE] or self._cells[_STOPS + AFTER_RANGES]

    @stop.setter
    def stop(self, when: int) -> None:
        self._cells[_STOPS + when] = when

    @property
    def turn(self) -> int:
        """Whose turn it is to write (`Turns`)."""
        return self._cells[_TURN]

    @turn.setter
    def turn(self, turn: int) -> None:
        self._cells[_TURN] = turn

    @property
    def relayed(self) -> tuple[int, int, ScanPlace]:
        """Of the last piece in ranges its number plus one, its next range, and where that begins.

        Who reads or writes it holds the token.
        """
        number, part, *place = self._cells[_RELAYED:_LOOKED_TO]
        return number, part, ScanPlace(*place)

    def relay(self, number: int, part: int) -> None:
        """Set number and range of `relayed`."""
        self._cells[_RELAYED], self._cells[_RELAYED + 1] = number, part

    def relay_place(self, place: ScanPlace) -> None:
        """Set the place of `relayed`."""
        for cell, value in enumerate(place, _RELAYED + 2):
            self._cells[cell] = value

    @property
    def looked_to(self) -> int:
        """Where what was looked at in the first piece in ranges ends (`SharedFiles`): nobody may read further."""
        return self._cells[_LOOKED_TO] or MAX_INT64

    @looked_to.setter
    def looked_to(self, end: int) -> None:
        self._cells[_LOOKED_TO] = end

    @property
    def read_bytes(self) -> int:
        """The bytes that all processes have read."""
        return sum(self._cells[_READ_BYTES:])

    def count_read(self, process: int, size_bytes: int) -> None:
        """Count bytes that a process, of a number from 0, has read."""
        self._cells[_READ_BYTES + process] += size_bytes


class Token:
    """A lock of several processes: a byte in a pipe. Who has read it holds it, and puts it back.

    Who waits needs no memory that another process could leave in disorder when it is killed.
    """

    def __init__(self, ends: tuple[int, int]) -> None:
        """Take the ends of a pipe: to read and to write."""
        self._from, self._to = ends
        os.set_blocking(self._from, False)
        self._waiting = select.poll()
        self._waiting.register(self._from, select.POLLIN)

    def acquire(self, timeout_s: float) -> bool:
        """Take it, and return whether that was possible within some seconds."""
        for wait_ms in (0, int(timeout_s * 1000)):
            try:
                if not self._waiting.poll(wait_ms):
                    continue
                return bool(os.read(self._from, 1))
            except BlockingIOError:  # another one was quicker
                continue
        return False

    def release(self) -> None:
        """Put it back, or put it there at first."""
        os.write(self._to, _TOKEN)


class Turns:
    """Whose turn it is to write: pieces of work are numbered from 0, and each waits until those before it have ended.

    Pieces must be begun in the order of their numbers, so that the one whose turn it is is never waiting for a process.
    Several processes may work on one piece, in ranges (`TurnRelay`), which have turns of their own.
    """

    def __init__(self, cells: SharedCells) -> None:
        self._cells = cells

    def is_at(self, number: int, part: int = 0) -> bool:
        """Return whether it is the turn of a piece, or a range of it."""
        return self._cells.turn == number * _RANGES + part

    def wait(self, number: int, part: int, look: Callable[[], object]) -> None:
        """Wait for the turn of a piece, or a range of it. look: called now and then; it may raise an error.

        It looks again and again: who wakes others by a condition waits for them, for ever if one was killed.
        """
        pause_s = _LEAST_PAUSE_S
        while not self.is_at(number, part):
            look()
            _PAUSE.wait(pause_s)
            pause_s = min(1.1 * pause_s, _MOST_PAUSE_S)

    def wait_for_piece(self, number: int, look: Callable[[], object]) -> None:
        """Wait until the pieces before one have ended, as `wait` does."""
        while self._cells.turn < number * _RANGES:
            look()
            _PAUSE.wait(_MOST_PAUSE_S)

    def end(self, number: int, next_part: int | None = None) -> None:
        """End the turn of a piece, or of a range of it before the next one."""
        self._cells.turn = (number + 1) * _RANGES if next_part is None else number * _RANGES + next_part


class WorkerPlace:
    """What a process of a pool has of it: its number, the cells, and the output with the lines that wait for it."""

    here: ClassVar[WorkerPlace]
    """That of this process, where it is one of a pool."""

    def __init__(self, process: int, cells: SharedCells, token: Token, output: int) -> None:
        """output: a descriptor; -1: the work has none."""
        self.cells = cells
        self.token = token
        self.turns = Turns(cells)
        self.output = output
        self.memory = fresh_memory(_ALL_BYTES if output >= 0 else PAGESIZE, is_filled=output >= 0)
        self._process = process

    def advance(self, size_bytes: int) -> None:
        """Count bytes that were read. Raises StopWorkError if the caller no longer waits for the work."""
        if self.cells.stop == AT_ONCE:
            raise StopWorkError
        self.cells.count_read(self._process, size_bytes)


class TurnWriter:
    """A stream to the output of the pool for one piece of work, in a process of the pool: it writes when it may.

    What it gets before its turn it keeps, in memory that all pieces of the process use, up to _KEPT_BYTES; then it
    waits. So it does not wait at the end of a range, whose rows may stay there while the next one is read. What was
    written to its `room` is there already: copying it takes as long as a third of making it.
    """

    def __init__(self, number: int, place: WorkerPlace) -> None:
        """Take the number of the piece, and the place of this process, which has an output."""
        self._number = number
        self._part = 0
        self._place = place
        self._turns = place.turns
        self._descriptor = place.output
        self._memory = place.memory
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
        self._turns.wait(self._number, self._part, self._look)
        self.put_what_may()

    def wait_for_piece(self) -> None:
        """Wait until the pieces before this one have ended: its error follows their rows."""
        self._turns.wait_for_piece(self._number, self._look)

    def put_ended(self) -> None:
        """Write what is kept of the ranges that have ended, when their turn has come. Raises OSError."""
        while self._ended:
            self._turns.wait(self._number, self._ended[0][0], self._look)
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
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def _look(self) -> None:
        self._place.advance(0)


class TurnRelay:
    """What several processes need to read one piece in ranges (`logreader.Relay`); each writes the rows of its own."""

    def __init__(
        self, number: int, stream: TurnWriter, place: WorkerPlace, range_bytes: int, start: ScanPlace | None
    ) -> None:
        """Take the number of the piece, the stream of its rows and the place of this process.

        range_bytes: size of a range, at most. start: where the first range begins; None: at the start of the file.
        """
        self.range_bytes = range_bytes
        self._start = start
        self._number = number
        self._stream = stream
        self._worker = place
        self._cells = place.cells
        self._is_reading = False
        self.place: ScanPlace | None = None
        self.has_begun = self.has_read = False

    def begin(self) -> bool:
        """See Relay."""
        while not self._worker.token.acquire(_WAIT_SECONDS):
            self._stream.put_what_may()  # for which the one that reads may be waiting
            self._worker.advance(0)
        last, part, place = self._cells.relayed
        number = last - 1
        is_read = number > self._number or (number == self._number and part == _NO_RANGE)
        part, self.place = (0, self._start) if number < self._number else (part, place)
        if not is_read:
            self._wait_for_look()
        if is_read or self._cells.stop == AFTER_RANGES:
            self._worker.token.release()
            return False
        self._cells.relay(self._number + 1, part + 1)
        self._stream.begin_part(part)
        self._is_reading = self.has_begun = self.has_read = True
        return True

    def _wait_for_look(self) -> None:
        """Wait, with the token, until all was looked at that the system may read with this range."""
        start = 0 if self.place is None else self.place.position
        while self._cells.looked_to < start + self.range_bytes + AHEAD_BYTES and not self._cells.stop:
            _PAUSE.wait(_LEAST_PAUSE_S)
        self._worker.advance(0)

    def give(self, place: ScanPlace) -> None:
        """See Relay."""
        self._cells.relay_place(place)
        self._is_reading = False
        self._worker.token.release()

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
            self._cells.stop = AT_ONCE
            return
        if not self._is_reading:
            if self.has_begun:  # and the rest of its rows could not be read
                self._stream.end_part()
            self._stream.put_ended()
            return
        self._cells.relay(self._number + 1, _NO_RANGE)
        self._worker.token.release()
        self._stream.end()
