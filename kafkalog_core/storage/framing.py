"""How entries follow each other in a file: the walk, the size of one entry, and the search for the next one.

Two framings exist: that of `.log` files (magic 0, 1 and 2 share an envelope) and that of Kafka 0.7's `.kafka` files.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.format import kernels, layout
from kafkalog_core.format.kernels import constants

if TYPE_CHECKING:
    from kafkalog_core.format.columns import BatchColumns

__all__ = ["Framing", "LogFraming", "V07Framing"]

# A search must pay a checksum for each candidate; 0.7 refused messages over 1,000,000 bytes (max.message.size).
V07_SEARCH_MAX_BYTES: Final = 4 * 1024 * 1024
# Offsets of one segment span less than 2^31; segments of old releases could pass that, so the bound is generous.
SEARCH_OFFSET_SPAN: Final = 2**40


class Framing(Protocol):
    """What a scan needs to know of a format."""

    header_bytes: int
    """Bytes from which the size of an entry can be told."""
    min_entry_bytes: int
    """Size below which a length is wrong, whatever the magic."""

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
        """A new state for `kernels.walk_over`; null: there is no walk over damage."""

    def entry_bytes(self, header: memoryview) -> int:
        """Size of the entry that starts with `header`, as it says itself."""

    def candidate(self, memory: memoryview, begin: int, rest: int, max_bytes: int) -> int:
        """First place in `memory[begin:]` where an entry could stand that ends by `memory[rest]`, or -1."""


class LogFraming:
    """Magic 0, 1 and 2; `base_offset` is the number in the file name.

    It bounds a search from above alone: a file that was renamed holds lower offsets, and what was read before the
    damage may have been wrong itself.
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
        at = layout.ENVELOPE.at("size")
        return layout.LOG_OVERHEAD + int.from_bytes(header[at : at + 4], "big", signed=True)

    def candidate(self, memory: memoryview, begin: int, rest: int, max_bytes: int) -> int:
        """See Framing."""
        return kernels.find_candidate(memory, begin, rest, 0, self._high, max_bytes)


class V07Framing:
    """Kafka 0.7: an address is `base_address`, the number in the file name, + the position."""

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
