"""The live table of `kafkalog serve`: what it shows, and what a terminal shows while it comes and goes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkalog_cli.render.serve_table import ServeFigures, frame
from kafkalog_core.serve.metrics.status import GroupStatus
from kafkalog_core.serve.topics.traffic import TopicTraffic

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
DAMAGED = ROOT / "fixtures" / "damaged"
SECONDS = 60


# --- a frame ----------------------------------------------------------------------------------------------------------
def figures(time_s: float, factor: int, *, topics: int = 12, groups: int = 8, holes: int | None = 2) -> ServeFigures:
    traffic = {f"orders-{each}": TopicTraffic(1024 * factor * each, 1, 50 * factor, 2048 * factor * each, 1)
               for each in range(topics)}  # fmt: skip
    shown = [GroupStatus(f"billing-{each}", "Stable", "classic", 2) for each in range(groups)]
    lags = {each.name: 1000 for each in shown[1:]}
    return ServeFigures(time_s, 3, 500 * factor, 0, 1 << 20, traffic, shown, lags, groups and groups + 4, holes)


def test_rates_are_those_of_the_last_seconds() -> None:
    lines = [each.plain for each in frame("title", [figures(10, 1), figures(15, 2)], ["log line"], 100, 40)]
    assert lines[:3] == ["title", "connections 3   requests 100/s   in 0 B/s   out 0 B/s   holes 2", ""]
    assert lines[3].split() == ["Topic", "Out", "Out", "total"]
    assert re.match(r"orders-11 +4\.4 KiB/s +44\.0 KiB$", lines[4])
    assert "and 4 more topics" in lines
    assert any(re.match(r"billing-0 +Stable +2 +-$", line) for line in lines), lines
    assert any(re.match(r"billing-1 +Stable +2 +1,000$", line) for line in lines), lines
    assert lines[-3:] == ["and 4 more groups", "", "log line"]
    lines = [each.plain for each in frame("title", [figures(9, 1, holes=None), figures(14, 2, holes=None)], [], 99, 40)]
    assert "holes" not in lines[1]
    assert re.match(r"orders-11 +2\.2 KiB/s +4\.4 KiB/s +10/s +22\.0 KiB +44\.0 KiB$", lines[4])


@pytest.mark.parametrize("topics", [0, 1, 3, 12])
@pytest.mark.parametrize("groups", [0, 1, 8])
@pytest.mark.parametrize("width", [1, 12, 40, 80, 200])
def test_a_frame_fits_the_terminal(width: int, groups: int, topics: int) -> None:
    both = [figures(0, 1, topics=topics, groups=groups), figures(5, 3, topics=topics, groups=groups)]
    for height in range(60):
        lines = frame("kafkalog serve, read-only", both, ["a line of the log " * 9] * 5, width, height)
        assert len(lines) <= height
        assert all(line.cell_len <= width for line in lines), [line.plain for line in lines]
    assert sum(line.plain.startswith("orders-") for line in lines) == (min(topics, 8) if width > 1 else 0)


# --- on a terminal ----------------------------------------------------------------------------------------------------
class Screen:
    """What a terminal shows after some bytes, with its scrollback; it wraps its rows again when it becomes narrower."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = [""]
        self.row = self.column = 0

    def feed(self, text: str) -> None:
        for each in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|[^\x1b]", text):
            if len(each) > 1:
                self._control(each[2:-1], each[-1])
            elif each == "\r":
                self.column = 0
            elif each == "\n":
                self.row, self.column = self.row + 1, 0
                self.rows += [""] * (self.row + 1 - len(self.rows))
            else:
                self._put(each)

    def _put(self, char: str) -> None:
        if self.column == self.width:
            self.feed("\n")
        row = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = row[: self.column] + char + row[self.column + 1 :]
        self.column += 1

    def _control(self, number: str, letter: str) -> None:
        if letter == "A":
            self.row -= int(number)
            assert self.row >= 0
        elif letter in "JK":
            self.rows[self.row] = self.rows[self.row][: self.column]
            if letter == "J":
                del self.rows[self.row + 1 :]
        else:
            assert letter == "m", (number, letter)

    def resize(self, width: int) -> None:
        assert not any(self.rows[self.row + 1 :])
        del self.rows[self.row + 1 :]
        self.rows = [row[at : at + width] for row in self.rows for at in range(0, max(len(row), 1), width)]
        self.row, self.width = len(self.rows) - 1, width

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip("\n")


class Terminal:
    """`kafkalog serve` with a terminal as its stderr."""

    def __init__(self, *arguments: str, width: int = 100, job: str = "") -> None:
        self.screen = Screen(width)
        self._lock = threading.Lock()
        self._fed = threading.Event()
        self._master, slave = pty.openpty()
        self._set_size(width)
        environment = {**os.environ, "TERM": "xterm"}
        command = [sys.executable, "-m", "kafkalog_cli", "serve", "--listen", "127.0.0.1:0", *arguments]
        if job:
            command = ["setsid", "-c", "sh", "-c", job, *command]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=subprocess.PIPE, stderr=slave, cwd=ROOT, env=environment, text=True,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]

    def _set_size(self, width: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # EIO: the process has ended
                return
            with self._lock:
                self.screen.feed(piece.decode().replace("\r\n", "\n"))
                self._fed.set()

    def resize(self, width: int) -> None:
        """Change the width between two frames: one that is on its way would be for the old width, on any terminal."""
        self.wait_for_frame()
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        while self._unread():
            time.sleep(0.01)
        with self._lock:
            self._set_size(width)
            self.screen.resize(width)
        self.process.send_signal(signal.SIGCONT)

    def wait_for_frame(self) -> None:
        self._fed.clear()
        assert self._fed.wait(SECONDS), self.text()

    def _unread(self) -> int:
        count = fcntl.ioctl(self._master, termios.FIONREAD, b"\0\0\0\0")
        return int(struct.unpack("i", count)[0])

    def text(self) -> str:
        with self._lock:
            return self.screen.text

    def wait_for(self, wanted: Callable[[str], object]) -> str:
        end_s = time.monotonic() + SECONDS
        while not wanted(found := self.text()):
            assert time.monotonic() < end_s, found
            time.sleep(0.05)
        return found

    def end(self, number: signal.Signals = signal.SIGINT) -> str:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> str:
        """Wait for the end, and return all that is on the screen then."""
        assert self.process.wait(SECONDS) == 0, self.text()
        self._thread.join(SECONDS)
        os.close(self._master)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.text()

    def read_all(self, topic: str, partition: int) -> None:
        """Let a client read a partition, with the holes in it."""
        quiet: dict[str, Any] = {"log_level": 0}
        consumer = Consumer(
            {"bootstrap.servers": self.address, "group.id": "watcher", "enable.partition.eof": True, **quiet}
        )
        consumer.assign([TopicPartition(topic, partition, 0)])
        while (message := consumer.poll(SECONDS)) is not None and message.error() is None:
            pass
        consumer.close()


def test_it_comes_is_resized_and_leaves_the_lines_alone() -> None:
    terminal = Terminal(str(DAMAGED))
    terminal.wait_for(lambda text: "kafkalog serve, read-only, broker" in text and "connections" in text)
    terminal.read_all("orders", 0)
    found = terminal.wait_for(lambda text: re.search(r"^Topic .*\n^orders ", text, re.MULTILINE) and "hole: " in text)
    assert re.search(r"holes [1-9]", found), found
    for width in (150, 40, 20, 90):
        terminal.resize(width)
        terminal.wait_for_frame()
        terminal.wait_for(lambda text: text.count("connections") == text.count("kafkalog serve, r") == 1)
    found = terminal.end()
    lines = found.splitlines()
    assert not any(word in found for word in ("connections", "Topic", "serve, read-only")), found
    assert lines[0].startswith("kafkalog: ")
    assert lines[-1].startswith("kafkalog: stopped after ")
    assert "hole: " in found


def test_no_table_is_wanted() -> None:
    terminal = Terminal("--no-table", str(DAMAGED))
    time.sleep(1.5)
    assert "connections" not in terminal.text()
    assert terminal.end(signal.SIGTERM).splitlines()[-1].startswith("kafkalog: stopped after ")


def test_a_terminal_that_takes_nothing_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """As after Ctrl-S: nobody reads the other end."""
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    command = [sys.executable, "-m", "kafkalog_cli", "serve", "--listen", "127.0.0.1:0", "--read-write", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=slave, stdout=subprocess.PIPE, stderr=slave, cwd=ROOT, env={**os.environ, "TERM": "xterm"}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"serving ")
        termios.tcflow(slave, termios.TCOOFF)
        time.sleep(2.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0  # it would wait for ever for its reader
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    os.close(slave)
    os.close(master)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="no setsid")
def test_a_background_job_does_not_draw() -> None:
    terminal = Terminal("--for", "4", str(DAMAGED), job='set -m; "$0" "$@" & wait')
    terminal.read_all("orders", 0)
    terminal.wait_for(lambda text: "stopped after" in text)
    assert "connections" not in terminal.text()
    assert "hole: " in terminal.ended()
