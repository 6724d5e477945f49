from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.csv_template import CsvTemplate
from kafkalog_core.format.template import Template

def write_rows(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns | None,
    selection: bytearray | None,
    first: int,
    template: Template | CsvTemplate,
    out: bytearray,
) -> tuple[int, int]: ...
