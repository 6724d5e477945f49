"""Parts of a file that are searched for batches after damage give what one search of the whole file gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.report import Report
from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.ops.dump.file_parts import FilePart, divide_file, read_file_part
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.storage.partition import read_partition
from tests.support.build import batch_v2
from tests.support.logs import records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

BATCHES = [batch_v2(records(3 * number, 3)) for number in range(40)]
STARTS = [sum(map(len, BATCHES[:number])) for number in range(40)]


def rows(path: Path, split_bytes: int, *, resync: bool = True) -> list[tuple[object, ...]]:
    """Offset and mark of each record, and place and reason of all damage, in the order of the parts."""
    (file,) = unit_of_partition(read_partition(str(path)), None).files
    request = DumpRequest(targets=(), level="records", resync=resync)
    found: list[tuple[object, ...]] = []
    for piece in divide_file(FilePart(file=file), split_bytes):
        for chunk in read_file_part(piece, request, Report()):
            for row in chunk.rows():
                if row["type"] == "record":
                    found.append((row["offset"], row["resynced"]))
                else:
                    found.append((row["position"], row["size_bytes"], row["reason"], row["next_offset"]))
    return found


def damaged(path: Path, change: dict[int, bytes]) -> Path:
    """A log of 40 batches with other bytes at some places."""
    data = bytearray(b"".join(BATCHES))
    for position, new in change.items():
        data[position : position + len(new)] = new
    return write_segments(path, {0: bytes(data)})


LENGTHS = {
    "too large": (2_000_000_000).to_bytes(4, "big"),
    "negative": b"\xff\xff\xff\xff",
    "zero": bytes(4),
    "past the end": (len(b"".join(BATCHES))).to_bytes(4, "big"),
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("number", [0, 1, 17, 38, 39])
@pytest.mark.parametrize("split_bytes", [100, 333, 1000, 10**6])
def test_a_damaged_length(tmp_path: Path, length: str, number: int, split_bytes: int) -> None:
    path = damaged(tmp_path / "t-0", {STARTS[number] + 8: LENGTHS[length]})
    found = rows(path, split_bytes)
    assert found == rows(path, 10**9)
    offsets = [row[0] for row in found if len(row) == 2]
    assert offsets == [offset for offset in range(120) if offset // 3 != number]
    assert {row[0] for row in found if len(row) == 2 and row[1]} == {*range(3 * number + 3, 120)}
    if number < 39:
        assert len(rows(path, split_bytes, resync=False)) < len(found)


def test_two_places_and_what_is_between_them(tmp_path: Path) -> None:
    change = {STARTS[5] + 8: LENGTHS["negative"], STARTS[6] + 8: LENGTHS["zero"], STARTS[30] + 8: LENGTHS["too large"]}
    path = damaged(tmp_path / "t-0", change)
    for split_bytes in (90, 250, 700, 2000):
        assert rows(path, split_bytes) == rows(path, 10**9)


def test_garbage_up_to_the_end(tmp_path: Path) -> None:
    path = damaged(tmp_path / "t-0", {STARTS[20]: b"\x55" * (sum(map(len, BATCHES)) - STARTS[20])})
    for split_bytes in (90, 250, 700, 2000):
        assert rows(path, split_bytes) == rows(path, 10**9)


def test_a_length_that_leads_to_a_later_batch(tmp_path: Path) -> None:
    """The rows are the same. The mark is not: so `dump` reads such files whole, to give the same bytes always."""
    two = (2 * len(BATCHES[1]) - 12).to_bytes(4, "big")
    path = damaged(tmp_path / "t-0", {STARTS[1] + 8: two})
    whole, one = rows(path, 10**9), rows(path, 250)
    assert [row if len(row) > 2 else row[0] for row in one] == [row if len(row) > 2 else row[0] for row in whole]
    assert {row[1] for row in whole[-9:]} == {True}
    assert {row[1] for row in one[-9:]} == {False}
    (file,) = unit_of_partition(read_partition(str(path)), None).files
    assert list(divide_file(FilePart(file=file), 250, resync=True)) == [FilePart(file=file)]


@given(data=st.data())
@settings(deadline=None)
def test_any_bytes_changed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    size = sum(map(len, BATCHES))
    places = data.draw(st.lists(st.integers(0, size - 1), max_size=4))
    change = {place: data.draw(st.binary(min_size=1, max_size=12))[: size - place] for place in places}
    path = damaged(tmp_path_factory.mktemp("log") / "t-0", change)
    split_bytes = data.draw(st.integers(60, 3000))
    one, whole = rows(path, split_bytes), rows(path, 10**9)
    assert [row if len(row) > 2 else row[0] for row in one] == [row if len(row) > 2 else row[0] for row in whole]
