"""Kafka's policies as pure functions: what may go, and from when on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.kafka.sim.retention.rules import Policy, by_size, by_start_offset, by_time
from kafkalog_core.kafka.sim.start.segment_views import NO_TIMESTAMP
from tests.kafka.retention.views import segments


def _says(policy: Policy, views: object, now_ms: int = 0) -> list[bool]:
    return [bool(each[0]) for each in policy(views, now_ms)]  # type: ignore[index, arg-type]


def test_time_is_strict() -> None:
    """A segment that is as old as the limit stays; one ms later it goes."""
    views = segments(10, 10, times=[100, 200])
    assert _says(by_time(50), views, 150) == [False, False]
    assert _says(by_time(50), views, 151) == [True, False]
    assert [judgement.due_ms for judgement in by_time(50)(views, 0)] == [151, 251]  # type: ignore[union-attr]
    assert _says(by_time(0), views, 100) == [False, False]
    assert _says(by_time(0), views, 101) == [True, False]
    assert _says(by_time(-1), views, 10**15) == [False, False]


def test_the_files_time_counts_where_there_is_no_timestamp() -> None:
    views = segments(10, 10, times=[NO_TIMESTAMP, 200], mtimes=[300, 0])
    judged = list(by_time(50)(views, 340))
    assert [(each.deletes, each.reason) for each in judged] == [  # type: ignore[union-attr]
        (False, "file modified 40 ms ago, within retention.ms 50 ms"),
        (True, "140 ms old, over retention.ms 50 ms"),
    ]
    assert next(iter(by_time(50)(views, 290))).reason == "file modified 10 ms ahead of now, retention.ms 50 ms"  # type: ignore[union-attr]


def test_size_keeps_at_least_the_limit() -> None:
    assert _says(by_size(150), segments(100, 100, 100)) == [True, False, False]
    assert _says(by_size(200), segments(100, 100, 100)) == [True, False, False]
    assert _says(by_size(201), segments(100, 100, 100)) == [False, False, False]
    assert _says(by_size(300), segments(100, 100, 100)) == [False, False, False]
    assert _says(by_size(300), segments(0, 200, 100)) == [True, False, False]  # an empty one costs nothing
    assert _says(by_size(0), segments(100, 100, 100)) == [True, True, True]
    assert _says(by_size(-1), segments(100, 100, 100)) == [False, False, False]
    assert _says(by_size(400), segments(100, 100, 100)) == [False, False, False]


def test_start_offset_takes_what_lies_below_it_as_a_whole() -> None:
    views = segments(10, 10, 10)
    assert _says(by_start_offset(0), views) == [False, False, False]
    assert _says(by_start_offset(9), views) == [False, False, False]
    assert _says(by_start_offset(10), views) == [True, False, False]
    assert _says(by_start_offset(25), views) == [True, True, False]
    assert _says(by_start_offset(30), views) == [True, True, False]  # the active one never
    assert _says(by_start_offset(5), ()) == []


@given(
    sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=12),
    limits=st.tuples(st.integers(0, 5000), st.integers(0, 5000)),
)
def test_a_larger_limit_of_size_keeps_no_less(sizes: list[int], limits: tuple[int, int]) -> None:
    def prefix(limit: int) -> int:
        said = _says(by_size(limit), segments(*sizes))
        return said.index(False) if False in said else len(said)

    assert prefix(max(limits)) <= prefix(min(limits))
    left = sum(sizes[prefix(max(limits)) :])
    assert left >= max(limits) or prefix(max(limits)) == 0
