"""What is asked for of one partition, and what there is to say of it: plain values that go between processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.logdirs.context import PartitionContext
    from kafkalog_core.ops.plans.plan import Loss
    from kafkalog_core.ops.recovery.rules import RecoveryRules
    from kafkalog_core.ops.releases.release import Release
    from kafkalog_core.ops.releases.setting_values import TopicSettings

__all__ = ["ReindexTask", "Said"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexTask:
    """One partition, as it goes to a process: plain values only.

    Args:
        path: of its directory.
        bases: base offsets of the segments that are meant; null: all, and the files of the partition.
        context: what its log directory says of it.
        release: whose rules.
        rules: the same for a segment.
        settings: of its topic.
        writes_all: whether an index that is right is written too, where it is not byte for byte a recovery's.
        as_broker: whether a damaged log is cut, as a broker does that has to rebuild its index.
        high_watermark: of the partition; null: it is not known.
        max_batch_bytes: the largest batch that is read.
        now_ms: the time that counts as now.
    """

    path: str
    bases: frozenset[int] | None
    context: PartitionContext
    release: Release
    rules: RecoveryRules
    settings: TopicSettings
    writes_all: bool
    as_broker: bool
    high_watermark: int | None
    max_batch_bytes: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What there is to say of a partition beside its steps."""

    findings: tuple[Finding, ...] = ()
    refusals: tuple[Finding, ...] = ()
    losses: tuple[Loss, ...] = ()
