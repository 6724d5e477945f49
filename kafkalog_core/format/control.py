"""Control records: markers of transactions, leader changes, and the voters, versions and snapshot headers of KRaft.

`FlexibleReader` reads Kafka's flexible encoding (KIP-482), also for `topics.metadata_records`: fixed integers, compact
arrays and strings, ids, tagged fields. It compares every size with the remaining bytes before it allocates memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog_core.errors import FieldError, TruncatedError
from kafkalog_core.format.layout import CONTROL_KEY, CONTROL_TYPE_NAMES, MAX_VARINT_BYTES, UUID_SIZE
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Buffer",
    "ControlKey",
    "ControlValue",
    "EndTxnMarker",
    "Endpoint",
    "FlexibleReader",
    "KRaftSnapshotFooter",
    "KRaftSnapshotHeader",
    "KRaftVersion",
    "KRaftVoter",
    "KRaftVoters",
    "LeaderChange",
    "Tagged",
    "TaggedField",
    "UnknownControl",
    "Voter",
    "decode_control_key",
    "decode_control_value",
]


Buffer = bytes | bytearray | memoryview
_T = TypeVar("_T")
_MAX_UINT32: Final = 2**32 - 1


class TaggedField(Struct, frozen=True, kw_only=True):
    """A tagged field that no release defines, as stored."""

    tag: int
    data: bytes


Tagged = tuple[TaggedField, ...]


class FlexibleReader:
    """A reader of one value after another. `position`: of the next value; `what`: the structure's name in errors.

    Every method raises TruncatedError if the bytes end before the value does.
    """

    __slots__ = ("_view", "position", "what")

    def __init__(self, buffer: Buffer, position: int, what: str) -> None:
        self._view = memoryview(buffer)
        self.position = position
        self.what = what

    def boolean(self) -> bool:
        """Return the next boolean: one byte, 0 for false."""
        return self._take(1)[0] != 0

    def int8(self) -> int:
        """Return the next signed integer of one byte."""
        return int.from_bytes(self._take(1), "big", signed=True)

    def int16(self) -> int:
        """Return the next signed big-endian integer of 2 bytes."""
        return int.from_bytes(self._take(2), "big", signed=True)

    def uint16(self) -> int:
        """Return the next unsigned big-endian integer of 2 bytes."""
        return int.from_bytes(self._take(2), "big")

    def int32(self) -> int:
        """Return the next signed big-endian integer of 4 bytes."""
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        """Return the next signed big-endian integer of 8 bytes."""
        return int.from_bytes(self._take(8), "big", signed=True)

    def uuid(self) -> str:
        """Return the next 16 bytes as `org.apache.kafka.common.Uuid.toString` does: base64url without padding."""
        return uuid_text(self._take(UUID_SIZE))

    def unsigned_varint(self) -> int:
        """Return the next varint as `ByteUtils.readUnsignedVarint` does. Raises FieldError for more than 5 bytes."""
        value = 0
        start = self.position
        for index in range(MAX_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value & _MAX_UINT32
        raise FieldError(f"{self.what}: a varint of more than {MAX_VARINT_BYTES} bytes", position=start)

    def compact_array(self, decode: Callable[[], _T]) -> tuple[_T, ...]:
        """Return the next array, which must not be null: FieldError."""
        count = self._compact_size("an array")
        self._check_room(count)  # every element has at least its tag section, one byte
        return tuple([decode() for _ in range(count)])

    def compact_bytes(self) -> bytes:
        """Return the next bytes, which must not be null: FieldError."""
        return bytes(self._take(self._compact_size("bytes")))

    def compact_string(self) -> str:
        """Return the next string, which must not be null and must be UTF-8: FieldError."""
        size = self._compact_size("a string")
        start = self.position
        try:
            return str(self._take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise FieldError(f"{self.what}: a string that is not UTF-8", position=start) from error

    def compact_nullable_string(self) -> str | None:
        """Return the next string, or `None` for null. Raises FieldError if it is not UTF-8."""
        start = self.position
        if self.unsigned_varint() == 0:
            return None
        self.position = start
        return self.compact_string()

    def tagged_fields(self) -> Tagged:
        """Return the tagged fields, which end every structure."""
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
            raise FieldError(f"{self.what}: {what} is null", position=start)
        return size

    def _take(self, size_bytes: int) -> memoryview:
        self._check_room(size_bytes)
        start = self.position
        self.position = start + size_bytes
        return self._view[start : self.position]

    def _check_room(self, size_bytes: int) -> None:
        left = len(self._view) - self.position
        if left < size_bytes or self.position < 0:
            raise TruncatedError(f"{self.what}: {max(0, left)} of {size_bytes} bytes are left", position=self.position)


_LEADER_CHANGE_WITH_DIRECTORIES: Final = 1


class ControlKey(Struct, frozen=True, kw_only=True):
    """Key of a control record. `name` is `unknown` for a type that no release defines."""

    version: int
    type: int

    @property
    def name(self) -> str:
        """Name of the type: `abort`, `commit`, `leader_change`, ..."""
        return CONTROL_TYPE_NAMES[self.type] if 0 <= self.type < len(CONTROL_TYPE_NAMES) else "unknown"


class EndTxnMarker(Struct, frozen=True, kw_only=True):
    """ABORT or COMMIT. `coordinator_epoch`: leader epoch of the `__transaction_state` partition of the coordinator."""

    version: int
    coordinator_epoch: int


class Voter(Struct, frozen=True, kw_only=True):
    """A voter of a LEADER_CHANGE. Schema version 1, which 4.3.1 does not write, adds `directory_id` (base64url)."""

    voter_id: int
    directory_id: str | None = None
    tagged: Tagged = ()


class LeaderChange(Struct, frozen=True, kw_only=True):
    """The first record of each leader epoch in a metadata log."""

    version: int
    leader_id: int
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]
    tagged: Tagged = ()


class KRaftSnapshotHeader(Struct, frozen=True, kw_only=True):
    """The first record of a KRaft snapshot."""

    version: int
    last_contained_log_timestamp_ms: int
    tagged: Tagged = ()


class KRaftSnapshotFooter(Struct, frozen=True, kw_only=True):
    """The last record of a KRaft snapshot; a file without it is incomplete."""

    version: int
    tagged: Tagged = ()


class KRaftVersion(Struct, frozen=True, kw_only=True):
    """The feature level kraft.version: with 1 the voters are in the log, with 0 in the configuration."""

    version: int
    kraft_version: int
    tagged: Tagged = ()


class Endpoint(Struct, frozen=True, kw_only=True):
    """A listener of a controller."""

    name: str
    host: str
    port: int
    tagged: Tagged = ()


class KRaftVoter(Struct, frozen=True, kw_only=True):
    """A voter of a KRAFT_VOTERS; `directory_id` in base64url."""

    voter_id: int
    directory_id: str
    endpoints: tuple[Endpoint, ...]
    min_kraft_version: int
    max_kraft_version: int
    feature_tagged: Tagged = ()
    tagged: Tagged = ()


class KRaftVoters(Struct, frozen=True, kw_only=True):
    """The complete set of voters from this offset on."""

    version: int
    voters: tuple[KRaftVoter, ...]
    tagged: Tagged = ()


class UnknownControl(Struct, frozen=True, kw_only=True):
    """The value of a control record of a type that no release defines."""

    type: int
    data: bytes


ControlValue = (
    EndTxnMarker
    | LeaderChange
    | KRaftSnapshotHeader
    | KRaftSnapshotFooter
    | KRaftVersion
    | KRaftVoters
    | UnknownControl
)


def decode_control_key(buffer: Buffer, position: int = 0) -> tuple[ControlKey, int]:
    """Return the key at `position` and the position after it. Trailing bytes are ignored.

    A higher version is read as version 0. Raises TruncatedError and FieldError.
    """
    cursor = FlexibleReader(buffer, position, "control record key")
    return ControlKey(version=_version(cursor), type=cursor.int16()), cursor.position


def decode_control_value(control_type: int, buffer: Buffer, position: int = 0) -> tuple[ControlValue, int]:
    """Return the value of a control record of this type at `position`, and the position after it.

    A higher version is read as the highest known one, as Kafka does. Raises TruncatedError and FieldError.
    """
    decode = _DECODERS.get(control_type)
    if decode is None:
        data = bytes(memoryview(buffer)[position:])
        return UnknownControl(type=control_type, data=data), position + len(data)
    cursor = FlexibleReader(buffer, position, f"value of a {CONTROL_TYPE_NAMES[control_type]} record")
    return decode(cursor), cursor.position


def _version(cursor: FlexibleReader) -> int:
    start = cursor.position
    version = cursor.int16()
    if version < 0:
        raise FieldError(f"{cursor.what} of version {version}", position=start)
    return version


def _end_txn_marker(cursor: FlexibleReader) -> EndTxnMarker:
    return EndTxnMarker(version=_version(cursor), coordinator_epoch=cursor.int32())


def _leader_change(cursor: FlexibleReader) -> LeaderChange:
    version = _version(cursor)

    def voter() -> Voter:
        return Voter(
            voter_id=cursor.int32(),
            directory_id=cursor.uuid() if version >= _LEADER_CHANGE_WITH_DIRECTORIES else None,
            tagged=cursor.tagged_fields(),
        )

    return LeaderChange(
        version=version,
        leader_id=cursor.int32(),
        voters=cursor.compact_array(voter),
        granting_voters=cursor.compact_array(voter),
        tagged=cursor.tagged_fields(),
    )


def _snapshot_header(cursor: FlexibleReader) -> KRaftSnapshotHeader:
    return KRaftSnapshotHeader(
        version=_version(cursor), last_contained_log_timestamp_ms=cursor.int64(), tagged=cursor.tagged_fields()
    )


def _snapshot_footer(cursor: FlexibleReader) -> KRaftSnapshotFooter:
    return KRaftSnapshotFooter(version=_version(cursor), tagged=cursor.tagged_fields())


def _kraft_version(cursor: FlexibleReader) -> KRaftVersion:
    return KRaftVersion(version=_version(cursor), kraft_version=cursor.int16(), tagged=cursor.tagged_fields())


def _kraft_voters(cursor: FlexibleReader) -> KRaftVoters:
    def endpoint() -> Endpoint:
        return Endpoint(
            name=cursor.compact_string(),
            host=cursor.compact_string(),
            port=cursor.uint16(),
            tagged=cursor.tagged_fields(),
        )

    def voter() -> KRaftVoter:
        return KRaftVoter(
            voter_id=cursor.int32(),
            directory_id=cursor.uuid(),
            endpoints=cursor.compact_array(endpoint),
            min_kraft_version=cursor.int16(),
            max_kraft_version=cursor.int16(),
            feature_tagged=cursor.tagged_fields(),
            tagged=cursor.tagged_fields(),
        )

    return KRaftVoters(version=_version(cursor), voters=cursor.compact_array(voter), tagged=cursor.tagged_fields())


_DECODERS: Final[dict[int, Callable[[FlexibleReader], ControlValue]]] = dict(
    enumerate(
        (  # in the order of CONTROL_TYPE_NAMES
            _end_txn_marker,
            _end_txn_marker,
            _leader_change,
            _snapshot_header,
            _snapshot_footer,
            _kraft_version,
            _kraft_voters,
        )
    )
)


def control_type_name(key: bytes | None) -> str:
    """Return the name of a control record's type, by its key; `unknown` if no release of Kafka writes that type."""
    if key is None or len(key) < CONTROL_KEY.size:
        return "unknown"
    version, kind = CONTROL_KEY.struct.unpack_from(key)
    return CONTROL_TYPE_NAMES[kind] if version >= 0 and 0 <= kind < len(CONTROL_TYPE_NAMES) else "unknown"
