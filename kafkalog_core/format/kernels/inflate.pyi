from kafkalog_core.format.columns import BatchColumns

def uncleared(size_bytes: int) -> bytearray: ...
def inflate_rows(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    first: int,
    last: int,
    max_bytes: int,
    arena: bytearray,
    size: int,
    enough: int,
    columns: BatchColumns,
) -> int: ...
