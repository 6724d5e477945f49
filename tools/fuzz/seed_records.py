"""Seeds of records of Kafka's own topics: those of real brokers, and made ones of every type and version."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import parse_directory_name
from kafkalog_core.topics.record_decoders import DECODED_TOPICS
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.schemas import schema_of
from tests.support.build import unsigned_varint
from tests.support.logs import dump_rows
from tests.support.messages import all_versions, message
from tools.fuzz.targets.own_topics import NO_KEY, NO_VALUE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["record_seeds"]

_KEYED: Final = range(3)
_FRAMED: Final = range(3, 5)
"""The topics by the form of their records, by their numbers in `DECODED_TOPICS`."""


def record_seeds(fixtures: Path) -> Iterator[bytes]:
    """Yield inputs of the family."""
    for directory in sorted(fixtures.glob("demo/__*")):
        topic = DECODED_TOPICS.index(parse_directory_name(directory.name).topic or "")
        for row in dump_rows(directory, level="records"):
            key, value = row.get("key"), row.get("value")
            if "control_type" in row and row["control_type"] is None:
                switches = topic | (NO_KEY if key is None else 0) | (NO_VALUE if value is None else 0)
                yield bytes([switches, len(key or b"")]) + (key or b"") + (value or b"")
    dice = Random(2)  # noqa: S311 -- the same each time
    for name, version in all_versions():
        if schema_of(name, version).kind == "metadata":
            yield from _framed(name, version, dice)
        elif schema_of(name, version).kind == "coordinator-value":
            yield from _keyed(name.removesuffix("Value"), version, dice)


def _framed(name: str, version: int, dice: Random) -> Iterator[bytes]:
    frame = b"\1" + unsigned_varint(schema_of(name, version).key or 0) + unsigned_varint(version)
    for topic in _FRAMED:
        yield bytes([topic | NO_KEY, 0]) + frame + _encoded(name, version, dice)


def _keyed(name: str, version: int, dice: Random) -> Iterator[bytes]:
    number = schema_of(f"{name}Key", 0).key or 0
    key = number.to_bytes(2, "big") + _encoded(f"{name}Key", 0, dice)
    value = version.to_bytes(2, "big") + _encoded(f"{name}Value", version, dice)
    for topic in _KEYED:
        yield bytes([topic, min(len(key), 255)]) + key + value


def _encoded(name: str, version: int, dice: Random) -> bytes:
    return b"".join(map(bytes, codec(name, version).encode(message(schema_of(name, version).fields, version, dice))))
