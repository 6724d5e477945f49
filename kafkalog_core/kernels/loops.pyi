# Types of the kernels, which a type checker cannot read from the annotations for Cython.
from array import array
from collections.abc import Callable, Iterable

from kafkalog_core.format.columns import BatchColumns, DamageColumns, RecordColumns
from kafkalog_core.format.literals import ByteClasses, ByteLiteral
from kafkalog_core.output.templates import Cells, CsvTemplate, GatherPlan, Headers, Template, Texts

__all__ = [
    "check_batches",
    "check_entries",
    "check_records",
    "decode_messages",
    "decode_v2",
    "find_candidate",
    "find_candidate_v07",
    "find_contradiction",
    "find_key",
    "find_odd_marker",
    "find_outside",
    "find_producer",
    "finish_batch",
    "gather_headers",
    "gather_rows",
    "gather_texts",
    "index_producers",
    "is_ordered",
    "join_newest",
    "judge",
    "keep_bits",
    "keep_equal",
    "keep_header",
    "keep_holding",
    "keep_newest",
    "keep_times",
    "keep_within",
    "map_records",
    "mark_disorder",
    "measure_rows",
    "merge_entries",
    "note_batch",
    "pack_entries",
    "pack_lz4",
    "put_key",
    "read_markers",
    "rebuild",
    "replay",
    "stamp_batches",
    "take_rows",
    "uncleared",
    "unpack_rows",
    "walk",
    "walk_over",
    "walk_v07",
    "weave",
    "weigh_keys",
    "write_batches",
    "write_records",
    "write_rows",
]

COMPILED: bool
SOURCE_HASH: str

# batch_checks.py
def check_batches(batches: BatchColumns, first: int, state: array[int]) -> int: ...
def find_contradiction(batches: BatchColumns, first: int) -> int: ...
def find_outside(batches: BatchColumns, records: RecordColumns, first: int) -> int: ...

# blocks.py
def pack_lz4(
    data: bytes | bytearray | memoryview, table: array[int], output: bytearray | memoryview, form: int
) -> int: ...
def unpack_rows(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    columns: BatchColumns,
    row: int,
    last: int,
    room: bytearray,
    filled: int,
    enough: int,
    decompress: Callable[..., object],
) -> int: ...

# clean_judge.py
def judge(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    bits: bytes,
    records: RecordColumns,
    first: int,
    last: int,
    is_whole: bool,
    state: array[int],
    map_state: array[int],
    table: memoryview,
    digests: array[int],
    reasons: bytearray,
    cells: array[int],
    tally: array[int],
) -> int: ...
def take_rows(batches: BatchColumns, bits: bytes, first: int, last: int, most: int) -> int: ...

# clean_write.py
def finish_batch(
    batches: BatchColumns, cells: array[int], output: memoryview, columns: BatchColumns, state: array[int]
) -> None: ...
def note_batch(cells: array[int], output: memoryview, columns: BatchColumns, state: array[int]) -> None: ...
def write_batches(
    window: bytes | bytearray | memoryview,
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns,
    reasons: bytes | bytearray,
    cells: array[int],
    last: int,
    output: memoryview,
    columns: BatchColumns,
    state: array[int],
) -> int: ...
def write_records(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns,
    reasons: bytes | bytearray,
    cells: array[int],
    output: memoryview,
    state: array[int],
) -> int: ...
def stamp_batches(memory: bytearray, offset: int, epoch: int) -> int: ...

# fields.py
def uncleared(size_bytes: int) -> bytearray: ...

# gather.py
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
def gather_headers(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns,
    picked: array[int],
    count: int,
    out: Headers,
    at: int,
) -> None: ...
def gather_texts(
    memory: bytes | bytearray | memoryview,
    records: RecordColumns,
    picked: array[int],
    count: int,
    field: int,
    out: Texts,
    at: int,
) -> None: ...
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

# index_checks.py
def check_entries(
    memory: bytes,
    count: int,
    has_more: bool,
    is_time: bool,
    marks: bytes | bytearray,
    batches: BatchColumns,
    state: array[int],
    faults: array[int],
) -> int: ...
def is_ordered(memory: bytes, count: int, is_time: bool, state: array[int]) -> bool: ...
def mark_disorder(
    memory: bytes, count: int, is_time: bool, state: array[int], marks: bytearray, links: array[int]
) -> None: ...
def weigh_keys(
    memory: bytes | bytearray | memoryview,
    records: RecordColumns,
    reasons: bytes | bytearray,
    digests: array[int],
    counters: array[int],
    names: bytearray,
) -> None: ...
def find_key(key: bytes, state: array[int], table: memoryview) -> int: ...
def map_records(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    bits: bytes,
    records: RecordColumns,
    last: int,
    state: array[int],
    table: memoryview,
    digests: array[int],
) -> int: ...
def put_key(key: bytes, offset: int, state: array[int], table: memoryview) -> None: ...
def merge_entries(entries: memoryview, count: int, state: array[int], table: memoryview) -> int: ...
def pack_entries(table: memoryview, first: int, last: int, entries: array[int]) -> int: ...

# lines.py
def write_rows(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns | None,
    selection: bytearray | None,
    first: int,
    template: Template | CsvTemplate,
    out: bytearray | memoryview,
) -> tuple[int, int]: ...

# matching.py
def keep_bits(batches: BatchColumns, bits: int, is_set: bool, marks: bytearray) -> int: ...
def keep_equal(
    memory: bytes | bytearray | memoryview, records: RecordColumns, field: int, text: bytes, marks: bytearray
) -> int: ...
def keep_header(
    memory: bytes | bytearray | memoryview, records: RecordColumns, key: bytes, value: bytes | None, marks: bytearray
) -> int: ...
def keep_holding(
    memory: bytes | bytearray | memoryview,
    records: RecordColumns,
    parts: int,
    literals: Iterable[ByteLiteral | ByteClasses],
    marks: bytearray,
) -> int: ...
def keep_times(batches: BatchColumns, low: int, high: int, marks: bytearray) -> int: ...
def keep_within(columns: BatchColumns | RecordColumns, field: int, low: int, high: int, marks: bytearray) -> int: ...

# newest.py
def keep_newest(
    memory: bytes | bytearray | memoryview,
    records: RecordColumns,
    marks: bytes | bytearray,
    digests: array[int],
    state: array[int],
    table: memoryview,
    rows: memoryview,
    data: bytearray | memoryview,
) -> bool: ...
def join_newest(
    later: memoryview,
    count: int,
    later_data: bytes | memoryview,
    state: array[int],
    table: memoryview,
    rows: memoryview,
    data: bytearray | memoryview,
) -> bool: ...

# producers.py
def find_producer(producer_id: int, state: array[int], producers: array[int], slots: array[int]) -> int: ...
def index_producers(state: array[int], producers: array[int], slots: array[int]) -> None: ...
def replay(
    columns: BatchColumns,
    markers: array[int],
    holes: array[int],
    first: int,
    last: int,
    mode: int,
    state: array[int],
    producers: array[int],
    slots: array[int],
    ended: array[int],
) -> int: ...

# rebuild.py
def rebuild(
    columns: BatchColumns,
    last: int,
    rules: int,
    state: array[int],
    entries: bytearray,
    times: bytearray,
    epochs: array[int],
) -> int: ...

# record_checks.py
def find_odd_marker(memory: bytes | bytearray | memoryview, columns: BatchColumns, first: int) -> int: ...
def read_markers(memory: bytes | bytearray | memoryview, columns: BatchColumns, markers: array[int]) -> int: ...
def check_records(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    records: RecordColumns,
    first: int,
    state: array[int],
) -> int: ...

# records.py
def decode_messages(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    last_batch: int,
    state: array[int],
    records: RecordColumns,
) -> int: ...
def decode_v2(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    last_batch: int,
    state: array[int],
    records: RecordColumns,
) -> int: ...

# search.py
def find_candidate(
    memory: bytes | bytearray | memoryview,
    begin: int,
    rest: int,
    low_offset: int,
    high_offset: int,
    max_bytes: int,
) -> int: ...
def find_candidate_v07(memory: bytes | bytearray | memoryview, begin: int, rest: int, max_bytes: int) -> int: ...

# walk.py
def walk_over(
    memory: bytes | bytearray | memoryview,
    state: array[int],
    columns: BatchColumns,
    damaged: DamageColumns,
) -> tuple[int, int]: ...
def weave(columns: BatchColumns, into: BatchColumns) -> None: ...
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
