"""Files and directories that the user of a broker may not open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.verify import companions
from kafkalog_core.ops.verify.companions import check_directories, check_files
from kafkalog_core.storage.listing import FileInfo, list_directory
from kafkalog_core.structs import replace
from tests.support.log_dirs import write_partition

if TYPE_CHECKING:
    import os
    from pathlib import Path

KAFKA, ROOT, OTHER = 500, 0, 600


class Status:
    """Owner and mode of a directory."""

    def __init__(self, uid: int, gid: int, mode: int) -> None:
        self.st_uid, self.st_gid, self.st_mode = uid, gid, 0o040000 | mode


@pytest.fixture
def files(tmp_path: Path) -> list[FileInfo]:
    """Files of a partition that user 500 owns."""
    listing = list_directory(str(write_partition(tmp_path / "t-0")))
    return [replace(file, uid=KAFKA, gid=KAFKA, mode=0o644) for file in listing.files]


def found_in(
    monkeypatch: pytest.MonkeyPatch, files: list[FileInfo], directory: tuple[int, int, int] = (KAFKA, KAFKA, 0o755)
) -> list[tuple[str, str, str]]:
    monkeypatch.setattr(companions, "stat_path", lambda _: Status(*directory))
    return [(finding.severity, finding.code, finding.path.rpartition("/")[2]) for finding in check_files("t-0", files)]


LOG = f"{0:020d}.log"


def change(files: list[FileInfo], name: str, **values: int) -> list[FileInfo]:
    return [replace(file, **values) if file.name.raw == name else file for file in files]  # type: ignore[arg-type]


def test_as_a_broker_leaves_it(monkeypatch: pytest.MonkeyPatch, files: list[FileInfo]) -> None:
    assert found_in(monkeypatch, files) == []
    assert found_in(monkeypatch, [replace(file, uid=ROOT, gid=ROOT) for file in files], (ROOT, ROOT, 0o755)) == []


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        (LOG, {"mode": 0o000}, [("error", "file.unreadable")]),
        (LOG, {"mode": 0o444}, [("error", "file.not-writable")]),
        ("partition.metadata", {"mode": 0o444}, []),
        (LOG, {"uid": ROOT, "gid": ROOT}, [("error", "file.no-access")]),
        (LOG, {"uid": ROOT, "gid": ROOT, "mode": 0o666}, [("warning", "file.foreign-owner")]),
        (LOG, {"uid": OTHER, "gid": KAFKA, "mode": 0o664}, [("warning", "file.foreign-owner")]),
        (LOG, {"uid": ROOT, "gid": ROOT, "mode": 0o000}, [("warning", "file.unreadable"), ("error", "file.no-access")]),
        ("partition.metadata", {"uid": ROOT, "gid": ROOT}, [("warning", "file.foreign-owner")]),
        ("partition.metadata", {"uid": ROOT, "gid": ROOT, "mode": 0o600}, [("error", "file.no-access")]),
    ],
)
def test_one_file(
    monkeypatch: pytest.MonkeyPatch,
    files: list[FileInfo],
    name: str,
    values: dict[str, int],
    expected: list[tuple[str, str]],
) -> None:
    found = found_in(monkeypatch, change(files, name, **values))
    assert found == [(severity, code, name) for severity, code in expected]


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ((KAFKA, KAFKA, 0o555), [("error", "dir.no-permission", "t-0")]),
        ((KAFKA, KAFKA, 0o644), [("error", "dir.no-permission", "t-0")]),
        ((ROOT, ROOT, 0o755), [("error", "dir.foreign-owner", "t-0")]),
        ((ROOT, KAFKA, 0o775), []),
    ],
)
def test_the_directory(
    monkeypatch: pytest.MonkeyPatch,
    files: list[FileInfo],
    directory: tuple[int, int, int],
    expected: list[tuple[str, str, str]],
) -> None:
    """Where all files are of another user it is the directory that is odd, once."""
    assert found_in(monkeypatch, files, directory) == expected


def test_a_directory_of_root_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = {"t-0": (KAFKA, KAFKA, 0o755), "t-1": (ROOT, ROOT, 0o755), "t-2": (KAFKA, KAFKA, 0o755)}

    def stat_path(path: str) -> os.stat_result:
        return Status(*statuses[path])  # type: ignore[return-value]

    monkeypatch.setattr(companions, "stat_path", stat_path)
    (finding,) = check_directories(statuses)
    assert (finding.severity, finding.code, finding.path) == ("error", "dir.foreign-owner", "t-1")


def test_a_directory_that_went_away(tmp_path: Path) -> None:
    assert list(check_files(str(tmp_path / "gone"), [])) == []
    assert list(check_directories([str(tmp_path / "gone")])) == []
