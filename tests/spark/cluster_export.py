"""An export on a cluster, as a program of its own: arguments are the master, the log directory and the output.

Each piece of work takes its time, so that there is a middle of it in which processes can be killed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.spark.export.export import ExportRequest, export
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.session import SessionSettings, spark_session
from kafkalog_core.spark.session.workers import SparkWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = str(Path(__file__).resolve().parents[2])
"""Every machine sees kafkalog at the same place: one of the ways to have it on a cluster."""

SECONDS = 0.25
TASK_BYTES = 64 * 1024


def slowly(work_of: Callable[..., Any], *piece: Any) -> Any:
    time.sleep(SECONDS)
    return work_of(*piece)


@dataclass
class SlowWorkers:
    """Workers that take their time."""

    workers: SparkWorkers
    scratch: None = None

    @property
    def jobs(self) -> int:
        return self.workers.jobs

    def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        return self.workers.map(slowly, ((work_of, *piece) for piece in pieces))


def main(master: str, log_dir: str, output: str) -> None:
    confs = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.executorEnv.PYTHONPATH": ROOT}
    targets = tuple(resolve([log_dir], Selection()))
    request = ExportRequest(targets=targets, output=Store.of(output), task_bytes=TASK_BYTES)
    with spark_session(SessionSettings(master=master, confs=confs, is_light=True)) as spark:
        workers = SlowWorkers(SparkWorkers(spark))
        for chunk in export(workers, request, Report(), run_id="killed", now_ms=1_700_000_000_000):
            for row in chunk.rows():
                sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
