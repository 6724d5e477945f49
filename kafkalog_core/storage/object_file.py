"""Reading one object of an object store as a file: by ranges, which are requested ahead.

A range costs a round trip, so it is large: small reads are served from the range that is held. While a reader works on
one range, the next ones are on their way. The memory for that is bounded, whatever the size of the object is.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from io import RawIOBase
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import AccessError, NotFoundError, ObjectReplacedError
from kafkalog_core.storage.objects import answer_of, in_thread, is_past_end, open_object, store_error

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from concurrent.futures import Future

__all__ = ["AHEAD_RANGES", "RANGE_BYTES", "ObjectFile"]

RANGE_BYTES: Final = 4 * 1024 * 1024
"""The largest range of a request."""
AHEAD_RANGES: Final = 2
"""Ranges that are requested before they are read: an object store sends several faster than one."""
_TURNS: Final = BoundedSemaphore(AHEAD_RANGES)
"""Of all files of this process: memory is bounded also where many ranges were requested that nobody reads."""
_LARGE_BYTES: Final = 1024 * 1024
"""A read of this size is one of many: of all that follows."""
_FIRST_BYTES: Final = 128 * 1024
"""The range for a small read: most companion files have no more."""


class ObjectFile(RawIOBase):
    """One object that is open. Each range is of the object of that name now; `require_same` checks that it is the same.

    Args:
        path: of the object.
        count: called with the bytes of each range that is taken; None: nobody counts them.

    Raises NotFoundError or AccessError.
    """

    def __init__(self, path: str, count: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._path = path
        self._count = count
        self._object = open_object(path)
        self._size_bytes = self._object.status.st_size
        self._held = memoryview(self._object.content or b"")
        self._held_at = 0
        self._next_bytes = _FIRST_BYTES
        self._ahead: deque[tuple[int, int, Future[memoryview]]] = deque()  # position, size, in the order of the object

    @property
    def status(self) -> os.stat_result:
        """The status of the object as it was opened."""
        return self._object.status

    def close(self) -> None:
        """Close it, and free the memory."""
        self._drop_ahead()
        self._held = memoryview(b"")
        super().close()

    def is_replaced(self) -> bool:
        """Ask the object store whether another object has the name now, or none. Raises AccessError."""
        try:
            return open_object(self._path, again=True).identity != self._object.identity
        except NotFoundError:
            return True

    def require_same(self) -> None:
        """Raise ObjectReplacedError if another object may have given some of the ranges; AccessError.

        One range is of one object. After several, the object store is asked once: pyarrow's client cannot request a
        range on the condition that the object is the same (If-Match).
        """
        if self._object.ranges > 1:
            self.require_unreplaced()

    def require_unreplaced(self) -> None:
        """Raise ObjectReplacedError if another object has the name now, or none; AccessError.

        The object store is not asked again until another range was taken.
        """
        taken = self._object.ranges
        if taken and self._object.checked_ranges == taken:
            return
        if self.is_replaced():
            raise ObjectReplacedError(
                "it was replaced or deleted while it was read: rows of two objects may be mixed; run the command again",
                path=self._path,
            )
        self._object.checked_ranges = taken

    def read_to(self, target: memoryview, position: int, wanted_to: int) -> int:
        """Read bytes from a position on, and return their number: 0 only at the end of the object.

        Args:
            target: where to; it may be filled in part.
            position: of the first byte.
            wanted_to: where reading will end; nothing after it is read ahead.

        Raises AccessError, StoreLostError.
        """
        start = position - self._held_at
        if not 0 <= start < len(self._held):
            if position >= self._size_bytes:
                return 0
            self._take(position, len(target), min(wanted_to, self._size_bytes))
            start = position - self._held_at
        part = self._held[start : start + len(target)]
        target[: len(part)] = part
        return len(part)

    def _take(self, position: int, wanted_bytes: int, end: int) -> None:
        """Hold the range with the byte at a position: one that is on its way, or a new one."""
        while self._ahead and self._ahead[0][0] <= position:
            begin, size_bytes, future = self._ahead.popleft()
            if position < begin + size_bytes:
                # The next ranges are requested before this one is used: the round trips overlap.
                self._hold(begin, answer_of(future.result))
                self._request_ahead(begin + size_bytes, end)
                return
            future.cancel()
        self._drop_ahead()
        self._next_bytes = self._range_bytes(position, wanted_bytes)
        # Its memory is free for the next one
        self._held = memoryview(b"")
        # A small object is fetched whole: its parts would cost a round trip each.
        if self._size_bytes <= _FIRST_BYTES:
            position, size_bytes = 0, self._size_bytes
        else:
            size_bytes = min(max(wanted_bytes, self._room(position, end)), RANGE_BYTES, self._size_bytes - position)
        # Only for a reader that reads forwards: a look-up would request what it never reads.
        if self._next_bytes == RANGE_BYTES:
            self._request_ahead(position + size_bytes, end)
        self._hold(position, self._fetch(position, size_bytes))

    def _range_bytes(self, position: int, wanted_bytes: int) -> int:
        """Return the size of the next range: it grows while a reader reads forwards."""
        gap = position - (self._held_at + len(self._held))
        if wanted_bytes >= _LARGE_BYTES:
            return RANGE_BYTES
        # A small gap is a reader that skips, not one that jumps.
        if self._held and 0 <= gap < self._next_bytes:
            return min(RANGE_BYTES, 2 * self._next_bytes)
        return _FIRST_BYTES

    def _room(self, position: int, end: int) -> int:
        """Return how many bytes to request from a position on: no more than will be read."""
        return min(self._next_bytes, max(0, end - position))

    def _hold(self, position: int, data: memoryview) -> None:
        self._held, self._held_at = data, position
        self._object.ranges += 1
        if len(data) == self._size_bytes <= _FIRST_BYTES:
            self._object.content = bytes(data)
        if self._count is not None:
            self._count(len(data))

    def _request_ahead(self, position: int, end: int) -> None:
        """Request the ranges after those that are on their way."""
        begin = self._ahead[-1][0] + self._ahead[-1][1] if self._ahead else position
        while len(self._ahead) < AHEAD_RANGES and (size_bytes := self._room(begin, end)) > 0:
            request = partial(self._fetch, begin, size_bytes)
            self._ahead.append((begin, size_bytes, in_thread(request, _TURNS)))
            begin += size_bytes

    def _drop_ahead(self) -> None:
        """Leave the ranges that nobody reads: a request that has begun ends in its thread."""
        # The last one first: it is the least likely to have begun.
        while self._ahead:
            self._ahead.pop()[-1].cancel()

    def _fetch(self, position: int, size_bytes: int) -> memoryview:
        """Return the bytes of a range, fewer if another, shorter object has the name now.

        Raises AccessError also for an object that was deleted after it was opened.
        """
        # The client writes the answer into this memory, and if that is a refusal, it reads what the store says from
        # all of it: zeros end that text, whereas in memory that was used before it often finds none.
        answer = bytearray(size_bytes)
        try:
            length = answer_of(lambda: self._object.file.get_stream(position, size_bytes).readinto(answer))
            return memoryview(answer)[:length].toreadonly()
        except (OSError, ValueError) as error:
            # A shorter object has the name now; `require_same` reports it.
            if is_past_end(error):
                return memoryview(b"")
            what = f"read from byte {position} to {position + size_bytes - 1}"
            # Without its cause, as in `objects`
            refused = store_error(self._path, error, what)
            # Which callers take for a file that was never opened
            if isinstance(refused, NotFoundError):
                text = f"the object was deleted while it was read: the bytes from {position} on were not read"
                raise AccessError(text, path=self._path) from None
            raise refused from None
