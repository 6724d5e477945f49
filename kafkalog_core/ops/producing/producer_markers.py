"""What the control batches of producers in a run say, by row: COMMIT or ABORT, and who sent it."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kafkalog_core.errors import FormatError
from kafkalog_core.format import kernels
from kafkalog_core.format.control import EndTxnMarker, decode_control_key, decode_control_value
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.kernels.constants import M_COORDINATOR, M_ROW, M_SIZE, M_TYPE
from kafkalog_core.ops.producing.producer_anomalies import Marker

if TYPE_CHECKING:
    from kafkalog_core.format.columns import BatchColumns

__all__ = ["markers_of"]


def markers_of(memory: memoryview, batches: BatchColumns, *, max_bytes: int) -> dict[int, Marker]:
    """The markers of a run by row, in order. Control batches that are empty or hold no marker are left out.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        max_bytes: the largest inflated payload of one batch.
    """
    cells = array("q", bytes(8 * M_SIZE * batches.count))
    end = M_SIZE * kernels.read_markers(memory, batches, cells)
    rows, types, epochs = (cells[column:end:M_SIZE] for column in (M_ROW, M_TYPE, M_COORDINATOR))
    markers = dict(zip(rows, map(Marker, types, epochs), strict=True))
    if -1 in types:
        unread = {row for row, marker in markers.items() if marker.type_id < 0}
        return {
            row: marker
            for row, marker in (markers | _inflated(memory, batches, unread, max_bytes)).items()
            if marker.type_id >= 0
        }
    return markers


def _inflated(memory: memoryview, batches: BatchColumns, unread: set[int], max_bytes: int) -> dict[int, Marker]:
    """Nobody compresses markers, but a broker would read them."""
    codecs = batches.column("codec")
    rows = {row for row in unread if codecs[row]}
    if not rows:
        return {}
    markers: dict[int, Marker] = {}
    seen: set[int] = set()
    for item in decode_run(memory, batches, max_bytes=max_bytes, wanted=rows.__contains__):
        if not isinstance(item, RecordRun):
            continue
        for index, row in enumerate(item.records.column("batch")):
            if row not in seen:
                seen.add(row)
                marker = _first_marker(item, index)
                if marker is not None:
                    markers[row] = marker
    return markers


def _first_marker(run: RecordRun, index: int) -> Marker | None:
    cells = run.records.row(index)
    key_start, value_start = cells["key_start"], cells["value_start"]
    try:
        key, _ = decode_control_key(run.memory[key_start : key_start + max(0, cells["key_size"])])
        value, _ = decode_control_value(key.type, run.memory[value_start : value_start + max(0, cells["value_size"])])
    except FormatError:
        return None
    return Marker(key.type, value.coordinator_epoch) if isinstance(value, EndTxnMarker) else None
