"""The lock of a log directory: as Java takes it, found from a partition, taken away where it was not there before."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import stat
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import AccessError, LockedError
from kafkalog_core.storage import locks
from kafkalog_core.storage.changing import lock
from kafkalog_core.storage.changing.lock import LogDirLocks
from kafkalog_core.storage.changing.writer import Disk, WriteError
from kafkalog_core.storage.locks import OWN_LOCK, holder_at_work, lock_holder, locked_dirs, unlocked_dirs
from kafkalog_core.storage.source import Source
from tests.support.other_users import let_others_in
from tests.support.repairs import LOCK_HOLDER, OWNER, DyingDisk, Killed, names_of_ours

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPENER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
print("open", flush=True)
sys.stdin.readline()
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
"""
TRIER = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
"""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "kafka"
    (directory / "t-0").mkdir(parents=True)
    (directory / "meta.properties").write_text("version=1\n")
    os.chown(directory, *OWNER)
    directory.chmod(0o755)
    return directory


@pytest.fixture
def holder(log_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    (log_dir / ".lock").touch()
    command = [sys.executable, "-c", LOCK_HOLDER, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield child
        child.communicate()


def open_files() -> int:
    """How many files this process has open."""
    gc.collect()  # directories are closed with what holds them
    return len(os.listdir("/dev/fd"))


def may_lock(log_dir: Path) -> bool:
    """Whether another process gets it."""
    return subprocess.run([sys.executable, "-c", TRIER, str(log_dir / ".lock")], check=False).returncode == 0


def test_it_is_held_and_let_go(log_dir: Path) -> None:
    (log_dir / ".lock").touch()
    locks = LogDirLocks([str(log_dir)], Disk())
    with locks as entered:
        assert entered is locks
        assert not may_lock(log_dir)
    assert may_lock(log_dir)


def test_held_by_another(log_dir: Path, holder: subprocess.Popen[bytes]) -> None:
    with pytest.raises(LockedError, match=r"\.lock: held by .*\. Stop it, and run the same command again") as caught:
        LogDirLocks([str(log_dir)], Disk()).__enter__()
    found = lock_holder(str(log_dir))
    if os.path.exists("/proc/locks"):
        assert f"process {holder.pid}" in str(caught.value)
        assert found is not None
        assert found.name.startswith(f"process {holder.pid} (")
        assert found.sentence == found.name, "it is not known what it is"


@pytest.mark.parametrize(
    ("comm", "line", "expected"),
    [
        ("kafkalog", "/usr/bin/python3 /usr/bin/kafkalog", ("kafkalog", "kafkalog")),
        ("kafkalog", "python3 -I /a/kafkalog --quiet truncate /d", ("kafkalog truncate", "kafkalog")),
        ("python3", "python3 -m kafkalog_cli undo /d", ("kafkalog undo", "kafkalog")),
        ("python3", "python3 -I -m kafkalog_cli", ("kafkalog", "kafkalog")),
        ("python3", "python3 -m other kafkalog", ("python3", "other")),
        ("python3", "python3 -m", ("python3", "other")),
        ("python3", "python3 -m other kafkalog_cli undo", ("python3", "other")),
        ("python3", "kafkalog_cli -m other undo", ("python3", "other")),
        ("python3", "python3 /a/other /a/kafkalog", ("python3", "other")),
        ("java", "java -cp kafkalog -Xmx1g kafka.Kafka server.properties", ("java", "broker")),
        ("java", "java", ("java", "broker")),
        ("kafka", "/opt/kafka/kafka kafka.Kafka", ("kafka", "broker")),
        ("sh", "", ("sh", "other")),
    ],
)
def test_what_a_holder_is_by_its_command_line(comm: str, line: str, expected: tuple[str, str]) -> None:
    assert locks._kind_of(comm, line.split(" ")) == expected


@pytest.mark.parametrize(("pid", "name"), [("999999999", "process 999999999"), ("0", "another process"), ("-1", None)])
def test_a_holder_that_cannot_be_looked_at(pid: str, name: str | None) -> None:
    """It is in another PID namespace: it has a number of this one, or none, which is 0 or -1."""
    if pid == "0" and os.path.exists("/proc/0"):
        pytest.skip("the system has a process 0")
    holder = locks._process(pid)
    assert (holder.sentence, holder.advice) == (name or "another process", "Stop it")


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system does not tell who holds a lock")
def test_another_run_of_kafkalog_is_no_broker(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / ".lock").touch()
    script = tmp_path / "kafkalog"
    script.write_text(LOCK_HOLDER.replace("argv[1]", "argv[2]"))
    command = [sys.executable, str(script), "truncate", str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(LockedError) as caught:
            LogDirLocks([str(log_dir)], Disk()).__enter__()
        child.communicate()
    text = (
        f"held by process {child.pid} (kafkalog truncate), another run of kafkalog. Wait until it ends, and "
        "run the same"
    )
    assert text in str(caught.value)


def test_nobody_holds_it(log_dir: Path) -> None:
    assert lock_holder(str(log_dir)) is None
    (log_dir / ".lock").touch()
    assert lock_holder(str(log_dir)) is None
    with LogDirLocks([str(log_dir)], Disk()):
        assert lock_holder(str(log_dir)) is None  # that is us


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system does not tell who holds a lock")
@pytest.mark.parametrize(
    ("is_held", "grows_after", "expected", "waits"),
    [
        (False, 1, False, 0),  # nobody writes there
        (True, 0, True, 0),  # it has grown since it was opened
        (True, 3, True, 3),  # the broker stood still in the middle of a write
        (True, None, False, locks._TRIES),  # what a crash cut off before that broker started
    ],
)
def test_a_batch_that_a_live_broker_is_writing(
    log_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    is_held: bool,
    grows_after: int | None,
    expected: bool,
    waits: int,
) -> None:
    class Clock:
        waited = 0

        def wait(self, seconds: float) -> None:
            assert seconds == locks._PAUSE_SECONDS
            Clock.waited += 1
            if Clock.waited == grows_after:
                grow()

    def grow() -> None:
        with open(log, "ab") as file:
            file.write(b"the rest")

    if is_held:
        request.getfixturevalue("holder")
    monkeypatch.setattr(locks, "Event", Clock)
    log = log_dir / "written-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(b"half of a batch, ")
    with Source.open(str(log)) as source:
        if grows_after == 0:
            grow()
        assert locks.is_being_written(source, 0) is expected
    assert Clock.waited == waits


def test_of_two_the_first_is_let_go_where_the_second_is_held(
    log_dir: Path, tmp_path: Path, holder: subprocess.Popen[bytes]
) -> None:
    del holder
    other = tmp_path / "a"
    other.mkdir()
    (other / ".lock").touch()
    with pytest.raises(LockedError):
        LogDirLocks([str(other), str(log_dir)], Disk()).__enter__()
    assert may_lock(other)


def test_one_that_is_missing_is_made_for_the_broker(log_dir: Path) -> None:
    with LogDirLocks([str(log_dir)], Disk()):
        assert not may_lock(log_dir)
        status = (log_dir / ".lock").stat()
        assert (status.st_uid, status.st_gid) == OWNER
        assert stat.S_IMODE(status.st_mode) == 0o644
        assert status.st_size == 0
        assert names_of_ours(log_dir) == []
    assert not (log_dir / ".lock").exists()


def test_what_a_killed_process_of_the_same_number_left_is_replaced(log_dir: Path) -> None:
    left = log_dir / f"{lock._PREFIX}{os.getpid()}{lock._SUFFIX}"
    left.write_text("left")
    with LogDirLocks([str(log_dir)], Disk()):
        assert (log_dir / ".lock").read_bytes() == b""
        assert not left.exists()


def test_somebody_else_makes_it_at_the_same_moment(log_dir: Path) -> None:
    class Racing(Disk):
        def step(self, what: str, path: str) -> None:
            if what == "link":
                (log_dir / ".lock").write_text("theirs")

    with LogDirLocks([str(log_dir)], Racing()):
        assert not may_lock(log_dir)
    assert (log_dir / ".lock").read_text() == "theirs"
    assert names_of_ours(log_dir) == []


@pytest.mark.parametrize("is_replaced", [True, False])
def test_one_that_is_deleted_or_replaced_while_it_is_held_is_not_ours_to_delete(
    log_dir: Path, is_replaced: bool
) -> None:
    with LogDirLocks([str(log_dir)], Disk()):
        (log_dir / ".lock").unlink()
        if is_replaced:
            (log_dir / ".lock").write_text("theirs")
    assert [path.read_text() for path in log_dir.glob(".lock")] == ["theirs"] * is_replaced


def test_without_hard_links(log_dir: Path) -> None:
    class Unlinking(Disk):
        def link(self, path: str, new_path: str) -> bool:
            del path, new_path
            return False

    with LogDirLocks([str(log_dir)], Unlinking()):
        assert not may_lock(log_dir)
        assert (log_dir / ".lock").stat().st_uid == OWNER[0]
    assert not (log_dir / ".lock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("has_lock", [False, True])
def test_a_foreign_directory(log_dir: Path, has_lock: bool) -> None:
    let_others_in(log_dir)
    log_dir.chmod(0o777)
    if has_lock:
        (log_dir / ".lock").touch(mode=0o644)
    os.seteuid(65534)
    try:
        with pytest.raises(AccessError, match=r"as that user, or as root|as the broker's user, or as root"):
            LogDirLocks([str(log_dir)], Disk()).__enter__()
    finally:
        os.seteuid(0)
    assert (log_dir / ".lock").exists() == has_lock


def test_found_from_a_partition_and_through_links(log_dir: Path, tmp_path: Path) -> None:
    link = tmp_path / "link-0"
    link.symlink_to(log_dir / "t-0")
    assert locked_dirs([str(log_dir / "t-0")]) == [str(log_dir)]
    assert locked_dirs([str(log_dir), str(log_dir / "t-0"), str(link)]) == [str(log_dir)]
    second = tmp_path / "kafka2"
    second.mkdir()
    (second / ".lock").touch()
    (second / "t-0").symlink_to(log_dir / "t-0")
    assert locked_dirs([str(second / "t-0")]) == [str(log_dir), str(second)]
    assert locked_dirs([str(log_dir / "t-0/a/b"), str(log_dir / "t-0/a/b/c")]) == [str(log_dir)]


def test_a_lock_above_one_path_and_far_above_another(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / ".lock").touch()
    assert locked_dirs([str(tmp_path / "a" / "b" / "c")]) == []
    assert locked_dirs([str(tmp_path / "a" / "b" / "c"), str(tmp_path / "a" / "b")]) == [str(tmp_path / "a")]


def test_outside_of_any_there_is_nothing_to_lock(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert locked_dirs([str(tmp_path / "t-0")]) == []


def test_a_disk_that_is_mounted_read_only(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (log_dir / ".lock").touch()
    really = os.open

    def refuse(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return really(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(AccessError, match="mounted read-only"), LogDirLocks([str(log_dir)], Disk()):
        raise AssertionError


def test_a_lock_has_its_owner_before_it_has_its_name_and_its_name_is_fsynced(log_dir: Path) -> None:
    """A broker that starts at any moment finds none, or one that it can open."""

    class Noting(Disk):
        def __init__(self) -> None:
            self.steps: list[tuple[str, str]] = []

        def step(self, what: str, path: str) -> None:
            self.steps.append((what, path))

    disk = Noting()
    with LogDirLocks([str(log_dir)], disk):
        made = [what for what, _ in disk.steps]
        assert {path for _, path in disk.steps[: made.index("link")]} == {f"{log_dir}/kafkalog-lock.{os.getpid()}.tmp"}
        assert made.index("create") < made.index("chmod") < made.index("fsync") < made.index("link")
        assert disk.steps[-1] == ("fsync", str(log_dir))
        assert made[made.index("link") :] == ["link", "unlink", "open", "fsync"]


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("has_links", [True, False])
def test_an_error_at_the_first_lock_leaves_nothing_that_keeps_a_broker_out(log_dir: Path, has_links: bool) -> None:
    class Failing(Disk):
        def __init__(self, at: int) -> None:
            self.left, self.failed = at, ""

        def step(self, what: str, path: str) -> None:
            self.left -= 1
            if self.left == -1:
                self.failed = f"{what} {os.path.relpath(path, log_dir)}"
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

        def link(self, path: str, new_path: str) -> bool:
            return has_links and super().link(path, new_path)

    before, failed = open_files(), []
    temporary = f"kafkalog-lock.{os.getpid()}.tmp"
    for at in range(30):
        disk = Failing(at)
        try:
            with LogDirLocks([str(log_dir)], disk):
                break
        except WriteError:
            failed.append(disk.failed)
        is_left, is_half_left = (log_dir / ".lock").exists(), (log_dir / temporary).exists()
        assert is_left == (disk.failed in {f"unlink {temporary}", "open .", "fsync ."}), disk.failed
        assert is_half_left == (disk.failed == f"unlink {temporary}")
        if is_left:
            status = (log_dir / ".lock").stat()
            assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (*OWNER, 0o644)
        for name in (".lock", temporary):
            (log_dir / name).unlink(missing_ok=True)
    assert "fsync ." in failed
    assert open_files() == before
    assert (f"chmod {temporary}" if has_links else "chmod .lock") in failed


def test_only_what_was_to_become_a_lock_is_swept_away(log_dir: Path) -> None:
    """The broker has files that end in `.tmp` next to it, and reads some of them."""
    kept = ["recovery-point-offset-checkpoint.tmp", "kafkalog-lock.1", "kafkalog-lock", "x.kafkalog-lock.1.tmp"]
    for name in (*kept, "kafkalog-lock.1.tmp"):
        (log_dir / name).touch()
    with LogDirLocks([str(log_dir)], Disk()):
        pass
    assert sorted(os.listdir(log_dir)) == sorted([*kept, "meta.properties", "t-0"])


def test_a_kill_at_the_first_lock_leaves_nothing_for_ever(log_dir: Path) -> None:
    """At each step of making the lock: the next run takes away what is left, and leaves no lock that was not there."""
    left = 0
    for at in range(12):
        for name in (".lock", f"kafkalog-lock.{os.getpid()}.tmp"):
            (log_dir / name).unlink(missing_ok=True)
        try:
            with LogDirLocks([str(log_dir)], DyingDisk(at)):
                pass
        except Killed:
            left += 1
        names = names_of_ours(log_dir)
        if names:  # the next process has another number
            os.rename(names[0], log_dir / "kafkalog-lock.1.tmp")
        with LogDirLocks([str(log_dir)], Disk()):
            assert names_of_ours(log_dir) == []
    assert left > 5


def test_a_lock_is_held_until_nobody_has_it_open_any_more(log_dir: Path) -> None:
    """A broker that opened the file just before its name goes must not get the lock: no other process could find it."""
    lock = LogDirLocks([str(log_dir)], Disk())
    lock.__enter__()
    command = [sys.executable, "-c", OPENER, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"open\n"
        closing = threading.Thread(target=lock.__exit__)
        closing.start()
        while (log_dir / ".lock").exists() and closing.is_alive():
            time.sleep(0.001)
        broker.communicate(b"now\n")
        closing.join()
    assert broker.returncode == 7


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open elsewhere")
@pytest.mark.parametrize(("waits", "seconds"), [(3, 0.03), (None, 2.0)])
def test_it_is_asked_often_and_not_for_ever_who_has_it_open(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, waits: int | None, seconds: float
) -> None:
    opened: list[int] = []
    waited: list[float] = []

    class Clock:
        def wait(self, seconds: float) -> None:
            assert not (log_dir / ".lock").exists()
            waited.append(seconds)
            if len(waited) == waits:
                os.close(opened.pop())

    monkeypatch.setattr(lock, "Event", Clock)
    before = open_files()
    with LogDirLocks([str(log_dir)], Disk()):
        opened.append(os.open(log_dir / ".lock", os.O_RDONLY))
    assert sum(waited) == pytest.approx(seconds)
    assert open_files() == before + len(opened)
    assert len(opened) == (waits is None)
    for number in opened:
        os.close(number)


@pytest.mark.parametrize(("number", "waits"), [(errno.EAGAIN, 200), (errno.EACCES, 200), (errno.EINVAL, 0), (None, 0)])
def test_a_system_or_a_file_system_that_knows_no_leases_is_not_waited_for(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, number: int | None, waits: int
) -> None:
    waited: list[float] = []

    class Clock:
        def wait(self, seconds: float) -> None:
            waited.append(seconds)

    def lease(*_: int) -> None:
        raise OSError(number, "")

    monkeypatch.setattr(lock, "Event", Clock)
    if number is None:
        monkeypatch.delattr(lock.fcntl, "F_SETLEASE", raising=False)
    else:
        monkeypatch.setattr(lock.fcntl, "F_SETLEASE", 1024, raising=False)
        monkeypatch.setattr(lock.fcntl, "fcntl", lease)
    with LogDirLocks([str(log_dir)], Disk()):
        pass
    assert (len(waited), (log_dir / ".lock").exists()) == (waits, False)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open elsewhere")
def test_asking_who_has_a_file_open_leaves_no_lease(tmp_path: Path) -> None:
    """The signal that a lease ends with ends the process."""
    with open(tmp_path / "file", "wb") as file:
        assert lock._is_alone(file.fileno())
        assert fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_UNLCK


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_is_no_lock_is_not_opened(log_dir: Path, tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("secret")
    path = log_dir / ".lock"
    {"link": lambda: path.symlink_to(victim), "fifo": lambda: os.mkfifo(path), "directory": path.mkdir}[kind]()
    before = open_files()
    with pytest.raises(AccessError, match=r"\.lock: (cannot be locked: it is|the system cannot read it)"):
        LogDirLocks([str(log_dir)], Disk()).__enter__()
    assert open_files() == before
    assert victim.read_text() == "secret"


# --- a lock of our own ------------------------------------------------------------------------------------------------
def test_outside_of_any_it_is_our_own(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    os.chown(partition, *OWNER)
    assert unlocked_dirs([str(partition), str(partition)]) == [str(partition)]
    with LogDirLocks([], Disk(), [str(partition)]):
        (name,) = os.listdir(partition)
        assert name == OWN_LOCK
        assert not name[0].isdigit()
        assert not name.endswith((".deleted", ".swap", ".cleaned", ".log", ".index", ".timeindex", ".snapshot"))
        assert (partition / name).stat().st_uid == OWNER[0]
        command = [sys.executable, "-c", TRIER, str(partition / name)]
        assert subprocess.run(command, check=False).returncode == 7
    assert os.listdir(partition) == []
    (partition / OWN_LOCK).touch()  # of a run that was killed
    with LogDirLocks([], Disk(), [str(partition)]):
        assert os.listdir(partition) == [OWN_LOCK]
    assert os.listdir(partition) == []


@pytest.mark.parametrize("kept", [0o700, 0o750, 0o755])
def test_our_own_is_for_its_owner_and_those_who_may_read_the_directory(tmp_path: Path, kept: int) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    partition.chmod(kept)
    with LogDirLocks([], Disk(), [str(partition)]):
        mode = stat.S_IMODE((partition / OWN_LOCK).stat().st_mode)
    assert os.geteuid() or mode == 0o600 | (kept & 0o044)


def test_our_own_that_its_last_holder_deletes_is_made_again(tmp_path: Path) -> None:
    class Deleted(Disk):
        times = 3

        def write_file(self, path: str, *rest: Any) -> tuple[int, str]:
            made = super().write_file(path, *rest)
            self.times -= 1
            if self.times >= 0:
                os.unlink(path)
            return made

    disk = Deleted()
    with LogDirLocks([], disk, [str(tmp_path)]):
        assert os.listdir(tmp_path) == [OWN_LOCK]
        command = [sys.executable, "-c", TRIER, str(tmp_path / OWN_LOCK)]
        assert subprocess.run(command, check=False).returncode == 7
    assert (disk.times, os.listdir(tmp_path)) == (-1, [])


def test_our_own_that_is_deleted_while_it_is_opened_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever held it deletes it at its end: a lock on a file without a name keeps nobody out."""
    really, deleted, before = fcntl.lockf, [0], open_files()

    def late(number: int, command: int) -> None:
        deleted[0] += 1
        if deleted[0] < 4:
            os.unlink(tmp_path / OWN_LOCK)
        really(number, command)

    monkeypatch.setattr(lock.fcntl, "lockf", late)
    with LogDirLocks([], Disk(), [str(tmp_path)]):
        assert (os.listdir(tmp_path), deleted) == ([OWN_LOCK], [4])
        monkeypatch.undo()
        command = [sys.executable, "-c", TRIER, str(tmp_path / OWN_LOCK)]
        assert subprocess.run(command, check=False).returncode == 7
        assert open_files() <= before + 2  # the lock, and the directory
    assert os.listdir(tmp_path) == []
    assert open_files() == before


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system does not tell who holds a lock")
@pytest.mark.parametrize("is_outside", [False, True])
def test_who_holds_what_a_repair_takes(log_dir: Path, tmp_path: Path, is_outside: bool) -> None:
    place = tmp_path / "t-1" if is_outside else log_dir
    path = place / (OWN_LOCK if is_outside else ".lock")
    place.mkdir(exist_ok=True)
    assert holder_at_work(str(place)) is None
    path.touch()
    command = [sys.executable, "-c", LOCK_HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        assert str(holder_at_work(str(place))).startswith(f"process {child.pid} (")
        child.communicate()
    assert holder_at_work(str(place)) is None


@pytest.mark.parametrize("is_outside", [False, True])
def test_where_the_system_does_not_tell_who_holds_it(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_outside: bool
) -> None:
    """A lock of kafkalog's is held by kafkalog; one of a log directory may be held by anything."""

    def held(number: int, command: int) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(locks, "_LOCKS", os.devnull)
    monkeypatch.setattr(lock.fcntl, "lockf", held)
    both = LogDirLocks([], Disk(), [str(tmp_path)]) if is_outside else LogDirLocks([str(log_dir)], Disk())
    path, whose, advice = (
        (tmp_path / OWN_LOCK, ", another run of kafkalog", "Wait until it ends")
        if is_outside
        else (log_dir / ".lock", "", "Stop it")
    )
    path.touch()
    before = open_files()
    with pytest.raises(LockedError) as caught:
        both.__enter__()
    assert str(caught.value) == (
        f"{path}: held by another process{whose}. {advice}, and run the same command again; nothing has been changed"
    )
    del both, caught
    assert open_files() == before


def test_a_system_without_locks_says_so(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(number: int, command: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    (log_dir / ".lock").touch()
    monkeypatch.setattr(lock.fcntl, "lockf", without)
    with pytest.raises(AccessError, match=r"\.lock: cannot be locked: no locks available$"):
        LogDirLocks([str(log_dir)], Disk()).__enter__()


@pytest.mark.parametrize(
    ("number", "error", "said"),
    [
        (None, LockedError, "is held by one process after another; run the same command again"),
        (errno.EACCES, AccessError, "without it two runs of kafkalog could change the same files; run this"),
    ],
)
def test_one_of_our_own_that_cannot_be_had(
    tmp_path: Path, number: int | None, error: type[Exception], said: str
) -> None:
    """Another process takes it away each time that it is made, or nobody may make it."""
    partition = tmp_path / "t-0"
    partition.mkdir()

    class Losing(Disk):
        def write_file(self, path: str, *given: Any) -> Any:
            if number is not None:
                raise WriteError(os.strerror(number), path=path, number=number)
            result = super().write_file(path, *given)
            os.unlink(path)
            return result

    with pytest.raises(error, match=said), LogDirLocks([], Losing(), [str(partition)]):
        raise AssertionError
    assert os.listdir(partition) == []


def test_a_log_directory_has_none_of_ours(log_dir: Path) -> None:
    assert unlocked_dirs([str(log_dir), str(log_dir / "t-0"), str(log_dir / "t-0" / "missing")]) == []


TAKER = """
import os, sys
from kafkalog_core.errors import LockedError
from kafkalog_core.storage.changing.lock import LogDirLocks
from kafkalog_core.storage.changing.writer import Disk, WriteError
held = 0
tries = 0
while held < 25 and (tries < 20_000 or not held):
    tries += 1
    try:
        with LogDirLocks([], Disk(), [sys.argv[1]]):
            os.mkdir(sys.argv[1] + "/only-one")
            os.rmdir(sys.argv[1] + "/only-one")
            held += 1
    except LockedError:
        pass
print(held)
"""


def test_many_processes_that_take_it_away_and_make_it_again(tmp_path: Path) -> None:
    """The process that deletes the file and the one that opens it at that moment never both hold the lock."""
    partition = tmp_path / "t-0"
    partition.mkdir()
    command = [sys.executable, "-c", TAKER, str(partition)]
    with ExitStack() as stack:
        children = [
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            for _ in range(3)
        ]
        for child in children:
            out, err = child.communicate()
            assert child.returncode == 0, err.decode()
            assert int(out) > 0
    assert os.listdir(partition) == []
