"""Rows of the binary small files: offset, time and transaction indexes, and producer snapshots.

Files are read in runs of some thousand entries. The zero tail of a preallocated index is one finding and not
a million rows; zeros before an entry that is not zero are rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import ChecksumError, FieldError, FormatError, TruncatedError, UnsupportedError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.index import (
    iter_offset_entries,
    iter_time_entries,
    iter_txn_entries,
    split_size,
    used_entries,
)
from kafkalog_core.format.layout import (
    OFFSET_INDEX_ENTRY,
    SNAPSHOT_ENTRY,
    SNAPSHOT_HEADER,
    TIME_INDEX_ENTRY,
    TXN_INDEX_ENTRY,
)
from kafkalog_core.format.names import CHECKPOINT_KINDS, INDEX_KINDS, FileKind, FileState
from kafkalog_core.format.snapshot import (
    CRC_START,
    ENTRIES_START,
    check_snapshot_crc,
    check_snapshot_size,
    decode_snapshot_header,
    iter_producer_entries,
)
from kafkalog_core.kafka.logdir.faults import EntryFile, damage_row, fault_row, place_of_rows, unreadable_row
from kafkalog_core.kafka.logdir.text_files import checkpoint_rows, property_rows
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.rows.tables import INDEX_ENTRY, PRODUCER
from kafkalog_core.storage.source import Source, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.layout import Layout

__all__ = ["ENTRY_KINDS", "entries", "index_rows", "snapshot_rows"]


_ROWS: Final = 4096
_Row = dict[str, object]
_SNAPSHOT_REASONS: Final[dict[type[FormatError], str]] = {
    TruncatedError: "snapshot-truncated",
    UnsupportedError: "snapshot-version",
    FieldError: "snapshot-entry-count",
    ChecksumError: "snapshot-crc-mismatch",
}


class _Run(NamedTuple):
    """Whole entries from a position on, valid until the next run is asked for."""

    position: int
    data: memoryview


class _Lost(NamedTuple):
    """Entries that the disk cannot read."""

    position: int
    size_bytes: int


def index_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Yield every entry of an index, then what is after the last one."""
    layout, _ = _INDEXES[file.kind]
    count, partial_bytes = split_size(layout, source.size_bytes)
    end = count * layout.size
    zeros_position: int | None = None  # where the current zeros start, while nothing else follows them
    for item in _runs(source, layout, 0, end):
        if isinstance(item, _Lost):
            yield from _zero_tail(file, zeros_position, item.position)
            yield unreadable_row(file, item.position, item.size_bytes)
            zeros_position = None
            continue
        used_bytes = used_entries(layout, item.data) * layout.size
        if used_bytes:
            if zeros_position is not None:
                yield from _zero_rows(file, zeros_position, item.position)
            zeros_position = None
            yield from _rows(file, item.position, item.data[:used_bytes])
        if used_bytes < len(item.data) and zeros_position is None:
            zeros_position = item.position + used_bytes
    yield from _behind_entries(file, source, zeros_position, end, partial_bytes)


def _behind_entries(
    file: EntryFile, source: Source, zeros_position: int | None, end: int, partial_bytes: int
) -> Iterator[RowChunk]:
    layout, _ = _INDEXES[file.kind]
    if file.kind in _TIME_KINDS and zeros_position == 0 and end == layout.size:
        yield from _zero_rows(file, 0, end)  # one entry of zeros: records of 1970
    else:
        yield from _zero_tail(file, zeros_position, min(end, source.size_bytes))
    if source.size_bytes < end + partial_bytes:
        yield fault_row(file, file.finding("file.shrank", position=source.size_bytes))
    elif partial_bytes:
        detail = f"{partial_bytes} bytes after entry {end // layout.size - 1}, where an entry has {layout.size}"
        yield damage_row(file, end, partial_bytes, "partial-entry", detail)


def snapshot_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Every producer of a snapshot whose version, size and checksum are good, else one damage row for all of it."""
    size_bytes = source.size_bytes
    try:
        _check_snapshot(source)
    except FormatError as error:
        yield damage_row(file, 0, size_bytes, _SNAPSHOT_REASONS[type(error)], str(error))
        return
    except UnreadableError as error:
        yield damage_row(file, 0, size_bytes, "unreadable", f"{error.message}, so its checksum cannot be checked")
        return
    for item in _runs(source, SNAPSHOT_ENTRY, ENTRIES_START, size_bytes):
        if isinstance(item, _Lost):
            yield unreadable_row(file, item.position, item.size_bytes)
        else:
            yield RowChunk(PRODUCER, list(_producers(file, item)))


def _check_snapshot(source: Source) -> None:
    header, position = decode_snapshot_header(source.window(0, SNAPSHOT_HEADER.size))
    check_snapshot_size(header, source.size_bytes)
    computed, position = 0, CRC_START
    while position < header.size_bytes:
        window = source.window(position)
        if not window:
            raise TruncatedError("the file became shorter while it was read", position=position)
        computed = crc32c(window, computed)
        position += len(window)
    check_snapshot_crc(header, computed)


def _producers(file: EntryFile, run: _Run) -> Iterator[_Row]:
    columns = PRODUCER.names[-_PRODUCER_FIELDS:]
    for slot, fields in enumerate(iter_producer_entries(run.data)):
        position = run.position + slot * SNAPSHOT_ENTRY.size
        yield place_of_rows(file) | {"position": position} | dict(zip(columns, fields, strict=True))


def _runs(source: Source, layout: Layout, start: int, end: int) -> Iterator[_Run | _Lost]:
    """Whole entries between two entry boundaries, some thousand at a time; fewer where the file has become shorter."""
    position = start
    while position < end:
        try:
            window = source.window(position, min(_ROWS * layout.size, end - position))
        except UnreadableError as error:
            entries = -(-(error.position + error.size_bytes - position) // layout.size)
            size_bytes = min(entries * layout.size, end - position)
            yield _Lost(position, size_bytes)
            position += size_bytes
            continue
        size_bytes = len(window) - len(window) % layout.size
        if size_bytes:
            yield _Run(position, window[:size_bytes])
        elif position + layout.size > source.size_bytes:
            return
        else:  # the disk cannot read the rest of this entry
            size_bytes = layout.size
            yield _Lost(position, size_bytes)
        position += size_bytes


def _rows(file: EntryFile, position: int, run: memoryview) -> Iterator[RowChunk]:
    _, rows = _INDEXES[file.kind]
    yield RowChunk(INDEX_ENTRY, list(rows(file, position, run)))
    if file.kind in _TXN_KINDS:
        yield from _bad_versions(file, position, run)


def _zero_rows(file: EntryFile, position: int, end: int) -> Iterator[RowChunk]:
    """Yield rows of entries of zeros: an entry that is not zeros follows them."""
    layout, _ = _INDEXES[file.kind]
    zeros = memoryview(bytes(_ROWS * layout.size))
    while position < end:
        run = zeros[: end - position]
        yield from _rows(file, position, run)
        position += len(run)


def _zero_tail(file: EntryFile, position: int | None, end: int) -> Iterator[RowChunk]:
    if position is not None and position < end:
        code = "txnindex.zero-tail" if file.kind in _TXN_KINDS else "index.zero-tail"
        yield fault_row(file, file.finding(code, position=position, size_bytes=end - position))


def _bad_versions(file: EntryFile, position: int, run: memoryview) -> Iterator[RowChunk]:
    for slot, (version, *_) in enumerate(iter_txn_entries(run)):
        if version > _MAX_TXN_VERSION:
            at = position + slot * TXN_INDEX_ENTRY.size
            finding = file.finding(
                "txnindex.bad-version", position=at, size_bytes=TXN_INDEX_ENTRY.size, version=version
            )
            yield fault_row(file, finding)


def _offset_rows(file: EntryFile, position: int, run: memoryview) -> Iterator[_Row]:
    size = OFFSET_INDEX_ENTRY.size
    common = place_of_rows(file) | {"kind": "offset"}
    for slot, (relative_offset, log_position) in enumerate(iter_offset_entries(run), position // size):
        yield common | {
            "slot": slot,
            "position": slot * size,
            "offset": None if file.base_offset is None else file.base_offset + relative_offset,
            "relative_offset": relative_offset,
            "log_position": log_position,
        }


def _time_rows(file: EntryFile, position: int, run: memoryview) -> Iterator[_Row]:
    size = TIME_INDEX_ENTRY.size
    common = place_of_rows(file) | {"kind": "time"}
    for slot, (timestamp_ms, relative_offset) in enumerate(iter_time_entries(run), position // size):
        yield common | {
            "slot": slot,
            "position": slot * size,
            "offset": None if file.base_offset is None else file.base_offset + relative_offset,
            "relative_offset": relative_offset,
            "timestamp_ms": timestamp_ms,
        }


def _txn_rows(file: EntryFile, position: int, run: memoryview) -> Iterator[_Row]:
    size = TXN_INDEX_ENTRY.size
    common = place_of_rows(file) | {"kind": "txn"}
    for slot, (version, producer_id, first, last, last_stable) in enumerate(iter_txn_entries(run), position // size):
        yield common | {
            "slot": slot,
            "position": slot * size,
            "version": version,
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": last_stable,
        }


_PRODUCER_FIELDS: Final = len(SNAPSHOT_ENTRY.fields)
_MAX_TXN_VERSION: Final = 0x00FF  # AbortedTxn reads the first of the two bytes alone, as a signed number
_TIME_KINDS: Final = frozenset({FileKind.TIME_INDEX, FileKind.REMOTE_TIME_INDEX})
_TXN_KINDS: Final = frozenset({FileKind.TXN_INDEX, FileKind.REMOTE_TXN_INDEX})
_INDEXES: Final[dict[FileKind, tuple[Layout, Callable[[EntryFile, int, memoryview], Iterator[_Row]]]]] = {
    FileKind.OFFSET_INDEX: (OFFSET_INDEX_ENTRY, _offset_rows),
    FileKind.REMOTE_OFFSET_INDEX: (OFFSET_INDEX_ENTRY, _offset_rows),
    FileKind.TIME_INDEX: (TIME_INDEX_ENTRY, _time_rows),
    FileKind.REMOTE_TIME_INDEX: (TIME_INDEX_ENTRY, _time_rows),
    FileKind.TXN_INDEX: (TXN_INDEX_ENTRY, _txn_rows),
    FileKind.REMOTE_TXN_INDEX: (TXN_INDEX_ENTRY, _txn_rows),
}


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
        topic: Topic of the directory that the file is in; None: the directory is of no partition.
        partition: Partition number of that directory.
        base_offset: Of the file's name, for the offsets of an offset or time index; None: it has none.

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
