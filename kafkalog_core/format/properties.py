r"""The small text files: meta.properties, partition.metadata, .kafka_cleanshutdown and quorum-state.

Each reader takes a whole file and returns a `PropertyFile`: all properties, in order and with duplicates, every
malformed line, and whether a broker refuses the file (rules of 4.3.1). Readers raise LimitError for a file over
`MAX_PROPERTY_FILE_BYTES`, and no other error.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import LimitError
from kafkalog_core.format.checkpoint import LineEdit
from kafkalog_core.format.layout import META_VERSIONS, QUORUM_STATE_VERSIONS
from kafkalog_core.format.textfile import (
    MAX_LINE_BYTES,
    Failure,
    FileRefusal,
    Line,
    MalformedLine,
    iter_lines,
    join_surrogates,
    malformed_line,
    parse_int32,
    parse_uuid,
    split,
)
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "MAX_PROPERTY_FILE_BYTES",
    "NO_IDS",
    "Property",
    "PropertyFile",
    "encode_meta_properties",
    "encode_partition_metadata",
    "logical_lines",
    "mend_meta_properties",
    "read_clean_shutdown",
    "read_java_properties",
    "read_meta_properties",
    "read_partition_metadata",
    "read_quorum_state",
]


NO_IDS: Final = "the file has neither broker.id nor cluster.id"
"""Why a meta.properties of version 0 without ids is refused."""
MAX_PROPERTY_FILE_BYTES: Final = MAX_LINE_BYTES  # real files have some hundred bytes; with this limit no line is cut
_MAX_RESERVED_DIRECTORY_ID: Final = 99  # DirectoryId.java: most significant half 0, least below 100
_LABEL_END: Final = re.compile(r":\s+", re.ASCII)
_CONTINUED: Final = re.compile(r"(?:^|[^\\])(?:\\\\)*\\$", re.DOTALL)
_KEY: Final = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_BLANK_CHARS: Final = " \t\f"
_ESCAPED_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(Struct, frozen=True, kw_only=True):
    """A key and its value; `line`: its first line, from 1. JSON null is `None`; arrays and objects are kept as JSON."""

    key: str
    value: str | None
    line: int


class PropertyFile(Struct, frozen=True, kw_only=True):
    """The content of a file. Of a repeated key the last one counts. A broker reads the file if `refusal` is `None`."""

    properties: tuple[Property, ...] = ()
    malformed: tuple[MalformedLine, ...] = ()
    refusal: FileRefusal | None = None

    def get(self, key: str) -> str | None:
        """Return the value of a key, or `None`."""
        return next((item.value for item in reversed(self.properties) if item.key == key), None)


def read_java_properties(data: bytes) -> PropertyFile:
    """Read a file of Java properties: ISO-8859-1, comments, continued lines, escapes."""
    _check_size(data)
    properties: list[Property] = []
    malformed: list[MalformedLine] = []
    for line, text in logical_lines(data):
        key = _KEY.match(text)
        end = key.end() if key else 0
        separator = _SEPARATOR.match(text, end)
        parts = [_unescape(text[:end]), _unescape(text[separator.end() if separator else end :])]
        if parts[0] is None or parts[1] is None:
            malformed.append(malformed_line(line, "an escape \\u without four hexadecimal digits"))
        else:
            properties.append(Property(key=parts[0], value=parts[1], line=line.number))
    refusal = None
    if malformed:
        refusal = _refusal(Failure.IO, "malformed-line", f"line {malformed[0].line}: {malformed[0].problem}")
    return PropertyFile(properties=tuple(properties), malformed=tuple(malformed), refusal=refusal)


def read_meta_properties(data: bytes) -> PropertyFile:
    """Read meta.properties: Java properties with the rules of MetaProperties."""
    file = read_java_properties(data)
    return file if file.refusal is not None else replace(file, refusal=_refuse_meta(file))


def read_partition_metadata(data: bytes) -> PropertyFile:
    """Read partition.metadata: a line with the version, a line with the topic id; a broker reads no other lines."""
    _check_size(data)
    properties: list[Property] = []
    malformed: list[MalformedLine] = []
    values: list[str | None] = []
    for line in iter_lines((data,)):
        text = _decode(line.data)
        parts = [] if text is None else split(_LABEL_END, text)
        values.append(parts[1] if len(parts) == 2 else None)
        if len(parts) == 2:
            properties.append(Property(key=parts[0], value=parts[1], line=line.number))
        else:
            malformed.append(malformed_line(line, "not UTF-8" if text is None else "not a label, a colon and a value"))
    return PropertyFile(
        properties=tuple(properties), malformed=tuple(malformed), refusal=_refuse_partition_metadata(values)
    )


def read_clean_shutdown(data: bytes) -> PropertyFile:
    """Read .kafka_cleanshutdown: empty in old releases, then a JSON object. A broker only checks that it exists."""
    _check_size(data)
    if not data:
        return PropertyFile()
    whole = Line(1, 0, len(data), data, is_cut=False)
    document = _parse_json(whole)
    malformed = () if document.problem is None else (malformed_line(whole, document.problem),)
    return PropertyFile(properties=document.properties, malformed=malformed)


def read_quorum_state(data: bytes) -> PropertyFile:
    """Read quorum-state: one line of JSON, data_version 0 or 1; a broker reads the first line only."""
    _check_size(data)
    lines = list(iter_lines((data,)))
    if not lines:
        return PropertyFile(refusal=_refusal(Failure.IO, "empty", "the file is empty"))
    document = _parse_json(lines[0])
    malformed = [
        malformed_line(line, "only blanks may follow the first line") for line in lines[1:] if line.data.strip()
    ]
    if document.problem is not None:
        malformed.insert(0, malformed_line(lines[0], document.problem))
        refusal: FileRefusal | None = _refusal(Failure.IO, "malformed-line", f"line 1: {document.problem}")
    else:
        refusal = _refuse_quorum_state(document.members)
    return PropertyFile(properties=document.properties, malformed=tuple(malformed), refusal=refusal)


class _Wanted(NamedTuple):
    """A required field of quorum-state, and the types that its JSON value may have."""

    key: str
    kinds: tuple[type, ...]


_QUORUM_FIELDS: Final = (_Wanted("leaderId", (int,)), _Wanted("leaderEpoch", (int,)), _Wanted("votedId", (int,)))
_QUORUM_FIELDS_OF_VERSION: Final = {
    0: (
        _Wanted("clusterId", (str,)),
        _Wanted("appliedOffset", (int,)),
        _Wanted("currentVoters", (list, type(None))),
    ),
    1: (_Wanted("votedDirectoryId", (str,)),),
}


def _check_size(data: bytes) -> None:
    if len(data) > MAX_PROPERTY_FILE_BYTES:
        raise LimitError(f"{len(data)} bytes; files of this kind have at most {MAX_PROPERTY_FILE_BYTES}", position=0)


def _refusal(failure: Failure, code: str, problem: str) -> FileRefusal:
    return FileRefusal(failure=failure, code=code, problem=problem)


def _decode(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def logical_lines(data: bytes) -> Iterator[tuple[Line, str]]:
    """Yield lines as `Properties.LineReader` joins them; each `Line` spans the natural lines that it consists of."""
    start: Line | None = None
    text = ""
    for line in iter_lines((data,)):
        natural = line.data.decode("latin-1").lstrip(_BLANK_CHARS)
        if start is None and (not natural or natural[0] in "#!"):
            continue
        start = start or line
        text += natural
        if _CONTINUED.search(natural):
            text = text[:-1]
            continue
        yield _span(data, start, line.position + line.size_bytes), text
        start, text = None, ""
    if start is not None and text:
        yield _span(data, start, len(data)), text


def _span(data: bytes, start: Line, end: int) -> Line:
    joined = data[start.position : end]
    return Line(start.number, start.position, len(joined), joined, is_cut=False)


def _unescape(text: str) -> str | None:
    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", text):
        return None
    return join_surrogates(_ESCAPE.sub(_unescape_one, text))


def _unescape_one(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _ESCAPED_CONTROLS.get(escaped, escaped)


def _refuse_meta(file: PropertyFile) -> FileRefusal | None:
    """Return why a broker refuses this file (`MetaProperties.Builder`, `MetaPropertiesEnsemble`), or `None`."""
    text = file.get("version")
    version = parse_int32("0" if text is None else text)
    if version not in META_VERSIONS:
        return _refusal(Failure.RUNTIME, "unsupported-version", f"version {text!r}; only 0 and 1 exist")
    id_key = "node.id" if version else "broker.id"
    node_id, cluster_id, directory_id = file.get(id_key), file.get("cluster.id"), file.get("directory.id")
    if node_id is not None and parse_int32(node_id) is None:
        return _refusal(Failure.RUNTIME, "bad-node-id", f"{id_key} {node_id!r} is not a 32-bit number")
    if version == 1 and (node_id is None or cluster_id is None):
        missing = "node.id" if node_id is None else "cluster.id"
        return _refusal(Failure.RUNTIME, "missing-key", f"version 1 without {missing}")
    if node_id is None and cluster_id is None:
        return _refusal(Failure.RUNTIME, "missing-key", NO_IDS)
    return None if directory_id is None else _refuse_directory_id(directory_id)


def _refuse_directory_id(text: str) -> FileRefusal | None:
    uuid = parse_uuid(text)
    if uuid is None:
        return _refusal(Failure.RUNTIME, "bad-directory-id", f"directory.id {text!r} is not 16 bytes in base64url")
    if int.from_bytes(uuid, "big") <= _MAX_RESERVED_DIRECTORY_ID:
        return _refusal(Failure.RUNTIME, "bad-directory-id", f"directory.id {text!r} is reserved")
    return None


def _refuse_partition_metadata(values: Sequence[str | None]) -> FileRefusal | None:
    """Return why `PartitionMetadataFile.PartitionMetadataReadBuffer` refuses the file, or `None`.

    values: the value of each line; `None` for a malformed line.
    """
    if not values:
        return _refusal(Failure.RUNTIME, "too-short", "the file is empty")
    version = None if values[0] is None else parse_int32(values[0])
    if version is None or version < 0:
        return _refusal(Failure.IO, "malformed-line", "line 1 does not hold a version")
    if len(values) == 1:
        return _refusal(Failure.RUNTIME, "too-short", "the second line, with the topic id, is missing")
    return _refuse_topic_id(values[1])


def _refuse_topic_id(text: str | None) -> FileRefusal | None:
    if text is None:
        return _refusal(Failure.IO, "malformed-line", "line 2 does not hold a topic id")
    uuid = parse_uuid(text)
    if uuid is None:
        return _refusal(Failure.RUNTIME, "bad-topic-id", f"topic id {text!r} is not 16 bytes in base64url")
    if not any(uuid):
        return _refusal(Failure.IO, "zero-topic-id", "the topic id is zero")
    return None


class _Document(NamedTuple):
    """A JSON object and its members, in order and with duplicates, or why it is not one (`problem`)."""

    members: dict[str, object]
    properties: tuple[Property, ...]
    problem: str | None


def _no_document(problem: str) -> _Document:
    return _Document({}, (), problem)


def _parse_json(line: Line) -> _Document:
    objects: list[list[tuple[str, object]]] = []

    def keep(pairs: list[tuple[str, object]]) -> dict[str, object]:
        objects.append(pairs)
        return dict(pairs)

    text = _decode(line.data)
    if text is None:
        return _no_document("not UTF-8")
    try:
        members = json.loads(text, object_pairs_hook=keep, parse_constant=_refuse_constant)
        if not isinstance(members, dict):
            return _no_document("not a JSON object")
        pairs = objects[-1]  # the outermost object ends last
        properties = tuple(Property(key=join_surrogates(key), value=_json_text(value), line=1) for key, value in pairs)
    except (ValueError, RecursionError):  # also a number of thousands of digits, and deep nesting
        return _no_document("not JSON")
    return _Document(members, properties, None)


def _refuse_constant(name: str) -> object:
    raise ValueError(name)  # NaN and Infinity are accepted by Python, but are not JSON


def _json_text(value: object) -> str | None:
    if value is None:
        return None
    return join_surrogates(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _refuse_quorum_state(document: dict[str, object]) -> FileRefusal | None:
    """Return why a broker refuses the state, or `None`: FileQuorumStateStore requires every field of its version."""
    version = document.get("data_version")
    if "data_version" not in document:
        return _refusal(Failure.IO, "missing-key", "data_version is missing")
    if not isinstance(version, int) or isinstance(version, bool) or version not in QUORUM_STATE_VERSIONS:
        return _refusal(Failure.RUNTIME, "unsupported-version", f"data_version {version!r}; only 0 and 1 exist")
    for wanted in (*_QUORUM_FIELDS, *_QUORUM_FIELDS_OF_VERSION[version]):
        value = document.get(wanted.key)
        if wanted.key not in document:
            return _refusal(Failure.RUNTIME, "missing-key", f"{wanted.key} is missing")
        if not isinstance(value, wanted.kinds) or isinstance(value, bool):
            return _refusal(Failure.RUNTIME, "bad-value", f"the value of {wanted.key} has a wrong type")
    return None


_LINE_END: Final = "\n"
_ENDS: Final = b"\r\n"


def encode_partition_metadata(topic_id: str) -> bytes:
    """Return the content of a partition.metadata; a broker writes no line end after the id."""
    return f"version: 0\ntopic_id: {topic_id}".encode("ascii")


def encode_meta_properties(properties: Iterable[tuple[str, str]]) -> bytes:
    """Return the content of a meta.properties. Unlike a broker's, its comment has no date."""
    return "".join(f"{line}{_LINE_END}" for line in ("#", *(f"{key}={value}" for key, value in properties))).encode(
        "ascii"
    )


def mend_meta_properties(
    data: bytes, bad_lines: Mapping[int, str], new: Mapping[str, tuple[str, str]]
) -> tuple[bytes, tuple[LineEdit, ...]]:
    """Return the file without its bad lines and with new keys at the end, and the changed lines.

    Args:
        data: the whole file.
        bad_lines: number of each line to remove (of a continued line the first), and why.
        new: for each key to add its value, and why.
    """
    edits: list[LineEdit] = []
    content, position = bytearray(), 0
    for line, _ in logical_lines(data):
        if line.number in bad_lines:
            content += data[position : line.position]
            position = line.position + line.size_bytes
            old = line.data.rstrip(_ENDS).decode("utf-8", "backslashreplace")
            edits.append(LineEdit(line.number, old, None, bad_lines[line.number]))
    content += data[position:]
    if new and content and content[-1] not in _ENDS:
        content += _LINE_END.encode("ascii")
    for key, (value, problem) in new.items():
        content += f"{key}={value}{_LINE_END}".encode("ascii")
        edits.append(LineEdit(None, None, f"{key}={value}", problem))
    return bytes(content), tuple(edits)
