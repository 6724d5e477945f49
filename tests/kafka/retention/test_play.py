"""Checks played forward: when files are renamed, and when they go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import LimitError
from kafkalog_core.kafka.sim.retention import forecast as playing
from kafkalog_core.kafka.sim.retention.forecast import Schedule, play
from kafkalog_core.kafka.sim.retention.rules import check
from tests.kafka.retention.views import question, segments

SCHEDULE = Schedule(first_ms=1000, interval_ms=300, delay_ms=60)


def test_renames_come_at_checks_and_files_go_after_the_delay() -> None:
    asked = question(segments(1, 2, 3, times=[0, 1000, 1500]), 970, retention_ms="100")
    events = play(asked, SCHEDULE, 1650)
    assert [(event.time_ms, event.kind, event.segment.base_offset, event.log_bytes) for event in events] == [
        (1000, "renamed", 0, 5),
        (1060, "removed", 0, 5),
        (1300, "renamed", 10, 3),
        (1360, "removed", 10, 3),
    ]
    assert [event.start_offset for event in events] == [10, 10, 20, 20]


def test_the_last_of_all_makes_a_new_segment() -> None:
    asked = question(segments(1, 2, times=[0, 1000]), 970, retention_ms="100")
    events = play(asked, SCHEDULE, 10**9)
    assert [(event.time_ms, event.kind) for event in events][2:] == [
        (1300, "new-segment"),
        (1300, "renamed"),
        (1360, "removed"),
    ]
    assert events[-1].start_offset == 20


def test_what_goes_after_the_end_is_not_told() -> None:
    asked = question(segments(1, 2, times=[0, 1000]), 970, retention_ms="100")
    assert play(asked, SCHEDULE, 999) == []
    assert [event.kind for event in play(asked, SCHEDULE, 1059)] == ["renamed"]


@pytest.mark.parametrize(("until_ms", "kinds"), [(1000, ["renamed"]), (1060, ["renamed", "removed"])])
def test_what_happens_exactly_at_the_end_is_told(until_ms: int, kinds: list[str]) -> None:
    asked = question(segments(1, 2, times=[0, 1000]), 970, retention_ms="100")
    assert [event.kind for event in play(asked, SCHEDULE, until_ms)] == kinds


def test_more_checks_with_a_policy_of_ones_own_than_anybody_waits_for_are_refused_at_once() -> None:
    def never_asked(views: object, now_ms: int) -> list[bool]:
        raise AssertionError

    asked = question(segments(1, 2), 970, custom={"mine": never_asked})
    with pytest.raises(LimitError, match="a longer interval"):
        play(asked, SCHEDULE, SCHEDULE.first_ms + playing.MAX_CHECKS * SCHEDULE.interval_ms)


def test_a_policy_of_ones_own_is_asked_at_each_check(monkeypatch: pytest.MonkeyPatch) -> None:
    late = {"late": lambda views, now_ms: [now_ms > 2000 and view.base_offset < 10 for view in views]}
    asked = question(segments(1, 2), 970, custom=late)
    assert [event.time_ms for event in play(asked, SCHEDULE, 5000)] == [2200, 2260]
    monkeypatch.setattr(playing, "MAX_CHECKS", 10)
    with pytest.raises(LimitError, match="choose a nearer time"):
        play(asked, SCHEDULE, 10**6)


def test_more_checks_that_delete_something_than_anybody_waits_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question(segments(*[1] * 6, times=[0, 1000, 2000, 3000, 4000, 5000]), 970, retention_ms="100")
    checks = len({event.time_ms for event in play(asked, SCHEDULE, 9000) if event.kind == "renamed"})
    assert checks > 3
    monkeypatch.setattr(playing, "MAX_CHECKS", 3)
    with pytest.raises(LimitError, match="choose a nearer time"):
        play(asked, SCHEDULE, 9000)


@given(
    times=st.lists(st.integers(0, 5000), min_size=1, max_size=6),
    sizes=st.lists(st.integers(0, 50), min_size=6, max_size=6),
    retention=st.integers(0, 4000),
    limit=st.integers(-1, 200),
)
def test_checks_that_are_skipped_would_change_nothing(
    times: list[int], sizes: list[int], retention: int, limit: int
) -> None:
    asked = question(
        segments(*sizes[: len(times)], times=times), 970, retention_ms=str(retention), retention_bytes=str(limit)
    )
    until = 9000
    log, expected = asked.log, []
    for time_ms in range(SCHEDULE.first_ms, until + 1, SCHEDULE.interval_ms):
        checked = check(log, asked.rules, time_ms, {})
        expected += [(time_ms, each.segment.base_offset, each.rule) for each in checked.deleted]
        log = checked.log
    events = play(asked, SCHEDULE, until)
    assert [(event.time_ms, event.segment.base_offset, event.rule) for event in events if event.kind == "renamed"] == (
        expected
    )
