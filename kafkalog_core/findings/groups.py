"""Findings about the logs of groups: what cannot be read, and what does not decode."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import VERIFY, FindingType

__all__ = ["GROUPS"]

_AT_FILE: Final = "kafkalog verify {file}"

GROUPS: Final = {
    "groups.unread": FindingType(
        "error",
        "A part of this log cannot be read, so commits and members of groups may be missing: {problem}.",
        cure=(
            "Read another replica's copy as well: name its log directory too, and the better copy is used. "
            f"To see all damage: {VERIFY.partition(' {')[0]}."
        ),
        meaning=(
            "The state of the groups is that of all records that can be read. A damaged batch may hold later commits "
            "than those that are shown."
        ),
        next_step=_AT_FILE,
    ),
    "groups.undecoded": FindingType(
        "warning",
        "Records of groups that cannot be decoded do not count: {records}, {problem}.",
        cure=(
            "A later release of Kafka may have written them. To see the bytes: kafkalog dump --records --topic "
            "__consumer_offsets."
        ),
        meaning=(
            "A key has an unknown type, a value has an unknown version, or the fields do not add up. All other records "
            "are read."
        ),
    ),
}
