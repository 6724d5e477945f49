"""Lines for a stream that nobody reads: no thread waits for it, and what was left out is counted."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from kafkalog_cli.line_writer import LineWriter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

SECONDS = 10
BAD_LENGTH = bytes(4)
PIPE_BYTES = 65_536


class Stream:
    """A stream that takes as many lines as it was allowed to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._allowed = threading.Semaphore(0)
        self._entered = threading.Semaphore(0)

    def allow(self, lines: int) -> None:
        self._allowed.release(lines)

    def wait_for_writers(self, number: int) -> None:
        for _ in range(number):
            assert self._entered.acquire(timeout=SECONDS)

    def write(self, line: str) -> None:
        self._entered.release()
        assert self._allowed.acquire(timeout=SECONDS)
        self.lines.append(line)


def writer_of(stream: Stream, max_characters: int = 30) -> LineWriter:
    return LineWriter(stream.write, lambda number: f"{number} dropped", max_characters=max_characters)


def test_lines_keep_their_order() -> None:
    stream = Stream()
    stream.allow(100)
    writer = writer_of(stream, 10_000)
    assert all(writer.write(str(number)) for number in range(100))
    assert writer.close(SECONDS)
    assert stream.lines == [str(number) for number in range(100)]


def test_lines_beyond_the_bound_are_counted_and_reported_in_their_place() -> None:
    stream = Stream()
    writer = writer_of(stream)
    writer.write("first")
    stream.wait_for_writers(1)  # the thread waits for the stream: the queue is empty again
    assert [writer.write(f"line {number:5}") for number in range(5)] == [True, True, True, False, False]
    stream.allow(1)
    stream.wait_for_writers(1)  # the thread has taken the first of the three
    assert writer.write("after")
    stream.allow(100)
    assert writer.close(SECONDS)
    assert stream.lines == ["first", "line     0", "line     1", "line     2", "2 dropped", "after"]


def test_the_count_is_reported_without_a_later_line() -> None:
    stream = Stream()
    writer = writer_of(stream, 5)
    writer.write("first")
    stream.wait_for_writers(1)
    assert not writer.write("too long")
    stream.allow(100)
    assert writer.close(SECONDS)
    assert stream.lines == ["first", "1 dropped"]


def test_a_stream_that_is_never_read_does_not_hold_up_the_end() -> None:
    stream = Stream()
    writer = writer_of(stream)
    writer.write("first")
    assert not writer.close(0.01)
    assert not writer.write("later")
    stream.allow(100)
    assert writer.close(SECONDS)


def test_a_stream_that_fails_does_not_end_the_thread() -> None:
    lines: list[str] = []

    def write(line: str) -> None:
        if line == "bad":
            raise BrokenPipeError
        lines.append(line)

    writer = LineWriter(write, str)
    for line in ("one", "bad", "two"):
        writer.write(line)
    assert writer.close(SECONDS)
    assert lines == ["one", "two"]


def test_a_broker_serves_while_nobody_reads_its_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkalog_cli", "serve", "--read-write", str(tmp_path)]
    command += ["--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        connections = 2 * PIPE_BYTES // len("kafkalog: closed the connection of 127.0.0.1:50000: its frame ...")
        for _ in range(connections):  # each is refused with a line: the pipe is full long before the last one
            with socket.create_connection(("127.0.0.1", port), SECONDS) as refused:
                refused.sendall(BAD_LENGTH)
                assert refused.recv(1) == b""
        process.terminate()
        assert process.wait(SECONDS) == 0  # and it ends, although its last lines are still in the queue
        assert process.stderr is not None
        assert "its frame has an invalid length" in process.stderr.read()
