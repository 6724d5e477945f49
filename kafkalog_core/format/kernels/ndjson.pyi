from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.templates import CsvTemplate, Template

def write_rows(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns | None,
    selection: bytearray | None,
    first: int,
    template: Template | CsvTemplate,
    out: bytearray,
) -> tuple[int, int]: ...
