"""By what a file is known again that an earlier run has read: size, times and place, and what is at both its ends.

A file that was written to in its middle alone, and whose time of change was set back to what it was, is taken for
unchanged.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import KafkalogError, StorageError
from kafkalog_core.findings.catalogue import FINDING_TYPES
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.ops.verify.partition import CheckerPlace  # noqa: TC001 -- annotations are read at run time
from kafkalog_core.ops.verify.verdict import (
    SegmentVerdict,
    from_plain,
    shape_of,
    to_plain,
)
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.ops.verify.engine import VerifyRequest
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "END_BYTES",
    "FileMark",
    "Keeper",
    "SegmentRecord",
    "StateError",
    "decode",
    "encode",
    "head_line",
    "head_problem",
    "is_unchanged",
    "marked_files",
    "marks_of",
    "place_of",
]


END_BYTES: Final = 64 * 1024
"""What is read of a file at its start, and at its end, to know it again."""


@dataclass(frozen=True, slots=True)
class FileMark:
    """One file. Its device is not in it: numbers of devices change when a machine is started again."""

    name: str
    size_bytes: int
    mtime_ns: int
    inode: int
    crc: int


def marked_files(
    partition: Partition, segment: Segment, before: CheckerPlace | None, place: CheckerPlace
) -> list[FileInfo]:
    """The files that a segment's verdict is made of, and the snapshots that its replay has come past."""
    first = -1 if before is None else before.producers.reached + 1
    snapshots = [
        file for file in partition.snapshots if first <= (file.name.base_offset or 0) <= place.producers.reached
    ]
    parts = (segment.log, segment.index, segment.timeindex, segment.txnindex)
    return [file for file in (*parts, *snapshots) if file is not None]


def marks_of(files: Iterable[FileInfo]) -> tuple[FileMark, ...] | None:
    """Return marks of files that are as they were listed; `None` if one has changed or cannot be read."""
    marks = []
    for file in files:
        crc = _crc_of_ends(file)
        if crc is None:
            return None
        marks.append(FileMark(file.name.raw, file.size_bytes, file.mtime_ns, file.inode, crc))
    return tuple(marks)


def is_unchanged(files: Sequence[FileInfo], marks: Sequence[FileMark]) -> bool:
    """Return whether files are those of the marks: first by the listing, which costs nothing."""
    listed = [(file.name.raw, file.size_bytes, file.mtime_ns, file.inode) for file in files]
    if listed != [(mark.name, mark.size_bytes, mark.mtime_ns, mark.inode) for mark in marks]:
        return False
    return all(_crc_of_ends(file) == mark.crc for file, mark in zip(files, marks, strict=True))


def _crc_of_ends(file: FileInfo) -> int | None:
    """Return the CRC of the first and last bytes (all of a small file); `None` if the file has changed since."""
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
    """The file given as the state of an earlier run is not one, or not one of this release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    """One checked segment.

    Args:
        premise: what the verdict depends on apart from the files; see `PartitionChecker.premise`.
        now_ms: time of the check.
        marks: of its files.
        verdict: what was found.
        place: the state of the checks over all segments after it.
        producers: their state after it, in base64; `None`: not kept, so that no run continues from here.
    """

    premise: str
    now_ms: int
    marks: tuple[FileMark, ...]
    verdict: SegmentVerdict
    place: CheckerPlace
    producers: str | None

    @property
    def producer_bytes(self) -> bytes | None:
        """Their state as it was before base64. Raises StateError."""
        try:
            return None if self.producers is None else base64.b64decode(self.producers, validate=True)
        except (binascii.Error, ValueError) as error:
            raise StateError("the state of producers is not base64") from error


class Keeper(Protocol):
    """Keeps lines between runs. Partitions are named by their absolute path, segments by their number from 0 on."""

    def lines_of(self, partition: str) -> Sequence[str]:
        """Lines of a partition's first segments, in order."""

    def keep(self, partition: str, index: int, line: str) -> None:
        """Keep the line of a segment; what is known of it and of later ones is no longer true."""

    def skipped(self, size_bytes: int) -> None:
        """Count bytes of log that were not read again."""


# --- one line a segment -----------------------------------------------------------------------------------------------
def encode(partition: str, index: int, record: SegmentRecord, directory: str) -> str:
    """The line of a segment; `directory` is how the paths in its findings begin."""
    return _dumps({"partition": partition, "index": index, "segment": to_plain(record, directory)})


def place_of(line: str) -> tuple[str, int]:
    """Partition and number of a line that is right in all its parts. Raises StateError."""
    values = _loads(line)
    decode(line, "", values)
    partition, index = values.get("partition"), values.get("index")
    if not isinstance(partition, str) or type(index) is not int or index < 0:
        raise StateError("it names no segment")
    return partition, index


def decode(line: str, directory: str, values: dict[str, object] | None = None) -> SegmentRecord:
    """The record in a line. Raises StateError."""
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
        raise StateError("it has a code that is not in the catalogue of findings")
    return record


# --- the head ---------------------------------------------------------------------------------------------------------
def head_line(request: VerifyRequest, version: str) -> str:
    """The first line: what verdicts depend on that are not of a file."""
    return _dumps(_head(request, version))


def head_problem(line: str, request: VerifyRequest, version: str) -> str | None:
    """Return why the lines after a head cannot be used, as the end of a sentence; `None`: they can.

    Raises StateError if it is not a head.
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
