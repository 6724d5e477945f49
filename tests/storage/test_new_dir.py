"""A new directory tree is there whole or not at all, whatever ends its making."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from kafkalog_core.errors import NotFoundError, RefusedError
from kafkalog_core.storage.changing import new_dir
from kafkalog_core.storage.changing.new_dir import NewDir, new_dir_problem
from kafkalog_core.storage.changing.writer import Disk, WriteError
from tests.storage.new_dirs import MTIME_NS, make
from tests.support.repairs import OWNER, CountingDisk, DyingDisk, FailingDisk, Killed

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import os, sys
from pathlib import Path
from kafkalog_core.storage.changing.writer import Disk
from tests.storage.new_dirs import make

class Dying(Disk):
    left = int(sys.argv[2])

    def step(self, what, path):
        if not self.left:
            os.kill(os.getpid(), 9)
        self.left -= 1

make(Path(sys.argv[1]), Dying())
"""


def files(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


WHOLE = {"t-0/0.log": b"logloglog", "t-0/0.index": b"", "top": b"ab"}


def steps(tmp_path: Path) -> int:
    disk = CountingDisk()
    make(tmp_path / "counted", disk)
    return len(disk.steps)


def test_it_is_there_with_all_that_was_put_in(tmp_path: Path) -> None:
    make(tmp_path / "new", Disk())
    assert files(tmp_path / "new") == WHOLE
    assert (tmp_path / "new/t-0/0.log").stat().st_mtime_ns == MTIME_NS
    assert sorted(os.listdir(tmp_path)) == ["new"]


def test_an_empty_directory_of_that_name_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    make(tmp_path / "new", Disk())
    assert files(tmp_path / "new") == WHOLE


def test_owner_and_permissions_are_those_of_what_it_is_like(tmp_path: Path) -> None:
    like = tmp_path / "like"
    like.mkdir(mode=0o750)
    like.chmod(0o550)
    os.chown(like, *OWNER)
    with NewDir(str(tmp_path / "new"), disk=Disk(), like=str(like)) as new:
        new.directory("t-0")
        new.add("t-0/0.log", b"")
        new.commit()
    modes = [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("new", "new/t-0", "new/t-0/0.log")]
    assert modes == [0o750, 0o750, 0o640]
    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {OWNER}


def test_who_is_not_root_owns_what_he_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(os, "getegid", lambda: 4712)
    monkeypatch.setattr(os, "getgroups", list)
    new = NewDir(str(tmp_path / "new"), disk=Disk(), like=str(tmp_path))
    assert (new._of_files.uid, new._of_files.gid) == (4711, 4712)


def test_all_is_on_the_disk_before_it_has_its_name_and_nothing_is_done_afterwards(tmp_path: Path) -> None:
    class Noting(Disk):
        steps: ClassVar[list[tuple[str, str]]] = []

        def step(self, what: str, path: str) -> None:
            self.steps.append((what, os.path.relpath(path, tmp_path)))

    make(tmp_path / "new", Noting())
    seen = [(what, path.replace(".kafkalog-unfinished", "*")) for what, path in Noting.steps]
    ends = [(what, path) for what, path in seen if what in {"fsync", "rename"}]
    assert [path for what, path in ends[:-2]] == ["new*/t-0/0.log", "new*/t-0/0.index", "new*/top", "new*/t-0", "new*"]
    assert ends[-2:] == [("rename", "new"), ("fsync", ".")]
    assert seen[-1] == ends[-1]


def test_without_a_commit_nothing_is_left(tmp_path: Path) -> None:
    with NewDir(str(tmp_path / "new"), disk=Disk(), like=str(tmp_path)) as new:
        new.directory("t-0")
        new.begin("t-0/0.log").write(b"half")
    assert os.listdir(tmp_path) == []


def test_only_what_was_put_in_is_taken_away_again(tmp_path: Path) -> None:
    """Somebody else's file in it is left, with the directories that lead to it; what was being written is closed."""
    before = len(os.listdir("/dev/fd"))
    with NewDir(str(tmp_path / "new"), disk=Disk(), like=str(tmp_path)) as new:
        for name in ("t-0", "t-1"):
            new.directory(name)
            new.begin(f"{name}/0.log").write(b"half")
        (tmp_path / "new.kafkalog-unfinished/t-0/theirs").write_text("theirs")
    assert files(tmp_path) == {"new.kafkalog-unfinished/t-0/theirs": b"theirs"}
    assert [path.name for path in tmp_path.rglob("*")] == ["new.kafkalog-unfinished", "t-0", "theirs"]
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a//b", "a/./b"])
def test_names_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    with NewDir(str(tmp_path / "new"), disk=Disk(), like=str(tmp_path)) as new, pytest.raises(NotFoundError):
        new.add(name, b"")


# --- what ends it --------------------------------------------------------------------------------------------------
def test_an_error_at_any_step_leaves_nothing(tmp_path: Path) -> None:
    for number in range(steps(tmp_path)):
        target = tmp_path / f"new{number}"
        with pytest.raises((WriteError, OSError)):
            make(target, FailingDisk(number, errno.EIO))
        left = sorted(path.name for path in tmp_path.iterdir() if path.name != "counted")
        assert left in ([], [target.name]), number
        if left:  # only the last fsync was missing
            assert files(target) == WHOLE
            return


def test_an_exception_of_any_kind_leaves_nothing_or_all(tmp_path: Path) -> None:
    for number in range(steps(tmp_path)):
        target = tmp_path / f"new{number}"
        with pytest.raises(Killed):
            make(target, DyingDisk(number))
        assert not target.exists() or files(target) == WHOLE


def test_a_process_that_is_killed_at_any_step_leaves_nothing_of_that_name_or_all(tmp_path: Path) -> None:
    for number in range(0, steps(tmp_path), 3):
        target = tmp_path / f"new{number}"
        done = subprocess.run([sys.executable, "-c", CHILD, str(target), str(number)], cwd=ROOT, check=False)
        assert done.returncode == -9
        if target.exists():
            assert files(target) == WHOLE
            continue
        if number:
            problem = new_dir_problem(str(target))
            assert problem is not None
            assert "left by a run that was interrupted" in problem
        (unfinished,) = [*tmp_path.glob(f"new{number}.*")] or [None]
        assert (unfinished is None) == (number == 0)


# --- where it is not made ------------------------------------------------------------------------------------------
def refuse(path: Path, words: str, *, needs_bytes: int = 0) -> None:
    before = sorted(path.parent.rglob("*"))
    with (
        pytest.raises(RefusedError, match=words) as caught,
        NewDir(str(path), disk=Disk(), like=str(path.anchor), needs_bytes=needs_bytes),
    ):
        pass
    assert caught.value.path == str(path)
    assert sorted(path.parent.rglob("*")) == before


def test_places_that_are_taken(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    refuse(tmp_path / "full", "not empty")
    refuse(tmp_path / "full/file", "a file or link")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    refuse(tmp_path / "link", "a file or link")
    refuse(tmp_path / "no/such", f"there is no directory {tmp_path}/no")
    (tmp_path / "new.kafkalog-unfinished").mkdir()
    refuse(tmp_path / "new", r"interrupted; delete it first \(rm -r\)")


def test_among_the_files_of_a_broker(tmp_path: Path) -> None:
    (tmp_path / "logs/t-0/deep").mkdir(parents=True)
    (tmp_path / "logs/meta.properties").touch()
    refuse(tmp_path / "logs/new", "in a broker's directory")
    refuse(tmp_path / "logs/t-0/deep/new", "in a broker's directory")
    (tmp_path / "u-0").mkdir()
    (tmp_path / "u-0/00000000000000000000.log").touch()
    refuse(tmp_path / "u-0/new", "in a broker's directory")


def test_too_little_room(tmp_path: Path) -> None:
    refuse(tmp_path / "new", "bytes are needed, and", needs_bytes=2**62)


def test_room_is_enough_to_the_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_dir, "free_bytes", lambda _: 700)
    assert new_dir_problem(str(tmp_path / "new"), 700) is None
    assert new_dir_problem(str(tmp_path / "new"), 701) == (
        f"701 bytes are needed, and 700 are free on the file system of {tmp_path}; name a directory on another one"
    )
    make(tmp_path / "new", Disk())
    monkeypatch.setattr(new_dir, "free_bytes", lambda _: 99)
    refuse(tmp_path / "other", "^.*100 bytes are needed, and 99 are free", needs_bytes=100)
    monkeypatch.setattr(new_dir, "free_bytes", lambda _: 0)
    assert new_dir_problem(str(tmp_path / "other")) is None
    with NewDir(str(tmp_path / "other"), disk=Disk(), like=str(tmp_path)) as new:
        new.commit()


def test_what_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in (os.W_OK, os.X_OK):
        monkeypatch.setattr(os, "access", lambda _, mode, needed=needed, **__: not mode & needed)
        refuse(tmp_path / "new", "no permission to create a directory in")
    monkeypatch.undo()
    (tmp_path / "mount").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path / "mount"))
    assert new_dir.new_dir_problem(str(tmp_path / "mount")) == (
        "it is a mount point, which cannot be replaced; name a directory in it"
    )


def test_a_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)

    class ReadOnly:
        f_flag = os.ST_RDONLY
        f_bfree, f_bavail, f_frsize = real.f_bfree, real.f_bavail, real.f_frsize

    monkeypatch.setattr(os, "statvfs", lambda _: ReadOnly)
    refuse(tmp_path / "new", "mounted read-only")
