"""`kafkalog retain`: what the next retention check of a broker deletes, as a forecast and as a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import Finding
from kafkalog_core.format.checkpoint import (
    CheckpointMend,
    CheckpointOffset,
    encode_offset_checkpoint,
    parse_offset_entry,
)
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.kafka.assumptions import assumed_of_broker, assumed_of_topic, assumed_watermark
from kafkalog_core.kafka.retention.forecast import Schedule, play
from kafkalog_core.kafka.retention.rules import release_rules
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.ops.repair.context import stray_first
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.retain.forecaster import (
    Retained,
    RetentionForecaster,
    RetentionOptions,
    Scenario,
    ScenarioResult,
    under,
    used_settings,
)
from kafkalog_core.ops.retain.rows import findings_of
from kafkalog_core.ops.retain.staging import stage_retention
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.source import Source
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.assumptions import Assumption
    from kafkalog_core.kafka.logdir.top_files import BrokerDir, Key
    from kafkalog_core.kafka.retention.forecast import Forecast
    from kafkalog_core.kafka.settings import Settings
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["RetainRequest", "plan_retain", "raise_log_starts", "retain", "retained_of"]


def raise_log_starts(broker_dir: BrokerDir, starts: Mapping[Key, int], stage: Stage) -> None:
    """Stage the checkpoint with these log starts where they are higher than what it has; other lines stay.

    Args:
        broker_dir: the log directory; a file that a broker refuses is left alone.
        starts: where logs begin, by topic and partition.
        stage: takes the change.
    """
    kind = FileKind.LOG_START_OFFSET
    path = f"{broker_dir.path}/{fixed_file_name(kind)}"
    text = broker_dir.offsets.get(kind)
    if text is None:
        entries = [(topic, number, offset) for (topic, number), offset in sorted(starts.items())]
        changed_entries = [f"{topic}-{number} is {offset}" for topic, number, offset in entries]
        stage.write(path, [encode_offset_checkpoint(entries)], why=_why(changed_entries), like=broker_dir.path)
        return
    if text.is_refused:
        return
    with Source.open(path) as source:
        mend = CheckpointMend[CheckpointOffset](source.read(0, source.size_bytes), parse_offset_entry)
    missing = dict(starts)
    changed_entries = []
    for line in mend.lines:
        entry = line.entry
        offset = None if entry is None else missing.pop((entry.topic, entry.partition), None)
        if entry is None or offset is None or entry.offset >= offset:
            continue
        mend.replace(line, f"{entry.topic} {entry.partition} {offset}", "its log begins later")
        changed_entries.append(f"{entry.topic}-{entry.partition} from {entry.offset} to {offset}")
    for (topic, number), offset in sorted(missing.items()):
        mend.add(f"{topic} {number} {offset}", "its log begins later")
        changed_entries.append(f"{topic}-{number} to {offset}")
    if changed_entries:
        content, _ = mend.content()
        stage.write(path, [content], why=_why(changed_entries), like=path)


def _why(changed_entries: list[str]) -> str:
    return f"log start offset of {first_of(changed_entries)}"


_START: Final = "start-offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainRequest:
    """What is asked.

    Args:
        target: the directory, and what is named in it.
        wanted: release, settings, moment and policies.
        scenarios: other settings to try.
        until_ms: how far checks are played forward; None: not at all.
        jobs: partitions that are read at the same time.
    """

    target: TargetDir
    wanted: RetentionOptions
    scenarios: tuple[Scenario, ...] = ()
    until_ms: int | None = None
    jobs: int = 1


def retain(
    request: RetainRequest, forecaster: RetentionForecaster, progress: Progress = NO_PROGRESS
) -> Iterator[Retained | Finding]:
    """Partition by partition; a finding is for one of which nothing can be foreseen.

    Raises SettingError, SelectionError, RefusedError (now before the data), LimitError (too many checks).
    """
    return retained_of(request, forecaster, forecaster.forecasts(progress, request.jobs))


def retained_of(
    request: RetainRequest, forecaster: RetentionForecaster, forecasts: Iterable[Forecast | Finding]
) -> Iterator[Retained | Finding]:
    """Yield what there is to say of forecasts, by whomever the logs were read. Raises SettingError and LimitError."""
    for each in forecasts:
        if isinstance(each, Finding):
            yield each
            continue
        settings = forecaster.context.settings
        schedule = schedule_of(each, settings)
        events = () if request.until_ms is None else tuple(play(each.question, schedule, request.until_ms))
        retained = Retained(
            forecast=each,
            findings=tuple(findings_of(each)),
            outcomes=tuple(_outcomes(each, settings, request.scenarios)),
            events=events,
            schedule=schedule,
            assumptions=tuple(_assumptions_of(each, settings)),
        )
        yield stray_first(retained, forecaster.context.assigned_elsewhere.get(each.question.view.path))


def schedule_of(forecast: Forecast, settings: Settings) -> Schedule:
    """When a broker that is started now checks a log: the retention thread, or the cleaner's between two cleanings."""
    question = forecast.question
    by_cleaner = question.rules.runner == "cleaner"
    interval = settings.broker("log.cleaner.backoff.ms" if by_cleaner else "log.retention.check.interval.ms").value
    delay = settings.broker("log.initial.task.delay.ms").value
    first_ms = 0 if by_cleaner or not isinstance(delay, int) else delay
    return Schedule(
        first_ms=question.now_ms + first_ms,
        interval_ms=max(1, interval) if isinstance(interval, int) else 1,
        delay_ms=question.topic.file_delete_delay_ms,
    )


def _outcomes(forecast: Forecast, settings: Settings, scenarios: Sequence[Scenario]) -> Iterator[ScenarioResult]:
    if scenarios:
        yield ScenarioResult.of(None, forecast)
    for scenario in scenarios:
        yield ScenarioResult.of(scenario.text, under(forecast.question, settings, scenario))


def plan_retain(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Return the planner of `kafkalog retain`: what the next check of a broker would delete.

    Options: `kafka` (of a SettingsRequest), `policies` (texts `MODULE:FUNCTION`) and `log_start_offset`. What a policy
    deletes is not a loss.

    Raises:
        SelectionError: files by themselves were named, or several partitions for one log start.
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
    producer_findings, is_expiration_decisive = stage_retention(
        changed, context, stage, lambda: _raise_starts(context, forecasts, stage)
    )
    expiration = (context.settings.producer_expiration(),) if is_expiration_decisive else ()
    topics = [each.question.topic for each in forecasts]
    assumptions = [assumption for each in changed for assumption in _assumptions_of(each, context.settings)]
    return PlanReport(
        findings=(*findings, *producer_findings),
        settings=(*used_settings(topics), *expiration),
        release=context.guess if forecasts else None,
        assumptions=tuple(dict.fromkeys(assumptions)),
        needs_release=is_expiration_decisive
        or (bool(changed) and not context.guess.agree(lambda each: [release_rules(topic, each) for topic in topics])),
    )


def _assumptions_of(forecast: Forecast, settings: Settings) -> Iterator[Assumption]:
    """Yield the assumed values on which the deletions of a forecast depend.

    The passes by time and size run because of the topic's cleanup.policy and delete by its limit; a larger or smaller
    value of any other setting deletes other segments, not these. Segments below the log start offset are out of reach
    for every reader, so their deletion needs no policy (from 2.1 on, compacted logs have that pass too).
    """
    question, view = forecast.question, forecast.question.view
    limits = {"time": question.rules.time_setting, "size": question.rules.size_setting}
    by = {each.rule for each in forecast.deleted}
    names = [name for rule, name in limits.items() if rule in by]
    if names or (_START in by and question.rules.start_needs_policy):
        yield from assumed_of_topic(question.topic, ["cleanup.policy", *names])
    if names and question.rules.runner == "cleaner":
        yield from assumed_of_broker([settings.broker("log.cleaner.enable")])
    is_raised = question.log.start_offset > view.log_start_offset  # a broker deletes nothing above its high watermark
    if question.rules.is_bounded and (by - {_START} or is_raised):
        yield from assumed_watermark(view)


def wanted_of(options: Mapping[str, object], request: PlanRequest) -> RetentionOptions:
    """Return what the options of a plan ask for."""
    policies, start = options.get("policies"), options.get("log_start_offset")
    return RetentionOptions(
        kafka=request.settings,
        now_ms=request.now_ms,
        policies=tuple(str(each) for each in policies) if isinstance(policies, (list, tuple)) else (),
        log_start_offset=start if isinstance(start, int) else None,
    )


def _raise_starts(context: DirContext, forecasts: Sequence[Forecast], stage: Stage) -> None:
    """Stage the checkpoint with the new log start offsets."""
    broker_dir = context.broker_dir
    starts: dict[Key, int] = {}
    for each in forecasts:
        view = each.question.view
        is_raised = each.checked.log.start_offset > view.log_start_offset
        if broker_dir is None or not is_raised or not broker_dir.is_served(view.partition.name):
            continue
        starts[view.topic or "", view.number or 0] = each.checked.log.start_offset
    if broker_dir is not None and starts and rules_of(context.release).has_producers:
        raise_log_starts(broker_dir, starts, stage)
