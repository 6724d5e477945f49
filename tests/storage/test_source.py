"""Windows over one file: bounded, narrowed to what the disk can read, and honest about what a broker does meanwhile."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.storage.source import WINDOW_BYTES, FileChange, Source, UnreadableError
from tests.storage.scans import BLOCK, DyingSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file.log"
    path.write_bytes(bytes(range(256)) * 80)  # five blocks
    return path


@pytest.fixture
def source(path: Path) -> Iterator[Source]:
    with Source.open(path) as opened:
        yield opened


@pytest.fixture
def dying(path: Path) -> Iterator[DyingSource]:
    with DyingSource.open(path) as opened:
        yield opened


# --- windows ----------------------------------------------------------------------------------------------------------
def test_a_window_holds_what_was_asked_for(source: Source, path: Path) -> None:
    data = path.read_bytes()
    assert source.size_bytes == len(data)
    assert bytes(source.window(0)) == data
    assert bytes(source.window(255, 3)) == b"\xff\x00\x01"
    assert source.read(20_470, 100) == data[20_470:]


@pytest.mark.parametrize("position", [20_480, 20_481, 10**12])
def test_nothing_stands_behind_the_end(source: Source, position: int) -> None:
    assert bytes(source.window(position)) == b""


def test_a_read_is_a_copy_and_a_window_is_not(source: Source) -> None:
    window, copy = source.window(0, 2), source.read(0, 2)
    source.window(2, 2)
    assert (bytes(window), copy) == (b"\x02\x03", b"\x00\x01")


def test_a_giant_window_gives_its_memory_back(tmp_path: Path) -> None:
    path = tmp_path / "giant.log"
    path.write_bytes(b"x" * (WINDOW_BYTES + 5))
    with Source.open(path) as source:
        assert len(source.window(0, 2 * WINDOW_BYTES)) == WINDOW_BYTES + 5
        assert len(source._buffer) == WINDOW_BYTES + 5
        source.window(0, 10)
        assert len(source._buffer) == WINDOW_BYTES


def test_windows_given_out_stay_readable_after_the_close(path: Path) -> None:
    with Source.open(path) as source:
        window = source.window(0, 4)
    assert bytes(window) == b"\x00\x01\x02\x03"


# --- what cannot be opened --------------------------------------------------------------------------------------------
def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        Source.open(tmp_path / "nothing.log")


def test_a_directory_and_a_pipe_are_no_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(AccessError, match="not a regular file"):
            Source.open(path)


def test_a_circle_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(AccessError, match="circle"):
        Source.open(tmp_path / "a")


def test_a_path_through_a_file(path: Path) -> None:
    with pytest.raises(NotFoundError):
        Source.open(path / "inside")


# --- unreadable blocks ------------------------------------------------------------------------------------------------
def test_a_window_ends_before_an_unreadable_block(dying: DyingSource, path: Path) -> None:
    dying.bad = frozenset({2})
    assert bytes(dying.window(100)) == path.read_bytes()[100 : 2 * BLOCK]
    assert bytes(dying.window(3 * BLOCK)) == path.read_bytes()[3 * BLOCK :]


@pytest.mark.parametrize(
    ("bad", "position", "size_bytes"),
    [
        ({0}, 0, BLOCK),
        ({2}, 2 * BLOCK + 17, BLOCK - 17),
        ({1, 2, 3}, BLOCK, 3 * BLOCK),
        ({4}, 4 * BLOCK, BLOCK),
        ({0, 1, 2, 3, 4}, 5, 5 * BLOCK - 5),
    ],
)
def test_an_unreadable_place_is_measured(dying: DyingSource, bad: set[int], position: int, size_bytes: int) -> None:
    dying.bad = frozenset(bad)
    with pytest.raises(UnreadableError) as caught:
        dying.window(position)
    assert (caught.value.position, caught.value.size_bytes) == (position, size_bytes)


def test_a_long_unreadable_place_is_measured_a_mebibyte_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(bytes(3 * WINDOW_BYTES))
    with DyingSource.open(path) as source:
        source.bad = frozenset(range(600))
        with pytest.raises(UnreadableError) as caught:
            source.window(0)
    assert caught.value.size_bytes == 1024 * 1024


def test_another_error_of_the_system_is_not_damage(dying: DyingSource) -> None:
    dying.bad, dying.error = frozenset({1}), errno.EINVAL
    with pytest.raises(AccessError, match=r"the system cannot read it \(Invalid argument\)"):
        dying.window(0)


def test_a_file_that_is_cut_while_blocks_are_probed(path: Path) -> None:
    """The read fails, and block by block there is nothing any more: the end, not an endless loop."""

    class Vanishing(Source):
        failed = False

        def _pread(self, target: memoryview, position: int) -> int:
            if not self.failed:
                self.failed = True
                raise OSError(errno.EIO, "cut in this moment")
            return 0

    with Vanishing.open(path) as source:
        assert bytes(source.window(0)) == b""
        assert source.size_bytes == 0


# --- a broker at work -------------------------------------------------------------------------------------------------
def test_an_untouched_file(source: Source) -> None:
    assert source.refresh() is FileChange.NONE


def test_a_file_that_grows_is_read_on_only_when_asked(source: Source, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")
    assert source.refresh() is FileChange.GREW
    assert source.size_bytes == 20_480
    assert source.refresh(grow=True) is FileChange.GREW
    assert source.read(20_480, 10) == b"more"


def test_a_file_that_is_cut(source: Source, path: Path) -> None:
    os.truncate(path, 10)
    assert len(source.window(0)) == 10
    assert source.size_bytes == 10
    assert source.refresh() is FileChange.SHRANK


def test_a_cut_that_only_the_refresh_sees(source: Source, path: Path) -> None:
    os.truncate(path, 10)
    assert source.refresh() is FileChange.SHRANK
    assert source.size_bytes == 10


def test_a_file_that_is_replaced_or_deleted(source: Source, path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    assert source.refresh() is FileChange.REPLACED
    path.write_bytes(b"another")
    assert source.refresh() is FileChange.REPLACED
    assert source.read(0, len(data)) == data


def test_a_file_that_is_written_to_in_place(source: Source, path: Path) -> None:
    os.utime(path, ns=(1, 1))
    assert source.refresh() is FileChange.MODIFIED
