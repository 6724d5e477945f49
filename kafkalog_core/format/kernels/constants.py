"""The numbers that the kernels use: why they stop, where fields stand, which column is which.

Plain integers, one a line. The build makes each a C integer (setup.py).
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.format import layout
from kafkalog_core.format.columns import BATCH_FIELDS, FORMAT_V07, HEADER_FIELDS, RECORD_FIELDS

# --- why a walk stopped -----------------------------------------------------------------------------------------------
STOP_END: Final = 0  # every byte was walked, or the columns are full
STOP_MORE: Final = 1  # the entry at `next` goes on beyond the bytes at hand
STOP_LENGTH: Final = 2  # its size cannot be true
STOP_MAGIC: Final = 3  # no known magic
STOP_LIMIT: Final = 4  # larger than the limit
STOP_CHECKSUM: Final = 5  # its row is filled but not counted
STOP_ORDER: Final = 6  # offsets go back; its row is counted

# --- why a decode stopped ---------------------------------------------------------------------------------------------
DECODE_GROW: Final = -1  # one record holds more headers than the header columns: make them larger, call again
DECODE_DONE: Final = 0
DECODE_FULL: Final = 1  # the columns are, or the records of this call span enough: call again
DECODE_LENGTH: Final = 2
DECODE_VARINT: Final = 3
DECODE_KEY: Final = 4
DECODE_VALUE: Final = 5
DECODE_HEADERS: Final = 6
DECODE_TRAILING: Final = 7
DECODE_COUNT: Final = 8
DECODE_MESSAGE_LENGTH: Final = 9
DECODE_MESSAGE_KEY: Final = 10
DECODE_MESSAGE_VALUE: Final = 11
DECODE_MESSAGE_MAGIC: Final = 12
DECODE_MESSAGE_NESTED: Final = 13
DECODE_MESSAGE_CUT: Final = 14
DECODE_MESSAGE_EMPTY: Final = 15
DECODE_MESSAGE_OFFSET: Final = 16

# --- decode state: array('q') that a caller keeps between the calls ---------------------------------------------------
S_BATCH: Final = 0  # row of the batch in hand
S_POSITION: Final = 1  # byte in the buffer where its next record starts; -1: not begun
S_ORDINAL: Final = 2  # records of it decoded so far
S_SHIFT: Final = 3  # what makes its inner offsets absolute (magic 1 wrappers)
S_ROW: Final = 4  # rows filled in this call
S_HEADER: Final = 5  # header rows filled in this call
S_FIRST: Final = 6  # byte in the buffer where the first record of this call starts
STATE_SIZE: Final = 7
SPAN_BYTES: Final = 4 * 1024 * 1024  # that the records of one call may span, one record alone excepted

# --- layout -----------------------------------------------------------------------------------------------------------
OVERHEAD: Final = layout.LOG_OVERHEAD
MAGIC_AT: Final = layout.MAGIC_POSITION
HEADER_MIN: Final = layout.HEADER_SIZE_UP_TO_MAGIC
ENTRY_MIN: Final = layout.MIN_ENTRY_SIZE
SIZE_AT: Final = layout.ENVELOPE.at("size")
MAGIC_V2: Final = layout.MAGIC_V2
CODECS: Final = layout.CODEC_MASK
APPEND_TIME: Final = layout.TIMESTAMP_TYPE_BIT
CONTROL: Final = layout.CONTROL_BIT
CONTROL_TYPES: Final = len(layout.CONTROL_TYPE_NAMES)
MAX_SEQUENCE: Final = layout.MAX_INT32
V2_SIZE: Final = layout.RECORD_BATCH_OVERHEAD
V2_EPOCH_AT: Final = layout.V2_LEADER_EPOCH
V2_CRC_AT: Final = layout.V2_CRC
V2_ATTRIBUTES_AT: Final = layout.V2_ATTRIBUTES
V2_DELTA_AT: Final = layout.V2_LAST_OFFSET_DELTA
V2_BASE_TIME_AT: Final = layout.V2_BASE_TIMESTAMP
V2_MAX_TIME_AT: Final = layout.V2_MAX_TIMESTAMP
V2_PID_AT: Final = layout.V2_PRODUCER_ID
V2_PEPOCH_AT: Final = layout.V2_PRODUCER_EPOCH
V2_SEQUENCE_AT: Final = layout.V2_BASE_SEQUENCE
V2_COUNT_AT: Final = layout.V2_RECORDS_COUNT
LEGACY_CRC_AT: Final = layout.LEGACY_CRC
LEGACY_ATTRIBUTES_AT: Final = layout.LEGACY_ATTRIBUTES
V1_TIME_AT: Final = layout.V1_TIMESTAMP
V0_KEY_AT: Final = layout.V0_KEY_LENGTH
V1_KEY_AT: Final = layout.V1_KEY_LENGTH
V07: Final = FORMAT_V07
V07_MIN: Final = layout.V07_MIN_LENGTH
V07_PREFIX: Final = layout.V07_LENGTH_SIZE
V07_CODECS: Final = layout.V07_CODEC_MASK

# --- columns ----------------------------------------------------------------------------------------------------------
B_POSITION: Final = BATCH_FIELDS.index("position")
B_SIZE: Final = BATCH_FIELDS.index("size_bytes")
B_FORMAT: Final = BATCH_FIELDS.index("format")
B_ATTRIBUTES: Final = BATCH_FIELDS.index("attributes")
B_CODEC: Final = BATCH_FIELDS.index("codec")
B_BASE_OFFSET: Final = BATCH_FIELDS.index("base_offset")
B_LAST_OFFSET: Final = BATCH_FIELDS.index("last_offset")
B_COUNT: Final = BATCH_FIELDS.index("record_count")
B_EPOCH: Final = BATCH_FIELDS.index("leader_epoch")
B_BASE_TIME: Final = BATCH_FIELDS.index("base_timestamp_ms")
B_MAX_TIME: Final = BATCH_FIELDS.index("max_timestamp_ms")
B_PID: Final = BATCH_FIELDS.index("producer_id")
B_PEPOCH: Final = BATCH_FIELDS.index("producer_epoch")
B_SEQUENCE: Final = BATCH_FIELDS.index("base_sequence")
B_CRC: Final = BATCH_FIELDS.index("crc_stored")
B_COMPUTED: Final = BATCH_FIELDS.index("crc_computed")
B_START: Final = BATCH_FIELDS.index("payload_start")
B_END: Final = BATCH_FIELDS.index("payload_end")
R_BATCH: Final = RECORD_FIELDS.index("batch")
R_OFFSET: Final = RECORD_FIELDS.index("offset")
R_TIME: Final = RECORD_FIELDS.index("timestamp_ms")
R_KEY: Final = RECORD_FIELDS.index("key_start")
R_KEY_SIZE: Final = RECORD_FIELDS.index("key_size")
R_VALUE: Final = RECORD_FIELDS.index("value_start")
R_VALUE_SIZE: Final = RECORD_FIELDS.index("value_size")
R_HEADERS: Final = RECORD_FIELDS.index("first_header")
R_HEADER_COUNT: Final = RECORD_FIELDS.index("header_count")
R_NEXT: Final = RECORD_FIELDS.index("next_offset")
R_ATTRIBUTES: Final = RECORD_FIELDS.index("attributes")
R_CRC: Final = RECORD_FIELDS.index("crc_stored")
R_CRC_OK: Final = RECORD_FIELDS.index("crc_ok")
H_KEY: Final = HEADER_FIELDS.index("key_start")
H_KEY_SIZE: Final = HEADER_FIELDS.index("key_size")
H_VALUE: Final = HEADER_FIELDS.index("value_start")
H_VALUE_SIZE: Final = HEADER_FIELDS.index("value_size")
