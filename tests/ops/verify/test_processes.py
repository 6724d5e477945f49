"""Processes that do pieces of work: order, progress, the end of one of them, the end of all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from kafkalog_core.engine import processes, worker
from kafkalog_core.engine.processes import Pool
from kafkalog_core.errors import NotFoundError, StorageError, WorkerLostError
from tests.ops.verify.pool_work import CountedProgress, read_for_ever

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[3]
SECONDS = 300.0
"""After which what does not come is given up."""


@pytest.fixture(params=["forked", "started"])
def pool_of(request, monkeypatch):
    """Make pools of processes that are copies of this one, and of others."""
    monkeypatch.setattr(processes, "active_count", lambda: 1)  # threads of pytest's are no reason here
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    return partial(Pool, may_fork=request.param == "forked")


def double(number, advance):
    advance(number)
    return 2 * number


def whoami(advance):
    advance(1)
    return os.getpid()


def kill_oneself(advance):
    advance(1)
    os.kill(os.getpid(), signal.SIGKILL)


def fail(advance):
    advance(1)
    raise NotFoundError("no such file or directory", path="x")


def repeat(data, times, advance):
    advance(times)
    return data * times


def refuse_twice(advance):
    advance(1)
    raise OneWayError("x", "y")


class OneWayError(Exception):
    """An error that is pickled and cannot be made again of what was pickled."""

    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


def leave(advance):
    advance(1)
    sys.exit(3)


def function_of_its_own(advance):
    advance(1)
    return lambda: None


def test_results_come_in_the_order_of_the_pieces(pool_of):
    told = CountedProgress()
    with pool_of(2, told) as pool:
        pids = list(pool.map(whoami, [()] * 10))
        assert list(pool.map(double, ((number,) for number in range(100)))) == list(range(0, 200, 2))
        assert pool.scratch is None or Path(pool.scratch).is_dir()
    assert told.bytes == 10 + sum(range(100))
    assert os.getpid() not in pids
    assert pool.scratch is None or not Path(pool.scratch).exists()
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
        with pytest.raises(RuntimeError, match=r"OneWayError: x y|function: .*function_of_its_own"):
            list(pool.map(work_of, [()]))
        assert list(pool.map(double, [(4,)])) == [8]


@pytest.mark.parametrize("left", [0, 2, 3])
def test_a_process_that_cannot_be_started(pool_of, left, monkeypatch):
    """For want of descriptors, say."""
    pipe = os.pipe

    def few_pipes():
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pipe()

    with pool_of(1, CountedProgress()) as pool:
        assert list(pool.map(double, [(4,)])) == [8]  # the server of the second kind is there
    monkeypatch.setattr(os, "pipe", few_pipes)
    with (
        pytest.raises(WorkerLostError, match=r"started: .*Too many open files; --jobs 1"),
        pool_of(3, CountedProgress()) as pool,
    ):
        list(pool.map(double, [(4,)] * 9))


def test_what_no_work_should_raise_is_said_with_its_place(pool_of):
    """A debugger reads where: the traceback stays behind."""
    with pool_of(1, CountedProgress()) as pool, pytest.raises(RuntimeError, match=r"SystemExit\(3\)") as caught:
        list(pool.map(leave, [()]))
    assert "in leave" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("failing", [{1}, {1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 2}])
def test_fewer_processes_than_were_asked_for(failing, monkeypatch):
    """Those that could be started do all the work."""
    fork, numbers = os.fork, count()

    def some_fork():
        if next(numbers) in failing:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    monkeypatch.setattr(processes, "active_count", lambda: 1)
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    monkeypatch.setattr(os, "fork", some_fork)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    told = CountedProgress()
    with Pool(4, told, may_fork=True) as pool:
        pool.start()
        assert list(pool.map(double, ((number,) for number in range(40)))) == list(range(0, 80, 2))
    assert told.bytes == sum(range(40))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked  # Ctrl-C still comes to this process


def test_a_fork_server_that_ends(monkeypatch):
    """As it does when it cannot fork: the processes that are there do all the work."""
    start = processes._Start.start

    def some_start(self, number, *ends):
        if number:
            raise EOFError("unexpected EOF")
        return start(self, number, *ends)

    monkeypatch.setattr(processes._Start, "start", some_start)
    with Pool(3, CountedProgress()) as pool:
        assert list(pool.map(double, ((number,) for number in range(40)))) == list(range(0, 80, 2))


def test_no_thread_can_be_started(monkeypatch):
    """Which a limit of processes counts: a process does its work without the one that waits for its parent's end."""

    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker, "Thread", refuse)
    with Pool(2, CountedProgress(), may_fork=True) as pool:
        assert list(pool.map(double, [(4,)] * 4)) == [8] * 4


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


def test_an_end_in_the_middle_ends_all(pool_of, tmp_path):
    pids = tmp_path / "pids"
    with pytest.raises(KeyboardInterrupt), pool_of(2, CountedProgress(limit=50)) as pool:
        list(pool.map(read_for_ever, [(str(pids),)] * 8))
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())
    assert pool.scratch is None or not Path(pool.scratch).exists()


@pytest.mark.parametrize("may_fork", [True, False])
def test_processes_end_with_the_one_that_waits_for_them(may_fork, tmp_path):
    """Killed outright, it can tell them nothing; they clean up in its stead."""
    program = (
        "import sys\n"
        "from kafkalog_core.engine.processes import Pool\n"
        "from tests.ops.verify.pool_work import CountedProgress, read_for_ever\n"
        "if __name__ == '__main__':\n"
        "    with Pool(2, CountedProgress(), may_fork=bool(int(sys.argv[2]))) as pool:\n"
        "        print(pool.scratch, flush=True)\n"
        "        list(pool.map(read_for_ever, [(sys.argv[1],)] * 8))\n"
    )
    script, pids = tmp_path / "script.py", tmp_path / "pids"
    script.write_text(program)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, str(script), str(pids), str(int(may_fork))],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        assert process.stdout is not None
        scratch = Path(process.stdout.readline().strip())
        wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        process.kill()
    wait_for(lambda: all(is_gone(int(pid)) for pid in pids.read_text().split()))
    assert may_fork == (scratch == Path("None"))
    wait_for(lambda: not scratch.exists())


def test_the_other_way_to_start_processes_works_too(monkeypatch):
    monkeypatch.setattr(processes, "START_METHOD", "spawn")  # as on macOS
    with Pool(1, CountedProgress()) as pool:
        assert list(pool.map(double, [(1,), (2,)])) == [2, 4]


def test_a_long_temporary_directory_is_no_obstacle(monkeypatch, tmp_path):
    """A server process would listen on a socket in it, and the address of a socket is short."""
    place = tmp_path / ("x" * 120)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with Pool(1, CountedProgress()) as pool:
        assert list(pool.map(double, [(1,), (2,)])) == [2, 4]


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
