"""Records of Kafka's own topics as values that a person or a script reads: every key, every version, by its schema.

Records of the coordinators have a type in front of the key and a version in front of the value, int16 each
(`CoordinatorRecordSerde`). Records of the cluster metadata log and of `__remote_log_metadata` have no key; their value
begins with a frame version, a type and a version, an unsigned varint each (`AbstractApiMessageSerde`).

Nothing is dropped: what has no schema, or does not decode, has a problem, and its bytes stay where they are.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.errors import ProtocolError
from kafkalog_core.wire.codec import UNKNOWN_TAGS, codec
from kafkalog_core.wire.schemas import names, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_core.wire.schemas import MessageField

__all__ = ["DECODERS", "Decoded", "consumer_protocol", "decoder_of"]

_TYPE_BYTES: Final = 2
_FRAME_VERSION: Final = 1
_CONSUMER: Final = "consumer"
_LAST_PROTOCOL: Final = 3
"""Version of the consumer protocol that every later one begins with (`ConsumerProtocol.deserializeVersion`)."""

Plain = Any
"""A JSON value: objects with Kafka's names of the fields, ids in base64url without padding, bytes in base64."""


class Decoded(NamedTuple):
    """A record of one of Kafka's own topics.

    Args:
        key: `{"type": number, "name": text, "data": object}`; None: the topic's records have no key.
        value: `{"version": number, "data": object}`, of topics without keys with `type` and `name` too; None: a
            tombstone, or it does not decode.
        problem: what does not decode, and why; None: all does.
    """

    key: Plain = None
    value: Plain = None
    problem: str | None = None


# --- from a message to plain values -----------------------------------------------------------------------------------
def _camel(name: str) -> str:
    """Return a field's name as Kafka's tools show it."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _text_of_id(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")


def _text_of_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


_PLAIN_OF: Final[dict[str, Callable[[Any], Plain]]] = {"uuid": _text_of_id, "bytes": _text_of_bytes}


@cache
def _plain_of(name: str, version: int) -> Callable[[dict[str, Any]], dict[str, Plain]]:
    """Return the function that makes a decoded message plain, without the fields that its version does not have."""
    return _plain_struct(schema_of(name, version).fields, version)


def _plain_struct(fields: Iterable[MessageField], version: int) -> Callable[[dict[str, Any]], dict[str, Plain]]:
    there = [each for each in fields if version in each.versions]
    plain_fields = [(each.name, _camel(each.name), _plain_field(each, version)) for each in there]
    # A tagged field with its default is not stored (KIP-482), and Kafka's tools leave it out.
    defaults = {each.name: each.default for each in there if version in each.tagged}

    def plain(message: dict[str, Any]) -> dict[str, Plain]:
        found = {}
        for name, shown, change in plain_fields:
            value = message[name]
            if name in defaults and value == defaults[name]:
                continue
            found[shown] = value if change is None or value is None else change(value)
        if UNKNOWN_TAGS in message:
            found["unknownTags"] = [{"tag": tag, "data": _text_of_bytes(data)} for tag, data in message[UNKNOWN_TAGS]]
        return found

    return plain


def _plain_field(field: MessageField, version: int) -> Callable[[Any], Plain] | None:
    change = _PLAIN_OF.get(field.type) if field.struct is None else _plain_struct(field.struct.fields, version)
    if not field.is_array or change is None:
        return change
    return lambda values: [change(value) for value in values]


# --- the blobs of the consumer protocol -------------------------------------------------------------------------------
def _with_protocol(value: dict[str, Plain], message: dict[str, Any]) -> str | None:
    """Put a classic group's subscriptions and assignments in as objects; return the first problem.

    Those of another protocol type than `consumer` (Connect's, or none) stay bytes.
    """
    if message["protocol_type"] != _CONSUMER:
        return None
    problem = None
    for shown, member in zip(value["members"], message["members"], strict=True):
        for name, schema in (
            ("subscription", "ConsumerProtocolSubscription"),
            ("assignment", "ConsumerProtocolAssignment"),
        ):
            blob = member[name]
            if not blob:  # a member without partitions, or one that has not got any yet
                continue
            try:
                shown[name] = _protocol(schema, blob)
            except ProtocolError as error:
                problem = problem or str(error)
    return problem


def _protocol(schema: str, blob: bytes) -> dict[str, Plain]:
    stored, version, message = consumer_protocol(schema, blob)
    return {"version": stored, **_plain_of(schema, version)(message)}


def consumer_protocol(schema: str, blob: bytes) -> tuple[int, int, dict[str, Any]]:
    """Return a subscription or an assignment: the version it has, the one it is read by, and its fields.

    Raises ProtocolError. The schema is `ConsumerProtocolSubscription` or `ConsumerProtocolAssignment`.
    """
    if len(blob) < _TYPE_BYTES:
        raise ProtocolError(f"{schema} has {len(blob)} bytes")
    stored = int.from_bytes(blob[:_TYPE_BYTES], "big", signed=True)
    if stored < 0:
        raise ProtocolError(f"{schema} has the version {stored}")
    version = min(stored, _LAST_PROTOCOL)
    # A later version has fields after these, which no release of today reads.
    message, _ = codec(schema, version).decode(memoryview(blob)[_TYPE_BYTES:])
    return stored, version, message


# --- records with a type in the key -----------------------------------------------------------------------------------
class _KeyedDecoder:
    """The records of a coordinator's topic."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        """Take the records whose names begin so."""
        self._names = {
            schema.key: name.removesuffix("Key")
            for name in sorted(names())
            if name.startswith(tuple(prefixes)) and name.endswith("Key")
            for schema in [schema_of(name, 0)]
            if schema.kind == "coordinator-key" and schema.key is not None
        }
        self._known_keys: dict[bytes, tuple[str, Plain]] = {}

    def __call__(self, key: bytes | None, value: bytes | None) -> Decoded:
        """Return what a record says."""
        if key is None or len(key) < _TYPE_BYTES:
            return Decoded(problem="the key has no type")
        number = int.from_bytes(key[:_TYPE_BYTES], "big", signed=True)
        name = self._names.get(number)
        if name is None:
            return Decoded(problem=f"the key has the unknown type {number}")
        try:
            # The second fields of keys of other types than these are members: they do not come again and again.
            message = codec(f"{name}Key", 0).decode_whole(memoryview(key)[_TYPE_BYTES:])
        except ProtocolError as error:
            return Decoded(problem=str(error))
        shown = {"type": number, "name": name, "data": _plain_of(f"{name}Key", 0)(message)}
        return Decoded(shown) if value is None else self._with_value(shown, name, value)

    def _with_value(self, key: Plain, name: str, value: bytes) -> Decoded:
        if len(value) < _TYPE_BYTES:
            return Decoded(key, problem="the value has no version")
        version = int.from_bytes(value[:_TYPE_BYTES], "big", signed=True)
        schema = f"{name}Value"
        try:
            message = codec(schema, version).decode_whole(memoryview(value)[_TYPE_BYTES:])
        except ProtocolError as error:
            return Decoded(key, problem=str(error))
        data = _plain_of(schema, version)(message)
        problem = _with_protocol(data, message) if schema == "GroupMetadataValue" else None
        return Decoded(key, {"version": version, "data": data}, problem)


# --- records with a frame in the value --------------------------------------------------------------------------------
class _FramedDecoder:
    """The records of a topic without keys."""

    def __init__(self, *, is_remote: bool) -> None:
        self._names = {
            schema.key: name
            for name in sorted(names())
            if name.endswith("Record") and name.startswith("Remote") == is_remote
            for schema in [schema_of(name, 0)]
            if schema.kind == "metadata" and schema.key is not None
        }

    def __call__(self, key: bytes | None, value: bytes | None) -> Decoded:
        """Return what a record says."""
        if value is None:
            return Decoded(problem="the record has no value" if key is None else "the record has a key and no value")
        try:
            frame, position = _varint(value, 0)
            number, position = _varint(value, position)
            version, position = _varint(value, position)
            if frame != _FRAME_VERSION:
                return Decoded(problem=f"the value has the unknown frame version {frame}")
            name = self._names.get(number)
            if name is None:
                return Decoded(problem=f"the value has the unknown type {number}")
            message = codec(name, version).decode_whole(memoryview(value)[position:])
        except ProtocolError as error:
            return Decoded(problem=str(error))
        shown = {"type": number, "name": name.removesuffix("Record"), "version": version}
        return Decoded(value=shown | {"data": _plain_of(name, version)(message)})


_LONGEST_VARINT: Final = 5


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT):
        if position + index >= len(data):
            break
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:  # the highest bit: another byte follows
            return value, position + index + 1
    raise ProtocolError(f"the frame of the value ends at byte {position} of {len(data)}")


# --- topics -----------------------------------------------------------------------------------------------------------
@cache
def _groups() -> _KeyedDecoder:
    return _KeyedDecoder(
        ("LegacyOffsetCommit", "OffsetCommit", "GroupMetadata", "ConsumerGroup", "ShareGroup", "StreamsGroup")
    )


@cache
def _transactions() -> _KeyedDecoder:
    return _KeyedDecoder(("TransactionLog",))


@cache
def _share_states() -> _KeyedDecoder:
    return _KeyedDecoder(("ShareSnapshot", "ShareUpdate"))


@cache
def _remote_segments() -> _FramedDecoder:
    return _FramedDecoder(is_remote=True)


@cache
def _metadata() -> _FramedDecoder:
    return _FramedDecoder(is_remote=False)


Decoder = "Callable[[bytes | None, bytes | None], Decoded]"

DECODERS: Final[Mapping[str, Callable[[], Callable[[bytes | None, bytes | None], Decoded]]]] = {
    "__consumer_offsets": _groups,
    "__transaction_state": _transactions,
    "__share_group_state": _share_states,
    "__remote_log_metadata": _remote_segments,
    "__cluster_metadata": _metadata,
}
"""The decoder of each of Kafka's own topics, made when it is first used."""


def decoder_of(topic: str | None) -> Callable[[bytes | None, bytes | None], Decoded] | None:
    """Return the function that decodes a topic's records, by key and value; None: they are not Kafka's own."""
    make = DECODERS.get(topic) if topic is not None else None
    return None if make is None else make()
