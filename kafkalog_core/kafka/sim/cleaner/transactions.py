"""What a cleaner knows of transactions while it reads a log: `CleanedTransactionMetadata`.

It drops a batch of an aborted transaction at once. It may drop a marker once it meets no batch of its transaction
before it.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import CleanError, StorageError
from kafkalog_core.format.index import MAX_TXN_INDEX_BYTES, iter_txn_entries
from kafkalog_core.format.layout import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    MAGIC_V2,
    MAX_BATCH_BYTES,
    MAX_INT32,
    TRANSACTIONAL_BIT,
    TXN_INDEX_ENTRY,
)
from kafkalog_core.format.run_filter import BIT_DISCARD, BIT_EMPTY_TXN, BIT_RETAIN_EMPTY
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kernels.constants import MARKER_ABORT, MARKER_COMMIT
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.rules.cleaner_rules import CleaningRules
    from kafkalog_core.kafka.sim.cleaner.log import CleanSegment, LastRecord

__all__ = ["AbortedTxn", "TransactionState", "Verdicts", "aborted_rows", "collect_aborted", "transactional_rows"]


_ENTRIES: Final = 4096  # read at a time


class AbortedTxn(NamedTuple):
    """An entry of a transaction index; ordered by first offsets."""

    first_offset: int
    last_offset: int
    producer_id: int
    last_stable_offset: int


class TransactionState:
    """The state along the log. `kept` are the aborted transactions whose markers are kept for their batches."""

    def __init__(self) -> None:
        self._coming: list[AbortedTxn] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []

    def add(self, transactions: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions that are to come, or have begun (`addAbortedTransactions`)."""
        for transaction in transactions:
            heappush(self._coming, transaction)

    def known(self) -> tuple[AbortedTxn, ...]:
        """Return what decides which later batches are of aborted transactions: these, and which of them have begun."""
        return (*sorted(self._aborted.values()), *sorted(self._coming))

    @property
    def knows_aborted(self) -> bool:
        """Whether any transaction that has not ended yet was aborted."""
        return bool(self._coming or self._aborted)

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """Take a transactional batch (`onBatchRead`); return whether its transaction was aborted."""
        self.reach(last_offset)
        if producer_id in self._aborted:
            self._met.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def on_marker(self, producer_id: int, last_offset: int, marker_type: int | None) -> bool:
        """Take a control batch (`onControlBatchRead`); return whether it may be dropped.

        `marker_type` None: it is empty, as a clean has left it.
        """
        self.reach(last_offset)
        if marker_type is None:
            return True
        # CleanedTransactionMetadata.onControlBatchRead
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
        """Open the transactions that began up to an offset (`consumeAbortedTxnsUpTo`)."""
        while self._coming and self._coming[0].first_offset <= offset:
            transaction = heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)


def collect_aborted(
    segments: Sequence[CleanSegment], first_base: int, end_offset: int, log_start_offset: int
) -> Iterator[AbortedTxn]:
    """Yield entries of transaction indexes from one segment on, of transactions that began before an offset.

    `LocalLog.collectAbortedTransactions` stops at an entry whose last stable offset is at or above the end.

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
        if source.size_bytes > MAX_TXN_INDEX_BYTES:
            raise StorageError(f"{source.size_bytes} bytes, larger than any transaction index", path=path)
        for position in range(0, source.size_bytes - source.size_bytes % size, size * _ENTRIES):
            window = source.window(position, size * _ENTRIES)
            if len(window) < min(size * _ENTRIES, source.size_bytes - position):
                raise StorageError("the disk cannot read all of this transaction index", path=path)
            yield from iter_txn_entries(window)


_DECIDED: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_COLUMNS: Final = ("attributes", "producer_id", "last_offset", "record_count")


def transactional_rows(
    memory: memoryview, batches: BatchColumns, rules: CleaningRules, path: str
) -> Iterator[tuple[int, int, int, bool, int | None]]:
    """Yield row, producer, last offset, whether it is a marker, and its type, of transactional and control batches.

    The type of a marker is None where the batch is empty, and -1 where it is another one. Raises CleanError where an
    empty one stops the cleaner.
    """
    if not rules.heeds_transactions or not batches.has_any("attributes"):
        return
    attributes = batches.column("attributes").tolist()
    formats = batches.column("format")
    rows = [row for row, bits in enumerate(attributes) if bits & _DECIDED and formats[row] == MAGIC_V2]
    if not rows:
        return
    markers = markers_of(memory, batches, max_bytes=MAX_BATCH_BYTES)
    producers, lasts, counts = (batches.column(name) for name in _COLUMNS[1:])
    for row in rows:
        if not attributes[row] & CONTROL_BIT:
            yield row, producers[row], lasts[row], False, None
            continue
        is_empty = counts[row] == 0
        if is_empty and not rules.reads_empty_markers:
            position = batches.column("position")[row]
            raise CleanError(
                "empty-marker",
                "a control batch without a record: the cleaner of this release stops",
                path=path,
                position=position,
            )
        marker = markers.get(row)
        yield row, producers[row], lasts[row], True, None if is_empty else -1 if marker is None else marker.type_id


def aborted_rows(
    memory: memoryview, batches: BatchColumns, state: TransactionState, rules: CleaningRules, path: str
) -> bytearray | None:
    """Return a byte a batch, 1 for data of aborted transactions; None: there is none. Updates the state."""
    aborted: bytearray | None = None
    if not state.knows_aborted:  # then it does not matter whether data of a committed one was met
        return None
    for row, producer_id, last_offset, is_marker, kind in transactional_rows(memory, batches, rules, path):
        if is_marker:
            state.on_marker(producer_id, last_offset, kind)
        elif state.on_data(producer_id, last_offset):
            aborted = aborted or bytearray(batches.count)
            aborted[row] = 1
    return aborted


class Verdicts:
    """Decides about batches of one clean, run by run (`Cleaner.checkBatchRetention`).

    Args:
        rules: of the release.
        producers: what the broker remembers of them.
        kept_end: the batch that ends right before this offset is kept, if need be empty; None: no such rule.
        now_ms: when the clean began.
    """

    def __init__(
        self, rules: CleaningRules, producers: Mapping[int, LastRecord], kept_end: int | None, now_ms: int
    ) -> None:
        self._rules = rules
        self._producers = producers
        self._kept_end = kept_end
        self._now_ms = now_ms
        by_offset = rules.last_of_producer == "offset"
        self._lasts = {
            record.last_offset: producer_id
            for producer_id, record in producers.items()
            if by_offset and record.last_offset is not None
        }
        self._last_offsets = sorted(self._lasts)

    def bits(
        self, memory: memoryview, batches: BatchColumns, state: TransactionState, path: str, *, retains_legacy: bool
    ) -> bytearray | None:
        """Return a byte a batch for the filter; None: all are 0."""
        bits: dict[int, int] = {}
        for row, producer_id, last_offset, is_marker, kind in transactional_rows(memory, batches, self._rules, path):
            if not is_marker:
                if state.on_data(producer_id, last_offset):
                    bits[row] = BIT_DISCARD
            elif state.on_marker(producer_id, last_offset, kind):
                bits[row] = self._marker_bits(batches, row, retains_legacy=retains_legacy)
            if is_marker and self._is_last_marker(batches, row, producer_id):
                bits[row] = bits.get(row, 0) | BIT_RETAIN_EMPTY
        for row in self._last_rows(batches):
            bits[row] = bits.get(row, 0) | BIT_RETAIN_EMPTY
        if not bits:
            return None
        decided = bytearray(batches.count)
        for row, value in bits.items():
            decided[row] = value
        return decided

    def _marker_bits(self, batches: BatchColumns, row: int, *, retains_legacy: bool) -> int:
        """Return for a marker that may be dropped whether it is dropped now, or gets its delete horizon."""
        if not self._rules.uses_horizons:
            return 0 if retains_legacy else BIT_DISCARD
        # KIP-534: the first pass that meets no batch of the transaction sets the horizon of its marker
        if not batches.column("attributes")[row] & DELETE_HORIZON_BIT:
            return BIT_EMPTY_TXN
        is_due = batches.column("base_timestamp_ms")[row] <= self._now_ms
        return BIT_EMPTY_TXN | BIT_DISCARD if is_due else BIT_EMPTY_TXN

    def _is_last_marker(self, batches: BatchColumns, row: int, producer_id: int) -> bool:
        """Return whether a marker is kept for its epoch, because the broker knows no data of its producer any more."""
        known = self._producers.get(producer_id)
        if self._rules.last_of_producer != "offset" or known is None or known.last_offset is not None:
            return False
        is_same: bool = batches.column("producer_epoch")[row] == known.producer_epoch
        return is_same

    def _last_rows(self, batches: BatchColumns) -> list[int]:
        """Return the batches that are kept, if need be empty: the last of each producer, and that before `kept_end`."""
        rows: list[int] = []
        lasts = batches.column("last_offset")
        # RETAIN_EMPTY in Cleaner.checkBatchRetention
        if self._kept_end is not None:
            row = bisect_left(lasts, self._kept_end - 1)
            if row < batches.count and lasts[row] == self._kept_end - 1:
                rows.append(row)
        if not self._producers or batches.holds_only("producer_id", -1):
            return rows
        if self._rules.last_of_producer == "sequence":
            return rows + self._by_sequence(batches)
        at = bisect_left(self._last_offsets, lasts[0])
        producer_ids = batches.column("producer_id")
        for offset in self._last_offsets[at : bisect_left(self._last_offsets, lasts[-1] + 1)]:
            row = bisect_left(lasts, offset)
            if row < batches.count and lasts[row] == offset and producer_ids[row] == self._lasts[offset]:
                rows.append(row)
        return rows

    def _by_sequence(self, batches: BatchColumns) -> list[int]:
        """Return the batches whose last sequence number is the last one of their producer, in whatever epoch."""
        rows = []
        columns = (
            batches.column(name) for name in ("producer_id", "base_sequence", "base_offset", "last_offset", "format")
        )
        for row, (producer_id, sequence, base, last, batch_format) in enumerate(zip(*columns, strict=True)):
            known = self._producers.get(producer_id) if producer_id >= 0 and batch_format == MAGIC_V2 else None
            if known is None:
                continue
            last_sequence = -1 if sequence < 0 else (sequence + last - base) & MAX_INT32
            if last_sequence == known.last_sequence:
                rows.append(row)
        return rows
