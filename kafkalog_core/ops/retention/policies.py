"""Policies of retention: pure functions of a log's segments and the time.

A policy is called with the segments of a log, the oldest first and the active one last, and with the time in ms since
1970. It gives a `Judgement`, or a plain bool, for each of them in their order. Which of them are deleted in the end is
not its business: a broker takes them from the oldest on, and stops at the first one that a policy keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafkalog_core.ops.logdirs.segment_views import SegmentView
from kafkalog_core.words import duration, size

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Judgement", "Policy", "by_size", "by_start_offset", "by_time"]


class Judgement(NamedTuple):
    """What a policy says of one segment.

    Args:
        deletes: whether it may go.
        reason: why, a part of a sentence with the figures that were compared.
        due_ms: from when on it may go, where the time alone decides that; null: something else decides.
        is_limit: whether there was a limit to compare with, so that the reason says something where it stays.
    """

    deletes: bool
    reason: str = ""
    due_ms: int | None = None
    is_limit: bool = True


Policy: TypeAlias = Callable[[Sequence[SegmentView], int], Iterable[Judgement | bool]]


def by_time(retention_ms: int, name: str = "retention.ms") -> Policy:
    """Segments whose largest timestamp is more than `retention_ms` ago; where none has one, the file's time counts.

    Args:
        retention_ms: the limit; negative: none, and everything stays.
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
            yield Judgement(age_ms > retention_ms, reason, segment.largest_timestamp_ms + retention_ms + 1)

    return policy


def by_size(retention_bytes: int, name: str = "retention.bytes") -> Policy:
    """The oldest segments, as long as at least `retention_bytes` are left without them.

    Args:
        retention_bytes: the limit; negative: none, and everything stays.
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
            if without >= retention_bytes:
                left_bytes = without
                yield Judgement(True, f"{size(without)} stay without it, not below {limit}")
            else:
                yield Judgement(False, f"only {size(without)} would stay without it, below {limit}")

    return policy


def by_start_offset(start_offset: int) -> Policy:
    """Segments that lie below the log start offset as a whole; never the active one."""

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
