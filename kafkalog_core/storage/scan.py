"""The one tolerant reader: a file's batches and its damage, in file order, byte for byte.

Every byte of the file is in exactly one item: in a batch of a `Run`, or in a `Damage`; their sizes add up to the
file's size. A `Damage` of size 0 says something of a batch that is in a run (its offsets go back). The scan goes on
behind an entry whose checksum or magic is wrong when its length still leads to a good one; where the framing is lost,
the rest of the file is one `Damage` unless `resync` asks to search behind it, and what is found there is marked.

Memory: one window of 1 MiB, or the largest entry up to `max_batch_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.format import kernels
from kafkalog_core.format.columns import BATCH_ROWS, BatchColumns
from kafkalog_core.format.layout import DISK_BLOCK_BYTES, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.storage.framing import LogFraming, V07Framing
from kafkalog_core.storage.resync import Search, count_zeros
from kafkalog_core.storage.source import WINDOW_BYTES, Change, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.storage.framing import Framing
    from kafkalog_core.storage.source import Source

__all__ = ["APPEND_CUT", "Damage", "Run", "ScanOptions", "scan"]

HINT: Final = "--resync searches for batches behind it"
APPEND_CUT: Final = "an append cut short"
"""What a torn tail is taken for, in its detail, by a reader of one file; other files may tell otherwise."""
_PASSABLE: Final = frozenset({kernels.STOP_CHECKSUM, kernels.STOP_LIMIT, kernels.STOP_MAGIC, kernels.STOP_LENGTH})
"""What may be wrong with an entry whose length is still right."""


@dataclass(frozen=True, slots=True)
class Run:
    """Whole entries in a row; spans in `batches` refer to `memory`. Valid until the next item is asked for."""

    memory: memoryview
    batches: BatchColumns
    resynced: bool


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no batch. `reason` is a stable word; `next_offset` what would be expected here, where it is known.

    Reasons: torn-tail, zero-filled, bad-length, unknown-magic, crc-mismatch, over-limit, unreadable, offset-order.
    """

    position: int
    size_bytes: int
    reason: str
    detail: str
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """`max_batch_bytes`: the largest entry that is read; `check`: compute checksums; `resync`: search behind damage."""

    max_batch_bytes: int = MAX_BATCH_BYTES
    check: bool = True
    resync: bool = False


_DEFAULT: Final = ScanOptions()


def scan(
    source: Source,
    *,
    base_offset: int | None,
    is_v07: bool = False,
    options: ScanOptions = _DEFAULT,
    start: int = 0,
    end: int | None = None,
) -> Iterator[Run | Damage]:
    """Scan a log file from `start`, which must be where an entry starts.

    `base_offset` is the number in the file name: no offset may be below it (None: unknown, as is one with which
    addresses of 0.7 would pass the largest int64). With `end` the scan stops there and takes it as the
    file's end; without, it is the size at open, and a batch that a live broker was writing just then is read whole.
    """
    if is_v07 and base_offset is not None and not 0 <= base_offset <= MAX_INT64 - source.size_bytes:
        base_offset = None
    framing = V07Framing(base_offset or 0) if is_v07 else LogFraming(max(base_offset or 0, 0))
    return iter(_Scanner(source, base_offset, framing, options, start, end))


class _Scanner:
    def __init__(
        self,
        source: Source,
        base_offset: int | None,
        framing: Framing,
        options: ScanOptions,
        start: int,
        end: int | None,
    ) -> None:
        self._source = source
        self._framing = framing
        self._options = options
        self._position = start
        self._end = source.size_bytes if end is None else end
        self._may_grow = end is None
        self._is_legacy = isinstance(framing, V07Framing)
        self._previous = -1 if base_offset is None else max(base_offset, -MAX_INT64) - 1
        self._knows_offset = base_offset is not None
        self._resynced = False
        self._wanted = WINDOW_BYTES
        self._expected = 0
        self._batches = BatchColumns(min(BATCH_ROWS, source.size_bytes // framing.min_entry_bytes + 1))
        self._probe = BatchColumns(2)
        self._search = Search(source, framing, options.max_batch_bytes)
        self._holds_to = self._searched_to = -1
        self._chased_bytes = 0

    def __iter__(self) -> Iterator[Run | Damage]:
        while self._position < self._end:
            size = min(self._wanted, self._end - self._position)
            self._wanted = min(2 * self._wanted, WINDOW_BYTES)
            try:
                window = self._source.window(self._position, size)
            except UnreadableError as error:
                detail = f"the disk cannot read {error.size_bytes} bytes here"
                yield self._lost("unreadable", detail, search_from=self._position + error.size_bytes)
                continue
            self._end = min(self._end, self._source.size_bytes)  # the file may have been cut under our hands
            stop, next_index = self._walk(window, self._position, self._batches)
            window_end = self._position + len(window)
            self._position += next_index
            if self._batches.count:
                yield Run(window, self._batches, self._resynced)
                self._expected = self._previous + 1
                self._previous = self._batches.column("last_offset")[-1]
                self._knows_offset = True
            if stop == kernels.STOP_MORE:
                damage = self._need_more(window[next_index:], window_end, is_short=len(window) < size)
                if damage is not None:
                    yield damage
            elif stop != kernels.STOP_END:
                yield self._stopped(stop)
                self._wanted = DISK_BLOCK_BYTES  # where damage is dense, whole windows would be read again and again
            elif next_index < len(window):  # the columns are full: what is behind them is read again
                self._wanted = min(WINDOW_BYTES, next_index + next_index // 16)

    def _need_more(self, header: memoryview, window_end: int, *, is_short: bool) -> Damage | None:
        """The entry at the position goes on behind the window: read on, or say why that cannot be."""
        needed = self._framing.header_bytes
        if len(header) >= needed:
            needed = self._framing.entry_bytes(header)
        if is_short and window_end < min(self._end, self._position + needed):
            detail = f"the disk cannot read the bytes from {window_end} on, inside of this batch"
            if len(header) >= self._framing.header_bytes and self._framing_holds(self._position + needed):
                return self._step_over(needed, "unreadable", detail)
            return self._lost("unreadable", detail, search_from=window_end)
        if self._position + needed <= self._end or self._grow_to(self._position + needed):
            self._wanted = max(needed, self._wanted)
            return None
        return self._torn(needed)

    def _walk(self, window: memoryview, position: int, into: BatchColumns) -> tuple[int, int]:
        options = self._options
        return self._framing.walk(
            window, position, self._previous, options.max_batch_bytes, check=options.check, into=into
        )

    def _grow_to(self, end: int) -> bool:
        """Whether a live broker has completed by now what looked like a torn tail."""
        if not self._may_grow or self._source.refresh(grow=True) is not Change.GREW or self._source.size_bytes < end:
            return False
        self._end = end
        return True

    def _stopped(self, stop: int) -> Damage:
        """The damage that a walk stopped at."""
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
        detail = f"its length says {size} bytes in all, less than "
        if size < self._framing.min_entry_bytes:
            return self._lost("bad-length", detail + "any entry has")
        return self._passed(size, "bad-length", detail + "an entry of its magic has")

    def _order(self) -> Damage:
        """The last batch of the run that was just given out has offsets that were there before."""
        batches = self._batches
        first, last = batches.column("base_offset")[-1], batches.column("last_offset")[-1]
        expected = batches.column("last_offset")[-2] + 1 if batches.count > 1 else self._expected
        offsets = f"offset {last}" if first < 0 else f"offsets {first} to {last}"
        detail = f"{offsets}, where {expected} or more was expected: offsets go back"
        return Damage(batches.column("position")[-1], 0, "offset-order", detail, expected)

    def _checksum(self) -> Damage:
        row = self._batches.count
        self._batches.count += 1
        stored, computed = self._batches.column("crc_stored")[-1], self._batches.column("crc_computed")[-1]
        size = self._batches.column("size_bytes")[-1]
        self._batches.count = row
        detail = f"checksum stored {stored:#010x}, computed {computed:#010x}"
        return self._passed(size, "crc-mismatch", detail)

    def _passed(self, size: int, reason: str, detail: str) -> Damage:
        """An entry that is bad, and no more than it where its length leads on."""
        next_position = self._position + size
        if size < self._framing.min_entry_bytes or next_position > self._end or not self._framing_holds(next_position):
            return self._lost(reason, detail)
        if self._options.resync:  # a length that nothing protects may lead on by chance, over whole batches
            found = self._inside_of_chain(next_position)
            if found is not None and found != next_position:
                return self._lost(reason, detail, found=found)
        return self._step_over(size, reason, detail)

    def _inside_of_chain(self, next_position: int) -> int | None:
        """Where a whole entry stands inside of several bad ones in a row, or of one whose header is no header.

        A length that lies may lead on by chance: in the middle of a legacy message the length of its value does.
        """
        if next_position <= self._searched_to:
            return None
        self._searched_to = self._holds_to
        return self._search.find(self._position + 1, self._end, before=self._holds_to)

    def _over_limit(self) -> Damage:
        size = self._framing.entry_bytes(self._source.window(self._position, self._framing.header_bytes))
        limit = self._options.max_batch_bytes
        if self._position + size > self._end or not self._framing_holds(self._position + size):
            return self._lost("bad-length", f"its length says {size} bytes, over the limit of {limit}")
        return self._step_over(
            size, "over-limit", f"a batch of {size} bytes, over the limit of {limit} (--max-batch-bytes)"
        )

    def _step_over(self, size_bytes: int, reason: str, detail: str) -> Damage:
        damage = Damage(self._position, size_bytes, reason, detail, self._next_offset)
        self._position += size_bytes
        return damage

    def _torn(self, needed: int) -> Damage:
        """The last entry ends behind the file's end: an append cut short, or a length that lies."""
        rest = self._end - self._position
        if rest < self._framing.header_bytes:
            return self._step_over(rest, "torn-tail", f"{rest} bytes, too few for a header: {APPEND_CUT}")
        if self._zeros_here() >= rest:
            return self._zero_filled(rest)
        found = self._search.find(self._position + 1, self._end)
        if found is not None:
            detail = f"its length says {needed} bytes, past the end of the file, but a whole batch stands at {found}"
            return self._lost("bad-length", detail, found=found)
        return self._step_over(rest, "torn-tail", f"{rest} bytes of a batch of {needed}: {APPEND_CUT}")

    def _zero_filled(self, zeros: int) -> Damage:
        rest = self._end - self._position
        if zeros >= rest:
            return self._step_over(rest, "zero-filled", f"{rest} zero bytes up to the end of the file")
        return self._lost("zero-filled", f"{zeros} zero bytes, then other bytes")

    def _lost(self, reason: str, detail: str, *, search_from: int | None = None, found: int | None = None) -> Damage:
        """The framing is lost at the position: damage up to the next entry that is found, or to the file's end."""
        if not self._options.resync:
            rest = self._end - self._position
            return self._step_over(rest, reason, f"{detail}; {rest} bytes to the end of the file not read, {HINT}")
        passed_over = self._search.passed_over
        if found is None:
            found = self._search.find(search_from or self._position + 1, self._end)
        if self._search.passed_over > passed_over:
            passed_over = self._search.passed_over - passed_over
            detail += f"; {passed_over} places that might start a batch not checked, as too many like them start none"
        if found is None:
            return self._step_over(self._end - self._position, reason, f"{detail}; no whole batch behind it")
        self._resynced = True
        return self._step_over(found - self._position, reason, f"{detail}; the next whole batch stands at {found}")

    def _framing_holds(self, position: int) -> bool:
        """Whether the entries from `position` on, damaged ones too, lead to a good one, or to the end or its zeros."""
        if position <= self._holds_to:  # on a chain that was followed before
            return True
        if self._chased_bytes > self._end:  # so many lengths have led nowhere: from now on only a search tells
            return False
        end, holds = self._chase(position)
        if holds:
            self._holds_to = end
        else:
            self._chased_bytes += end - position
        return holds

    def _chase(self, position: int) -> tuple[int, bool]:
        """Where the chain of entries from `position` on leads to, and whether that is a good place."""
        header_bytes, min_bytes = self._framing.header_bytes, self._framing.min_entry_bytes
        while position < self._end:
            try:
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
            if stop not in _PASSABLE:
                return position, False
            position += size
        return position, position == self._end

    def _zeros_here(self) -> int:
        return count_zeros(self._source, self._position, self._end)

    @property
    def _next_offset(self) -> int | None:
        return self._previous + 1 if self._knows_offset and not self._is_legacy else None
