"""What a reader leaves in the page cache, and how fast it may read."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import random
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.storage.page_cache import LOOK_BYTES, ReadPages, absent_ranges
from kafkalog_core.storage.reading import READING, ReadLimit
from kafkalog_core.storage.source import PEEK_BYTES, Source, reading_together
from tests.support.build import batch_v2
from tests.support.cached import MIB, PAGE, absent, difference, evict, touch
from tests.support.logs import records, write_segments

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux", reason="only on Linux is it known what the page cache has"),
]
ROOT = Path(__file__).parents[2]
SIZE = 3 * LOOK_BYTES + 5 * PAGE + 77


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of three parts and a piece, whose last byte is not the last of its page."""
    path = tmp_path_factory.mktemp("cache") / "file"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    return path


@pytest.fixture
def gives_back() -> Iterator[None]:
    READING.keeps_cache = False
    yield
    READING.keeps_cache = True


def test_what_is_there_and_what_is_not(large: Path) -> None:
    evict(large)
    assert absent(large) == [(0, SIZE)]
    touch(large, 10 * PAGE, 2 * PAGE)
    touch(large, SIZE - 1, 1)
    last = SIZE // PAGE * PAGE
    assert absent(large) == [(0, 10 * PAGE), (12 * PAGE, last)]
    large.read_bytes()
    assert absent(large) == []


@pytest.mark.parametrize("size", [0, 1, PAGE])
def test_a_small_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "small"
    path.write_bytes(bytes(size))
    evict(path)
    assert absent(path) == ([(0, size)] if size else [])
    path.read_bytes()
    assert absent(path) == []


def test_no_file_at_all() -> None:
    assert absent_ranges(-1, 0, 10 * PAGE) == []


@pytest.mark.usefixtures("gives_back")
def test_a_reader_leaves_what_was_there_before(large: Path) -> None:
    evict(large)
    touch(large, LOOK_BYTES + 3 * PAGE, 5 * PAGE)
    before = absent(large)
    with Source.open(large) as source:
        for start in range(0, SIZE, MIB):
            source.window(start)
    assert absent(large) == before


@pytest.mark.usefixtures("gives_back")
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(1, 2 * MIB)), max_size=12))
def test_in_any_order(large: Path, reads: list[tuple[int, int]]) -> None:
    evict(large)
    touch(large, 0, PAGE)
    touch(large, 2 * LOOK_BYTES, PAGE)
    before = absent(large)
    with Source.open(large) as source:
        for position, size in reads:
            assert len(source.window(position, size)) == min(size, SIZE - position)
            assert source.peeks()(position) == (position + PEEK_BYTES <= SIZE)
    assert absent(large) == before


def test_a_part_is_given_back_behind_the_reader(tmp_path: Path) -> None:
    path, size = tmp_path / "parts", 16 * LOOK_BYTES
    path.write_bytes(bytes(size))
    evict(path)
    descriptor = os.open(path, os.O_RDONLY)
    pages = ReadPages(descriptor, size)
    for position in range(0, size, MIB):
        pages.about_to_read(position, MIB, size)
        os.pread(descriptor, MIB, position)
        kept = size - sum(end - start for start, end in absent(path))
        assert kept <= 7 * LOOK_BYTES  # what is read, what is read ahead, and what the disk is still reading
    pages.give_back()
    assert absent(path) == [(0, size)]
    os.close(descriptor)


def test_what_another_process_reads_behind_a_part_stays(large: Path) -> None:
    evict(large)
    with Source.open(large) as source:
        source.read_up_to(LOOK_BYTES)
        touch(large, LOOK_BYTES, LOOK_BYTES)
        for start in range(0, LOOK_BYTES, MIB):
            source.window(start, MIB)
    there = SIZE - sum(end - start for start, end in absent(large))
    assert there >= LOOK_BYTES
    assert all(start < LOOK_BYTES or start >= 2 * LOOK_BYTES for start, _ in absent(large))


def test_without_it_everything_stays(large: Path) -> None:
    evict(large)
    with Source.open(large) as source:
        for start in range(0, SIZE, MIB):
            source.window(start)
    assert absent(large) == []


def test_a_limit_of_bytes_in_a_second() -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    limit = ReadLimit(1000, lambda: now[0], sleep)
    limit.count(100)  # a tenth of a second may be used at once
    assert slept == []
    for _ in range(10):
        limit.count(500)
    assert sum(slept) == pytest.approx(5.0)
    now[0] += 60  # what was not used long ago is lost
    limit.count(1100)
    assert slept[-1] == pytest.approx(1.0)
    limit.share(2).count(1000)
    assert slept[-1] == pytest.approx(1.9)


COMMANDS = (
    ("verify",),
    ("verify", "--level", "headers"),
    ("dump", "--records", "--output", "ndjson", "--jobs", "1"),
    ("dump", "--records", "--output", "ndjson", "--jobs", "2"),
    ("dump", "--records", "--newest-first", "--output", "csv"),
    ("seek", "--offset", "4711"),
    ("reindex", "--kafka", "4.3"),
    ("truncate", "--at-damage", "--kafka", "4.3"),
    ("retain", "--kafka", "4.3"),
    ("compact", "--kafka", "4.3"),
    ("roll", "--kafka", "4.3"),
)


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 MB of records in two segments: enough for several processes."""
    data = b"".join(batch_v2(records(at, 100, size=1000)) for at in range(0, 90_000, 100))
    half = data.index(batch_v2(records(45_000, 100, size=1000)))
    directory = tmp_path_factory.mktemp("cached") / "orders-0"
    return write_segments(directory, {0: data[:half], 45_000: data[half:]})


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_leaves_the_cache_as_it_was(partition: Path, command: tuple[str, ...]) -> None:
    logs = sorted(partition.glob("*.log"))
    for path in logs:
        evict(path)
    touch(logs[-1], logs[-1].stat().st_size - 4 * MIB, 4 * MIB)
    before = [absent(path) for path in logs]
    run = [sys.executable, "-m", "kafkalog_cli", *command]
    done = subprocess.run([*run, str(partition)], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode in {0, 4}, done.stderr  # these logs lack entries of indexes
    for path, ranges in zip(logs, before, strict=True):
        now = absent(path)
        assert difference(ranges, now) == 0  # nothing is there that was not
        assert difference(now, ranges) < MIB  # the system itself may need the memory for others
    done = subprocess.run([*run, "--keep-cache", str(partition)], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode in {0, 4}, done.stderr  # these logs lack entries of indexes
    if command == ("verify",):
        assert [absent(path) for path in logs] == [[], []]


IDLE = 3


def ioprio_class(process_id: int) -> int:
    """ioprio_get(2) of a process."""
    return int(ctypes.CDLL(None).syscall(252, 1, process_id)) >> 13


@pytest.mark.slow
def test_a_command_reads_no_faster_than_it_may(partition: Path) -> None:
    command = [sys.executable, "-m", "kafkalog_cli", "verify", "--limit-rate", "30MiB", str(partition)]
    began_s = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began_s
    size = sum(path.stat().st_size for path in partition.glob("*.log"))
    assert done.returncode == 4, done.stderr  # these logs lack entries of indexes
    assert seconds > size / (30 * MIB) - 0.5


@pytest.mark.slow
def test_a_command_gives_way(partition: Path) -> None:
    command = [sys.executable, "-m", "kafkalog_cli", "verify", "--limit-rate", "10MiB", "--low-priority"]
    with subprocess.Popen([*command, str(partition)], cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while (nice := os.getpriority(os.PRIO_PROCESS, process.pid)) == os.nice(0) and process.poll() is None:
            time.sleep(0.02)
        assert nice == 19
        if platform.machine() == "x86_64":
            deadline_s = time.monotonic() + 10
            while (found := ioprio_class(process.pid)) != IDLE and time.monotonic() < deadline_s:
                time.sleep(0.02)
            assert found == IDLE
        process.kill()


@pytest.mark.parametrize("rate", ["0", "fast", "-1"])
def test_a_rate_that_is_none(rate: str) -> None:
    command = [sys.executable, "-m", "kafkalog_cli", "verify", "--limit-rate", rate, "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--limit-rate" in done.stderr


# --- the small files of a partition -----------------------------------------------------------------------------------
def small_files(directory: Path) -> list[Path]:
    """Files of a partition: all evicted but the last, and one that is too large to be requested with the others."""
    sizes = {"00000000000000000000.log": 3 * PAGE, "00000000000000000000.index": 8, "00000000000000000007.log": MIB}
    paths = [directory / name for name in (*sizes, "leader-epoch-checkpoint")]
    for path in paths:
        path.write_bytes(bytes(sizes.get(path.name, 9)))
        evict(path)
    touch(paths[-1], 0, 9)
    return paths


@pytest.mark.usefixtures("gives_back")
@pytest.mark.parametrize("error", [None, ValueError])
def test_small_files_are_requested_together_and_given_back(tmp_path: Path, error: type[ValueError] | None) -> None:
    paths = small_files(tmp_path)
    before = [absent(path) for path in paths]
    with pytest.raises(error) if error else nullcontext(), reading_together(map(str, [*paths, *paths])):
        assert set(READING.held) == {str(path) for path in paths if path != paths[2]}
        descriptors = [held[0] for held in READING.held.values()]
        for _ in range(2):  # a file that is read twice is read from the disk once
            for path in paths[:2]:
                with Source.open(path) as source:
                    assert source.read(0, MIB) == path.read_bytes()
        deadline = time.monotonic() + 10
        while absent(paths[0]):
            assert time.monotonic() < deadline
        if error is not None:
            raise error
    assert READING.held == {}
    assert [absent(path) for path in paths] == before
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_small_files_stay_in_memory_if_all_does(tmp_path: Path) -> None:
    paths = small_files(tmp_path)
    with reading_together(map(str, sorted(tmp_path.iterdir()))), Source.open(paths[0]) as source:
        source.window(0)
    assert absent(paths[0]) == []


def test_what_became_a_pipe_or_is_gone_is_left_to_its_reader(tmp_path: Path) -> None:
    paths = small_files(tmp_path)
    paths[0].unlink()
    os.mkfifo(paths[0])
    paths[1].unlink()
    with reading_together(map(str, paths)):
        assert set(READING.held) == {str(paths[3])}
        with pytest.raises(AccessError, match="not a regular file"):
            Source.open(paths[0])
        with pytest.raises(NotFoundError):
            Source.open(paths[1])


def test_no_more_files_than_some_are_open_at_once(tmp_path: Path) -> None:
    for offset in range(200):
        (tmp_path / f"{offset:020}.log").write_bytes(b"x")
    paths = sorted(map(str, tmp_path.iterdir()))
    with reading_together(paths):
        assert len(READING.held) == 64
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (160, before[1]))
    try:
        with reading_together(paths):
            assert len(READING.held) == 40
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_may_have_no_limit_of_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"x")
    monkeypatch.setattr(os, "sysconf", {"SC_OPEN_MAX": -1}.__getitem__)
    with reading_together([str(tmp_path / "a")]):
        assert len(READING.held) == 1


def test_the_last_descriptors_are_left_to_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(b"x")
    real = os.open

    def limited(path: str, *given: int, **named: int) -> int:
        if path == str(paths[2]):
            raise OSError(errno.EMFILE, "too many")
        return real(path, *given, **named)

    monkeypatch.setattr(os, "open", limited)
    with reading_together(map(str, paths)):
        assert READING.held == {}


@pytest.mark.usefixtures("gives_back")
def test_a_file_that_was_replaced_is_read_in_its_new_version(tmp_path: Path) -> None:
    """As a broker replaces a checkpoint: by a rename."""
    path, new = tmp_path / "leader-epoch-checkpoint", tmp_path / "leader-epoch-checkpoint.tmp"
    path.write_bytes(b"old")
    new.write_bytes(b"new")
    evict(new)
    with reading_together([str(path)]):
        new.rename(path)
        with Source.open(path) as source:
            assert source.read(0, 3) == b"new"
        path.unlink()
        with pytest.raises(NotFoundError):
            Source.open(path)


def test_another_thread_opens_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    with reading_together([str(path)]), Source.open(path) as ours:
        with ThreadPoolExecutor(1) as pool, pool.submit(Source.open, path).result() as theirs:
            assert theirs.read(0, 1) == b"x"
        assert ours.read(0, 1) == b"x"


def test_nothing_is_requested_with_a_limit_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = small_files(tmp_path)
    monkeypatch.setattr(READING, "limit", ReadLimit(1e9, time.monotonic, time.sleep))
    with reading_together(map(str, paths)):
        time.sleep(0.1)
        assert (READING.held, absent(paths[0])) == ({}, [(0, 3 * PAGE)])
