"""The sums of `usage`: what each topic, partition and kind takes in each log directory, and what of it may go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import SelectionError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.layout import DISK_BLOCK_BYTES
from kafkalog_core.ops.usage.disk_items import DiskItem, ItemKind, Seen, disk_items
from kafkalog_core.progress import NO_PROGRESS, Advance, Progress
from kafkalog_core.storage.access import code_of_dir_error, open_error
from kafkalog_core.storage.changing.space import free_bytes
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.ops.compact.forecast import CompactRequest
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionOptions
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["By", "DirUsage", "Key", "KindSum", "SpaceShare", "UsageRequest", "merged", "usage", "usage_elsewhere"]

By = Literal["topic", "partition", "kind"]
Key = tuple[str | None, int | None]
"""Topic and partition number; None where files are of no topic, or all of them are one sum."""

_KEPT_FINDINGS: Final = 1000
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


class KindSum(Struct):
    """The files of one kind. Bytes of a file with several names count once; `files` counts each name."""

    files: int = 0
    size_bytes: int = 0
    allocated_bytes: int = 0
    slack_bytes: int = 0
    slack_allocated_bytes: int = 0
    sparse_files: int = 0
    linked_files: int = 0
    linked_bytes: int = 0

    def add(self, item: DiskItem) -> None:
        """Count one file or directory."""
        self.files += 1
        size, allocated = item.size_bytes, item.allocated_bytes
        if item.is_linked:
            self.linked_files += 1
            if item.is_repeated:
                return
            self.linked_bytes += allocated
        self.size_bytes += size
        self.allocated_bytes += allocated
        # Less than a block is the end of the last one, or a small file that is stored in its inode.
        if size - allocated >= DISK_BLOCK_BYTES:
            self.sparse_files += 1
        if item.slack_bytes:
            self.slack_bytes += item.slack_bytes
            self.slack_allocated_bytes += item.slack_allocated_bytes

    def plus(self, other: KindSum) -> KindSum:
        """Return the sum of both."""
        names = self.__struct_fields__
        return KindSum(**{name: getattr(self, name) + getattr(other, name) for name in names})


class SpaceShare(Struct):
    """What a topic, a partition or a directory takes.

    Args:
        kinds: its files by kind.
        retention_bytes: bytes of log that the next retention check deletes; None: no forecast was asked for.
        retention_segments: the segments of these.
        next_due_ms: when the first other segment is due, in milliseconds since 1970; None: the time alone deletes none.
        unforeseen: number of partitions of which retention cannot be predicted.
        compaction_bytes: bytes of log that a clean would save; None: it was not asked for.
    """

    kinds: dict[ItemKind, KindSum] = field(default_factory=dict)
    retention_bytes: int | None = None
    retention_segments: int | None = None
    next_due_ms: int | None = None
    unforeseen: int | None = None
    compaction_bytes: int | None = None

    @property
    def total(self) -> KindSum:
        """The sum of all kinds."""
        total = KindSum()
        for each in self.kinds.values():
            total = total.plus(each)
        return total

    def allocated(self, kinds: Iterable[ItemKind]) -> int:
        """Return the allocated bytes of some kinds."""
        return sum(self.kinds[kind].allocated_bytes for kind in kinds if kind in self.kinds)

    def add_retention(self, each: RetainForecast | Finding) -> None:
        """Add the forecast of a partition, or that there is none."""
        self.retention_bytes, self.retention_segments = self.retention_bytes or 0, self.retention_segments or 0
        self.unforeseen = self.unforeseen or 0
        if isinstance(each, Finding):
            # The metadata log has a retention of its own (KafkaRaftLog), which deletes no topic's data.
            self.unforeseen += each.code != "retain.metadata-log"
            return
        forecast = each.forecast
        self.retention_bytes += forecast.deleted_bytes
        self.retention_segments += len(forecast.deleted)
        due_ms = None if forecast.next_due is None else forecast.next_due.due_ms
        if due_ms is not None:
            self.next_due_ms = due_ms if self.next_due_ms is None else min(due_ms, self.next_due_ms)

    def plus(self, other: SpaceShare) -> SpaceShare:
        """Return the sum of both."""
        kinds = {
            kind: self.kinds.get(kind, KindSum()).plus(other.kinds.get(kind, KindSum()))
            for kind in dict.fromkeys((*self.kinds, *other.kinds))
        }
        names = ("retention_bytes", "retention_segments", "unforeseen", "compaction_bytes")
        sums = {name: _sum(getattr(self, name), getattr(other, name)) for name in names}
        dues = [each.next_due_ms for each in (self, other) if each.next_due_ms is not None]
        return SpaceShare(kinds=kinds, next_due_ms=min(dues, default=None), **sums)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


class DirUsage(Struct, kw_only=True):
    """What is in one log directory.

    Args:
        path: its path; outside of a log directory, that of the directory around the partitions.
        by: what the shares are of.
        is_whole: whether all of it was counted; else some partitions were selected.
        file_system: number of its file system on this machine.
        file_system_bytes: the size of the file system.
        free_bytes: what the owner of the directory may still write there, as a broker that runs as its owner.
        shares: by topic and partition, in no order.
        largest_foreign: bytes allocated to the largest file that is not Kafka's, and its path.
        findings: what could not be read, and partitions whose retention cannot be predicted.
        more_findings: number of further ones.
        assumptions: assumed values because of which retention would delete.
        now_ms: the time that counts as now for retention; None: no forecast was asked for.
        release: whose rules the forecast follows.
        retention_problem: why nothing of retention is known; None: it is, or no forecast was asked for.
    """

    path: str
    by: By
    is_whole: bool
    file_system: int = 0
    file_system_bytes: int = 0
    free_bytes: int = 0
    shares: dict[Key, SpaceShare] = field(default_factory=dict)
    largest_foreign: tuple[int, str] = (0, "")
    findings: list[Finding] = field(default_factory=list)
    more_findings: int = 0
    assumptions: tuple[Assumption, ...] = ()
    now_ms: int | None = None
    release: Release | None = None
    retention_problem: str | None = None

    @property
    def total(self) -> SpaceShare:
        """The sum of all shares."""
        total = SpaceShare()
        for each in self.shares.values():
            total = total.plus(each)
        return total

    def share(self, topic: str | None, partition: int | None) -> SpaceShare:
        """Return the share of a partition, a new one where there is none."""
        key = (None, None) if self.by == "kind" else (topic, partition if self.by == "partition" else None)
        known = self.shares.get(key)
        if known is None:
            known = self.shares[key] = SpaceShare()
        return known

    def add_finding(self, finding: Finding) -> None:
        """Keep a finding, or count it."""
        if len(self.findings) < _KEPT_FINDINGS:
            self.findings.append(finding)
        else:
            self.more_findings += 1


def merged(found: Iterable[DirUsage]) -> dict[Key, SpaceShare]:
    """Return the shares of several directories as one."""
    shares: dict[Key, SpaceShare] = {}
    for each in found:
        for key, share in each.shares.items():
            shares[key] = shares[key].plus(share) if key in shares else share
    return shares


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
