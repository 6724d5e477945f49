"""The report of a forecast: one sentence, and findings if something keeps what should be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.ops.retain.forecaster import settings_of
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.lookup import PartitionLookup
from kafkalog_core.structs import Struct
from kafkalog_core.text import duration, moment, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.sim.retention.forecast import Event, Fate, Forecast
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView, SegmentView
    from kafkalog_core.ops.retain.forecaster import RetainForecast, ScenarioResult
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "Blocked",
    "State",
    "blocked_of",
    "checks_of",
    "event_rows",
    "findings_of",
    "next_of",
    "parent_name",
    "partition_rows",
    "retained_rows",
    "segment_rows",
    "segments_of",
    "sentence_of",
    "state_of",
    "until_of",
    "verdict_of",
    "what_if_rows",
    "why_deleted",
]


State = Literal["deletes", "waits", "held", "never", "empty"]


def state_of(forecast: Forecast) -> State:
    """Return the state of a log in one word."""
    if forecast.deleted:
        return "deletes"
    if forecast.next_due is not None:
        return "waits"
    first = forecast.fates[0] if forecast.fates else None
    if first is None or first.rule == "empty-active":
        return "empty"
    return "never" if first.rule == "none" else "held"


def sentence_of(forecast: Forecast) -> str:
    """Return what is deleted and when, one sentence without its full stop."""
    state, due = state_of(forecast), forecast.next_due
    if state == "deletes":
        rules = list(dict.fromkeys(each.rule for each in forecast.deleted))
        count = segments_of(len(forecast.deleted))
        rest = "" if due is None else f"; the next one becomes due at {_when(forecast, due)}"
        new = (
            "; none would be left, so the broker first rolls an empty one"
            if forecast.checked.new_segment is not None
            else ""
        )
        start, new_start = forecast.question.log.start_offset, forecast.checked.log.start_offset
        return (
            f"{count} with {size(forecast.deleted_bytes)} would be deleted by {' and '.join(rules)}{new}; the log "
            f"start offset would rise from {start} to {new_start}{rest}"
        )
    first = forecast.fates[0]
    if due is not None:
        return f"nothing would be deleted now; the first segment becomes due at {_when(forecast, due)}"
    if state == "empty":
        return "there is nothing in it to delete"
    return f"nothing would be deleted, and no time will change that: {first.reason}"


def segments_of(count: int) -> str:
    """Return a number of segments as text: `1 segment`, `12 segments`."""
    return f"{count:,} segment{'' if count == 1 else 's'}"


def findings_of(forecast: Forecast) -> Iterator[Finding]:
    """Yield findings about segments that are kept although they are due, and about what cannot be determined."""
    fates = forecast.fates
    yield from _future(forecast)
    held = [fate for fate in fates if fate.rule == "held" and fate.verdict == "keep"]
    # Deletion stops at the first segment that is kept (UnifiedLog.deletableSegments), so the ones after it wait,
    # however old they are.
    if held:
        holder = next(fate for fate in fates if fate.verdict != "delete")
        why = f"{_name(holder.segment)} is kept ({holder.reason})"
        yield _found(forecast, "retain.held-back", held[0].segment.path, **_sum(held), why=why)
    bounded = next((fate for fate in fates if fate.rule == "high-watermark"), None)
    if bounded is not None:
        view = forecast.question.view
        yield _found(
            forecast,
            "retain.high-watermark",
            bounded.segment.path,
            watermark=view.high_watermark,
            origin=view.bounds.high_watermark.origin,
        )
    zeros = [fate.segment for fate in fates if fate.segment.has_zero_time and fate.segment.size_bytes]
    # LogSegment.largestTimestamp is 0 if the time index ends with zeros, as after a copy of an active segment: then
    # 1970 is older than any retention.
    if zeros and "time" in forecast.question.rules.passes and forecast.question.rules.retention_ms >= 0:
        yield _found(forecast, "retain.zero-time", zeros[0].path, segments=segments_of(len(zeros)))
    untimed = [fate.segment for fate in fates if not fate.segment.has_timestamp and fate.segment.size_bytes]
    # Without timestamps LogSegment.largestTimestamp takes the modification time of the log, which copies of files
    # change.
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
    """Yield findings about segments with timestamps in the future, unless another rule deletes the segment."""
    question = forecast.question
    if "time" not in question.rules.passes or question.rules.retention_ms < 0:
        return
    # A record from the future keeps its segment, and every segment after it, until that time is over.
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


class Blocked(Struct, frozen=True, kw_only=True):
    """Segments that are due, and the older segment for which they wait.

    Args:
        holder: the oldest segment that is kept, and why.
        segments: number of segments that wait.
        size_bytes: their size.
        record: offset of the first record of the holder with its largest timestamp; None: its time is another one, or
            the record cannot be read.
    """

    holder: Fate
    segments: int
    size_bytes: int
    record: int | None

    @property
    def sentence(self) -> str:
        """What waits for what, and the record that keeps the holder."""
        waiting = f"{segments_of(self.segments)}, {size(self.size_bytes)}, {'is' if self.segments == 1 else 'are'} due"
        text = f"{waiting} but {'waits' if self.segments == 1 else 'wait'} for {_name(self.holder.segment)}"
        if self.record is None:
            return f"{text}: {self.holder.reason}"
        time = moment(self.holder.segment.largest_timestamp_ms)
        return f"{text}, whose record {self.record} has the time {time}: {self.holder.reason}"


def blocked_of(forecast: Forecast) -> Blocked | None:
    """Return the segments that wait for an older one although they are due; None: there are none."""
    waiting = [fate.segment for fate in forecast.fates if fate.rule == "held" and fate.verdict == "keep"]
    if not waiting:
        return None
    holder = next(fate for fate in forecast.fates if fate.verdict != "delete")
    return Blocked(
        holder=holder,
        segments=len(waiting),
        size_bytes=sum(segment.size_bytes for segment in waiting),
        record=_latest_record(forecast.question.view.partition, holder.segment),
    )


def _latest_record(partition: Partition, holder: SegmentView) -> int | None:
    segment = next(each for each in partition.segments if each.base_offset == holder.base_offset)
    if not holder.has_timestamp or holder.has_zero_time or segment.log is None:
        return None
    try:
        with PartitionLookup([segment]) as lookup:
            record = lookup.find_time(holder.max_timestamp_ms)
    except StorageError:
        return None
    # The record that is found has the next later time if the index names one that no record has: then nothing is named.
    return None if record is None or record.timestamp_ms != holder.max_timestamp_ms else record.offset


def why_deleted(forecast: Forecast) -> str:
    """Return why segments are deleted, by the first one that each rule deletes."""
    reasons = {fate.rule: fate.reason for fate in reversed(forecast.fates) if fate.verdict == "delete"}
    return "; ".join(reversed(reasons.values()))


def verdict_of(retained: Sequence[RetainForecast], blocked: Mapping[str, Blocked]) -> str:
    """Return the verdict on all partitions, one sentence without its full stop.

    `blocked`: by the path of a partition, as `blocked_of` gives it.
    """
    if not retained:
        return "NOTHING TO FORECAST: there is no log here whose retention can be predicted"
    deleted = [each for each in retained if each.forecast.deleted]
    parts = [f"WOULD DELETE NOW: {_amount(retained, deleted)}" if deleted else "WOULD DELETE NOTHING NOW"]
    if blocked:
        count, total = (sum(getattr(each, name) for each in blocked.values()) for name in ("segments", "size_bytes"))
        where = _partitions(len(blocked)) if len(blocked) > 1 else parent_name(next(iter(blocked)))
        one = count == 1
        text = f"{segments_of(count)}, {size(total)}, {'is' if one else 'are'} due but {'waits' if one else 'wait'}"
        parts.append(f"{text} for an older one, in {where}")
    if not deleted:
        parts.append(next_of(retained) or "no segment has a time to be deleted")
    return "; ".join(parts) if deleted else f"{parts[0]}: {'; '.join(parts[1:])}"


def parent_name(path: str) -> str:
    """Return the name of a partition's directory."""
    return path.rstrip("/").rpartition("/")[2]


def _amount(retained: Sequence[RetainForecast], deleted: Sequence[RetainForecast]) -> str:
    """Return `12 of 40 segments, 11.2 GiB of 30.0 GiB, in 3 of 7 partitions`."""
    count = sum(len(each.forecast.deleted) for each in deleted)
    total = sum(len(each.forecast.question.view.segments) for each in retained)
    deleted_bytes = sum(each.forecast.deleted_bytes for each in deleted)
    whole = sum(each.forecast.question.view.size_bytes for each in retained)
    amount = f"{count:,} of {segments_of(total)}, {size(deleted_bytes)} of {size(whole)}"
    if len(retained) == 1:
        return f"{amount}, of {parent_name(retained[0].forecast.question.view.path)}"
    return f"{amount}, in {len(deleted):,} of {_partitions(len(retained))}"


def next_of(retained: Sequence[RetainForecast]) -> str:
    """Return which segment is deleted next, and when, one sentence without its full stop; empty if none has a time."""
    dues = [
        (due.due_ms, due, each)
        for each in retained
        if (due := each.forecast.next_due) is not None and due.due_ms is not None
    ]
    if not dues:
        return ""
    due_ms, fate, each = min(dues, key=lambda entry: entry[0])
    view = each.forecast.question.view
    name = f"{parent_name(view.path)}/" if len(retained) > 1 else ""
    when = f"in {duration(due_ms - each.forecast.question.now_ms)}, at {moment(due_ms)}"
    return f"the next to be deleted is {name}{_name(fate.segment)}, {size(fate.segment.size_bytes)}, {when}"


def checks_of(retained: Sequence[RetainForecast]) -> str:
    """Return when the broker checks retention, and when the space is free; empty if no thread runs."""
    schedules = {(each.forecast.question.rules.runner, each.schedule) for each in retained}
    sentences = []
    for runner, schedule in sorted(schedules, key=lambda pair: (pair[0], pair[1].interval_ms, pair[1].delay_ms)):
        if runner == "nobody":
            continue
        first_ms = schedule.first_ms - retained[0].forecast.question.now_ms
        first = f"{duration(first_ms)} after a start, then " if first_ms else ""
        who = "the broker" if runner == "retention" else "the cleaner (of compacted topics)"
        wait = duration(schedule.delay_ms)
        every = duration(schedule.interval_ms)
        sentences.append(f"{who} checks {first}every {every}; deleted files are removed from disk {wait} later")
    return "; ".join(dict.fromkeys(sentences))


def until_of(retained: Sequence[RetainForecast], until_ms: int) -> str:
    """Return what is deleted up to a time, one sentence without its full stop."""
    renamed = [event for each in retained for event in each.events if event.kind == "renamed"]
    removed = [event for each in retained for event in each.events if event.kind == "removed"]
    if not renamed:
        return f"Up to {moment(until_ms)} nothing would be deleted, if nothing is appended"
    return (
        f"Up to {moment(until_ms)}, if nothing is appended, {segments_of(len(renamed))} with "
        f"{size(sum(event.segment.size_bytes for event in renamed))} would be deleted, the first at "
        f"{moment(min(event.time_ms for event in renamed))}; "
        f"{size(sum(event.segment.size_bytes for event in removed))} would be free on disk by then"
    )


def _partitions(count: int) -> str:
    return f"{count:,} partition{'' if count == 1 else 's'}"


Row = dict[str, object]


def retained_rows(each: RetainForecast | Finding) -> Iterator[RowChunk]:
    """Yield the rows of a partition, the `retention` row first, or the row of a finding."""
    if isinstance(each, Finding):
        yield RowChunk(tables.FINDING, [each.row()])
        return
    yield partition_rows(each)
    yield segment_rows(each.forecast)
    for chunk in (
        what_if_rows(each.outcomes),
        event_rows(each.forecast.question.view, each.events),
        RowChunk(tables.FINDING, [finding.row() for finding in each.findings]),
    ):
        if chunk.count:
            yield chunk


def partition_rows(each: RetainForecast) -> RowChunk:
    """Return the `retention` row."""
    forecast = each.forecast
    question, log = forecast.question, forecast.question.log
    view, rules, due = question.view, question.rules, forecast.next_due
    row: Row = {
        "topic": view.topic,
        "partition": view.number,
        "path": view.path,
        "state": state_of(forecast),
        "message": sentence_of(forecast),
        "now_ms": question.now_ms,
        "cleanup_policy": ",".join(question.topic.cleanup_policy),
        "passes": ",".join((*rules.passes, *question.custom)),
        "runner": rules.runner,
        "segments": len(log.segments),
        "deleted_segments": len(forecast.deleted),
        "bytes": view.size_bytes,
        "deleted_bytes": forecast.deleted_bytes,
        "deleted_offsets": forecast.deleted_offsets,
        "kept_bytes": forecast.kept_bytes,
        "kept_offsets": forecast.kept_offsets,
        "log_start_offset": view.log_start_offset,
        "log_start_origin": view.bounds.log_start.origin,
        "new_log_start_offset": forecast.checked.log.start_offset,
        "high_watermark": view.high_watermark,
        "high_watermark_origin": view.bounds.high_watermark.origin,
        "log_end_offset": view.end_offset,
        "new_segment": forecast.checked.new_segment is not None,
        "next_due_ms": None if due is None else due.due_ms,
        "assumptions": "\n".join(one.sentence for one in each.assumptions) or None,
        "settings": {
            setting.name: {
                "value": setting.text,
                "origin": question.origins.get(setting.name, setting.source),
            }
            for setting in settings_of(question.topic)
        },
    }
    return RowChunk(tables.RETENTION, [row])


def segment_rows(forecast: Forecast) -> RowChunk:
    """Return the `retained_segment` rows."""
    view, now_ms = forecast.question.view, forecast.question.now_ms
    return RowChunk(tables.RETAINED_SEGMENT, [_segment_row(view, fate, now_ms) for fate in forecast.fates])


def event_rows(view: PartitionView, events: Iterable[Event]) -> RowChunk:
    """Return the `retention_event` rows."""
    rows: list[Row] = [
        {
            "topic": view.topic,
            "partition": view.number,
            "segment": event.segment.path.rpartition("/")[2],
            "time_ms": event.time_ms,
            "event": event.kind,
            "rule": event.rule,
            "size_bytes": event.segment.size_bytes,
            "log_start_offset": event.start_offset,
            "log_bytes": event.log_bytes,
        }
        for event in events
    ]
    return RowChunk(tables.RETENTION_EVENT, rows)


def what_if_rows(outcomes: Iterable[ScenarioResult]) -> RowChunk:
    """Return the `retention_what_if` rows."""
    rows: list[Row] = [
        {
            "topic": outcome.topic,
            "partition": outcome.partition,
            "scenario": outcome.scenario,
            "kept_segments": outcome.kept_segments,
            "kept_bytes": outcome.kept_bytes,
            "kept_offsets": outcome.kept_offsets,
            "deleted_segments": outcome.deleted_segments,
            "deleted_bytes": outcome.deleted_bytes,
            "new_log_start_offset": outcome.new_log_start_offset,
        }
        for outcome in outcomes
    ]
    return RowChunk(tables.RETENTION_WHAT_IF, rows)


def _segment_row(view: PartitionView, fate: Fate, now_ms: int) -> Row:
    segment = fate.segment
    return {
        "topic": view.topic,
        "partition": view.number,
        "segment": segment.path.rpartition("/")[2],
        "base_offset": segment.base_offset,
        "next_offset": segment.next_offset,
        "size_bytes": segment.size_bytes,
        "is_active": segment.is_active,
        "verdict": fate.verdict,
        "rule": fate.rule,
        "reason": fate.reason,
        "largest_timestamp_ms": segment.largest_timestamp_ms,
        "is_record_timestamp": segment.has_timestamp,
        "timestamp_origin": segment.max_timestamp_origin,
        "is_future": segment.largest_timestamp_ms > now_ms,
        "due_ms": fate.due_ms,
    }
