from array import array

from kafkalog_core.format.columns import BatchColumns

def check_batches(batches: BatchColumns, first: int, state: array[int]) -> int: ...
