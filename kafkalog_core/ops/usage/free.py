"""`kafkalog free`: plans the deletions that lose least, step by step, until a file system has the bytes it needs.

The steps, in their order: leftovers that no broker reads, preallocated space of indexes, what retention deletes at its
next check anyway, what every group has consumed, and the oldest segments of topics that the user names. Within a step
the oldest segment of all logs is next, and the plan ends with the file that meets the need.

Segments go as `retain` deletes them: from the first one of a log on, never the active one, never above the high
watermark, and the log start offset is raised with them. Compacted topics lose only what retention deletes: an old
record may be the latest one of its key. Kafka's own topics and tiered ones lose nothing.
"""

from __future__ import annotations

import os
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.findings import Finding
from kafkalog_core.format.names import SEGMENT_KINDS, DirectoryState, parse_file_name
from kafkalog_core.kafka.rules.setting_table import INTERNAL_TOPICS
from kafkalog_core.kafka.sim.retention.forecast import forecast
from kafkalog_core.kafka.sim.retention.rules import Judgement
from kafkalog_core.ops.repair.assumptions import assumed_of_topic, assumed_watermark, with_options
from kafkalog_core.ops.repair.loss import measure_loss
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.retain.forecaster import RetentionForecaster, RetentionOptions, used_settings
from kafkalog_core.ops.retain.retain import assumptions_of, stage_log_starts, stage_retention
from kafkalog_core.ops.usage.consumed import read_consumed
from kafkalog_core.ops.usage.disk_items import ItemKind, disk_items
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.space import freed_bytes, removed_bytes
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of, first_of, moment, size, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.kafka.sim.retention.forecast import Forecast
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView, SegmentView
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.ops.usage.consumed import Consumed
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Change, Stage
    from kafkalog_core.storage.listing import FileInfo

__all__ = ["plan_free"]

_LEFTOVERS: Final = frozenset({ItemKind.DELETED, ItemKind.CLEANED, ItemKind.DELETE})
"""What a start deletes by itself; a stray directory may be the last copy of a partition."""
_NEVER: Final = INTERNAL_TOPICS.keys() | {"__remote_log_metadata"}
_RULE: Final = "free"


class _LogStep(NamedTuple):
    """One of the steps that delete segments: its number, what it deletes, and why a reader loses it; None: no loss."""

    number: int
    what: str
    loss: str | None


_RETENTION: Final = _LogStep(3, "What retention deletes at its next check anyway", None)
_CONSUMED: Final = _LogStep(4, "What every group has consumed", "every group that has committed offsets has read them")
_OLDEST: Final = _LogStep(5, "The oldest segments of the topics that --topic names", "--topic names the topic")
_LOG_STEPS: Final = (_RETENTION, _CONSUMED, _OLDEST)


class _Goal:
    """The bytes that are needed, those that are free, and those that the plan frees by now."""

    def __init__(self, need_bytes: int, free_bytes: int) -> None:
        self.need_bytes = need_bytes
        self._free_bytes = free_bytes
        self.freed_bytes = 0

    @property
    def after_bytes(self) -> int:
        """Bytes that are free afterwards."""
        return self._free_bytes + self.freed_bytes

    def is_met(self) -> bool:
        """Return whether nothing more has to be freed."""
        return self.after_bytes >= self.need_bytes

    @property
    def sentence(self) -> str:
        """What is freed, what is free then, and what is needed."""
        after, need = sizes(self.after_bytes, self.need_bytes)
        return f"frees {size(self.freed_bytes)}, so that {after} are free; {need} are needed"


class _Log(Struct, kw_only=True):
    """A log of which segments may go.

    Args:
        forecast: what retention does with it.
        limits: how many segments may go at most, after each step.
        files: those of a segment, by its base offset.
        taken: how many segments go by now.
    """

    forecast: Forecast
    limits: dict[_LogStep, int]
    files: dict[int, list[FileInfo]]
    taken: int = 0

    @property
    def view(self) -> PartitionView:
        """The partition."""
        return self.forecast.question.view

    def step_of(self, number: int) -> _LogStep:
        """Return the step that deletes the segment of that number."""
        return next(step for step in _LOG_STEPS if number < self.limits[step])

    def taken_in(self, step: _LogStep) -> list[SegmentView]:
        """Return the segments that go in a step."""
        return [each for number, each in enumerate(self.view.segments[: self.taken]) if self.step_of(number) is step]


def plan_free(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog free`.

    Options: `need_bytes` and `free_bytes` (of the file system), `topics` (whose oldest segments may go), `groups_of`
    (further log directories with `__consumer_offsets`), `partial_groups` (whether the groups that are known are enough)
    and `kafka` (of a SettingsRequest).

    Raises SelectionError and SettingError, and RefusedError where nothing can be freed.
    """
    options = request.options
    goal = _Goal(int(str(options["need_bytes"])), int(str(options["free_bytes"])))
    if goal.is_met():
        free, need = sizes(goal.after_bytes, goal.need_bytes)
        return PlanReport(verdict=f"nothing has to be freed: {free} are free, and {need} are needed", only_shows=True)
    target, notes = _on_this_file_system(request.target)
    forecaster = RetentionForecaster(target, RetentionOptions(kafka=request.settings, now_ms=request.now_ms))
    context = forecaster.context
    notes += _stage_files(target, stage, goal)
    if goal.is_met():
        return PlanReport(verdict=goal.sentence, note=_note(notes, request))
    topics = _texts(options.get("topics"))
    consumed = read_consumed(
        resolve([request.target.root, *_texts(options.get("groups_of"))]),
        context.release,
        is_partial_enough=bool(options.get("partial_groups")),
    )
    findings: list[Finding] = []
    logs: list[_Log] = []
    for each in forecaster.forecasts(progress, request.jobs):
        if isinstance(each, Finding):
            findings.append(each)
        elif each.question.view.partition.name.state is DirectoryState.CURRENT:
            logs.append(_log_of(each, topics, consumed))
    _check_topics(topics, logs, target.root)
    notes += [_take(step, logs, goal, consumed) for step in _LOG_STEPS]
    changed = [each for each in logs if each.taken]
    forecasts = [_of_taken(each) for each in changed]
    stage_retention(forecasts, context, stage, lambda: stage_log_starts(context, forecasts, stage))
    return PlanReport(
        verdict=goal.sentence,
        note=_note(notes, request),
        findings=tuple(findings),
        losses=tuple(loss for each in changed for loss in _losses(each)),
        settings=used_settings([each.forecast.question.topic for each in changed]),
        release=context.guess if changed else None,
        assumptions=tuple(dict.fromkeys(each for log in changed for each in _assumptions(log, context))),
        undecided=None if goal.is_met() else _shortage(request, goal),
    )


def _on_this_file_system(target: TargetDir) -> tuple[TargetDir, list[str]]:
    """Return the target with the partitions that can free space on its file system, and a sentence about the others.

    A partition may be a symbolic link or a mount point.
    """
    device = os.stat(target.root).st_dev
    others = [place.name.raw for place in target.partitions if place.device != device]
    here = tuple(place for place in target.partitions if place.device == device)
    notes = [f"On another file system, so nothing of it is deleted: {first_of(others)}"] if others else []
    return replace(target, partitions=here), notes


def _note(notes: Sequence[str], request: PlanRequest) -> str:
    """Return the sentences about the steps, and the one about the undo journal where the user has not decided that."""
    line = request.command_line
    is_decided = line is None or line.value_of("--undo-to") is not None or "--no-undo" in line.arguments
    journal = "An undo journal on this file system keeps the space: --apply needs --undo-to DIR elsewhere, or --no-undo"
    return "\n".join(each for each in (*notes, "" if is_decided else journal) if each)


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, (list, tuple)) else []


# --- files that no log needs ------------------------------------------------------------------------------------------
def _stage_files(target: TargetDir, stage: Stage, goal: _Goal) -> Iterator[str]:
    """Stage the first two steps, and yield what each frees."""
    items = [
        item
        for item in disk_items(target.root, target.partitions)
        if item.kind in _LEFTOVERS or item.kind is ItemKind.SWAP or item.slack_allocated_bytes
    ]
    # LogLoader.removeTempFilesAndCollectSwapFiles: a `.cleaned` file decides which `.swap` files a start drops.
    swaps = {os.path.dirname(item.path) for item in items if item.kind is ItemKind.SWAP}
    leftovers = (
        stage.remove(item.path, why="a leftover, which the next start of the broker deletes")
        for item in items
        if item.kind in _LEFTOVERS
        and not item.is_linked  # as `freeze` leaves them: deleting this name frees nothing
        and parse_file_name(os.path.basename(item.path)).kind in SEGMENT_KINDS
        and os.path.dirname(item.path) not in swaps
    )
    of_deleted = "the next start deletes them too; kafkalog freeze keeps a topic that was deleted by mistake"
    yield _taken_of(leftovers, goal, "1. Leftovers that no broker reads", of_deleted)
    indexes = (
        stage.cut(item.path, item.size_bytes - item.slack_bytes, why="preallocated space after its entries")
        for item in items
        if item.slack_allocated_bytes and not item.is_linked
    )
    yield _taken_of(indexes, goal, "2. Preallocated space of indexes", "no record is lost")


def _taken_of(changes: Iterator[Change | None], goal: _Goal, what: str, effect: str) -> str:
    """Stage changes until the need is met: the iterator stages each when it is asked for it.

    `effect`: what is lost with them.
    """
    if goal.is_met():
        return ""
    count, before = 0, goal.freed_bytes
    for change in changes:
        if change is not None:
            goal.freed_bytes += freed_bytes(change)
            count += 1
        if goal.is_met():
            break
    if not count:
        return f"{what}: none"
    return f"{what}: {count_of(count, 'file')}, {size(goal.freed_bytes - before)}; {effect}"


# --- segments ---------------------------------------------------------------------------------------------------------
def _log_of(each: Forecast, topics: Sequence[str], consumed: Consumed) -> _Log:
    """Return a log with the number of segments that may go after each step."""
    question, view = each.question, each.question.view
    topic, is_compacted = view.topic or "", "compact" in question.topic.cleanup_policy
    closed = [segment for segment in view.segments if not segment.is_active]
    # UnifiedLog.deleteOldSegments: nothing at or above the high watermark
    safe = sum(segment.next_offset <= view.high_watermark for segment in closed)
    limits = dict.fromkeys(_LOG_STEPS, 0)
    if topic not in _NEVER and not question.topic.remote_storage_enable:
        limits = dict.fromkeys(_LOG_STEPS, min(len(each.deleted), len(closed)))
        if not is_compacted:
            read_to = consumed.offsets.get((topic, view.number or 0), 0)
            read = sum(segment.next_offset <= read_to for segment in closed[:safe])
            limits[_CONSUMED] = limits[_OLDEST] = max(limits[_RETENTION], read)
            if topic in topics:
                limits[_OLDEST] = max(limits[_CONSUMED], safe)
    files: dict[int, list[FileInfo]] = {}
    for segment_files in view.partition.segments if any(limits.values()) else ():
        files.setdefault(segment_files.base_offset, []).extend(segment_files.files)
    return _Log(forecast=each, limits=limits, files=files)


def _check_topics(topics: Sequence[str], logs: Sequence[_Log], log_dir: str) -> None:
    """Raise SelectionError for a topic that is not here, RefusedError for one that must not lose its oldest records."""
    for topic in topics:
        of_topic = [each.forecast.question for each in logs if each.view.topic == topic]
        if topic in _NEVER:  # before the search: the forecast leaves out the metadata log
            raise RefusedError(f"{topic}: a topic of Kafka's own loses nothing by this command; name another")
        if not of_topic:
            raise SelectionError(f"--topic {topic}: no partition of this topic is here, or none that can be read")
        if "compact" in of_topic[0].topic.cleanup_policy:
            clean = WayOut("clean it instead", shell_line(["kafkalog", "compact", "--topic", topic, log_dir]))
            reason = f"--topic {topic}: it is compacted, so an old record may be the latest one of its key"
            raise RefusedError(Refusal(reason, (clean,)))
        if of_topic[0].topic.remote_storage_enable:
            raise RefusedError(f"{topic}: it is tiered, and its remote part is unknown here; name another")


def _take(step: _LogStep, logs: Sequence[_Log], goal: _Goal, consumed: Consumed) -> str:
    """Take segments, the oldest of all logs first, until the need is met; return what that frees."""
    before, taken, logs_taken = goal.freed_bytes, list[_Segment](), set[int]()
    if goal.is_met():
        return ""
    if step is _CONSUMED and consumed.problem is not None:
        return f"{step.number}. {step.what}: left out, because {consumed.problem}"
    heap = [_next(log, number) for number, log in enumerate(logs) if log.taken < log.limits[step]]
    heapify(heap)
    while heap and not goal.is_met():
        each = heappop(heap)
        log = logs[each.number]
        goal.freed_bytes += _bytes_of(log, each.segment)
        taken.append(each)
        logs_taken.add(each.number)
        log.taken += 1
        if log.taken < log.limits[step]:
            heappush(heap, _next(log, each.number))
    groups = f" ({', '.join(consumed.groups)})" if step is _CONSUMED and consumed.groups else ""
    what = f"{step.number}. {step.what}{groups}"
    if not taken:
        return f"{what}: none"
    newest = moment(max(each.segment.largest_timestamp_ms for each in taken))
    offsets = sum(each.segment.next_offset - each.segment.base_offset for each in taken)
    return (
        f"{what}: {count_of(len(taken), 'segment')} of {count_of(len(logs_taken), 'partition')}, "
        f"{size(goal.freed_bytes - before)}, "
        f"{count_of(offsets, 'offset')}, records up to {newest}"
    )


class _Segment(NamedTuple):
    """A segment that may go next: the time by which it is chosen, the number of its log, and itself."""

    time_ms: int
    number: int
    segment: SegmentView


def _next(log: _Log, number: int) -> _Segment:
    segment = log.view.segments[log.taken]
    return _Segment(segment.largest_timestamp_ms, number, segment)


def _bytes_of(log: _Log, segment: SegmentView) -> int:
    """Return the bytes that deleting a segment frees; a file with another hard link frees none."""
    return sum(removed_bytes(file.path) for file in log.files[segment.base_offset])


def _of_taken(log: _Log) -> Forecast:
    """Return the forecast of a check that deletes what was taken."""

    def policy(segments: Sequence[SegmentView], now_ms: int) -> Iterator[Judgement]:
        del now_ms
        for number, _ in enumerate(segments):
            is_taken = number < log.taken
            yield Judgement(
                is_taken, log.step_of(number).what[:1].lower() + log.step_of(number).what[1:] if is_taken else ""
            )

    question = log.forecast.question
    return forecast(replace(question, rules=replace(question.rules, passes=()), custom={_RULE: policy}))


# --- what it costs, and what is missing -------------------------------------------------------------------------------
def _losses(log: _Log) -> Iterator[Loss]:
    for step in _LOG_STEPS:
        paths = [(segment.path, 0) for segment in log.taken_in(step)]
        if paths and step.loss is not None:
            loss = measure_loss(log.view.partition, paths, log.view.high_watermark)
            if loss is not None:
                yield replace(loss, why=step.loss, cure=None)


def _assumptions(log: _Log, context: DirContext) -> Iterator[Assumption]:
    """Yield the assumed values on which the deletions of a log depend."""
    if log.taken_in(_RETENTION):
        yield from assumptions_of(log.forecast, context.settings)
    if log.taken > log.limits[_RETENTION]:  # a compacted topic would keep them
        yield from assumed_of_topic(log.forecast.question.topic, ["cleanup.policy"])
        yield from assumed_watermark(log.view)


def _shortage(request: PlanRequest, goal: _Goal) -> Refusal:
    """Return what is missing; raise RefusedError if the plan frees nothing at all."""
    missing, (after, need) = size(goal.need_bytes - goal.after_bytes), sizes(goal.after_bytes, goal.need_bytes)
    reason = f"{need} are needed, and {after} are free after all that may be deleted: {missing} are missing"
    line = request.command_line
    name = WayOut("name topics whose oldest segments may go", with_options(line, "--topic TOPIC"))
    if not goal.freed_bytes:
        raise RefusedError(Refusal(reason, (name,)), path=request.target.root)
    less = with_options(line and line.without("--need", ""), f"--need {goal.after_bytes}")
    return Refusal(reason, (name, WayOut("free this much only", less)))
