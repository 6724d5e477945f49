"""The copies of partitions on several disks compared, one task a partition: `ops.replicas` with Spark's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.ops.replicas.engine import replicas as compared

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.replicas.comparison import Comparison
    from kafkalog_core.ops.replicas.engine import ReplicaWork
    from kafkalog_core.ops.report import Report

__all__ = ["replicas"]


def replicas(
    workers: Workers, work: ReplicaWork, report: Report, progress: Progress = NO_PROGRESS
) -> Generator[Comparison | Finding, None, None]:
    """The same as `kafkalog_core.ops.replicas.engine.replicas`, done by `workers`."""
    return compared(work, report, progress, workers)
