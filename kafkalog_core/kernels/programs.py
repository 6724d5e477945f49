"""Operations of the programs that write lines and gather rows: `templates.py` and `gather.py` make the programs.

One plain integer per line, and tuples; the build makes each integer a C macro (setup.py).
"""

from __future__ import annotations

from typing import Final

# --- operations: (operation, a, b, piece before it) -------------------------------------------------------------------
OPERATION_SIZE: Final = 4
OPERATIONS: Final = (
    "end",  # of the program; the piece ends the line
    "record_int",  # integer of record column a
    "record_int_or_null",  # the same, null where it is negative
    "record_name",  # piece b + value of record column a
    "batch_int",  # integer of batch column a
    "batch_int_or_null",
    "batch_int_if",  # integer of batch column a, null unless attribute bits b are set
    "batch_bit",  # piece b, or b + 1 where attribute bits a are set
    "batch_name",  # piece b + value of batch column a
    "batch_crc_ok",  # pieces b, b + 1; null where no checksum was computed
    "text",  # bytes at record columns a (start) and a + 1 (size); pieces b to b + 3: null, text, base64, hex
    "headers",  # pieces b to b + 6: key as text, key as bytes, value null, text, base64, hex, end
    "sequence",  # sequence number of the record
    "control",  # null, or piece b + control type
    "v07_magic",  # 0 or 1
    "head",  # up to here the lines of one batch are the same
    "csv_text",  # bytes at record columns a (start) and a + 1 (size) as fields of CSV
    "csv_headers",  # headers as one field of CSV; pieces as of "headers"
    "tail",  # from here on the lines of one batch are the same, unless records have sequence numbers or control types
)
OP_END: Final = OPERATIONS.index("end")
OP_RECORD_INT: Final = OPERATIONS.index("record_int")
OP_RECORD_INT_OR_NULL: Final = OPERATIONS.index("record_int_or_null")
OP_RECORD_NAME: Final = OPERATIONS.index("record_name")
OP_BATCH_INT: Final = OPERATIONS.index("batch_int")
OP_BATCH_INT_OR_NULL: Final = OPERATIONS.index("batch_int_or_null")
OP_BATCH_INT_IF: Final = OPERATIONS.index("batch_int_if")
OP_BATCH_BIT: Final = OPERATIONS.index("batch_bit")
OP_BATCH_NAME: Final = OPERATIONS.index("batch_name")
OP_BATCH_CRC_OK: Final = OPERATIONS.index("batch_crc_ok")
OP_TEXT: Final = OPERATIONS.index("text")
OP_HEADERS: Final = OPERATIONS.index("headers")
OP_SEQUENCE: Final = OPERATIONS.index("sequence")
OP_CONTROL: Final = OPERATIONS.index("control")
OP_V07_MAGIC: Final = OPERATIONS.index("v07_magic")
OP_CSV_TEXT: Final = OPERATIONS.index("csv_text")
OP_CSV_HEADERS: Final = OPERATIONS.index("csv_headers")
OP_HEAD: Final = OPERATIONS.index("head")
OP_TAIL: Final = OPERATIONS.index("tail")

# --- the cache between lines: heads and tails are copied --------------------------------------------------------------
C_HEAD_BATCH: Final = 0  # -1: of none
C_HEAD_START: Final = 1  # where it was written
C_HEAD_SIZE: Final = 2
C_HEAD_STEP: Final = 3  # the next operation
C_TAIL_BATCH: Final = 4
C_TAIL_START: Final = 5
C_TAIL_SIZE: Final = 6  # 0: unknown
C_SIZE: Final = 7

# --- the first pieces of every template, and how bytes are written ----------------------------------------------------
FIRST_PIECES: Final = (
    b"null",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    b"0123456789abcdef",
)
PIECE_NULL: Final = 0
PIECE_BASE64: Final = 1
PIECE_HEX: Final = 2
MODE_TEXT: Final = 0
MODE_BASE64: Final = 1
BOUND_NAMES: Final = 128  # names, quotes and commas of a header
BOUND_BYTE: Final = 6  # a byte as \u00xx
SLACK: Final = 16  # bytes after texts and buffers that a copy in steps of 16 may access

# --- operations: (operation, a, b), one a slot and format -------------------------------------------------------------
GATHERS: Final = (
    "null",
    "constant",  # b
    "batch_int",  # batch column a
    "batch_int_or_null",  # the same, null where it is negative
    "batch_int_if",  # the same, null unless attribute bits b are set
    "batch_bit",  # b, or b + 1 where attribute bits a are set
    "batch_name",  # b + value of batch column a
    "batch_crc_ok",  # b, b + 1; null where no checksum was computed
    "record_int",  # record column a
    "record_int_or_null",  # the same, null where it is negative
    "record_name",  # b + value of record column a
    "sequence",  # sequence number of the record
    "control",  # null, or b + control type
    "v07_magic",  # 0 or 1
)
G_NULL: Final = GATHERS.index("null")
G_CONSTANT: Final = GATHERS.index("constant")
G_BATCH_INT: Final = GATHERS.index("batch_int")
G_BATCH_INT_OR_NULL: Final = GATHERS.index("batch_int_or_null")
G_BATCH_INT_IF: Final = GATHERS.index("batch_int_if")
G_BATCH_BIT: Final = GATHERS.index("batch_bit")
G_BATCH_NAME: Final = GATHERS.index("batch_name")
G_BATCH_CRC_OK: Final = GATHERS.index("batch_crc_ok")
G_RECORD_INT: Final = GATHERS.index("record_int")
G_RECORD_INT_OR_NULL: Final = GATHERS.index("record_int_or_null")
G_RECORD_NAME: Final = GATHERS.index("record_name")
G_SEQUENCE: Final = GATHERS.index("sequence")
G_CONTROL: Final = GATHERS.index("control")
GATHER_SIZE: Final = 3

# --- slots: where a column is written ---------------------------------------------------------------------------------
SLOT_WIDTH: Final = 0  # bytes of a value
SLOT_START: Final = 1  # of its values, in units of that width
SLOT_VALID: Final = 2  # byte where its bits of validity start
SLOT_NULLS: Final = 3  # number of null rows
SLOT_FIRST: Final = 4  # the value of the first row
SLOT_MIXED: Final = 5  # 1: a later row has another value
SLOT_SIZE: Final = 6

# --- totals of gathered rows ------------------------------------------------------------------------------------------
DONE_ROWS: Final = 0
DONE_KEYS: Final = 1  # bytes
DONE_VALUES: Final = 2
DONE_HEADERS: Final = 3  # headers
DONE_HEADER_KEYS: Final = 4  # bytes
DONE_HEADER_VALUES: Final = 5
DONE_SIZE: Final = 6

# --- requested parts of a record, as bits -----------------------------------------------------------------------------
WANTS_KEY: Final = 1
WANTS_VALUE: Final = 2
WANTS_HEADERS: Final = 4

# --- summary of gathered headers --------------------------------------------------------------------------------------
SUMMARY_NULLS: Final = 0  # records of formats without headers
SUMMARY_NULL_VALUES: Final = 1
SUMMARY_NOT_TEXT: Final = 2  # keys that are not UTF-8
SUMMARY_OFFSET: Final = 3  # of the first record with such a key
SUMMARY_SIZE: Final = 4
