"""The scan of a log file, which yields runs of whole entries, and damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.format.columns import BATCH_ROWS, BatchColumns, DamageColumns
from kafkalog_core.format.layout import DISK_BLOCK_BYTES, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.kernels import constants as k
from kafkalog_core.storage.framing import EntrySearch, LogFraming, V07Framing, count_zeros
from kafkalog_core.storage.source import WINDOW_BYTES, FileChange, UnreadableError
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from kafkalog_core.storage.framing import Framing
    from kafkalog_core.storage.source import Source

__all__ = [
    "HINT",
    "REST_MISSING",
    "Damage",
    "Run",
    "ScanOptions",
    "ScanPlace",
    "Scanner",
    "crc_mismatch",
    "offset_order",
    "one_by_one",
    "scan",
]


class Run(NamedTuple):
    """Consecutive whole entries; byte ranges in `batches` refer to `memory`. Valid until the next item is asked for.

    `begins` is the position in the file that `memory` starts with; `None`: it starts with the first batch. With
    `ScanOptions.bulk_after` the run may have `damaged` entries before, between and after its whole ones, and even
    nothing else. With `has_odd_magic` a broker reads the first one, in whose place `memory` has the magic that it takes
    it for, and a scan does not.
    """

    memory: memoryview
    batches: BatchColumns
    resynced: bool
    damaged: DamageColumns | None = None
    begins: int | None = None
    has_odd_magic: bool = False

    @property
    def end(self) -> int:
        """The position after the last whole entry; 0: there is none."""
        batches = self.batches
        return batches.column("position")[-1] + batches.column("size_bytes")[-1] if batches.count else 0

    def rows(self, first: int, last: int) -> Run:
        """Return batches `first` to `last` (exclusive) of a run that is without damaged entries."""
        begins = self.batches.column("position")[0] if self.begins is None else self.begins
        return Run(self.memory, self.batches.part(first, last), self.resynced, begins=begins)

    def start_of(self, row: int) -> int:
        """Return the position in `memory` at which a batch starts."""
        positions = self.batches.column("position")
        start: int = positions[row] - (positions[0] if self.begins is None else self.begins)
        return start


class ScanPlace(NamedTuple):
    """Where a scan goes on, if nothing is wrong before it: from there on it depends on nothing that came before.

    `position` is the byte at which an entry starts, `previous` the last offset before it, and `wanted` the size of the
    next window, in bytes: which rows come before or after which depends on what is in a window together.
    """

    position: int
    previous: int
    wanted: int


class Damage(Struct, frozen=True):
    """Bytes that do not form a batch.

    `is_zeros`: every byte is zero, up to the end of the file, as preallocated space is.

    Args:
        position: position in the file.
        size_bytes: size of the damage, in bytes; 0 for a whole batch whose offsets go back, or one of an
            unknown magic that a broker takes for another.
        reason: a stable word: torn-tail, zero-filled, bad-length, unknown-magic, crc-mismatch, over-limit, unreadable
            or offset-order.
        detail: one sentence.
        next_offset: the offset that is expected here; `None`: unknown.
    """

    position: int
    size_bytes: int
    reason: str
    detail: str
    next_offset: int | None
    is_zeros: bool = False

    @property
    def is_plain_tail(self) -> bool:
        """Whether a log that ends here ends as after a crash or a preallocation: in a torn append, or only in zeros.

        If other bytes follow the zeros, there was data, and it is unknown which.
        """
        return self.reason == "torn-tail" or self.is_zeros


def crc_mismatch(stored: int, computed: int) -> str:
    """Return the detail of a wrong checksum."""
    return f"checksum stored {stored:#010x}, computed {computed:#010x}"


def offset_order(position: int, first: int, last: int, expected: int) -> Damage:
    """Return the damage of a whole batch whose offsets go back; `first` is negative if it is unknown."""
    offsets = f"offset {last}" if first < 0 else f"offsets {first} to {last}"
    detail = f"{offsets}, where {expected} or more was expected: offsets go back"
    return Damage(position, 0, "offset-order", detail, expected)


def one_by_one(run: Run, *, knows_offset: bool) -> Iterator[Run | Damage]:
    """Yield a run with damaged entries as runs and damage; `knows_offset`: whether an offset before it is known."""
    damaged, begun = run.damaged, 0
    columns = () if damaged is None else [damaged.column(name) for name in damaged.fields]
    for position, size_bytes, row, previous, first, second in zip(*columns, strict=True):
        if row > begun:
            yield _part(run, begun, row)
            begun = row
        if size_bytes:
            next_offset = max(0, previous + 1) if row or knows_offset else None
            yield Damage(position, size_bytes, "crc-mismatch", crc_mismatch(first, second), next_offset)
        else:
            yield offset_order(position, first, second, previous + 1)
    if begun < run.batches.count:
        yield _part(run, begun, run.batches.count)


def _part(run: Run, first: int, last: int) -> Run:
    return Run(run.memory, run.batches.part(first, last), run.resynced, begins=run.begins)


HINT: Final = "--resync searches for batches after it"
REST_MISSING: Final = "the rest is missing"
"""How the detail of a torn tail ends, by a reader of one file; other files may show how it came about."""
_HOLE: Final = " (most of them a hole, for which the disk stores nothing)"
_WHOLE: Final = frozenset({kernels.STOP_END, kernels.STOP_MORE})
"""Why a walk of whole entries ends."""
_PASSABLE: Final = frozenset({kernels.STOP_CHECKSUM, kernels.STOP_LIMIT, kernels.STOP_MAGIC, kernels.STOP_LENGTH})
"""What may be wrong with an entry whose length is still right."""


class ScanOptions(Struct, frozen=True, kw_only=True):
    """Options of a scan.

    Args:
        max_batch_bytes: the largest entry that is read, in bytes.
        check: whether checksums are computed.
        resync: whether to search for batches after damage.
        first_window_bytes: the first window is this large and each next one twice as large, up to a full window; for
            callers that expect the answer near the start of the file.
        bulk_after: for callers that count damage and need not see each place: after this many entries with a wrong
            checksum as `Damage`, the next ones come in bulk, as `Run.damaged`; and so do batches whose offsets go back.
    """

    max_batch_bytes: int = MAX_BATCH_BYTES
    check: bool = True
    resync: bool = False
    first_window_bytes: int = WINDOW_BYTES
    bulk_after: int | None = None


_FEW_ROWS: Final = 8
_BEYOND_BYTES: Final = 32 * 1024
"""What is read beyond the last wanted position: the entry there, and what follows a damaged one, are mostly within."""
_DEFAULT: Final = ScanOptions()


def scan(
    source: Source,
    *,
    base_offset: int | None,
    is_v07: bool = False,
    options: ScanOptions = _DEFAULT,
    start: int | ScanPlace = 0,
    end: int | None = None,
    until: int = MAX_INT64,
    batches: BatchColumns | None = None,
) -> Iterator[Run | Damage]:
    """Scan a log file from `start`, which must be the start of an entry.

    Args:
        source: the log file.
        base_offset: the number in the file name, below which no offset may be; None: unknown, as is one with which
            addresses of 0.7 would pass the largest int64.
        is_v07: whether it is a file of Kafka 0.7.
        options: options of the scan.
        start: position in the file, or where another scan ends, to go on as that one would.
        end: position at which the scan stops, as at the end of the file; None: the size at open, and a batch that a
            live broker was writing just then is read whole.
        until: position after which the caller wants no more items, so that little is read beyond it. They are the same;
            where a length leads past the file's end, over a block that the disk cannot read, the reason may be another.
        batches: columns to use again, for callers that make many short scans, one after another.
    """
    if is_v07 and base_offset is not None and not 0 <= base_offset <= MAX_INT64 - source.size_bytes:
        base_offset = None
    framing = V07Framing(base_offset or 0) if is_v07 else LogFraming(max(base_offset or 0, 0))
    position = start.position if isinstance(start, ScanPlace) else start
    scanner = Scanner(source, base_offset, framing, options, (position, end, until), batches)
    if isinstance(start, ScanPlace):
        scanner.go_to(start)
    return iter(scanner)


class Scanner:
    """What `scan` iterates over. It can go to another place between two items, and read on from there."""

    def __init__(
        self,
        source: Source,
        base_offset: int | None,
        framing: Framing,
        options: ScanOptions,
        bounds: tuple[int, int | None, int],
        batches: BatchColumns | None,
    ) -> None:
        self._source = source
        self._framing = framing
        self._options = options
        self._position, end, self._until = bounds
        self._end = source.size_bytes if end is None else end
        self._may_grow = end is None
        self._is_legacy = isinstance(framing, V07Framing)
        self._previous = -1 if base_offset is None else max(base_offset, -MAX_INT64) - 1
        self._knows_offset = base_offset is not None
        self._resynced = False
        self._wanted = min(options.first_window_bytes, WINDOW_BYTES)
        self._needed = 0
        self._expected = 0
        self._batches = batches or BatchColumns.for_bytes(source.size_bytes, framing.min_entry_bytes)
        self._damaged = DamageColumns(_FEW_ROWS)
        self._state = framing.walk_state() if options.check else None
        self._given = [0, 0]  # batches out of order and damaged entries, so far
        self._probe = BatchColumns(2)
        self._search = EntrySearch(source, framing, options.max_batch_bytes)
        self._holds_to = self._searched_to = -1
        self._chased_bytes = 0
        self._leads_nowhere = self._trusted_at = self._moving_at = -1
        self._is_sound, self._then_wanted = False, 0  # whether nothing is wrong in the last window; size of the next

    @property
    def place(self) -> ScanPlace | None:
        """Where the scan goes on after the run that was just yielded.

        None: it is not known before the next item: something is wrong in the window that the run is in.
        """
        if not self._is_sound:
            return None
        return ScanPlace(self._position, self._batches.column("last_offset")[-1], self._then_wanted)

    def go_to(self, place: ScanPlace) -> None:
        """Go on at the place of another scan of the file, as that one would."""
        self._position, self._previous, self._wanted = place
        self._knows_offset, self._needed = True, 0

    def _wanted_after(self, stop: int, window: memoryview, next_index: int) -> int:
        """Return the size of the window after one in which nothing is wrong."""
        rest, header_bytes = window[next_index:], self._framing.header_bytes
        if stop == kernels.STOP_END and len(rest):  # the columns are full: the rest of the window is read again
            return min(WINDOW_BYTES, next_index + next_index // 16)
        needed = self._framing.entry_bytes(rest) if len(rest) >= header_bytes else header_bytes
        return max(needed, self._wanted) if stop == kernels.STOP_MORE else self._wanted

    def __iter__(self) -> Iterator[Run | Damage]:
        while self._position < self._end:
            most = max(self._until - self._position + _BEYOND_BYTES, _BEYOND_BYTES, self._needed)
            size = min(self._wanted, self._end - self._position, most)
            self._wanted = min(2 * self._wanted, WINDOW_BYTES)
            try:
                window = self._source.window(self._position, size)
            except UnreadableError as error:
                detail = f"the disk cannot read {error.size_bytes} bytes here"
                yield self._lost("unreadable", detail, search_from=self._position + error.size_bytes)
                continue
            self._end = min(self._end, self._source.size_bytes)  # the file may have been truncated meanwhile
            stop, next_index = self._walk_on(window)
            if (self._damaged.count or stop not in _WHOLE) and self._is_moving():
                continue
            window_end = self._position + len(window)
            position, self._position = self._position, self._position + next_index
            self._is_sound = not self._damaged.count and stop in _WHOLE
            self._then_wanted = self._wanted_after(stop, window, next_index) if self._is_sound else 0
            yield from self._walked(window, position)
            if self._batches.count:
                self._expected = self._previous + 1
                self._previous = self._batches.column("last_offset")[-1]
                self._knows_offset = True
            is_short = len(window) < size
            if stop == kernels.STOP_CHECKSUM and self._state is not None and self._goes_on(len(window), is_short):
                continue
            if stop == kernels.STOP_MORE:
                damage = self._need_more(window[next_index:], window_end, is_short=is_short)
                if damage is not None:
                    yield damage
            elif stop != kernels.STOP_END:
                yield self._stopped(stop)
                self._wanted = DISK_BLOCK_BYTES  # where damage is dense, whole windows would be read again and again
            elif next_index < len(window):
                self._wanted = self._wanted_after(stop, window, next_index)

    def _need_more(self, header: memoryview, window_end: int, *, is_short: bool) -> Damage | None:
        """Read on for an entry that continues after the window, or return why that cannot be."""
        needed = self._framing.header_bytes
        if len(header) >= needed:
            needed = self._framing.entry_bytes(header)
        if is_short and window_end < min(self._end, self._position + needed):
            detail = f"the disk cannot read the bytes from {window_end} on, inside this batch"
            if len(header) >= self._framing.header_bytes and self._framing_holds(self._position + needed):
                return self._step_over(needed, "unreadable", detail)
            return self._lost("unreadable", detail, search_from=window_end)
        if self._position + needed <= self._end or self._grow_to(self._position + needed):
            self._wanted = max(needed, self._wanted)
            self._needed = needed
            return None
        return None if self._is_moving() else self._torn(needed)

    def _walk(self, window: memoryview, position: int, into: BatchColumns) -> tuple[int, int]:
        options = self._options
        return self._framing.walk(
            window, position, self._previous, options.max_batch_bytes, check=options.check, into=into
        )

    def _walk_on(self, window: memoryview) -> tuple[int, int]:
        """Walk the window; over damage if only the checksum is wrong."""
        if self._state is None:
            return self._walk(window, self._position, self._batches)
        searched_to = self._searched_to if self._options.resync else MAX_INT64
        return self._walk_over(self._state, window, self._position, self._batches, self._holds_to, searched_to)

    def _walk_over(
        self,
        state: array[int],
        window: memoryview,
        position: int,
        into: BatchColumns,
        trusted_to: int,
        searched_to: int,
    ) -> tuple[int, int]:
        state[k.W_POSITION], state[k.W_FILE_END], state[k.W_PREVIOUS] = position, self._end, self._previous
        state[k.W_MAX_BYTES] = self._options.max_batch_bytes
        state[k.W_TRUSTED], state[k.W_SEARCHED] = trusted_to, searched_to
        return kernels.walk_over(window, state, into, self._damaged)

    def _walked(self, window: memoryview, position: int) -> Iterator[Run | Damage]:
        """Yield what a walk has found; damage one by one, or in bulk after `bulk_after` of it."""
        damaged, batches = self._damaged, self._batches
        if not damaged.count:
            if batches.count:
                yield Run(window, batches, self._resynced)
            return
        self._expect_damage()
        run = Run(window, batches, self._resynced, damaged, position)
        orders = damaged.column("size_bytes").tolist().count(0)
        counts, limit = (orders, damaged.count - orders), self._options.bulk_after
        if limit is not None and all(
            not count or given >= limit for count, given in zip(counts, self._given, strict=True)
        ):
            yield run
            return
        self._given = [given + count for given, count in zip(self._given, counts, strict=True)]
        yield from one_by_one(run, knows_offset=self._knows_offset)

    def _goes_on(self, window_bytes: int, is_short: bool) -> bool:
        """Return whether the walk, stopped at a wrong checksum, may pass it once it sees more of the file.

        is_short: whether the disk cannot read what follows the window, so that there is no more to see.
        """
        if not is_short and window_bytes < min(WINDOW_BYTES, self._end - self._position):
            self._wanted, self._until = WINDOW_BYTES, MAX_INT64
            return True
        if self._trusted_at == self._position:  # it saw more already, and another entry inside this one
            return False
        self._trusted_at = self._position
        size = self._framing.entry_bytes(self._source.window(self._position, self._framing.header_bytes))
        return self._position + size <= self._end and self._framing_holds(self._position + size)

    def _is_moving(self) -> bool:
        """Return whether to read once more what looks damaged: the file has changed since it was opened.

        A live broker may have written a batch into preallocated space meanwhile, which does not change the size, or cut
        off the rest of that space when it rolled (`FileRecords.trim`).
        """
        if self._moving_at == self._position or self._source.refresh() is FileChange.NONE:
            return False
        self._moving_at = self._position
        self._end = min(self._end, self._source.size_bytes)
        return True

    def _grow_to(self, end: int) -> bool:
        """Return whether a live broker has meanwhile completed the entry that looked like a torn tail."""
        if (
            not self._may_grow
            or self._source.refresh(grow=True) is not FileChange.GREW
            or self._source.size_bytes < end
        ):
            return False
        self._end = end
        return True

    def _stopped(self, stop: int) -> Damage:
        """Return the damage at which a walk stopped."""
        if stop == kernels.STOP_ORDER:
            return self._order()
        if stop == kernels.STOP_CHECKSUM:
            return self._checksum()
        if stop == kernels.STOP_LIMIT:
            return self._over_limit()
        if stop == kernels.STOP_MAGIC:
            header = self._source.window(self._position, self._framing.header_bytes)
            size, magic = self._framing.entry_bytes(header), header[-1]
            return self._passed(size, "unknown-magic", f"magic {magic} is of no known format")
        return self._bad_length()

    def _bad_length(self) -> Damage:
        zeros = self._zeros_here()
        if zeros >= self._framing.header_bytes or self._position + zeros == self._end:
            return self._zero_filled(zeros)
        size = self._framing.entry_bytes(self._source.window(self._position, self._framing.header_bytes))
        detail = f"its length field gives {size} bytes in all, less than "
        if size < self._framing.min_entry_bytes:
            return self._lost("bad-length", detail + "any entry has")
        return self._passed(size, "bad-length", detail + "an entry of its magic has")

    def _order(self) -> Damage:
        """Return the damage of the last batch of the run just yielded, whose offsets were there before."""
        batches = self._batches
        first, last = batches.column("base_offset")[-1], batches.column("last_offset")[-1]
        expected = batches.column("last_offset")[-2] + 1 if batches.count > 1 else self._expected
        return offset_order(batches.column("position")[-1], first, last, expected)

    def _checksum(self) -> Damage:
        probe = self._probe
        size = self._framing.entry_bytes(self._source.window(self._position, self._framing.header_bytes))
        self._walk(self._source.window(self._position, size), self._position, probe)
        probe.count = 1
        detail = crc_mismatch(probe.column("crc_stored")[0], probe.column("crc_computed")[0])
        return self._passed(size, "crc-mismatch", detail)

    def _passed(self, size: int, reason: str, detail: str) -> Damage:
        """Return the damage of a bad entry, and only of this one if its length leads to the next."""
        next_position = self._position + size
        if size < self._framing.min_entry_bytes or next_position > self._end or not self._framing_holds(next_position):
            return self._lost(reason, detail)
        if self._options.resync:  # a length that nothing protects may lead on by chance, over whole batches
            found = self._inside(next_position)
            if found is not None:
                return self._lost(reason, detail, found=found)
        return self._step_over(size, reason, detail)

    def _inside(self, next_position: int) -> int | None:
        """Return where a whole entry starts in a bad one; `None`: there is none.

        A wrong length may lead on by chance: in the middle of a legacy message the length of its value does.
        """
        if next_position <= self._searched_to:
            return None
        self._searched_to = next_position
        return self._search.find(self._position + 1, self._end, before=next_position)

    def _over_limit(self) -> Damage:
        size = self._framing.entry_bytes(self._source.window(self._position, self._framing.header_bytes))
        limit = self._options.max_batch_bytes
        if self._position + size > self._end or not self._framing_holds(self._position + size):
            return self._lost("bad-length", f"its length field gives {size} bytes in all, over the limit of {limit}")
        return self._step_over(
            size, "over-limit", f"a batch of {size} bytes, over the limit of {limit} (--max-batch-bytes)"
        )

    def _step_over(self, size_bytes: int, reason: str, detail: str) -> Damage:
        damage = Damage(self._position, size_bytes, reason, detail, self._next_offset)
        self._position += size_bytes
        return damage

    def _torn(self, needed: int) -> Damage:
        """Return the damage of a last entry that ends after the end of the file: cut off, or a wrong length."""
        rest = self._end - self._position
        if rest < self._framing.header_bytes:
            return self._step_over(rest, "torn-tail", f"{rest} bytes, too few for a header: {REST_MISSING}")
        if self._zeros_here() >= rest:
            return self._zero_filled(rest)
        found = self._search.find(self._position + 1, self._end)
        if found is not None:
            detail = f"its length field gives {needed} bytes in all, past the end of the file"
            return self._lost("bad-length", f"{detail}, but a whole batch starts at {found}", found=found)
        return self._step_over(rest, "torn-tail", f"{rest} bytes of a batch of {needed}: {REST_MISSING}")

    def _zero_filled(self, zeros: int) -> Damage:
        rest, middle = self._end - self._position, self._position + zeros // 2
        # a small hole says nothing: which zeros of some blocks are stored is a matter of the file system
        is_hole = zeros >= WINDOW_BYTES and self._source.hole_end(middle) > middle
        what = f"{zeros} zero bytes{_HOLE if is_hole else ''}"
        if zeros >= rest:
            damage = self._step_over(rest, "zero-filled", f"{what} up to the end of the file")
            return replace(damage, is_zeros=True)
        return self._lost("zero-filled", f"{what}, then other bytes")

    def _lost(self, reason: str, detail: str, *, search_from: int | None = None, found: int | None = None) -> Damage:
        """Return the damage from a position where the framing is lost, to the next entry found or the file's end."""
        if not self._options.resync:
            rest = self._end - self._position
            return self._step_over(rest, reason, f"{detail}; {rest} bytes to the end of the file not read, {HINT}")
        passed_over = self._search.passed_over
        if found is None:
            found = self._search.find(search_from or self._position + 1, self._end)
        if self._search.passed_over > passed_over:
            passed_over = self._search.passed_over - passed_over
            detail += (
                f"; {passed_over} possible starts of a batch were not checked, because too many like them start none"
            )
        if found is None:
            return self._step_over(self._end - self._position, reason, f"{detail}; no whole batch after it")
        self._resynced = True
        return self._step_over(found - self._position, reason, f"{detail}; the next whole batch starts at {found}")

    def _framing_holds(self, position: int) -> bool:
        """Return whether entries from `position` on, even damaged ones, lead to a good one, the end or its zeros."""
        if position <= self._holds_to:  # in a chain that was followed before
            return True
        if position == self._leads_nowhere:
            return False
        if self._chased_bytes > self._end:  # too many lengths have led nowhere: from now on only a search decides
            return False
        end, holds = self._chase(position)
        if holds:
            self._holds_to = end
        else:
            self._leads_nowhere = position
            self._chased_bytes += end - position
        return holds

    def _chase(self, position: int) -> tuple[int, bool]:
        """Return where the chain of entries from `position` on leads, and whether that is a good place."""
        header_bytes, min_bytes = self._framing.header_bytes, self._framing.min_entry_bytes
        while position < self._end:
            try:
                position = self._chase_in_bulk(position)
                header = self._source.window(position, min(header_bytes, self._end - position))
                size = self._framing.entry_bytes(header) if len(header) == header_bytes else 0
                if not min_bytes <= size <= self._end - position:
                    end = position + count_zeros(self._source, position, self._end)
                    return end, end == self._end
                entry = header if size > self._options.max_batch_bytes else self._source.window(position, size)
            except UnreadableError:
                return position, False
            stop, _ = self._walk(entry, position, self._probe)
            if self._probe.count:
                return position, True
            if stop not in _PASSABLE and not len(header) < len(entry) < size:  # a part that the disk cannot read
                return position, False
            position += size
        return position, position == self._end

    def _chase_in_bulk(self, position: int) -> int:
        """Skip entries whose checksums are wrong, up to anything else or the end."""
        wanted = DISK_BLOCK_BYTES  # mostly a whole one follows
        while self._state is not None and position < self._end:
            window = self._source.window(position, min(wanted, self._end - position))
            _, passed = self._walk_over(self._state, window, position, self._probe, MAX_INT64, MAX_INT64)
            if self._probe.count or not passed:
                return self._probe.column("position")[0] if self._probe.count else position
            position += passed
            wanted = min(2 * max(passed, wanted), WINDOW_BYTES)
            self._expect_damage()
        return position

    def _expect_damage(self) -> None:
        """Make room for more damage: where there is some, there is often more."""
        if self._damaged.capacity == _FEW_ROWS:
            self._damaged = DamageColumns(BATCH_ROWS)

    def _zeros_here(self) -> int:
        return count_zeros(self._source, self._position, self._end)

    @property
    def _next_offset(self) -> int | None:
        # a batch with a negative offset, which is damage itself, shows no offset that may follow
        return max(0, self._previous + 1) if self._knows_offset and not self._is_legacy else None
