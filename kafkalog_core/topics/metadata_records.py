"""The records of the cluster metadata log, every type and version of `wire/schemas.txt`, to values and back.

    value = frame version, record type, record version (unsigned varints each), then the fields, flexible encoding

`MetadataRecordSerde` refuses another frame version, an unknown type or version, and bytes after the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from kafkalog_core.errors import FieldError, ProtocolError
from kafkalog_core.format.control import FlexibleReader
from kafkalog_core.structs import Struct
from kafkalog_core.topics.record_decoders import metadata_record_names
from kafkalog_core.wire.codec import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "BROKER_RESOURCE",
    "CLIENT_METRICS_RESOURCE",
    "FRAME_VERSION",
    "GROUP_RESOURCE",
    "METADATA_VERSION",
    "SAME_LEADER",
    "TOPIC_RESOURCE",
    "MetadataFrame",
    "MetadataRecord",
    "decode_frame",
    "decode_record",
    "encode_record",
    "is_known",
]

METADATA_VERSION: Final = "metadata.version"
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""A node by its id, or all nodes if the name is empty (ConfigResource.Type)."""
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
SAME_LEADER: Final = -2
"""The leader in a PartitionChangeRecord that keeps the leader (`LeaderConstants.NO_LEADER_CHANGE`)."""
FRAME_VERSION: Final = 1
"""Of the frame of each value; 0 was that of the preview in 2.8 (`MetadataRecordSerde`)."""
_FRAME_BYTES: Final = 3  # of the three varints while each is below 128, as all known types and versions are


class MetadataFrame(NamedTuple):
    """The frame of a value: its version, the type and the version of the record, and where the fields begin."""

    version: int
    kind: int
    record_version: int
    fields_at: int


class MetadataRecord(Struct, frozen=True):
    """A decoded record.

    Args:
        kind: the number of its type.
        name: of its type in Kafka's schemas, such as `TopicRecord`.
        version: of the record.
        fields: by their names in snake_case; ids are 16 bytes.
    """

    kind: int
    name: str
    version: int
    fields: dict[str, Any]


def decode_frame(value: bytes) -> MetadataFrame:
    """Return the frame of a value, whatever its numbers are. Raises TruncatedError or FieldError."""
    cursor = FlexibleReader(value, 0, "metadata record")
    numbers = [cursor.unsigned_varint() for _ in range(3)]
    return MetadataFrame(numbers[0], numbers[1], numbers[2], cursor.position)


def is_known(kind: int, version: int) -> bool:
    """Return whether a release up to 4.4 writes a type of record in a version."""
    name = metadata_record_names().get(kind)
    if name is None:
        return False
    try:
        codec(name, version)
    except ProtocolError:
        return False
    return True


def decode_record(value: bytes) -> MetadataRecord:
    """Return the record in a data record's value.

    Raises FormatError if the bytes are damaged, or the record is of a frame, a type or a version that no release
    up to 4.4 writes.
    """
    # Nearly every value begins with three bytes below 128: one look-up instead of three varints.
    known = _KNOWN.get(value[:_FRAME_BYTES])
    if known is None:
        known = _form_of(value)
    kind, name, version, decode, at = known
    try:
        return MetadataRecord(kind, name, version, decode(value, at))
    except ProtocolError as error:
        raise FieldError(f"{name}: {error}", position=at) from error


def encode_record(name: str, version: int, fields: dict[str, Any]) -> bytes:
    """Return the value of a record: the frame, then the fields. Raises ProtocolError."""
    pieces = codec(name, version).encode(fields)
    # No metadata record has a file range in it, so every piece is bytes.
    return bytes((FRAME_VERSION, _kinds()[name], version)) + b"".join(cast("Iterable[bytes]", pieces))


_Form = tuple[int, str, int, "Callable[[bytes, int], dict[str, Any]]", int]
"""Type, name and version of a record, the decoder of its fields, and where they begin."""
_KNOWN: Final[dict[bytes, _Form]] = {}
"""By the first bytes of a value. It grows with the types and versions that are met, which are few."""


def _form_of(value: bytes) -> _Form:
    frame = decode_frame(value)
    if frame.version != FRAME_VERSION:
        raise FieldError(f"metadata record: the frame version {frame.version} is unknown", position=0)
    name = metadata_record_names().get(frame.kind)
    if name is None:
        raise FieldError(f"metadata record: the type {frame.kind} is unknown", position=1)
    try:
        decode = codec(name, frame.record_version).decode_whole
    except ProtocolError as error:
        raise FieldError(f"metadata record: {error}", position=frame.fields_at) from error
    form: _Form = frame.kind, name, frame.record_version, decode, frame.fields_at
    if frame.fields_at == _FRAME_BYTES:
        _KNOWN[bytes(value[:_FRAME_BYTES])] = form
    return form


def _kinds() -> dict[str, int]:
    return {name: kind for kind, name in metadata_record_names().items()}
