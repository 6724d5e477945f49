"""The numbers of the kernel that gathers rows: operations, and cells of its arrays.

Integers, one a line, and tuples. The build makes each integer a C one (setup.py).
"""

from __future__ import annotations

from typing import Final

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
SLOT_NULLS: Final = 3  # so many rows are null
SLOT_FIRST: Final = 4  # the value of the first row
SLOT_MIXED: Final = 5  # 1: a later row has another value
SLOT_SIZE: Final = 6

# --- how much was gathered --------------------------------------------------------------------------------------------
DONE_ROWS: Final = 0
DONE_KEYS: Final = 1  # bytes
DONE_VALUES: Final = 2
DONE_HEADERS: Final = 3  # headers
DONE_HEADER_KEYS: Final = 4  # bytes
DONE_HEADER_VALUES: Final = 5
DONE_SIZE: Final = 6

# --- what of a record is wanted, as bits ------------------------------------------------------------------------------
WANTS_KEY: Final = 1
WANTS_VALUE: Final = 2
WANTS_HEADERS: Final = 4

# --- what is told of headers ------------------------------------------------------------------------------------------
TOLD_NULLS: Final = 0  # records of formats that have none
TOLD_NULL_VALUES: Final = 1
TOLD_NOT_TEXT: Final = 2  # keys that are no UTF-8
TOLD_OFFSET: Final = 3  # of the first record with such a key
TOLD_SIZE: Final = 4
