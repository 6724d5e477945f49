"""Runs a command in this process with real file descriptors as its output: a pseudo-terminal, or a pipe."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios
import threading
import tty
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

__all__ = ["Ended", "run"]

VARIABLES = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PYTHONUNBUFFERED")
ROWS = 40


class Ended(NamedTuple):
    """What a command left behind: its exit status, and what it wrote."""

    status: int
    stdout: str
    stderr: str


class _Channel:
    """One descriptor to write to, and a thread that reads what comes out of it: a terminal's buffer is 4 KiB."""

    def __init__(self, width: int | None) -> None:
        if width is None:
            self._reader, self._writer = os.pipe()
        else:
            self._reader, self._writer = pty.openpty()
            tty.setraw(self._writer)  # no carriage returns of the terminal's own
            fcntl.ioctl(self._writer, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))
        self._pieces: list[bytes] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        raw = io.FileIO(self._writer, "w", closefd=True)
        is_terminal = width is not None
        self.stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", line_buffering=is_terminal)

    def _read(self) -> None:
        try:
            while piece := os.read(self._reader, 65536):
                self._pieces.append(piece)
        except OSError:  # EIO: the other end of a terminal is closed
            pass

    def close(self) -> str:
        """Everything that was written; text of another encoding would raise."""
        self.stream.close()
        self._thread.join()
        os.close(self._reader)
        return b"".join(self._pieces).decode("utf-8")


def run(
    monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], *, width: int | None = None, **environment: str
) -> Ended:
    """Run `kafkalog` with these arguments.

    Args:
        monkeypatch: of the test.
        arguments: the command line after `kafkalog`.
        width: columns of the terminal that standard output and standard error are; None: both are pipes.
        environment: TERM, NO_COLOR and the like; those that decide about colour and width are unset else.
    """
    with monkeypatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        for name, value in {"TERM": "xterm-256color", **environment}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))  # as </dev/null
        channels = [_Channel(width), _Channel(width)]
        for name, channel in zip(("stdout", "stderr"), channels, strict=True):
            patch.setattr(sys, name, channel.stream)
            patch.setattr(sys, f"__{name}__", channel.stream)  # where shutil looks for the size of the terminal
        try:
            status = _status(arguments)
        finally:
            texts = [channel.close() for channel in channels]
    return Ended(status, *texts)


def _status(arguments: Sequence[str]) -> int:
    try:
        cli.main([*arguments], prog_name="kafkalog")
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError(arguments)
