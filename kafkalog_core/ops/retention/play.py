"""Retention played forward: every check up to a moment, the renames to `.deleted`, and when the files go.

The first check comes when a broker that is started now has waited for its first delay; the others follow at the check's
interval. Nothing is appended meanwhile. Checks that cannot change anything are skipped: a rule that goes by the time
says when it will.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import LimitError
from kafkalog_core.ops.retention.check import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.logdirs.segment_views import SegmentView
    from kafkalog_core.ops.retention.check import Checked
    from kafkalog_core.ops.retention.forecast import Question

__all__ = ["Event", "Schedule", "play"]

MAX_CHECKS: Final = 1_000_000
"""Of a policy of somebody's own, which does not say when it changes its mind: at each check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When checks take place: `first_ms`, then every `interval_ms`; files go `delay_ms` after their rename."""

    first_ms: int
    interval_ms: int
    delay_ms: int

    def at_or_after(self, time_ms: int) -> int:
        """The first check that is not before a moment."""
        if time_ms <= self.first_ms:
            return self.first_ms
        return self.first_ms + -(-(time_ms - self.first_ms) // self.interval_ms) * self.interval_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens to a segment.

    Args:
        time_ms: when.
        kind: `new-segment` (an empty one is made, as all others go), `renamed` (to `.deleted`: nobody reads it any
            more) or `removed` (its space is free).
        segment: that it happens to.
        rule: the pass; null: of what follows from another event.
        start_offset: of the log afterwards.
        log_bytes: of the log afterwards, what is renamed not counted.
    """

    time_ms: int
    kind: Literal["new-segment", "renamed", "removed"]
    segment: SegmentView
    rule: str | None
    start_offset: int
    log_bytes: int


def play(question: Question, schedule: Schedule, until_ms: int) -> list[Event]:
    """All events up to a moment, in their order. Raises LimitError for more checks than anybody waits for."""
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
        yield Event(
            time_ms=time_ms,
            kind="new-segment",
            segment=new,
            rule=None,
            start_offset=start_offset,
            log_bytes=log_bytes,
        )
    for each in checked.deleted:
        log_bytes -= each.segment.size_bytes
        yield Event(
            time_ms=time_ms,
            kind="renamed",
            segment=each.segment,
            rule=each.rule,
            start_offset=start_offset,
            log_bytes=log_bytes,
        )
    for each in checked.deleted:
        yield Event(
            time_ms=time_ms + schedule.delay_ms,
            kind="removed",
            segment=each.segment,
            rule=None,
            start_offset=start_offset,
            log_bytes=log_bytes,
        )


def _next(question: Question, checked: Checked, time_ms: int, schedule: Schedule) -> int | None:
    """The next check that may change something; null: none does."""
    following = time_ms + schedule.interval_ms
    if checked.deleted:  # what one pass has left may be too old for one before it
        return following
    if question.custom:
        return following
    dues = [stop.due_ms for stop in checked.stops if stop.keeper == "policy" and stop.due_ms is not None]
    return max(following, schedule.at_or_after(min(dues))) if dues else None
