from array import array

from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.gather import Cells, GatherPlan

def gather_rows(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns | None,
    picked: array[int],
    count: int,
    plan: GatherPlan,
    cells: Cells,
    at: int,
) -> None: ...
