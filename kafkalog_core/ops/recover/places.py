"""The damaged places of a partition: bytes at which a broker's recovery truncates the log, or its start stops.

One read of every log, with a search for batches after damage. Nothing is decided here about what takes their place.

The offsets that are lost with a place are those between the batches around it. Where several damaged batches follow
each other, the header of each divides these offsets among them, if it can be right: no checksum holds for it any more.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.format.layout import MAGIC_V2, MAX_INT32
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.batch_places import PlaceWatch, partition_bounds
from kafkalog_core.kafka.sim.start.candidates import first_recovered, lone_occasion
from kafkalog_core.ops.recover.order import exchanged_batches
from kafkalog_core.ops.recover.segment_reading import (
    AdjacentPlaces,
    BadBatch,
    BrokerAct,
    FollowedLogs,
    Neighbour,
    PlaceBytes,
    PlaceKind,
    SegmentReader,
    SegmentReading,
)
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.ops.recover.headers import PlaceHeader
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import LossCount
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "DamagedPlace",
    "OffsetSource",
    "find_places",
]

OffsetSource = Literal["header", "neighbours", "none"]
"""How the lost offsets are known: from the header of the damaged batch, from the batches around it, or there are none
missing between these."""

_METADATA: Final = "Kafka's raft client refuses a batch without records, so nothing can take its place in this log"
_OVER_LIMIT: Final = "it is larger than kafkalog's own limit of a batch, and may be sound"
_COPY: Final = "copy"
_WRONG_OFFSETS: Final = frozenset({"misplaced", "moved", "overlong"})


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
        first_offset: the lowest offset that is lost with it; None: none is, or it is a tail, of which it is unknown.
        last_offset: the highest offset that is lost with it; None: as above.
        offsets_from: how these offsets are known.
        header: of the batch of magic 2 that may be there; None: there is none, or it is a batch of another magic.
        is_whole: whether its checksum is right, so that all its records are there, whatever is wrong with its header.
        before: the readable batch before it, of whatever segment; None: there is none.
        after: the readable batch after it, of whatever segment; None: there is none.
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
    header: PlaceHeader | None = None
    is_whole: bool = False
    before: Neighbour | None = None
    after: Neighbour | None = None
    refusal: str = ""

    @property
    def path(self) -> str:
        """Path of the log file."""
        return self.segment.files[0].path

    @property
    def size_bytes(self) -> int:
        """Size of the place in bytes."""
        return self.end - self.start

    @property
    def is_excisable(self) -> bool:
        """Whether `excise` takes it."""
        return not self.is_tail and not self.refusal


def find_places(
    partition: Partition,
    facts: PartitionFacts,
    advance: Callable[[int], None],
    *,
    chosen: Mapping[str, Mapping[int, BadBatch]] | None = None,
    followed: FollowedLogs | None = None,
    counts: Mapping[str, LossCount] | None = None,
) -> tuple[DamagedPlace, ...]:
    """Return the damaged places of a partition in the order of the log; empty: recovery reads all of it.

    Raises StorageError.

    Args:
        partition: its files; of 0.7 there are no places.
        facts: its log directory, the release and the settings.
        advance: called with the bytes of log that are read.
        chosen: whole batches that count as damaged, by the path of the log and the position of the batch.
        followed: what was read of the logs, and is not read again; None: nothing was.
        counts: by the path of a log, what also takes all that is read of it here.
    """
    if partition.format == "v07":
        return ()
    segments = [segment for segment in partition.segments if segment.log is not None]
    bounds = partition_bounds(partition)
    readings: list[SegmentReading] = []
    for segment in segments:
        path, own = segment.files[0].path, bounds[segment.base_offset]
        reader = None if followed is None else followed.reader_of(segment, own)
        reader = reader or SegmentReader(segment, facts, (chosen or {}).get(path, {}), PlaceWatch(own))
        last = None if not readings else readings[-1].last
        end_before = None if last is None else last.last_offset + 1
        readings.append(reader.finished(own, end_before, (counts or {}).get(path)))
        advance(segment.size_bytes)
    if not any(reading.holes for reading in readings):
        return ()
    return tuple(map(_with_neighbour, _placed(partition, segments, readings, facts)))


# --- all segments -----------------------------------------------------------------------------------------------------
def _placed(
    partition: Partition, segments: list[Segment], readings: list[SegmentReading], facts: PartitionFacts
) -> Iterator[DamagedPlace]:
    """Yield the places with the offsets that are lost with each."""
    recovered = _recovered(partition, segments, facts)
    is_metadata = partition.topic == METADATA_TOPIC
    before: Neighbour | None = None
    for number, (segment, reading) in enumerate(zip(segments, readings, strict=True)):
        following = next((each.first for each in readings[number + 1 :] if each.first is not None), None)
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else None
        # A whole batch of a later segment is kept, whatever is wrong with its offsets
        later = [hole for each in readings[number + 1 :] for hole in each.holes]
        is_followed = any(part.is_whole for hole in later for part in hole.parts)
        for hole in reading.holes:
            hole.before = hole.before or before
            within = hole.after is not None
            hole.after = hole.after or following
            low = segment.base_offset if hole.before is None else max(segment.base_offset, hole.before.last_offset + 1)
            high = _highest(segment, hole.after, next_base, is_within=within)
            hole.parts = [
                part if _is_inside_run(hole, number) else _without_copy(segments, segment, part)
                for number, part in enumerate(hole.parts)
            ]
            for part, first, last, source in _shares(hole, low, high, most=segment.base_offset + MAX_INT32):
                yield DamagedPlace(
                    segment=segment,
                    start=part.start,
                    end=part.end,
                    kind=part.what.kind,
                    reason=part.what.reason,
                    detail=part.what.detail,
                    broker=part.what.broker,
                    is_recovered=segment.base_offset in recovered,
                    is_tail=not is_followed and _is_tail(part, hole),
                    magic=_magic(part, hole, facts),
                    first_offset=first,
                    last_offset=last,
                    offsets_from=source,
                    header=part.header,
                    is_whole=part.is_whole,
                    before=hole.before,
                    after=hole.after,
                    refusal=_METADATA if is_metadata else _OVER_LIMIT if part.what.reason == "over-limit" else "",
                )
        before = reading.last or before


def _with_neighbour(place: DamagedPlace) -> DamagedPlace:
    """Return the place of both batches if a misplaced one was exchanged with its neighbour; else the place itself."""
    if place.kind != "misplaced" or not place.is_whole:
        return place
    both = exchanged_batches(place.path, place.segment.base_offset, place.start)
    return place if both is None else replace(place, kind="exchanged", header=None, **both._asdict())


def _is_inside_run(hole: AdjacentPlaces, number: int) -> bool:
    """Return whether a part is neither the first nor the last one of batches that are moved together."""
    around = hole.parts[max(0, number - 1) : number + 2]
    return len(around) == 3 and all(part.what.kind == "moved" for part in around)


def _without_copy(segments: list[Segment], segment: Segment, part: PlaceBytes) -> PlaceBytes:
    """Return a part without its batch if that is a copy of another one of the log: then it holds no offset of its own.

    Such as an append that was written twice. With other offsets its records would be in the log twice.
    """
    own = _identity(segment, part)
    if own is None or part.what.kind not in {"damage", *_WRONG_OFFSETS}:
        return part
    # The base offset of a compressed message of magic 0 and 1 is not in its header: -1
    offset = own[0] if own[0] >= 0 else own[1]
    holder = next((each for each in reversed(segments) if each.base_offset <= offset), None)
    if holder is None:
        return part
    with Source.open(holder.files[0].path) as source:
        for position, *rest in _identities(source, holder.base_offset):
            if tuple(rest) == own and (holder is not segment or position != part.start):
                what = part.what._replace(reason=_COPY, detail=f"a copy of the batch at offset {offset}")
                return part._replace(what=what, header=None, is_whole=False, batch=None)
    return part


def _identity(segment: Segment, part: PlaceBytes) -> tuple[int, int, int] | None:
    """Return base offset, last offset and checksum of the whole batch in a part; None: there is none."""
    header = part.header
    if header is not None and header.is_whole:
        return header.base_offset, header.last_offset, header.crc
    if part.batch is None:
        return None
    with Source.open(segment.files[0].path) as source:
        found = _identities(source, segment.base_offset, part.start, part.end)
        return next(((base, last, crc) for _, base, last, crc in found), None)


def _identities(
    source: Source, base_offset: int, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, int, int, int]]:
    """Yield position, base offset, last offset and checksum of each readable batch between two bytes of a log."""
    options = ScanOptions(resync=True, check=False)
    for item in scan(source, base_offset=base_offset, options=options, start=start, end=end or source.size_bytes):
        if not isinstance(item, Damage):
            columns = map(item.batches.column, ("position", "base_offset", "last_offset", "crc_stored"))
            yield from zip(*columns, strict=True)


def _is_tail(part: PlaceBytes, hole: AdjacentPlaces) -> bool:
    """Return whether the log ends with a place, so that it is truncated there.

    A whole batch of magic 2 at the end can be mended or emptied: the log end offset does not change. Where one whole
    batch has wrong offsets, no broker truncates at it: it serves the batch, or empties the segment
    (`LogLoader.recoverLog`, InvalidOffsetException). Nor at a compressed message that does not open: what it appends
    after that cannot be fetched.
    """
    is_alone = len(hole.parts) == 1 or all(each.what.reason == _COPY for each in hole.parts)
    if part.what.kind in {"moved", "overlong", "closed"} or (part.what.kind == "misplaced" and is_alone):
        return False
    keeps_end = part.header is not None and part.header.is_framed(part.end - part.start) and part.batch is not None
    headers = [each.header for each in hole.parts if each.header is not None and each.header.is_whole]
    ascends = all(one.last_offset < other.base_offset for one, other in pairwise(headers))
    is_mended = len(headers) == len(hole.parts) and ascends
    return hole.after is None and not keeps_end and not is_mended


def _recovered(partition: Partition, segments: list[Segment], facts: PartitionFacts) -> set[int]:
    """Return the base offsets of the segments that the next start recovers."""
    bases, rules = [segment.base_offset for segment in segments], rules_of(facts.release)
    first = first_recovered(bases, facts.context, partition.topic, facts.release)
    found = set() if first is None else {*bases[first:]}
    for segment in segments:
        if lone_occasion(segment, rules, has_index=segment.index is not None) in {"no-index", "odd-index"}:
            found.add(segment.base_offset)
    return found


def _highest(segment: Segment, after: Neighbour | None, next_base: int | None, *, is_within: bool) -> int | None:
    """Return the highest offset that can be lost before a readable batch; None: there is none after the place."""
    if after is None:
        return None
    if is_within:
        return after.first_offset - 1
    # LogSegment.canConvertToRelativeOffset: an index can hold no higher one. Offsets above it stay a gap, as compaction
    # leaves one before a segment.
    limit = segment.base_offset + MAX_INT32
    return limit if next_base is None else min(limit, next_base - 1)


def _shares(
    hole: AdjacentPlaces, low: int, high: int | None, *, most: int
) -> Iterator[tuple[PlaceBytes, int | None, int | None, OffsetSource]]:
    """Yield the places of a hole, each with its first and last offset: those that no header names get what is left.

    Consecutive places without a header that can be right become one.

    Args:
        hole: damaged places that follow each other.
        low: the lowest offset that can be lost.
        high: the highest one; None: unknown, as nothing follows.
        most: the highest one that an index of the segment can hold.
    """
    waiting: list[PlaceBytes] = []
    for number, part in enumerate(hole.parts):
        span = _span(part, low, high, [each.header for each in hole.parts[number + 1 :]])
        if span is None or span[1] > most:
            waiting.append(part)
            continue
        yield from _left_over(waiting, low, span[0] - 1)
        waiting = []
        yield part, *span, "header"
        low = span[1] + 1
    yield from _left_over(waiting, low, high)


def _span(part: PlaceBytes, low: int, high: int | None, later: list[PlaceHeader | None]) -> tuple[int, int] | None:
    """Return the offsets that the header of a place names, if they can be right; None: they cannot.

    They can be right if they are between the batches around it, and leave room for what follows: a later header in the
    same hole that begins at or below its end contradicts it.
    """
    header = part.header
    # Of a batch that readers read, they are right
    if part.batch is not None and part.what.kind not in _WRONG_OFFSETS:
        return part.batch.first_offset if part.batch.is_open else low, part.batch.last_offset
    if header is not None and part.what.kind == "overlong":
        # As many as the header counts, or up to the next batch (`wrong_ends`)
        limit = high if not later or later[0] is None else later[0].base_offset - 1
        end = header.base_offset + header.record_count - 1
        if limit is not None and not header.base_offset <= end <= limit:
            end = limit
        return (header.base_offset, end) if low <= header.base_offset <= end else None
    if header is None or part.what.kind in _WRONG_OFFSETS:
        return None
    # The length of a whole batch is that of the place, whatever its header says
    if not header.is_whole and not header.is_framed(part.end - part.start):
        return None
    first, last = header.base_offset, header.last_offset
    if not low <= first <= last or (high is not None and last > high):
        return None
    named = [each.base_offset for each in later if each is not None and low <= each.base_offset <= (high or last)]
    return None if any(other <= last for other in named) else (first, last)


def _left_over(
    waiting: list[PlaceBytes], low: int, high: int | None
) -> Iterator[tuple[PlaceBytes, int | None, int | None, OffsetSource]]:
    """Yield places without an own header, merged where they follow each other, with the offsets from low to high."""
    if not waiting:
        return
    part, end = waiting[0], waiting[-1]
    # Their right offsets are those that are missing, or continue the log before them
    if part.batch is not None and end.batch is not None and all(each.what.kind == "moved" for each in waiting):
        is_whole = part.header is not None and part.header.is_whole
        first = part.header.base_offset if part.header is not None and is_whole else part.batch.first_offset
        span = end.batch.last_offset - first
        if high is None or high == low + span:
            run = PlaceBytes(part.start, end.end, part.what, None, is_whole=False, batch=end.batch)
            yield run, low, low + span, "neighbours"
            return
    # A whole batch is mended only where it is alone: then its offsets are all that are missing
    if len(waiting) > 1:
        reasons = dict.fromkeys(each.what.reason for each in waiting)
        kind: PlaceKind = "misplaced" if part.what.kind == "moved" else part.what.kind
        what = part.what._replace(kind=kind, reason=", ".join(reasons))
        part = PlaceBytes(part.start, end.end, what, None, is_whole=False)
    if high is None and part.is_whole and part.header is not None:
        high = low + max(0, part.header.last_offset_delta)
    elif high is None and part.batch is not None and part.batch.is_open:
        high = low + part.batch.last_offset - part.batch.first_offset
    if high is None or low > high:
        yield part, None, None, "none"
    else:
        yield part, low, high, "neighbours"


def _magic(part: PlaceBytes, hole: AdjacentPlaces, facts: PartitionFacts) -> int:
    """Return the magic of what takes a place: 2 next to a batch of magic 2, else that of the messages around it."""
    if part.batch is not None:
        return part.batch.magic
    around = [each.magic for each in (hole.before, hole.after) if each is not None]
    # A release without producers cannot read magic 2
    if not rules_of(facts.release).has_producers:
        return min([*around, MAGIC_V2 - 1])
    return max(around, default=MAGIC_V2)
