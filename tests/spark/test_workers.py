"""Pieces of work on executors: results in their order, errors of ours, processes that die."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import ChecksumError, WorkerLostError
from kafkalog_core.spark.session.errors import SparkError
from kafkalog_core.spark.session.workers import SparkWorkers, _ReadsAs
from kafkalog_core.storage.reading import READING, ReadLimit
from tests.spark import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator


class Told:
    """A progress that adds up."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def expect(self, size_bytes: int) -> None: ...

    def advance(self, size_bytes: int) -> None:
        self.read_bytes += size_bytes


def test_results_come_in_the_order_of_the_pieces(spark):
    told = Told()
    workers = SparkWorkers(spark, told)
    assert list(workers.map(tasks.double, ((number,) for number in range(500)))) == [2 * n for n in range(500)]
    assert told.read_bytes == 5000
    assert (workers.jobs, workers.scratch) == (2, None)


def test_nothing_to_do(spark):
    assert list(SparkWorkers(spark).map(tasks.double, ())) == []


def test_pieces_are_taken_as_there_is_room_and_maps_nest(spark):
    taken = 0

    def pieces() -> Iterator[tuple[int]]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield (number,)

    workers = SparkWorkers(spark)
    outer = workers.map(tasks.double, pieces())
    assert next(outer) == 0
    assert taken < 100
    assert list(workers.map(tasks.double, [(5,)])) == [10]
    assert next(outer) == 2
    outer.close()


def test_errors_of_ours_come_as_they_are_and_in_their_place(spark):
    results = SparkWorkers(spark).map(tasks.fail_with_ours, ((number,) for number in range(20)))
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(ChecksumError) as caught:
        next(results)
    assert vars(caught.value) == {"message": "bad sum", "path": "/x", "position": 5, "stored": 1, "computed": 2}
    assert str(caught.value) == "/x: bad sum (at byte 5): stored 0x00000001, computed 0x00000002"


def test_other_errors_are_one_sentence(spark):
    results = SparkWorkers(spark).map(tasks.fail_with_another, ((number,) for number in range(20)))
    sentence = r"in every attempt: OSError: \[Errno 28\] No space left on device: '/out/x' \(Spark's log: "
    with pytest.raises(WorkerLostError, match=sentence):
        list(results)


def test_a_process_that_dies(spark, tmp_path):
    workers = SparkWorkers(spark)
    pieces = [(number, tmp_path) for number in range(20)]
    assert list(workers.map(tasks.die_once, pieces)) == list(range(20))
    with pytest.raises(WorkerLostError, match=r"in every attempt: Python worker exited unexpectedly"):
        list(workers.map(tasks.die, ((number,) for number in range(20))))


def test_what_nobody_waits_for_is_given_up(spark, tmp_path):
    results = SparkWorkers(spark).map(tasks.count_up, ((number, tmp_path) for number in range(10_000)))
    assert next(results) == 0
    results.close()
    begun = len(list(tmp_path.iterdir()))
    time.sleep(1)
    assert len(list(tmp_path.iterdir())) <= begun + 2


def test_jobs_of_another_kind(spark):
    workers = SparkWorkers(spark, told := Told())
    double = workers.task_of(tasks.double)
    rdd = spark.sparkContext.parallelize(range(10), 2)
    assert workers.collect(rdd.map(double)) == list(range(0, 20, 2))
    assert told.read_bytes == 100
    with pytest.raises(ChecksumError):
        workers.collect(rdd.map(workers.task_of(tasks.fail_with_ours)))


def test_executors_read_as_the_command_was_told(spark, monkeypatch):
    workers = SparkWorkers(spark)
    pieces = [(number,) for number in range(8)]
    assert {tuple(read[1:3]) for read in workers.map(tasks.how_it_reads, pieces)} == {(True, None)}
    monkeypatch.setattr(READING, "keeps_cache", False)
    monkeypatch.setattr(READING, "limit", ReadLimit(8e6, time.monotonic, time.sleep))
    assert {tuple(read[1:3]) for read in workers.map(tasks.how_it_reads, pieces)} == {(False, 4e6)}
    monkeypatch.setattr(READING, "limit", None)
    assert {tuple(read[1:3]) for read in workers.map(tasks.how_it_reads, pieces)} == {(False, None)}


def test_a_process_of_spark_goes_on_with_its_limit():
    limit = ReadLimit(1e6, lambda: 0.0, lambda _: None)
    before = READING.keeps_cache, READING.limit
    try:
        _ReadsAs(keeps_cache=False, limit=limit, gives_way=False).begin()
        _ReadsAs(keeps_cache=False, limit=limit.share(1), gives_way=False).begin()
        assert READING.limit is limit
        _ReadsAs(keeps_cache=True, limit=limit.share(2), gives_way=False).begin()
        assert (READING.keeps_cache, READING.limit.bytes_per_s) == (True, 5e5)
    finally:
        READING.keeps_cache, READING.limit = before


def test_executors_with_another_kafkalog_are_refused(spark, monkeypatch):
    workers = SparkWorkers(spark)
    monkeypatch.setattr("kafkalog_core.spark.session.workers.SOURCE_HASH", "of another release")
    with pytest.raises(SparkError, match="has another kafkalog than this machine, or one without compiled kernels"):
        list(workers.map(tasks.double, [(1,)]))


def test_small_pieces_share_a_task(spark):
    workers = SparkWorkers(spark)
    assert len(workers._slices(iter([(number,) for number in range(8)]))) == 8
    list(workers.map(tasks.double, ((number,) for number in range(16))))
    assert 0 < workers._busy_s < 1
    assert len(workers._slices(iter([(number,) for number in range(100)]))) == 2
    workers._busy_s = 1000.0
    assert len(workers._slices(iter([(number,) for number in range(100)]))) == 8
