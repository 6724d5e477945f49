"""What is known of a segment and of a partition when they have been checked: plain values that go between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array

    from kafkalog_core.findings import Finding

__all__ = ["ControlMarker", "EpochStart", "PartitionVerdict", "ProducerChain", "SegmentVerdict"]


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The first batch of a leader epoch in a segment, as its headers say, where the epoch before it was another."""

    epoch: int
    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class ControlMarker:
    """What the record of a control batch says; `type_id` 0 abort, 1 commit; None: not readable."""

    type_id: int | None
    coordinator_epoch: int


@dataclass(slots=True)
class ProducerChain:
    """The batches of a segment that have a producer, in order: what a replay of producer state needs of them.

    `rows` holds columns of the batch table (`columns.BATCH_FIELDS`) one after another, `markers` what the control
    batches among them say, by row.
    """

    count: int = 0
    rows: array[int] | None = None
    markers: dict[int, ControlMarker] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerdict:
    """One checked segment.

    `damage` are damaged spans (position, size_bytes) of the log, in order and not touching. Offsets and timestamps are
    null where there is no batch (no timestamp). `last_epoch` is the leader epoch of the last batch, -1: none.
    """

    path: str
    base_offset: int
    size_bytes: int
    is_last: bool
    mtime_ms: int
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None
    max_timestamp_ms: int | None
    formats: tuple[str, ...]
    epochs: tuple[EpochStart, ...]
    has_offset_holes: bool
    damage: tuple[tuple[int, int], ...]
    findings: tuple[Finding, ...]
    chain: ProducerChain


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """One checked partition; `findings` hold those of its segments too, in the order of the files.

    `log_start_offset` and `log_end_offset` are what a broker would find: null where there is no segment.
    """

    path: str
    topic: str | None
    partition: int | None
    segments: tuple[SegmentVerdict, ...]
    findings: tuple[Finding, ...]
    log_start_offset: int | None
    log_end_offset: int | None
    at_risk_bytes: int | None
