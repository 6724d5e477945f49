"""Messages as JSON text: every version of the schemas of Kafka's own topics, with random values."""

from __future__ import annotations

import base64
import json
import math
import random
from copy import deepcopy
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import ProtocolError
from kafkalog_core.text import json_string, json_text
from kafkalog_core.topics.record_texts import camel, message_text
from kafkalog_core.wire.codec import UNKNOWN_TAGS, codec
from kafkalog_core.wire.schemas import schema_of
from tests.support.messages import all_versions, complete, message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.wire.schemas import MessageField

KINDS = {"coordinator-key", "coordinator-value", "metadata"}
VERSIONS = [(name, version) for name, version in all_versions() if schema_of(name, version).kind in KINDS]


def original_names() -> Iterator[str]:
    """Names of fields as Kafka's schemas spell them."""
    is_own = False
    for line in files("kafkalog_core.wire").joinpath("schemas.txt").read_text().splitlines():
        words = line.split()
        if line[0].isalpha():
            is_own = words[1] in KINDS or words[0].startswith("ConsumerProtocol")
        elif line[0] == " " and is_own and words[0] != "struct":
            yield words[0]


def snake(name: str) -> str:
    found = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return found.removeprefix("_")


def plain(fields: Sequence[MessageField], version: int, value: dict[str, Any]) -> dict[str, Any]:
    """What Kafka's JsonConverter makes of a message, straight from its schema."""
    found: dict[str, Any] = {}
    for field in fields:
        if version not in field.versions:
            continue
        there = value[field.name]
        if version in field.tagged and there == field.default:
            continue
        found[camel(field.name)] = (
            None
            if there is None
            else [one(field, version, each) for each in there]
            if field.is_array
            else one(field, version, there)
        )
    if UNKNOWN_TAGS in value:
        found["unknownTags"] = [
            {"tag": tag, "data": base64.b64encode(data).decode()} for tag, data in value[UNKNOWN_TAGS]
        ]
    return found


def one(field: MessageField, version: int, value: Any) -> Any:
    if field.struct is not None:
        return plain(field.struct.fields, version, value)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if field.type == "bytes" else value


def with_unknown_tags(fields: Sequence[MessageField], version: int, value: dict[str, Any], dice: random.Random) -> None:
    """Put tagged fields of a later release in each struct of a message."""
    value[UNKNOWN_TAGS] = [(number, dice.randbytes(dice.choice((0, 3, 200)))) for number in (100, 300)]
    for field in fields:
        there = value.get(field.name)
        if field.struct is not None and there is not None:
            for each in there if field.is_array else [there]:
                with_unknown_tags(field.struct.fields, version, each, dice)


def test_names_are_those_of_the_schemas() -> None:
    names = set(original_names())
    assert len(names) > 100
    assert {name for name in names if camel(snake(name)) != name[0].lower() + name[1:]} == set()


@pytest.mark.parametrize("name", sorted({name for name, _ in VERSIONS}))
def test_every_version_is_encoded_to_the_same_bytes_and_shown(name: str) -> None:
    dice = random.Random(name)
    for version in (version for other, version in VERSIONS if other == name):
        schema = schema_of(name, version)
        reader, text_of = codec(name, version), message_text(name, version)
        for turn in range(6):
            value = deepcopy(complete(schema.fields, version, message(schema.fields, version, dice)))
            if turn % 2 and version in schema.flexible:
                with_unknown_tags(schema.fields, version, value, dice)
            data = b"".join(map(bytes, reader.encode(value)))
            found = reader.decode_whole(b"\0\1" + data, 2)
            assert b"".join(map(bytes, reader.encode(found))) == data
            text = text_of(found)
            assert json.loads(text) == plain(schema.fields, version, found), version
            assert text == json_text(json.loads(text)), "the form of every other JSON text"


def test_a_float_that_json_has_no_number_for_is_a_text() -> None:
    """As Jackson writes `DoubleNode`: with quotes."""
    found = [
        json.loads(message_text("ClientQuotaRecord", 0)(quota(value)))["value"]
        for value in (0.1, math.nan, math.inf, -math.inf)
    ]
    assert found == [0.1, "NaN", "Infinity", "-Infinity"]


def quota(value: float) -> dict[str, Any]:
    data = b"".join(
        map(bytes, codec("ClientQuotaRecord", 0).encode({"entity": [], "key": "k", "value": value, "remove": False}))
    )
    return codec("ClientQuotaRecord", 0).decode_whole(data)


@pytest.mark.parametrize("text", ["", "a", 'q"\\', "\n\0\x1f", "\x7f\x9f", "käse", "\u202e", "\U0001f600"])
def test_a_text_is_written_as_everywhere(text: str) -> None:
    assert json_string(text) == json_text(text)


def test_a_version_that_does_not_exist() -> None:
    with pytest.raises(ProtocolError, match="OffsetCommitValue has no version 5"):
        message_text("OffsetCommitValue", 5)
