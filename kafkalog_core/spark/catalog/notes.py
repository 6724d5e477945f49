"""The notes of a catalog: what a run knows of each segment and partition, from which the next one recognizes it.

A note holds the marks of the segment's files, its verdict, and its figures. A notes file is a Parquet file: for each
segment a row for each run of batches that the replay of producer states needs, and then one with the note; the note of
a partition is that of a segment without a name. Readers trust nothing: if a note is not as this release writes it, the
segment is read again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkalog_core.errors import StorageError
from kafkalog_core.kafka.rules.producer_anomalies import Marker
from kafkalog_core.ops.verify.resume import FileMark, from_plain, to_plain
from kafkalog_core.ops.verify.verdict import (  # noqa: TC001 -- annotations are read at run time
    PartitionVerdict,
    SegmentVerdict,
)
from kafkalog_core.ops.verify.work import ROW_BYTES, SentRun
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.paths import is_object
from kafkalog_core.structs import Struct, asdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.spark.lake.store import Store
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "NoteRow",
    "NotesFile",
    "NotesWriter",
    "PartitionNote",
    "SegmentKey",
    "SegmentNote",
    "SegmentStats",
    "mark_of",
    "note_row",
    "piece_row",
    "reading",
    "row_bytes",
    "wanted_rows",
]


_SCHEMA: Final = pa.schema(
    [
        ("directory", pa.binary()),  # names of files need not be UTF-8
        ("segment", pa.binary()),
        ("note", pa.string()),
        ("count", pa.int64()),
        ("cells", pa.binary()),
        ("markers", pa.string()),
        ("holes", pa.string()),
    ]
)
_OF_NOTES: Final = ("segment", "note", "count")
_OF_PIECES: Final = ("count", "cells", "markers", "holes")
_COMPRESSION: Final = "zstd"
_GROUP_BYTES: Final = 1024 * 1024
_GROUPS_KEPT: Final = 16
_INDEXES_KEPT: Final = 16


class SegmentKey(NamedTuple):
    """A log file: the absolute path of its directory, and its name; no name: the note of the whole partition."""

    directory: str
    segment: str


class SegmentStats(Struct, frozen=True, kw_only=True):
    """The columns of a `segment` row that come from the log: see `LogStats.segment_row`."""

    first_offset: int | None
    last_offset: int | None
    batch_count: int
    record_count: int
    min_base_timestamp_ms: int | None
    max_timestamp_ms: int | None
    formats: str
    codecs: str
    damage_count: int
    damage_bytes: int

    def columns(self) -> dict[str, object]:
        """Return the values by column name."""
        return asdict(self)


class SegmentNote(Struct, frozen=True):
    """The note of a segment that was read.

    Args:
        now_ms: time of the check, in ms since 1970.
        marks: marks of its log, offset index and time index, by which an unchanged file is recognized.
        figures: statistics for its row.
        verdict: verdict of the checks; None: no broker reads the segment, so it was only measured.
    """

    now_ms: int
    marks: tuple[FileMark, ...]
    figures: SegmentStats
    verdict: SegmentVerdict | None


class PartitionNote(Struct, frozen=True):
    """The note of a partition: its verdict without those of its segments, which are in their own notes.

    It is valid as long as the partition has this mark; then no file of it is opened.
    """

    mark: str
    verdict: PartitionVerdict


def mark_of(partition: Partition, context: PartitionContext) -> str:
    """Return what a verdict depends on: the status of all files as they are listed, and what the log directory shows.

    Each write to a file changes its ctime, and no program can set it back, as it can the modification time; only
    writes through a mapping may leave both as they are, as long as the system has not written the page. What this user
    may read is part of it. Raises StorageError if the directory is gone.
    """
    user = os.geteuid(), os.getegid(), os.getgroups()
    seen = (partition.name, partition.format, partition.findings, context, _owner_of(partition.path), user)
    digest = hashlib.sha256(repr(seen).encode())
    for file in partition.files:
        status = (file.size_bytes, file.mtime_ns, file.ctime_ns, file.inode, file.mode, file.uid, file.gid)
        digest.update(repr((os.fsencode(file.name.raw), status)).encode())
    return digest.hexdigest()


def _owner_of(directory: str) -> tuple[int, int, int] | None:
    """Return mode and owner of a directory; None: those of an object store have none."""
    if is_object(directory):
        return None
    status = stat_path(directory)
    return status.st_mode, status.st_uid, status.st_gid


NoteRow = tuple[bytes, bytes, str | None, int | None, bytes | None, str | None, str | None]
"""A row of a notes file, by the columns of `_SCHEMA`."""


def piece_row(key: SegmentKey, run: SentRun) -> NoteRow:
    """Return the row of a run."""
    markers = json.dumps(run.markers) if run.markers else None
    holes = json.dumps(run.holes) if run.holes else None
    return os.fsencode(key.directory), os.fsencode(key.segment), None, run.count, run.cells, markers, holes


def note_row(key: SegmentKey, note: SegmentNote | PartitionNote | None) -> NoteRow:
    """Return the row of a note; None: the segment has changed while it was read, and the next run reads it again."""
    text = None if note is None else json.dumps(to_plain(note, key.directory), separators=(",", ":"))
    return os.fsencode(key.directory), os.fsencode(key.segment), text, None, None, None, None


def row_bytes(row: NoteRow) -> int:
    """Return about how many bytes a row has."""
    return sum(len(value) for value in row if isinstance(value, (bytes, str)))


class NotesWriter:
    """The writer of a notes file."""

    def __init__(self, store: Store, name: str) -> None:
        self._sink = store.create(name)
        self._writer = pq.ParquetWriter(self._sink, _SCHEMA, compression=_COMPRESSION, store_schema=False)
        self._rows: list[NoteRow] = []
        self._bytes = 0

    def add(self, row: NoteRow) -> None:
        """Add a row; those of a segment follow each other, and so do the segments of a directory."""
        self._rows.append(row)
        self._bytes += row_bytes(row)
        if self._bytes > _GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        """Finish the file; return its size in bytes."""
        self._flush()
        self._writer.close()
        size_bytes = int(self._sink.tell())
        self._sink.close()
        return size_bytes

    def _flush(self) -> None:
        if not self._rows:
            return
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        self._rows, self._bytes = [], 0
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA))


def wanted_rows(store: Store, name: str, keys: Iterable[SegmentKey]) -> Iterator[NoteRow]:
    """Yield the rows of some segments of a notes file; one of which not all can be read gets no note: it is read again.

    Raises StorageError.
    """
    index = _index_of(store, name)
    wanted = {(os.fsencode(key.directory), os.fsencode(key.segment)): key for key in keys}
    places = chain.from_iterable(index.get(directory, ()) for directory in {key.directory for key in wanted.values()})
    is_cut, cut = False, None
    for group in sorted({place.group for place in places}):
        try:
            rows = _group_of(store, name, group, None)
        except StorageError:
            is_cut = True
            continue
        for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            directory, segment, _, count, *_ = row
            if is_cut:  # it may have begun in the row group that cannot be read
                is_cut, cut = False, (directory, segment)
            if (directory, segment) == cut or (directory, segment) not in wanted:
                continue
            if count is None:
                del wanted[directory, segment]
            yield row
    for key in wanted.values():
        yield note_row(key, None)


class _Rows(NamedTuple):
    """Rows of a row group, all of one directory."""

    group: int
    first: int
    end: int


class NotesFile:
    """A notes file. Raises StorageError if it cannot be read or is not a notes file."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._index = _index_of(store, name)
        self._pieces: dict[SegmentKey, list[tuple[int, int]]] = {}  # row groups and rows in them

    def notes(self, directory: str) -> Iterator[tuple[SegmentKey, SegmentNote | PartitionNote]]:
        """Yield the notes of a directory: of its segments, which without a note must be read again, and of all."""
        places = self._index.get(directory, ())
        for place in places:
            columns = None if len(places) <= _GROUPS_KEPT else _OF_NOTES
            rows = _group_of(self._store, self._name, place.group, columns).slice(place.first, place.end - place.first)
            names, texts, counts = (rows.column(name).to_pylist() for name in _OF_NOTES)
            for number, (name, text, count) in enumerate(zip(names, texts, counts, strict=True), place.first):
                key = SegmentKey(directory, os.fsdecode(name))
                if count is not None:
                    self._pieces.setdefault(key, []).append((place.group, number))
                elif text is not None:
                    with suppress(ValueError):
                        values = json.loads(text)
                        if name:
                            yield key, from_plain(SegmentNote, values, directory)
                        else:
                            yield key, from_plain(PartitionNote, values, directory)

    def pieces(self, key: SegmentKey) -> Iterator[SentRun]:
        """Yield the pieces of a segment whose note was yielded; the replay of its partition's producers needs them."""
        for group, number in self._pieces.get(key, ()):
            rows = _group_of(self._store, self._name, group, None)
            yield self._piece(*(rows.column(name)[number].as_py() for name in _OF_PIECES))

    def can_replay(self, key: SegmentKey) -> bool:
        """Return whether all pieces of a segment whose note was yielded can be read."""
        try:
            for _ in self.pieces(key):
                pass
        except StorageError:
            return False
        return True

    def _piece(self, count: int, cells: bytes, markers: str | None, holes: str | None) -> SentRun:
        path = self._store.path(self._name)
        try:
            marks = {int(row): Marker(*map(int, marker)) for row, marker in json.loads(markers or "{}").items()}
            spans = tuple(map(int, json.loads(holes or "[]")))
        except (ValueError, TypeError, AttributeError) as error:
            raise _unreadable(path, error) from error
        if len(cells) != count * ROW_BYTES:
            raise StorageError(
                f"the notes of the catalog are damaged: {len(cells)} bytes for {count} batches", path=path
            )
        return SentRun(count, cells, marks, spans)


@lru_cache(maxsize=_INDEXES_KEPT)
def _index_of(store: Store, name: str) -> dict[str, list[_Rows]]:
    """Return where the rows of each directory are. It is cached: notes files never change, and partitions share one."""
    index: dict[str, list[_Rows]] = {}
    with reading(store.path(name)), store.open(name) as opened, pq.ParquetFile(opened) as file:
        if not file.schema_arrow.equals(_SCHEMA):
            raise StorageError("is not a notes file of this release of kafkalog", path=store.path(name))
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=["directory"], use_threads=False).column(0).combine_chunks()
            runs = pc.run_end_encode(rows, run_end_type=pa.int32())
            first = 0
            for directory, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                index.setdefault(os.fsdecode(directory), []).append(_Rows(group, first, end))
                first = end
    return index


@lru_cache(maxsize=_GROUPS_KEPT)
def _group_of(store: Store, name: str, group: int, columns: tuple[str, ...] | None) -> pa.Table:
    """Return a row group; the next partition may need the same one."""
    with reading(store.path(name)), store.open(name) as opened, pq.ParquetFile(opened) as file:
        return file.read_row_group(group, columns=columns and [*columns], use_threads=False).combine_chunks()


def _unreadable(path: str, error: Exception) -> StorageError:
    reason = next(chain(str(error).splitlines(), [type(error).__name__]))
    return StorageError(f"the notes of the catalog cannot be read: {reason}", path=path)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn errors of Arrow about the notes or batches of a catalog into StorageError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
