"""One check of a log: what `UnifiedLog.deleteOldSegments` deletes of it at one moment, and what keeps the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.ops.logdirs.segment_views import NO_TIMESTAMP, SegmentView
from kafkalog_core.ops.retention.policies import Judgement, by_size, by_start_offset, by_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.ops.logdirs.segment_views import PartitionView
    from kafkalog_core.ops.retention.policies import Policy
    from kafkalog_core.ops.retention.rules import RetentionRules

__all__ = ["Checked", "Deleted", "Log", "Stop", "check", "judgements", "log_of", "policy_of"]

Keeper = Literal["policy", "high-watermark", "empty-active", "remote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log as retention sees it, between two checks.

    Args:
        segments: the oldest first, the active one last.
        start_offset: of the log.
        high_watermark: nothing at or above it goes, where the release looks at it.
        end_offset: behind the last record.
    """

    segments: tuple[SegmentView, ...]
    start_offset: int
    high_watermark: int
    end_offset: int


class Deleted(NamedTuple):
    """A segment that one pass deletes."""

    segment: SegmentView
    rule: str
    reason: str
    due_ms: int | None


class Stop(NamedTuple):
    """The segment at which a pass ends, and what keeps it there."""

    segment: SegmentView
    rule: str
    keeper: Keeper
    reason: str
    due_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one check does.

    Args:
        deleted: in the order in which it goes.
        stops: of each pass that met a segment that it keeps.
        log: as it is afterwards.
        new_segment: the empty one that a broker makes first, where all others go; null: none.
    """

    deleted: tuple[Deleted, ...]
    stops: tuple[Stop, ...]
    log: Log
    new_segment: SegmentView | None


def log_of(view: PartitionView, start_offset: int | None = None) -> Log:
    """The log of a partition; `start_offset` in place of its own."""
    start = view.log_start_offset if start_offset is None else start_offset
    if view.is_tiered and view.segments:
        start = max(start, view.segments[0].base_offset)
    return Log(
        segments=view.segments,
        start_offset=start,
        high_watermark=max(view.high_watermark, start),
        end_offset=view.end_offset,
    )


def policy_of(name: str, rules: RetentionRules, log: Log, custom: Mapping[str, Policy]) -> Policy:
    """The policy of a rule, as it runs over a log."""
    if name == "time":
        return by_time(rules.retention_ms, rules.time_setting)
    if name == "size":
        return by_size(rules.retention_bytes, rules.size_setting)
    return by_start_offset(log.start_offset) if name == "start-offset" else custom[name]


def check(log: Log, rules: RetentionRules, now_ms: int, custom: Mapping[str, Policy]) -> Checked:
    """One check at a moment.

    Args:
        log: as it is.
        rules: of its topic.
        now_ms: the moment.
        custom: further policies by their names.
    """
    deleted: list[Deleted] = []
    stops: list[Stop] = []
    new_segment: SegmentView | None = None
    for name in (*rules.passes, *custom):
        policy = policy_of(name, rules, log, custom)
        gone, stop = _run(log, rules, name, judgements(policy, log.segments, now_ms))
        deleted += gone
        stops += [] if stop is None else [stop]
        if not gone:
            continue
        rest = log.segments[len(gone) :]
        if not rest:
            new_segment = _new_segment(log, now_ms)
            rest = (new_segment,)
        log = replace(log, segments=rest, start_offset=max(log.start_offset, rest[0].base_offset))
    return Checked(deleted=tuple(deleted), stops=tuple(stops), log=log, new_segment=new_segment)


def judgements(policy: Policy, segments: Sequence[SegmentView], now_ms: int) -> Iterator[Judgement]:
    """What a policy says of each segment; a plain bool is one without words."""
    for each in policy(segments, now_ms):
        yield each if isinstance(each, Judgement) else Judgement(bool(each))


def _run(log: Log, rules: RetentionRules, name: str, judged: Iterable[Judgement]) -> tuple[list[Deleted], Stop | None]:
    """What one pass deletes, and where it ends."""
    gone: list[Deleted] = []
    due_ms: int | None = 0
    for segment, judgement in zip(log.segments, judged, strict=False):
        due_ms = None if due_ms is None or judgement.due_ms is None else max(due_ms, judgement.due_ms)
        keeper, reason = _keeper(log, rules, segment, judgement)
        if keeper is not None:
            return gone, Stop(segment, name, keeper, reason, due_ms if keeper == "policy" else None)
        gone.append(Deleted(segment, name, judgement.reason, due_ms))
    return gone, None


def _keeper(log: Log, rules: RetentionRules, segment: SegmentView, judgement: Judgement) -> tuple[Keeper | None, str]:
    """What keeps a segment, and why; null: nothing does."""
    if not judgement.deletes:
        return "policy", judgement.reason
    if rules.is_bounded and log.high_watermark < segment.next_offset:
        return "high-watermark", (
            f"it ends at offset {segment.next_offset}, above the high watermark {log.high_watermark}: its last records "
            "are not known to be on all replicas"
        )
    if segment.is_active and not segment.size_bytes:
        return "empty-active", "the active segment is empty"
    if segment.is_active and segment.base_offset >= log.end_offset:  # UnifiedLog.roll refuses a segment that is there
        return "empty-active", "the active segment holds no whole batch, and the next one would have its name"
    if rules.is_tiered and (segment.is_active or segment.next_offset > log.start_offset):
        return "remote", "it goes only once it is in remote storage, and nothing on this disk tells whether it is"
    return None, judgement.reason


def _new_segment(log: Log, now_ms: int) -> SegmentView:
    path = log.segments[-1].path.rpartition("/")[0]
    return SegmentView(
        base_offset=log.end_offset,
        next_offset=log.end_offset,
        size_bytes=0,
        max_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_origin="a new segment",
        mtime_ms=now_ms,
        is_active=True,
        path=f"{path}/{segment_file_name(log.end_offset, FileKind.LOG)}",
    )
