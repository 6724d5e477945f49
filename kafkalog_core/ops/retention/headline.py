"""The first lines of a forecast: what will happen, and when, over all partitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalog_core.ops.retention.told import segments_of, state_of
from kafkalog_core.words import duration, moment, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.retain import Retained

__all__ = ["headline"]


def headline(retained: Sequence[Retained], until_ms: int | None) -> list[str]:
    """Sentences, the most important one first and without its point."""
    if not retained:
        return ["there is no log here of which retention can be foreseen"]
    when, which = _next(retained)
    told = [f"{_now(retained)}; {when}", *([] if until_ms is None else [f"{_until(retained, until_ms)}."])]
    return [*told, *(f"{text}." for text in (which, _checks(retained)) if text)]


def _now(retained: Sequence[Retained]) -> str:
    """`12 of 40 segments, 11.2 GiB of 30.0 GiB, would be deleted ...`."""
    deleted = [each for each in retained if each.forecast.deleted]
    now = moment(retained[0].forecast.question.now_ms)
    where = f"in {_partitions(len(deleted))} of {len(retained):,}" if len(retained) > 1 else ""
    if not deleted:
        states = Counter(state_of(each.forecast) for each in retained)
        held = f", and {states['held']:,} hold what is due or never will be" if states["held"] else ""
        return f"Nothing would be deleted now ({now}){held if len(retained) > 1 else ''}"
    count = sum(len(each.forecast.deleted) for each in deleted)
    total = sum(len(each.forecast.question.view.segments) for each in retained)
    gone = sum(each.forecast.deleted_bytes for each in deleted)
    whole = sum(each.forecast.question.view.size_bytes for each in retained)
    place = f" {where}" if where else ""
    return f"{count:,} of {segments_of(total)}, {size(gone)} of {size(whole)},{place} would be deleted now ({now})"


def _next(retained: Sequence[Retained]) -> tuple[str, str | None]:
    """When the next segment falls due, and which one it is."""
    dues = [
        (due.due_ms, due, each)
        for each in retained
        if (due := each.forecast.next_due) is not None and due.due_ms is not None
    ]
    if not dues:
        more = "more" if any(each.forecast.deleted for each in retained) else "anything"
        return f"no time is known at which {more} would be", None
    due_ms, fate, each = min(dues, key=lambda entry: entry[0])
    view = each.forecast.question.view
    name = f"{view.topic}-{view.number}/" if len(retained) > 1 else ""
    when = f"the next one falls due at {moment(due_ms)} (in {duration(due_ms - each.forecast.question.now_ms)})"
    return when, f"Next is {name}{fate.segment.path.rpartition('/')[2]}, {size(fate.segment.size_bytes)}"


def _checks(retained: Sequence[Retained]) -> str:
    """When the broker looks, and when the space is free."""
    schedules = {(each.forecast.question.rules.runner, each.schedule) for each in retained}
    told = []
    for runner, schedule in sorted(schedules, key=lambda pair: (pair[0], pair[1].interval_ms, pair[1].delay_ms)):
        if runner == "nobody":
            continue
        first_ms = schedule.first_ms - retained[0].forecast.question.now_ms
        first = f"first {duration(first_ms)} after a start, then " if first_ms else ""
        who = "the broker" if runner == "retention" else "the cleaner (of compacted topics)"
        wait = duration(schedule.delay_ms)
        told.append(f"{who} looks {first}every {duration(schedule.interval_ms)}; deleted files go {wait} later")
    text = "; ".join(dict.fromkeys(told))
    return text[:1].upper() + text[1:]


def _until(retained: Sequence[Retained], until_ms: int) -> str:
    renamed = [event for each in retained for event in each.events if event.kind == "renamed"]
    removed = [event for each in retained for event in each.events if event.kind == "removed"]
    if not renamed:
        return f"Up to {moment(until_ms)} nothing would be deleted, if nothing is appended"
    return (
        f"Up to {moment(until_ms)}, if nothing is appended, {segments_of(len(renamed))} with "
        f"{size(sum(event.segment.size_bytes for event in renamed))} would be deleted, the first at "
        f"{moment(min(event.time_ms for event in renamed))}; "
        f"{size(sum(event.segment.size_bytes for event in removed))} would be free by then"
    )


def _partitions(count: int) -> str:
    return f"{count:,} partition{'' if count == 1 else 's'}"
