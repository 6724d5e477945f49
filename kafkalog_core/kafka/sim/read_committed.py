"""What a read_committed consumer gets, offline: no aborted and no open transactions.

A first pass over the batch headers replays the state of all producers. A transactional batch of producer P is aborted
when the next marker of P after it is ABORT; the last stable offset is the first offset of the earliest transaction that
is open at the end (`ProducerStateManager`, `UnifiedLog`).

A part of the log that cannot be read may hold the marker that ended a transaction, so that the next visible marker
belongs to another one. Then the transaction indexes decide: brokers append each aborted transaction to the `.txnindex`
of the segment with its marker. An entry over the data shows that it was aborted. A missing entry shows that it was not,
if the index has an entry for a later marker, because entries are appended in order. Everything else is undecided, is
not shown as committed, and is reported. Real brokers report aborted transactions to consumers from the indexes alone:
they deliver data that no index lists as committed, whatever was lost.

Where a segment is read by itself, the segments after it are read too, until all of its transactions have ended. Memory
follows the number of producers and of aborted transactions, not that of records.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import iter_txn_entries
from kafkalog_core.format.layout import (
    CONTROL_BIT,
    MAGIC_V2,
    MAX_INT64,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    TXN_INDEX_ENTRY,
)
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.rules.producers import CompletedTxn, ProducerStates
from kafkalog_core.kafka.sim.batch_places import PlaceBounds, PlaceWatch, misplaced_batches, segment_bounds, without
from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.rules.producers import Anomaly, Marker, OpenTxn
    from kafkalog_core.kafka.sim.logfiles import Compaction, LogFile

__all__ = [
    "CommittedView",
    "Hole",
    "TransactionOutcomes",
    "TxnSpan",
    "Undecided",
    "read_committed_view",
    "segments_after",
    "txn_entries",
]


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
                for version, producer_id, first_offset, last_offset, _ in txn_entries(source):
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


def txn_entries(source: Source) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the whole entries of a transaction index: version, producer id, first, last and last stable offset."""
    position, size = 0, TXN_INDEX_ENTRY.size
    while position + size <= source.size_bytes:
        window = source.window(position, size * _ENTRIES)
        yield from iter_txn_entries(window)
        position += max(size, len(window) // size * size)


_CUT_OFF = frozenset({"torn-tail", "zero-filled"})
"""Damage that a broker truncates at the end of a log: no batch was ever there."""


class _Gap(NamedTuple):
    """Offsets that are in no batch, before the batch at `position`."""

    path: str
    position: int
    first_offset: int
    last_offset: int


class CommittedView:
    """Where a read_committed consumer starts and stops, and which data it does not get in between.

    The last stable offset is before the `open_transactions`. `unfinished` transactions end in files that are not read:
    their data is not shown, the data after it is. Both are spans from the first offset on. `undecided` transactions are
    not shown either. It is unknown whether records were lost in the `gaps`: transactions are shown as if none were.
    Of `unmarked` transactions, which are not shown, the log has no abort marker.
    """

    def __init__(
        self,
        hidden: Iterable[TxnSpan] = (),
        *,
        start_offset: int = 0,
        end_offset: int | None = None,
        open_transactions: Sequence[TxnSpan] = (),
        unfinished: Sequence[TxnSpan] = (),
        undecided: Sequence[Undecided] = (),
        gaps: Sequence[_Gap] = (),
        unmarked: Iterable[TxnSpan] = (),
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.open_transactions = tuple(open_transactions)
        self.unfinished = tuple(unfinished)
        self.undecided = tuple(undecided)
        self.gaps = tuple(gaps)
        self._firsts: dict[int, list[int]] = {}
        self._lasts: dict[int, list[int]] = {}
        self._hidden = sorted(hidden, key=lambda span: span.last)
        self._ends_of_unmarked = sorted(span.last + 1 for span in unmarked)
        for producer_id, first, last in self._hidden:
            self._firsts.setdefault(producer_id, []).append(first)
            self._lasts.setdefault(producer_id, []).append(last)

    @cached_property
    def _earliest_from(self) -> list[int]:
        """The earliest first offset of a hidden transaction and those that end after it, for each by its end."""
        return list(accumulate((span.first for span in reversed(self._hidden)), min))[::-1]

    def hidden_between(self, first: int, last: int) -> Iterator[TxnSpan]:
        """Yield the transactions that are not shown and have an offset from `first` to `last`, by their ends."""
        for number in range(bisect_left(self._hidden, first, key=lambda span: span.last), len(self._hidden)):
            if self._earliest_from[number] > last:
                return
            if self._hidden[number].first <= last:
                yield self._hidden[number]

    def end_of_unmarked(self, offset: int) -> int:
        """Return the end, after an offset, of a transaction that is not shown and has no marker; MAX_INT64: none.

        A consumer drops the records of a producer until it sees an abort marker. So it must not get records after this
        offset together with those before it.
        """
        number = bisect_right(self._ends_of_unmarked, offset)
        return self._ends_of_unmarked[number] if number < len(self._ends_of_unmarked) else MAX_INT64

    def is_hidden(self, producer_id: int, offset: int) -> bool:
        """Return whether transactional data of a producer at an offset was aborted, or is not known to be committed."""
        lasts = self._lasts.get(producer_id)
        if lasts is None:
            return False
        at = bisect_left(lasts, offset)
        return at < len(lasts) and self._firsts[producer_id][at] <= offset

    def is_readable(self, offset: int) -> bool:
        """Return whether an offset is between the log start offset and the end."""
        return offset >= self.start_offset and (self.end_offset is None or offset < self.end_offset)

    def batch_filter(self, batches: BatchColumns) -> Callable[[int], bool]:
        """Return a test for rows: whether a batch is committed data, at least in part between start and end."""
        formats, attributes = batches.column("format"), batches.column("attributes")
        producers, bases = batches.column("producer_id"), batches.column("base_offset")
        lasts = batches.column("last_offset")

        def is_committed(row: int) -> bool:
            if lasts[row] < self.start_offset or (self.end_offset is not None and bases[row] >= self.end_offset):
                return False
            flags = attributes[row] if formats[row] == MAGIC_V2 else 0
            if flags & CONTROL_BIT:
                return False
            return not flags & TRANSACTIONAL_BIT or not self.is_hidden(producers[row], bases[row])

        return is_committed


def read_committed_view(  # noqa: PLR0913 - what a replay depends on
    files: Sequence[LogFile],
    options: ScanOptions,
    high_watermark: int | None,
    start_offset: int = 0,
    *,
    compaction: Compaction,
    following: Sequence[LogFile] = (),
    is_whole: bool = True,
    log_end_offset: int | None = None,
    wrong: Mapping[str, Sequence[Damage]] | None = None,
) -> CommittedView:
    """Read the batch headers of a partition's files, and return what a read_committed consumer gets.

    Args:
        files: the files whose records are selected, in order.
        options: how they are scanned.
        high_watermark: the high watermark; None: unknown.
        start_offset: the log start offset.
        compaction: whether compaction explains offsets missing between two files, or in a transaction between two
            batches; else they were lost there.
        following: the segments after them, which are read until the transactions of `files` have ended.
        is_whole: whether the log ends with the last file; else its open transactions may end in files that are not
            read.
        log_end_offset: batches from this offset on are not read, as if the log ended there; None: all are.
        wrong: batches that are not read, by the path of the log; None: those that are misplaced (`batch_places`).
    """
    until = MAX_INT64 if log_end_offset is None else log_end_offset
    bounds = _bounds_of(files, following)
    reader = _Reader(options, compaction, until, bounds, wrong or {})
    end = _replayed(reader, files, following)
    if wrong is None and reader.suspicious:  # no transaction is replayed by offsets that cannot be right
        misplaced = {file.path: _misplaced(file, bounds[file.path], options) for file in reader.suspicious}
        reader = _Reader(options, compaction, until, bounds, misplaced)
        end = _replayed(reader, files, following)
    reader.finish(is_log_end=is_whole)
    return _view_of(reader, high_watermark, start_offset, end, is_whole=is_whole)


def _bounds_of(files: Sequence[LogFile], following: Sequence[LogFile]) -> dict[str, PlaceBounds]:
    """Return what bounds the offsets of each file, by its path."""
    every = [*files, *following]
    bases = [file.base_offset for file in every if file.base_offset is not None]
    bounds = segment_bounds(os.path.dirname(every[0].path) if every else None, bases)
    return {file.path: bounds.get(file.base_offset or 0, PlaceBounds(base_offset=0)) for file in every}


def _misplaced(file: LogFile, bounds: PlaceBounds, options: ScanOptions) -> list[Damage]:
    """Return the misplaced batches of a file; it could be read a moment ago. Raises StorageError."""
    with Source.open(file.path) as source:
        found = misplaced_batches(source, bounds, options).batches
    return [Damage(each.position, each.size_bytes, "offset-order", each.detail, each.expected_offset) for each in found]


def _replayed(reader: _Reader, files: Sequence[LogFile], following: Sequence[LogFile]) -> int:
    """Read the files, and those that follow as far as they are needed; return the offset where these begin."""
    for file in files:
        reader.read(file)
    end = reader.next_offset if following and reader.next_offset is not None else MAX_INT64
    for file in following:
        if not reader.is_open_before(end):
            break
        reader.read(file)
    return end


def _view_of(
    reader: _Reader, high_watermark: int | None, start_offset: int, end: int, *, is_whole: bool
) -> CommittedView:
    """Return the view of a finished replay, without transactions that began at offset `end` or after it."""
    outcomes = reader.outcomes
    open_spans = []
    for txn in reader.states.open_transactions():
        first = outcomes.still_open(txn)
        if first is not None and first < end:
            open_spans.append(TxnSpan(txn.producer_id, first, MAX_INT64))
    outcomes.decide()
    undecided = [one for one in outcomes.undecided if one.span.first < end]
    hidden = [*outcomes.aborted, *(one.span for one in undecided)]
    bounds = [] if high_watermark is None else [high_watermark]
    if is_whole:
        bounds += [span.first for span in open_spans]
    else:
        hidden += open_spans
    return CommittedView(
        hidden,
        start_offset=start_offset,
        end_offset=min(bounds, default=None),
        open_transactions=open_spans if is_whole else (),
        unfinished=() if is_whole else open_spans,
        undecided=undecided,
        gaps=reader.gaps,
        unmarked=outcomes.unmarked,
    )


def segments_after(file: LogFile) -> tuple[tuple[LogFile, ...], bool]:
    """Return the live segments after a log file in its directory, and whether the log is known to end with them.

    That is known if the directory is a partition's and the file is one of its segments.
    """
    try:
        partition = read_partition(os.path.dirname(file.path) or ".")
    except StorageError:
        return (), False
    files = unit_of_partition(partition, None).files
    names = [other.file.name.raw for other in files]
    if file.file.name.raw not in names:
        return (), False
    return files[names.index(file.file.name.raw) + 1 :], partition.topic is not None


class _Reader:
    """Replays file after file, and notes the ranges of offsets that cannot be read."""

    def __init__(
        self,
        options: ScanOptions,
        compaction: Compaction,
        end_offset: int,
        bounds: Mapping[str, PlaceBounds],
        wrong: Mapping[str, Sequence[Damage]],
    ) -> None:
        self.suspicious: list[LogFile] = []
        self._bounds = bounds
        self._wrong = wrong
        self.states = ProducerStates(sequences="unchecked")
        self.outcomes = TransactionOutcomes()
        self.gaps: list[_Gap] = []
        self.next_offset: int | None = None
        self._options = options
        self._compaction = compaction
        self._end_offset = end_offset
        self._lost: tuple[LogFile, Damage | None] | None = None

    def is_open_before(self, offset: int) -> bool:
        """Return whether a transaction is open that began before an offset."""
        first = self.states.first_unstable_offset
        return first is not None and first < offset

    def read(self, file: LogFile) -> None:
        """Replay one file. A file that cannot be read is a hole; it is reported when its rows are read."""
        if file.is_v07 or (file.base_offset or 0) >= self._end_offset:
            return
        self._begin(file)
        self.outcomes.log = (file.path, file.base_offset)
        try:
            with Source.open(file.path) as source:
                items = scan(source, base_offset=file.base_offset, options=self._options)
                watch = PlaceWatch(self._bounds[file.path])
                wrong = self._wrong.get(file.path, ())
                for item in without(items, wrong) if wrong else items:
                    if isinstance(item, Run):
                        watch.run(item.batches)
                        self._run(item, file)
                        continue
                    watch.damage(item)
                    if item.size_bytes and self._lost is None:
                        self._lost = file, item
                if watch.is_suspicious:
                    self.suspicious.append(file)
        except StorageError:
            self._lost = self._lost or (file, None)

    def finish(self, *, is_log_end: bool) -> None:
        """End the replay. `is_log_end`: the log ends here, so the broker truncates an append that was in progress."""
        if self._lost is not None:
            damage = self._lost[1]
            if not is_log_end or damage is None or damage.reason not in _CUT_OFF:
                self._hole(*self._lost, None)

    def _begin(self, file: LogFile) -> None:
        """Note what is missing before a file: the end of the file before it, or whole segments."""
        base = file.base_offset
        if self._lost is not None:
            self._found(base)
        elif base is not None and self.next_offset is not None and self.next_offset < base:
            self._lost_segments(file, self.next_offset, base)
        if base is not None:
            self.next_offset = max(base, self.next_offset or 0)

    def _lost_segments(self, file: LogFile, first_offset: int, base: int) -> None:
        if not self._compaction.explains_lost_segments:
            self.outcomes.holes.append(Hole(file.path, None, None, first_offset, base))
            self.states.hole()

    def _run(self, run: Run, file: LogFile) -> None:
        batches = run.batches
        bases, lasts = batches.column("base_offset"), batches.column("last_offset")
        if self._lost is not None:
            self._found(bases[0] if bases[0] >= 0 else None)
            expected = bases[0]
        else:
            expected = bases[0] if self.next_offset is None else self.next_offset
        markers = markers_of(run.memory, batches, max_bytes=self._options.max_batch_bytes)
        start, count = 0, batches.count
        if lasts[-1] >= self._end_offset:
            count = next(row for row, last in enumerate(lasts) if last >= self._end_offset)
        for row, first_offset in self._gap_rows(batches, expected):
            if row >= count:
                break
            self._replay(batches, markers, start, row)
            self._gap(file, batches, row, first_offset)
            start = row
        self._replay(batches, markers, start, count)
        self.next_offset = max(lasts[-1] + 1, self.next_offset or 0)

    def _replay(self, batches: BatchColumns, markers: Mapping[int, Marker], first: int, last: int) -> None:
        for event in self.states.replay(batches, markers, first=first, last=last):
            if isinstance(event, CompletedTxn):
                self.outcomes.completed(event)
            elif event.kind == "hole-in-transaction":
                self.outcomes.seen_after_gap(event)

    def _gap_rows(self, batches: BatchColumns, expected: int) -> list[tuple[int, int]]:
        """Return rows before which offsets are missing, and the first of these offsets.

        The list is empty if no transaction can be open, or compaction explains the gaps.
        """
        bases, lasts = batches.column("base_offset"), batches.column("last_offset")
        if sum(lasts) - sum(bases) + batches.count == lasts[-1] + 1 - expected:  # each begins where the one before ends
            return []
        if self.states.first_unstable_offset is None and batches.holds_only("producer_id", NO_PRODUCER_ID):
            return []
        rows = []
        for row, base in enumerate(bases):
            if base > expected:
                rows.append((row, expected))
            expected = max(expected, lasts[row] + 1)
        return [] if rows and self._compaction.explains_gaps else rows

    def _gap(self, file: LogFile, batches: BatchColumns, row: int, first_offset: int) -> None:
        """Note that offsets are missing before a row; if they were lost, a marker may have been among them."""
        if self.states.first_unstable_offset is None:
            return
        position, base = batches.column("position")[row], batches.column("base_offset")[row]
        if self._compaction.is_loss(file, position):
            self.outcomes.holes.append(Hole(file.path, file.base_offset, position, first_offset, base))
            self.states.hole()
        else:
            self.gaps.append(_Gap(file.path, position, first_offset, base - 1))

    def _found(self, offset: int | None) -> None:
        """End the lost range at an offset; it is a hole unless no offset is missing."""
        if self._lost is not None and (offset is None or self.next_offset is None or offset > self.next_offset):
            self._hole(*self._lost, offset)
        self._lost = None

    def _hole(self, file: LogFile, damage: Damage | None, end: int | None) -> None:
        position = None if damage is None else damage.position
        first = self.next_offset or 0
        self.outcomes.holes.append(Hole(file.path, file.base_offset, position, first, end))
        self.states.hole()
