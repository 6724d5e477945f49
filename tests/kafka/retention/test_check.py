"""One check: from the oldest segment on, up to the first one that something keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.sim.retention.rules import Checked, check
from tests.kafka.retention.views import log, rules, segments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.kafka.sim.start.segment_views import SegmentView

OLD = Release(0, 10, 0)


def _gone(checked: Checked) -> list[tuple[int, str]]:
    return [(each.segment.base_offset, each.rule) for each in checked.deleted]


def _keepers(checked: Checked) -> list[tuple[str, int, str]]:
    return [(stop.rule, stop.segment.base_offset, stop.keeper) for stop in checked.stops]


def test_a_check_stops_at_the_first_segment_that_stays() -> None:
    views = segments(1, 1, 1, 1, times=[0, 500, 0, 0])
    checked = check(log(views), rules(retention_ms="100"), 200, {})
    assert _gone(checked) == [(0, "time")]
    assert checked.log.start_offset == 10
    assert [segment.base_offset for segment in checked.log.segments] == [10, 20, 30]
    assert checked.new_segment is None


def test_each_pass_looks_at_what_the_one_before_has_left() -> None:
    views = segments(100, 100, 100, 100, times=[0, 0, 0, 900])
    checked = check(log(views, start=10), rules(retention_ms="100", retention_bytes="200"), 500, {})
    assert _gone(checked) == [(0, "start-offset"), (10, "size"), (20, "time")]
    assert checked.log.start_offset == 30


def test_nothing_above_the_high_watermark_goes() -> None:
    views = segments(1, 1, 1, times=[0, 0, 0])
    checked = check(log(views, watermark=19), rules(retention_ms="100"), 500, {})
    assert _gone(checked) == [(0, "time")]
    assert ("time", 10, "high-watermark") in _keepers(checked)
    assert _gone(check(log(views, watermark=20), rules(retention_ms="100"), 500, {})) == [(0, "time"), (10, "time")]
    assert len(_gone(check(log(views, watermark=0), rules(OLD, retention_ms="100"), 500, {}))) == 3


def test_where_all_goes_a_new_segment_is_made_first() -> None:
    views = segments(1, 1, times=[0, 0])
    checked = check(log(views), rules(retention_ms="100"), 500, {})
    assert _gone(checked) == [(0, "time"), (10, "time")]
    assert checked.new_segment is not None
    assert checked.log.segments == (checked.new_segment,)
    assert (checked.new_segment.base_offset, checked.log.start_offset) == (20, 20)
    assert checked.new_segment.path == "/d/t-0/00000000000000000020.log"


def test_an_empty_active_segment_stays() -> None:
    views = segments(1, 1, 0, times=[0, 0, -1])
    checked = check(log(views), rules(retention_ms="100"), 500, {})
    assert _gone(checked) == [(0, "time"), (10, "time")]
    assert ("time", 20, "empty-active") in _keepers(checked)
    again = check(checked.log, rules(retention_ms="100"), 10**12, {})
    assert _gone(again) == []


def test_an_empty_segment_that_is_not_the_active_one_goes() -> None:
    views = segments(0, 1, times=[-1, 900], mtimes=[0, 0])
    assert _gone(check(log(views), rules(retention_ms="100"), 500, {})) == [(0, "time")]


def test_of_a_tiered_log_only_what_lies_below_its_start_is_known_to_be_remote() -> None:
    views = segments(1, 1, 1, times=[0, 0, 0])
    tiered = rules(retention_ms="100", remote_storage_enable="true")
    checked = check(log(views, start=10), tiered, 500, {})
    assert _gone(checked) == [(0, "start-offset")]
    assert ("time", 10, "remote") in _keepers(checked)


def test_policies_of_ones_own_run_last() -> None:
    def odd(views: Sequence[SegmentView], now_ms: int) -> list[bool]:
        return [segment.size_bytes % 2 == 1 and now_ms == 500 for segment in views]

    views = segments(2, 1, 1, 2, times=[0, 450, 450, 450])
    checked = check(log(views), rules(retention_ms="100"), 500, {"mine:odd": odd})
    assert _gone(checked) == [(0, "time"), (10, "mine:odd"), (20, "mine:odd")]
    assert check(log(views), rules(), 500, {"mine:odd": odd}).deleted == ()


def test_a_policy_that_judges_too_few_keeps_the_rest() -> None:
    checked = check(log(segments(1, 1, 1)), rules(), 500, {"short": lambda views, _: [True] * (len(views) - 2)})
    assert _gone(checked) == [(0, "short")]
