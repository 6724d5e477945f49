"""A truncation: which part of a log is deleted, and its changes, in an order that is safe at every step."""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checkpoint import encode_epoch_checkpoint
from kafkalog_core.format.index import iter_offset_entries, iter_time_entries, iter_txn_entries
from kafkalog_core.format.layout import MAX_INT32, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.batch_places import PlaceWatch, misplaced_batches, partition_bounds
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, read_epoch_file
from kafkalog_core.kafka.sim.start.replay import ReplaySegment
from kafkalog_core.kafka.sim.start.snapshots import ProducerLoad, SnapshotFiles
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.layout import Layout
    from kafkalog_core.kafka.rules.producers import OpenTxn
    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.kafka.sim.start.replay import Obstacle
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "CompanionFiles",
    "HiddenOffset",
    "SegmentTruncation",
    "Truncation",
    "companion_files",
    "epochs_after",
    "stage_truncation",
    "truncate_at_damage",
    "truncate_at_offset",
]

_OVER_LIMIT: Final = "over-limit"
"""The reason of a batch that kafkalog does not read because of its own limit: it is not damage."""


class SegmentTruncation(Struct, frozen=True, kw_only=True):
    """A log file that becomes shorter.

    Args:
        segment: its files.
        size_bytes: size of its log afterwards.
        end_offset: the offset after the last batch that it keeps.
        why: why it is truncated there, a clause.
        recovery: indexes as a recovery builds them; None: the present ones are truncated.
    """

    segment: Segment
    size_bytes: int
    end_offset: int
    why: str
    recovery: SegmentRecovery | None = None


class Truncation(Struct, frozen=True, kw_only=True):
    """The part of one partition that is deleted.

    Args:
        partition: its files as they are.
        end_offset: the log end offset afterwards.
        segments: logs that become shorter, ascending.
        removed: segments that are deleted, ascending.
        why_removed: why they are deleted, a clause.
        new_base: base offset of an empty segment that replaces all others; None: there is none.
        inside: first and last offset of a batch that holds the requested offset in its middle, and is deleted as a
            whole; None: there is none.
    """

    partition: Partition
    end_offset: int
    segments: tuple[SegmentTruncation, ...] = ()
    removed: tuple[Segment, ...] = ()
    why_removed: str = ""
    new_base: int | None = None
    inside: tuple[int, int] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is deleted."""
        return not self.segments and not self.removed


class HiddenOffset(Struct, frozen=True):
    """Damage after which an offset cannot be found."""

    path: str
    position: int
    reason: str


# --- where ------------------------------------------------------------------------------------------------------------
def truncate_at_offset(partition: Partition, offset: int, advance: Callable[[int], None]) -> Truncation | HiddenOffset:
    """Truncate at the batch that holds an offset, or at the first after it, as `UnifiedLog.truncateTo` does.

    Args:
        partition: has segments, the first of which starts at or below the offset.
        offset: the first offset that is deleted; of 0.7 an address.
        advance: called with the bytes that are read.
    """
    segments = partition.segments
    # The floor segment, as LogSegments.floorSegment finds it: offsets in the gap before the next base offset belong to
    # it.
    number = max(index for index, segment in enumerate(segments) if not index or segment.base_offset <= offset)
    segment = segments[number]
    is_v07 = partition.format == "v07"
    end_offset, inside, position = segment.base_offset, None, None
    for item in _items(segment, advance, is_v07=is_v07, check=False):
        if isinstance(item, Damage):
            # Damage at the end of a segment hides whether its offsets reach the wanted one; a torn tail of the last
            # segment is an append that never ended.
            is_last = item.size_bytes and item.position + item.size_bytes >= segment.size_bytes
            if is_last and (number < len(segments) - 1 or not item.is_plain_tail):
                return HiddenOffset(_path(segment), item.position, item.reason)
            continue
        batches = item.batches
        lasts = batches.column("last_offset")
        # 0.7 addresses are byte positions: a message is found by where it starts, and its last address is where the
        # next starts.
        row = next((row for row, last in enumerate(lasts) if last > offset or (last == offset and not is_v07)), None)
        if row is None:
            end_offset = lasts[-1] + (not is_v07)
            continue
        if row:
            end_offset = lasts[row - 1] + (not is_v07)
        # LogSegment.truncateTo cuts at the start of the batch that contains the offset: batches are never rewritten, so
        # the log may end below the wanted offset.
        position = batches.column("position")[row]
        first = position + segment.base_offset if is_v07 else batches.column("base_offset")[row]
        inside = (first, lasts[row]) if first < offset else None
        break
    shorter: tuple[SegmentTruncation, ...] = ()
    if position is not None:
        why = f"it ends before offset {offset}"
        shorter = (SegmentTruncation(segment=segment, size_bytes=position, end_offset=end_offset, why=why),)
    return Truncation(
        partition=partition,
        end_offset=end_offset,
        segments=shorter,
        removed=segments[number + 1 :],
        why_removed=f"it starts after offset {offset}",
        inside=inside,
    )


def truncate_at_damage(partition: Partition, advance: Callable[[int], None], *, first: int = 0) -> Truncation | None:
    """Truncate at the first batch that is not whole or whose checksum is wrong; return None if there is none.

    Args:
        partition: whose segments are read.
        advance: called with the bytes that are read.
        first: index of the segment to begin with.
    """
    # The bounds come from all segments, because a batch is misplaced only in relation to its neighbours.
    bounds = {} if partition.format == "v07" else partition_bounds(partition)
    for number in range(first, len(partition.segments)):
        segment = partition.segments[number]
        damage = _first_damage(segment, advance, bounds.get(segment.base_offset))
        if damage is not None:
            position, end_offset, why = damage
            shorter = SegmentTruncation(segment=segment, size_bytes=position, end_offset=end_offset, why=why)
            return Truncation(
                partition=partition,
                end_offset=end_offset,
                segments=(shorter,),
                removed=partition.segments[number + 1 :],
                why_removed=f"the log ends before it, in segment {segment.base_offset}",
            )
    return None


def _first_damage(
    segment: Segment, advance: Callable[[int], None], bounds: PlaceBounds | None
) -> tuple[int, int, str] | None:
    """Return the byte of the first damage in a segment, the log end offset there, and what it is; None: there is none.

    bounds: what bounds its offsets; None: it is of 0.7.
    """
    is_v07 = bounds is None
    watch = None if bounds is None else PlaceWatch(bounds)
    last = segment.base_offset - (not is_v07)
    found: tuple[int, int, str] | None = None
    for item in _items(segment, advance, is_v07=is_v07, check=True):
        if isinstance(item, Run):
            last = item.batches.column("last_offset")[-1]
            if watch is not None:
                watch.run(item.batches)
        # A batch above our own limit may be sound. LogSegment.recover has no such limit from 0.11 on.
        elif item.reason != _OVER_LIMIT:
            if watch is not None:
                watch.damage(item)
            end_offset = last + (not is_v07) if item.size_bytes else item.next_offset or 0
            found = item.position, end_offset, f"{item.reason} at byte {item.position}"
            break
    # Two passes: offsets that do not ascend are rare, and to decide which of the batches is the wrong one needs the
    # whole segment.
    if bounds is not None and watch is not None and watch.is_suspicious:
        with Source.open(_path(segment)) as source:
            misplaced = misplaced_batches(source, bounds, ScanOptions()).batches
        wrong = [each for each in misplaced if each.fault == "offset"]  # none: the name of the file is wrong
        if wrong and (found is None or wrong[0].position <= found[0]):
            found = wrong[0].position, wrong[0].expected_offset, f"offset-order at byte {wrong[0].position}"
    return found


def _items(segment: Segment, advance: Callable[[int], None], *, is_v07: bool, check: bool) -> Iterator[Run | Damage]:
    position = 0
    with Source.open(_path(segment)) as source:
        options = ScanOptions(check=check)
        for item in scan(
            source, base_offset=segment.base_offset, is_v07=is_v07, options=options, end=source.size_bytes
        ):
            yield item
            if isinstance(item, Run):
                reached = item.batches.column("position")[-1] + item.batches.column("size_bytes")[-1]
                advance(reached - position)
                position = reached
        advance(source.size_bytes - position)


def _path(segment: Segment) -> str:
    return segment.files[0].path


# --- the small files --------------------------------------------------------------------------------------------------
class CompanionFiles(Struct, frozen=True, kw_only=True):
    """The small files of a partition after a truncation.

    Args:
        snapshots: the producer snapshots; None: the producers are unknown, and snapshots after the end are deleted.
        epochs: path and content of the leader-epoch-checkpoint; None: it is kept as it is.
        open_transactions: transactions that are open at the new end.
        obstacle: path and place because of which the producers are unknown; None: there is none.
    """

    snapshots: SnapshotFiles | None = None
    epochs: tuple[str, bytes] | None = None
    open_transactions: tuple[OpenTxn, ...] = ()
    obstacle: tuple[str, Obstacle] | None = None

    @property
    def is_expiration_decisive(self) -> bool:
        """Whether new snapshots depend on after what time the release forgets a silent producer."""
        return self.snapshots is not None and self.snapshots.is_expiration_decisive and bool(self.snapshots.written)


def companion_files(truncation: Truncation, facts: PartitionFacts) -> CompanionFiles:
    """Return the small files as `UnifiedLog.truncateTo` leaves them."""
    # UnifiedLog.truncateTo: LeaderEpochFileCache.truncateFromEnd, then the producer state is rebuilt up to the new end.
    epochs = epochs_after(truncation, facts)
    partition, rules = truncation.partition, rules_of(facts.release)
    if partition.format == "v07" or not rules.has_producers:
        return CompanionFiles(epochs=epochs)
    files = SnapshotFiles.of(partition)
    load = ProducerLoad(files, facts.snapshot_options, marks_last_segments=False, search=rules.search)
    is_tiered = facts.settings.remote_storage_enable
    bounds = log_bounds(partition.segments[0].base_offset, facts.context, rules, is_tiered=is_tiered)
    # UnifiedLog.truncateTo lowers the log start offset to the new end, then rebuilds the producers from there
    start_offset = min(bounds.log_start.offset, truncation.end_offset)
    # Never as after a clean shutdown: the snapshot at the old end is deleted, so UnifiedLog.rebuildProducerState must
    # replay.
    obstacle = load.at_end(_kept_segments(truncation), start_offset, truncation.end_offset, is_clean=False)
    if obstacle is not None:
        return CompanionFiles(epochs=epochs, obstacle=obstacle)
    states = load.at_end_of_log
    open_transactions = () if states is None else tuple(states.open_transactions())
    return CompanionFiles(snapshots=files, epochs=epochs, open_transactions=open_transactions)


def epochs_after(
    truncation: Truncation, facts: PartitionFacts, entries: tuple[EpochStart, ...] | None = None
) -> tuple[str, bytes] | None:
    """Return path and content of the leader-epoch-checkpoint after a truncation; None: it is kept, or unreadable.

    Args:
        truncation: what is deleted.
        facts: the release.
        entries: its entries afterwards; None: the present ones up to the new end.
    """
    file = read_epoch_file(truncation.partition.path)
    # A file that a broker refuses is for `checkpoint` to repair. To write it here would turn a visible error into a
    # plausible epoch history.
    if file is None or file.refusal is not None:
        return None
    if entries is None:
        cache = EpochCache(file.entries, facts.release)
        cache.truncate_end(truncation.end_offset)
        entries = cache.entries
    return None if entries == file.entries else (file.path, encode_epoch_checkpoint(entries))


def _kept_segments(truncation: Truncation) -> list[ReplaySegment]:
    sizes = {each.segment.base_offset: each.size_bytes for each in truncation.segments}
    removed = {segment.base_offset for segment in truncation.removed}
    return [
        ReplaySegment(segment.base_offset, _path(segment), sizes.get(segment.base_offset, segment.size_bytes))
        for segment in truncation.partition.segments
        if segment.base_offset not in removed
    ]


# --- the changes ------------------------------------------------------------------------------------------------------
_PIECE_BYTES: Final = 1024 * 1024
_NOT_KEPT: Final = (
    "a broker does not keep it: it is at or below the log start offset, cannot be read, or belongs to no segment"
)


def stage_truncation(truncation: Truncation, companions: CompanionFiles, stage: Stage) -> None:
    """Stage all changes in the directory of a partition.

    Segments are removed from the last one down, and only then the log before them is truncated: a broker that starts in
    between finds a log without holes. The small files follow, because they describe the log that ends earlier.
    """
    directory = truncation.partition.path
    like = _path(truncation.partition.segments[0])
    # Before anything is removed: a start that finds no segment makes one at the checkpointed log start offset
    # (LogLoader.recoverLog), which may be another.
    created = [] if truncation.new_base is None else _stage_new_segment(directory, truncation.new_base, like, stage)
    final = _final(truncation)
    for each in truncation.segments:
        if each is not final:
            _stage_shorter(each, stage)
    # From the last one down: LogLoader.loadSegmentFiles has no check for a missing segment in the middle, so a hole
    # would be served as a jump of offsets.
    for segment in reversed(truncation.removed):
        for file in segment.files:
            # Snapshots have their own list below: it also has those that belong to no segment.
            if file.name.kind is not FileKind.SNAPSHOT and file.path not in created:
                stage.remove(file.path, why=truncation.why_removed)
    if final is not None:
        _stage_shorter(final, stage)
    why = f"the log ends at offset {truncation.end_offset}"
    _stage_snapshots(truncation, companions.snapshots, why, like, stage)
    if companions.epochs is not None:
        path, content = companions.epochs
        stage.write(path, [content], why=why, like=like)


def _stage_snapshots(
    truncation: Truncation, snapshots: SnapshotFiles | None, why: str, like: str, stage: Stage
) -> None:
    """Stage the snapshots; `why`: the reason why those after the new end are deleted."""
    end_offset = truncation.end_offset
    # Without the producer states, only what is wrong for sure is deleted: ProducerStateManager.truncateAndReload
    # removes the snapshots after the end.
    if snapshots is None:
        files = [(file.name.base_offset or 0, file.path) for file in truncation.partition.snapshots]
        deleted = [(offset, path) for offset, path in files if offset > end_offset]
    else:
        deleted = list(snapshots.deleted.items())
        for offset, content in snapshots.written.items():
            path = f"{truncation.partition.path}/{segment_file_name(offset, FileKind.SNAPSHOT)}"
            stage.write(path, [content], why=f"producers at offset {offset}", like=like)
    for offset, path in deleted:
        stage.remove(path, why=why if offset > end_offset else _NOT_KEPT)


def _final(truncation: Truncation) -> SegmentTruncation | None:
    """Return the shorter log after which all segments are removed; None: no segment is."""
    if not truncation.segments:
        return None
    last, removed = truncation.segments[-1], truncation.removed
    # The cut must come after the removals only if the shorter log is before them; a shorter log after them is a segment
    # of its own.
    return last if not removed or last.segment.base_offset < removed[0].base_offset else None


def _stage_new_segment(directory: str, base_offset: int, like: str, stage: Stage) -> list[str]:
    """Stage an empty segment; return its files, which may replace those of a segment at the same offset."""
    kinds = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    paths = [f"{directory}/{segment_file_name(base_offset, kind)}" for kind in kinds]
    # LogSegment.sanityCheck recovers a segment without an offset index, so an empty one is written too.
    for path in paths:
        stage.write(path, [], why=f"a new active segment at offset {base_offset}", like=like)
    return paths


def _stage_shorter(shorter: SegmentTruncation, stage: Stage) -> None:
    """Stage a shorter log and its indexes: indexes that only become shorter come first, rebuilt ones after the log."""
    segment, recovery, end_offset = shorter.segment, shorter.recovery, shorter.end_offset
    log = segment.files[0]
    why = f"its log is truncated: {shorter.why}"
    if recovery is not None:
        stage.cut(log.path, shorter.size_bytes, why=shorter.why)
        stem = log.path.removesuffix(".log")
        contents = [
            (".index", recovery.offset_index),
            (".timeindex", recovery.time_index),
            (".txnindex", recovery.txn_index),
        ]
        # LogLoader.loadSegmentFiles recovers a segment as long as its offset index is missing: so it is written last
        if segment.index is None:
            contents.append(contents.pop(0))
        for suffix, content in contents:
            if content is not None and (content or suffix != ".txnindex" or segment.txnindex is not None):
                stage.write(stem + suffix, [content], why=why, like=log.path)
        return
    base, size_bytes = segment.base_offset, shorter.size_bytes
    # LogSegment.truncateTo: the offset index, the time index and the transaction index are cut by offset, then the log.
    counts: tuple[tuple[FileInfo | None, Layout, Callable[[Iterator[bytes]], int]], ...] = (
        (segment.index, OFFSET_INDEX_ENTRY, lambda pieces: _kept_offsets(pieces, base, end_offset, size_bytes)),
        (segment.timeindex, TIME_INDEX_ENTRY, lambda pieces: _kept_times(pieces, base, end_offset)),
        (segment.txnindex, TXN_INDEX_ENTRY, lambda pieces: _kept_transactions(pieces, end_offset)),
    )
    for file, layout, count in counts:
        if file is not None:
            with Source.open(file.path) as source:
                stage.cut(file.path, layout.size * count(_pieces(source, layout)), why=why)
    # Last, so that no entry points after the end of the log in between: after a clean shutdown
    # LogSegment.readNextOffset would take the base offset for the log end offset.
    stage.cut(log.path, size_bytes, why=shorter.why)


def _pieces(source: Source, layout: Layout) -> Iterator[bytes]:
    """Yield the whole entries of an index file, in pieces, as far as a broker can map it."""
    # A Java ByteBuffer maps at most 2^31-1 bytes, and a broker sees no entry after that.
    position, size_bytes = 0, _PIECE_BYTES - _PIECE_BYTES % layout.size
    while position <= MAX_INT32 and (piece := source.read(position, size_bytes)):
        yield piece[: len(piece) - len(piece) % layout.size]
        position += size_bytes


def _kept_offsets(pieces: Iterator[bytes], base: int, end_offset: int, size_bytes: int) -> int:
    """Count the offset index entries that lead into the shorter log, up to the first one that does not ascend."""
    kept, offset, position = 0, -1, 0
    for next_offset, next_position in chain.from_iterable(map(iter_offset_entries, pieces)):
        # Zeros at the end of a preallocated index decode as entries at the base offset, which do not ascend.
        ascends = next_offset > offset and (not kept or next_position > position)
        if not ascends or base + next_offset >= end_offset or not 0 <= next_position < size_bytes:
            break
        offset, position, kept = next_offset, next_position, kept + 1
    return kept


def _kept_times(pieces: Iterator[bytes], base: int, end_offset: int) -> int:
    """Count the time index entries whose offsets are below the end, up to the first one that goes back."""
    kept, time, offset = 0, -1, 0
    for next_time, next_offset in chain.from_iterable(map(iter_time_entries, pieces)):
        if next_time <= time or next_offset < offset or base + next_offset >= end_offset:
            break
        time, offset, kept = next_time, next_offset, kept + 1
    return kept


def _kept_transactions(pieces: Iterator[bytes], end_offset: int) -> int:
    """Count the transaction index entries whose markers are below the end."""
    entries = chain.from_iterable(map(iter_txn_entries, pieces))
    return sum(1 for _ in takewhile(lambda entry: entry[3] < end_offset, entries))
