"""The hot loops: batch walk, search, columnar record decode, JSON lines. One source, interpreted or compiled (Cython).

Rules of the kernels: integers only, spans instead of slices, no object per record, bounds checked before every read.
Where a C compiler was at hand an extension stands beside `loops.py` and is imported in its place; `COMPILED` says which
twin runs. Both are tested on the same bytes. Layouts: `layout.py`; columns: `columns.py`. Kafka's own rules:
DefaultRecordBatch, DefaultRecord, AbstractLegacyRecordBatch, ByteUtils (4.3), kafka.message (0.7).
"""

from kafkalog_core.format.kernels import loops
from kafkalog_core.format.kernels.constants import (
    DECODE_DONE,
    DECODE_FULL,
    DECODE_GROW,
    INDEX_DONE,
    INDEX_FULL,
    INDEX_MORE,
    STATE_SIZE,
    STOP_CHECKSUM,
    STOP_END,
    STOP_LENGTH,
    STOP_LIMIT,
    STOP_MAGIC,
    STOP_MORE,
    STOP_ORDER,
)
from kafkalog_core.format.kernels.dispatch import DECODE_ERRORS, decode
from kafkalog_core.format.kernels.loops import (
    check_batches,
    check_offset_entries,
    check_records,
    check_time_entries,
    find_candidate,
    find_candidate_v07,
    find_contradiction,
    find_odd_marker,
    find_outside,
    find_producer,
    index_producers,
    inflate_rows,
    is_ordered,
    mark_disorder,
    read_markers,
    rebuild,
    replay,
    uncleared,
    walk,
    walk_over,
    walk_v07,
    weave,
    write_rows,
)
from kafkalog_core.twins import runs_compiled

__all__ = [
    "COMPILED",
    "DECODE_DONE",
    "DECODE_ERRORS",
    "DECODE_FULL",
    "DECODE_GROW",
    "INDEX_DONE",
    "INDEX_FULL",
    "INDEX_MORE",
    "STATE_SIZE",
    "STOP_CHECKSUM",
    "STOP_END",
    "STOP_LENGTH",
    "STOP_LIMIT",
    "STOP_MAGIC",
    "STOP_MORE",
    "STOP_ORDER",
    "check_batches",
    "check_offset_entries",
    "check_records",
    "check_time_entries",
    "decode",
    "find_candidate",
    "find_candidate_v07",
    "find_contradiction",
    "find_odd_marker",
    "find_outside",
    "find_producer",
    "index_producers",
    "inflate_rows",
    "is_ordered",
    "mark_disorder",
    "read_markers",
    "rebuild",
    "replay",
    "uncleared",
    "walk",
    "walk_over",
    "walk_v07",
    "weave",
    "write_rows",
]

COMPILED: bool = runs_compiled(loops)
