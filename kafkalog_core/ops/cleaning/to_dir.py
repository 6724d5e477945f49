"""A new log directory with cleaned logs, which leaves the old one as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import CleanError, LockedError, RefusedError, SelectionError
from kafkalog_core.format.names import FileKind, FileState, segment_file_name
from kafkalog_core.ops.cleaning.last_clean import last_clean
from kafkalog_core.ops.cleaning.log import read_clean_log
from kafkalog_core.ops.cleaning.planning import cleaning_of, is_certain, key_of, replacement_finding
from kafkalog_core.ops.cleaning.simulation import simulate
from kafkalog_core.ops.cleaning.staging import NewSegment
from kafkalog_core.ops.compact import count_forecast, tasks_of
from kafkalog_core.ops.logdirs.segment_views import check_now, read_partition_view
from kafkalog_core.ops.plans.sites import sites_of
from kafkalog_core.ops.progress import NO_PROGRESS, Progress
from kafkalog_core.ops.rolling.broker_files import write_broker_files
from kafkalog_core.ops.rolling.files import copy_file
from kafkalog_core.storage.changing.lock import lock_holder
from kafkalog_core.storage.changing.new_dir import NewDir
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalog_core.ops.cleaning.course import CleanPass
    from kafkalog_core.ops.cleaning.forecast import CompactForecast
    from kafkalog_core.ops.cleaning.last_clean import Cleaning
    from kafkalog_core.ops.cleaning.simulation import CompactTask
    from kafkalog_core.ops.compact import CompactRequest
    from kafkalog_core.ops.logdirs.brokerdir import Key
    from kafkalog_core.ops.plans.sites import Site
    from kafkalog_core.ops.report import Report
    from kafkalog_core.storage.partition import Partition

__all__ = ["compact_to"]

_NEW_FILES_BYTES: Final = 64 * 1024
"""Room for the small files of a partition, whole blocks of them."""


def compact_to(
    request: CompactRequest, to: str, report: Report, progress: Progress = NO_PROGRESS, *, disk: Disk | None = None
) -> Generator[CompactForecast, None, None]:
    """Write what logs are after their cleans into a new log directory; the forecast of each partition.

    The directory is there before the first one is given out. What is not cleaned is copied as it is.

    Raises:
        SelectionError: files by themselves were named, or parts of several log directories.
        SettingError: no broker takes these settings.
        RefusedError: the new directory cannot be made, or a clean fails; nothing of it is left.
        LockedError: a broker runs on the log directory that is to be read.
    """
    sites = [site for site in sites_of(request.targets) if site.partitions or site.files]
    if len(sites) != 1:
        raise SelectionError(
            "--to makes one log directory of parts of one: name one log directory, or partitions of it"
        )
    for forecast in _Writing(request, sites[0], to, disk or Disk()).forecasts(progress):
        count_forecast(forecast, report)
        yield forecast


class _Writing:
    """Makes a new log directory of a site."""

    def __init__(self, request: CompactRequest, site: Site, to: str, disk: Disk) -> None:
        self._site = site
        self._to = to
        self._disk = disk
        self._tasks = list(tasks_of(site, request))
        check_now([task.view for task in self._tasks if task.view is not None], request.now_ms)
        self._ends: dict[Key, int] = {}
        self._cleaned: dict[Key, int] = {}
        self._seen: dict[str, tuple[int, int]] = {}

    def forecasts(self, progress: Progress) -> list[CompactForecast]:
        """Those of all partitions; the directory is there."""
        self._check_lock()
        progress.expect(2 * sum(task.expected_bytes for task in self._tasks))
        forecasts = [simulate(task, progress.advance) for task in self._tasks]
        partitions = [read_partition(task.path) for task in self._tasks]
        needs_bytes = sum(file.size_bytes for each in partitions for file in each.files)
        broker_dir = self._tasks[0].broker_dir if self._tasks else None
        with NewDir(
            self._to, disk=self._disk, like=self._site.root, needs_bytes=needs_bytes + _NEW_FILES_BYTES * len(partitions)
        ) as new:
            for task, partition in zip(self._tasks, partitions, strict=True):
                self._write(new, task, partition, progress)
            is_whole = broker_dir is not None and bool(broker_dir.log_dir.is_clean)
            known = {} if broker_dir is None else self._known(broker_dir_keys=self._ends)
            write_broker_files(new, broker_dir, self._ends, cleaned=known | self._cleaned, is_whole=is_whole)
            self._check_unchanged()
            self._check_lock()
            new.commit()
        return forecasts
