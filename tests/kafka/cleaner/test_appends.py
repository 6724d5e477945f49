"""Which batches a cleaner before 3.9 appends at once, by the loop of Cleaner.cleanInto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import CleanError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.cleaner.indexes import Appends, CleanerAppend
from tests.support import cleaner_logs as logs

if TYPE_CHECKING:
    from collections.abc import Sequence


def columns(sizes: Sequence[int], *, offset: int = 0, position: int = 0, times: Sequence[int] = ()) -> BatchColumns:
    """Batches one after another, with one offset each; a size of 0 takes an offset, and is not there."""
    present = [(number, size) for number, size in enumerate(sizes) if size]
    made = BatchColumns(max(len(present), 1))
    made.count = len(present)
    for row, (number, size) in enumerate(present):
        made.column("position")[row] = position
        made.column("size_bytes")[row] = size
        made.column("base_offset")[row] = made.column("last_offset")[row] = offset + number
        made.column("max_timestamp_ms")[row] = times[number] if times else 1000 + offset + number
        position += size
    return made


def sets(
    sources: Sequence[int], sizes: Sequence[int], *, buffer: int, release: str = "2.8.2", limit: int = 1000
) -> list[CleanerAppend]:
    config = logs.config(io_buffer_bytes=buffer, max_message_bytes=limit)
    appends = Appends(config, cleaning_rules(parse_release(release)))
    appends.begin(logs.segment(0))
    ended = appends.take(columns(sources), sizes, columns(sizes), [(0, -1)] * len(sizes))
    return ended + appends.end()


def test_as_many_as_one_read_gives() -> None:
    assert sets([10, 10, 10, 10, 10], [10, 10, 10, 10, 10], buffer=25) == [
        CleanerAppend(0, 20, 0, 1, 1001, 1),
        CleanerAppend(20, 20, 2, 3, 1003, 3),
        CleanerAppend(40, 10, 4, 4, 1004, 4),
    ]


def test_what_goes_was_read_too() -> None:
    assert sets([10, 10, 10, 10], [0, 8, 0, 0], buffer=20) == [CleanerAppend(0, 8, 1, 1, 1001, 1)]
    assert sets([10, 10, 10], [0, 0, 0], buffer=20) == []


def test_what_grows_beyond_the_buffer_ends_an_append_at_once() -> None:
    assert [each.size_bytes for each in sets([10, 10, 10, 10], [30, 10, 10, 10], buffer=25)] == [30, 20, 10]


def test_the_first_of_equal_timestamps_counts() -> None:
    appends = Appends(logs.config(io_buffer_bytes=100), cleaning_rules(parse_release("2.8.2")))
    appends.begin(logs.segment(0))
    written = columns([10, 10, 10], times=[5, 7, 7])
    assert appends.take(columns([10, 10, 10]), [10, 10, 10], written, [(0, -1)] * 3) == []
    assert appends.end() == [CleanerAppend(0, 30, 0, 2, 7, 1)]


def test_the_last_record_counts_of_a_batch_that_was_written_anew() -> None:
    appends = Appends(logs.config(io_buffer_bytes=100), cleaning_rules(parse_release("2.8.2")))
    appends.begin(logs.segment(0))
    written = columns([10, 10], times=[5, 7])
    written.column("last_offset")[1] = 9
    assert appends.take(columns([10, 20]), [10, 10], written, [(0, -1), (1, 4)]) == []
    assert appends.end() == [CleanerAppend(0, 20, 0, 4, 7, 9)]


def test_what_a_compressed_message_begins_with_is_inside_of_it() -> None:
    appends = Appends(logs.config(io_buffer_bytes=100), cleaning_rules(parse_release("1.1.1")))
    appends.begin(logs.segment(0))
    written = columns([10, 10], offset=8)
    written.column("base_offset")[0] = -1
    assert appends.take(columns([10, 10]), [10, 10], written, [(5, -1), (9, -1)]) == []
    assert appends.end() == [CleanerAppend(0, 20, 5, 9, 1009, 9)]


def test_a_batch_may_become_several() -> None:
    """0.8 writes what was compressed message by message."""
    appends = Appends(logs.config(io_buffer_bytes=25), cleaning_rules(parse_release("0.8.2.2")))
    appends.begin(logs.segment(0))
    written = columns([10, 10, 10])
    assert appends.take(columns([20, 20]), [20, 10], written, [(0, -1)] * 2) == [CleanerAppend(0, 20, 0, 1, 1001, 1)]
    assert appends.end() == [CleanerAppend(20, 10, 2, 2, 1002, 2)]


def test_the_buffer_grows_for_a_large_batch_until_the_segment_ends() -> None:
    """25 bytes become 50 for a batch of 40, and stay so."""
    found = sets([10, 40, 10, 10, 10, 10, 10], [10, 40, 10, 10, 10, 10, 10], buffer=25)
    assert [each.size_bytes for each in found] == [10, 50, 40]


def test_a_buffer_that_grew_while_the_map_got_full_stays_so_for_the_first_segment() -> None:
    appends = Appends(logs.config(io_buffer_bytes=25), cleaning_rules(parse_release("2.8.2")))
    appends.begin(logs.segment(0), grown_for=60)
    first = columns([10] * 11)
    found = appends.take(first, [10] * 11, first, [(0, -1)] * 11) + appends.end()
    assert [each.size_bytes for each in found] == [100, 10]
    appends.begin(logs.segment(11))
    found = appends.take(first, [10] * 11, first, [(0, -1)] * 11) + appends.end()
    assert [each.size_bytes for each in found] == [20, 20, 20, 20, 20, 10]


def test_a_batch_above_the_limit() -> None:
    assert [each.size_bytes for each in sets([70, 10], [70, 10], buffer=25, limit=40)] == [70, 10]
    with pytest.raises(CleanError, match=r"above max\.message\.bytes=40") as caught:
        sets([70, 10], [70, 10], buffer=25, limit=40, release="1.1.1")
    assert (caught.value.reason, caught.value.position) == ("too-large", 0)


def test_runs_one_after_another_are_one_segment() -> None:
    appends = Appends(logs.config(io_buffer_bytes=25), cleaning_rules(parse_release("2.8.2")))
    appends.begin(logs.segment(0))
    assert appends.take(columns([10]), [10], columns([10]), [(0, -1)]) == []
    second = columns([10, 10], offset=1, position=10)
    assert appends.take(second, [10, 10], second, [(0, -1)] * 2) == [CleanerAppend(0, 20, 0, 1, 1001, 1)]
    assert appends.end() == [CleanerAppend(20, 10, 2, 2, 1002, 2)]
    appends.begin(logs.segment(3))
    third = columns([10], offset=3)
    assert appends.take(third, [10], columns([10], offset=3, position=30), [(0, -1)]) == []
    assert appends.end() == [CleanerAppend(30, 10, 3, 3, 1003, 3)]
