"""A damaged place with what takes its place, and what readers lose with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.format.layout import MAGIC_V2, TRANSACTIONAL_BIT
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.ops.recover.segment_reading import neighbour
from kafkalog_core.ops.repair.loss import Loss, cure_of_loss
from kafkalog_core.storage.planned import Patch, Pieces, patched
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.ops.recover.places import DamagedPlace
    from kafkalog_core.ops.recover.replacements import Substitute
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["ExcisedPlace", "ExcisedSegment", "indexes_of", "is_lost_marker", "loss_of", "offsets_of"]


class ExcisedPlace(NamedTuple):
    """A damaged place, and what takes its place."""

    place: DamagedPlace
    choice: Substitute


class ExcisedSegment(Struct, frozen=True, kw_only=True):
    """A segment whose log is rewritten: kept bytes of the old one, and new bytes in place of others.

    Args:
        segment: its files as they are.
        places: what is replaced, ascending.
        tail: the first of the places at its end that no batch follows: they are dropped; None: there is none.
        indexes: the contents of its indexes, by kind, as a recovery builds them; a kind that is missing has no file.
    """

    segment: Segment
    places: tuple[ExcisedPlace, ...]
    tail: DamagedPlace | None
    indexes: Mapping[FileKind, bytes]

    @property
    def size_bytes(self) -> int:
        """Size of the new log."""
        return self.segment.size_bytes + sum(len(each.content) - (each.end - each.start) for each in self.patches)

    @property
    def patches(self) -> list[Patch]:
        """The bytes of the old log that are replaced."""
        found = [Patch(each.place.start, each.place.end, each.choice.content) for each in self.places]
        return found if self.tail is None else [*found, Patch(self.tail.start, self.segment.size_bytes, b"")]

    @property
    def drops_txn_index(self) -> bool:
        """Whether its transaction index is deleted."""
        return self.segment.txnindex is not None and FileKind.TXN_INDEX not in self.indexes

    def path_of(self, kind: FileKind) -> str:
        """Return the path of one of its files."""
        directory = self.segment.files[0].path.rpartition("/")[0]
        return f"{directory}/{segment_file_name(self.segment.base_offset, kind)}"

    def pieces(self) -> Pieces:
        """Return the new log: slices of the old one, and new bytes."""
        return patched(self.segment.files[0].path, self.segment.size_bytes, self.patches)

    def indexed(self, recovery: SegmentRecovery | None) -> ExcisedSegment | None:
        """Return it with the indexes of its recovery; None: it was not recovered, or needs a new transaction index."""
        if recovery is None or (recovery.txn_index and FileKind.TXN_INDEX not in self.indexes):
            return None
        return replace(self, indexes={**self.indexes, **indexes_of(recovery)})


def indexes_of(recovery: SegmentRecovery) -> dict[FileKind, bytes]:
    """Return the offset index and, where the release has one, the time index that a recovery builds."""
    found = {FileKind.OFFSET_INDEX: recovery.offset_index}
    return found if recovery.time_index is None else {**found, FileKind.TIME_INDEX: recovery.time_index}


def is_lost_marker(excised: ExcisedPlace) -> bool:
    """Return whether an emptied place was a transaction marker, as far as its header shows."""
    header, choice = excised.place.header, excised.choice
    is_marker = header is not None and header.has_valid_producer and header.is_control
    return is_marker and choice.way == "emptied"


def offsets_of(place: DamagedPlace) -> tuple[int, int] | None:
    """Return the first and last offset that are lost with a place that is emptied or removed; None: no offset is.

    A whole batch in the wrong order takes its own offsets with it, unless another batch of its segment has them too.
    """
    is_known = place.first_offset is not None and place.last_offset is not None
    if place.kind != "misplaced" or (is_known and not place.is_whole):
        first_offset, last_offset = place.first_offset, place.last_offset
        return None if first_offset is None or last_offset is None else (first_offset, last_offset)
    own: list[tuple[int, int, int]] = []
    others: list[tuple[int, int]] = []
    copies: set[tuple[int, int, int]] = set()
    with Source.open(place.path) as source:
        for item in scan(source, base_offset=place.segment.base_offset, options=ScanOptions(resync=True)):
            if not isinstance(item, Run):
                continue
            names = ("base_offset", "last_offset", "crc_stored", "position", "record_count")
            rows = zip(*map(item.batches.column, names), strict=True)
            for row, (base, last, crc, position, count) in enumerate(rows):
                # The first offset of a compressed message of magic 0 and 1 is in its content alone
                if place.start <= position < place.end:
                    own.append((base if base >= 0 else neighbour(item, row).first_offset, last, crc))
                    continue
                first = base if base >= 0 else last
                copies.add((first, last, crc))
                # One with fewer records than offsets does not have all of them
                if count == last - first + 1:
                    others.append((first, last))
    left = [
        (first, last)
        for first, last, crc in own
        if (first, last, crc) not in copies and not any(low <= first and last <= high for low, high in others)
    ]
    return (min(first for first, _ in left), max(last for _, last in left)) if left else None


def loss_of(partition: Partition, watermark: int | None, excised: ExcisedPlace) -> Loss | None:
    """Return what is lost with a place; None: no record, as far as its header and the batches around it show.

    watermark: the high watermark; None: unknown.
    """
    place, choice = excised
    lost = offsets_of(place)
    if lost is None or choice.way not in {"emptied", "removed"} or is_lost_marker(excised):
        return None
    first, last = lost
    header = place.header
    is_own = header is not None and header.magic == MAGIC_V2 and header.has_valid_producer
    own = header if is_own and header is not None and header.last_offset_delta == last - first else None
    records = None if own is None or not 0 <= own.record_count <= last - first + 1 else own.record_count
    if place.magic < MAGIC_V2 and place.kind == "chosen" and first == last:
        records = 1
    return Loss(
        topic=partition.topic,
        partition=partition.partition,
        path=place.path,
        first_offset=first,
        next_offset=last + 1,
        records=records,
        bytes=place.size_bytes,
        committed_records=None if records is None or watermark is None else records if last < watermark else 0,
        first_timestamp_ms=None if own is None or own.first_timestamp_ms < 0 else own.first_timestamp_ms,
        max_timestamp_ms=None if own is None or own.max_timestamp_ms < 0 else own.max_timestamp_ms,
        transactions=0 if own is None else int(bool(own.attributes & TRANSACTIONAL_BIT)),
        producers=0 if own is None else int(own.producer_id >= 0),
        cure=cure_of_loss(first, watermark),
    )
