"""Reading one object of an object store as a file: by ranges, and ahead of a reader that goes forwards.

A range costs a round trip, so it is large: small reads are served from the range that is held. While a reader works on
one range, the next ones are on their way. The memory for that is bounded, whatever the size of the object is.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import RawIOBase
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError
from kafkalog_core.storage.objects import open_object, store_error
from kafkalog_core.storage.source import WINDOW_BYTES, FileChange, Source

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kafkalog_core.storage.objects import Opened

__all__ = ["AHEAD_RANGES", "RANGE_BYTES", "ObjectSource"]

RANGE_BYTES: Final = 4 * WINDOW_BYTES
"""The largest range of a request."""
AHEAD_RANGES: Final = 2
"""Ranges that are requested before they are read: an object store sends several faster than one."""
_FIRST_BYTES: Final = 128 * 1024
"""The range for a small read: most companion files have no more."""


class _Ranges(RawIOBase):
    """The open object, by ranges of bytes."""

    def __init__(self, path: str, opened: Opened) -> None:
        super().__init__()
        self._path = path
        self._file = opened.file

    def fetch(self, position: int, size_bytes: int) -> bytes:
        """Return the bytes of a range, fewer if the object has become shorter. Raises NotFoundError, AccessError."""
        try:
            return bytes(self._file.read_at(size_bytes, position))
        except (OSError, ValueError) as error:
            what = f"read from byte {position} to {position + size_bytes - 1}"
            raise store_error(self._path, error, what) from None  # as in `objects`


class ObjectSource(Source):
    """One object that is open. All bytes are those of the object that was opened, or `refresh` says otherwise."""

    def __init__(self, path: str) -> None:
        """Open it. Raises NotFoundError or AccessError."""
        self._object = open_object(path)
        self._ranges = _Ranges(path, self._object)
        super().__init__(path, self._ranges, self._object.status)
        self._held = memoryview(self._object.content or b"")
        self._held_at = 0
        self._next_bytes = _FIRST_BYTES
        self._ahead: deque[tuple[int, int, Future[bytes]]] = deque()  # position, size, in the order of the object

    def close(self) -> None:
        """Close it; windows already returned remain readable."""
        self._drop_ahead()
        self._held = memoryview(b"")
        super().close()

    def refresh(self, *, grow: bool = False) -> FileChange:
        """Compare the open object with the present one of that name: an object never changes, it is replaced."""
        del grow
        try:
            now = open_object(self.path, again=True)
        except NotFoundError:
            return FileChange.REPLACED
        return FileChange.NONE if now.identity == self._object.identity else FileChange.REPLACED

    def _pread(self, target: memoryview, position: int) -> int:
        return self._read_at(target, position)

    def _read_ahead(self, position: int) -> None:
        """Do nothing: `_take` reads ahead."""

    def _read_at(self, target: memoryview, position: int) -> int:
        start = position - self._held_at
        if not 0 <= start < len(self._held):
            if position >= self.size_bytes:
                return 0
            self._take(position, len(target))
            start = position - self._held_at
        part = self._held[start : start + len(target)]
        target[: len(part)] = part
        return len(part)

    def _take(self, position: int, wanted_bytes: int) -> None:
        """Hold the range with the byte at a position: one that is on its way, or a new one."""
        while self._ahead:
            begin, size_bytes, future = self._ahead[0]
            if not begin <= position < begin + size_bytes:
                if position < begin:
                    break
                self._ahead.popleft()[-1].cancel()
                continue
            self._ahead.popleft()
            self._hold(begin, future.result())
            self._request_ahead(begin + size_bytes)
            return
        self._drop_ahead()
        gap = position - (self._held_at + len(self._held))
        if wanted_bytes >= WINDOW_BYTES:
            self._next_bytes = RANGE_BYTES
        elif 0 <= gap < self._next_bytes and self._held:
            self._next_bytes = min(RANGE_BYTES, 2 * self._next_bytes)
        else:
            self._next_bytes = _FIRST_BYTES
        self._held = memoryview(b"")  # its memory is free for the next one
        if self.size_bytes <= _FIRST_BYTES:
            position, size_bytes = 0, self.size_bytes
        else:
            size_bytes = min(max(wanted_bytes, self._room(position)), RANGE_BYTES, self.size_bytes - position)
        if self._next_bytes == RANGE_BYTES:
            self._request_ahead(position + size_bytes)
        self._hold(position, self._ranges.fetch(position, size_bytes))

    def _room(self, position: int) -> int:
        """Return how many bytes to request from a position on: no more than will be read."""
        return min(self._next_bytes, max(0, min(self.wanted_to, self.size_bytes) - position))

    def _hold(self, position: int, data: bytes) -> None:
        self._held, self._held_at = memoryview(data), position
        if len(data) == self.size_bytes <= _FIRST_BYTES:
            self._object.content = data
        if self._limit is not None:
            self._limit.count(len(data))

    def _request_ahead(self, position: int) -> None:
        """Request the ranges after those that are on their way."""
        begin = self._ahead[-1][0] + self._ahead[-1][1] if self._ahead else position
        while len(self._ahead) < AHEAD_RANGES and (size_bytes := self._room(begin)) > 0:
            self._ahead.append((begin, size_bytes, _threads().submit(self._ranges.fetch, begin, size_bytes)))
            begin += size_bytes

    def _drop_ahead(self) -> None:
        """Leave the ranges that nobody reads: a request that has begun ends in its thread."""
        while self._ahead:
            self._ahead.pop()[-1].cancel()


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    """Return the threads of this process that wait for the object store."""
    return ThreadPoolExecutor(AHEAD_RANGES, thread_name_prefix="kafkalog-ahead")
