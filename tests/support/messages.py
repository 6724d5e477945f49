"""Random messages by their schemas, and what a decoder makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.wire import schemas

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from kafkalog_core.wire.schemas import MessageField

INTS = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}


def all_versions() -> Iterator[tuple[str, int]]:
    """Every message in every version."""
    for name in sorted(schemas.names()):
        for version in range(200):
            try:
                schemas.schema_of(name, version)
            except schemas.ProtocolError:
                continue
            yield name, version


def message(fields: Sequence[MessageField], version: int, dice: random.Random, bits: int = 64) -> dict[str, Any]:
    """A value with all fields that the version has, those with a tag now and then."""
    found = {}
    for field in fields:
        if version not in field.versions or (version in field.tagged and dice.random() < 0.5):
            continue
        found[field.name] = _value(field, version, dice, bits)
    return found


def _value(field: MessageField, version: int, dice: random.Random, bits: int) -> object:
    if version in field.nullable and dice.random() < 0.3:
        return None
    if field.is_array:
        return [_one(field, version, dice, bits) for _ in range(dice.choice((0, 1, 2, 3)))]
    return _one(field, version, dice, bits)


def _one(field: MessageField, version: int, dice: random.Random, bits: int) -> object:
    if field.struct is not None:
        return message(field.struct.fields, version, dice, bits)
    if field.type in INTS:
        width = min(INTS[field.type], bits)
        return dice.randrange(0 if field.type[0] == "u" or bits < INTS[field.type] else -(1 << width), 1 << width)
    others = {
        "string": lambda: dice.choice(("", "a", "topic-1", "käse", "x" * 130)),
        "uuid": lambda: dice.randbytes(16),
        "bool": lambda: dice.random() < 0.5,
        "float64": lambda: float(dice.randrange(1000)),
    }
    return others.get(field.type, lambda: dice.randbytes(dice.choice((0, 1, 5, 200))))()


def complete(fields: Sequence[MessageField], version: int, value: dict[str, Any]) -> dict[str, Any]:
    """The value with the defaults of the fields that it does not have."""
    found = {}
    for field in fields:
        there = value.get(field.name, field.default)
        if field.struct is not None and there is not None and field.name in value:
            if field.is_array:
                there = [complete(field.struct.fields, version, one) for one in there]
            else:
                there = complete(field.struct.fields, version, there)
        found[field.name] = there
    return found
