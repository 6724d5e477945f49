"""Processes that do tasks: order, progress, the end of one of them, the end of all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from multiprocessing import forkserver
from pathlib import Path

import pytest

from kafkalog_core.engine import processes
from kafkalog_core.engine.processes import Pool
from kafkalog_core.engine.spool import MOST_FILES, SPOOL_BYTES, sent
from kafkalog_core.errors import NotFoundError, StorageError, WorkerLostError
from tests.engine.pool_work import (
    CountedProgress,
    double,
    fail,
    function_of_its_own,
    kill_oneself,
    leave,
    read_for_ever,
    refuse_twice,
    repeat,
    whoami,
    write_and_die,
    write_and_fail,
    write_for_ever,
    write_in_room,
    write_much,
    write_numbers,
)

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
SECONDS = 300.0
"""After which what does not come is given up."""


@pytest.fixture(params=["fork", "forkserver", "spawn"])
def pool_of(request, monkeypatch):
    """Make pools of processes of each kind: copies of this one or of a server, as on Linux, and others, as on macOS."""
    if request.param == "fork":
        return partial(Pool, may_fork=True)
    monkeypatch.setattr(processes, "START_METHOD", request.param)
    return Pool


@pytest.fixture
def scratch_below(tmp_path, monkeypatch):
    """The directory of temporary files, which is empty before."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def spooled_in(directory):
    """The files of tasks below a directory, apart from those of the server."""
    return [path for path in directory.glob("kafkalog-workers-*/*") if path.name.startswith("task-")]


def test_results_come_in_the_order_of_the_pieces(pool_of):
    told = CountedProgress()
    with pool_of(2, told) as pool:
        pids = list(pool.map(whoami, [()] * 10))
        assert list(pool.map(double, ((number,) for number in range(100)))) == list(range(0, 200, 2))
    assert told.bytes == 10 + sum(range(100))
    assert os.getpid() not in pids
    assert all(is_gone(pid) for pid in pids)


def test_pieces_and_results_of_any_size(pool_of):
    """More than a pipe has room for, both ways, of more pieces than there are processes."""
    data = os.urandom(300_000)
    with pool_of(3, CountedProgress()) as pool:
        sizes = [len(each) for each in pool.map(repeat, [(data, number % 5) for number in range(20)])]
    assert sizes == [300_000 * (number % 5) for number in range(20)]


def test_several_maps_at_the_same_time(pool_of):
    with pool_of(2, CountedProgress()) as pool:
        first = pool.map(double, ((number,) for number in range(50)))
        second = pool.map(repeat, ((b"x", number) for number in range(50)))
        assert [next(first) for _ in range(3)] == [0, 2, 4]
        assert [len(each) for each in second] == list(range(50))
        assert list(first) == list(range(6, 100, 2))


@pytest.mark.parametrize("work_of", [refuse_twice, function_of_its_own])
def test_what_cannot_be_sent_is_an_error(pool_of, work_of):
    """And the other pieces are done."""
    with pool_of(1, CountedProgress()) as pool:
        with pytest.raises((RuntimeError, AttributeError), match=r"OneWayError: x y|function_of_its_own"):
            list(pool.map(work_of, [()]))
        assert list(pool.map(double, [(4,)])) == [8]


def test_what_no_work_should_raise_is_said_with_its_place(pool_of):
    """A debugger reads where: the traceback stays behind."""
    with pool_of(1, CountedProgress()) as pool, pytest.raises(RuntimeError, match=r"SystemExit\(3\)") as caught:
        list(pool.map(leave, [()]))
    assert "in leave" in "".join(caught.value.__notes__)


def test_to_block_ctrl_c_may_raise_it(monkeypatch):
    """It runs the handler of one that came just before, when the signal is blocked already."""
    mask = signal.pthread_sigmask

    def raising(how, signals):
        before = mask(how, signals)
        if how == signal.SIG_BLOCK and signals:
            raise KeyboardInterrupt
        return before

    monkeypatch.setattr(signal, "pthread_sigmask", raising)
    with pytest.raises(KeyboardInterrupt), processes._sigint_blocked():
        raise AssertionError
    assert signal.SIGINT not in mask(signal.SIG_BLOCK, ())


def test_a_process_that_ignores_its_children(pool_of):
    """As a supervisor may start it: the system then forgets each of them at its end."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pool_of(2, CountedProgress()) as pool:
            assert list(pool.map(double, [(4,)] * 4)) == [8] * 4
        with pytest.raises(WorkerLostError, match="killed"), pool_of(2, CountedProgress()) as pool:
            list(pool.map(kill_oneself, [()] * 50))
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_nothing_is_left_open(pool_of):
    with pool_of(1, CountedProgress()) as pool:
        list(pool.map(double, [(4,)]))  # the server of the second kind stays
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pool_of(2, CountedProgress()) as pool:
            list(pool.map(double, [(4,)] * 4))
    assert len(os.listdir("/proc/self/fd")) == before


def test_pieces_are_taken_as_there_is_room():
    taken = []

    def pieces():
        for number in range(1000):
            taken.append(number)
            yield (number,)

    with Pool(1, CountedProgress()) as pool:
        results = pool.map(double, pieces())
        assert next(results) == 0
        assert len(taken) < 10


def test_what_fails_there_fails_here(pool_of):
    with pool_of(1, CountedProgress()) as pool, pytest.raises(StorageError, match="no such file") as caught:
        list(pool.map(fail, [()]))
    assert caught.value.path == "x"


def test_a_process_that_is_killed_is_told_in_one_sentence(pool_of):
    with pytest.raises(WorkerLostError, match="killed"), pool_of(2, CountedProgress()) as pool:
        list(pool.map(kill_oneself, [()] * 50))


def test_a_long_temporary_directory_is_no_obstacle(monkeypatch, tmp_path):
    """A server process would listen on a socket in it, and the address of a socket is short."""
    place = tmp_path / ("x" * 120)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with Pool(1, CountedProgress()) as pool:
        assert list(pool.map(double, [(1,), (2,)])) == [2, 4]


@pytest.mark.parametrize("started", [0, 1])
def test_a_process_that_cannot_be_started(started, monkeypatch):
    """For want of descriptors, say."""
    pipe, is_short = os.pipe, False

    def few_pipes():
        if is_short:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pipe()

    with Pool(1, CountedProgress()) as pool:
        assert list(pool.map(double, [(4,)])) == [8]  # the server is there
    monkeypatch.setattr(os, "pipe", few_pipes)
    with Pool(3, CountedProgress()) as pool:
        for _ in range(started):
            assert list(pool.map(double, [(4,)])) == [8]
        is_short = True
        with pytest.raises(WorkerLostError, match=r"started: .*Too many open files; --jobs 1"):
            list(pool.map(double, [(4,)] * 9))
        is_short = False
    server = forkserver._forkserver._forkserver_pid
    wait_for(lambda: is_gone(server))  # it does not survive a request that ends early


def test_no_thread_can_be_started(monkeypatch):
    """Which a limit of processes counts."""

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with Pool(2, CountedProgress()) as pool, monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refuse)
        with pytest.raises(WorkerLostError, match="started: can't start new thread"):
            list(pool.map(double, [(4,)] * 4))


def test_an_end_in_the_middle_ends_all(pool_of, tmp_path, scratch_below):
    pids = tmp_path / "pids"
    with pytest.raises(KeyboardInterrupt), pool_of(2, CountedProgress(limit=50)) as pool:
        list(pool.map(read_for_ever, [(str(pids),)] * 8))
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())
    assert not list(scratch_below.glob("kafkalog-*"))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("way", ["map(read_for_ever, [(path,)] * 8)", "outputs(write_for_ever, [(path,)] * 8)"])
def test_processes_end_with_the_one_that_waits_for_them(method, way, tmp_path, scratch_below):
    """Killed outright, it can say nothing to them; they clean up in its stead."""
    program = (
        "import sys\n"
        "import threading\n"
        "from kafkalog_core.engine import processes\n"
        "from tests.engine.pool_work import CountedProgress, read_for_ever, write_for_ever\n"
        "if __name__ == '__main__':\n"
        "    path, method = sys.argv[1:]\n"
        "    processes.START_METHOD = 'spawn' if method == 'spawn' else 'forkserver'\n"
        "    with processes.Pool(2, CountedProgress(), may_fork=method == 'fork') as pool:\n"
        f"        next(pool.{way})\n"
        "        threading.Event().wait()\n"
    )
    script, pids = tmp_path / "script.py", tmp_path / "pids"
    script.write_text(program)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch_below)}
    with subprocess.Popen([sys.executable, str(script), str(pids), method], env=environment) as process:
        wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        assert list(scratch_below.glob("kafkalog-workers-*"))
        process.kill()
    wait_for(lambda: all(is_gone(int(pid)) for pid in pids.read_text().split()))
    wait_for(lambda: not list(scratch_below.glob("kafkalog-workers-*")))


# --- what tasks write -------------------------------------------------------------------------------------------------
def test_what_tasks_write_comes_in_their_order(pool_of):
    told, found = CountedProgress(), []
    with pool_of(2, told) as pool:
        for number, output in enumerate(pool.outputs(write_numbers, ((100 * at, 100) for at in range(20)))):
            found += sent(output)
            assert output.result() == 100 * number + 100
    assert found == list(range(2000))
    assert told.bytes == 2000


@pytest.mark.parametrize("has_files", [True, False])
def test_bytes_that_are_in_the_memory_of_the_stream(has_files, monkeypatch):
    if not has_files:
        monkeypatch.setattr(processes, "_temporary_directory", lambda: None)
    with Pool(1, CountedProgress()) as pool:
        outputs = list(pool.outputs(write_in_room, [(3,)]))
        assert b"".join(outputs[0].data()) == bytes(7) + b"\0" + bytes(7) + b"\1" + bytes(7) + b"\2"
        assert outputs[0].result() == 3


def test_it_comes_while_the_task_is_at_work(pool_of, tmp_path):
    """A task without an end has bytes at once, and is stopped with the pool."""
    pids = tmp_path / "pids"
    with pool_of(1, CountedProgress()) as pool:
        output = next(pool.outputs(write_for_ever, [(str(pids),)] * 3))
        data = output.data()
        for _ in range(2 * MOST_FILES):
            piece = next(data)
            assert SPOOL_BYTES // 2 <= len(piece) <= SPOOL_BYTES
            assert piece == bytes(len(piece))
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())


@pytest.mark.parametrize("jobs", [1, 3])
def test_no_more_than_a_few_files_wait_for_their_reader(jobs, scratch_below):
    """Whatever is written: a process uses its files again."""
    taken, most, size_bytes = [], 0, 0

    def tasks():
        for number in range(8):
            taken.append(number)
            yield 1024 * 1024, 50

    with Pool(jobs, CountedProgress()) as pool:
        for number, output in enumerate(pool.outputs(write_much, tasks())):
            assert len(taken) <= number + jobs + 1
            for data in output.data():
                files = spooled_in(scratch_below)
                most = max(most, len(files))
                size_bytes += len(data)
                time.sleep(0.01)  # a slow reader
            assert output.result() == 50
    assert size_bytes == 8 * 50 * 1024 * 1024
    assert 1 < most <= jobs * (MOST_FILES + 1)
    assert not spooled_in(scratch_below)


def read_numbers(outputs, found):
    for output in outputs:
        found += sent(output)
        output.result()


@pytest.mark.parametrize("failing", [0, 3])
def test_what_was_written_before_an_error_comes_before_it(pool_of, failing):
    found = []
    with pool_of(2, CountedProgress()) as pool, pytest.raises(NotFoundError) as caught:
        read_numbers(pool.outputs(write_and_fail, ((number, failing) for number in range(9))), found)
    assert found == list(range(failing + 1))
    assert caught.value.path == "x"


def test_what_came_before_a_process_was_killed_is_in_order(pool_of, scratch_below):
    found = []
    with pytest.raises(WorkerLostError, match="killed"), pool_of(2, CountedProgress()) as pool:
        read_numbers(pool.outputs(write_and_die, ((number, 5) for number in range(50))), found)
    assert found == list(range(len(found)))
    assert len(found) <= 6
    assert not list(scratch_below.glob("kafkalog-*"))


def read_sizes(pool, outputs, sizes):
    for output in outputs:
        sizes.append(0)
        try:
            for data in output.data():
                sizes[-1] += len(data)
        except KeyboardInterrupt:
            pool.stop_counting()
            sizes[-1] += sum(map(len, output.data()))
            assert output.result() == 40
            raise
        assert output.result() == 40


@pytest.mark.parametrize("limit", [1, 20 << 20, 100 << 20])
def test_an_output_is_read_to_its_end_after_ctrl_c(limit):
    """What it has is whole then; the others end."""
    sizes = []
    with pytest.raises(KeyboardInterrupt), Pool(2, CountedProgress(limit)) as pool:
        read_sizes(pool, pool.outputs(write_much, [(1 << 20, 40)] * 20), sizes)
    assert sizes == [40 << 20] * len(sizes)
    assert 0 < len(sizes) < 20


def test_outputs_that_nobody_reads_hold_nothing_up(pool_of):
    with pool_of(2, CountedProgress()) as pool:
        next(pool.outputs(write_much, [(1 << 20, 500)] * 5))
        pool.stop_counting()


def test_results_and_outputs_of_one_pool():
    with Pool(2, CountedProgress()) as pool:
        first, second = (pool.outputs(write_numbers, [(at, 3), (at + 3, 3)]) for at in (0, 10))
        assert [list(sent(output)) for output in first] == [[0, 1, 2], [3, 4, 5]]
        assert list(pool.map(double, [(4,)])) == [8]
        assert [list(sent(output)) for output in second] == [[10, 11, 12], [13, 14, 15]]


def test_there_is_no_directory_for_temporary_files(monkeypatch):
    """As where all are read-only: what tasks write is kept in memory."""

    def refuse():
        raise FileNotFoundError(errno.ENOENT, "no usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    with Pool(2, CountedProgress()) as pool:
        assert pool.shortage == "no directory for temporary files can be written"
        outputs = list(pool.outputs(write_much, [(1 << 20, 9)] * 4))
    assert [b"".join(output.data()) for output in outputs] == [b"".join(bytes([at]) * (1 << 20) for at in range(9))] * 4
    assert [output.result() for output in outputs] == [9] * 4


def test_no_temporary_file_is_in_the_working_directory(tmp_path, monkeypatch):
    """Python takes it where no other is there; it may be one of a broker's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    with Pool(2, CountedProgress()) as pool:
        assert list(pool.map(double, [(4,)])) == [8]
        assert pool.shortage is not None
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # unless the user says so
    with Pool(2, CountedProgress()) as pool:
        assert pool.shortage is None
        assert list(tmp_path.iterdir())


def test_how_much_room_there_must_be(scratch_below, monkeypatch):
    found = os.statvfs(scratch_below)
    blocks = -(-3 * (MOST_FILES + 1) * SPOOL_BYTES // found.f_frsize)
    for free, is_enough in ((blocks, True), (blocks - 1, False)):
        values = tuple(free if at == 4 else value for at, value in enumerate(found))
        monkeypatch.setattr(os, "statvfs", lambda _, values=values: os.statvfs_result(values))
        with Pool(3, CountedProgress()) as pool:
            assert (pool.shortage is None) == is_enough
    assert pool.shortage.startswith(f"{scratch_below} has only ")
    assert pool.shortage.endswith(" free, and temporary files need 72.0 MiB")


def test_a_directory_without_hard_links_has_no_room(scratch_below, monkeypatch):
    """FAT, say: a file is passed on under a second name. What tasks write is kept in memory then."""

    def refuse(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with Pool(1, CountedProgress()) as pool:
        assert pool.shortage == f"the file system of {scratch_below} has no hard links"
        assert not list(scratch_below.glob("kafkalog-workers-*/named-*"))
        outputs = list(pool.outputs(write_much, [(1 << 20, 9)] * 2))
    assert [sum(map(len, output.data())) for output in outputs] == [9 << 20] * 2


def is_gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def wait_for(is_so):
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)
