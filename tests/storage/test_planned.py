"""Files as a plan will leave them: whoever reads sees them, and the disk does not change."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import NotFoundError
from kafkalog_core.storage.listing import list_directory, names_in, stat_path
from kafkalog_core.storage.paths import exists
from kafkalog_core.storage.planned import (
    FileSlice,
    Patch,
    Pieces,
    PlannedFiles,
    as_new,
    patched,
    planned_files,
    real_slices,
)
from kafkalog_core.storage.reading import READING, PlannedPaths
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(100)))
    return path


def read(path: Path | str, position: int = 0, size_bytes: int = 1000) -> bytes:
    with Source.open(str(path)) as source:
        return source.read(position, size_bytes)


def test_bytes_in_place_of_others(old: Path) -> None:
    files = PlannedFiles()
    files.patch(str(old), 100, [Patch(10, 20, b"x"), Patch(50, 50, b"yyy"), Patch(90, 100, b"")])
    wanted = bytes(range(10)) + b"x" + bytes(range(20, 50)) + b"yyy" + bytes(range(50, 90))
    with planned_files(files):
        assert read(old) == wanted
        assert read(old, 8, 5) == wanted[8:13]
        assert stat_path(str(old)).st_size == len(wanted)
    assert read(old) == bytes(range(100))


def test_new_and_deleted_files_in_every_listing(old: Path) -> None:
    new = str(old.parent / "b")
    files = PlannedPaths({str(old): None, new: as_new(new, Pieces((b"new",)), old.stat(), 5_000_000_000)})
    files = pickle.loads(pickle.dumps(files))  # noqa: S301 -- our own, as another process gets them
    with planned_files(files):
        listing = list_directory(str(old.parent))
        assert [(each.name.raw, each.size_bytes, each.mtime_ns) for each in listing.files] == [("b", 3, 5_000_000_000)]
        assert [*names_in(str(old.parent))] == ["b"]
        assert (exists(str(old)), exists(new)) == (False, True)
        assert read(new) == b"new"
        for look in (Source.open, stat_path):
            with pytest.raises(NotFoundError):
                look(str(old))
    assert (exists(str(old)), exists(new)) == (True, False)


def test_files_that_are_planned_no_more(old: Path) -> None:
    files = PlannedFiles()
    with planned_files(files):
        for forget in (lambda: files.pop(str(old.parent / "b")), files.clear):
            files.write(str(old.parent / "b"), b"new", like=str(old))
            before = READING.planned.state
            assert [*names_in(str(old.parent))] == [old.name, "b"]
            forget()
            assert [*names_in(str(old.parent))] == [old.name]
            assert READING.planned.state != before


def test_files_that_are_planned_upon_planned_files(old: Path) -> None:
    """Slices are of the real files in the end, so that they can be written."""
    first = PlannedFiles()
    first.patch(str(old), 100, [Patch(0, 10, b"ten")])
    with planned_files(first):
        second = PlannedFiles()
        second.patch(str(old), 93, [Patch(3, 5, b"_")])
        second.write(str(old.parent / "c"), b"new", like=str(old))
        with planned_files(second):
            names = [each.name.raw for each in list_directory(str(old.parent)).files]
            assert names == [old.name, "c"]
            assert read(old)[:6] == b"ten_" + bytes([12, 13])
            pieces = real_slices(Pieces((FileSlice(str(old), 2, 6),)))
    assert pieces == Pieces((b"n", b"_", FileSlice(str(old), 12, 14)))
    assert b"".join(pieces) == b"n_" + bytes([12, 13])


def test_a_part_of_pieces(old: Path) -> None:
    pieces = patched(str(old), 100, [Patch(10, 20, b"abc")])
    whole = b"".join(pieces)
    for start in range(0, 95, 7):
        for end in range(start, 95, 5):
            assert b"".join(pieces.cut(start, end)) == whole[start:end]
    assert pickle.loads(pickle.dumps(pieces)) == pieces  # noqa: S301 -- our own, for another process
