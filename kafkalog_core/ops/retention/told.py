"""What is to be said of a forecast: in one sentence, and as findings where something keeps what ought to go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog_core.findings import found
from kafkalog_core.words import duration, moment, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.logdirs.segment_views import SegmentView
    from kafkalog_core.ops.retention.forecast import Fate, Forecast

__all__ = ["State", "findings_of", "segments_of", "sentence_of", "state_of"]

State = Literal["deletes", "waits", "held", "never", "empty"]


def state_of(forecast: Forecast) -> State:
    """In one word."""
    if forecast.deleted:
        return "deletes"
    if forecast.next_due is not None:
        return "waits"
    first = forecast.fates[0] if forecast.fates else None
    if first is None or first.rule == "empty-active":
        return "empty"
    return "never" if first.rule == "none" else "held"


def sentence_of(forecast: Forecast) -> str:
    """What goes and when, one sentence without its point."""
    state, due = state_of(forecast), forecast.next_due
    if state == "deletes":
        rules = list(dict.fromkeys(each.rule for each in forecast.deleted))
        count = segments_of(len(forecast.deleted))
        rest = "" if due is None else f"; the next one falls due at {_when(forecast, due)}"
        new = ", all there are: a new empty one is made first" if forecast.checked.new_segment is not None else ""
        return (
            f"{count} with {size(forecast.deleted_bytes)} would be deleted by {' and '.join(rules)}{new}, and the log "
            f"start goes from {forecast.question.log.start_offset} to {forecast.checked.log.start_offset}{rest}"
        )
    first = forecast.fates[0]
    if due is not None:
        return f"nothing would be deleted now; the first segment falls due at {_when(forecast, due)}"
    if state == "empty":
        return "there is nothing in it to delete"
    return f"nothing would be deleted, and no time will change that: {first.reason}"


def segments_of(count: int) -> str:
    """`1 segment`, `12 segments`."""
    return f"{count:,} segment{'' if count == 1 else 's'}"


def findings_of(forecast: Forecast) -> Iterator[Finding]:
    """Why something stays that ought to go, and what cannot be told."""
    fates = forecast.fates
    yield from _future(forecast)
    held = [fate for fate in fates if fate.rule == "held" and fate.verdict == "keep"]
    if held:
        holder = next(fate for fate in fates if fate.verdict != "delete")
        why = f"{_name(holder.segment)} stays ({holder.reason})"
        yield _found(forecast, "retain.held-back", held[0].segment.path, **_sum(held), why=why)
    bounded = next((fate for fate in fates if fate.rule == "high-watermark"), None)
    if bounded is not None:
        view = forecast.question.view
        yield _found(
            forecast,
            "retain.high-watermark",
            bounded.segment.path,
            watermark=view.high_watermark,
            origin=view.high_watermark_origin,
        )
    untimed = [fate.segment for fate in fates if not fate.segment.has_timestamp and fate.segment.size_bytes]
    if untimed and "time" in forecast.question.rules.passes and forecast.question.rules.retention_ms >= 0:
        origin = untimed[0].max_timestamp_origin
        yield _found(forecast, "retain.by-file-time", untimed[0].path, segments=segments_of(len(untimed)), why=origin)
    unknown = [fate for fate in fates if fate.verdict == "unknown"]
    if unknown:
        yield _found(forecast, "retain.remote-unknown", unknown[0].segment.path, **_sum(unknown))
    policy = forecast.question.topic.cleanup_policy
    if "delete" in policy and forecast.question.rules.runner == "nobody":
        yield _found(forecast, "retain.cleaner-off", forecast.question.view.path, policy=",".join(policy))


def _future(forecast: Forecast) -> Iterator[Finding]:
    """Of segments that time keeps; of one that goes by another rule nothing needs to be said."""
    question = forecast.question
    if "time" not in question.rules.passes or question.rules.retention_ms < 0:
        return
    for fate in forecast.fates:
        largest_ms = fate.segment.largest_timestamp_ms
        if fate.verdict != "delete" and fate.segment.has_timestamp and largest_ms > question.now_ms:
            yield _found(
                forecast,
                "retain.future-timestamp",
                fate.segment.path,
                offset=fate.segment.base_offset,
                ahead=duration(largest_ms - question.now_ms),
                time=moment(largest_ms),
                due=moment(largest_ms + question.rules.retention_ms + 1),
            )


def _when(forecast: Forecast, due: Fate) -> str:
    due_ms = due.due_ms or 0
    return f"{moment(due_ms)} (in {duration(due_ms - forecast.question.now_ms)})"


def _name(segment: SegmentView) -> str:
    return segment.path.rpartition("/")[2]


def _sum(fates: Sequence[Fate]) -> dict[str, object]:
    return {"segments": segments_of(len(fates)), "size": size(sum(fate.segment.size_bytes for fate in fates))}


def _found(forecast: Forecast, code: str, path: str, **details: object) -> Finding:
    view = forecast.question.view
    return found(code, path, topic=view.topic, partition=view.number, **details)  # type: ignore[arg-type]
