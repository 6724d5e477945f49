"""Decode of a run of batches of any formats: each stretch of one format is one call of its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.columns import FORMAT_V07
from kafkalog_core.format.kernels import constants
from kafkalog_core.format.kernels.loops import decode_legacy, decode_v07, decode_v2
from kafkalog_core.format.layout import MAGIC_V0, MAGIC_V1, MAGIC_V2

if TYPE_CHECKING:
    from array import array

    from kafkalog_core.format.columns import BatchColumns, RecordColumns

__all__ = ["DECODE_ERRORS", "decode"]

DECODE_ERRORS: Final = {
    constants.DECODE_LENGTH: "record-length",  # a record's length is negative or passes the end of its batch
    constants.DECODE_VARINT: "record-varint",  # a varint is cut or longer than its type
    constants.DECODE_KEY: "record-key",
    constants.DECODE_VALUE: "record-value",
    constants.DECODE_HEADERS: "record-headers",  # header count or a header's length
    constants.DECODE_TRAILING: "record-trailing",  # a record's fields end before its length does
    constants.DECODE_COUNT: "record-count",  # bytes behind the last record, or a count that the bytes cannot hold
    constants.DECODE_MESSAGE_LENGTH: "message-length",  # of an inner message
    constants.DECODE_MESSAGE_KEY: "message-key",
    constants.DECODE_MESSAGE_VALUE: "message-value",
    constants.DECODE_MESSAGE_MAGIC: "message-magic",
    constants.DECODE_MESSAGE_NESTED: "message-nested",  # a wrapper inside a wrapper (0.8 and later)
    constants.DECODE_MESSAGE_CUT: "message-cut",  # the inner set ends inside a message
    constants.DECODE_MESSAGE_EMPTY: "message-empty",  # a wrapper without a message
    constants.DECODE_MESSAGE_OFFSET: "message-offset",  # inner offsets pass the wrapper's
}
_DECODERS: Final = {MAGIC_V0: decode_legacy, MAGIC_V1: decode_legacy, MAGIC_V2: decode_v2, FORMAT_V07: decode_v07}


def decode(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    last_batch: int,
    state: array[int],
    records: RecordColumns,
) -> int:
    """Decode the records of batches from `state` on, up to row `last_batch` (exclusive), into the record columns.

    `memory` is the buffer that the payload spans refer to: plain records, or decompressed ones. Returns DECODE_DONE;
    DECODE_FULL (call again); DECODE_GROW, with the number of headers that it takes as their count; or a key of
    DECODE_ERRORS: then `state` names the batch and the byte of the record that could not be read, and `records` holds
    what stands before it.
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
