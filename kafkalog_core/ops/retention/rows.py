"""Forecasts of retention as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core import tables
from kafkalog_core.findings import Finding
from kafkalog_core.ops.reading.rows import RowChunk
from kafkalog_core.ops.retention.survey import settings_of
from kafkalog_core.ops.retention.told import sentence_of, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.logdirs.segment_views import PartitionView
    from kafkalog_core.ops.retain import Retained
    from kafkalog_core.ops.retention.forecast import Fate, Forecast
    from kafkalog_core.ops.retention.play import Event
    from kafkalog_core.ops.retention.what_if import Outcome

__all__ = ["event_rows", "partition_rows", "retained_rows", "segment_rows", "what_if_rows"]

Row = dict[str, object]


def retained_rows(each: Retained | Finding) -> Iterator[RowChunk]:
    """All rows of a partition, its own first; what a finding says stands alone."""
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


def partition_rows(each: Retained) -> RowChunk:
    """The `retention` row."""
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
        "log_start_origin": view.log_start_origin,
        "new_log_start_offset": forecast.checked.log.start_offset,
        "high_watermark": view.high_watermark,
        "high_watermark_origin": view.high_watermark_origin,
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
    """The `retained_segment` rows."""
    view, now_ms = forecast.question.view, forecast.question.now_ms
    return RowChunk(tables.RETAINED_SEGMENT, [_segment_row(view, fate, now_ms) for fate in forecast.fates])


def event_rows(view: PartitionView, events: Iterable[Event]) -> RowChunk:
    """The `retention_event` rows."""
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


def what_if_rows(outcomes: Iterable[Outcome]) -> RowChunk:
    """The `retention_what_if` rows."""
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
