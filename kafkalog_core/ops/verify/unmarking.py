"""What a start without the clean shutdown file would truncate: it applies to all partitions of a log directory.

A cure that deletes the file describes what that would do to the others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.findings.kinds import CLEAN_MARK, DENIED, MARK_OF_ALL
from kafkalog_core.findings.logs import DAMAGE_REASONS
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.ops.verify.broker_action import damage_places
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.ops.verify.broker_action import Starts
    from kafkalog_core.ops.verify.verdict import PlaceVerdict

__all__ = ["NOT_READ", "Unmarking", "is_unmarking"]

_RECOVERED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
NOT_READ: Final = frozenset(
    {DENIED, "file.not-readable", "object.replaced", "dir.unreadable", "log.unreadable", "batch.over-limit"}
)
"""Findings about what was not read: nothing may be concluded from the rest."""
_FAILS: Final = frozenset(
    {"record.control-key", "record.control-value", "record.control-type", "txn.plain-inside", "txn.marker-unreadable"}
)
"""Findings at which the replay of a recovered segment fails, or truncates the rest."""
_SAFE: Final = "Verified: without that file the next start would truncate nothing else in this log directory."

_ALONE: Final = "One plan repairs all of them: kafkalog recover."


class _TruncationPlace(NamedTuple):
    """The first place of a partition at which recovery would truncate its log."""

    partition: str
    place: str


class Unmarking:
    """What recovery would truncate in a log directory that has a clean shutdown file.

    Args:
        has_checksums: whether batches were read, so that wrong checksums were found.
    """

    def __init__(self, *, has_checksums: bool) -> None:
        self._is_known = has_checksums
        self._count = 0
        self._cuts: list[_TruncationPlace] = []

    def add(self, verdict: PartitionVerdict | PlaceVerdict, name: DirectoryName, starts: Starts) -> None:
        """Add a partition that has been checked."""
        if name.state not in _RECOVERED or name.topic == METADATA_TOPIC:  # the metadata log is recovered in any case
            return
        self._count += 1
        if not isinstance(verdict, PartitionVerdict) or any(one.code in NOT_READ for one in verdict.findings):
            self._is_known = False
        if isinstance(verdict, PartitionVerdict):
            cut = _first_cut(verdict, starts)
            if cut is not None:
                self._cuts.append(_TruncationPlace(os.path.basename(verdict.path), cut))

    def with_warnings(self, findings: Sequence[Finding], *, is_whole: bool) -> tuple[Finding, ...]:
        """Return findings; a cure that deletes the file describes what that would do.

        Args:
            findings: of a partition or of the log directory.
            is_whole: whether all partitions of the log directory were added.
        """
        if not any(map(is_unmarking, findings)):
            return tuple(findings)
        is_known = is_whole and self._is_known
        return tuple(
            self._with_warning(finding, is_known=is_known) if is_unmarking(finding) else finding for finding in findings
        )

    def _with_warning(self, finding: Finding, *, is_known: bool) -> Finding:
        if not self._cuts:
            return replace(finding, cure=(finding.cure or "").replace(MARK_OF_ALL, _SAFE)) if is_known else finding
        cure = self._warning(is_known=is_known)
        return replace(finding, cure=f"{cure} {_ALONE}" if finding.code.startswith("log.") else cure)

    def _warning(self, *, is_known: bool) -> str:
        first, count = self._cuts[0], len(self._cuts)
        of_all = f"{count:,} of {self._count:,}" if is_known else f"at least {count:,}"
        partitions = "partition" if (self._count if is_known else count) == 1 else "partitions"
        return (
            f"Start no broker on it yet, and do not delete {CLEAN_MARK}, although that might repair this: the file "
            "applies to the whole log directory, and without it the next start would truncate damaged batches, and "
            f"all records after them, in {of_all} {partitions}, the first {first.partition} at {first.place}. Copy the "
            "log directory away, repair the damage there, and verify it again."
        )


def is_unmarking(finding: Finding) -> bool:
    """Return whether the cure of a finding is to delete the clean shutdown file."""
    return finding.cure is not None and CLEAN_MARK in finding.cure


def _first_cut(verdict: PartitionVerdict, starts: Starts) -> str | None:
    """Return the first place at which recovery would truncate a log before whole batches, or fail; None: there is none.

    A partition without damage is not read again: nothing is truncated there.
    """
    if not any(finding.code in DAMAGE_REASONS or finding.code in _FAILS for finding in verdict.findings):
        return None
    places: list[tuple[int, int, str]] = []
    for _, place in damage_places(verdict):
        action = None if place is None else starts.after_crash(place, verdict.log_end_offset)
        if place is not None and action is not None and action.lost_bytes and action.kind.severity != "info":
            places.append(
                (place.base_offset, place.position, f"byte {place.position:,} of {os.path.basename(place.path)}")
            )
    if places:
        return min(places)[2]
    failure = starts.failure_after_crash
    if failure is None:
        return None
    path, position = failure
    return os.path.basename(path) if position is None else f"byte {position:,} of {os.path.basename(path)}"
