"""The kernels that check columns and replay producers, over columns with hostile values in the widths of their fields.

Buffers are exactly as large as they must be, so that a build with AddressSanitizer sees a step outside.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import FieldError
from kafkalog_core.format import kernels
from kafkalog_core.format.columns import BATCH_FIELDS, FORMAT_V07, RECORD_FIELDS, BatchColumns, RecordColumns
from kafkalog_core.format.decode import header_contradictions, records_outside
from kafkalog_core.format.kernels import constants as k
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.format.snapshot import ProducerEntry
from kafkalog_core.kafka import producers
from kafkalog_core.kafka.producers import Marker, ProducerStates
from tools.fuzz.memory import check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.kafka.producers import Sequences

__all__ = ["batch_checks", "index_checks", "record_checks", "replays"]

_ROWS: Final = 8
_FORMATS: Final = (2, 2, 2, 2, 0, 1, FORMAT_V07, 2)
_SEQUENCES: Final[tuple[Sequences, ...]] = ("continuous", "gaps", "unchecked")
_CALLS: Final = 1000
_SMALL: Final = 128
_EDGE: Final = 224
_EDGES: Final = (2**63 - 1, -(2**63), 2**63 - 2, 2**31 - 1, -(2**31), 2**31, 2**15 - 1, -(2**15), 2**62, -2, 255)


class _Reader:
    """Numbers from the input; after its end all are 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._data)

    def take(self, size: int) -> bytes:
        """The next bytes, filled up with zeros."""
        self._at += size
        return self._data[self._at - size : self._at].ljust(size, b"\0")

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self, bits: int) -> int:
        """Return a signed integer: most are small, some at a limit, some arbitrary; one byte chooses."""
        kind = self.byte()
        if kind < _SMALL:
            return kind - 2
        if kind < _EDGE:
            value = _EDGES[kind % len(_EDGES)]
            return value if -(1 << bits - 1) <= value < 1 << bits - 1 else (1 << bits - 1) - 1
        return int.from_bytes(self.take(bits // 8), "big", signed=True)


def _exact(data: bytes | bytearray) -> Any:
    """Return these bytes in memory that ends with them; the memory of a `bytes` object has one byte more."""
    return array("B", data)


def batch_checks(data: bytes) -> object:
    """Headers, run by run, as `BatchCheck` asks."""
    reader = _Reader(data)
    state = array("q", bytes(8 * k.BC_SIZE))
    for cell in (k.BC_LARGEST, k.BC_FUTURE_FROM, k.BC_PREVIOUS):
        state[cell] = reader.number(64)
    state[k.BC_MUTED] = reader.byte()
    for cell in (k.BC_EPOCH, k.BC_FIRST, k.BC_LAST, k.BC_FIRST_TIME, k.BC_MAX_TIME):
        state[cell] = -1
    found: list[object] = []
    for batches in _runs(reader):
        row = 0
        while row < batches.count:
            before, row = row, kernels.check_batches(batches, row, state)
            check(before <= row <= batches.count, f"row {row} after {before}")
            found.append((row, state.tolist()))
            row += 1
        found.append([str(contradiction) for contradiction in header_contradictions(batches)])
    return found


def record_checks(data: bytes) -> object:
    """Records of some batches, in several columns of them, as `RecordCheck` asks."""
    reader = _Reader(data)
    state = array("q", bytes(8 * k.RC_SIZE))
    state[k.RC_BATCH] = state[k.RC_FIRST] = -1
    state[k.RC_BEFORE], state[k.RC_JOINED], state[k.RC_MUTED] = reader.number(64), reader.byte() & 1, reader.byte()
    found: list[object] = []
    for batches in _runs(reader):
        batch = 0
        while batch < batches.count:
            memory = _exact(reader.take(reader.byte() % 24))
            records, batch = _records(reader, batches.count, batch, len(memory))
            found += _checked_records(memoryview(memory), batches, records, state)
            found.append([str(contradiction) for contradiction in records_outside(batches, records)])
        found += _checked_records(memoryview(b""), batches, RecordColumns(1), state)
        state[k.RC_BATCH] = -1
    return found


def _checked_records(
    memory: memoryview, batches: BatchColumns, records: RecordColumns, state: array[int]
) -> Iterator[object]:
    row = kernels.check_records(memory, batches, records, 0, state)
    yield row, state.tolist()
    for _ in range(_CALLS):
        if not state[k.RC_ODD]:
            return
        row = kernels.check_records(memory, batches, records, row, state)
        yield row, state.tolist()
    check(False, "no end of odd records")


def replays(data: bytes) -> object:
    """Replay batches and markers over producers of a snapshot or a state; a kept state continues in the same way."""
    reader = _Reader(data)
    vars(producers).update(_FIRST_CAPACITY=2)
    kind, sequences = reader.byte(), _SEQUENCES[reader.byte() % len(_SEQUENCES)]
    try:
        states = _states(reader, kind, sequences)
    except FieldError as error:
        return str(error)
    found: list[object] = []
    for batches in _runs(reader):
        markers = _markers(reader, batches)
        kept = ProducerStates.from_state(states.state_bytes(), sequences=sequences)
        events = states.replay(batches, markers)
        check(kept.replay(batches, markers) == events, "a state that was kept continues in another way")
        check(list(kept.snapshot_entries()) == list(states.snapshot_entries()), "other producers")
        if reader.byte() & 1:
            states.hole()
        found += [events, states.open_transactions(), states.first_unstable_offset]
    return repr(found), repr(list(states.snapshot_entries())), states.state_bytes()


def _states(reader: _Reader, kind: int, sequences: Sequences) -> ProducerStates:
    if not kind & 1:
        return ProducerStates(sequences=sequences)
    if kind & 2:
        rows = [reader.number(64) for _ in range(k.P_SIZE * (kind >> 2 & 3))]
        head = array("q", [1, k.P_SIZE, kind >> 2 & 3, reader.byte(), *rows])
        return ProducerStates.from_state(head.tobytes(), sequences=sequences)
    entries = [
        ProducerEntry(
            producer_id=reader.number(64),
            producer_epoch=reader.number(16),
            last_sequence=reader.number(32),
            last_offset=reader.number(64),
            offset_delta=reader.number(32),
            timestamp_ms=reader.number(64),
            coordinator_epoch=reader.number(32),
            current_txn_first_offset=reader.number(64),
        )
        for _ in range(kind >> 2 & 3)
    ]
    return ProducerStates.from_snapshot(entries, sequences=sequences)


def _markers(reader: _Reader, batches: BatchColumns) -> Mapping[int, Marker]:
    """Those that the batches' bytes hold, or some that are made up."""
    if reader.byte() & 1:
        memory = _exact(reader.take(reader.byte() % 64))
        for name in ("payload_start", "payload_end"):
            for row in range(batches.count):
                batches.column(name)[row] = min(max(0, batches.column(name)[row]), len(memory))
        cells = array("q", bytes(8 * k.M_SIZE * batches.count))
        end = k.M_SIZE * kernels.read_markers(memory, batches, cells)
        spans = range(0, end, k.M_SIZE)
        return {cells[at]: Marker(cells[at + 1], cells[at + 2]) for at in spans if cells[at + 1] >= 0}
    return {row: Marker(reader.number(16), reader.number(32)) for row in range(batches.count) if reader.byte() & 1}


def index_checks(data: bytes) -> object:
    """Entries in windows against batches, damage and the end of the log."""
    reader = _Reader(data)
    is_time = bool(reader.byte() & 1)
    size = (TIME_INDEX_ENTRY if is_time else OFFSET_INDEX_ENTRY).size
    windows = [_window(reader, size, is_time=is_time) for _ in range(reader.byte() % 4)]
    state = array("q", bytes(8 * k.INDEX_STATE))
    state[k.I_BASE] = max(0, reader.number(64))
    state[k.I_LAST], state[k.I_GOOD], state[k.I_OPEN] = state[k.I_BASE] - 1, -1, -1
    state[k.I_LEAST], state[k.I_LIMIT] = 0 if is_time else 1, max(1, reader.number(64))
    state[k.I_TOP_V2] = -1 if is_time else 0
    faults = array("q", bytes(8 * k.FAULT_ROWS * k.FAULT_SIZE))
    found: list[object] = []
    slot, window, marks = 0, _exact(bytes(size)), _exact(bytes(1))
    count = 0
    for batches in _runs(reader, marks=True):
        state[k.I_ROW] = 0
        for _ in range(_CALLS):
            result = kernels.check_entries(window, count, bool(windows), is_time, marks, batches, state, faults)
            check(state[k.I_FAULTS] <= k.FAULT_ROWS, f"{state[k.I_FAULTS]} faults")
            found.append((result, state.tolist(), faults[: state[k.I_FAULTS] * k.FAULT_SIZE].tolist()))
            state[k.I_FAULTS] = 0
            if result == kernels.INDEX_DONE:
                break
            if result == kernels.INDEX_MORE:
                slot += count
                window = windows.pop()
                count = len(window) // size
                state[k.I_SLOT], state[k.I_ENTRY] = slot, 0
                marks = _exact(bytes(count))
                if not kernels.is_ordered(window, count, is_time, state):
                    links = array("q", bytes(16 * count))
                    kernels.mark_disorder(window, count, is_time, state, marks, links)
                found.append((marks.tolist(), state.tolist()))
        else:
            check(False, "no end of faults")
    return found


def _window(reader: _Reader, size: int, *, is_time: bool) -> Any:
    data = bytearray()
    for _ in range(1 + reader.byte() % 40):
        first, second = reader.number(64 if is_time else 32), reader.number(32)
        data += first.to_bytes(size - 4, "big", signed=True) + second.to_bytes(4, "big", signed=True)
    return _exact(data)


# --- columns ----------------------------------------------------------------------------------------------------------
def _runs(reader: _Reader, *, marks: bool = False) -> Iterator[BatchColumns]:
    """Runs of batches as a walk fills them, whatever their headers say; `marks`: damage and the end are among them."""
    position, last = 0, -1
    while not reader.is_done:
        batches = BatchColumns(1 + reader.byte() % _ROWS)
        batches.count = batches.capacity
        for row in range(batches.count):
            cells = _batch(reader, position, last)
            if marks and reader.byte() > 240:
                cells |= {"format": k.ROW_DAMAGE, "base_offset": -(2**63) + 1, "last_offset": -(2**63) + 1}
            for name, value in cells.items():
                batches.column(name)[row] = value
            position += cells["size_bytes"]
            last = cells["last_offset"]
        yield batches
    if marks:
        batches = BatchColumns(1)
        batches.count = 1
        cells = {"format": k.ROW_END, "position": position, "size_bytes": 2**63 - 1 - position}
        for name, value in cells.items():
            batches.column(name)[0] = value
        yield batches


def _spans(reader: _Reader, size: int, *, is_header: bool = False) -> dict[str, int]:
    """Return spans of a key and a value within `size` bytes; size -1: null, which the key of a header is not."""
    cells = {}
    for name in ("key", "value"):
        cells[f"{name}_start"] = start = reader.byte() % (size + 1)
        null = 0 if is_header and name == "key" else 1
        cells[f"{name}_size"] = reader.byte() % (size - start + 1 + null) - null
    return cells


def _wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _batch(reader: _Reader, position: int, last: int) -> dict[str, int]:
    magic = _FORMATS[reader.byte() % len(_FORMATS)]
    attributes = reader.number(16) if magic == 2 else reader.byte()
    base = reader.number(64) if reader.byte() & 1 else _wrapped(last + 1 + reader.byte() % 4)
    cells = dict.fromkeys(BATCH_FIELDS, -1)
    codec = attributes & 7 if magic != FORMAT_V07 else attributes & 3
    cells |= {
        "position": position,
        "size_bytes": 1 + reader.byte(),
        "format": magic,
        "attributes": attributes,
        "codec": codec,
        "base_offset": base,
        "last_offset": _wrapped(base + reader.number(32)) if magic == 2 else base,
        "record_count": reader.number(32) if magic == 2 else 1,
        "payload_start": reader.byte(),
        "payload_end": reader.byte(),
    }
    if magic < 2 and codec:
        cells |= {"base_offset": -1, "record_count": -1}
    if magic < FORMAT_V07:
        cells["base_timestamp_ms"] = cells["max_timestamp_ms"] = reader.number(64)
    if magic == 2:
        cells["leader_epoch"], cells["max_timestamp_ms"] = reader.number(32), reader.number(64)
        cells["producer_id"], cells["producer_epoch"] = reader.number(64), reader.number(16)
        cells["base_sequence"] = reader.number(32)
    return cells


def _records(reader: _Reader, batch_count: int, batch: int, size: int) -> tuple[RecordColumns, int]:
    """Return records of batches from `batch` on, with spans within `size` bytes, and the batch to continue with."""
    records = RecordColumns(1 + reader.byte() % _ROWS)
    for row in range(records.capacity):
        if reader.byte() & 1:
            batch += 1
        if batch >= batch_count:
            break
        records.count += 1
        cells = dict.fromkeys(RECORD_FIELDS, 0)
        cells |= {"batch": batch, "offset": reader.number(64), "timestamp_ms": reader.number(64)}
        cells |= _spans(reader, size) | {"crc_ok": int(reader.byte() != 0), "crc_stored": reader.number(32)}
        cells["first_header"], cells["header_count"] = records.headers.count, reader.byte() % 3
        for header in range(min(cells["header_count"], records.headers.capacity - records.headers.count)):
            records.headers.count += 1
            for name, value in _spans(reader, size, is_header=True).items():
                records.headers.column(name)[cells["first_header"] + header] = value
        for name, value in cells.items():
            records.column(name)[row] = value
    return records, batch + 1
