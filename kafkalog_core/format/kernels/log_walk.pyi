from kafkalog_core.format.columns import BatchColumns

COMPILED: bool
SOURCE_HASH: str

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
