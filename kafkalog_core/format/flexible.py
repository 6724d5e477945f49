"""Reading Kafka's flexible message encoding (KIP-482): fixed integers, compact arrays and strings, ids, tagged fields.

Every size is compared with the bytes that are left before anything of that size is made.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog_core.errors import FieldError, TruncatedError
from kafkalog_core.format.layout import MAX_VARINT_BYTES, UUID_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Buffer", "Cursor", "Tagged", "TaggedField"]

Buffer = bytes | bytearray | memoryview
_T = TypeVar("_T")
_MAX_UINT32: Final = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedField:
    """A tagged field that no release knows, kept as it is."""

    tag: int
    data: bytes


Tagged = tuple[TaggedField, ...]


class Cursor:
    """Reads one value after another. `position` is that of the next; `what` names the structure in errors.

    Every method raises TruncatedError where the bytes end before the value does.
    """

    __slots__ = ("_view", "position", "what")

    def __init__(self, buffer: Buffer, position: int, what: str) -> None:
        self._view = memoryview(buffer)
        self.position = position
        self.what = what

    def boolean(self) -> bool:
        """One byte, 0 for false."""
        return self._take(1)[0] != 0

    def int8(self) -> int:
        """A signed integer of one byte."""
        return int.from_bytes(self._take(1), "big", signed=True)

    def int16(self) -> int:
        """A signed big-endian integer of 2 bytes."""
        return int.from_bytes(self._take(2), "big", signed=True)

    def uint16(self) -> int:
        """An unsigned big-endian integer of 2 bytes."""
        return int.from_bytes(self._take(2), "big")

    def int32(self) -> int:
        """A signed big-endian integer of 4 bytes."""
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        """A signed big-endian integer of 8 bytes."""
        return int.from_bytes(self._take(8), "big", signed=True)

    def uuid(self) -> str:
        """16 bytes as `org.apache.kafka.common.Uuid` spells them: base64url without padding."""
        return base64.urlsafe_b64encode(self._take(UUID_SIZE)).rstrip(b"=").decode("ascii")

    def unsigned_varint(self) -> int:
        """`ByteUtils.readUnsignedVarint`: at most 5 bytes, bits above 32 dropped. Raises FieldError for more."""
        value = 0
        start = self.position
        for index in range(MAX_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value & _MAX_UINT32
        raise FieldError(f"{self.what}: a varint of more than {MAX_VARINT_BYTES} bytes", position=start)

    def compact_array(self, decode: Callable[[], _T]) -> tuple[_T, ...]:
        """An array that is not nullable. Raises FieldError for null."""
        count = self._compact_size("an array")
        self._check_room(count)  # no element is smaller than its tag section, one byte
        return tuple([decode() for _ in range(count)])

    def compact_string(self) -> str:
        """A string that is not nullable. Raises FieldError for null and for what is not UTF-8."""
        size = self._compact_size("a string")
        start = self.position
        try:
            return str(self._take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise FieldError(f"{self.what}: a string that is not UTF-8", position=start) from error

    def compact_nullable_string(self) -> str | None:
        """A string, or null. Raises FieldError for what is not UTF-8."""
        start = self.position
        if self.unsigned_varint() == 0:
            return None
        self.position = start
        return self.compact_string()

    def tagged_fields(self) -> Tagged:
        """The tagged fields at the end of every structure."""
        count = self.unsigned_varint()
        self._check_room(2 * count)  # a tag and a size each
        return tuple([self._tagged_field() for _ in range(count)])

    def _tagged_field(self) -> TaggedField:
        tag = self.unsigned_varint()
        return TaggedField(tag=tag, data=bytes(self._take(self.unsigned_varint())))

    def _compact_size(self, what: str) -> int:
        start = self.position
        size = self.unsigned_varint() - 1
        if size < 0:
            raise FieldError(f"{self.what}: {what} that is null", position=start)
        return size

    def _take(self, size_bytes: int) -> memoryview:
        self._check_room(size_bytes)
        start = self.position
        self.position = start + size_bytes
        return self._view[start : self.position]

    def _check_room(self, size_bytes: int) -> None:
        left = len(self._view) - self.position
        if left < size_bytes or self.position < 0:
            raise TruncatedError(
                f"{self.what}: {max(0, left)} bytes left where {size_bytes} belong", position=self.position
            )
