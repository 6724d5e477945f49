"""Jute, the encoding of ZooKeeper's records: a cursor that reads it within bounds, and the bytes of each kind of value.

BinaryInputArchive and BinaryOutputArchive of ZooKeeper are the rule. Text that is not UTF-8 keeps its bytes as lone
surrogates, so that every record can be written again as it was: ZooKeeper itself writes a character outside of the
basic plane as two surrogates of three bytes each (BinaryOutputArchive.stringToByteBuffer).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError, TruncatedError
from kafkalog_core.format.zookeeper.layout import INT, LONG, NO_LENGTH
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kafkalog_core.format.zookeeper.layout import Layout

__all__ = ["OPEN_ACL", "Acl", "JuteReader", "acls_bytes", "buffer_bytes", "int_bytes", "long_bytes", "string_bytes"]

_ALL_RIGHTS: Final = 31
_MIN_ACL_BYTES: Final = 12
_RIGHTS: Final = ((1, "r"), (2, "w"), (4, "c"), (8, "d"), (16, "a"))
"""ZooDefs.Perms, with the letters of zkCli's getAcl in its order: c d r w a."""


class Acl(Struct, frozen=True):
    """An entry of an ACL: the rights as bits (1 read, 2 write, 4 create, 8 delete, 16 admin), the scheme and the id."""

    rights: int
    scheme: str | None
    id: str | None

    @property
    def letters(self) -> str:
        """The rights as zkCli prints them: `cdrwa` is all of them."""
        return "".join(letter for bit, letter in sorted(_RIGHTS, key=_place) if self.rights & bit)


def _place(right: tuple[int, str]) -> int:
    return "cdrwa".index(right[1])


OPEN_ACL: Final = (Acl(_ALL_RIGHTS, "world", "anyone"),)
"""ZooDefs.Ids.OPEN_ACL_UNSAFE."""


class JuteReader:
    """A cursor over bytes. Every method raises TruncatedError if the bytes end before the value does.

    Args:
        data: the bytes.
        position: where to begin.
        end: where the bytes end; None: with `data`.
    """

    def __init__(self, data: bytes | memoryview, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """The number of bytes that were not read."""
        return self.end - self.position

    def fields(self, layout: Layout) -> tuple[Any, ...]:
        """Return the values of a fixed layout."""
        at = self._skip(layout.size)
        return layout.unpack_from(self.data, at)

    def read_int(self) -> int:
        """Return an int of 4 bytes."""
        return int(self.fields(INT)[0])

    def read_long(self) -> int:
        """Return a long of 8 bytes."""
        return int(self.fields(LONG)[0])

    def read_bool(self) -> bool:
        """Return a boolean. Raises FieldError for a byte that a writer never writes."""
        at = self._skip(1)
        if self.data[at] > 1:
            raise FieldError(f"{self.data[at]} is not a boolean", position=at)
        return bool(self.data[at])

    def read_buffer(self) -> bytes | None:
        """Return a buffer; None: its length is -1. Raises FieldError for another negative length."""
        at, length = self.position, self.read_int()
        if length == NO_LENGTH:
            return None
        if length < 0:
            raise FieldError(f"{length} is not a length", position=at)
        start = self._skip(length)
        return bytes(self.data[start : self.position])

    def read_string(self) -> str | None:
        """Return a string; None: its length is -1."""
        value = self.read_buffer()
        return None if value is None else value.decode("utf-8", "surrogateescape")

    def read_path(self) -> str:
        """Return the path of a node. Raises FieldError if there is none."""
        at, value = self.position, self.read_string()
        if value is None:
            raise FieldError("the record has no path", position=at)
        return value

    def count(self, item_bytes: int) -> int | None:
        """Return the number of items of a vector, each of at least `item_bytes` bytes; None: there is no vector."""
        at, number = self.position, self.read_int()
        if number == NO_LENGTH:
            return None
        if number < 0:
            raise FieldError(f"{number} is not a number of items", position=at)
        # Checked before anything is allocated
        if number * item_bytes > self.left:
            raise TruncatedError(f"{number} items do not fit into {self.left} bytes", position=at)
        return number

    def read_acls(self) -> tuple[Acl, ...] | None:
        """Return a vector of ACL entries."""
        number = self.count(_MIN_ACL_BYTES)
        return (
            None
            if number is None
            else tuple(Acl(self.read_int(), self.read_string(), self.read_string()) for _ in range(number))
        )

    def read_strings(self) -> tuple[str | None, ...] | None:
        """Return a vector of strings."""
        number = self.count(INT.size)
        return None if number is None else tuple(self.read_string() for _ in range(number))

    def _skip(self, size_bytes: int) -> int:
        """Move on; return the position before."""
        at = self.position
        if size_bytes > self.end - at:
            raise TruncatedError(f"{size_bytes} bytes are expected, and {self.end - at} are left", position=at)
        self.position = at + size_bytes
        return at


def int_bytes(value: int) -> bytes:
    """Return an int of 4 bytes."""
    return INT.pack(value)


def long_bytes(value: int) -> bytes:
    """Return a long of 8 bytes."""
    return LONG.pack(value)


def buffer_bytes(value: bytes | None) -> bytes:
    """Return a buffer."""
    return INT.pack(NO_LENGTH) if value is None else INT.pack(len(value)) + value


def string_bytes(value: str | None) -> bytes:
    """Return a string."""
    return buffer_bytes(None if value is None else value.encode("utf-8", "surrogateescape"))


def acls_bytes(acls: Iterable[Acl] | None) -> bytes:
    """Return a vector of ACL entries."""
    if acls is None:
        return INT.pack(NO_LENGTH)
    entries = [INT.pack(acl.rights) + string_bytes(acl.scheme) + string_bytes(acl.id) for acl in acls]
    return INT.pack(len(entries)) + b"".join(entries)
