"""Simulated cleans of one partition; a clean writes its segments to temporary files, which the next clean reads."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import CleanError, LimitError, RefusedError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.index import encode_txn_entry
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.format.skimpy_offset_map import OffsetMap
from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.sim.cleaner.clean import next_pass
from kafkalog_core.kafka.sim.cleaner.log import CleanSegment, cleanability, read_clean_log, segments_in
from kafkalog_core.kafka.sim.cleaner.offset_map import FilledMap, KnownMap, MapFiller
from kafkalog_core.ops.compact.forecast import (
    CompactForecast,
    ForecastRows,
    HoldingTransaction,
    assumptions_of,
    head_row,
)
from kafkalog_core.progress import Advance
from kafkalog_core.refusals import Refusal, Refused, WayOut
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.changing.space import free_bytes
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from kafkalog_core.kafka.rules.cleaner_rules import CleanConfig, CleaningRules
    from kafkalog_core.kafka.sim.cleaner.clean import CleanPass, Group
    from kafkalog_core.kafka.sim.cleaner.log import Cleanability, CleanLog
    from kafkalog_core.kafka.sim.cleaner.transactions import AbortedTxn
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView
    from kafkalog_core.ops.compact.forecast import CompactTask
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.progress import Progress

__all__ = [
    "Cleaning",
    "MapShare",
    "PartHead",
    "TemporaryLog",
    "assumed_by",
    "failure_of",
    "last_clean",
    "merged_map",
    "packed_part",
    "parts_of",
    "simulate",
]


_NS_PER_MS = 1_000_000


class TemporaryLog:
    """A temporary directory with the segments of one clean; as large as the records that it keeps."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="kafkalog-compact-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

    def carry_out(self, work: CleanPass) -> CleanLog:
        """Do a clean, and return the log after it.

        Raises CleanError, StorageError, and RefusedError if the records that it keeps may not fit.
        """
        # The records that a clean keeps are known only afterwards; all of them may be kept.
        self._check_room(sum(source.size_bytes for group in work.groups for source in group.sources))
        segments = [self._write(group) for group in work.run()]
        return work.log.after(work.end_offset, segments)

    def _check_room(self, needed_bytes: int) -> None:
        place = self._directory.name
        free = free_bytes(place)
        if needed_bytes > free:
            reason = (
                f"the log needs several cleans, with up to {size(needed_bytes)} of temporary files, but only "
                f"{size(free)} are free"
            )
            fewer = WayOut("raise the memory for fewer cleans", options="--memory SIZE")
            elsewhere = WayOut("set TMPDIR to another directory", "export TMPDIR=DIR")
            raise RefusedError(Refusal(reason, (elsewhere, fewer)), path=os.path.dirname(place))

    def _write(self, group: Group) -> CleanSegment:
        path = self._path(group, FileKind.LOG)
        # Exclusive: two groups with one base offset would overwrite each other's records.
        with path.open("xb") as log:
            for chunk in group.chunks():
                log.write(chunk.data)
        indexes = group.indexes
        index_path, offset_index = self._path(group, FileKind.OFFSET_INDEX), indexes.offset_index
        index_path.write_bytes(offset_index)
        txnindex_path = None
        if group.aborted:
            txnindex_path = self._path(group, FileKind.TXN_INDEX)
            entries = (
                encode_txn_entry(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
                for txn in group.aborted
            )
            txnindex_path.write_bytes(b"".join(entries))
        timestamp = indexes.max_timestamp_ms
        return CleanSegment(
            base_offset=group.base_offset,
            path=str(path),
            size_bytes=group.size_bytes,
            mtime_ns=group.mtime_ns,
            # LogSegment.largestTimestamp falls back on the modification time, which LogSegment.setLastModified copies
            # from the sources.
            largest_timestamp_ms=timestamp if timestamp >= 0 else group.mtime_ns // _NS_PER_MS,
            index_bytes=len(offset_index),
            timeindex_bytes=len(indexes.time_index or b""),
            index_path=str(index_path),
            txnindex_path=None if txnindex_path is None else str(txnindex_path),
        )

    def _path(self, group: Group, kind: FileKind) -> Path:
        return Path(self._directory.name) / segment_file_name(group.base_offset, kind)


Row = dict[str, object]

_OVER_DAMAGE: Final = "compaction.over-damage"
_UNSEEN_BY_CLEANER: Final = "a broker's cleaner would not detect this damage, kafkalog does not clean over it: "
_UNSEEN: Final = frozenset({"crc-mismatch", "offset-order"})
"""Damage that no cleaner looks for."""
_OUR_LIMIT: Final = "over-limit"
"""Not damage: batches above the limit of --max-batch-bytes."""


def simulate(task: CompactTask, advance: Callable[[int], None], known: KnownMap | None = None) -> CompactForecast:
    """Return the forecast of one partition.

    Args:
        task: the partition.
        advance: called with the bytes that are read.
        known: the map of the first clean, if other processes have filled it; else None.
    """
    if task.never is not None:
        state, reason = task.never
        return CompactForecast(partition=head_row(task, state, reason), held=tuple(task.held), idle=task.of_topic)
    if task.view is None:
        # A log that cannot be read is a row, not an error of the command: the other partitions still have an answer.
        return _without_view(task)
    try:
        return _Simulation(task, task.view, Cleaning.of(task, Advance(advance), known)).forecast()
    except StorageError as error:
        code = _code_of(error)
        finding = found(
            code,
            error.path or task.path,
            problem=error.message,
            reason=error.message,
            topic=task.topic,
            partition=task.partition,
            position=error.position if isinstance(error, CleanError) else None,
        )
        why = f"{_UNSEEN_BY_CLEANER if code == _OVER_DAMAGE else ''}{error.message}{_place_of(error)}"
        return CompactForecast(partition=head_row(task, "fails", why), findings=(finding,))


def _without_view(task: CompactTask) -> CompactForecast:
    """Return the forecast of a log whose end is unknown."""
    partition = read_partition(task.path)
    if not partition.segments:
        return CompactForecast(partition=head_row(task, "nothing-cleanable", "it has no segment"))
    problem = "it is of Kafka 0.7" if partition.format == "v07" else "its last segment cannot be read"
    finding = found("compaction.not-foreseen", task.path, problem=problem, topic=task.topic, partition=task.partition)
    return CompactForecast(partition=head_row(task, "fails", problem), findings=(finding,))


def _place_of(error: StorageError) -> str:
    """Return ` (byte 17 of 00000000000000000000.log)`, as far as it is known."""
    if error.path is None:
        return ""
    name = os.path.basename(error.path)
    position = error.position if isinstance(error, CleanError) else None
    return f" ({name})" if position is None else f" (byte {position} of {name})"


def _code_of(error: StorageError) -> str:
    if not isinstance(error, CleanError):
        return code_of_error(error)
    if error.reason == _OUR_LIMIT:
        return "compaction.not-foreseen"
    return _OVER_DAMAGE if error.reason in _UNSEEN else "compaction.clean-fails"


class _Simulation:
    """The cleans of one partition: until nothing more is cleanable, or up to the requested number."""

    def __init__(self, task: CompactTask, view: PartitionView, cleaning: Cleaning) -> None:
        self._task = task
        self._cleaning = cleaning
        self._log = read_clean_log(view, task.context.broker_dir, cleaning.rules, cleaning.config, task.options.now_ms)
        self._rows = ForecastRows(task, view, self._log, cleaning.config)

    def forecast(self) -> CompactForecast:
        """Return the forecast of all cleans. Raises CleanError and StorageError."""
        with ExitStack() as spools:
            # Forced the first time: the user asked what a clean would do, and the state shows whether a broker would do
            # it now.
            first = last = self._one(self._log, spools, force=True)
            while self._goes_on(last):
                last = self._one(self._after, spools, force=self._cleaning.force)
        return replace(self._rows.forecast(first), held_by=self._held_by(first))

    def _held_by(self, first: Cleanability) -> HoldingTransaction | None:
        """Return the open transaction that holds the cleaner back, and what a clean does once it has committed."""
        held = self._log.open_transaction
        if first.hold_back.kind != "open-transaction" or held is None:
            return None
        producer = self._log.producers.get(held.producer_id)
        return HoldingTransaction(
            producer_id=held.producer_id,
            producer_epoch=None if producer is None else producer.producer_epoch,
            first_offset=held.first_offset,
            bytes_after=self._bytes_after() if self._task.options.asks_after_transactions else None,
        )

    def _bytes_after(self) -> int | None:
        """Return the size of the log after a forced clean without open transactions.

        None: it fails, has nothing to do, or is not enough.
        """
        # The transaction counts as committed: its records are kept, so this is the most that can be left.
        log = replace(self._log, first_unstable_offset=None, open_transaction=None)
        try:
            _, work = self._cleaning.next_of(log, force=True)
            if work is None or work.is_full:
                return None
            saved = 0
            for group in work.run():
                for _ in group.chunks():
                    pass
                saved += sum(source.size_bytes for source in group.sources) - group.size_bytes
        except (CleanError, StorageError):
            return None
        # Maps have the size of the cleaner's buffer (log.cleaner.dedupe.buffer.size, 128 MiB): they are freed as soon
        # as the counts are read.
        work.release()
        return sum(segment.size_bytes for segment in log.segments) - saved

    def _one(self, log: CleanLog, spools: ExitStack, *, force: bool) -> Cleanability:
        """Simulate one clean, if there is one; return the state before it. At most one spool is open afterwards."""
        before, work = self._cleaning.next_of(log, is_first=not self._rows.cleans, force=force)
        self._is_full = False
        if work is None:
            return before
        # A full map: Cleaner.buildOffsetMap ends within the dirty part, and the rest is the work of the next clean,
        # which needs the segments of this one on disk.
        self._is_full = work.is_full and self._is_kept(work, spools)
        if not self._is_full:
            for group in work.run():
                for _ in group.chunks():
                    pass
        self._rows.add(before, work)
        work.release()
        return before

    def _is_kept(self, work: CleanPass, spools: ExitStack) -> bool:
        """Do a clean that another one follows; return whether there was room for the segments that it writes."""
        with ExitStack() as new:
            try:
                self._after = new.enter_context(TemporaryLog()).carry_out(work)
            except RefusedError as error:
                self._rows.stop("compaction.no-room", error)
                return False
            # The older spool is deleted after the newer one is complete: the clean reads from it.
            spools.close()
            spools.push(new.pop_all())
        return True

    def _goes_on(self, last: Cleanability) -> bool:
        """Return whether another clean follows: the map was full, and the cleaner would run again, or is forced to."""
        if self._cleaning.max_passes is not None and self._rows.cleans >= self._cleaning.max_passes:
            return False
        # A cleaner that has emptied its map continues at once if the log is still dirty enough
        # (LogCleanerManager.grabFilthiestCompactedLog).
        return self._is_full and (last.would_run or self._cleaning.force)


class Cleaning(Struct, frozen=True, kw_only=True):
    """How a log is cleaned.

    Args:
        config: the cleaner's settings for the log.
        rules: the cleaner's rules in the release.
        now_ms: the time of every clean, in milliseconds since 1970.
        force: whether to clean even if a broker would not do it now.
        max_passes: most cleans; None: until a broker would not do another one.
        max_batch_bytes: size of the largest batch that is read, in bytes.
        biggest: number of the largest keys that the first clean reports.
        progress: shows the bytes that are read.
        known: the map of the first clean, if other processes have filled it; else None.
    """

    config: CleanConfig
    rules: CleaningRules
    now_ms: int
    force: bool
    max_passes: int | None
    max_batch_bytes: int
    biggest: int
    progress: Progress
    known: KnownMap | None = None

    @classmethod
    def of(cls, task: CompactTask, progress: Progress, known: KnownMap | None = None) -> Self:
        """Return how a partition is cleaned. Raises SettingError for settings that are not valid."""
        options = task.options
        return cls(
            config=task.config(),
            rules=cleaning_rules(task.context.release),
            now_ms=options.now_ms,
            force=options.force,
            max_passes=options.max_passes,
            max_batch_bytes=options.max_batch_bytes,
            biggest=options.biggest,
            progress=progress,
            known=known,
        )

    def next_of(
        self, log: CleanLog, *, is_first: bool = False, force: bool | None = None
    ) -> tuple[Cleanability, CleanPass | None]:
        """Return the cleanability of a log, and its next clean with the map filled; None: there is none.

        `force` replaces that of the cleaning, unless it is None.
        """
        bounds, work = next_pass(
            log,
            self.config,
            self.rules,
            self.now_ms,
            force=self.force if force is None else force,
            heavy_keys=self.biggest if is_first else 0,
            progress=self.progress,
            max_batch_bytes=self.max_batch_bytes,
        )
        if work is not None:
            work.build(self.known if is_first else None)
        return bounds, work


@contextmanager
def last_clean(
    log: CleanLog, cleaning: Cleaning, see: Callable[[Cleanability, CleanPass], None] | None = None
) -> Iterator[tuple[Cleanability, CleanPass | None]]:
    """Yield the cleanability of a log, and the last clean, which the caller carries out; None: there is no clean.

    The files that this clean reads exist while the context is open. `see` is called after each clean with the state
    before it. Raises CleanError and StorageError.
    """
    with ExitStack() as spools:
        first, work = cleaning.next_of(log, is_first=True)
        before, number, is_seen = first, 1, False
        while work is not None and work.is_full and number != cleaning.max_passes:
            with ExitStack() as newer:
                after = newer.enter_context(TemporaryLog()).carry_out(work)
                if see is not None:
                    see(before, work)
                work.release()
                next_before, following = cleaning.next_of(after)
                # This clean was the last: the caller carries it out
                if following is None:
                    is_seen = True
                    # Built again: the map of this clean was used up by the temporary copy, and two maps at a time would
                    # double the memory.
                    _, work = cleaning.next_of(log)
                    break
                spools.close()
                spools.push(newer.pop_all())
            log, before, work, number = after, next_before, following, number + 1
        # `see` comes after the caller has drained the groups, since counts are complete only then.
        try:
            yield first, work
            if work is not None and see is not None and not is_seen:
                see(before, work)
        finally:
            if work is not None:
                work.release()


class MapShare(Struct, frozen=True, kw_only=True):
    """A share of the first clean's map, for a worker: the dirty segments from `start` up to `stop`.

    Args:
        log: the log's segments from the first dirty one on.
        config: the cleaner's settings for the log.
        rules: the cleaner's rules in the release.
        first_dirty: offset at which the clean begins.
        bound: offset before which it ends.
        start: index of the part's first segment, counted from the first dirty one.
        stop: index after its last segment.
        number: number of the part, from 0 on.
        parts: number of parts.
        max_batch_bytes: size of the largest batch that is read, in bytes, decompressed too.
    """

    log: CleanLog
    config: CleanConfig
    rules: CleaningRules
    first_dirty: int
    bound: int
    start: int
    stop: int
    number: int
    parts: int
    max_batch_bytes: int


class PartHead(Struct, frozen=True, kw_only=True):
    """Head of the packed entries of a part; `latest_offset` None: the part cannot be used."""

    number: int
    parts: int
    first_dirty: int
    bound: int
    latest_offset: int | None = None
    before: tuple[AbortedTxn, ...] = ()
    after: tuple[AbortedTxn, ...] = ()


def parts_of(task: CompactTask, most: int, advance: Callable[[int], None], *, forced: bool) -> tuple[MapShare, ...]:
    """Return the parts of the first clean's map; empty: there is only one, or the release does not allow parts.

    Args:
        task: the partition.
        most: most parts.
        advance: called before the log is read, so that the caller may stop.
        forced: whether to clean even if a broker would not do it now.
    """
    rules = cleaning_rules(task.context.release)
    advance(0)
    # Later cleaners fill the map record by record. Up to 0.10.0 they decide by whole segments, and parts would decide
    # otherwise.
    if task.view is None or task.never is not None or rules.map_filling != "records":
        return ()
    config = task.config()
    try:
        log = read_clean_log(task.view, task.context.broker_dir, rules, config, task.options.now_ms)
        bounds = cleanability(log, config, rules, task.options.now_ms)
    except StorageError:
        # The clean reports it
        return ()
    if not bounds.has_work or not (bounds.would_run or forced):
        return ()
    dirty = segments_in(log.segments, bounds.first_dirty, bounds.bound, rules)
    ranges = _index_ranges([segment.size_bytes for segment in dirty], most)
    if len(ranges) < 2:
        return ()
    kept = log.segments[log.segments.index(dirty[0]) :]
    part = MapShare(
        # Parts fill the map only; producers and transactions of the whole log matter to the clean, and would be sent to
        # each worker for nothing.
        log=replace(log, segments=kept, producers={}, open_transaction=None),
        config=config,
        rules=rules,
        first_dirty=bounds.first_dirty,
        bound=bounds.bound,
        start=0,
        stop=len(dirty),
        number=0,
        parts=len(ranges),
        max_batch_bytes=task.options.max_batch_bytes,
    )
    return tuple(replace(part, start=start, stop=stop, number=number) for number, (start, stop) in enumerate(ranges))


def _index_ranges(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Return parts of a row of segments, as first and after-last index, with about the same number of bytes each."""
    total = sum(sizes) or 1
    ranges: list[tuple[int, int]] = []
    start = 0
    for stop, done in enumerate(accumulate(sizes), 1):
        if stop == len(sizes) or done * most >= total * (len(ranges) + 1):
            ranges.append((start, stop))
            start = stop
    return ranges


def packed_part(part: MapShare, advance: Callable[[int], None]) -> Iterator[PartHead | bytes]:
    """Yield the map of a part: its head, then its entries in pieces."""
    head = PartHead(number=part.number, parts=part.parts, first_dirty=part.first_dirty, bound=part.bound)
    try:
        filler = MapFiller(part.log, part.config, part.rules, Advance(advance), part.max_batch_bytes)
        found = filler.fill_part(part.first_dirty, part.bound, part.start, part.stop)
    except (LimitError, StorageError):
        # The clean raises the same error, in its own order
        yield head
        return
    # Which key is the first that does not fit depends on all parts before it, so a full part proves nothing about the
    # whole.
    if found.filled.is_full:
        yield head
        return
    offsets = found.filled.offsets
    yield replace(head, latest_offset=offsets.latest_offset, before=found.before, after=found.after)
    yield from offsets.packed()


def merged_map(config: CleanConfig, pieces: Iterable[PartHead | bytes]) -> KnownMap | None:
    """Return the whole map, merged from the maps of all parts in order; None: the clean must fill it itself."""
    try:
        offsets = OffsetMap(config.memory_bytes, config.load_factor)
        last = _merge(offsets, pieces)
    except LimitError:
        return None
    # A map that is full once merged must be filled in order again: the clean ends at the first key without room.
    if last is None or last.number != last.parts - 1 or offsets.size >= offsets.capacity:
        return None
    filled = FilledMap(offsets=offsets, end_offset=offsets.latest_offset + 1, is_full=False)
    return KnownMap(first_dirty=last.first_dirty, bound=last.bound, filled=filled)


def _merge(offsets: OffsetMap, pieces: Iterable[PartHead | bytes]) -> PartHead | None:
    """Merge the parts, and return the last; None: one cannot be used, or does not continue the one before it."""
    known: PartHead | None = None
    for piece in pieces:
        if isinstance(piece, bytes):
            offsets.merge(piece)
            continue
        follows = piece.number == 0 if known is None else piece.number == known.number + 1
        # A part begins with the aborted transactions that it assumed. If the part before it ended with others, its keys
        # are not those of the clean.
        if piece.latest_offset is None or not follows or (known is not None and piece.before != known.after):
            return None
        # No batch, no offset: an empty part leaves the latest offset of the one before it.
        if piece.latest_offset >= 0:
            offsets.latest_offset = piece.latest_offset
        known = piece
    return known


# --- what a clean that is carried out is refused for ------------------------------------------------------------------
def failure_of(task: CompactTask, error: CleanError) -> Refused:
    """Return a partition whose clean fails, with the place and the reason."""
    why = f"a clean fails here: {error.message}"
    return Refused(error.path or task.path, f"{task.topic}-{task.partition}", task.topic, why)


def assumed_by(task: CompactTask, progress: Progress) -> tuple[Assumption, ...]:
    """Return the values that a clean of a log would need. Raises CleanError where it would fail."""
    if task.view is None or task.never is not None:
        return ()
    cleaning = Cleaning.of(task, progress)
    log = read_clean_log(task.view, task.context.broker_dir, cleaning.rules, cleaning.config, task.options.now_ms)
    with last_clean(log, cleaning) as (_, work):
        is_asked = work is not None and not task.options.kafka.assume_defaults
        return tuple(assumptions_of(task, task.view)) if is_asked else ()
