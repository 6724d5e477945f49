"""Decoded messages as JSON text, by their schemas: objects with the names that Kafka's own tools show.

A function for each message and version is made of its schema when it is first used, as `wire.codec` makes the decoder.
It is the form of Kafka's generated `JsonConverter` classes: a tagged field with its default is not stored (KIP-482) and
is left out, ids are base64url without padding (`Uuid.toString`), bytes are base64, and a float that JSON has no number
for is a text, as Jackson writes it. Tagged fields that the schema does not have are kept under `unknownTags`.
"""

from __future__ import annotations

import base64
from functools import cache, lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.text import json_string, json_text
from kafkalog_core.wire.codec import UNKNOWN_TAGS
from kafkalog_core.wire.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.wire.schemas import MessageField

__all__ = ["camel", "message_text"]


@cache
def message_text(name: str, version: int) -> Callable[[dict[str, Any]], str]:
    """Return the function that writes decoded messages of one version as JSON text. Raises ProtocolError.

    In place of a `bytes` value it also takes a `str`, which is JSON text already.
    """
    source = _Source(version)
    function = source.struct(schema_of(name, version).fields)
    exec("\n".join(source.lines), source.space)  # noqa: S102 -- the source is written below, from our own table
    made: Callable[[dict[str, Any]], str] = source.space[function]
    return made


def camel(name: str) -> str:
    """Return the name of a field as Kafka's tools show it: `leaderEpoch`."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


@lru_cache(maxsize=10_000)
def _id_text(value: bytes) -> str:
    return f'"{base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")}"'


def _bytes_text(value: bytes | str) -> str:
    return value if isinstance(value, str) else f'"{base64.b64encode(value).decode("ascii")}"'


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _float_text(value: float) -> str:
    if isfinite(value):
        return json_text(value)
    return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'  # noqa: PLR0124 -- NaN


def _unknown_text(tags: Sequence[tuple[int, bytes]]) -> str:
    shown = (f'{{"tag":{tag},"data":{_bytes_text(data)}}}' for tag, data in tags)
    return f',"unknownTags":[{",".join(shown)}]'


_TEXT_OF: Final[dict[str, Callable[[Any], str]]] = {
    "string": json_string,
    "uuid": _id_text,
    "bytes": _bytes_text,
    "bool": _bool_text,
    "float64": _float_text,
}
"""The function of each type but integers, whose text is that of Python."""


class _Source:
    """The source of the functions of one version of a message, and the names that it uses; `m` is a struct."""

    def __init__(self, version: int) -> None:
        self.lines: list[str] = []
        self.space: dict[str, Any] = {
            "unknown": _unknown_text,
            **{f"of_{name}": each for name, each in _TEXT_OF.items()},
        }
        self._version = version

    def struct(self, fields: Sequence[MessageField]) -> str:
        """Write the function of a struct, after those of the structs in it; return its name."""
        form, values = "", []
        for field in fields:
            if self._version not in field.versions:
                continue
            member, value = f',"{camel(field.name)}":', self._value(field)
            if self._version in field.tagged:
                form += "%s"
                values.append(f"'' if m[{field.name!r}] == {field.default!r} else {member!r} + str({value})")
            else:
                form += f"{member}%s"
                values.append(value)
        name = f"text_{len(self.lines)}"
        self.lines += [
            f"def {name}(m):",
            f"    text = {form!r} % ({''.join(f'{value}, ' for value in values)})",
            f"    if {UNKNOWN_TAGS!r} in m: text += unknown(m[{UNKNOWN_TAGS!r}])",
            "    return '{' + text[1:] + '}'",
        ]
        return name

    def _value(self, field: MessageField) -> str:
        """Return an expression of a field's text."""
        place = f"m[{field.name!r}]"
        function = self._function(field)
        if field.is_array:
            value = f"'[' + ','.join(map({function or 'str'}, {place})) + ']'"
        else:
            value = f"{function}({place})" if function else place
        return f"('null' if {place} is None else {value})" if self._version in field.nullable else f"({value})"

    def _function(self, field: MessageField) -> str | None:
        """Return the name of the function that writes a value, or an element of an array; None: an integer."""
        if field.struct is not None:
            return self.struct(field.struct.fields)
        return f"of_{field.type}" if field.type in _TEXT_OF else None
