"""The catalogue of damage reasons: the stable words of `damage` rows and what they mean.

`LOG_DAMAGE` is what the scan and the decoders of logs say, `ENTRY_DAMAGE` what the readers of small files do.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ENTRY_DAMAGE", "LOG_DAMAGE"]

LOG_DAMAGE: Final = {
    # --- framing: storage.scan --------------------------------------------------------------------------------------
    "torn-tail": "The last batch ends behind the end of the file: an append cut short.",
    "zero-filled": "Zero bytes: preallocated space behind the last batch, or a hole that a crash left.",
    "bad-length": "A length that cannot be true, is too small for its magic, or passes the end of the file.",
    "unknown-magic": "A magic of no known format.",
    "crc-mismatch": "A batch whose checksum is not that of its bytes.",
    "over-limit": "A batch larger than --max-batch-bytes; it was stepped over.",
    "unreadable": "Bytes that the disk cannot read, with the batch that they are in.",
    "offset-order": "A whole batch whose offsets go back behind those before it, or below the number in the file name.",
    # --- payload under a good checksum: format.decode -----------------------------------------------------------------
    "payload": "Compressed records that their codec refuses.",
    "payload-limit": "Compressed records that inflate to more than --max-batch-bytes, or stand in over 262,144 parts.",
    "payload-truncated": "Compressed records that end early.",
    "payload-trailing": "Bytes behind the end of compressed records, which Kafka ignores; the records were read.",
    "wrapper-value": "A compressed message whose key and value lengths do not fit, or that has no value.",
    "record-length": "A record whose length is negative or passes the end of its batch.",
    "record-varint": "A variable-length integer that is cut or too long.",
    "record-key": "A key that passes the end of its record.",
    "record-value": "A value that passes the end of its record.",
    "record-headers": "Headers that pass the end of their record, or a negative count or length.",
    "record-trailing": "A record whose fields end before its length does, or that has none.",
    "record-count": "A record count that is negative, or bytes behind the last record.",
    "headers-limit": "A record with more than a million headers.",
    "message-length": "An inner message whose size cannot be true.",
    "message-key": "An inner message whose key passes its end.",
    "message-value": "An inner message whose value passes its end.",
    "message-magic": "An inner message of an unknown magic.",
    "message-nested": "A compressed message inside of a compressed one, which only Kafka 0.7 writes.",
    "message-cut": "A set of inner messages that ends inside of one; consumers get those before it.",
    "message-crc": "A message inside of a wrapper of 0.7 whose checksum is wrong, under a good one of the wrapper.",
    "message-empty": "A compressed message without a message in it.",
    "message-offset": "Relative inner offsets that pass the offset of their wrapper.",
}

ENTRY_DAMAGE: Final = {
    "malformed-line": "A line of a text file that does not follow the file's grammar.",
    "partial-entry": "Bytes at the end of an index that are fewer than an entry.",
    "snapshot-crc-mismatch": "A producer snapshot whose checksum is not that of its bytes.",
    "snapshot-entry-count": "A producer snapshot whose size is not that of the number of entries in its header.",
    "snapshot-truncated": "A producer snapshot that ends before its last entry.",
    "snapshot-version": "A producer snapshot of a version that does not exist.",
    "too-large": "A file far larger than any of its kind; it was not read.",
    "unreadable": "Bytes that the disk cannot read.",
}
