from kafkalog_core.format.columns import BatchColumns

def walk_v07(
    memory: bytes | bytearray | memoryview,
    begin: int,
    end: int,
    file_position: int,
    base_address: int,
    max_bytes: int,
    check: bool,
    columns: BatchColumns,
) -> tuple[int, int]: ...
