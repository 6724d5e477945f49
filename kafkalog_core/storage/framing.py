"""How entries follow each other in a log file: the walk, the size of one entry, and the search for the next one.

There are two framings: that of `.log` files (magic 0, 1 and 2 share an envelope) and that of Kafka 0.7's `.kafka`
files.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core import kernels
from kafkalog_core.format import layout
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.layout import DISK_BLOCK_BYTES
from kafkalog_core.kernels import constants
from kafkalog_core.kernels.constants import CHECKED_PER_BYTE, FREE_CHECKS, SIZE_CLASSES
from kafkalog_core.storage.source import WINDOW_BYTES, UnreadableError

if TYPE_CHECKING:
    from kafkalog_core.storage.source import Source

__all__ = ["SMALL_WINDOW_BYTES", "EntrySearch", "Framing", "LogFraming", "V07Framing", "count_zeros", "used_bytes"]


# A search must pay a checksum for each candidate; 0.7 refused messages over 1,000,000 bytes (max.message.size).
V07_SEARCH_MAX_BYTES: Final = 4 * 1024 * 1024
# Offsets of one segment span less than 2^31; segments of old releases could pass that, so the bound is generous.
SEARCH_OFFSET_SPAN: Final = 2**40


class Framing(Protocol):
    """The properties of a file format that a scan needs."""

    header_bytes: int
    """Number of bytes from which the size of an entry can be read."""
    min_entry_bytes: int
    """Smallest valid size of an entry, whatever its magic."""

    def walk(
        self,
        memory: memoryview,
        position: int,
        previous_offset: int,
        max_bytes: int,
        *,
        check: bool,
        into: BatchColumns,
    ) -> tuple[int, int]:
        """Walk whole entries in `memory`, which starts at file position `position`; see `kernels.walk`."""

    def walk_state(self) -> array[int] | None:
        """Return a new state for `kernels.walk_over`; `None`: there is no walk over damage."""

    def entry_bytes(self, header: memoryview) -> int:
        """Return the size of the entry that starts with `header`, as its length field declares it."""

    def candidate(self, memory: memoryview, begin: int, rest: int, max_bytes: int) -> int:
        """Return the first place in `memory[begin:]` where an entry could start that ends by `memory[rest]`, or -1."""


class LogFraming:
    """The framing of magic 0, 1 and 2; `base_offset` is the number in the file name.

    It is only an upper bound for a search: a file that was renamed holds lower offsets, and the offsets read before the
    damage may be wrong themselves.
    """

    header_bytes = layout.HEADER_SIZE_UP_TO_MAGIC
    min_entry_bytes = layout.LOG_OVERHEAD + layout.MIN_ENTRY_SIZE

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._high = min(base_offset + SEARCH_OFFSET_SPAN, layout.MAX_INT64)

    def walk(
        self,
        memory: memoryview,
        position: int,
        previous_offset: int,
        max_bytes: int,
        *,
        check: bool,
        into: BatchColumns,
    ) -> tuple[int, int]:
        """See Framing."""
        return kernels.walk(memory, 0, len(memory), position, previous_offset, max_bytes, check, into)

    def walk_state(self) -> array[int]:
        """See Framing."""
        state = array("q", bytes(8 * constants.W_SIZE))
        state[constants.W_HIGH] = self._high
        return state

    def entry_bytes(self, header: memoryview) -> int:
        """See Framing."""
        at = layout.ENVELOPE.at("size")  # as `FileLogInputStream.nextBatch` reads it
        return layout.LOG_OVERHEAD + int.from_bytes(header[at : at + 4], "big", signed=True)

    def candidate(self, memory: memoryview, begin: int, rest: int, max_bytes: int) -> int:
        """See Framing."""
        return kernels.find_candidate(memory, begin, rest, 0, self._high, max_bytes)


class V07Framing:
    """The framing of Kafka 0.7: an address is `base_address`, the number in the file name, plus the position."""

    header_bytes = layout.V07_LENGTH_SIZE + 1
    min_entry_bytes = layout.V07_LENGTH_SIZE + layout.V07_MIN_LENGTH

    def __init__(self, base_address: int) -> None:
        self.base_address = base_address

    def walk(
        self,
        memory: memoryview,
        position: int,
        previous_offset: int,
        max_bytes: int,
        *,
        check: bool,
        into: BatchColumns,
    ) -> tuple[int, int]:
        """See Framing."""
        del previous_offset  # addresses are positions: they cannot go back
        return kernels.walk_v07(memory, 0, len(memory), position, self.base_address, max_bytes, check, into)

    def walk_state(self) -> None:
        """See Framing."""
        return

    def entry_bytes(self, header: memoryview) -> int:
        """See Framing."""
        return layout.V07_LENGTH_SIZE + int.from_bytes(header[: layout.V07_LENGTH_SIZE], "big", signed=True)

    def candidate(self, memory: memoryview, begin: int, rest: int, max_bytes: int) -> int:
        """See Framing."""
        return kernels.find_candidate_v07(memory, begin, rest, min(max_bytes, V07_SEARCH_MAX_BYTES))


SMALL_WINDOW_BYTES: Final = 64 * 1024
_WIDENING: Final = 16
_OVERLAP_BYTES: Final = 64  # a header that straddles two windows is seen whole in the second


class EntrySearch:
    """A search for whole entries in one file. `passed_over` counts the candidates that were not checked."""

    def __init__(self, source: Source, framing: Framing, max_batch_bytes: int) -> None:
        self._source = source
        self._framing = framing
        self._max_batch_bytes = max_batch_bytes
        self._probe = BatchColumns(2)
        self._searched_bytes = 0
        self._wrong_bytes = [0] * SIZE_CLASSES
        self.passed_over = 0

    def find(self, position: int, end: int, *, before: int | None = None) -> int | None:
        """Return the position of the first whole entry from `position` on; `None`: there is none.

        It ends by `end` and starts before `before`.
        """
        before = end if before is None else before
        wanted = DISK_BLOCK_BYTES  # it is usually near, and in dense damage each place starts a new search
        while position < before:
            # A header could begin within the last bytes of the hole.
            data = min(self._source.hole_end(position), before) - _OVERLAP_BYTES
            if data > position:  # no entry starts in a hole, but the zeros before data may be its first bytes
                self._searched_bytes += data - position
                position = data
            size = min(wanted, end - position, before - position + _OVERLAP_BYTES)
            try:
                window = self._source.window(position, size)
            except UnreadableError as error:
                position += error.size_bytes
                continue
            if not window:  # truncated meanwhile
                return None
            # no entry continues over a place that the disk cannot read
            found, searched = self._in_window(window, position, end - position if len(window) == size else len(window))
            if found is not None:
                return found if found < before else None
            position += searched
            self._searched_bytes += searched
            wanted = min(_WIDENING * wanted, WINDOW_BYTES)
        return None

    def _in_window(self, window: memoryview, position: int, rest: int) -> tuple[int | None, int]:
        """Return where an entry starts (`None`: nowhere), and how many bytes were searched without success.

        `rest` is where the last entry may end.
        """
        begin = 0
        while True:
            at = self._framing.candidate(window, begin, rest, self._max_batch_bytes)
            if at < 0:
                # The last bytes are searched again with the next window: an entry may begin there.
                return None, rest if len(window) >= rest else max(begin, len(window) - _OVERLAP_BYTES)
            begin = at + 1
            size = self._framing.entry_bytes(window[at:])
            # Candidates cost a checksum of their whole size. Random data has many, and without a budget a search would
            # be quadratic.
            if not self._affords(size, self._searched_bytes + at):
                self.passed_over += 1
                continue
            is_inside = at + size <= len(window)
            if self._is_entry(position + at, size, window[at : at + size] if is_inside else None):
                return position + at, 0
            self._wrong_bytes[size.bit_length()] += size
            # Reading it has overwritten the window
            if not is_inside:
                return None, begin

    def _affords(self, size: int, searched_bytes: int) -> bool:
        size_class = size.bit_length()
        # Per size class: many wrong small candidates must not use up the budget of a large one.
        budget = CHECKED_PER_BYTE * searched_bytes + (FREE_CHECKS << size_class)
        return self._wrong_bytes[size_class] + size <= budget

    def _is_entry(self, position: int, size: int, window: memoryview | None) -> bool:
        try:
            entry = self._source.window(position, size) if window is None else window
        except UnreadableError:
            return False
        self._framing.walk(entry, position, -1, self._max_batch_bytes, check=True, into=self._probe)
        return self._probe.count > 0


def count_zeros(source: Source, position: int, end: int) -> int:
    """Return the number of zero bytes from `position` on, up to `end` or the first other or unreadable byte."""
    at = position
    # Mostly there are few
    wanted = DISK_BLOCK_BYTES
    while at < end:
        try:
            window = source.window(at, min(wanted, end - at))
        except UnreadableError:
            break
        if not window:
            break
        left = len(bytes(window).lstrip(b"\0"))
        at += len(window) - left
        if left:
            break
        at = min(source.hole_end(at), end)
        wanted = SMALL_WINDOW_BYTES
    return at - position


def used_bytes(source: Source, end: int) -> int:
    """Return the number of bytes before the zeros that end at `end`. What the disk cannot read is not zero."""
    wanted = DISK_BLOCK_BYTES
    while end > 0:
        end = source.data_end(end)
        start = max(0, end - wanted)
        try:
            used = len(source.read(start, end - start).rstrip(b"\0"))
        except UnreadableError:
            break
        if used:
            return start + used
        end, wanted = start, WINDOW_BYTES
    return end
