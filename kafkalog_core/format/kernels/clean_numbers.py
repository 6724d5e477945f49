"""The numbers of the cleaner's kernels: cells of their states, reasons, rules.

Plain integers, one a line. The build makes each a C integer (setup.py).
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.format import layout

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
