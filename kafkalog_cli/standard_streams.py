"""Standard output and standard error of this process, whose readers may go before the work is done.

`kafkalog verify DIR | head -1` must end with the exit status of the whole check, and `--apply` must not stop in the
middle because nobody reads its report. So both streams take what is written after their reader has gone, or when the
disk of a redirection is full, which is reported once the work is done. Only a command that streams rows stops then:
`ends_with_reader`.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ReaderGoneError", "check_output", "drop_output", "ends_with_reader", "open_streams", "stream_of"]


class ReaderGoneError(BrokenPipeError):
    """The reader of standard output has gone. Other broken pipes are those of processes that do some of the work."""


class _Outlet(io.FileIO):
    """The end of a stream. It takes everything once its reader has gone, or raises ReaderGoneError if `is_strict`."""

    is_strict = False
    has_reader = True
    failure: OSError | None = None
    """Why what was written later was dropped, though there is a reader: a full disk."""

    def write(self, data: object, /) -> int | None:  # type: ignore[override]
        """Write bytes, or drop them."""
        size_bytes = memoryview(data).nbytes  # type: ignore[arg-type]
        if not self.has_reader:
            return size_bytes
        try:
            return super().write(data)  # type: ignore[arg-type]
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
    outlet = io.BufferedWriter(_Outlet(descriptor, "w", closefd=False))
    return io.TextIOWrapper(outlet, encoding=encoding, errors=errors, line_buffering=is_by_line)


@contextmanager
def ends_with_reader() -> Iterator[None]:
    """End the body, without an error, when the reader of standard output has gone."""
    outlet = _outlet_of(sys.stdout)
    if outlet is not None:
        outlet.is_strict = True
    try:
        yield
        sys.stdout.flush()
    except ReaderGoneError:
        drop_output()
    finally:
        if outlet is not None:
            outlet.is_strict = False


def drop_output() -> None:
    """Drop what standard output still holds, and everything that is written to it from now on: it cannot be written."""
    outlet = _outlet_of(sys.stdout)
    if outlet is not None:
        outlet.has_reader = False


def _outlet_of(stream: TextIO) -> _Outlet | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Outlet) else None
