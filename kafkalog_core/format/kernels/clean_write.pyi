from array import array

from kafkalog_core.format.columns import BatchColumns, RecordColumns

def write_batches(
    window: bytes | bytearray | memoryview,
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns,
    reasons: bytes | bytearray,
    cells: array[int],
    last: int,
    output: memoryview,
    columns: BatchColumns,
    state: array[int],
) -> int: ...
def write_records(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns,
    reasons: bytes | bytearray,
    cells: array[int],
    output: memoryview,
    state: array[int],
) -> int: ...
def finish_batch(
    batches: BatchColumns, cells: array[int], output: memoryview, columns: BatchColumns, state: array[int]
) -> None: ...
def note_batch(cells: array[int], output: memoryview, columns: BatchColumns, state: array[int]) -> None: ...
