"""Damage in very many places: the same verdict as one place after another gives, in bounded memory."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from kafkalog_core.findings.catalog import SHOWN
from kafkalog_core.ops.verify import segment
from kafkalog_core.ops.verify import verdict as spans
from kafkalog_core.ops.verify.verdict import Spans
from tests.ops.verify.segments import verdict_of
from tests.support.partitions import PartitionWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkalog_core.ops.verify.verdict import SegmentVerdict

ROUNDS = 120  # five batches each


def starts_of(data: bytes) -> list[int]:
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12], "big"))
    return starts


def spoil(path: Path, is_bad: Callable[[int], bool], order: Callable[[list[bytes]], None] | None = None) -> int:
    """Change the last byte of many batches of a log; returns how many."""
    data = path.read_bytes()
    starts = starts_of(data)
    batches = [data[first:last] for first, last in pairwise(starts)]
    if order is not None:
        order(batches)
    bad = [index for index in range(len(batches)) if is_bad(index)]
    for index in bad:
        batches[index] = batches[index][:-1] + bytes([batches[index][-1] ^ 1])
    path.write_bytes(b"".join(batches))
    return len(bad)


def swap(batches: list[bytes]) -> None:
    batches[::2], batches[1::2] = batches[1::2], batches[: len(batches) // 2 * 2 : 2]


CASES: dict[str, tuple[Callable[[int], bool], Callable[[list[bytes]], None] | None]] = {
    "all": (lambda _: True, None),
    "every second": (lambda index: index % 2 == 0, None),
    "five of seven": (lambda index: index % 7 < 5, None),
    "by chance": (lambda index: random.Random(index).random() < 0.4, None),
    "from the middle on": (lambda index: index > 300, None),
    "out of order": (lambda _: False, swap),
    "out of order, and every fifth": (lambda index: index % 5 == 0, swap),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_that_of_place_after_place(tmp_path: Path, case: str) -> None:
    writer = PartitionWriter(tmp_path / "t-0")
    writer.begin()
    writer.segment(rounds=3)
    writer.segment(rounds=ROUNDS)
    writer.segment(rounds=3)
    log = writer.path / f"{writer.bases[1]:020d}.log"
    count = spoil(log, *CASES[case])
    found = verdict_of(writer.path)
    with mock.patch.object(segment, "SHOWN", 10**9):
        assert found == verdict_of(writer.path)
    assert found == verdict_of(writer.path, jobs=2)
    middle = found.segments[1]
    if count:
        bad = [one for one in found.findings if one.code == "batch.crc-mismatch"]
        assert len(bad) == SHOWN
        assert len(bad) + bad[-1].more == count
        assert middle.damage_bytes == sum(size for _, size in middle.damage)


def test_spans_are_joined_where_there_are_very_many(tmp_path: Path) -> None:
    writer = PartitionWriter(tmp_path / "t-0")
    writer.begin()
    writer.segment(rounds=ROUNDS)
    log = writer.path / f"{0:020d}.log"
    count = spoil(log, lambda index: index % 2 == 0)
    whole = verdict_of(writer.path).segments[0]
    assert len(whole.damage) == whole.damage_count == count
    with mock.patch.object(spans, "MOST_SPANS", 50):
        joined = verdict_of(writer.path).segments[0]
    assert len(joined.damage) <= 50
    assert len(joined.lost_offsets) <= 50
    assert (joined.damage_count, joined.damage_bytes) == (whole.damage_count, whole.damage_bytes)
    assert _covers(joined, whole)


def _covers(joined: SegmentVerdict, whole: SegmentVerdict) -> bool:
    return all(any(a <= c and c + d <= a + b for a, b in joined.damage) for c, d in whole.damage) and all(
        any(a <= c and d <= b for a, b in joined.lost_offsets) for c, d in whole.lost_offsets
    )


def test_spans_with_the_least_between_them_are_joined_first() -> None:
    with mock.patch.object(spans, "MOST_SPANS", 2):
        some = Spans()
        for first in (0, 1, 3, 10, 12, 14):
            some.add(first, first)
        assert some.spans == ((0, 3), (10, 14))
        assert (some.more, some.between) == (3, 3)
