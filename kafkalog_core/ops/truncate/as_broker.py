"""The cuts that a broker makes when it starts, taken from a simulation of the start."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.findings.logs import LATER_RELEASE
from kafkalog_core.format.names import FileKind, FileState, fixed_file_name, segment_file_name
from kafkalog_core.kafka.start.partition import PartitionLoad
from kafkalog_core.kafka.start.results import LoadOptions
from kafkalog_core.ops.truncate.cut import Cut, SegmentCut, cut_at_damage
from kafkalog_core.ops.truncate.staging import CompanionFiles, epochs_after
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.snapshots import SnapshotFiles
    from kafkalog_core.kafka.start.recovery import SegmentRecovery
    from kafkalog_core.kafka.start.results import LoadedSegment, LoadProblem, LoadResult
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition

__all__ = ["BrokerCut", "SwapCompletion", "completion_of", "cut_as_broker", "stage_completion"]


_CODES: Final = {
    "fatal": "truncate.broker-stops",
    "old-release": LATER_RELEASE,
    "split": "truncate.split-first",
    "unknown": "truncate.not-foreseen",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCut:
    """What a broker cuts: `cut` None: nothing, or it is not known, for the reason `refusal`.

    With a `completion` it first puts replacements in place; `cuts_more`: it goes on and cuts what comes of that.
    """

    cut: Cut | None = None
    completion: SwapCompletion | None = None
    cuts_more: bool = False
    companions: CompanionFiles | None = None
    refusal: Finding | None = None


def cut_as_broker(partition: Partition, facts: PartitionFacts, advance: Callable[[int], None]) -> BrokerCut:
    """Return where the next start of a broker cuts this log."""
    if partition.format == "v07":
        return _as_v07(partition, facts, advance)
    if facts.context.is_clean is None:
        return BrokerCut(refusal=_found(partition, "truncate.no-log-dir", partition.path))
    options = LoadOptions(release=facts.release, settings=facts.settings, snapshots=facts.snapshot_options)
    load = PartitionLoad(partition, facts.context, options, advance=advance)
    for _ in load.run():
        pass
    result = load.result
    if result.problem is not None:
        return BrokerCut(refusal=_of_problem(partition, result.problem))
    cuts = bool(result.lost_bytes or result.removed)
    completion = completion_of(partition, result, load.snapshots)
    if completion is not None:
        return BrokerCut(completion=completion, cuts_more=cuts)
    if not cuts:
        return BrokerCut(refusal=_end_lost(partition, result) if result.is_end_lost else None)
    cut = _cut(partition, result)
    open_transactions = () if load.producers is None else tuple(load.producers.open_transactions())
    companions = CompanionFiles(
        snapshots=load.snapshots if options.loader.has_producers else None,
        epochs=None if result.epochs is None else epochs_after(cut, facts, result.epochs),
        open_transactions=open_transactions,
    )
    return BrokerCut(cut=cut, companions=companions)


def _cut(partition: Partition, result: LoadResult) -> Cut:
    cuts = tuple(_segment_cut(each) for each in result.segments if each.lost_bytes)
    new = next((each.base_offset for each in result.segments if each.segment is None), None)
    return Cut(
        partition=partition,
        end_offset=result.end_offset,
        segments=tuple(each for each in cuts if each is not None),
        removed=tuple(each.segment for each in result.removed),
        why_removed=result.removed[0].why if result.removed else "",
        new_base=new,
    )


def _segment_cut(loaded: LoadedSegment) -> SegmentCut | None:
    segment = loaded.segment
    if segment is None:
        return None
    recovery = loaded.recovery
    end_offset, why = loaded.base_offset, "its offsets go back where an index entry is due"
    if recovery is not None and not loaded.is_emptied:
        end_offset, why = recovery.end_offset, recovery.stop_detail or "no whole batch follows"
    return SegmentCut(
        segment=segment,
        size_bytes=loaded.size_bytes,
        end_offset=end_offset,
        why=f"{why}; {loaded.why}",
        recovery=recovery,
    )


def _as_v07(partition: Partition, facts: PartitionFacts, advance: Callable[[int], None]) -> BrokerCut:
    """Kafka 0.7 recovers the last file after an unclean stop: it ends before the first message that is bad.

    Its log directories hold nothing but partitions and the mark, so that they are not known for what they are.
    """
    mark = fixed_file_name(FileKind.CLEAN_SHUTDOWN)
    if facts.context.is_clean or os.path.lexists(f"{os.path.dirname(partition.path)}/{mark}"):
        return BrokerCut()
    cut = cut_at_damage(partition, advance, first=len(partition.segments) - 1)
    return BrokerCut(cut=cut)


def _end_lost(partition: Partition, result: LoadResult) -> Finding:
    """After a clean stop nothing is cut; yet the offsets from the base of the last segment on are given out again."""
    segment = partition.segments[-1]
    last, code = segment.base_offset, "truncate.end-misled"
    with Source.open(segment.files[0].path) as source:
        for item in scan(source, base_offset=None):
            if isinstance(item, Run):
                last = item.batches.column("last_offset")[-1]
            elif item.size_bytes:
                code = "truncate.end-lost"
                break
    return _found(partition, code, segment.files[0].path, offset=result.end_offset, last=last)


def _of_problem(partition: Partition, problem: LoadProblem) -> Finding:
    sentence = problem.sentence.removesuffix(".")
    return _found(partition, _CODES[problem.kind], problem.path, position=problem.position, problem=sentence)


def _found(partition: Partition, code: str, path: str, **details: object) -> Finding:
    return found(code, path, topic=partition.topic, partition=partition.partition, **details)  # type: ignore[arg-type]


_PIECE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapCompletion:
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


def completion_of(partition: Partition, result: LoadResult, snapshots: SnapshotFiles) -> SwapCompletion | None:
    """Return what a start does with replacements; None: none waits. `snapshots`: as the start leaves them."""
    if not result.moved:
        return None
    leftovers = {FileState.CLEANED, FileState.SWAP}
    moved = tuple(sorted(result.moved, key=lambda file: (file.name.kind is not FileKind.LOG, file.name.raw)))
    logs = [file for file in moved if file.name.kind is FileKind.LOG]
    indexed = {file.name.base_offset for file in moved if file.name.kind is FileKind.OFFSET_INDEX}
    replaced = tuple(each for each in result.swept if each[0].name.state is FileState.LIVE)
    covered = sorted(_extent(file) for file in logs)
    return SwapCompletion(
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


def stage_completion(completion: SwapCompletion, stage: Stage) -> None:
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


def _indexes(completion: SwapCompletion) -> list[tuple[str, bytes, str]]:
    """Return name, content and reason of the indexes that do not come with a replacement."""
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
    """Return the byte of a log from which on no replacement has its records; its size: they have all."""
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
