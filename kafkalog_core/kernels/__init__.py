"""The kernels: the loops over batches, records, keys, index entries and text, interpreted or compiled by Cython.

Rules of the kernels: integers only; spans (start, size) instead of slices; no object per record; bounds checked
before every read. Columns and state are arrays of int64 cells: `cells[FIELD * capacity + row]` is a field of a row
(`columns.py`), `state[NAME]` a value that the caller keeps between calls (`constants.py`). The build compiles
`loops.py` where there is a C compiler; the extension is then imported instead, and `COMPILED` is true. Tests run both
twins on the same bytes. Rules of Kafka that the kernels repeat: DefaultRecordBatch, DefaultRecord,
AbstractLegacyRecordBatch, ByteUtils (4.3), kafka.message (0.7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.columns import FORMAT_V07
from kafkalog_core.format.layout import MAGIC_V0, MAGIC_V1, MAGIC_V2
from kafkalog_core.kernels import constants, loops
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.loops import *
from kafkalog_core.twins import runs_compiled

if TYPE_CHECKING:
    from array import array

    from kafkalog_core.format.columns import BatchColumns, RecordColumns

COMPILED: bool = runs_compiled(loops)

DECODE_ERRORS: Final = {
    constants.DECODE_LENGTH: "record-length",  # a record's length is negative or passes the end of its batch
    constants.DECODE_VARINT: "record-varint",  # a varint is cut or longer than its type
    constants.DECODE_KEY: "record-key",
    constants.DECODE_VALUE: "record-value",
    constants.DECODE_HEADERS: "record-headers",  # header count or a header's length
    constants.DECODE_TRAILING: "record-trailing",  # a record's fields end before its length does
    constants.DECODE_COUNT: "record-count",  # bytes after the last record, or a count that the bytes cannot hold
    constants.DECODE_MESSAGE_LENGTH: "message-length",  # of an inner message
    constants.DECODE_MESSAGE_KEY: "message-key",
    constants.DECODE_MESSAGE_VALUE: "message-value",
    constants.DECODE_MESSAGE_MAGIC: "message-magic",
    constants.DECODE_MESSAGE_NESTED: "message-nested",  # a wrapper within a wrapper (0.8 and later)
    constants.DECODE_MESSAGE_CUT: "message-cut",  # the inner set ends within a message
    constants.DECODE_MESSAGE_EMPTY: "message-empty",  # a wrapper without a message
    constants.DECODE_MESSAGE_OFFSET: "message-offset",  # inner offsets pass the wrapper's
}
_DECODERS: Final = {
    MAGIC_V0: loops.decode_messages,
    MAGIC_V1: loops.decode_messages,
    MAGIC_V2: loops.decode_v2,
    FORMAT_V07: loops.decode_messages,
}


def decode(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    last_batch: int,
    state: array[int],
    records: RecordColumns,
) -> int:
    """Decode the records of batches of any formats into the record columns; adjacent batches of one format in one call.

    Args:
        memory: the buffer that the payload spans refer to: plain records, or decompressed ones.
        batches: batch columns.
        last_batch: row after the last batch to decode.
        state: the `S_*` cells: the batch and record to start at.
        records: the columns to fill.

    Returns:
        DECODE_DONE; DECODE_FULL (call again); DECODE_GROW, with the number of headers needed as the count of the header
        columns; or a key of DECODE_ERRORS: then `state` names the batch and the byte of the record that could not be
        decoded, and `records` holds the records before it.
    """
    formats, first_format = batches.cells, constants.B_FORMAT * batches.capacity
    state[constants.S_ROW] = state[constants.S_HEADER] = 0
    result = constants.DECODE_DONE
    while result == constants.DECODE_DONE and state[constants.S_BATCH] < last_batch:
        decoder = _DECODERS[formats[first_format + state[constants.S_BATCH]]]
        result = decoder(memory, batches, last_batch, state, records)
    records.count = state[constants.S_ROW]
    records.headers.count = state[constants.S_HEADER]
    return result
