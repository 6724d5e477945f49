"""What a cleaner knows of transactions on its way through a log: `CleanedTransactionMetadata`.

A batch of an aborted transaction goes at once. A marker may go once no batch of its transaction is met before it.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import iter_txn_entries
from kafkalog_core.format.kernels.constants import MARKER_ABORT, MARKER_COMMIT
from kafkalog_core.format.layout import TXN_INDEX_ENTRY
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.ops.cleaning.log import CleanSegment

__all__ = ["AbortedTxn", "TransactionState", "collect_aborted"]

_ENTRIES: Final = 4096  # read at a time


class AbortedTxn(NamedTuple):
    """An entry of a transaction index; in the order of first offsets."""

    first_offset: int
    last_offset: int
    producer_id: int
    last_stable_offset: int


class TransactionState:
    """The state along the log. `kept` are the aborted transactions whose markers stay as batches of theirs were met."""

    def __init__(self) -> None:
        self._coming: list[AbortedTxn] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []

    def add(self, transactions: Iterable[AbortedTxn]) -> None:
        """Aborted transactions that are to come, or have begun."""
        for transaction in transactions:
            heappush(self._coming, transaction)

    def known(self) -> tuple[AbortedTxn, ...]:
        """All that decides which batches to come are of aborted transactions: these, and which of them have begun."""
        return (*sorted(self._aborted.values()), *sorted(self._coming))

    @property
    def knows_aborted(self) -> bool:
        """Whether any transaction that is not at its end yet was aborted."""
        return bool(self._coming or self._aborted)

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """A transactional batch; returns whether its transaction was aborted."""
        self.reach(last_offset)
        if producer_id in self._aborted:
            self._met.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def on_marker(self, producer_id: int, last_offset: int, marker_type: int | None) -> bool:
        """A control batch; returns whether it may go.

        `marker_type` null: it is empty, as a clean has left it.
        """
        self.reach(last_offset)
        if marker_type is None:
            return True
        if marker_type == MARKER_COMMIT:
            is_met = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_met
        if marker_type != MARKER_ABORT:
            return False
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._met:
            return True
        self._met.discard(producer_id)
        self.kept.append(aborted)
        return False

    def reach(self, offset: int) -> None:
        """Transactions that began up to an offset are open from now on."""
        while self._coming and self._coming[0].first_offset <= offset:
            transaction = heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)


def collect_aborted(
    segments: Sequence[CleanSegment], first_base: int, end_offset: int, log_start_offset: int
) -> Iterator[AbortedTxn]:
    """Entries of transaction indexes from one segment on, of transactions that began before an offset.

    Raises StorageError where an index cannot be read.
    """
    first = bisect_left(segments, first_base, key=attrgetter("base_offset"))
    for segment in islice(segments, first, None):
        if segment.txnindex_path is None:
            continue
        for _, producer_id, first, last, stable in _entries(segment.txnindex_path):
            if last >= log_start_offset and first < end_offset:
                yield AbortedTxn(first, last, producer_id, stable)
            if stable >= end_offset:
                return


def _entries(path: str) -> Iterator[tuple[int, int, int, int, int]]:
    size = TXN_INDEX_ENTRY.size
    with Source.open(path) as source:
        for position in range(0, source.size_bytes - source.size_bytes % size, size * _ENTRIES):
            window = source.window(position, size * _ENTRIES)
            if len(window) < min(size * _ENTRIES, source.size_bytes - position):
                raise StorageError("the disk cannot read all of this transaction index", path=path)
            yield from iter_txn_entries(window)
