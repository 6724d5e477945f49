"""What a file carries next to its bytes and its time: owner, permissions and extended attributes."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.storage.changing.trusted import ANYWHERE, TrustedDirectories
from kafkalog_core.storage.changing.writer import Attributes, extended_attributes
from tests.support.repairs import OWNER, note

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    os.chown(path, *OWNER)
    os.chown(tmp_path, *OWNER)
    return path


@pytest.fixture
def noted(file: Path) -> Path:
    """A file with extended attributes, where the file system takes any."""
    try:
        os.setxattr(file, "user.b", b"\0\xff")
        os.setxattr(file, "user.a", b"")
    except (OSError, AttributeError):
        pytest.skip("no extended attributes on this file system")
    return file


def of(uid_gid: tuple[int, int], mode: int, **extended: bytes) -> Attributes:
    named = {f"user.{name}": value for name, value in extended.items()}
    return Attributes(uid=uid_gid[0], gid=uid_gid[1], mode=mode, extended=named)


@pytest.mark.parametrize("is_anywhere", [True, False])
@pytest.mark.parametrize(("mode", "kept"), [(0o640, 0o640), (0o777, 0o777), (0o7755, 0o755)])
def test_owner_and_permissions_are_read_and_those_of_programs_are_left_out(
    file: Path, mode: int, kept: int, is_anywhere: bool
) -> None:
    """A set-user-id bit on a copy would run it as another user."""
    trusted = ANYWHERE if is_anywhere else TrustedDirectories([str(file.parent)])
    file.chmod(mode)
    assert Attributes.of(str(file), trusted) == of(OWNER, kept)
    assert Attributes.of_new_file(str(file), trusted) == of(OWNER, kept)


def test_extended_attributes_are_read_and_put_into_the_journal(noted: Path) -> None:
    noted.chmod(0o464)
    expected = of(OWNER, 0o464, a=b"", b=b"\0\xff")
    assert extended_attributes(str(noted)) == expected.extended
    assert list(extended_attributes(str(noted))) == ["user.a", "user.b"]
    assert Attributes.of(str(noted)) == expected
    assert expected.to_json() == {
        "uid": OWNER[0],
        "gid": OWNER[1],
        "mode": "0464",
        "extended": {"user.a": "", "user.b": "AP8="},
    }


@pytest.mark.parametrize(("mode", "of_files"), [(0o777, 0o644), (0o711, 0o600), (0o750, 0o640), (0o705, 0o604)])
def test_a_new_file_has_the_owner_of_its_directory_and_may_be_read_by_who_reads_that(
    file: Path, mode: int, of_files: int
) -> None:
    """It is no program, nobody else writes it, and attributes of a directory are not a file's."""
    directory = file.parent
    directory.chmod(mode)
    note(directory)
    assert Attributes.of(str(directory)).mode == mode
    assert Attributes.of_new_file(str(directory)) == of(OWNER, of_files)


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_extended_attributes_has_none(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_: object) -> list[str]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "listxattr", refuse, raising=False)
    assert extended_attributes(str(file)) == {}


def test_extended_attributes_that_cannot_be_read_are_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an access list would be lost without notice; no file is left open."""

    def refuse(_: object) -> list[str]:
        raise OSError(errno.EIO, "eio")

    before = len(os.listdir("/dev/fd"))
    monkeypatch.setattr(os, "listxattr", refuse, raising=False)
    with pytest.raises(AccessError, match=r"the system cannot read it \(Input/output error\)"):
        Attributes.of(str(file))
    assert len(os.listdir("/dev/fd")) <= before
    monkeypatch.delattr(os, "listxattr")
    assert extended_attributes(str(file)) == {}
    assert Attributes.of(str(file)).extended == {}
    assert len(os.listdir("/dev/fd")) <= before


def test_a_file_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    for read in (Attributes.of, Attributes.of_new_file):
        for trusted in (ANYWHERE, TrustedDirectories([str(tmp_path)])):
            with pytest.raises(NotFoundError) as caught:
                read(f"{tmp_path}/none", trusted)
            assert str(caught.value) == f"{tmp_path}/none: no such file or directory"
