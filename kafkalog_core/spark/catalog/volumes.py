"""The volumes of a catalog: pairs of files that hold the batches and the notes of some segments.

Small partitions share one, which the driver writes; a large one has its own. A run rewrites a volume without segments
that no longer exist, and merges small volumes when there are many. Delta's DELETE and OPTIMIZE do not serve: they work
on the driver alone, and bound the rows of a row group but not its bytes, and a note is read with its row group.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkalog_core.engine.parts import grouped
from kafkalog_core.spark.catalog.notes import NotesWriter, note_row, piece_row, reading, row_bytes, wanted_rows
from kafkalog_core.spark.lake.parquet import ParquetFile
from kafkalog_core.spark.lake.store import attempt_name, writing
from kafkalog_core.spark.lake.tables import TableFile
from kafkalog_core.spark.session.arrow import ArrowRows, arrow_schema
from kafkalog_core.spark.session.schema import BATCHES, CATALOG_TABLES, spark_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from kafkalog_core.engine.chunks import BatchChunk
    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.ops.verify.work import SentRun
    from kafkalog_core.progress import Progress
    from kafkalog_core.spark.catalog.notes import NoteRow, PartitionNote, SegmentKey, SegmentNote
    from kafkalog_core.spark.lake.store import Store

__all__ = [
    "BATCHES_FOLDER",
    "BIN_BYTES",
    "MOST_SMALL",
    "NOTES_FOLDER",
    "SMALL_BYTES",
    "HeldSegments",
    "NewSegments",
    "NewVolume",
    "VolumeSet",
    "VolumeSource",
    "VolumeWriter",
    "merge",
    "notes_name",
]


_PACKING: Final = "lz4"
_BATCHES_SCHEMA: Final = arrow_schema(BATCHES)
_HELD_ROWS: Final = 250
_HELD_BYTES: Final = 256 * 1024
"""The most bytes of a partition's new segments that the driver gets: a file costs as much as this many."""
_HELD_LOG_BYTES: Final = 16 * 1024 * 1024
_IDLE: Final[list[ArrowRows]] = []
"""Gatherers of small partitions that no reading of this process uses: making one costs more than such a partition."""


class NewVolume(NamedTuple):
    """A new volume: its name, and what its files hold."""

    name: str
    keys: tuple[SegmentKey, ...]
    batches: TableFile
    notes_bytes: int

    @property
    def size_bytes(self) -> int:
        """The size of both files."""
        return self.batches.size_bytes + self.notes_bytes


class HeldSegments(NamedTuple):
    """New segments of a small partition, which the driver writes into one volume with those of others.

    `batches` are Arrow messages of record batches with all columns of `BATCHES`, each with its size and compressed: all
    rows of a batch have the same path.
    """

    keys: tuple[SegmentKey, ...]
    batches: tuple[tuple[int, bytes], ...]
    notes: tuple[NoteRow, ...]
    size_bytes: int


class VolumeWriter:
    """The writer of a volume, under a name that only this attempt uses."""

    def __init__(self, store: Store, run_id: str, stem: str) -> None:
        self.keys: list[SegmentKey] = []
        self._store = store
        self._name = attempt_name(run_id, stem)
        self.batches = ParquetFile(store, _batches_name(self._name), CATALOG_TABLES["batches"], compression="zstd")
        # Two files of one name: rows that Spark reads, and notes that the next run reads.
        self.notes = NotesWriter(store, notes_name(self._name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abandon the files if an exception ended the block; the end of the run deletes them."""
        if kind is not None:
            self.batches.__exit__(kind, error, trace)
            # The error that ended the block counts; the end of the run deletes the files.
            with suppress(OSError, pa.ArrowException):
                self.notes.close()

    def take(self, held: HeldSegments) -> None:
        """Write the segments of a small partition."""
        for size_bytes, packed in held.batches:
            message = pa.decompress(packed, size_bytes, codec=_PACKING)
            self.batches.write(pa.ipc.read_record_batch(message, _BATCHES_SCHEMA))
        for row in held.notes:
            self.notes.add(row)
        self.keys += held.keys

    def finish(self) -> NewVolume:
        """Finish and fsync both files."""
        written = self.batches.close()
        notes_bytes = self.notes.close()
        # Both on disk before the commit names them.
        for name in (_batches_name(self._name), notes_name(self._name)):
            self._store.finish(name)
        batches = TableFile(self._name, written.rows, written.size_bytes, {}, written.bounds, written.nulls)
        return NewVolume(self._name, tuple(self.keys), batches, notes_bytes)


class NewSegments:
    """The segments that a reading has read: in memory while they are few, else in a volume of their own."""

    def __init__(self, store: Store, run_id: str, stem: str) -> None:
        self._place = store, run_id, stem
        # Making a gatherer costs more than a small partition: take one that is idle.
        self._rows = _IDLE.pop() if _IDLE else ArrowRows(BATCHES, batch_rows=_HELD_ROWS)
        self._keys: list[SegmentKey] = []
        self._batches: list[pa.RecordBatch] = []
        self._notes: list[NoteRow] = []
        self._bytes = 0
        self._writer: VolumeWriter | None = None

    def begin(self, size_bytes: int) -> None:
        """Begin a segment of this size."""
        # A large segment gets its own volume at once, without passing through memory first.
        if size_bytes > _HELD_LOG_BYTES:
            self._spill()

    def add(self, chunk: BatchChunk) -> None:
        """Add batches of the segment whose note comes next."""
        if self._writer is not None:
            for batch in self._rows.add(chunk):
                self._writer.batches.write(batch)
            return
        self._hold(self._rows.add(chunk))

    def piece(self, key: SegmentKey, run: SentRun) -> None:
        """Add a run of batches of the segment whose note comes next."""
        self._note(piece_row(key, run))

    def end(self, key: SegmentKey, note: SegmentNote | PartitionNote | None) -> None:
        """End a segment, or add the note of the partition; see `note_row`."""
        if self._writer is None:
            self._hold(self._rows.flush())
        self._note(note_row(key, note))
        self._keys.append(key)

    def finish(self) -> NewVolume | HeldSegments:
        """Return the finished volume, or what the driver writes."""
        if self._writer is not None:
            for batch in self._rows.flush():
                self._writer.batches.write(batch)
            self._writer.keys += self._keys
            return self._writer.finish()
        messages = [batch.serialize() for batch in self._batches]
        _IDLE.append(self._rows)
        size_bytes = sum(message.size for message in messages) + sum(map(row_bytes, self._notes))
        # Compressed, since they travel from the worker to the driver.
        batches = tuple((each.size, pa.compress(each, codec=_PACKING, asbytes=True)) for each in messages)
        return HeldSegments(tuple(self._keys), batches, tuple(self._notes), size_bytes)

    def abandon(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        """Give the files up."""
        if self._writer is not None:
            self._writer.__exit__(kind, error, None)

    def _hold(self, batches: Iterator[pa.RecordBatch]) -> None:
        before = len(self._batches)
        self._batches += batches
        self._grow(sum(batch.nbytes for batch in self._batches[before:]))

    def _note(self, row: NoteRow) -> None:
        if self._writer is not None:
            self._writer.notes.add(row)
            return
        self._notes.append(row)
        self._grow(row_bytes(row))

    def _grow(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        if self._bytes > _HELD_BYTES:
            self._spill()

    def _spill(self) -> None:
        """Begin a volume with what is held."""
        if self._writer is not None:
            return
        self._writer = writer = VolumeWriter(*self._place)
        for batch in chain(self._batches, self._rows.flush()):
            writer.batches.write(batch)
        for row in self._notes:
            writer.notes.add(row)
        self._batches, self._notes = [], []
        _IDLE.append(self._rows)
        self._rows = writer.batches.gatherer()


SMALL_BYTES: Final = 8 * 1024 * 1024
"""Volumes below this size are merged when there are more than `MOST_SMALL` of them."""

BIN_BYTES: Final = 64 * 1024 * 1024
"""Approximate size of a merged volume."""
MOST_SMALL: Final = 16
_MERGED_ROWS: Final = 200_000


class VolumeSource(NamedTuple):
    """A volume to take segments from: its name, the wanted segments, and its size in bytes."""

    name: str
    keys: tuple[SegmentKey, ...]
    size_bytes: int


def merge(sources: tuple[VolumeSource, ...], store: Store, run_id: str, advance: Callable[[int], None]) -> NewVolume:
    """Write one volume with the wanted segments of several volumes.

    Raises StorageError if one of them cannot be read or the new one cannot be written.
    """
    with writing(store.root), VolumeWriter(store, run_id, "merged") as writer:
        for source in sources:
            for batch in _wanted_batches(store, source):
                writer.batches.write(batch)
            for row in wanted_rows(store, notes_name(source.name), source.keys):
                writer.notes.add(row)
            writer.keys += source.keys
            advance(0)
        return writer.finish()


def _wanted_batches(store: Store, source: VolumeSource) -> Iterator[pa.RecordBatch]:
    """Yield the batch rows of the wanted segments."""
    name = _batches_name(source.name)
    paths = pa.array([spark_text(f"{key.directory}/{key.segment}") for key in source.keys], pa.string())
    with reading(store.path(name)), store.open(name) as opened, pq.ParquetFile(opened) as file:
        for batch in file.iter_batches(batch_size=_MERGED_ROWS, use_threads=False):
            wanted = batch.filter(pc.is_in(batch.column("path"), value_set=paths))
            if wanted.num_rows:  # a note of a partition, and an empty segment, have no batches
                yield wanted


class VolumeSet:
    """The volumes of the last run and of this one: which are kept, rewritten, merged and removed."""

    def __init__(
        self,
        store: Store,
        run_id: str,
        known: Mapping[str, dict[str, Any]],
        kept: Mapping[str, Sequence[SegmentKey]],
        fresh: Iterable[NewVolume],
    ) -> None:
        """Take the volumes of the last run, the segments that are kept of each, and the volumes of this run."""
        self._store = store
        self._run_id = run_id
        self._wanted = kept
        self._fresh = fresh
        self._known = known
        self._kept: dict[str, tuple[SegmentKey, ...]] = {}
        self._new: list[NewVolume] = []

    @property
    def is_changed(self) -> bool:
        """Whether a volume is added or removed."""
        return bool(self._new) or self._kept.keys() != self._known.keys()

    def merge_small(self, workers: Workers | None, progress: Progress) -> None:
        """Rewrite volumes that have lost segments, and merge small volumes where there are many."""
        wanted: list[VolumeSource] = []
        small: dict[VolumeSource, str | NewVolume] = {}
        for name, known in self._known.items():
            keys = tuple(self._wanted.get(name, ()))
            source = VolumeSource(name, keys, known["bytes"])
            if keys and _segments_in(keys) < known["segments"]:  # a note of a partition that is not valid may stay
                wanted.append(source)
            elif keys:
                self._kept[name] = keys
                if source.size_bytes < SMALL_BYTES:
                    small[source] = name
        for fresh in self._fresh:
            self._new.append(fresh)
            source = VolumeSource(fresh.name, fresh.keys, fresh.size_bytes)
            if source.size_bytes < SMALL_BYTES:
                small[source] = fresh
        if len(small) + len(wanted) > MOST_SMALL:
            wanted += small
            for volume in small.values():
                self._drop(volume)
        pieces = ((some, self._store, self._run_id) for some in grouped(wanted, BIN_BYTES))
        if workers is None:
            self._new += [merge(*piece, progress.advance) for piece in pieces]
        else:
            self._new += workers.map(merge, pieces)

    def new_files(self) -> list[TableFile]:
        """Return the new files of the table of batches."""
        return [volume.batches for volume in self._new]

    def old_names(self) -> set[str]:
        """Return the names of the volumes of the last run that are not kept."""
        return self._known.keys() - self._kept.keys()

    def state(self) -> dict[str, dict[str, int]]:
        """Return what the next run needs to know of the volumes."""
        volumes = {name: self._known[name] for name in self._kept}
        for volume in self._new:
            volumes[volume.name] = {
                "segments": _segments_in(volume.keys),
                "bytes": volume.size_bytes,
                "notes_bytes": volume.notes_bytes,
            }
        return volumes

    def of_partitions(self) -> dict[str, list[str]]:
        """Return the names of the volumes that hold segments of each partition."""
        places: dict[str, dict[str, None]] = defaultdict(dict)
        for name, keys in self._kept.items():
            for key in keys:
                places[key.directory][name] = None
        for volume in self._new:
            for key in volume.keys:
                places[key.directory][volume.name] = None
        return {directory: [*names] for directory, names in places.items()}

    def _drop(self, volume: str | NewVolume) -> None:
        """Drop a volume whose segments another volume takes over."""
        if isinstance(volume, str):
            del self._kept[volume]
        else:
            self._new.remove(volume)


def _segments_in(keys: Iterable[SegmentKey]) -> int:
    """Return how many keys are of segments, and not of the note of a partition."""
    return sum(bool(key.segment) for key in keys)


BATCHES_FOLDER: Final = "batches"
NOTES_FOLDER: Final = "_kafkalog/notes"


def _batches_name(name: str) -> str:
    return f"{BATCHES_FOLDER}/{name}"


def notes_name(name: str) -> str:
    """Return the name, in the catalog's store, of the notes of a volume."""
    return f"{NOTES_FOLDER}/{name}"
