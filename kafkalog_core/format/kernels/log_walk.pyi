from collections.abc import MutableSequence

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
def entry_stop(p: bytes | bytearray | memoryview, i: int, end: int, max_bytes: int) -> int: ...
def first_known_offset(cells: MutableSequence[int], capacity: int, row: int) -> int: ...
def checksum_agrees(
    memory: bytes | bytearray | memoryview,
    p: bytes | bytearray | memoryview,
    i: int,
    size: int,
    magic: int,
    cells: MutableSequence[int],
    capacity: int,
    row: int,
) -> bool: ...
def fill_v2(
    p: bytes | bytearray | memoryview, i: int, cells: MutableSequence[int], capacity: int, row: int
) -> None: ...
def fill_legacy(
    p: bytes | bytearray | memoryview,
    i: int,
    size: int,
    magic: int,
    cells: MutableSequence[int],
    capacity: int,
    row: int,
) -> None: ...
