"""Cleans by the rules of older releases: how the map is filled, what is appended at once, what their mistakes do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import CleanError
from tests.support import build
from tests.support.cleaner_carrying import Cleaner
from tests.support.cleaner_logs import batch, content, lay, marker, of, record, shapes

if TYPE_CHECKING:
    from pathlib import Path


def messages(first: int, keys: str) -> bytes:
    """Messages of magic 1 without a codec, one after another."""
    records = [record(first + number, key.encode(), b"%d" % (first + number)) for number, key in enumerate(keys)]
    return b"".join(map(build.message_v1, records))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "t-0"
    made.mkdir()
    return made


def offsets(directory: Path, base: int = 0) -> list[int]:
    return [first for first, *_ in shapes(directory, base)]


def test_0_10_2_stops_inside_of_a_segment(directory: Path) -> None:
    lay(directory, 0, messages(0, "abcabc"))
    lay(directory, 6, messages(6, "dea"))
    lay(directory, 9, messages(9, "z"))
    work = Cleaner(directory, "0.10.2.2").clean(9_000_000, memory_bytes=24 * 5)
    assert (work.is_full, work.mapped_keys, work.end_offset) == (True, 4, 7)
    assert offsets(directory) == [3, 4, 5, 6, 7, 8]  # behind offset 6 nothing is looked up


def test_0_10_2_ends_with_the_last_key_that_it_put(directory: Path) -> None:
    without_key = build.message_v1(record(3, None, b"v"))
    lay(directory, 0, messages(0, "aba") + without_key)
    lay(directory, 4, messages(4, "z"))
    work = Cleaner(directory, "0.10.2.2").clean(9_000_000)
    assert (work.is_full, work.end_offset) == (False, 3)
    assert offsets(directory) == [1, 2, 3]  # the one without a key is past the end


@pytest.mark.parametrize("release", ["0.11.0.3", "2.8.2"])
def test_later_ones_pass_what_has_no_key(directory: Path, release: str) -> None:
    lay(directory, 0, messages(0, "aba") + build.message_v1(record(3, None, b"v")))
    lay(directory, 6, messages(6, "z"))
    work = Cleaner(directory, release).clean(9_000_000)
    assert work.end_offset == (6 if release == "2.8.2" else 4)  # and over a gap before the next segment
    assert offsets(directory) == [1, 2]
    assert work.counts.dropped_records == {"superseded": 1, "null-key": 1}


def test_0_10_0_takes_whole_segments(directory: Path) -> None:
    lay(directory, 0, messages(0, "abab"))
    lay(directory, 4, messages(4, "acde"))
    lay(directory, 8, messages(8, "z"))
    work = Cleaner(directory, "0.10.0.1").clean(9_000_000, memory_bytes=24 * 4)
    assert (work.is_full, work.end_offset, len(work.groups)) == (True, 4, 1)
    assert offsets(directory) == [3]  # the first keys of the second segment are in the map all the same
    assert content(directory, 4) == messages(4, "acde")


@pytest.mark.parametrize("release", ["0.10.0.1", "0.9.0.1"])
def test_old_ones_fail_where_the_first_segment_does_not_fit(directory: Path, release: str) -> None:
    lay(directory, 0, messages(0, "abcd"))
    lay(directory, 4, messages(4, "z"))
    with pytest.raises(CleanError, match="has room for 3 keys") as caught:
        Cleaner(directory, release).clean(9_000_000, memory_bytes=24 * 4)
    assert caught.value.reason == "map-too-small"
    assert content(directory) == messages(0, "abcd")


def test_0_9_counts_offsets_not_keys(directory: Path) -> None:
    lay(directory, 0, messages(0, "aaa"))
    lay(directory, 3, messages(3, "aaa"))
    lay(directory, 6, messages(6, "aaa"))
    lay(directory, 9, messages(9, "z"))
    work = Cleaner(directory, "0.9.0.1").clean(9_000_000, memory_bytes=24 * 5)
    assert (work.is_full, work.mapped_keys, work.end_offset) == (False, 1, 9)
    lay(directory, 9, messages(9, "bcd"))
    lay(directory, 12, messages(12, "aaa"))
    lay(directory, 15, messages(15, "z"))
    cleaner = Cleaner(directory, "0.9.0.1")
    cleaner.checkpoint = 9
    work = cleaner.clean(9_000_000, memory_bytes=24 * 5)  # 3 keys and 3 offsets more are more than 4
    assert (work.is_full, work.end_offset) == (True, 12)


def test_0_8_passes_over_what_may_not_fit(directory: Path) -> None:
    for base, keys in ((0, "abcd"), (4, "efgh"), (8, "abab"), (12, "z")):
        lay(directory, base, messages_v0(base, keys))
    work = Cleaner(directory, "0.8.2.2").clean(9_000_000, memory_bytes=24 * 10, load_factor=0.5)
    assert (work.mapped_keys, work.end_offset) == (8, 8)  # at offset 8 the map is fuller than its load factor
    assert offsets(directory) == [0, 1, 2, 3, 4, 5, 6, 7]


def messages_v0(first: int, keys: str) -> bytes:
    return b"".join(build.message_v0(record(first + i, key.encode(), b"v")) for i, key in enumerate(keys))


def test_0_8_dies_of_a_record_without_a_key(directory: Path) -> None:
    lay(directory, 0, messages_v0(0, "ab") + build.message_v0(record(2, None, b"v")))
    lay(directory, 3, messages_v0(3, "z"))
    with pytest.raises(CleanError, match="a record without a key") as caught:
        Cleaner(directory, "0.8.2.2").clean(9_000_000)
    assert caught.value.reason == "null-key"


def test_old_ones_start_at_a_segment(directory: Path) -> None:
    lay(directory, 0, messages(0, "abab"))
    lay(directory, 4, messages(4, "z"))
    cleaner = Cleaner(directory, "0.10.0.1")
    cleaner.checkpoint = 2
    with pytest.raises(CleanError, match="the first dirty offset 2 is within this segment") as caught:
        cleaner.clean(9_000_000)
    assert caught.value.reason == "not-a-segment"


def test_tombstones_by_the_age_of_their_file(directory: Path) -> None:
    """The clean part is as old as its last segment; a tombstone goes whose segment is older than that and retention."""
    dead = build.message_v1(record(1, b"b", None))
    lay(directory, 0, messages(0, "a") + dead, 1000)
    lay(directory, 2, messages(2, "c"), 2000)
    lay(directory, 3, messages(3, "dd"), 3000)
    lay(directory, 5, messages(5, "z"), 3000)
    for retention_s, kept in ((1000, []), (1001, [1])):
        cleaner = Cleaner(directory, "2.8.2", delete_retention_ms=retention_s * 1000, segment_bytes=1)
        cleaner.checkpoint = 3
        work = cleaner.clean(9_000_000)
        assert work.counts.dropped_records["tombstone-expired"] == 1 - len(kept)
        assert (1 in offsets(directory)) == bool(kept)
        (directory / f"{0:020d}.log").write_bytes(messages(0, "a") + dead)
        os.utime(directory / f"{0:020d}.log", (1000, 1000))


def test_one_index_entry_for_each_append(directory: Path) -> None:
    data = b"".join(batch((offset, b"k%02d" % offset, b"v")) for offset in range(40))
    lay(directory, 0, data)
    lay(directory, 40, messages(40, "z"))
    size = len(data) // 40
    cleaner = Cleaner(directory, "2.8.2", index_interval_bytes=100)
    cleaner.clean(9_000_000)
    index = directory / f"{0:020d}.index"
    assert index.read_bytes() == b""  # all of it is one append
    cleaner.checkpoint = None
    cleaner.clean(9_000_000, io_buffer_bytes=10 * size + 5)
    firsts = [10 * number for number in range(1, 4)]
    assert index.read_bytes() == build.offset_index([(first + 9, first * size) for first in firsts])
    cleaner = Cleaner(directory, "1.1.1", index_interval_bytes=100)
    cleaner.clean(9_000_000, io_buffer_bytes=10 * size + 5)
    assert index.read_bytes() == build.offset_index([(first, first * size) for first in firsts])
    cleaner = Cleaner(directory, "3.9.1", index_interval_bytes=100)
    cleaner.clean(9_000_000)
    assert index.read_bytes()[:8] == build.offset_index([(2, 2 * size)])  # batch by batch


@pytest.mark.parametrize(("release", "is_there"), [("2.8.2", False), ("3.9.1", True)])
def test_a_key_like_that_of_a_commit(directory: Path, release: str, *, is_there: bool) -> None:
    """Up to 3.0 control records are looked up as others are, and superseded by a record with their key."""
    data = batch((0, b"y", b"1"), **of(11, 4, 0, txn=True)) + marker(build.COMMIT, 1, 11, 4)
    lay(directory, 0, data + batch((2, b"\0\0\0\1", b"v"), **of(11, 4, 1)) + batch((3, b"x", b"v")))
    lay(directory, 4, messages(4, "z"))
    Cleaner(directory, release).clean(9_000_000)
    assert (1 in offsets(directory)) == is_there
    assert 0 in offsets(directory)


def test_markers_go_with_the_files_of_2_8(directory: Path) -> None:
    lay(directory, 0, batch((0, b"y", b"1"), **of(11, 4, 0, txn=True)) + marker(build.COMMIT, 1, 11, 4), 1000)
    lay(directory, 2, batch((2, b"y", b"2")) + batch((3, b"p", b"2"), **of(11, 4, 1)), 2000)
    lay(directory, 4, batch((4, b"z", b"1")), 3000)
    cleaner = Cleaner(directory, "2.8.2", delete_retention_ms=0)
    cleaner.clean(9_000_000)
    assert offsets(directory) == [1, 2, 3]  # the data was met, so that the marker stays
    lay(directory, 5, batch((5, b"z", b"1")), 3000)
    cleaner.clean(9_000_000)
    assert offsets(directory) == [2, 3, 4]  # 1000 s is not above the 2000 s of the clean part


def test_0_11_keeps_what_has_the_last_sequence_of_any_epoch(directory: Path) -> None:
    lay(directory, 0, batch((0, b"a", b"1"), **of(7, 0, 3)) + batch((1, b"a", b"2"), **of(7, 0, 4)))
    lay(directory, 2, batch((2, b"a", b"3"), **of(7, 1, 3)))
    lay(directory, 3, batch((3, b"z", b"1")))
    Cleaner(directory, "0.11.0.3").clean(9_000_000)
    assert shapes(directory) == [(0, 0, 0), (2, 2, 1)]


def test_0_11_stops_at_an_empty_marker(directory: Path) -> None:
    lay(directory, 0, build.empty_batch(0, 0, producer_id=7, producer_epoch=0, is_transactional=True, is_control=True))
    lay(directory, 1, batch((1, b"z", b"1")))
    with pytest.raises(CleanError, match="a control batch without a record") as caught:
        Cleaner(directory, "0.11.0.3").clean(9_000_000)
    assert (caught.value.reason, caught.value.position) == ("empty-marker", 0)
