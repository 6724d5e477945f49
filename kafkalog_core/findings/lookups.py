"""Findings of a search for an offset or a time: what an index says that the log does not."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["LOOKUPS"]

_LOOK: Final = "Run kafkalog verify on the partition: it names every entry that is wrong, and how to have it mended."

LOOKUPS: Final = {
    "lookup.index-not-used": FindingType(
        "warning",
        "An index was not used as it stands, the log was read instead: {problem}.",
        "Uses it as it is, unless it recovers the segment at its start, which builds the index anew.",
        _LOOK,
        "An index only says where to start reading. What it says is compared with the log, and where the two differ "
        "earlier entries are tried, then the segment is read from its start: slower, and right. Time entries that the "
        "log cleaner wrote may differ and do no harm.",
    ),
    "lookup.broker-differs": FindingType(
        "warning",
        "A broker of {release} answers otherwise: {answer}.",
        "Answers so; where an index is the reason, as long as it does not build it anew.",
        _LOOK + " What has another reason stays so: a search by time looks into one segment alone.",
        "A broker looks for a time only in the first segment whose time index (without entries: whose modification "
        "time) claims to reach it, and trusts its indexes. The log itself says something else.",
    ),
}
