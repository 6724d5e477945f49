"""The transaction index and the producer snapshots, compared with the replay of the log."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.index import MAX_TXN_INDEX_BYTES, iter_txn_entries, split_size
from kafkalog_core.format.layout import SNAPSHOT_ENTRY, SNAPSHOT_HEADER, TRANSACTIONAL_BIT, TXN_INDEX_ENTRY
from kafkalog_core.format.snapshot import decode_snapshot, decode_snapshot_header, repeated_producers
from kafkalog_core.kafka.rules.producers import CompletedTxn
from kafkalog_core.kafka.rules.rule_table import MAX_ELEMENTS
from kafkalog_core.kernels.constants import MARKER_ABORT
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.findings.catalog import Sink
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.format.snapshot import ProducerEntry
    from kafkalog_core.kafka.rules.producers import Marker, ProducerStates, SnapshotStyle
    from kafkalog_core.storage.listing import Segment

__all__ = [
    "MAX_SNAPSHOT_BYTES",
    "AbortMarkers",
    "AbortedTxns",
    "Doubt",
    "FirstAbort",
    "check_snapshot",
    "check_txn_index",
]


_OTHERS: Final = 3  # number of fields apart from the marker's offset


class AbortedTxns:
    """Aborted transactions of one segment, 32 bytes each: a log may hold almost nothing else.

    They are kept as they are added; `find` needs them in the order of their markers, their order in a valid log.
    """

    def __init__(self, txns: Iterable[CompletedTxn] = ()) -> None:
        self._lasts = array("q")
        self._others = array("q")
        for txn in txns:
            self.add(txn)

    def __len__(self) -> int:
        return len(self._lasts)

    def __iter__(self) -> Iterator[CompletedTxn]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> CompletedTxn:
        at = index * _OTHERS
        producer_id, first, stable = self._others[at : at + _OTHERS]
        return CompletedTxn(producer_id, first, self._lasts[index], is_aborted=True, last_stable_offset=stable)

    def add(self, txn: CompletedTxn) -> None:
        """Add a transaction."""
        self._lasts.append(txn.last_offset)
        self._others.extend((txn.producer_id, txn.first_offset, txn.last_stable_offset))

    def by_marker(self) -> AbortedTxns:
        """Return the same in the order of their markers' offsets; of several with one offset, the last one added."""
        # In the order of markers, as a broker appends entries (`TransactionIndex.append`).
        if all(one < other for one, other in pairwise(self._lasts)):
            return self
        by_last = {txn.last_offset: txn for txn in self}
        return AbortedTxns(by_last[last] for last in sorted(by_last))

    def find(self, last_offset: int) -> int | None:
        """Return the number of the transaction that a marker ended; None: there is none. They must be in order."""
        index = bisect_left(self._lasts, last_offset)
        return index if index < len(self) and self._lasts[index] == last_offset else None


_SIZE: Final = TXN_INDEX_ENTRY.size
_RUN_ENTRIES: Final = 4096


class Doubt(Struct, frozen=True, kw_only=True, dict=True):
    """Why a log may not show all the transactions that an index names.

    Args:
        start_offset: the log starts here, so transactions may have begun before.
        damage: spans of offsets (first, last) that could not be read.
        is_compacted: whether markers and data may have been cleaned.
        is_rebuilt: whether the next start recovers the segment and rebuilds the index.
    """

    start_offset: int
    damage: tuple[tuple[int, int], ...]
    is_compacted: bool
    is_rebuilt: bool

    @cached_property
    def _places(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """First offsets of the spans in order, each with the largest last offset up to it."""
        spans = sorted(self.damage)
        return tuple(first for first, _ in spans), tuple(accumulate((last for _, last in spans), max))

    def explains(self, first_offset: int, last_offset: int) -> bool:
        """Return whether the log cannot show a transaction with these offsets."""
        return self.is_compacted or first_offset < self.start_offset or self.is_lost(first_offset, last_offset)

    def is_lost(self, first_offset: int, last_offset: int) -> bool:
        """Return whether something between two offsets could not be read."""
        firsts, lasts = self._places
        before = bisect_right(firsts, last_offset)
        return before > 0 and lasts[before - 1] >= first_offset


class AbortMarkers:
    """The ABORT markers of a segment, each with the offset of the producer's marker before it: 24 bytes each.

    In a compacted log they prove entries whose transactions have lost their batches: the cleaner drops an entry no
    later than its marker (`CleanedTransactionMetadata.onControlBatchRead`), so that every entry has one.
    """

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._offsets = array("q")
        self._others = array("q")

    def begin(self) -> None:
        """Begin the next segment: its markers replace those of the segment before."""
        del self._offsets[:], self._others[:]

    def add(self, offset: int, producer_id: int, *, is_abort: bool) -> None:
        """Take a marker of a producer; those of all segments come in order."""
        if is_abort:
            self._offsets.append(offset)
            self._others.extend((producer_id, self._before.get(producer_id, -1)))
        self._before[producer_id] = offset

    def at(self, offset: int) -> tuple[int, int] | None:
        """Return producer and offset of its marker before, -1: none is known; None: no ABORT marker is there."""
        index = bisect_left(self._offsets, offset)
        if index == len(self._offsets) or self._offsets[index] != offset:
            return None
        return self._others[2 * index], self._others[2 * index + 1]


class FirstAbort:
    """A `Chain` that looks for the first aborted transaction with a batch and its marker in one log.

    `offset` is that of the marker; None: the log has none.
    """

    def __init__(self) -> None:
        self.offset: int | None = None
        self._open: set[int] = set()

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Take batches of the log, in order."""
        del holes
        columns = (batches.column(name) for name in ("attributes", "producer_id", "last_offset"))
        for row, (attributes, producer, last) in enumerate(zip(*columns, strict=True)):
            marker = markers.get(row)
            if marker is not None:
                if marker.type_id == MARKER_ABORT and producer in self._open and self.offset is None:
                    self.offset = last
                self._open.discard(producer)
            elif attributes & TRANSACTIONAL_BIT:
                self._open.add(producer)

    def hole(self) -> None:
        """Take a part that could not be read: nothing is concluded from it."""


class _Entry(Struct, frozen=True):
    slot: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def position(self) -> int:
        return self.slot * _SIZE


def check_txn_index(
    segment: Segment, aborted: Iterable[CompletedTxn], doubt: Doubt, sink: Sink, markers: AbortMarkers | None = None
) -> None:
    """Compare a segment's transaction index, or that there is none, with the transactions that end in the segment.

    Args:
        segment: its files.
        aborted: transactions with an ABORT marker and at least one batch in its log.
        doubt: why the log may not show all of them.
        sink: takes the findings.
        markers: the ABORT markers of its log; None: it is not compacted.
    """
    txns = (aborted if isinstance(aborted, AbortedTxns) else AbortedTxns(aborted)).by_marker()
    seen = bytearray(len(txns))
    if segment.txnindex is None:
        _missing(_index_path(segment), txns, seen, doubt, sink)
        return
    path = segment.txnindex.path
    try:
        with Source.open(path) as source:
            if source.size_bytes > MAX_TXN_INDEX_BYTES:
                sink.add("file.too-large", path, size_bytes=source.size_bytes)
                return
            _compare(source, segment.base_offset, txns, seen, doubt, sink, markers or AbortMarkers())
    except StorageError as error:
        sink.add(code_of_error(error), path, reason=error.message)
        return
    _missing(path, txns, seen, doubt, sink)


def _compare(
    source: Source,
    base_offset: int,
    txns: AbortedTxns,
    seen: bytearray,
    doubt: Doubt,
    sink: Sink,
    markers: AbortMarkers,
) -> None:
    """Check every entry; `seen` gets a 1 for each transaction that has one."""
    path = source.path
    before: int | None = None
    for entry in _entries(source, sink):
        last = entry.last_offset
        if before is not None and last <= before:
            sink.add("txnindex.unsorted", path, position=entry.position, slot=entry.slot, last=last, before=before)
        before = last
        # An entry of another segment: what it names is not in this log.
        if last < base_offset:
            sink.add("txnindex.below-base", path, position=entry.position, slot=entry.slot, last=last, base=base_offset)
            continue
        number = txns.find(last)
        if number is not None:
            seen[number] = 1
        if doubt.is_compacted:
            txn = None if number is None else txns[number]
            _compare_cleaned(entry, txn, markers.at(last), doubt, path, sink)
        elif number is not None:
            _compare_entry(entry, txns[number], doubt, path, sink)
        elif not doubt.explains(entry.first_offset, last):
            sink.add(
                "txnindex.unknown-entry",
                path,
                position=entry.position,
                size_bytes=_SIZE,
                offset=entry.first_offset,
                slot=entry.slot,
                producer=entry.producer_id,
                last=last,
            )


def _compare_entry(entry: _Entry, txn: CompletedTxn, doubt: Doubt, path: str, sink: Sink) -> None:
    said, meant = (entry.producer_id, entry.first_offset), (txn.producer_id, txn.first_offset)
    # A transaction that began before the log start, or in damage, cannot be compared.
    if said != meant and not doubt.explains(min(entry.first_offset, txn.first_offset), txn.last_offset):
        sink.add(
            "txnindex.wrong-entry",
            path,
            position=entry.position,
            size_bytes=_SIZE,
            offset=entry.first_offset,
            slot=entry.slot,
            said=_words(*said),
            meant=_words(*meant),
        )
    stable = txn.last_stable_offset
    unknown_from = min(entry.last_stable_offset, stable)  # a marker that is missed keeps a transaction open
    if entry.last_stable_offset != stable and not doubt.explains(unknown_from, txn.last_offset):
        sink.add(
            "txnindex.last-stable-offset",
            path,
            position=entry.position,
            size_bytes=_SIZE,
            offset=entry.last_stable_offset,
            slot=entry.slot,
            said=entry.last_stable_offset,
            meant=stable,
        )


def _compare_cleaned(
    entry: _Entry, txn: CompletedTxn | None, marker: tuple[int, int] | None, doubt: Doubt, path: str, sink: Sink
) -> None:
    """Compare an entry of a compacted log with the rest of its transaction.

    Its marker is in the log, and belongs to the same producer. The transaction began at or before its first remaining
    batch, and after the producer's marker before. The last stable offset is the first offset of another transaction,
    whose batches may be cleaned, so the log shows only the highest offset that it can be.
    """
    last, severity = entry.last_offset, "warning" if doubt.is_rebuilt else None
    before = -1 if marker is None else marker[1]
    # Neither the marker nor anything since the producer's marker before is known there.
    if doubt.is_lost(last if marker is None else before + 1, last):
        return
    where = {"position": entry.position, "size_bytes": _SIZE, "offset": entry.first_offset, "slot": entry.slot}
    if marker is None:
        sink.add("txnindex.unknown-entry", path, severity=severity, producer=entry.producer_id, last=last, **where)  # type: ignore[arg-type]
        return
    producer_id = marker[0]
    highest = last if txn is None else txn.first_offset
    lowest = min(before + 1, highest)
    if entry.producer_id != producer_id or not lowest <= entry.first_offset <= highest:
        # The cleaner of 0.11 drops COMMIT markers though a batch of their transaction is left in another segment, so
        # that the next transaction seems to begin with it: only another producer is certainly wrong.
        severity = severity if entry.producer_id != producer_id else "warning"
        meant = f"producer {producer_id} from an offset between {lowest} and {highest} on"
        said = _words(entry.producer_id, entry.first_offset)
        sink.add("txnindex.wrong-entry", path, severity=severity, said=said, meant=meant, **where)  # type: ignore[arg-type]
    stable, stored = (last + 1 if txn is None else txn.last_stable_offset), entry.last_stable_offset
    if not 0 <= stored <= stable:
        where["offset"] = stored
        sink.add("txnindex.last-stable-offset", path, said=stored, meant=f"{stable} at most", **where)  # type: ignore[arg-type]


def _missing(path: str, txns: AbortedTxns, seen: bytearray, doubt: Doubt, sink: Sink) -> None:
    for number in (number for number, is_seen in enumerate(seen) if not is_seen):
        txn = txns[number]
        if txn.is_empty:  # releases before 2.8 list it, later ones do not; no consumer has use for it
            continue
        if not doubt.is_lost(txn.first_offset, txn.last_offset) and txn.first_offset >= doubt.start_offset:
            # The cleaner of 0.11 forgets at the end of each segment that it has seen a batch of a transaction, and
            # drops the entry although an empty batch is left.
            sink.add(
                "txnindex.missing-entry",
                path,
                offset=txn.first_offset,
                severity="warning" if doubt.is_rebuilt or doubt.is_compacted else None,
                producer=txn.producer_id,
                last=txn.last_offset,
            )


def _entries(source: Source, sink: Sink) -> Iterator[_Entry]:
    count, partial_bytes = split_size(TXN_INDEX_ENTRY, source.size_bytes)
    slot = 0
    while slot < count:
        run = source.window(slot * _SIZE, min(_RUN_ENTRIES, count - slot) * _SIZE)
        whole = len(run) // _SIZE
        if not whole:
            # The file shrank while it was read.
            break
        for version, *fields in iter_txn_entries(run[: whole * _SIZE]):
            if version >> 8 > 0:  # the reader checks only the first of the two bytes
                sink.add("txnindex.bad-version", source.path, position=slot * _SIZE, size_bytes=_SIZE, version=version)
            else:
                if version:
                    position = slot * _SIZE
                    sink.add("txnindex.odd-version", source.path, position=position, slot=slot, version=version)
                yield _Entry(slot, *fields)
            slot += 1
    if partial_bytes:
        sink.add("txnindex.partial-entry", source.path, position=count * _SIZE, size_bytes=partial_bytes)


def _index_path(segment: Segment) -> str:
    log = segment.log
    return "" if log is None else log.path.removesuffix(".log") + ".txnindex"


def _words(producer_id: int, first_offset: int) -> str:
    return f"producer {producer_id} from offset {first_offset} on"


_EARLIER_STYLES: Final[tuple[SnapshotStyle, ...]] = ("data-time", "marker-is-batch")
MAX_SNAPSHOT_BYTES: Final = 64 * 1024 * 1024
"""Size limit of a snapshot: a million and a half producers; a broker holds all of them in memory."""


def check_snapshot(
    path: str, offset: int | None, states: ProducerStates | None, start_offset: int, sink: Sink, differences: Sink
) -> memoryview | None:
    """Check a snapshot by itself and, if `states` at its offset are known, against them.

    Return the whole file; None: no broker can load it, and a finding says why.

    Args:
        path: of the file.
        offset: the number in its name; None: none.
        states: of the replay at its offset; None: unknown.
        start_offset: first offset of the replay; what producers did before, only the snapshot shows.
        sink: takes findings about the file itself.
        differences: takes differences from the log, which compaction may explain.
    """
    content = _read(path, sink)
    if content is None:
        return None
    count = decode_snapshot_header(content)[0].entry_count
    if count > MAX_ELEMENTS:
        sink.add("snapshot.many-producers", path, size_bytes=len(content), count=f"{count:,}", most=f"{MAX_ELEMENTS:,}")
    repeated, seen = repeated_producers(content), set[int]()
    for slot, entry in enumerate(decode_snapshot(content)):
        position = SNAPSHOT_HEADER.size + slot * SNAPSHOT_ENTRY.size
        if entry.producer_id in seen:
            sink.add("snapshot.repeated-producer", path, position=position, producer=entry.producer_id)
        elif entry.producer_id in repeated:
            seen.add(entry.producer_id)
        last = max(entry.last_offset, entry.current_txn_first_offset)
        if offset is not None and last >= offset:
            sink.add(
                "snapshot.later-producer",
                path,
                position=position,
                size_bytes=SNAPSHOT_ENTRY.size,
                offset=last,
                producer=entry.producer_id,
                name_offset=offset,
            )
            continue
        if states is not None:
            _snapshots_compare(path, position, entry, states, start_offset, differences)
    return content


def _read(path: str, sink: Sink) -> memoryview | None:
    """Return the whole file, once it is checked by itself; None: something is wrong with it."""
    try:
        with Source.open(path) as source:
            if source.size_bytes > MAX_SNAPSHOT_BYTES:
                sink.add("file.too-large", path, size_bytes=source.size_bytes)
                return None
            content = source.window(0, source.size_bytes)
        decode_snapshot(content)
    except FormatError as error:
        sink.add("snapshot.corrupt", path, position=error.position or 0, problem=error.message)
    except StorageError as error:
        sink.add(code_of_error(error), path, reason=error.message)
    else:
        return content
    return None


def _snapshots_compare(
    path: str, position: int, entry: ProducerEntry, states: ProducerStates, start_offset: int, sink: Sink
) -> None:
    state = states.entry(entry.producer_id)
    if state is None:
        # A producer that was last seen before the log start leaves no trace in the log.
        if entry.last_offset >= start_offset or start_offset == 0:
            sink.add(
                "snapshot.unknown-producer",
                path,
                position=position,
                offset=entry.last_offset if entry.has_batch else None,
                producer=entry.producer_id,
            )
        return
    if _is_before(entry, state, start_offset):
        return
    differences = _differences(entry, state, start_offset)
    # Snapshots of an earlier release are there until the broker takes later ones.
    if differences and not _is_of_earlier_release(entry, states, start_offset):
        sink.add(
            "snapshot.wrong-state",
            path,
            position=position,
            size_bytes=SNAPSHOT_ENTRY.size,
            offset=entry.last_offset if entry.has_batch else None,
            producer=entry.producer_id,
            said=", ".join(f"{name} {said}" for name, said, _ in differences),
            meant=", ".join(f"{name} {meant}" for name, _, meant in differences),
        )


def _is_before(entry: ProducerEntry, state: ProducerEntry, start_offset: int) -> bool:
    """Return whether a producer was last seen before the first offset of the replay."""
    if start_offset == 0:
        return False
    return max(entry.last_offset, state.last_offset) < start_offset


def _differences(entry: ProducerEntry, state: ProducerEntry, start_offset: int) -> list[tuple[str, int, int]]:
    """Return how a snapshot differs from the log, except in what was before the start of the log."""
    names = ["producer_epoch", "timestamp_ms"]
    # The last batch may be before the log start, where the replay cannot see it.
    if state.has_batch or not entry.has_batch or start_offset == 0:
        names += ["last_sequence", "last_offset", "offset_delta"]
    if entry.coordinator_epoch >= 0 and (
        state.coordinator_epoch >= 0 or start_offset == 0
    ):  # also -1 if the producer has expired since its last marker
        names.append("coordinator_epoch")
    # A transaction that was open at a hole in the log is still open in the replay: its marker may be in the hole.
    firsts = (entry.current_txn_first_offset, state.current_txn_first_offset)
    if not any(0 <= first < start_offset for first in firsts):
        names.append("current_txn_first_offset")
    pairs = ((name, int(getattr(entry, name)), int(getattr(state, name))) for name in names)
    return [(name.removesuffix("_ms").replace("_", " "), said, meant) for name, said, meant in pairs if said != meant]


def _is_of_earlier_release(entry: ProducerEntry, states: ProducerStates, start_offset: int) -> bool:
    """Return whether a release before 2.4 writes this entry: its snapshots outlive the upgrade of the broker."""
    found = (states.entry(entry.producer_id, style) for style in _EARLIER_STYLES)
    return any(state is not None and not _differences(entry, state, start_offset) for state in found)
