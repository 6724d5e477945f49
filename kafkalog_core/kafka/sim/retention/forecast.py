"""What happens to each segment of a log at the next retention check, by which rule, and when the others are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import LimitError
from kafkalog_core.kafka.sim.retention.rules import Checked, check, judgements, log_of, policy_of
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.kafka.sim.retention.rules import (
        Deleted,
        Judgement,
        Policy,
        RetainedLog,
        RetentionRules,
        RetentionStop,
    )
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView, SegmentView

__all__ = ["Event", "Fate", "Forecast", "RetentionQuestion", "Schedule", "Verdict", "forecast", "play"]


Verdict = Literal["delete", "keep", "unknown"]


class RetentionQuestion(Struct, frozen=True, kw_only=True):
    """The input of a forecast.

    Args:
        view: the partition.
        topic: its settings.
        rules: those that follow from the settings.
        now_ms: the time of the check.
        custom: further policies by their names.
        log_start_offset: replaces the one on the disk; None: that one.
        origins: where the values of its settings come from and what they override, by their names.
    """

    view: PartitionView
    topic: TopicSettings
    rules: RetentionRules
    now_ms: int
    custom: Mapping[str, Policy]
    log_start_offset: int | None = None
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> RetainedLog:
        """The log as it is."""
        return log_of(self.view, self.log_start_offset)


class Fate(Struct, frozen=True, kw_only=True):
    """What happens to a segment.

    Args:
        segment: the segment.
        verdict: `unknown` where remote storage decides.
        rule: the pass that deletes it; of a kept segment what keeps it: the pass, `held` by an older segment,
            `high-watermark`, `empty-active`, `remote`, or `none` where no pass runs.
        reason: one sentence without its full stop, with the figures that were compared.
        due_ms: when it is deleted if nothing is appended, in the past where it is deleted now; None: the time
            alone does not decide.
    """

    segment: SegmentView
    verdict: Verdict
    rule: str
    reason: str
    due_ms: int | None


class Forecast(Struct, frozen=True, kw_only=True):
    """The result of one check of a log. `fates` are in the order of its segments."""

    question: RetentionQuestion
    checked: Checked
    fates: tuple[Fate, ...]

    @property
    def deleted(self) -> tuple[Deleted, ...]:
        """The deleted segments, the oldest first."""
        return self.checked.deleted

    @property
    def deleted_bytes(self) -> int:
        """Bytes of deleted logs."""
        return sum(each.segment.size_bytes for each in self.checked.deleted)

    @property
    def kept_bytes(self) -> int:
        """Bytes of kept logs."""
        return sum(segment.size_bytes for segment in self.checked.log.segments)

    @property
    def kept_offsets(self) -> int:
        """Number of offsets from the new log start offset to the end."""
        return max(0, self.checked.log.end_offset - self.checked.log.start_offset)

    @property
    def deleted_offsets(self) -> int:
        """Number of offsets from the old log start offset to the new one."""
        return self.checked.log.start_offset - min(self.question.log.start_offset, self.checked.log.start_offset)

    @property
    def is_change(self) -> bool:
        """Whether the check changes anything."""
        return bool(self.checked.deleted) or self.checked.log.start_offset > self.question.view.log_start_offset

    @property
    def next_due(self) -> Fate | None:
        """The first kept segment whose deletion the time alone decides."""
        first = next((fate for fate in self.fates if fate.verdict != "delete"), None)
        return None if first is None or first.due_ms is None else first


def forecast(question: RetentionQuestion) -> Forecast:
    """Check a log once, and return for each segment why it is deleted or kept."""
    checked = check(question.log, question.rules, question.now_ms, question.custom)
    gone = [
        Fate(
            segment=each.segment,
            verdict="delete",
            rule=each.rule,
            reason=each.reason or f"{each.rule} says so",
            due_ms=each.due_ms,
        )
        for each in checked.deleted
    ]
    kept = [] if checked.new_segment is not None else list(_kept(question, checked))
    return Forecast(question=question, checked=checked, fates=(*gone, *kept))


def _kept(question: RetentionQuestion, checked: Checked) -> Iterator[Fate]:
    """Yield the fates of the kept segments: of the first by what ends each pass, of the others by what holds them."""
    log, rules = checked.log, question.rules
    names = (*rules.passes, *question.custom)
    if not names:
        for segment in log.segments:
            reason = rules.why_none or "no rule runs over it"
            yield Fate(segment=segment, verdict="keep", rule="none", reason=reason, due_ms=None)
        return
    said = {
        name: judgements(policy_of(name, rules, log, question.custom), log.segments, question.now_ms) for name in names
    }
    dues: dict[str, int | None] = dict.fromkeys(names, 0)
    first: Fate | None = None
    for segment in log.segments:
        judged = {name: next(each, None) for name, each in said.items()}
        for name, judgement in judged.items():
            due_ms, own_ms = dues[name], None if judgement is None else judgement.due_ms
            dues[name] = None if due_ms is None or own_ms is None else max(due_ms, own_ms)
        fate = _fate(segment, judged, checked.stops, first, _soonest(question, segment, dues))
        first = first or fate
        yield fate


def _soonest(question: RetentionQuestion, segment: SegmentView, dues: Mapping[str, int | None]) -> int | None:
    """Return when the first of the passes deletes a segment; None: none does by the time alone."""
    rules, log = question.rules, question.log
    if (rules.is_bounded and log.high_watermark < segment.next_offset) or rules.is_tiered:
        return None
    if segment.is_active and not segment.size_bytes:
        return None
    return min((due_ms for due_ms in dues.values() if due_ms is not None), default=None)


def _fate(
    segment: SegmentView,
    judged: Mapping[str, Judgement | None],
    stops: tuple[RetentionStop, ...],
    first: Fate | None,
    due_ms: int | None,
) -> Fate:
    """Return the fate of a kept segment."""
    stop = next((each for each in stops if each.segment is segment and each.keeper != "policy"), None)
    if stop is not None:
        verdict: Verdict = "unknown" if stop.keeper == "remote" else "keep"
        reason = stop.reason if stop.keeper == "empty-active" else f"{stop.rule} would delete it, but {stop.reason}"
        return Fate(segment=segment, verdict=verdict, rule=stop.keeper, reason=reason, due_ms=due_ms)
    if segment.is_active and not segment.size_bytes:
        reason = "the active segment is empty"
        return Fate(segment=segment, verdict="keep", rule="empty-active", reason=reason, due_ms=due_ms)
    deleting = [(name, each) for name, each in judged.items() if each is not None and each.deletes]
    if deleting and first is not None:
        own = deleting[-1][1].reason or f"{deleting[-1][0]} would delete it"
        reason = f"{own}, but waits for {first.segment.path.rpartition('/')[2]}, which is kept"
        verdict = "unknown" if first.verdict == "unknown" else "keep"
        return Fate(segment=segment, verdict=verdict, rule="held", reason=reason, due_ms=due_ms)
    said = {name: each for name, each in judged.items() if each is not None}
    limited = {name: each for name, each in said.items() if each.is_limit}
    telling = limited or {name: each for name, each in said.items() if name != "start-offset"} or said
    timed = [name for name, each in telling.items() if each.due_ms is not None]
    reason = "; ".join(each.reason or f"{name} keeps it" for name, each in telling.items())
    rule = [*timed, *telling][0] if limited else "none"
    return Fate(segment=segment, verdict="keep", rule=rule, reason=reason, due_ms=due_ms)


MAX_CHECKS: Final = 1_000_000
"""The most checks that are simulated for a custom policy, which has to be asked at each of them."""


class Schedule(Struct, frozen=True, kw_only=True):
    """The times of checks: `first_ms`, then every `interval_ms`; files are removed `delay_ms` after a rename."""

    first_ms: int
    interval_ms: int
    delay_ms: int

    def at_or_after(self, time_ms: int) -> int:
        """Return the first check that is not before a time."""
        if time_ms <= self.first_ms:
            return self.first_ms
        return self.first_ms + -(-(time_ms - self.first_ms) // self.interval_ms) * self.interval_ms


class Event(Struct, frozen=True):
    """Something that happens to a segment.

    Args:
        time_ms: when.
        kind: `new-segment` (the broker creates an empty one, because it deletes all others), `renamed` (to `.deleted`:
            it is no longer read) or `removed` (its space is free).
        segment: that it happens to.
        rule: the pass; None: of what follows from another event.
        start_offset: of the log afterwards.
        log_bytes: of the log afterwards, without renamed segments.
    """

    time_ms: int
    kind: Literal["new-segment", "renamed", "removed"]
    segment: SegmentView
    rule: str | None
    start_offset: int
    log_bytes: int


def play(question: RetentionQuestion, schedule: Schedule, until_ms: int) -> list[Event]:
    """Return all events up to a time, in their order. Raises LimitError for too many checks."""
    events: list[Event] = []
    log, time_ms = question.log, schedule.first_ms
    if question.custom and (until_ms - time_ms) // schedule.interval_ms >= MAX_CHECKS:  # each of them is made
        raise LimitError(f"more than {MAX_CHECKS:,} checks up to then; choose a nearer time, or a longer interval")
    for _ in range(MAX_CHECKS):
        if time_ms > until_ms:
            break
        checked = check(log, question.rules, time_ms, question.custom)
        events += _events(checked, time_ms, schedule, sum(segment.size_bytes for segment in log.segments))
        log = checked.log
        again_ms = _next(question, checked, time_ms, schedule)
        if again_ms is None:
            break
        time_ms = again_ms
    else:
        raise LimitError(f"more than {MAX_CHECKS:,} checks up to then; choose a nearer time, or a longer interval")
    order = {"new-segment": 0, "renamed": 1, "removed": 2}
    return sorted(
        (event for event in events if event.time_ms <= until_ms),
        key=lambda event: (event.time_ms, order[event.kind], event.segment.base_offset),
    )


def _events(checked: Checked, time_ms: int, schedule: Schedule, log_bytes: int) -> Iterator[Event]:
    new, start_offset = checked.new_segment, checked.log.start_offset
    if new is not None:
        yield Event(time_ms, "new-segment", new, None, start_offset, log_bytes)
    for each in checked.deleted:
        log_bytes -= each.segment.size_bytes
        yield Event(time_ms, "renamed", each.segment, each.rule, start_offset, log_bytes)
    # LocalLog.deleteSegmentFiles: file.delete.delay.ms after the rename
    for each in checked.deleted:
        yield Event(time_ms + schedule.delay_ms, "removed", each.segment, None, start_offset, log_bytes)


def _next(question: RetentionQuestion, checked: Checked, time_ms: int, schedule: Schedule) -> int | None:
    """Return the next check that may change something; None: none does."""
    following = time_ms + schedule.interval_ms
    if checked.deleted:  # a segment that one pass has left may be due for an earlier pass
        return following
    if question.custom:
        return following
    dues = [stop.due_ms for stop in checked.stops if stop.keeper == "policy" and stop.due_ms is not None]
    return max(following, schedule.at_or_after(min(dues))) if dues else None
