"""The records of checked segments that a later run continues from, as lines of JSON, and the marks of their files.

A file is unchanged if its size, modification time, inode and the bytes at both ends are. A change in the middle alone
is not noticed if the modification time was set back. What is read may come from anywhere: a value that is not of the
annotated type is an error. Integers fit in 64 bits.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from kafkalog_core.errors import KafkalogError, StorageError
from kafkalog_core.findings import catalog, kinds
from kafkalog_core.findings.catalog import FINDING_TYPES
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.ops.verify import verdict as verdicts
from kafkalog_core.ops.verify.partition import CheckerPlace  # noqa: TC001 -- annotations are read at run time
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, astuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_core.ops.verify.request import VerifyRequest
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "END_BYTES",
    "FileMark",
    "SegmentRecord",
    "StateError",
    "decode",
    "encode",
    "from_plain",
    "head_line",
    "head_problem",
    "is_unchanged",
    "marked_files",
    "marks_of",
    "place_of",
    "shape_of",
    "to_plain",
]


END_BYTES: Final = 64 * 1024
"""Bytes that are read at the start and at the end of a file, to recognize it."""


class FileMark(Struct, frozen=True):
    """What identifies one file. Its device is not part of it: device numbers change when a machine restarts."""

    name: str
    size_bytes: int
    mtime_ns: int
    inode: int
    crc: int


def marked_files(
    partition: Partition, segment: Segment, before: CheckerPlace | None, place: CheckerPlace
) -> list[FileInfo]:
    """Return the files that a segment's verdict depends on, and the snapshots that its replay has passed."""
    first = -1 if before is None else before.producers.reached + 1
    snapshots = [
        file for file in partition.snapshots if first <= (file.name.base_offset or 0) <= place.producers.reached
    ]
    parts = (segment.log, segment.index, segment.timeindex, segment.txnindex)
    return [file for file in (*parts, *snapshots) if file is not None]


def marks_of(files: Iterable[FileInfo]) -> tuple[FileMark, ...] | None:
    """Return the marks of listed files; None if one has changed since the listing or cannot be read."""
    marks = []
    for file in files:
        crc = _crc_of_ends(file)
        if crc is None:
            return None
        marks.append(FileMark(file.name.raw, file.size_bytes, file.mtime_ns, file.inode, crc))
    return tuple(marks)


def is_unchanged(files: Sequence[FileInfo], marks: Sequence[FileMark]) -> bool:
    """Return whether files have these marks; those that differ in the listing are not read."""
    listed = [(file.name.raw, file.size_bytes, file.mtime_ns, file.inode) for file in files]
    if listed != [(mark.name, mark.size_bytes, mark.mtime_ns, mark.inode) for mark in marks]:
        return False
    return all(_crc_of_ends(file) == mark.crc for file, mark in zip(files, marks, strict=True))


def _crc_of_ends(file: FileInfo) -> int | None:
    """Return the CRC of the first and last bytes (all of a small file); None if the file has changed since."""
    size_bytes = file.size_bytes
    try:
        with Source.open(file.path) as source:
            ends = source.read(0, min(END_BYTES, size_bytes))
            if size_bytes > END_BYTES:
                start = max(END_BYTES, size_bytes - END_BYTES)
                ends += source.read(start, size_bytes - start)
        status = stat_path(file.path)
    except StorageError:
        return None
    is_as_listed = (status.st_size, status.st_mtime_ns, status.st_ino) == (size_bytes, file.mtime_ns, file.inode)
    return crc32c(ends) if is_as_listed else None


_FORMAT: Final = "kafkalog verify state"
_VERSION: Final = 1


class StateError(KafkalogError):
    """A file given as the state of an earlier run that is none, or none of this release."""


class SegmentRecord(Struct, frozen=True, kw_only=True):
    """One checked segment.

    Args:
        premise: what the verdict depends on apart from the files; see `PartitionChecker.premise`.
        now_ms: time of the check.
        marks: of its files.
        verdict: of the segment.
        place: state of the checks over all segments, after this one.
        producers: state of the producers after it, in base64; None: not kept, so no run continues from here.
    """

    premise: str
    now_ms: int
    marks: tuple[FileMark, ...]
    verdict: SegmentVerdict
    place: CheckerPlace
    producers: str | None

    @property
    def producer_bytes(self) -> bytes | None:
        """State of the producers, decoded; None: not kept. Raises StateError."""
        try:
            return None if self.producers is None else base64.b64decode(self.producers, validate=True)
        except (binascii.Error, ValueError) as error:
            raise StateError("the state of producers is not base64") from error


# --- one line a segment -----------------------------------------------------------------------------------------------
def encode(partition: str, index: int, record: SegmentRecord, directory: str) -> str:
    """Return the line of a segment; `directory` is the start of the paths in its findings."""
    return _dumps({"partition": partition, "index": index, "segment": to_plain(record, directory)})


def place_of(line: str) -> tuple[str, int]:
    """Return the partition and the number in a line that is valid in all its parts. Raises StateError."""
    values = _loads(line)
    decode(line, "", values)
    partition, index = values.get("partition"), values.get("index")
    if not isinstance(partition, str) or type(index) is not int or index < 0:
        raise StateError("it names no segment")
    return partition, index


def decode(line: str, directory: str, values: dict[str, object] | None = None) -> SegmentRecord:
    """Return the record in a line. Raises StateError."""
    try:
        record = from_plain(SegmentRecord, (values or _loads(line)).get("segment"), directory)
    except ValueError as error:
        raise StateError(str(error)) from error
    verdict, log = record.verdict, next(iter(record.marks), None)
    places = (0, *(place for span in verdict.damage for place in (span[0], sum(span))), verdict.size_bytes)
    if log is None or log.size_bytes != verdict.size_bytes or any(a > b for a, b in pairwise(places)):
        raise StateError("its sizes do not agree")
    producers = record.place.producers
    parts = (record.place.found, producers.found, producers.explained, verdict)
    if any(finding.code not in FINDING_TYPES for part in parts for finding in part.findings):
        raise StateError("it has a code that is not in the catalog of findings")
    return record


# --- the head ---------------------------------------------------------------------------------------------------------
def head_line(request: VerifyRequest, version: str) -> str:
    """Return the first line of a state: what all verdicts depend on apart from files."""
    return _dumps(_head(request, version))


def head_problem(line: str, request: VerifyRequest, version: str) -> str | None:
    """Return why the lines after a first line cannot be used, as the end of a sentence; None: they can.

    Raises StateError for another first line.
    """
    values = _loads(line)
    if values.get("format") != _FORMAT:
        raise StateError("its first line is not that of a state of kafkalog verify")
    meant = _head(request, version)
    if values.get("level") != meant["level"]:
        return f"it was made with --level {values.get('level')!s:.20}, this run has --level {meant['level']}"
    if values.get("max_batch_bytes") != meant["max_batch_bytes"]:
        return "it was made with another --max-batch-bytes"
    return None if values == meant else "it was made by another release of kafkalog, whose rules differ"


def _head(request: VerifyRequest, version: str) -> dict[str, object]:
    rules = f"{shape_of(SegmentRecord)}{FINDING_TYPES}"
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "kafkalog": version,
        "rules": zlib.crc32(rules.encode()),
        "level": request.level,
        "max_batch_bytes": request.max_batch_bytes,
    }


def _dumps(values: dict[str, object]) -> str:
    return json.dumps(values, separators=(",", ":")) + "\n"


def _loads(line: str) -> dict[str, object]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StateError("it is not a line of JSON") from error
    if not isinstance(values, dict):
        raise StateError("it is not a JSON object")
    return values


_Value = TypeVar("_Value")


_HERE = "\0"
"""Replaces the directory at the start of a text, which may be at another path later."""


def to_plain(value: object, directory: str) -> object:
    """Return JSON values for a struct, a tuple or a plain value; `directory` at the start of a text is left out."""
    if isinstance(value, str):
        return _HERE + value[len(directory) :] if value.startswith(f"{directory}/") else value
    if isinstance(value, tuple):
        return [to_plain(item, directory) for item in value]
    if isinstance(value, Struct):
        return [to_plain(each, directory) for each in astuple(value)]
    return value


def from_plain(kind: type[_Value], data: object, directory: str) -> _Value:
    """Return the struct from the JSON values of `to_plain`. Raises ValueError."""
    reader: Callable[[object, str], object] = _reader(cast("Any", kind))
    return cast("_Value", reader(data, directory))


def shape_of(kind: type) -> str:
    """Return names and types of all fields, also of the structs in them."""
    hints = _hints(kind)
    inside = {part for hint in hints.values() for part in _parts(hint) if _is_struct(part)}
    shapes = sorted(shape_of(cast("type", part)) for part in inside)
    return f"{kind.__name__}({', '.join(f'{name}: {hint}' for name, hint in hints.items())}){''.join(shapes)}"


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _hints(kind: type) -> dict[str, Any]:
    """Return the annotations as types, also those that modules import for the type checker alone."""
    return get_type_hints(kind, localns={**vars(kinds), **vars(verdicts), **vars(catalog)})


def _parts(hint: object) -> list[object]:
    arguments = get_args(hint)
    return [part for argument in arguments for part in _parts(argument)] if arguments else [hint]


_LEAST: Final = -MAX_INT64 - 1


@cache
def _reader(hint: Any) -> Callable[[object, str], object]:
    """Return the function that reads values of one annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin is Literal:
        return _choice_reader(arguments)
    if origin in {Union, UnionType}:
        return _optional_reader(next(part for part in arguments if part is not NoneType))
    if origin is tuple:
        return _tuple_reader(arguments)
    return _class_reader(hint)


def _read_text(data: object, directory: str) -> str:
    if not isinstance(data, str):
        raise ValueError(f"{data!r:.40} is not a text")  # noqa: TRY004 -- it is what was read that is wrong
    return directory + data[len(_HERE) :] if data.startswith(_HERE) else data


def _read_int(data: object, directory: str) -> int:
    del directory
    if type(data) is int and _LEAST <= data <= MAX_INT64:
        return data
    raise ValueError(f"{data!r:.40} is not an int")


def _read_bool(data: object, directory: str) -> bool:
    del directory
    if data is True or data is False:
        return data
    raise ValueError(f"{data!r:.40} is not a bool")


_PLAIN: Final[dict[object, Callable[[object, str], object]]] = {str: _read_text, int: _read_int, bool: _read_bool}


def _choice_reader(choices: tuple[object, ...]) -> Callable[[object, str], object]:
    def read(data: object, directory: str) -> object:
        del directory
        if not isinstance(data, str) or data not in choices:
            raise ValueError(f"{data!r:.40} is none of {', '.join(map(str, choices))}")
        return data

    return read


def _optional_reader(hint: Any) -> Callable[[object, str], object]:
    read = _reader(hint)
    return lambda data, directory: None if data is None else read(data, directory)


def _tuple_reader(hints: tuple[Any, ...]) -> Callable[[object, str], object]:
    if hints[-1] is Ellipsis:
        read_item = _reader(hints[0])
        return lambda data, directory: tuple(read_item(item, directory) for item in _items(data))
    readers = [_reader(hint) for hint in hints]
    return lambda data, directory: tuple(
        read(item, directory) for read, item in zip(readers, _items(data, len(readers)), strict=True)
    )


def _class_reader(kind: Any) -> Callable[[object, str], object]:
    hints = _hints(kind)
    names, readers, count = tuple(hints), tuple(map(_reader, hints.values())), len(hints)

    def read(data: object, directory: str) -> object:
        values = [read_one(item, directory) for read_one, item in zip(readers, _items(data, count), strict=True)]
        return kind(**dict(zip(names, values, strict=True)))

    return read


def _items(data: object, count: int | None = None) -> list[object]:
    if not isinstance(data, list) or count not in {None, len(data)}:
        raise ValueError(f"{data!r:.40} is not a list of {'values' if count is None else count}")
    return data
