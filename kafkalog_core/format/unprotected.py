"""What nothing on disk protects: changes of a log file that leave no trace, field by field.

Pure data. A test changes every byte and every bit of small segments of each format, and cuts them at every length: the
changes without a finding are exactly those that this list allows. The manual's page on formats is made from it too.
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
        "below the batch behind; where offsets have no gaps, any larger value in the last batch of a file"
    ),
    "same codec or none": "any value that leaves the codec as it is, or makes it none",
}


class UnprotectedField(NamedTuple):
    """A field outside of every checksum: which of its values leave no trace, and why."""

    layout: Layout
    field: str
    values: Values
    why: str


UNPROTECTED_FIELDS: Final = (
    UnprotectedField(
        BATCH_V2,
        "baseOffset",
        "in order",
        "Written by the leader when it appends, so the producer's checksum cannot cover it. All offsets of the batch "
        "move with it.",
    ),
    UnprotectedField(
        BATCH_V2,
        "partitionLeaderEpoch",
        "any",
        "Written by the leader when it appends. The leader-epoch-checkpoint knows where epochs start, but a log may "
        "run ahead of it.",
    ),
    UnprotectedField(
        MESSAGE_V1,
        "offset",
        "in order",
        "Written by the leader in front of the message that the checksum covers. Of a compressed message it is the "
        "last offset inside, and that one alone is compared; all offsets inside move with it.",
    ),
    UnprotectedField(
        MESSAGE_V0,
        "offset",
        "in order",
        "Written by the leader in front of the message that the checksum covers. Of a compressed message it is the "
        "last offset inside, and that one alone is compared; the offsets inside are stored whole and do not move.",
    ),
    UnprotectedField(
        MESSAGE_V07_1,
        "attributes",
        "same codec or none",
        "The checksum covers the payload alone. The bits behind the codec are not used; a wrapper whose codec is lost "
        "is a message whose payload happens to be compressed.",
    ),
)
UNPROTECTED_LENGTH: Final = (
    "A file that ends where a batch ends is a legal log: nothing in it tells of batches that followed. The indexes, "
    "the producer snapshots and the checkpoints beside it may."
)
