from array import array

from kafkalog_core.format.columns import BatchColumns, RecordColumns

def take_rows(batches: BatchColumns, bits: bytes, first: int, last: int, most: int) -> int: ...
def judge(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    bits: bytes,
    records: RecordColumns,
    first: int,
    last: int,
    is_whole: bool,
    state: array[int],
    map_state: array[int],
    table: memoryview,
    digests: array[int],
    reasons: bytearray,
    cells: array[int],
    tally: array[int],
) -> int: ...
