"""The recovery of one segment (`LogSegment.recover`): where it is truncated, its new indexes, its producers."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.errors import FieldError, FormatError, TruncatedError
from kafkalog_core.format.control import decode_control_key, decode_control_value
from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_batch
from kafkalog_core.format.index import IndexBuilder, encode_txn_entry
from kafkalog_core.format.layout import (
    CONTROL_BIT,
    CONTROL_TYPE_NAMES,
    LOG_OVERHEAD,
    MAGIC_V2,
    MAX_BATCH_BYTES,
    MAX_INT32,
    MAX_INT64,
)
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.rules.producers import CompletedTxn
from kafkalog_core.kafka.sim.broker_walk import walk_as_broker
from kafkalog_core.kernels import constants as k
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.rules.producers import Marker, ProducerStates
    from kafkalog_core.kafka.rules.rule_table import RecoveryRules
    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.storage.scan import Run
    from kafkalog_core.storage.source import Source

__all__ = [
    "EMPTY_MARKER",
    "MarkerFault",
    "Problem",
    "ProblemKind",
    "RecoveryWatch",
    "SegmentRecoverer",
    "SegmentRecovery",
    "SplitPart",
    "first_empty_marker",
    "marker_fault",
    "recover_segment",
    "split_parts",
]


MarkerFault = Literal["invalid-record", "fatal"]
EMPTY_MARKER: Final = "a control batch that compaction has emptied, which releases before 2.0 cannot read"

_END_TYPES: Final = frozenset(CONTROL_TYPE_NAMES.index(name) for name in ("abort", "commit"))
_UNINFLATED: Final = frozenset({"payload", "payload-truncated", "payload-limit", "payload-dependent", "payload-window"})


def first_empty_marker(batches: BatchColumns, first: int) -> int:
    """Return the first row from `first` on of a producer's control batch without records; the row count: there is none.

    The cleaner leaves such batches. Releases before 2.0 ask the batch for its first record all the same
    (ProducerAppendInfo.append), and do not start: NoSuchElementException.
    """
    counts = batches.column("record_count")[first:].tolist()
    row = first
    while 0 in counts[row - first :]:
        row += counts[row - first :].index(0)
        cells = batches.row(row)
        if cells["format"] == MAGIC_V2 and cells["producer_id"] >= 0 and cells["attributes"] & CONTROL_BIT:
            return row
        row += 1
    return batches.count


def marker_fault(memory: memoryview, batches: BatchColumns, row: int, *, max_bytes: int) -> MarkerFault | None:
    """Return the kind of exception that a broker throws when it reads the first record of a control batch; None: none.

    `invalid-record` ends the recovery after the batch, which is kept; `fatal` stops the broker
    (`EndTransactionMarker.deserialize`).

    Args:
        memory: the buffer that the byte ranges of `batches` refer to.
        batches: rows filled by a walk.
        row: of the control batch.
        max_bytes: its largest decompressed payload.
    """
    count = batches.column("record_count")[row]
    if count < 0:
        return "invalid-record"
    fault: MarkerFault | None = None
    is_first = True
    for item in decode_batch(memory, batches, row, max_bytes=max_bytes):
        if isinstance(item, PayloadDamage):
            if item.is_ignored:
                continue
            if item.reason in _UNINFLATED:
                return "fatal"
            # of the first record, or of what follows it where it is the only one, all is read
            return "invalid-record" if is_first or count == 1 else fault
        if is_first:
            fault = _first_record_fault(item)
            is_first = False
    return "invalid-record" if is_first else fault


def _first_record_fault(run: RecordRun) -> MarkerFault | None:
    cells = run.records.row(0)
    if cells["key_size"] < 0 or cells["value_size"] < 0:
        return "fatal"
    key_start, value_start = cells["key_start"], cells["value_start"]
    try:
        key, _ = decode_control_key(run.memory[key_start : key_start + cells["key_size"]])
    except FormatError:
        return "invalid-record"
    if key.type not in _END_TYPES:
        return "fatal"
    try:
        decode_control_value(key.type, run.memory[value_start : value_start + cells["value_size"]])
    except TruncatedError:
        return "fatal"
    except FieldError:
        return "invalid-record"
    return None


ProblemKind = Literal[
    "invalid-offset",
    "first-offset",
    "overflow",
    "index-full",
    "bad-marker",
    "empty-marker",
    "bad-message",
    "txn-state",
    "txn-order",
    "unreadable",
    "over-limit",
]
_STOPPED: Final[dict[int, ProblemKind]] = {
    k.REBUILD_OVERFLOW: "overflow",
    k.REBUILD_FULL: "index-full",
    k.REBUILD_DISORDER: "invalid-offset",
}
_INVALID_RECORD: Final = "a control batch that cannot be read: a broker keeps it and truncates the log after it"


class Problem(Struct, frozen=True, kw_only=True):
    """An exception that the recovery of a segment throws, so that nothing of its result counts.

    Args:
        kind: `invalid-offset` (an index would not ascend), `first-offset` (the same of a compressed message whose last
            offset does ascend, which is what releases from 2.0 on index), `overflow` (an offset that no index can
            hold), `index-full`, `bad-marker`, `txn-state` and `txn-order` (a control batch or transaction that is not
            valid), `empty-marker` (a control batch that compaction has emptied), `bad-message` (a compressed message
            that does not open), `unreadable` (by the disk), `over-limit` (of kafkalog's own memory).
        position: byte in the log of the batch.
        detail: a clause.
    """

    kind: ProblemKind
    position: int
    detail: str


class SegmentRecovery(Struct, frozen=True, kw_only=True):
    """The result of the recovery of a segment.

    Args:
        base_offset: of the segment.
        size_bytes: of its log before.
        valid_bytes: size of its log afterwards.
        stop: why it is truncated there: a reason of `Damage`, or `control-batch`; None: it is whole.
        stop_detail: the same as a clause.
        end_offset: after the last batch that is kept, or the base offset.
        map_end_offset: after the last batch of magic 2 that is kept, where a snapshot would be taken; None: there is
            none.
        batches: number of batches that are kept.
        offset_index: all bytes of the `.index`, trimmed.
        time_index: the same of the `.timeindex`; None: the release has none.
        txn_index: the same of the `.txnindex`; None: the release has none.
        unlisted: aborted transactions without data that the release leaves out of the `.txnindex`.
        epochs: leader epochs that are higher than all before in this segment, each with its first offset.
        max_timestamp_ms: largest timestamp of a batch; -1: none.
        has_legacy: whether messages of magic 0 or 1 are among them.
        problem: the exception that it throws; None: none.
    """

    base_offset: int
    size_bytes: int
    valid_bytes: int
    stop: str | None
    stop_detail: str
    end_offset: int
    map_end_offset: int | None
    batches: int
    offset_index: bytes
    time_index: bytes | None
    txn_index: bytes | None
    unlisted: tuple[CompletedTxn, ...]
    epochs: tuple[tuple[int, int], ...]
    max_timestamp_ms: int
    has_legacy: bool
    problem: Problem | None

    @property
    def cut_bytes(self) -> int:
        """Bytes that recovery truncates from the log."""
        return self.size_bytes - self.valid_bytes


def _ignore(_: object) -> None:
    """Ignore the event."""


class RecoveryWatch(NamedTuple):
    """Callbacks of a recovery.

    `listen` receives everything that is read, up to the first damage; damage of size 0 reports offsets that go back.
    `pauses` are offsets after the base of the segment, ascending: `reached` is called with each of them when the states
    of the producers include all batches below it, and no other.
    """

    listen: Callable[[Run | Damage], None] = _ignore
    pauses: Sequence[int] = ()
    reached: Callable[[int], None] = _ignore


NO_WATCH: Final = RecoveryWatch()


def recover_segment(
    source: Source,
    base_offset: int,
    *,
    rules: RecoveryRules,
    settings: TopicSettings,
    states: ProducerStates,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    watch: RecoveryWatch = NO_WATCH,
    byte_range: tuple[int, int] | None = None,
) -> SegmentRecovery:
    """Recover a segment as a broker does (`LogSegment.recover`).

    Args:
        source: its log.
        base_offset: the number in its name.
        rules: those of the release.
        settings: of its topic; index.interval.bytes, segment.index.bytes and max.message.bytes count.
        states: all producers at the base offset; updated in place up to the end.
        max_batch_bytes: the largest batch that is read.
        watch: callbacks.
        byte_range: first byte, and the one after the last, of a part of the log that is recovered as if it were all.
    """
    recovery = SegmentRecoverer(
        source.size_bytes if byte_range is None else byte_range[1] - byte_range[0],
        base_offset,
        rules=rules,
        settings=settings,
        states=states,
        max_batch_bytes=max_batch_bytes,
        watch=watch,
    )
    walk = walk_as_broker(
        source,
        base_offset=base_offset,
        max_batch_bytes=recovery.limit_bytes,
        takes_v2_magic=rules.takes_v2_magic,
        byte_range=byte_range,
    )
    for item in walk:
        if not recovery.take(item):
            break
    return recovery.finish()


class SegmentRecoverer:
    """The recovery of a segment, of which another one reads the log: `take` for each item of the walk, then `finish`.

    size_bytes: size of the log; the other arguments are those of `recover_segment`.
    """

    def __init__(
        self,
        size_bytes: int,
        base_offset: int,
        *,
        rules: RecoveryRules,
        settings: TopicSettings,
        states: ProducerStates,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        watch: RecoveryWatch = NO_WATCH,
    ) -> None:
        self._size_bytes = size_bytes
        self.base_offset = base_offset
        self._rules = rules
        self._states = states
        self._unlisted: list[CompletedTxn] = []
        states.ends_empty = True
        self._message_limit = settings.max_message_bytes + LOG_OVERHEAD if rules.limits_message else MAX_INT64
        self.limit_bytes = min(max_batch_bytes, self._message_limit)
        self._problem: Problem | None = None
        self._stop: str | None = None
        self._stop_detail = ""
        self._position = 0
        self._last_offset = base_offset - 1
        self._map_end_offset: int | None = None
        self._batches = 0
        self._has_legacy = False
        self._watch = watch
        self._pauses = deque(watch.pauses)
        self._txn_index = bytearray()
        self._last_aborted: int | None = None
        self._indexes = IndexBuilder(
            base_offset,
            bits=rules.bits,
            interval_bytes=settings.index_interval_bytes,
            max_index_bytes=settings.segment_index_bytes,
        )

    # --- what the walk gives ------------------------------------------------------------------------------------------
    def take(self, item: Run | Damage) -> bool:
        """Take what the walk gives, and return whether the recovery goes on after it."""
        self._watch.listen(item)
        if not isinstance(item, Damage):
            return self._run(item)
        if item.size_bytes:  # else it is about the order of offsets, which counts at index entries alone
            self._damage(item)
        return True

    def _damage(self, damage: Damage) -> None:
        """Note that the log is truncated here, unless kafkalog's own limit or the disk is the reason."""
        if damage.reason == "unreadable":
            self._fail("unreadable", damage.position, damage.detail)
        elif damage.reason == "over-limit" and self.limit_bytes < self._message_limit:
            self._fail("over-limit", damage.position, damage.detail)
        self._stop, self._stop_detail = damage.reason, damage.detail

    def _run(self, run: Run) -> bool:
        """Take whole batches; return whether recovery goes on after them."""
        batches = run.batches
        # LogSegment.recover adds a batch to the indexes before it updates the producers, which throws at a bad marker
        behind, fault = self._first_bad_marker(run) if self._rules.has_producers else (batches.count, None)
        end = self._rebuild(run, behind + (fault is not None))
        if self._rules.has_producers:
            self._replay(run, min(end, behind))
        if self._problem is None and fault == "empty":
            self._fail("empty-marker", batches.column("position")[behind], EMPTY_MARKER)
        elif self._problem is None and fault == "fatal":
            detail = "a control batch of a producer that holds no marker"
            self._fail("bad-marker", batches.column("position")[behind], detail)
        # LogSegment.recover catches InvalidRecordException after validBytes includes the batch: the batch is kept
        elif fault == "invalid-record":
            self._stop, self._stop_detail = "control-batch", _INVALID_RECORD
        if end:
            self._batches += end
            self._has_legacy = self._has_legacy or not batches.holds_only("format", MAGIC_V2)
            self._position = batches.column("position")[end - 1] + batches.column("size_bytes")[end - 1]
            self._last_offset = batches.column("last_offset")[end - 1]
        return self._problem is None and fault is None

    def _first_bad_marker(self, run: Run) -> tuple[int, MarkerFault | Literal["empty"] | None]:
        """Return the first row whose marker raises an exception, and which; the number of rows where none does."""
        batches = run.batches
        empty = batches.count if self._rules.reads_empty_markers else first_empty_marker(batches, 0)
        row = 0
        while (row := kernels.find_odd_marker(run.memory, batches, row)) < batches.count:
            if row > empty:
                break
            fault = marker_fault(run.memory, batches, row, max_bytes=self.limit_bytes)
            if fault is not None:
                return row, fault
            row += 1
        return empty, "empty" if empty < batches.count else None

    # --- offset and time index, epochs --------------------------------------------------------------------------------
    def _rebuild(self, run: Run, last: int) -> int:
        """Add rows up to `last` (exclusive) to the indexes; return the row at which it stopped."""
        batches, row = run.batches, 0
        first_offset: int | None = None
        while True:
            row, stop = self._indexes.advance(batches, row, last, first_offset=first_offset)
            if stop == k.REBUILD_FIRST:
                first_offset = self._first_inner_offset(run, row)
                if first_offset is not None:
                    continue
            elif stop != k.REBUILD_DONE:
                kind, last_offset = _STOPPED[stop], batches.column("last_offset")[row]
                before = batches.column("last_offset")[row - 1] if row else self._last_offset
                if kind == "invalid-offset" and not self._rules.names_last_offset:
                    kind = "first-offset" if last_offset > before else kind
                    base = batches.column("base_offset")[row]
                    last_offset = first_offset if base < 0 and first_offset is not None else max(base, 0)
                self._fail(kind, batches.column("position")[row], self._indexes.why(stop, last_offset))
            return row

    def _first_inner_offset(self, run: Run, row: int) -> int | None:
        """Return the first offset in a compressed message; None: it does not open, which is a problem."""
        first = _first_inner_offset(run, row, self.limit_bytes)
        if isinstance(first, int):
            return first
        if first is not None:
            self._fail("bad-message", run.batches.column("position")[row], first.detail)
        return None

    # --- producers ----------------------------------------------------------------------------------------------------
    def _replay(self, run: Run, last: int) -> None:
        """Update the producers with the rows up to `last` (exclusive)."""
        batches = run.batches
        formats = batches.column("format")
        ending = next((row for row in range(last - 1, -1, -1) if formats[row] == MAGIC_V2), None)
        if ending is None:  # so far no batch has had a producer
            return
        self._map_end_offset = batches.column("last_offset")[ending] + 1
        markers: dict[int, Marker] = {}
        if not batches.holds_only("producer_id", -1):
            markers = markers_of(run.memory, batches, max_bytes=self.limit_bytes)
        first = 0
        while self._pauses and self._pauses[0] <= batches.column("last_offset")[last - 1]:
            row = bisect_left(batches.column("last_offset"), self._pauses[0], first, last)
            self._carry_out(batches, markers, first, row)
            if self._problem is not None:
                return
            self._watch.reached(self._pauses.popleft())
            first = row
        self._carry_out(batches, markers, first, last)

    def _carry_out(self, batches: BatchColumns, markers: Mapping[int, Marker], first: int, last: int) -> None:
        if first >= last or batches.holds_only("producer_id", -1):
            return
        for event in self._states.replay(batches, markers, first=first, last=last):
            if not isinstance(event, CompletedTxn):
                # ProducerAppendInfo.appendDataBatch: InvalidTxnStateException, which no caller catches
                if event.kind == "plain-in-transaction":
                    detail = f"a batch of producer {event.producer_id} outside of its transaction, which is open"
                    self._fail("txn-state", event.position, detail)
                    return
            elif event.is_aborted and not self._add_aborted(event, batches):
                return

    def _add_aborted(self, txn: CompletedTxn, batches: BatchColumns) -> bool:
        """Add an entry to the transaction index; return whether the index can hold it."""
        # ProducerAppendInfo.appendEndTxnMarker returns a completed transaction only where one was open
        if txn.is_empty and not self._rules.lists_empty_transactions:
            self._unlisted.append(txn)
            return True
        # TransactionIndex.append: IllegalArgumentException unless the last offset is above the one before
        if self._last_aborted is not None and txn.last_offset <= self._last_aborted:
            row = batches.column("base_offset").tolist().index(txn.last_offset)
            detail = f"the marker at offset {txn.last_offset} is after that at offset {self._last_aborted}"
            self._fail("txn-order", batches.column("position")[row], detail)
            return False
        self._last_aborted = txn.last_offset
        self._txn_index += encode_txn_entry(*txn[:3], txn.last_stable_offset)
        return True

    def _fail(self, kind: ProblemKind, position: int, detail: str) -> None:
        self._problem = Problem(kind=kind, position=position, detail=detail)

    # --- the end ------------------------------------------------------------------------------------------------------
    def finish(self) -> SegmentRecovery:
        """Return the result."""
        rules, indexes = self._rules, self._indexes
        if rules.has_time_index and self._problem is None:
            # LogSegment.recover adds the last time entry, for which TimeIndex.isFull keeps a slot
            try:
                indexes.close()
            except FieldError as error:
                self._fail("invalid-offset", self._position, error.message)
        return SegmentRecovery(
            base_offset=self.base_offset,
            size_bytes=self._size_bytes,
            valid_bytes=self._position,
            stop=self._stop,
            stop_detail=self._stop_detail,
            end_offset=self._last_offset + 1,
            map_end_offset=self._map_end_offset,
            batches=self._batches,
            offset_index=bytes(indexes.offset_index),
            time_index=bytes(indexes.time_index) if rules.has_time_index else None,
            txn_index=bytes(self._txn_index) if rules.has_producers else None,
            unlisted=tuple(self._unlisted),
            epochs=tuple(indexes.epochs),
            max_timestamp_ms=indexes.max_timestamp_ms,
            has_legacy=self._has_legacy,
            problem=self._problem,
        )


def _first_inner_offset(run: Run, row: int, max_bytes: int) -> int | PayloadDamage | None:
    """Return the first offset in a compressed message (`AbstractLegacyRecordBatch.baseOffset`), or why it is closed."""
    for item in decode_batch(run.memory, run.batches, row, max_bytes=max_bytes):
        return item.records.column("offset")[0] if isinstance(item, RecordRun) else item
    return None


class SplitPart(NamedTuple):
    """Batches that become a segment: its base offset, and their bytes in the old log."""

    base_offset: int
    start: int
    end: int


def split_parts(
    source: Source, base_offset: int, *, max_batch_bytes: int, checks: bool = True
) -> list[SplitPart] | str:
    """Return the parts of a log (`LocalLog.splitOverflowedSegment`); or why a broker cannot split it, as a clause.

    Args:
        source: the log.
        base_offset: the number in its name.
        max_batch_bytes: the largest batch that is read.
        checks: whether a batch with a wrong checksum cannot be split, nor one whose offset goes back; a broker computes
            no checksum (`FileLogInputStream`), and compares offsets at index entries alone (`OffsetIndex.append`).
    """
    parts: list[SplitPart] = []
    last_offset = -1  # the first part has the base offset of the first batch, also where that is below the name's
    walk = (
        walk_as_broker(source, base_offset=base_offset, max_batch_bytes=max_batch_bytes, takes_v2_magic=True)
        if checks
        else scan(source, base_offset=None, options=ScanOptions(max_batch_bytes=max_batch_bytes, check=False))
    )
    for item in walk:
        if isinstance(item, Damage):
            if not item.size_bytes:  # offsets go back, which the next batches show
                continue
            return f"the log is damaged at byte {item.position} ({item.reason}: {item.detail})"
        batches = item.batches
        names = ("base_offset", "last_offset", "format", "position", "size_bytes")
        rows = zip(*map(batches.column, names), strict=True)
        for row, (first, last, magic, position, size) in enumerate(rows):
            if checks and first <= last_offset and not (magic < MAGIC_V2 and first < 0):
                return f"offset {first} at byte {position} is not above offset {last_offset} before it"
            # LogSegment.canConvertToRelativeOffset of the batch's last offset
            if not parts or last - parts[-1].base_offset > MAX_INT32:
                base = _first_inner_offset(item, row, max_batch_bytes) if first < 0 else first
                if not isinstance(base, int):
                    return f"the compressed message at byte {position} would have to start a segment, and does not open"
                parts.append(SplitPart(base, position, position))
            last_offset = last
            parts[-1] = parts[-1]._replace(end=position + size)
    # LocalLog.splitOverflowedSegment requires LogSegment.hasOverflow, which looks at the last offset (KAFKA-6264)
    if last_offset - base_offset <= MAX_INT32:
        return f"its last offset, {last_offset}, is one that its indexes can hold"
    return parts
