"""`kafkalog compact`: simulate what the cleaner of a release does to each log.

Nothing is written here; `ops.compact.planning` plans the changes, `ops.compact.new_log_dir` writes a cleaned copy.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.pool import run_all
from kafkalog_core.engine.targets import check_topics
from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.rules.cleaner_rules import check_cleaner_settings, why_never_cleaned, why_not_current
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.start.segment_views import check_now, read_partition_view
from kafkalog_core.kafka.sim.transactions import read_transactions
from kafkalog_core.ops.compact.forecast import CompactRequest, CompactTask
from kafkalog_core.ops.compact.simulation import simulate
from kafkalog_core.ops.repair.context import read_context, stray_first, target_dirs
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import replace
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.topics.transactions import TransactionValue

__all__ = ["compact", "count_forecast", "tasks_of"]


_NO_SETTINGS: Final = SettingsRequest()
_DRAFTS_A_PIECE: Final = 32
"""Partitions in one piece of work: each needs only a few reads at the ends of its files."""


def compact(
    request: CompactRequest, report: Report, progress: Progress = NO_PROGRESS, *, workers: Workers | None = None
) -> Generator[CompactForecast, None, None]:
    """Yield the forecast of each partition, in the order of the targets.

    Args:
        request: what to simulate.
        report: counts what was read and every row.
        progress: shows the bytes that are read, except by `workers`.
        workers: they read; None: this process does, and as many others as the request has jobs.

    Raises SelectionError for a single file, or for a topic with settings but without partitions here, and SettingError
    for settings that a broker refuses.
    """
    check_topics(request.kafka.topics, request.targets)
    drafts = [draft for target in target_dirs(request.targets) for draft in _drafts_of(target, request)]
    tasks = list(_read_all(drafts, workers))
    # Before the first row: a wrong clock would give every partition a wrong forecast of tombstones.
    check_now([task.view for task in tasks if task.view is not None], request.now_ms)
    report.expect(partitions=len(tasks))
    size_bytes = sum(task.expected_bytes for task in tasks)
    progress.expect(size_bytes)
    pieces = [(task.light(),) for task in tasks]
    if workers is None:
        forecasts = run_all(simulate, pieces, request.jobs, size_bytes, progress)
    else:
        forecasts = workers.map(simulate, pieces)
    names = _TransactionNames(tasks)
    for task, simulated in zip(tasks, forecasts, strict=True):
        # In the order of the targets, also from workers: stdout must not depend on which of them was faster.
        forecast = names.added_to(stray_first(simulated, task.stray))
        count_forecast(forecast, report)
        yield forecast


class _TransactionNames:
    """The transactional ids in the log directories of some partitions, read when the first one is asked for."""

    def __init__(self, tasks: Iterable[CompactTask]) -> None:
        # The transaction log is in the same log directory or not on this disk at all; it is read at the first held-back
        # log, since most have none.
        self._roots = dict.fromkeys(os.path.dirname(task.path) for task in tasks)
        self._of_producer: dict[int, tuple[str, TransactionValue]] | None = None

    def added_to(self, forecast: CompactForecast) -> CompactForecast:
        """Return the forecast with the transactional id of the transaction that holds the cleaner back."""
        held = forecast.held_by
        if held is None:
            return forecast
        name, value = self._known().get(held.producer_id, (None, None))
        start_ms = None if value is None or value.start_ms < 0 else value.start_ms
        return replace(forecast, held_by=replace(held, transactional_id=name, start_ms=start_ms))

    def _known(self) -> dict[int, tuple[str, TransactionValue]]:
        if self._of_producer is None:
            found, _ = read_transactions(self._directories())
            self._of_producer = {value.producer_id: (name, value) for name, value in found.items()}
        return self._of_producer

    def _directories(self) -> Iterator[str]:
        for root in self._roots:
            # A broken or unreadable transaction log costs the name of the transaction, and not the forecast.
            with suppress(StorageError):
                places = read_log_dir(root).partitions
                for place in places:
                    if place.name.topic == TRANSACTIONS_TOPIC and place.name.state is DirectoryState.CURRENT:
                        yield place.path


def tasks_of(target: TargetDir, request: CompactRequest, workers: Workers | None = None) -> Iterable[CompactTask]:
    """Return the tasks of a directory; the request's own targets are ignored. Raises SelectionError and SettingError.

    `workers` read the files; None: this process does.
    """
    return _read_all(list(_drafts_of(target, request)), workers)


def _drafts_of(target: TargetDir, request: CompactRequest) -> Iterator[CompactTask]:
    """Yield a task for each partition of a directory, before any file of it is read."""
    target.check_no_files("compaction works on whole partitions: name the directory of the partition")
    context, options = read_context(target, request.kafka, request.now_ms), replace(request, targets=())
    for place in target.partitions:
        # `-delete` directories are gone after file.delete.delay.ms, and LogCleanerManager never sees them.
        if place.name.state is not DirectoryState.DELETE:
            yield _draft(place, options, context)


def _draft(place: PartitionPath, options: CompactRequest, context: DirContext) -> CompactTask:
    settings, name = context.settings, place.name
    topic = settings.for_topic(name.topic)
    never = why_not_current(name.state) or why_never_cleaned(settings, topic)
    draft = CompactTask(
        path=place.path,
        topic=name.topic,
        partition=name.partition,
        context=context,
        options=options,
        of_topic=topic,
        never=never,
        stray=context.assigned_elsewhere.get(place.path),
    )
    if never is None:
        check_cleaner_settings(settings, topic)
        # Impossible settings are reported before anything is shown
        draft.config()
    return draft


def _read_all(drafts: list[CompactTask], workers: Workers | None) -> Iterator[CompactTask]:
    if workers is None:
        found: Iterable[tuple[PartitionView | None, int]] = map(_read, drafts)
    else:
        pieces = (
            (tuple(each.light() for each in drafts[first : first + _DRAFTS_A_PIECE]),)
            for first in range(0, len(drafts), _DRAFTS_A_PIECE)
        )
        found = (each for some in workers.map(read_some, pieces) for each in some)
    for draft, (view, size_bytes) in zip(drafts, found, strict=True):
        yield replace(draft, view=view, size_bytes=size_bytes)


def read_some(
    drafts: tuple[CompactTask, ...], advance: Callable[[int], None]
) -> list[tuple[PartitionView | None, int]]:
    """Return the segments of some partitions and the sizes of their logs: the work of another process."""
    advance(0)
    return [_read(draft) for draft in drafts]


def _read(draft: CompactTask) -> tuple[PartitionView | None, int]:
    partition = read_partition(draft.path)
    view = None
    if draft.never is None:
        view = read_partition_view(partition, draft.context.broker_dir, draft.of_topic, draft.context.release)
    return view, sum(segment.log.size_bytes for segment in partition.segments if segment.log is not None)


def count_forecast(forecast: CompactForecast, report: Report) -> None:
    """Count what has been read, and every row."""
    row = forecast.partition
    report.partitions += 1
    if forecast.passes:
        report.files += len(forecast.segments)
        for name in ("bytes", "batches", "records"):
            value = row.get(f"{name}_before")
            setattr(report, name, getattr(report, name) + (value if isinstance(value, int) else 0))
    for finding in forecast.findings:
        report.add_finding(finding.row())
    report.rows += sum(chunk.count for chunk in forecast.chunks())
