"""A new directory that several processes write: what is adopted is in it, and nothing else is left anywhere."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import crc32c
import pytest

from kafkalog_core.storage.changing.new_dir import NewDir, TaskAttempts, new_dir_problem
from kafkalog_core.storage.changing.writer import Disk, WriteError
from tests.support.repairs import CountingDisk, DyingDisk, FailingDisk, Killed

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.changing.new_dir import NewTree


def fill(tree: NewTree, name: str, content: bytes) -> NewTree:
    tree.directory(name)
    tree.add(f"{name}/0.log", content)
    return tree


def make_part(parts: TaskAttempts, name: str, content: bytes) -> str:
    """The work of another process."""
    with parts.tree(name, Disk()) as tree:
        fill(tree, name, content).sync()
    return tree.home


def make(path: Path, disk: Disk) -> None:
    with NewDir(str(path), disk=disk, like=str(path.parent)) as new:
        parts = new.task_attempts()
        for name, content in (("t-0", b"zero"), ("t-1", b"one")):
            make_part(parts, name, b"of a worker that died")
            new.adopt(make_part(parts, name, content), name)
        new.add("top", b"")
        new.commit()


def files(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


WHOLE = {"t-0/0.log": b"zero", "t-1/0.log": b"one", "top": b""}


def test_what_was_adopted_is_there_and_no_attempt_is_left(tmp_path: Path) -> None:
    make(tmp_path / "new", Disk())
    assert files(tmp_path) == {f"new/{name}": content for name, content in WHOLE.items()}
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_dir()) == ["new", "t-0", "t-1"]


def test_who_is_still_at_work_finds_no_place_though_an_earlier_run_left_something(tmp_path: Path) -> None:
    """The directory of the attempts gets another name before anything of them is deleted."""
    parts, ended = tmp_path / "new.kafkalog-parts", tmp_path / "new.kafkalog-ended-parts"
    (ended / "t-0.1").mkdir(parents=True)
    (ended / "t-0.1" / "left").touch()

    class Watching(Disk):
        def step(self, what: str, path: str) -> None:
            assert what not in {"unlink", "rmdir"} or not path.startswith(f"{parts}/")

    make(tmp_path / "new", Watching())
    assert files(tmp_path / "new") == WHOLE
    assert os.listdir(tmp_path) == ["new"]


def test_what_was_adopted_is_fsynced_under_its_new_name_before_the_whole_has_its_own(tmp_path: Path) -> None:
    class Noting(Disk):
        def __init__(self) -> None:
            self.steps: list[str] = []

        def step(self, what: str, path: str) -> None:
            if what in {"fsync", "rename"}:
                self.steps.append(f"{what} {os.path.relpath(path, tmp_path)}")

    disk = Noting()
    make(tmp_path / "new", disk)
    home = "new.kafkalog-unfinished"
    adopted = disk.steps.index(f"rename {home}/t-1")
    ends = [f"fsync {home}/{name}" for name in ("top", "t-1", "t-0")]
    assert disk.steps[adopted + 1 :] == [*ends, f"fsync {home}", "rename new", "fsync .", *disk.steps[-1:]]
    assert disk.steps[-1] == "rename new.kafkalog-ended-parts"


def test_attempts_at_the_same_do_not_meet(tmp_path: Path) -> None:
    with NewDir(str(tmp_path / "new"), disk=Disk(), like=str(tmp_path)) as new:
        parts = new.task_attempts()
        with parts.tree("t-0", Disk()) as one, parts.tree("t-0", Disk()) as other:
            fill(other, "t-0", b"other")
            fill(one, "t-0", b"one")
        assert one.home != other.home
        new.adopt(other.home, "t-0")
        new.commit()
    assert files(tmp_path) == {"new/t-0/0.log": b"other"}


def test_an_attempt_that_fails_takes_away_what_it_made(tmp_path: Path) -> None:
    with NewDir(str(tmp_path / "new"), disk=Disk(), like=str(tmp_path)) as new:
        parts = new.task_attempts()
        with pytest.raises(WriteError), parts.tree("t-0", Disk()) as tree:
            fill(tree, "t-0", b"half").directory("t-0")
        assert os.listdir(parts.path) == []
    assert os.listdir(tmp_path) == []


def test_who_comes_too_late_finds_no_place(tmp_path: Path) -> None:
    with NewDir(str(tmp_path / "new"), disk=Disk(), like=str(tmp_path)) as new:
        parts = new.task_attempts()
        new.adopt(make_part(parts, "t-0", b"one"), "t-0")
        late = parts.tree("t-0", Disk())
        tree = late.__enter__()
        tree.directory("t-0")
        file = tree.begin("t-0/0.log")
        new.commit()
    with pytest.raises(WriteError):
        tree.add("t-0/0.index", b"")
    file.write(b"into a file without a name")
    late.__exit__(None, None, None)
    with pytest.raises(WriteError), parts.tree("t-0", Disk()):
        pass
    assert files(tmp_path) == {"new/t-0/0.log": b"one"}


def test_who_makes_a_part_while_the_rest_is_taken_away_finds_no_place(tmp_path: Path) -> None:
    class Late(Disk):
        parts = ""

        def step(self, what: str, path: str) -> None:
            if what == "rmdir" and self.parts:
                with suppress(FileNotFoundError):
                    os.mkdir(f"{self.parts}/t-1.1")

    disk = Late()
    with NewDir(str(tmp_path / "new"), disk=disk, like=str(tmp_path)) as new:
        parts = new.task_attempts()
        make_part(parts, "t-0", b"of a worker that died")
        disk.parts = parts.path
        new.commit()
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("new_digest", [{}, {"new_digest": hashlib.sha256}])
def test_a_byte_that_the_disk_changed_is_noticed(tmp_path: Path, new_digest: dict[str, Any]) -> None:
    """A file that is written piece by piece has a checksum in place of a hash."""

    class Changing(Disk):
        def step(self, what: str, path: str) -> None:
            if what == "read":
                with open(path, "r+b") as file:
                    file.seek(3)
                    file.write(b"X")

    path = str(tmp_path / "file")
    with Changing().new_file(path, **new_digest) as file:
        file.write(b"abc")
        file.write(b"defg")
        with pytest.raises(WriteError, match="does not read back as it was written: the disk is failing"):
            file.finish(None, None)
    with Disk().new_file(f"{path}.2", **new_digest) as file:
        file.write(b"abc")
        file.write(b"defg")
        size_bytes, digest = file.finish(None, None)
    assert size_bytes == 7
    assert digest == (hashlib.sha256(b"abcdefg").hexdigest() if new_digest else f"{crc32c.crc32c(b'abcdefg'):08x}")


def test_without_a_commit_nothing_is_left(tmp_path: Path) -> None:
    with NewDir(str(tmp_path / "new"), disk=Disk(), like=str(tmp_path)) as new:
        parts = new.task_attempts()
        new.adopt(make_part(parts, "t-0", b"one"), "t-0")
        make_part(parts, "t-1", b"not adopted")
    assert os.listdir(tmp_path) == []


def test_an_error_at_any_step_leaves_nothing(tmp_path: Path) -> None:
    disk = CountingDisk()
    make(tmp_path / "counted", disk)
    for number in range(len(disk.steps)):
        target = tmp_path / f"new{number}"
        with pytest.raises(WriteError):
            make(target, FailingDisk(number, errno.EIO))
        assert not target.exists() or files(target) == WHOLE
        assert [path.name for path in tmp_path.iterdir() if path.name != "counted"] in ([], [target.name])
        if target.exists():
            return


def test_what_a_killed_run_left_is_named(tmp_path: Path) -> None:
    disk = CountingDisk()
    make(tmp_path / "counted", disk)
    for number in range(1, len(disk.steps)):
        target = tmp_path / f"new{number}"
        with pytest.raises(Killed):
            make(target, DyingDisk(number))
        assert not target.exists() or files(target) == WHOLE
        left = [path.name for path in tmp_path.glob(f"new{number}.*")]
        assert target.exists() or not left or "left by a run" in str(new_dir_problem(str(target)))
