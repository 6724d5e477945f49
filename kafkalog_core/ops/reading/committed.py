"""What a read_committed consumer gets, offline: no aborted and no open transactions.

A first pass over the batch headers replays the state of all producers (`producers`). A transactional batch of producer
P is aborted when the next marker of P after it is ABORT; the last stable offset is the first offset of the earliest
transaction that is open at the end (ProducerStateManager, UnifiedLog). Where something of the log is missing between
data and marker, `producer_outcomes` decides, or nobody can: such data is not shown as committed, and said to be so.

Of a segment named by itself the segments after it are read too, as far as it takes to end its transactions. What was
open before it is not looked for: its own data is what is asked about. Memory follows the number of producers, and of
aborted transactions, not that of records.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.findings.partitions import GAP_UNKNOWN
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_INT64, NO_PRODUCER_ID, TRANSACTIONAL_BIT
from kafkalog_core.kafka.producer_anomalies import markers_of
from kafkalog_core.kafka.producers import CompletedTxn, ProducerStates
from kafkalog_core.kafka.transaction_outcomes import Gap, TransactionOutcomes, TxnSpan
from kafkalog_core.ops.reading.logfiles import unit_of_partition
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.producers import Marker
    from kafkalog_core.kafka.transaction_outcomes import Undecided
    from kafkalog_core.ops.reading.compaction import Compaction
    from kafkalog_core.ops.reading.logfiles import LogFile, Unit

__all__ = ["CommittedView", "committed_findings", "read_committed_view", "segments_behind"]

_CUT_OFF = frozenset({"torn-tail", "zero-filled"})
"""Damage that a broker cuts off the end of a log: no batch was ever there."""


class _Gap(NamedTuple):
    """Offsets that are in no batch, before the batch at `position`."""

    path: str
    position: int
    first_offset: int
    last_offset: int


class CommittedView:
    """Where a read_committed consumer starts and stops, and what it does not get in between.

    `open_transactions` hold it back; of `unfinished` ones the end is in files that are not here: their data is not
    shown, what is after it is. Both are spans from the first offset on. `undecided` ones are not shown either. Of
    `gaps` in transactions it is not known whether something was lost there: they are shown as if it was not.
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
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.open_transactions = tuple(open_transactions)
        self.unfinished = tuple(unfinished)
        self.undecided = tuple(undecided)
        self.gaps = tuple(gaps)
        self._firsts: dict[int, list[int]] = {}
        self._lasts: dict[int, list[int]] = {}
        for producer_id, first, last in sorted(hidden, key=lambda span: span.last):
            self._firsts.setdefault(producer_id, []).append(first)
            self._lasts.setdefault(producer_id, []).append(last)

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
        """Return a test by row: data that is committed and is between start and end, in part at least."""
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


def read_committed_view(
    files: Sequence[LogFile],
    options: ScanOptions,
    high_watermark: int | None,
    start_offset: int = 0,
    *,
    compaction: Compaction,
    following: Sequence[LogFile] = (),
    is_whole: bool = True,
) -> CommittedView:
    """Read the headers of a partition's files, in order.

    Args:
        files: those of which records are asked for.
        options: how they are scanned.
        high_watermark: where one is known.
        start_offset: the log start offset.
        compaction: asked where offsets are missing between two files, or in a transaction between two batches: else
            they were lost there.
        following: the segments after them, read as far as their transactions take.
        is_whole: whether the log ends with the last file; else its open transactions may end in files that are not
            here.
    """
    reader = _Reader(options, compaction)
    for file in files:
        reader.read(file)
    end = reader.next_offset if following and reader.next_offset is not None else MAX_INT64
    for file in following:
        if not reader.is_open_before(end):
            break
        reader.read(file)
    reader.finish(cut_off=is_whole)
    return _view_of(reader, high_watermark, start_offset, end, is_whole=is_whole)


def _view_of(
    reader: _Reader, high_watermark: int | None, start_offset: int, end: int, *, is_whole: bool
) -> CommittedView:
    """`end`: transactions that began there or after it are of no interest."""
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
    )


def segments_behind(file: LogFile) -> tuple[tuple[LogFile, ...], bool]:
    """Return the live segments after a log file in its directory, and whether the log is known to end with them.

    It is known where the directory is a partition's and the file is one of its segments.
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


def committed_findings(view: CommittedView, unit: Unit) -> list[Finding]:
    """Return what stops a read_committed consumer, and what of it is unknown."""
    found_of = partial(found, topic=unit.topic, partition=unit.partition)
    findings = [
        found_of(
            "txn.undecided", one.hole.path, offset=one.span.first, producer=one.span.producer_id, where=_where(one)
        )
        for one in view.undecided
    ]
    findings += (
        found_of(
            "batch.gap",
            gap.path,
            position=gap.position,
            offset=gap.first_offset,
            severity="warning",
            last=gap.last_offset,
            judged=GAP_UNKNOWN,
        )
        for gap in view.gaps
    )
    for code, spans in (("txn.end-elsewhere", view.unfinished), ("txn.open", view.open_transactions)):
        path = unit.path if code == "txn.open" else unit.files[0].path
        findings += (found_of(code, path, offset=span.first, producer=span.producer_id) for span in spans)
    return findings


def _where(undecided: Undecided) -> str:
    hole = undecided.hole
    name = os.path.basename(hole.path)
    offsets = f"offsets {hole.first_offset} and up" if hole.end_offset is None else _offsets(hole)
    if hole.base_offset is None:
        return f"{offsets}, which are in no segment before {name}"
    return f"{offsets} of {name}" if hole.position is None else f"{offsets}, from byte {hole.position} of {name} on"


def _offsets(hole: Gap) -> str:
    last = (hole.end_offset or 0) - 1
    return f"offset {last}" if last == hole.first_offset else f"offsets {hole.first_offset} to {last}"


class _Reader:
    """Replays file after file, and finds the holes between what can be read."""

    def __init__(self, options: ScanOptions, compaction: Compaction) -> None:
        self.states = ProducerStates(sequences="unchecked")
        self.outcomes = TransactionOutcomes()
        self.gaps: list[_Gap] = []
        self.next_offset: int | None = None
        self._options = options
        self._compaction = compaction
        self._lost: tuple[LogFile, Damage | None] | None = None

    def is_open_before(self, offset: int) -> bool:
        """Return whether a transaction is open that began before an offset."""
        first = self.states.first_unstable_offset
        return first is not None and first < offset

    def read(self, file: LogFile) -> None:
        """Replay one file. One that cannot be read is a hole, and is reported when the caller asks for its rows."""
        if file.is_v07:
            return
        self._begin(file)
        self.outcomes.log = (file.path, file.base_offset)
        try:
            with Source.open(file.path) as source:
                for item in scan(source, base_offset=file.base_offset, options=self._options):
                    if isinstance(item, Run):
                        self._run(item, file)
                    elif item.size_bytes and self._lost is None:
                        self._lost = file, item
        except StorageError:
            self._lost = self._lost or (file, None)

    def finish(self, *, cut_off: bool) -> None:
        """Nothing follows. `cut_off`: it is the end of the log, of which a broker cuts off what was being written."""
        if self._lost is not None:
            damage = self._lost[1]
            if not cut_off or damage is None or damage.reason not in _CUT_OFF:
                self._hole(*self._lost, None)

    def _begin(self, file: LogFile) -> None:
        """Return what is missing before a file: the end of the one before it, or all of a segment."""
        base = file.base_offset
        if self._lost is not None:
            self._found(base)
        elif base is not None and self.next_offset is not None and self.next_offset < base:
            self._lost_segments(file, self.next_offset, base)
        if base is not None:
            self.next_offset = max(base, self.next_offset or 0)

    def _lost_segments(self, file: LogFile, first_offset: int, base: int) -> None:
        if not self._compaction.explains_lost_segments:
            self.outcomes.holes.append(Gap(file.path, None, None, first_offset, base))
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
        start = 0
        for row, first_offset in self._gap_rows(batches, expected):
            self._replay(batches, markers, start, row)
            self._gap(file, batches, row, first_offset)
            start = row
        self._replay(batches, markers, start, batches.count)
        self.next_offset = max(lasts[-1] + 1, self.next_offset or 0)

    def _replay(self, batches: BatchColumns, markers: Mapping[int, Marker], first: int, last: int) -> None:
        for event in self.states.replay(batches, markers, first=first, last=last):
            if isinstance(event, CompletedTxn):
                self.outcomes.completed(event)
            elif event.kind == "hole-in-transaction":
                self.outcomes.cut(event)

    def _gap_rows(self, batches: BatchColumns, expected: int) -> list[tuple[int, int]]:
        """Return rows before which offsets are missing, and the first of those.

        None where no transaction can be open, or compaction explains them.
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
        """Return offsets are missing before a row: where they were lost, a marker may have been among them."""
        if self.states.first_unstable_offset is None:
            return
        position, base = batches.column("position")[row], batches.column("base_offset")[row]
        if self._compaction.is_loss(file, position):
            self.outcomes.holes.append(Gap(file.path, file.base_offset, position, first_offset, base))
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
        self.outcomes.holes.append(Gap(file.path, file.base_offset, position, first, end))
        self.states.hole()
