"""Copies of a log, read in step and compared: whole batches first, and record by record where batches differ."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from hashlib import blake2b
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.errors import StorageError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import MAGIC_V2, MAX_INT32, MAX_INT64, RECORD_BATCH_OVERHEAD, V2_ATTRIBUTES
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart
from kafkalog_core.storage.listing import list_directory
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, crc_mismatch, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.storage.listing import Segment

__all__ = [
    "COMPARED",
    "NO_TIMES",
    "Absence",
    "BatchCursor",
    "Contents",
    "Flaw",
    "Head",
    "Share",
    "Stretch",
    "Times",
    "contents_of",
    "is_torn",
    "lockstep",
    "log_bytes",
    "span_of",
]


_DIGEST_BYTES: Final = 16
Times = tuple[int | None, int | None]
"""The earliest and the latest of some timestamps, in milliseconds since 1970; None: unknown."""
NO_TIMES: Final[Times] = (None, None)


def span_of(times: Iterable[Times]) -> Times:
    """Return the earliest and the latest of all of these times."""
    found = list(times)
    firsts = [first for first, _ in found if first is not None]
    lasts = [last for _, last in found if last is not None]
    return min(firsts, default=None), max(lasts, default=None)


def _known_times(first_ms: Iterable[int], last_ms: Iterable[int]) -> Times:
    """Return the earliest and the latest timestamp; -1 is none (`RecordBatch.NO_TIMESTAMP`)."""
    pairs = zip(first_ms, last_ms, strict=True)
    return span_of((first if first >= 0 else None, last if last >= 0 else None) for first, last in pairs)


class Contents:
    """Offsets of the records of one batch, ascending, and a digest of each.

    The digest is of a record's timestamp, key, value and headers, without its batch, which compaction writes again.
    `is_whole`: the whole batch could be decoded.
    """

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.digests: list[bytes] = []
        self.times_ms: list[int] = []
        self.is_whole = True

    def between(self, first: int, last: int) -> dict[int, bytes]:
        """Return the digests of the offsets from `first` to `last`, both included."""
        begin, end = bisect_left(self.offsets, first), bisect_right(self.offsets, last)
        return dict(zip(self.offsets[begin:end], self.digests[begin:end], strict=True))

    def times(self, first: int, last: int) -> Times:
        """Return the times of the records of these offsets, both included."""
        some = self.times_ms[bisect_left(self.offsets, first) : bisect_right(self.offsets, last)]
        return _known_times(some, some)


def contents_of(memory: memoryview, batch: BatchColumns, max_bytes: int) -> Contents:
    """Decode a batch of one row; records that cannot be decoded are left out."""
    result = Contents()
    for item in decode_run(memory, batch, max_bytes=max_bytes):
        if isinstance(item, RecordRun):
            _take(item, result)
        else:
            result.is_whole = False
    return result


def _take(run: RecordRun, result: Contents) -> None:
    records, headers = run.records, run.records.headers
    names = ("timestamp_ms", "key_start", "key_size", "value_start", "value_size", "first_header", "header_count")
    columns = [records.column(name).tolist() for name in names]
    spans = list(
        zip(*(headers.column(name) for name in ("key_start", "key_size", "value_start", "value_size")), strict=True)
    )
    result.offsets += records.column("offset").tolist()
    result.times_ms += columns[0]
    for time_ms, key_start, key_size, value_start, value_size, first, count in zip(*columns, strict=True):
        # Sizes before contents, so that a byte cannot move from a key into a value unnoticed.
        digest = blake2b(b"%d %d %d %d" % (time_ms, key_size, value_size, count), digest_size=_DIGEST_BYTES)
        digest.update(run.memory[key_start : key_start + max(0, key_size)])
        digest.update(run.memory[value_start : value_start + max(0, value_size)])
        for start, size, value, value_bytes in spans[first : first + count]:
            digest.update(b"%d %d " % (size, value_bytes))
            digest.update(run.memory[start : start + size])
            digest.update(run.memory[value : value + max(0, value_bytes)])
        result.digests.append(digest.digest())


COMPARED: Final = ("base_offset", "last_offset", "size_bytes", "record_count", "leader_epoch", "crc_stored")
"""Batches that are equal in these columns are the same: the checksum covers the rest."""
_LAST: Final = COMPARED.index("last_offset")
_COUNT: Final = COMPARED.index("record_count")
_MAX_EPOCHS: Final = 100_000
"""Most leader epochs that are kept of one copy; garbage that looks like batches may have any number of them."""


class Flaw(NamedTuple):
    """Bytes of a file that do not form a batch, or form one that cannot follow the batch before it."""

    path: str
    position: int
    size_bytes: int
    reason: str
    detail: str


class Head(NamedTuple):
    """The next batch; `first` is its first offset, or, if that is unknown, the lowest possible one."""

    first: int
    last: int
    size_bytes: int
    records: int
    leader_epoch: int
    crc: int


class _Piece(NamedTuple):
    path: str
    run: Run
    base_offset: int


class BatchCursor:
    """The batches of some segments, one after another.

    Args:
        segments: the segments, in the order of their offsets.
        log_start: the log start offset.
        options: how they are scanned.
        advance: called with the bytes that are read.
    """

    def __init__(
        self, segments: Iterable[Segment], log_start: int, options: ScanOptions, advance: Callable[[int], None]
    ) -> None:
        self.log_start = log_start
        self.head: Head | None = None
        self.expected = log_start
        self.flaws: list[Flaw] = []
        """Damage between the last passed batch and the head."""
        self.first_flaw: Flaw | None = None
        self.epochs: list[EpochStart] = []
        self.batches = self.records = self.damage_count = self.damage_bytes = 0
        self.end_offset = log_start
        self.is_thinned = False
        """Whether a batch has fewer records than offsets, which shows that the log was compacted."""
        self.is_counted = True
        """Whether each header has the number of its records, as those of compressed magic 0 and 1 have not."""
        self._options = options
        self._advance = advance
        self._pieces = self._read(segments)
        self._path = ""
        self._run: Run | None = None
        self._views: tuple[memoryview, ...] = ()
        self._row = 0
        self._base_offset = 0
        self._fill()

    def close(self) -> None:
        """Close the file that is open."""
        self._pieces.close()

    # --- position -----------------------------------------------------------------------------------------------------
    @property
    def rows_left(self) -> int:
        """Number of batches in memory, from the head on."""
        return 0 if self._run is None else self._run.batches.count - self._row

    def ahead(self, count: int) -> tuple[bytes, ...]:
        """Return the compared columns of `count` batches from the head on."""
        return tuple(column[self._row : self._row + count].tobytes() for column in self._views)

    def last_offset_at(self, ahead: int) -> int:
        """Return the last offset of the batch that is `ahead` rows after the head."""
        last: int = self._views[_LAST][self._row + ahead]
        return last

    def records_in(self, count: int) -> int:
        """Return the number of records in `count` batches from the head on, by their headers."""
        # Magic 0 and 1 have no count in a header of a compressed batch: one at least.
        counts = self._views[_COUNT][self._row : self._row + count].tolist()
        return sum(counts) if min(counts) >= 0 else sum(max(each, 1) for each in counts)

    def times_in(self, count: int) -> Times:
        """Return the times of `count` batches from the head on, by their headers."""
        if self._run is None:
            return NO_TIMES
        columns = (self._run.batches.column(name) for name in ("base_timestamp_ms", "max_timestamp_ms"))
        return _known_times(*(column[self._row : self._row + count].tolist() for column in columns))

    def batch(self) -> tuple[memoryview, BatchColumns]:
        """Return the head as columns of one row, and the memory that they refer to; valid until it is passed."""
        if self._run is None:
            raise LookupError("there is no batch after the last one")
        return self._run.memory, self._run.batches.part(self._row, self._row + 1)

    def is_damaged(self) -> bool:
        """Return whether the checksum of the head is wrong, which is a flaw then; a scan may have checked it before.

        Only of magic 2, whose checksum is of all bytes from the attributes on (`DefaultRecordBatch.computeChecksum`).
        """
        memory, batch = self.batch()
        if self._options.check or batch.column("format")[0] != MAGIC_V2:
            return False
        start, size = batch.column("payload_start")[0] - RECORD_BATCH_OVERHEAD, batch.column("size_bytes")[0]
        stored, computed = batch.column("crc_stored")[0], crc32c(memory[start + V2_ATTRIBUTES : start + size])
        if stored == computed:
            return False
        detail = crc_mismatch(stored, computed)
        self._take_flaw(Flaw(self._path, batch.column("position")[0], size, "crc-mismatch", detail))
        return True

    def skip(self, count: int) -> None:
        """Pass `count` batches, which are all in memory."""
        last = self._row + count - 1
        self.expected = self._views[_LAST][last] + 1
        self.flaws = []
        self._row += count
        self._fill()

    # --- reading ------------------------------------------------------------------------------------------------------
    def _fill(self) -> None:
        """Read until there is a head, or until the end."""
        while self._run is None or self._row >= self._run.batches.count:
            piece = next(self._pieces, None)
            if piece is None:
                self._run, self.head = None, None
                return
            if isinstance(piece, Flaw):
                self._take_flaw(piece)
            else:
                self._path, self._run, self._row, self._base_offset = piece.path, piece.run, 0, piece.base_offset
                self._views = tuple(piece.run.batches.column(name) for name in COMPARED)
                self._count(piece.run.batches)
        base, last, size, records, epoch, crc = [column[self._row] for column in self._views]
        # A compressed batch of magic 0 or 1 has no first offset: the lowest possible is after the batch before it.
        first = base if base >= 0 else min(last, max(self.expected, self._base_offset))
        self.head = Head(first, last, size, records if records >= 0 else last - first + 1, epoch, crc)

    def _take_flaw(self, flaw: Flaw) -> None:
        self.flaws.append(flaw)
        self.first_flaw = self.first_flaw or flaw
        self.damage_count += 1
        self.damage_bytes += flaw.size_bytes

    def _count(self, columns: BatchColumns) -> None:
        counts = columns.column("record_count").tolist()
        self.batches += len(counts)
        self.records += sum(counts) if min(counts) >= 0 else sum(max(count, 0) for count in counts)
        bases, lasts = columns.column("base_offset"), columns.column("last_offset")
        self.end_offset = max(self.end_offset, lasts[-1] + 1)
        known = self.epochs[-1].epoch if self.epochs else None
        # Most runs have one epoch: their batches need no look.
        if known is None or not columns.holds_only("leader_epoch", known):
            self._note_epochs(columns)
        self.is_counted = self.is_counted and min(counts) >= 0
        # Without counts, nothing shows what is missing.
        if not self.is_thinned and min(counts) >= 0:
            spans = sum(lasts.tolist()) - sum(bases.tolist()) + len(counts)
            self.is_thinned = spans > sum(counts)

    def _note_epochs(self, columns: BatchColumns) -> None:
        for row, epoch in enumerate(columns.column("leader_epoch")):
            # An epoch never goes back in a log, so a lower one is damage.
            is_new = not self.epochs or epoch > self.epochs[-1].epoch
            if is_new and epoch >= 0 and len(self.epochs) < _MAX_EPOCHS:
                self.epochs.append(EpochStart(epoch, max(0, columns.column("base_offset")[row])))

    def _read(self, segments: Iterable[Segment]) -> Generator[_Piece | Flaw, None, None]:
        previous = -1
        with_logs = [segment for segment in segments if segment.log is not None]
        following = [*(each.base_offset for each in with_logs[1:]), MAX_INT64]
        for segment, next_base in zip(with_logs, following, strict=False):  # without logs there is a limit alone
            path, reached = segment.files[0].path, 0
            limit = min(next_base, segment.base_offset + MAX_INT32 + 1)  # no index holds an offset above that
            try:
                with Source.open(path) as source:
                    for item in scan(source, base_offset=segment.base_offset, options=self._options):
                        if isinstance(item, Damage):
                            reached = self._advance_to(item.position + item.size_bytes, reached)
                            if item.size_bytes:  # `_sound` reports batches whose offsets go back
                                yield Flaw(path, item.position, item.size_bytes, item.reason, item.detail)
                            continue
                        end = item.batches.column("position")[-1] + item.batches.column("size_bytes")[-1]
                        reached = self._advance_to(end, reached)
                        for piece in _sound(item, path, previous, limit):
                            if isinstance(piece, Run):
                                previous = piece.batches.column("last_offset")[-1]
                                yield _Piece(path, piece, segment.base_offset)
                            else:
                                yield piece
            except StorageError as error:
                # The rest of the file counts as read, so that progress reaches its end.
                self._advance_to(segment.size_bytes, reached)
                # Bytes that cannot be read are a flaw like any other: another copy may have them.
                yield Flaw(path, reached, max(0, segment.size_bytes - reached), "unreadable", error.message)

    def _advance_to(self, position: int, reached: int) -> int:
        self._advance(max(0, position - reached))
        return max(position, reached)


def _sound(run: Run, path: str, previous: int, limit: int) -> Iterable[Run | Flaw]:
    """Yield the parts of a run with ascending offsets below a limit, and a flaw for each batch between them."""
    bases, lasts = run.batches.column("base_offset"), run.batches.column("last_offset")
    count = run.batches.count
    starts = previous < lasts[0] < limit and (bases[0] < 0 or bases[0] > previous)
    ends = lasts[-1] < limit
    if count > 1:
        ends = ends and lasts[-1] > lasts[-2] and (bases[-1] < 0 or bases[-1] > lasts[-2])
    if starts and ends and kernels.find_contradiction(run.batches, 0) >= count:  # a scan stops where offsets go back
        yield run
        return
    begun = 0
    for row in range(count):
        contradicts = kernels.find_contradiction(run.batches.part(row, row + 1), 0) == 0
        if not contradicts and previous < lasts[row] < limit and (bases[row] < 0 or bases[row] > previous):
            previous = lasts[row]
            continue
        if row > begun:
            yield Run(run.memory, run.batches.part(begun, row), run.resynced)
        begun = row + 1
        position, size = run.batches.column("position")[row], run.batches.column("size_bytes")[row]
        reason = "header-contradiction" if contradicts else "offset-order"
        detail = f"a batch of offsets {bases[row]} to {lasts[row]}, after offset {previous}"
        yield Flaw(path, position, size, reason, detail)
    if begun < count:
        yield Run(run.memory, run.batches.part(begun, count), run.resynced)


Absence = Literal["damaged", "gap", "behind", "trimmed"]
"""Why a copy has no records there: damage; offsets in no batch; after its log end; before its log start."""
_HARMLESS_TAILS: Final = frozenset({"torn-tail", "zero-filled"})


def is_torn(flaws: Iterable[Flaw]) -> bool:
    """Return whether damage after the last batch is only what an append in progress leaves."""
    return all(flaw.reason in _HARMLESS_TAILS for flaw in flaws)


class Share(NamedTuple):
    """The records of a copy; `group` is the same for copies that agree, which have `lacks` more records together.

    `times` are not read where all copies have the same batches.
    """

    leader_epoch: int
    records: int
    group: int = 0
    lacks: int = 0
    times: Times = NO_TIMES


class Stretch(NamedTuple):
    """Offsets `first` to `last`, and the part of each copy.

    `against`: pairs of copies, by number, with different records at one offset. `is_batch`: all have the same batch,
    except perhaps for its leader epoch.
    """

    first: int
    last: int
    parts: tuple[Share | Absence, ...]
    against: frozenset[tuple[int, int]] = frozenset()
    is_batch: bool = False


class _Lane(Struct):
    """One copy while it is compared: `at` is the first offset of the head that is not compared yet."""

    cursor: BatchCursor
    at: int = -1
    contents: Contents | None = None
    is_damaged: bool | None = None
    trust: int = field(default=1 << 20)

    @property
    def head(self) -> Head | None:
        return self.cursor.head

    @property
    def start(self) -> int:
        """The first offset of the rest of the head, which must exist."""
        head = self.cursor.head
        return self.at if head is None else max(head.first, self.at)

    def absence(self, first: int) -> Absence:
        """Return why the copy has no records from `first` on, up to the head."""
        cursor = self.cursor
        if first < cursor.log_start:
            return "trimmed"
        if cursor.head is None:
            return "behind" if is_torn(cursor.flaws) else "damaged"
        return "damaged" if cursor.flaws else "gap"

    def look(self, max_bytes: int) -> Contents:
        """Return the records of the head, decoded once."""
        if self.contents is None:
            self.contents = contents_of(*self.cursor.batch(), max_bytes)
        return self.contents

    def is_readable(self) -> bool:
        """Return whether the checksum of the head is right, looked at once."""
        if self.is_damaged is None:
            self.is_damaged = self.cursor.is_damaged()
        return not self.is_damaged

    def skip(self, count: int) -> None:
        self.contents = self.is_damaged = None
        self.cursor.skip(count)


def log_bytes(path: str) -> int:
    """Return the size of the logs in a directory, for progress; 0: the comparison reports why it cannot be read."""
    try:
        listing = list_directory(path)
    except StorageError:
        return 0
    return sum(file.size_bytes for file in listing.files if file.name.raw.endswith(".log"))


def lockstep(cursors: Sequence[BatchCursor], max_bytes: int) -> Iterator[Stretch]:
    """Yield stretches in the order of their offsets; offsets that no copy has are only in one of damage."""
    lanes = [_Lane(cursor) for cursor in cursors]
    frontier = min(cursor.log_start for cursor in cursors)
    while any(lane.head is not None for lane in lanes):
        live = [lane for lane in lanes if lane.head is not None]
        low = min(lane.start for lane in live)
        if low > frontier:
            absences = tuple(lane.absence(frontier) for lane in lanes)
            if "damaged" in absences:
                yield Stretch(frontier, low - 1, absences)
        here = [lane for lane in live if lane.start == low]
        stretch = _same(lanes, here, low) or _compared(lanes, here, low, max_bytes)
        yield stretch
        frontier = stretch.last + 1


def _limit(lanes: Sequence[_Lane], here: Sequence[_Lane], low: int) -> int:
    """Return the last offset up to which the copies without records at `low` have none, for the same reason."""
    limit = 1 << 63
    for lane in lanes:
        if lane in here:
            continue
        if lane.head is not None:
            limit = min(limit, lane.start - 1)
        if low < lane.cursor.log_start:
            limit = min(limit, lane.cursor.log_start - 1)
    return limit


def _same(lanes: Sequence[_Lane], here: Sequence[_Lane], low: int) -> Stretch | None:
    """Pass as many batches at once as are the same in all copies that have them; None: the first ones differ."""
    first = here[0]
    if any(lane.head is None or lane.head.first != low for lane in here):
        return None
    limit = _limit(lanes, here, low)
    count = min(min(lane.cursor.rows_left, lane.trust) for lane in here)
    if first.cursor.last_offset_at(count - 1) > limit:
        count = _rows_up_to(first.cursor, count, limit)
    epoch = first.head.leader_epoch if first.head is not None else -1
    while count:
        pattern = first.cursor.ahead(count)
        if all(lane.cursor.ahead(count) == pattern for lane in here[1:]):
            break
        count //= 2
    for lane in here:
        lane.trust = max(1, 2 * count)
    if not count:
        return None
    last, records = first.cursor.last_offset_at(count - 1), first.cursor.records_in(count)
    times = first.cursor.times_in(count) if len(here) < len(lanes) else NO_TIMES
    share = Share(epoch, records, times=times)
    parts = tuple(share if lane in here else lane.absence(low) for lane in lanes)
    for lane in here:
        lane.skip(count)
    return Stretch(low, last, parts)


def _rows_up_to(cursor: BatchCursor, count: int, limit: int) -> int:
    """Return the number of batches from the head on that end at offset `limit` or before it."""
    return bisect_left(range(count), True, key=lambda row: cursor.last_offset_at(row) > limit)


def _compared(lanes: Sequence[_Lane], here: Sequence[_Lane], low: int, max_bytes: int) -> Stretch:
    """Compare batches record by record: they have other boundaries, or are not the same."""
    high = _limit(lanes, here, low)
    for lane in here:
        high = min(high, lane.head.last if lane.head is not None else high)
    is_batch = _is_one_batch(here, low, high)
    whole = here if is_batch else [lane for lane in here if lane.is_readable()]
    numbers = [number for number, lane in enumerate(lanes) if lane in whole]
    contents = [] if is_batch else [lane.look(max_bytes) for lane in whole]
    digests = [each.between(low, high) for each in contents]
    times = [each.times(low, high) for each in contents]
    shares = iter(_of_batch(whole) if is_batch else _shares(whole, digests, times))
    parts: list[Share | Absence] = [
        next(shares) if lane in whole else "damaged" if lane in here else lane.absence(low) for lane in lanes
    ]
    against = frozenset(
        (numbers[one], numbers[other])
        for one, other in combinations(range(len(digests)), 2)
        if not _agree(digests[one], digests[other])
    )
    for lane in here:
        if lane.head is not None and lane.head.last == high:
            lane.skip(1)
        else:
            lane.at = high + 1
    return Stretch(low, high, tuple(parts), against, is_batch)


def _is_one_batch(here: Sequence[_Lane], low: int, high: int) -> bool:
    """Return whether all copies have the same batch there; its checksum does not cover the leader epoch."""
    heads = {(head.first, head.last, head[2:4], head.crc) for lane in here if (head := lane.head) is not None}
    return len(heads) == 1 and next(iter(heads))[:2] == (low, high)


def _of_batch(here: Sequence[_Lane]) -> list[Share]:
    return [
        Share(lane.head.leader_epoch, lane.head.records, times=lane.cursor.times_in(1))
        for lane in here
        if lane.head is not None
    ]


def _shares(here: Sequence[_Lane], digests: Sequence[dict[int, bytes]], times: Sequence[Times]) -> list[Share]:
    """Return the shares of copies, grouped so that no record of a group contradicts another one.

    With a single group, leader epochs are left out: compaction may merge batches of several epochs.
    """
    unions: list[dict[int, bytes]] = []
    groups: list[int] = []
    for each in digests:
        number = next((at for at, union in enumerate(unions) if _agree(each, union)), len(unions))
        if number == len(unions):
            unions.append({})
        unions[number].update(each)
        groups.append(number)
    epochs = [lane.head.leader_epoch if lane.head is not None and len(unions) > 1 else -1 for lane in here]
    return [
        Share(epoch, len(each), group, len(unions[group]) - len(each), of_copy)
        for epoch, each, group, of_copy in zip(epochs, digests, groups, times, strict=True)
    ]


def _agree(one: dict[int, bytes], other: dict[int, bytes]) -> bool:
    """Return whether two copies have the same record at each offset that both have."""
    return all(one[offset] == other[offset] for offset in one.keys() & other.keys())
