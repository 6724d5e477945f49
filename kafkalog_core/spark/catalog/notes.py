"""The notes of a catalog: per segment, how to recognize it, its verdict, and what a check of its partition needs.

A notes file is a Parquet file with a row group for each segment, or for each piece of a large one: the note, and the
batches that the replay of producer states needs. Readers trust nothing: if a note is not as this release writes it, the
segment is read again.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from kafkalog_core.errors import StorageError
from kafkalog_core.kafka.producer_anomalies import Marker
from kafkalog_core.ops.verify.resume import FileMark  # noqa: TC001 -- annotations are read at run time
from kafkalog_core.ops.verify.spool import ROW_BYTES, Piece
from kafkalog_core.ops.verify.verdict import (
    SegmentVerdict,
    from_plain,
    to_plain,
)
from kafkalog_core.spark.commit.commit import Part, attempt_name, sync_file
from kafkalog_core.spark.export.task import write_error
from kafkalog_core.spark.session.arrow import rows_to_arrow
from kafkalog_core.spark.session.parquet import ParquetFile, WrittenFile
from kafkalog_core.spark.session.schema import BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from kafkalog_core.rows.tables import Table

__all__ = [
    "NewVolume",
    "NotesFile",
    "NotesWriter",
    "SegmentKey",
    "SegmentNote",
    "SegmentStats",
    "Volume",
    "VolumeWriter",
    "write_table",
    "writing",
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
_MEMORY_BYTES: Final = 4 * 1024 * 1024
_COMPRESSION: Final = "zstd"
_INDEXES_KEPT: Final = 16


class SegmentKey(NamedTuple):
    """A log file: the absolute path of its directory, and its name."""

    directory: str
    segment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStats:
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
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class SegmentNote:
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


class NotesWriter:
    """Writes a notes file: for each segment its pieces, then its note."""

    def __init__(self, path: str) -> None:
        self.keys: list[SegmentKey] = []
        self._path = path
        self._writer = pq.ParquetWriter(path, _SCHEMA, compression=_COMPRESSION, store_schema=False)
        self._pieces: list[Piece] = []
        self._bytes = 0

    def add(self, key: SegmentKey, piece: Piece) -> None:
        """Add a piece of the segment whose note comes next."""
        self._pieces.append(piece)
        self._bytes += len(piece.cells)
        if self._bytes > _MEMORY_BYTES:
            self._write(key, None)

    def end(self, key: SegmentKey, note: SegmentNote | None) -> None:
        """Write the note of a segment after its pieces; None: it changed meanwhile, so the next run reads it again."""
        text = None if note is None else json.dumps(to_plain(note, key.directory), separators=(",", ":"))
        self._write(key, text)
        self.keys.append(key)

    def copy(self, key: SegmentKey, groups: Iterator[pa.Table]) -> None:
        """Copy a segment from another notes file."""
        for group in groups:
            self._writer.write_table(group)
        self.keys.append(key)

    def close(self) -> int:
        """Finish the file; return its size in bytes."""
        self._writer.close()
        return os.path.getsize(self._path)

    def _write(self, key: SegmentKey, note: str | None) -> None:
        pieces: list[Piece | None] = [*self._pieces] or [None]
        columns = [
            [os.fsencode(key.directory)] * len(pieces),
            [os.fsencode(key.segment)] * len(pieces),
            [note] + [None] * (len(pieces) - 1),
            [None if piece is None else piece.count for piece in pieces],
            [None if piece is None else piece.cells for piece in pieces],
            [None if piece is None else json.dumps(piece.markers) for piece in pieces],
            [None if piece is None else json.dumps(piece.holes) for piece in pieces],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA))
        self._pieces, self._bytes = [], 0


class NotesFile:
    """A notes file, open for reading. Raises StorageError if it cannot be read or is not a notes file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._index = _index_of(path)
        try:
            self._file = pq.ParquetFile(path, metadata=self._index.metadata, memory_map=False)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def keys(self) -> list[SegmentKey]:
        """Return the keys of all segments."""
        return [SegmentKey(directory, name) for directory, names in self._index.groups.items() for name in names]

    def notes(self, directory: str) -> Iterator[tuple[SegmentKey, SegmentNote]]:
        """Yield the notes of the segments of a directory; segments without a note must be read again."""
        groups = [group for groups in self._index.groups.get(directory, {}).values() for group in groups]
        if not groups:
            return
        try:
            rows = self._file.read_row_groups(groups, columns=["segment", "note"], use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self._path, error) from error
        for name, text in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if text is None:
                continue
            with suppress(ValueError):
                yield (
                    SegmentKey(directory, os.fsdecode(name)),
                    from_plain(SegmentNote, json.loads(text), directory),
                )

    def pieces(self, key: SegmentKey) -> Iterator[Piece]:
        """Yield the pieces of a segment that the replay of its partition's producers needs."""
        for group in self._tables(key, ["count", "cells", "markers", "holes"]):
            for count, cells, markers, holes in zip(*(column.to_pylist() for column in group.columns), strict=True):
                if count is not None:
                    yield self._piece(count, cells, markers, holes)

    def groups(self, key: SegmentKey) -> Iterator[pa.Table]:
        """Yield the rows of a segment as they are stored."""
        return self._tables(key, None)

    def _piece(self, count: int, cells: bytes, markers: str, holes: str) -> Piece:
        try:
            marks = {int(row): Marker(*map(int, marker)) for row, marker in json.loads(markers).items()}
            spans = tuple(map(int, json.loads(holes)))
        except (ValueError, TypeError, AttributeError) as error:
            raise _unreadable(self._path, error) from error
        if len(cells) != count * ROW_BYTES:
            raise StorageError(
                f"the notes of the catalog are damaged: {len(cells)} bytes for {count} batches", path=self._path
            )
        return Piece(count, cells, marks, spans)

    def _tables(self, key: SegmentKey, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        for group in self._index.groups.get(key.directory, {}).get(key.segment, ()):
            try:
                yield self._file.read_row_group(group, columns=columns, use_threads=False)
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(self._path, error) from error


class _Index(NamedTuple):
    """The footer of a notes file, and the row groups of each segment by directory and name."""

    metadata: pq.FileMetaData
    groups: dict[str, dict[str, list[int]]]


@lru_cache(maxsize=_INDEXES_KEPT)
def _index_of(path: str) -> _Index:
    """Return the index of a notes file. It is cached: notes files never change, and many partitions share one."""
    try:
        metadata = pq.read_metadata(path)
        is_ours = metadata.schema.to_arrow_schema().equals(_SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    if not is_ours:
        raise StorageError("is not a notes file of this release of kafkalog", path=path)
    groups: dict[str, dict[str, list[int]]] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        directory, name = (_only_value(group.column(index).statistics, path) for index in (0, 1))
        groups.setdefault(directory, {}).setdefault(name, []).append(number)
    return _Index(metadata, groups)


def _only_value(statistics: pq.Statistics | None, path: str) -> str:
    if statistics is None or not statistics.has_min_max or statistics.min != statistics.max:
        raise StorageError("is not a notes file: a row group has rows of several segments", path=path)
    return os.fsdecode(statistics.min)


def _unreadable(path: str, error: Exception) -> StorageError:
    reason = next(chain(str(error).splitlines(), [type(error).__name__]))
    return StorageError(f"the notes of the catalog cannot be read: {reason}", path=path)


@contextmanager
def writing(staging: str) -> Iterator[None]:
    """Turn an OSError in the body into a WriteError; reading raises errors of its own."""
    try:
        yield
    except OSError as error:
        raise write_error(staging, error) from error


class Volume(NamedTuple):
    """A committed volume: its name, and the paths of its files."""

    name: str
    batches: str
    notes: str


class NewVolume(NamedTuple):
    """A volume in the staging directory: the names of its files there, and their contents."""

    batches: str
    notes: str
    keys: tuple[SegmentKey, ...]
    rows: int
    batches_bytes: int
    notes_bytes: int


class VolumeWriter:
    """Writes a volume into a staging directory, under names that only this attempt uses."""

    def __init__(self, staging: str, stem: str) -> None:
        self._staging = staging
        self._batches_name = attempt_name(f"batches-{stem}")
        self._notes_name = attempt_name(f"notes-{stem}")
        self.batches = ParquetFile(f"{staging}/{self._batches_name}", BATCHES, compression="zstd")
        self.rows = self.batches.gatherer()
        self.notes = NotesWriter(f"{staging}/{self._notes_name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abandon the files if an exception ended the block; the end of the run deletes them."""
        if kind is not None:
            self.batches.__exit__(kind, error, trace)
            self.notes.close()

    def finish(self) -> NewVolume:
        """Finish and fsync both files."""
        for batch in self.rows.flush():
            self.batches.write(batch)
        written: WrittenFile = self.batches.close()
        notes_bytes = self.notes.close()
        for name in (self._batches_name, self._notes_name):
            sync_file(f"{self._staging}/{name}")
        return NewVolume(
            self._batches_name,
            self._notes_name,
            tuple(self.notes.keys),
            written.rows,
            written.size_bytes,
            notes_bytes,
        )


_ROWS: Final = 50_000


def write_table(staging: str, name: str, run_id: str, table: Table, rows: Iterator[Mapping[str, object]]) -> Part:
    """Write rows into a staged file for the directory `name` of the output. Raises WriteError."""
    staged = attempt_name(name)
    with writing(staging), ParquetFile(f"{staging}/{staged}", table, compression="zstd") as file:
        while some := [*islice(rows, _ROWS)]:
            file.write(rows_to_arrow(table, some))
        written = file.close()
    sync_file(f"{staging}/{staged}")
    return Part(staged, f"{name}/part-{run_id}.parquet", written.rows, written.size_bytes)
