"""Several processes write to one output in turn: their rows keep their order, and nobody waits without need."""

from __future__ import annotations

import os
from mmap import mmap
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from kafkalog_core.engine.turns import (
    AFTER_RANGES,
    AT_ONCE,
    SharedCells,
    StopWorkError,
    Token,
    TurnRelay,
    Turns,
    TurnWriter,
    WorkerPlace,
)

from kafkalog_core.storage.page_cache import AHEAD_BYTES
from kafkalog_core.storage.scan import ScanPlace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live


class Output:
    """A file, and streams to it for pieces of work, each as in a process of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        self._cells = SharedCells(mmap(-1, SharedCells.size_bytes(1)))
        self._ends = os.pipe()
        Token(self._ends).release()
        self.turns = Turns(self._cells)

    def place(self) -> WorkerPlace:
        return WorkerPlace(0, self._cells, Token(self._ends), self.descriptor)

    def stop(self, when: int) -> None:
        self._cells.stop = when

    def look_to(self, end: int) -> None:
        self._cells.looked_to = end

    def stream(self, number: int) -> TurnWriter:
        return TurnWriter(number, self.place())

    def relay(self, number: int) -> tuple[TurnRelay, TurnWriter]:
        place = self.place()
        stream = TurnWriter(number, place)
        return TurnRelay(number, stream, place, 100, None), stream

    def close(self) -> None:
        for descriptor in (self.descriptor, *self._ends):
            os.close(descriptor)

    def text(self) -> bytes:
        return self._path.read_bytes()


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Output]:
    found = Output(tmp_path / "output")
    yield found
    found.close()


def test_pieces_are_written_in_their_order(output: Output) -> None:
    first, second = output.stream(0), output.stream(1)
    second.write(b"3 ")
    room = second.room()
    room[:2] = b"4 "
    second.write(room[:2])
    first.write(b"1 ")
    assert output.text() == b"1 "
    first.write(b"2 ")
    first.end()
    assert output.text() == b"1 2 "
    second.write(b"5 ")
    assert output.text() == b"1 2 3 4 5 "
    second.end()
    assert output.turns.is_at(2)


def test_a_reader_of_ranges_goes_on_while_another_one_is_behind(output: Output) -> None:
    """It keeps the rows of three ranges; of the next piece too, nothing is written too early."""
    (slow, of_slow), (fast, of_fast), after = output.relay(0), output.relay(0), output.stream(1)
    with slow, fast:
        assert slow.begin()
        assert slow.place is None
        slow.give(ScanPlace(100, 9, 7))
        for number in range(3):
            assert fast.begin()
            assert fast.place == (100 * (number + 1), 9 + number, 7)
            fast.give(ScanPlace(100 * (number + 2), 10 + number, 7))
            of_fast.write(b"%d " % (number + 2))
            fast.end()
        after.write(b"6")
        assert output.text() == b""
        of_slow.write(b"1 ")
        slow.end()
        assert output.text() == b"1 "
        assert fast.begin()
        of_fast.write(b"5 ")
        assert output.text() == b"1 2 3 4 5 "
    assert not slow.begin()
    after.end()
    assert output.text() == b"1 2 3 4 5 6"


def test_rows_that_wait_are_written_by_one_that_waits_for_a_range(output: Output) -> None:
    """The other reader may hold the place, because something is wrong there, and itself wait for them to be written."""
    (first, of_first), (second, of_second) = output.relay(0), output.relay(0)
    assert first.begin()
    first.give(ScanPlace(100, 9, 7))
    with second:
        assert second.begin()
        second.give(ScanPlace(200, 19, 7))
        of_second.write(b"2 ")
        second.end()
        of_first.write(b"1 ")
        first.end()
        assert first.begin()
        of_first.write(b"3 ")
        assert output.text() == b"1 "
        reading = Thread(target=second.begin)
        reading.start()
        of_first.put()
        assert output.text() == b"1 2 3 "
        first.give(ScanPlace(300, 29, 7))
        reading.join()
        first.end()
        of_second.write(b"4")
    assert output.text() == b"1 2 3 4"


def test_the_rest_of_a_range_that_cannot_be_read(output: Output) -> None:
    """Its rows are written, and those of the next one."""
    (first, of_first), (second, of_second) = output.relay(0), output.relay(0)
    with first:
        assert first.begin()
        first.give(ScanPlace(100, 9, 7))
        of_first.write(b"1 ")
    with second:
        assert second.begin()
        of_second.write(b"2")
    assert output.text() == b"1 2"
    assert output.turns.is_at(1)


def test_nobody_reads_what_was_not_looked_at(output: Output) -> None:
    """Nor what the system reads ahead of it; where nobody looks, nobody waits."""
    (first, of_first), (second, of_second) = output.relay(0), output.relay(0)
    with first, second:
        output.look_to(AHEAD_BYTES + 100)
        assert first.begin()
        first.give(ScanPlace(100, 9, 7))
        of_first.write(b"1 ")
        first.end()
        reading = Thread(target=second.begin)
        reading.start()
        reading.join(0.05)
        assert reading.is_alive()
        output.look_to(AHEAD_BYTES + 199)
        reading.join(0.05)
        assert reading.is_alive()
        output.look_to(AHEAD_BYTES + 200)
        reading.join()
        of_second.write(b"2")
    assert output.text() == b"1 2"


def test_a_stop_ends_waiting_for_a_look(output: Output) -> None:
    """And the next one does not wait for ever for the place of which the range was not begun."""
    (first, _), (second, _) = output.relay(0), output.relay(0)
    output.look_to(1)
    output.stop(AFTER_RANGES)
    assert not first.begin()
    assert not second.begin()
    output.stop(AT_ONCE)
    with pytest.raises(StopWorkError):
        first.begin()


def test_a_stop_at_once_is_not_taken_back() -> None:
    """By a wish to stop later, of a process that does not know of it yet."""
    cells = SharedCells(mmap(-1, SharedCells.size_bytes(1)))
    assert not cells.stop
    cells.stop = AFTER_RANGES
    assert cells.stop == AFTER_RANGES
    cells.stop = AT_ONCE
    cells.stop = AFTER_RANGES
    assert cells.stop == AT_ONCE
    assert (cells.turn, cells.read_bytes) == (0, 0)
