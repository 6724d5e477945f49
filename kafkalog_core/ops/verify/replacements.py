"""Finished replacements (.swap) against what they replace: a broker exchanges the two without looking into them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import FINDING_TYPES, found
from kafkalog_core.format.names import FileState, parse_file_name
from kafkalog_core.storage.segment import SegmentState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.storage.partition import Partition

__all__ = ["Replacements"]

_WORSE: Final = "segment.swap-worse"
_CALM: Final = frozenset({"segment.swap", "segment.swap-alone", "segment.swap-index-missing"})
"""What a listing says of a replacement without having looked into it."""
_IN_A_LOG: Final = frozenset({"log", "batch"})
"""Subjects of findings about what is in a log."""


class Replacements:
    """What is wrong with the replacements of a partition, beside what is wrong with their logs by themselves.

    Args:
        partition: its listing.
        segments: what was found in its live segments.
        is_whole: whether its log was never compacted, so that a replacement holds all that its originals hold.
    """

    def __init__(self, partition: Partition, segments: Sequence[SegmentVerdict], *, is_whole: bool) -> None:
        self._partition = partition
        self._segments = segments
        self._is_whole = is_whole
        self._removed_from = min(
            (other.base_offset for other in partition.other_segments if other.state is SegmentState.CLEANED),
            default=None,
        )
        self._worse: set[int] = set()

    def findings(self, swap: SegmentVerdict) -> tuple[Finding, ...]:
        """All findings about the log of one replacement that was read."""
        if self._removed_from is not None and swap.base_offset >= self._removed_from:
            return swap.findings  # a broker removes it: what it was made from is still there
        reason = self._reason(swap)
        if reason is None:
            return tuple(_in_swap(finding, is_worse=False) for finding in swap.findings)
        self._worse.add(swap.base_offset)
        topic, number = self._partition.topic, self._partition.partition
        severity: Severity | None = "warning" if not swap.size_bytes and not self._is_whole else None
        worse = found(
            _WORSE,
            swap.path,
            topic=topic,
            partition=number,
            offset=swap.base_offset,
            severity=severity,
            hides_records=False,
            why=reason,
        )
        return (worse, *(_in_swap(finding, is_worse=True) for finding in swap.findings))

    def mended(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Findings of the partition; none of them calls a replacement harmless that is worse than its originals."""
        cure = FINDING_TYPES[_WORSE].cure
        return tuple(replace(finding, cure=cure) if self._is_of_worse(finding) else finding for finding in findings)

    def _is_of_worse(self, finding: Finding) -> bool:
        if finding.code not in _CALM or finding.offset not in self._worse:
            return False
        return parse_file_name(finding.path.rpartition("/")[2]).state is FileState.SWAP

    def _reason(self, swap: SegmentVerdict) -> str | None:
        """Why the originals are better; null: they are not, or are gone."""
        if swap.is_unread or any(one.is_unread for one in self._segments):
            return None
        beyond = self._beyond(swap)
        if beyond is not None:
            return beyond
        originals = self._originals(swap)
        if not originals or originals[0].base_offset != swap.base_offset:
            return None
        if any(one.damage for one in originals) or not any(one.batches for one in originals):
            return None
        return self._less(swap, originals)

    def _less(self, swap: SegmentVerdict, originals: Sequence[SegmentVerdict]) -> str | None:
        """What a replacement does not have of whole originals."""
        records = sum(one.records for one in originals)
        if not swap.size_bytes:
            return f"it is empty, and what it replaces holds {_records_text(records)}"
        if swap.damage:
            return f"it is damaged at byte {swap.damage[0][0]:,}, and what it replaces is whole"
        last, last_replaced = swap.last_offset, originals[-1].last_offset
        is_cut = last is not None and last_replaced is not None and last < last_replaced
        is_cut = is_cut and not self._is_split(swap)
        if is_cut and self._is_whole and not swap.is_thinned and not swap.gap_count:
            return f"it ends with offset {last}, what it replaces with {last_replaced}, and the log was never compacted"
        return None

    def _is_split(self, swap: SegmentVerdict) -> bool:
        """Whether others may hold the rest of a segment that was split."""
        others = (other for other in self._partition.other_segments if other.state is SegmentState.SWAP)
        return any(other.base_offset > swap.base_offset for other in others)

    def _beyond(self, swap: SegmentVerdict) -> str | None:
        """Offsets behind the end of the log: a replacement is made of what was there."""
        active = self._segments[-1] if self._segments else None
        if active is None or active.damage or swap.last_offset is None or swap.last_offset < active.base_offset:
            return None
        end = active.base_offset - 1 if active.last_offset is None else active.last_offset
        if swap.last_offset <= end or swap.base_offset > end:
            return None
        count = len(self._originals(swap))
        goes = "the active segment goes" if count <= 1 else f"{count:,} segments go"
        return f"it reaches to offset {swap.last_offset}, the log only to {end}: {goes} with it"

    def _originals(self, swap: SegmentVerdict) -> list[SegmentVerdict]:
        """The live segments that go when the replacement comes."""
        last = swap.base_offset if swap.last_offset is None else max(swap.base_offset, swap.last_offset)
        return [one for one in self._segments if swap.base_offset <= one.base_offset <= last]


def _in_swap(finding: Finding, *, is_worse: bool) -> Finding:
    """What is damaged in a replacement: nobody appends to it, and no recovery cuts it before it is in its place."""
    if finding.severity != "error" or finding.code.partition(".")[0] not in _IN_A_LOG:
        return finding
    cure = FINDING_TYPES[_WORSE if is_worse else "batch.crc-mismatch"].cure
    return replace(finding, broker_action=FINDING_TYPES[_WORSE].broker_action, cure=cure)


def _records_text(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"
