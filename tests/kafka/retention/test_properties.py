"""Retention is monotonic in its settings: who asks for more never keeps less."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.retention.rules import RetainedLog, check, retention_rules
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.segment_views import SegmentView
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from kafkalog_core.kafka.sim.retention.rules import RetentionRules

NOW_MS: Final = 10_000
TIMES: Final = st.integers(-1, 12_000)
UNLIMITED: Final = -1
LIMITS: Final = st.just(UNLIMITED) | st.integers(0, 12_000)
RELEASES: Final = st.sampled_from(
    (Release(0, 8, 2), Release(0, 10), Release(0, 11), Release(2, 8, 2), Release(4, 3, 1))
)


@st.composite
def logs(draw: st.DrawFn) -> RetainedLog:
    """Some segments, a log start and a high watermark."""
    counts = draw(st.lists(st.integers(1, 50), max_size=8))
    bounds = [*accumulate(counts, initial=draw(st.integers(0, 10)))]
    closed = [_segment(draw, first, after) for first, after in pairwise(bounds)]
    end = bounds[-1] + draw(st.integers(0, 10))
    active = replace(_segment(draw, bounds[-1], end), is_active=True)
    active = active if end > bounds[-1] else replace(active, size_bytes=0, max_timestamp_ms=-1)
    start = draw(st.integers(bounds[0], end))
    return RetainedLog(
        segments=(*closed, active),
        start_offset=start,
        high_watermark=draw(st.integers(start, end)),
        end_offset=end,
    )


def _segment(draw: st.DrawFn, base_offset: int, next_offset: int) -> SegmentView:
    return SegmentView(
        base_offset=base_offset,
        next_offset=next_offset,
        size_bytes=draw(st.integers(0, 5_000)),
        max_timestamp_ms=draw(TIMES),
        max_timestamp_origin="drawn",
        mtime_ms=draw(st.integers(0, 12_000)),
        is_active=False,
        path=f"t-0/{base_offset:020}.log",
    )


@st.composite
def rules(draw: st.DrawFn) -> RetentionRules:
    """The rules of a release for a policy."""
    policy = draw(st.sampled_from(("delete", "compact", "compact,delete")))
    request = SettingsRequest(topic_assignments=(f"t:cleanup.policy={policy}",))
    settings = read_settings(request, draw(RELEASES))
    limits = {"retention_ms": draw(LIMITS), "retention_bytes": draw(LIMITS)}
    return replace(retention_rules(settings.for_topic("t"), settings), **limits)


def kept_from(log: RetainedLog, how: RetentionRules) -> int:
    """The base offset of the first segment that is left."""
    return check(log, how, NOW_MS, {}).log.segments[0].base_offset


def at_least(limit: int, other: int) -> bool:
    """Whether a limit keeps as much as another one."""
    return limit == UNLIMITED or (other != UNLIMITED and limit >= other)


@given(logs(), rules(), LIMITS)
def test_a_longer_retention_keeps_no_less(log: RetainedLog, how: RetentionRules, retention_ms: int) -> None:
    other = replace(how, retention_ms=retention_ms)
    longer, shorter = (how, other) if at_least(how.retention_ms, retention_ms) else (other, how)
    assert kept_from(log, longer) <= kept_from(log, shorter)


@given(logs(), rules(), LIMITS)
def test_a_larger_retention_keeps_no_less(log: RetainedLog, how: RetentionRules, retention_bytes: int) -> None:
    other = replace(how, retention_bytes=retention_bytes)
    larger, smaller = (how, other) if at_least(how.retention_bytes, retention_bytes) else (other, how)
    assert kept_from(log, larger) <= kept_from(log, smaller)


@given(logs(), rules(), st.data())
def test_a_later_log_start_keeps_no_more(log: RetainedLog, how: RetentionRules, data: st.DataObject) -> None:
    later = data.draw(st.integers(log.start_offset, log.high_watermark))
    assert kept_from(log, how) <= kept_from(replace(log, start_offset=later), how)


@given(logs(), rules())
def test_what_goes_is_the_oldest(log: RetainedLog, how: RetentionRules) -> None:
    checked = check(log, how, NOW_MS, {})
    rest = () if checked.new_segment is not None else checked.log.segments
    assert (*(each.segment for each in checked.deleted), *rest) == log.segments


@given(logs(), rules())
def test_a_second_check_deletes_nothing_more(log: RetainedLog, how: RetentionRules) -> None:
    checked = check(log, how, NOW_MS, {})
    if how.passes[:2] == ("time", "size"):  # what size uncovers, time takes the next time: a third finds nothing
        checked = check(checked.log, how, NOW_MS, {})
    assert check(checked.log, how, NOW_MS, {}).deleted == ()
