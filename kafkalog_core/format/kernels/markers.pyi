from array import array

from kafkalog_core.format.columns import BatchColumns

def read_markers(memory: bytes | bytearray | memoryview, columns: BatchColumns, markers: array[int]) -> int: ...
