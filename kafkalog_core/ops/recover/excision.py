"""The excision of damaged places: the new content of segments, of their indexes, and what is lost."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.ops.recover.places import DamagedPlace
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["ExcisedPlace", "ExcisedSegment", "Excision", "Way", "excise", "stage_excision"]

Way = Literal["emptied", "removed", "mended", "marker", "left"]
"""`emptied`: an empty batch takes its place. `removed`: its bytes are removed. `mended`: fields of the header that no
checksum covers are corrected, and every record is kept. `marker`: the transaction marker is rebuilt. `left`: nothing
changes, and `refusal` says why."""


class ExcisedPlace(Struct, frozen=True, kw_only=True):
    """What becomes of one damaged place.

    Args:
        place: where it was.
        way: what takes its place.
        content: the new bytes.
        reconstructed: fields of the new batch that were not taken from its header, each a clause with its source.
        refusal: why it is left, a clause; empty: it is not.
    """

    place: DamagedPlace
    way: Way
    content: bytes = b""
    reconstructed: tuple[str, ...] = ()
    refusal: str = ""


class ExcisedSegment(Struct, frozen=True, kw_only=True):
    """A segment whose log is rewritten: kept bytes of the old one, and new bytes in place of others.

    Args:
        segment: its files as they are.
        places: what is replaced, ascending.
        size_bytes: size of the new log.
        recovery: its new indexes, as a recovery builds them.
    """

    segment: Segment
    places: tuple[ExcisedPlace, ...]
    size_bytes: int
    recovery: SegmentRecovery

    def pieces(self) -> Iterator[bytes]:
        """Yield the new log in pieces of bounded size. Raises StorageError."""
        raise NotImplementedError


class Excision(Struct, frozen=True, kw_only=True):
    """The excision of damaged places of one partition.

    Args:
        partition: its files as they are.
        segments: those that are rewritten, ascending.
        left: places that are not excised, each with its refusal; tails are not among them.
        planned: the files of the partition as they are afterwards, with the sizes of the new logs and indexes. A reader
            sees their content within `reading`.
        losses: what is lost to readers, one for each place that held records.
        hanging: transactions that stay open because the marker that ended them is lost: producer id, producer epoch and
            first offset.
    """

    partition: Partition
    segments: tuple[ExcisedSegment, ...] = ()
    left: tuple[ExcisedPlace, ...] = ()
    planned: Partition
    losses: tuple[Loss, ...] = ()
    hanging: tuple[tuple[int, int, int], ...] = ()

    @contextmanager
    def reading(self) -> Iterator[Partition]:
        """Within it, every reader of this process sees the new files; yields `planned`.

        So the later steps of one plan (a truncation of the tail, a simulated start, snapshots, leader epochs) work on
        the log as it will be, before anything is written.
        """
        raise NotImplementedError


def excise(
    partition: Partition,
    facts: PartitionFacts,
    places: Sequence[DamagedPlace],
    advance: Callable[[int], None] = lambda _: None,
) -> Excision:
    """Decide what takes the place of each damaged place, and rebuild the indexes of their segments.

    The simulated recovery of every new segment passes without truncating a byte; a place for which no such content is
    found is left, with the reason. Places that are tails are ignored, unless another place of the same segment is
    excised: then the tail is dropped from the new log too. Nothing is written. Raises StorageError.

    Args:
        partition: its files.
        facts: its log directory, the release and the settings.
        places: of `find_places`, all of them: those after a place decide what it can become.
        advance: called with the bytes of log that are read.
    """
    raise NotImplementedError


def stage_excision(excision: Excision, stage: Stage) -> None:
    """Stage the new segments, each with its indexes as one replacement (`swap`), from the first to the last.

    It stages nothing else: snapshots, leader epochs, checkpoints and the clean shutdown file are not touched. Every
    producer snapshot that a broker wrote stays right, because an empty batch carries what the batch before it did.
    """
    raise NotImplementedError
