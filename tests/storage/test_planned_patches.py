"""Files read as a plan would leave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import NotFoundError
from kafkalog_core.storage.planned import Patch, PlannedFiles, patched, planned_files
from kafkalog_core.storage.source import FileChange, Source

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = bytes(range(256)) * 4


@given(data=st.data())
def test_any_patches_read_in_any_pieces(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("patched") / "log"
    path.write_bytes(CONTENT)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(CONTENT)), min_size=0, max_size=8, unique=True)))
    patches = [
        Patch(start, end, data.draw(st.binary(max_size=40))) for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    expected, position = b"", 0
    for patch in patches:
        expected += CONTENT[position : patch.start] + patch.content
        position = patch.end
    expected += CONTENT[position:]
    files = PlannedFiles()
    files.patch(str(path), len(CONTENT), patches)
    with planned_files(files), Source.open(path) as source:
        assert source.size_bytes == len(expected) == patched(str(path), len(CONTENT), patches).size_bytes
        start = data.draw(st.integers(0, len(expected)))
        size = data.draw(st.integers(0, len(expected)))
        assert source.read(start, size) == expected[start : start + size]
        assert bytes(source.window(0)) == expected
        peek = source.peeks()
        assert [peek(at) for at in (0, len(expected) - 17, len(expected) - 16)] == [
            len(expected) >= 17,
            len(expected) >= 17,
            False,
        ]
        assert source.refresh() is FileChange.NONE


def test_a_new_file_has_the_status_of_another(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"log")
    files = PlannedFiles()
    files.write(str(tmp_path / "index"), b"entries", like=str(log))
    with planned_files(files), Source.open(tmp_path / "index") as source:
        assert source.read(0, 100) == b"entries"
        assert source.mtime_ns == log.stat().st_mtime_ns
    with pytest.raises(NotFoundError):
        Source.open(tmp_path / "index")


def test_a_file_that_is_forgotten_is_read_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"log")
    files = PlannedFiles()
    files.write(str(log), b"planned", like=str(log))
    del files[str(log)]
    with planned_files(files), Source.open(log) as source:
        assert source.read(0, 100) == b"log"
