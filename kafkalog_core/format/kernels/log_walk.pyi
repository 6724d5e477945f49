from kafkalog_core.format.columns import BatchColumns

def walk(
    memory: bytes | bytearray | memoryview,
    begin: int,
    end: int,
    file_position: int,
    previous_offset: int,
    max_bytes: int,
    check: bool,
    columns: BatchColumns,
) -> tuple[int, int]: ...
