"""What may be cleaned of a log, by the rules of LogCleanerManager and LogToClean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.rules.producers import OpenTxn
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.cleaner.log import Cleanability, cleanability, segments_in
from tests.support import build
from tests.support import cleaner_logs as logs

if TYPE_CHECKING:
    from pathlib import Path

LATEST = cleaning_rules(parse_release("4.3.1"))


def look(log: Any, release: str = "4.3.1", now_ms: int = 10_000, **config: Any) -> Cleanability:
    return cleanability(log, logs.config(**config), cleaning_rules(parse_release(release)), now_ms)


@pytest.mark.parametrize(
    ("first", "end", "release", "bases"),
    [
        (0, 0, "4.3.1", []),
        (15, 15, "4.3.1", []),
        (15, 15, "0.10.0.1", [10]),  # without the shortcut the segment that holds it
        (10, 10, "0.10.0.1", []),
        (-1, 10, "4.3.1", [0]),
        (-1, 11, "4.3.1", [0, 10]),
        (5, 20, "4.3.1", [0, 10]),
        (12, 21, "4.3.1", [10, 20]),
        (0, 99, "4.3.1", [0, 10, 20]),
    ],
)
def test_a_range_has_the_segment_that_holds_its_start(first: int, end: int, release: str, bases: list[int]) -> None:
    segments = logs.log([0, 10, 20], 30).segments
    found = segments_in(segments, first, end, cleaning_rules(parse_release(release)))
    assert [segment.base_offset for segment in found] == bases


def test_a_range_before_the_first_segment_starts_with_it() -> None:
    segments = logs.log([10, 20], 30).segments
    assert [each.base_offset for each in segments_in(segments, 3, 15, LATEST)] == [10]


def test_all_closed_segments_of_a_log_that_was_never_cleaned() -> None:
    seen = look(logs.log([0, 10, 20], 30))
    assert (seen.first_dirty, seen.bound) == (0, 20)
    assert (seen.clean_bytes, seen.cleanable_bytes, seen.uncleanable_bytes) == (0, 200, 100)
    assert (seen.ratio, seen.state, seen.would_run) == (1.0, "cleanable", True)
    assert seen.hold_back.kind == "active-segment"


def test_the_ratio_must_be_above_the_setting() -> None:
    log = logs.log([0, 10, 20], 30, checkpoint=10)
    seen = look(log)
    assert (seen.clean_bytes, seen.cleanable_bytes, seen.ratio, seen.state) == (100, 100, 0.5, "not-dirty-enough")
    assert seen.has_work
    assert look(log, min_dirty_ratio=0.49).would_run


def test_a_segment_that_holds_the_first_dirty_offset_counts_twice() -> None:
    seen = look(logs.log([0, 10, 20], 30, checkpoint=13))
    assert (seen.clean_bytes, seen.cleanable_bytes) == (200, 100)


@pytest.mark.parametrize(("release", "clean_bytes"), [("0.8.2.2", 100), ("0.9.0.1", 100)])
def test_the_oldest_release_ends_the_clean_part_one_offset_early(release: str, clean_bytes: int) -> None:
    log = logs.log([0, 10, 20], 30, checkpoint=10)
    assert look(log, release).clean_bytes == clean_bytes
    log = logs.log([0, 10, 20], 30, checkpoint=11)
    assert look(log, release).clean_bytes == (100 if release == "0.8.2.2" else 200)


@pytest.mark.parametrize(
    ("checkpoint", "release", "first_dirty", "resets"),
    [
        (5, "4.3.1", 10, True),
        (5, "0.10.0.1", 10, True),
        (5, "0.9.0.1", 10, True),
        (5, "0.8.2.2", 5, False),
        (31, "4.3.1", 10, True),
        (31, "2.1.1", 31, False),
        (30, "4.3.1", 30, False),
        (None, "4.3.1", 10, False),
    ],
)
def test_a_checkpoint_outside_of_the_log(
    checkpoint: int | None, release: str, first_dirty: int, *, resets: bool
) -> None:
    seen = look(logs.log([10, 20], 30, checkpoint=checkpoint), release)
    assert (seen.first_dirty, seen.resets_checkpoint) == (first_dirty, resets)


def test_a_log_that_is_clean_up_to_its_active_segment() -> None:
    seen = look(logs.log([0, 10, 20], 30, checkpoint=20))
    assert (seen.state, seen.cleanable_bytes, seen.ratio, seen.has_work) == ("nothing-cleanable", 0, 0.0, False)


def test_a_log_whose_start_is_in_its_only_segment() -> None:
    seen = look(logs.log([0], 30, log_start_offset=12))
    assert (seen.first_dirty, seen.bound, seen.cleanable_bytes, seen.state) == (12, 0, 0, "nothing-cleanable")


@pytest.mark.parametrize(
    ("unstable", "watermark", "release", "bound", "holder"),
    [
        (15, 30, "4.3.1", 10, "open-transaction"),
        (20, 30, "4.3.1", 20, "open-transaction"),
        (15, 12, "4.3.1", 10, "high-watermark"),
        (None, 5, "4.3.1", 0, "high-watermark"),
        (None, 5, "2.8.2", 20, "active-segment"),
        (15, 5, "2.8.2", 10, "open-transaction"),
        (15, 30, "0.10.2.2", 20, "active-segment"),
    ],
)
def test_what_is_not_settled_is_not_cleaned(
    unstable: int | None, watermark: int, release: str, bound: int, holder: str
) -> None:
    seen = look(logs.log([0, 10, 20], 30, first_unstable_offset=unstable, high_watermark=watermark), release)
    assert (seen.bound, seen.hold_back.kind) == (bound, holder)


def test_who_holds_a_cleaner_back() -> None:
    open_txn = OpenTxn(producer_id=7, first_offset=5, timestamp_ms=1000, is_behind_hole=False)
    fields = {"first_unstable_offset": 5, "open_transaction": open_txn}
    detail = look(logs.log([0, 10, 20], 30, **fields)).hold_back.detail
    assert detail.startswith(
        "producer 7 has a transaction open since offset 5, and wrote to it last at 1970-01-01T00:00:01"
    )
    later = open_txn._replace(first_offset=15)
    detail = look(logs.log([0, 10, 20], 30, **(fields | {"open_transaction": later}))).hold_back.detail
    assert detail.startswith("a transaction that began at offset 5 ended after the high watermark")
    cut = logs.log(
        [0, 10, 20], 30, log_start_offset=5, **(fields | {"open_transaction": open_txn._replace(first_offset=2)})
    )
    assert look(cut).hold_back.detail.startswith("producer 7 has a transaction open since offset 5")


def test_what_is_too_young_is_not_cleaned() -> None:
    segments = [logs.segment(0), logs.segment(10, largest_timestamp_ms=9_000), 20]
    seen = look(logs.log(segments, 30), min_lag_ms=2_000)
    assert (seen.bound, seen.hold_back.kind, seen.hold_back.until_ms) == (10, "min-compaction-lag", 11_000)
    assert look(logs.log(segments, 30), min_lag_ms=1_000).bound == 20  # not above now - lag
    assert look(logs.log(segments, 30), "0.10.0.1", min_lag_ms=2_000).bound == 20


@pytest.mark.parametrize(("release", "state"), [("4.3.1", "cleanable"), ("2.1.1", "not-dirty-enough")])
def test_what_is_too_old_is_cleaned_whatever_the_ratio(tmp_path: Path, release: str, state: str) -> None:
    path = tmp_path / "00000000000000000010.log"
    path.write_bytes(build.batch_v2([build.Record(offset=10, key=b"k", value=b"v", timestamp_ms=1_000)]))
    dirty = logs.segment(10, path.stat().st_size, path=str(path))
    log = logs.log([logs.segment(0, 10_000), dirty, 20], 30, checkpoint=10)
    seen = look(log, release, max_lag_ms=8_999)
    assert (seen.must_now, seen.state) == (state == "cleanable", state)
    assert not look(log, release, max_lag_ms=9_000).must_now  # it must be older than that


def test_a_segment_without_a_batch_is_never_too_old(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000010.log"
    path.touch()
    log = logs.log([logs.segment(0, 10_000), logs.segment(10, 0, path=str(path)), 20], 30, checkpoint=10)
    assert not look(log, max_lag_ms=1).must_now


@pytest.mark.parametrize(
    ("fields", "state"), [({"is_cleaner_on": False}, "cleaner-off"), ({"is_compacted": False}, "not-compacted")]
)
def test_logs_that_no_cleaner_takes(fields: dict[str, bool], state: str) -> None:
    assert look(logs.log([0, 10, 20], 30), **fields).state == state
