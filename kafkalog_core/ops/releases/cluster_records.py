"""What the cluster metadata log says about releases and topic ids, read without the rest of it.

Every broker and controller of a KRaft cluster has a copy of this log. A node registers whenever it starts, and says
then up to which level of `metadata.version` its release goes: that is the release, to the minor version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.control import decode_control_key
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, CONTROL_TYPE_NAMES, MAX_BATCH_BYTES
from kafkalog_core.format.metadata_records import (
    METADATA_VERSION,
    FeatureLevel,
    MetadataRecord,
    Registration,
    TopicCreated,
    TopicRemoved,
    decode_metadata_record,
)
from kafkalog_core.format.names import FileState
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.segment import Segment

__all__ = [
    "ClusterLevels",
    "MetadataHistory",
    "read_cluster_topics",
    "read_file_levels",
    "read_history",
    "read_log_levels",
]


_FOOTER: Final = CONTROL_TYPE_NAMES.index("snapshot_footer")


@dataclass(slots=True)
class ClusterLevels:
    """`finalized` is the cluster's level of metadata.version, `registered` the last registration of each node."""

    finalized: int | None = None
    registered: dict[int, Registration] = field(default_factory=dict)

    def of_node(self, node_id: int | None) -> int | None:
        """The highest level that a node's release knows; of an unknown node what all of them have in common."""
        levels = {
            node.highest_levels.get(METADATA_VERSION, 0)
            for node in self.registered.values()
            if node_id in {None, node.node_id}
        }
        return levels.pop() if len(levels) == 1 else None


def read_log_levels(path: str, node_id: int | None) -> ClusterLevels:
    """Of a metadata log's directory: its newest files first, as far back as the node's last registration.

    What is damaged or unreadable is passed over: this is evidence, not a check.
    """
    levels = ClusterLevels()
    try:
        partition = read_partition(path)
    except StorageError:
        return levels
    for file_path in _newest_first(partition):
        older, levels = levels, read_file_levels(file_path)
        levels.registered.update(older.registered)
        if older.finalized is not None:
            levels.finalized = older.finalized
        if node_id in levels.registered:
            break
    return levels


def read_file_levels(path: str) -> ClusterLevels:
    """Of one file of batches: a segment, a snapshot, bootstrap.checkpoint."""
    levels = ClusterLevels()
    for record in _records(path):
        if isinstance(record, Registration):
            known = levels.registered.get(record.node_id)
            log_dirs = record.log_dirs or (() if known is None else known.log_dirs)  # a controller says none
            levels.registered[record.node_id] = replace(record, log_dirs=log_dirs)
        elif isinstance(record, FeatureLevel) and record.name == METADATA_VERSION:
            levels.finalized = record.level
    return levels


@dataclass(frozen=True, slots=True)
class MetadataHistory:
    """The records of a metadata log from its newest snapshot on; `is_whole`: none of them is missing or damaged."""

    paths: tuple[str, ...]
    is_whole: bool

    def records(self) -> Iterator[MetadataRecord]:
        """In their order, those that `metadata_records` knows. What is damaged is passed over."""
        for path in self.paths:
            yield from _records(path)


def read_history(path: str) -> MetadataHistory:
    """Of the directory of a metadata log."""
    try:
        partition = read_partition(path)
    except StorageError:
        return MetadataHistory((), is_whole=False)
    paths = tuple(reversed(list(_newest_first(partition))))
    return MetadataHistory(paths, is_whole=_is_whole(partition))


def read_cluster_topics(path: str) -> dict[str, str]:
    """Ids of the topics that there are by the metadata log in a directory; empty where it is not whole."""
    names: dict[str, str] = {}
    history = read_history(path)
    if not history.is_whole:
        return {}
    for record in history.records():
        if isinstance(record, TopicCreated):
            names[record.topic_id] = record.name
        elif isinstance(record, TopicRemoved):
            names.pop(record.topic_id, None)
    return {name: topic_id for topic_id, name in names.items()}


def _is_whole(partition: Partition) -> bool:
    """Return whether every record from the newest snapshot on can be read: what is lost may be what counts now.

    A torn end counts as a loss too, although a crash may leave one: whether its batch was committed is unknown.
    """
    snapshot = _newest_snapshot(partition)
    if snapshot is not None and not _has_footer(snapshot.path):
        return False
    expected = 0 if snapshot is None else snapshot.name.base_offset or 0
    is_first = True
    for segment in _segments_from(partition, expected):
        starts_right = segment.base_offset <= expected if is_first else segment.base_offset == expected
        next_offset = None if segment.log is None else _next_offset(segment.log.path, segment.base_offset)
        if not starts_right or next_offset is None:
            return False
        expected, is_first = next_offset, False
    return True


def _next_offset(path: str, base_offset: int) -> int | None:
    """Return the offset after the last batch of a file; `None` where some of the file cannot be read."""
    next_offset = base_offset
    try:
        with Source.open(path) as source:
            for item in scan(source, base_offset=None):
                if isinstance(item, Damage):
                    return None
                next_offset = item.batches.column("last_offset")[-1] + 1
    except StorageError:
        return None
    return next_offset


def _has_footer(path: str) -> bool:
    """Return whether a snapshot is whole: it ends with a footer record (SnapshotFooterRecord, KIP-630)."""
    is_footer = False
    try:
        with Source.open(path) as source:
            for item in scan(source, base_offset=None):
                if isinstance(item, Damage):
                    return False
                is_footer = _ends_with_footer(item)
    except StorageError:
        return False
    return is_footer


def _ends_with_footer(run: Run) -> bool:
    last = len(run.batches.column("attributes")) - 1
    if not run.batches.column("attributes")[last] & CONTROL_BIT:
        return False
    for piece in decode_run(run.memory, run.batches, max_bytes=MAX_BATCH_BYTES, wanted=lambda row: row == last):
        if isinstance(piece, RecordRun):
            start, size = (piece.records.column(name)[-1] for name in ("key_start", "key_size"))
            try:
                return decode_control_key(piece.memory[start : start + size])[0].type == _FOOTER
            except FormatError:
                return False
    return False


def _newest_snapshot(partition: Partition) -> FileInfo | None:
    snapshots = [file for file in partition.kraft_snapshots if file.name.state is FileState.LIVE]
    return max(snapshots, key=lambda file: file.name.base_offset or 0, default=None)


def _segments_from(partition: Partition, offset: int) -> list[Segment]:
    """Return the segments from the one that holds an offset on, in their order."""
    first = max((each.base_offset for each in partition.segments if each.base_offset <= offset), default=None)
    return [each for each in partition.segments if first is None or each.base_offset >= first]


def _newest_first(partition: Partition) -> Iterator[str]:
    """Segments down to the newest whole snapshot, that one, and what is older where there is none."""
    newest = _newest_snapshot(partition)
    for segment in reversed(_segments_from(partition, 0 if newest is None else newest.name.base_offset or 0)):
        if segment.log is not None:
            yield segment.log.path
    if newest is not None:
        yield newest.path


def _records(path: str) -> Iterator[MetadataRecord]:
    try:
        with Source.open(path) as source:
            for item in scan(source, base_offset=None, options=ScanOptions(check=True)):
                if isinstance(item, Run):
                    yield from _records_of(item)
    except StorageError:
        return


def _records_of(run: Run) -> Iterator[MetadataRecord]:
    for piece in decode_run(run.memory, run.batches, max_bytes=MAX_BATCH_BYTES):
        if not isinstance(piece, RecordRun):
            continue
        attributes = piece.batches.column("attributes")
        columns = (piece.records.column(name) for name in ("batch", "value_start", "value_size"))
        for batch, start, size in zip(*columns, strict=True):
            if attributes[batch] & CONTROL_BIT or size <= 0:
                continue
            try:
                record = decode_metadata_record(piece.memory[start : start + size])
            except FormatError:
                continue
            if record is not None:
                yield record
