from array import array

from kafkalog_core.format.columns import RecordColumns

def weigh_keys(
    memory: bytes | bytearray | memoryview,
    records: RecordColumns,
    reasons: bytes | bytearray,
    digests: array[int],
    counters: array[int],
    names: bytearray,
) -> None: ...
