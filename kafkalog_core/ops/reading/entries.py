"""Rows of every file that is not a log of batches: indexes, producer snapshots, checkpoints, properties.

Memory is bounded by some thousand rows, whatever the size of the file. What is malformed is a row in its place: damage
where bytes say nothing, a finding for what a broker makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import UnsupportedError
from kafkalog_core.format.names import CHECKPOINT_KINDS, INDEX_KINDS, FileKind, FileState
from kafkalog_core.ops.reading.entry_faults import EntryFile
from kafkalog_core.ops.reading.index_entries import index_rows, snapshot_rows
from kafkalog_core.ops.reading.text_entries import checkpoint_rows, property_rows
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.ops.reading.rows import RowChunk

__all__ = ["ENTRY_KINDS", "entries"]

_PROPERTY_KINDS: Final = frozenset(
    {FileKind.META_PROPERTIES, FileKind.PARTITION_METADATA, FileKind.CLEAN_SHUTDOWN, FileKind.QUORUM_STATE}
)
_REMOTE_INDEX_KINDS: Final = frozenset(
    {FileKind.REMOTE_OFFSET_INDEX, FileKind.REMOTE_TIME_INDEX, FileKind.REMOTE_TXN_INDEX}
)
_READERS: Final[dict[FileKind, Callable[[EntryFile, Source], Iterator[RowChunk]]]] = {
    **dict.fromkeys(INDEX_KINDS | _REMOTE_INDEX_KINDS, index_rows),
    **dict.fromkeys(CHECKPOINT_KINDS, checkpoint_rows),
    **dict.fromkeys(_PROPERTY_KINDS, property_rows),
    FileKind.SNAPSHOT: snapshot_rows,
}
ENTRY_KINDS: Final = frozenset(_READERS)
"""The kinds that `entries` reads."""


def entries(
    path: str,
    kind: FileKind,
    *,
    state: FileState = FileState.LIVE,
    topic: str | None = None,
    partition: int | None = None,
    base_offset: int | None = None,
) -> Iterator[RowChunk]:
    """Rows of one file, in its order: `index_entry`, `producer`, `checkpoint` or `property`, `damage` and `finding`.

    Args:
        path: Where the file is.
        kind: What to read it as, one of `ENTRY_KINDS`.
        state: Of the file's name; a broker refuses nothing of a temporary file, it overwrites it.
        topic: Topic of the directory that the file is in; null: the directory is of no partition.
        partition: Partition number of that directory.
        base_offset: Of the file's name, for the offsets of an offset or time index; null: it has none.

    Raises:
        NotFoundError: There is no such file.
        AccessError: The operating system refused to read it.
        UnsupportedError: The kind is not one of `ENTRY_KINDS`.
    """
    read = _READERS.get(kind)
    if read is None:
        raise UnsupportedError(f"a file of kind {kind} holds no entries", path=path)
    file = EntryFile(path=path, kind=kind, state=state, topic=topic, partition=partition, base_offset=base_offset)
    with Source.open(path) as source:
        yield from read(file, source)
