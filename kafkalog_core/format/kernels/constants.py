"""The numbers that the kernels use: why they stop, where fields stand, which column is which.

Plain integers, one a line. The build makes each a C integer (setup.py).
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.format import layout
from kafkalog_core.format.columns import BATCH_FIELDS, DAMAGE_FIELDS, FORMAT_V07, HEADER_FIELDS, RECORD_FIELDS

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

# --- what a walk over damage is told: cells of its state --------------------------------------------------------------
W_POSITION: Final = 0  # file position of the first byte at hand
W_FILE_END: Final = 1
W_PREVIOUS: Final = 2  # last offset before it
W_MAX_BYTES: Final = 3  # the largest entry
W_TRUSTED: Final = 4  # up to here lengths are known to lead on
W_SEARCHED: Final = 5  # up to here no entry stands inside of another
W_HIGH: Final = 6  # largest offset of an entry that is searched for
W_SEARCHED_BYTES: Final = 7  # in which entries were looked for
W_WRONG: Final = 8  # bytes of those that turned out to be none, a cell for each bit length of a size
SIZE_CLASSES: Final = 34
W_SIZE: Final = W_WRONG + SIZE_CLASSES

# --- what a search may cost; see storage/resync.py --------------------------------------------------------------------
CHECKED_PER_BYTE: Final = 4
FREE_CHECKS: Final = 16

# --- the replay of producer state: cells of markers, of the whole, of each producer, of each ended transaction --------
M_ROW: Final = 0  # of the control batch; behind the last marker stands one row beyond all
M_TYPE: Final = 1
M_COORDINATOR: Final = 2  # epoch
M_SIZE: Final = 3
ANY: Final = 0  # whatever can be carried out is
PLAIN: Final = 1  # what a leader would have taken without a word
PLAIN_WITH_GAPS: Final = 2  # sequence numbers may jump forward
PLAIN_UNSEQUENCED: Final = 3  # sequence numbers say nothing
G_COUNT: Final = 0  # producers
G_CAPACITY: Final = 1
G_MASK: Final = 2  # size of the table of ids - 1
G_OPEN: Final = 3  # open transactions
G_HOLES: Final = 4  # places so far where something of the log is missing
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
P_HEAP: Final = 6  # not of this producer: the first cell of the one whose transaction has this place in the heap
P_HOLES: Final = 7  # what G_HOLES was when it was last seen
P_BATCHES: Final = 8  # of its epoch, from 10 back to 5, the last at (n - 1) % 5; -1: none, and perhaps some were before
P_OFFSET: Final = 9  # five of each: last offset, last offset - first offset, last sequence number
P_DELTA: Final = 14
P_SEQUENCE: Final = 19
P_DATA_TIME: Final = 24  # of the last batch of its epoch that is no marker; -1: none
P_MARKER: Final = 25  # offset of the last marker, where no batch of the producer has followed it; -1: none
P_SIZE: Final = 26
E_PID: Final = 0
E_FIRST: Final = 1
E_LAST: Final = 2  # the marker's offset
E_ABORTED: Final = 3
E_STABLE: Final = 4  # first offset of the transactions that are open still, else behind the marker
E_SIZE: Final = 5

# --- the checks of batch headers: cells that a caller keeps over a file, bits of what is odd in a row -----------------
BC_LARGEST: Final = 0  # offset that an index of the segment can hold
BC_FUTURE_FROM: Final = 1  # timestamps above it lie in the future
BC_MUTED: Final = 2  # bits that are counted alone
BC_ODD: Final = 3  # bits of the row that a call stopped at
BC_PREVIOUS: Final = 4  # last offset of the batch before; -2: not known
BC_EPOCH: Final = 5  # leader epoch of the batch before that has one; -1: none
BC_BATCHES: Final = 6
BC_RECORDS: Final = 7  # that headers count
BC_WRAPPERS: Final = 8  # batches whose records only their content counts
BC_FIRST: Final = 9  # first offset; -1: none, or of a wrapper
BC_LAST: Final = 10
BC_FIRST_TIME: Final = 11  # largest timestamp of the first batch that has one; -1: none
BC_MAX_TIME: Final = 12  # largest timestamp; -1: none
BC_FORMATS: Final = 13  # 1 << format of each
BC_THINNED: Final = 14  # batches with fewer records than their offsets span
BC_FUTURE: Final = 15  # batches with timestamps in the future
BC_FUTURE_AT: Final = 16  # position of the first one
BC_NEGATIVE: Final = 17  # batches with negative timestamps that do not say "none"
BC_NEGATIVE_AT: Final = 18
BC_PRODUCERS: Final = 19  # batches that have a producer
BC_BEFORE: Final = 20  # the leader epoch before BC_EPOCH; -1: none
BC_EXPECTED: Final = 21  # offset behind the batch before the row that a call stopped at
BC_MORE: Final = 22  # times that each muted bit was set, a cell for each bit
ODD_EPOCH_START: Final = 1  # not odd: the leader epoch is higher than that of the batch before
ODD_EPOCH_BACK: Final = 2
ODD_EPOCH: Final = 4  # below -1
ODD_TIMES: Final = 8  # the largest timestamp is below the first
ODD_ATTRIBUTES: Final = 16
ODD_CODEC: Final = 32
ODD_OVERFLOW: Final = 64  # an offset above BC_LARGEST; said once
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
RC_ABOUT: Final = 2  # row of the batch that RC_ODD is about
RC_ROW: Final = 3  # row of the record that it is about; -1: it is about the whole batch
RC_BATCH: Final = 4  # row of the batch in hand; -1: none
RC_COUNT: Final = 5  # records in it so far
RC_INNER: Final = 6  # offset of the first one
RC_OFFSET: Final = 7  # of the last one
RC_TIME: Final = 8  # largest timestamp among them
RC_SAID: Final = 9  # bits that were said of it
RC_MARKER: Final = 10  # 1: the first one ends a transaction
RC_BEFORE: Final = 11  # last offset of the batch before this run
RC_JOINED: Final = 12  # 1: nothing damaged stands between that one and this run
RC_RECORDS: Final = 13
RC_WRAPPED: Final = 14  # of them in wrappers
RC_HOLES: Final = 15  # wrappers with offsets missing inside of them
RC_FIRST: Final = 16  # offset of the first record; -1: none
RC_GAPS: Final = 17  # wrappers with offsets missing before them
RC_GAP_AT: Final = 18  # position of the first of these
RC_GAP_FROM: Final = 19  # first offset that is missing there
RC_GAP_TO: Final = 20  # last one
RC_MORE: Final = 21  # times that each muted bit was set, a cell for each bit
ODD_ORDER: Final = 1  # an offset that is not above the one before
ODD_OVERLAP: Final = 2  # the first offset in a wrapper is not above the batch before
ODD_LAST: Final = 4  # the last offset in a wrapper is not the wrapper's
ODD_TIME_OVER: Final = 8  # a timestamp above the largest of the header
ODD_TIME_UNDER: Final = 16  # the largest timestamp of the header is of no record
ODD_CRC: Final = 32  # of an inner message
ODD_CONTROL_KEY: Final = 64
ODD_CONTROL_VALUE: Final = 128  # of a transaction marker
ODD_CONTROL: Final = 256  # not odd: a control record of another type, to be looked at
ODD_MARKERS: Final = 512  # a second record in a batch that starts with a transaction marker
ODD_RECORD_BITS: Final = 10
RC_SIZE: Final = RC_MORE + ODD_RECORD_BITS

# --- indexes against the log ------------------------------------------------------------------------------------------
INDEX_DONE: Final = 0  # all batches are checked
INDEX_MORE: Final = 1  # the entries behind these are needed
INDEX_FULL: Final = 2  # the faults are: take them away, call again
ROW_DAMAGE: Final = -1  # in place of a format: bytes that are no batch
ROW_END: Final = -2  # in place of a format: the log ends at this position
I_ROW: Final = 0  # next batch
I_ENTRY: Final = 1  # next entry of those at hand
I_SLOT: Final = 2  # number in the file of the first entry at hand
I_FAULTS: Final = 3  # rows filled
I_BASE: Final = 4  # base offset of the segment
I_LAST: Final = 5  # last offset of the batch before
I_HOLE: Final = 6  # whether damage came behind it
I_LEAST: Final = 7  # smallest key (position, relative offset) that the next entry in order may have
I_LIMIT: Final = 8  # no position or relative offset is as large
I_GOOD: Final = 9  # number of the last entry that was found good; -1: none
I_GOOD_FIRST: Final = 10  # what it says: offset or timestamp
I_GOOD_SECOND: Final = 11  # position or offset
I_OPEN: Final = 12  # offset index: number of the last entry, while the batch of its offset has not come; -1: it has
I_OPEN_OFFSET: Final = 13
I_OPEN_POSITION: Final = 14
I_START: Final = 15  # where the batch before starts
I_INDEXED: Final = 16  # position of the last entry that names a batch, or the log's start
I_STRETCH: Final = 17  # the longest way from such a place to a batch that could have been the next one
I_STRETCH_START: Final = 18
I_TOP: Final = 12  # time index: largest timestamp so far, and its batch
I_TOP_POSITION: Final = 13
I_TOP_OFFSET: Final = 14
I_TOP_V2: Final = 15  # of batches of magic 2 alone
INDEX_STATE: Final = 19
F_CODE: Final = 0
F_SLOT: Final = 1
F_COUNT: Final = 2  # entries in a row with this fault; the cells behind are of the first
F_FIRST: Final = 3  # what the entry says: offset or timestamp
F_SECOND: Final = 4  # position or offset
F_POSITION: Final = 5  # of the batch there
F_BASE: Final = 6
F_LAST: Final = 7
F_HELD: Final = 8  # its largest timestamp; where a batch before has a larger one, that
F_GOOD: Final = 9  # the last good entry before, as in the state
F_GOOD_FIRST: Final = 10
F_GOOD_SECOND: Final = 11
FAULT_SIZE: Final = 12
FAULT_ROWS: Final = 32
FAULT_UNSORTED: Final = 1
FAULT_BASE: Final = 2  # an offset below the segment's
FAULT_BEYOND: Final = 3  # behind the end of the log
FAULT_POSITION: Final = 4  # no batch starts there
FAULT_OFFSET: Final = 5  # not of the batch there
FAULT_INSIDE: Final = 6  # in the middle of a batch that nothing was taken out of
FAULT_REACH: Final = 7  # of a batch behind the place of the next entry
FAULT_GAP: Final = 8  # of no batch
FAULT_TIME: Final = 9  # another timestamp than the batch's
FAULT_MAXIMUM: Final = 10  # a batch before has a larger timestamp

# --- what recovery makes of batches -----------------------------------------------------------------------------------
REBUILD_DONE: Final = 0
REBUILD_FIRST: Final = 1  # the first offset inside of a compressed message is needed
REBUILD_OVERFLOW: Final = 2  # an offset that no index of the segment can hold
REBUILD_FULL: Final = 3  # an index is
REBUILD_DISORDER: Final = 4  # an offset not above that of the entry before
REBUILD_LAST: Final = 1  # rule: entries name the last offset of a batch, not the first
REBUILD_TIMES: Final = 2  # rule: there is a time index
REBUILD_RANGE: Final = 4  # rule: offsets that no index can hold are noticed
REBUILD_EPOCHS: Final = 8  # rule: there are leader epochs
MAX_RELATIVE: Final = layout.MAX_INT32
X_ROW: Final = 0  # row to go on with
X_BASE: Final = 1  # base offset of the segment
X_INTERVAL: Final = 2  # bytes that must lie between two entries
X_INDEXED: Final = 3  # position of the batch of the last entry, or the log's start
X_ENTRIES: Final = 4  # of the offset index
X_ROOM: Final = 5  # for so many there is room
X_LAST_OFFSET: Final = 6  # of the last entry
X_TIMES: Final = 7  # entries of the time index
X_TIME_ROOM: Final = 8  # for so many there is room before the segment is closed
X_TIME_LAST: Final = 9  # timestamp of the last entry; -1: none
X_TIME_LAST_OFFSET: Final = 10
X_MAX_TIME: Final = 11  # largest timestamp so far; -1: none
X_MAX_OFFSET: Final = 12  # last offset of the first batch that has it
X_EPOCH: Final = 13  # the latest leader epoch; -1: none
X_FIRST: Final = 14  # first offset inside of the compressed message at X_ROW; LEAST: not known
X_NEW_ENTRIES: Final = 15  # filled in this call
X_NEW_TIMES: Final = 16
X_EPOCHS: Final = 17
X_SIZE: Final = 18


# --- clean_numbers: The numbers of the cleaner's kernels: cells of their states, reasons, rules.
#
# Plain integers, one a line. The build makes each a C integer (setup.py).
# --- the cleaner's offset map: three cells an entry, found by a key's digest ------------------------------------------
MAP_DONE: Final = 0
MAP_FULL: Final = 1  # before a record that there is no room for
ENTRY_LOW: Final = 0  # first half of the digest
ENTRY_HIGH: Final = 1  # second half; its lowest bit says whether the key has another record
ENTRY_OFFSET: Final = 2  # offset + 1; 0: nothing is here
ENTRY_SIZE: Final = 3
Q_SLOTS: Final = 0
Q_CAPACITY: Final = 1  # so many keys may enter
Q_KEYS: Final = 2  # so many have
Q_LATEST: Final = 3  # offset up to which the map knows the log; -1: none
Q_START: Final = 4  # offset that those start with that enter
Q_FOLLOWS: Final = 5  # 1: batches of which nothing enters move Q_LATEST too
Q_BATCH: Final = 6  # row of the batch in hand
Q_RECORDS: Final = 7  # that were looked at
Q_SIZE: Final = 8
KEYS_AHEAD: Final = 64  # digests are made so far ahead of what is looked up, so that memory is there in time

# --- what the cleaner does with records and batches -------------------------------------------------------------------
BIT_DISCARD: Final = 1  # none of its records stays
BIT_RETAIN_EMPTY: Final = 2  # it stays, even if none of its records does
BIT_EMPTY_TXN: Final = 4  # it ends a transaction of which no batch is left
BITS_REMOVED: Final = BIT_DISCARD | BIT_RETAIN_EMPTY  # of these, the first alone: it is not even opened
WHY_LATEST: Final = 0  # kept: no record of its key comes after it
WHY_PAST: Final = 1  # kept: the map does not reach so far
WHY_CONTROL: Final = 2  # kept: a control record
WHY_TOMBSTONE: Final = 3  # kept: the latest of its key, and it is not time yet
WHY_SUPERSEDED: Final = 4  # dropped, as all from here on
WHY_EXPIRED: Final = 5  # a tombstone
WHY_NO_KEY: Final = 6
WHY_ABORTED: Final = 7
WHY_MARKER: Final = 8
WHY_SIZE: Final = 9
T_BYTES: Final = WHY_SIZE  # of keys and values; cells before it count records by reason, these the bytes
T_TOMBSTONES: Final = 2 * WHY_SIZE  # that are the latest records of their keys
T_LONE: Final = T_TOMBSTONES + 1  # of them, those whose key has no other record
T_SIZE: Final = T_LONE + 1
RULE_PAST: Final = 1  # what the map does not reach stays
RULE_CONTROL_KEYS: Final = 2  # keys of control records are looked up as any other
RULE_HORIZONS: Final = 4  # batches hold the time until which tombstones and markers stay
RULE_CONVERT: Final = 8  # whatever is rewritten becomes magic 2, and all of magic 0 and 1 is
RULE_COPY: Final = 16  # what is inside of wrappers is copied, whatever it says
J_RULES: Final = 0
J_NOW: Final = 1
J_HORIZON: Final = 2  # that is given now
J_RETAINS: Final = 3  # 1: where a batch has no say, tombstones stay
J_SIZE: Final = 4
OUTCOME_REMOVED: Final = 0
OUTCOME_VERBATIM: Final = 1
OUTCOME_REBUILT: Final = 2
OUTCOME_EMPTIED: Final = 3
TROUBLE_ORDER: Final = 1  # offsets of records that stay go back
TROUBLE_TIME: Final = 2  # a negative timestamp that does not say "none"
TROUBLE_EMPTY: Final = 4  # an empty batch of magic 0 or 1
TROUBLE_PRODUCER: Final = 8  # no writer makes such a producer's batch
K_OUTCOME: Final = 0  # of a batch
K_KEPT: Final = 1  # records
K_DROPPED: Final = 2
K_TOMBSTONES: Final = 3  # kept records without a value
K_FIRST: Final = 4  # offset of the first kept record
K_LAST: Final = 5
K_TIME: Final = 6  # timestamp of the first kept record
K_MAX_TIME: Final = 7  # largest of the kept records; -1: none
K_HORIZON: Final = 8  # that it is written with; negative: none
K_TROUBLE: Final = 9
K_BYTES: Final = 10  # of the output
K_SIZE: Final = 11
WRITE_DONE: Final = 0
WRITE_ROOM: Final = 1  # O_NEED bytes are not there
WRITE_PACK: Final = 2  # the records of a batch stand at O_FILLED + V2_SIZE to O_END, to be compressed and finished
WRITE_LEGACY: Final = 3  # a wrapper is to be made
O_BATCH: Final = 0  # row of the batch in hand
O_RECORD: Final = 1  # row of the record in hand
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
Y_RECORDS: Final = 2  # since the key has its counter; 0: it is free
Y_BYTES: Final = 3  # of its key and values
Y_BEFORE: Final = 4  # that it may have had before, at most
Y_KEY_SIZE: Final = 5
Y_SIZE: Final = 6
Y_NAME: Final = 64  # bytes of a key that are kept

RECORD_ROOM: Final = 36  # the most that a record takes beside its key, its value and its headers
HEADER_ROOM: Final = 10  # and a header
KEPT_BITS: Final = layout.CODEC_MASK | layout.TIMESTAMP_TYPE_BIT | layout.TRANSACTIONAL_BIT | layout.CONTROL_BIT

# --- blocks of LZ4 that are written -----------------------------------------------------------------------------------
LZ4_HASHES: Final = 8192  # cells of the table that remembers places
LZ4_HASH_SHIFT: Final = 19  # of 32 bits so many are left away
LZ4_SKIP_SHIFT: Final = 6  # 64 places are tried before some are left out
LZ4_LEAST_MATCH: Final = 4
LZ4_END_LITERALS: Final = 5  # the last bytes are always written as they are
LZ4_LAST_MATCH: Final = 12  # no match starts in so many last bytes
LZ4_FORM_1_2: Final = 0  # how matches are searched for, by the first version of lz4-java that does it so
LZ4_FORM_1_3: Final = 1
LZ4_FORM_1_5: Final = 2
