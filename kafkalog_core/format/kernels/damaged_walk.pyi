from array import array

from kafkalog_core.format.columns import BatchColumns, DamageColumns

def walk_over(
    memory: bytes | bytearray | memoryview,
    state: array[int],
    columns: BatchColumns,
    damaged: DamageColumns,
) -> tuple[int, int]: ...
def weave(columns: BatchColumns, into: BatchColumns) -> None: ...
