"""One copy of a partition, batch by batch in the order of offsets; one window of one file is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format import kernels
from kafkalog_core.ops.recovery.epochs import EpochStart
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.storage.segment import Segment

__all__ = ["COMPARED", "Cursor", "Flaw", "Head"]

COMPARED: Final = ("base_offset", "last_offset", "size_bytes", "record_count", "leader_epoch", "crc_stored")
"""Batches that agree in all of these are the same: the checksum covers the rest."""
_LAST: Final = COMPARED.index("last_offset")
_COUNT: Final = COMPARED.index("record_count")
_MAX_EPOCHS: Final = 100_000
"""Changes of the leader epoch that are kept of one copy; garbage that looks like batches has any number of them."""


class Flaw(NamedTuple):
    """What stands in a file and is no batch, or none that its place allows."""

    path: str
    position: int
    size_bytes: int
    reason: str
    detail: str


class Head(NamedTuple):
    """The batch that comes next; `first` is its first offset, or the first one that it can have."""

    first: int
    last: int
    size_bytes: int
    records: int
    leader_epoch: int
    crc: int


class _Piece(NamedTuple):
    run: Run
    base_offset: int


class Cursor:
    """The batches of some segments.

    Args:
        segments: in the order of their offsets.
        log_start: first offset that a broker serves of them.
        options: how they are scanned.
        advance: told of bytes that were read.
    """

    def __init__(
        self, segments: Iterable[Segment], log_start: int, options: ScanOptions, advance: Callable[[int], None]
    ) -> None:
        self.log_start = log_start
        self.head: Head | None = None
        self.expected = log_start
        self.flaws: list[Flaw] = []
        """What stands between the last batch that was passed and the head."""
        self.first_flaw: Flaw | None = None
        self.epochs: list[EpochStart] = []
        self.batches = self.records = self.damage_count = self.damage_bytes = 0
        self.end_offset = log_start
        self.is_thinned = False
        """Whether batches hold fewer records than they did: somebody has compacted the log."""
        self._options = options
        self._advance = advance
        self._pieces = self._read(segments)
        self._run: Run | None = None
        self._views: tuple[memoryview, ...] = ()
        self._row = 0
        self._base_offset = 0
        self._fill()

    def close(self) -> None:
        """Close the file that is open."""
        self._pieces.close()

    # --- where it stands ----------------------------------------------------------------------------------------------
    @property
    def rows_left(self) -> int:
        """Batches from the head on that are in memory."""
        return 0 if self._run is None else self._run.batches.count - self._row

    def ahead(self, count: int) -> tuple[bytes, ...]:
        """All that is compared of `count` batches from the head on."""
        return tuple(column[self._row : self._row + count].tobytes() for column in self._views)

    def last_offset_at(self, ahead: int) -> int:
        """Last offset of a batch so many rows behind the head."""
        last: int = self._views[_LAST][self._row + ahead]
        return last

    def records_in(self, count: int) -> int:
        """Records of `count` batches from the head on, by their headers."""
        counts = self._views[_COUNT][self._row : self._row + count].tolist()
        return sum(counts) if min(counts) >= 0 else sum(max(each, 1) for each in counts)

    def batch(self) -> tuple[memoryview, BatchColumns]:
        """The head as columns of one row, and the memory that they refer to; valid until it is passed."""
        if self._run is None:
            raise LookupError("behind the last batch")
        return self._run.memory, self._run.batches.part(self._row, self._row + 1)

    def skip(self, count: int) -> None:
        """Pass `count` batches, which are in memory."""
        last = self._row + count - 1
        self.expected = self._views[_LAST][last] + 1
        self.flaws = []
        self._row += count
        self._fill()

    # --- reading ------------------------------------------------------------------------------------------------------
    def _fill(self) -> None:
        """Have a head, unless the end is reached."""
        while self._run is None or self._row >= self._run.batches.count:
            piece = next(self._pieces, None)
            if piece is None:
                self._run, self.head = None, None
                return
            if isinstance(piece, Flaw):
                self._take_flaw(piece)
            else:
                self._run, self._row, self._base_offset = piece.run, 0, piece.base_offset
                self._views = tuple(piece.run.batches.column(name) for name in COMPARED)
                self._count(piece.run.batches)
        base, last, size, records, epoch, crc = [column[self._row] for column in self._views]
        first = base if base >= 0 else min(last, max(self.expected, self._base_offset))
        self.head = Head(first, last, size, records if records >= 0 else last - first + 1, epoch, crc)

    def _take_flaw(self, flaw: Flaw) -> None:
        self.flaws.append(flaw)
        self.first_flaw = self.first_flaw or flaw
        self.damage_count += 1
        self.damage_bytes += flaw.size_bytes

    def _count(self, columns: BatchColumns) -> None:
        counts = columns.column("record_count").tolist()
        self.batches += len(counts)
        self.records += sum(counts) if min(counts) >= 0 else sum(max(count, 0) for count in counts)
        bases, lasts = columns.column("base_offset"), columns.column("last_offset")
        self.end_offset = max(self.end_offset, lasts[-1] + 1)
        known = self.epochs[-1].epoch if self.epochs else None
        if known is None or not columns.holds_only("leader_epoch", known):
            self._note_epochs(columns)
        if not self.is_thinned and min(counts) >= 0:
            spans = sum(lasts.tolist()) - sum(bases.tolist()) + len(counts)
            self.is_thinned = spans > sum(counts)

    def _note_epochs(self, columns: BatchColumns) -> None:
        for row, epoch in enumerate(columns.column("leader_epoch")):
            is_new = not self.epochs or epoch > self.epochs[-1].epoch
            if is_new and epoch >= 0 and len(self.epochs) < _MAX_EPOCHS:
                self.epochs.append(EpochStart(epoch, max(0, columns.column("base_offset")[row])))

    def _read(self, segments: Iterable[Segment]) -> Generator[_Piece | Flaw, None, None]:
        previous = -1
        for segment in segments:
            if segment.log is None:
                continue
            path, told = segment.log.path, 0
            try:
                with Source.open(path) as source:
                    for item in scan(source, base_offset=segment.base_offset, options=self._options):
                        if isinstance(item, Damage):
                            told = self._tell(item.position + item.size_bytes, told)
                            if item.size_bytes:  # offsets that go back are told by the batch itself
                                yield Flaw(path, item.position, item.size_bytes, item.reason, item.detail)
                            continue
                        end = item.batches.column("position")[-1] + item.batches.column("size_bytes")[-1]
                        told = self._tell(end, told)
                        for piece in _sound(item, path, previous):
                            if isinstance(piece, Run):
                                previous = piece.batches.column("last_offset")[-1]
                                yield _Piece(piece, segment.base_offset)
                            else:
                                yield piece
            except StorageError as error:
                self._tell(segment.size_bytes, told)
                yield Flaw(path, told, max(0, segment.size_bytes - told), "unreadable", error.message)

    def _tell(self, position: int, told: int) -> int:
        self._advance(max(0, position - told))
        return max(position, told)


def _sound(run: Run, path: str, previous: int) -> Iterable[Run | Flaw]:
    """A run in parts whose offsets ascend, and the batches between them whose offsets cannot be."""
    bases, lasts = run.batches.column("base_offset"), run.batches.column("last_offset")
    count = run.batches.count
    starts = lasts[0] > previous and (bases[0] < 0 or bases[0] > previous)
    ends = count == 1 or (lasts[-1] > lasts[-2] and (bases[-1] < 0 or bases[-1] > lasts[-2]))
    if starts and ends and kernels.find_contradiction(run.batches, 0) >= count:  # a scan stops where offsets go back
        yield run
        return
    begun = 0
    for row in range(count):
        contradicts = kernels.find_contradiction(run.batches.part(row, row + 1), 0) == 0
        if not contradicts and lasts[row] > previous and (bases[row] < 0 or bases[row] > previous):
            previous = lasts[row]
            continue
        if row > begun:
            yield Run(run.memory, run.batches.part(begun, row), run.resynced)
        begun = row + 1
        position, size = run.batches.column("position")[row], run.batches.column("size_bytes")[row]
        reason = "header-contradiction" if contradicts else "offset-order"
        detail = f"a batch of offsets {bases[row]} to {lasts[row]}, behind offset {previous}"
        yield Flaw(path, position, size, reason, detail)
    if begun < count:
        yield Run(run.memory, run.batches.part(begun, count), run.resynced)
