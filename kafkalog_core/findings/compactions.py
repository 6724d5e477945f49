"""Findings of the forecast of compaction, and of carrying it out."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["COMPACTIONS"]

COMPACTIONS: Final = {
    "compaction.clean-fails": FindingType(
        "warning",
        "A clean of this log stops here: {problem}.",
        "Stops cleaning the partition, and tries again only after a restart; it grows until then. Releases before 2.1 "
        "stop cleaning all partitions.",
        "Look at what stands there: kafkalog verify says whether it is damage, and what mends it.",
        "The cleaner reads every batch of the dirty part, and gives a partition up at the first one that it cannot "
        "take.",
    ),
    "compaction.replacement": FindingType(
        "error",
        "The replacement {name} waits to take the place of segments: this log is not cleaned beside it.",
        "Puts it in its place at its next start.",
        "Let a broker start on a copy of the directory first, or move the file away if it is not wanted.",
        "An interrupted compaction left a finished replacement, and a start would put it over what a clean has made.",
    ),
}
