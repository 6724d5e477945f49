"""`kafkalog usage`: adds up what takes the space of log directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import SelectionError
from kafkalog_core.findings import found
from kafkalog_core.ops.usage.disk_items import ItemKind, Seen, disk_items
from kafkalog_core.ops.usage.sums import DirUsage, KindSum
from kafkalog_core.progress import NO_PROGRESS, Advance, Progress
from kafkalog_core.storage.access import code_of_dir_error, open_error
from kafkalog_core.storage.changing.space import free_bytes
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.ops.compact.forecast import CompactRequest
    from kafkalog_core.ops.retain.forecaster import RetentionOptions
    from kafkalog_core.ops.usage.sums import By, Key
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["UsageRequest", "usage", "usage_elsewhere"]

_FOREIGN: Final = ItemKind.FOREIGN


class UsageRequest(Struct, frozen=True, kw_only=True):
    """What to add up.

    Args:
        targets: log directories and partitions, from `targets.resolve`.
        by: what a row is of.
        retention: the options of the forecast of retention; None: no log is read for one.
        compaction: what to simulate of compaction, whose own targets are ignored; None: no log is read for it.
    """

    targets: tuple[Target, ...]
    by: By = "topic"
    retention: RetentionOptions | None = None
    compaction: CompactRequest | None = None


def usage(
    request: UsageRequest, report: Report, progress: Progress = NO_PROGRESS, *, workers: Workers | None = None
) -> Generator[DirUsage, None, None]:
    """Yield what is in each log directory, in the order of the targets.

    A file with names in several directories counts in the first one; with workers, once in each.

    Args:
        request: what to add up.
        report: counts rows and findings.
        progress: called while files are counted; it may raise an error to stop.
        workers: add up a directory each; None: this process does all of them.

    Raises SelectionError for single files, SettingError, and what `compact` raises.
    """
    tasks = [(root, targets, request) for root, targets in _by_directory(request.targets).items()]
    saved: dict[str, dict[Key, int]] = {}
    if request.compaction is not None:
        from kafkalog_core.ops.usage.outlook import saved_by  # noqa: PLC0415 -- sums by kind need no forecast

        roots = {place.path: root for root, targets, _ in tasks for target in targets for place in _places(target)}
        saved = saved_by(replace(request.compaction, targets=request.targets), roots, progress, workers)
    seen: Seen = set()
    if workers is None:
        found_in: Iterable[DirUsage] = (_usage_of(*task, progress, seen) for task in tasks)
    else:
        found_in = workers.map(usage_elsewhere, tasks)
    for each in found_in:
        for key, size_bytes in saved.get(each.path, {}).items():
            share = each.share(*key)
            share.compaction_bytes = (share.compaction_bytes or 0) + size_bytes
        for finding in each.findings:
            report.add_finding(finding.row())
        report.rows += len(each.total.kinds if request.by == "kind" else each.shares) + 1 + len(each.findings)
        yield each


def usage_elsewhere(
    root: str, targets: tuple[Target, ...], request: UsageRequest, advance: Callable[[int], None]
) -> DirUsage:
    """Return what is in one log directory: the work of another process."""
    return _usage_of(root, targets, request, Advance(advance), set())


def _by_directory(targets: Sequence[Target]) -> dict[str, tuple[Target, ...]]:
    """Return the targets by their log directory; that of a partition outside of any is the directory around it."""
    found_in: dict[str, tuple[Target, ...]] = {}
    for target in targets:
        if isinstance(target, FileTarget):
            raise SelectionError("whole directories are added up: name its partition directory", path=target.path)
        root = target.path if isinstance(target, LogDirTarget) else target.log_dir or os.path.dirname(target.path)
        found_in[root] = (*found_in.get(root, ()), target)
    return found_in


def _usage_of(
    root: str, targets: tuple[Target, ...], request: UsageRequest, progress: Progress, seen: Seen
) -> DirUsage:
    is_whole = any(isinstance(target, LogDirTarget) and target.is_whole for target in targets)
    places = [place for target in targets for place in _places(target)]
    result = DirUsage(path=root, by=request.by, is_whole=is_whole)
    directory: object = result  # of the first item it is another one
    kinds: dict[ItemKind, KindSum] = {}
    for item in disk_items(root or ".", None if is_whole else places, seen):
        # The files of a partition come one after the other.
        if item.directory is not directory:
            directory, kinds = item.directory, result.share(item.topic, item.partition).kinds
            progress.advance(0)
        known_sum = kinds.get(item.kind)
        if known_sum is None:
            known_sum = kinds[item.kind] = KindSum()
        known_sum.add(item)
        if item.kind is _FOREIGN and item.allocated_bytes > result.largest_foreign[0]:
            result.largest_foreign = item.allocated_bytes, item.path
        if item.finding is not None:
            result.add_finding(item.finding)
    _add_file_system(result)
    if request.retention is not None:
        from kafkalog_core.ops.usage.outlook import add_retention  # noqa: PLC0415 -- as above

        result.now_ms = request.retention.now_ms
        add_retention(result, targets, request.retention, progress)
    return result


def _add_file_system(result: DirUsage) -> None:
    path = result.path or "."
    try:
        status, directory = os.statvfs(path), os.stat(path)
        free = free_bytes(path, directory.st_uid)
    except OSError as error:
        refusal = open_error(path, error)
        result.add_finding(found(code_of_dir_error(refusal), path, reason=refusal.message))
        return
    result.file_system = directory.st_dev
    result.file_system_bytes = status.f_blocks * status.f_frsize
    result.free_bytes = free


def _places(target: Target) -> tuple[PartitionPath, ...]:
    """Return the selected partitions of a target."""
    if isinstance(target, FileTarget):
        return ()
    return target.partitions if isinstance(target, LogDirTarget) else (target.place,)
