"""The search behind damage: what is whole is found again and marked, and no garbage makes it slow."""

from __future__ import annotations

import random
import struct
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.storage import framing
from kafkalog_core.storage.scan import Damage
from kafkalog_core.storage.source import WINDOW_BYTES
from tests.storage.scans import A, B, C, D, Found, N, bad_crc, batch, batches_of, damages_of, scan_file, with_size
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
    from collections.abc import Callable
    from pathlib import Path

MEBIBYTE = 1024 * 1024
SECONDS = 30  # an hour where the work is quadratic; a few seconds where it is not; of this process alone


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


# --- one place ------------------------------------------------------------------------------------------------------
def test_what_is_found_is_marked(path: Path) -> None:
    items = scan_file(path, A + b"garbage" + B + C, resync=True)
    assert items[0] == Found(0, N, 2, resynced=False)
    assert damages_of(items) == [("bad-length", N, 7, 3)]
    assert batches_of(items)[1:] == [
        Found(N + 7, N, 5, resynced=True),
        Found(2 * N + 7, N, 8, resynced=True),
    ]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (with_size(B, 2**20), "bad-length"),
        (with_size(B, -5), "bad-length"),
        (with_size(B, N + 3 - 12), "crc-mismatch"),
        (B[:16] + b"\x09" + B[17:], "unknown-magic"),
        (B[:16] + b"\x09" + B[17:-1], "unknown-magic"),
        (B[: N // 2], "crc-mismatch"),
        (bytes(5000), "zero-filled"),
    ],
)
def test_behind_each_reason(path: Path, broken: bytes, reason: str) -> None:
    items = scan_file(path, A + broken + C + D, resync=True)
    (damage,) = damages_of(items)
    assert (damage[0], damage[1]) == (reason, N)
    assert [item.position for item in batches_of(items)] == [0, N + len(broken), N + len(broken) + N]


def test_nothing_behind(path: Path) -> None:
    items = scan_file(path, A + b"\xff" * 5000, resync=True)
    assert damages_of(items) == [("bad-length", N, 5000, 3)]
    assert isinstance(items[-1], Damage)
    assert "no whole batch after it" in items[-1].detail


def test_several_places(path: Path) -> None:
    items = scan_file(path, A + b"\xff" * 50 + B + b"\xfe" * 70_000 + C + b"\xfd" * 2_000_000 + D, resync=True)
    assert [damage[2] for damage in damages_of(items)] == [50, 70_000, 2_000_000]
    assert [item.last_offset for item in batches_of(items)] == [2, 5, 8, 11]


def test_a_batch_larger_than_a_window(path: Path) -> None:
    big = batch(3, 1, 2 * WINDOW_BYTES)
    items = scan_file(path, A + b"\xff" * 100 + big + batch(4), resync=True)
    assert [item.position for item in batches_of(items)] == [0, N + 100, N + 100 + len(big)]


@pytest.mark.parametrize("before", range(1, 70, 4))
def test_a_header_across_the_windows_of_the_search(path: Path, before: int) -> None:
    for window in (framing.SMALL_WINDOW_BYTES, framing.SMALL_WINDOW_BYTES - 64 + WINDOW_BYTES):
        garbage = b"\xff" * (window - before + 1)
        assert len(batches_of(scan_file(path, garbage + A, resync=True))) == 1


def test_a_chain_that_leads_on_by_chance(path: Path) -> None:
    """The length of a cut message leads into the next one, to where the length of its value leads to its end."""
    cut, whole, last = (message_v0(Record(offset=offset, value=bytes(40))) for offset in range(3))
    data = cut[: len(cut) - 14] + whole + bad_crc(last)
    assert [damage[0] for damage in damages_of(scan_file(path, data))] == ["crc-mismatch"] * 3
    items = scan_file(path, data, resync=True)
    assert [item.position for item in batches_of(items)] == [len(cut) - 14]
    items = scan_file(path, data[: -len(last)] + last, resync=True)
    assert [item.position for item in batches_of(items)] == [len(cut) - 14, len(cut) - 14 + len(whole)]


def test_several_wrong_checksums_in_a_row_are_still_told_apart(path: Path) -> None:
    items = scan_file(path, A + bad_crc(B) + bad_crc(C) + D, resync=True)
    assert damages_of(items) == [("crc-mismatch", N, N, 3), ("crc-mismatch", 2 * N, N, 3)]
    assert not any(item.resynced for item in batches_of(items))


def test_lower_offsets_are_found_and_named(path: Path) -> None:
    """What was read before the damage may itself be wrong: here an offset that nothing protects."""
    wrong = struct.pack(">q", 2**40) + A[8:]
    items = scan_file(path, wrong + b"\xff" * 100 + B + C, resync=True)
    assert [item.last_offset for item in batches_of(items)] == [2**40 + 2, 5, 8]
    assert [damage[0] for damage in damages_of(items)] == ["bad-length", "offset-order"]


def test_offsets_below_the_file_name_are_found_and_named(path: Path) -> None:
    """A file may have been renamed, or its content put there by hand."""
    items = scan_file(path, with_size(A, -5) + B + C, base_offset=9999, resync=True)
    assert [item.last_offset for item in batches_of(items)] == [5, 8]
    assert damages_of(items) == [("bad-length", 0, N, 9999), ("offset-order", N, 0, 9999)]


def test_offsets_far_above_the_file_name_are_not_looked_for(path: Path) -> None:
    items = scan_file(path, b"\xff" * 100 + batch(2**50) + batch(100), base_offset=100, resync=True)
    assert [item.last_offset for item in batches_of(items)] == [102]


@pytest.mark.parametrize("base_offset", [2**63 - 1, 2**62])
def test_the_highest_offsets(path: Path, base_offset: int) -> None:
    data = batch_v2([Record(offset=base_offset, value=b"x")])
    items = scan_file(path, b"\xff" * 40 + data, base_offset=base_offset, resync=True)
    assert [item.last_offset for item in batches_of(items)] == [base_offset]


@pytest.mark.parametrize(
    "entry",
    [
        message_v0(Record(offset=3)),
        message_v0(Record(offset=3, key=b"", value=b"x")),
        wrapper_v0([Record(offset=3, value=b"x")]),
        message_v1(Record(offset=3)),
        wrapper_v1([Record(offset=3, value=b"x")]),
        empty_batch(3, 9),
        batch(3),
    ],
)
def test_every_format(path: Path, entry: bytes) -> None:
    for behind in (b"", b"\xff" * 10, b"\xff" * 100):
        items = scan_file(path, b"\xff" * 33 + entry + behind, resync=True)
        assert batches_of(items) == [Found(33, len(entry), batches_of(items)[0].last_offset, resynced=True)]


@pytest.mark.parametrize("entry", [message_v07(b"", magic=0), message_v07(b""), message_v07(b"payload")])
def test_kafka_07(path: Path, entry: bytes) -> None:
    for behind in (b"", b"\xff" * 10, b"\xff" * 100):
        items = scan_file(path, b"\xff" * 33 + entry + behind, is_v07=True, resync=True)
        assert [item.position for item in batches_of(items)] == [33]


# --- any mix ----------------------------------------------------------------------------------------------------------
GARBAGE = st.one_of(
    st.binary(min_size=1, max_size=80),
    st.integers(1, 300).map(bytes),
    st.integers(1, 300).map(lambda size: b"\xff" * size),
)


@st.composite
def mixes(draw: st.DrawFn, entries: Callable[[int], bytes]) -> tuple[bytes, list[tuple[int, int, bool]]]:
    """Bytes, and of each untouched entry: position, size, and whether nothing before it can have hidden it."""
    data = bytearray()
    whole: list[tuple[int, int, bool]] = []
    is_safe = True
    for offset in range(draw(st.integers(1, 8))):
        entry = entries(10 * offset)
        kind = draw(st.sampled_from(["good", "good", "bad-crc", "garbage", "cut"]))
        if kind == "good":
            whole.append((len(data), len(entry), is_safe))
            data += entry
        elif kind == "bad-crc":
            data += bad_crc(entry)
        elif kind == "garbage":
            data += draw(GARBAGE)
            is_safe = False
        else:
            data += entry[: draw(st.integers(1, len(entry) - 1))]
            is_safe = False
    return bytes(data), whole


ENTRIES: dict[str, Callable[[int], bytes]] = {
    "v2": lambda offset: batch(offset, 2),
    "v1": lambda offset: message_v1(Record(offset=offset, key=b"key", value=b"value")),
    "v0": lambda offset: wrapper_v0([Record(offset=offset, value=b"value")]),
    "v07": lambda offset: message_v07(b"payload %d" % offset),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_mix_of_good_and_bad(name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    mix, whole = data.draw(mixes(ENTRIES[name]))
    path = tmp_path_factory.getbasetemp() / f"mix-{name}.log"
    plain = batches_of(scan_file(path, mix, is_v07=name == "v07"))
    found = {(item.position, item.size_bytes) for item in plain}
    assert not any(item.resynced for item in plain)
    assert {(at, size) for at, size, is_safe in whole if is_safe} <= found
    resynced = batches_of(scan_file(path, mix, is_v07=name == "v07", resync=True))
    again = {(item.position, item.size_bytes) for item in resynced}
    assert found <= again
    for at, size, _ in whole:
        if (at, size) not in again:  # only a batch made of garbage by chance may cover it
            assert any(item.position < at + size and at < item.position + item.size_bytes for item in resynced)
    marks = [item.resynced for item in resynced]
    assert marks == sorted(marks)  # once marked, always marked


# --- bounded work -----------------------------------------------------------------------------------------------------
def header(offset: int, size: int) -> bytes:
    """A header of magic 2 whose fields are all possible, with a wrong checksum."""
    return struct.pack(">qiibIhiqqqhii", offset, size, 0, 2, 1, 0, 0, 0, 0, -1, -1, -1, 0)


HEADER = len(header(0, 49))


def huge_sizes(total: int) -> bytes:
    return b"".join(header(n, max(49, total - HEADER * (n + 1))) for n in range(total // HEADER))


def mixed_sizes(total: int) -> bytes:
    random_ = random.Random(1)
    return b"".join(header(n, 1 << random_.randrange(6, 23)) for n in range(total // HEADER))


def chains_to_nowhere(total: int) -> bytes:
    """Good batches, each followed by a bad one whose length leads to a long chain of bad ones that ends in garbage."""
    count = total // HEADER // 4
    pairs = [empty_batch(n, n) + header(n, 2 * HEADER * (count - n) - HEADER - 12) for n in range(count)]
    return b"".join(pairs) + header(0, 49) * (2 * count) + b"\xff" * 100


def magics_to_nowhere(total: int) -> bytes:
    """As chains_to_nowhere, of entries whose magic is unknown."""
    data = chains_to_nowhere(total)
    good = empty_batch(0, 0)
    return b"".join(
        data[at : at + HEADER]
        if at < total // 2 and at // HEADER % 2 == 0
        else data[at : at + 16] + b"\x09" + data[at + 17 : at + HEADER]
        for at in range(0, len(data), len(good))
    )


def pattern(repeated: bytes) -> Callable[[int], bytes]:
    return lambda total: repeated * (total // len(repeated))


BUSY: dict[str, tuple[Callable[[int], bytes], bool]] = {
    "unknown magics": (pattern(struct.pack(">qiIbb", 0, 14, 1, 9, 0) + bytes(8)), False),
    "unknown magics that lead nowhere, often": (magics_to_nowhere, False),
    "entries too small for their magic": (pattern(struct.pack(">qiIbb", 0, 14, 1, 2, 0) + bytes(8)), False),
    "huge sizes": (huge_sizes, False),
    "mixed sizes": (mixed_sizes, False),
    "wrong checksums alone": (pattern(header(0, 49)), False),
    "a length that leads nowhere, often": (chains_to_nowhere, False),
    "damage everywhere": (pattern(empty_batch(0, 0) + b"\xff"), False),
    "offsets that go back": (pattern(empty_batch(0, 0)), False),
    "legacy headers": (pattern(struct.pack(">qiIbbii", 0, 100_000, 1, 0, 0, -1, 0)), False),
    "dense 0.7 headers": (pattern(b"\0\x03\0\x01"), True),
    "zeros and ones": (pattern(bytes(1000) + b"\x01"), False),
    "noise": (lambda total: random.Random(2).randbytes(total), False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUSY)
def test_no_garbage_makes_it_slow(path: Path, name: str) -> None:
    made, is_v07 = BUSY[name]
    garbage = b"\xff" + made(MEBIBYTE)
    started = time.process_time()
    scan_file(path, garbage, is_v07=is_v07)
    scan_file(path, garbage, is_v07=is_v07, resync=True)
    assert time.process_time() - started < SECONDS


def test_what_was_not_checked_is_counted(path: Path) -> None:
    items = scan_file(path, b"\xff" + huge_sizes(MEBIBYTE), resync=True)
    assert isinstance(items[-1], Damage)
    assert "possible starts of a batch were not checked" in items[-1].detail


def test_wrong_headers_hide_no_batch_of_another_size(path: Path) -> None:
    garbage = huge_sizes(MEBIBYTE)
    good = batch(0, 100, 100)
    items = scan_file(path, b"\xff" + garbage + good, resync=True)
    assert [item.size_bytes for item in batches_of(items)] == [len(good)]


def test_batches_whose_checksums_alone_are_wrong_hide_nothing(path: Path) -> None:
    """As many as one likes, of one size: a search pays for each of them once."""
    one = bad_crc(batch(0, 1, 3000))
    data = b"\xff" + one * 300 + b"\xff" + one * 300 + b"\xff" + batch(7, 1, 3000)
    items = scan_file(path, data, resync=True)
    assert [item.position for item in batches_of(items)] == [600 * len(one) + 3]
