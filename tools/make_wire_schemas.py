"""Writes `kafkalog_core/wire/schemas.txt`, the table of Kafka's messages, from the schemas in Kafka's published jars.

    python -m tools.make_wire_schemas DIR_OF_JARS_3_9_2 DIR_OF_JARS_4_4_0 > kafkalog_core/wire/schemas.txt

The jars hold a JSON schema for each message. Per version of a message the newest release that still has the version
is right: a schema loses fields with the versions that used them. Name the releases from the oldest to the newest. Kept
are the requests and responses of clients and what Kafka writes into its own topics; texts that explain fields are not.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_WANTED: Final = re.compile(r"(?:common/)?(?:message|metadata)/\w+\.json")
_OF_MANY_RELEASES: Final = {"request", "response", "header"}
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
Schema = dict[str, Any]


def main(directories: list[str]) -> str:
    """Return the table of the messages of some releases, the oldest first."""
    kept: dict[str, list[tuple[int, int, Schema]]] = {}
    for directory in reversed(directories):
        schemas = {schema["name"]: schema for schema in _schemas(Path(directory))}
        for name, schema in schemas.items():
            bounds = _bounds(schema, schemas)
            if bounds is None or (directory != directories[-1] and schema["type"] not in _OF_MANY_RELEASES):
                continue
            newer = kept.setdefault(name, [])
            first, last = bounds[0], min([bounds[1], *(begin - 1 for begin, _, _ in newer)])
            if first <= last:
                newer.append((first, last, schema))
    lines = ["# Kafka's messages; made by tools/make_wire_schemas.py from its jars, and not to be edited.\n"]
    for name in sorted(kept):
        for first, last, schema in sorted(kept[name], key=lambda row: row[0]):
            lines += _lines(schema, first, last)
    return "".join(lines)


def _schemas(directory: Path) -> Iterator[Schema]:
    jars = sorted(directory.glob("kafka*.jar"))
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for member in sorted(archive.namelist()):
                if _WANTED.fullmatch(member):
                    text = _COMMENT.sub("", archive.read(member).decode()).lstrip()
                    yield json.JSONDecoder().raw_decode(text)[0]  # one schema of 2.8 has more after its JSON


def _bounds(schema: Schema, schemas: dict[str, Schema]) -> tuple[int, int] | None:
    """Return the first and the last version of a message; None: it is sent between brokers and controllers only."""
    if schema["validVersions"] == "none":
        return None
    first, last = _versions(schema["validVersions"])
    if schema["type"] in {"request", "response"}:
        request = schemas[re.sub(r"Response$", "Request", schema["name"])]
        if "broker" not in request.get("listeners", ()):
            return None
        of_request = _versions(request["validVersions"])
        unstable = request.get("latestVersionUnstable", False)
        first, last = max(first, of_request[0]), min(last, of_request[1] - unstable)
    return (first, last) if first <= last else None


def _versions(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _lines(schema: Schema, first: int, last: int) -> Iterator[str]:
    flexible = schema.get("flexibleVersions", "none")
    yield f"{schema['name']} {schema['type']} {schema.get('apiKey', '-')} {first}-{last} {flexible}\n"
    for struct in schema.get("commonStructs", ()):
        yield f"  struct {struct['name']} {struct['versions']}\n"
        yield from _fields(struct["fields"], 2)
    yield from _fields(schema["fields"], 1)


def _fields(fields: list[Schema], depth: int) -> Iterator[str]:
    for field in fields:
        words = [field["name"], field["type"], field["versions"] if "versions" in field else field["taggedVersions"]]
        words += [f"{key}={field[name]}" for key, name in _OPTIONS.items() if name in field]
        if field.get("default") is not None:  # a null, unlike the text "null", states no default (`FieldSpec`)
            words.append(f"default={json.dumps(_default(field['type'], field['default']))}")
        if field.get("ignorable") in {True, "true"}:
            words.append("ignorable")
        yield f"{'  ' * depth}{' '.join(words)}\n"
        yield from _fields(field.get("fields", []), depth + 1)


def _default(kind: str, text: object) -> object:
    """Return a default, which most schemas write as a string, as a value of the field's type."""
    if text == "null":
        return None
    if kind == "bool":
        return text in {True, "true"}
    return str(text) if kind == "string" else int(str(text), 0)


_OPTIONS: Final = {
    "nullable": "nullableVersions",
    "tagged": "taggedVersions",
    "tag": "tag",
    "flexible": "flexibleVersions",
}


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]))
