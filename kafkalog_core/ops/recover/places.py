"""The damaged places of a partition: bytes at which a broker's recovery truncates the log, or its start stops.

One read of every log, with a search for batches after damage. Nothing is decided here about what takes their place.

The offsets that are lost with a place are those between the batches around it. Where several damaged batches follow
each other, the header of each divides these offsets among them, if it can be right: no checksum holds for it any more.
"""

from __future__ import annotations

from itertools import pairwise
from operator import lt
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.format.decode import RecordRun, decode_batch
from kafkalog_core.format.layout import MAGIC_V2, MAX_BATCH_BYTES, MAX_INT32
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.batch_places import PlaceWatch, misplaced_batches, partition_bounds
from kafkalog_core.kafka.sim.start.candidates import first_recovered, lone_occasion
from kafkalog_core.kafka.sim.start.recovery import first_empty_marker, marker_fault, recover_segment
from kafkalog_core.ops.recover.headers import PlaceHeader, is_whole_message, read_header
from kafkalog_core.ops.recover.order import exchanged_batches, moved_batches, wrong_ends
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Run

__all__ = [
    "BadBatch",
    "BrokerAct",
    "DamagedPlace",
    "Neighbour",
    "OffsetSource",
    "PlaceKind",
    "find_places",
    "neighbour",
]

PlaceKind = Literal["damage", "misplaced", "exchanged", "moved", "overlong", "refused", "chosen"]
"""`damage`: bytes that form no readable batch. `misplaced`: a whole batch with offsets that cannot be right.
`exchanged`: two whole batches in the wrong order. `moved`: whole batches that follow each other, with offsets that are
wrong by the same number. `overlong`: a whole batch with a last offset that no record has. `refused`: a whole batch at
which a broker stops when it reads its marker, or looks at its transaction. `chosen`: a batch that the user named."""
BrokerAct = Literal["truncates", "stops", "serves"]
"""What a broker does that recovers the segment: it truncates the log, it does not start, or it goes on."""
OffsetSource = Literal["header", "neighbours", "none"]
"""How the lost offsets are known: from the header of the damaged batch, from the batches around it, or there are none
missing between these."""

_METADATA: Final = "Kafka's raft client refuses a batch without records, so nothing can take its place in this log"
_OVER_LIMIT: Final = "it is larger than kafkalog's own limit of a batch, and may be sound"
_COPY: Final = "copy"
_WRONG_OFFSETS: Final = frozenset({"misplaced", "moved", "overlong"})
_MARKER: Final = "a control batch of a producer that holds no marker"
_MARKER_KEPT: Final = "a control batch of a producer that cannot be read"
_EMPTY_MARKER: Final = "a control batch that compaction has emptied, at which releases before 2.0 stop"


class Neighbour(NamedTuple):
    """A readable batch next to a damaged place, as far as its header counts for what takes the place.

    `is_open`: whether its first offset is known, which that of a compressed message of magic 0 or 1 is if it opens; if
    not, `first_offset` is the last one.
    """

    first_offset: int
    last_offset: int
    magic: int
    leader_epoch: int
    max_timestamp_ms: int
    attributes: int
    is_open: bool = True


class BadBatch(NamedTuple):
    """Why a whole batch is a damaged place."""

    kind: PlaceKind
    reason: str
    detail: str
    broker: BrokerAct


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
) -> tuple[DamagedPlace, ...]:
    """Return the damaged places of a partition in the order of the log; empty: recovery reads all of it.

    Raises StorageError.

    Args:
        partition: its files; of 0.7 there are no places.
        facts: its log directory, the release and the settings.
        advance: called with the bytes of log that are read.
        chosen: whole batches that count as damaged, by the path of the log and the position of the batch.
    """
    if partition.format == "v07":
        return ()
    segments = [segment for segment in partition.segments if segment.log is not None]
    bounds = partition_bounds(partition)
    readings: list[_Reading] = []
    for segment in segments:
        named = (chosen or {}).get(segment.files[0].path, {})
        last = None if not readings else readings[-1].last
        end_before = None if last is None else last.last_offset + 1
        readings.append(_read(segment, bounds[segment.base_offset], facts, named, end_before))
        advance(segment.size_bytes)
    if not any(reading.holes for reading in readings):
        return ()
    return tuple(map(_with_neighbour, _placed(partition, segments, readings, facts)))


# --- one segment ------------------------------------------------------------------------------------------------------
class _Bytes(NamedTuple):
    """Bytes that are a damaged place, or part of one; `batch`: what readers take from a batch that they read."""

    start: int
    end: int
    what: BadBatch
    header: PlaceHeader | None
    is_whole: bool
    batch: Neighbour | None = None


class _Hole(Struct):
    """Damaged places that follow each other, and the readable batches of the segment around them."""

    parts: list[_Bytes]
    before: Neighbour | None
    after: Neighbour | None = None


class _Reading(Struct):
    """What one read of a segment has found: its holes, and its first and last readable batch."""

    holes: list[_Hole] = field(default_factory=list)
    first: Neighbour | None = None
    last: Neighbour | None = None


def _read(
    segment: Segment,
    bounds: PlaceBounds,
    facts: PartitionFacts,
    chosen: Mapping[int, BadBatch],
    end_before: int | None,
) -> _Reading:
    watch = PlaceWatch(bounds)
    with Source.open(segment.files[0].path) as source:
        reading = _scan(source, segment, facts, chosen, watch)
        if not watch.is_suspicious:
            return reading
        # More passes: which of the batches are wrong needs all offsets of the segment. That is rare.
        kind: PlaceKind = "overlong"
        details = wrong_ends(source.path, bounds)
        if not details:
            kind, details = "moved", moved_batches(source.path, bounds, end_before)
        if not details:
            kind, misplaced = "misplaced", misplaced_batches(source, bounds, _OPTIONS).batches
            details = {each.position: each.detail for each in misplaced if each.fault == "offset"}
        if not details:
            return reading
        act = _act_on_misplaced(source, segment, facts)
        wrong = {position: BadBatch(kind, "offset-order", detail, act) for position, detail in details.items()}
        return _scan(source, segment, facts, {**chosen, **wrong}, None)


_OPTIONS: Final = ScanOptions(resync=True)


def _scan(
    source: Source,
    segment: Segment,
    facts: PartitionFacts,
    bad: Mapping[int, BadBatch],
    watch: PlaceWatch | None,
) -> _Reading:
    reading = _Reading()
    hole: _Hole | None = None
    # Never beyond the listed size: the result of another plan step may end before the file does
    end = min(segment.size_bytes, source.size_bytes)
    for item in scan(source, base_offset=segment.base_offset, options=_OPTIONS, end=end):
        if watch is not None:
            _look_at(item, watch)
        if isinstance(item, Damage):
            if item.size_bytes:
                what = BadBatch("damage", item.reason, item.detail, "truncates")
                hole = _with(hole, reading, _bytes_of(segment, item.position, item.size_bytes, what))
            continue
        faults = {**{row: bad[at] for row, at in _rows_at(item.batches, bad)}, **_bad_markers(item, facts)}
        row = 0
        for number in (*sorted(faults), item.batches.count):
            if number > row:
                first, last = neighbour(item, row), neighbour(item, number - 1)
                if hole is not None:
                    hole.after, hole = first, None
                reading.first, reading.last = reading.first or first, last
            if number < item.batches.count:
                position, size = (item.batches.cell(name, number) for name in ("position", "size_bytes"))
                part = _bytes_of(segment, position, size, faults[number])
                hole = _with(hole, reading, part._replace(batch=neighbour(item, number)))
            row = number + 1
    return reading


def _look_at(item: Run | Damage, watch: PlaceWatch) -> None:
    """Let a watch see an item of a scan; a batch whose last offset is below its first one is suspicious too."""
    if isinstance(item, Damage):
        watch.damage(item)
        return
    watch.run(item.batches)
    # Of compressed messages of magic 0 and 1 the first offset is -1 here
    if any(map(lt, item.batches.column("last_offset"), item.batches.column("base_offset"))):
        watch.suspect()


def _rows_at(batches: BatchColumns, bad: Mapping[int, BadBatch]) -> Iterator[tuple[int, int]]:
    """Yield row and position of the batches of a run at some positions."""
    if bad:
        yield from ((row, at) for row, at in enumerate(batches.column("position")) if at in bad)


def _with(hole: _Hole | None, reading: _Reading, part: _Bytes) -> _Hole:
    """Return the hole with one more part; a new one is added to the reading."""
    if hole is None:
        hole = _Hole([], reading.last)
        reading.holes.append(hole)
    hole.parts.append(part)
    return hole


def _bytes_of(segment: Segment, position: int, size_bytes: int, what: BadBatch) -> _Bytes:
    end = position + size_bytes
    # A place that the disk cannot read has no header
    if what.reason in {"unreadable", "over-limit"}:
        return _Bytes(position, end, what, None, is_whole=False)
    # With a reader of its own: the caller's window is in use
    with Source.open(segment.files[0].path) as source:
        header = read_header(source, position, end)
        is_whole = (header is not None and header.is_whole) or is_whole_message(source, position, end)
    return _Bytes(position, end, what, header, is_whole)


def _bad_markers(run: Run, facts: PartitionFacts) -> dict[int, BadBatch]:
    """Return the control batches of a run whose first record stops a broker, by row."""
    rules, batches = facts.load_options.recovery, run.batches
    found: dict[int, BadBatch] = {}
    if not rules.has_producers or batches.holds_only("producer_id", -1):
        return found
    row = 0
    while (row := kernels.find_odd_marker(run.memory, batches, row)) < batches.count:
        fault = marker_fault(run.memory, batches, row, max_bytes=MAX_BATCH_BYTES)
        if fault is not None:
            # After an InvalidRecordException LogSegment.recover keeps the batch, and the replay of the producers that
            # follows throws it again, which no caller catches
            found[row] = BadBatch("refused", "bad-marker", _MARKER if fault == "fatal" else _MARKER_KEPT, "stops")
        row += 1
    row = -1
    while not rules.reads_empty_markers and (row := first_empty_marker(batches, row + 1)) < batches.count:
        found[row] = BadBatch("refused", "empty-marker", _EMPTY_MARKER, "stops")
    return found


def _act_on_misplaced(source: Source, segment: Segment, facts: PartitionFacts) -> BrokerAct:
    """Return what a broker does with a segment that holds batches with wrong offsets.

    InvalidOffsetException at an index entry empties the segment (`LogLoader.recoverLog`), any other exception stops the
    broker, and where no index entry is due it notices nothing.
    """
    options, states = facts.load_options, ProducerStates(sequences="unchecked")
    with Source.open(source.path) as again:
        recovery = recover_segment(
            again, segment.base_offset, rules=options.recovery, settings=options.settings, states=states
        )
    if recovery.problem is None:
        return "serves"
    return "truncates" if recovery.problem.kind in {"invalid-offset", "first-offset"} else "stops"


def neighbour(run: Run, row: int) -> Neighbour:
    """Return a batch of a run."""
    cells = run.batches.row(row)
    first: int | None = cells["base_offset"]
    if cells["base_offset"] < 0:  # a compressed message names its last offset alone
        first = _first_inner(run, row) if cells["format"] < MAGIC_V2 else None
    return Neighbour(
        first_offset=cells["last_offset"] if first is None else first,
        last_offset=cells["last_offset"],
        magic=cells["format"],
        leader_epoch=cells["leader_epoch"],
        max_timestamp_ms=cells["max_timestamp_ms"],
        attributes=cells["attributes"],
        is_open=first is not None,
    )


def _first_inner(run: Run, row: int) -> int | None:
    """Return the first offset in a compressed message; None: it does not open."""
    for item in decode_batch(run.memory, run.batches, row, max_bytes=MAX_BATCH_BYTES):
        if isinstance(item, RecordRun):
            return item.records.column("offset")[0]
        break
    return None


# --- all segments -----------------------------------------------------------------------------------------------------
def _placed(
    partition: Partition, segments: list[Segment], readings: list[_Reading], facts: PartitionFacts
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
            for part, first, last, source in _shares(hole, low, high):
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


def _is_inside_run(hole: _Hole, number: int) -> bool:
    """Return whether a part is neither the first nor the last one of batches that are moved together."""
    around = hole.parts[max(0, number - 1) : number + 2]
    return len(around) == 3 and all(part.what.kind == "moved" for part in around)


def _without_copy(segments: list[Segment], segment: Segment, part: _Bytes) -> _Bytes:
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


def _identity(segment: Segment, part: _Bytes) -> tuple[int, int, int] | None:
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


def _is_tail(part: _Bytes, hole: _Hole) -> bool:
    """Return whether the log ends with a place, so that it is truncated there.

    A whole batch of magic 2 at the end can be mended or emptied: the log end offset does not change. Where one whole
    batch has wrong offsets, no broker truncates at it: it serves the batch, or empties the segment
    (`LogLoader.recoverLog`, InvalidOffsetException).
    """
    is_alone = len(hole.parts) == 1 or all(each.what.reason == _COPY for each in hole.parts)
    if part.what.kind in {"moved", "overlong"} or (part.what.kind == "misplaced" and is_alone):
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


def _shares(hole: _Hole, low: int, high: int | None) -> Iterator[tuple[_Bytes, int | None, int | None, OffsetSource]]:
    """Yield the places of a hole, each with its first and last offset: those that no header names get what is left.

    Consecutive places without a header that can be right become one.

    Args:
        hole: damaged places that follow each other.
        low: the lowest offset that can be lost.
        high: the highest one; None: unknown, as nothing follows.
    """
    waiting: list[_Bytes] = []
    for number, part in enumerate(hole.parts):
        span = _span(part, low, high, [each.header for each in hole.parts[number + 1 :]])
        if span is None:
            waiting.append(part)
            continue
        yield from _left_over(waiting, low, span[0] - 1)
        waiting = []
        yield part, *span, "header"
        low = span[1] + 1
    yield from _left_over(waiting, low, high)


def _span(part: _Bytes, low: int, high: int | None, later: list[PlaceHeader | None]) -> tuple[int, int] | None:
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
    waiting: list[_Bytes], low: int, high: int | None
) -> Iterator[tuple[_Bytes, int | None, int | None, OffsetSource]]:
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
            run = _Bytes(part.start, end.end, part.what, None, is_whole=False, batch=end.batch)
            yield run, low, low + span, "neighbours"
            return
    # A whole batch is mended only where it is alone: then its offsets are all that are missing
    if len(waiting) > 1:
        reasons = dict.fromkeys(each.what.reason for each in waiting)
        kind: PlaceKind = "misplaced" if part.what.kind == "moved" else part.what.kind
        what = part.what._replace(kind=kind, reason=", ".join(reasons))
        part = _Bytes(part.start, end.end, what, None, is_whole=False)
    if high is None and part.is_whole and part.header is not None:
        high = low + max(0, part.header.last_offset_delta)
    elif high is None and part.batch is not None and part.batch.is_open:
        high = low + part.batch.last_offset - part.batch.first_offset
    if high is None or low > high:
        yield part, None, None, "none"
    else:
        yield part, low, high, "neighbours"


def _magic(part: _Bytes, hole: _Hole, facts: PartitionFacts) -> int:
    """Return the magic of what takes a place: 2 next to a batch of magic 2, else that of the messages around it."""
    if part.batch is not None:
        return part.batch.magic
    around = [each.magic for each in (hole.before, hole.after) if each is not None]
    # A release without producers cannot read magic 2
    if not rules_of(facts.release).has_producers:
        return min([*around, MAGIC_V2 - 1])
    return max(around, default=MAGIC_V2)
