"""The changes that cut a log, in their order: deletions and cuts first, so that a full disk gets room.

A broker may be started, by mistake or by a watchdog, between any two changes. It then loses at most what the whole plan
takes away, because after each change these hold:

- The checkpointed log start offset is the exception to "writes come last": above the log end it makes a start delete
  the whole log (`UnifiedLog`/`LogLoader`: log end offset below log start offset). It is lowered before such a log is
  cut, and all other logs are cut before that, so that the checkpoint finds room.
- An empty segment that replaces all others comes before their deletion; its files need no block.
- Segments are deleted from the last to the first, the log before its indexes. What is left is a whole log that ends
  earlier. A start deletes an index without a log; a log without its offset index would be recovered, and perhaps
  truncated, by the broker itself.
- Indexes that are only shortened are cut in place before their log: an entry that leads past the end of the log makes a
  start after a clean stop take the segment for empty, and overwrite it. With fewer entries reads only start earlier.
- Indexes that are rebuilt, where the plan is a start's own recovery, are written after their log is cut: that start
  recovers the segment again and makes the same of it. A missing offset index, which alone makes it do so after a
  clean stop, is written last; one that is there is replaced first, as it leads past the end of the log.
- The snapshot of the producers at the new end is written before any old snapshot is deleted. Until then a start finds
  the old ones and replays the log from them; where there is none, it would have found none on the old disk either.
- Snapshots past the end, leader epochs, recovery point, high watermark and cleaner offset follow: a start itself
  corrects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.index import iter_offset_entries, iter_time_entries, iter_txn_entries
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.layout import Layout
    from kafkalog_core.ops.recovery.snapshots import SnapshotFiles
    from kafkalog_core.ops.truncation.aftermath import Aftermath
    from kafkalog_core.ops.truncation.cut import Cut, SegmentCut
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.segment import Segment

__all__ = ["stage_cut"]

_ROWS = 1024 * 1024
_NOT_KEPT = "a broker would not keep it: it lies at or below the start of the log, cannot be read, or is of no segment"


def stage_cut(cut: Cut, aftermath: Aftermath | None, stage: Stage) -> None:
    """Stage all changes in the directory of a partition.

    Args:
        cut: what goes.
        aftermath: the small files; null: nothing is known of them, and snapshots behind the end go.
        stage: takes the changes.
    """
    snapshots, epochs = (None, None) if aftermath is None else (aftermath.snapshots, aftermath.epochs)
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
    """The log behind which all others go; null: none do."""
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
        stage.write(path, [], why=f"a new segment for the log to go on at offset {base_offset}", like=like)


def _gone_snapshots(cut: Cut, snapshots: SnapshotFiles | None) -> list[tuple[int, str]]:
    if snapshots is not None:
        return list(snapshots.gone.items())
    files = [(file.name.base_offset or 0, file.path) for file in cut.partition.snapshots]
    return [(offset, path) for offset, path in files if offset > cut.end_offset]


def _shorten(cut: SegmentCut, stage: Stage) -> None:
    """The log and its indexes; see the order above."""
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
    """Bytes of an index up to the first entry that cannot stay; the zero tail of a crash does not."""
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
