from array import array

from kafkalog_core.format.columns import BatchColumns

def rebuild(
    columns: BatchColumns,
    last: int,
    rules: int,
    state: array[int],
    entries: bytearray,
    times: bytearray,
    epochs: array[int],
) -> int: ...
