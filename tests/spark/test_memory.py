"""Memory of a job grows little with damaged places: neither a worker's process nor the driver keeps what it showed."""

from __future__ import annotations

import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.spark.session.workers import SparkWorkers
from tests.spark import tasks
from tests.support.growing import GROWING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

NOW_MS = 1_796_000_000_000
MEBIBYTE = 1024 * 1024
PLACES = 1_000
PLACE_BYTES = 400
"""A damaged place is part of the verdict, which goes to the driver: its span, and what it may hide."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")


class Measured:
    """Workers on Spark, each of whose pieces says what its process took for it at most: `peak_bytes` is the largest."""

    scratch = None

    def __init__(self, spark: SparkSession) -> None:
        self._workers = SparkWorkers(spark)
        self.jobs = self._workers.jobs
        self.peak_bytes = 0

    def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        for peak_bytes, result in self._workers.map(tasks.measured, ((work_of, piece) for piece in pieces)):
            self.peak_bytes = max(self.peak_bytes, peak_bytes)
            yield result


def _verify(spark: SparkSession, path: Path) -> tuple[int, int, int]:
    """Peaks of a worker and of the driver, and the number of findings."""
    workers = Measured(spark)
    tracemalloc.start()
    try:
        request = VerifyRequest(targets=tuple(resolve([str(path)])), now_ms=NOW_MS)
        findings = sum(1 for verdict in verify(request, workers=workers) for _ in verdict.findings)
        return workers.peak_bytes, tracemalloc.get_traced_memory()[1], findings
    finally:
        tracemalloc.stop()


def test_damaged_places(spark: SparkSession, tmp_path: Path) -> None:
    make = GROWING["damaged places"].make
    paths = [make(tmp_path / str(times), PLACES * times) for times in (1, 4)]
    _verify(spark, paths[0])  # imports
    few, many = (_verify(spark, path) for path in paths)
    assert few[2] == many[2] > 0
    for name, before, after in zip(("worker", "driver"), few, many, strict=False):
        assert after - before < MEBIBYTE + 3 * PLACES * PLACE_BYTES, name
