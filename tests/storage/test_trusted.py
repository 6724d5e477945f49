"""Directories that are held open: few at a time, the ones in use, and none for ever; links lead nowhere unasked."""

from __future__ import annotations

import fcntl
import gc
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import KafkalogError, NotFoundError, RefusedError
from kafkalog_core.storage.changing import trusted as trusted_module
from kafkalog_core.storage.changing.trusted import ANYWHERE, LinkError, TrustedDirectories
from kafkalog_core.storage.changing.writer import Attributes, Disk

if TYPE_CHECKING:
    from pathlib import Path


def open_files() -> int:
    """How many files this process has open."""
    gc.collect()  # directories are closed with what holds them
    return len(os.listdir("/dev/fd"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Partitions with a file each, and next to them what links lead to."""
    for number in range(4):
        (tmp_path / "log" / f"t-{number}").mkdir(parents=True)
        (tmp_path / "log" / f"t-{number}" / "file").write_bytes(b"%d" % number)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"theirs")
    return tmp_path / "log"


# --- how many -------------------------------------------------------------------------------------------------------
def test_no_more_than_64_directories_are_open_and_none_in_the_end(tmp_path: Path) -> None:
    """A log directory may have more partitions than a process may have open files."""
    names = [f"{tmp_path}/t-{number}" for number in range(100)]
    for name in names:
        os.mkdir(name)
    before = open_files()
    trusted = TrustedDirectories([str(tmp_path)])
    most = 0
    for name in names:
        assert trusted.names(name) == []
        most = max(most, len(os.listdir("/dev/fd")))
    assert most - before == 64
    del trusted
    assert open_files() == before


def test_the_directory_in_use_is_not_the_one_that_is_closed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename needs two at once, however many others have been in use since the first."""
    monkeypatch.setattr(trusted_module, "_KEPT_OPEN", 3)
    disk, trusted = Disk(), TrustedDirectories([str(root)])
    for number in (0, 1, 2):
        assert trusted.exists(f"{root}/t-{number}/file")
    with disk.within(trusted):
        disk.rename(f"{root}/t-1/file", f"{root}/t-3/moved")
        disk.rename(f"{root}/t-2/file", f"{root}/t-0/moved")
    assert {path.parent.name: path.read_bytes() for path in root.glob("t-*/moved")} == {"t-3": b"1", "t-0": b"2"}


def test_what_is_refused_is_closed(root: Path) -> None:
    (root / "link-0").symlink_to(root.parent / "outside")
    before = open_files()
    trusted, other = TrustedDirectories([str(root)]), TrustedDirectories([str(root / "t-0")])
    (root / "t-0").rename(root / "t-7")
    (root / "t-0").mkdir()
    for _ in range(3):
        with pytest.raises(RefusedError, match="has just been replaced by another directory"):
            other.names(f"{root}/t-0")
        with pytest.raises(LinkError):
            trusted.names(f"{root}/link-0")
    assert open_files() == before + 1  # the root
    del trusted, other
    assert open_files() == before


def test_a_directory_that_was_removed_is_closed(root: Path) -> None:
    disk, trusted = Disk(), TrustedDirectories([str(root)])
    with disk.within(trusted):
        disk.unlink(f"{root}/t-0/file")
        before = open_files()
        disk.remove_directory(f"{root}/t-0")
        assert open_files() == before - 1
        trusted.forget(f"{root}/t-0")  # once more
        assert not trusted.exists(f"{root}/t-0/file")


def test_a_directory_that_is_forgotten_may_be_another_one(root: Path) -> None:
    trusted = TrustedDirectories([str(root)])
    assert trusted.names(f"{root}/t-0") == ["file"]
    (root / "t-0").rename(root / "t-7")
    (root / "t-0").mkdir()
    assert trusted.names(f"{root}/t-0") == ["file"]  # the one that is open
    trusted.forget(f"{root}/t-0")
    assert trusted.names(f"{root}/t-0") == []


# --- links ----------------------------------------------------------------------------------------------------------
def test_a_file_that_is_a_link_is_followed_only_where_the_user_named_no_directory(root: Path) -> None:
    target = root.parent / "outside" / "file"
    target.chmod(0o604)
    (root / "t-0" / "link").symlink_to(target)
    link = f"{root}/t-0/link"
    assert Attributes.of(link).mode == 0o604
    for trusted in (TrustedDirectories([str(root)]), TrustedDirectories([str(root), str(root.parent)])):
        with pytest.raises(KafkalogError):
            Attributes.of(link, trusted)
        with pytest.raises(KafkalogError), trusted.source(link):
            pass
        assert trusted.status(link) == os.lstat(link)


def test_a_directory_that_is_a_link_is_the_one_that_was_named_or_followed_first(root: Path) -> None:
    outside, link = root.parent / "outside", root / "link-0"
    link.symlink_to(outside)
    with pytest.raises(LinkError, match=f"^{link}: is a symbolic link to {outside}, which is not followed") as caught:
        TrustedDirectories([str(root)]).names(str(link))
    assert (caught.value.path, caught.value.target) == (str(link), str(outside))
    assert TrustedDirectories([str(root), str(outside)]).names(str(link)) == ["file"]
    following = TrustedDirectories([str(root)], follows_links=True)
    assert following.names(str(link)) == ["file"]
    following.forget(str(root / "t-0"))
    assert following.is_directory(str(link))
    link.unlink()
    link.symlink_to(root / "t-1")
    for trusted in (TrustedDirectories([str(root)]), TrustedDirectories([str(root), str(outside)])):
        with pytest.raises(LinkError):
            trusted.names(str(link))
    assert following.names(str(link)) == ["file"]


@pytest.mark.parametrize("kind", ["regular", "fifo", "directory"])
@pytest.mark.parametrize("is_named", [True, False])
def test_what_is_opened_to_be_looked_at_does_not_wait(root: Path, kind: str, is_named: bool) -> None:
    path = root / "t-0" / "it"
    {"regular": path.touch, "fifo": lambda: os.mkfifo(path), "directory": path.mkdir}[kind]()
    trusted = TrustedDirectories([str(root)]) if is_named else ANYWHERE
    kept = os.open(path, os.O_RDWR) if kind == "fifo" else None  # so that a mistake does not wait for ever
    try:
        if kind == "fifo" and is_named:
            with pytest.raises(OSError, match="Not a directory"):
                trusted.open_anything(str(path))
            return
        number = trusted.open_anything(str(path))
        assert os.path.samestat(os.fstat(number), path.stat())
        assert kind == "directory" or fcntl.fcntl(number, fcntl.F_GETFL) & os.O_NONBLOCK
        os.close(number)
    finally:
        if kept is not None:
            os.close(kept)


# --- paths ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "path", ["/", "{root}-2/file", "{root}/../outside/file", "{root}/t-0/./file", "{root}//t-0/file"]
)
def test_what_is_not_below_a_named_directory_by_its_text_is_refused(root: Path, path: str) -> None:
    (root.parent / "log-2").mkdir()
    (root.parent / "log-2" / "file").touch()
    trusted = TrustedDirectories([str(root)])
    path = path.format(root=root)
    with pytest.raises(RefusedError, match="is outside the directories that were named on the command line") as caught:
        trusted.exists(path)
    assert caught.value.path == os.path.dirname(path)


def test_which_paths_are_held(root: Path) -> None:
    trusted = TrustedDirectories([str(root)])
    assert trusted.named == (str(root),)
    held = {path: trusted.holds(f"{root}{path}") for path in ("", "/x", "/x/y", "-2", "-2/x", "/..", "/../outside")}
    assert [path for path, is_held in held.items() if not is_held] == ["-2", "-2/x"]
    assert not trusted.holds(str(root.parent))
    assert ANYWHERE.holds("/")


def test_the_named_directory_itself(root: Path) -> None:
    trusted = TrustedDirectories([str(root)])
    status = trusted.status(str(root))
    assert status is not None
    assert os.path.samestat(status, root.stat())
    assert trusted.is_directory(str(root))
    assert trusted.names(str(root)) == ["t-0", "t-1", "t-2", "t-3"]
    assert trusted.device(f"{root}/t-0") == root.stat().st_dev
    os.link(root / "t-0" / "file", root / "t-1" / "other")
    assert trusted.is_same(f"{root}/t-0/file", f"{root}/t-1/other")
    assert not trusted.is_same(f"{root}/t-0/file", f"{root}/t-1/file")
    assert not trusted.is_same(f"{root}/t-0/none", f"{root}/t-1/none")
    assert trusted.has_other_names(f"{root}/t-1/other")
    assert not trusted.has_other_names(f"{root}/t-1/file")
    assert not trusted.has_other_names(f"{root}/t-1/none")


def test_what_is_not_there(root: Path) -> None:
    with pytest.raises(NotFoundError):
        TrustedDirectories([f"{root}/none"])
    trusted = TrustedDirectories([str(root)])
    for path in (f"{root}/none", f"{root}/none/file", f"{root}/t-0/file/file"):
        assert trusted.status(path) is None
        assert not trusted.exists(path)
        assert not trusted.is_directory(path)
        with pytest.raises(NotFoundError):
            trusted.names(path)
        with pytest.raises(NotFoundError):
            trusted.directory(path)
        with pytest.raises(NotFoundError), trusted.source(path):
            pass
        for each in (trusted, ANYWHERE):
            with pytest.raises(NotFoundError) as caught:
                Attributes.of(path, each)
            assert caught.value.path == path


# --- several threads --------------------------------------------------------------------------------------------------
def test_threads_change_many_directories_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor is closed, and used again for another directory, between its look-up and the change there."""
    monkeypatch.setattr(trusted_module, "_KEPT_OPEN", 2)
    disk, names = Disk(), [f"{tmp_path}/t-{number}" for number in range(8)]
    for name in names:
        os.mkdir(name)

    def work(name: str) -> None:
        for number in range(30):
            disk.replace_file(f"{name}/{os.path.basename(name)}.{number}", name.encode(), name)
            assert len(disk.trusted.names(name)) == number + 1

    with disk.within(TrustedDirectories([str(tmp_path)])), ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(work, names))
    for name in names:
        own = os.path.basename(name)
        assert {each.rpartition(".")[0] for each in os.listdir(name)} == {own}


def test_a_directory_that_was_renamed_makes_room_for_another_one(root: Path) -> None:
    disk = Disk()
    with disk.within(TrustedDirectories([str(root)])):
        assert disk.trusted.names(f"{root}/t-0") == ["file"]
        disk.rename(f"{root}/t-0", f"{root}/gone")
        disk.make_directory(f"{root}/t-0", None)
        assert disk.trusted.names(f"{root}/t-0") == []
        (root / "gone" / "inner").mkdir()
        (root / "gone" / "link").symlink_to(root.parent / "outside")
        disk.delete_directory(f"{root}/gone")
        assert os.listdir(root / "gone") == ["inner"], "a directory is not deleted with what it holds"
        (root / "gone" / "inner").rmdir()
        disk.delete_directory(f"{root}/gone")
    assert not (root / "gone").exists()
    assert os.listdir(root.parent / "outside") == ["file"]
