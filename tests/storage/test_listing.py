"""One look at a directory, with everything in it that is no plain file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

import pytest

from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.format.names import FileKind
from kafkalog_core.storage import listing
from kafkalog_core.storage.listing import list_directory, stat_path


def test_files_carry_their_stat(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000007.log"
    path.write_bytes(b"abc")
    path.chmod(0o640)
    os.utime(path, ns=(1, 1_500_000_000_123_456_789))
    (file,) = list_directory(str(tmp_path)).files
    status = path.stat()
    assert (file.path, file.size_bytes, file.mtime_ns) == (str(path), 3, 1_500_000_000_123_456_789)
    assert (file.device, file.inode, file.mode) == (status.st_dev, status.st_ino, 0o640)
    assert (file.uid, file.gid) == (status.st_uid, status.st_gid)
    assert (file.name.kind, file.name.base_offset) == (FileKind.LOG, 7)


def test_entries_are_sorted_and_told_apart(tmp_path: Path) -> None:
    for name in ("b.log", "a.log"):
        (tmp_path / name).touch()
    for name in ("z", "y"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe")
    seen = list_directory(str(tmp_path))
    assert [file.name.raw for file in seen.files] == ["a.log", "b.log"]
    assert [directory.raw_name for directory in seen.directories] == ["y", "z"]
    assert [(finding.code, finding.path) for finding in seen.findings] == [("file.not-regular", str(tmp_path / "pipe"))]


def test_links_are_followed_and_broken_ones_said(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").write_bytes(b"12")
    (tmp_path / "file").symlink_to("real/x")
    (tmp_path / "directory").symlink_to("real")
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "circle").symlink_to("circle")
    seen = list_directory(str(tmp_path))
    assert [(file.name.raw, file.size_bytes) for file in seen.files] == [("file", 2)]
    assert [directory.raw_name for directory in seen.directories] == ["directory", "real"]
    assert seen.directories[0].inode == seen.directories[1].inode
    assert [(finding.code, finding.severity) for finding in seen.findings] == [("file.broken-link", "warning")] * 2
    assert "circle" in seen.findings[0].message
    assert "no such file" in seen.findings[1].message


@pytest.mark.parametrize(
    ("number", "code", "severity", "message"),
    [
        (errno.ENOENT, "file.vanished", "info", "The file was deleted while its directory was listed."),
        (errno.ESTALE, "file.vanished", "info", "The file was deleted while its directory was listed."),
        (errno.EIO, "file.not-readable", "error", "It was not read: the system cannot read it (Input/output error)."),
    ],
)
def test_a_file_that_cannot_be_looked_at_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str, severity: str, message: str
) -> None:
    class Refused:
        path = str(tmp_path / "00000000000000000000.log")
        name = "00000000000000000000.log"

        def stat(self) -> os.stat_result:
            raise OSError(number, os.strerror(number), self.path)

        def is_symlink(self) -> bool:
            return False

    class Entries(list[Refused]):
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(listing.os, "scandir", lambda _: Entries([Refused()]))
    seen = list_directory(str(tmp_path))
    assert not seen.files
    (finding,) = seen.findings
    assert (finding.code, finding.severity, finding.message) == (code, severity, message)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_directory_that_may_be_listed_but_not_entered() -> None:
    with tempfile.TemporaryDirectory() as directory:  # pytest's own may not be entered by others
        for name in ("00000000000000000000.log", "00000000000000000000.index"):
            Path(directory, name).touch()
        os.chmod(directory, 0o744)
        script = "import os, sys; from kafkalog_core.storage.listing import list_directory as look\n"
        script += "os.setegid(65534); os.seteuid(65534)\n"
        script += f"try: look({directory!r})\nexcept Exception as error: print(type(error).__name__, error.message)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("DeniedError user ")
    assert "has no permission to enter its directory: it belongs to user " in done.stdout
    assert "and has mode 0744" in done.stdout


def test_a_name_that_is_not_utf_8_keeps_its_bytes(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/\xff\xfe.log"
    with open(raw, "wb") as file:
        file.write(b"1")
    (seen,) = list_directory(str(tmp_path)).files
    assert os.fsencode(seen.path) == raw
    assert stat_path(seen.path).st_size == 1


def test_a_file_that_its_owner_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.touch(mode=0o000)
    (finding,) = list_directory(str(tmp_path)).findings
    assert (finding.code, finding.severity) == ("file.unreadable", "warning")
    assert "0000" in finding.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_owner(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.index"
    path.touch()
    os.chown(path, 12345, -1)
    (finding,) = list_directory(str(tmp_path)).findings
    assert finding.code == "file.foreign-owner"
    assert "12345" in finding.message


def test_a_path_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError):
        list_directory(str(tmp_path / "missing"))
    with pytest.raises(NotFoundError):
        list_directory(f"{tmp_path}/\0")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(AccessError, match="circle"):
        list_directory(str(tmp_path / "circle"))

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(listing.os, "scandir", refuse)
    with pytest.raises(AccessError, match="permission"):
        list_directory(str(tmp_path))
