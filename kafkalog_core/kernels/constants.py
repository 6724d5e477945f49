"""Integers of the kernels: stop reasons, positions of fields, numbers of columns, cells of states.

One plain integer per line: the build makes each a C macro (setup.py). A prefix names the array that a number indexes:
`B_` batch columns, `R_` record columns, `H_` header columns, `D_` damage columns; the others are states that a caller
keeps between calls.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.format import layout
from kafkalog_core.format.columns import BATCH_FIELDS, DAMAGE_FIELDS, FORMAT_V07, HEADER_FIELDS, RECORD_FIELDS

# --- why a walk stopped -----------------------------------------------------------------------------------------------
STOP_END: Final = 0  # every byte was walked, or the columns are full
STOP_MORE: Final = 1  # the entry at `next` continues after the available bytes
STOP_LENGTH: Final = 2  # its size is not valid
STOP_MAGIC: Final = 3  # unknown magic
STOP_LIMIT: Final = 4  # larger than the limit
STOP_CHECKSUM: Final = 5  # its row is filled but not counted
STOP_ORDER: Final = 6  # its offset is not above the previous one; its row is counted

# --- why a decode stopped ---------------------------------------------------------------------------------------------
DECODE_GROW: Final = -1  # one record has more headers than the header columns hold: enlarge them, call again
DECODE_DONE: Final = 0
DECODE_FULL: Final = 1  # the columns are full, or the records of this call span SPAN_BYTES: call again
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

# --- decode state: array('q') that a caller keeps between calls -------------------------------------------------------
S_BATCH: Final = 0  # row of the current batch
S_POSITION: Final = 1  # byte in the buffer where its next record starts; -1: not started
S_ORDINAL: Final = 2  # records of it decoded so far
S_SHIFT: Final = 3  # added to its inner offsets to make them absolute (magic 1 wrappers)
S_ROW: Final = 4  # rows filled in this call
S_HEADER: Final = 5  # header rows filled in this call
S_FIRST: Final = 6  # byte in the buffer where the first record of this call starts
STATE_SIZE: Final = 7
SPAN_BYTES: Final = 4 * 1024 * 1024  # the records of one call span at most this, unless it is one record

# --- layout -----------------------------------------------------------------------------------------------------------
OVERHEAD: Final = layout.LOG_OVERHEAD
MAGIC_AT: Final = layout.MAGIC_POSITION
HEADER_MIN: Final = layout.HEADER_SIZE_UP_TO_MAGIC
ENTRY_MIN: Final = layout.MIN_ENTRY_SIZE
SIZE_AT: Final = layout.ENVELOPE.at("size")
MAGIC_V2: Final = layout.MAGIC_V2
MAGIC_V0: Final = layout.MAGIC_V0
CODECS: Final = layout.CODEC_MASK
CODEC_GZIP: Final = layout.CODEC_GZIP
CODEC_SNAPPY: Final = layout.CODEC_SNAPPY
CODEC_LZ4: Final = layout.CODEC_LZ4
APPEND_TIME: Final = layout.TIMESTAMP_TYPE_BIT
CONTROL: Final = layout.CONTROL_BIT
CONTROL_TYPES: Final = len(layout.CONTROL_TYPE_NAMES)
TRANSACTIONAL: Final = layout.TRANSACTIONAL_BIT
MARKER_ABORT: Final = layout.CONTROL_TYPE_NAMES.index("abort")
MARKER_COMMIT: Final = layout.CONTROL_TYPE_NAMES.index("commit")
MARKER_KEY_SIZE: Final = layout.CONTROL_KEY.size
MARKER_VALUE_SIZE: Final = layout.END_TXN_MARKER.size
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
OFFSET_ENTRY: Final = layout.OFFSET_INDEX_ENTRY.size
TIME_ENTRY: Final = layout.TIME_INDEX_ENTRY.size

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

D_POSITION: Final = DAMAGE_FIELDS.index("position")
D_SIZE: Final = DAMAGE_FIELDS.index("size_bytes")
D_ROW: Final = DAMAGE_FIELDS.index("row")
D_PREVIOUS: Final = DAMAGE_FIELDS.index("previous_offset")
D_FIRST: Final = DAMAGE_FIELDS.index("first")
D_SECOND: Final = DAMAGE_FIELDS.index("second")

# --- marks of rows, which conditions keep or clear -------------------------------------------------------------------
MARKED: Final = 1
MARK_UNDECIDED: Final = 2  # only the records of this batch show whether one of them meets the condition
MARK_FOUND: Final = 4  # while literals are searched: the record has one of them

# --- cells of the state of a walk over damage -------------------------------------------------------------------------
W_POSITION: Final = 0  # file position of the first available byte
W_FILE_END: Final = 1
W_PREVIOUS: Final = 2  # last offset before it
W_MAX_BYTES: Final = 3  # the largest entry
W_TRUSTED: Final = 4  # up to this file position lengths are known to be right
W_SEARCHED: Final = 5  # up to this file position no entry is within another
W_HIGH: Final = 6  # largest offset of an entry that is searched for
W_SEARCHED_BYTES: Final = 7  # bytes that were searched for entries
W_WRONG: Final = 8  # bytes of candidates that were not entries, one cell for each bit length of a size
SIZE_CLASSES: Final = 34
W_SIZE: Final = W_WRONG + SIZE_CLASSES

# --- what a search may cost; see EntrySearch in storage/framing.py ----------------------------------------------------
CHECKED_PER_BYTE: Final = 4
FREE_CHECKS: Final = 16

# --- the replay of producer state: cells of markers, of the whole, of each producer, of each ended transaction --------
M_ROW: Final = 0  # of the control batch; after the last marker comes one with a row above all others
M_TYPE: Final = 1
M_COORDINATOR: Final = 2  # epoch
M_SIZE: Final = 3
ANY: Final = 0  # every batch is applied if possible
PLAIN: Final = 1  # only batches that a leader would have accepted
PLAIN_WITH_GAPS: Final = 2  # sequence numbers may jump forward
PLAIN_UNSEQUENCED: Final = 3  # sequence numbers are not checked
G_COUNT: Final = 0  # producers
G_CAPACITY: Final = 1
G_MASK: Final = 2  # size of the table of ids - 1
G_OPEN: Final = 3  # open transactions
G_HOLES: Final = 4  # places so far where a part of the log is missing
G_ENDED: Final = 5  # transactions that ended in this call
G_EMPTY: Final = 6  # 1: a marker without a transaction ends an empty one at its own offset
G_SIZE: Final = 7
RECENT: Final = 5  # batches that a broker remembers of a producer (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)
P_PID: Final = 0
P_EPOCH: Final = 1
P_COORDINATOR: Final = 2  # epoch; -1: no marker was seen
P_TIME: Final = 3  # of the last batch or marker
P_TXN_FIRST: Final = 4  # first offset of the open transaction; -1: none
P_PLACE: Final = 5  # of its open transaction in the heap; -1: none
P_HEAP: Final = 6  # not of this producer: the first cell of the producer whose transaction has this place in the heap
P_HOLES: Final = 7  # the value of G_HOLES at its last batch
P_BATCHES: Final = 8  # of its epoch; 10 becomes 5; the last is at (n - 1) % 5; -1: none, and earlier ones are unknown
P_OFFSET: Final = 9  # five of each: last offset, last offset - first offset, last sequence number
P_DELTA: Final = 14
P_SEQUENCE: Final = 19
P_DATA_TIME: Final = 24  # of the last batch of its epoch that is not a marker; -1: none
P_MARKER: Final = 25  # offset of the last marker, where no batch of the producer has followed it; -1: none
P_SIZE: Final = 26
E_PID: Final = 0
E_FIRST: Final = 1
E_LAST: Final = 2  # the marker's offset
E_ABORTED: Final = 3
E_STABLE: Final = 4  # first offset of the transactions that are still open, else the offset after the marker
E_SIZE: Final = 5

# --- the checks of batch headers: cells that a caller keeps over a file, bits of what is odd in a row -----------------
BC_LARGEST: Final = 0  # offset that an index of the segment can hold
BC_FUTURE_FROM: Final = 1  # timestamps above it are in the future
BC_MUTED: Final = 2  # bits that are only counted
BC_ODD: Final = 3  # bits of the row that a call stopped at
BC_PREVIOUS: Final = 4  # last offset of the batch before; -2: not known
BC_EPOCH: Final = 5  # leader epoch of the batch before that has one; -1: none
BC_BATCHES: Final = 6
BC_RECORDS: Final = 7  # as counted by the headers
BC_WRAPPERS: Final = 8  # batches whose headers do not count their records
BC_FIRST: Final = 9  # first offset; -1: none, or of a wrapper
BC_LAST: Final = 10
BC_FIRST_TIME: Final = 11  # largest timestamp of the first batch that has one; -1: none
BC_MAX_TIME: Final = 12  # largest timestamp; -1: none
BC_FORMATS: Final = 13  # 1 << format of each
BC_THINNED: Final = 14  # batches with fewer records than their offsets span
BC_FUTURE: Final = 15  # batches with timestamps in the future
BC_FUTURE_AT: Final = 16  # position of the first one
BC_NEGATIVE: Final = 17  # batches with timestamps below -1
BC_NEGATIVE_AT: Final = 18
BC_PRODUCERS: Final = 19  # batches that have a producer
BC_BEFORE: Final = 20  # the leader epoch before BC_EPOCH; -1: none
BC_EXPECTED: Final = 21  # the offset after the batch before the row that a call stopped at
BC_MORE: Final = 22  # how often each muted bit was set, one cell for each bit
ODD_EPOCH_START: Final = 1  # not odd: the leader epoch is higher than that of the batch before
ODD_EPOCH_BACK: Final = 2
ODD_EPOCH: Final = 4  # below -1
ODD_TIMES: Final = 8  # the largest timestamp is below the first
ODD_ATTRIBUTES: Final = 16
ODD_CODEC: Final = 32
ODD_OVERFLOW: Final = 64  # an offset above BC_LARGEST; reported once
ODD_GAP: Final = 128  # offsets before it are in no batch
ODD_BITS: Final = 8
BC_SIZE: Final = BC_MORE + ODD_BITS
UNKNOWN_V0: Final = 0xF8  # attribute bits that no release writes
UNKNOWN_V1: Final = 0xF0
UNKNOWN_V2: Final = ~0x7F
CLOSE_LOOK: Final = UNKNOWN_V2 | 4  # codecs from zstd on: most are none
CODEC_ZSTD: Final = layout.CODEC_ZSTD
MAX_OFFSET: Final = layout.MAX_INT64
LEAST: Final = -layout.MAX_INT64 - 1
HORIZON: Final = layout.DELETE_HORIZON_BIT

# --- the checks of records: the same ----------------------------------------------------------------------------------
RC_MUTED: Final = 0
RC_ODD: Final = 1
RC_ABOUT: Final = 2  # row of the batch of RC_ODD
RC_ROW: Final = 3  # row of the record of RC_ODD; -1: the whole batch
RC_BATCH: Final = 4  # row of the current batch; -1: none
RC_COUNT: Final = 5  # records in it so far
RC_INNER: Final = 6  # offset of the first one
RC_OFFSET: Final = 7  # of the last one
RC_TIME: Final = 8  # largest timestamp among them
RC_SAID: Final = 9  # bits that were reported of it
RC_MARKER: Final = 10  # 1: the first one ends a transaction
RC_BEFORE: Final = 11  # last offset of the batch before this run
RC_JOINED: Final = 12  # 1: no damage is between that batch and this run
RC_RECORDS: Final = 13
RC_WRAPPED: Final = 14  # of these, in wrappers
RC_HOLES: Final = 15  # wrappers with missing offsets within
RC_FIRST: Final = 16  # offset of the first record; -1: none
RC_GAPS: Final = 17  # wrappers with missing offsets before
RC_GAP_AT: Final = 18  # position of the first of these
RC_GAP_FROM: Final = 19  # first offset that is missing there
RC_GAP_TO: Final = 20  # last one
RC_MORE: Final = 21  # how often each muted bit was set, one cell for each bit
ODD_ORDER: Final = 1  # an offset that is not above the one before
ODD_OVERLAP: Final = 2  # the first offset in a wrapper is not above the batch before
ODD_LAST: Final = 4  # the last offset in a wrapper is not the wrapper's
ODD_TIME_OVER: Final = 8  # a timestamp above the largest of the header
ODD_TIME_UNDER: Final = 16  # the largest timestamp of the header is of no record
ODD_CRC: Final = 32  # of an inner message
ODD_CONTROL_KEY: Final = 64
ODD_CONTROL_VALUE: Final = 128  # of a transaction marker
ODD_CONTROL: Final = 256  # not odd: a control record of another type, which the caller checks
ODD_MARKERS: Final = 512  # a second record in a batch that starts with a transaction marker
ODD_LENGTH: Final = 1024  # a negative length of a key or value that is not -1
ODD_HEADER_KEY: Final = 2048  # of a header, not UTF-8
ODD_MAGIC: Final = 4096  # an inner message of another magic than its wrapper
ODD_RECORD_BITS: Final = 13
RC_SIZE: Final = RC_MORE + ODD_RECORD_BITS

# --- indexes against the log ------------------------------------------------------------------------------------------
INDEX_DONE: Final = 0  # all batches are checked
INDEX_MORE: Final = 1  # the next entries are needed
INDEX_FULL: Final = 2  # the fault rows are full: take them, call again
ROW_DAMAGE: Final = -1  # instead of a format: bytes that do not form a batch
ROW_END: Final = -2  # instead of a format: the log ends at this position
I_ROW: Final = 0  # next batch
I_ENTRY: Final = 1  # next of the available entries
I_SLOT: Final = 2  # number in the file of the first available entry
I_FAULTS: Final = 3  # rows filled
I_BASE: Final = 4  # base offset of the segment
I_LAST: Final = 5  # last offset of the batch before
I_HOLE: Final = 6  # whether damage follows it
I_LEAST: Final = 7  # smallest key (position, relative offset) that the next entry in order may have
I_LIMIT: Final = 8  # no position or relative offset is as large
I_GOOD: Final = 9  # number of the last entry that was found good; -1: none
I_GOOD_FIRST: Final = 10  # its offset or timestamp
I_GOOD_SECOND: Final = 11  # position or offset
I_OPEN: Final = 12  # offset index: number of the last entry while the batch of its offset was not reached; -1: it was
I_OPEN_OFFSET: Final = 13
I_OPEN_POSITION: Final = 14
I_START: Final = 15  # where the batch before starts
I_INDEXED: Final = 16  # position of the last entry of a batch, or the log's start
I_STRETCH: Final = 17  # the longest stretch of bytes from such a position to a batch without an entry
I_STRETCH_START: Final = 18
I_TOP: Final = 12  # time index: largest timestamp so far, and its batch
I_TOP_POSITION: Final = 13
I_TOP_OFFSET: Final = 14
I_TOP_V2: Final = 15  # of batches of magic 2 alone
INDEX_STATE: Final = 19
F_CODE: Final = 0
F_SLOT: Final = 1
F_COUNT: Final = 2  # consecutive entries with this fault; the next cells are of the first
F_FIRST: Final = 3  # offset or timestamp of the entry
F_SECOND: Final = 4  # position or offset
F_POSITION: Final = 5  # of the batch there
F_BASE: Final = 6
F_LAST: Final = 7
F_HELD: Final = 8  # its largest timestamp, or the larger one of an earlier batch
F_GOOD: Final = 9  # the last good entry before it, as in the state
F_GOOD_FIRST: Final = 10
F_GOOD_SECOND: Final = 11
FAULT_SIZE: Final = 12
FAULT_ROWS: Final = 32
FAULT_UNSORTED: Final = 1
FAULT_BASE: Final = 2  # an offset below the segment's
FAULT_BEYOND: Final = 3  # after the end of the log
FAULT_POSITION: Final = 4  # no batch starts there
FAULT_OFFSET: Final = 5  # not an offset of the batch there
FAULT_INSIDE: Final = 6  # within a batch that has all its records
FAULT_REACH: Final = 7  # of a batch after the position of the next entry
FAULT_GAP: Final = 8  # not in any batch
FAULT_TIME: Final = 9  # another timestamp than the batch's
FAULT_MAXIMUM: Final = 10  # a batch before has a larger timestamp

# --- rebuilding indexes (LogSegment.recover) --------------------------------------------------------------------------
REBUILD_DONE: Final = 0
REBUILD_FIRST: Final = 1  # the first offset in a compressed message is needed
REBUILD_OVERFLOW: Final = 2  # an offset that no index of the segment can hold
REBUILD_FULL: Final = 3  # an index is full
REBUILD_DISORDER: Final = 4  # an offset that is not above that of the previous entry
REBUILD_LAST: Final = 1  # rule: entries have the last offset of a batch, not the first
REBUILD_TIMES: Final = 2  # rule: there is a time index
REBUILD_RANGE: Final = 4  # rule: offsets that no index can hold are an error
REBUILD_EPOCHS: Final = 8  # rule: there are leader epochs
MAX_RELATIVE: Final = layout.MAX_INT32
X_ROW: Final = 0  # row to continue with
X_BASE: Final = 1  # base offset of the segment
X_INTERVAL: Final = 2  # index.interval.bytes
X_INDEXED: Final = 3  # position of the batch of the last entry, or the log's start
X_ENTRIES: Final = 4  # of the offset index
X_ROOM: Final = 5  # capacity
X_LAST_OFFSET: Final = 6  # of the last entry
X_TIMES: Final = 7  # entries of the time index
X_TIME_ROOM: Final = 8  # capacity before the segment is closed
X_TIME_LAST: Final = 9  # timestamp of the last entry; -1: none
X_TIME_LAST_OFFSET: Final = 10
X_MAX_TIME: Final = 11  # largest timestamp so far; -1: none
X_MAX_OFFSET: Final = 12  # last offset of the first batch with X_MAX_TIME
X_EPOCH: Final = 13  # the latest leader epoch; -1: none
X_FIRST: Final = 14  # first offset in the compressed message at X_ROW; LEAST: unknown
X_NEW_ENTRIES: Final = 15  # filled in this call
X_NEW_TIMES: Final = 16
X_EPOCHS: Final = 17
X_SIZE: Final = 18

# --- the cleaner's offset map: three cells for each entry, found by a key's digest ------------------------------------
MAP_DONE: Final = 0
MAP_FULL: Final = 1  # the current record does not fit
ENTRY_LOW: Final = 0  # first half of the digest
ENTRY_HIGH: Final = 1  # second half; its lowest bit: whether the key has another record
ENTRY_OFFSET: Final = 2  # offset + 1; 0: a free slot
ENTRY_SIZE: Final = 3
Q_SLOTS: Final = 0
Q_CAPACITY: Final = 1  # maximum number of keys
Q_KEYS: Final = 2  # number of keys
Q_LATEST: Final = 3  # offset up to which the map covers the log; -1: none
Q_START: Final = 4  # first offset to put into the map
Q_FOLLOWS: Final = 5  # 1: skipped batches advance Q_LATEST too
Q_BATCH: Final = 6  # row of the current batch
Q_RECORDS: Final = 7  # records that were read
Q_SIZE: Final = 8
KEYS_AHEAD: Final = 64  # digests are computed this many records ahead, so that table entries can be prefetched

# --- the newest record of each key: a row of cells for each key; cells of the state after those of its map ------------
N_OFFSET: Final = 0
N_TIME: Final = 1
N_VALUE: Final = 2  # where the value is in the data
N_VALUE_SIZE: Final = 3  # -1: a tombstone
N_ROOM: Final = 4  # bytes that a later value of this key may use
N_TOMBSTONE: Final = 5  # offset of its last tombstone; -1: none
N_REPLACED: Final = 6  # offset of the last record with a value that a tombstone followed; -1: none
N_KEY: Final = 7
N_KEY_SIZE: Final = 8
N_LOW: Final = 9  # both halves of the key's digest
N_HIGH: Final = 10
N_SIZE: Final = 11
N_NEXT: Final = Q_SIZE  # the next row to keep
N_BYTES: Final = Q_SIZE + 1  # bytes of the data that are used
N_RECORD: Final = Q_SIZE + 2  # the row of the current record
N_STATE: Final = N_RECORD + N_SIZE

# --- the cleaner's decisions on records and batches -------------------------------------------------------------------
BIT_DISCARD: Final = 1  # none of its records is retained
BIT_RETAIN_EMPTY: Final = 2  # it is retained, even without records
BIT_EMPTY_TXN: Final = 4  # a marker of a transaction without remaining batches
BITS_REMOVED: Final = BIT_DISCARD | BIT_RETAIN_EMPTY  # only the first of these: the batch is not decompressed
WHY_LATEST: Final = 0  # retained: the last record of its key
WHY_PAST: Final = 1  # retained: above the map's latest offset
WHY_CONTROL: Final = 2  # retained: a control record
WHY_TOMBSTONE: Final = 3  # retained: the last of its key, within delete.retention.ms
WHY_SUPERSEDED: Final = 4  # removed, like all that follow
WHY_EXPIRED: Final = 5  # a tombstone
WHY_NO_KEY: Final = 6
WHY_ABORTED: Final = 7
WHY_MARKER: Final = 8
WHY_SIZE: Final = 9
T_BYTES: Final = WHY_SIZE  # the cells before it are records by reason, these the bytes of keys and values
T_LONE: Final = 2 * WHY_SIZE  # tombstones that are the only records of their keys
T_SIZE: Final = T_LONE + 1
RULE_PAST: Final = 1  # records above the map's latest offset are retained
RULE_CONTROL_KEYS: Final = 2  # keys of control records are looked up like any other
RULE_HORIZONS: Final = 4  # batches store a delete horizon (KIP-534)
RULE_CONVERT: Final = 8  # all of magic 0 and 1 is rewritten as magic 2
RULE_COPY: Final = 16  # inner messages are copied unchanged
J_RULES: Final = 0
J_NOW: Final = 1
J_HORIZON: Final = 2  # the delete horizon for batches that have none
J_RETAINS: Final = 3  # 1: tombstones are retained in magic 0 and 1, and before 3.1 in every batch
J_SIZE: Final = 4
OUTCOME_REMOVED: Final = 0
OUTCOME_VERBATIM: Final = 1
OUTCOME_REBUILT: Final = 2
OUTCOME_EMPTIED: Final = 3
TROUBLE_ORDER: Final = 1  # offsets of retained records decrease
TROUBLE_TIME: Final = 2  # a timestamp below -1
TROUBLE_EMPTY: Final = 4  # an empty batch of magic 0 or 1
TROUBLE_PRODUCER: Final = 8  # MemoryRecordsBuilder refuses these producer fields
K_OUTCOME: Final = 0  # of a batch
K_KEPT: Final = 1  # records
K_DROPPED: Final = 2
K_TOMBSTONES: Final = 3  # retained records without a value
K_FIRST: Final = 4  # offset of the first retained record
K_LAST: Final = 5
K_TIME: Final = 6  # timestamp of the first retained record
K_MAX_TIME: Final = 7  # largest of the retained records; -1: none
K_HORIZON: Final = 8  # delete horizon of the new batch; negative: none
K_TROUBLE: Final = 9
K_BYTES: Final = 10  # of the output
K_SIZE: Final = 11
WRITE_DONE: Final = 0
WRITE_ROOM: Final = 1  # O_NEED bytes of output are needed
WRITE_PACK: Final = 2  # the records are at O_FILLED + V2_SIZE to O_END: compress them and finish the batch
WRITE_LEGACY: Final = 3  # a wrapper of magic 0 or 1 must be rebuilt
O_BATCH: Final = 0  # row of the current batch
O_RECORD: Final = 1  # row of the current record
O_FILLED: Final = 2  # bytes of the output
O_END: Final = 3
O_NEED: Final = 4
O_OUTPUT: Final = 5  # file position of the first byte of the output
O_BEGINS: Final = 6  # file position of the first byte of the input
O_RULES: Final = 7
O_ROWS: Final = 8  # of the output's columns
O_SIZE: Final = 9
# --- the biggest keys: counters in sets, found by a key's digest ------------------------------------------------------
Y_SETS: Final = 512  # a power of two
Y_WAYS: Final = 4  # counters of a set
Y_LOW: Final = 0  # both halves of the digest
Y_HIGH: Final = 1
Y_RECORDS: Final = 2  # since the key has its counter; 0: a free counter
Y_BYTES: Final = 3  # of its key and values
Y_BEFORE: Final = 4  # upper bound of its bytes before that
Y_KEY_SIZE: Final = 5
Y_SIZE: Final = 6
Y_NAME: Final = 64  # bytes of a key that are stored

RECORD_ROOM: Final = 36  # upper bound of a record without key, value and headers
HEADER_ROOM: Final = 10  # upper bound of a header without key and value
KEPT_BITS: Final = layout.CODEC_MASK | layout.TIMESTAMP_TYPE_BIT | layout.TRANSACTIONAL_BIT | layout.CONTROL_BIT

# --- framings of lz4 and snappy that Java's clients write -------------------------------------------------------------
LZ4_HEADER: Final = int.from_bytes(layout.LZ4_JAVA_HEADER[:6], "big")  # magic, flags, block descriptor
LZ4_HEADER_CHECKSUM: Final = layout.LZ4_JAVA_HEADER[6]
LZ4_HEADER_SIZE: Final = len(layout.LZ4_JAVA_HEADER)
LZ4_STORED: Final = layout.LZ4_BLOCK_STORED
LZ4_BLOCK: Final = 1 << 16  # the largest content of a block
XERIAL_MAGIC: Final = int.from_bytes(layout.XERIAL_JAVA_HEADER[:8], "big", signed=True)
XERIAL_VERSIONS: Final = int.from_bytes(layout.XERIAL_JAVA_HEADER[8:], "big")
XERIAL_SIZE: Final = len(layout.XERIAL_JAVA_HEADER)

# --- blocks of LZ4 that are written -----------------------------------------------------------------------------------
LZ4_HASHES: Final = 8192  # cells of the hash table of positions
LZ4_HASH_SHIFT: Final = 19  # the upper 13 bits of 32 are used
LZ4_SKIP_SHIFT: Final = 6  # 64 positions are tried before some are skipped
LZ4_LEAST_MATCH: Final = 4
LZ4_END_LITERALS: Final = 5  # the last bytes are always literals
LZ4_LAST_MATCH: Final = 12  # no match starts within this many bytes of the end
LZ4_FORM_1_2: Final = 0  # the search for matches, named by the first version of lz4-java with it
LZ4_FORM_1_3: Final = 1
LZ4_FORM_1_5: Final = 2
