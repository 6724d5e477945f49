from array import array

from kafkalog_core.format.columns import BatchColumns

def check_time_entries(
    memory: bytes,
    count: int,
    has_more: bool,
    marks: bytes | bytearray,
    batches: BatchColumns,
    state: array[int],
    faults: array[int],
) -> int: ...
