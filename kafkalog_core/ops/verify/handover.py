"""From the scan of a segment to the replay of its partition: the batches that have a producer, and what markers say.

Where a segment is scanned in the process that replays, its batches are handed over run by run. Where another process
scans it, they wait in a `Spool`: in memory while they are few, in a temporary file else.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol, Self

from kafkalog_core.errors import WorkerLostError
from kafkalog_core.format.columns import BatchColumns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from kafkalog_core.ops.producing.producers import Marker

__all__ = ["NO_CHAIN", "Chain", "Spool", "Spooled"]

_MEMORY_BYTES: Final = 4 * 1024 * 1024
_REPLAYED: Final = (
    "position",
    "format",
    "attributes",
    "base_offset",
    "last_offset",
    "record_count",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)
"""Columns that the replay reads. The others are zero in what is handed over: half of it need not be moved."""


class Chain(Protocol):
    """Takes the batches of one segment in order; they are valid until the call returns."""

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """A run of batches, some of which have a producer.

        `markers` are the control batches among them, by row. Before rows `holes` something could not be read.
        """

    def hole(self) -> None:
        """Something of the log could not be read here."""


class _NoChain:
    """Where producers cannot be judged, as what they did before is not known."""

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Ignore them."""

    def hole(self) -> None:
        """Ignore it."""


NO_CHAIN: Final[Chain] = _NoChain()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of batches; of none: a hole."""

    count: int
    cells: bytes
    markers: dict[int, Marker]
    holes: tuple[int, ...] = ()

    @classmethod
    def of(cls, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int]) -> Self:
        return cls(batches.count, b"".join(map(batches.column, _REPLAYED)), dict(markers), tuple(holes))

    def replay(self, to: Chain, batches: BatchColumns) -> None:
        """Hand it over, in columns that are used again."""
        if not self.count:
            to.hole()
            return
        batches.count = self.count
        cells = memoryview(self.cells).cast("q")
        for index, name in enumerate(_REPLAYED):
            batches.column(name)[:] = cells[index * self.count : (index + 1) * self.count]
        to.replay(batches, self.markers, self.holes)


@dataclass(frozen=True, slots=True)
class Spooled:
    """What a `Spool` took, as it goes to another process: the last pieces, and a file of those before them."""

    path: str | None
    pieces: tuple[_Piece, ...]

    def replay(self, to: Chain) -> None:
        """Hand everything over, once, and delete the file."""
        batches = BatchColumns()
        for piece in chain(self._from_file(), self.pieces):
            if piece.count > batches.capacity:
                batches = BatchColumns(piece.count)
            piece.replay(to, batches)

    def _from_file(self) -> Iterator[_Piece]:
        if self.path is None:
            return
        with open(self.path, "rb") as file:
            os.unlink(self.path)  # freed when it is closed, whatever happens meanwhile
            while True:
                try:
                    yield pickle.load(file)  # noqa: S301 - written by a process of the same run
                except EOFError:
                    return


class Spool:
    """A chain that keeps what it takes for another process; files are made in `directory`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._pieces: list[_Piece] = []
        self._bytes = 0
        self._file: tempfile._TemporaryFileWrapper[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Keep a run."""
        self._keep(_Piece.of(batches, markers, holes))

    def hole(self) -> None:
        """Keep that something is missing."""
        if not self._pieces or self._pieces[-1].count:
            self._keep(_Piece(0, b"", {}))

    def _keep(self, piece: _Piece) -> None:
        self._pieces.append(piece)
        self._bytes += len(piece.cells)
        if self._bytes > _MEMORY_BYTES:
            self._flush()

    def spooled(self) -> Spooled:
        """All that was kept."""
        if self._file is not None:
            self._flush()
        return Spooled(None if self._file is None else self._file.name, tuple(self._pieces))

    def _flush(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed with the spool
                    dir=self._directory, prefix="chain-", delete=False
                )
            for piece in self._pieces:
                pickle.dump(piece, self._file, pickle.HIGHEST_PROTOCOL)
            self._file.flush()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"a temporary file cannot be written: {reason}; TMPDIR names another place, --jobs 1 needs none"
            raise WorkerLostError(message, path=self._directory) from error
        self._pieces.clear()
        self._bytes = 0
