from array import array

from kafkalog_core.format.columns import BatchColumns

def replay(
    columns: BatchColumns,
    markers: array[int],
    holes: array[int],
    first: int,
    last: int,
    mode: int,
    state: array[int],
    producers: array[int],
    slots: array[int],
    ended: array[int],
) -> int: ...
