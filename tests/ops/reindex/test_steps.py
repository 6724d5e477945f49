"""Steps of a rebuild: what is to be written is all of it, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import StorageError
from kafkalog_core.storage.planned import FileSlice
from kafkalog_core.storage.source import WINDOW_BYTES

if TYPE_CHECKING:
    from pathlib import Path


def test_a_part_of_a_file_comes_in_windows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    data = bytes(range(256)) * (2 * WINDOW_BYTES // 256)
    path.write_bytes(data)
    pieces = list(FileSlice(str(path), 3, len(data) - 5).pieces())
    assert len(pieces) == 2
    assert b"".join(pieces) == data[3:-5]


@pytest.mark.parametrize("size_bytes", [0, 50, 99])
def test_a_log_that_has_become_shorter_is_not_copied_short(tmp_path: Path, size_bytes: int) -> None:
    """Else a segment that is split would lose its end, and the original goes."""
    path = tmp_path / "log"
    path.write_bytes(bytes(100))
    part = FileSlice(str(path), 10, 100)
    with path.open("r+b") as file:
        file.truncate(size_bytes)
    with pytest.raises(StorageError, match="became shorter"):
        list(part.pieces())
