"""What a broker does at its next start with damage in a log: nothing, cut it, or die of it.

That depends on the mark of a clean stop, the recovery point, whether the segment has an index, and what is damaged:
after a clean stop a broker recovers nothing and computes no checksum; after a crash it reads from the segment that
holds the recovery point and cuts at the first batch that is bad. All of it is a pure function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.format.names import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.ops.verify.context import PartitionContext

__all__ = ["AtRisk", "DamagePlace", "Disposition", "SegmentExtent", "at_risk", "at_risk_finding", "disposition"]

_HEADER_BYTES: Final = 17
"""Fewer bytes at the end of a log are no header to a broker: it does not look at them."""
_CUT_REASONS: Final = frozenset(
    {"torn-tail", "zero-filled", "bad-length", "unknown-magic", "crc-mismatch", "over-limit"}
)
_TAIL_REASONS: Final = frozenset({"torn-tail", "zero-filled"})
_NO_SIZE_REASONS: Final = frozenset({"zero-filled", "bad-length"})


@dataclass(frozen=True, slots=True)
class SegmentExtent:
    """Where a segment is among those of its partition, as far as recovery asks."""

    base_offset: int
    size_bytes: int
    has_index: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagePlace:
    """Damage in a log: `reason` is one of `LOG_DAMAGE`, `segments` are all of its partition, `index` says which."""

    reason: str
    position: int
    size_bytes: int
    segments: Sequence[SegmentExtent]
    index: int
    topic: str | None = None

    @property
    def segment(self) -> SegmentExtent:
        """The damaged segment."""
        return self.segments[self.index]

    @property
    def is_active(self) -> bool:
        """Whether it is the last segment, to which a broker appends."""
        return self.index == len(self.segments) - 1

    @property
    def later(self) -> Sequence[SegmentExtent]:
        """The segments behind it."""
        return self.segments[self.index + 1 :]

    @property
    def is_tail(self) -> bool:
        """Whether nothing but damage follows, so that nothing is lost with it that could be read."""
        return self.is_active and self.position + self.size_bytes >= self.segment.size_bytes


@dataclass(frozen=True, slots=True)
class Disposition:
    """What a broker does, how many bytes that costs, and the severity where it is another than that of the damage."""

    broker_action: str
    lost_bytes: int = 0
    severity: Severity | None = None


_INSIDE: Final = Disposition(
    "Does not look inside of batches when it starts: keeps it and serves it to consumers, who fail here."
)
_SAME_ALWAYS: Final = {
    "unreadable": Disposition(
        "Takes the whole log directory offline at the first read that reaches this place, at its start or later."
    )
}


def disposition(place: DamagePlace, context: PartitionContext) -> Disposition:
    """What a broker does with damage at its next start."""
    if place.reason in _SAME_ALWAYS:
        return _SAME_ALWAYS[place.reason]
    if place.reason == "offset-order":
        return _disorder(place, context)
    return _cut_or_kept(place, context) if place.reason in _CUT_REASONS else _INSIDE


def _cut_or_kept(place: DamagePlace, context: PartitionContext) -> Disposition:
    """What stops a recovery, where there is one."""
    if not place.segment.has_index:
        return _cut_alone(place)
    if context.is_clean is None and place.topic != METADATA_TOPIC:
        return _unknown(place)
    return _cut(place) if _is_recovered(place, context) else _served(place, context)


def _is_recovered(place: DamagePlace, context: PartitionContext) -> bool:
    if place.topic == METADATA_TOPIC:
        return True  # all of it is recovered at every start
    if context.is_clean:
        return False
    return place.is_active or (context.recovery_point or 0) < place.segments[place.index + 1].base_offset


def _cut(place: DamagePlace) -> Disposition:
    if place.is_tail:
        severity: Severity | None = "info" if place.reason in _TAIL_REASONS else None
        return Disposition(
            f"Cuts the log here when it recovers it: {_bytes_text(place.size_bytes)} that hold no whole batch.",
            place.size_bytes,
            severity,
        )
    rest = place.segment.size_bytes - place.position
    later = sum(segment.size_bytes for segment in place.later)
    behind = f", and deletes {_segments_text(len(place.later))} behind it" if place.later else ""
    text = f"Cuts the log here when it recovers it: {_bytes_text(rest)} of this segment{behind}."
    if later:
        text += f" {_bytes_text(rest + later)} are lost, whole batches among them."
    return Disposition(text, rest + later)


def _cut_alone(place: DamagePlace) -> Disposition:
    rest = place.segment.size_bytes - place.position
    kept = " and keeps the segments behind it, so that offsets are missing between them" if place.later else ""
    return Disposition(
        f"Recovers the segment, as it has no offset index: cuts {_bytes_text(rest)} from here on{kept}.", rest
    )


def _served(place: DamagePlace, context: PartitionContext) -> Disposition:
    why = "as the last stop was clean" if context.is_clean else "as it lies below the recovery point"
    if place.reason in {"crc-mismatch", "over-limit", "unknown-magic"}:
        return Disposition(f"Does not notice it at its start, {why}, and serves it to consumers, who fail here.")
    rest = place.segment.size_bytes - place.position
    if not place.is_active:
        return Disposition(
            f"Does not notice it at its start, {why}, unless it has to replay producers from here; reads that come to "
            f"this place fail, and so the {_bytes_text(rest)} behind it are not reached from before."
        )
    if place.reason in _NO_SIZE_REASONS and rest > _HEADER_BYTES:
        return Disposition(
            f"Does not start, {why}: it looks for the end of the log here and finds a record size that cannot be.",
            severity="error",
        )
    return Disposition(
        f"Takes this for the end of the log, {why}, and appends behind these {_bytes_text(rest)}: nobody can read past "
        "them then.",
        severity="error",
    )


def _unknown(place: DamagePlace) -> Disposition:
    clean, crashed = "Does not notice it after a clean stop", "cuts the log here after a crash"
    severity: Severity | None = "warning" if place.is_tail and place.reason in _TAIL_REASONS else None
    if place.is_active and place.reason in _NO_SIZE_REASONS:
        clean = "May not start after a clean stop"
    scope = "" if place.is_active else ", where the recovery point is not behind this segment"
    return Disposition(f"{clean}; {crashed}{scope}.", 0, severity)


def _disorder(place: DamagePlace, context: PartitionContext) -> Disposition:
    if not place.segment.has_index:
        return Disposition(
            "Recovers the segment, as it has no offset index, and does not start where it meets this at an index entry."
        )
    if context.is_clean is False and _is_recovered(place, context):
        return Disposition(
            "Empties the whole segment when it recovers it and meets this at an index entry, and deletes the segments "
            "behind it; else it does not notice.",
            place.segment.size_bytes + sum(segment.size_bytes for segment in place.later),
        )
    return Disposition("Does not notice it at its start; consumers may pass over records here.")


def _bytes_text(count: int) -> str:
    return "1 byte" if count == 1 else f"{count:,} bytes"


def _segments_text(count: int) -> str:
    return "the 1 segment" if count == 1 else f"the {count} segments"


# --- what lies behind the recovery point ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AtRisk:
    """What a broker will read again and may cut: from the base of the segment that holds the recovery point."""

    base_offset: int
    size_bytes: int
    segments: int


def at_risk(segments: Sequence[SegmentExtent], context: PartitionContext) -> AtRisk | None:
    """Null after a clean stop, or where that is not known, or where nothing is there."""
    if context.is_clean is not False or not segments:
        return None
    recovery_point = context.recovery_point or 0
    first = max(
        (index for index, segment in enumerate(segments) if segment.base_offset <= recovery_point),
        default=0,
    )
    tail = segments[first:]
    size_bytes = sum(segment.size_bytes for segment in tail)
    return AtRisk(tail[0].base_offset, size_bytes, len(tail)) if size_bytes else None


def at_risk_finding(
    risk: AtRisk, path: str, context: PartitionContext, *, topic: str | None, partition: int | None
) -> Finding:
    """The finding that says so of a partition."""
    finding = found(
        "partition.at-risk",
        path,
        topic=topic,
        partition=partition,
        size_bytes=risk.size_bytes,
        offset=risk.base_offset,
        amount=_bytes_text(risk.size_bytes),
        segments="1 segment" if risk.segments == 1 else f"{risk.segments} segments",
        recovery_point="none" if context.recovery_point is None else context.recovery_point,
    )
    return replace(finding, position=None)
