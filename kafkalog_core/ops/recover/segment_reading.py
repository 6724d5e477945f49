"""One read of the log of a segment: where it is damaged, and which of its whole batches cannot be right.

What a start of the broker has read before is not read again (`FollowedLogs`).
"""

from __future__ import annotations

from operator import lt
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.format.decode import RecordRun, decode_batch
from kafkalog_core.format.layout import MAGIC_V2, MAX_BATCH_BYTES
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.sim.batch_places import PlaceBounds, PlaceWatch, misplaced_batches, partition_bounds
from kafkalog_core.kafka.sim.start.recovery import first_empty_marker, marker_fault, recover_segment
from kafkalog_core.kafka.sim.start.replay import closed_messages
from kafkalog_core.ops.recover.headers import PlaceHeader, is_whole_message, read_header
from kafkalog_core.ops.recover.order import moved_batches, wrong_ends
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, ScanPlace, scan
from kafkalog_core.storage.source import WINDOW_BYTES, Source
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import LossCount
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "AdjacentPlaces",
    "BadBatch",
    "BrokerAct",
    "FollowedLogs",
    "Neighbour",
    "PlaceBytes",
    "PlaceKind",
    "SegmentReader",
    "SegmentReading",
    "neighbour",
]

PlaceKind = Literal["damage", "misplaced", "exchanged", "moved", "overlong", "refused", "closed", "chosen"]
"""`damage`: bytes that form no readable batch. `misplaced`: a whole batch with offsets that cannot be right.
`exchanged`: two whole batches in the wrong order. `moved`: whole batches that follow each other, with offsets that are
wrong by the same number. `overlong`: a whole batch with a last offset that no record has. `refused`: a whole batch at
which a broker stops when it reads its marker, or looks at its transaction. `closed`: a compressed message of magic 0 or
1 that does not open, at which fetches of the batches after it fail too. `chosen`: a batch that the user named."""
BrokerAct = Literal["truncates", "stops", "serves"]
"""What a broker does that recovers the segment: it truncates the log, it does not start, or it goes on."""

_MARKER: Final = "a control batch of a producer that holds no marker"
_MARKER_KEPT: Final = "a control batch of a producer that cannot be read"
_CLOSED: Final = "a compressed message that does not open, at which fetches of the messages after it fail too"
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


class FollowedLogs:
    """What a recovery reads of the logs of a partition, up to the damage at which it ends (`follow`).

    Args:
        partition: its files.
        facts: the release and the settings.
    """

    def __init__(self, partition: Partition, facts: PartitionFacts) -> None:
        self._facts = facts
        self._bounds = partition_bounds(partition)
        self._readers: dict[str, SegmentReader] = {}

    def follow(self, segment: Segment) -> Callable[[Run | Damage], object]:
        """Return what takes all that a recovery reads of a segment, which begins again if it was followed before."""
        bounds = self._bounds.get(segment.base_offset, PlaceBounds(base_offset=segment.base_offset))
        reader = SegmentReader(segment, self._facts, {}, PlaceWatch(bounds))
        self._readers[segment.files[0].path] = reader
        return reader.follow

    def read_to(self, path: str) -> int:
        """Return the byte up to which a log was read."""
        return self._readers[path].position if path in self._readers else 0

    def reader_of(self, segment: Segment, bounds: PlaceBounds) -> SegmentReader | None:
        """Return what has read a segment; None: it was not read, or has changed since then."""
        reader = self._readers.pop(segment.files[0].path, None)
        is_same = reader is not None and reader.segment.size_bytes == segment.size_bytes
        return reader if is_same and self._bounds.get(segment.base_offset) == bounds else None


class PlaceBytes(NamedTuple):
    """Bytes that are a damaged place, or part of one; `batch`: what readers take from a batch that they read."""

    start: int
    end: int
    what: BadBatch
    header: PlaceHeader | None
    is_whole: bool
    batch: Neighbour | None = None


class AdjacentPlaces(Struct):
    """Damaged places that follow each other, and the readable batches of the segment around them."""

    parts: list[PlaceBytes]
    before: Neighbour | None
    after: Neighbour | None = None


class SegmentReading(Struct):
    """What one read of a segment has found: its holes, and its first and last readable batch."""

    holes: list[AdjacentPlaces] = field(default_factory=list)
    first: Neighbour | None = None
    last: Neighbour | None = None


_OPTIONS: Final = ScanOptions(resync=True)


class SegmentReader:
    """One read of a segment.

    Args:
        segment: its files.
        facts: the release and the settings.
        bad: whole batches that count as damaged, by position.
        watch: sees whether one of its batches may be misplaced; None: these are among the bad ones.
    """

    def __init__(
        self, segment: Segment, facts: PartitionFacts, bad: Mapping[int, BadBatch], watch: PlaceWatch | None
    ) -> None:
        self.segment = segment
        self._facts = facts
        self._bad = bad
        self._watch = watch
        self._reading = SegmentReading()
        self._hole: AdjacentPlaces | None = None
        self._place: int | ScanPlace = 0  # where it is read on from
        self._last_offset = segment.base_offset - 1
        self._is_followed = True

    def follow(self, item: Run | Damage) -> None:
        """Take what a broker's recovery reads, up to the first batch that a scan reads in another way."""
        is_odd = item.has_odd_magic if isinstance(item, Run) else item.size_bytes > 0
        self._is_followed = self._is_followed and not is_odd
        if not self._is_followed:
            return
        self._take(item)
        if isinstance(item, Run):
            lasts, latest = item.batches.column("last_offset"), item.batches.row(item.batches.count - 1)
            before = lasts[-2] if len(lasts) > 1 else self._last_offset
            is_wrapper = latest["record_count"] < 0 and latest["format"] < MAGIC_V2
            # The recovery may end here, and not come to the damage that reports it
            if self._watch is not None and latest["last_offset" if is_wrapper else "base_offset"] <= before:
                self._watch.suspect()
            self._last_offset = lasts[-1]
            self._place = ScanPlace(item.end, lasts[-1], WINDOW_BYTES)

    @property
    def position(self) -> int:
        """The byte up to which it was read."""
        return self._place.position if isinstance(self._place, ScanPlace) else self._place

    def finished(self, bounds: PlaceBounds, end_before: int | None, count: LossCount | None) -> SegmentReading:
        """Read the rest; `count` takes it too. `end_before`: where the segment before this one ends, if it is known."""
        segment = self.segment
        with Source.open(segment.files[0].path) as source:
            # Never beyond the listed size: the result of another plan step may end before the file does
            end = min(segment.size_bytes, source.size_bytes)
            if count is not None:
                count.begin(end - self.position)
            for item in scan(source, base_offset=segment.base_offset, options=_OPTIONS, start=self._place, end=end):
                self._take(item)
                if count is not None:
                    count.take(item)
            if self._watch is None or not self._watch.is_suspicious:
                return self._reading
            # More passes: which of the batches are wrong needs all offsets of the segment. That is rare.
            kind, details = _wrong_offsets(source, bounds, end_before)
            if not details:
                return self._reading
            act = _act_on_misplaced(source, segment, self._facts)
        wrong = {position: BadBatch(kind, "offset-order", detail, act) for position, detail in details.items()}
        return SegmentReader(segment, self._facts, {**self._bad, **wrong}, None).finished(bounds, None, None)

    def _take(self, item: Run | Damage) -> None:
        segment, reading = self.segment, self._reading
        if self._watch is not None:
            _look_at(item, self._watch)
        if isinstance(item, Damage):
            if item.size_bytes:
                what = BadBatch("damage", item.reason, item.detail, "truncates")
                self._add(_bytes_of(segment, item.position, item.size_bytes, what))
            return
        rows = _rows_at(item.batches, self._bad)
        faults = {**{row: self._bad[at] for row, at in rows}, **_bad_batches(item, self._facts)}
        row = 0
        for number in (*sorted(faults), item.batches.count):
            if number > row:
                first, last = neighbour(item, row), neighbour(item, number - 1)
                if self._hole is not None:
                    self._hole.after, self._hole = first, None
                reading.first, reading.last = reading.first or first, last
            if number < item.batches.count:
                position, size = (item.batches.cell(name, number) for name in ("position", "size_bytes"))
                part = _bytes_of(segment, position, size, faults[number])
                self._add(part._replace(batch=neighbour(item, number)))
            row = number + 1

    def _add(self, part: PlaceBytes) -> None:
        """Add a part to the present hole, or to a new one."""
        if self._hole is None:
            self._hole = AdjacentPlaces([], self._reading.last)
            self._reading.holes.append(self._hole)
        self._hole.parts.append(part)


def _wrong_offsets(source: Source, bounds: PlaceBounds, end_before: int | None) -> tuple[PlaceKind, dict[int, str]]:
    """Return what is wrong with the offsets of a segment, and the batches that have them, each with a clause."""
    if details := wrong_ends(source.path, bounds):
        return "overlong", details
    if details := moved_batches(source.path, bounds, end_before):
        return "moved", details
    misplaced = misplaced_batches(source, bounds, _OPTIONS).batches
    return "misplaced", {each.position: each.detail for each in misplaced if each.fault == "offset"}


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


def _bytes_of(segment: Segment, position: int, size_bytes: int, what: BadBatch) -> PlaceBytes:
    end = position + size_bytes
    # A place that the disk cannot read has no header
    if what.reason in {"unreadable", "over-limit"}:
        return PlaceBytes(position, end, what, None, is_whole=False)
    # With a reader of its own: the caller's window is in use
    with Source.open(segment.files[0].path) as source:
        header = read_header(source, position, end)
        is_whole = (header is not None and header.is_whole) or is_whole_message(source, position, end)
    return PlaceBytes(position, end, what, header, is_whole)


def _bad_batches(run: Run, facts: PartitionFacts) -> dict[int, BadBatch]:
    """Return the batches of a run at which a broker stops, or fetches of later ones fail, by row."""
    rules, batches = facts.load_options.recovery, run.batches
    found: dict[int, BadBatch] = {}
    if facts.load_options.loader.search == "base":
        found = dict.fromkeys(closed_messages(run), BadBatch("closed", "closed-message", _CLOSED, "serves"))
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
