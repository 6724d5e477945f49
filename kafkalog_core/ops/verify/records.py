"""Every record against the header of its batch; what of a batch's records cannot be read is a finding too."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError
from kafkalog_core.findings.logs import DAMAGE_CODES
from kafkalog_core.format import kernels
from kafkalog_core.format.columns import RECORD_ROWS, RecordColumns
from kafkalog_core.format.control import UnknownControl, decode_control_key, decode_control_value
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.headers import records_outside
from kafkalog_core.format.kernels import constants as k
from kafkalog_core.ops.sink import SHOWN
from kafkalog_core.ops.verify.verdict import OffsetGap

if TYPE_CHECKING:
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.format.decode import RecordRun
    from kafkalog_core.ops.sink import Sink
    from kafkalog_core.ops.verify.check import SegmentTask
    from kafkalog_core.storage.scan import Damage, Run

__all__ = ["RecordCheck"]

_CODES: Final = {
    k.ODD_ORDER: "record.offset-order",
    k.ODD_OVERLAP: "record.wrapper-overlap",
    k.ODD_LAST: "record.wrapper-end",
    k.ODD_TIME_OVER: "record.timestamp-over-max",
    k.ODD_TIME_UNDER: "record.timestamp-under-max",
    k.ODD_CRC: DAMAGE_CODES["message-crc"],
    k.ODD_MARKERS: "record.marker-count",
}
_CONTROL: Final = k.ODD_CONTROL_KEY | k.ODD_CONTROL_VALUE | k.ODD_CONTROL
_LEAST_ROWS: Final = 256
_RECORD_BYTES: Final = 7
"""The least that a record takes in a batch that is not compressed."""
_NOT_OPENED: Final = frozenset({"payload", "record-count"})
"""What the decoder says of batches whose header is already known to lie about codec or count."""


class RecordCheck:
    """Decodes all records, into columns that are used again, and lets a kernel look at them.

    After `finish`, `wrapped_records` is the number of records in compressed messages of v07, v0 and v1, which headers
    do not count, `first_offset` that of the first record; `is_thinned`, `gap_count` and `first_gap` tell of offsets
    that are missing inside of such messages and before them.
    """

    def __init__(self, task: SegmentTask, sink: Sink) -> None:
        self._sink = sink
        self._path = "" if task.segment.log is None else task.segment.log.path
        self._max_bytes = task.max_batch_bytes
        self._records = RecordColumns(min(RECORD_ROWS, max(_LEAST_ROWS, task.segment.size_bytes // _RECORD_BYTES)))
        self._nothing = RecordColumns(1)
        self._shown: Counter[int] = Counter()
        self._state = state = array("q", bytes(8 * k.RC_SIZE))
        state[k.RC_BATCH] = state[k.RC_FIRST] = -1
        state[k.RC_BEFORE] = max(task.segment.base_offset, 0) - 1
        state[k.RC_JOINED] = 1

    @property
    def wrapped_records(self) -> int:
        """Records in compressed messages of v07, v0 and v1."""
        return self._state[k.RC_WRAPPED]

    @property
    def first_offset(self) -> int | None:
        """Of the first record; null where none was read."""
        return self._state[k.RC_FIRST] if self._state[k.RC_RECORDS] else None

    @property
    def is_thinned(self) -> bool:
        """Whether offsets are missing inside of compressed messages, as compaction leaves them."""
        return self._state[k.RC_HOLES] > 0

    @property
    def gap_count(self) -> int:
        """Compressed messages with offsets missing before them, for another reason than damage."""
        return self._state[k.RC_GAPS]

    @property
    def first_gap(self) -> OffsetGap | None:
        """The first place of those; null: there is none."""
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
        """Offsets that are missing here are no hole."""
        del damage
        self._state[k.RC_JOINED] = 0

    def finish(self, size_bytes: int) -> None:
        """Count what was too often to be said each time."""
        del size_bytes
        for bit, code in _CODES.items():
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
        """One batch or record with what is odd of it."""
        for bit, code in _CODES.items():
            if not odd & bit:
                continue
            self._shown[bit] += 1
            if self._shown[bit] == SHOWN:
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
        """A control record that the kernel leaves to be looked at: bad, or of another type than ends a transaction."""
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
        """Records that could not be read; what all records of the batch together show is not known then."""
        if self._state[k.RC_BATCH] == damage.batch:
            self._state[k.RC_BATCH] = -1
        batch = batches.row(damage.batch)
        if damage.reason in _NOT_OPENED and _is_known_to_lie(batch):
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


def _is_known_to_lie(batch: dict[str, int]) -> bool:
    """Whether `BatchCheck` has named what is wrong: a codec without a meaning, a negative count."""
    if batch["format"] == k.MAGIC_V2:
        return batch["codec"] > k.CODEC_ZSTD or batch["record_count"] < 0
    return batch["codec"] > k.CODEC_LZ4


def _span(memory: memoryview, record: dict[str, int], name: str) -> memoryview:
    start, size = record[f"{name}_start"], record[f"{name}_size"]
    return memory[start : start + size] if size > 0 else memory[:0]
