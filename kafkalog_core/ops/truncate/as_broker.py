"""What the next start of a broker truncates, and the replacements that it puts in place, by a simulated start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.findings.kinds import AT_OFFSET, VERIFY
from kafkalog_core.findings.logs import STARTS_LATER
from kafkalog_core.findings.plans import BEFORE_PLACE, IN_FILE
from kafkalog_core.format.names import FileKind, FileState, segment_file_name
from kafkalog_core.kafka.sim.start.candidates import recovers_v07
from kafkalog_core.kafka.sim.start.outcome import offset_at
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.sweep import sweep
from kafkalog_core.ops.truncate.truncation import (
    CompanionFiles,
    SegmentTruncation,
    Truncation,
    epochs_after,
    truncate_at_damage,
)
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.planned import FileSlice, Pieces
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.rule_table import LoaderRules
    from kafkalog_core.kafka.sim.start.partition import Follow
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.kafka.sim.start.results import LoadedSegment, LoadProblem, LoadResult
    from kafkalog_core.kafka.sim.start.snapshots import SnapshotFiles
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "BrokerTruncation",
    "SwapCompletion",
    "hold_all",
    "holds_all",
    "stage_completion",
    "truncate_as_broker",
    "voided_replacements",
]


_CODES: Final = {
    "fatal": "truncate.broker-stops",
    "offline": "truncate.broker-offline",
    **STARTS_LATER,
    "misnamed": "truncate.misnamed",
    "split": "truncate.split-first",
    "unknown": "truncate.not-foreseen",
}


class BrokerTruncation(Struct, frozen=True, kw_only=True):
    """What the next start of a broker does to one log.

    Args:
        truncation: what it truncates; None: nothing, or it is unknown.
        companions: the small files after the truncation.
        completion: the replacements that it puts in place first; None: there are none.
        truncates_more: whether it truncates the log again after the completion; the plan does not include that.
        refusal: why nothing is planned; None: there is nothing to do, or it is planned.
    """

    truncation: Truncation | None = None
    companions: CompanionFiles | None = None
    completion: SwapCompletion | None = None
    truncates_more: bool = False
    refusal: Finding | None = None


def truncate_as_broker(
    partition: Partition, facts: PartitionFacts, advance: Callable[[int], None], *, follow: Follow | None = None
) -> BrokerTruncation:
    """Return what the next start of a broker does to a log; `follow`: as of `PartitionLoad`."""
    # 0.7 keeps no index and no checkpoint, and its start reads the last file alone: the simulated start of later
    # releases has nothing to go by.
    if partition.format == "v07":
        return _as_v07(partition, facts, advance)
    # Without the directory around it, the clean shutdown file is out of sight, and LogManager.loadLogs decides by that
    # file alone whether anything is recovered.
    if facts.context.is_clean is None:
        return BrokerTruncation(refusal=_found(partition, "truncate.no-log-dir", partition.path))
    options = facts.load_options
    load = PartitionLoad(partition, facts.context, options, advance=advance, follow=follow)
    for _ in load.run():
        pass
    result = load.result
    if result.problem is not None:
        return BrokerTruncation(refusal=_stopped(partition, result.problem))
    # LogLoader.recoverLog: bytes cut from one segment, or segments after it that are deleted because of the cut.
    truncates = bool(result.lost_bytes or result.removed)
    # Replacements are put in place before any segment is opened (LogLoader.load: removeTempFilesAndCollectSwapFiles,
    # completeSwapOperations, loadSegmentFiles). A plan of both steps would name files that exist only after the first,
    # so the rest is reported and left to a second run.
    if result.moved:
        completion = _completion_of(partition, result, load.snapshots)
        return BrokerTruncation(completion=completion, truncates_more=truncates)
    if not truncates:
        return BrokerTruncation(refusal=_end_lost(partition, result) if result.is_end_lost else None)
    truncation = Truncation(
        partition=partition,
        end_offset=result.end_offset,
        segments=tuple(
            _shorter(each, each.segment) for each in result.segments if each.segment is not None and each.lost_bytes
        ),
        removed=tuple(each.segment for each in result.removed),
        why_removed=result.removed[0].why if result.removed else "",
        # LogLoader.recoverLog: if no segment is left, the log begins again with an empty one at the checkpointed log
        # start offset.
        new_base=next((each.base_offset for each in result.segments if each.segment is None), None),
    )
    companions = CompanionFiles(
        # The load has already lowered these snapshots and epochs in the broker's own order; computing them again from
        # the truncation could differ in the snapshots that a recovery writes on its way.
        snapshots=load.snapshots if options.loader.has_producers else None,
        epochs=None if result.epochs is None else epochs_after(truncation, facts, result.epochs),
        open_transactions=() if load.producers is None else tuple(load.producers.open_transactions()),
    )
    return BrokerTruncation(truncation=truncation, companions=companions)


def _stopped(partition: Partition, problem: LoadProblem) -> Finding:
    """Return the finding that a broker does not start, with the command that ends the log before the place."""
    sentence = problem.sentence.removesuffix(".")
    finding = _found(partition, _CODES[problem.kind], problem.path, position=problem.position, problem=sentence)
    # The other kinds are limits of the simulation. Only for a start that stops is there a place before which the log
    # can end.
    if problem.kind not in {"fatal", "offline"}:
        return finding
    offset = None if problem.position is None else offset_at(partition, problem.path, problem.position)
    if problem.position is None or offset is None:
        return replace(finding, cure=IN_FILE, next_step=VERIFY)
    # At the first damage, the plain `truncate` gets there without an offset; otherwise the batch is whole and only a
    # broker objects to it, so the offset has to be named.
    if _is_damaged_up_to(partition, problem.path, problem.position):
        return finding
    return replace(finding, cure=BEFORE_PLACE.format(offset=offset), next_step=AT_OFFSET.format(offset=offset))


def _is_damaged_up_to(partition: Partition, path: str, position: int) -> bool:
    """Return whether a truncation at the first damage ends a log at or before a byte."""
    truncation = truncate_at_damage(partition, NO_PROGRESS.advance)
    if truncation is None or truncation.is_empty:
        return False
    segments = [each for each in partition.segments if each.log is not None]
    base = next(each.base_offset for each in segments if each.log is not None and each.log.path == path)
    shorter = {each.segment.base_offset: each.size_bytes for each in truncation.segments}
    first = min([*shorter, *(each.base_offset for each in truncation.removed)])
    return first < base or (first == base and shorter.get(base, 0) <= position)


def _shorter(loaded: LoadedSegment, segment: Segment) -> SegmentTruncation:
    recovery = loaded.recovery
    end_offset, why = loaded.base_offset, "its offsets go back where an index entry is due"
    # LogLoader.recoverLog empties a segment at an InvalidOffsetException (offsets that do not ascend at an index
    # point): then its own recovery result does not describe what is left.
    if recovery is not None and not loaded.is_emptied:
        end_offset, why = recovery.end_offset, recovery.stop_detail or "no whole batch follows"
    return SegmentTruncation(
        segment=segment,
        size_bytes=loaded.size_bytes,
        end_offset=end_offset,
        why=f"{why}; {loaded.why}",
        recovery=recovery,
    )


def _as_v07(partition: Partition, facts: PartitionFacts, advance: Callable[[int], None]) -> BrokerTruncation:
    """Return what Kafka 0.7 truncates: the last file before its first bad message, after an unclean shutdown."""
    # Log.loadSegments of 0.7 recovers the last file and no other, and only after an unclean shutdown.
    if not recovers_v07(partition.path, is_clean=facts.context.is_clean):
        return BrokerTruncation()
    return BrokerTruncation(truncation=truncate_at_damage(partition, advance, first=len(partition.segments) - 1))


def _end_lost(partition: Partition, result: LoadResult) -> Finding:
    """Return the finding that a broker assigns offsets of the last segment again, though it truncates nothing.

    After a clean shutdown LogSegment.readNextOffset looks for the log end offset from the last index entry on, and
    takes the last batch that it finds; where it finds none, the base offset of the segment is the end.
    """
    segment = partition.segments[-1]
    last, code = segment.base_offset - 1, "truncate.end-misled"
    with Source.open(segment.files[0].path) as source:
        for item in scan(source, base_offset=segment.base_offset):
            if isinstance(item, Run):
                last = max(last, *item.batches.column("last_offset"))
            else:  # a reindex refuses a log that is damaged, or whose offsets go back
                code = "truncate.end-lost"
                if item.size_bytes:
                    break
    return _found(partition, code, segment.files[0].path, offset=result.end_offset, last=last)


def _found(partition: Partition, code: str, path: str, **details: object) -> Finding:
    return found(code, path, topic=partition.topic, partition=partition.partition, **details)  # type: ignore[arg-type]


class SwapCompletion(Struct, frozen=True, kw_only=True):
    """What a start does with the replacements of one partition (LogLoader.completeSwapOperations).

    Args:
        directory: of the partition.
        moved: the replacements, under their new names, with their present paths.
        given_up: leftovers of other replacements that the start deletes first, each with the reason.
        replaced: files that it deletes because these replace them, each with the reason.
        without_index: base offsets of replacements that have no offset index.
        rebuilt: result of the recovery of the one replacement; None: the release does not recover it.
        snapshots: the snapshots after the start, if it recovers the replacement. Without them another start would read
            the log from an older snapshot on, and might fail at a batch that this one does not read.
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
        """The lowest base offset of the replacements."""
        return min((file.name.base_offset or 0 for file in self.moved), default=0)


def _completion_of(partition: Partition, result: LoadResult, snapshots: SnapshotFiles) -> SwapCompletion:
    """Return what a start does with replacements; `snapshots`: the snapshots after it."""
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


def voided_replacements(partition: Partition, rules: LoaderRules) -> tuple[tuple[str, int], ...]:
    """Return the finished replacements that a start deletes, because another one at or below them is not finished.

    Only those that have records of their own, each with the byte from which on no segment has them. A split never
    leaves one (KAFKA-6264): its segment is there until all replacements are finished.
    """
    removed = (file for file, _ in sweep(partition.files, rules=rules).removed)
    logs = [file for file in removed if (file.name.kind, file.name.state) == (FileKind.LOG, FileState.SWAP)]
    if not logs:
        return ()
    covered = sorted(_extent(segment.log) for segment in partition.segments if segment.log is not None)
    found = [(file, _first_uncovered(file, covered)) for file in logs]
    return tuple((file.path, position) for file, position in found if position < file.size_bytes)


def stage_completion(completion: SwapCompletion, stage: Stage) -> None:
    """Stage the changes: first the replacements are moved aside, then all of them replace the old log in one step.

    A broker that starts between the two finds the whole old log, and loses nothing.
    """
    # Owner and mode of the replacement itself: the cleaner of the same broker wrote it.
    like = completion.moved[0].path
    # As LogLoader.removeTempFilesAndCollectSwapFiles: `.cleaned` files and the replacements that they make void are
    # deleted before any replacement is used.
    for file, why in completion.given_up:
        stage.remove(file.path, why=why)
    for file in completion.moved:
        stage.remove(file.path, why="it gets the name of the segment that it replaces")
    base = completion.base_offset
    for file in completion.moved:
        target = f"{completion.directory}/{file.name.raw}"
        why = "a broker puts the finished replacement in place when it starts"
        pieces = Pieces((FileSlice(file.path, 0, file.size_bytes),))
        stage.write(target, pieces, why=why, like=like, mtime_ns=file.mtime_ns, swap=base)
    indexes = _indexes(completion)
    for name, content, why in indexes:
        stage.write(f"{completion.directory}/{name}", [content], why=why, like=like, swap=base)
    targets = {file.name.raw for file in completion.moved} | {name for name, _, _ in indexes}
    # A file of the same name is replaced by the write above; to remove it as well would delete the new content.
    for file, why in completion.replaced:
        if file.name.raw not in targets:
            stage.remove(file.path, why=why, swap=base)
    if completion.snapshots is not None:
        for offset, content in completion.snapshots.written.items():
            # With the swap, not after it: a log with new segments and old snapshots would be replayed from states of
            # another log.
            target = f"{completion.directory}/{segment_file_name(offset, FileKind.SNAPSHOT)}"
            stage.write(target, [content], why=f"producers at offset {offset}", like=like, swap=base)
        for path in completion.snapshots.deleted.values():
            stage.remove(path, why="the broker does not keep it when it starts", swap=base)


def _indexes(completion: SwapCompletion) -> list[tuple[str, bytes, str]]:
    """Return name, content and reason of the indexes that a replacement does not have yet."""
    rebuilt = completion.rebuilt
    # LogLoader.completeSwapOperations of 2.8 and later renames without a recovery. Opening a replacement without an
    # index gives it an empty one, and LogLoader.recoverSegment is not called since the file is there.
    if rebuilt is None:
        why = "the replacement has no offset index"
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
        # LogSegment.recover empties an existing transaction index and creates none.
        if content or kind is not FileKind.TXN_INDEX
    ]


def holds_all(completion: SwapCompletion) -> bool:
    """Return whether the segments that replacements replace have every record of these."""
    return hold_all([file for file, _ in completion.replaced], completion.moved)


def hold_all(segments: Sequence[FileInfo], replacements: Sequence[FileInfo]) -> bool:
    """Return whether the logs among the files of segments have every record of those among the replacements."""
    logs = [file for file in segments if file.name.kind is FileKind.LOG]
    covered = sorted(map(_extent, logs))
    moved = (file for file in replacements if file.name.kind is FileKind.LOG)
    return bool(logs) and all(_first_uncovered(file, covered) == file.size_bytes for file in moved)


def _extent(file: FileInfo) -> tuple[int, int]:
    """Return the base offset of a replacement, and the offset after its last readable batch."""
    # No upper bound from the next segment: the replacement may span several of the segments that it replaces.
    base = end = file.name.base_offset or 0
    with Source.open(file.path) as source:
        for item in scan(source, base_offset=None):
            if not isinstance(item, Damage):
                end = max(end, item.batches.column("last_offset")[-1] + 1)
            # Damage of no bytes is a remark about offsets; the batches after it are read by a broker too.
            elif item.size_bytes:
                break
    return base, end


def _first_uncovered(file: FileInfo, covered: Sequence[tuple[int, int]]) -> int:
    """Return the byte of a log from which on no replacement has its records; its size if they have all of them."""
    base = file.name.base_offset or 0
    # Replacements that begin at or below the log's base offset cover it from there; the ones after must continue
    # without a gap.
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
