"""Rows of the text files: the five checkpoints line by line, and the four small property files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checkpoint import (
    EpochEntry,
    OffsetEntry,
    Verdict,
    read_epoch_checkpoint,
    read_offset_checkpoint,
)
from kafkalog_core.format.names import FileKind
from kafkalog_core.format.properties import (
    MAX_PROPERTY_FILE_BYTES,
    PropertyFile,
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
    read_quorum_state,
)
from kafkalog_core.ops.logdirs.checkpoints import TextWindows
from kafkalog_core.ops.reading.entry_rows import damage_row, fault_row, unreadable_row
from kafkalog_core.ops.reading.rows import RowChunk
from kafkalog_core.storage.source import UnreadableError
from kafkalog_core.tables import CHECKPOINT, PROPERTY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.ops.reading.entry_faults import EntryFile
    from kafkalog_core.storage.source import Source

__all__ = ["checkpoint_rows", "property_rows"]

_ROWS: Final = 4096
_Row = dict[str, object]
PROPERTY_READERS: Final[dict[FileKind, Callable[[bytes], PropertyFile]]] = {
    FileKind.META_PROPERTIES: read_meta_properties,
    FileKind.PARTITION_METADATA: read_partition_metadata,
    FileKind.CLEAN_SHUTDOWN: read_clean_shutdown,
    FileKind.QUORUM_STATE: read_quorum_state,
}


def checkpoint_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Every entry, damage in the place of each malformed line; last a finding where a broker refuses the file."""
    text = TextWindows(source)
    read = read_epoch_checkpoint if file.kind is FileKind.LEADER_EPOCH else read_offset_checkpoint
    rows: list[_Row] = []
    for item in read(text.windows()):
        if isinstance(item, OffsetEntry | EpochEntry):
            rows.append(_checkpoint_row(file, item))
            if len(rows) < _ROWS:
                continue
        if rows:
            yield RowChunk(CHECKPOINT, rows)
            rows = []
        if isinstance(item, Verdict):
            if text.lost is not None:
                yield unreadable_row(file, text.lost.position, source.size_bytes - text.lost.position)
            elif item.refusal is not None:
                yield fault_row(file, file.refused(item.refusal))
        elif not isinstance(item, OffsetEntry | EpochEntry):
            yield fault_row(file, file.malformed_line(item))


def _checkpoint_row(file: EntryFile, entry: OffsetEntry | EpochEntry) -> _Row:
    row: _Row = {"file": file.path, "kind": str(file.kind), "line": entry.line}
    if isinstance(entry, OffsetEntry):
        return row | {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset}
    return row | {
        "topic": file.topic,
        "partition": file.partition,
        "leader_epoch": entry.leader_epoch,
        "offset": entry.start_offset,
    }


def property_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Every key of a property file, a damage row for each malformed line, a finding where a broker refuses the file."""
    if source.size_bytes > MAX_PROPERTY_FILE_BYTES:
        detail = f"{source.size_bytes} bytes, where files of this kind have some hundred"
        yield damage_row(file, 0, source.size_bytes, "too-large", detail)
        return
    try:
        data = source.read(0, source.size_bytes)
    except UnreadableError as error:
        yield damage_row(file, 0, source.size_bytes, "unreadable", error.message)
        return
    if len(data) < source.size_bytes:
        yield unreadable_row(file, len(data), source.size_bytes - len(data))
        return
    contents = PROPERTY_READERS[file.kind](data)
    if contents.properties:
        common: _Row = {"file": file.path, "kind": str(file.kind)}
        yield RowChunk(PROPERTY, [common | {"key": item.key, "value": item.value} for item in contents.properties])
    for line in contents.malformed:
        yield fault_row(file, file.malformed_line(line))
    if contents.refusal is not None:
        yield fault_row(file, file.refused(contents.refusal))
