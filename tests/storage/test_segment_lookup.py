"""Kafka's binary search, with and without the warm section, on the pages that it needs and no others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.storage.segment_lookup import IndexPages
from kafkalog_core.storage.source import Source
from tests.support.build import offset_index, time_index
from tests.support.scratch import MEMORY

if TYPE_CHECKING:
    from kafkalog_core.storage.segment_lookup import IndexSearch


def offsets_of(path: Path, keys: list[int], key: int, *, zeros: int = 0, has_warm_section: bool = True) -> IndexSearch:
    path.write_bytes(offset_index((one, 100 * one) for one in keys) + bytes(8 * zeros))
    with Source.open(path) as source:
        return IndexPages(source, OFFSET_INDEX_ENTRY).search(key, has_warm_section=has_warm_section)


@given(
    keys=st.lists(st.integers(1, 5000), unique=True, max_size=40).map(sorted),
    key=st.integers(-1, 5001),
    zeros=st.integers(0, 40),
    has_warm_section=st.booleans(),
)
def test_the_bounds_are_those_of_a_sorted_list(keys, key, zeros, has_warm_section):
    with TemporaryDirectory(dir=MEMORY) as place:
        found = offsets_of(Path(place) / "i", keys, key, zeros=zeros, has_warm_section=has_warm_section)
    at_or_below, at_or_above = bisect_right(keys, key), bisect_left(keys, key)
    assert found.lower == (at_or_below - 1 if at_or_below else None)
    bounds = {at_or_above}
    if key in keys:
        bounds = {_upper_as_kafka(keys, key, has_warm_section)} if not zeros else {at_or_above, at_or_above + 1}
    assert found.upper in {slot if slot < len(keys) else None for slot in bounds}


def _upper_as_kafka(keys: list[int], key: int, has_warm_section: bool) -> int:
    """The slot that AbstractIndex.indexSlotRangeFor gives for a key that is there, of fewer entries than are warm.

    Where only the key's own slot is left it is not looked at again, and the slot behind it is given.
    """
    low, high = 0, len(keys) - 1
    if has_warm_section and keys[0] == key:
        high = 0
    while low < high:
        middle = (low + high + 1) // 2
        if keys[middle] == key:
            return middle
        low, high = (low, middle - 1) if keys[middle] > key else (middle, high)
    return low + 1


@pytest.mark.parametrize(
    ("count", "first_probe"),
    [(1, 0), (1024, 0), (1025, 0), (1026, 1), (5000, 3975)],
    ids=str,
)
def test_the_warm_section_of_offsets_is_1024_entries(tmp_path, count, first_probe):
    found = offsets_of(tmp_path / "i", list(range(1, count + 1)), count)
    assert found.slots[0] == first_probe
    assert found.lower == count - 1


@pytest.mark.parametrize(("count", "first_probe"), [(682, 0), (683, 0), (684, 1)])
def test_the_warm_section_of_times_is_682_entries(tmp_path, count, first_probe):
    path = tmp_path / "i"
    path.write_bytes(time_index((1000 + one, one) for one in range(count)))
    with Source.open(path) as source:
        found = IndexPages(source, TIME_INDEX_ENTRY).search(10_000)
    assert found.slots[0] == first_probe
    assert found.lower == count - 1


def test_releases_before_the_warm_section_search_all(tmp_path):
    found = offsets_of(tmp_path / "i", list(range(1, 5001)), 5000, has_warm_section=False)
    assert found.slots[:2] == [0, 2500]


def test_a_search_in_the_warm_section_reads_three_pages_at_most(tmp_path):
    path = tmp_path / "i"
    path.write_bytes(offset_index((one, one) for one in range(1, 1_310_721)))
    with Source.open(path) as source:
        index = IndexPages(source, OFFSET_INDEX_ENTRY)
        index.search(1_310_000)
        assert len(index.pages) <= 3
        cold = IndexPages(source, OFFSET_INDEX_ENTRY)
        cold.search(7)
        assert len(cold.pages) <= 14  # of 2560: the warm section's first, the first, then halves down to one page


def test_an_entry_that_lies_on_two_pages_reads_both(tmp_path):
    path = tmp_path / "i"
    path.write_bytes(time_index((one, one) for one in range(1000)))
    with Source.open(path) as source:
        index = IndexPages(source, TIME_INDEX_ENTRY)
        assert index.entry(341) == (341, 341)  # bytes 4092 to 4104
        assert index.pages == [0, 1]


def test_a_tail_of_zeros_is_found_by_halves(tmp_path):
    path = tmp_path / "i"
    path.write_bytes(offset_index((one, one) for one in range(1, 1001)) + bytes(10 * 1024 * 1024 - 8000))
    with Source.open(path) as source:
        index = IndexPages(source, OFFSET_INDEX_ENTRY)
        assert index.search(500).lower == 499
        assert index.count == 1000
        assert len(index.pages) < 40
        assert index.last == (0, 0)  # as a broker sees it


def test_an_empty_index_and_one_of_zeros(tmp_path):
    for size in (0, 7, 8, 8000):
        path = tmp_path / "i"
        path.write_bytes(bytes(size))
        with Source.open(path) as source:
            index = IndexPages(source, OFFSET_INDEX_ENTRY)
            assert index.search(5).lower is None
            assert index.partial_bytes == size % 8


@given(data=st.binary(max_size=300), key=st.integers(-(2**40), 2**40))
def test_any_bytes_are_searched(data, key):
    with TemporaryDirectory(dir=MEMORY) as place:
        path = Path(place) / "i"
        path.write_bytes(data)
        with Source.open(path) as source:
            for layout in (OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY):
                for has_warm_section in (True, False):
                    found = IndexPages(source, layout).search(key, has_warm_section=has_warm_section)
                    assert found.lower is None or 0 <= found.lower < len(data) // layout.size
