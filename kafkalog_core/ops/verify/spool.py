"""From the scan of a segment to the replay of its partition: the batches that have a producer, and what markers say.

Where a segment is scanned in the process that replays, its batches are handed over run by run. Where another process
scans it, they wait in a `Spool`: in memory while they are few, in a temporary file else, or packed in memory where
there is no directory that both processes see.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import zlib
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol, Self

from kafkalog_core.errors import WorkerLostError
from kafkalog_core.format.columns import BatchColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from kafkalog_core.kafka.producers import Marker

__all__ = ["NO_CHAIN", "ROW_BYTES", "Chain", "Piece", "Spool", "Spooled", "replay_pieces"]

_MEMORY_BYTES: Final = 4 * 1024 * 1024
_LEVEL: Final = 1
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

ROW_BYTES: Final = 8 * len(_REPLAYED)
"""Of a batch in the cells of a piece."""


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
class Piece:
    """A run of batches; of none: a hole. `cells` are the columns that a replay reads, int64 of this machine."""

    count: int
    cells: bytes
    markers: dict[int, Marker]
    holes: tuple[int, ...] = ()

    @classmethod
    def of(cls, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> Self:
        """A run, copied."""
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


def replay_pieces(pieces: Iterable[Piece], to: Chain) -> None:
    """Hand over pieces in their order."""
    batches = BatchColumns()
    for piece in pieces:
        if piece.count > batches.capacity:
            batches = BatchColumns(piece.count)
        piece.replay(to, batches)


@dataclass(frozen=True, slots=True)
class Spooled:
    """What a `Spool` took, as it goes to another process: the last pieces, and those before them, filed or packed."""

    path: str | None
    packed: tuple[bytes, ...]
    pieces: tuple[Piece, ...]

    def replay(self, to: Chain) -> None:
        """Hand everything over, once, and delete the file."""
        replay_pieces(chain(self._from_file(), self._unpacked(), self.pieces), to)

    def _unpacked(self) -> Iterator[Piece]:
        for some in self.packed:
            yield from pickle.loads(zlib.decompress(some))  # noqa: S301 - made by a process of the same run

    def _from_file(self) -> Iterator[Piece]:
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
    """A chain that keeps what it takes for another process.

    Files are made in `directory`; `None`: there is none that both processes see.
    """

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._packed: list[bytes] = []
        self._pieces: list[Piece] = []
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
        self._keep(Piece.of(batches, markers, holes))

    def hole(self) -> None:
        """Keep that something is missing."""
        if not self._pieces or self._pieces[-1].count:
            self._keep(Piece(0, b"", {}))

    def _keep(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self._bytes += len(piece.cells)
        if self._bytes > _MEMORY_BYTES:
            self._flush()

    def spooled(self) -> Spooled:
        """All that was kept."""
        if self._file is not None:
            self._flush()
        path = None if self._file is None else self._file.name
        return Spooled(path, tuple(self._packed), tuple(self._pieces))

    def _flush(self) -> None:
        if self._directory is None:
            self._packed.append(zlib.compress(pickle.dumps(self._pieces, pickle.HIGHEST_PROTOCOL), _LEVEL))
        else:
            self._write(self._directory)
        self._pieces.clear()
        self._bytes = 0

    def _write(self, directory: str) -> None:
        try:
            if self._file is None:
                self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed with the spool
                    dir=directory, prefix="chain-", delete=False
                )
            for piece in self._pieces:
                pickle.dump(piece, self._file, pickle.HIGHEST_PROTOCOL)
            self._file.flush()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"a temporary file cannot be written: {reason}; TMPDIR names another place, --jobs 1 needs none"
            raise WorkerLostError(message, path=directory) from error
