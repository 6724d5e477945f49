"""Standard output and standard error of this process, whose readers may go before the work is done.

`kafkalog verify DIR | head -1` must end with the exit status of the whole check, and `--apply` must not stop in the
middle because nobody reads its report. So both streams take what is written after their reader has gone, or when the
disk of a redirection is full, which is reported once the work is done. Only a command that streams rows stops then:
`ends_with_reader`. Its exit status must not depend on when exactly the reader went, as far as that is possible: nothing
is written before there is as much as a pipe holds, or all of the result, so that all of this counts in any case.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "PIPE_BYTES",
    "ReaderGoneError",
    "check_output",
    "drop_output",
    "ends_with_reader",
    "has_reader",
    "open_streams",
    "stream_of",
]

PIPE_BYTES: Final = 64 * 1024
"""What a pipe of Linux holds while nobody reads it (pipe(7)). A buffer of this size is written at once."""


class ReaderGoneError(BrokenPipeError):
    """The reader of standard output has gone. Other broken pipes are those of processes that do some of the work."""


class _Outlet(io.FileIO):
    """The end of a stream. It takes everything once its reader has gone, or raises ReaderGoneError if `is_strict`."""

    is_strict = False
    has_reader = True
    failure: OSError | None = None
    """Why what was written later was dropped, though there is a reader: a full disk."""
    taken: Callable[[], object] | None = None
    """Called whenever the file has taken what was written."""

    def write(self, data: object, /) -> int | None:  # type: ignore[override]
        """Write bytes, or drop them."""
        size_bytes = memoryview(data).nbytes  # type: ignore[arg-type]
        if not self.has_reader:
            return size_bytes
        try:
            written = super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError as error:
            if self.is_strict:
                raise ReaderGoneError(*error.args) from error
            self.has_reader = False
            return size_bytes
        except OSError as error:
            if self.is_strict:
                raise
            self.has_reader, self.failure = False, error
            return size_bytes
        if self.taken is not None:
            self.taken()
        return written


def check_output() -> None:
    """Raise the OSError for which standard output was not written as a whole, after the work has been done."""
    outlet = _outlet_of(sys.stdout)
    if outlet is not None and outlet.failure is not None:
        failure, outlet.failure = outlet.failure, None
        raise failure


def open_streams() -> None:
    """Put an outlet below standard output and standard error, where they are files of this process.

    Both are buffered, also under PYTHONUNBUFFERED: a signal could interrupt a write in the middle of a line there.
    """
    sys.stdout = _with_outlet(sys.stdout)
    sys.stderr = _with_outlet(sys.stderr)


def _with_outlet(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):  # closed by the caller, or replaced
        return stream
    buffer = stream.buffer
    if not isinstance(getattr(buffer, "raw", buffer), io.FileIO):
        return stream
    is_by_line = stream.line_buffering or isinstance(buffer, io.RawIOBase)
    return stream_of(stream.fileno(), stream.encoding, stream.errors, is_by_line=is_by_line)


def stream_of(descriptor: int, encoding: str, errors: str | None, *, is_by_line: bool = False) -> io.TextIOWrapper:
    """Return a stream to an open file, which it leaves open; the work goes on if the file takes nothing more."""
    size_bytes = io.DEFAULT_BUFFER_SIZE if os.isatty(descriptor) else PIPE_BYTES
    outlet = io.BufferedWriter(_Outlet(descriptor, "w", closefd=False), size_bytes)
    return io.TextIOWrapper(outlet, encoding=encoding, errors=errors, line_buffering=is_by_line)


@contextmanager
def ends_with_reader(taken: Callable[[], object] | None = None) -> Iterator[None]:
    """End the body, without an error, when the reader of standard output has gone; then `has_reader` is false.

    `taken`: called whenever standard output has taken what was written.
    """
    outlet = _outlet_of(sys.stdout)
    if outlet is not None:
        outlet.is_strict, outlet.taken = True, taken
    try:
        yield
        sys.stdout.flush()
    except ReaderGoneError:
        drop_output()
    finally:
        if outlet is not None:
            outlet.is_strict, outlet.taken = False, None


def has_reader() -> bool:
    """Return whether standard output has taken everything so far."""
    outlet = _outlet_of(sys.stdout)
    return outlet is None or outlet.has_reader


def drop_output() -> None:
    """Drop what standard output still holds, and everything that is written to it from now on: it cannot be written."""
    outlet = _outlet_of(sys.stdout)
    if outlet is not None:
        outlet.has_reader = False


def _outlet_of(stream: TextIO) -> _Outlet | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Outlet) else None
