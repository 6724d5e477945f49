"""Records of Kafka's own topics as JSON that a person or a script reads: every key, every version, by its schema.

Records of the coordinators have a type in front of the key and a version in front of the value, int16 each
(`CoordinatorRecordSerde`). Records of the cluster metadata log and of `__remote_log_metadata` have no key; their value
begins with a frame version, a type and a version, an unsigned varint each (`AbstractApiMessageSerde`).

Nothing is dropped: a record that has no schema, or does not decode, has a problem, and its bytes are not changed.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.errors import FormatError, ProtocolError
from kafkalog_core.format.control import FlexibleReader
from kafkalog_core.topics.record_texts import message_text
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.schemas import names, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "DECODED_TOPICS",
    "GROUP_RECORDS",
    "Decoded",
    "DecodedText",
    "RecordProblem",
    "consumer_protocol",
    "coordinator_record_names",
    "decoder_of",
    "metadata_record_names",
    "text_decoder_of",
]

_TYPE_BYTES: Final = 2
_FRAME_VERSION: Final = 1
_CONSUMER: Final = "consumer"
_LAST_PROTOCOL: Final = 3
"""Version of the consumer protocol that every later one begins with (`ConsumerProtocol.deserializeVersion`)."""
_KEPT_KEYS: Final = 100_000
_KEPT_KEY_BYTES: Final = 200
"""Keys come again and again: those that are not longer are decoded once, up to that many at a time."""

Plain = Any
"""A JSON value: objects with Kafka's names of the fields, ids in base64url without padding, bytes in base64."""


class RecordProblem(NamedTuple):
    """Why a record does not decode: `what` is the kind of problem, `why` what is wrong with this record, or empty."""

    what: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what


class Decoded(NamedTuple):
    """A record of one of Kafka's own topics.

    Args:
        key: `{"type": number, "name": text, "data": object}`; None: the topic's records have no key, or it does not
            decode.
        value: `{"version": number, "data": object}`, of topics without keys with `type` and `name` too; None: a
            tombstone, or it does not decode.
        problem: what does not decode, and why; None: all does.
    """

    key: Plain = None
    value: Plain = None
    problem: str | None = None


class DecodedText(NamedTuple):
    """The same as JSON text: the form of `text.json_text`, on one line."""

    key: str | None = None
    value: str | None = None
    problem: RecordProblem | None = None


# --- the blobs of the consumer protocol -------------------------------------------------------------------------------
_BLOBS: Final = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


def _open_protocol(message: dict[str, Any]) -> RecordProblem | None:
    """Replace the subscriptions and assignments of a classic group by their JSON text; return the first problem.

    Those of another protocol type than `consumer` (Connect's, or none) stay bytes, and those that do not decode.
    """
    if message["protocol_type"] != _CONSUMER:
        return None
    problem = None
    for member in message["members"]:
        for name, schema in _BLOBS.items():
            if not member[name]:  # a member without partitions, or one that has not got any yet
                continue
            try:
                member[name] = _protocol_text(schema, member[name])
            except ProtocolError as error:
                problem = problem or RecordProblem(f"the {name} of a group's member does not decode", str(error))
    return problem


def _protocol_text(schema: str, blob: bytes) -> str:
    stored, version, message = consumer_protocol(schema, blob)
    return f'{{"version":{stored},{message_text(schema, version)(message)[1:]}'


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
    message, _ = codec(schema, version).decode(blob, _TYPE_BYTES)
    return stored, version, message


# --- records with a type in the key -----------------------------------------------------------------------------------
GROUP_RECORDS: Final = (
    *("LegacyOffsetCommit", "OffsetCommit", "GroupMetadata"),
    *("ConsumerGroup", "ShareGroup", "StreamsGroup"),
)
"""What the names of the records in `__consumer_offsets` begin with."""


@cache
def coordinator_record_names(*prefixes: str) -> Mapping[int, str]:
    """Return the names of a coordinator's records by their types, those that begin with one of some prefixes."""
    return {
        schema.key: name.removesuffix("Key")
        for name in sorted(names())
        if name.startswith(prefixes) and name.endswith("Key")
        for schema in [schema_of(name, 0)]
        if schema.kind == "coordinator-key" and schema.key is not None
    }


class _KnownKey(NamedTuple):
    """A key that was decoded: its text, and the name of the record; None: it does not decode."""

    text: str | None
    name: str | None
    problem: RecordProblem | None = None


_Reader = tuple[int, "Callable[[bytes, int], dict[str, Any]]", "Callable[[dict[str, Any]], str]"]
"""A version, what decodes a value of it from a position on, and what writes it as text."""


class _KeyedDecoder:
    """The records of a coordinator's topic."""

    def __init__(self, *prefixes: str) -> None:
        """Take the records whose names begin so."""
        self._names = coordinator_record_names(*prefixes)
        self._known: dict[bytes, _KnownKey] = {}
        self._readers: dict[tuple[str, bytes], _Reader] = {}

    def __call__(self, key: bytes | None, value: bytes | None) -> DecodedText:
        """Return what a record says."""
        known = None if key is None else self._known.get(key)
        if known is None:
            known = self._decoded(key)
        if known.name is None or value is None:
            return DecodedText(known.text, None, known.problem)
        try:
            version, decode, text_of = self._readers.get((known.name, value[:_TYPE_BYTES])) or self._reader(
                known.name, value
            )
            message = decode(value, _TYPE_BYTES)
        except ProtocolError as error:
            return DecodedText(known.text, None, self._value_problem(known.name, value, error))
        problem = _open_protocol(message) if known.name == "GroupMetadata" else None
        return DecodedText(known.text, f'{{"version":{version},"data":{text_of(message)}}}', problem)

    def _reader(self, name: str, value: bytes) -> _Reader:
        """Return what reads values of a version. Raises ProtocolError if it is unknown."""
        head = value[:_TYPE_BYTES]
        version = int.from_bytes(head, "big", signed=True)
        reader = version, codec(f"{name}Value", version).decode_whole, message_text(f"{name}Value", version)
        self._readers[name, head] = reader
        return reader

    def _value_problem(self, name: str, value: bytes, error: ProtocolError) -> RecordProblem:
        """Return the problem of a value: it has no version, an unknown one, or does not follow its schema."""
        head = value[:_TYPE_BYTES]
        if len(head) < _TYPE_BYTES:
            return RecordProblem("the value has no version")
        if (name, head) not in self._readers:
            return RecordProblem(str(error))
        return _contradiction(f"{name}Value", self._readers[name, head][0], error)

    def _decoded(self, key: bytes | None) -> _KnownKey:
        if key is None or len(key) < _TYPE_BYTES:
            return _KnownKey(None, None, RecordProblem("the key has no type"))
        number = int.from_bytes(key[:_TYPE_BYTES], "big", signed=True)
        name = self._names.get(number)
        if name is None:
            return _KnownKey(None, None, RecordProblem(f"the key has the unknown type {number}"))
        schema = f"{name}Key"
        try:
            # Keys have no versions: their first field is the type, which was their version before 4.0 (KIP-848).
            message = codec(schema, 0).decode_whole(key, _TYPE_BYTES)
        except ProtocolError as error:
            return _KnownKey(None, None, _contradiction(schema, 0, error))
        text = message_text(schema, 0)(message)
        known = _KnownKey(f'{{"type":{number},"name":"{name}","data":{text}}}', name)
        if len(key) <= _KEPT_KEY_BYTES:
            if len(self._known) >= _KEPT_KEYS:
                self._known.clear()
            self._known[key] = known
        return known


def _contradiction(schema: str, version: int, error: ProtocolError) -> RecordProblem:
    return RecordProblem(f"{schema} of version {version} does not follow its schema", str(error))


# --- records with a frame in the value --------------------------------------------------------------------------------
@cache
def metadata_record_names(*, is_remote: bool = False) -> Mapping[int, str]:
    """Return the names of the records in the cluster metadata log by their types.

    is_remote: those in `__remote_log_metadata`.
    """
    return {
        schema.key: name
        for name in sorted(names())
        if name.endswith("Record") and name.startswith("Remote") == is_remote
        for schema in [schema_of(name, 0)]
        if schema.kind == "metadata" and schema.key is not None
    }


class _FramedDecoder:
    """The records of a topic without keys."""

    def __init__(self, *, is_remote: bool) -> None:
        self._names = metadata_record_names(is_remote=is_remote)

    def __call__(self, key: bytes | None, value: bytes | None) -> DecodedText:
        """Return what a record says."""
        del key
        text = RecordProblem("the record has no value") if value is None else self._text(value)
        return DecodedText(problem=text) if isinstance(text, RecordProblem) else DecodedText(value=text)

    def _text(self, value: bytes) -> str | RecordProblem:
        frame = FlexibleReader(value, 0, "the frame of the value")
        try:
            frame_version, number, version = (frame.unsigned_varint() for _ in range(3))
        except FormatError as error:
            return RecordProblem("the value has no frame", str(error))
        if frame_version != _FRAME_VERSION:
            return RecordProblem(f"the value has the unknown frame version {frame_version}")
        name = self._names.get(number)
        if name is None:
            return RecordProblem(f"the value has the unknown type {number}")
        try:
            decode = codec(name, version).decode_whole
        except ProtocolError as error:
            return RecordProblem(str(error))
        try:
            message = decode(value, frame.position)
        except ProtocolError as error:
            return _contradiction(name, version, error)
        head = f'"type":{number},"name":"{name.removesuffix("Record")}","version":{version}'
        return f'{{{head},"data":{message_text(name, version)(message)}}}'


# --- topics -----------------------------------------------------------------------------------------------------------
_DECODERS: Final[Mapping[str, Callable[[], Callable[[bytes | None, bytes | None], DecodedText]]]] = {
    "__consumer_offsets": lambda: _KeyedDecoder(*GROUP_RECORDS),
    "__transaction_state": lambda: _KeyedDecoder("TransactionLog"),
    "__share_group_state": lambda: _KeyedDecoder("ShareSnapshot", "ShareUpdate"),
    "__remote_log_metadata": lambda: _FramedDecoder(is_remote=True),
    "__cluster_metadata": lambda: _FramedDecoder(is_remote=False),
}
"""What makes the decoder of each of Kafka's own topics."""
DECODED_TOPICS: Final = tuple(_DECODERS)
"""The topics whose records are decoded."""


@cache
def text_decoder_of(topic: str | None) -> Callable[[bytes | None, bytes | None], DecodedText] | None:
    """Return the function that decodes a topic's records as JSON text; None: they are not Kafka's own."""
    make = _DECODERS.get(topic) if topic is not None else None
    return None if make is None else make()


def decoder_of(topic: str | None) -> Callable[[bytes | None, bytes | None], Decoded] | None:
    """Return the function that decodes a topic's records, by key and value; None: they are not Kafka's own."""
    text_of = text_decoder_of(topic)
    if text_of is None:
        return None

    def decoded(key: bytes | None, value: bytes | None) -> Decoded:
        found = text_of(key, value)
        return Decoded(
            None if found.key is None else json.loads(found.key),
            None if found.value is None else json.loads(found.value),
            None if found.problem is None else str(found.problem),
        )

    return decoded
