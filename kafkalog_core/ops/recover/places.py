"""The damaged places of a partition: bytes at which a broker's recovery truncates the log, or its start stops.

One read of every log, with a search for batches after damage. Nothing is decided here about what takes their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["BrokerAct", "DamagedPlace", "OffsetSource", "PlaceKind", "find_places"]

PlaceKind = Literal["damage", "misplaced", "refused", "chosen"]
"""`damage`: bytes that form no readable batch. `misplaced`: a whole batch with offsets that cannot be right. `refused`:
a whole batch at which recovery throws an exception, or truncates the log after it. `chosen`: a batch that the user
named."""
BrokerAct = Literal["truncates", "stops", "serves"]
"""What a broker does that recovers the segment: it truncates the log, it does not start, or it goes on."""
OffsetSource = Literal["header", "neighbours", "none"]
"""How the lost offsets are known: from the header of the damaged batch, from the batches around it, or there are none
missing between these."""


class DamagedPlace(Struct, frozen=True, kw_only=True):
    """A place in one log at which a broker's recovery does not go on.

    Args:
        segment: the files of its segment.
        start: its first byte in the log.
        end: the byte after its last one.
        kind: what is there.
        reason: a stable word: a reason of `Damage`, `offset-order`, or the kind of a recovery's problem.
        detail: the same as a clause.
        broker: what a broker does here when it recovers the segment.
        is_recovered: whether the next start recovers the segment, by the recovery point and the clean shutdown file; if
            not, it serves what is here.
        is_tail: whether no readable batch follows in the whole log: the log is truncated here, not excised.
        magic: of the batches that take its place: 2, or that of the messages around it.
        first_offset: the lowest offset that is lost with it; None: none is.
        last_offset: the highest offset that is lost with it; None: none is, or it is a tail, of which it is unknown.
        offsets_from: how these offsets are known.
        refusal: why it cannot be excised, as a clause; empty: it can.
    """

    segment: Segment
    start: int
    end: int
    kind: PlaceKind
    reason: str
    detail: str
    broker: BrokerAct
    is_recovered: bool
    is_tail: bool
    magic: int
    first_offset: int | None
    last_offset: int | None
    offsets_from: OffsetSource
    refusal: str = ""

    @property
    def size_bytes(self) -> int:
        """Size of the place in bytes."""
        return self.end - self.start

    @property
    def is_excisable(self) -> bool:
        """Whether `excise` takes it."""
        return not self.is_tail and not self.refusal


def find_places(
    partition: Partition, facts: PartitionFacts, advance: Callable[[int], None]
) -> tuple[DamagedPlace, ...]:
    """Return the damaged places of a partition in the order of the log; empty: recovery reads all of it.

    Raises StorageError.

    Args:
        partition: its files; of 0.7 there are no places.
        facts: its log directory, the release and the settings.
        advance: called with the bytes of log that are read.
    """
    raise NotImplementedError
