"""What retention deletes and what a clean would save of each partition, for the sums of `usage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.report import Report
from kafkalog_core.errors import DeniedError, RefusedError, StorageError
from kafkalog_core.findings import DENIED, Finding, found
from kafkalog_core.kafka.sim.start.segment_views import check_now
from kafkalog_core.ops.compact.compact import compact
from kafkalog_core.ops.repair.assumptions import RETENTION, unknown_topics
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster, read_view
from kafkalog_core.ops.retain.retain import RetainRequest, retained_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView
    from kafkalog_core.ops.compact.forecast import CompactRequest
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import TargetDir
    from kafkalog_core.ops.retain.forecaster import RetentionOptions
    from kafkalog_core.ops.usage.sums import DirUsage, Key
    from kafkalog_core.progress import Progress

__all__ = ["add_retention", "saved_by"]


def add_retention(result: DirUsage, targets: tuple[Target, ...], wanted: RetentionOptions, progress: Progress) -> None:
    """Add what retention deletes, or why that is unknown: sizes are known all the same."""
    assumptions: dict[Assumption, None] = {}
    kept = []
    try:
        # Raises DeniedError where this user may not read all of it.
        for target in target_dirs(targets):
            for (topic, partition), each in _forecasts(target, wanted, result, progress):
                result.share(topic, partition).add_retention(each)
                if isinstance(each, RetainForecast):
                    assumptions.update(dict.fromkeys(each.assumptions))
                    kept += [] if each.forecast.deleted else [each.forecast.question.topic]
    except (RefusedError, StorageError) as error:
        result.retention_problem = error.message
        path = error.path or result.path
        if isinstance(error, DeniedError) and all(finding.path != path for finding in result.findings):
            result.add_finding(found(DENIED, path, reason=error.message))
        for share in result.shares.values():
            share.retention_bytes = share.retention_segments = share.next_due_ms = share.unforeseen = None
    else:
        result.assumptions = tuple(assumptions)
        result.unknown = tuple(unknown_topics(kept, RETENTION))


def _forecasts(
    target: TargetDir, wanted: RetentionOptions, result: DirUsage, progress: Progress
) -> Iterator[tuple[Key, RetainForecast | Finding]]:
    """Yield the forecast of each partition, which is read, predicted and forgotten before the next one.

    Raises RefusedError after the last one if the data of all partitions is later than now, as `retain` does before the
    first one: it holds all partitions.
    """
    forecaster, request = RetentionForecaster(target, wanted), RetainRequest(target=target, wanted=wanted)
    result.guess = forecaster.context.guess
    refusals: list[RefusedError | None] = []
    for task in forecaster.view_tasks():
        progress.advance(0)
        view, key = read_view(task), (task.place.name.topic, task.place.name.partition)
        if isinstance(view, Finding):
            yield key, view
            continue
        if any(segment.size_bytes for segment in view.segments):
            refusals.append(_refusal(view, wanted.now_ms))
        yield from ((key, each) for each in retained_of(request, forecaster, [forecaster.forecast_of(view)]))
    if refusals and refusals[0] is not None and None not in refusals:
        raise refusals[0]


def _refusal(view: PartitionView, now_ms: int) -> RefusedError | None:
    try:
        check_now([view], now_ms)
    except RefusedError as error:
        return error
    return None


def saved_by(
    request: CompactRequest, roots: Mapping[str, str], progress: Progress, workers: Workers | None
) -> dict[str, dict[Key, int]]:
    """Return the bytes that a clean saves, by log directory and partition.

    `roots`: the log directory of each partition directory.
    """
    saved: dict[str, dict[Key, int]] = {}
    for forecast in compact(request, Report(), progress, workers=workers):
        row = forecast.partition
        topic, partition, before, after = (row.get(name) for name in _OF_CLEAN)
        # Also where the log is not dirty enough for a broker to clean it now
        if isinstance(before, int) and isinstance(after, int):
            key = topic if isinstance(topic, str) else None, partition if isinstance(partition, int) else None
            of_root = saved.setdefault(roots[str(row["path"])], {})
            of_root[key] = of_root.get(key, 0) + before - after
    return saved


_OF_CLEAN: Final = ("topic", "partition", "bytes_before", "bytes_after")
