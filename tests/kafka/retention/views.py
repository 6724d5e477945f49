"""Segments and logs of retention, made of figures alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.kafka.rules.releases import LATEST, Release
from kafkalog_core.kafka.sim.logdir.bounds import Bound, LogBounds
from kafkalog_core.kafka.sim.retention.forecast import RetentionQuestion
from kafkalog_core.kafka.sim.retention.rules import RetainedLog, retention_rules
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.segment_views import NO_TIMESTAMP, PartitionView, SegmentView
from kafkalog_core.storage.listing import Listing
from kafkalog_core.storage.partition import partition_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.kafka.sim.retention.rules import Policy, RetentionRules

__all__ = ["END", "log", "question", "rules", "segments"]

END = 1000


def segments(*sizes: int, times: Sequence[int] = (), mtimes: Sequence[int] = ()) -> tuple[SegmentView, ...]:
    """Segments of 10 offsets each, of these sizes; without a time of its own each has its number times 100."""
    made = []
    for number, size_bytes in enumerate(sizes):
        time_ms = times[number] if times else number * 100
        made.append(
            SegmentView(
                base_offset=number * 10,
                next_offset=number * 10 + 10,
                size_bytes=size_bytes,
                max_timestamp_ms=time_ms,
                max_timestamp_origin="no record has one" if time_ms == NO_TIMESTAMP else "last entry of the time index",
                mtime_ms=mtimes[number] if mtimes else 5,
                is_active=number == len(sizes) - 1,
                path=f"/d/t-0/{number * 10:020}.log",
            )
        )
    return tuple(made)


def log(views: tuple[SegmentView, ...], *, start: int = 0, watermark: int | None = None) -> RetainedLog:
    """A log of them; without a high watermark of its own all of it is on all replicas."""
    end = views[-1].next_offset
    return RetainedLog(
        segments=views, start_offset=start, high_watermark=end if watermark is None else watermark, end_offset=end
    )


def rules(release: Release = LATEST, **assigned: str) -> RetentionRules:
    """The rules that follow from settings, by their names with `_` for `.`; else no limit."""
    return retention_rules(*_settings(release, assigned))


def question(
    views: tuple[SegmentView, ...], now_ms: int, *, release: Release = LATEST, **given: Any
) -> RetentionQuestion:
    """What a forecast is made for; `given`: start, watermark, custom, and settings by their names with `_` for `.`."""
    start, watermark = given.pop("start", 0), given.pop("watermark", views[-1].next_offset)
    custom: dict[str, Policy] = given.pop("custom", {})
    topic, settings = _settings(release, given)
    listing = Listing(path="/d/t-0", files=(), directories=(), findings=())
    view = PartitionView(
        partition=partition_of(listing),
        segments=views,
        bounds=LogBounds(
            log_start=Bound(start, "base offset of the first segment"),
            local_start=start,
            epochs_start=start,
            log_end=views[-1].next_offset,
            recovery_point=Bound(views[-1].next_offset, "the log end offset"),
            high_watermark=Bound(watermark, "replication-offset-checkpoint"),
        ),
        is_tiered=topic.remote_storage_enable,
    )
    return RetentionQuestion(
        view=view, topic=topic, rules=retention_rules(topic, settings), now_ms=now_ms, custom=custom
    )


def _settings(release: Release, assigned: dict[str, str]) -> tuple[Any, Settings]:
    values = {"retention.ms": "-1"} | {name.replace("_", "."): value for name, value in assigned.items()}
    settings = Settings(release=release, assigned=values)
    return settings.for_topic("t"), settings
