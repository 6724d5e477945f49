from array import array
from collections.abc import MutableSequence

from kafkalog_core.format.columns import BatchColumns

def check_batches(batches: BatchColumns, first: int, state: array[int]) -> int: ...
def joins_before(b: MutableSequence[int], capacity: int, row: int) -> bool: ...
