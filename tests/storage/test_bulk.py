"""Much damage: what it costs, and that in bulk it is the same as one by one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.format.columns import BATCH_ROWS
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, one_by_one, scan
from kafkalog_core.storage.source import Source
from tests.storage.scans import bad_crc, batch, found_in
from tests.support.build import Record, batch_v2, message_v0, message_v1, wrapper_v1

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.storage.scans import Found

COUNT = 3 * BATCH_ROWS
BODY = batch(0, count=1)[8:]
N = 8 + len(BODY)
SPOILED = bad_crc(BODY)


def log_of(offsets: Sequence[int], is_bad: Callable[[int], bool]) -> bytes:
    """Batches of one record each; the offset is in no checksum."""
    return b"".join(
        struct.pack(">q", offset) + (SPOILED if is_bad(index) else BODY) for index, offset in enumerate(offsets)
    )


def items_of(source: Source, **options: int | bool | None) -> list[Found | Damage]:
    """Everything in a file, what comes in bulk one by one."""
    items: list[Found | Damage] = []
    for item in scan(source, base_offset=0, options=ScanOptions(**options)):
        if isinstance(item, Damage):
            items.append(item)
            continue
        for piece in one_by_one(item, knows_offset=True):
            items += [piece] if isinstance(piece, Damage) else found_in(piece)
    return items


class Counted(Source):
    """Counts windows and the bytes in them."""

    windows = 0
    read_bytes = 0

    def window(self, position: int, size_bytes: int = 1024 * 1024) -> memoryview:
        self.windows += 1
        window = super().window(position, size_bytes)
        self.read_bytes += len(window)
        return window


MUCH = {
    "all": (range(COUNT), lambda _: True),
    "every second": (range(COUNT), lambda index: index % 2 == 0),
    "most": (range(COUNT), lambda index: index % 50 != 7),
    "offsets go back": ([index ^ 1 for index in range(COUNT)], lambda _: False),
    "offsets go back, and every third": ([index ^ 1 for index in range(COUNT)], lambda index: index % 3 == 0),
}


@pytest.mark.parametrize("name", MUCH)
@pytest.mark.parametrize("resync", [False, True])
def test_windows_do_not_follow_damage(tmp_path: Path, name: str, resync: bool) -> None:
    """A place costs neither a read of its own nor, in bulk, an item."""
    data = log_of(*MUCH[name])
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    windows = len(data) // 2**20 + 1
    with Counted.open(path) as source:
        items = sum(1 for _ in scan(source, base_offset=0, options=ScanOptions(resync=resync, bulk_after=0)))
        assert source.windows <= 16 * windows
        assert source.read_bytes <= 5 * len(data)
        assert items <= 8 * windows
        found = items_of(source, resync=resync)
        assert items_of(source, resync=resync, bulk_after=30) == found
    assert sum(item.size_bytes for item in found) == len(data)
    bad = sum(MUCH[name][1](index) for index in range(COUNT))
    assert sum(isinstance(item, Damage) and item.size_bytes > 0 for item in found) == bad


@pytest.mark.parametrize("resync", [False, True])
def test_so_many_are_given_out_one_by_one(tmp_path: Path, resync: bool) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log_of(*MUCH["offsets go back, and every third"]))
    singles = {"crc-mismatch": 0, "offset-order": 0}
    with Source.open(path) as source:
        options = ScanOptions(resync=resync, bulk_after=40)
        for item in scan(source, base_offset=0, options=options):
            if isinstance(item, Damage):
                singles[item.reason] += 1
    assert all(40 <= count <= BATCH_ROWS for count in singles.values())


def test_a_batch_inside_of_a_bad_one_among_many_is_found(tmp_path: Path) -> None:
    """A length that lies may lead on by chance, over whole batches."""
    count = 200
    inner = batch(count, count=1)
    lying = batch_v2([Record(offset=count, value=inner)])
    data = log_of(range(count), lambda _: True) + bad_crc(lying) + log_of(range(count + 5, count + 9), lambda _: False)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    start = count * N + lying.index(inner)
    with Source.open(path) as source:
        found = items_of(source, resync=True, bulk_after=0)
        assert next(item.position for item in found if not isinstance(item, Damage)) == start
        assert not any(item.position == start for item in items_of(source) if not isinstance(item, Damage))


ENTRIES = st.sampled_from(
    [
        lambda offset: batch(offset, count=1),
        lambda offset: bad_crc(batch(offset, count=1)),
        lambda offset: bad_crc(batch(offset, count=2)),
        lambda offset: batch(max(0, offset - 5), count=2),
        lambda offset: message_v1(Record(offset=offset, value=b"v")),
        lambda offset: bad_crc(message_v1(Record(offset=offset, value=b"v"))),
        lambda offset: message_v0(Record(offset=max(0, offset - 4), value=b"v")),
        lambda offset: wrapper_v1([Record(offset=offset, value=b"w")]),
        lambda offset: bad_crc(batch_v2([Record(offset=offset, value=batch(offset, count=1))])),
        lambda offset: batch(offset, count=1)[:-3],
        lambda offset: b"\0" * 21,
        lambda offset: struct.pack(">qi", offset, 60) + b"\x07" * 60,
    ]
)


@settings(max_examples=300)
@given(st.lists(st.tuples(ENTRIES, st.integers(1, 3)), min_size=1, max_size=20), st.booleans(), st.integers(0, 3))
def test_bulk_is_the_same_as_one_by_one(tmp_path_factory, made, resync, bulk_after):
    data, offset = b"", 0
    for entry, times in made:
        for _ in range(times):
            data += entry(offset)
            offset += 2
    path = tmp_path_factory.mktemp("bulk") / "00000000000000000000.log"
    path.write_bytes(data)
    with Source.open(path) as source:
        found = items_of(source, resync=resync)
        assert items_of(source, resync=resync, bulk_after=bulk_after) == found
    at = 0
    for item in found:
        assert item.position == at or (isinstance(item, Damage) and not item.size_bytes)
        at += item.size_bytes
    assert at == len(data)


def test_a_run_says_where_its_batches_start_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    data = log_of(range(20), lambda index: index % 4 == 1)
    path.write_bytes(data)
    with Source.open(path) as source:
        for item in scan(source, base_offset=0):
            if isinstance(item, Run):
                for row, position in enumerate(item.batches.column("position")):
                    start = item.start_of(row)
                    assert bytes(item.memory[start : start + N]) == data[position : position + N]
