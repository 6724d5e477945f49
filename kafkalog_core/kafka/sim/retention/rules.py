"""Retention policies and one check of a log (`UnifiedLog.deleteOldSegments`): pure functions of segments and the time.

A policy is called with the segments of a log, the oldest first and the active one last, and with the time in ms since
1970. It yields a `Judgement`, or a plain bool, for each of them in their order. It does not decide which of them are
deleted in the end: a broker deletes from the oldest one on, and stops at the first one that a policy keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from kafkalog_core.errors import SettingError
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.format.textfile import parse_int64
from kafkalog_core.kafka.rules.releases import Release, Since
from kafkalog_core.kafka.sim.start.segment_views import NO_TIMESTAMP, SegmentView
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import duration, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.kafka.sim.settings import Settings
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView

__all__ = [
    "Checked",
    "Deleted",
    "Judgement",
    "PassName",
    "Policy",
    "RetainedLog",
    "RetentionRules",
    "RetentionStop",
    "Runner",
    "by_size",
    "by_start_offset",
    "by_time",
    "check",
    "check_broker_keys",
    "check_settings",
    "judgements",
    "log_of",
    "policy_of",
    "release_rules",
    "retention_rules",
]


class Judgement(NamedTuple):
    """The answer of a policy for one segment.

    Args:
        deletes: whether it may be deleted.
        reason: why, a clause with the figures that were compared.
        due_ms: when it may be deleted, where the time alone decides that; None: something else decides.
        is_limit: whether there was a limit to compare with, so that the reason explains why a segment is kept.
    """

    deletes: bool
    reason: str = ""
    due_ms: int | None = None
    is_limit: bool = True


Policy: TypeAlias = Callable[[Sequence[SegmentView], int], Iterable[Judgement | bool]]


def by_time(retention_ms: int, name: str = "retention.ms") -> Policy:
    """Return the policy of `retention_ms`: it deletes segments whose largest timestamp is longer ago.

    Where a segment has no timestamp, the modification time of the file counts (`deleteRetentionMsBreachedSegments`).

    Args:
        retention_ms: the limit; negative: none, and everything is kept.
        name: of the setting, for the reasons.
    """

    def policy(segments: Sequence[SegmentView], now_ms: int) -> Iterator[Judgement]:
        if retention_ms < 0:
            yield from _unlimited(segments, name)
            return
        limit = f"{name} {duration(retention_ms)}"
        for segment in segments:
            age_ms = now_ms - segment.largest_timestamp_ms
            dated, ago = ("", " old") if segment.has_timestamp else ("file modified ", " ago")
            if age_ms < 0:
                reason = f"{dated or 'dated '}{duration(age_ms)} ahead of now, {limit}"
            else:
                reason = f"{dated}{duration(age_ms)}{ago}, {'over' if age_ms > retention_ms else 'within'} {limit}"
            # strictly above: startMs - segment.largestTimestamp() > retentionMs
            yield Judgement(age_ms > retention_ms, reason, segment.largest_timestamp_ms + retention_ms + 1)

    return policy


def by_size(retention_bytes: int, name: str = "retention.bytes") -> Policy:
    """Return the policy of `retention_bytes`: it deletes the oldest segments while at least that many bytes are left.

    `UnifiedLog.deleteRetentionSizeBreachedSegments`.

    Args:
        retention_bytes: the limit; negative: none, and everything is kept.
        name: of the setting, for the reasons.
    """

    def policy(segments: Sequence[SegmentView], now_ms: int) -> Iterator[Judgement]:
        del now_ms
        if retention_bytes < 0:
            yield from _unlimited(segments, name)
            return
        limit = f"{name} {size(retention_bytes)}"
        left_bytes = sum(segment.size_bytes for segment in segments)
        for segment in segments:
            without = left_bytes - segment.size_bytes
            # deletes while diff - segment.size() >= 0: at least retention.bytes are left
            if without >= retention_bytes:
                left_bytes = without
                yield Judgement(True, f"{size(without)} remain without it, not below {limit}")
            else:
                yield Judgement(False, f"only {size(without)} would remain without it, below {limit}")

    return policy


def by_start_offset(start_offset: int) -> Policy:
    """Return the policy that deletes segments completely below the log start offset, never the active one.

    `UnifiedLog.deleteLogStartOffsetBreachedSegments` (KIP-107).
    """

    def policy(segments: Sequence[SegmentView], now_ms: int) -> Iterator[Judgement]:
        del now_ms
        for _, following in pairwise(segments):
            base, is_below = following.base_offset, following.base_offset <= start_offset
            where = f"at or below the log start offset {start_offset}" if is_below else f"above it ({start_offset})"
            yield Judgement(is_below, f"the next segment starts at {base}, {where}", is_limit=is_below)
        if segments:
            yield Judgement(False, "the active segment is never below the log start offset", is_limit=False)

    return policy


def _unlimited(segments: Sequence[SegmentView], name: str) -> Iterator[Judgement]:
    for _ in segments:
        yield Judgement(False, f"{name} is unlimited", is_limit=False)


PassName = Literal["start-offset", "size", "time"]
Runner = Literal["retention", "cleaner", "nobody"]

_SAME_AS_WHOLE: Final = -2


class RetentionRules(Struct, frozen=True, kw_only=True):
    """How retention works on one log.

    Args:
        passes: in their order; each looks at what the one before has left.
        why_none: why there is none, one sentence without its full stop; None: there are some.
        is_bounded: whether nothing at or above the high watermark is deleted.
        runner: what runs them: the retention thread, or the cleaner's for compacted topics.
        retention_ms: the time limit.
        time_setting: the setting that it comes from.
        retention_bytes: the size limit.
        size_setting: the setting that it comes from.
        is_tiered: whether a segment is deleted only once it is in remote storage (KIP-405).
        start_needs_policy: whether segments below the log start offset are deleted under cleanup.policy=delete alone
            (KAFKA-7400).
    """

    passes: tuple[PassName, ...]
    why_none: str | None
    is_bounded: bool
    runner: Runner
    retention_ms: int
    time_setting: str
    retention_bytes: int
    size_setting: str
    is_tiered: bool
    start_needs_policy: bool = False


def retention_rules(topic: TopicSettings, settings: Settings) -> RetentionRules:
    """Return the rules for a topic (`UnifiedLog.deleteOldSegments`, before 3.0 `Log`, before 0.11 `LogManager`)."""
    release = settings.release
    is_tiered = topic.remote_storage_enable and not topic.remote_log_copy_disable and release >= Since.TIERED
    is_compacted = "compact" in topic.cleanup_policy
    passes, why_none = _passes(topic.cleanup_policy, release, is_tiered=is_tiered)
    runner: Runner = "cleaner" if is_compacted else "retention"
    if is_compacted and passes and not settings.broker("log.cleaner.enable").value:
        passes = ()
        why_none = "the cleaner runs the retention of compacted topics, and log.cleaner.enable is false"
    is_local_ms = is_tiered and topic.local_retention_ms != _SAME_AS_WHOLE
    is_local_bytes = is_tiered and topic.local_retention_bytes != _SAME_AS_WHOLE
    return RetentionRules(
        passes=passes,
        why_none=why_none,
        is_bounded=release >= Since.LOG_START_OFFSET,
        runner=runner if passes else "nobody",
        retention_ms=topic.local_retention_ms if is_local_ms else topic.retention_ms,
        time_setting="local.retention.ms" if is_local_ms else "retention.ms",
        retention_bytes=topic.local_retention_bytes if is_local_bytes else topic.retention_bytes,
        size_setting="local.retention.bytes" if is_local_bytes else "retention.bytes",
        is_tiered=is_tiered,
        start_needs_policy=release < Since.START_OFFSET_OF_COMPACTED,
    )


def _passes(policy: tuple[str, ...], release: Release, *, is_tiered: bool) -> tuple[tuple[PassName, ...], str | None]:
    if "delete" in policy or (not policy and is_tiered and release >= Since.TIERED_WITHOUT_POLICY):
        if release < Since.LOG_START_OFFSET:
            return ("time", "size"), None
        return (
            ("start-offset", "size", "time")
            if release >= Since.START_OFFSET_FIRST
            else ("time", "size", "start-offset")
        ), None
    if release >= Since.START_OFFSET_OF_COMPACTED:
        return ("start-offset",), None
    return (), f"cleanup.policy is {','.join(policy) or 'empty'}, and Kafka {release} deletes nothing from such a log"


def release_rules(topic: TopicSettings, release: Release) -> object:
    """Return everything about a release that matters for what is deleted of a topic.

    The order of the passes is left out: the next check makes up for it.
    """
    is_tiered = topic.remote_storage_enable and not topic.remote_log_copy_disable
    passes, _ = _passes(topic.cleanup_policy, release, is_tiered=is_tiered)
    return frozenset(passes), release >= Since.TIME_INDEX, is_tiered and release >= Since.TIERED


def check_settings(topic: TopicSettings, release: Release) -> None:
    """Raise SettingError for settings that contradict each other, as a broker refuses them."""
    policy = topic.cleanup_policy
    where = "" if topic.topic is None else f"topic {topic.topic}: "
    if len(policy) != 1 and release < Since.COMPACT_AND_DELETE:
        raise SettingError(f"{where}Kafka {release} takes one cleanup.policy, not {' and '.join(policy) or 'none'}")
    if release >= Since.MAX_COMPACTION_LAG and topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
        raise SettingError(
            f"{where}min.compaction.lag.ms={topic.min_compaction_lag_ms} is more than "
            f"max.compaction.lag.ms={topic.max_compaction_lag_ms}; Kafka refuses that"
        )
    if topic.remote_storage_enable:
        _check_tiered(topic, release, where)


def check_broker_keys(settings: Settings, topic: str | None) -> None:
    """Raise SettingError for a value that a topic may have, but that prevents a broker with it from starting."""
    for key, text, origin in settings.said("retention.ms", topic):
        if key != "retention.ms" and parse_int64(text.strip()) == 0:
            raise SettingError(f"{origin}: {key}=0: a broker takes -1 (no limit) or 1 and more; a topic takes 0 too")


def _check_tiered(topic: TopicSettings, release: Release, where: str) -> None:
    if release < Since.TIERED:
        raise SettingError(f"{where}Kafka {release} knows no remote.storage.enable; 3.6 and later do")
    if "compact" in topic.cleanup_policy:
        raise SettingError(f"{where}remote.storage.enable=true is not allowed with a cleanup.policy that compacts")
    for name, local, whole in (
        ("retention.ms", topic.local_retention_ms, topic.retention_ms),
        ("retention.bytes", topic.local_retention_bytes, topic.retention_bytes),
    ):
        if local != _SAME_AS_WHOLE and whole >= 0 and not 0 <= local <= whole:
            raise SettingError(f"{where}local.{name}={local} is more than {name}={whole}; Kafka refuses that")
        if topic.remote_log_copy_disable and local not in {_SAME_AS_WHOLE, whole}:
            raise SettingError(
                f"{where}local.{name}={local} is not {name}={whole}; Kafka refuses that with remote.log.copy.disable"
            )


Keeper = Literal["policy", "high-watermark", "empty-active", "remote"]


class RetainedLog(Struct, frozen=True, kw_only=True):
    """A log as retention sees it, between two checks.

    Args:
        segments: the oldest first, the active one last.
        start_offset: log start offset.
        high_watermark: nothing at or above it is deleted, where the release compares with it.
        end_offset: log end offset.
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


class RetentionStop(NamedTuple):
    """The segment at which a pass ends, and what keeps it there."""

    segment: SegmentView
    rule: str
    keeper: Keeper
    reason: str
    due_ms: int | None


class Checked(Struct, frozen=True, kw_only=True):
    """The result of one check.

    Args:
        deleted: in the order in which they are deleted.
        stops: of each pass that met a segment that it keeps.
        log: as it is afterwards.
        new_segment: the empty one that the broker creates first, because it deletes all others; None: none.
    """

    deleted: tuple[Deleted, ...]
    stops: tuple[RetentionStop, ...]
    log: RetainedLog
    new_segment: SegmentView | None


def log_of(view: PartitionView, start_offset: int | None = None) -> RetainedLog:
    """Return the log of a partition; `start_offset` replaces its own."""
    start = view.log_start_offset if start_offset is None else start_offset
    if view.is_tiered and view.segments:
        start = max(start, view.segments[0].base_offset)
    return RetainedLog(
        segments=view.segments,
        start_offset=start,
        high_watermark=max(view.high_watermark, start),
        end_offset=view.end_offset,
    )


def policy_of(name: str, rules: RetentionRules, log: RetainedLog, custom: Mapping[str, Policy]) -> Policy:
    """Return the policy of a rule, as it runs over a log."""
    if name == "time":
        return by_time(rules.retention_ms, rules.time_setting)
    if name == "size":
        return by_size(rules.retention_bytes, rules.size_setting)
    return by_start_offset(log.start_offset) if name == "start-offset" else custom[name]


def check(log: RetainedLog, rules: RetentionRules, now_ms: int, custom: Mapping[str, Policy]) -> Checked:
    """Check a log once.

    Args:
        log: as it is.
        rules: of its topic.
        now_ms: the time of the check.
        custom: further policies by their names.
    """
    deleted: list[Deleted] = []
    stops: list[RetentionStop] = []
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
            # UnifiedLog.deleteSegments rolls first where it would delete all segments
            new_segment = _new_segment(log, now_ms)
            rest = (new_segment,)
        log = replace(log, segments=rest, start_offset=max(log.start_offset, rest[0].base_offset))
    return Checked(deleted=tuple(deleted), stops=tuple(stops), log=log, new_segment=new_segment)


def judgements(policy: Policy, segments: Sequence[SegmentView], now_ms: int) -> Iterator[Judgement]:
    """Yield the answer of a policy for each segment; a plain bool becomes one without a reason."""
    for each in policy(segments, now_ms):
        yield each if isinstance(each, Judgement) else Judgement(bool(each))


def _run(
    log: RetainedLog, rules: RetentionRules, name: str, judged: Iterable[Judgement]
) -> tuple[list[Deleted], RetentionStop | None]:
    """Return what one pass deletes, and where it ends (`UnifiedLog.deletableSegments`)."""
    gone: list[Deleted] = []
    due_ms: int | None = 0
    for segment, judgement in zip(log.segments, judged, strict=False):
        due_ms = None if due_ms is None or judgement.due_ms is None else max(due_ms, judgement.due_ms)
        keeper, reason = _keeper(log, rules, segment, judgement)
        if keeper is not None:
            return gone, RetentionStop(segment, name, keeper, reason, due_ms if keeper == "policy" else None)
        gone.append(Deleted(segment, name, judgement.reason, due_ms))
    return gone, None


def _keeper(
    log: RetainedLog, rules: RetentionRules, segment: SegmentView, judgement: Judgement
) -> tuple[Keeper | None, str]:
    """Return what keeps a segment, and why; None: nothing does."""
    if not judgement.deletes:
        return "policy", judgement.reason
    # UnifiedLog.deletableSegments: upperBoundOffset must not be above the high watermark
    if rules.is_bounded and log.high_watermark < segment.next_offset:
        return "high-watermark", (
            f"it ends at offset {segment.next_offset}, above the high watermark {log.high_watermark}: its last records "
            "are not known to be on all replicas"
        )
    # UnifiedLog.deletableSegments keeps the last segment where it is empty
    if segment.is_active and not segment.size_bytes:
        return "empty-active", "the active segment is empty"
    if segment.is_active and segment.base_offset >= log.end_offset:  # UnifiedLog.roll refuses a segment that is there
        return "empty-active", "the active segment holds no whole batch, and the next one would have its name"
    # KIP-405: UnifiedLog.isSegmentEligibleForDeletion compares with the highest offset in remote storage
    if rules.is_tiered and (segment.is_active or segment.next_offset > log.start_offset):
        return (
            "remote",
            "the broker deletes it only after it is in remote storage, and this disk does not show whether it is",
        )
    return None, judgement.reason


def _new_segment(log: RetainedLog, now_ms: int) -> SegmentView:
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
