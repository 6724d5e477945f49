"""Findings about the contents of indexes, checkpoints and property files."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["SMALL_FILES"]

_REFUSED: Final = "A broker refuses the file: {problem}."
SMALL_FILES: Final = {
    "index.zero-tail": FindingType(
        "info",
        "The index ends with {size_bytes} bytes of zeros: the room made for entries to come.",
        "Cuts it when it recovers or closes the segment; after a clean stop it takes the zeros for entries.",
    ),
    "txnindex.zero-tail": FindingType(
        "warning",
        "The transaction index ends with {size_bytes} bytes of zeros, which no broker writes.",
        "Takes them for aborted transactions of producer 0.",
    ),
    "txnindex.bad-version": FindingType(
        "error", "An entry of the transaction index has version {version}; only 0 exists.", "Does not start."
    ),
    "clean-shutdown.malformed": FindingType(
        "info",
        "The mark of a clean stop does not hold JSON: {problem}.",
        "Takes the stop for clean all the same; it does not know the broker epoch of that time.",
    ),
    "file.unfinished": FindingType(
        "info", "A temporary file that was not finished: {problem}.", "Overwrites it when it next writes the file."
    ),
    "checkpoint.count-mismatch": FindingType("error", _REFUSED),
    "checkpoint.invalid-utf8": FindingType("error", _REFUSED),
    "checkpoint.malformed-line": FindingType("error", _REFUSED),
    "checkpoint.negative-count": FindingType("error", _REFUSED),
    "checkpoint.negative-epoch": FindingType("error", _REFUSED),
    "checkpoint.unsupported-version": FindingType("error", _REFUSED),
    "meta.bad-directory-id": FindingType("error", _REFUSED),
    "meta.bad-node-id": FindingType("error", _REFUSED),
    "meta.malformed-line": FindingType("error", _REFUSED),
    "meta.missing-key": FindingType("error", _REFUSED),
    "meta.unsupported-version": FindingType("error", _REFUSED),
    "partition-metadata.bad-topic-id": FindingType("error", _REFUSED),
    "partition-metadata.malformed-line": FindingType("error", _REFUSED),
    "partition-metadata.too-short": FindingType("error", _REFUSED),
    "partition-metadata.zero-topic-id": FindingType("error", _REFUSED),
    "quorum-state.bad-value": FindingType("error", _REFUSED),
    "quorum-state.empty": FindingType("error", _REFUSED),
    "quorum-state.malformed-line": FindingType("error", _REFUSED),
    "quorum-state.missing-key": FindingType("error", _REFUSED),
    "quorum-state.unsupported-version": FindingType("error", _REFUSED),
}
