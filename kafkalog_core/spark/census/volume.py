"""A volume of a catalogue: one file of batches, and the notes of the segments that they are of."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Self

from kafkalog_core.spark.census.notes import NotesWriter
from kafkalog_core.spark.commit import attempt_name, sync_file
from kafkalog_core.spark.export_file import write_error
from kafkalog_core.spark.parquet import ParquetFile, Written
from kafkalog_core.spark.schema import BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from kafkalog_core.spark.census.notes import SegmentKey

__all__ = ["NewVolume", "Volume", "VolumeWriter", "writing"]


@contextmanager
def writing(staging: str) -> Iterator[None]:
    """What the system says of a file that is written here is a WriteError; whatever is read has errors of its own."""
    try:
        yield
    except OSError as error:
        raise write_error(staging, error) from error


class Volume(NamedTuple):
    """A committed one: its name, and where its files are."""

    name: str
    batches: str
    notes: str


class NewVolume(NamedTuple):
    """One in the staging directory: names of its files there, and what is in them."""

    batches: str
    notes: str
    keys: tuple[SegmentKey, ...]
    rows: int
    batches_bytes: int
    notes_bytes: int


class VolumeWriter:
    """Writes a volume into a staging directory, under names of this attempt."""

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
        """What ends by an exception leaves its files to be swept."""
        if kind is not None:
            self.batches.__exit__(kind, error, trace)
            self.notes.close()

    def finish(self) -> NewVolume:
        """All is written, and on the disk."""
        for batch in self.rows.flush():
            self.batches.write(batch)
        written: Written = self.batches.close()
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
