from array import array

from kafkalog_core.format.columns import BatchColumns, RecordColumns

def decode_v07(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    last_batch: int,
    state: array[int],
    records: RecordColumns,
) -> int: ...
