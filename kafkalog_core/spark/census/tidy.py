"""Volumes made anew without the segments that are gone, and small ones made into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkalog_core.errors import StorageError
from kafkalog_core.spark.census.notes import NotesFile
from kafkalog_core.spark.census.volume import NewVolume, VolumeWriter, writing
from kafkalog_core.spark.schema import spark_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.spark.census.notes import SegmentKey

__all__ = ["BIN_BYTES", "MOST_SMALL", "SMALL_BYTES", "Source", "bins", "merge"]

SMALL_BYTES: Final = 8 * 1024 * 1024
"""Of files below this several become one, when there are many."""

BIN_BYTES: Final = 64 * 1024 * 1024
MOST_SMALL: Final = 16
_ROWS: Final = 200_000


class Source(NamedTuple):
    """A volume to take segments out of: paths of its files, the segments that are wanted, and how large it is."""

    batches: str
    notes: str
    keys: tuple[SegmentKey, ...]
    size_bytes: int


def bins(sources: Iterable[Source]) -> Iterator[tuple[Source, ...]]:
    """Sources that become one volume each, in order."""
    some: list[Source] = []
    size_bytes = 0
    for source in sources:
        if some and size_bytes + source.size_bytes > BIN_BYTES:
            yield tuple(some)
            some, size_bytes = [], 0
        some.append(source)
        size_bytes += source.size_bytes
    if some:
        yield tuple(some)


def merge(sources: tuple[Source, ...], staging: str, advance: Callable[[int], None]) -> NewVolume:
    """One volume of the wanted segments of several.

    Raises StorageError where one of them cannot be read, or this one not written.
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


def _wanted(source: Source) -> Iterator[pa.Table]:
    """Rows of batches of the wanted segments."""
    paths = pa.array([spark_text(f"{key.directory}/{key.segment}") for key in source.keys], pa.string())
    try:
        with pq.ParquetFile(source.batches) as file:
            for batch in file.iter_batches(batch_size=_ROWS, use_threads=False):
                table = pa.Table.from_batches([batch])
                yield table.filter(pc.is_in(table.column("path"), value_set=paths))
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"batches of the catalogue cannot be read: {error}", path=source.batches) from error
