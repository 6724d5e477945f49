"""Holes of sparse files: they cost no time, and what is found is what the same zeros on the disk give.

A file of a few blocks may have any size: the large ones here have 256 GiB, which nobody reads within a test.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.storage import source as source_module
from kafkalog_core.storage.framing import count_zeros, used_bytes
from kafkalog_core.storage.scan import Damage
from kafkalog_core.storage.source import WINDOW_BYTES, Source
from tests.storage.scans import BLOCK, A, B, Found, N, batches_of, scan_source

if TYPE_CHECKING:
    from pathlib import Path

HUGE = 256 << 30
HOLE = " (most of them a hole, for which the disk stores nothing)"


def sparse(path: Path, size_bytes: int, *parts: tuple[int, bytes]) -> Path:
    """A file of this size that holds these bytes at these positions, and holes around their blocks."""
    with path.open("wb") as file:
        for position, data in parts:
            file.seek(position)
            file.write(data)
        file.truncate(size_bytes)
    assert path.stat().st_blocks <= 64, "this file system has no holes"
    return path


def damages(items: list[Found | Damage]) -> list[Damage]:
    return [item for item in items if isinstance(item, Damage)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def test_where_holes_and_data_end(path: Path) -> None:
    sparse(path, HUGE, (0, A), (HUGE // 2, B))
    with Source.open(path) as source:
        assert source.hole_end(5) == 5
        assert source.hole_end(BLOCK) == source.hole_end(HUGE // 4) == HUGE // 2
        assert source.hole_end(HUGE // 2 + BLOCK) == source.hole_end(HUGE - 1) == source.hole_end(HUGE) == HUGE
        assert source.data_end(HUGE) == HUGE // 2 + BLOCK
        assert source.data_end(HUGE // 2) == BLOCK
        assert source.data_end(100) == 100
        assert source.data_end(0) == 0
    sparse(path, HUGE)
    with Source.open(path) as source:
        assert (source.hole_end(0), source.data_end(HUGE), source.data_end(1)) == (HUGE, 0, 0)


def test_a_file_that_was_truncated_meanwhile_ends_where_it_ends(path: Path) -> None:
    sparse(path, HUGE, (0, A))
    with Source.open(path) as source:
        os.truncate(path, 4 * BLOCK)
        assert source.hole_end(BLOCK) == 4 * BLOCK
        assert source.hole_end(8 * BLOCK) == 8 * BLOCK


@pytest.mark.parametrize("name", ["_SEEK_DATA", "os.lseek"])
def test_where_the_system_knows_no_holes_the_zeros_are_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fails(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    sparse(path, 4 * WINDOW_BYTES, (0, A))
    monkeypatch.setattr(*((source_module, name, None) if name == "_SEEK_DATA" else (os, "lseek", fails)))
    with Source.open(path) as source:
        assert (source.hole_end(BLOCK), source.data_end(4 * WINDOW_BYTES)) == (BLOCK, 4 * WINDOW_BYTES)
        assert count_zeros(source, N, source.size_bytes) == source.size_bytes - N
        assert used_bytes(source, source.size_bytes) == len(A.rstrip(b"\0"))


@pytest.mark.parametrize("gap", [BLOCK - N, 2 * BLOCK, 5 * BLOCK + 17, WINDOW_BYTES - 64])
@pytest.mark.parametrize("is_tail", [True, False])
@pytest.mark.parametrize("resync", [True, False])
def test_a_small_hole_is_as_the_zeros_on_the_disk(tmp_path: Path, gap: int, is_tail: bool, resync: bool) -> None:
    """The bytes of one window: which zeros are stored is a matter of the file system."""
    parts = [(0, A)] if is_tail else [(0, A), (N + gap, B)]
    size_bytes = N + gap + (0 if is_tail else len(B))
    with_hole = sparse(tmp_path / "hole.log", size_bytes, *parts)
    stored = tmp_path / "stored.log"
    stored.write_bytes(with_hole.read_bytes())
    with Source.open(with_hole) as one, Source.open(stored) as other:
        items = scan_source(one, resync=resync)
        assert items == scan_source(other, resync=resync)
        assert used_bytes(one, size_bytes) == used_bytes(other, size_bytes)
    assert sum(item.size_bytes for item in items) == size_bytes


@pytest.mark.parametrize("resync", [True, False])
def test_a_large_hole_is_named_and_else_as_the_zeros_on_the_disk(tmp_path: Path, resync: bool) -> None:
    size_bytes = 3 * WINDOW_BYTES
    with_hole = sparse(tmp_path / "hole.log", size_bytes + len(B), (0, A), (size_bytes, B))
    stored = tmp_path / "stored.log"
    stored.write_bytes(with_hole.read_bytes())
    with Source.open(with_hole) as one, Source.open(stored) as other:
        (damage,) = damages(scan_source(one, resync=resync))
        (expected,) = damages(scan_source(other, resync=resync))
    zeros = size_bytes - N + len(B) - len(B.lstrip(b"\0"))
    assert expected.detail.startswith(f"{zeros} zero bytes, then other bytes")
    assert damage.detail == expected.detail.replace(" zero bytes", f" zero bytes{HOLE}")
    assert (damage.position, damage.size_bytes, damage.reason) == (N, expected.size_bytes, "zero-filled")


def test_a_log_of_256_gib_is_scanned_at_once(path: Path) -> None:
    middle = HUGE // 2
    sparse(path, HUGE, (0, A), (middle, B))
    with Source.open(path) as source:
        items = scan_source(source, resync=True)
    first, last = damages(items)
    assert [(item.position, item.last_offset) for item in batches_of(items)] == [(0, 2), (middle, 5)]
    assert (first.position, first.size_bytes) == (N, middle - N)
    assert (last.position, last.size_bytes, last.is_zeros) == (middle + N, HUGE - middle - N, True)
    assert last.detail == f"{HUGE - middle - N} zero bytes{HOLE} up to the end of the file"
    assert sum(item.size_bytes for item in items) == HUGE


def test_a_torn_batch_before_a_hole(path: Path) -> None:
    """Its length leads into the hole: the search for the next batch skips it."""
    sparse(path, HUGE, (0, A + B[:40]), (HUGE - 2 * BLOCK, B))
    with Source.open(path) as source:
        found = damages(scan_source(source, resync=True, max_batch_bytes=WINDOW_BYTES))
    assert [(item.position, item.reason) for item in found] == [
        (N, "crc-mismatch"),
        (HUGE - 2 * BLOCK + N, "zero-filled"),
    ]
