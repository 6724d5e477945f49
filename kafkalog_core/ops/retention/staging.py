"""The changes that delete segments as a broker would, in their order.

A broker may be started, by mistake or by a watchdog, between any two of them. What it then loses is at most what the
whole plan takes away, since after each change these hold:

- The checkpointed log start is raised first, for all logs: what is below it is gone for every reader, and a broker
  would delete it itself.
- Where all segments go, the producers' state at the end of the log and then a new empty segment there come before
  anything goes: a log is never without a segment, which would begin at offset 0 again.
- Segments go from the first to the last, the log before its indexes: what is left is a whole log that begins later. An
  index without a log is swept away; a log without its index would be read, and cut, by the broker itself.
- Producer snapshots of what is gone, and leader epochs, follow: a start itself puts them right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint_text import encode_epoch_checkpoint
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.ops.logdirs.segment_views import TIME_INDEXES
from kafkalog_core.ops.recovery.epochs import EpochCache, read_epoch_file
from kafkalog_core.ops.recovery.loader_rules import rules_of
from kafkalog_core.ops.recovery.producer_load import ProducerLoad, Reading
from kafkalog_core.ops.recovery.snapshots import SnapshotFiles

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.recovery.snapshots import SnapshotOptions
    from kafkalog_core.ops.releases.release import Release
    from kafkalog_core.ops.retention.check import Deleted
    from kafkalog_core.ops.retention.forecast import Forecast
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.partition import Partition

__all__ = ["stage_retention"]

_GO_ON = "a new segment for the log to go on at offset {}, as all others go"


def stage_retention(forecast: Forecast, release: Release, snapshots: SnapshotOptions, stage: Stage) -> Finding | None:
    """Stage all changes in the directory of a partition; what cannot be told of its producers, where that matters.

    Args:
        forecast: what goes.
        release: whose rules.
        snapshots: how producer snapshots are read and written.
        stage: takes the changes.
    """
    partition = forecast.question.view.partition
    log = forecast.checked.log
    finding = None
    if forecast.checked.new_segment is not None:
        finding = _stage_new_segment(forecast, release, snapshots, stage)
    gone = {each.segment.base_offset: each for each in forecast.deleted}
    for segment in partition.segments:
        if segment.base_offset in gone:
            for file in segment.files:
                if file.name.kind is not FileKind.SNAPSHOT:
                    stage.remove(file.path, why=_why(gone[segment.base_offset]))
    removes = rules_of(release).removes_stray_snapshots  # older ones leave it to the next start
    for file in partition.snapshots:
        if removes and file.name.canonical and file.name.base_offset in gone:
            stage.remove(file.path, why=f"the segments up to offset {log.segments[0].base_offset} are gone")
    if log.start_offset > forecast.question.view.log_start_offset:
        _stage_epochs(partition, log.start_offset, release, stage)
    return finding


def _why(deleted: Deleted) -> str:
    return f"{deleted.rule}: {deleted.reason}" if deleted.reason else deleted.rule


def _stage_new_segment(forecast: Forecast, release: Release, options: SnapshotOptions, stage: Stage) -> Finding | None:
    """An empty segment at the end of the log, with the state of the producers there."""
    view = forecast.question.view
    partition, end_offset = view.partition, view.end_offset
    like = partition.segments[-1].files[0].path
    finding = None
    if rules_of(release).has_producers:
        finding = _stage_snapshot(forecast, options, stage, like)
    kinds = (FileKind.LOG, FileKind.OFFSET_INDEX, *((FileKind.TIME_INDEX,) if release >= TIME_INDEXES else ()))
    for kind in kinds:
        path = f"{partition.path}/{segment_file_name(end_offset, kind)}"
        stage.write(path, [], why=_GO_ON.format(end_offset), like=like)
    return finding


def _stage_snapshot(forecast: Forecast, options: SnapshotOptions, stage: Stage, like: str) -> Finding | None:
    view = forecast.question.view
    files = SnapshotFiles.of(view.partition)
    if view.end_offset in set(files):
        return None
    readings = [
        Reading(segment.base_offset, segment.files[0].path, segment.size_bytes) for segment in view.partition.segments
    ]
    load = ProducerLoad(files, options, marks_last_segments=False)
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
