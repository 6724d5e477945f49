"""The door to the disk: the order of its steps, what is on the disk after each, and what an error says."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.storage.changing import writer
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import Attributes, Disk, WriteError
from kafkalog_core.structs import replace
from tests.support.repairs import OWNER, CountingDisk, FailingDisk, UnlinkingDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TIME_NS = 1_600_000_000_123_456_789
CONTENT = b"0123456789" * 20
MINE = Attributes(uid=os.geteuid(), gid=os.getegid(), mode=0o640)


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What was fsynced; the disk is not waited for."""
    numbers: list[int] = []
    monkeypatch.setattr(os, "fsync", numbers.append)
    return numbers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    os.utime(file, ns=(1, 1))
    return file


@contextmanager
def no_mask() -> Iterator[None]:
    """Take no right away from new files, as a broker's service may be set up."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


def begin(disk: Disk, place: Path) -> None:
    """A new file that is begun and given up."""
    with disk.new_file(str(place / "new")) as file:
        file.write(b"abc")


METHODS: dict[str, Callable[[Disk, Path], object]] = {
    "write_file": lambda disk, place: disk.write_file(str(place / "new"), [b"abc", b"d"], MINE, TIME_NS),
    "new_file": begin,
    "extend": lambda disk, place: disk.extend(str(place / "file"), 100, [b"abc"], TIME_NS),
    "cut": lambda disk, place: disk.cut(str(place / "file"), 100, TIME_NS),
    "sync_file": lambda disk, place: disk.sync_file(str(place / "file")),
    "rename": lambda disk, place: disk.rename(str(place / "file"), str(place / "other")),
    "link": lambda disk, place: disk.link(str(place / "file"), str(place / "other")),
    "unlink": lambda disk, place: disk.unlink(str(place / "file")),
    "make_directory": lambda disk, place: disk.make_directory(str(place / "new"), MINE),
    "remove_directory": lambda disk, place: disk.remove_directory(str(place / "empty")),
    "sync_directory": lambda disk, place: disk.sync_directory(str(place)),
}
STEPS = {
    "write_file": ["create", "write", "write", "chmod", "utime", "fsync", "read", "read", "read"],
    "new_file": ["create", "write"],
    "extend": ["open", "write", "fsync", "utime", "fsync"],
    "cut": ["open", "truncate", "utime", "fsync"],
    "sync_file": ["open", "fsync"],
    "rename": ["rename"],
    "link": ["link"],
    "unlink": ["unlink"],
    "make_directory": ["mkdir", "open", "chmod"],
    "remove_directory": ["rmdir"],
    "sync_directory": ["open", "fsync"],
}


@pytest.mark.parametrize("method", METHODS)
def test_each_method_takes_its_steps_in_order_and_leaves_no_file_open(
    tmp_path: Path, path: Path, method: str, synced: list[int]
) -> None:
    """The time of a file is set after its bytes are on the disk, and fsynced too."""
    (tmp_path / "empty").mkdir()
    disk, before = CountingDisk(), open_files()
    METHODS[method](disk, path.parent)
    assert disk.steps == STEPS[method]
    assert len(synced) == STEPS[method].count("fsync")
    assert open_files() <= before


@pytest.mark.parametrize("method", METHODS)
def test_the_step_that_the_system_refuses_is_named_and_no_file_is_left_open(
    tmp_path: Path, path: Path, method: str
) -> None:
    words = {
        "create": "cannot be created",
        "mkdir": "cannot be created",
        "open": "cannot be opened for writing",
        "write": "cannot be written",
        "read": "cannot be read back",
        "fsync": "cannot be fsynced",
        "chmod": "its permissions cannot be set",
        "utime": "its modification time cannot be set",
        "truncate": "cannot be truncated",
        "rename": "cannot be renamed into place",
        "link": "a hard link of this name cannot be created",
        "unlink": "cannot be deleted",
        "rmdir": "cannot be deleted",
    }
    (tmp_path / "empty").mkdir()
    changed = {"rename": "other", "link": "other", "remove_directory": "empty", "sync_directory": "."}
    named = tmp_path / (
        changed.get(method) or ("new" if "create" in STEPS[method] or "mkdir" in STEPS[method] else "file")
    )
    before = open_files()
    for at, step in enumerate(STEPS[method]):
        with pytest.raises(WriteError) as caught:
            METHODS[method](FailingDisk(at, errno.EIO), tmp_path)
        assert str(caught.value) == f"{named}: {words[step]}: input/output error"
        assert caught.value.errno == errno.EIO
        assert open_files() <= before
        with suppress(FileNotFoundError):
            (tmp_path / "new").unlink() if method != "make_directory" else (tmp_path / "new").rmdir()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x"), "no space left on device"),
        (OSError("Odd, without a number"), "odd, without a number"),
    ],
)
def test_the_reason_of_an_error_is_in_the_words_of_the_system(path: Path, error: OSError, said: str) -> None:
    class Failing(Disk):
        def step(self, what: str, path: str) -> None:
            raise error

    with pytest.raises(WriteError) as caught:
        Failing().unlink(str(path))
    assert str(caught.value) == f"{path}: cannot be deleted: {said}"
    assert path.exists()


@pytest.mark.parametrize(
    ("number", "is_full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False), (errno.EACCES, False)]
)
def test_a_full_disk_and_a_full_quota_are_told_from_other_errors(path: Path, number: int, is_full: bool) -> None:
    with pytest.raises(WriteError) as caught:
        Disk.unlink(FailingDisk(0, number), str(path))
    assert caught.value.is_full is is_full


# --- new files --------------------------------------------------------------------------------------------------------
def test_nobody_else_can_open_what_is_being_made(tmp_path: Path) -> None:
    """A file or directory has the rights of the old one from when it is complete on."""
    seen: dict[str, int] = {}

    class Watching(Disk):
        def step(self, what: str, path: str) -> None:
            with suppress(FileNotFoundError):
                seen[what] = mode(tmp_path / path)

    with no_mask():
        Watching().write_file(f"{tmp_path}/file", [b"abc"], replace(MINE, mode=0o664), None)
        assert (seen, mode(tmp_path / "file")) == (
            {"write": 0o600, "chmod": 0o600, "fsync": 0o664, "read": 0o664},
            0o664,
        )
        seen.clear()
        Watching().make_directory(f"{tmp_path}/made", replace(MINE, mode=0o775))
        assert (seen, mode(tmp_path / "made")) == ({"open": 0o700, "chmod": 0o700}, 0o775)
        Disk().make_directory(f"{tmp_path}/mine", None)
        assert mode(tmp_path / "mine") == 0o777
        Disk().write_file(f"{tmp_path}/own", [], None, None)
        assert mode(tmp_path / "own") == 0o600


def test_a_new_file_has_its_bytes_and_its_time_and_a_file_of_its_name_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    pieces = [b"abc", memoryview(b"d" * 2000), b""]
    content = b"abc" + b"d" * 2000
    assert UnlinkingDisk().write_file(str(file), pieces, MINE, TIME_NS) == (
        2003,
        hashlib.sha256(content).hexdigest(),
    )
    assert (file.read_bytes(), file.stat().st_mtime_ns, mode(file)) == (content, TIME_NS, 0o640)
    with pytest.raises(WriteError, match="cannot be created: file exists"):
        Disk().write_file(str(file), [b"other"], None, None)
    assert file.read_bytes() == content


def test_a_new_file_without_a_hash_has_a_checksum_and_is_closed_once_it_is_complete(tmp_path: Path) -> None:
    before = open_files()
    with Disk().new_file(f"{tmp_path}/new") as file:
        file.write(b"abc")
        file.write(b"def")
        assert file.size_bytes == 6
        assert file.finish(MINE, TIME_NS) == (6, f"{crc32c(b'abcdef'):08x}")
        assert open_files() <= before
        file.close()
        with pytest.raises(ValueError, match="write to a closed file"):
            file.write(b"ghi")
    assert (tmp_path / "new").stat().st_mtime_ns == TIME_NS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_new_file_is_given_to_its_owner_only_where_it_is_not_theirs(tmp_path: Path) -> None:
    disk = CountingDisk()
    disk.write_file(f"{tmp_path}/mine", [], MINE, None)
    disk.write_file(f"{tmp_path}/theirs", [], Attributes(uid=OWNER[0], gid=OWNER[1], mode=0o600), None)
    disk.write_file(f"{tmp_path}/of-group", [], Attributes(uid=0, gid=OWNER[1], mode=0o600), None)
    assert disk.steps.count("chown") == 2
    owners = [((tmp_path / name).stat().st_uid, (tmp_path / name).stat().st_gid) for name in ("theirs", "of-group")]
    assert owners == [OWNER, (0, OWNER[1])]


@pytest.fixture
def takes_attributes(tmp_path: Path) -> None:
    try:
        os.setxattr(tmp_path, "user.note", b"x")
    except (OSError, AttributeError):
        pytest.skip("no extended attributes on this file system")


@pytest.mark.usefixtures("takes_attributes")
def test_extended_attributes_are_set_but_those_that_are_there_already(tmp_path: Path) -> None:
    """A default access list of a directory gives its new files theirs; to set it again can be refused."""
    wanted = {"user.a": b"1", "user.b": b"2"}
    like = replace(MINE, extended=wanted)
    disk = CountingDisk()
    disk.write_file(f"{tmp_path}/file", [], like, None)
    assert disk.steps.count("setxattr") == 2
    assert {name: os.getxattr(tmp_path / "file", name) for name in wanted} == wanted
    with open(tmp_path / "file", "r+b") as file:
        os.setxattr(file.fileno(), "user.b", b"other")
        disk.steps.clear()
        disk.complete(file.fileno(), str(tmp_path / "file"), like, None)
    assert disk.steps.count("setxattr") == 1
    assert os.getxattr(tmp_path / "file", "user.b") == b"2"


# --- reading back -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("on_disk", [b"abcdeF", b"abcde", b"abcdefg", b""])
def test_a_disk_that_gives_back_other_bytes_is_failing(tmp_path: Path, on_disk: bytes) -> None:
    class Losing(Disk):
        def step(self, what: str, path: str) -> None:
            if what == "read":
                (tmp_path / "new").write_bytes(on_disk)

    with pytest.raises(WriteError, match="does not read back as it was written: the disk is failing") as caught:
        Losing().write_file(f"{tmp_path}/new", [b"abc", b"def"], None, None)
    assert caught.value.errno == errno.EIO


def test_bytes_that_a_checksum_of_the_same_value_has_are_not_enough(tmp_path: Path) -> None:
    """The size is compared too."""
    (tmp_path / "new").write_bytes(b"")
    with pytest.raises(WriteError, match="does not read back as it was written"):
        Disk().check(f"{tmp_path}/new", 1, hashlib.sha256(b"").hexdigest(), hashlib.sha256())


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system takes no such advice")
def test_the_whole_file_leaves_the_page_cache_before_it_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the memory is compared, and not the disk."""
    seen: list[object] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda number, *advice: seen.append((os.fstat(number).st_size, *advice)))
    monkeypatch.setattr(writer, "_sync", lambda number: seen.append(("fsync", os.fstat(number).st_size)))
    Disk().write_file(f"{tmp_path}/new", [b"abc"], None, None)
    assert seen == [("fsync", 3), (3, 0, 0, os.POSIX_FADV_DONTNEED)]


def test_a_system_without_advice_reads_back_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    assert Disk().write_file(f"{tmp_path}/new", [b"abc"], None, None)[0] == 3


# --- files that are there ---------------------------------------------------------------------------------------------
def test_a_file_is_cut_and_extended_in_place_and_keeps_its_time(path: Path) -> None:
    number = path.stat().st_ino
    Disk().cut(str(path), 55, TIME_NS)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (CONTENT[:55], TIME_NS)
    UnlinkingDisk().extend(str(path), 55, [CONTENT[55:90], b"", memoryview(CONTENT)[90:]], TIME_NS + 1)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (CONTENT, TIME_NS + 1)
    Disk().extend(str(path), 10, [b"abc"], TIME_NS)
    assert path.read_bytes() == CONTENT[:10] + b"abc" + CONTENT[13:]
    assert path.stat().st_ino == number


@pytest.mark.parametrize("method", ["cut", "extend"])
def test_a_file_with_two_hard_links_is_neither_cut_nor_extended(path: Path, method: str) -> None:
    """A backup of hard links would change with it."""
    for number in (1, 2):
        os.link(path, path.parent / f"backup-{number}")
        with pytest.raises(RefusedError) as caught:
            METHODS[method](Disk(), path.parent)
        assert str(caught.value) == (
            f"{path}: has another hard link, which would be changed with it. Replace it by a copy of itself first: "
            f"cp -p {path} {path}.copy && mv {path}.copy {path}"
        )
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (CONTENT, 1)


@pytest.mark.parametrize("method", ["cut", "extend"])
def test_only_a_regular_file_is_cut_or_extended(path: Path, method: str) -> None:
    path.unlink()
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without one the system refuses to open it for writing
    with pytest.raises(RefusedError, match=r"is not a regular file\. See what is in its directory: kafkalog verify "):
        METHODS[method](Disk(), path.parent)
    os.close(reader)
    target = path.with_name("target")
    target.write_bytes(CONTENT)
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(WriteError, match="cannot be opened for writing"):
        METHODS[method](Disk(), path.parent)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize(
    "number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS]
)
def test_a_file_system_without_hard_links_is_no_error(path: Path, number: int) -> None:
    assert Disk.link(FailingDisk(0, number), str(path), f"{path}.other") is False


def test_a_second_name_is_given_to_the_file_itself_and_not_to_what_a_link_leads_to(path: Path) -> None:
    other = path.with_name("other")
    assert Disk().link(str(path), str(other)) is True
    assert other.samefile(path)
    link, second = path.with_name("link"), path.with_name("second")
    link.symlink_to(path)
    disk = Disk()
    with disk.within(TrustedDirectories([str(path.parent)])):
        assert disk.link(str(link), str(second)) is True
    assert second.is_symlink()
    assert path.stat().st_nlink == 2
    with pytest.raises(WriteError, match="a hard link of this name cannot be created: file exists"):
        Disk().link(str(path), str(other))


def test_names_are_moved_and_taken_away(path: Path) -> None:
    other, directory = path.with_name("other"), path.with_name("directory")
    other.write_bytes(b"old")
    Disk().rename(str(path), str(other))
    assert (other.read_bytes(), path.exists()) == (CONTENT, False)
    Disk().unlink(str(other))
    Disk().make_directory(str(directory), MINE)
    assert os.listdir(path.parent) == ["directory"]
    Disk().remove_directory(str(directory))
    assert os.listdir(path.parent) == []


def test_paths_are_resolved_from_the_named_directories_only_as_long_as_they_are_entered(
    tmp_path: Path, path: Path
) -> None:
    named, disk = tmp_path / "named", Disk()
    named.mkdir()
    anywhere = disk.trusted
    trusted = TrustedDirectories([str(named)])
    with pytest.raises(RefusedError, match="outside the directories"), disk.within(trusted):
        disk.unlink(str(path))
    assert path.exists()
    assert disk.trusted is anywhere
    disk.unlink(str(path))


def test_a_directory_that_was_removed_may_be_made_again(tmp_path: Path) -> None:
    """Its descriptor is not kept, and the new one is no stranger."""
    disk = Disk()
    with disk.within(TrustedDirectories([str(tmp_path)])):
        for _ in range(2):
            disk.make_directory(f"{tmp_path}/made", replace(MINE, mode=0o750))
            disk.write_file(f"{tmp_path}/made/file", [b"x"], MINE, None)
            disk.unlink(f"{tmp_path}/made/file")
            disk.remove_directory(f"{tmp_path}/made")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_cache_of_the_disk_itself_is_emptied_on_macos_too(
    path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """Fsync of macOS leaves the bytes in the disk's own memory."""
    asked: list[object] = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _, command: asked.append(command))
    monkeypatch.setattr(os, "fsync", lambda _: asked.append("fsync"))
    Disk().sync_file(str(path))
    Disk().sync_directory(str(path.parent))
    assert asked == ([51, 51] if platform == "darwin" else ["fsync", "fsync"])
