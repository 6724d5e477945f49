"""The table of Kafka's message schemas, `schemas.txt`, which `tools/make_wire_schemas.py` writes from Kafka's jars.

A message begins at the start of a line: name, kind, API key (for records of the coordinators and of the metadata log:
the type of the record), versions, and the versions that are flexible (KIP-482). A message with two entries has two
ranges of versions. Below it are its fields: name, type, versions, options; fields of a struct are indented further.
`struct` begins a struct that several fields share.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from kafkalog_core import structs
from kafkalog_core.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Api", "MessageField", "Schema", "Struct", "Versions", "api_of", "apis", "names", "schema_of"]

_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDLESS: Final = 2**15


class Versions(structs.Struct, frozen=True):
    """A range of versions, both ends included; empty if `last` is below `first`."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


class MessageField(structs.Struct, frozen=True, kw_only=True):
    """A field of a message or a struct.

    Args:
        name: in snake_case.
        type: of the value, or of the elements of an array: `int8` to `int64`, `uint16`, `float64`, `bool`, `string`,
            `bytes`, `uuid` (16 bytes), `records`, or the name of a struct.
        flexible: the flexible versions of this field; None: those of the message.
        default: the value in a version that does not have the field; `has_default`: whether the schema states it.
        tag: the tag in the versions of `tagged`.
        is_ignorable: whether a version without the field may drop a value that is not the default.
        struct: the fields of a struct.
    """

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    flexible: Versions | None
    tag: int
    default: object
    has_default: bool
    is_ignorable: bool
    struct: Struct | None


class Struct(structs.Struct, frozen=True):
    """The fields of a struct, in the order of their bytes."""

    name: str
    fields: tuple[MessageField, ...]


class Schema(structs.Struct, frozen=True, kw_only=True):
    """One range of versions of a message."""

    name: str
    kind: str
    key: int | None
    versions: Versions
    flexible: Versions
    fields: tuple[MessageField, ...]


class Api(structs.Struct, frozen=True):
    """A request that clients send: its API key, its name without `Request`, and its versions."""

    key: int
    name: str
    versions: Versions

    def is_flexible(self, version: int) -> bool:
        """Return whether header and body of a version are flexible."""
        return version in schema_of(f"{self.name}Request", version).flexible


@cache
def names() -> frozenset[str]:
    """Return the names of all messages, as Kafka spells them."""
    return frozenset(_entries())


@cache
def apis() -> dict[int, Api]:
    """Return the APIs of clients, by key."""
    found = {}
    for name in names():
        schemas = _schemas(name)
        key = schemas[0].key
        if schemas[0].kind == "request" and key is not None:
            versions = Versions(schemas[0].versions.first, schemas[-1].versions.last)
            found[key] = Api(key, name.removesuffix("Request"), versions)
    return found


def api_of(key: int) -> Api:
    """Return the API of a key. Raises ProtocolError if no client sends it."""
    api = apis().get(key)
    if api is None:
        raise ProtocolError(f"no request of a client has the API key {key}")
    return api


def schema_of(name: str, version: int) -> Schema:
    """Return the schema of one version of a message. Raises ProtocolError if there is none."""
    schemas = _schemas(name) if name in _entries() else ()
    for schema in schemas:
        if version in schema.versions:
            return schema
    raise ProtocolError(f"{name} has no version {version}" if schemas else f"Kafka has no message of the name {name}")


@cache
def _entries() -> dict[str, list[list[str]]]:
    """Return the lines of each message, an element for each range of versions."""
    from importlib.resources import files  # noqa: PLC0415 -- slow to import: most commands read no message

    found: dict[str, list[list[str]]] = {}
    for line in files(__package__).joinpath("schemas.txt").read_text("ascii").splitlines():
        if line[0].isalpha():
            entry = [line]
            found.setdefault(line.partition(" ")[0], []).append(entry)
        elif line[0] == " ":
            entry.append(line)
    return found


@cache
def _schemas(name: str) -> tuple[Schema, ...]:
    return tuple(_parse(lines) for lines in _entries()[name])


def _parse(lines: list[str]) -> Schema:
    name, kind, key, versions, flexible = lines[0].split(" ")
    rows = _tree(lines[1:])
    shared = {row.words[1]: row.children for row in rows if row.words[0] == "struct"}
    return Schema(
        name=name,
        kind=kind,
        key=None if key == "-" else int(key),
        versions=_versions(versions),
        flexible=_versions(flexible),
        fields=_fields((row for row in rows if row.words[0] != "struct"), shared),
    )


class _Row(structs.Struct, frozen=True):
    """The words of a line, and the lines that are indented below it."""

    words: list[str]
    children: list[_Row]


def _tree(lines: list[str]) -> list[_Row]:
    top: list[_Row] = []
    levels = [top]  # the open list of each depth; an indent is two spaces
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        row = _Row(line.split(), [])
        levels[depth - 1].append(row)
        levels[depth:] = [row.children]
    return top


def _fields(rows: Iterable[_Row], shared: dict[str, list[_Row]]) -> tuple[MessageField, ...]:
    return tuple(_field(row, shared) for row in rows)


def _field(row: _Row, shared: dict[str, list[_Row]]) -> MessageField:
    name, kind, versions, *options = row.words
    given = dict(option.partition("=")[::2] for option in options)
    kind, is_array = kind.removeprefix("[]"), kind.startswith("[]")
    struct = Struct(kind, _fields(row.children or shared[kind], shared)) if kind[0].isupper() else None
    return MessageField(
        name=_WORD_START.sub("_", name).lower(),
        type=kind,
        is_array=is_array,
        versions=_versions(versions),
        nullable=_versions(given.get("nullable", "none")),
        tagged=_versions(given.get("tagged", "none")),
        flexible=_versions(given["flexible"]) if "flexible" in given else None,
        tag=int(given.get("tag", "0")),
        default=json.loads(given["default"])
        if "default" in given
        else _implied_default(kind, struct, is_array=is_array),
        has_default="default" in given,
        is_ignorable="ignorable" in given,
        struct=struct,
    )


def _implied_default(kind: str, struct: Struct | None, *, is_array: bool) -> object:
    """Return the default of a field that states none, as Kafka's generated classes have it (`FieldSpec`)."""
    if is_array:
        return []
    if struct is not None:
        return {field.name: field.default for field in struct.fields}
    return _IMPLIED.get(kind, 0)


_IMPLIED: Final = {"string": "", "bytes": b"", "records": None, "uuid": bytes(16), "bool": False, "float64": 0.0}


def _versions(text: str) -> Versions:
    if text == "none":
        return Versions(0, -1)
    first, dash, last = text.removesuffix("+").partition("-")
    return Versions(int(first), _ENDLESS if text.endswith("+") else int(last if dash else first))
