from array import array

from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.gather import Headers, Texts

def measure_rows(
    columns: BatchColumns | RecordColumns,
    selection: bytearray | None,
    first: int,
    rows: int,
    most: int,
    wanted: int,
    done: array[int],
    picked: array[int],
) -> tuple[int, int]: ...
def gather_texts(
    memory: bytes | bytearray | memoryview,
    records: RecordColumns,
    picked: array[int],
    count: int,
    field: int,
    out: Texts,
    at: int,
) -> None: ...
def gather_headers(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns,
    picked: array[int],
    count: int,
    out: Headers,
    at: int,
) -> None: ...
