"""What a broker does at its next start with damage in a log: nothing, cut it, or die of it.

That depends on the mark of a clean stop, the recovery point, whether the segment has an index, and what is damaged:
after a clean stop a broker recovers nothing and computes no checksum; after a crash it reads from the segment that
holds the recovery point and cuts at the first batch that is bad. All of it is a pure function.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.findings import found
from kafkalog_core.findings.kinds import CLEAN_MARK, DENIED, MARK_OF_ALL
from kafkalog_core.findings.logs import DAMAGE_REASONS, V07_SUFFIX, ZERO_TAIL
from kafkalog_core.findings.next_commands import AS_BROKER, AT_DAMAGE
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, segment_file_name
from kafkalog_core.kafka.start.files import is_candidate
from kafkalog_core.ops.verify.metadata_log import snapshot_damage
from kafkalog_core.ops.verify.verdict import PartitionVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.kafka.logdir.top_files import PartitionContext
    from kafkalog_core.ops.verify.verdict import PlaceVerdict

__all__ = [
    "AtRisk",
    "DamagePlace",
    "Disposition",
    "SegmentExtent",
    "Unmarking",
    "at_risk",
    "at_risk_finding",
    "damage_places",
    "disposition",
    "is_recovered",
    "is_unmarking",
    "with_dispositions",
]


_HEADER_BYTES: Final = 17
"""Fewer bytes at the end of a log are no header to a broker: it does not look at them."""
_CUT_REASONS: Final = frozenset({"torn-tail", "zero-filled", "bad-length", "unknown-magic", "crc-mismatch"})
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
    """Damage in a log: `reason` is one of `LOG_DAMAGE`; `index` is the damaged one of `segments`, all of its partition.

    `is_zeros`: nothing but zeros follow in the file.
    """

    reason: str
    position: int
    size_bytes: int
    segments: Sequence[SegmentExtent]
    index: int
    topic: str | None = None
    is_zeros: bool = False

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

    @property
    def is_plain_tail(self) -> bool:
        """Whether the log ends here as a crash or preallocation leaves it: in a torn append, or in zeros alone.

        If other bytes follow the zeros, there was data, and it is unknown which.
        """
        return self.is_tail and (self.reason == "torn-tail" or self.is_zeros)


@dataclass(frozen=True, slots=True)
class Disposition:
    """What a broker does, how many bytes that costs at most, and what helps.

    `severity` and `cure` are `None` where they are those of the damage, wherever it is. `next_step` is the template
    of the command that comes next; `None`: that of the damage, which saves what can be read. A cut is named only where
    no whole batch is lost by it, or where no broker starts without one. `may_stop`: whether the broker may not start.
    """

    broker_action: str
    lost_bytes: int = 0
    severity: Severity | None = None
    cure: str | None = None
    next_step: str | None = None
    may_stop: bool = False


_COPY_AWAY: Final = "copy the directory away and see what can be read behind the place: kafkalog dump --resync"
_REPLICA: Final = f"Copy the partition from a healthy replica. Without one, {_COPY_AWAY}."
_SAVE: Final = f"Start no broker on it yet. Copy the partition from a healthy replica; without one, {_COPY_AWAY}."
_UNMARK: Final = (
    f"With the broker stopped, copy the directory away and cut it here: kafkalog truncate --at-damage. Or delete "
    f"{CLEAN_MARK}: the next start then recovers, and cuts it here too. {MARK_OF_ALL}"
)
_TAIL_CUT: Final = "Nothing needs to be done: the next start cuts it, and no whole batch is in it."
_TAIL: Final = (
    f"After a crash nothing needs to be done: the next start cuts it. Where {CLEAN_MARK} is there, copy the directory "
    f"away and cut it here: kafkalog truncate --at-damage. Or delete that mark on a stopped broker, so that the next "
    f"start recovers. {MARK_OF_ALL}"
)
_INSIDE: Final = Disposition(
    "Does not look inside of batches when it starts: keeps it and serves it to consumers, who fail here."
)
_SAME_ALWAYS: Final = {
    "unreadable": Disposition(
        "Takes the whole log directory offline at the first read that reaches this place, at its start or later."
    ),
    "over-limit": Disposition(
        "Reads it, as the limit is kafkalog's own. Releases 0.8.2 to 0.10 cut what they recover at a message larger "
        "than max.message.bytes; none before or since does."
    ),
}


def disposition(place: DamagePlace, context: PartitionContext) -> Disposition:
    """What a broker does with damage at its next start."""
    if place.reason in _SAME_ALWAYS:
        return _SAME_ALWAYS[place.reason]
    if place.reason == "offset-order":
        return _disorder(place, context)
    return _cut_or_kept(place, context) if place.reason in _CUT_REASONS else _INSIDE


def is_recovered(
    index: int, extents: Sequence[SegmentExtent], context: PartitionContext, topic: str | None = None
) -> bool:
    """Whether the next start recovers segment `index`, by the rule of `recovery.candidates`.

    Args:
        index: of the segment in `extents`.
        extents: all segments of the partition in their order.
        context: what its log directory says of it.
        topic: of the partition.
    """
    next_base_offset = None if index == len(extents) - 1 else extents[index + 1].base_offset
    return is_candidate(next_base_offset, context.recovery_point, is_clean=context.is_clean, topic=topic)


def _cut_or_kept(place: DamagePlace, context: PartitionContext) -> Disposition:
    """What stops a recovery, where there is one."""
    if not place.segment.has_index:
        return _if_bad(place, _cut_alone(place))
    if context.is_clean is None and place.topic != METADATA_TOPIC:
        return _unknown(place)
    return _if_bad(place, _cut(place)) if _is_recovered(place, context) else _served(place, context)


def _is_recovered(place: DamagePlace, context: PartitionContext) -> bool:
    return is_recovered(place.index, place.segments, context, place.topic)


def _if_bad(place: DamagePlace, result: Disposition) -> Disposition:
    """A magic of no known release may be that of a later one: recovery goes by the checksum."""
    if place.reason != "unknown-magic":
        return result
    text = result.broker_action
    return replace(
        result,
        broker_action=f"Keeps it if it has a good checksum, as a batch of a later release. Else: {text[:1].lower()}"
        f"{text[1:]}",
    )


def _cut(place: DamagePlace) -> Disposition:
    if place.is_tail:
        is_plain = place.is_plain_tail
        return Disposition(
            f"Cuts the log here when it recovers it: {_bytes_text(place.size_bytes)} that hold no whole batch.",
            place.size_bytes,
            "info" if is_plain else None,
            _TAIL_CUT if is_plain else _SAVE,
            AS_BROKER,
        )
    rest = place.segment.size_bytes - place.position
    later = sum(segment.size_bytes for segment in place.later)
    behind = f", and deletes {_segments_text(len(place.later))} behind it" if place.later else ""
    text = f"Cuts the log here when it recovers it: {_bytes_text(rest)} of this segment{behind}."
    if later:
        text += f" {_bytes_text(rest + later)} are lost, whole batches among them."
    return Disposition(text, rest + later, cure=_SAVE)


def _cut_alone(place: DamagePlace) -> Disposition:
    rest = place.segment.size_bytes - place.position
    kept = " and keeps the segments behind it, so that offsets are missing between them" if place.later else ""
    return Disposition(
        f"Recovers the segment, as it has no offset index: cuts {_bytes_text(rest)} from here on{kept}.",
        rest,
        cure=_SAVE,
    )


def _served(place: DamagePlace, context: PartitionContext) -> Disposition:
    why = f"as {CLEAN_MARK} is there" if context.is_clean else "as it is below the recovery point"
    if place.reason in {"crc-mismatch", "unknown-magic"}:
        return Disposition(
            f"Computes no checksum at its start, {why}, and serves it to consumers, who fail here.", cure=_REPLICA
        )
    rest = place.segment.size_bytes - place.position
    if not place.is_active:
        return Disposition(
            f"Does not notice it at its start, {why}, unless it has to replay producers from here; reads that come to "
            f"this place fail, and so the {_bytes_text(rest)} behind it are not reached from before.",
            cure=_REPLICA,
        )
    return _end_of_log(place, why, rest)


def _end_of_log(place: DamagePlace, why: str, rest: int) -> Disposition:
    """It looks for the end of the log from the last entry of the offset index on, and reads nothing but headers."""
    if not place.is_tail:
        return Disposition(
            f"May not start, {why}: it looks for the end of the log behind the last entry of the offset index. If this "
            "place is there, a record size below 14 stops it, and one that leads behind the file makes this the end of "
            "the log. Else it does not notice it, and reads that come here fail.",
            severity="error",
            cure=_SAVE,
            next_step=AT_DAMAGE,
            may_stop=True,
        )
    appends = f"appends behind these {_bytes_text(rest)}: nobody can read past them then."
    may_stop = place.reason in _NO_SIZE_REASONS and rest > _HEADER_BYTES
    if may_stop and place.reason == "zero-filled":
        text = f"Does not start, {why}: it looks for the end of the log here and finds a record size that cannot be."
    elif may_stop:
        text = f"May not start, {why}: a record size below 14 stops it. One that leads behind the file it takes for "
        text += f"the end of the log, and {appends}"
    else:
        text = f"Takes this for the end of the log, {why}, and {appends}"
    cure = _UNMARK if place.reason in _TAIL_REASONS else _SAVE
    return Disposition(text, severity="error", cure=cure, next_step=AT_DAMAGE, may_stop=may_stop)


def _unknown(place: DamagePlace) -> Disposition:
    clean, crashed = "Does not notice it after a clean stop", "cuts the log here after a crash"
    if place.reason == "unknown-magic":
        crashed += ", unless its checksum is good"
    is_plain_tail = place.is_plain_tail
    if place.is_active and place.reason in _NO_SIZE_REASONS:
        clean = "May not start after a clean stop"
    scope = "" if place.is_active else ", where the recovery point is not behind this segment"
    text = f"{clean}; {crashed}{scope}."
    if is_plain_tail:
        return Disposition(text, 0, "warning", _TAIL, AT_DAMAGE)
    return Disposition(text, cure=_SAVE)


def _disorder(place: DamagePlace, context: PartitionContext) -> Disposition:
    if not place.segment.has_index:
        return Disposition(
            "Recovers the segment, as it has no offset index, and does not start where it meets this at an index "
            "entry.",
            cure=_SAVE,
            next_step=AT_DAMAGE,
        )
    if _is_recovered(place, context):
        return Disposition(
            "Empties the whole segment when it recovers it and meets this at an index entry, and deletes the segments "
            "behind it; else it does not notice.",
            place.segment.size_bytes + sum(segment.size_bytes for segment in place.later),
            cure=_SAVE,
            next_step=AT_DAMAGE,
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
    first = next(index for index in range(len(segments)) if is_recovered(index, segments, context))
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


_V07_ACTION: Final = (
    "Cuts it off: after an unclean stop 0.7 reads its last file, up to the first message that is not whole."
)
_V07_CURE: Final = "Nothing needs to be done: the next start cuts it, and no whole message is in it."


def damage_places(verdict: PartitionVerdict) -> Iterator[tuple[Finding, DamagePlace | None]]:
    """All findings of a partition; where one is of damage in a log of 0.8 or later, with its place among the logs."""
    extents = [SegmentExtent(segment.base_offset, segment.size_bytes) for segment in verdict.segments]
    indexes = {
        segment.path: index for index, segment in enumerate(verdict.segments) if not segment.path.endswith(V07_SUFFIX)
    }
    for finding in verdict.findings:
        reason = DAMAGE_REASONS.get(finding.code)
        index = indexes.get(finding.path)
        if reason is None or index is None or finding.position is None:
            yield finding, None
            continue
        index_name = segment_file_name(extents[index].base_offset, FileKind.OFFSET_INDEX)
        has_index = os.path.lexists(f"{os.path.dirname(finding.path)}/{index_name}")
        extents[index] = replace(extents[index], has_index=has_index)
        place = DamagePlace(
            reason=reason,
            position=finding.position,
            size_bytes=finding.size_bytes or 0,
            segments=extents,
            index=index,
            topic=verdict.topic,
            is_zeros=finding.code == ZERO_TAIL,
        )
        yield finding, place


def with_dispositions(verdict: PartitionVerdict, context: PartitionContext) -> Iterator[Finding]:
    """All findings of a partition; those of damage with what a broker does about it in this place."""
    last = verdict.segments[-1] if verdict.segments else None
    last_v07 = last.path if last is not None and last.path.endswith(V07_SUFFIX) else None
    for finding, place in damage_places(verdict):
        if place is not None:
            result = disposition(place, context)
            severity, cure = result.severity or finding.severity, result.cure or finding.cure
            step = result.next_step or finding.next_step
            yield replace(finding, broker_action=result.broker_action, severity=severity, cure=cure, next_step=step)
        elif finding.code == "log.torn-tail" and finding.path == last_v07 and context.is_clean is not True:
            yield replace(finding, severity="info", broker_action=_V07_ACTION, cure=_V07_CURE)
        else:
            yield snapshot_damage(finding) if finding.path.endswith(".checkpoint") else finding


_RECOVERED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_NOT_READ: Final = frozenset({DENIED, "file.not-readable", "dir.unreadable", "log.unreadable", "batch.over-limit"})
_FAILS: Final = frozenset(
    {"record.control-key", "record.control-value", "record.control-type", "txn.plain-inside", "txn.marker-unreadable"}
)
"""At these the replay of a recovered segment fails, and of some it cuts what is behind them before."""
_SAFE: Final = "Verified: without the mark the next start would cut nothing else in this log directory."

_ALONE: Final = "What is here can be cut by itself: kafkalog truncate --at-damage shows the plan for this partition."


class _Cut(NamedTuple):
    """Where recovery would cut first in a partition, and what there is the reason."""

    partition: str
    place: str


class Unmarking:
    """One log directory that has the mark of a clean stop: what recovery would cut in it.

    Args:
        has_checksums: whether batches were read, so that one whose checksum is wrong has been found.
    """

    def __init__(self, *, has_checksums: bool) -> None:
        self._is_known = has_checksums
        self._count = 0
        self._cuts: list[_Cut] = []

    def add(self, verdict: PartitionVerdict | PlaceVerdict, name: DirectoryName, context: PartitionContext) -> None:
        """One of its partitions has been checked."""
        if name.state not in _RECOVERED or name.topic == METADATA_TOPIC:  # the metadata log is recovered in any case
            return
        self._count += 1
        if not isinstance(verdict, PartitionVerdict) or any(one.code in _NOT_READ for one in verdict.findings):
            self._is_known = False
        if isinstance(verdict, PartitionVerdict):
            cut = _first_cut(verdict, replace(context, is_clean=False))
            if cut is not None:
                self._cuts.append(_Cut(os.path.basename(verdict.path), cut))

    def settled(self, findings: Sequence[Finding], *, is_whole: bool) -> tuple[Finding, ...]:
        """Findings whose cure is to delete the mark say what that would do; `is_whole`: all partitions were added."""
        if not any(map(is_unmarking, findings)):
            return tuple(findings)
        is_known = is_whole and self._is_known
        return tuple(
            self._settled(finding, is_known=is_known) if is_unmarking(finding) else finding for finding in findings
        )

    def _settled(self, finding: Finding, *, is_known: bool) -> Finding:
        if not self._cuts:
            return replace(finding, cure=(finding.cure or "").replace(MARK_OF_ALL, _SAFE)) if is_known else finding
        cure = self._warning(is_known=is_known)
        return replace(finding, cure=f"{cure} {_ALONE}" if finding.code.startswith("log.") else cure)

    def _warning(self, *, is_known: bool) -> str:
        first, count = self._cuts[0], len(self._cuts)
        of_all = f"{count:,} of {self._count:,}" if is_known else f"at least {count:,}"
        partitions = "partition" if (self._count if is_known else count) == 1 else "partitions"
        return (
            f"Start no broker on it yet, and do not delete {CLEAN_MARK}, though that might mend this: the mark is that "
            "of the whole log directory, and without it the next start would cut damaged batches, and all that is "
            f"behind them, off {of_all} {partitions}, the first {first.partition} at {first.place}. Copy the log "
            "directory away, mend what is damaged there, and verify it again."
        )


def is_unmarking(finding: Finding) -> bool:
    """Whether its cure is to delete the mark of the clean stop."""
    return finding.cure is not None and CLEAN_MARK in finding.cure


def _first_cut(verdict: PartitionVerdict, context: PartitionContext) -> str | None:
    """The first place at which recovery would cut batches off, or fail."""
    places: list[tuple[int, int, str]] = []
    extents = [SegmentExtent(segment.base_offset, segment.size_bytes) for segment in verdict.segments]
    indexes = {segment.path: index for index, segment in enumerate(verdict.segments)}
    for finding, place in damage_places(verdict):
        index = indexes.get(finding.path)
        if index is None or finding.position is None:
            continue
        if place is not None:
            result = disposition(place, context)
            is_cut = result.lost_bytes > 0 and result.severity != "info"
        else:
            is_cut = finding.code in _FAILS and is_recovered(index, extents, context, verdict.topic)
        if is_cut:
            places.append((index, finding.position, f"byte {finding.position:,} of {os.path.basename(finding.path)}"))
    return min(places)[2] if places else None
