"""What recovery makes of a producer's control batch that is not one plain marker (EndTransactionMarker.deserialize)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import FieldError, FormatError, TruncatedError
from kafkalog_core.format.control import decode_control_key, decode_control_value
from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, CONTROL_TYPE_NAMES, MAGIC_V2

if TYPE_CHECKING:
    from kafkalog_core.format.columns import BatchColumns

__all__ = ["EMPTY_MARKER", "MarkerFault", "first_empty_marker", "marker_fault"]

MarkerFault = Literal["invalid-record", "fatal"]
EMPTY_MARKER: Final = "a control batch that compaction has emptied, which releases before 2.0 cannot read"

_END_TYPES: Final = frozenset(CONTROL_TYPE_NAMES.index(name) for name in ("abort", "commit"))
_UNINFLATED: Final = frozenset({"payload", "payload-truncated", "payload-limit"})


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
    """Which kind of exception a control batch raises when its first record is read; null: none.

    `invalid-record` ends the recovery behind the batch, which is kept; `fatal` escapes it.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        row: of the control batch.
        max_bytes: its largest inflated payload.
    """
    count = batches.column("record_count")[row]
    if count < 0:
        return "invalid-record"
    fault: MarkerFault | None = None
    is_first = True
    for item in decode_run(memory, batches, max_bytes=max_bytes, wanted=row.__eq__):
        if isinstance(item, PayloadDamage):
            if item.reason in _UNINFLATED:
                return "fatal"
            # of the first record, or of what stands behind it where it is the only one, all is read
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
