"""Signs of a release in one partition directory: its files' kinds, its first batches, the entries of its last index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.decode import codec_name
from kafkalog_core.format.index import iter_offset_entries
from kafkalog_core.format.layout import BATCH_V2, CODEC_MASK, MAGIC_POSITION, MAGIC_V2, OFFSET_INDEX_ENTRY
from kafkalog_core.format.names import FileKind, FileState
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.segment import Segment

__all__ = ["PartitionSigns", "read_partition_signs"]

_MAX_ENTRIES: Final = 64  # of an index that are looked at: each costs a read of the log


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSigns:
    """What one partition shows. A sign that cannot be read is one that is not there.

    Args:
        kinds: of the files in it.
        magics: of the first batches of its first and last segments, and `zstd`.
        has_data: a segment holds batches, and has an index.
        indexes_first: an entry of the last offset index holds a batch's first offset.
        indexes_last: one holds an offset behind it.
    """

    kinds: frozenset[FileKind]
    magics: frozenset[int]
    codecs: frozenset[str]
    has_data: bool
    indexes_first: bool
    indexes_last: bool


def read_partition_signs(path: str) -> PartitionSigns | None:
    """Look at a partition: some small reads, however large it is. Null where it cannot be listed."""
    try:
        partition = read_partition(path)
    except StorageError:
        return None
    ends = {segment.base_offset: segment for segment in (*partition.segments[:1], *partition.segments[-2:])}
    headers = [header for segment in ends.values() for header in _first_header(segment)]
    styles = {style for segment in partition.segments[-2:] for style in _index_styles(segment)}
    return PartitionSigns(
        kinds=frozenset(file.name.kind for file in partition.files if file.name.state is FileState.LIVE),
        magics=frozenset(header[MAGIC_POSITION] for header in headers),
        codecs=frozenset(
            codec_name(_fields(header)["attributes"] & CODEC_MASK)
            for header in headers
            if header[MAGIC_POSITION] == MAGIC_V2
        ),
        has_data=any(segment.index is not None and segment.size_bytes for segment in partition.segments),
        indexes_first="first" in styles,
        indexes_last="last" in styles,
    )


def _first_header(segment: Segment) -> Iterator[bytes]:
    if segment.log is None or not segment.size_bytes:
        return
    header = _read(segment.log, 0, BATCH_V2.size)
    if len(header) == BATCH_V2.size:
        yield header


def _index_styles(segment: Segment) -> Iterator[str]:
    """Which end of its batch each entry of an index names; nothing where the two are one."""
    if segment.log is None or segment.index is None:
        return
    for relative_offset, position in iter_offset_entries(
        _read(segment.index, 0, _MAX_ENTRIES * OFFSET_INDEX_ENTRY.size)
    ):
        header = _read(segment.log, position, BATCH_V2.size) if position > 0 else b""
        if len(header) < BATCH_V2.size or header[MAGIC_POSITION] != MAGIC_V2:
            continue
        fields = _fields(header)
        offset, first = segment.base_offset + relative_offset, fields["baseOffset"]
        if fields["lastOffsetDelta"] > 0 and offset >= first:
            yield "first" if offset == first else "last"


def _fields(header: bytes) -> dict[str, int]:
    return dict(zip(BATCH_V2.offsets, BATCH_V2.struct.unpack(header), strict=True))


def _read(file: FileInfo, position: int, size_bytes: int) -> bytes:
    try:
        with Source.open(file.path) as source:
            return bytes(source.read(position, size_bytes))
    except StorageError:
        return b""
