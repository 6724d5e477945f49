"""The entries of indexes, producer snapshots, checkpoints and property files as rows.

Indexes and snapshots are read in runs of some thousand entries; the zeros at the end of a preallocated index are one
finding, zeros before another entry are rows.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import ChecksumError, FieldError, FormatError, TruncatedError, UnsupportedError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.index import (
    MAX_TXN_INDEX_BYTES,
    iter_offset_entries,
    iter_time_entries,
    iter_txn_entries,
    split_size,
    used_entries,
)
from kafkalog_core.format.layout import (
    MAX_INT32,
    OFFSET_INDEX_ENTRY,
    SNAPSHOT_ENTRY,
    SNAPSHOT_HEADER,
    TIME_INDEX_ENTRY,
    TXN_INDEX_ENTRY,
)
from kafkalog_core.format.names import CHECKPOINT_KINDS, FileKind, FileState
from kafkalog_core.format.snapshot import (
    CRC_START,
    ENTRIES_START,
    check_snapshot_crc,
    check_snapshot_size,
    decode_snapshot_header,
    iter_producer_entries,
)
from kafkalog_core.kafka.sim.logdir.faults import EntryFile, damage_row, fault_row, place_of_rows, unreadable_row
from kafkalog_core.kafka.sim.logdir.text_files import checkpoint_rows, property_rows
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.output.tables import INDEX_ENTRY, PRODUCER
from kafkalog_core.storage.source import Source, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.layout import Layout

__all__ = ["ENTRY_KINDS", "entries", "index_rows", "snapshot_rows"]

_ROWS: Final = 4096
_SNAPSHOT_REASONS: Final[dict[type[FormatError], str]] = {
    TruncatedError: "snapshot-truncated",
    UnsupportedError: "snapshot-version",
    FieldError: "snapshot-entry-count",
    ChecksumError: "snapshot-crc-mismatch",
}


class _Entries(NamedTuple):
    """Whole entries from a position on, valid until the next ones; `data` is None if the disk cannot read them."""

    position: int
    size_bytes: int
    data: memoryview | None


def index_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Yield every entry of an index, then a finding or damage for what is after the last one."""
    layout = _INDEXES[file.kind].layout
    # AbstractIndex maps an offset or time index, and FileChannel.map refuses a larger file
    limit = MAX_TXN_INDEX_BYTES if _INDEXES[file.kind] is _TRANSACTIONS else MAX_INT32
    if source.size_bytes > limit:
        detail = f"{source.size_bytes} bytes, over the limit of {limit} for an index of this kind"
        yield damage_row(file, 0, source.size_bytes, "too-large", detail)
        return
    # `AbstractIndex` counts whole entries: a broker never reads the rest of the bytes.
    count, partial_bytes = split_size(layout, source.size_bytes)
    end = count * layout.size
    zeros_position: int | None = None  # where the current zeros start, as long as nothing else follows them
    for position, size_bytes, data in _runs(source, layout, 0, end):
        if data is None:
            yield from _zero_tail(file, zeros_position, position)
            yield unreadable_row(file, position, size_bytes)
            zeros_position = None
            continue
        # A broker keeps an index at its full size, zeros after the entries, until `AbstractIndex.trimToValidSize`.
        used_bytes = used_entries(layout, data) * layout.size
        if used_bytes:
            if zeros_position is not None:
                yield from _zero_rows(file, zeros_position, position)
            zeros_position = None
            yield from _rows(file, position, data[:used_bytes])
        if used_bytes < size_bytes and zeros_position is None:
            zeros_position = position + used_bytes
    if _INDEXES[file.kind] is _TIMES and zeros_position == 0 and end == layout.size:
        yield from _zero_rows(file, 0, end)  # one entry of zeros: records of 1970
    else:
        yield from _zero_tail(file, zeros_position, min(end, source.size_bytes))
    if source.size_bytes < end + partial_bytes:
        yield fault_row(file, file.finding("file.shrank", position=source.size_bytes))
    elif partial_bytes:
        detail = f"{partial_bytes} bytes after entry {count - 1}, where an entry has {layout.size}"
        yield damage_row(file, end, partial_bytes, "partial-entry", detail)


def snapshot_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Yield every producer of a snapshot whose version, size and checksum are correct, else one damage row for it."""
    size_bytes = source.size_bytes
    try:
        _check_snapshot(source)
    except FormatError as error:
        yield damage_row(file, 0, size_bytes, _SNAPSHOT_REASONS[type(error)], str(error))
        return
    except UnreadableError as error:
        yield damage_row(file, 0, size_bytes, "unreadable", f"{error.message}, so its checksum cannot be checked")
        return
    place, columns = place_of_rows(file), PRODUCER.names[-len(SNAPSHOT_ENTRY.fields) :]
    for position, run_bytes, data in _runs(source, SNAPSHOT_ENTRY, ENTRIES_START, size_bytes):
        if data is None:
            yield unreadable_row(file, position, run_bytes)
            continue
        positions = itertools.count(position, SNAPSHOT_ENTRY.size)
        producers = zip(positions, iter_producer_entries(data), strict=False)
        rows = [place | {"position": at} | dict(zip(columns, each, strict=True)) for at, each in producers]
        yield RowChunk(PRODUCER, rows)


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


def _runs(source: Source, layout: Layout, start: int, end: int) -> Iterator[_Entries]:
    """Yield the entries between two entry boundaries, some thousand at a time; fewer if the file becomes shorter."""
    position = start
    while position < end:
        try:
            window = source.window(position, min(_ROWS * layout.size, end - position))
        except UnreadableError as error:
            entries = -(-(error.position + error.size_bytes - position) // layout.size)
            lost = _Entries(position, min(entries * layout.size, end - position), None)
            yield lost
            position += lost.size_bytes
            continue
        size_bytes = len(window) - len(window) % layout.size
        if size_bytes:
            yield _Entries(position, size_bytes, window[:size_bytes])
        elif position + layout.size > source.size_bytes:
            return
        else:  # the disk cannot read the rest of this entry
            size_bytes = layout.size
            yield _Entries(position, size_bytes, None)
        position += size_bytes


def _rows(file: EntryFile, position: int, run: memoryview) -> Iterator[RowChunk]:
    """Yield the rows of entries, and a finding for each transaction whose version no broker reads."""
    index, rows = _INDEXES[file.kind], []
    common, size = place_of_rows(file) | {"kind": index.name}, index.layout.size
    for slot, fields in enumerate(index.entries(run), position // size):
        row = common | {"slot": slot, "position": slot * size} | dict(zip(index.columns, fields, strict=True))
        relative_offset = row.get("relative_offset")
        if isinstance(relative_offset, int) and file.base_offset is not None:
            row["offset"] = file.base_offset + relative_offset
        rows.append(row)
    yield RowChunk(INDEX_ENTRY, rows)
    # `TransactionIndex` refuses a version after `AbortedTxn.CURRENT_VERSION`.
    for slot, (version, *_) in enumerate(index.entries(run) if index is _TRANSACTIONS else ()):
        if version > _MAX_TXN_VERSION:
            at = position + slot * size
            yield fault_row(file, file.finding("txnindex.bad-version", position=at, size_bytes=size, version=version))


def _zero_rows(file: EntryFile, position: int, end: int) -> Iterator[RowChunk]:
    """Yield rows of entries of zeros, which another entry follows."""
    zeros = memoryview(bytes(_ROWS * _INDEXES[file.kind].layout.size))
    while position < end:
        run = zeros[: end - position]
        yield from _rows(file, position, run)
        position += len(run)


def _zero_tail(file: EntryFile, position: int | None, end: int) -> Iterator[RowChunk]:
    if position is not None and position < end:
        code = "txnindex.zero-tail" if _INDEXES[file.kind] is _TRANSACTIONS else "index.zero-tail"
        yield fault_row(file, file.finding(code, position=position, size_bytes=end - position))


_MAX_TXN_VERSION: Final = 0x00FF  # AbortedTxn reads the first of the two bytes alone, as a signed number


class _Index(NamedTuple):
    """The entries of one kind of index, and the columns that their fields fill."""

    name: str
    layout: Layout
    entries: Callable[[memoryview], Iterator[tuple[int, ...]]]
    columns: tuple[str, ...]


_OFFSETS: Final = _Index("offset", OFFSET_INDEX_ENTRY, iter_offset_entries, ("relative_offset", "log_position"))
_TIMES: Final = _Index("time", TIME_INDEX_ENTRY, iter_time_entries, ("timestamp_ms", "relative_offset"))
_TRANSACTIONS: Final = _Index(
    "txn",
    TXN_INDEX_ENTRY,
    iter_txn_entries,
    ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
)
_INDEXES: Final = {
    FileKind.OFFSET_INDEX: _OFFSETS,
    FileKind.REMOTE_OFFSET_INDEX: _OFFSETS,
    FileKind.TIME_INDEX: _TIMES,
    FileKind.REMOTE_TIME_INDEX: _TIMES,
    FileKind.TXN_INDEX: _TRANSACTIONS,
    FileKind.REMOTE_TXN_INDEX: _TRANSACTIONS,
}
_PROPERTY_KINDS: Final = frozenset(
    {FileKind.META_PROPERTIES, FileKind.PARTITION_METADATA, FileKind.CLEAN_SHUTDOWN, FileKind.QUORUM_STATE}
)
_READERS: Final[dict[FileKind, Callable[[EntryFile, Source], Iterator[RowChunk]]]] = {
    **dict.fromkeys(_INDEXES, index_rows),
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
    """Yield rows of one file, in its order: `index_entry`, `producer`, `checkpoint`, `property`, `damage`, `finding`.

    Args:
        path: path of the file.
        kind: the kind to read it as, one of `ENTRY_KINDS`.
        state: that of the file's name; a broker never refuses a temporary file, it overwrites it.
        topic: topic of the file's directory; None: the directory is not that of a partition.
        partition: partition number of that directory.
        base_offset: offset in the file's name, for the offsets of an offset or time index; None: it has none.

    Raises NotFoundError, AccessError, and UnsupportedError for a kind that is not one of `ENTRY_KINDS`.
    """
    read = _READERS.get(kind)
    if read is None:
        raise UnsupportedError(f"a file of kind {kind} holds no entries", path=path)
    file = EntryFile(path=path, kind=kind, state=state, topic=topic, partition=partition, base_offset=base_offset)
    with Source.open(path) as source:
        yield from read(file, source)
