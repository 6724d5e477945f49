"""Fields of a log file that no checksum and no other file protects: changes that leave no trace.

Pure data. A test changes every byte and every bit of small segments of each format, and cuts them at every length: the
changes without a finding are exactly those in this list. kafkalog-format(5) is generated from it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.format.layout import BATCH_V2, MESSAGE_V0, MESSAGE_V07_1, MESSAGE_V1

if TYPE_CHECKING:
    from kafkalog_core.format.layout import Layout

__all__ = ["UNPROTECTED_FIELDS", "UNPROTECTED_LENGTH", "VALUES", "UnprotectedField", "Values"]

Values = Literal["any", "in order", "same codec or none"]

VALUES: Final[dict[Values, str]] = {
    "any": "any value, in any batch",
    "in order": (
        "a value that keeps the order of offsets: not below the number in the file name, above the batch before and "
        "below the next batch; if offsets have no gaps, any larger value in the last batch of a file"
    ),
    "same codec or none": "any value with the same codec, or with none",
}


class UnprotectedField(NamedTuple):
    """A field outside every checksum: which of its values leave no trace, and why."""

    layout: Layout
    field: str
    values: Values
    why: str


UNPROTECTED_FIELDS: Final = (
    UnprotectedField(
        BATCH_V2,
        "baseOffset",
        "in order",
        "The leader writes it on append, so the producer's checksum cannot cover it. All offsets of the batch change "
        "with it.",
    ),
    UnprotectedField(
        BATCH_V2,
        "partitionLeaderEpoch",
        "any",
        "The leader writes it on append. The leader-epoch-checkpoint has the first offset of each epoch, but the log "
        "may be ahead of it.",
    ),
    UnprotectedField(
        MESSAGE_V1,
        "offset",
        "in order",
        "The leader writes it before the message that the checksum covers. In a compressed message it is the offset "
        "of the last inner message, and only that is compared; all inner offsets change with it.",
    ),
    UnprotectedField(
        MESSAGE_V0,
        "offset",
        "in order",
        "The leader writes it before the message that the checksum covers. In a compressed message it is the offset "
        "of the last inner message, and only that is compared; the inner offsets are absolute and do not change.",
    ),
    UnprotectedField(
        MESSAGE_V07_1,
        "attributes",
        "same codec or none",
        "The checksum covers only the payload. The bits after the codec are unused; a wrapper without its codec is a "
        "message with a compressed payload.",
    ),
)
UNPROTECTED_LENGTH: Final = (
    "A file that ends where a batch ends is a legal log: nothing in it shows that batches followed. The indexes, "
    "the producer snapshots and the checkpoints may show it."
)
