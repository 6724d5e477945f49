"""Finished replacements (`.swap`) that a starting broker puts in place, and what it deletes for them.

Since 3.0 a broker renames them without reading them before it opens a segment, and deletes every file whose base offset
is between the lowest base offset of a replacement and the highest next offset of one (`LogLoader.load`). Up to 2.8 it
recovers the log of a replacement, builds its indexes, and deletes the segments that overlap it
(`Log.completeSwapOperations`). Records of these files that no replacement holds are lost: those after the end of a
replacement that is too short, and those between two replacements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import FileKind, FileState, segment_file_name
from kafkalog_core.storage.scan import Damage, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.ops.recovery.results import LoadResult
    from kafkalog_core.ops.recovery.segment import SegmentRecovery
    from kafkalog_core.ops.recovery.snapshots import SnapshotFiles
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition

__all__ = ["Completion", "completion_of", "stage_completion"]

_PIECE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a start does with the replacements of one partition.

    Args:
        directory: of the partition.
        moved: the replacements, under the names that they get, with the paths at which they are.
        given_up: leftovers of other replacements that a start deletes before.
        replaced: files that it deletes for these.
        without_index: base offsets of replacements that come without an offset index.
        rebuilt: what recovery makes of the one replacement; None: the release does not recover it.
        snapshots: as the start leaves them, where it recovers the replacement. Without them another start would read
            the log from an older one on, and perhaps die of a batch that this one does not read.
        lost: logs that it deletes, each with the byte from which on no replacement holds its records.
    """

    directory: str
    moved: tuple[FileInfo, ...]
    given_up: tuple[tuple[FileInfo, str], ...]
    replaced: tuple[tuple[FileInfo, str], ...]
    without_index: tuple[int, ...]
    rebuilt: SegmentRecovery | None
    snapshots: SnapshotFiles | None
    lost: tuple[tuple[str, int], ...]

    @property
    def base_offset(self) -> int:
        """The lowest of the replacements."""
        return min((file.name.base_offset or 0 for file in self.moved), default=0)


def completion_of(partition: Partition, result: LoadResult, snapshots: SnapshotFiles) -> Completion | None:
    """What a start does with replacements; None: none waits. `snapshots`: as the start leaves them."""
    if not result.moved:
        return None
    leftovers = {FileState.CLEANED, FileState.SWAP}
    moved = tuple(sorted(result.moved, key=lambda file: (file.name.kind is not FileKind.LOG, file.name.raw)))
    logs = [file for file in moved if file.name.kind is FileKind.LOG]
    indexed = {file.name.base_offset for file in moved if file.name.kind is FileKind.OFFSET_INDEX}
    replaced = tuple(each for each in result.swept if each[0].name.state is FileState.LIVE)
    covered = sorted(_extent(file) for file in logs)
    return Completion(
        directory=partition.path,
        moved=moved,
        given_up=tuple(each for each in result.swept if each[0].name.state in leftovers),
        replaced=replaced,
        without_index=tuple(
            file.name.base_offset or 0
            for file in logs
            if result.rebuilt is None and file.name.base_offset not in indexed
        ),
        rebuilt=result.rebuilt,
        snapshots=None if result.rebuilt is None else snapshots,
        lost=tuple(
            (file.path, position)
            for file, _ in replaced
            if file.name.kind is FileKind.LOG and (position := _first_uncovered(file, covered)) < file.size_bytes
        ),
    )


def stage_completion(completion: Completion, stage: Stage) -> None:
    """Stage the changes: the replacements are set aside, so that the old log is whole, and then take its place at once.

    A broker that starts between the two finds the old log, and loses nothing.
    """
    like = completion.moved[0].path
    for file, why in completion.given_up:
        stage.remove(file.path, why=why)
    for file in completion.moved:
        stage.remove(file.path, why="it takes its place under its own name")
    base = completion.base_offset
    for file in completion.moved:
        target = f"{completion.directory}/{file.name.raw}"
        why = "a finished replacement takes its place, as at a start"
        stage.write(target, _pieces(file), why=why, like=like, mtime_ns=file.mtime_ns, swap=base)
    indexes = _indexes(completion)
    for name, content, why in indexes:
        stage.write(f"{completion.directory}/{name}", [content], why=why, like=like, swap=base)
    targets = {file.name.raw for file in completion.moved} | {name for name, _, _ in indexes}
    for file, why in completion.replaced:
        if file.name.raw not in targets:
            stage.remove(file.path, why=why, swap=base)
    if completion.snapshots is not None:
        for offset, content in completion.snapshots.made.items():
            target = f"{completion.directory}/{segment_file_name(offset, FileKind.SNAPSHOT)}"
            stage.write(target, [content], why=f"producers at offset {offset}", like=like, swap=base)
        for path in completion.snapshots.gone.values():
            stage.remove(path, why="the broker does not keep it when it starts", swap=base)


def _indexes(completion: Completion) -> list[tuple[str, bytes, str]]:
    """Name, content and reason of the indexes that do not come with a replacement."""
    rebuilt = completion.rebuilt
    if rebuilt is None:
        why = "its replacement comes without an offset index"
        return [(segment_file_name(each, FileKind.OFFSET_INDEX), b"", why) for each in completion.without_index]
    why = "the broker builds it from the log of the replacement"
    contents = (
        (FileKind.OFFSET_INDEX, rebuilt.offset_index),
        (FileKind.TIME_INDEX, rebuilt.time_index or b""),
        (FileKind.TXN_INDEX, rebuilt.txn_index or b""),
    )
    return [
        (segment_file_name(rebuilt.base_offset, kind), content, why)
        for kind, content in contents
        if content or kind is not FileKind.TXN_INDEX
    ]


def _pieces(file: FileInfo) -> Iterator[bytes]:
    with Source.open(file.path) as source:
        for position in range(0, file.size_bytes, _PIECE):
            yield source.read(position, min(_PIECE, file.size_bytes - position))


def _extent(file: FileInfo) -> tuple[int, int]:
    """Return the base offset of a replacement, and the offset after its last readable batch."""
    base = end = file.name.base_offset or 0
    with Source.open(file.path) as source:
        for item in scan(source, base_offset=None):
            if not isinstance(item, Damage):
                end = max(end, item.batches.column("last_offset")[-1] + 1)
            elif item.size_bytes:
                break
    return base, end


def _first_uncovered(file: FileInfo, covered: Sequence[tuple[int, int]]) -> int:
    """The byte of a log from which on no replacement has its records; its size: they have all."""
    base = file.name.base_offset or 0
    end = max((end for first, end in covered if first <= base), default=base)
    for first, after in covered:
        end = after if first <= end < after else end
    with Source.open(file.path) as source:
        for item in scan(source, base_offset=None):
            if isinstance(item, Damage):
                continue
            lasts = item.batches.column("last_offset")
            row = next((row for row, last in enumerate(lasts) if last >= end), None)
            if row is not None:
                return item.batches.column("position")[row]
    return file.size_bytes
