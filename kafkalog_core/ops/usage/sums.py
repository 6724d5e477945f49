"""The sums of `usage`: what each topic, partition and kind takes in a log directory, and what of it may go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.findings import Finding
from kafkalog_core.format.layout import DISK_BLOCK_BYTES
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.kafka.sim.evidence import ReleaseGuess
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.retain.forecaster import RetainForecast
    from kafkalog_core.ops.usage.disk_items import DiskItem, ItemKind

__all__ = ["By", "DirUsage", "Key", "KindSum", "SpaceShare", "merged"]

By = Literal["topic", "partition", "kind"]
Key = tuple[str | None, int | None]
"""Topic and partition number; None where files are of no topic, or all of them are one sum."""

_KEPT_FINDINGS: Final = 1000


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
        unknown: why the settings by which it deletes nothing are unknown, a sentence each.
        now_ms: the time that counts as now for retention; None: no forecast was asked for.
        guess: the release whose rules the forecast follows.
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
    unknown: tuple[str, ...] = ()
    now_ms: int | None = None
    guess: ReleaseGuess | None = None
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
