"""`kafkalog retain`: what the next retention check of a broker deletes, as a forecast and as a plan.

The plan deletes first, so that a full disk gets room. A broker may be started, by mistake or by a watchdog, between any
two changes. It then loses at most what the whole plan deletes, because these rules hold after each change:

- Segments are deleted from the first to the last, the log before its indexes. What is left is a whole log that begins
  later. A start deletes an index without a log (`LogLoader.loadSegmentFiles`); the broker would recover, and perhaps
  truncate, a log without its offset index.
- Logs that lose several segments come first: if a run without a journal dies after the first deletions, the same
  command finds that more segments of the same log are due, and also updates the small files of that log.
- The checkpointed log start offset is raised after the deletions. Between the two, a start takes the larger of the
  checkpoint and the first base offset (`LogLoader.load`), which is the state that every broker leaves when it dies
  after retention and before its next checkpoint (`log.flush.start.offset.checkpoint.interval.ms`). The other order is
  as safe, but it writes before any space is free.
- If all segments are deleted, the producer state at the log end and an empty segment there are written before the
  first log is deleted: a log without any segment would begin at offset 0 again, and the state could not be rebuilt.
  The time indexes of these segments are deleted before that and make room for the snapshot. A start replaces a missing
  time index with an empty one and reads no record of the segment (`LogSegment.sanityCheck`), and these segments are
  due anyway. The other files of an empty segment need no block.
- Producer snapshots of deleted segments and leader epochs follow: a start itself corrects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import Finding, found
from kafkalog_core.format.checkpoint import (
    CheckpointMend,
    CheckpointOffset,
    encode_epoch_checkpoint,
    encode_offset_checkpoint,
    parse_offset_entry,
)
from kafkalog_core.format.names import SEGMENT_KINDS, FileKind, fixed_file_name, segment_file_name
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, read_epoch_file
from kafkalog_core.kafka.sim.retention.forecast import Schedule, play
from kafkalog_core.kafka.sim.retention.rules import release_rules
from kafkalog_core.kafka.sim.start.replay import ReplaySegment
from kafkalog_core.kafka.sim.start.snapshots import ProducerLoad, SnapshotFiles
from kafkalog_core.ops.repair.assumptions import assumed_of_broker, assumed_of_topic, assumed_watermark
from kafkalog_core.ops.repair.context import stray_first
from kafkalog_core.ops.repair.held_options import held_options
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.retain.forecaster import (
    RetainForecast,
    RetentionForecaster,
    RetentionOptions,
    Scenario,
    ScenarioResult,
    settings_of,
    under,
    used_settings,
)
from kafkalog_core.ops.retain.rows import findings_of
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir, Key
    from kafkalog_core.kafka.sim.retention.forecast import Forecast
    from kafkalog_core.kafka.sim.retention.rules import Deleted
    from kafkalog_core.kafka.sim.settings import Settings
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.ops.repair.held_options import HeldOption
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "RetainRequest",
    "assumptions_of",
    "plan_retain",
    "raise_log_starts",
    "retain",
    "retained_of",
    "stage_log_starts",
    "stage_retention",
]


def raise_log_starts(broker_dir: BrokerDir, starts: Mapping[Key, int], stage: Stage) -> None:
    """Stage the log start offset checkpoint with these offsets where they are higher; other lines are kept.

    Args:
        broker_dir: the log directory; a checkpoint that a broker refuses is not changed.
        starts: log start offsets by topic and partition.
        stage: receives the change.
    """
    kind = FileKind.LOG_START_OFFSET
    path = f"{broker_dir.path}/{fixed_file_name(kind)}"
    text = broker_dir.offsets.get(kind)
    # No file at all: a start of 0.11 or later creates it, and accepts one that is there already.
    if text is None:
        entries = [(topic, number, offset) for (topic, number), offset in sorted(starts.items())]
        changed_entries = [f"{topic}-{number} is {offset}" for topic, number, offset in entries]
        stage.write(path, [encode_offset_checkpoint(entries)], why=_why_raised(changed_entries), like=broker_dir.path)
        return
    if text.is_refused:
        return
    with Source.open(path) as source:
        mend = CheckpointMend[CheckpointOffset](source.read(0, source.size_bytes), parse_offset_entry)
    missing = dict(starts)
    changed_entries = []
    for line in mend.lines:
        entry = line.entry
        # Taken out of `missing` also where the line is high enough: what is left over has no line yet.
        offset = None if entry is None else missing.pop((entry.topic, entry.partition), None)
        # The log start offset is never lowered: LogLoader.load takes the larger of the checkpoint and the first base
        # offset.
        if entry is None or offset is None or entry.offset >= offset:
            continue
        mend.replace(line, f"{entry.topic} {entry.partition} {offset}", "its log begins later")
        changed_entries.append(f"{entry.topic}-{entry.partition} from {entry.offset} to {offset}")
    for (topic, number), offset in sorted(missing.items()):
        mend.add(f"{topic} {number} {offset}", "its log begins later")
        changed_entries.append(f"{topic}-{number} to {offset}")
    if changed_entries:
        content, _ = mend.content()
        stage.write(path, [content], why=_why_raised(changed_entries), like=path)


def _why_raised(changed_entries: list[str]) -> str:
    return f"log start offset of {first_of(changed_entries)}"


_START: Final = "start-offset"


class RetainRequest(Struct, frozen=True, kw_only=True):
    """What to forecast.

    Args:
        target: the directory, and its selected partitions.
        wanted: release, settings, time and policies.
        scenarios: other settings to try.
        until_ms: time up to which checks are simulated, in milliseconds since 1970; None: they are not.
        jobs: partitions that are read at the same time.
    """

    target: TargetDir
    wanted: RetentionOptions
    scenarios: tuple[Scenario, ...] = ()
    until_ms: int | None = None
    jobs: int = 1


def retain(
    request: RetainRequest, forecaster: RetentionForecaster, progress: Progress = NO_PROGRESS
) -> Iterator[RetainForecast | Finding]:
    """Yield the forecast of each partition, or a finding if nothing of it can be predicted.

    Raises SettingError, SelectionError, RefusedError (now before the data), LimitError (too many checks).
    """
    return retained_of(request, forecaster, forecaster.forecasts(progress, request.jobs))


def retained_of(
    request: RetainRequest, forecaster: RetentionForecaster, forecasts: Iterable[Forecast | Finding]
) -> Iterator[RetainForecast | Finding]:
    """Yield the results of forecasts whose logs were read elsewhere. Raises SettingError and LimitError."""
    for each in forecasts:
        if isinstance(each, Finding):
            yield each
            continue
        settings = forecaster.context.settings
        schedule = schedule_of(each, settings)
        events = () if request.until_ms is None else tuple(play(each.question, schedule, request.until_ms))
        retained = RetainForecast(
            forecast=each,
            findings=tuple(findings_of(each)),
            outcomes=tuple(_outcomes(each, settings, request.scenarios)),
            events=events,
            schedule=schedule,
            assumptions=tuple(assumptions_of(each, settings)),
            held=tuple(_held_of(each)),
        )
        yield stray_first(retained, forecaster.context.assigned_elsewhere.get(each.question.view.path))


def schedule_of(forecast: Forecast, settings: Settings) -> Schedule:
    """Return when a broker that starts now checks a log: by its retention thread, or by the cleaner between cleans."""
    question = forecast.question
    # CleanerThread.cleanFilthiestLog deletes old segments of compacted topics between two cleans;
    # LogManager.cleanupLogs has all other topics.
    by_cleaner = question.rules.runner == "cleaner"
    interval = settings.broker("log.cleaner.backoff.ms" if by_cleaner else "log.retention.check.interval.ms").value
    delay = settings.broker("log.initial.task.delay.ms").value
    # The cleaner has no initial delay; LogManager.startupWithConfigOverrides schedules retention after
    # log.initial.task.delay.ms.
    first_ms = 0 if by_cleaner or not isinstance(delay, int) else delay
    return Schedule(
        first_ms=question.now_ms + first_ms,
        # A broker accepts 0 for the back-off of the cleaner; a simulation in steps of no time would not end.
        interval_ms=max(1, interval) if isinstance(interval, int) else 1,
        delay_ms=question.topic.file_delete_delay_ms,
    )


def _outcomes(forecast: Forecast, settings: Settings, scenarios: Sequence[Scenario]) -> Iterator[ScenarioResult]:
    if scenarios:
        yield ScenarioResult.of(None, forecast)
    for scenario in scenarios:
        yield ScenarioResult.of(scenario.text, under(forecast.question, settings, scenario))


def plan_retain(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog retain --apply`: the deletions of a broker's next check.

    Options: `kafka` (of a SettingsRequest), `policies` (texts `MODULE:FUNCTION`) and `log_start_offset`. What a policy
    deletes is not a loss.

    Raises:
        SelectionError: single files were named, or several partitions for one log start offset.
        SettingError: settings that contradict each other.
    """
    forecaster = RetentionForecaster(request.target, wanted_of(request.options, request))
    context = forecaster.context
    forecasts: list[Forecast] = []
    findings: list[Finding] = []
    for each in forecaster.forecasts(progress, request.jobs):
        if isinstance(each, Finding):
            findings.append(each)
        else:
            forecasts.append(each)
            stray = context.assigned_elsewhere.get(each.question.view.path)
            findings += (*(() if stray is None else (stray,)), *findings_of(each))
    changed = [each for each in forecasts if each.is_change]
    # The checkpoint is staged by a callback: it belongs between the removals and the small files, and only the caller
    # knows the forecasts that change no file but raise the offset.
    producer_findings, is_expiration_decisive = stage_retention(
        changed, context, stage, lambda: stage_log_starts(context, forecasts, stage)
    )
    expiration = (context.settings.producer_expiration(),) if is_expiration_decisive else ()
    topics = [each.question.topic for each in forecasts]
    assumptions = [assumption for each in changed for assumption in assumptions_of(each, context.settings)]
    return PlanReport(
        findings=(*findings, *producer_findings),
        settings=(*used_settings(topics), *expiration),
        release=context.guess if forecasts else None,
        assumptions=tuple(dict.fromkeys(assumptions)),
        held=tuple(dict.fromkeys(held for each in forecasts for held in _held_of(each))),
        needs_release=is_expiration_decisive
        or (bool(changed) and not context.guess.agree(lambda each: [release_rules(topic, each) for topic in topics])),
    )


def assumptions_of(forecast: Forecast, settings: Settings) -> Iterator[Assumption]:
    """Yield the assumed values on which the deletions of a forecast depend.

    The passes by time and size run because of the topic's cleanup.policy and delete by its limit; a larger or smaller
    value of any other setting deletes other segments, not these. Segments below the log start offset are out of reach
    for every reader, so their deletion needs no policy (from 2.1 on, compacted logs have that pass too).
    """
    question, view = forecast.question, forecast.question.view
    limits = {"time": question.rules.time_setting, "size": question.rules.size_setting}
    by = {each.rule for each in forecast.deleted}
    names = [name for rule, name in limits.items() if rule in by]
    # Passes by time and size need a policy that includes `delete`; UnifiedLog.deleteOldSegments runs the pass by start
    # offset for every policy.
    if names or (_START in by and question.rules.start_needs_policy):
        yield from assumed_of_topic(question.topic, ["cleanup.policy", *names])
    if names and question.rules.runner == "cleaner":
        yield from assumed_of_broker([settings.broker("log.cleaner.enable")])
    # A broker deletes nothing above its high watermark
    is_raised = question.log.start_offset > view.log_start_offset
    if question.rules.is_bounded and (by - {_START} or is_raised):
        yield from assumed_watermark(view)


def _held_of(forecast: Forecast) -> Iterator[HeldOption]:
    """Yield the options that do not act on the topic of a forecast."""
    return held_options(forecast.question.topic.topic, settings_of(forecast.question.topic))


def wanted_of(options: Mapping[str, object], request: PlanRequest) -> RetentionOptions:
    """Return the retention options of a plan's options."""
    policies, start = options.get("policies"), options.get("log_start_offset")
    return RetentionOptions(
        kafka=request.settings,
        now_ms=request.now_ms,
        policies=tuple(str(each) for each in policies) if isinstance(policies, (list, tuple)) else (),
        log_start_offset=start if isinstance(start, int) else None,
    )


def stage_log_starts(context: DirContext, forecasts: Sequence[Forecast], stage: Stage) -> None:
    """Stage the checkpoint with the new log start offsets."""
    broker_dir = context.broker_dir
    starts: dict[Key, int] = {}
    for each in forecasts:
        # UnifiedLog.deleteSegments raises the log start offset to the first segment that is left.
        view = each.question.view
        is_raised = each.checked.log.start_offset > view.log_start_offset
        if broker_dir is None or not is_raised or not broker_dir.is_served(view.partition.name):
            continue
        starts[view.topic or "", view.number or 0] = each.checked.log.start_offset
    # Releases without producer snapshots have no log-start-offset-checkpoint either: both came with 0.11 (KIP-107,
    # KIP-98).
    if broker_dir is not None and starts and rules_of(context.release).has_producers:
        raise_log_starts(broker_dir, starts, stage)


_FILES: Final = SEGMENT_KINDS - {FileKind.SNAPSHOT}
_TIMES: Final = frozenset({FileKind.TIME_INDEX})
_NEW_SEGMENT: Final = "a new active segment at offset {}, because all others are deleted"


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
        stage: receives the changes.
        raise_starts: stages the checkpointed log start offsets.

    Returns:
        Findings about producer states that cannot be rebuilt, and whether new snapshots depend on the time after which
        the release expires an inactive producer.
    """
    whole = [each for each in forecasts if each.checked.new_segment is not None]
    parts = [each for each in forecasts if each.checked.new_segment is None]
    # Stable sort: logs that lose one segment come last, see the second rule at the top.
    for each in sorted(parts, key=lambda each: len(each.deleted) == 1):
        _remove_segments(each, stage, _FILES)
    for each in whole:
        # Time indexes only: see the fourth rule at the top.
        _remove_segments(each, stage, _TIMES)
    findings, is_expiration_decisive = [], False
    for each in whole:
        files = SnapshotFiles.of(each.question.view.partition)
        findings.append(_stage_new_segment(each, context, stage, files))
        is_expiration_decisive |= files.is_expiration_decisive and bool(files.written)
    # The whole log is due, and its successor is on disk: from here on each removal frees space.
    for each in whole:
        _remove_segments(each, stage, _FILES - _TIMES)
    raise_starts()
    for each in forecasts:
        _stage_small_files(each, context.release, stage)
    return [finding for finding in findings if finding is not None], is_expiration_decisive


def _remove_segments(forecast: Forecast, stage: Stage, kinds: frozenset[FileKind]) -> None:
    """Stage the deletion of the files of these kinds, segment by segment, the log before its indexes."""
    reasons = {each.segment.base_offset: _why_deleted(each) for each in forecast.deleted}
    for segment in forecast.question.view.partition.segments:
        if segment.base_offset in reasons:
            # In the order of `segment.files`, the log first (first rule at the top).
            for file in segment.files:
                if file.name.kind in kinds:
                    stage.remove(file.path, why=reasons[segment.base_offset])


def _stage_small_files(forecast: Forecast, release: Release, stage: Stage) -> None:
    partition, log = forecast.question.view.partition, forecast.checked.log
    deleted = {each.segment.base_offset for each in forecast.deleted}
    # The next start of older releases deletes them
    removes = rules_of(release).removes_stray_snapshots
    for file in partition.snapshots:
        if removes and file.name.canonical and file.name.base_offset in deleted:
            stage.remove(file.path, why=f"the segments below offset {log.segments[0].base_offset} are deleted")
    if log.start_offset > forecast.question.view.log_start_offset:
        _stage_epochs(partition, log.start_offset, release, stage)


def _why_deleted(deleted: Deleted) -> str:
    return f"{deleted.rule}: {deleted.reason}" if deleted.reason else deleted.rule


def _stage_new_segment(forecast: Forecast, context: DirContext, stage: Stage, files: SnapshotFiles) -> Finding | None:
    """Stage an empty segment at the log end, with the producer state there; return a finding if it is unknown."""
    view = forecast.question.view
    partition, end_offset = view.partition, view.end_offset
    like = partition.segments[-1].files[0].path
    release, finding = context.release, None
    if rules_of(release).has_producers:
        # UnifiedLog.roll takes a snapshot at the base of the new segment (ProducerStateManager.takeSnapshot); after it,
        # the log has no record to rebuild the state from.
        finding = _stage_snapshot(forecast, context, stage, files, like=like)
    kinds = [FileKind.LOG, FileKind.OFFSET_INDEX]
    # 0.10.1 brought the time index (KIP-33).
    kinds += [FileKind.TIME_INDEX] if recovery_rules(release).has_time_index else []
    for kind in kinds:
        path = f"{partition.path}/{segment_file_name(end_offset, kind)}"
        stage.write(path, [], why=_NEW_SEGMENT.format(end_offset), like=like)
    return finding


def _stage_snapshot(
    forecast: Forecast, context: DirContext, stage: Stage, files: SnapshotFiles, *, like: str
) -> Finding | None:
    view = forecast.question.view
    # A snapshot at the log end is what a clean shutdown leaves (UnifiedLog.close): it is the state that is needed.
    if view.end_offset in set(files):
        return None
    readings = [
        ReplaySegment(segment.base_offset, segment.files[0].path, segment.size_bytes)
        for segment in view.partition.segments
    ]
    search = rules_of(context.release).search
    load = ProducerLoad(files, context.snapshot_options, marks_last_segments=False, search=search)
    # A clean shutdown without snapshots would give empty states (LogLoader.load, UnifiedLog.rebuildProducerState); a
    # replay of the records that are still there gives the real ones.
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
    content = files.written.get(view.end_offset)
    if content is not None:
        path = f"{view.path}/{segment_file_name(view.end_offset, FileKind.SNAPSHOT)}"
        stage.write(path, [content], why=f"producers at offset {view.end_offset}", like=like)
    return None


def _stage_epochs(partition: Partition, start_offset: int, release: Release, stage: Stage) -> None:
    file = read_epoch_file(partition.path)
    if file is None or file.refusal is not None:
        return
    cache = EpochCache(file.entries, release)
    # LeaderEpochFileCache.truncateFromStart: the entry that covers the new start is kept, and begins there.
    cache.truncate_start(start_offset)
    if cache.entries != file.entries:
        content = encode_epoch_checkpoint(cache.entries)
        stage.write(file.path, [content], why=f"the log begins at offset {start_offset}", like=file.path)
