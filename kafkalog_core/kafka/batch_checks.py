"""The checks of batches: their headers, their records, and the figures of a segment.

`verify` reports what they find. `serve` asks the same ones for the batches that are errors, and leaves them out.
"""

from __future__ import annotations

from array import array
from collections import Counter
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError
from kafkalog_core.findings.catalog import FINDING_TYPES, SHOWN
from kafkalog_core.findings.logs import DAMAGE_CODES
from kafkalog_core.format import kernels
from kafkalog_core.format.columns import FORMAT_NAMES, RECORD_ROWS, RecordColumns
from kafkalog_core.format.control import UnknownControl, decode_control_key, decode_control_value
from kafkalog_core.format.decode import PayloadDamage, codec_name, decode_run, header_contradictions, records_outside
from kafkalog_core.format.kernels import constants as k
from kafkalog_core.format.layout import MAX_INT32, MAX_INT64
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings.catalog import Sink
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.format.decode import RecordRun
    from kafkalog_core.storage.scan import Damage, Run

__all__ = [
    "FUTURE_MS",
    "BatchCheck",
    "CheckedLog",
    "OffsetGap",
    "RecordCheck",
    "SegmentEpochStart",
    "SegmentFigures",
]


DAY_MS: Final = 24 * 60 * 60 * 1000
FUTURE_MS: Final = DAY_MS
"""How far in the future a timestamp may be: brokers allow an hour (4.x) or anything, and clocks and zones differ."""
MOST_EPOCHS: Final = 16 * 1024
"""Number of leader epochs that are kept of one segment: no cluster elects as many leaders while it writes one."""
NOT_KNOWN: Final = -2
"""The last offset before a damaged place: offsets that are missing there are no sign of compaction."""

_CODES: Final = {
    k.ODD_EPOCH: "batch.bad-epoch",
    k.ODD_TIMES: "batch.timestamp-order",
    k.ODD_ATTRIBUTES: "batch.unknown-attributes",
    k.ODD_CODEC: "batch.unknown-codec",
    k.ODD_OVERFLOW: "segment.offset-overflow",
}
_OF_SEGMENT: Final = frozenset({"segment.offset-overflow"})
"""Findings about the segment, although they name a batch: `batch_places` shows whether its offsets are wrong."""


class CheckedLog(Struct, frozen=True, kw_only=True):
    """A log file whose batches are checked.

    Args:
        path: of the file, as findings name it.
        base_offset: the number in its name.
        size_bytes: of the file.
        is_v07: whether it is of Kafka 0.7.
        opens_records: whether records are checked too.
        now_ms: time of the check, ms since 1970: later timestamps are in the future.
        max_batch_bytes: size limit of a batch, also when it is decompressed.
        errors_only: whether only errors of batches are reported, and all of them one by one; else every finding, of one
            code the first ones.
    """

    path: str
    base_offset: int
    size_bytes: int
    is_v07: bool
    opens_records: bool
    now_ms: int
    max_batch_bytes: int
    errors_only: bool = False

    @property
    def shown(self) -> int:
        """How many findings of one code are reported one by one."""
        return MAX_INT64 if self.errors_only else SHOWN

    def muted(self, codes: Mapping[int, str], others: int = 0) -> int:
        """Return the bits of a kernel that are only counted at first: those of findings that are not wanted.

        codes: of the bits that are findings. others: bits that are none.
        """
        if not self.errors_only:
            return 0
        bits = (bit for bit, code in codes.items() if code in _OF_SEGMENT or FINDING_TYPES[code].severity != "error")
        return reduce(or_, bits, others)


class SegmentEpochStart(Struct, frozen=True):
    """The first batch of a leader epoch in a segment, by its header, after a batch of another epoch.

    `last_before`: the last offset before it, the end of the epoch before.
    """

    epoch: int
    offset: int
    position: int
    last_before: int


class OffsetGap(Struct, frozen=True):
    """Offsets that no batch has, before the batch at `position`."""

    position: int
    first_offset: int
    last_offset: int


class SegmentFigures(Struct, frozen=True, kw_only=True):
    """Figures of a segment, from its headers. Offsets and timestamps are None if no batch has one.

    Args:
        batches: number of whole batches.
        records: number of records that headers count.
        first_offset: also None if only the content has it: in a compressed message of v07, v0 and v1.
        last_offset: of the last batch; of v07 the address after it.
        first_timestamp_ms: the largest timestamp of the first batch that has one, as `LogSegment` takes it to roll.
        max_timestamp_ms: the largest of all batches.
        formats: names of those that occur, `v0`, `v1`, `v2` or `v07`.
        epochs: starts of leader epochs, of very many the first; a decreasing epoch is a finding instead.
        epoch_behind: the last leader epoch, if `epochs` are not all.
        is_thinned: whether a batch holds fewer records than its offsets span, as after compaction.
        gaps: the first places where offsets are missing and nothing is damaged.
        gap_count: number of all such places.
        uncounted: number of batches whose headers do not count their records; 0 if they are opened.
    """

    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None
    max_timestamp_ms: int | None
    formats: tuple[str, ...]
    epochs: tuple[SegmentEpochStart, ...]
    epoch_behind: int | None
    is_thinned: bool
    gaps: tuple[OffsetGap, ...]
    gap_count: int
    uncounted: int


class BatchCheck:
    """The check of headers, run by run; `has_producers`: whether the last run has batches with a producer."""

    def __init__(self, log: CheckedLog, sink: Sink) -> None:
        self._sink = sink
        self._path = log.path
        self._most = log.shown
        self._now_ms = log.now_ms
        self._epochs: list[SegmentEpochStart] = []
        self._gaps: list[OffsetGap] = []
        self._shown: Counter[int] = Counter()
        base_offset = min(log.base_offset, MAX_INT64)
        self._state = state = array("q", bytes(8 * k.BC_SIZE))
        state[k.BC_LARGEST] = MAX_INT64 if log.is_v07 else min(base_offset + MAX_INT32, MAX_INT64)
        state[k.BC_FUTURE_FROM] = min(log.now_ms + FUTURE_MS, MAX_INT64)
        state[k.BC_PREVIOUS] = base_offset - 1
        for cell in (k.BC_EPOCH, k.BC_FIRST, k.BC_LAST, k.BC_FIRST_TIME, k.BC_MAX_TIME):
            state[cell] = -1
        state[k.BC_MUTED] = log.muted(_CODES, k.ODD_GAP | k.ODD_EPOCH_START | k.ODD_EPOCH_BACK)
        self._last_offset = base_offset - 1
        self._is_opened = log.opens_records
        self._uncounted = 0
        self.has_producers = False

    def run(self, run: Run) -> None:
        """Check all headers of a run."""
        batches, state = run.batches, self._state
        state[k.BC_PRODUCERS] = 0
        row = kernels.check_batches(batches, 0, state)
        while row < batches.count:
            odd = state[k.BC_ODD]
            if odd & k.ODD_EPOCH_BACK:
                self._epoch_back(batches, row)
            if odd & k.ODD_EPOCH_START:
                self._begin_epoch(batches, row)
            if odd & ~k.ODD_EPOCH_START:
                self._odd(odd, batches.row(row))
            row = kernels.check_batches(batches, row + 1, state)
        self.has_producers = state[k.BC_PRODUCERS] > 0
        counts = batches.column("record_count")
        if not self._is_opened and min(counts, default=0) < 0:
            self._uncounted += sum(count < 0 for count in counts)
        if 0 in counts:
            self._compressed_empty(batches)
        self._last_offset = batches.column("last_offset")[-1]
        for contradiction in header_contradictions(batches):
            position = batches.column("position")[contradiction.batch]
            code = DAMAGE_CODES[contradiction.reason]
            self._sink.add(
                code,
                self._path,
                position=position,
                size_bytes=batches.column("size_bytes")[contradiction.batch],
                offset=batches.column("base_offset")[contradiction.batch],
                detail=contradiction.detail,
            )

    def _compressed_empty(self, batches: BatchColumns) -> None:
        """Report batches without records that are compressed, which the log cleaner does not write."""
        counts, codecs = batches.column("record_count"), batches.column("codec")
        for row in (row for row, count in enumerate(counts) if count == 0 and codecs[row]):
            self._sink.add(
                "batch.compressed-empty",
                self._path,
                position=batches.column("position")[row],
                size_bytes=batches.column("size_bytes")[row],
                offset=batches.column("base_offset")[row],
                codec=codec_name(codecs[row]),
            )

    def damage(self, damage: Damage) -> None:
        """Ignore damage, but do not take the offsets that are missing here as a sign of compaction."""
        del damage
        self._state[k.BC_PREVIOUS] = NOT_KNOWN

    def finish(self, size_bytes: int) -> None:
        """Report what is reported once for a file, and the number of places that were not reported one by one."""
        del size_bytes
        state = self._state
        for bit, code in _CODES.items():
            more = state[k.BC_MORE + bit.bit_length() - 1]
            if more:
                self._sink.count_more(code, self._path, more)
        if state[k.BC_FUTURE]:
            largest = state[k.BC_MAX_TIME]
            days = (largest - self._now_ms) // DAY_MS
            self._once("batch.future-timestamp", k.BC_FUTURE, k.BC_FUTURE_AT, largest=largest, days=days)
        if state[k.BC_NEGATIVE]:
            self._once("batch.negative-timestamp", k.BC_NEGATIVE, k.BC_NEGATIVE_AT)

    @property
    def figures(self) -> SegmentFigures:
        """The figures of all runs so far."""
        state = self._state
        first, last = state[k.BC_FIRST], state[k.BC_LAST]
        return SegmentFigures(
            batches=state[k.BC_BATCHES],
            records=state[k.BC_RECORDS],
            first_offset=first if first >= 0 else None,
            last_offset=last if state[k.BC_BATCHES] else None,
            first_timestamp_ms=_known(state[k.BC_FIRST_TIME]),
            max_timestamp_ms=_known(state[k.BC_MAX_TIME]),
            formats=tuple(name for magic, name in FORMAT_NAMES.items() if state[k.BC_FORMATS] >> magic & 1),
            epochs=tuple(self._epochs),
            epoch_behind=state[k.BC_EPOCH] if state[k.BC_MORE + k.ODD_EPOCH_START.bit_length() - 1] else None,
            is_thinned=state[k.BC_THINNED] > 0,
            gaps=tuple(self._gaps),
            gap_count=len(self._gaps) + state[k.BC_MORE + k.ODD_GAP.bit_length() - 1],
            uncounted=self._uncounted,
        )

    def _once(self, code: str, count: int, position: int, largest: int = 0, days: int = 0) -> None:
        self._sink.add(
            code, self._path, position=self._state[position], count=self._state[count], largest=largest, days=days
        )

    def _begin_epoch(self, batches: BatchColumns, row: int) -> None:
        """Add a leader epoch; after the last one that is kept, they are only counted."""
        self._epochs.append(self._epoch_start(batches, row))
        if len(self._epochs) >= MOST_EPOCHS:
            self._state[k.BC_MUTED] |= k.ODD_EPOCH_START

    def _epoch_start(self, batches: BatchColumns, row: int) -> SegmentEpochStart:
        base, last = batches.column("base_offset")[row], batches.column("last_offset")
        return SegmentEpochStart(
            epoch=batches.column("leader_epoch")[row],
            offset=last[row] if base < 0 else base,
            position=batches.column("position")[row],
            last_before=last[row - 1] if row else self._last_offset,
        )

    def _epoch_back(self, batches: BatchColumns, row: int) -> None:
        """Take the figures of decreasing leader epochs: this row is wrong or those before it; the next one shows which.

        `batch_places` reports the batch.
        """
        state = self._state
        self._show(k.ODD_EPOCH_BACK)
        epochs, positions = batches.column("leader_epoch"), batches.column("position")
        higher = self._epochs[-1] if self._epochs else None
        if row + 1 < batches.count:
            is_here = epochs[row + 1] >= state[k.BC_BEFORE]
        else:
            is_here = higher is None or row == 0 or positions[row - 1] != higher.position
        if higher is None or higher.epoch != state[k.BC_BEFORE] or is_here:
            state[k.BC_EPOCH] = state[k.BC_BEFORE]
        else:
            self._epochs.pop()

    def _show(self, bit: int) -> None:
        """Count a finding of a bit; the last one that is shown mutes it."""
        self._shown[bit] += 1
        if self._shown[bit] == self._most:
            self._state[k.BC_MUTED] |= bit

    def _odd(self, odd: int, batch: dict[str, int]) -> None:
        """Report a batch with a contradiction in its header, and note a gap before it."""
        offset = batch["last_offset"] if batch["base_offset"] < 0 else batch["base_offset"]
        if odd & k.ODD_GAP:
            self._gaps.append(OffsetGap(batch["position"], self._state[k.BC_EXPECTED], batch["base_offset"] - 1))
            if len(self._gaps) == self._most:
                self._state[k.BC_MUTED] |= k.ODD_GAP
        for bit, code in _CODES.items():
            if not odd & bit:
                continue
            self._show(bit)
            self._sink.add(
                code,
                self._path,
                position=batch["position"],
                size_bytes=batch["size_bytes"],
                offset=batch["last_offset"] if bit == k.ODD_OVERFLOW else offset,
                epoch=batch["leader_epoch"],
                first=batch["base_timestamp_ms"],
                largest=batch["max_timestamp_ms"],
                attributes=batch["attributes"] & 0xFFFF,
                codec=batch["codec"],
                magic=batch["format"],
            )


def _known(timestamp_ms: int) -> int | None:
    return timestamp_ms if timestamp_ms >= 0 else None


_RECORDS_CODES: Final = {
    k.ODD_ORDER: "record.offset-order",
    k.ODD_OVERLAP: "record.wrapper-overlap",
    k.ODD_LAST: "record.wrapper-end",
    k.ODD_TIME_OVER: "record.timestamp-over-max",
    k.ODD_TIME_UNDER: "record.timestamp-under-max",
    k.ODD_CRC: DAMAGE_CODES["message-crc"],
    k.ODD_MARKERS: "record.marker-count",
    k.ODD_LENGTH: "record.negative-length",
    k.ODD_HEADER_KEY: "record.header-key",
    k.ODD_MAGIC: "record.other-magic",
}
_CONTROL: Final = k.ODD_CONTROL_KEY | k.ODD_CONTROL_VALUE | k.ODD_CONTROL
_LEAST_ROWS: Final = 256
_RECORD_BYTES: Final = 7
"""The minimum size of a record in a batch that is not compressed, in bytes."""
_NOT_OPENED: Final = frozenset({"payload", "record-count"})
"""Reasons of the decoder for batches whose header is already known to be wrong about codec or count."""


class RecordCheck:
    """The check of all records, which are decoded into reused columns and looked at by a kernel.

    After `finish`, `wrapped_records` is the number of records in compressed messages of v07, v0 and v1, which headers
    do not count, and `first_offset` that of the first record. `is_thinned`, `gap_count` and `first_gap` are about
    offsets that are missing within such messages and before them.
    """

    def __init__(self, log: CheckedLog, sink: Sink) -> None:
        self._sink = sink
        self._path = log.path
        self._most = log.shown
        self._max_bytes = log.max_batch_bytes
        self._records = RecordColumns(min(RECORD_ROWS, max(_LEAST_ROWS, log.size_bytes // _RECORD_BYTES)))
        self._nothing = RecordColumns(1)
        self._shown: Counter[int] = Counter()
        self._state = state = array("q", bytes(8 * k.RC_SIZE))
        state[k.RC_BATCH] = state[k.RC_FIRST] = -1
        state[k.RC_BEFORE] = max(log.base_offset, 0) - 1
        state[k.RC_JOINED] = 1
        state[k.RC_MUTED] = log.muted(_RECORDS_CODES)

    @property
    def wrapped_records(self) -> int:
        """Number of records in compressed messages of v07, v0 and v1."""
        return self._state[k.RC_WRAPPED]

    @property
    def first_offset(self) -> int | None:
        """Offset of the first record; None: none was read."""
        return self._state[k.RC_FIRST] if self._state[k.RC_RECORDS] else None

    @property
    def is_thinned(self) -> bool:
        """Whether offsets are missing within compressed messages, as after compaction."""
        return self._state[k.RC_HOLES] > 0

    @property
    def gap_count(self) -> int:
        """Number of compressed messages before which offsets are missing for another reason than damage."""
        return self._state[k.RC_GAPS]

    @property
    def first_gap(self) -> OffsetGap | None:
        """The first of those places; None: there is none."""
        state = self._state
        if not state[k.RC_GAPS]:
            return None
        return OffsetGap(state[k.RC_GAP_AT], state[k.RC_GAP_FROM], state[k.RC_GAP_TO])

    def run(self, run: Run) -> None:
        """Check all records of a run."""
        state = self._state
        for item in decode_run(run.memory, run.batches, max_bytes=self._max_bytes, records=self._records):
            if isinstance(item, PayloadDamage):
                self._unread(item, run.batches)
            else:
                self._check(item.memory, item.batches, item.records)
                self._outside(item)
        self._check(run.memory, run.batches, self._nothing)  # the last batch has ended
        state[k.RC_BATCH] = -1
        state[k.RC_BEFORE] = run.batches.column("last_offset")[-1]
        state[k.RC_JOINED] = 1

    def damage(self, damage: Damage) -> None:
        """Ignore damage: offsets that are missing here are not a gap."""
        del damage
        self._state[k.RC_JOINED] = 0

    def finish(self, size_bytes: int) -> None:
        """Report the number of places that were not reported one by one."""
        del size_bytes
        for bit, code in _RECORDS_CODES.items():
            more = self._state[k.RC_MORE + bit.bit_length() - 1]
            if more:
                self._sink.count_more(code, self._path, more)

    def _check(self, memory: memoryview, batches: BatchColumns, records: RecordColumns) -> None:
        state = self._state
        row = kernels.check_records(memory, batches, records, 0, state)
        while state[k.RC_ODD]:
            record = records.row(state[k.RC_ROW]) if state[k.RC_ROW] >= 0 else None
            self._odd(state[k.RC_ODD], batches.row(state[k.RC_ABOUT]), record)
            if record is not None and state[k.RC_ODD] & _CONTROL:
                self._control(memory, batches.column("position")[state[k.RC_ABOUT]], record)
            row = kernels.check_records(memory, batches, records, row, state)

    def _odd(self, odd: int, batch: dict[str, int], record: dict[str, int] | None) -> None:
        """Report a batch or record with a contradiction."""
        for bit, code in _RECORDS_CODES.items():
            if not odd & bit:
                continue
            self._shown[bit] += 1
            if self._shown[bit] == self._most:
                self._state[k.RC_MUTED] |= bit
            self._sink.add(
                code,
                self._path,
                position=batch["position"],
                size_bytes=batch["size_bytes"],
                offset=self._state[k.RC_OFFSET] if record is None else record["offset"],
                first=batch["base_offset"],
                last=batch["last_offset"],
                largest=batch["max_timestamp_ms"],
                timestamp=self._state[k.RC_TIME] if record is None else record["timestamp_ms"],
            )

    def _control(self, memory: memoryview, position: int, record: dict[str, int]) -> None:
        """Report a control record that the kernel leaves to this check: a bad one, or one that ends no transaction."""
        code, kind, detail = "record.control-key", None, ""
        try:
            key, _ = decode_control_key(_span(memory, record, "key"))
            code, kind = "record.control-value", key.type
            value, _ = decode_control_value(key.type, _span(memory, record, "value"))
            if not isinstance(value, UnknownControl):
                return
            code = "record.control-type"
        except FormatError as error:
            detail = str(error)
        self._sink.add(code, self._path, position=position, offset=record["offset"], kind=kind, detail=detail)

    def _outside(self, item: RecordRun) -> None:
        for contradiction in records_outside(item.batches, item.records):
            self._sink.add(
                DAMAGE_CODES[contradiction.reason],
                self._path,
                position=item.batches.column("position")[contradiction.batch],
                size_bytes=item.batches.column("size_bytes")[contradiction.batch],
                offset=item.batches.column("base_offset")[contradiction.batch],
                detail=contradiction.detail,
            )

    def _unread(self, damage: PayloadDamage, batches: BatchColumns) -> None:
        """Report records that could not be read; what the whole batch shows is unknown then."""
        if self._state[k.RC_BATCH] == damage.batch:
            self._state[k.RC_BATCH] = -1
        batch = batches.row(damage.batch)
        if damage.reason in _NOT_OPENED and _is_header_fault_reported(batch):
            return
        self._sink.add(
            DAMAGE_CODES[damage.reason],
            self._path,
            position=batch["position"],
            size_bytes=batch["size_bytes"],
            offset=damage.next_offset,
            last=batch["last_offset"],
            detail=damage.detail,
        )


def _is_header_fault_reported(batch: dict[str, int]) -> bool:
    """Return whether `BatchCheck` has reported what is wrong: an unknown codec, a negative count."""
    if batch["format"] == k.MAGIC_V2:
        return batch["codec"] > k.CODEC_ZSTD or batch["record_count"] < 0
    return batch["codec"] > k.CODEC_LZ4


def _span(memory: memoryview, record: dict[str, int], name: str) -> memoryview:
    start, size = record[f"{name}_start"], record[f"{name}_size"]
    return memory[start : start + size] if size > 0 else memory[:0]
