"""The changes that delete segments as a broker would, in their order: deletions first, so that a full disk gets room.

A broker may be started, by mistake or by a watchdog, between any two changes. It then loses at most what the whole plan
takes away, because after each change these hold:

- Segments are deleted from the first to the last, the log before its indexes. What is left is a whole log that begins
  later. A start deletes an index without a log (`LogLoader.loadSegmentFiles`); a log without its offset index would be
  recovered, and perhaps truncated, by the broker itself.
- Logs that lose several segments come first: where a run without a journal dies after the first deletions, the same
  command finds others of the same log due and brings the small files of that log into line too.
- The checkpointed log start offset is raised after the deletions. Between the two a start takes the larger of the
  checkpoint and the first base offset (`LogLoader.load`), which is the state that every broker leaves when it dies
  after retention and before its next checkpoint (`log.flush.start.offset.checkpoint.interval.ms`). The other order is
  as safe, but it writes before anything is free.
- Where all segments are deleted, the producer state at the log end and an empty segment there are written before the
  first log is deleted: a log without any segment would begin at offset 0 again, and the state could not be rebuilt.
  The time indexes of these segments are deleted before that and make room for the snapshot. A start replaces a missing
  time index with an empty one and reads no record of the segment (`LogSegment.sanityCheck`), and these segments are
  due anyway. The other files of an empty segment need no block.
- Producer snapshots of deleted segments and leader epochs follow: a start itself corrects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint import encode_epoch_checkpoint
from kafkalog_core.format.names import SEGMENT_KINDS, FileKind, segment_file_name
from kafkalog_core.kafka.leader_epochs import EpochCache, read_epoch_file
from kafkalog_core.kafka.rules import recovery_rules, rules_of
from kafkalog_core.kafka.snapshots import ProducerLoad, SnapshotFiles
from kafkalog_core.kafka.start.replay import ReplaySegment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.kafka.retention.forecast import Forecast
    from kafkalog_core.kafka.retention.rules import Deleted
    from kafkalog_core.ops.repair.context import DirContext
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.partition import Partition

__all__ = ["stage_retention"]

_FILES: Final = SEGMENT_KINDS - {FileKind.SNAPSHOT}
_TIMES: Final = frozenset({FileKind.TIME_INDEX})
_GO_ON: Final = "a new active segment at offset {}, because all others are deleted"


def stage_retention(
    forecasts: Sequence[Forecast],
    context: DirContext,
    stage: Stage,
    raise_starts: Callable[[], None],
) -> tuple[list[Finding], bool]:
    """Stage all changes of some partitions.

    Args:
        forecasts: what is deleted.
        context: what is known of the log directory.
        stage: takes the changes.
        raise_starts: stages the checkpointed log start offsets.

    Returns:
        Findings about producers that cannot be determined, where that matters; and whether new snapshots depend on
        after what time the release forgets a silent producer.
    """
    whole = [each for each in forecasts if each.checked.new_segment is not None]
    parts = [each for each in forecasts if each.checked.new_segment is None]
    for each in sorted(parts, key=lambda each: len(each.deleted) == 1):
        _remove_segments(each, stage, _FILES)
    for each in whole:
        _remove_segments(each, stage, _TIMES)
    findings, is_expiration_decisive = [], False
    for each in whole:
        files = SnapshotFiles.of(each.question.view.partition)
        findings.append(_stage_new_segment(each, context, stage, files))
        is_expiration_decisive |= files.is_expiration_decisive and bool(files.made)
    for each in whole:
        _remove_segments(each, stage, _FILES - _TIMES)
    raise_starts()
    for each in forecasts:
        _stage_small_files(each, context.release, stage)
    return [finding for finding in findings if finding is not None], is_expiration_decisive


def _remove_segments(forecast: Forecast, stage: Stage, kinds: frozenset[FileKind]) -> None:
    """Stage the deletion of the files of these kinds, segment by segment, the log before its indexes."""
    gone = {each.segment.base_offset: _why(each) for each in forecast.deleted}
    for segment in forecast.question.view.partition.segments:
        if segment.base_offset in gone:
            for file in segment.files:
                if file.name.kind in kinds:
                    stage.remove(file.path, why=gone[segment.base_offset])


def _stage_small_files(forecast: Forecast, release: Release, stage: Stage) -> None:
    partition, log = forecast.question.view.partition, forecast.checked.log
    gone = {each.segment.base_offset for each in forecast.deleted}
    removes = rules_of(release).removes_stray_snapshots  # older ones leave it to the next start
    for file in partition.snapshots:
        if removes and file.name.canonical and file.name.base_offset in gone:
            stage.remove(file.path, why=f"the segments up to offset {log.segments[0].base_offset} are gone")
    if log.start_offset > forecast.question.view.log_start_offset:
        _stage_epochs(partition, log.start_offset, release, stage)


def _why(deleted: Deleted) -> str:
    return f"{deleted.rule}: {deleted.reason}" if deleted.reason else deleted.rule


def _stage_new_segment(forecast: Forecast, context: DirContext, stage: Stage, files: SnapshotFiles) -> Finding | None:
    """Return an empty segment at the end of the log, with the state of the producers there."""
    view = forecast.question.view
    partition, end_offset = view.partition, view.end_offset
    like = partition.segments[-1].files[0].path
    release, finding = context.release, None
    if rules_of(release).has_producers:
        finding = _stage_snapshot(forecast, context, stage, files, like=like)
    kinds = [FileKind.LOG, FileKind.OFFSET_INDEX]
    kinds += [FileKind.TIME_INDEX] if recovery_rules(release).has_time_index else []
    for kind in kinds:
        path = f"{partition.path}/{segment_file_name(end_offset, kind)}"
        stage.write(path, [], why=_GO_ON.format(end_offset), like=like)
    return finding


def _stage_snapshot(
    forecast: Forecast, context: DirContext, stage: Stage, files: SnapshotFiles, *, like: str
) -> Finding | None:
    view = forecast.question.view
    if view.end_offset in set(files):
        return None
    readings = [
        ReplaySegment(segment.base_offset, segment.files[0].path, segment.size_bytes)
        for segment in view.partition.segments
    ]
    search = rules_of(context.release).search
    load = ProducerLoad(files, context.snapshot_options, marks_last_segments=False, search=search)
    obstacle = load.at_end(readings, view.log_start_offset, view.end_offset, is_clean=False)
    if obstacle is not None:
        path, place = obstacle
        return found(
            "retain.producers-unknown",
            path,
            topic=view.topic,
            partition=view.number,
            position=place.position,
            damage=place.reason,
        )
    content = files.made.get(view.end_offset)
    if content is not None:
        path = f"{view.path}/{segment_file_name(view.end_offset, FileKind.SNAPSHOT)}"
        stage.write(path, [content], why=f"producers at offset {view.end_offset}", like=like)
    return None


def _stage_epochs(partition: Partition, start_offset: int, release: Release, stage: Stage) -> None:
    file = read_epoch_file(partition.path)
    if file is None or file.refusal is not None:
        return
    cache = EpochCache(file.entries, release)
    cache.cut_start(start_offset)
    if cache.entries != file.entries:
        content = encode_epoch_checkpoint(cache.entries)
        stage.write(file.path, [content], why=f"the log begins at offset {start_offset}", like=file.path)
