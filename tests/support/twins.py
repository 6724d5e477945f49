"""The twins of the kernels side by side: compiled where they were built so, interpreted, interpreted without Cython."""

from __future__ import annotations

import sys
from array import array
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

from kafkalog_core import kernels, twins
from kafkalog_core.format.columns import BatchColumns, HeaderColumns, RecordColumns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = [
    "TWINS",
    "Decoded",
    "Row",
    "all_agree",
    "decode_all",
    "decode_once",
    "rows_of",
    "state_at",
    "twin",
    "walked",
]

TWINS = (*(("compiled",) if kernels.COMPILED else ()), "interpreted", "stand-in")


@cache
def twin(name: str) -> ModuleType:
    """The package of the kernels as that twin; the stand-in takes the place of the module `cython`."""
    if name == "compiled":
        return kernels
    if name == "stand-in":
        with mock.patch.dict(sys.modules, {"cython": None}):
            return twins.interpreted()
    return twins.interpreted()


def all_agree(outcomes: Sequence[object]) -> object:
    """What all twins gave."""
    for name, outcome in zip(TWINS[1:], outcomes[1:], strict=True):
        assert outcome == outcomes[0], f"{name} differs from {TWINS[0]}"
    return outcomes[0]


def walked(data: bytes | memoryview, *, capacity: int = 64, check: bool = True, is_v07: bool = False) -> BatchColumns:
    """Batch columns of whole entries. They are filled by whichever twin the product runs."""
    batches = BatchColumns(capacity)
    walk = kernels.walk_v07 if is_v07 else kernels.walk
    stop, end = walk(data, 0, len(data), 0, 0 if is_v07 else -(2**63), 2**40, check, batches)
    assert (stop, end) == (kernels.STOP_END, len(data))
    return batches


class Row(NamedTuple):
    """A decoded record as values. `headers` are pairs of bytes."""

    batch: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes | None, bytes | None], ...] = ()
    next_offset: int | None = None


class Decoded(NamedTuple):
    """All that one call of a decode kernel leaves behind, cells that it has not counted included."""

    result: int
    state: list[int]
    cells: bytes
    header_cells: bytes
    counts: tuple[int, int]


def state_at(row: int) -> array[int]:
    """The state before the first record of a batch."""
    return array("q", [row, -1, *([0] * (kernels.STATE_SIZE - 2))])


def decode_once(
    name: str, memory: bytes | memoryview, batches: BatchColumns, *, capacity: int = 16, state: array[int] | None = None
) -> Decoded:
    """One call of a twin's `decode`."""
    records = RecordColumns(capacity)
    state = state_at(0) if state is None else state
    result = twin(name).decode(memory, batches, batches.count, state, records)
    counts = (records.count, records.headers.count)
    return Decoded(result, state.tolist(), records.cells.tobytes(), records.headers.cells.tobytes(), counts)


def decode_all(
    name: str, memory: bytes | memoryview, batches: BatchColumns, *, capacity: int = 1032
) -> tuple[list[list[Row]], int]:
    """The rows of each call, until one does not say that the columns were full or too small, and what that one said."""
    records = RecordColumns(capacity)
    state = state_at(0)
    calls = []
    while True:
        result = twin(name).decode(memory, batches, batches.count, state, records)
        if result == kernels.DECODE_GROW:
            assert records.count == 0
            assert records.headers.count > records.headers.capacity
            records.headers = HeaderColumns(records.headers.count)
            continue
        calls.append(rows_of(memory, records))
        if result != kernels.DECODE_FULL:
            return calls, result
        assert records.count


def rows_of(memory: bytes | memoryview, records: RecordColumns) -> list[Row]:
    """The records in columns as values."""
    return [_row(memory, records, index) for index in range(records.count)]


def _row(memory: bytes | memoryview, records: RecordColumns, index: int) -> Row:
    cells = records.row(index)
    first, count = cells["first_header"], cells["header_count"]
    headers = [records.headers.row(header) for header in range(first, first + count)]
    return Row(
        batch=cells["batch"],
        offset=cells["offset"],
        timestamp_ms=cells["timestamp_ms"],
        key=_bytes(memory, cells, "key"),
        value=_bytes(memory, cells, "value"),
        headers=tuple((_bytes(memory, header, "key"), _bytes(memory, header, "value")) for header in headers),
        next_offset=cells["next_offset"],
    )


def _bytes(memory: bytes | memoryview, cells: dict[str, int], name: str) -> bytes | None:
    start, size = cells[f"{name}_start"], cells[f"{name}_size"]
    return None if size < 0 else bytes(memory[start : start + size])
