"""JSON output: one object a line, or one array. Chunks write their own lines, so no row is touched here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkalog_core import tables
from kafkalog_core.ops.reading.rows import json_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_cli.render.writer import Settings
    from kafkalog_core.ops.reading.rows import Chunk

__all__ = ["JsonWriter", "NdjsonWriter"]


class NdjsonWriter:
    """JSON lines, straight to the file behind standard output."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stream = sys.stdout.buffer

    def write(self, chunk: Chunk) -> None:
        """Write the chunk's lines as they are."""
        for part in chunk.parts(self._settings.bytes_mode):
            self._stream.write(part)
        if self._settings.live:
            self._stream.flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary as the last line."""
        self._stream.write(json_line(tables.SUMMARY, summary, self._settings.bytes_mode))
        self._stream.flush()


class JsonWriter:
    """One JSON array of all rows, an element a line, written as the rows come."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stream = sys.stdout.buffer
        self._opening = b"[\n"

    def write(self, chunk: Chunk) -> None:
        """Write the chunk's lines, each with a comma: the summary always follows. A newline is never inside a line."""
        self._open()
        for part in chunk.parts(self._settings.bytes_mode):
            self._stream.write(bytes(part).replace(b"\n", b",\n"))
        if self._settings.live:
            self._stream.flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary as the last element, and close the array."""
        self._open()
        self._stream.write(json_line(tables.SUMMARY, summary, self._settings.bytes_mode) + b"]\n")
        self._stream.flush()

    def _open(self) -> None:
        """Begin the array before its first element: an error before that leaves nothing."""
        self._stream.write(self._opening)
        self._opening = b""
