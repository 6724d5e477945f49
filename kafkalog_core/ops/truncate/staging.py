"""The changes of a cut: logs, indexes, producer snapshots and leader epochs, in an order that is safe at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.format.checkpoint import encode_epoch_checkpoint
from kafkalog_core.format.index import iter_offset_entries, iter_time_entries, iter_txn_entries
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.kafka.leader_epochs import EpochCache, read_epoch_file
from kafkalog_core.kafka.logdir.bounds import log_bounds
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.kafka.snapshots import ProducerLoad, SnapshotFiles
from kafkalog_core.kafka.start.replay import ReplaySegment
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.layout import Layout
    from kafkalog_core.kafka.leader_epochs import EpochStart
    from kafkalog_core.kafka.producers import OpenTxn
    from kafkalog_core.kafka.start.replay import Obstacle
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.truncate.cut import Cut, SegmentCut
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import FileInfo, Segment

__all__ = ["CompanionFiles", "companion_files", "epochs_after", "stage_cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionFiles:
    """The small files after a cut.

    Args:
        snapshots: as they are to be; None: nothing is known, and those after the end go.
        epochs: path and content of the leader-epoch-checkpoint; None: it is kept as it is.
        open_transactions: at the new end.
        obstacle: path and place because of which the producers are unknown; None: none.
    """

    snapshots: SnapshotFiles | None = None
    epochs: tuple[str, bytes] | None = None
    open_transactions: tuple[OpenTxn, ...] = ()
    obstacle: tuple[str, Obstacle] | None = None

    @property
    def is_expiration_decisive(self) -> bool:
        """Whether new snapshots depend on after what time the release forgets a silent producer."""
        return self.snapshots is not None and self.snapshots.is_expiration_decisive and bool(self.snapshots.made)


def companion_files(cut: Cut, facts: PartitionFacts) -> CompanionFiles:
    """Return what `UnifiedLog.truncateTo` does to the small files."""
    epochs = epochs_after(cut, facts)
    if cut.partition.format == "v07" or not rules_of(facts.release).has_producers:
        return CompanionFiles(epochs=epochs)
    files = SnapshotFiles.of(cut.partition)
    search = rules_of(facts.release).search
    load = ProducerLoad(files, facts.snapshot_options, marks_last_segments=False, search=search)
    first_base, is_tiered = cut.partition.segments[0].base_offset, facts.settings.remote_storage_enable
    bounds = log_bounds(first_base, facts.context, rules_of(facts.release), is_tiered=is_tiered)
    start_offset = min(bounds.log_start.offset, cut.end_offset)
    obstacle = load.at_end(_readings(cut), start_offset, cut.end_offset, is_clean=False)
    if obstacle is not None:
        return CompanionFiles(epochs=epochs, obstacle=obstacle)
    states = load.at_end_of_log
    return CompanionFiles(
        snapshots=files,
        epochs=epochs,
        open_transactions=() if states is None else tuple(states.open_transactions()),
    )


def epochs_after(
    cut: Cut, facts: PartitionFacts, entries: tuple[EpochStart, ...] | None = None
) -> tuple[str, bytes] | None:
    """Return path and content of the leader-epoch-checkpoint after a cut; None: it is kept, or cannot be read.

    Args:
        cut: what is deleted.
        facts: the release.
        entries: those that are to be there; None: those that are, up to the new end.
    """
    file = read_epoch_file(cut.partition.path)
    if file is None or file.refusal is not None:
        return None
    if entries is None:
        cache = EpochCache(file.entries, facts.release)
        cache.cut_end(cut.end_offset)
        entries = cache.entries
    if entries == file.entries:
        return None
    return file.path, encode_epoch_checkpoint(entries)


def _readings(cut: Cut) -> list[ReplaySegment]:
    sizes = {each.segment.base_offset: each.size_bytes for each in cut.segments}
    gone = {segment.base_offset for segment in cut.removed}
    return [
        ReplaySegment(segment.base_offset, segment.files[0].path, sizes.get(segment.base_offset, segment.size_bytes))
        for segment in cut.partition.segments
        if segment.base_offset not in gone
    ]


_ROWS = 1024 * 1024
_NOT_KEPT = (
    "a broker does not keep it: it is at or below the log start offset, cannot be read, or belongs to no segment"
)


def stage_cut(cut: Cut, companions: CompanionFiles | None, stage: Stage) -> None:
    """Stage all changes in the directory of a partition.

    Args:
        cut: what is deleted.
        companions: the small files; None: nothing is known of them, and snapshots after the end are deleted.
        stage: takes the changes.
    """
    snapshots, epochs = (None, None) if companions is None else (companions.snapshots, companions.epochs)
    directory = cut.partition.path
    like = cut.partition.segments[0].files[0].path
    if cut.new_base is not None:
        _make_segment(directory, cut.new_base, like, stage)
    final = _final(cut)
    for each in cut.segments:
        if each is not final:
            _shorten(each, stage)
    for segment in reversed(cut.removed):
        _remove(segment, cut.why_removed, stage)
    if final is not None:
        _shorten(final, stage)
    for offset, content in ({} if snapshots is None else snapshots.made).items():
        name = segment_file_name(offset, FileKind.SNAPSHOT)
        stage.write(f"{directory}/{name}", [content], why=f"producers at offset {offset}", like=like)
    for offset, gone in _gone_snapshots(cut, snapshots):
        is_behind = offset > cut.end_offset
        stage.remove(gone, why=f"the log ends at offset {cut.end_offset}" if is_behind else _NOT_KEPT)
    if epochs is not None:
        path, content = epochs
        stage.write(path, [content], why=f"the log ends at offset {cut.end_offset}", like=like)


def _final(cut: Cut) -> SegmentCut | None:
    """Return the shortened log after which all segments are removed; None: no segment is."""
    if not cut.segments:
        return None
    last = cut.segments[-1]
    return last if not cut.removed or last.segment.base_offset < cut.removed[0].base_offset else None


def _remove(segment: Segment, why: str, stage: Stage) -> None:
    for file in segment.files:
        if file.name.kind is not FileKind.SNAPSHOT:
            stage.remove(file.path, why=why)


def _make_segment(directory: str, base_offset: int, like: str, stage: Stage) -> None:
    for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        path = f"{directory}/{segment_file_name(base_offset, kind)}"
        stage.write(path, [], why=f"a new active segment at offset {base_offset}", like=like)


def _gone_snapshots(cut: Cut, snapshots: SnapshotFiles | None) -> list[tuple[int, str]]:
    if snapshots is not None:
        return list(snapshots.gone.items())
    files = [(file.name.base_offset or 0, file.path) for file in cut.partition.snapshots]
    return [(offset, path) for offset, path in files if offset > cut.end_offset]


def _shorten(cut: SegmentCut, stage: Stage) -> None:
    """Return the log and its indexes; see the order above."""
    segment, recovery = cut.segment, cut.recovery
    log = segment.files[0]
    why = f"its log is cut: {cut.why}"
    if recovery is not None:
        stage.cut(log.path, cut.size_bytes, why=cut.why)
        stem = log.path.removesuffix(".log")
        contents = [
            (".index", recovery.offset_index),
            (".timeindex", recovery.time_index),
            (".txnindex", recovery.txn_index),
        ]
        if segment.index is None:  # then that is why a start recovers the segment
            contents.append(contents.pop(0))
        for suffix, content in contents:
            if content is not None and (content or suffix != ".txnindex" or segment.txnindex is not None):
                stage.write(stem + suffix, [content], why=why, like=log.path)
        return
    base = segment.base_offset
    for file, layout, is_kept in (
        (segment.index, OFFSET_INDEX_ENTRY, _offset_test(base, cut.end_offset, cut.size_bytes)),
        (segment.timeindex, TIME_INDEX_ENTRY, _time_test(base, cut.end_offset)),
        (segment.txnindex, TXN_INDEX_ENTRY, _txn_test(cut.end_offset)),
    ):
        if file is not None:
            stage.cut(file.path, _kept_bytes(file, layout, is_kept), why=why)
    stage.cut(log.path, cut.size_bytes, why=cut.why)


def _kept_bytes(file: FileInfo, layout: Layout, kept: Callable[[Iterable[bytes]], int]) -> int:
    """Return bytes of an index up to the first entry that cannot stay; the zero tail of a crash does not."""
    with Source.open(file.path) as source:
        return layout.size * kept(_pieces(source, layout))


def _pieces(source: Source, layout: Layout) -> Iterator[bytes]:
    position, size_bytes = 0, _ROWS - _ROWS % layout.size
    while piece := source.read(position, size_bytes):
        yield piece[: len(piece) - len(piece) % layout.size]
        if len(piece) < size_bytes:
            return
        position += size_bytes


def _offset_test(base: int, end_offset: int, size_bytes: int) -> Callable[[Iterable[bytes]], int]:
    """Offset index: ascending in both columns, below the end of the log."""

    def count(pieces: Iterable[bytes]) -> int:
        kept, offset, position = 0, -1, 0
        for piece in pieces:
            for next_offset, next_position in iter_offset_entries(piece):
                is_behind = next_offset <= offset or (kept and next_position <= position)
                if is_behind or base + next_offset >= end_offset or not 0 <= next_position < size_bytes:
                    return kept
                offset, position, kept = next_offset, next_position, kept + 1
        return kept

    return count


def _time_test(base: int, end_offset: int) -> Callable[[Iterable[bytes]], int]:
    """Time index: times ascend, offsets do not descend, all below the end."""

    def count(pieces: Iterable[bytes]) -> int:
        kept, time, offset = 0, -1, 0
        for piece in pieces:
            for next_time, next_offset in iter_time_entries(piece):
                if next_time <= time or next_offset < offset or base + next_offset >= end_offset:
                    return kept
                time, offset, kept = next_time, next_offset, kept + 1
        return kept

    return count


def _txn_test(end_offset: int) -> Callable[[Iterable[bytes]], int]:
    """Transaction index: markers below the end."""

    def count(pieces: Iterable[bytes]) -> int:
        kept = 0
        for piece in pieces:
            for _, _, _, last_offset, _ in iter_txn_entries(piece):
                if last_offset >= end_offset:
                    return kept
                kept += 1
        return kept

    return count
