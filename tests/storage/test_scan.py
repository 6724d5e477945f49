"""The tolerant scan: every byte in exactly one item, and each damage with its reason, place, size and next offset."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import WINDOW_BYTES, FileChange, Source
from tests.storage.scans import (
    BLOCK,
    A,
    B,
    C,
    D,
    DyingSource,
    Found,
    N,
    bad_crc,
    batch,
    batches_of,
    damages_of,
    found_in,
    scan_file,
    scan_source,
    with_size,
)
from tests.support.build import (
    Record,
    batch_v2,
    empty_batch,
    message_v0,
    message_v07,
    message_v1,
    wrapper_v0,
    wrapper_v1,
)

if TYPE_CHECKING:
    from pathlib import Path


def with_magic(data: bytes, magic: int) -> bytes:
    """The same batch with another magic."""
    return data[:16] + bytes([magic]) + data[17:]


assert {len(B), len(C), len(D)} == {N}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


# --- whole files ----------------------------------------------------------------------------------------------------
def test_an_empty_file(path: Path) -> None:
    assert scan_file(path, b"") == []


def test_whole_batches(path: Path) -> None:
    assert scan_file(path, A + B) == [Found(0, N, 2, resynced=False), Found(N, N, 5, resynced=False)]


def test_all_formats_in_one_file(path: Path) -> None:
    """A log that was upgraded in place."""
    entries = [
        message_v0(Record(offset=0, value=b"x")),
        wrapper_v0([Record(offset=1, value=b"x"), Record(offset=2, value=b"y")]),
        message_v1(Record(offset=3, value=b"x")),
        wrapper_v1([Record(offset=4, value=b"x"), Record(offset=5, value=b"y")]),
        empty_batch(6, 9),
        batch(10),
    ]
    items = scan_file(path, b"".join(entries))
    assert [item.last_offset for item in batches_of(items)] == [0, 2, 3, 5, 9, 12]
    assert damages_of(items) == []


def test_a_batch_that_straddles_two_windows(path: Path) -> None:
    big = batch(0, 1, WINDOW_BYTES - 300)
    items = scan_file(path, big + batch(1) + batch(4))
    assert [item.position for item in batches_of(items)] == [0, len(big), len(big) + N]


@pytest.mark.parametrize("header_bytes_before_the_border", [1, 8, 16, 17, 60, 61])
def test_a_header_that_straddles_two_windows(path: Path, header_bytes_before_the_border: int) -> None:
    rest = WINDOW_BYTES - header_bytes_before_the_border - len(batch(0, 1, 50_000)) + 50_000
    big = batch(0, 1, rest)
    assert len(big) == WINDOW_BYTES - header_bytes_before_the_border
    assert [item.last_offset for item in batches_of(scan_file(path, big + batch(1)))] == [0, 3]


def test_batches_that_are_larger_than_a_window(path: Path) -> None:
    sizes = [WINDOW_BYTES, 2 * WINDOW_BYTES + 7, 100, 3 * WINDOW_BYTES]
    data = b"".join(batch(offset, 1, size) for offset, size in enumerate(sizes))
    items = scan_file(path, data)
    assert [item.last_offset for item in batches_of(items)] == [0, 1, 2, 3]
    assert damages_of(items) == []


def test_more_batches_than_the_columns_hold(path: Path) -> None:
    items = scan_file(path, b"".join(empty_batch(offset, offset) for offset in range(10_000)))
    assert [item.last_offset for item in batches_of(items)] == list(range(10_000))


def test_a_part_of_a_file(path: Path) -> None:
    path.write_bytes(A + B + C)
    with Source.open(path) as source:
        (run,) = scan(source, base_offset=None, start=N, end=2 * N)
        assert isinstance(run, Run)
        assert found_in(run) == [Found(N, N, 5, resynced=False)]


# --- the end of the file --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, 7, 16])
def test_a_cut_header(path: Path, size: int) -> None:
    """Be it zeros: so few may well be the start of an offset."""
    items = scan_file(path, A + B[:size])
    assert damages_of(items) == [("torn-tail", N, size, 3)]
    assert len(batches_of(items)) == 1


@pytest.mark.parametrize("size", [17, 60, 61, N - 1])
def test_a_cut_body(path: Path, size: int) -> None:
    items = scan_file(path, A + B[:size])
    assert damages_of(items) == [("torn-tail", N, size, 3)]
    assert isinstance(items[-1], Damage)
    assert f"{size} bytes of a batch of {N}" in items[-1].detail


def test_a_file_of_one_byte(path: Path) -> None:
    assert damages_of(scan_file(path, b"\x01", base_offset=7)) == [("torn-tail", 0, 1, 7)]


def test_nothing_is_expected_where_no_name_tells(path: Path) -> None:
    assert damages_of(scan_file(path, b"\x01", base_offset=None)) == [("torn-tail", 0, 1, None)]


@pytest.mark.parametrize("size", [17, 18, 100, 5000, 100_000])
def test_a_tail_of_zeros(path: Path, size: int) -> None:
    assert damages_of(scan_file(path, A + bytes(size))) == [("zero-filled", N, size, 3)]


def test_a_torn_batch_whose_rest_is_zeros(path: Path) -> None:
    """The size was on disk before the data was: the checksum is wrong, and zeros follow."""
    torn = B[:30] + bytes(N - 30)
    items = scan_file(path, A + torn + bytes(1000))
    assert damages_of(items) == [("crc-mismatch", N, N, 3), ("zero-filled", 2 * N, 1000, 3)]


# --- the middle of the file, framing intact ---------------------------------------------------------------------------
def test_a_wrong_checksum_is_stepped_over(path: Path) -> None:
    items = scan_file(path, A + bad_crc(B) + C)
    assert damages_of(items) == [("crc-mismatch", N, N, 3)]
    assert [item.position for item in batches_of(items)] == [0, 2 * N]
    assert not any(item.resynced for item in batches_of(items))


def test_two_in_a_row(path: Path) -> None:
    items = scan_file(path, A + bad_crc(B) + bad_crc(C) + D)
    assert damages_of(items) == [("crc-mismatch", N, N, 3), ("crc-mismatch", 2 * N, N, 3)]
    assert [item.last_offset for item in batches_of(items)] == [2, 11]


def test_at_the_start_and_at_the_end(path: Path) -> None:
    items = scan_file(path, bad_crc(A) + B + bad_crc(C))
    assert damages_of(items) == [("crc-mismatch", 0, N, 0), ("crc-mismatch", 2 * N, N, 6)]


def test_nothing_but_wrong_checksums(path: Path) -> None:
    items = scan_file(path, b"".join(bad_crc(one) for one in (A, B, C)))
    assert [damage[0] for damage in damages_of(items)] == ["crc-mismatch"] * 3


def test_the_checksums_are_told(path: Path) -> None:
    damage = scan_file(path, A + bad_crc(B) + C)[1]
    assert isinstance(damage, Damage)
    stored = int.from_bytes(B[17:21], "big")
    assert f"stored {stored:#010x}, computed 0x" in damage.detail


def test_a_batch_over_the_limit_is_stepped_over(path: Path) -> None:
    big = batch(3, 1, 5000)
    items = scan_file(path, A + big + batch(4), max_batch_bytes=1000)
    assert damages_of(items) == [("over-limit", N, len(big), 3)]
    assert [item.last_offset for item in batches_of(items)] == [2, 6]


def test_several_batches_over_the_limit(path: Path) -> None:
    big, bigger = batch(3, 1, 5000), batch(4, 1, 6000)
    items = scan_file(path, A + big + bigger + batch(5), max_batch_bytes=1000)
    assert damages_of(items) == [("over-limit", N, len(big), 3), ("over-limit", N + len(big), len(bigger), 3)]
    assert [item.last_offset for item in batches_of(items)] == [2, 7]


def test_a_batch_over_the_limit_at_the_end(path: Path) -> None:
    big = batch(3, 1, 5000)
    assert damages_of(scan_file(path, A + big, max_batch_bytes=1000)) == [("over-limit", N, len(big), 3)]


def test_a_wrong_length_over_the_limit_is_no_batch(path: Path) -> None:
    data = A + with_size(B, 1500) + C * 20
    items = scan_file(path, data, max_batch_bytes=1000)
    assert damages_of(items) == [("bad-length", N, len(data) - N, 3)]


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_is_stepped_over(path: Path, magic: int) -> None:
    """One flipped byte costs one batch."""
    batches = [batch(3 * number) for number in range(100)]
    batches[1] = with_magic(batches[1], magic)
    items = scan_file(path, b"".join(batches))
    assert damages_of(items) == [("unknown-magic", N, N, 3)]
    assert len(batches_of(items)) == 99
    assert not any(item.resynced for item in batches_of(items))
    assert isinstance(items[1], Damage)
    assert items[1].detail == f"magic {magic} is of no known format"


def test_a_length_that_is_too_small_for_its_magic_is_stepped_over(path: Path) -> None:
    """A message of an old format whose magic has become 2."""
    small = [message_v0(Record(offset=offset, value=b"x")) for offset in range(3)]
    size = len(small[0])
    items = scan_file(path, small[0] + with_magic(small[1], 2) + small[2])
    assert damages_of(items) == [("bad-length", size, size, 1)]
    assert isinstance(items[1], Damage)
    assert items[1].detail == f"its length field gives {size} bytes in all, less than an entry of its magic has"
    assert [item.last_offset for item in batches_of(items)] == [0, 2]


def test_a_chain_goes_over_all_that_may_be_wrong(path: Path) -> None:
    small = with_magic(message_v0(Record(offset=3, value=b"x")), 2)
    bad = [bad_crc(B), with_magic(C, 9), small, with_magic(D, 200)]
    for last in (b"", batch(12), bytes(100)):
        items = scan_file(path, A + b"".join(bad) + last)
        assert [damage[:3] for damage in damages_of(items)][:4] == [
            ("crc-mismatch", N, N),
            ("unknown-magic", 2 * N, N),
            ("bad-length", 3 * N, len(small)),
            ("unknown-magic", 3 * N + len(small), N),
        ]


def test_damage_that_is_dense(path: Path) -> None:
    pair = with_magic(A, 9) + A
    items = scan_file(path, pair * 5000)
    assert len(batches_of(items)) == 5000
    assert sum(damage[2] for damage in damages_of(items)) == 5000 * N


# --- offsets that go back ---------------------------------------------------------------------------------------------
def test_offsets_that_go_back(path: Path) -> None:
    items = scan_file(path, B + A + C)
    assert damages_of(items) == [("offset-order", N, 0, 6)]
    assert [item.last_offset for item in batches_of(items)] == [5, 2, 8]


def test_the_same_batch_twice(path: Path) -> None:
    items = scan_file(path, A + B + B + C)
    assert damages_of(items) == [("offset-order", 2 * N, 0, 6)]


def test_an_offset_below_the_file_name(path: Path) -> None:
    items = scan_file(path, A + B, base_offset=3)
    assert damages_of(items) == [("offset-order", 0, 0, 3)]
    assert scan_file(path, A + B, base_offset=None)[1:] == [Found(N, N, 5, resynced=False)]


def test_a_gap_is_no_damage(path: Path) -> None:
    """Compaction leaves gaps, and the first batch may be far above the file name."""
    assert damages_of(scan_file(path, batch(100) + batch(2**40), base_offset=7)) == []


def test_offsets_that_go_back_across_windows(path: Path) -> None:
    big = batch(5, 1, WINDOW_BYTES)
    items = scan_file(path, big + A)
    assert damages_of(items) == [("offset-order", len(big), 0, 6)]


def test_a_legacy_wrapper_is_compared_by_its_last_offset(path: Path) -> None:
    first = wrapper_v0([Record(offset=offset, value=b"x") for offset in (0, 1, 2)])
    again = wrapper_v0([Record(offset=offset, value=b"x") for offset in (1, 2)])
    assert damages_of(scan_file(path, first + again)) == [("offset-order", len(first), 0, 3)]


# --- the framing is lost ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [-1, -(2**31), 1, 13, 48])
def test_a_length_that_cannot_be(path: Path, size: int) -> None:
    data = A + with_size(B, size) + C
    assert damages_of(scan_file(path, data)) == [("bad-length", N, 2 * N, 3)]


def test_a_length_past_the_end_with_good_batches_behind(path: Path) -> None:
    data = A + with_size(B, 2**20) + C + D
    items = scan_file(path, data)
    assert damages_of(items) == [("bad-length", N, 3 * N, 3)]
    assert isinstance(items[-1], Damage)
    assert f"a whole batch starts at {2 * N}" in items[-1].detail
    assert "--resync" in items[-1].detail


def test_a_length_past_the_end_without_anything_behind_is_a_torn_tail(path: Path) -> None:
    assert damages_of(scan_file(path, A + with_size(B, 2**20))) == [("torn-tail", N, N, 3)]


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic(path: Path, magic: int) -> None:
    data = A + with_magic(B, magic) + b"garbage that is no header" + C
    items = scan_file(path, data)
    assert damages_of(items) == [("unknown-magic", N, len(data) - N, 3)]
    assert isinstance(items[-1], Damage)
    assert f"magic {magic} " in items[-1].detail


def test_an_unknown_magic_whose_length_goes_past_the_end(path: Path) -> None:
    assert damages_of(scan_file(path, A + with_magic(B, 9)[:-1])) == [("unknown-magic", N, N - 1, 3)]


def test_zeros_in_the_middle(path: Path) -> None:
    data = A + bytes(3 * BLOCK) + B
    items = scan_file(path, data)
    assert damages_of(items) == [("zero-filled", N, 3 * BLOCK + N, 3)]
    assert isinstance(items[-1], Damage)
    # the first bytes of an offset and of a length are zeros too
    assert f"{3 * BLOCK + 7} zero bytes, then other bytes" in items[-1].detail


def test_a_wrong_checksum_whose_length_leads_nowhere(path: Path) -> None:
    data = A + bad_crc(B) + b"garbage that is no header" + C
    assert damages_of(scan_file(path, data)) == [("crc-mismatch", N, len(data) - N, 3)]


# --- Kafka 0.7 --------------------------------------------------------------------------------------------------------
def test_positions_of_07_are_addresses(path: Path) -> None:
    messages = [message_v07(b"abc"), message_v07(b"", magic=0), message_v07(b"def")]
    items = scan_file(path, b"".join(messages), base_offset=1000, is_v07=True)
    assert [item.last_offset for item in batches_of(items)] == [1013, 1022, 1035]


def test_damage_in_a_07_file(path: Path) -> None:
    good = message_v07(b"payload")
    bad = bad_crc(good)
    size = len(good)
    items = scan_file(path, good + bad + good, base_offset=1000, is_v07=True)
    assert damages_of(items) == [("crc-mismatch", size, size, None)]
    assert damages_of(scan_file(path, good + good[:4], is_v07=True)) == [("torn-tail", size, 4, None)]
    assert damages_of(scan_file(path, good + good[:-1], is_v07=True)) == [("torn-tail", size, size - 1, None)]
    assert damages_of(scan_file(path, good + bytes(100), is_v07=True)) == [("zero-filled", size, 100, None)]
    no_length = struct.pack(">i", 4)
    assert damages_of(scan_file(path, good + no_length + good, is_v07=True)) == [("bad-length", size, 4 + size, None)]
    no_attributes = struct.pack(">ib", 5, 1) + bytes(4)
    assert damages_of(scan_file(path, good + no_attributes, is_v07=True)) == [("bad-length", size, 9, None)]
    strange = message_v07(b"payload", magic=2)
    assert damages_of(scan_file(path, good + strange, is_v07=True)) == [("unknown-magic", size, len(strange), None)]
    items = scan_file(path, good + strange + good, is_v07=True)
    assert damages_of(items) == [("unknown-magic", size, len(strange), None)]
    assert len(batches_of(items)) == 2


# --- names that no broker gives ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("base_offset", [-1, 1 - 2**63, -(2**63)])
def test_a_negative_base_offset(path: Path, base_offset: int) -> None:
    for is_v07, data in ((False, A + B), (True, message_v07(b"x") * 2)):
        items = scan_file(path, data, base_offset=base_offset, is_v07=is_v07)
        assert items == scan_file(path, data, base_offset=None, is_v07=is_v07)
        assert len(batches_of(items)) == len(items) == 2
        items = scan_file(path, b"\xff" + data, base_offset=base_offset, is_v07=is_v07, resync=True)
        assert len(batches_of(items)) == 2


def test_addresses_of_07_that_would_pass_the_largest_are_counted_from_0(path: Path) -> None:
    data = message_v07(b"abc")
    highest = 2**63 - 1
    items = scan_file(path, data, base_offset=highest - len(data), is_v07=True)
    assert [item.last_offset for item in batches_of(items)] == [highest]
    for base_offset in (highest - len(data) + 1, highest):
        items = scan_file(path, data, base_offset=base_offset, is_v07=True)
        assert [item.last_offset for item in batches_of(items)] == [len(data)]


# --- blocks that the disk cannot read ---------------------------------------------------------------------------------
def dying_scan(path: Path, data: bytes, bad: set[int], *, resync: bool = False) -> list[Found | Damage]:
    path.write_bytes(data)
    with DyingSource.open(path) as source:
        source.bad = frozenset(bad)
        return scan_source(source, resync=resync)


def blocks(count: int) -> bytes:
    """Batches of one block each."""
    one = batch(0, 1, 2000)
    data = b"".join(batch(offset, 1, BLOCK - len(one) + 2000) for offset in range(count))
    assert len(data) == count * BLOCK
    return data


def test_an_unreadable_start(path: Path) -> None:
    data = blocks(4)
    assert damages_of(dying_scan(path, data, {0})) == [("unreadable", 0, 4 * BLOCK, 0)]
    items = dying_scan(path, data, {0}, resync=True)
    assert damages_of(items) == [("unreadable", 0, BLOCK, 0)]
    assert [item.position for item in batches_of(items)] == [BLOCK, 2 * BLOCK, 3 * BLOCK]
    assert all(item.resynced for item in batches_of(items))


def test_an_unreadable_middle(path: Path) -> None:
    items = dying_scan(path, blocks(6), {2, 3}, resync=True)
    assert damages_of(items) == [("unreadable", 2 * BLOCK, 2 * BLOCK, 2)]
    assert [item.last_offset for item in batches_of(items)] == [0, 1, 4, 5]


def test_an_unreadable_end(path: Path) -> None:
    for resync in (False, True):
        items = dying_scan(path, blocks(3), {2}, resync=resync)
        assert damages_of(items) == [("unreadable", 2 * BLOCK, BLOCK, 2)]


def test_an_unreadable_block_inside_of_a_batch_is_stepped_over(path: Path) -> None:
    """Its header tells where the next one stands, and there it stands."""
    big = batch(3, 1, 4 * BLOCK)
    items = dying_scan(path, A + big + batch(4), {2})
    assert damages_of(items) == [("unreadable", N, len(big), 3)]
    assert [item.last_offset for item in batches_of(items)] == [2, 6]
    assert not any(item.resynced for item in batches_of(items))


def test_an_unreadable_block_where_the_next_header_stands(path: Path) -> None:
    first = batch(0, 1, BLOCK)
    data = first + batch(1, 1, 3 * BLOCK) + batch(2)
    items = dying_scan(path, data, {1}, resync=True)
    assert damages_of(items) == [("unreadable", 0, len(data) - N, 0)]
    assert [item.last_offset for item in batches_of(items)] == [4]


@pytest.mark.parametrize("resync", [False, True])
def test_a_batch_cut_short_behind_an_unreadable_block(path: Path, resync: bool) -> None:
    """Found by fuzzing: its length leads behind the end of the file, and the damage went on to there."""
    data = (A + batch(3, 1, 4 * BLOCK))[: 3 * BLOCK]
    assert damages_of(dying_scan(path, data, {2}, resync=resync)) == [("unreadable", N, len(data) - N, 3)]


def test_a_disk_that_reads_nothing(path: Path) -> None:
    for resync in (False, True):
        assert damages_of(dying_scan(path, blocks(3), {0, 1, 2}, resync=resync)) == [("unreadable", 0, 3 * BLOCK, 0)]


def test_a_short_message_before_an_unreadable_block(path: Path) -> None:
    """A search looks at the last bytes before it too."""
    short = message_v0(Record(offset=0, value=b""))
    data = bytes([255] * (BLOCK - len(short))) + short + bytes(BLOCK)
    items = dying_scan(path, data, {1}, resync=True)
    assert [item.position for item in batches_of(items)] == [BLOCK - len(short)]


# --- a broker at work -------------------------------------------------------------------------------------------------
def test_a_torn_tail_that_was_completed_meanwhile(path: Path) -> None:
    path.write_bytes(A + B[:30])
    with Source.open(path) as source:
        path.write_bytes(A + B + C)
        items = [found for item in scan(source, base_offset=0) if isinstance(item, Run) for found in found_in(item)]
        assert [item.last_offset for item in items] == [2, 5]  # what came later is the next look's
        assert source.refresh() is FileChange.GREW


def test_a_torn_header_that_was_completed_meanwhile(path: Path) -> None:
    path.write_bytes(A + B[:3])
    with Source.open(path) as source:
        path.write_bytes(A + B)
        items = [found for item in scan(source, base_offset=0) if isinstance(item, Run) for found in found_in(item)]
        assert [item.last_offset for item in items] == [2, 5]


def test_a_torn_tail_that_has_grown_but_not_enough(path: Path) -> None:
    path.write_bytes(A + B[:30])
    with Source.open(path) as source:
        path.write_bytes(A + B[:40])
        items = list(scan(source, base_offset=0))
        assert isinstance(items[-1], Damage)
        assert (items[-1].reason, items[-1].size_bytes) == ("torn-tail", 30)


class Preallocated(Source):
    """A preallocated file to which a broker appends, or whose rest it cuts off, after it has been read up to there."""

    is_read = False

    def window(self, position: int, size_bytes: int = WINDOW_BYTES) -> memoryview:
        result = memoryview(bytes(super().window(position, size_bytes)))
        if not self.is_read:
            self.is_read = True
            self.then()
        return result

    def then(self) -> None:
        raise NotImplementedError


def test_a_batch_that_was_written_into_preallocated_space_meanwhile(path: Path) -> None:
    class Appended(Preallocated):
        def then(self) -> None:
            path.write_bytes(A + B + bytes(5000))

    path.write_bytes(A + bytes(len(B) + 5000))
    os.utime(path, ns=(1, 1))
    with Appended(str(path), path.open("rb", buffering=0)) as source:
        items = [*scan(source, base_offset=0)]
    found = [batch for item in items if isinstance(item, Run) for batch in found_in(item)]
    assert [each.last_offset for each in found] == [2, 5]
    assert [(each.reason, each.is_zeros) for each in items if isinstance(each, Damage)] == [("zero-filled", True)]


@pytest.mark.parametrize("space", [5, 95, 5000])
def test_preallocated_space_that_was_cut_off_meanwhile(path: Path, space: int) -> None:
    class Trimmed(Preallocated):
        def then(self) -> None:
            os.truncate(path, len(A + B))

    path.write_bytes(A + B + bytes(space))
    with Trimmed(str(path), path.open("rb", buffering=0)) as source:
        items = [*scan(source, base_offset=0)]
        assert [each for each in items if isinstance(each, Damage)] == []
        assert source.refresh(data_end=len(A + B)) is FileChange.TRIMMED
        assert source.refresh(data_end=len(A)) is FileChange.SHRANK
    found = [batch for item in items if isinstance(item, Run) for batch in found_in(item)]
    assert [each.last_offset for each in found] == [2, 5]


def test_a_file_that_is_cut_while_it_is_read(path: Path) -> None:
    big = batch(0, 1, WINDOW_BYTES + 10)
    path.write_bytes(big + batch(1) + batch(4))
    with Source.open(path) as source:
        items = scan(source, base_offset=0)
        first = next(items)
        assert isinstance(first, Run)
        os.truncate(path, len(big) + N)
        rest = [found for item in items if isinstance(item, Run) for found in found_in(item)]
        assert [item.last_offset for item in rest] == [3]
        assert source.refresh() is FileChange.SHRANK


def test_a_file_that_is_cut_below_what_was_read(path: Path) -> None:
    big = batch(0, 1, WINDOW_BYTES + 10)
    path.write_bytes(big + big)
    with Source.open(path) as source:
        items = scan(source, base_offset=0)
        next(items)
        os.truncate(path, 0)
        assert list(items) == []


def test_a_file_that_is_replaced_while_it_is_read(path: Path) -> None:
    big = batch(0, 1, WINDOW_BYTES + 10)
    path.write_bytes(big + batch(1))
    with Source.open(path) as source:
        items = scan(source, base_offset=0)
        next(items)
        path.unlink()
        path.write_bytes(batch(50))
        rest = [found for item in items if isinstance(item, Run) for found in found_in(item)]
        assert [item.last_offset for item in rest] == [3]
        assert source.refresh() is FileChange.REPLACED


@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.parametrize("until", [0, 2**63 - 1])
def test_a_wrong_checksum_before_a_batch_that_the_disk_cannot_read(tmp_path: Path, until: int, resync: bool) -> None:
    """What follows it cannot be seen, however often it is asked for."""
    batches = [bytearray(batch_v2([Record(offset=at, value=bytes(2500), timestamp_ms=0)])) for at in range(4)]
    batches[0][1000] ^= 1
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    with DyingSource.open(path) as source:
        source.bad = frozenset({1})
        items = scan(source, base_offset=0, options=ScanOptions(resync=resync), until=until)
        damages = [item for item in items if isinstance(item, Damage)]
    assert damages[0].reason == "crc-mismatch"
    assert damages[0].position == 0
