"""`kafkalog compact`: what the cleaner of a release does to each log, simulated.

Nothing is written. How it is carried out says `ops.cleaning.planning`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import SelectionError
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.cleaner.rules import check_cleaner_settings, why_never_cleaned, why_not_current
from kafkalog_core.kafka.evidence import infer_release
from kafkalog_core.kafka.logdir.segment_views import check_now, read_partition_view
from kafkalog_core.kafka.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.settings import SettingsRequest, read_settings
from kafkalog_core.ops.compact.simulation import CompactTask, simulate
from kafkalog_core.ops.pool import Pool
from kafkalog_core.ops.reading.targets import check_topics
from kafkalog_core.ops.repair.plan import not_assigned, sites_of
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.evidence import ReleaseGuess
    from kafkalog_core.kafka.logdir.segment_views import PartitionView
    from kafkalog_core.kafka.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.settings import Settings
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.ops.repair.plan import Site
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["CompactRequest", "compact", "count_forecast", "tasks_of", "with_stray"]

_NO_SETTINGS: Final = SettingsRequest()
_DRAFTS_A_PIECE: Final = 32
"""Partitions that are looked at in one go: a few reads at the ends of its files are all that one takes."""

_SHARED_BYTES: Final = 64 * 1024 * 1024
"""Less log than this is read before other processes have started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """What to simulate.

    Args:
        targets: partitions and log directories, from `targets.resolve`.
        now_ms: the time that counts as now.
        kafka: releases and settings.
        memory_bytes: of the offset map; null: as the settings say.
        max_passes: at most so many cleans of a partition; null: until nothing more is cleanable.
        force: the dirty ratio does not matter.
        biggest: so many of the biggest keys.
        jobs: processes, each with an offset map of its own.
        max_batch_bytes: the largest batch that is read, inflated too.
        command_line: what was typed, for commands to paste; None: unknown.
    """

    targets: tuple[Target, ...]
    now_ms: int
    kafka: SettingsRequest = _NO_SETTINGS
    memory_bytes: int | None = None
    max_passes: int | None = None
    force: bool = False
    biggest: int = 0
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES
    command_line: CommandLine | None = None


def compact(
    request: CompactRequest, report: Report, progress: Progress = NO_PROGRESS, *, workers: Workers | None = None
) -> Generator[CompactForecast, None, None]:
    """The forecast of each partition, in the order of the targets.

    Args:
        request: what to simulate.
        report: counts what was read and every row.
        progress: told the bytes that are read; where there are workers, they tell theirs.
        workers: who reads; null: this process, and as many others as the request has jobs.

    Raises SelectionError for a file by itself, or a topic with settings that is not there, SettingError for settings
    that no broker takes.
    """
    check_topics(request.kafka.topics, request.targets)
    drafts = [draft for site in sites_of(request.targets) for draft in _drafts_of(site, request)]
    tasks = list(_read_all(drafts, workers))
    check_now([task.view for task in tasks if task.view is not None], request.now_ms)
    report.expect(partitions=len(tasks))
    size_bytes = sum(task.expected_bytes for task in tasks)
    progress.expect(size_bytes)
    if workers is None:
        forecasts = _forecasts(tasks, size_bytes, request.jobs, progress)
    else:
        forecasts = workers.map(simulate, ((task.light(),) for task in tasks))
    for task, forecast in zip(tasks, forecasts, strict=True):
        told = with_stray(task, forecast)
        count_forecast(told, report)
        yield told


def with_stray(task: CompactTask, forecast: CompactForecast) -> CompactForecast:
    """Return a forecast that says first where no cleaner takes the log, as the broker does not keep the partition."""
    return forecast if task.stray is None else replace(forecast, findings=(task.stray, *forecast.findings))


def _forecasts(tasks: list[CompactTask], size_bytes: int, jobs: int, progress: Progress) -> Iterator[CompactForecast]:
    if min(jobs, len(tasks)) < 2 or size_bytes < _SHARED_BYTES:
        yield from (simulate(task, progress.advance) for task in tasks)
        return
    with Pool(min(jobs, len(tasks)), progress) as pool:
        yield from pool.map(simulate, ((task.light(),) for task in tasks))


def tasks_of(site: Site, request: CompactRequest, workers: Workers | None = None) -> Iterable[CompactTask]:
    """The partitions of a site; of a request its targets do not count. Raises SelectionError and SettingError.

    `workers`: who looks at the files; null: this process.
    """
    return _read_all(list(_drafts_of(site, request)), workers)


def _drafts_of(site: Site, request: CompactRequest) -> Iterator[CompactTask]:
    """The partitions of a site, before any file of them is looked at."""
    if site.files:
        raise SelectionError(
            "compaction is of whole partitions: name the directory of the partition", path=site.files[0].path
        )
    guess = infer_release(site.root, kafka=request.kafka.kafka)
    log_dir = site.log_dir
    settings = read_settings(request.kafka, guess.release, site.log_dir_path, site.beside)
    broker_dir = None if log_dir is None else read_broker_dir(log_dir)
    around = _Around(guess, settings, broker_dir, not_assigned(site, settings.server, request.kafka.kafka))
    for place in site.partitions:
        if place.name.state is not DirectoryState.DELETE:
            yield _draft(place, request, around)


class _Around(NamedTuple):
    """What the partitions of one log directory have in common."""

    guess: ReleaseGuess
    settings: Settings
    broker_dir: BrokerDir | None
    strays: dict[str, Finding]


def _draft(place: PartitionPath, request: CompactRequest, around: _Around) -> CompactTask:
    settings, name = around.settings, place.name
    topic = settings.for_topic(name.topic)
    never = why_not_current(name.state) or why_never_cleaned(settings, topic)
    draft = CompactTask(
        path=place.path,
        topic=name.topic,
        partition=name.partition,
        view=None,
        broker_dir=around.broker_dir,
        guess=around.guess,
        settings=settings,
        of_topic=topic,
        never=never,
        size_bytes=0,
        now_ms=request.now_ms,
        memory_bytes=request.memory_bytes,
        max_passes=request.max_passes,
        force=request.force,
        biggest=request.biggest,
        max_batch_bytes=request.max_batch_bytes,
        assume_defaults=request.kafka.assume_defaults,
        command_line=request.command_line,
        stray=around.strays.get(place.path),
    )
    if never is None:
        check_cleaner_settings(settings, topic)
        draft.config()  # settings that cannot be are said before anything is shown
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
    """The work of others: what the files of some partitions say of their segments, and the bytes of their logs."""
    advance(0)
    return [_read(draft) for draft in drafts]


def _read(draft: CompactTask) -> tuple[PartitionView | None, int]:
    partition = read_partition(draft.path)
    view = None
    if draft.never is None:
        view = read_partition_view(partition, draft.broker_dir, draft.of_topic, draft.guess.release)
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
