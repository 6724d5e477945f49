"""An offset map that several workers make in parts is the one that a cleaner makes by itself, or there is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.cleaner.offset_map import FilledMap, MapFiller
from kafkalog_core.kernels import constants as n
from kafkalog_core.ops.compact.compact import tasks_of
from kafkalog_core.ops.compact.forecast import CompactRequest, CompactTask
from kafkalog_core.ops.compact.simulation import MapShare, merged_map, packed_part, parts_of, simulate
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.structs import replace
from tests.support.keyed_logs import NOW_MS, Writer
from tests.support.scratch import MEMORY

if TYPE_CHECKING:
    import random

    from kafkalog_core.kafka.sim.cleaner.offset_map import KnownMap

SETTINGS = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")
RELEASES = ("4.3.1", "3.9.1", "2.8.2", "1.1.1", "0.10.2.2")


def a_task(root: Path, release: str = "4.3.1", *, slots: int = 2000) -> CompactTask:
    request = CompactRequest(
        targets=(),
        now_ms=NOW_MS,
        kafka=SettingsRequest(kafka=release, topic_assignments=tuple(f"t:{each}" for each in SETTINGS)),
        memory_bytes=24 * slots,
    )
    [task] = tasks_of(target_dir([str(root)]), request)
    return task


def nothing(_: int) -> None:
    """Progress that nobody looks at."""


def shared(task: CompactTask, most: int) -> KnownMap | None:
    """What workers find out."""
    pieces = [piece for part in parts_of(task, most, nothing, forced=True) for piece in packed_part(part, nothing)]
    return merged_map(task.config(), pieces)


def alone(part: MapShare) -> FilledMap:
    """What a cleaner finds out by itself."""
    filler = MapFiller(part.log, part.config, part.rules, NO_PROGRESS, part.max_batch_bytes)
    return filler.fill(part.first_dirty, part.bound)


def entries(filled: FilledMap) -> dict[tuple[int, int], int]:
    table = filled.offsets.table
    return {
        (table[at + n.ENTRY_LOW], table[at + n.ENTRY_HIGH]): table[at + n.ENTRY_OFFSET]
        for at in range(0, len(table), n.ENTRY_SIZE)
        if table[at + n.ENTRY_OFFSET]
    }


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 7), st.integers(2, 5), st.sampled_from(RELEASES))
def test_the_map_is_the_same_whatever_the_transactions(seed: int, segments: int, most: int, release: str) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        task = a_task(Writer(seed, segments).write(Path(root)), release)
        parts = parts_of(task, most, nothing, forced=True)
        known = shared(task, most)
        if not parts:  # nearly all is in one segment
            assert known is None
            return
        assert 2 <= len(parts) <= most
        assert known is not None
        filled = alone(parts[0])
        assert entries(known.filled) == entries(filled)
        assert (known.filled.end_offset, known.filled.is_full) == (filled.end_offset, filled.is_full)
        assert known.filled.offsets.latest_offset == filled.offsets.latest_offset
        forecast = simulate(task, nothing)
        assert forecast.partition["state"] == "cleanable"
        assert simulate(task, nothing, known) == forecast


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(4, 50), st.sampled_from(RELEASES))
def test_where_not_all_keys_fit_the_clean_fills_its_own(seed: int, slots: int, release: str) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        task = a_task(Writer(seed, 4).write(Path(root)), release, slots=slots)
        assert simulate(task, nothing, shared(task, 3)) == simulate(task, nothing)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_a_transaction_index_that_does_not_tell_the_truth_makes_no_difference(seed: int, rng: random.Random) -> None:
    """What it says of a part's beginning is only taken where the part before ends with it."""
    writer = Writer(seed, 5)
    for found in writer.aborted.values():
        found[:] = [
            (producer_id, max(0, first - rng.randrange(9)), last + rng.choice((0, 0, -5, 7, 40)), stable)
            for producer_id, first, last, stable in found
            if rng.random() < 0.8
        ]
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        task = a_task(writer.write(Path(root)))
        known = shared(task, 3)
        if known is not None:
            assert entries(known.filled) == entries(alone(parts_of(task, 3, nothing, forced=True)[0]))
        assert simulate(task, nothing, known) == simulate(task, nothing)


@pytest.fixture
def task(tmp_path: Path) -> CompactTask:
    return a_task(Writer(3, 5).write(tmp_path))


def test_each_segment_is_in_one_part(task: CompactTask) -> None:
    parts = parts_of(task, 3, nothing, forced=True)
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert (parts[0].start, parts[-1].stop, len(parts)) == (0, 4, 3)


def test_a_part_that_cannot_be_read_leaves_the_map_to_the_clean(task: CompactTask) -> None:
    parts = parts_of(task, 4, nothing, forced=True)
    broken = parts[2].log.segments[2]
    data = bytearray(Path(broken.path).read_bytes())
    data[-1] ^= 1
    Path(broken.path).write_bytes(data)
    assert shared(task, 4) is None
    forecast = simulate(task, nothing, None)
    assert forecast.partition["state"] == "fails"


def test_a_part_that_is_lost_or_out_of_order_leaves_the_map_to_the_clean(task: CompactTask) -> None:
    packed = [list(packed_part(part, nothing)) for part in parts_of(task, 3, nothing, forced=True)]
    first, second, third = packed
    config = task.config()
    assert merged_map(config, [*first, *second, *third]) is not None
    for wrong in ([*first, *second], [*first, *third], [*second, *first, *third], []):
        assert merged_map(config, wrong) is None


def test_a_map_of_other_bounds_is_not_used(task: CompactTask) -> None:
    known = shared(task, 3)
    assert known is not None
    empty = replace(known.filled, offsets=alone(parts_of(task, 3, nothing, forced=True)[0]).offsets, end_offset=1)
    other = replace(known, bound=known.bound - 1, filled=empty)
    assert simulate(task, nothing, other) == simulate(task, nothing)


@pytest.mark.parametrize("release", ["0.8.2.2", "0.9.0.1", "0.10.0.1"])
def test_releases_that_count_whole_segments_have_no_parts(tmp_path: Path, release: str) -> None:
    task = a_task(Writer(3, 5).write(tmp_path), release)
    assert parts_of(task, 3, nothing, forced=True) == ()


def test_what_is_not_cleaned_has_no_parts(tmp_path: Path) -> None:
    task = a_task(Writer(3, 5).write(tmp_path))
    assert parts_of(replace(task, never=("not-compacted", "")), 3, nothing, forced=True) == ()
    assert parts_of(replace(task, view=None), 3, nothing, forced=True) == ()
    assert parts_of(task, 1, nothing, forced=True) == ()
    for path in sorted((tmp_path / "t-0").glob("*.log"))[:-1]:
        os.unlink(path)
    assert parts_of(a_task(tmp_path), 3, nothing, forced=True) == ()
