"""How the transactions of a log ended, where some of their markers cannot be read.

The next visible marker of a producer decides, and where a gap may have hidden another one, the transaction indexes do,
as `committed.py` says.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import iter_txn_entries
from kafkalog_core.format.layout import MAX_INT64, TXN_INDEX_ENTRY
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import NamedTuple, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.kafka.rules.producers import Anomaly, CompletedTxn, OpenTxn

__all__ = ["Hole", "TransactionOutcomes", "TxnSpan", "Undecided"]


_ENTRIES: Final = 4096  # of an index, read at a time
_MAX_VERSION: Final = 0x00FF  # AbortedTxn reads the first of the two bytes alone, as a signed number


Log = tuple[str, int | None]
"""Path and base offset of a log file."""


class Hole(Struct, frozen=True):
    """Offsets `first_offset` to `end_offset` (exclusive; None: to the end) that cannot be read.

    `position` is the byte of the log at `path` where the damage starts; None: the file cannot be read. `base_offset` is
    the number in its name; None: it has none, or the log before it is missing that held these offsets.
    """

    path: str
    base_offset: int | None
    position: int | None
    first_offset: int
    end_offset: int | None

    @property
    def log(self) -> Log:
        """The log file that it is in."""
        return self.path, self.base_offset


class TxnSpan(NamedTuple):
    """Transactional data of a producer from `first` to `last`, both inclusive."""

    producer_id: int
    first: int
    last: int


class Undecided(NamedTuple):
    """Data of which it is unknown whether it was committed, because of a gap after it."""

    span: TxnSpan
    hole: Hole


class _Piece(NamedTuple):
    """Data before a gap, and the next marker of its producer; `marker_offset` None: there is none."""

    span: TxnSpan
    marker_offset: int | None
    is_aborted: bool
    log: Log


class TransactionOutcomes:
    """Collects the events of a replay, and decides at the end. `log` is the log file that is being replayed.

    It keeps a span for each aborted transaction, and one for each part of a transaction before a gap.
    """

    def __init__(self) -> None:
        self.log: Log = ("", None)
        self.aborted: list[TxnSpan] = []
        self.undecided: list[Undecided] = []
        self.unmarked: list[TxnSpan] = []
        self.holes: list[Hole] = []
        self._restarts: dict[int, list[int]] = {}
        self._pieces: list[_Piece] = []

    def seen_after_gap(self, anomaly: Anomaly) -> None:
        """Note that a producer is seen again after a gap, with a transaction open: `hole-in-transaction`."""
        self._restarts.setdefault(anomaly.producer_id, [anomaly.related_offset or 0]).append(anomaly.offset)

    def completed(self, txn: CompletedTxn) -> None:
        """Note that a transaction ended."""
        restarts = self._restarts.pop(txn.producer_id, None)
        if restarts is not None:
            self._add_pieces(txn.producer_id, restarts, txn.last_offset, is_aborted=txn.is_aborted)
        if txn.is_aborted:
            first = txn.first_offset if restarts is None else restarts[-1]
            self.aborted.append(TxnSpan(txn.producer_id, first, txn.last_offset))

    def still_open(self, txn: OpenTxn) -> int | None:
        """Note that the log ends in a transaction; return the first offset known to be open; None: there is none."""
        restarts = self._restarts.pop(txn.producer_id, [txn.first_offset])
        if txn.is_behind_hole:
            restarts.append(MAX_INT64)
        self._add_pieces(txn.producer_id, restarts, None, is_aborted=False)
        return None if txn.is_behind_hole else restarts[-1]

    def decide(self) -> None:
        """Decide by the transaction indexes where no marker does, after everything is read."""
        indexes = _Indexes(self.holes, self._pieces)
        for piece in self._pieces:
            if indexes.is_listed(piece.span):
                self.aborted.append(piece.span)
                self.unmarked.append(piece.span)
            elif not indexes.is_committed(piece):
                self.undecided.append(Undecided(piece.span, self._hole_after(piece.span)))
                self.unmarked.append(piece.span)

    def _add_pieces(
        self, producer_id: int, restarts: Sequence[int], marker_offset: int | None, *, is_aborted: bool
    ) -> None:
        for first, until in pairwise(restarts):
            self._pieces.append(_Piece(TxnSpan(producer_id, first, until - 1), marker_offset, is_aborted, self.log))

    def _hole_after(self, span: TxnSpan) -> Hole:
        """Return the first gap after the start of the data."""
        return next((hole for hole in self.holes if hole.first_offset > span.first), self.holes[-1])


class _Indexes:
    """The transaction indexes of the segments with gaps or deciding markers, and what they list of some producers."""

    def __init__(self, holes: Sequence[Hole], pieces: Sequence[_Piece]) -> None:
        self._holes = holes
        self._entries: dict[int, list[TxnSpan]] = {}
        self._covered: dict[Log, int] = {}
        producer_ids = {piece.span.producer_id for piece in pieces}
        logs = {*(hole.log for hole in holes), *(piece.log for piece in pieces)} if pieces else ()
        for log in logs:
            self._read(log, producer_ids)

    def is_listed(self, span: TxnSpan) -> bool:
        """Return whether an index lists a transaction over the data as aborted."""
        return any(entry.first <= span.first <= entry.last for entry in self._of(span.producer_id))

    def is_committed(self, piece: _Piece) -> bool:
        """Return whether the data was committed, given that no index lists it: a hidden ABORT would be listed.

        The visible marker must not have aborted it either: it is a COMMIT, or an index lists what it aborted.
        """
        marker_offset = piece.marker_offset
        if marker_offset is None:
            return False
        if piece.is_aborted and all(entry.last != marker_offset for entry in self._of(piece.span.producer_id)):
            return False
        return all(
            hole.end_offset is not None and self._covered[hole.log] >= hole.end_offset
            for hole in self._holes
            if piece.span.first < hole.first_offset <= marker_offset
        )

    def _of(self, producer_id: int) -> list[TxnSpan]:
        return self._entries.get(producer_id, [])

    def _read(self, log: Log, producer_ids: set[int]) -> None:
        """Read the entries of the index next to a log; of an index that is not valid, none."""
        self._covered[log] = -1
        path, base_offset = log
        if base_offset is None:
            return
        index = os.path.join(os.path.dirname(path), segment_file_name(base_offset, FileKind.TXN_INDEX))
        entries: list[TxnSpan] = []
        last = base_offset - 1
        try:
            with Source.open(index) as source:
                for version, producer_id, first_offset, last_offset, _ in _entries_of(source):
                    if version > _MAX_VERSION or producer_id < 0 or not last < last_offset >= first_offset >= 0:
                        return
                    last = last_offset
                    if producer_id in producer_ids:
                        entries.append(TxnSpan(producer_id, first_offset, last_offset))
        except StorageError:
            return
        self._covered[log] = last
        for entry in entries:
            self._entries.setdefault(entry.producer_id, []).append(entry)


def _entries_of(source: Source) -> Iterator[tuple[int, int, int, int, int]]:
    position, size = 0, TXN_INDEX_ENTRY.size
    while position + size <= source.size_bytes:
        window = source.window(position, size * _ENTRIES)
        yield from iter_txn_entries(window)
        position += max(size, len(window) // size * size)
