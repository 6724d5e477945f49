from array import array

from kafkalog_core.format.columns import BatchColumns, RecordColumns

def check_records(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns,
    first: int,
    state: array[int],
) -> int: ...
