"""What a start without the mark of a clean stop would cut: the mark is that of a whole log directory.

Some damage of one partition is mended by recovery, and recovery is had by deleting `.kafka_cleanshutdown`. But then
every partition of the directory is recovered, and what is damaged elsewhere is cut off with all that stands behind it.
So what such a cure says depends on all partitions: it is settled here, when they are known.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.findings.kinds import CLEAN_MARK, DENIED, MARK_OF_ALL
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.ops.verify.damage_places import damage_places
from kafkalog_core.ops.verify.disposition import SegmentExtent, disposition, is_recovered
from kafkalog_core.ops.verify.verdict import PartitionVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.ops.logdirs.context import PartitionContext
    from kafkalog_core.ops.verify.verdict import PlaceVerdict

__all__ = ["Unmarking", "is_unmarking"]

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
