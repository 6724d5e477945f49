"""Which segments are cleaned into one, by the rules of Cleaner.groupSegmentsBySize."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.cleaner.clean import group_segments
from tests.support import build
from tests.support import cleaner_logs as logs


def bases(segments: list[Any], release: str = "4.3.1", bound: int = 1000, **config: Any) -> list[list[int]]:
    groups = group_segments(segments, logs.config(**config), cleaning_rules(parse_release(release)), bound)
    return [[segment.base_offset for segment in group] for group in groups]


@pytest.mark.parametrize(
    ("release", "groups"), [("4.3.1", [[0, 10], [20]]), ("0.9.0.1", [[0, 10], [20]]), ("0.8.2.2", [[0], [10], [20]])]
)
def test_sizes_of_logs(release: str, groups: list[list[int]]) -> None:
    segments = [logs.segment(base) for base in (0, 10, 20)]
    assert bases(segments, release, segment_bytes=200) == groups


@pytest.mark.parametrize("name", ["index_bytes", "timeindex_bytes"])
def test_sizes_of_indexes(name: str) -> None:
    segments = [logs.segment(base, **{name: 60}) for base in (0, 10, 20)]
    assert bases(segments, segment_index_bytes=120) == [[0, 10], [20]]
    expected = [[0, 10], [20]] if name == "index_bytes" else [[0, 10, 20]]
    assert bases(segments, "0.10.0.1", segment_index_bytes=120) == expected


def test_nothing_to_group() -> None:
    assert bases([]) == []


@pytest.mark.parametrize(
    ("following", "size_bytes", "groups"),
    [
        (2**31, 100, [[0, 10], [2**31]]),
        (2**31 + 1, 100, [[0], [10], [2**31 + 1]]),
        (2**31 + 1, 0, [[0, 10], [2**31 + 1]]),
    ],
)
def test_offsets_must_fit_into_the_index(following: int, size_bytes: int, groups: list[list[int]]) -> None:
    """A segment's last offset is taken to be the one before the next segment."""
    segments = [logs.segment(0), logs.segment(10, size_bytes), logs.segment(following)]
    assert bases(segments, bound=2**33) == groups


def test_an_empty_segment_far_away_joins_since_3_0() -> None:
    segments = [logs.segment(0), logs.segment(10, 0), logs.segment(2**32, 0)]
    assert bases(segments, bound=2**33) == [[0, 10, 2**32]]
    assert bases(segments, "2.8.2", bound=2**33) == [[0], [10], [2**32]]


def test_the_bound_is_behind_the_last_one() -> None:
    segments = [logs.segment(0), logs.segment(10)]
    assert bases(segments, bound=2**31) == [[0, 10]]
    assert bases(segments, bound=2**31 + 1) == [[0], [10]]


def test_old_releases_go_by_the_last_index_entry(tmp_path: Any) -> None:
    path = tmp_path / "00000000000000000010.index"
    path.write_bytes(build.offset_index([(5, 70), (2**31 - 11, 90)]))
    near = logs.segment(10, index_path=str(path), index_bytes=16)
    far = logs.segment(2**32, 100)
    assert bases([logs.segment(0), near, far], "0.10.0.1", bound=2**33) == [[0, 10], [2**32]]
    path.write_bytes(build.offset_index([(5, 70), (2**31 - 10, 90)]))
    assert bases([logs.segment(0), near], "0.10.0.1", bound=2**33) == [[0], [10]]
