"""A partition directory: its segments and companion files, and findings by names and sizes alone.

A file that seems to be missing is looked for again before it is reported: a live broker renames files while they are
listed.
"""

from __future__ import annotations

import os
from itertools import pairwise
from threading import Event
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    SEGMENT_KINDS,
    DirectoryName,
    FileKind,
    FileState,
    journal_run,
    parse_directory_name,
    parse_file_name,
    segment_file_name,
)
from kafkalog_core.storage.listing import (
    FileInfo,
    Listing,
    Segment,
    SegmentState,
    group_segments,
    list_directory,
    stat_path,
)
from kafkalog_core.storage.object_paths import is_object
from kafkalog_core.storage.paths import absolute, exists, real
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Partition", "PartitionFormat", "partition_name", "partition_of", "read_partition"]

PartitionFormat = Literal["log", "v07"]

_METADATA_KINDS: Final = frozenset({FileKind.LEADER_EPOCH, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE})
_UNFINISHED: Final = frozenset({FileState.TEMPORARY, FileState.PARTIAL})
_NO_FILE: Final = frozenset({"file.broken-link", "file.not-regular", "dir.nested"})
_INDEX_KINDS: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})
_OPENED_KINDS: Final = frozenset({FileKind.LEADER_EPOCH, FileKind.PARTITION_METADATA, FileKind.SNAPSHOT})
"""Others that a broker opens without a look at what they are."""
_MOST_PAUSES: Final = 5
_PAUSE_S: Final = 0.02
_PAUSE: Final = Event()
_CODE_OF_STATE: Final = {
    SegmentState.DELETED: "segment.deleted",
    SegmentState.SWAP: "segment.swap",
    SegmentState.CLEANED: "segment.cleaned",
}


class Partition(Struct, frozen=True, kw_only=True):
    """One listing of a partition directory.

    `segments` are those that a broker reads, by base offset (0.7: byte address), the active one last. `other_segments`
    are deleted, swapped, cleaned, misnamed or without a log. `files` holds every file once, by name; each is in one of
    the other groups, a segment's own producer snapshot in `snapshots` too.
    """

    path: str
    name: DirectoryName
    format: PartitionFormat
    files: tuple[FileInfo, ...]
    segments: tuple[Segment, ...]
    other_segments: tuple[Segment, ...]
    snapshots: tuple[FileInfo, ...]
    kraft_snapshots: tuple[FileInfo, ...]
    metadata_files: tuple[FileInfo, ...]
    other_files: tuple[FileInfo, ...]
    findings: tuple[Finding, ...]

    @property
    def topic(self) -> str | None:
        """The topic in the directory's name."""
        return self.name.topic

    @property
    def partition(self) -> int | None:
        """The partition number in the directory's name."""
        return self.name.partition


def read_partition(path: str) -> Partition:
    """Read a partition directory. Raises NotFoundError or AccessError for the directory itself."""
    return partition_of(list_directory(path))


def partition_of(listing: Listing) -> Partition:
    """Return the partition in a listed directory, whatever the directory is called."""
    name = partition_name(listing.path)
    live_kinds = {file.name.kind for file in listing.files if file.name.state is FileState.LIVE}
    # A directory with both was upgraded from 0.7: later brokers read the `.log` files.
    is_v07 = FileKind.LOG_V07 in live_kinds and FileKind.LOG not in live_kinds
    segments, other_segments = group_segments(listing.files, FileKind.LOG_V07 if is_v07 else FileKind.LOG)
    grouped = {file.path for segment in (*segments, *other_segments) for file in segment.files}
    snapshots = [file for file in listing.files if _is_live(file, FileKind.SNAPSHOT)]
    kraft_snapshots = tuple(file for file in listing.files if file.name.kind is FileKind.KRAFT_SNAPSHOT)
    metadata_files = tuple(file for file in listing.files if file.name.kind in _METADATA_KINDS)
    grouped.update(file.path for file in (*snapshots, *kraft_snapshots, *metadata_files))
    partition = Partition(
        path=listing.path,
        name=name,
        format="v07" if is_v07 else "log",
        files=listing.files,
        segments=segments,
        other_segments=other_segments,
        snapshots=tuple(sorted(snapshots, key=lambda file: file.name.base_offset or 0)),
        kraft_snapshots=kraft_snapshots,
        metadata_files=metadata_files,
        other_files=tuple(file for file in listing.files if file.path not in grouped),
        findings=(),
    )
    return _with_findings(partition, listing)


def partition_name(path: str) -> DirectoryName:
    """Return topic and partition of a directory's name, in any spelling of its path: `.`, `t-0/`, `../t-0`.

    Of a link, brokers use the link's own name; if that one is not a partition's, its target's name is returned.
    """
    # LogManager takes the partition from the name in the log directory, be it a link.
    name = parse_directory_name(os.path.basename(absolute(path)))
    if name.is_partition:
        return name
    target = parse_directory_name(os.path.basename(real(path)))
    return target if target.is_partition else name


def _with_findings(partition: Partition, nested: Listing) -> Partition:
    findings = [_not_a_file(finding, partition) or finding for finding in nested.findings]
    for directory in nested.directories:
        code = "dir.nested" if journal_run(directory.raw_name) is None else "dir.journal"
        finding = found(code, directory.path)
        findings.append(_not_a_file(finding, partition) or finding)
    findings += _v07_findings(partition) if partition.format == "v07" else _log_findings(partition)
    placed = (replace(finding, topic=partition.topic, partition=partition.partition) for finding in findings)
    return replace(partition, findings=tuple(sorted(placed, key=lambda finding: (finding.path, finding.code))))


def _not_a_file(finding: Finding, partition: Partition) -> Finding | None:
    """Return the finding about an entry that is not a file but has the name of one that a broker opens; else `None`."""
    name = parse_file_name(os.path.basename(finding.path))
    if finding.code not in _NO_FILE or not name.canonical or name.state is not FileState.LIVE:
        return None
    is_v07 = partition.format == "v07"
    problem = finding.message[:1].lower() + finding.message[1:].removesuffix(".")
    if name.kind is (FileKind.LOG_V07 if is_v07 else FileKind.LOG):
        return found("segment.log-unreadable", finding.path, offset=name.base_offset, problem=problem)
    # A broken link does not stop the broker: RandomAccessFile of AbstractIndex creates the file that it leads to.
    if name.kind in _INDEX_KINDS and not is_v07 and finding.code != "file.broken-link":
        return found("index.not-a-file", finding.path, offset=name.base_offset, problem=problem)
    if name.kind in _OPENED_KINDS and not is_v07 and finding.code != "file.broken-link":
        return found("file.not-a-file", finding.path, problem=problem)
    return None


def _v07_findings(partition: Partition) -> Iterator[Finding]:
    """Yield findings for Kafka 0.7, which reads files ending in `.kafka` and ignores the rest."""
    for file in partition.other_files:
        is_log = _is_live(file, FileKind.LOG_V07)
        code = "segment.bad-name" if is_log else _ignored_code(file)
        yield found(code, file.path, hides_records=is_log and file.size_bytes > 0)
    for file in (*partition.snapshots, *partition.kraft_snapshots, *partition.metadata_files):
        yield found(_ignored_code(file), file.path)
    for segment in partition.other_segments:
        yield from (_unread_findings(segment, partition) if segment.log else _ignored_findings(segment.files))
    for segment, following in pairwise(partition.segments):
        yield from _address_findings(segment, following.base_offset)


def _address_findings(segment: Segment, next_address: int) -> Iterator[Finding]:
    end = segment.base_offset + segment.size_bytes
    # A live broker may have written to it and rolled since
    if end != next_address:
        end = segment.base_offset + _size_now(segment)
    if end < next_address:
        yield found("segment.gap-v07", _path_of(segment), size_bytes=next_address - end, offset=next_address, end=end)
    elif end > next_address:
        yield found(
            "segment.overlap-v07", _path_of(segment), size_bytes=end - next_address, offset=next_address, end=end
        )


def _log_findings(partition: Partition) -> Iterator[Finding]:
    if not partition.segments:
        yield found("partition.empty", partition.path)
    for file in partition.other_files:
        is_log = file.name.raw.partition(".")[2].startswith("log")
        yield found(_log_file_code(file), file.path, hides_records=is_log and file.size_bytes > 0)
    for file in partition.kraft_snapshots:
        yield from _kraft_snapshot_findings(file, partition)
    for file in (*partition.snapshots, *partition.metadata_files):
        if file.name.state in _UNFINISHED:
            yield found("file.leftover", file.path)
        elif file.name.kind is FileKind.SNAPSHOT and not file.name.canonical:
            code = "segment.bad-name" if file.name.base_offset is None else "segment.misnamed-companion"
            yield found(code, file.path, offset=file.name.base_offset)
    has_timeindex = any(segment.timeindex for segment in partition.segments)
    for segment in partition.segments:
        is_active = segment is partition.segments[-1]
        yield from _segment_findings(segment, has_timeindex=has_timeindex, is_active=is_active)
    with_log = frozenset(
        segment.base_offset for segment in (*partition.segments, *partition.other_segments) if segment.log is not None
    )
    for segment in partition.other_segments:
        if segment.state is SegmentState.ORPHAN:
            yield from _orphan_findings(segment, partition, with_log)
        else:
            yield from _other_segment_findings(segment, partition)


def _segment_findings(segment: Segment, *, has_timeindex: bool, is_active: bool) -> Iterator[Finding]:
    # No start opens it (`LogLoader.loadSegmentFiles`)
    if segment.size_bytes > MAX_INT32:
        yield found("segment.oversize", _path_of(segment), size_bytes=segment.size_bytes, offset=segment.base_offset)
    # Recent releases create the indexes of a new segment at its first append
    if not segment.size_bytes:
        return
    for code, part, kind, expected in (
        ("segment.index-missing", segment.index, FileKind.OFFSET_INDEX, True),
        ("segment.timeindex-missing", segment.timeindex, FileKind.TIME_INDEX, has_timeindex),
    ):
        if expected and part is None and _is_missing_still(segment, kind, is_active=is_active):
            yield found(code, _path_of(segment), offset=segment.base_offset)


def _other_segment_findings(segment: Segment, partition: Partition) -> Iterator[Finding]:
    if segment.state is SegmentState.UNREAD:
        yield from _unread_findings(segment, partition)
    else:
        yield _unplaced_finding(segment, partition)
        if segment.state is SegmentState.SWAP and segment.log and not segment.index:
            yield found("segment.swap-index-missing", _path_of(segment), offset=segment.base_offset)


def _unplaced_finding(segment: Segment, partition: Partition) -> Finding:
    # `LogLoader.removeTempFilesAndCollectSwapFiles`: `.deleted` and `.cleaned` are deleted, `.swap` is completed.
    code, offset, size_bytes = _CODE_OF_STATE[segment.state], segment.base_offset, segment.size_bytes
    is_alone = all(live.base_offset != offset for live in partition.segments)
    if segment.state is SegmentState.SWAP and size_bytes and is_alone:
        code = "segment.swap-alone"
    return found(code, _path_of(segment), size_bytes=size_bytes or None, offset=offset, hides_records=size_bytes > 0)


def _unread_findings(segment: Segment, partition: Partition) -> Iterator[Finding]:
    offset, size_bytes = segment.base_offset, segment.size_bytes
    name = segment.files[0].name
    if name.state in _UNFINISHED:
        yield from _ignored_findings(segment.files)
        return
    if (name.kind is FileKind.LOG_V07) != (partition.format == "v07"):
        code = "partition.mixed-formats"
    elif any(live.base_offset == offset for live in partition.segments):
        code = "segment.duplicate"
    else:
        code = "segment.misnamed" if size_bytes else "segment.misnamed-empty"
    yield found(code, _path_of(segment), size_bytes=size_bytes, offset=offset, hides_records=size_bytes > 0)


def _orphan_findings(segment: Segment, partition: Partition, with_log: frozenset[int]) -> Iterator[Finding]:
    """Yield findings about indexes without a log; after an interrupted deletion their log is `.deleted` already."""
    # Without it, `loadSegmentFiles` deletes indexes
    log_name = segment_file_name(segment.base_offset, FileKind.LOG)
    for file in segment.files:
        if file.name.kind is FileKind.SNAPSHOT:
            continue
        if file.name.state in _UNFINISHED:
            yield found("file.leftover", file.path)
        elif not file.name.canonical:
            yield found("segment.misnamed-companion", file.path, offset=segment.base_offset)
        elif segment.base_offset in with_log:
            yield found("segment.deleted", file.path, offset=segment.base_offset)
        # Looked at again, since a rename of the log and its indexes takes several system calls.
        elif exists(file.path) and not exists(f"{partition.path}/{log_name}"):
            yield found("segment.index-orphan", file.path, offset=segment.base_offset)


def _kraft_snapshot_findings(file: FileInfo, partition: Partition) -> Iterator[Finding]:
    if file.name.state in _UNFINISHED:
        yield found("file.leftover", file.path)
    elif partition.topic != METADATA_TOPIC:
        yield found("segment.deleted" if file.name.state is FileState.DELETED else "file.unknown", file.path)
    elif file.name.base_offset is None:
        yield found("snapshot.bad-name", file.path)
    elif file.name.state is FileState.DELETED:
        yield found("segment.deleted", file.path, offset=file.name.base_offset)


def _ignored_findings(files: Iterable[FileInfo]) -> Iterator[Finding]:
    return (found(_ignored_code(file), file.path) for file in files)


def _ignored_code(file: FileInfo) -> str:
    return "file.leftover" if file.name.state in _UNFINISHED else "file.unknown"


def _log_file_code(file: FileInfo) -> str:
    """Return the code for a file that belongs to no segment, by what a broker does with it."""
    name = file.name
    if name.state in {FileState.SWAP, FileState.CLEANED}:
        return "segment.bad-name" if name.base_offset is None else _CODE_OF_STATE[SegmentState(name.state)]
    if name.state is FileState.DELETED:
        return "segment.deleted"
    names_offset = name.kind in SEGMENT_KINDS - {FileKind.LOG_V07} or name.raw.endswith(".log")
    return "segment.bad-name" if names_offset and name.state is FileState.LIVE else _ignored_code(file)


def _is_live(file: FileInfo, kind: FileKind) -> bool:
    return file.name.kind is kind and file.name.state is FileState.LIVE


def _path_of(segment: Segment) -> str:
    return segment.files[0].path


def _size_now(segment: Segment) -> int:
    try:
        return stat_path(_path_of(segment)).st_size
    except StorageError:
        return segment.size_bytes


class _Patience:
    """Waits for files that a live broker is creating. On a dead disk they never come: some waits in vain are the last.

    So thousands of logs that were copied without their indexes take no longer than one.
    """

    def __init__(self) -> None:
        self._left = _MOST_PAUSES

    def is_in_vain(self, is_there: Callable[[], bool]) -> bool:
        """Return whether a file is not there, and does not come."""
        given = self._left
        while not is_there():
            if not self._left:
                return True
            self._left -= 1
            _PAUSE.wait(_PAUSE_S)
        # A file that came gives the patience back: a live broker is at work here.
        self._left = given
        return False


_patience: Final = _Patience()


def _is_missing_still(segment: Segment, kind: FileKind, *, is_active: bool) -> bool:
    """Return whether, on a second look too, the log exists and its index does not.

    A broker creates the indexes of the active segment one after the other, when it has written its first batch.
    """
    log_path = _path_of(segment)
    index_path = f"{log_path.rpartition('/')[0]}/{segment_file_name(segment.base_offset, kind)}"

    def is_there() -> bool:
        return exists(index_path) or not exists(log_path)

    return _patience.is_in_vain(is_there) if is_active and not is_object(log_path) else not is_there()
