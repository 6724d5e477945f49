"""The volumes of a catalog: files that hold the batches and notes of some segments, rewritten and merged by each run.

A run rewrites a volume without the segments that are gone, and merges small volumes when there are many.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import FINDING_TYPES, found
from kafkalog_core.ops.verify.verdict import shape_of
from kafkalog_core.rows import tables
from kafkalog_core.spark.catalog.notes import NewVolume, NotesFile, SegmentNote, Volume, VolumeWriter, writing
from kafkalog_core.spark.catalog.reading import CatalogReader, ReadingResult
from kafkalog_core.spark.commit.commit import Part
from kafkalog_core.spark.session.schema import BATCHES, spark_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.verify.work import Depth
    from kafkalog_core.progress import Progress
    from kafkalog_core.spark.catalog.notes import SegmentKey
    from kafkalog_core.spark.catalog.reading import SegmentRow
    from kafkalog_core.spark.commit.commit import Commit, Output

__all__ = [
    "BATCHES_FOLDER",
    "BIN_BYTES",
    "MOST_SMALL",
    "NOTES_FOLDER",
    "SMALL_BYTES",
    "CatalogReaders",
    "VolumeSet",
    "VolumeSource",
    "bins",
    "merge",
    "rules_of",
    "volume_paths",
]


SMALL_BYTES: Final = 8 * 1024 * 1024
"""Volumes below this size are merged when there are more than `MOST_SMALL` of them."""

BIN_BYTES: Final = 64 * 1024 * 1024
MOST_SMALL: Final = 16
_ROWS: Final = 200_000


class VolumeSource(NamedTuple):
    """A volume to take segments from: paths of its files, the wanted segments, and its size in bytes."""

    batches: str
    notes: str
    keys: tuple[SegmentKey, ...]
    size_bytes: int


def bins(sources: Iterable[VolumeSource]) -> Iterator[tuple[VolumeSource, ...]]:
    """Yield groups of sources, in order; each group becomes one volume of about `BIN_BYTES`."""
    some: list[VolumeSource] = []
    size_bytes = 0
    for source in sources:
        if some and size_bytes + source.size_bytes > BIN_BYTES:
            yield tuple(some)
            some, size_bytes = [], 0
        some.append(source)
        size_bytes += source.size_bytes
    if some:
        yield tuple(some)


def merge(sources: tuple[VolumeSource, ...], staging: str, advance: Callable[[int], None]) -> NewVolume:
    """Write one volume with the wanted segments of several volumes.

    Raises StorageError if one of them cannot be read or the new one cannot be written.
    """
    with writing(staging), VolumeWriter(staging, "merged") as writer:
        for source in sources:
            for table in _wanted(source):
                for batch in table.to_batches(max_chunksize=_ROWS):
                    writer.batches.write(batch)
            notes = NotesFile(source.notes)
            for key in source.keys:
                writer.notes.copy(key, notes.groups(key))
            notes.close()
            advance(0)
        return writer.finish()


def _wanted(source: VolumeSource) -> Iterator[pa.Table]:
    """Yield the batch rows of the wanted segments."""
    paths = pa.array([spark_text(f"{key.directory}/{key.segment}") for key in source.keys], pa.string())
    try:
        with pq.ParquetFile(source.batches) as file:
            for batch in file.iter_batches(batch_size=_ROWS, use_threads=False):
                table = pa.Table.from_batches([batch])
                yield table.filter(pc.is_in(table.column("path"), value_set=paths))
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"batches of the catalog cannot be read: {error}", path=source.batches) from error


class VolumeSet:
    """The volumes of the last run and of this one: which are kept, rewritten, merged and removed."""

    def __init__(self, readers: CatalogReaders, output: Output, workers: Workers | None) -> None:
        self._readers = readers
        self._output = output
        self._workers = workers
        self._known: dict[str, dict[str, Any]] = dict(output.state.get("volumes", {}))
        self._kept: dict[str, tuple[SegmentKey, ...]] = {}
        self._new: list[NewVolume] = []
        self._names: dict[str, NewVolume] = {}

    @property
    def is_changed(self) -> bool:
        """Whether a volume is added or removed."""
        return bool(self._new) or self._kept.keys() != self._known.keys()

    def merge_small(self, progress: Progress) -> None:
        """Rewrite volumes that have lost segments, and merge small volumes where there are many."""
        wanted: list[VolumeSource] = []
        small: dict[VolumeSource, str | NewVolume] = {}
        for name, known in self._known.items():
            keys = tuple(self._readers.kept.get(name, ()))
            paths = volume_paths(self._output.path, name)
            source = VolumeSource(paths.batches, paths.notes, keys, known["bytes"])
            if keys and len(keys) < known["segments"]:
                wanted.append(source)
            elif keys:
                self._kept[name] = keys
                if source.size_bytes < SMALL_BYTES:
                    small[source] = name
        for volume in self._readers.fresh:
            self._new.append(volume)
            source = self._staged(volume)
            if source.size_bytes < SMALL_BYTES:
                small[source] = volume
        if len(small) + len(wanted) > MOST_SMALL:
            for source, each in small.items():
                wanted.append(source)
                if isinstance(each, str):
                    del self._kept[each]
                else:
                    self._new.remove(each)
        self._new += self._merged(wanted, progress)

    def add_to(self, run: Commit, run_id: str) -> None:
        """Add the new volumes to a commit, and remove the old ones that are not kept."""
        for number, volume in enumerate(self._new):
            name = f"part-{run_id}-{number:05d}"
            self._names[name] = volume
            batches, notes = f"{BATCHES_FOLDER}/{name}.parquet", f"{NOTES_FOLDER}/{name}.parquet"
            run.add(Part(volume.batches, batches, volume.rows, volume.batches_bytes))
            run.add(Part(volume.notes, notes, len(volume.keys), volume.notes_bytes))
        for name in self._known.keys() - self._kept.keys():
            run.remove(f"{BATCHES_FOLDER}/{name}.parquet")
            run.remove(f"{NOTES_FOLDER}/{name}.parquet")

    def state(self) -> dict[str, dict[str, int]]:
        """Return what the next run needs to know of the volumes; valid after `add_to`."""
        volumes = {name: self._known[name] for name in self._kept}
        for name, volume in self._names.items():
            volumes[name] = {"segments": len(volume.keys), "bytes": volume.batches_bytes + volume.notes_bytes}
        return volumes

    def of_partitions(self) -> dict[str, list[str]]:
        """Return the names of the volumes that hold segments of each partition; valid after `add_to`."""
        places: dict[str, dict[str, None]] = defaultdict(dict)
        for name, keys in self._kept.items():
            for key in keys:
                places[key.directory][name] = None
        for name, volume in self._names.items():
            for key in volume.keys:
                places[key.directory][name] = None
        return {directory: [*names] for directory, names in places.items()}

    def _staged(self, volume: NewVolume) -> VolumeSource:
        staging = self._readers.staging
        size_bytes = volume.batches_bytes + volume.notes_bytes
        return VolumeSource(f"{staging}/{volume.batches}", f"{staging}/{volume.notes}", volume.keys, size_bytes)

    def _merged(self, wanted: list[VolumeSource], progress: Progress) -> list[NewVolume]:
        staging = self._readers.staging
        if self._workers is None:
            return [merge(some, staging, progress.advance) for some in bins(wanted)]
        return [*self._workers.map(merge, ((some, staging) for some in bins(wanted)))]


BATCHES_FOLDER: Final = "batches"
NOTES_FOLDER: Final = "_notes"
_VERSION: Final = 1


def rules_of(depth: Depth) -> dict[str, object]:
    """Return what a catalog depends on besides the disks' files; where it differs, all segments are read again."""
    rules = f"{shape_of(SegmentNote)}{FINDING_TYPES}{BATCHES}{tables.SEGMENT}"
    return {
        "version": _VERSION,
        "rules": zlib.crc32(rules.encode()),
        "level": depth.level,
        "max_batch_bytes": depth.max_batch_bytes,
    }


def volume_paths(output: str, name: str) -> Volume:
    """Return the paths of the files of a volume, by its name."""
    return Volume(name, f"{output}/{BATCHES_FOLDER}/{name}.parquet", f"{output}/{NOTES_FOLDER}/{name}.parquet")


@dataclass(slots=True)
class PartitionCounts:
    """The counts of one partition, summed over all readings of it."""

    rows: int = 0
    bytes: int = 0
    read_bytes: int = 0
    unchanged_bytes: int = 0
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class CatalogReaders:
    """The readers of all partitions of a catalog, for `ops.verify`, and what they return.

    Args:
        output: directory of the catalog.
        staging: staging directory of the run.
        depth: depth of the checks.
        state: state after the last run; empty: all segments are read.
        progress: receives the bytes that need not be read.
        missing: names of the catalog's files that are gone or changed: their volumes are not used.
    """

    output: str
    staging: str
    depth: Depth
    state: dict[str, Any]
    progress: Progress
    missing: frozenset[str] = frozenset()
    rows: list[SegmentRow] = field(default_factory=list)
    fresh: list[NewVolume] = field(default_factory=list)
    kept: dict[str, list[SegmentKey]] = field(default_factory=lambda: defaultdict(list))
    made: dict[str, PartitionCounts] = field(default_factory=lambda: defaultdict(PartitionCounts))

    def reader_of(self, path: str) -> CatalogReader:
        """Return the reader of a partition."""
        known = self.state.get("partitions", {}).get(os.fsencode(path).hex(), {})
        volumes = [volume_paths(self.output, name) for name in known.get("volumes", ()) if self._is_whole(name)]
        return CatalogReader(path=path, volumes=tuple(volumes), staging=self.staging, depth=self.depth)

    def received(self, path: str, made: object) -> None:
        """Take the result of a reading."""
        if not isinstance(made, ReadingResult):
            return
        self.rows += made.rows
        if made.volume is not None:
            self.fresh.append(made.volume)
        for name, keys in made.kept.items():
            self.kept[name] += keys
        partition = self.made[path]
        partition.rows += len(made.rows)
        partition.bytes += made.read_bytes + made.unchanged_bytes
        partition.read_bytes += made.read_bytes
        partition.unchanged_bytes += made.unchanged_bytes
        partition.findings += made.findings
        self.progress.expect(-made.unchanged_bytes)

    def _is_whole(self, name: str) -> bool:
        return self.missing.isdisjoint(f"{folder}/{name}.parquet" for folder in (BATCHES_FOLDER, NOTES_FOLDER))

    def gone(self) -> Iterator[Finding]:
        """Yield findings about partitions of the last run whose directories are gone."""
        for name, known in self.state.get("partitions", {}).items():
            path = os.fsdecode(bytes.fromhex(name))
            if path not in self.made and not os.path.isdir(path):
                yield found(
                    "catalog.partition-gone",
                    path,
                    topic=known["topic"],
                    partition=known["partition"],
                    size_bytes=known["bytes"],
                    segments=known["segments"],
                )
