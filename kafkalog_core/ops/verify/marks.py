"""By what a file is known again that an earlier run has read: size, times and place, and what is at both its ends.

A file that was written to in its middle alone, and whose time of change was set back to what it was, is taken for
unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.ops.verify.partition import CheckerPlace
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.segment import Segment

__all__ = ["END_BYTES", "FileMark", "is_unchanged", "marked_files", "marks_of"]

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
    """Marks of files that are as they were listed; null where one has changed or cannot be read."""
    marks = []
    for file in files:
        crc = _crc_of_ends(file)
        if crc is None:
            return None
        marks.append(FileMark(file.name.raw, file.size_bytes, file.mtime_ns, file.inode, crc))
    return tuple(marks)


def is_unchanged(files: Sequence[FileInfo], marks: Sequence[FileMark]) -> bool:
    """Whether files are those of the marks: what a listing tells first, as it costs nothing."""
    listed = [(file.name.raw, file.size_bytes, file.mtime_ns, file.inode) for file in files]
    if listed != [(mark.name, mark.size_bytes, mark.mtime_ns, mark.inode) for mark in marks]:
        return False
    return all(_crc_of_ends(file) == mark.crc for file, mark in zip(files, marks, strict=True))


def _crc_of_ends(file: FileInfo) -> int | None:
    """Of the first and the last bytes, which are all of a small file; null where it is not as it was listed."""
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
